"""Rows that are read when they are gathered, through PyG's loader and ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.loader import NeighborLoader as StockLoader

from aethergraph import FeatureTable, Graph, errors
from aethergraph.loading import Ahead
from aethergraph.pyg import FeatureStore, GraphStore, NeighborLoader, NeighborSampler

NUM_NODES = 3000


@pytest.fixture
def graphs(tmp_path: Path) -> tuple[Graph, Graph]:
    """The same graph twice: features read within a budget, and mapped."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, NUM_NODES, (2, 30000))
    path, bits = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(path, rng.normal(size=(NUM_NODES, 64)).astype(np.float32))
    np.save(bits, rng.integers(0, 7, NUM_NODES))
    both = []
    for options in ({"storage": "uring", "memory_budget": "1M", "hot": "degree"}, {}):
        graph = Graph.from_edges(NUM_NODES, *edges)
        graph.load_features(path, **options)  # type: ignore[arg-type]
        graph.load_features(bits, "y", **options)  # type: ignore[arg-type]
        both.append(graph)
    return both[0], both[1]


def batches(loader_class: Any, graph: Graph, **options: Any) -> list[Any]:
    if loader_class is NeighborLoader:
        loader = NeighborLoader(graph, [5, 3], batch_size=200, seed=1, **options)
    else:
        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        sampler = NeighborSampler(stores, [5, 3], seed=1)
        loader = StockLoader(
            stores, [5, 3], neighbor_sampler=sampler, batch_size=200,
            input_nodes=torch.arange(NUM_NODES), **options,
        )  # fmt: skip
    return list(loader)


@pytest.mark.parametrize(("loader_class", "num_workers"), [(NeighborLoader, 0), (StockLoader, 2)])
def test_batches_are_those_of_mapped_features(
    graphs: tuple[Graph, Graph], loader_class: Any, num_workers: int
) -> None:
    read, mapped = (batches(loader_class, graph, num_workers=num_workers) for graph in graphs)
    assert len(read) == len(mapped) == 15
    for one, other in zip(read, mapped, strict=True):
        assert torch.equal(one.n_id, other.n_id)
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.y, other.y)
    if num_workers == 0:
        stats = graphs[0].node_attrs["x"].stats()
        assert stats.rows == sum(len(batch.n_id) for batch in read)
        assert stats.hits > 0


def test_tensors_of_the_store(graphs: tuple[Graph, Graph]) -> None:
    read, mapped = (FeatureStore.from_graph(graph) for graph in graphs)
    for index in (None, slice(5, 90, 4), torch.tensor([3, 3, 2999]), 7):
        found = read.get_tensor(group_name=None, attr_name="x", index=index)
        expected = mapped.get_tensor(group_name=None, attr_name="x", index=index)
        assert torch.equal(found, expected)
    with pytest.raises(errors.UnsupportedError, match="to_memory"):
        graphs[0].node_attrs["x"].tensor()


@pytest.mark.parametrize("storage", ["uring", "mmap", "memory"])
@pytest.mark.parametrize("loader_class", [NeighborLoader, StockLoader])
def test_halves_come_as_the_model_wants_them(
    tmp_path: Path, storage: Any, loader_class: Any
) -> None:
    """A float32 model over bfloat16 rows: converted on the way, and only if that was asked for."""
    values = torch.randn(NUM_NODES, 32).bfloat16()
    FeatureTable.from_array(values).save(tmp_path / "x.bin")  # type: ignore[arg-type]
    edges = np.random.default_rng(0).integers(0, NUM_NODES, (2, 9000))
    graph = Graph.from_edges(NUM_NODES, *edges)
    budget = "1M" if storage == "uring" else None
    for dtype in ("float32", None):
        graph.load_features(tmp_path / "x.bin", storage=storage, memory_budget=budget, dtype=dtype)
        wanted = values if dtype is None else values.float()
        layer = torch.nn.Linear(32, 2, dtype=wanted.dtype)
        for batch in batches(loader_class, graph)[:3]:
            assert torch.equal(batch.x, wanted[batch.n_id])
            layer(batch.x)
        ahead = batches(NeighborLoader, graph, ahead=Ahead(plan=4))
        assert torch.equal(ahead[-1].x, wanted[ahead[-1].n_id])
        assert torch.equal(FeatureStore.from_graph(graph)[None, "x", None], wanted)
