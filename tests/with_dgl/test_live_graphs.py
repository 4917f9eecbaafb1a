"""DGL's loaders, ours and GraphBolt over live graphs; tests/equality has blocks of them at rest."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import dgl
import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
from dgl.dataloading import DataLoader as StockLoader
from support.live import (
    Form,
    Writer,
    insert,
    live_with_rows,
    make_live,
    random_edges,
    snapshot_with_rows,
)

from aethergraph import DynamicGraph
from aethergraph._parallel.threads import ThreadPool
from aethergraph.dgl import (
    DataLoader,
    GraphStorage,
    NeighborSampler,
    ShaDowKHopSampler,
    as_edge_prediction_sampler,
)
from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph
from aethergraph.dgl.testing import FeatureStorageContract, GraphStorageContract
from aethergraph.errors import UnsupportedError
from aethergraph.loading import Order

NODES = 40


class TestLoadingALiveGraph(GraphStorageContract):
    supports = {"edge_ids"}
    test_a_model_learns_from_every_loader = None  # type: ignore[assignment]  # as from any graph

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return live_with_rows(num_nodes, src, dst)


class TestLoadingASnapshot(GraphStorageContract):
    supports = {"edge_ids"}
    test_a_model_learns_from_every_loader = None  # type: ignore[assignment]  # as from any graph

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return snapshot_with_rows(num_nodes, src, dst)


class TestLiveRows(FeatureStorageContract):
    dtypes = ("float32", "int64")

    def make(self, rows: Any, dtype: str) -> Any:
        graph = DynamicGraph(len(rows), 1)
        graph.features = np.zeros_like(rows)
        graph.update_nodes(np.arange(len(rows)), x=rows)
        return graph.features


def test_the_loader_has_no_commit_for_an_epoch() -> None:
    graph, sampler = live_with_rows(4, np.array([0, 1]), np.array([1, 2])), NeighborSampler([2])
    with pytest.raises(UnsupportedError, match=r"make one for each epoch, over GraphStorage\("):
        DataLoader(GraphStorage(graph), torch.arange(2), sampler, order=Order(snapshot="epoch"))


# ---- equal to static copies ----------------------------------------------------------------------


def filled(form: Form) -> DynamicGraph:
    """Return a live graph with rows, whose edge ids have gaps."""
    graph = make_live(form, NODES)
    graph.features = np.random.default_rng(1).random((NODES, 3)).astype(np.float32)
    for part in range(2):
        edges = random_edges(NODES, 400, part)
        insert(graph, form, edges)
        graph.delete_edges([e.src for e in edges[::9]], [e.dst for e in edges[::9]])
    graph.update_nodes([3, 4], x=np.ones((2, 3)))
    return graph


@pytest.mark.parametrize("exclude", ["self", "reverse_id"])
def test_edges_that_are_to_be_predicted(exclude: str) -> None:
    graph = DynamicGraph(NODES, 8, order="time")
    half = random_edges(NODES, 300, 1)
    src, dst = [edge.src for edge in half], [edge.dst for edge in half]
    graph.insert_edges(dst[:9], src[:9])  # ids that will be missing
    graph.delete_edges(dst[:9], src[:9])
    first = graph.insert_edges(src, dst)
    second = graph.insert_edges(dst, src)
    back = np.zeros(609, np.int64)
    back[first], back[second] = second, first

    def batches(one: Any, shift: int) -> list[Any]:
        own = torch.from_numpy(back[shift:] - shift)
        more = {"reverse_eids": own} if exclude == "reverse_id" else {}
        sampler = as_edge_prediction_sampler(NeighborSampler([-1], seed=3), exclude=exclude, **more)
        found, edges = [], torch.from_numpy(first[::7] - shift)
        for _, pairs, (block,) in DataLoader(GraphStorage(one), edges, sampler, batch_size=9):
            ends, nodes = pairs.edges(), pairs.ndata[dgl.NID]
            drawn, out = block.edata[dgl.EID], pairs.edata[dgl.EID]
            found.append([nodes[side.long()].tolist() for side in ends])
            found.append(sorted((drawn + shift).tolist()))
            assert not torch.isin(drawn, out).any()
            assert exclude == "self" or not torch.isin(drawn, own[out]).any()
        return found

    wanted = batches(graph.to_graph(), 9)
    for one in (graph, graph.snapshot()):
        assert batches(one, 0) == wanted


def test_shadow() -> None:
    graph = filled(Form("id"))
    for one in (graph, graph.snapshot()):
        loader = DataLoader(
            GraphStorage(one), torch.arange(NODES), ShaDowKHopSampler([4, 3]), batch_size=7
        )
        pairs = set(zip(*(own.tolist() for own in graph.edge_list()[:2]), strict=True))
        for nodes, _, sub in loader:
            src, dst = sub.edges()
            assert set(zip(nodes[src].tolist(), nodes[dst].tolist(), strict=True)) <= pairs


def graphbolt(graph: Any, items: Any, fanouts: Any, workers: int = 0, **options: Any) -> Any:
    """Return GraphBolt's loader over a graph."""
    pipe = gb.ItemSampler(items, batch_size=8)
    pipe = pipe.sample_neighbor(SamplingGraph(graph, seed=5), fanouts, **options)
    pipe = pipe.fetch_feature(FeatureStore(graph), node_feature_keys=["x"])
    return gb.DataLoader(pipe.copy_to(torch.device("cpu")), num_workers=workers)


@pytest.mark.parametrize(
    ("weighted", "workers"), [(True, 0), pytest.param(False, 2, marks=pytest.mark.forks)]
)
def test_graphbolt_equals_a_static_copy(weighted: bool, workers: int) -> None:
    graph = filled(Form("time", weighted=weighted))
    copy = graph.to_graph()
    items = gb.ItemSet(torch.arange(NODES), names="seed_nodes")
    options = {"prob_name": "edge_weight"} if weighted else {}

    def edges(one: Any, ids_of: Any = None) -> list[Any]:
        found = []
        for batch in graphbolt(one, items, [4, 3], workers, **options):
            rows = batch.node_features["x"]
            order = batch.input_nodes.argsort()
            found.append((batch.input_nodes[order].tolist(), rows[order].tolist()))
            for sub in batch.sampled_subgraphs:
                own = sub.original_edge_ids.numpy()
                found.append(sorted((own if ids_of is None else ids_of[own]).tolist()))
        return found

    wanted = edges(copy, graph.edge_list()[2])
    for one in (graph, graph.snapshot()):
        assert edges(one) == wanted


# ---- changing ------------------------------------------------------------------------------------


def changing() -> DynamicGraph:
    """Return a live graph for a Writer."""
    graph = DynamicGraph(30, 16, order="time", max_nodes=2000)
    graph.features = np.zeros((30, 1))
    return graph


@pytest.mark.parametrize(
    ("make", "workers"),
    [(DataLoader, 0), (StockLoader, 0), pytest.param(DataLoader, 2, marks=pytest.mark.forks)],
)
def test_every_block_is_a_sample_of_one_commit(make: Any, workers: int) -> None:
    graph = changing()
    found: list[Any] = []
    with Writer(graph) as writer:
        while not writer.is_done:
            sampler = NeighborSampler([-1], prefetch_node_feats=["x"])
            loader = make(
                GraphStorage(graph), torch.arange(30), sampler, batch_size=8, num_workers=workers,
                shuffle=True,
            )  # fmt: skip
            for _, seeds, (block,) in loader:
                assert block.srcdata["x"].shape == (block.num_src_nodes(), 1)
                found.append((seeds, block.edata[dgl.EID]))
    for seeds, edges in found:
        writer.check(seeds, edges)


def test_graphbolt_beside_a_writer() -> None:
    graph = changing()
    items = gb.ItemSet(torch.arange(30), names="seed_nodes")
    found: list[Any] = []
    with Writer(graph) as writer:
        while not writer.is_done:
            for batch in graphbolt(graph, items, [-1]):
                (sub,) = batch.sampled_subgraphs
                found.append((sub.original_column_node_ids, sub.original_edge_ids))
    for seeds, edges in found:
        writer.check(seeds, edges)


def test_the_graph_grows_between_epochs() -> None:
    graph = changing()
    graph.insert_edge(1, 0)
    storage, sampler = GraphStorage(graph), NeighborSampler([-1], prefetch_node_feats=["x"])
    (first,) = DataLoader(storage, torch.arange(2), sampler, batch_size=2)
    assert first[0].tolist() == [0, 1]
    (node,) = graph.add_nodes(1, x=[[7.0]])
    graph.insert_edge(node, 0)
    graph.update_nodes([0], x=[[5.0]])
    (second,) = DataLoader(storage, torch.tensor([0, node]), sampler, batch_size=2)
    assert sorted(second[0].tolist()) == [0, 1, 30]
    rows = dict(zip(second[0].tolist(), second[2][0].srcdata["x"].tolist(), strict=True))
    assert rows == {0: [5.0], 1: [0.0], 30: [7.0]}
    assert storage.num_nodes() == 31 and storage.num_edges() == 2


class ReadingPool:
    """Stands for the pool of threads that read rows: its threads are faster than the caller."""

    def submit(self, read: Callable[[], Any]) -> Future[Any]:
        with ThreadPool(1, "reads") as pool:
            return pool.submit(read)


@pytest.mark.parametrize("make", [DataLoader, StockLoader])
def test_rows_and_edges_are_of_the_commit_that_the_caller_holds(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aethergraph.dgl.features._threads", ReadingPool)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    graph = changing()
    storage, sampler = GraphStorage(graph), NeighborSampler([-1], prefetch_node_feats=["x"])
    loader = make(storage, torch.arange(30), sampler, batch_size=8)

    def epoch() -> list[Any]:
        found = []
        for number, (_, _, (block,)) in enumerate(loader):
            found.append((block.num_edges(), block.srcdata["x"].unique().tolist()))
            graph.insert_edges(np.arange(30), np.full(30, number))
            graph.update_nodes(np.arange(30), x=np.full((30, 1), number + 1.0))
        return found

    with graph.reading():
        assert epoch() == [(0, [0.0])] * 4
    assert epoch()[0] == (120, [4.0])


@pytest.mark.parametrize("make", [DataLoader, StockLoader])
def test_workers_that_are_not_forked_do_not_begin_in_a_block_of_reading(make: Any) -> None:
    graph = changing()
    sampler = NeighborSampler([-1], prefetch_node_feats=["x"])
    loader = make(
        GraphStorage(graph), torch.arange(30), sampler, batch_size=8, num_workers=1,
        multiprocessing_context="spawn",
    )  # fmt: skip
    with graph.reading(), pytest.raises(UnsupportedError, match="outside of the block"):
        iter(loader)


def test_graphbolts_workers_that_are_not_forked_do_not_begin_in_a_block_of_reading() -> None:
    graph, before = changing(), multiprocessing.get_start_method()
    seeds = gb.ItemSampler(gb.ItemSet(torch.arange(30), names="seed_nodes"), batch_size=8)
    pipe = seeds.sample_neighbor(SamplingGraph(graph), [2])
    pipe = pipe.fetch_feature(FeatureStore(graph), node_feature_keys=["x"])
    loader = gb.DataLoader(pipe, num_workers=1)
    multiprocessing.set_start_method("spawn", force=True)  # GraphBolt has no option for it
    try:
        with graph.reading(), pytest.raises(UnsupportedError, match="outside of the block"):
            next(iter(loader))
    finally:
        multiprocessing.set_start_method(before, force=True)


def test_edges_and_their_ids_are_of_one_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = changing()
    graph.insert_edges([1, 2], [3, 4])
    storage = GraphStorage(graph)
    count = storage.schema.num_edges

    def num_edges(kind: Any) -> int:
        found = count(kind)
        graph.insert_edges([5], [6])
        return found

    monkeypatch.setattr(storage.schema, "num_edges", num_edges)
    assert [len(part) for part in storage.edges("all")] == [2, 2, 2]
    assert len(storage.edges("all")[0]) == 3
