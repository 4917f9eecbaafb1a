"""Graphs of others in the batches of PyG's loaders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.foreign_graphs import (
    BareTypes,
    InArrays,
    InC,
    OfArrays,
    OfTheAbstractType,
    OfTopologyInC,
    OtherEdges,
    rules_broken_by,
    typed_graph,
)
from torch_geometric.loader import NodeLoader

from aethergraph import Graph, as_graph
from aethergraph import _native as native
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.foreign import ForeignGraph
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    as_stores,
)
from aethergraph.pyg.testing import GraphLoadingContract

RNG = np.random.default_rng(5)
N, E = 80, 600
SRC, DST = RNG.integers(0, N, E), RNG.integers(0, N, E)


class TestArrays(OfArrays, GraphLoadingContract):
    pass


class TestNoMoreThanTheAbstractType(OfTheAbstractType, GraphLoadingContract):
    test_a_model_learns_from_every_loader = None  # type: ignore[assignment]  # as from arrays


class TestTopologyInC(OfTopologyInC, GraphLoadingContract):
    test_a_model_learns_from_every_loader = None  # type: ignore[assignment]  # as from arrays


class OtherEnds(ForeignGraph):
    """Source and destination are taken for each other."""

    def edge_ends(self, edges: Any) -> Any:
        return super().edge_ends(edges)[::-1]


class Blind(native.NativeTopology):
    __slots__ = ()

    def find(self, *_: Any) -> Any:
        return np.empty(0, np.int64), np.empty(0, np.int64)


class FindsNothing(ForeignGraph):
    """Links that are to be left out are not found in the lists."""

    def topology(self, layout: Any = "csc") -> Any:
        topology = super().topology(layout)
        topology.__class__ = Blind
        return topology


@pytest.mark.parametrize(
    ("mutant", "rules"),
    [
        (
            OtherEdges,
            {
                "test_stock_loaders_follow_its_edges",
                "test_our_loaders_follow_its_edges",
                "test_a_model_learns_from_every_loader",
            },
        ),
        (FindsNothing, {"test_links_are_left_out"}),
        (OtherEnds, {"test_our_loaders_follow_its_edges"}),
    ],
)
def test_mutants(mutant: type[ForeignGraph], rules: set[str]) -> None:
    assert rules <= set(rules_broken_by(mutant, GraphLoadingContract))


@pytest.mark.parametrize(
    ("form", "workers"),
    [
        (InArrays, {"num_workers": 2}),
        pytest.param(
            InC, {"num_workers": 1, "multiprocessing_context": "spawn"}, marks=pytest.mark.slow
        ),
    ],
)
def test_worker_processes(form: Any, workers: dict[str, Any]) -> None:
    graph = as_graph(form(N, SRC, DST))
    one, two = (
        [batch.n_id.tolist() for batch in NeighborLoader(graph, [3], batch_size=30, seed=4, **more)]
        for more in ({}, workers)
    )
    assert one == two


def test_values_that_a_topology_keeps() -> None:
    weight, time = RNG.integers(0, 3, E), np.sort(RNG.integers(0, 50, E))
    graph = as_graph(InC(N, SRC, DST, weight, time))
    own = Graph.from_edges(N, SRC, DST, edge_weight=weight.astype(float), edge_time=time)
    seeds = torch.arange(N)
    for options in (
        {"weight_attr": "edge_weight"},
        {"weighted": True},
        {"time_attr": "edge_time", "input_time": torch.full((N,), 30)},
        {"input_time": torch.full((N,), 30), "temporal_strategy": "last"},
    ):
        found, expected = (
            [b.n_id.tolist() for b in NeighborLoader(g, [4, 2], seeds, batch_size=20, seed=1,
                                                     **options)]
            for g in (graph, own)
        )  # fmt: skip
        assert found == expected, options


@pytest.mark.parametrize("form", [InArrays, InC])
def test_a_graph_store_answers_in_every_layout(form: Any) -> None:
    graph = as_graph(form(N, SRC, DST))
    store = GraphStore(graph)
    src, dst = graph.edge_index()
    row, col, _ = store.coo()
    assert (row.numpy() == src).all() and (col.numpy() == dst).all()
    row, colptr, perm = store.csc()
    assert perm is not None
    assert (row.numpy() == src[perm.numpy()]).all()
    assert (np.repeat(np.arange(N), np.diff(colptr.numpy())) == dst[perm.numpy()]).all()
    rowptr, col, perm = store.csr()
    assert perm is not None
    assert (col.numpy() == dst[perm.numpy()]).all()
    assert (np.repeat(np.arange(N), np.diff(rowptr.numpy())) == src[perm.numpy()]).all()


def test_negative_links_are_no_edges() -> None:
    graph = as_graph(InC(N, SRC, DST))
    edges = set(zip(SRC.tolist(), DST.tolist(), strict=True))
    loader = LinkNeighborLoader(
        graph, [2], neg_sampling={"mode": "binary", "true_negatives": True}, batch_size=200
    )
    for batch in loader:
        links = batch.n_id[batch.edge_label_index[:, batch.edge_label == 0]].T.tolist()
        assert links and not {tuple(link) for link in links} & edges


def test_what_is_no_graph_yet_is_told_how_to_become_one() -> None:
    source: Any = InArrays(N, SRC, DST)
    takes: list[Any] = [
        as_stores, GraphStore, FeatureStore.from_graph, lambda s: NeighborLoader(s, [2]),
    ]  # fmt: skip
    for take in takes:
        with pytest.raises(InvalidArgumentError, match=r"aethergraph.as_graph\(source\)"):
            take(source)


def test_typed_graphs_need_no_more_than_the_abstract_type() -> None:
    graph = typed_graph()
    ours, stock = [], []
    for of in (graph, BareTypes(graph)):
        loader = NeighborLoader(
            of, [4, 3], {"user": torch.arange(60)}, batch_size=16, seed=2, weight_attr="edge_weight"
        )
        ours.append(next(iter(loader)))
        features, edges = as_stores(of)
        sampler = NeighborSampler(edges, {kind: [4] for kind in graph.edge_types}, seed=3)
        stock.append(
            next(
                iter(
                    NodeLoader((features, edges), sampler, ("post", torch.arange(90)), batch_size=9)
                )
            )
        )
    for one, other in (ours, stock):
        for name in graph.node_types:
            assert torch.equal(one[name].x, other[name].x) and len(one[name].x)
        for kind in graph.edge_types:
            assert torch.equal(one[kind].edge_index, other[kind].edge_index)
            if one is ours[0]:  # PyG's loaders give no values of edges
                assert torch.equal(one[kind].edge_attr, other[kind].edge_attr)
