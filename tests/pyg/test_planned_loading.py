"""Our PyG loaders with a plan: the same batches, more of their rows found in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import assert_same_batches
from torch.utils.data import BatchSampler, SequentialSampler
from torch_geometric.loader import NodeLoader

from aethergraph import FeatureTable, Graph, HeteroGraph, errors, pyg
from aethergraph.loading import Ahead
from aethergraph.pyg import (
    GraphStore,
    LinkNeighborLoader,
    LookAhead,
    NeighborLoader,
    NeighborSampler,
)

NODES = 3000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planned")
    rng = np.random.default_rng(0)
    src = (NODES * rng.random(20_000) ** 2).astype(np.int64)
    Graph.from_edges(NODES, src, rng.integers(0, NODES, 20_000)).save(folder / "graph.aeg")
    np.save(folder / "x.npy", rng.normal(size=(NODES, 128)).astype(np.float32))
    np.save(folder / "w.npy", rng.normal(size=(20_000, 3)).astype(np.float32))
    return folder


def open_graph(folder: Path, storage: Any) -> Graph:
    budget: dict[str, Any] = {"memory_budget": "24M"} if storage == "uring" else {}
    graph = Graph.load(folder / "graph.aeg", storage=storage, **budget)
    graph.node_attrs["x"] = FeatureTable.load(folder / "x.npy", "uring", memory_budget=550_000)
    graph.edge_attrs["w"] = FeatureTable.load(folder / "w.npy", "uring", memory_budget=550_000)
    graph.node_attrs["y"] = np.arange(NODES)
    return graph


@pytest.mark.parametrize(
    ("kind", "storage"),
    [
        (NeighborLoader, "uring"),
        pytest.param(LinkNeighborLoader, "memory", marks=pytest.mark.slow),
    ],
)
def test_batches_are_the_same(folder: Path, storage: str, kind: Any) -> None:
    hits = []
    found = []
    for ahead in (0, 12):
        graph = open_graph(folder, storage)
        loader = kind(graph, [6, 4], batch_size=256, shuffle=True, seed=5, ahead=Ahead(plan=ahead))
        torch.manual_seed(1)
        found.append([*loader, *loader])
        hits.append(graph.node_attrs["x"].stats().hit_rate)
    assert_same_batches(*found)
    assert hits[1] > 1.1 * hits[0]


def test_typed_batches_are_the_same(folder: Path) -> None:
    rng = np.random.default_rng(1)
    edges = {
        ("a", "to", "b"): (rng.integers(0, 800, 4000), rng.integers(0, 500, 4000)),
        ("b", "of", "a"): (rng.integers(0, 500, 4000), rng.integers(0, 800, 4000)),
    }
    hits, found = [], []
    for ahead in (0, 9):
        graph = HeteroGraph.from_edges(edges, num_nodes={"a": 800, "b": 500})
        for name, count in (("a", 800), ("b", 500)):
            path = folder / f"{name}.npy"
            rows = np.random.default_rng(count).normal(size=(count, 256)).astype(np.float32)
            np.save(path, rows)
            graph[name].attrs["x"] = FeatureTable.load(path, "uring", memory_budget=400_000)
        loader = NeighborLoader(graph, [5, 3], "a", batch_size=50, seed=2, ahead=Ahead(plan=ahead))
        found.append(list(loader))
        hits.append(graph["b"].attrs["x"].stats().hits)
    assert_same_batches(*found)
    assert hits[1] > hits[0]


@pytest.mark.parametrize(("storage", "ahead"), [("memory", 1), ("uring", 40)])
def test_stock_loaders_with_look_ahead(folder: Path, storage: str, ahead: int) -> None:
    hits, found = [], []
    nodes = torch.from_numpy(np.random.default_rng(4).permutation(NODES))
    for planned in (0, ahead):
        graph = open_graph(folder, storage)
        features = pyg.FeatureStore.from_graph(graph)
        stores = features, GraphStore(graph)
        sampler = NeighborSampler(stores, [6, 4], seed=3)
        batches = BatchSampler(SequentialSampler(nodes), batch_size=150, drop_last=False)
        ahead_of = LookAhead(sampler, nodes, batches, plan=planned, features=features)
        found.append(list(NodeLoader(stores, sampler, nodes, batch_sampler=ahead_of)))
        hits.append(graph.node_attrs["x"].stats().hit_rate)
    assert_same_batches(*found)
    if ahead == 40:
        assert hits[1] > 1.1 * hits[0]


@pytest.mark.parametrize("ahead", [1, 5])
def test_worker_processes_get_every_batch(folder: Path, ahead: int) -> None:
    """They sample, so that what was begun here for the next batches is in vain."""
    graph, nodes = open_graph(folder, "memory"), torch.arange(NODES)
    features = pyg.FeatureStore.from_graph(graph)
    sampler = NeighborSampler((features, GraphStore(graph)), [3], seed=3)
    batches = BatchSampler(SequentialSampler(nodes), batch_size=100, drop_last=False)
    look = LookAhead(sampler, nodes, batches, plan=ahead, features=features)
    loader = NodeLoader(
        (features, GraphStore(graph)), sampler, nodes, batch_sampler=look, num_workers=2
    )
    assert torch.equal(torch.cat([batch.input_id for batch in loader]), nodes)


def test_groups_that_nobody_asks_for_are_handed_out(folder: Path) -> None:
    path = folder / "groups.aeg"
    open_graph(folder, "memory").save(path)
    graph = Graph.load(path, storage="uring", memory_budget="19M")
    sampler = NeighborSampler((pyg.FeatureStore.from_graph(graph), GraphStore(graph)), [40, 40])
    batches = list(
        BatchSampler(SequentialSampler(range(NODES)), batch_size=NODES // 8, drop_last=False)
    )
    assert sampler.groups is not None
    assert sampler.groups.size(NODES // 8, shares=2) < len(batches) // 3
    assert list(LookAhead(sampler, torch.arange(NODES), batches)) == batches


def test_look_ahead_is_for_nodes(folder: Path) -> None:
    graph = open_graph(folder, "memory")
    sampler = NeighborSampler((pyg.FeatureStore.from_graph(graph), GraphStore(graph)), [3])
    with pytest.raises(errors.UnsupportedError, match="LinkNeighborLoader"):
        LookAhead(sampler, torch.zeros(2, 5, dtype=torch.long), [[0]])


def test_look_ahead_checks_what_it_plans_for(folder: Path) -> None:
    graph = open_graph(folder, "memory")
    sampler = NeighborSampler((pyg.FeatureStore.from_graph(graph), GraphStore(graph)), [3])
    with pytest.raises(errors.InvalidArgumentError, match="plan needs features"):
        LookAhead(sampler, torch.arange(5), [[0]], plan=3)
