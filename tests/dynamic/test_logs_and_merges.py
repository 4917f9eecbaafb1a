"""Merges beside those who flush, follow and read, and after the disk has failed."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.threads import WAIT, repeating, running

from aethergraph import DynamicGraph, _native
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.journal import Journal
from aethergraph.errors import ClosedError, InvalidArgumentError, StorageError, UnsupportedError

OPTIONS: dict[str, Any] = {"arena_mb": 16, "huge_pages": False, "max_nodes": 100}


def make(path: Path) -> DynamicGraph:
    graph = DynamicGraph.open(path, 100, durability="none", **OPTIONS)
    graph.features = np.arange(100, dtype=np.float32)[:, None]
    graph.insert_edge(0, 1)
    return graph


def test_flush_and_lsn_beside_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make(tmp_path / "g")
    graph.insert_edges(*np.random.default_rng(0).integers(0, 100, (2, 5000)))
    last, asked = graph.lsn, threading.Semaphore(0)

    def ask() -> None:
        assert graph.lsn == last
        asked.release()
        graph.flush()
        assert graph.lsn == last

    open_journal = _native.NativeLive.open_journal

    def wait(*args: Any) -> None:
        """Let the thread ask while the log is closed."""
        while asked.acquire(blocking=False):
            pass
        asked.acquire(timeout=0.2)  # it may be waiting in flush() already
        open_journal(*args)

    monkeypatch.setattr(_native.NativeLive, "open_journal", wait)
    reader = DynamicGraph.attach(tmp_path / "g")
    with repeating(ask):
        for _ in range(3):
            graph.merge()
            assert reader.lsn == reader.snapshot().lsn == last
    graph.close()


@pytest.mark.parametrize("closes", [False, True])
def test_a_signal_handler_within_a_flush_beside_a_merge(
    closes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make(tmp_path / "g")
    begun, near_its_end, flushing = threading.Event(), threading.Event(), list[int]()
    flush = _native.NativeLive.flush

    def flush_and_handle(self: _native.NativeLive) -> None:
        if flushing == [threading.get_ident()] and not begun.is_set():
            begun.set()
            assert near_its_end.wait(WAIT)
            time.sleep(0.2)
            if closes:
                graph.close()
            else:
                graph.insert_edge(2, 3)
        flush(self)

    def flush_until_closed() -> None:
        flushing.append(threading.get_ident())
        with suppress(ClosedError):
            graph.flush()

    monkeypatch.setattr(_native.NativeLive, "flush", flush_and_handle)
    monkeypatch.setattr(type(graph._store), "sum_weights", lambda *_: near_its_end.set())
    with running(flush_until_closed):
        assert begun.wait(WAIT)
        graph.merge()
    graph.close()
    with DynamicGraph.open(tmp_path / "g", **OPTIONS) as again:
        assert again.num_edges == (1 if closes else 2)


def test_a_flush_inside_a_transaction_beside_a_merge(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    asked = threading.Event()
    with running(lambda: graph.merge(lambda done, total: asked.set())):
        assert asked.wait(WAIT)
        with graph.transaction():
            graph.insert_edge(1, 2)
            graph.flush()
            assert graph.lsn == 2
    assert graph.lsn == 3
    graph.close()


def in_child(call: Any, *args: Any) -> tuple[Any, Any]:
    """Fork a child that runs ``call(pipe, *args)``; return it and the pipe."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=call, args=(there, *args), daemon=True)
    child.start()
    there.close()
    return child, here


# ---- readers behind a merge ----------------------------------------------------------------------


def _read(pipe: Any, path: Path) -> None:
    copy = DynamicGraph.attach(path)
    assert copy.num_edges == 1
    pipe.send(True)
    while pipe.recv():
        pipe.send((copy.num_edges, copy.features.gather([7])[0, 0]))


def change_and_ask(graph: DynamicGraph, child: Any, pipe: Any, path: Path) -> None:
    """Change a graph and merge it: the child that reads sees each change; so does the log."""
    for number in range(WAIT):
        graph.insert_edge(number, number)
        graph.update_nodes([7], x=[[number]])
        if number == 40:
            graph.merge()
        pipe.send(True)
        assert pipe.poll(WAIT)
        assert pipe.recv() == (number + 2, number)
    pipe.send(False)
    child.join(WAIT)
    assert DynamicGraph.attach(path).num_edges == 61
    graph.close()
    with DynamicGraph.open(path, **OPTIONS) as again:
        assert again.num_edges == 61 and again.features.gather([7])[0, 0] == 59


def test_a_memory_that_cannot_be_published_is_not_gone_on_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make(tmp_path / "g")
    child, pipe = in_child(_read, tmp_path / "g")
    assert pipe.poll(WAIT) and pipe.recv()

    def refuse(*_: Any) -> None:
        raise StorageError(errno.ENOSPC, "no space", "LIVE")

    monkeypatch.setattr(LiveDirectory, "publish", refuse)
    assert Path(graph.merge()).exists()
    monkeypatch.undo()  # there is room again
    change_and_ask(graph, child, pipe, tmp_path / "g")


@pytest.mark.parametrize("fails", ["interrupted", "disk"])
def test_readers_that_attach_before_a_merge_fails_follow_the_graph(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merge fails after it has published the coming memory, and before it goes on there."""
    graph = make(tmp_path / "g")
    graph.update_nodes([7], x=[[70]])
    children = list[Any]()

    def attach_and_fail(*_: Any) -> None:
        monkeypatch.undo()
        children.extend(in_child(_read, tmp_path / "g"))
        assert children[1].poll(WAIT) and children[1].recv()
        raise KeyboardInterrupt if fails == "interrupted" else StorageError(errno.EIO, "no", "LIVE")

    publish = LiveDirectory.publish

    def publish_and_fail(self: LiveDirectory, address: dict[str, Any]) -> None:
        publish(self, address)
        attach_and_fail()

    if fails == "interrupted":
        monkeypatch.setattr(_native.NativeLive, "become", attach_and_fail)
    else:
        monkeypatch.setattr(LiveDirectory, "publish", publish_and_fail)
    with pytest.raises(KeyboardInterrupt) if fails == "interrupted" else nullcontext():
        graph.merge()
    change_and_ask(graph, *children, tmp_path / "g")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StorageError(errno.EIO, "no", "wal")])
def test_the_log_goes_on_though_that_of_coming_lists_is_not_closed_well(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make(tmp_path / "g")
    close, closed = _native.NativeLive.close_journal, list[Any]()

    def close_and_fail(self: _native.NativeLive) -> None:
        close(self)
        closed.append(self)
        if len(closed) == 2:  # the first one was the graph's own
            raise error

    def refuse(*_: Any) -> None:
        raise StorageError(errno.ENOSPC, "no space", "LIVE")

    monkeypatch.setattr(_native.NativeLive, "close_journal", close_and_fail)
    monkeypatch.setattr(LiveDirectory, "publish", refuse)
    with nullcontext() if isinstance(error, StorageError) else pytest.raises(KeyboardInterrupt):
        graph.merge()
    monkeypatch.undo()
    assert len(closed) == 2
    graph.insert_edge(5, 6)
    graph.close()
    with DynamicGraph.open(tmp_path / "g", **OPTIONS) as again:
        assert again.num_edges == 2


def test_who_waits_while_the_log_is_given_up_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes in close() behind the log's end; others have waited for their turn."""
    graph = make(tmp_path / "g")
    close_log, closed, refused = Journal._close_log, threading.Event(), list[BaseException]()

    def close_and_stop(self: Journal) -> None:
        close_log(self)
        closed.set()
        time.sleep(0.3)  # the others come to their lock
        raise KeyboardInterrupt

    def change(call: Callable[[], object]) -> None:
        assert closed.wait(WAIT)
        with pytest.raises((InvalidArgumentError, UnsupportedError)) as error:
            call()
        refused.append(error.value)

    def insert() -> None:
        with graph.transaction():
            graph.insert_edges([4], [5])

    calls = (lambda: graph.insert_edge(2, 3), insert, lambda: graph.update_nodes([7], x=[[0]]))
    monkeypatch.setattr(Journal, "_close_log", close_and_stop)
    with running(*(partial(change, call) for call in calls)), pytest.raises(KeyboardInterrupt):
        graph.close()
    monkeypatch.undo()
    assert len(refused) == 3 and "has been closed" in str(refused[0])
    graph.close()
    with DynamicGraph.open(tmp_path / "g", **OPTIONS) as again:
        assert again.num_edges == 1 and again.features.gather([7])[0, 0] == 7


def test_a_signal_handler_cannot_write_between_two_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes within its own thread's merge() are refused: they would be in no log."""
    graph = make(tmp_path / "g")
    replayed, refused = Journal._replayed, list[BaseException]()

    def handle_and_replay(self: Journal, *args: Any) -> _native.NativeLive:
        for call in (
            lambda: graph.insert_edge(2, 3),
            lambda: graph.insert_edges([4], [5]),
            lambda: graph.delete_edges([0], [1]),
            lambda: graph.update_nodes([7], x=[[0]]),
        ):
            with pytest.raises(InvalidArgumentError, match="has been closed") as error:
                call()
            refused.append(error.value)
        return replayed(self, *args)

    monkeypatch.setattr(Journal, "_replayed", handle_and_replay)
    graph.merge()
    monkeypatch.undo()
    assert len(refused) == 4
    graph.insert_edge(5, 6)
    graph.close()
    with DynamicGraph.open(tmp_path / "g", **OPTIONS) as again:
        assert again.num_edges == 2 and again.features.gather([7])[0, 0] == 7


def _read_late(pipe: Any, path: Path) -> None:
    copy = DynamicGraph.attach(path)
    assert copy.num_edges == 1
    look = _native.NativeLive._catch_up

    def wait(self: _native.NativeLive) -> None:
        look(self)
        _native.NativeLive._catch_up = look  # type: ignore[method-assign]
        pipe.send(True)
        pipe.recv()

    _native.NativeLive._catch_up = wait  # type: ignore[method-assign]
    snapshot = copy.snapshot()
    pipe.send(snapshot.commit)
    pipe.recv()
    pipe.send(snapshot.features.gather([7])[0, 0])


def test_a_snapshot_is_not_of_memory_that_was_given_up_before_it(tmp_path: Path) -> None:
    """The reader stops between its look whether there was a merge, and its pin."""
    graph = make(tmp_path / "g")
    child, pipe = in_child(_read_late, tmp_path / "g")
    assert pipe.poll(WAIT) and pipe.recv()
    graph.merge()
    graph.update_nodes([7], x=[[1000]])
    pipe.send(True)
    assert pipe.poll(WAIT)
    assert pipe.recv() == graph.commit
    for number in range(100):
        graph.update_nodes([7], x=[[number]])
    pipe.send(True)
    assert pipe.poll(20), "the rows of versions that are used again are an endless loop"
    assert pipe.recv() == 1000
    child.join(WAIT)
    graph.close()


# ---- a disk that fails ---------------------------------------------------------------------------

FAILING = """
import sys, os
import numpy as np
from aethergraph import DynamicGraph, errors

path, durability, after = sys.argv[1:]
options = {"arena_mb": 16, "huge_pages": False}
graph = DynamicGraph.open(path, 10, durability=durability, interval_ms=60000, **options)
graph.node_attrs["x"] = np.zeros((10, 1), np.float32)
graph.insert_edge(0, 1)
graph.flush()
open(os.environ["FAIL_SYNC"], "w").close()
for change in (lambda: graph.add_nodes(1, x=np.ones((1, 1))), graph.flush):
    try:
        change()
    except errors.StorageError as error:
        kept = error  # as by a notebook, with what was open
try:
    graph.insert_edge(3, 4)
    sys.exit("the log did not fail")
except errors.StorageError as error:
    assert "read-only until merge()" in str(error), error
nodes, edges = graph.num_nodes, graph.num_edges
assert nodes == (10 if durability == "sync" else 11)
os.unlink(os.environ["FAIL_SYNC"])
if after == "merge":
    graph.merge()
    assert (graph.num_nodes, graph.num_edges) == (nodes, edges)
    graph.insert_edge(3, 4)
    graph.add_nodes(1, x=np.full((1, 1), 7))
    graph.close()
else:
    try:
        graph.close()
        sys.exit("close() did not tell of it")
    except errors.StorageError as error:
        kept = error
assert graph.closed
with DynamicGraph.open(path, **options) as again:
    if after == "merge":
        assert (again.num_nodes, again.num_edges) == (nodes + 1, edges + 1)
        assert again.node_attrs["x"].gather([nodes])[0, 0] == 7
    else:
        assert again.num_nodes in (10, 11) and again.num_edges == edges
    again.insert_edge(4, 5)
"""


@pytest.fixture(scope="module")
def failing_sync(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("library") / "failing_sync.so"
    source = Path(__file__).with_name("failing_sync.c")
    build = ["cc", "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"]
    subprocess.run(build, check=True, timeout=120)
    return library


@pytest.mark.parametrize("after", ["merge", "close"])
@pytest.mark.parametrize("durability", ["sync", "batch"])
def test_a_sync_that_failed(
    durability: str, after: str, tmp_path: Path, failing_sync: Path
) -> None:
    """A merge makes the graph writable; close() lets go of the log in any case."""
    first = os.environ.get("LD_PRELOAD")  # a sanitizer's library, which has to be
    preload = f"{first}:{failing_sync}" if first else str(failing_sync)
    found = os.environ | {"LD_PRELOAD": preload, "FAIL_SYNC": str(tmp_path / "fail")}
    ran = subprocess.run(
        [sys.executable, "-c", FAILING, str(tmp_path / "g"), durability, after],
        env=found, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
