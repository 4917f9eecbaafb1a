"""Ctrl-C at the beginning of each Python function that a change runs through.

What a signal handler raises comes between two instructions, most often where a function begins.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aethergraph
from aethergraph import DynamicGraph
from aethergraph.dynamic.directory import LiveDirectory

PACKAGE = str(Path(aethergraph.__file__).parent)
ROW = np.ones((1, 1), np.float32)


OPTIONS: dict[str, Any] = {"arena_mb": 16, "huge_pages": False}


def make(path: Path | None) -> DynamicGraph:
    graph = (
        DynamicGraph(10, **OPTIONS)
        if path is None
        else DynamicGraph.open(path, 10, durability="none", **OPTIONS)
    )
    graph.node_attrs["x"] = np.zeros((10, 1), np.float32)
    return graph


def is_own(frame: Any) -> bool:
    """Return whether a function is of the package, or was generated for a class of it."""
    file = frame.f_code.co_filename
    if file.startswith("<") and frame.f_back is not None:  # __init__ of a dataclass, say
        file = frame.f_back.f_code.co_filename
    return bool(file.startswith(PACKAGE))


def interrupted(call: Callable[[], object], at: int, names: tuple[str, ...] = ()) -> bool:
    """Return whether ``call`` ran into the ``at``-th beginning of a function, where it ended.

    If there are names, only functions of these count.
    """
    left = at

    def interrupt(frame: Any, event: str, _: object) -> Any:
        nonlocal left
        code = frame.f_code
        # What a trace function raises where a generator goes on would skip its finally.
        if event == "call" and not code.co_flags & inspect.CO_GENERATOR:
            left -= (not names or code.co_name in names) and is_own(frame)
            if left == 0:
                left = -1
                raise KeyboardInterrupt
        return None

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return left < 0


def until_uncut(attempt: Callable[[int], bool], step: int = 1) -> None:
    """Call ``attempt`` with each number from 1 on, until it says that nothing was interrupted."""
    assert not all(attempt(at) for at in range(1, 1000, step)), "it never went through"


def transaction(graph: DynamicGraph) -> None:
    with graph.transaction():
        graph.insert_edges([1], [2])
        graph.update_nodes([1], x=ROW)
        graph.delete_edges([3], [2])
        graph.set_offset("s", 0, 3)


CHANGES: dict[str, Callable[[DynamicGraph], object]] = {
    "insert_edges": lambda graph: graph.insert_edges([1, 3], [2, 4]),
    "insert_edge": lambda graph: graph.insert_edge(1, 2),
    "delete_edges": lambda graph: graph.delete_edges([1], [2]),
    "add_nodes": lambda graph: graph.add_nodes(1, x=ROW),
    "update_nodes": lambda graph: graph.update_nodes([1], x=ROW),
    "transaction": transaction,
}


def state_of(graph: DynamicGraph) -> tuple[Any, ...]:
    """Return all that the changes may change."""
    src, dst, _ = graph.snapshot().edge_list()
    rows = graph.node_attrs["x"].gather(range(graph.num_nodes))[:, 0].tolist()
    return sorted(zip(src.tolist(), dst.tolist(), strict=True)), rows, graph.offsets("s")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # finalizers
@pytest.mark.parametrize(
    ("name", "durable"), [*((name, False) for name in CHANGES), ("transaction", True)]
)
def test_a_change_is_whole_or_not_there_and_the_next_one_goes_on(
    name: str, durable: bool, tmp_path: Path
) -> None:
    change = CHANGES[name]
    graph = make(None)
    before = state_of(graph)
    change(graph)
    allowed = (before, state_of(graph))

    def attempt(at: int) -> bool:
        path = tmp_path / str(at) if durable else None
        graph = make(path)
        was_cut = interrupted(lambda: change(graph), at)
        found = state_of(graph)
        assert found in allowed[not was_cut :], at
        graph.insert_edges([5], [6])
        graph.update_nodes([2], x=7 * ROW)
        found = state_of(graph)
        assert (5, 6) in found[0] and found[1][2] == 7
        graph.close()
        if path is not None:
            with DynamicGraph.open(path) as again:
                assert state_of(again) == found, at
        return was_cut

    until_uncut(attempt, 7 if durable else 1)  # which takes its time to open


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # finalizers
@pytest.mark.parametrize("name", [name for name in CHANGES if name != "transaction"])
def test_an_interrupted_call_of_a_transaction_that_goes_on_is_whole_or_not_there(
    name: str, tmp_path: Path
) -> None:
    change = CHANGES[name]

    def fill(graph: DynamicGraph, calls: list[Callable[[DynamicGraph], object]]) -> tuple[Any, ...]:
        with graph.transaction():
            graph.insert_edge(1, 2)
            graph.update_nodes([1], x=3 * ROW)
            for call in calls:
                call(graph)
            graph.insert_edges([5], [6])
        return state_of(graph)

    allowed = (fill(make(None), []), fill(make(None), [change]))

    def attempt(at: int) -> bool:
        cuts: list[bool] = []
        graph = make(tmp_path / str(at) if at % 7 == 1 else None)
        found = fill(graph, [lambda g: cuts.append(interrupted(lambda: change(g), at))])
        assert found in allowed[not cuts[0] :], at
        graph.close()
        if at % 7 == 1:
            with DynamicGraph.open(tmp_path / str(at)) as again:
                assert state_of(again) == found, at
        return cuts[0]

    until_uncut(attempt)


def keys_of(graph: DynamicGraph) -> tuple[list[Any], list[float]]:
    count = graph.num_nodes
    rows = graph.node_attrs["x"].gather(range(count))[:, 0].tolist()
    return graph.ids.keys(range(count)), rows


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # finalizers
def test_keys_are_added_whole_or_not_at_all_and_only_once(tmp_path: Path) -> None:
    graph = DynamicGraph.open(tmp_path / "g.aegd", ids="str", durability="none", **OPTIONS)
    graph.node_attrs["x"] = np.zeros((0, 1), np.float32)

    def attempt(at: int) -> bool:
        old, new = [f"{at}{c}" for c in "ab"], [f"{at}{c}" for c in "cd"]
        graph.ids.add(old, x=np.ones((2, 1), np.float32))
        keys, rows = keys_of(graph)
        given = [new[0], old[0], new[1]]
        was_cut = interrupted(lambda: graph.ids.add(given, x=np.ones((3, 1))), at)
        added = graph.num_nodes > len(keys)
        assert keys_of(graph)[0] == (keys + new if added else keys), at
        # The index of keys knows what there is: nothing gets a second node.
        after = [*new, f"{at}e"]
        ids = graph.ids.add(after[::-1], x=np.ones((3, 1)))[::-1].tolist()
        assert graph.ids.lookup([*old, *after]).tolist() == [len(keys) - 2, len(keys) - 1, *ids]
        assert sorted(ids) == list(range(len(keys), len(keys) + 3)), at
        assert len(rows) == len(keys) and (was_cut or added)
        return was_cut

    until_uncut(attempt)
    found = keys_of(graph)
    graph.close()
    with DynamicGraph.open(tmp_path / "g.aegd", **OPTIONS) as again:
        assert keys_of(again) == found


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # finalizers
def test_rows_of_an_interrupted_update_are_nobody_elses() -> None:
    def attempt(at: int) -> bool:
        graph = make(None)
        graph.update_nodes([1], x=ROW)
        was_cut = interrupted(lambda: graph.update_nodes([1], x=2 * ROW), at)
        found = graph.node_attrs["x"].gather([1])[0, 0]
        assert found in (1, 2), at
        for _ in range(40):  # versions that nobody reads are used again
            graph.update_nodes([2], x=-ROW)
        assert graph.node_attrs["x"].gather([1])[0, 0] == found, at
        return was_cut

    until_uncut(attempt)


#: Functions that a merge closes and opens the log with, and goes on in other memory.
OF_LOG = ("_check", "become", "close_journal", "open_journal", "publish", "retire")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # finalizers
@pytest.mark.parametrize(("names", "step"), [((), 60), (OF_LOG, 1)])
def test_after_an_interrupted_merge_changes_go_into_the_log(
    names: tuple[str, ...], step: int, tmp_path: Path
) -> None:
    graph = make(tmp_path / "g.aegd")
    number, at, was_cut = 0, 1, True
    while was_cut:
        number, before = number + 1, graph.lsn
        graph.insert_edges([number % 10], [number // 10 % 10])
        was_cut = interrupted(graph.merge, at, names)
        graph.insert_edges([5], [6])
        graph.delete_edges([5], [6])
        assert graph.lsn == before + 3, at
        at += step
        if number % 10 == 0 or not was_cut:
            found = state_of(graph)
            graph.close()
            graph = DynamicGraph.open(tmp_path / "g.aegd", durability="none", **OPTIONS)
            assert state_of(graph) == found, at
    graph.close()


def test_an_open_that_was_interrupted_leaves_no_log_locked(tmp_path: Path) -> None:
    make(tmp_path / "g.aegd").close()
    kept: list[BaseException] = []  # as by a notebook, with all that was made

    def attempt() -> None:
        try:
            DynamicGraph.open(tmp_path / "g.aegd", **OPTIONS)
        except BaseException as error:
            kept.append(error)
            raise

    assert interrupted(attempt, 1, ("publish",))
    with DynamicGraph.open(tmp_path / "g.aegd", **OPTIONS) as graph:
        graph.insert_edge(1, 2)
    assert kept


#: Functions that a close waits, gives up what it holds, and forgets it with.
OF_CLOSE = (
    "close", "check_not_merging", "_store", "flush", "close_journal", "withdraw", "unlock",
    "forget",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # finalizers
def test_a_close_that_was_interrupted_is_done_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "g.aegd"
    make(path).close()

    def attempt(at: int) -> bool:
        graph = DynamicGraph.open(path, **OPTIONS)
        graph.insert_edge(at % 10, 1)
        last = graph.lsn
        kept: list[BaseException] = []  # as by a notebook

        def close() -> None:
            try:
                graph.close()
            except BaseException as error:
                kept.append(error)
                raise

        was_cut = interrupted(close, at, OF_CLOSE)
        graph.close()
        assert graph.closed
        found = LiveDirectory(path)
        assert found.writer() is None and found.published() is None
        assert found.current()["closed"] == last, at
        return was_cut

    until_uncut(attempt)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # finalizers
def test_attributes_are_there_if_the_log_says_so(tmp_path: Path) -> None:
    names = ("_check", "_note", "log_rows_begin", "log_rows_end", "note", "publish", "update")
    graph = make(tmp_path / "g.aegd")

    def assign(name: str, rows: Any) -> None:
        graph.node_attrs[name] = rows

    def begin(at: int) -> bool:
        return interrupted(lambda: assign(f"begin{at}", np.ones(10)), at, names)

    def end(at: int) -> bool:
        assign(f"end{at}", np.ones(10))
        return interrupted(lambda: assign(f"end{at}", None), at, names)

    until_uncut(begin)
    until_uncut(end)
    found = set(graph.node_attrs)
    graph.close()
    with DynamicGraph.open(tmp_path / "g.aegd", **OPTIONS) as again:
        assert set(again.node_attrs) == found
    assert {"begin1", "end1"} & found == {"end1"}
