"""Readers whose writer has closed the graph, was killed or was followed: they say so, or go on."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from aethergraph import (
    DynamicGraph,
    DynamicHeteroGraph,
    HeteroNeighborSampler,
    NeighborSampler,
    SubgraphLoader,
    errors,
)
from aethergraph.dynamic import following, state
from aethergraph.dynamic.history import History
from aethergraph.remote.commits import commits_of
from aethergraph.storage.other_process import OpenFile, Owner, open_descriptors

NODES = 20
LIKES = ("user", "likes", "post")
WRITE = """
import sys
from aethergraph import DynamicGraph, DynamicHeteroGraph
path, typed, number = sys.argv[1], sys.argv[2] == "True", int(sys.argv[3])
if typed:
    kinds = {"num_nodes": {"user": 20, "post": 20}, "edge_types": [("user", "likes", "post")]}
    graph = DynamicHeteroGraph.open(path, **({} if number else kinds), arena_mb=8, huge_pages=False)
    insert, nodes = graph["user", "likes", "post"].insert, graph["post"].attrs
else:
    graph = DynamicGraph.open(path, None if number else 20, arena_mb=8, huge_pages=False)
    insert, nodes = graph.insert_edges, graph.node_attrs
if number == 0:
    nodes["x"] = [[float(i)] for i in range(20)]
insert([3 * number, 3 * number + 1, 3 * number + 2], [5, 5, 5])
if typed:
    graph["post"].update([5], x=[[100.0 + number]])
else:
    graph.update_nodes([5], x=[[100.0 + number]])
print("ready", flush=True)
for line in sys.stdin:
    if line == "close\\n":
        graph.close()
        print("closed", flush=True)
"""

pytestmark = pytest.mark.any_python


@pytest.fixture(autouse=True)
def _look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aethergraph._native.LOOK_SECONDS", 0.0)
    monkeypatch.setattr(following, "_PROCESS_SECONDS", 0.0)


@contextmanager
def writing(path: Path, number: int = 0, typed: bool = False) -> Iterator[subprocess.Popen[str]]:
    """Let a process write three edges to node 5, after those of the writers before it."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, str(path), str(typed), str(number)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def close(process: subprocess.Popen[str]) -> None:
    """Let a writer close its graph and live on."""
    assert process.stdin is not None and process.stdout is not None
    print("close", file=process.stdin, flush=True)
    assert process.stdout.readline() == "closed\n"


def kill(process: subprocess.Popen[str]) -> None:
    """End a writer as a crash does."""
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("typed", [False, True])
def test_what_reads_a_graph_whose_writer_was_killed(tmp_path: Path, typed: bool) -> None:
    """An error names the class of the graph, and ways that work."""
    path, name = tmp_path / "g", "DynamicHeteroGraph" if typed else "DynamicGraph"
    kind = DynamicHeteroGraph if typed else DynamicGraph
    with writing(path, typed=typed) as first:
        with pytest.raises(errors.UnsupportedError, match=rf"; {name}\.attach\(path\) reads it"):
            kind.open(path)
        with pytest.raises(errors.UnsupportedError, match=f"History.'{path}'.*history.streams"):
            kind.attach(path).offsets("clicks")
        kill(first)
    words = f"process {first.pid}, which had it open, has ended: {name}.open.path.*History.path"
    with pytest.raises(errors.ClosedError, match=words):
        kind.attach(path)
    with History(path) as history, kind.open(path) as again:
        for now in (history.last(), again):
            assert sum(now.num_edges.values() if typed else [now.num_edges]) == 3


@pytest.mark.parametrize("how", ["closed", "killed", "followed"])
def test_a_reader_says_that_its_writer_is_gone(tmp_path: Path, how: str) -> None:
    path = tmp_path / "g"
    with writing(path) as first:
        reader = DynamicGraph.attach(path)
        copy = pickle.loads(pickle.dumps(reader))
        sampler, rows = NeighborSampler(reader, [10]), reader.features
        loader = SubgraphLoader(reader, [10], [5])
        held = reader.snapshot()
        assert reader.is_current and copy.is_current and reader.stats().is_current
        assert rows is not None and reader.num_edges == 3 and len(list(loader)) == 1
        if how == "closed":
            close(first)
        else:
            kill(first)
        with writing(path, 1) if how == "followed" else writing(tmp_path / "other"):
            reason = {"closed": "has closed it", "killed": "has ended", "followed": "followed by"}
            match = f"{path}: process {first.pid}, .*{reason[how]}.*lsn {held.lsn}.*follow=True"
            for call in (
                lambda: reader.num_edges,
                lambda: copy.num_edges,
                lambda: reader.commit,
                lambda: reader.lsn,
                lambda: reader.watermark,
                reader.snapshot,
                lambda: sampler.sample([5], key=1),
                lambda: rows.gather([5]),
                lambda: next(iter(loader)),
            ):
                with pytest.raises(errors.WriterGoneError, match=match):
                    call()
            assert not reader.is_current and not reader.stats().is_current
            assert reader.stats().num_edges == 3
            assert repr(reader) == f"DynamicGraph({path}, without a writer)"
            # What is held stays.
            assert held.in_neighbors(5).tolist() == [0, 1, 2]
            assert held.node_attrs["x"].gather([5]).tolist() == [[100]]
            with reader.reading(held):
                assert len(sampler.sample([5], key=1).row) == 3
                assert rows.gather([5]).tolist() == [[100]]
            if how == "followed":  # what the message advises
                assert DynamicGraph.attach(path).num_edges == 6


@pytest.mark.parametrize("typed", [False, True])
def test_a_reader_that_follows_goes_on_with_the_next_writer(tmp_path: Path, typed: bool) -> None:
    path = tmp_path / "g"
    kind = DynamicHeteroGraph if typed else DynamicGraph
    with writing(path, 0, typed) as first:
        reader = kind.attach(path, follow=True)
        lists, nodes = (reader[LIKES], reader["post"]) if typed else (reader, reader)
        rows = nodes.attrs["x"] if typed else reader.features
        sampler = HeteroNeighborSampler(reader, [10]) if typed else NeighborSampler(reader, [10])
        seeds = {"post": [5]} if typed else [5]
        loader = None if typed else SubgraphLoader(reader, [10], [5])
        held = reader.snapshot()
        held_lists = held[LIKES] if typed else held
        assert lists.in_neighbors(5).tolist() == [0, 1, 2]
        kill(first)
    assert not reader.is_current
    assert lists.in_neighbors(5).tolist() == [0, 1, 2]  # the last commit, until there is another
    for number in (1, 2):
        with writing(path, number, typed) as following_writer:
            expected = list(range(3 * number + 3))
            assert lists.in_neighbors(5).tolist() == expected
            assert reader.is_current and reader.stats().is_current
            assert rows.gather([5]).tolist() == [[100 + number]]
            sample = sampler.sample(seeds, key=1)
            assert len(sample.row[LIKES] if typed else sample.row) == len(expected)
            if loader is not None:
                (batch,) = loader
                assert len(batch.subgraph.row) == len(expected)
                assert batch.node_attrs["x"][0] == 100 + number
            assert held_lists.in_neighbors(5).tolist() == [0, 1, 2]
            held_rows = held["post"].attrs["x"] if typed else held.node_attrs["x"]
            assert held_rows.gather([5, 6]).tolist() == [[100], [6]]
            with pytest.raises(errors.InvalidArgumentError, match="counts its commits anew"):
                reader.snapshot().changed(held)
            with reader.reading(held):
                assert rows.gather([5]).tolist() == [[100]]
            (close if number == 1 else kill)(following_writer)


def test_another_graph_in_the_directory_is_not_followed(tmp_path: Path) -> None:
    with writing(tmp_path / "g") as first:
        reader = DynamicGraph.attach(tmp_path / "g", follow=True)
        kill(first)
    shutil.rmtree(tmp_path / "g")
    with (
        writing(tmp_path / "g"),
        pytest.raises(errors.FileChangedError, match="another live graph"),
    ):
        reader.snapshot()


def test_attributes_and_merges_of_the_same_writer(tmp_path: Path) -> None:
    graph = DynamicGraph.open(tmp_path / "g", NODES, 8, huge_pages=False)
    reader = DynamicGraph.attach(tmp_path / "g")
    follower = DynamicGraph.attach(tmp_path / "g", follow=True)
    graph.insert_edges([1, 2], [5, 5])
    graph.merge()
    graph.insert_edge(3, 5)
    graph.node_attrs["x"] = np.eye(NODES, 2)
    for one in (reader, follower):
        assert one.is_current and one.in_neighbors(5).tolist() == [1, 2, 3]
    assert "x" in follower.node_attrs and "x" not in reader.node_attrs
    assert follower.snapshot().changed(0).tolist() == graph.snapshot().changed(0).tolist()
    graph.close()
    assert not reader.is_current and not follower.is_current and not graph.is_current


def test_a_server_goes_on_with_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "g"
    with writing(path) as first:
        commits = commits_of(path)
        before = commits.take()
        assert before.now.num_edges == 3
        kill(first)
    with writing(path, 1) as second:
        after = commits.take()
        assert after.now.num_edges == 6 and after.graph is before.graph
        close(second)
        assert commits.take().now.num_edges == 6
    assert before.now.num_edges == 3


def test_a_graph_in_memory_is_current_while_its_process_lives(tmp_path: Path) -> None:
    graph = DynamicGraph(3, 8, huge_pages=False)
    assert graph.is_current and pickle.loads(pickle.dumps(graph)).is_current
    graph.close()
    assert not graph.is_current


# ---- the lock ------------------------------------------------------------------------------------


def test_others_cannot_open_what_is_locked(tmp_path: Path) -> None:
    """Also where an older build has made the files."""
    DynamicGraph.open(tmp_path / "g", NODES, 8, huge_pages=False).close()
    for name in ("LOCK", "wal.lock"):
        assert (tmp_path / "g" / name).stat().st_mode & 0o777 == 0o600
        (tmp_path / "g" / name).chmod(0o644)
    DynamicGraph.open(tmp_path / "g").close()
    for name in ("LOCK", "wal.lock"):
        assert (tmp_path / "g" / name).stat().st_mode & 0o777 == 0o600


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """As by a child that a killed writer was forking: the pid in the file is of a dead process."""
    DynamicGraph.open(tmp_path / "g", NODES, 8, huge_pages=False).close()
    child = subprocess.Popen(["true"])
    child.wait()
    lock = os.open(tmp_path / "g" / "LOCK", os.O_RDWR)
    os.pwrite(lock, b"%d\n" % child.pid, 0)
    fcntl.flock(lock, fcntl.LOCK_EX)
    timer = threading.Timer(0.3, os.close, [lock])
    timer.start()
    DynamicGraph.open(tmp_path / "g").close()
    timer.join()


def test_a_descriptor_that_another_file_has_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that merges closes descriptors, and gives their numbers to other files at once."""
    descriptor = os.memfd_create("lists")
    owner, file = Owner.here(), OpenFile.of(descriptor)
    (copy,) = open_descriptors(owner, [file])
    os.close(copy)

    def opened_too_late(name: str, flags: int) -> int:
        raise IsADirectoryError(21, "Is a directory", name)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened_too_late)
        with pytest.raises(errors.ClosedError, match="has ended or closed it"):
            open_descriptors(owner, [file])
    os.close(descriptor)


# ---- commit numbers ------------------------------------------------------------------------------


def test_commit_numbers_go_on_behind_32_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = state.LiveState.make_lists

    def make_late(self: state.LiveState, base: object, nodes: object, first: int = 1) -> object:
        return make(self, base, nodes, 2**32 - 5 if first == 1 else first)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(state.LiveState, "make_lists", make_late)
        graph = DynamicGraph.open(tmp_path / "g", NODES, 8, huge_pages=False)
    graph.insert_edges([0], [1])
    with graph.snapshot() as before:
        for node in range(1, NODES - 1):
            graph.insert_edges([node], [node + 1])
        assert before.num_edges == 1 and before.commit < 2**32
    with graph.snapshot() as after:
        assert after.num_edges == NODES - 1 and after.commit == graph.commit > 2**32
        assert after.changed(since=2**32 + 1).tolist() == list(range(6, NODES))
        assert sorted(after.edge_index()[1].tolist()) == list(range(1, NODES))
    graph.merge()
    graph.insert_edges([18], [0])
    assert graph.commit > 2**32
    graph.close()
    with History(tmp_path / "g") as history:
        assert history.last().num_edges == NODES
