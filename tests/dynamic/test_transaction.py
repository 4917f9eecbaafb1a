"""Transactions of live graphs: a call that fails inside, and is caught, undoes itself alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.live import Edge, Form, Model, check, insert, make_live, random_edges
from support.strategies import examples

from aethergraph import DynamicGraph, DynamicHeteroGraph, errors
from aethergraph.dynamic.journal import Journal
from aethergraph.dynamic.rows import GrowingRows

Call = Callable[[DynamicGraph], object]
FORMS = [
    Form(order, layout, timed=order == "time", weighted=True, noted=noted)
    for order in ("id", "time")
    for layout in ("csc", "both")
    for noted in (False, True)
]
MOST_NODES = 12


def refuse(*_: Any, **__: Any) -> None:
    raise errors.LimitError("no room")


def refused_rows(call: Call) -> Call:
    """Return a call that fails when it writes rows: edges are in their lists then."""

    def fail(graph: DynamicGraph) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GrowingRows, "put", refuse)
            patch.setattr(GrowingRows, "put_one", refuse)
            call(graph)

    return fail


def single(form: Form, edge: Edge) -> dict[str, Any]:
    """Return the arguments of ``insert_edge`` besides the ends."""
    columns = {
        name: values[0] for name, values in form.columns([edge]).items() if name != "edge_attrs"
    }
    return {**columns, "edge_attrs": {"note": edge.note}} if form.noted else columns


def bad_calls(form: Form) -> list[Call]:
    """Return calls that fail, for a graph of at least two nodes with rows ``x`` and ``y``."""
    edge, edges = single(form, Edge(0, 1)), form.columns([Edge(0, 1)])
    many = np.zeros(200_000, np.int64)
    x, y = np.ones((1, 2)), np.ones(1)
    much = {name: many if name != "edge_attrs" else {"note": many} for name in edges}
    many_nodes = {"x": np.ones((MOST_NODES + 1, 2)), "y": np.ones(MOST_NODES + 1)}
    calls: list[Call] = [
        lambda g: g.insert_edges([1], [0, 1], **edges),
        lambda g: g.insert_edges([0, 99], [0, 1], **form.columns([Edge(0, 0), Edge(99, 1)])),
        lambda g: g.insert_edges([0], [1], **{**edges, "weight": [-1.0]}),
        lambda g: g.insert_edges([0], [1], **{**edges, "edge_attrs": {"nope": [1]}}),
        lambda g: g.insert_edge(0, 1, **{**edge, "weight": -1.0}),
        lambda g: g.insert_edge(0, 2**70, **edge),
        lambda g: g.insert_edge(0.5, 1, **edge),  # type: ignore[arg-type]
        lambda g: g.insert_edge(0, 99, **edge),
        lambda g: g.delete_edges([0], [0, 1]),
        lambda g: g.delete_edges([0, 99], [0, 1]),
        lambda g: g.delete_edges([0], [1], [2**40]),
        lambda g: g.delete_edge("a", 1),  # type: ignore[arg-type]
        lambda g: g.add_nodes(-1),
        lambda g: g.add_nodes(1, x=x),
        lambda g: g.add_nodes(MOST_NODES + 1, **many_nodes),
        lambda g: g.update_nodes([99], x=x),
        lambda g: g.update_nodes([1], x=x, y=x),
        lambda g: g.update_nodes([1], nope=[1]),
        lambda g: g.node_attrs.__setitem__("z", np.zeros(g.num_nodes)),
        lambda g: g.set_offset("s", -1, 0),
        lambda g: g.set_watermark("s", 2**62),
        refused_rows(lambda g: g.add_nodes(1, x=x, y=y)),
    ]  # fmt: skip
    if form.order == "time":  # else edges may be there already
        calls += [
            refused_rows(lambda g: g.insert_edges([0], [1], **edges)),
            refused_rows(lambda g: g.insert_edge(0, 1, **edge)),
            lambda g: g.insert_edges(many, many, **much),  # the arena is full
        ]
    return calls


def change(graph: DynamicGraph, model: Model, seed: int) -> None:
    """Change something in both."""
    rng, count = np.random.default_rng(seed), model.num_nodes
    edges = random_edges(count, int(rng.integers(0, 20)), seed)
    kind = seed % 5
    if kind == 0:
        assert insert(graph, model.form, edges) == model.insert(edges)
    elif kind == 1:
        for edge in edges:
            (expected,) = model.insert([edge])
            assert graph.insert_edge(edge.src, edge.dst, **single(model.form, edge)) == expected
    elif kind == 2:
        pairs = [(edge.src, edge.dst) for edge in edges]
        assert graph.delete_edges(*zip(*pairs, strict=True) if pairs else ([], [])) == model.delete(
            pairs
        )
    elif kind == 3 and count < MOST_NODES:
        row = rng.random(2)
        graph.add_nodes(1, x=[row], y=[seed])
        model.num_nodes += 1
        assert model.rows is not None
        model.rows.append(row.tolist())
    else:
        assert model.rows is not None
        row = rng.random(2)
        graph.update_nodes([seed % count], x=[row])
        model.rows[seed % count] = row.tolist()


@examples(80)
@given(
    form=st.sampled_from(FORMS),
    steps=st.lists(st.tuples(st.integers(0, 2**31), st.lists(st.integers(0, 99), max_size=2))),
    in_directory=st.booleans(),
)
def test_a_script_is_that_without_its_bad_calls(
    form: Form, steps: list[tuple[int, list[int]]], in_directory: bool
) -> None:
    """Undo calls that are refused and calls that fail midway, in memory and in the log."""
    bad, model = bad_calls(form), Model(form, 3)
    model.rows = [[float(node), 0.5] for node in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        path, options = Path(folder) / "g.aegd", {"arena_mb": 1, "huge_pages": False}
        graph = (
            DynamicGraph.open(
                path, 3, max_nodes=MOST_NODES, durability="none", **options, **form.options
            )
            if in_directory
            else make_live(form, 3, 1, max_nodes=MOST_NODES)
        )
        graph.features = np.array(model.rows)
        graph.node_attrs["y"] = np.zeros(3)
        with graph.transaction():
            for seed, numbers in steps:
                change(graph, model, seed)
                for number in numbers:
                    with pytest.raises(errors.AetherError):
                        bad[number % len(bad)](graph)
            graph.set_offset("s", 0, 7)
        check(graph, model)
        assert graph.offsets("s") == {0: 7} and graph.watermark is None
        if in_directory:
            graph.close()
            with DynamicGraph.open(path, **options) as again:
                check(again, model)
                assert again.offsets("s") == {0: 7}
        else:
            graph.close()


def test_a_refused_change_of_a_typed_graph_undoes_itself_alone() -> None:
    kind = ("a", "x", "b")
    graph = DynamicHeteroGraph({"a": 2, "b": 3}, [kind], 1)
    calls: list[Callable[[], object]] = [
        lambda: graph[kind].insert([0], [1, 2]),
        lambda: graph[kind].delete([0], [1, 2]),
        lambda: graph["b"].add(1, x=[1]),
        lambda: graph["b"].update([0], x=[1]),
        lambda: graph["nope"].add(1),
    ]
    with graph.transaction():
        for call in calls:
            graph[kind].insert([0], [graph["b"].add(1)[0]])
            with pytest.raises((errors.AetherError, KeyError)):
                call()
    assert graph["b"].num_nodes == 8
    assert graph[kind].neighbors(0).tolist() == [3, 4, 5, 6, 7]


def test_keys_that_are_refused_are_nobodys(tmp_path: Path) -> None:
    """Also where their nodes were added before: by a key at fault in the end, or a full disk."""
    path = tmp_path / "g.aegd"
    options: dict[str, Any] = {"order": "time", "node_time": "int64", "arena_mb": 1}
    with DynamicGraph.open(path, 0, ids="str", **options) as graph:
        with graph.transaction(), pytest.MonkeyPatch.context() as patch:
            assert graph.ids.add(["a"], time=[1]).tolist() == [0]
            with pytest.raises(errors.InvalidArgumentError, match=r"time\[1\] = 2, but the node"):
                graph.ids.add(["b", "a"], time=[3, 2])
            patch.setattr(Journal, "log_keys", refuse)
            with pytest.raises(errors.LimitError):
                graph.ids.add(["c", "d"], time=[4, 5])
            patch.undo()
            assert graph.ids.add(["e", "b"], time=[6, 7]).tolist() == [1, 2]
        assert graph.ids.keys(range(3)) == ["a", "e", "b"]
    with DynamicGraph.open(path, arena_mb=1) as graph:
        assert graph.ids.keys(range(3)) == ["a", "e", "b"] and graph.node_time.tolist() == [1, 6, 7]


def test_rows_that_have_no_room_undo_their_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo the first of two attributes, too: readers of any commit see nothing of it."""
    graph = DynamicGraph(3, 1)
    graph.node_attrs["x"], graph.node_attrs["y"] = np.zeros(3), np.zeros(3)
    take = GrowingRows._take
    held, rows_of_y = [graph.snapshot()], graph._store.node_rows["node"]["y"]

    def take_none_of_y(rows: GrowingRows, count: int) -> Any:
        return (refuse if rows is rows_of_y else take)(rows, count)

    for step in range(1, 40):
        with graph.transaction():
            graph.update_nodes([0, 1], x=[step, step])
            with monkeypatch.context() as patch, pytest.raises(errors.LimitError):
                patch.setattr(GrowingRows, "_take", take_none_of_y)
                graph.update_nodes([1, 2], x=[-1, -1], y=[-1, -1])
            held.append(graph.snapshot())
            graph.update_nodes([1], y=[step])
        held.append(graph.snapshot())
        graph.reclaim()
    for at, snapshot in enumerate(held):
        step = at // 2
        x, y = (snapshot.node_attrs[name].gather([0, 1, 2]).tolist() for name in "xy")
        assert (x, y) == ([step, step, 0], [0, step, 0])
