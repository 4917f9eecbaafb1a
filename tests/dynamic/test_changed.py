"""Nodes whose sampled neighbourhood may differ since an earlier commit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aethergraph import (
    DynamicGraph,
    DynamicHeteroGraph,
    HeteroNeighborSampler,
    NeighborSampler,
    errors,
)

NODES = 12
edges = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=8)


@settings(deadline=None, max_examples=40)
@given(
    first=edges,
    later=st.lists(st.tuples(edges, edges), max_size=4),
    order=st.sampled_from(["id", "time"]),
)
def test_what_is_not_named_is_the_same(first: Any, later: Any, order: Any) -> None:
    graph = DynamicGraph(NODES, 16, order=order, huge_pages=False)
    graph.insert_edges([e[0] for e in first], [e[1] for e in first])
    before = graph.snapshot()
    for inserted, deleted in later:
        graph.insert_edges([e[0] for e in inserted], [e[1] for e in inserted])
        if deleted:
            graph.delete_edges([e[0] for e in deleted], [e[1] for e in deleted])
    now = graph.snapshot()
    graph.insert_edge(0, 1)  # after both
    for hops in (1, 2, 3):
        named = set(now.changed(before, hops).tolist())
        samplers = [NeighborSampler(one, [-1] * hops) for one in (before, now)]
        for node in set(range(NODES)) - named:
            samples = [one.sample([node], key=1) for one in samplers]
            assert samples[0].node.tolist() == samples[1].node.tolist()
            assert samples[0].edge.tolist() == samples[1].edge.tolist()
    touched = {e[1] for inserted, _ in later for e in inserted}
    differ = {v for v in range(NODES) if before.in_edges(v).tolist() != now.in_edges(v).tolist()}
    assert differ <= set(now.changed(before.commit).tolist())
    assert set(now.changed(before).tolist()) <= touched | differ | {
        e[1] for _, deleted in later for e in deleted
    }


def test_nothing_has_changed() -> None:
    graph = DynamicGraph(5, 16)
    graph.insert_edges([0, 1], [1, 2])
    now = graph.snapshot()
    assert now.changed(now).tolist() == []
    assert now.changed(0).tolist() == [1, 2]
    assert now.changed(0, hops=0).tolist() == []
    with pytest.raises(errors.OutOfRangeError, match="after that of the snapshot"):
        now.changed(now.commit + 1)
    with pytest.raises(errors.InvalidArgumentError, match="another graph"):
        now.changed(DynamicGraph(3, 16).snapshot())


def test_layouts() -> None:
    graph = DynamicGraph(5, 16, layout="csc")
    graph.insert_edge(0, 1)
    assert graph.snapshot().changed(0).tolist() == [1]
    with pytest.raises(errors.LayoutError, match=r"out-neighbours.*keeps the layout"):
        graph.snapshot().changed(0, hops=2)
    with pytest.raises(errors.LayoutError, match="in-neighbours"):
        DynamicGraph(5, 16, layout="csr").snapshot().changed(0)


def test_many_nodes() -> None:
    graph = DynamicGraph(2_000_000_000, 64, layout="csc")
    nodes = np.arange(0, 2_000_000_000, 1_000_000)
    before = graph.snapshot()
    graph.insert_edges(nodes, nodes)
    assert (graph.snapshot().changed(before) == nodes).all()


KINDS = [("a", "x", "b"), ("b", "y", "a"), ("a", "z", "a"), ("b", "w", "c")]
typed_edges = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 4), st.integers(0, 4)), max_size=6
)


@settings(deadline=None, max_examples=30)
@given(first=typed_edges, later=st.lists(st.tuples(typed_edges, typed_edges), max_size=3))
def test_of_many_types_what_is_not_named_is_the_same(first: Any, later: Any) -> None:
    graph = DynamicHeteroGraph({"a": 5, "b": 5, "c": 5}, KINDS, 16, huge_pages=False)
    for kind, src, dst in first:
        graph[kind].insert([src], [dst])
    before = graph.snapshot()
    for inserted, deleted in later:
        for kind, src, dst in inserted:
            graph[kind].insert([src], [dst])
        for kind, src, dst in deleted:
            graph[kind].delete([src], [dst])
    now = graph.snapshot()
    graph[KINDS[0]].insert([0, 1, 2, 3], [0, 1, 2, 3])  # after both
    for followed in (KINDS, KINDS[1:3]):
        for hops in (1, 2, 3):
            named = now.changed(before, hops, None if followed is KINDS else followed)
            assert list(named) == ["a", "b", "c"]
            fanouts = {kind: [-1] * hops for kind in followed}
            samplers = [HeteroNeighborSampler(one, fanouts) for one in (before, now)]
            for name, nodes in named.items():
                assert nodes.tolist() == sorted(set(nodes.tolist()))
                for node in set(range(5)) - set(nodes.tolist()):
                    samples = [one.sample({name: [node]}, key=1) for one in samplers]
                    for part in ("node", "edge"):
                        one, other = (getattr(s, part) for s in samples)
                        assert {k: v.tolist() for k, v in one.items()} == {
                            k: v.tolist() for k, v in other.items()
                        }
    # Each list that was changed is named, and nothing that no path leads to.
    near = now.changed(before)
    for kind in KINDS:
        for node in range(5):
            if before[kind].in_edges(node).tolist() != now[kind].in_edges(node).tolist():
                assert node in near[kind[2]]
    touched = {(kind[2], dst) for one in later for half in one for kind, _, dst in half}
    assert {(name, node) for name, ids in near.items() for node in ids.tolist()} <= touched


def test_of_many_types_bad_arguments_are_named() -> None:
    graph = DynamicHeteroGraph({"a": 3}, [("a", "x", "a")], 16, layout="csc")
    graph["a", "x", "a"].insert([0], [1])
    now = graph.snapshot()
    assert now.changed(0)["a"].tolist() == [1]
    assert now.changed(0, hops=0)["a"].tolist() == []
    with pytest.raises(errors.LayoutError, match="make another one with layout='both'"):
        now.changed(0, hops=2)
    with pytest.raises(errors.OutOfRangeError, match="after that of the snapshot"):
        now.changed(now.commit + 1)
    with pytest.raises(errors.InvalidArgumentError, match="edge type"):
        now.changed(0, edge_types=[("a", "no", "a")])
    with pytest.raises(errors.InvalidArgumentError, match="another graph"):
        now.changed(DynamicHeteroGraph({"a": 3}, [("a", "x", "a")], 16).snapshot())
