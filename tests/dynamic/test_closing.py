"""close() beside threads that write: what they were told is committed is in the log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processes import interrupted
from support.threads import running

from aethergraph import DynamicGraph
from aethergraph.errors import ClosedError

OPTIONS: dict[str, Any] = {"arena_mb": 16, "huge_pages": False}
MANY = np.arange(50)


def open_graph(path: Path | None, durability: str | None) -> DynamicGraph:
    options: dict[str, Any] = {**OPTIONS, "order": "time", "layout": "csc"}
    if path is None:
        return DynamicGraph(100, **options)
    return DynamicGraph.open(path, 100, durability=durability, **options)


class Writer:
    """Thread that changes a graph until it cannot any more.

    Attributes:
        calls: number of the calls that came back.
        error: what the last one raised.
    """

    def __init__(self, change: Callable[[], object]) -> None:
        self.calls = 0
        self.error: BaseException | None = None
        self._change, self._began = change, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._began.wait(60)

    def _run(self) -> None:
        try:
            while True:
                self._change()
                self.calls += 1
                self._began.set()
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("durability", ["sync", "batch", None])
def test_what_another_thread_has_committed_is_in_the_log(
    durability: str | None, many: bool, tmp_path: Path
) -> None:
    for number in range(2):
        path = None if durability is None else tmp_path / str(number)
        graph = open_graph(path, durability)
        one = Writer(
            lambda graph=graph: graph.insert_edges(MANY, MANY) if many else graph.insert_edge(1, 2)
        )
        before = graph.snapshot()
        graph.close()
        one.end()
        assert isinstance(one.error, ClosedError)
        edges = one.calls * (len(MANY) if many else 1)
        assert edges >= before.num_edges > 0
        if path is not None:
            with DynamicGraph.open(path, **OPTIONS) as again:
                assert again.num_edges == edges


@pytest.mark.parametrize("durable", [False, True])
def test_it_waits_for_the_transaction_of_another_thread(durable: bool, tmp_path: Path) -> None:
    graph = open_graph(tmp_path / "g" if durable else None, "none")
    opened = graph.transaction()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(opened.__enter__).result(60)
        pool.submit(graph.insert_edge, 1, 2).result(60)
        with interrupted():
            graph.close()
        assert not graph.closed
        closing = threading.Thread(target=graph.close)
        closing.start()
        closing.join(0.2)
        assert closing.is_alive() and not graph.closed
        pool.submit(graph.insert_edge, 2, 3).result(60)
        pool.submit(opened.__exit__, None, None, None).result(60)
    closing.join(60)
    assert graph.closed
    with pytest.raises(ClosedError):
        graph.insert_edge(3, 4)
    if durable:
        with DynamicGraph.open(tmp_path / "g", **OPTIONS) as again:
            assert again.num_edges == 2


def test_it_waits_for_the_merge_of_another_thread(tmp_path: Path) -> None:
    graph = open_graph(tmp_path / "g", "none")
    graph.insert_edges(MANY, MANY)
    begun, told = threading.Event(), threading.Event()

    def progress(done: int, total: int) -> None:
        begun.set()
        assert told.wait(60)

    with running(lambda: graph.merge(progress)):
        assert begun.wait(60)
        with running(graph.close):
            graph.insert_edge(1, 2)  # which is not in the base
            told.set()
    assert graph.closed
    with DynamicGraph.open(tmp_path / "g", **OPTIONS) as again:
        assert again.num_edges == len(MANY) + 1
