"""Graphs of others in the batches of DGL's DataLoader, ours, and GraphBolt."""

from __future__ import annotations

from typing import Any

import dgl
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

from aethergraph import Graph, as_graph
from aethergraph.dgl import GraphStorage, NeighborSampler
from aethergraph.dgl.graphbolt import SamplingGraph
from aethergraph.dgl.testing import GraphStorageContract
from aethergraph.errors import InvalidArgumentError

RNG = np.random.default_rng(5)
N, E = 80, 600
SRC, DST = RNG.integers(0, N, E), RNG.integers(0, N, E)


class TestArrays(OfArrays, GraphStorageContract):
    pass


class TestNoMoreThanTheAbstractType(OfTheAbstractType, GraphStorageContract):
    test_a_model_learns_from_every_loader = None  # type: ignore[assignment]  # as from arrays


class TestTopologyInC(OfTopologyInC, GraphStorageContract):
    test_a_model_learns_from_every_loader = None  # type: ignore[assignment]  # as from arrays


def test_a_mutant_breaks_the_rules_about_edges() -> None:
    assert set(rules_broken_by(OtherEdges, GraphStorageContract)) >= {
        "test_dgl_loaders_follow_its_edges",
        "test_graphbolt_follows_its_edges",
        "test_a_model_learns_from_every_loader",
    }


@pytest.mark.parametrize("form", [InArrays, InC])
def test_queries(form: Any) -> None:
    graph = as_graph(form(N, SRC, DST))
    storage = GraphStorage(graph)
    src, dst = graph.edge_index()
    u, v = storage.edges()
    assert (u.numpy() == src).all() and (v.numpy() == dst).all()
    assert storage.find_edges([3, 9])[0].tolist() == src[[3, 9]].tolist()
    assert storage.in_degrees().tolist() == np.bincount(DST, minlength=N).tolist()
    assert storage.out_degrees().tolist() == np.bincount(SRC, minlength=N).tolist()
    assert storage.has_edges_between(SRC[:3], DST[:3]).all()


@pytest.mark.parametrize("form", [InArrays, InC])
def test_edges_are_left_out(form: Any) -> None:
    storage = GraphStorage(as_graph(form(N, SRC, DST)))
    seeds = torch.arange(N)
    everything = storage.sample_neighbors(seeds, -1).edata[dgl.EID]
    left = storage.sample_neighbors(seeds, -1, exclude_edges=everything[::2]).edata[dgl.EID]
    assert sorted(left.tolist()) == sorted(everything[1::2].tolist())


def test_values_that_a_topology_keeps() -> None:
    weight, time = RNG.integers(0, 3, E), np.sort(RNG.integers(0, 50, E))
    graph = as_graph(InC(N, SRC, DST, weight, time))
    own = Graph.from_edges(N, SRC, DST, edge_weight=weight.astype(float), edge_time=time)
    seeds = torch.arange(N)
    for options in ({"prob": "edge_weight"}, {}):
        found, expected = (
            NeighborSampler([4, 2], seed=3, **options).sample(GraphStorage(g), seeds)[0]
            for g in (graph, own)
        )
        assert found.tolist() == expected.tolist()
    found, expected = (
        SamplingGraph(g, seed=3).temporal_sample_neighbors(
            seeds, torch.full((N,), 30), torch.tensor([3]), edge_timestamp_attr_name="edge_time"
        )
        for g in (graph, own)
    )
    assert found.sampled_csc.indices.tolist() == expected.sampled_csc.indices.tolist()
    assert len(found.original_edge_ids)


def test_what_is_no_graph_yet_is_told_how_to_become_one() -> None:
    source: Any = InArrays(N, SRC, DST)
    for take in (GraphStorage, SamplingGraph):
        with pytest.raises(InvalidArgumentError, match=r"aethergraph.as_graph\(source\)"):
            take(source)


def test_typed_graphs_need_no_more_than_the_abstract_type() -> None:
    graph = typed_graph()
    found = []
    for of in (graph, BareTypes(graph)):
        storage = GraphStorage(of)
        sampler = NeighborSampler(
            [4, 3], prefetch_node_feats={"user": ["x"], "post": ["x"]}, seed=4
        )
        loader = dgl.dataloading.DataLoader(
            storage, {"user": torch.arange(60)}, sampler, batch_size=16
        )
        found.append(next(iter(loader)))
    (nodes, _, blocks), (others, _, expected) = found
    for name in graph.node_types:
        assert torch.equal(nodes[name], others[name])
        assert torch.equal(blocks[0].srcnodes[name].data["x"], expected[0].srcnodes[name].data["x"])
    for kind in graph.edge_types:
        for one, other in zip(
            blocks[0].edges(etype=kind), expected[0].edges(etype=kind), strict=True
        ):
            assert torch.equal(one, other)
