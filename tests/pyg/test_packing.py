"""PyG's loaders, ours and stock, over rows that were packed in the order of their batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler
from torch_geometric.loader import NodeLoader

from aethergraph import FeatureTable, Graph, errors, pyg
from aethergraph.packing import PackedFeatures, pack
from aethergraph.pyg import GraphStore, LookAhead, NeighborLoader, NeighborSampler

NODES = 3000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    rng = np.random.default_rng(0)
    Graph.from_edges(NODES, *rng.integers(0, NODES, (2, 20_000))).save(folder / "graph.aeg")
    np.save(folder / "x.npy", rng.normal(size=(NODES, 30)).astype(np.float32))
    return folder


def open_graph(folder: Path, storage: Any = "mmap") -> Graph:
    budget: dict[str, Any] = {"memory_budget": "24M"} if storage == "uring" else {}
    return Graph.load(folder / "graph.aeg", storage=storage, **budget)


def pack_batches(folder: Path, loader: Any) -> PackedFeatures:
    """The rows of the nodes of one epoch."""
    store = FeatureTable.load(folder / "x.npy", "uring", memory_budget="1M")
    lists = (batch.n_id.numpy() for batch in loader)
    pack(lists, store, folder / "epoch", hot_budget="40K", memory_budget="1M")
    return PackedFeatures.load(folder / "epoch")


@pytest.mark.parametrize(("storage", "workers"), [("mmap", 2), ("uring", 0)])
def test_our_loader(folder: Path, storage: str, workers: int) -> None:
    def loader(graph: Graph, **options: Any) -> NeighborLoader:
        torch.manual_seed(1)
        return NeighborLoader(graph, [6, 4], batch_size=256, shuffle=True, seed=5, **options)

    packed = pack_batches(folder, loader(open_graph(folder)))
    graph = open_graph(folder, storage)
    graph.node_attrs["x"] = packed
    rows = torch.from_numpy(np.load(folder / "x.npy"))
    again = loader(graph, num_workers=workers)
    served = [torch.equal(batch.x, rows[batch.n_id]) for batch in again]
    assert served == [True] * 12
    assert packed.num_batches == 12
    if not workers:
        assert packed.stats().batches == 12
    with pytest.raises(errors.InvalidArgumentError, match="none of the 12 packed batches"):
        next(iter(again))  # the next epoch


def test_stock_loaders(folder: Path) -> None:
    def loader(graph: Graph) -> NodeLoader:
        nodes = torch.arange(NODES)
        order = RandomSampler(nodes, generator=torch.Generator().manual_seed(3))
        stores = pyg.FeatureStore.from_graph(graph), GraphStore(graph)
        sampler = NeighborSampler(stores, [6, 4], seed=3)
        batches = BatchSampler(order, batch_size=200, drop_last=False)
        ahead = LookAhead(sampler, nodes, batches)
        return NodeLoader(stores, sampler, nodes, batch_sampler=ahead)

    packed = pack_batches(folder, loader(open_graph(folder)))
    graph = open_graph(folder, "uring")
    graph.node_attrs["x"] = packed
    rows = torch.from_numpy(np.load(folder / "x.npy"))
    for batch in loader(graph):
        assert torch.equal(batch.x, rows[batch.n_id])
    assert packed.stats().batches == packed.num_batches == 15
