"""One writer beside readers: forks, kills, expiry, a full arena; test_soak.py has the crowd."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from support.live import Form, Model, check, insert, make_live, random_edges
from support.processes import in_fork
from support.threads import running

from aethergraph import DynamicGraph, NeighborSampler, errors


@pytest.mark.forks
def test_what_a_killed_reader_held_is_freed() -> None:
    graph = DynamicGraph(30, 16, order="time")
    graph.insert_edge(0, 1)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def hold() -> None:
        held = graph.snapshot()
        there.send(held.commit)
        signal.pause()

    child = context.Process(target=hold)
    child.start()
    assert here.poll(60)
    commit = here.recv()
    graph.insert_edges([1, 2], [2, 3])
    stats = graph.stats()
    assert (stats.snapshots, stats.oldest_commit, stats.oldest_pid) == (1, commit, child.pid)
    child.kill()
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


def test_one_edge_that_does_not_fit_undoes_itself_alone() -> None:
    graph = DynamicGraph(50_000, 1, order="time", layout="csc")
    graph.features = np.zeros(50_000)
    with graph.transaction():
        graph.update_nodes([3], x=[1.0])
        with pytest.raises(errors.OutOfMemoryError):
            for count in range(1_000_000):
                graph.insert_edge(count % 50_000, 0)
        graph.update_nodes([4], x=[2.0])
    assert graph.in_edges(0).tolist() == list(range(count)) and count > 10_000
    assert graph.features is not None and graph.features.gather([3, 4]).tolist() == [1.0, 2.0]


def test_where_the_rest_does_not_fit_once_more_all_is_undone() -> None:
    """Lists that were undone keep what readers may have seen of them, in 16 bytes each."""
    graph = DynamicGraph(50_000, 1, order="time", layout="csc")
    graph.features = np.zeros(50_000)
    text = "the transaction was undone when a change failed: arenas of 1048576 bytes"
    with pytest.raises(errors.InvalidArgumentError, match=text), graph.transaction():
        graph.update_nodes([3], x=[1.0])
        with pytest.raises(errors.OutOfMemoryError):
            for node in range(50_000):
                graph.insert_edge(0, node)
        with pytest.raises(errors.InvalidArgumentError, match=text):
            graph.insert_edge(0, 1)
    assert graph.num_edges == 0
    assert graph.features is not None and graph.features.gather([3]).tolist() == [0.0]
    assert graph.insert_edge(0, 1) == 0


# ---- forks ---------------------------------------------------------------------------------------


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
        name, message = in_fork(write)
        assert name == "UnsupportedError" and "process that made the graph" in message
    held = graph.snapshot()
    graph.insert_edge(1, 2)
    assert in_fork(lambda: (graph.num_edges, held.num_edges, held.has_edge(1, 2))) == (2, 1, False)
    assert in_fork(lambda: graph.features.gather([1]).tolist()) == [0.0]  # type: ignore[union-attr]
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

    with running(hold):
        assert entered.wait(60)
        try:
            assert in_fork(lambda: graph.num_edges) == 0
            assert in_fork(lambda: graph.insert_edge(1, 2))[0] == "UnsupportedError"
        finally:
            leave.set()
    assert graph.num_edges == 1
