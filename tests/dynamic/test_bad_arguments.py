"""Bad input of live graphs: a named error with value and position, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.live import Form, Model, check, insert, make_live, random_edges
from support.strategies import examples

from aethergraph import DynamicGraph, DynamicHeteroGraph, errors

FULL = Form("time", timed=True, weighted=True, noted=True)
GOOD: dict[str, Any] = {"time": [1], "weight": [1.0], "edge_attrs": {"note": [1]}}
Call = Callable[[DynamicGraph], Any]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_vertices": -1}, "num_vertices"),
        ({"num_vertices": 1.5}, "num_vertices"),
        ({"num_vertices": "7"}, "num_vertices"),
        ({"num_vertices": True}, "num_vertices"),
        ({"num_vertices": 2**32}, "num|nodes|2\\^32|4294967"),
        ({"arena_mb": 0}, "arena_mb = 0 is not in 1..32768"),
        ({"arena_mb": -1}, "arena_mb = -1 is not in 1..32768"),
        ({"arena_mb": 2**20}, "arena_mb = 1048576"),
        ({"arena_mb": None}, "arena_mb"),
        ({"layout": "coo"}, "layout"),
        ({"order": "random"}, "order"),
        ({"edge_time": "float64", "order": "time"}, "edge_time"),
        ({"edge_time": "datetime64", "order": "time"}, "edge_time"),
        ({"edge_time": "int64"}, "order='time'"),
        ({"edge_weight": "float64"}, "edge_weight"),
        ({"edge_weight": 3}, "edge_weight"),
        ({"edge_attrs": [("e", 1)]}, "edge_attrs"),
        ({"edge_attrs": {"": ((), "int64")}}, "cannot be a name"),
        ({"edge_attrs": {"edge_time": ((), "int64")}}, "cannot be a name"),
        ({"edge_attrs": {"e": ((), "U3")}}, r"edge_attrs\['e'\]"),
        ({"edge_attrs": {"e": ((-1,), "int64")}}, r"edge_attrs\['e'\]"),
        ({"edge_attrs": {"e": 4}}, r"edge_attrs\['e'\]"),
        ({"edge_id_bytes": 2}, "edge_id_bytes = 2"),
        ({"edge_id_bytes": None}, "edge_id_bytes"),
        ({"edge_id_bytes": 4.5}, "edge_id_bytes"),
        ({"max_snapshot_age": -1}, "max_snapshot_age"),
        ({"max_snapshot_age": 0}, "max_snapshot_age = 0.0 is not above 0 and below 1e9 seconds"),
        ({"max_snapshot_age": float("nan")}, "max_snapshot_age"),
        ({"max_nodes": 2}, "max_nodes = 2 is below num_vertices = 3"),
        ({"max_nodes": 2**40}, "max_nodes"),
        ({"huge_pages": "a"}, "huge_pages must be True or False, got 'a'"),
        ({"mlock": 3}, "mlock must be True or False, got 3"),
        ({"mlock": np.ones(1, bool)}, "mlock must be True or False, got array"),
    ],
)
def test_constructor(options: Any, text: str) -> None:
    with pytest.raises(errors.AetherError, match=text):
        DynamicGraph(**{"num_vertices": 3, "arena_mb": 1, **options})


@pytest.mark.parametrize(
    ("nodes", "kinds", "options", "text"),
    [
        ({"a": -1}, [("a", "x", "a")], {}, r"num_nodes\['a'\]"),
        ({"": 1}, [("a", "x", "a")], {}, "no name of a node type"),
        ([3], [("a", "x", "a")], {}, "num_nodes"),
        (
            {"a": 1},
            [("a", "x", "b")],
            {},
            r"\('a', 'x', 'b'\) names the node type 'b', which num_nodes lacks; it has: 'a'",
        ),
        ({"a": 1}, [("a", "x")], {}, "edge_types"),
        ({"a": 1}, [], {}, "at least one edge type"),
        ({"a": 1}, {("a", "x", "a"): {"size": 3}}, {}, "options are"),
        ({"a": 1}, {("a", "x", "a"): {"layout": "x"}}, {}, "layout"),
        ({"a": 1}, {("a", "x", "a"): 7}, {}, "edge_types"),
        ({"a": 1}, 7, {}, "edge_types"),
        ({"a": 1}, [("a", "x", "a")], {"arena_mb": 0}, "arena_mb = 0"),
        ({"a": 1}, [("a", "x", "a")], {"max_snapshot_age": -3}, "max_snapshot_age"),
        ({"a": 5}, [("a", "x", "a")], {"max_nodes": 2}, "max_nodes"),
        (
            {"a": 1},
            {
                ("a", "x", "a"): {"edge_time": "datetime64[s]", "order": "time"},
                ("a", "y", "a"): {"edge_time": "datetime64[ms]", "order": "time"},
            },
            {},
            "units",
        ),
    ],
)
def test_typed_constructor(nodes: Any, kinds: Any, options: Any, text: str) -> None:
    with pytest.raises(errors.AetherError, match=text):
        DynamicHeteroGraph(nodes, kinds, **{"arena_mb": 1, **options})


def with_(**options: Any) -> dict[str, Any]:
    return {**GOOD, **options}


#: A call, the words of its error, and position and value that it carries.
BAD: list[tuple[Call, str, int | None, int | None]] = [
    (lambda g: g.insert_edges([0, 9], [1, 1], time=[1, 2], weight=[1, 1],
                              edge_attrs={"note": [1, 2]}), r"src\[1\] = 9", 1, 9),
    (lambda g: g.insert_edges([0], [-1], **GOOD), r"dst\[0\] = -1", 0, -1),
    (lambda g: g.insert_edge(9, 0, time=1, weight=1, edge_attrs={"note": 1}), "= 9", 0, 9),
    (lambda g: g.insert_edge(0, 2**70, time=1, weight=1, edge_attrs={"note": 1}), "dst", None,
     None),
    (lambda g: g.insert_edge(0.5, 0, time=1, weight=1, edge_attrs={"note": 1}), "src", None, None),
    (lambda g: g.insert_edge(np.float32(3.7), 0, time=1, weight=1, edge_attrs={"note": 1}),  # type: ignore[arg-type]
     "src must be an integer", None, None),
    (lambda g: g.delete_edge(2**64, 0), r"src\[0\] = 18446744073709551616 is above", 0, 2**64),
    (lambda g: g.insert_edges([0, 2**64], [1, 1], **GOOD), r"src\[1\] = 18446744073709551616 is", 1,
     2**64),
    (lambda g: g.insert_edges([0, 2**63, -1], [0] * 3, **GOOD), r"src\[1\] = .* above 2\*\*63", 1,
     2**63),
    (lambda g: g.has_edge(0, -(2**64)), r"v = -18446744073709551616 is not in|below 0", None, None),
    (lambda g: g.insert_edges([0], [1], **with_(time=[datetime(2026, 1, 1)])),
     r"\(datetime\): give np.array\(..., 'datetime64", None, None),
    (lambda g: g.insert_edges([0], [1], **with_(weight=[1e39])),
     r"= 1e\+39 is too large for float32", 0, None),
    (lambda g: g.insert_edge(None, 0, time=1, weight=1, edge_attrs={"note": 1}), "src", None, None),
    (lambda g: g.insert_edges([0, 1], [1], **GOOD), "src has 2 ids, but dst has 1", None, None),
    (lambda g: g.insert_edges([[0]], [1], **GOOD), "src", None, None),
    (lambda g: g.insert_edges([0.5], [1], **GOOD), "src", None, None),
    (lambda g: g.insert_edges([0], ["a"], **GOOD), "dst", None, None),
    (lambda g: g.insert_edges([0], [1], **with_(time=None)), "give time=", None, None),
    (lambda g: g.insert_edges([0], [1], **with_(time=[0.5])), "time must hold int", None, None),
    (lambda g: g.insert_edges([0], [1], **with_(time=[1, 2])), "time has 2", None, None),
    (lambda g: g.insert_edges([0], [1], **with_(time=np.array([3], "datetime64[s]"))),
     "edge_time='datetime64", None, None),
    (lambda g: g.insert_edges([0], [1], **with_(weight=None)), "give weight=", None, None),
    (lambda g: g.insert_edges([0], [1], **with_(weight=[-1.0])), r"weight\[0\]", 0, None),
    (lambda g: g.insert_edges([0], [1], **with_(weight=[np.nan])), r"weight\[0\]", 0, None),
    (lambda g: g.insert_edges([0], [1], **with_(weight=[1e300])), r"weight\[0\]", 0, None),
    (lambda g: g.insert_edges([0], [1], **with_(weight=["x"])), "weight", None, None),
    (lambda g: g.insert_edges([0], [1], **with_(edge_attrs=None)), "'note'", None, None),
    (lambda g: g.insert_edges([0], [1], **with_(edge_attrs=[1])), "by name", None, None),
    (lambda g: g.insert_edges([0], [1], **with_(edge_attrs={"note": [1], "z": [1]})), "'z'", None,
     None),
    (lambda g: g.insert_edges([0], [1], **with_(edge_attrs={"note": [[1]]})), "note has shape",
     None, None),
    (lambda g: g.insert_edges([0], [1], **with_(edge_attrs={"note": [0.5]})), "note has dtype",
     None, None),
    (lambda g: g.insert_edge(0, 1, **{**GOOD, "time": 1, "weight": 1, "edge_attrs": [1]}),
     "by name", None, None),
    (lambda g: g.delete_edges([9], [0]), r"src\[0\] = 9", 0, 9),
    (lambda g: g.delete_edges([0, 0], [0, -2]), r"dst\[1\] = -2", 1, -2),
    (lambda g: g.delete_edges([0], [0, 1]), "src has 1 ids, but dst has 2", None, None),
    (lambda g: g.delete_edges([0], [0], [1, 2]), "edge_ids has 2", None, None),
    (lambda g: g.delete_edges([0], [0], [10**9]), r"edge_ids\[0\] = 1000000000", 0, 10**9),
    (lambda g: g.delete_edges([0], [0], [-1]), r"edge_ids\[0\] = -1", 0, -1),
    (lambda g: g.delete_edge(0.5, 0), "src", None, None),
    (lambda g: g.add_nodes(-1, x=np.zeros((1, 2))), "count", None, None),
    (lambda g: g.add_nodes(1.5, x=np.zeros((1, 2))), "count", None, None),  # type: ignore[arg-type]
    (lambda g: g.add_nodes(1), "give x= with 1 rows", None, None),
    (lambda g: g.add_nodes(1, x=np.zeros((2, 2))), "x has shape", None, None),
    (lambda g: g.add_nodes(1, x=np.zeros((1, 2)), y=[1]), "'y'", None, None),
    (lambda g: g.add_nodes(20, x=np.zeros((20, 2))), "above the last", None, None),
    (lambda g: g.update_nodes([9], x=np.zeros((1, 2))), r"ids\[0\] = 9", 0, 9),
    (lambda g: g.update_nodes([0, -1], x=np.zeros((2, 2))), r"ids\[1\] = -1", 1, -1),
    (lambda g: g.update_nodes([0], z=[1]), "'z'", None, None),
    (lambda g: g.update_nodes([0], x=np.zeros(2)), "x has shape", None, None),
    (lambda g: g.update_nodes([0], x=[["a", "b"]]), "x", None, None),
    (lambda g: g.update_nodes([0.5], x=np.zeros((1, 2))), "ids", None, None),
    (lambda g: g.node_attrs.__setitem__("y", np.zeros(3)), "has 3 rows", None, None),
    (lambda g: g.node_attrs.__setitem__("", np.zeros(5)), "name", None, None),
    (lambda g: g.edge_attrs.__setitem__("y", np.zeros(5)), "edge_attrs=", None, None),
    (lambda g: g.has_edges([9], [0]), r"u\[0\] = 9", 0, 9),
    (lambda g: g.has_edge(0, 9), "= 9", 0, 9),
    (lambda g: g.in_neighbors(9), "9", None, 9),
    (lambda g: g.in_degrees([0, 9]), r"nodes\[1\] = 9", 1, 9),
    (lambda g: g.degree(9), "9", 0, 9),
    (lambda g: g.edge_ends([10**9]), r"edges\[0\]", 0, 10**9),
    (lambda g: g.features.gather([9]), "9", 0, 9),  # type: ignore[union-attr]
    (lambda g: g.edge_attrs["note"].gather([10**9]), "1000000000", 0, 10**9),
    (lambda g: g.to_graph("coo"), "layout", None, None),  # type: ignore[arg-type]
    (lambda g: g.set_offset("", 0, 1), "source = '' is no name of a stream", None, None),
    (lambda g: g.set_offset("\ud800", 0, 1), "is no name of a stream", None, None),
    (lambda g: g.to_graph(memory="lots"), "memory = 'lots' is not a size", None, None),
]  # fmt: skip


def filled() -> tuple[DynamicGraph, Model]:
    graph, model = make_live(FULL, 5, max_nodes=12), Model(FULL, 5)
    edges = random_edges(5, 40, 1)
    assert insert(graph, FULL, edges) == model.insert(edges)
    model.rows = [[float(node), 1.0] for node in range(5)]
    graph.features = np.array(model.rows)
    return graph, model


@pytest.mark.parametrize("number", range(len(BAD)))
def test_every_argument(number: int) -> None:
    call, text, position, value = BAD[number]
    graph, model = filled()
    with pytest.raises(errors.AetherError, match=text) as caught:
        call(graph)
    if position is not None:
        assert caught.value.position == position
    if value is not None:
        assert caught.value.value == value
    check(graph, model)


NO_IDS = [
    np.float32(3.7), np.float32(-0.5), np.float32("nan"), np.float64(2), 3.0, np.array(3.7),
    np.array("3"), True, np.bool_(True), np.array(True), "3", None, [1], np.array([1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("form", [Form(), Form("time"), Form("time", timed=True)])
def test_what_is_no_id_of_a_node(form: Form) -> None:
    """A single edge goes to the core without an array, which would refuse floats and bools."""
    graph = make_live(form, 5)
    given = {"time": 1} if form.timed else {}
    for value in NO_IDS:
        for ends in ((value, 1), (1, value)):
            with pytest.raises(errors.InvalidArgumentError, match="must be an integer"):
                graph.insert_edge(*ends, **given)
            with pytest.raises(errors.InvalidArgumentError), graph.transaction():
                graph.insert_edge(*ends, **given)
    assert graph.num_edges == 0


def test_integers_of_other_libraries_are_ids() -> None:
    graph = make_live(Form(), 5)
    for number, value in enumerate((np.int8(0), np.uint64(1), np.array(2), 3)):
        graph.insert_edge(value, value)
        assert graph.has_edge(number, number) and graph.num_edges == number + 1


@examples(60)
@given(st.lists(st.tuples(st.integers(0, len(BAD) - 1), st.booleans()), max_size=8))
def test_bad_calls_between_good_ones_change_nothing(steps: list[tuple[int, bool]]) -> None:
    graph, model = filled()
    for number, inside in steps:
        with pytest.raises(errors.AetherError):
            if inside:
                with graph.transaction():
                    graph.add_nodes(1, x=[[5.0, 5.0]])
                    graph.insert_edge(0, 5, time=1, weight=1, edge_attrs={"note": 1})
                    graph.update_nodes([0], x=[[7.0, 7.0]])
                    BAD[number][0](graph)
            else:
                BAD[number][0](graph)
        edges = random_edges(5, 3, number)
        assert insert(graph, FULL, edges) == model.insert(edges)
    check(graph, model)


def test_a_refused_change_leaves_the_transaction_of_another_thread_alone() -> None:
    graph = make_live(Form(), 3)
    with graph.transaction():
        graph.insert_edge(0, 1)
        with ThreadPoolExecutor(1) as pool, pytest.raises(errors.InvalidArgumentError):
            pool.submit(graph.insert_edges, [0], [1, 2]).result()
    assert graph.num_edges == 1


def test_transactions_do_not_nest() -> None:
    graph = make_live(Form(), 3)
    with pytest.raises(errors.InvalidArgumentError, match="open in this thread"):
        with graph.transaction(), graph.transaction():
            pass
    graph.insert_edge(0, 1)
    assert graph.num_edges == 1


def test_nodes_that_are_at_the_end_of_no_edge_type() -> None:
    graph = DynamicHeteroGraph({"a": 2, "b": 3}, [("a", "x", "a")], 1)
    with pytest.raises(errors.UnsupportedError, match="'b' is at the end of no edge type"):
        graph["b"].add(1)
    assert graph.num_nodes == {"a": 2, "b": 3}
    for call in (lambda: graph["c"], lambda: graph["a", "y", "a"], lambda: graph[7]):
        with pytest.raises((errors.AetherError, KeyError)):
            call()


def test_what_a_typed_live_graph_cannot() -> None:
    graph = DynamicHeteroGraph({"a": 3}, [("a", "x", "a")], 1)
    for call in (
        lambda: DynamicHeteroGraph.from_edges({("a", "x", "a"): ([0], [1])}),
        lambda: graph.permute({"a": [0, 1, 2]}),
        lambda: graph.with_attrs({}, {}),
    ):
        with pytest.raises(errors.UnsupportedError, match="live graph"):
            call()


def test_times_in_other_units() -> None:
    graph = DynamicGraph(3, 1, order="time", edge_time="datetime64[s]")
    graph.insert_edge(0, 1, time=np.datetime64(5, "m"))
    assert graph.edge_values["edge_time"].gather([0]).tolist() == [300]
    with pytest.raises(errors.InvalidArgumentError, match=r"time\[1\] cannot be told") as caught:
        graph.insert_edges([0, 1], [1, 2], time=np.array([1000, 1500], "datetime64[ms]"))
    assert caught.value.position == 1 and graph.num_edges == 1


@pytest.mark.parametrize("time", [-(2**63), np.int64(-(2**63)), np.datetime64("NaT", "s")])
def test_not_a_time(time: Any) -> None:
    graph = DynamicGraph(3, 1, order="time", edge_time="datetime64[s]")
    graph.insert_edge(0, 1, time=1 - 2**63)
    calls: list[Callable[[], Any]] = [
        lambda: graph.insert_edge(0, 1, time=time),
        lambda: graph.insert_edges([0], [1], time=[time]),
        lambda: graph.insert_edges([0], [1], time=np.array([time])),
    ]
    for call in calls:
        with pytest.raises(errors.InvalidArgumentError, match=r"time\[0\] .*must be known"):
            call()
    assert graph.num_edges == 1
    plain = DynamicGraph(3, 1, order="time", edge_time="int64")
    plain.insert_edge(0, 1, time=-(2**63))  # a number like any other
    assert plain.edge_values["edge_time"].gather([0]).tolist() == [-(2**63)]


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "int8", "int64"])
def test_rows_of_integers_go_by_their_values(dtype: str) -> None:
    graph = DynamicGraph(3, 1)
    graph.node_attrs["u"] = np.zeros(3, dtype)
    graph.update_nodes([0, 1], u=[3, 100])
    graph.update_nodes([2], u=np.array([7], np.uint64))
    assert graph.node_attrs["u"].gather([0, 1, 2]).tolist() == [3, 100, 7]
    last = int(np.iinfo(dtype).max)
    graph.update_nodes([0], u=np.array([last], "int64" if dtype != "uint64" else dtype))
    bad = [2**64 - 1] if dtype == "int64" else [-1] if dtype[0] == "u" else [last + 1]
    with pytest.raises(errors.OutOfRangeError, match=rf"u\[1\] .*{dtype} does not hold") as caught:
        graph.update_nodes([0, 1], u=np.array([1, *bad], "uint64" if dtype == "int64" else "int64"))
    assert caught.value.position == 1
    assert graph.node_attrs["u"].gather([0, 1]).tolist() == [last, 100]
    with pytest.raises(errors.InvalidArgumentError, match="u has dtype float64"):
        graph.update_nodes([0], u=[1.0])


def test_rows_of_floats_may_be_infinite_but_not_by_overflow() -> None:
    graph = DynamicGraph(3, 1)
    graph.node_attrs["f"] = np.zeros(3, np.float32)
    with pytest.raises(errors.OutOfRangeError, match=r"f\[0\]"):
        graph.update_nodes([0], f=np.array([1e60]))
    graph.update_nodes([0], f=[np.inf])
    assert graph.node_attrs["f"].gather([0]).tolist() == [np.inf]


def test_messages_have_the_names_of_python() -> None:
    graph = DynamicGraph(10, 1, order="time", max_nodes=12, huge_pages=False)
    with pytest.raises(errors.OutOfMemoryError, match="raise arena_mb") as full:
        for _ in range(100):
            graph.insert_edges(np.arange(10_000) % 10, np.arange(10_000) % 10)
    assert "arena_bytes" not in str(full.value)
    for count in (3, 2**60):  # there is no memory for so many ids
        with pytest.raises(errors.LimitError, match="max_nodes = 12"):
            graph.add_nodes(count)


def test_a_budget_for_mapped_lists_is_refused_at_once(tmp_path: Any) -> None:
    path = tmp_path / "live"
    with pytest.raises(errors.InvalidArgumentError, match="goes with storage='uring' or 'auto'"):
        DynamicGraph.open(path, 5, arena_mb=4, memory_budget="1M")
    assert not path.exists()


def test_lists_that_are_not_kept_are_named() -> None:
    kind = ("a", "x", "a")
    typed = DynamicHeteroGraph({"a": 1}, [kind], 1, layout="csc")
    text = r"a', 'x', 'a'\): out-neighbours are not stored: .* make it with layout='csr' or"
    with pytest.raises(errors.LayoutError, match=text):
        typed[kind].topology("csr")
    graph = DynamicGraph(1, 1, layout="csr")
    with pytest.raises(errors.LayoutError, match=r"^in-neighbours are not stored: this graph has"):
        graph.topology()
