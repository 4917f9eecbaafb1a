"""One native sampler or group that goes on from graph to graph."""

from __future__ import annotations

import gc
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

import aethergraph as ag
from aethergraph import _native as native
from aethergraph import errors
from aethergraph.sampling.values import find_relation

FANOUTS = [[4, -1, 3]]


class Target(NamedTuple):
    """Relations and numbers of nodes that a sampler goes on with."""

    relations: list[native.NativeRelation]
    num_nodes: list[int]

    def seeds(self, key: int) -> list[Any]:
        return [np.random.default_rng(key).integers(0, self.num_nodes[0], 40)]


def make_graph(num_nodes: int) -> ag.Graph:
    rng = np.random.default_rng(num_nodes)
    count = 20 * num_nodes
    src, dst = rng.integers(0, num_nodes, (2, count))
    return ag.Graph.from_edges(
        num_nodes, src, dst, keep_order=True,
        edge_weight=rng.integers(0, 4, count).astype(np.float32),
        edge_time=rng.integers(0, 30, count),
    )  # fmt: skip


def target_of(graph: ag.Graph, weight: str | None, time: str | None) -> Target:
    return Target([find_relation(graph, "csc", weight, time)[0]], [graph.num_nodes])


def make_sampler(target: Target, flags: int) -> native.NativeSampler:
    return native.NativeSampler(target.relations, target.num_nodes, FANOUTS, flags, 1)


def assert_same(found: native.NativeSample, expected: native.NativeSample) -> None:
    for name in ("node", "row", "col", "edge"):
        for one, two in zip(getattr(found, name), getattr(expected, name), strict=True):
            np.testing.assert_array_equal(one, two, name)
    assert found.hop_nodes == expected.hop_nodes
    assert found.hop_edges == expected.hop_edges


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> list[Target]:
    """Graphs of several sizes, in memory and in a file, with and without weights and times."""
    path = tmp_path_factory.mktemp("retarget") / "graph.aeg"
    large = make_graph(5000)
    large.save(path)
    paged = ag.Graph.load(path, storage="uring", memory_budget="24M")
    small = make_graph(60)
    return [
        target_of(small, None, "edge_time"),
        target_of(paged, "edge_weight", None),
        target_of(large, None, None),
        target_of(paged, None, "edge_time"),
        target_of(small, "edge_weight", "edge_time"),
        target_of(paged, None, None),
    ]


@pytest.mark.parametrize("flags", [0, native.SAMPLE_DISJOINT, native.SAMPLE_INDUCED])
def test_a_sampler_in_turns_on_several_graphs(targets: list[Target], flags: int) -> None:
    sampler = make_sampler(targets[0], flags)
    for key, target in enumerate(targets * 2):
        sampler.retarget(target.relations, target.num_nodes)
        seeds = target.seeds(key)
        until = [np.full(40, 12)] if flags == native.SAMPLE_DISJOINT else None
        expected = make_sampler(target, flags).sample(seeds, key, until=until)
        assert_same(sampler.sample(seeds, key, until=until), expected)


@pytest.mark.parametrize("flags", [0, native.SAMPLE_DISJOINT])
def test_a_group_in_turns_on_several_graphs(targets: list[Target], flags: int) -> None:
    first = targets[0]
    group = native.NativeGroup(
        first.relations, first.num_nodes, FANOUTS, flags, 0, capacity=4, window_bytes=1 << 18
    )
    until = [np.full(40, 12)] if flags else None
    for turn, target in enumerate(targets * 2):
        group.retarget(target.relations, target.num_nodes)
        batches = [
            native.NativeBatch(target.seeds(turn + key), key, until=until) for key in range(3)
        ]
        found = group.sample(batches, native.NativeSample)
        for batch in batches[:2]:  # the last one is dropped
            expected = make_sampler(target, flags).sample(batch.seeds, batch.key, until=until)
            assert_same(next(found), expected)


def test_the_graph_before_is_let_go() -> None:
    graphs = [make_graph(50), make_graph(70)]
    first, second = (target_of(graph, None, None) for graph in graphs)
    sampler = make_sampler(first, 0)
    before = weakref.ref(graphs[0])
    sampler.retarget(second.relations, second.num_nodes)
    del first, graphs
    gc.collect()
    assert before() is None
    assert sampler.sample(second.seeds(1), 1).node[0].max() < 70


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    small, large = (target_of(make_graph(n), None, None) for n in (50, 70))
    sampler = make_sampler(small, 0)
    expected = sampler.sample(small.seeds(1), 1)
    for relations, num_nodes, message in [
        (large.relations, [50], "edge type 0: lists of 70 nodes"),
        (large.relations, [70, 70], "make another"),
        ([], [70], "make another"),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match=message):
            sampler.retarget(relations, num_nodes)
        assert_same(sampler.sample(small.seeds(1), 1), expected)
    group = native.NativeGroup(small.relations, small.num_nodes, FANOUTS, 0, 1, capacity=2)
    with pytest.raises(errors.InvalidArgumentError, match="edge type 0: lists of 70 nodes"):
        group.retarget(large.relations, [50])
    assert_same(
        next(group.sample([native.NativeBatch(small.seeds(1), 1)], native.NativeSample)), expected
    )
