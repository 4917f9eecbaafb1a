"""One writer beside threads and processes that read: forks, kills, expiry, a full arena."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from support.live import Form, Model, Writer, check, insert, make_live, random_edges

from aethergraph import DynamicGraph, DynamicHeteroGraph, NeighborSampler, errors

FORK = multiprocessing.get_context("fork")


def changing() -> DynamicGraph:
    """Return a live graph for a Writer."""
    graph = DynamicGraph(30, 16, order="time", max_nodes=2000)
    graph.features = np.zeros((30, 1))
    return graph


def read(graph: DynamicGraph, count: int, key: int) -> list[Any]:
    """Return seeds and edges of samples, and check each snapshot against itself."""
    sampler, found = NeighborSampler(graph, [-1]), []
    rng = np.random.default_rng(key)
    for number in range(count):
        seeds = np.unique(rng.integers(0, 30, 6))
        found.append((seeds.tolist(), sampler.sample(seeds, number).edge.tolist()))
        snapshot = graph.snapshot()
        src, dst, ids = snapshot.edge_list()
        assert len(ids) == snapshot.num_edges == snapshot.in_degrees().sum()
        pairs = {
            i: (u, v) for i, u, v in zip(*map(np.ndarray.tolist, (ids, src, dst)), strict=True)
        }
        assert all(pairs.get(i ^ 1) == pairs[i][::-1] for i in pairs)  # both or none
        assert snapshot.features is not None
        rows = snapshot.features.gather(range(snapshot.num_nodes))[:, 0]
        newest = max(pairs)
        u, v = pairs[newest]
        assert rows[u] == rows[v] == newest - 1  # rows of the same commit
        found.append((list(range(snapshot.num_nodes)), ids.tolist()))
        snapshot.close()
    return found


def in_fork(graph: DynamicGraph, count: int, key: int, pipe: Any) -> None:
    try:
        pipe.send(read(graph, count, key))
    except BaseException as error:
        pipe.send(repr(error))


@pytest.mark.forks
def test_threads_and_processes_read_beside_a_writer() -> None:
    graph = changing()
    found: list[Any] = []
    failures: list[BaseException] = []

    def work(key: int) -> None:
        try:
            found.extend(read(graph, 40, key))
        except BaseException as error:
            failures.append(error)

    with Writer(graph) as writer:
        pipes, children = [], []
        for key in (1, 2):
            here, there = FORK.Pipe(duplex=False)
            child = FORK.Process(target=in_fork, args=(graph, 40, key, there))
            child.start()
            there.close()
            pipes.append(here)
            children.append(child)
        threads = [threading.Thread(target=work, args=(key,)) for key in (3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for pipe, child in zip(pipes, children, strict=True):
            assert pipe.poll(120), "a child gave no answer"
            sent = pipe.recv()
            assert isinstance(sent, list), sent
            found.extend(sent)
            child.join()
    assert not failures, failures
    for seeds, edges in found:
        writer.check(seeds, edges)
    assert graph.stats().snapshots == 0


@pytest.mark.forks
def test_what_a_killed_reader_held_is_freed() -> None:
    graph = changing()
    graph.insert_edge(0, 1)
    here, there = FORK.Pipe(duplex=False)

    def hold() -> None:
        held = graph.snapshot()
        there.send(held.commit)
        time.sleep(600)

    child = FORK.Process(target=hold)
    child.start()
    assert here.poll(60)
    commit = here.recv()
    graph.insert_edges([1, 2], [2, 3])
    stats = graph.stats()
    assert (stats.snapshots, stats.oldest_commit, stats.oldest_pid) == (1, commit, child.pid)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    graph.reclaim()
    stats = graph.stats()
    assert (stats.snapshots, stats.oldest_commit, stats.oldest_pid) == (0, graph.commit, None)


def test_a_snapshot_that_is_held_too_long_expires() -> None:
    graph = DynamicGraph(4, 1, order="time", max_snapshot_age=0.001)
    graph.features = np.zeros(4)
    graph.insert_edges([0, 1], [1, 2])
    held = graph.snapshot()
    rows, sampler = held.features, NeighborSampler(held, [2])
    assert held.in_degrees().tolist() == [0, 1, 1, 0]
    time.sleep(0.05)
    graph.update_nodes([0], x=[1.0])
    graph.reclaim()
    assert graph.stats().snapshots == 0
    assert rows is not None
    for call in (
        lambda: held.in_degrees(),
        lambda: held.in_neighbors(1),
        lambda: held.has_edge(0, 1),
        lambda: sampler.sample([1], 0),
        lambda: rows.gather([0]),
        lambda: held.to_graph(),
    ):
        with pytest.raises(errors.SnapshotExpiredError):
            call()
    assert graph.in_degrees().tolist() == [0, 1, 1, 0]


def test_a_full_arena_undoes_the_transaction_and_names_who_holds_it() -> None:
    form = Form(order="time", weighted=True)
    graph, model = make_live(form, 100, arena_mb=1), Model(form, 100)
    graph.features = np.zeros((100, 2))
    model.rows = [[0.0, 0.0] for _ in range(100)]
    edges = random_edges(100, 500, 1)
    insert(graph, form, edges)
    model.insert(edges)
    with graph.snapshot() as held:
        many = random_edges(100, 200_000, 2)
        with pytest.raises(errors.OutOfMemoryError) as caught, graph.transaction():
            graph.update_nodes([3], x=[[1.0, 1.0]])
            graph.insert_edge(1, 2, weight=1.0)
            insert(graph, form, many)
        assert isinstance(caught.value, MemoryError) and str(os.getpid()) in str(caught.value)
        check(graph, model)
        check(held, model)
    more = random_edges(100, 50, 3)
    assert insert(graph, form, more) == model.insert(more)
    check(graph, model)


def test_rows_of_an_undone_transaction_are_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are undone when a native call fails, which takes a commit number; rows come later."""
    graph = DynamicGraph(50_000, 1, order="time", layout="csc")
    graph.features = np.zeros(50_000)
    undo, seen = graph._store._undo, []

    def look(*args: Any) -> None:
        now = graph.snapshot()
        assert now.features is not None
        seen.append((now.num_edges, now.features.gather([3, 4]).tolist()))
        undo(*args)

    monkeypatch.setattr(graph._store, "_undo", look)
    with pytest.raises(errors.OutOfMemoryError), graph.transaction():
        graph.update_nodes([3, 4], x=[1.0, 2.0])
        graph.update_nodes([3], x=[3.0])
        graph.insert_edges(*np.random.default_rng(0).integers(0, 50_000, (2, 1_000_000)))
    assert set(map(str, seen)) == {"(0, [0.0, 0.0])"}
    with graph.transaction():
        graph.update_nodes([3, 4], x=[1.0, 2.0])
        graph.update_nodes([3], x=[3.0])
    assert graph.features is not None and graph.features.gather([3, 4]).tolist() == [3.0, 2.0]


def test_one_edge_that_does_not_fit_undoes_the_transaction() -> None:
    graph = DynamicGraph(50_000, 1, order="time", layout="csc")
    graph.features = np.zeros(50_000)
    with pytest.raises(errors.AetherError), graph.transaction():
        graph.update_nodes([3], x=[1.0])
        for node in range(50_000):
            try:
                graph.insert_edge(0, node)
            except errors.OutOfMemoryError:
                break
        with pytest.raises(errors.InvalidArgumentError, match="was undone"):
            graph.insert_edge(0, 1)
    assert graph.num_edges == 0
    assert graph.features is not None and graph.features.gather([3]).tolist() == [0.0]
    graph.insert_edge(0, 1)
    assert graph.num_edges == 1


# ---- forks ---------------------------------------------------------------------------------------


def answer(call: Any) -> Any:
    """Return what ``call`` returns in a forked child; an error as its class and message."""
    here, there = FORK.Pipe(duplex=False)

    def work() -> None:
        try:
            there.send(call())
        except BaseException as error:
            there.send((type(error).__name__, str(error)))

    child = FORK.Process(target=work)
    child.start()
    try:
        assert here.poll(60), "the child hangs"
        return here.recv()
    finally:
        child.kill()
        child.join()


@pytest.mark.forks
def test_a_forked_child_reads_on_and_cannot_write() -> None:
    graph = DynamicGraph(5, 1)
    graph.features = np.zeros(5)
    graph.insert_edge(0, 1)
    writes = (
        lambda: graph.insert_edge(1, 2),
        lambda: graph.insert_edges([1], [2]),
        lambda: graph.delete_edges([0], [1]),
        lambda: graph.add_nodes(1, x=[1.0]),
        lambda: graph.update_nodes([1], x=[1.0]),
        lambda: graph.transaction().__enter__(),
        lambda: graph.node_attrs.__setitem__("y", np.zeros(5)),
    )
    for write in writes:
        name, message = answer(write)
        assert name == "UnsupportedError" and "process that made the graph" in message
    held = graph.snapshot()
    graph.insert_edge(1, 2)
    assert answer(lambda: (graph.num_edges, held.num_edges, held.has_edge(1, 2))) == (2, 1, False)
    assert answer(lambda: graph.features.gather([1]).tolist()) == [0.0]  # type: ignore[union-attr]
    assert graph.num_edges == 2 and held.num_edges == 1


@pytest.mark.forks
def test_a_lock_that_another_thread_holds_does_not_hang_a_child() -> None:
    graph = DynamicGraph(5, 1)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with graph.transaction():
            graph.insert_edge(0, 1)
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(60)
    try:
        assert answer(lambda: graph.num_edges) == 0
        assert answer(lambda: graph.insert_edge(1, 2))[0] == "UnsupportedError"
    finally:
        leave.set()
        thread.join()
    assert graph.num_edges == 1


def test_threads_that_write_take_turns() -> None:
    graph = DynamicHeteroGraph({"a": 50}, [("a", "x", "a"), ("a", "y", "a")], 8, order="time")

    def work(first: int) -> None:
        for number in range(100):
            with graph.transaction():
                graph["a", "x", "a"].insert([first], [number % 50])
                graph["a", "y", "a"].insert([number % 50], [first])

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        counts = graph.snapshot().num_edges
        assert len(set(counts.values())) == 1
    for thread in threads:
        thread.join()
    assert set(graph.num_edges.values()) == {400} and graph.commit >= 400
