"""One edge at a time with time and weight: what a batch of the same edges makes, and as careful."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, DynamicHeteroGraph, errors

VALUES: dict[str, Any] = {"edge_time": "int64", "edge_weight": "float32"}
NODES, EDGES = 20, 400


def make(order: Any, **columns: Any) -> DynamicGraph:
    return DynamicGraph(NODES, 16, order=order, layout="both", huge_pages=False, **columns)


def columns_of(graph: DynamicGraph) -> list[list[Any]]:
    copy = graph.to_graph()
    src, dst = copy.edge_index()
    columns = [src.tolist(), dst.tolist()]
    for values in (copy.edge_time, copy.edge_weight):
        columns.append([] if values is None else np.asarray(values).tolist())
    return columns


def test_single_edges_are_those_of_a_batch() -> None:
    """Other columns are compared in test_model.py."""
    rng = np.random.default_rng(7)
    src, dst = rng.integers(0, NODES, (2, EDGES)).tolist()
    given: dict[str, list[Any]] = {
        "time": np.sort(rng.integers(-5, 50, EDGES)).tolist(),
        "weight": [0, 1, *rng.random(EDGES - 2).tolist()],
    }
    batch, singles = make("time", **VALUES), make("time", **VALUES)
    ids = batch.insert_edges(src, dst, **given).tolist()
    for i in range(EDGES):
        one = {name: values[i] for name, values in given.items()}
        if i % 7 == 0:  # numpy's scalars take the other way
            one = {name: np.asarray(value)[()] for name, value in one.items()}
        if i % 11 == 0:
            with singles.transaction():
                assert singles.insert_edge(src[i], dst[i], **one) == ids[i]
        else:
            assert singles.insert_edge(src[i], dst[i], **one) == ids[i]
    assert columns_of(singles) == columns_of(batch)


BAD: list[dict[str, Any]] = [
    {"time": None, "weight": 1.0},
    {"time": 1, "weight": None},
    {"time": 1.5, "weight": 1.0},
    {"time": 2**63, "weight": 1.0},
    {"time": 1, "weight": -1.0},
    {"time": 1, "weight": math.nan},
    {"time": 1, "weight": math.inf},
    {"time": 1, "weight": 1e39},
    {"time": 1, "weight": "1"},
]


def test_bad_values_are_named_and_change_nothing() -> None:
    graph = make("time", **VALUES)
    assert graph.insert_edge(0, 1, time=3, weight=0.5) == 0
    for values in BAD:
        with pytest.raises((errors.InvalidArgumentError, errors.OutOfRangeError)):
            graph.insert_edge(1, 2, **values)
    assert graph.insert_edge(1, 2, time=4, weight=3.4028234663852886e38) == 1
    assert columns_of(graph)[2:] == [[3, 4], [0.5, 3.4028234663852886e38]]


def test_what_is_undone_leaves_no_values_behind() -> None:
    graph = make("time", **VALUES)
    with pytest.raises(ZeroDivisionError), graph.transaction():
        for i in range(5):
            assert graph.insert_edge(i, 0, time=i, weight=9.0) == i
        raise ZeroDivisionError
    with graph.transaction():
        assert graph.insert_edge(1, 2, time=4, weight=0.5) == 0
        assert graph.insert_edges([2, 3], [0, 0], time=[5, 6], weight=[1, 2]).tolist() == [1, 2]
        assert graph.insert_edge(1, 2, time=7, weight=3.0) == 3
    edges = set(zip(*columns_of(graph), strict=True))
    assert edges == {(1, 2, 4, 0.5), (2, 0, 5, 1), (3, 0, 6, 2), (1, 2, 7, 3)}


def test_bad_ids_leave_no_values_behind() -> None:
    graph = make("id", edge_weight="float32")
    for src, dst in ((0, NODES), (-1, 0), (0, 2**70), (0.5, 0), (None, 0)):
        with pytest.raises((errors.InvalidArgumentError, errors.OutOfRangeError)):
            graph.insert_edge(src, dst, weight=9.0)  # type: ignore[arg-type]
    assert graph.insert_edge(1, 2, weight=0.5) == 0
    assert graph.insert_edge(1, 2, weight=8.0) == 0  # it is there already, and stays
    assert columns_of(graph) == [[1], [2], [], [0.5]]


@pytest.mark.parametrize("order", ["id", "time"])
@pytest.mark.parametrize("layout", ["both", "csc", "csr"])
@pytest.mark.parametrize("typed", [False, True])
def test_single_questions_are_answered_as_by_a_snapshot(
    order: Any, layout: Any, typed: bool
) -> None:
    options: dict[str, Any] = {"order": order, "layout": layout, "huge_pages": False}
    kind, counts = ("a", "to", "b"), {"a": NODES, "b": NODES}
    graph: Any = (
        DynamicHeteroGraph(counts, [kind], 16, **options)
        if typed
        else DynamicGraph(NODES, 16, **options)
    )
    edges = graph[kind] if typed else graph
    insert = edges.insert if typed else edges.insert_edges
    insert(*np.random.default_rng(3).integers(0, NODES, (2, 60)))

    def answers(source: Any) -> list[Any]:
        nodes = range(NODES)
        edges = [source.has_edge(u, v) for u in nodes for v in (u, (3 * u + 1) % NODES)]
        lists = [source.degree(node) for node in nodes]
        for layout in ("csc", "csr"):
            if source.layout in (layout, "both"):
                ask = source.in_neighbors if layout == "csc" else source.neighbors
                lists += [ask(node).tolist() for node in nodes]
        return lists + edges

    before = answers(edges)
    with graph.reading():
        with graph.transaction():
            insert([0], [7])
            assert answers(edges) == before  # not committed
        assert answers(edges) == before  # the block reads one commit
    with graph.snapshot() as snapshot:
        now = snapshot[kind] if typed else snapshot
        assert answers(edges) == answers(now) != before
        assert edges.has_edge(np.int64(0), np.int32(7)) is True and edges.degree(np.int64(0)) >= 1
        for node in (-1, NODES, 2**32, 2**70, True, 1.5, "1"):
            for ask in ("degree", "has_edge", "neighbors", "in_neighbors"):
                args = (0, node) if ask == "has_edge" else (node,)
                with pytest.raises(errors.AetherError) as of_graph:
                    getattr(edges, ask)(*args)
                with pytest.raises(errors.AetherError) as of_snapshot:
                    getattr(now, ask)(*args)
                assert str(of_graph.value) == str(of_snapshot.value)
    graph.close()
    for call in (edges.degree, edges.neighbors, edges.in_neighbors, lambda v: edges.has_edge(0, v)):
        with pytest.raises(errors.ClosedError):
            call(1)


@pytest.mark.parametrize("count", [0, 32, 33, 5000, 65536, 65537])
def test_neighbors_of_lists_of_any_length(count: int) -> None:
    graph = DynamicGraph(70_000, 16, layout="both", huge_pages=False)
    graph.insert_edges(np.full(count, 3), np.arange(count))
    ids = graph.neighbors(3)
    assert ids.dtype == np.int64 and np.array_equal(ids, np.arange(count))
    assert graph.in_neighbors(count - 1 if count else 0).tolist() == [3] * bool(count)
