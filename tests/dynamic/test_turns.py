"""Threads that write take turns, and a transaction may end in another thread than it began in."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.threads import comes, run_together

from aethergraph import DynamicGraph
from aethergraph.errors import InvalidArgumentError


def in_thread(call: Callable[[], Any]) -> Any:
    """Return ``call()`` of another thread, which must end."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(timeout=60)


def test_a_transaction_may_end_in_another_thread() -> None:
    graph = DynamicGraph(10, 16, huge_pages=False)
    opened = graph.transaction()
    opened.__enter__()
    graph.insert_edge(3, 3)
    assert graph.num_edges == 0
    in_thread(lambda: opened.__exit__(None, None, None))
    assert graph.num_edges == 1
    in_thread(lambda: graph.insert_edge(1, 1))
    graph.insert_edge(2, 2)
    assert graph.num_edges == 3


def test_a_transaction_may_be_undone_in_another_thread() -> None:
    graph = DynamicGraph(10, 16, huge_pages=False)
    opened = graph.transaction()
    opened.__enter__()
    graph.insert_edges([3, 4], [3, 4])

    error = KeyError("no")
    assert not in_thread(lambda: opened.__exit__(KeyError, error, None))
    assert graph.num_edges == 0
    in_thread(lambda: graph.insert_edge(1, 1))
    assert graph.neighbors(1).tolist() == [1]


@pytest.mark.parametrize("options", [{}, {"order": "time", "edge_time": "int64"}])
def test_single_edges_wait_for_the_transaction_of_another_thread(options: Any) -> None:
    graph = DynamicGraph(100, 16, huge_pages=False, **options)
    values: dict[str, Any] = {"time": 1} if options else {}
    begun, order = threading.Event(), []

    def insert() -> None:
        begun.set()
        graph.insert_edge(50, 50, **values)
        order.append("insert")

    thread = threading.Thread(target=insert)
    with graph.transaction():
        for i in range(20):
            graph.insert_edge(i, i, **values)
        thread.start()
        begun.wait(60)
        thread.join(0.2)
        assert graph.num_edges == 0 and not order
        order.append("transaction")
    thread.join(60)
    assert order == ["transaction", "insert"] and graph.num_edges == 21


def test_many_threads_lose_nothing() -> None:
    graph = DynamicGraph(1000, 16, order="time", huge_pages=False)

    def write(number: int) -> None:
        for i in range(200):
            if i % 5:
                graph.insert_edge(number, i)
            else:
                with graph.transaction():
                    graph.insert_edge(number, i)
                    graph.insert_edges(np.array([number]), np.array([i + 500]))

    run_together(*(partial(write, number) for number in range(6)))
    assert graph.num_edges == 6 * (200 + 40)
    for number in range(6):
        expected = sorted([*range(200), *range(500, 700, 5)])
        assert sorted(graph.neighbors(number).tolist()) == expected


def test_a_turn_is_not_that_of_a_later_thread_of_the_same_number() -> None:
    graph = DynamicGraph(10, 16, huge_pages=False)
    held: list[Any] = []

    def begin() -> None:
        held.append(graph.transaction())
        held[0].__enter__()
        graph.insert_edge(1, 2)

    def run(call: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=call)
        thread.start()
        return thread

    first = run(begin)
    first.join(60)
    # Before Python 3.13 the system may have it still, and its number.
    assert comes(lambda: not os.path.exists(f"/proc/self/task/{first.native_id}"))
    numbers: set[int | None] = {first.ident}
    others = [run(lambda: graph.insert_edge(3, 4)) for _ in range(20)]
    numbers &= {thread.ident for thread in others}
    assert numbers, "the system used no number again: the test shows nothing"
    others[0].join(0.2)
    assert all(thread.is_alive() for thread in others) and graph.num_edges == 0
    assert not held[0].__exit__(KeyError, KeyError("no"), None)
    for thread in others:
        thread.join(60)
    assert graph.num_edges == 1 and graph.has_edge(3, 4)


def test_coroutines_are_refused_instead_of_mixed() -> None:
    graph = DynamicGraph(10, 16, huge_pages=False)
    refused = []

    async def write(begun: asyncio.Event, ended: asyncio.Event) -> None:
        with graph.transaction():
            graph.insert_edge(1, 2)
            begun.set()
            await ended.wait()
            graph.insert_edge(2, 3)

    async def disturb(begun: asyncio.Event, ended: asyncio.Event) -> None:
        await begun.wait()
        changes: list[Callable[[], object]] = [
            lambda: graph.insert_edge(3, 4),
            lambda: graph.insert_edges([3], [4]),
            lambda: graph.delete_edges([1], [2]),
            lambda: graph.transaction().__enter__(),
        ]
        for change in changes:
            with pytest.raises(InvalidArgumentError, match="another coroutine"):
                change()
            refused.append(change)
        ended.set()

    async def both() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()
        await asyncio.gather(write(begun, ended), disturb(begun, ended))

    asyncio.run(both())
    assert len(refused) == 4
    assert graph.num_edges == 2 and not graph.has_edge(3, 4)
    graph.insert_edge(3, 4)
    with graph.transaction():
        graph.insert_edge(4, 5)
    assert graph.num_edges == 4


def test_two_graphs_in_turn() -> None:
    one, other = (DynamicGraph(10, 16, huge_pages=False) for _ in range(2))
    with one.transaction(), other.transaction():
        one.insert_edges([1], [2])
        other.insert_edge(1, 2)
        one.insert_edge(2, 3)
    assert one.num_edges == 2 and other.num_edges == 1
