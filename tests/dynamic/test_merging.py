"""merge() of a graph in a directory: beside a writer, killed, on a full disk, within memory."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.disks import small_disk
from support.memory import memory_group
from support.processes import WarmPython
from support.threads import WAIT, comes, repeating, running

from aethergraph import DynamicGraph, Graph, errors
from aethergraph.dynamic import journal, merge
from aethergraph.dynamic.directory import LiveDirectory

pytestmark = pytest.mark.any_python

NODES = 200


def pair(number: Any) -> tuple[Any, Any]:
    """Ends of edge ``number``, so that a reader knows them."""
    return number % NODES, number * 7 % NODES


def make(path: Path, count: int = 1000, **options: Any) -> DynamicGraph:
    graph = DynamicGraph.open(path, NODES, 64, order="time", huge_pages=False, **options)
    graph.insert_edges(*pair(np.arange(count)))
    return graph


def check_edges(graph: Any, least: int) -> int:
    """Compare a graph with edges 0, 1, 2... of which at least ``least`` are there."""
    src, dst, ids = graph.edge_list()
    count = len(ids)
    assert count >= least
    assert (ids == np.arange(count)).all()
    assert (np.stack((src, dst)) == np.stack(pair(ids))).all()
    return count


def files_of(path: Path) -> set[str]:
    """Names of the files but for the log and what tells of processes."""
    return {
        p.name for p in path.iterdir() if not p.name.startswith(("wal", "NEWEST", "LOCK", "LIVE"))
    }


def test_it_goes_on_beside_a_writer(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    written = [1000]

    def write() -> None:
        graph.insert_edge(*pair(written[0]))
        written[0] += 1

    with repeating(write):
        last = 0
        for _ in range(5):
            before = written[0]
            base = Graph.load(graph.merge(memory="16M"))
            base.verify()
            order = np.argsort(base.edge_order)
            src, dst = (ends[order] for ends in base.edge_index())
            numbers = np.arange(base.num_edges)
            assert (np.stack((src, dst)) == np.stack(pair(numbers))).all()
            assert base.num_edges >= max(before, last)
            last = base.num_edges
    graph.close()
    with DynamicGraph.open(tmp_path / "g", arena_mb=64) as again:
        assert check_edges(again, written[0]) == written[0]


@pytest.mark.parametrize("begins", [True, False])
def test_attributes_that_change_meanwhile(
    begins: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base has what was there at its commit; the rest is in the log."""
    graph = make(tmp_path / "g")
    if not begins:
        graph.features = np.eye(NODES, 2)
    write = journal.write_base
    rows = np.full((NODES + 1, 2), 3.0)

    def meanwhile(*args: Any, **options: Any) -> None:
        if begins:
            graph.add_nodes(1)
            graph.features = rows
        else:
            del graph.node_attrs["x"]
            graph.add_nodes(1)
        write(*args, **options)

    monkeypatch.setattr(journal, "write_base", meanwhile)
    graph.merge()
    graph.close()
    graph = DynamicGraph.open(tmp_path / "g", arena_mb=64)
    assert graph.num_nodes == NODES + 1
    if begins:
        assert (graph.features.gather(np.arange(NODES + 1)) == rows).all()
    else:
        assert graph.features is None
    graph.close()


@pytest.mark.forks
def test_a_killed_reader_does_not_keep_what_was_before(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            held = graph.snapshot()
            os.write(told, b"." if held.commit else b"?")
            signal.pause()
        finally:
            os._exit(1)
    try:
        assert os.read(ready, 1) == b"."
        graph.merge()
        assert (graph.stats().snapshots, graph.stats().oldest_pid) == (1, child)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    before = len(os.listdir("/proc/self/fd"))

    def is_gone() -> bool:  # it is looked for now and then
        graph.insert_edges([0], [1])
        return len(os.listdir("/proc/self/fd")) < before

    assert comes(is_gone) and graph.stats().snapshots == 0
    graph.close()
    for descriptor in (ready, told):
        os.close(descriptor)


# ---- killed --------------------------------------------------------------------------------------

KILLED = """
    import os, signal, sys, threading, time
    import numpy as np
    from aethergraph import DynamicGraph
    from aethergraph import _native as native
    from aethergraph.dynamic import merge, merge_sections
    from aethergraph.storage.budget import Budget
    from aethergraph.storage.scratch import Scratch

    path, at = sys.argv[1], int(sys.argv[2])
    graph = DynamicGraph.open(path, arena_mb=64, durability="sync")
    room = merge_sections.Room(64, 512, 3000, path, Budget.parse("16M"))  # many pieces, on disk
    merge._room_of = lambda budget, where: room
    calls = 0

    def counted(call):
        def run(*args, **options):
            global calls
            calls += 1
            if calls == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **options)
        return run

    for owner, name in ((native.NativeWriter, "append"), (native.NativeWriter, "put"),
                        (native.NativeWriter, "commit"), (Scratch, "append"), (Scratch, "read"),
                        (os, "fsync"), (os, "replace")):
        setattr(owner, name, counted(getattr(owner, name)))
    number = graph.num_edges
    thread = threading.Thread(target=graph.merge)
    thread.start()
    while thread.is_alive():
        graph.insert_edge(number % 200, number * 7 % 200)
        number += 1
        print(number, flush=True)
    print("calls", calls, flush=True)
    graph.close()
"""


def run_killed(python: WarmPython, path: Path, at: int) -> tuple[int, int]:
    """Merge until call ``at``; return the edges that were acknowledged, and the calls, if done."""
    script = path.with_suffix(".py")
    script.write_text(textwrap.dedent(KILLED))
    done = python.run([script, path, at], path.parent)
    lines = done.stdout.splitlines() if done.stdout.endswith("\n") else done.stdout.split("\n")[:-1]
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    calls = int(lines.pop().split()[1]) if done.returncode == 0 else 0
    return (int(lines[-1]) if lines else 0), calls


def test_killed_anywhere_in_a_merge(tmp_path: Path) -> None:
    path = tmp_path / "g"
    graph = make(path)
    graph.merge()
    graph.close()
    with WarmPython(["aethergraph"]) as python:
        kill_anywhere(python, path)


def kill_anywhere(python: WarmPython, path: Path) -> None:
    least, calls = run_killed(python, path, 0)
    assert calls > 50
    rng = np.random.default_rng(3)
    kills = int(os.environ.get("AETHERGRAPH_KILLS", "4"))
    last = range(calls - 4, calls + 1)  # the file is complete, or all but named
    for at in [*rng.integers(1, calls, max(2, kills // 2)).tolist(), *last]:
        found, _ = run_killed(python, path, at)
        least = max(least, found)
        graph = DynamicGraph.open(path, arena_mb=64)
        least = check_edges(graph, least)
        base = json.loads((path / "CURRENT").read_text())["base"]
        assert files_of(path) == {base, "graph.json", "CURRENT"} | (
            {"CURRENT.new"} if (path / "CURRENT.new").exists() else set()
        )
        graph.close()


# ---- full disks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scratch", [False, True])
def test_a_full_disk(scratch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph goes on with the base and log before; with more room it merges."""
    if scratch:  # of 16 bytes per edge beside the file's 20
        whole = merge._room_of
        monkeypatch.setattr(merge, "_room_of", lambda *args: whole(*args)._replace(tables=100_000))
    with small_disk(tmp_path / "disk", "96M") as disk:
        graph = make(disk / "g", 100_000)
        graph.merge()
        graph.insert_edges(*pair(np.arange(100_000, 200_000)))
        graph.flush()
        there = files_of(disk / "g")
        free = os.statvfs(disk).f_bavail * 4096
        (disk / "filler").write_bytes(bytes(free - (5 << 20 if scratch else 2 << 20)))
        with pytest.raises(errors.DiskFullError, match=r"cannot write .*No space") as caught:
            graph.merge()
        assert caught.value.errno == errno.ENOSPC
        del caught  # its frames hold the snapshot
        assert files_of(disk / "g") == there
        graph.insert_edge(*pair(200_000))
        check_edges(graph, 200_001)
        (disk / "filler").unlink()
        assert Graph.load(graph.merge()).num_edges == 200_001
        graph.insert_edge(*pair(200_001))
        graph.close()
        graph = DynamicGraph.open(disk / "g", arena_mb=64)
        check_edges(graph, 200_002)
        graph.close()


def test_a_base_that_cannot_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make(tmp_path / "g")
    there = files_of(tmp_path / "g")
    write = LiveDirectory.write_json

    def fail(self: LiveDirectory, name: str, value: dict[str, Any]) -> None:
        if late:
            write(self, name, value)
        raise OSError(errno.ENOSPC, "no")

    monkeypatch.setattr(LiveDirectory, "write_json", fail)
    for late in (False, True):
        with pytest.raises(errors.DiskFullError, match="CURRENT: No space left"):
            graph.merge()
        if not late:
            assert files_of(tmp_path / "g") == there
    monkeypatch.undo()
    graph.insert_edge(*pair(1000))
    graph.close()
    graph = DynamicGraph.open(tmp_path / "g", arena_mb=64)
    check_edges(graph, 1001)
    graph.close()


# ---- memory --------------------------------------------------------------------------------------

MEASURED = """
    import os, sys
    import numpy as np
    from aethergraph import DynamicGraph
    number = 4_000_000
    graph = DynamicGraph.open(sys.argv[1], 100_000, 2048, order="time", edge_weight="float32",
                              edge_attrs={"e": ((), "float32")}, durability="none",
                              huge_pages=False)
    rng = np.random.default_rng(0)
    for _ in range(8):
        ends = rng.integers(0, 100_000, (2, number // 8))
        rows = rng.random(number // 8, np.float32)
        graph.insert_edges(*ends, weight=rows, edge_attrs={"e": rows})
    src, dst, _ = graph.snapshot().edge_list()
    graph.delete_edges(src[:100_000], dst[:100_000])
    graph.flush()
    del src, dst, ends, rows
    print("built", flush=True)
    sys.stdin.readline()
    if sys.argv[2] == "merge":
        graph.merge(memory="24M")
    else:
        graph.to_graph().save(sys.argv[1] + ".aeg")
    print("done", flush=True)
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["merge", "copy"])
def test_the_budget_is_kept(how: str, tmp_path: Path) -> None:
    """Under a limit, set when the graph is there, that a copy in memory does not survive."""
    with memory_group() as group:
        if group is None:
            pytest.skip("no cgroup can be made here")
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(MEASURED), str(tmp_path / "g"), how],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=group.enter,
        ) as child:  # fmt: skip
            assert child.stdout is not None and child.stdin is not None
            assert child.stdout.readline() == "built\n"
            segment = 64 << 20  # of the log that goes on, which is read
            group.set_limit(group.used() + segment + (40 << 20))
            child.stdin.write("\n")
            child.stdin.flush()
            told = child.stdout.readline()
        assert told == ("done\n" if how == "merge" else "")
        assert child.returncode == (0 if how == "merge" else -signal.SIGKILL)


def edges_of(graph: Any) -> list[tuple[int, int]]:
    src, dst = graph.edge_index()
    return sorted(zip(src.tolist(), dst.tolist(), strict=True))


def test_a_pickle_from_before_a_merge_opens_what_is_there_now(tmp_path: Path) -> None:
    """Memory of the lists that it names is gone, and its descriptors are somebody else's."""
    with DynamicGraph.open(tmp_path / "g", 50, 16) as graph:
        for number in range(6):
            graph.insert_edges([number] * 5, np.arange(5))
            text = pickle.dumps(graph)
            for _ in range(number % 3):
                graph.merge()
                graph.insert_edge(number, 10 + number)
            copy = pickle.loads(text)
            assert edges_of(copy) == edges_of(graph)
            graph.insert_edge(number, 20 + number)
            assert edges_of(copy) == edges_of(graph)
        text = pickle.dumps(graph)
    with pytest.raises(errors.ClosedError):
        pickle.loads(text)


def test_bases_that_were_replaced_do_not_pile_up(tmp_path: Path) -> None:
    path = tmp_path / "g"
    DynamicGraph.open(path, 50, 16).close()
    with DynamicGraph.open(path, arena_mb=16) as graph:
        graph.node_attrs["x"] = np.arange(100.0).reshape(50, 2)
        graph.insert_edge(0, 1)
        first = graph.merge()
    with DynamicGraph.open(path, arena_mb=16) as graph:
        text, held, written = pickle.dumps(graph), graph.snapshot(), []
        old = Graph.load(graph.merge())
        for number in range(4):
            graph.insert_edge(number, number + 2)
            written.append(graph.merge())
        assert sorted(str(file) for file in path.glob("gen-*")) == [first, *written[-2:]]
        assert edges_of(held) == [(0, 1)]  # who has a file open goes on reading it
        assert old.num_edges == 1
        copy = pickle.loads(text)
        assert edges_of(copy) == edges_of(graph)
        assert copy.features.gather([3]).tolist() == [[6.0, 7.0]]  # type: ignore[union-attr]
        attached = DynamicGraph.attach(path)
        assert edges_of(attached) == edges_of(graph)
    with DynamicGraph.open(path, arena_mb=16) as graph:
        assert graph.num_edges == 5
        assert sorted(str(file) for file in path.glob("gen-*")) == written[-1:]


def test_a_base_that_lists_are_still_over_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former lists go on where memory has no room for those over the new base."""
    path = tmp_path / "g"
    with DynamicGraph.open(path, 50, 16) as graph:
        graph.insert_edge(0, 1)
        below = graph.merge()

        def fail(*_: Any) -> None:
            raise errors.OutOfMemoryError("no room")

        with monkeypatch.context() as patch:
            patch.setattr(type(graph._store), "make_lists", fail)
            for number in range(4):
                graph.insert_edge(number, number + 2)
                last = graph.merge()
        assert below in [str(file) for file in path.glob("gen-*")]
        for copy in (DynamicGraph.attach(path), pickle.loads(pickle.dumps(graph))):
            assert edges_of(copy) == edges_of(graph) and copy.num_edges == 5
        for _ in range(2):
            last = graph.merge()
        assert edges_of(DynamicGraph.attach(path)) == edges_of(graph)
        names = [str(file) for file in path.glob("gen-*")]
        assert below not in names and last in names and len(names) == 2
    with DynamicGraph.open(path, arena_mb=16) as graph:
        assert graph.num_edges == 5


def test_what_a_merge_would_wait_for_itself_in(tmp_path: Path) -> None:
    graph = make(tmp_path / "g", 10)
    graph.insert_edges(*pair(np.arange(10)))
    asked, told = threading.Event(), threading.Event()

    def progress(done: int, total: int) -> None:
        for call in (graph.close, graph.merge):
            with pytest.raises(errors.InvalidArgumentError, match="inside the progress= of"):
                call()
        asked.set()
        assert told.wait(WAIT)

    def merge_in_transaction() -> None:
        with graph.transaction():
            graph.insert_edge(1, 2)
            graph.merge()

    with pytest.raises(errors.InvalidArgumentError, match="inside a transaction"):
        merge_in_transaction()
    assert graph.num_edges == 20
    with running(lambda: graph.merge(progress)):
        assert asked.wait(WAIT)
        with pytest.raises(errors.InvalidArgumentError, match="inside a transaction"):
            merge_in_transaction()  # while the other one waits
        told.set()
    graph.close()


def test_attaching_beside_merges(tmp_path: Path) -> None:
    counts = [0]
    with DynamicGraph.open(tmp_path / "g", 50, 16) as graph:
        graph.insert_edges(np.arange(49), np.arange(1, 50))

        def merge_again() -> None:
            graph.merge()
            counts[0] += 1

        with repeating(merge_again) as failures:
            while counts[0] < 20 and not failures:
                text = pickle.dumps(graph)
                for copy in (DynamicGraph.attach(tmp_path / "g"), pickle.loads(text)):
                    assert copy.num_edges == 49 and copy.has_edge(7, 8)


def test_a_disk_without_room_for_the_log(tmp_path: Path) -> None:
    """A log takes 64 MiB at once: the messages say so, and what makes it writable."""
    with small_disk(tmp_path / "disk", "96M") as disk:
        graph = make(disk / "g", 0)
        (disk / "filler").write_bytes(bytes(50 << 20))
        with pytest.raises(errors.DiskFullError, match="which needs 67108864 bytes of free disk"):
            graph.insert_edge(*pair(0))
        with pytest.raises(
            errors.DiskFullError, match=r"read-only until merge\(\), or until it is"
        ):
            graph.insert_edge(*pair(0))
        (disk / "filler").unlink()
        graph.merge()
        graph.insert_edge(*pair(0))
        graph.close()
