"""Rows of nodes and edges: their versions, failed transactions, attributes that begin and end."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.live import Form, make_live
from support.processes import in_fork
from support.strategies import examples
from support.threads import repeating

from aethergraph import DynamicGraph, DynamicHeteroGraph, FeatureTable, errors
from aethergraph.dynamic import store
from aethergraph.dynamic.attrs import SnapshotRows
from aethergraph.dynamic.rows import GrowingRows
from aethergraph.features.adapters import as_row_source


def read(rows: GrowingRows, count: int, commit: int) -> list[float]:
    out = np.empty(count)
    rows.gather_into(np.arange(count), out, commit, lambda: None)
    return list(out.tolist())


@examples(200)
@given(data=st.data())
def test_versions_are_those_of_each_commit(data: st.DataObject) -> None:
    count = 5
    rows = GrowingRows((), "float64", count, as_row_source(np.arange(float(count)), "x"))
    now = [float(i) for i in range(count)]
    kept = {0: now}
    for step in range(1, data.draw(st.integers(1, 25))):
        commit, oldest = max(kept) + 1, min(kept)
        undo: list[Callable[[int], None]] = []
        changed = list(now)
        for _ in range(data.draw(st.integers(0, 3))):
            ids = data.draw(st.lists(st.integers(0, count - 1), unique=True))
            new = [step + i / 10 for i in ids]
            rows.change(np.array(ids, np.int64), np.array(new), commit, undo)
            for i, value in zip(ids, new, strict=True):
                changed[i] = value
        if data.draw(st.booleans()):
            for one in reversed(undo):
                one(commit - 1)
        else:
            now = kept[commit] = changed
        if data.draw(st.booleans()) and len(kept) > 1:
            del kept[oldest]
            rows.reclaim(min(kept))
        for commit, expected in kept.items():
            assert read(rows, count, commit) == expected


@given(updates=st.lists(st.lists(st.integers(0, 9), unique=True), max_size=8))
@examples(50)
def test_rows_that_have_changed_between_two_commits(updates: list[list[int]]) -> None:
    """Rows of undone transactions have not changed; rows that became what they were have."""
    graph = DynamicGraph(10, 16)
    graph.features = np.zeros((10, 2))
    snapshots = [graph.snapshot()]
    for ids in updates:
        graph.update_nodes(ids, x=np.ones((len(ids), 2)))
        with suppress(KeyError), graph.transaction():
            graph.update_nodes([3], x=np.ones((1, 2)))
            raise KeyError
        snapshots.append(graph.snapshot())
    for end, later in enumerate(snapshots):
        for begin, earlier in enumerate(snapshots[: end + 1]):
            rows = later.node_attrs["x"]
            assert isinstance(rows, SnapshotRows)
            wanted = sorted({row for ids in updates[begin:end] for row in ids})
            assert rows.changed(earlier.commit).tolist() == wanted


def test_a_version_that_does_not_exist_is_named() -> None:
    count = 4
    for damage in ("slots", "before"):
        rows = GrowingRows((), "float64", count, as_row_source(np.arange(float(count)), "x"))
        for commit in (1, 2):
            rows.change(np.array([2]), np.array([7.0 + commit]), commit, [])
        array = rows._slots(3) if damage == "slots" else rows._versions(3)[2]
        array[2] = rows._most_versions if damage == "slots" else 2**32 - 1
        with pytest.raises(errors.CorruptFileError, match="row 2 has a version that does") as got:
            read(rows, count, 0)
        assert got.value.value == 2


@pytest.mark.any_python
def test_versions_are_used_again() -> None:
    count = 2000
    graph = DynamicGraph(count, 1, max_nodes=count)
    graph.features = np.zeros((count, 1))
    room = graph._store.node_rows["node"]["x"]._most_versions // count
    with graph.snapshot() as held:
        with pytest.raises(errors.LimitError, match="release snapshots"):
            for step in range(1, room + 2):
                graph.update_nodes(range(count), x=np.full((count, 1), step))
        assert held.features is not None
        assert not held.features.gather(range(count)).any()
        assert graph.features is not None
        before = graph.features.gather([0, 3])
        assert before[0, 0] == before[1, 0] > room // 2
    for step in range(room, 3 * room):  # nobody reads the former ones any more
        graph.update_nodes(range(count), x=np.full((count, 1), step))
    assert graph.features.gather([2]).tolist() == [[3 * room - 1]]


def leave_overdue_snapshot(graph: DynamicGraph) -> Any:
    held = graph.snapshot()
    time.sleep(0.05)
    return held


def leave_killed_reader(graph: DynamicGraph) -> None:
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        held = graph.snapshot()
        os.write(tell, b"x")
        time.sleep(60)
        os._exit(held.num_edges)
    assert os.read(ready, 1) == b"x"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.forks
@pytest.mark.parametrize("leave", [leave_overdue_snapshot, leave_killed_reader])
@pytest.mark.parametrize("looks", [False, True])
def test_readers_that_have_ended_or_are_overdue_keep_no_versions(
    leave: Callable[[DynamicGraph], Any], looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are found before there is no room, in a transaction too, or now and then."""
    monkeypatch.setattr(store, "_LOOK_HARD_SECONDS", 0.0 if looks else math.inf)
    count = 3000
    graph = DynamicGraph(count, 1, max_nodes=count, max_snapshot_age=0.01)
    graph.features = np.zeros(count)
    rows = graph._store.node_rows["node"]["x"]
    left = leave(graph)
    # Overdue ones may keep 65,536 versions beside one of each row.
    most = 17 if left is None else 2 + 65_536 // count
    for step in range(40):
        with graph.transaction():
            graph.update_nodes(range(count), x=np.full(count, float(step)))
        assert rows.num_waiting <= most or not looks
    assert graph.features.gather([1, 2]).tolist() == [39.0, 39.0]
    del left


@pytest.mark.forks
def test_overdue_snapshots_live_on_while_there_is_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The versions that processes held which have ended are free."""
    monkeypatch.setattr(store, "_LOOK_HARD_SECONDS", 0.0)
    graph = DynamicGraph(100, 1, max_snapshot_age=0.01)
    graph.features = np.zeros(100)
    leave_killed_reader(graph)
    graph.update_nodes([1], x=[1.0])
    held = leave_overdue_snapshot(graph)
    with graph.reading():
        for step in range(60):
            graph.update_nodes([step % 3], x=[2.0])
        assert graph.features.gather([0, 1]).tolist() == [0.0, 1.0]
    assert held.features.gather([0, 1]).tolist() == [0.0, 1.0]
    assert graph.stats().snapshots == 1
    monkeypatch.setattr(store, "_KEPT_VERSIONS", -60)
    graph.update_nodes([1], x=[3.0])
    with pytest.raises(errors.SnapshotExpiredError, match="held too long"):
        held.features.gather([0, 1])


def test_rows_of_an_expired_snapshot_that_go_on_changing() -> None:
    """The versions before lead in circles once they are used again."""
    graph = DynamicGraph(4, 1, max_snapshot_age=0.001)
    graph.features = np.zeros(4)
    graph.update_nodes([2], x=[1.0])
    rows = graph.snapshot().features
    graph.update_nodes([2], x=[2.0])
    time.sleep(0.05)
    graph.reclaim()
    for step in range(200):
        graph.update_nodes([2], x=[float(step)])
    assert rows is not None
    with pytest.raises(errors.SnapshotExpiredError, match="held too long"):
        rows.gather([1, 2])


def test_versions_in_a_circle() -> None:
    """A walk along them ends, also where nobody notices that they are used again."""
    rows = GrowingRows((), "float64", 1, as_row_source(np.zeros(1), "x"))
    for commit in range(3, 6):
        rows.change(np.array([0]), np.ones(1), commit, [])
    rows._versions(4)[2][1] = 3
    with pytest.raises(errors.SnapshotExpiredError, match="commit 2 needs"):
        read(rows, 1, 2)
    assert read(rows, 1, 5) == [1.0]


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_two_changes_of_a_transaction_that_fails(error: type[BaseException]) -> None:
    graph = DynamicGraph(3, 1)
    graph.features = np.zeros(3)
    graph.update_nodes([0, 1], x=[1.0, 2.0])
    for _ in range(40):
        with pytest.raises(error), graph.transaction():
            graph.update_nodes([0, 1], x=[7.0, 7.0])
            graph.update_nodes([1, 2], x=[8.0, 8.0])
            raise error
        graph.update_nodes([2], x=[5.0])
    assert graph.features is not None
    assert graph.features.gather([0, 1, 2]).tolist() == [1.0, 2.0, 5.0]


def test_rows_and_edges_are_of_one_commit() -> None:
    graph = DynamicGraph(2, 1, edge_attrs={"e": ((2,), "float32")})
    graph.features = np.zeros((2, 1))
    held = []
    for step in range(30):
        with graph.transaction():
            graph.insert_edge(0, 1, edge_attrs={"e": [step, step]})
            graph.delete_edge(0, 1)
            (node,) = graph.add_nodes(1, x=[[step]])
            graph.insert_edge(node, 0, edge_attrs={"e": [step, -step]})
            graph.update_nodes([0, node], x=[[step], [step + 0.5]])
        held.append(graph.snapshot())
    for step, snapshot in enumerate(held):
        assert (snapshot.num_nodes, snapshot.num_edges) == (step + 3, step + 1)
        assert snapshot.features is not None
        assert snapshot.features.gather([0, step + 2]).tolist() == [[step], [step + 0.5]]
        with pytest.raises(errors.OutOfRangeError):
            snapshot.features.gather([step + 3])
        (edge,) = snapshot.in_edges(0)[-1:]
        assert snapshot.edge_attrs["e"].gather([edge]).tolist() == [[step, -step]]


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int8", "uint64", "bool"]
)
def test_every_dtype(dtype: str) -> None:
    graph = DynamicGraph(3, 1, edge_attrs={"e": ((2,), dtype)})
    bits = dtype == "bfloat16"
    rows = np.array([[1, 0], [0, 1], [1, 1]], "uint16" if bits else dtype)
    store = FeatureTable.from_array(rows, dtype=dtype if bits else None)
    graph.node_attrs["y"] = store
    graph.add_nodes(1, y=rows[:1])
    graph.update_nodes([0], y=rows[2:])
    graph.insert_edges([0, 1], [1, 2], edge_attrs={"e": rows[:2]})
    snapshot = graph.snapshot()
    for one in (graph, snapshot):
        assert one.node_attrs["y"].dtype_name == one.edge_attrs["e"].dtype_name == dtype
        expected = rows[[2, 1, 2, 0]]
        assert one.node_attrs["y"].gather(range(4)).tobytes() == expected.tobytes()
        assert one.edge_attrs["e"].gather([1, 0]).tobytes() == rows[[1, 0]].tobytes()
    copy = graph.to_graph()
    assert copy.node_attrs["y"].gather(range(4)).tobytes() == rows[[2, 1, 2, 0]].tobytes()
    assert copy.edge_attrs["e"].gather([0, 1]).tobytes() == rows[:2].tobytes()


def test_attributes_come_and_go_and_snapshots_keep_theirs(tmp_path: Any) -> None:
    graph = DynamicGraph(3, 1)
    before = graph.snapshot()
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(3, 2))
    graph.features = FeatureTable.load(tmp_path / "x.npy")
    graph.node_attrs["y"] = [4, 5, 6]
    assert sorted(graph.node_attrs) == ["x", "y"] and len(graph.node_attrs) == 2
    assert "LiveAttributes" in repr(graph.node_attrs) and "LiveRows" in repr(graph.features)
    between = graph.snapshot()
    graph.update_nodes([1], x=[[9.0, 9.0]])
    del graph.node_attrs["y"]
    graph.features = None
    assert graph.features is None and not graph.node_attrs
    assert not before.node_attrs and before.features is None
    assert between.node_attrs["y"].gather([2]).tolist() == [6]
    assert between.features is not None
    assert between.features.gather([1, 2]).tolist() == [[2.0, 3.0], [4.0, 5.0]]
    with pytest.raises(KeyError, match="no node attribute 'y'"):
        del graph.node_attrs["y"]
    graph.add_nodes(2)
    with pytest.raises(errors.InvalidArgumentError, match=r"has 3 rows, but num_nodes = 5"):
        graph.features = np.zeros((3, 1))


def test_parts_of_a_typed_snapshot_are_made_when_asked_for_and_as_of_its_commit() -> None:
    graph = DynamicHeteroGraph({"a": 3, "b": 4}, [("a", "to", "b"), ("b", "back", "a")])
    graph["a"].attrs["x"] = np.arange(3.0)
    graph["a"].attrs["gone"] = np.arange(3)
    before = graph.snapshot()
    graph["a"].attrs["y"] = np.arange(3)
    graph["a"].attrs["gone"] = None
    graph["a", "to", "b"].insert([0], [1])
    after = graph.snapshot()
    assert not before._nodes._made and not before._edges._made  # type: ignore[attr-defined]
    assert set(before["a"].attrs) == {"x", "gone"} and set(after["a"].attrs) == {"x", "y"}
    assert before["a", "to", "b"].num_edges == 0 and after["a", "to", "b"].num_edges == 1
    assert list(after._nodes._made) == ["a"]  # type: ignore[attr-defined]
    assert before.node_types == ["a", "b"] and ("b", "back", "a") in before
    with pytest.raises(errors.InvalidArgumentError, match="'c'"):
        before["c"]


def test_attributes_begin_and_end_outside_of_transactions() -> None:
    graph = DynamicGraph(3, 1)
    with pytest.raises(errors.InvalidArgumentError, match="transaction"), graph.transaction():
        graph.add_nodes(1)
        graph.features = np.zeros((3, 1))
    assert graph.num_nodes == 3 and graph.features is None
    with graph.transaction():
        graph.add_nodes(1)
    graph.features = np.zeros((4, 1))
    assert graph.features.gather([3]).tolist() == [[0.0]]


@pytest.mark.forks
def test_a_child_that_was_forked_inside_a_transaction_leaves_it_alone() -> None:
    graph = make_live(Form(), 3)
    graph.features = np.zeros(3)
    opened = graph.transaction()
    with opened:
        graph.update_nodes([1], x=[5.0])
        graph.insert_edge(0, 1)
        in_fork(lambda: opened.__exit__(KeyError, KeyError(), None))  # as errors in a child go
    assert graph.features is not None
    assert graph.features.gather([0, 1, 2]).tolist() == [0.0, 5.0, 0.0]
    assert graph.num_edges == 1


def test_attributes_begin_while_others_take_snapshots() -> None:
    graph = DynamicGraph(3, 1)

    def look() -> None:
        for rows in graph.snapshot().node_attrs.values():
            assert rows.gather([2]).shape == (1,)

    with repeating(look):
        for number in range(200):
            graph.node_attrs[f"a{number % 40}"] = np.zeros(3)
            if number % 3 == 0:
                del graph.node_attrs[f"a{number % 40}"]
