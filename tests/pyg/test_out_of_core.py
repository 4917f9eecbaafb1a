"""Loaders over graphs whose lists stay in their file: the batches are those of a mapped graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.loader import LinkLoader, NodeLoader

import aethergraph as ag
from aethergraph import pyg
from aethergraph.loading import SubgraphLoader

NUM_NODES = 2000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    graph = ag.Graph.from_edges(
        NUM_NODES, rng.integers(0, NUM_NODES, 30_000), rng.integers(0, NUM_NODES, 30_000),
        edge_time=rng.integers(0, 100, 30_000),
        edge_weight=rng.integers(1, 5, 30_000).astype(np.float32), layout="both",
    )  # fmt: skip
    graph.features = rng.standard_normal((NUM_NODES, 4)).astype(np.float32)
    graph.node_attrs["y"] = np.arange(NUM_NODES)
    path = tmp_path_factory.mktemp("pyg") / "graph.aeg"
    graph.save(path)
    return path


@pytest.fixture(scope="module")
def typed_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    graph = ag.HeteroGraph.from_edges(
        {
            ("user", "votes", "post"): (rng.integers(0, 300, 4000), rng.integers(0, 500, 4000)),
            ("post", "cites", "post"): (rng.integers(0, 500, 4000), rng.integers(0, 500, 4000)),
        },
        num_nodes={"user": 300, "post": 500},
        add_reverse=True,
    )
    graph["user"].attrs["x"] = rng.standard_normal((300, 3)).astype(np.float32)
    graph["post"].attrs["x"] = rng.standard_normal((500, 2)).astype(np.float32)
    path = tmp_path_factory.mktemp("pyg") / "typed.aeg"
    graph.save(path)
    return path


def load(path: Path, storage: Any) -> ag.Graph:
    budget = "24M" if storage == "uring" else None
    return ag.Graph.load(path, storage=storage, memory_budget=budget)


def same(one: Any, two: Any) -> bool:
    """Whether two batches hold the same stores and tensors."""
    found, wanted = one.to_dict(), two.to_dict()
    return bool(_same(found, wanted))


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, dict):
        return set(one) == set(two) and all(_same(one[key], two[key]) for key in one)
    return torch.equal(one, two) if isinstance(one, torch.Tensor) else bool(one == two)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"shuffle": True},
    {"replace": True, "disjoint": True},
    {"weight_attr": "edge_weight"},
    {"subgraph_type": "induced"},
    {"subgraph_type": "bidirectional"},
    {"sample_direction": "backward"},
    {"sample_direction": "both"},
    {"prefetch_batches": 0},
    {"num_workers": 1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_our_loader_makes_the_same_batches(path: Path, options: dict[str, Any]) -> None:
    batches = []
    for storage in ("uring", "mmap"):
        loader = pyg.NeighborLoader(
            load(path, storage), [4, 3], torch.arange(0, NUM_NODES, 3), batch_size=64, seed=3,
            **options,
        )  # fmt: skip
        torch.manual_seed(1)
        batches.append([*loader, *loader])  # two epochs: groups have learnt their size
    assert len(batches[0]) == len(batches[1]) == 22
    assert all(map(same, *batches))


@pytest.mark.parametrize("negatives", [None, "binary", "triplet"])
def test_our_link_loader_makes_the_same_batches(path: Path, negatives: Any) -> None:
    batches = []
    for storage in ("uring", "mmap"):
        graph = load(path, storage)
        loader = pyg.LinkNeighborLoader(
            graph, [4, 3], torch.stack([torch.arange(200), torch.arange(200, 400)]),
            batch_size=32, neg_sampling=negatives, exclude="self", seed=2,
        )  # fmt: skip
        batches.append(list(loader))
    assert len(batches[0]) == 7
    assert all(map(same, *batches))


def test_batches_in_time(path: Path) -> None:
    batches = []
    for storage in ("uring", "mmap"):
        loader = pyg.NeighborLoader(
            load(path, storage), [4, 3], torch.arange(500), batch_size=50, seed=3,
            time_attr="edge_time", input_time=torch.full((500,), 40),
        )  # fmt: skip
        batches.append(list(loader))
    assert all(map(same, *batches))
    assert sum(batch.num_edges for batch in batches[0]) > 0


def test_typed_loaders_make_the_same_batches(typed_path: Path) -> None:
    batches = []
    for storage in ("uring", "mmap"):
        graph = ag.HeteroGraph.load(
            typed_path, storage=storage, memory_budget="24M" if storage == "uring" else None
        )  # type: ignore[arg-type]
        loader = pyg.HeteroNeighborLoader(
            graph, [4, 3], ("post", torch.arange(400)), batch_size=64, seed=1
        )
        batches.append(list(loader))
    assert len(batches[0]) == 7
    assert all(map(same, *batches))


def test_stock_loaders_make_the_same_batches(path: Path) -> None:
    nodes, links = [], []
    for storage in ("uring", "mmap"):
        graph = load(path, storage)
        stores = pyg.FeatureStore.from_graph(graph), pyg.GraphStore(graph)
        sampler = pyg.NeighborSampler(stores, [4, 3], seed=5)
        nodes.append(list(NodeLoader(stores, sampler, torch.arange(200), batch_size=50)))
        pairs = (None, torch.stack([torch.arange(100), torch.arange(100, 200)]))
        links.append(list(LinkLoader(stores, sampler, pairs, batch_size=50)))
    assert all(map(same, *nodes))
    assert all(map(same, *links))


def test_a_loader_that_is_left_half_way_can_begin_again(path: Path) -> None:
    loader = pyg.NeighborLoader(
        load(path, "uring"), [4, 3], torch.arange(640), batch_size=64, seed=3
    )
    iterator = iter(loader)
    assert [next(iterator).batch_size for _ in range(3)] == [64, 64, 64]
    del iterator
    assert len(list(loader)) == 10


def test_a_seed_that_is_no_node_is_named(path: Path) -> None:
    with pytest.raises(IndexError, match="2000"):
        list(pyg.NeighborLoader(load(path, "uring"), [4], torch.tensor([1, NUM_NODES])))


def test_the_loader_without_a_framework(path: Path) -> None:
    batches = []
    for storage in ("uring", "mmap"):
        loader = SubgraphLoader(
            load(path, storage), [4, 3], np.arange(1000), batch_size=64, shuffle=True, seed=4
        )
        batches.append([*loader, *loader])
    assert len(batches[0]) == 32
    for found, wanted in zip(*batches, strict=True):
        np.testing.assert_array_equal(found.subgraph.node, wanted.subgraph.node)
        np.testing.assert_array_equal(found.edge_index, wanted.edge_index)
        np.testing.assert_array_equal(found.index, wanted.index)
        np.testing.assert_array_equal(found.x, wanted.x)
        np.testing.assert_array_equal(found.y, found.subgraph.node)
