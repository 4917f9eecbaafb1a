"""exclude_edges: edges that no sample holds, as if each call had named them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from support.foreign_graphs import typed_graph
from support.strategies import assert_same_subgraph

from aethergraph import DynamicGraph, Graph, HeteroNeighborSampler, NeighborSampler, SubgraphLoader
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.sampling.hetero import HeteroSubgraph

RNG = np.random.default_rng(4)
NODES, EDGES = 200, 3000
SRC, DST = RNG.integers(0, NODES, EDGES), RNG.integers(0, NODES, EDGES)
EXCLUDED = RNG.permutation(EDGES)[: EDGES // 3]
SEEDS = RNG.permutation(NODES)[:40]


def one_type() -> Graph:
    return Graph.from_edges(
        NODES, SRC, DST, layout="both", edge_weight=RNG.random(EDGES),
        edge_time=np.random.default_rng(1).integers(0, 90, EDGES),
    )  # fmt: skip


GRAPH, TYPED = one_type(), typed_graph()
OF_TYPES = {kind: np.arange(0, TYPED[kind].num_edges, 3) for kind in TYPED.edge_types}


@pytest.mark.parametrize(
    "options",
    [
        {}, {"replace": True}, {"disjoint": True}, {"subgraph_type": "induced"},
        {"subgraph_type": "bidirectional"}, {"weight_attr": "edge_weight"}, {"layered": True},
        {"time_attr": "edge_time", "temporal_strategy": "last"}, {"num_threads": 2},
        {"sample_direction": "both"}, {"sample_direction": "backward"},
    ],
)  # fmt: skip
def test_samples_are_those_of_calls_that_name_the_edges(options: dict[str, Any]) -> None:
    times: Any = {"seed_time": np.full(len(SEEDS), 60)} if "time_attr" in options else {}
    named = NeighborSampler(GRAPH, [6, 4], **options)
    always = NeighborSampler(GRAPH, [6, 4], exclude_edges=EXCLUDED, **options)
    for sampler in (always, pickle.loads(pickle.dumps(always))):
        sample = sampler.sample(SEEDS, key=3, **times)
        assert_same_subgraph(sample, named.sample(SEEDS, key=3, exclude=EXCLUDED, **times))
        assert not np.isin(sample.edge, EXCLUDED).any() and sample.num_edges
    more = RNG.integers(0, EDGES, 200)
    both = np.concatenate([EXCLUDED, more])
    assert_same_subgraph(
        always.sample(SEEDS, key=3, exclude=more, **times),
        named.sample(SEEDS, key=3, exclude=both, **times),
    )


def equal(one: HeteroSubgraph, other: HeteroSubgraph) -> bool:
    return all(
        a[kind].tolist() == b[kind].tolist()
        for a, b in ((one.node, other.node), (one.edge, other.edge))
        for kind in a
    )


@pytest.mark.parametrize("direction", ["forward", "both"])
def test_typed_graphs(direction: Any) -> None:
    seeds: Mapping[str, Any] = {"user": [3, 9, 21], "post": [1, 2]}
    named = HeteroNeighborSampler(TYPED, [5, 5], sample_direction=direction)
    always = HeteroNeighborSampler(
        TYPED, [5, 5], sample_direction=direction, exclude_edges=OF_TYPES
    )
    sample = always.sample(seeds, key=2)
    assert equal(sample, named.sample(seeds, key=2, exclude=OF_TYPES))
    kind = TYPED.edge_types[0]
    more = {kind: np.arange(1, TYPED[kind].num_edges, 3)}
    both = {**OF_TYPES, kind: np.concatenate([OF_TYPES[kind], more[kind]])}
    assert equal(
        always.sample(seeds, key=2, exclude=more), named.sample(seeds, key=2, exclude=both)
    )


def test_the_edges_are_those_when_the_sampler_was_made() -> None:
    edges = EXCLUDED.copy()
    sampler = NeighborSampler(GRAPH, [6], exclude_edges=edges)
    expected = sampler.sample(SEEDS, key=1)
    edges[:] = 0
    assert_same_subgraph(sampler.sample(SEEDS, key=1), expected)
    assert_same_subgraph(pickle.loads(pickle.dumps(sampler)).sample(SEEDS, key=1), expected)
    sampler.retarget(one_type())
    assert_same_subgraph(sampler.sample(SEEDS, key=1), expected)


@pytest.mark.parametrize("typed", [False, True])
def test_loaders_and_many_batches_at_once(typed: bool) -> None:
    sampler: Any = NeighborSampler(GRAPH, [6, 4], exclude_edges=EXCLUDED)
    graph: Any = GRAPH
    if typed:
        graph, sampler = TYPED, HeteroNeighborSampler(TYPED, [4], exclude_edges=OF_TYPES)
    seeds: Any = {"post": None} if typed else None
    for batch in SubgraphLoader(graph, sampler=sampler, seeds=seeds, batch_size=64):
        for kind in OF_TYPES if typed else [None]:
            edges = batch.subgraph.edge[kind] if typed else batch.subgraph.edge
            assert not np.isin(edges, OF_TYPES[kind] if typed else EXCLUDED).any()
    if not typed:
        for sample in sampler.sample_many([SEEDS, SEEDS[:3]]):
            assert not np.isin(sample.edge, EXCLUDED).any()


def test_a_place_in_an_epoch_knows_the_edges() -> None:
    states = [
        SubgraphLoader(
            GRAPH, sampler=NeighborSampler(GRAPH, [4], exclude_edges=edges), batch_size=50
        )
        for edges in (EXCLUDED, EXCLUDED[:-1])
    ]
    states[0].load_state_dict(states[0].state_dict())
    with pytest.raises(InvalidArgumentError, match="exclude_edges"):
        states[1].load_state_dict(states[0].state_dict())


def test_graphs_that_change_are_refused_and_their_snapshots_are_not() -> None:
    graph = DynamicGraph(4)
    edges = graph.insert_edges([0, 1, 2], [3, 3, 3])
    with pytest.raises(InvalidArgumentError, match=r"exclude_edges: .*graph\.snapshot\(\)"):
        NeighborSampler(graph, [-1], exclude_edges=edges[:1])
    sampler = NeighborSampler(graph.snapshot(), [-1], exclude_edges=edges[:1])
    assert sampler.sample([3]).edge.tolist() == edges[1:].tolist()
    with pytest.raises(InvalidArgumentError, match="exclude_edges"):
        sampler.retarget(graph)
    assert sampler.sample([3]).edge.tolist() == edges[1:].tolist()


@pytest.mark.parametrize(
    ("edges", "error", "message"),
    [
        ([0, EDGES], OutOfRangeError, rf"exclude_edges\[1\] = {EDGES}"),
        ([-1], OutOfRangeError, r"exclude_edges\[0\] = -1"),
        ([0.5], InvalidArgumentError, "exclude_edges"),
        ({"a": [1]}, InvalidArgumentError, "exclude_edges"),
        ("edges", InvalidArgumentError, "exclude_edges"),
    ],
)
def test_wrong_edges(edges: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        NeighborSampler(GRAPH, [2], exclude_edges=edges)


@pytest.mark.parametrize(
    "edges", [[1], {("user", "x", "post"): [1]}, {TYPED.edge_types[0]: [10**6]}]
)
def test_wrong_edges_of_typed_graphs(edges: Any) -> None:
    with pytest.raises((InvalidArgumentError, OutOfRangeError), match="exclude_edges"):
        HeteroNeighborSampler(TYPED, [2], exclude_edges=edges)


def test_edges_that_cannot_be_copied_are_read_or_named() -> None:
    graph = Graph.from_edges(3, [0, 1, 2], [2, 2, 2])
    sampler = NeighborSampler(graph, [-1], exclude_edges=memoryview(np.array([0, 2])))
    assert sampler.sample([2]).edge.tolist() == [1]
    with pytest.raises(InvalidArgumentError, match="exclude_edges"):
        NeighborSampler(graph, [-1], exclude_edges=(edge for edge in (0, 2)))  # type: ignore[arg-type]
