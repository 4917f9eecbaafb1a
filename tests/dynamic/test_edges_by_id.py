"""Edges of live graphs by their ids: ends, and what samples leave out, while the graph changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.processes import in_fork

from aethergraph import DynamicGraph, DynamicHeteroGraph, NeighborSampler, errors
from aethergraph.dynamic import edge_ends

NODES = 5
pairs = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=6)


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(st.tuples(pairs, pairs, st.booleans()), max_size=6),
    order=st.sampled_from(["id", "time"]),
    layout=st.sampled_from(["csc", "csr", "both"]),
    slack=st.sampled_from([0, 1 << 20]),
)
def test_ends_are_those_of_the_edges_that_there_are(
    steps: Any, order: Any, layout: Any, slack: int
) -> None:
    graph = DynamicGraph(NODES, 16, order=order, layout=layout, huge_pages=False)
    model: dict[int, tuple[int, int]] = {}
    shots: list[tuple[Any, dict[int, tuple[int, int]]]] = []
    before, edge_ends._SLACK = edge_ends._SLACK, slack
    try:
        for inserted, deleted, asks in steps:
            for edge, pair in zip(graph.insert_edges(*zip2(inserted)), inserted, strict=True):
                model.setdefault(int(edge), pair)
            graph.delete_edges(*zip2(deleted))
            model = {edge: pair for edge, pair in model.items() if pair not in deleted}
            if asks:
                shots.append((graph.snapshot(), dict(model)))
                check(*shots[-1])
        for shot in reversed(shots):  # older ones, once the table has later edges
            check(*shot)
    finally:
        edge_ends._SLACK = before


def zip2(found: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [pair[0] for pair in found], [pair[1] for pair in found]


def check(now: Any, model: dict[int, tuple[int, int]]) -> None:
    ids = sorted(model)
    assert [one.tolist() for one in now.edge_ends(ids)] == list(zip2([model[e] for e in ids]))
    for edge in set(range(now.end_edge_ids)) - set(ids):
        with pytest.raises(errors.OutOfRangeError, match=rf"edges\[{len(ids)}\] = {edge} "):
            now.edge_ends([*ids, edge])
    if now.layout == "csr" or not ids:
        return
    left_out = ids[::2]
    sampler = NeighborSampler(now, [-1])
    for node in range(NODES):
        drawn = sampler.sample([node], key=1, exclude=left_out).edge.tolist()
        wanted = [e for e in ids if model[e][1] == node and e not in left_out]
        assert sorted(drawn) == wanted


@pytest.mark.forks
def test_a_forked_child_begins_anew() -> None:
    graph = DynamicGraph(NODES, 16)
    graph.insert_edges([0, 1], [1, 2])
    assert graph.edge_ends([1])[0].tolist() == [1]
    with graph._kind.ends._lock:  # as if another thread were reading
        assert in_fork(lambda: graph.edge_ends([0])[1].tolist()) == [1]


def test_an_older_snapshot_has_what_was_deleted_before_anybody_asked() -> None:
    graph = DynamicGraph(5, 16, layout="csr", order="time", huge_pages=False)
    ids = graph.insert_edges([0, 1, 2], [3, 3, 4])
    before = graph.snapshot()
    graph.delete_edge(1, 3)
    assert [own.tolist() for own in graph.edge_ends(ids[[0, 2]])] == [[0, 2], [3, 4]]
    assert [own.tolist() for own in before.edge_ends(ids)] == [[0, 1, 2], [3, 3, 4]]
    with pytest.raises(errors.OutOfRangeError):
        graph.edge_ends(ids)


def test_ids_of_a_type_end_behind_all_that_were_inserted() -> None:
    kinds = [("a", "x", "b"), ("b", "y", "a")]
    graph = DynamicHeteroGraph({"a": NODES, "b": NODES}, kinds, 8, huge_pages=False)
    graph[kinds[0]].insert([0, 1, 2], [0, 1, 2])
    with graph.snapshot() as before:
        graph[kinds[0]].delete([1, 2], [1, 2])
        graph[kinds[1]].insert([0], [0])
        now = graph.snapshot()
        assert [now[kind].end_edge_ids for kind in kinds] == [3, 1]
        assert [before[kind].end_edge_ids for kind in kinds] == [3, 0]
        assert [ends.tolist() for ends in before[kinds[0]].edge_ends([2, 0])] == [[2, 0], [2, 0]]
