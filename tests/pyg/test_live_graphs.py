"""PyG's loaders and ours over live graphs that change; tests/equality has those that rest."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import torch
from support.live import (
    Form,
    Writer,
    insert,
    live_with_rows,
    make_live,
    random_edges,
    snapshot_with_rows,
)
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.loader import NeighborLoader as StockNeighborLoader
from torch_geometric.sampler import NegativeSampling

from aethergraph import DynamicGraph, DynamicHeteroGraph, FeatureTable, HeteroNeighborSampler
from aethergraph.errors import UnsupportedError
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    as_stores,
)
from aethergraph.pyg.testing import (
    FeatureStoreContract,
    GraphLoadingContract,
    GraphStoreContract,
    RowLoadingContract,
)

pytestmark = pytest.mark.pyg

NODES = 40


# ---- contracts -----------------------------------------------------------------------------------


class TestLoadingALiveGraph(GraphLoadingContract):
    supports = {"edge_ids"}
    test_a_model_learns_from_every_loader = None  # type: ignore[assignment]  # as from any graph

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return live_with_rows(num_nodes, src, dst)


class TestLoadingASnapshot(GraphLoadingContract):
    supports = {"edge_ids"}
    test_a_model_learns_from_every_loader = None  # type: ignore[assignment]  # as from any graph

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return snapshot_with_rows(num_nodes, src, dst)


class TestLiveGraphStore(GraphStoreContract):
    test_it_pickles = None  # type: ignore[assignment]  # it is in this process

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return GraphStore(live_with_rows(num_nodes, src, dst))


class TestSnapshotGraphStore(GraphStoreContract):
    test_it_pickles = None  # type: ignore[assignment]  # it is in this process

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return GraphStore(snapshot_with_rows(num_nodes, src, dst))


class TestLiveFeatureStore(FeatureStoreContract):
    test_it_pickles = None  # type: ignore[assignment]  # it is in this process
    supports = {"put"}

    def make(self, tensors: Any) -> Any:
        graph = DynamicGraph(40, 1)
        for (_, name), tensor in tensors.items():
            graph.node_attrs[name] = tensor
        return FeatureStore.from_graph(graph)


class TestLiveRows(RowLoadingContract):
    dtypes = ("float32", "bfloat16", "int64")

    def make(self, rows: Any, dtype: str) -> Any:
        graph = DynamicGraph(len(rows), 1)
        bits = dtype == "bfloat16"
        graph.features = FeatureTable.from_array(np.zeros_like(rows), dtype=dtype if bits else None)
        graph.update_nodes(np.arange(len(rows)), x=rows)
        return graph.features


# ---- all links -----------------------------------------------------------------------------------


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


def test_all_links_of_a_graph_whose_ids_have_gaps() -> None:
    for form in (Form("id"), Form("time")):
        graph = filled(form)
        src, dst, _ = graph.edge_list()
        for one in (graph, graph.snapshot()):
            batches = list(LinkNeighborLoader(one, [2], batch_size=50))
            found = torch.cat([batch.n_id[batch.edge_label_index] for batch in batches], 1)
            np.testing.assert_array_equal(found, np.stack([src, dst]))
    typed_graph = typed()
    typed_graph[VOTES].delete(*(ends[:20] for ends in typed_graph[VOTES].edge_list()[:2]))
    for other in (typed_graph, typed_graph.snapshot()):
        batches = list(LinkNeighborLoader(other, [2], VOTES, batch_size=50))
        count = sum(batch[VOTES].edge_label_index.shape[1] for batch in batches)
        assert count == other[VOTES].num_edges < 200


# ---- changing ------------------------------------------------------------------------------------


def changing() -> DynamicGraph:
    """Return a live graph for a Writer."""
    graph = DynamicGraph(30, 16, order="time", max_nodes=2000)
    graph.features = np.zeros((30, 1))
    return graph


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.forks)])
@pytest.mark.parametrize("stock", [False, True])
def test_every_batch_is_a_sample_of_one_commit(stock: bool, workers: int) -> None:
    graph = changing()
    nodes = torch.arange(30)
    batches: list[Any] = []
    with Writer(graph) as writer:
        while not writer.is_done:
            if stock:
                stores = FeatureStore.from_graph(graph), GraphStore(graph)
                sampler = NeighborSampler(stores, [-1])
                loader: Any = NodeLoader(
                    stores, sampler, nodes, batch_size=8, num_workers=workers, shuffle=True
                )
            else:
                loader = NeighborLoader(
                    graph, [-1], nodes, batch_size=8, num_workers=workers, shuffle=True
                )
            batches += list(loader)
    for batch in batches:
        assert batch.x.shape == (len(batch.n_id), 1)
        seeds = batch.n_id[: batch.batch_size]
        writer.check(seeds, batch.e_id)


def test_links_beside_a_writer() -> None:
    graph = changing()
    batches: list[Any] = []
    with Writer(graph) as writer:
        while not writer.is_done:
            links = torch.from_numpy(np.stack(graph.edge_list()[:2])[:, :20].copy())
            draw: dict[str, Any] = {"batch_size": 5, "neg_sampling": {"mode": "binary"}}
            careful = draw | {"neg_sampling": {"mode": "binary", "true_negatives": True}}
            batches += list(LinkNeighborLoader(graph, [3], links, exclude="self", **careful))
            stores = FeatureStore.from_graph(graph), GraphStore(graph)
            sampler = NeighborSampler(stores, [3])
            list(LinkLoader(stores, sampler, (None, links), **draw))
    for batch in batches:
        ends = batch.n_id[batch.edge_label_index].T.tolist()
        out = {tuple(e) for e, label in zip(ends, batch.edge_label, strict=True) if label}
        drawn = set(map(tuple, batch.n_id[batch.edge_index].T.tolist()))
        assert not drawn & out


@pytest.mark.forks
def test_persistent_workers_see_what_comes_later() -> None:
    graph = changing()
    graph.insert_edge(1, 0)
    loader = NeighborLoader(
        graph, [-1], torch.arange(2), batch_size=2, num_workers=1, persistent_workers=True
    )
    assert [batch.n_id.tolist() for batch in loader] == [[0, 1]]
    (node,) = graph.add_nodes(1, x=[[7.0]])
    graph.insert_edge(node, 0)
    graph.update_nodes([0], x=[[5.0]])
    (batch,) = loader
    assert batch.n_id.tolist() == [0, 1, 30]
    assert batch.x.tolist() == [[5.0], [0.0], [7.0]]


# ---- several types -------------------------------------------------------------------------------

VOTES, BACK = ("user", "votes", "post"), ("post", "back", "user")


def typed() -> DynamicHeteroGraph:
    graph = DynamicHeteroGraph(
        {"user": 20, "post": 30}, [VOTES, BACK], 8, order="time", edge_attrs={"e": ((), "int64")}
    )
    rng = np.random.default_rng(1)
    graph["user"].attrs["x"] = rng.random((20, 2)).astype(np.float32)
    graph["post"].attrs["x"] = rng.random((30, 3)).astype(np.float32)
    src, dst = rng.integers(0, 20, 200), rng.integers(0, 30, 200)
    with graph.transaction():
        ids = graph[VOTES].insert(src, dst, edge_attrs={"e": np.arange(200)})
        graph[BACK].insert(dst, src, edge_attrs={"e": ids})
    return graph


def test_typed_batches_beside_a_writer_see_both_types_or_none() -> None:
    graph = typed()
    stop = threading.Event()

    def write() -> None:
        rng = np.random.default_rng(2)
        while not stop.wait(0.0005):
            u, v = int(rng.integers(20)), int(rng.integers(30))
            with graph.transaction():
                (edge,) = graph[VOTES].insert([u], [v], edge_attrs={"e": [0]})
                graph[BACK].insert([v], [u], edge_attrs={"e": [edge]})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        fanouts = {VOTES: [-1], BACK: [-1]}
        nodes = {"post": torch.arange(30), "user": torch.arange(20)}
        for _ in range(30):
            sampler = HeteroNeighborSampler(graph, fanouts)
            sub = sampler.sample({name: ids.numpy() for name, ids in nodes.items()})
            assert len(sub.edge[VOTES]) == len(sub.edge[BACK]) >= 200
            assert sorted(sub.edge[VOTES].tolist()) == sorted(sub.edge[BACK].tolist())
    finally:
        stop.set()
        thread.join()
    assert graph.commit > 2


def test_stock_samplers_of_lists_are_told_of_gaps_in_the_ids() -> None:
    graph = DynamicGraph(20, 16, huge_pages=False)
    graph.features = np.zeros((20, 1))
    graph.insert_edges(range(19), range(1, 20))
    graph.delete_edge(3, 4)
    with pytest.raises(UnsupportedError, match="ids without gaps: take NeighborLoader"):
        StockNeighborLoader(as_stores(graph), [2], input_nodes=torch.arange(5))
    assert len(list(NeighborLoader(graph, [2], batch_size=10))) == 2


@pytest.mark.parametrize("is_typed", [False, True])
def test_negatives_are_nodes_of_the_commit_of_their_batch(is_typed: bool) -> None:
    graph: Any = DynamicGraph(20, 8, max_nodes=3000)
    links: Any = torch.arange(20), torch.arange(20)
    if is_typed:
        graph = DynamicHeteroGraph({"user": 20, "post": 30}, [VOTES], 8, max_nodes=3000)
        links = VOTES, links
    loader = LinkNeighborLoader(
        graph, [0], links, batch_size=20, neg_sampling=NegativeSampling("binary", 5), seed=3
    )

    def largest() -> list[int]:
        (batch,) = loader
        stores = [batch[name] for name in ("user", "post")] if is_typed else [batch]
        return [int(store.n_id.max()) for store in stores]

    assert max(largest()) < 30
    old = graph.snapshot()
    if is_typed:
        graph["user"].add(2000)
        graph["post"].add(2000)
    else:
        graph.add_nodes(2000)
    assert min(largest()) > 100
    with graph.reading(old):
        assert max(largest()) < 30


@pytest.mark.parametrize("typed", [False, True])
def test_of_two_times_lists_are_in_the_order_of_one(typed: bool) -> None:
    options: dict[str, Any] = {
        "arena_mb": 16, "huge_pages": False, "order": "time", "edge_time": "int64",
    }  # fmt: skip
    graph: Any
    if typed:
        kind = ("node", "to", "node")
        graph = DynamicHeteroGraph({"node": 0}, [kind], node_time={"node": "int64"}, **options)
        graph["node"].add(2, time=[3, 5])
    else:
        graph = DynamicGraph(0, node_time="int64", **options)
        graph.add_nodes(2, time=[3, 5])
    seeds = ("node", torch.tensor([0])) if typed else torch.tensor([0])
    with pytest.raises(ValueError, match=r'order of those of edges, say time_attr="edge_time"$'):
        NeighborLoader(graph, [2], seeds, input_time=torch.tensor([1]))
    with pytest.raises(
        ValueError, match=r'^temporal_strategy="last", and there are times of edges'
    ):
        NeighborLoader(graph, [2], seeds, temporal_strategy="last")


def test_a_column_stays_until_its_attribute_begins_anew() -> None:
    graph = DynamicGraph(4, max_nodes=8)
    graph.node_attrs["x"] = np.zeros((4, 2), np.float32)
    store = FeatureStore.from_graph(graph)
    column = store.find_column(None, "x")
    assert column is not None and store.find_column(None, "x") is column
    graph.add_nodes(1, x=np.ones((1, 2), np.float32))
    assert store.find_column(None, "x") is column and column.shape == (5, 2)
    del graph.node_attrs["x"]
    graph.node_attrs["x"] = np.zeros(5, np.int64)
    assert store[None, "x", None].dtype == torch.int64
