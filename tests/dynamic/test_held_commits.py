"""Blocks of ``reading()``: what they hold, for which threads, and what they refuse."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import multiprocessing
import pickle
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.threads import ahead_of

from aethergraph import DynamicGraph, SubgraphLoader
from aethergraph._parallel.prefetch import prefetch_map
from aethergraph.errors import ClosedError, InvalidArgumentError, UnsupportedError


def live(**options: Any) -> DynamicGraph:
    """Return a live graph whose node i has an edge to itself, and the row 0."""
    graph = DynamicGraph(100, 16, huge_pages=False, **options)
    graph.features = np.zeros((100, 1), np.float32)
    graph.insert_edges(np.arange(100), np.arange(100))
    return graph


def empty(graph: DynamicGraph) -> None:
    """Take all edges away, and make all rows 1."""
    graph.delete_edges(range(100), range(100))
    graph.update_nodes(range(100), x=np.ones((100, 1), np.float32))


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_a_loader_sees_the_commit_of_the_block_it_begins_in(threads: int) -> None:
    graph = live()
    loader = SubgraphLoader(graph, [2], np.arange(100), batch_size=10, ahead=ahead_of(threads))

    def seen(batches: Iterator[Any]) -> set[tuple[int, float]]:
        return {(len(b.subgraph.edge), float(b.x.max())) for b in batches}

    with graph.reading():
        empty(graph)
        assert seen(iter(loader)) == {(10, 0.0)}
        batches = iter(loader)
        next(batches)
    if threads:
        assert seen(batches) == {(10, 0.0)}
    assert seen(iter(loader)) == {(0, 1.0)}


def test_threads_see_what_their_consumer_sees() -> None:
    one, other = live(), live()
    with one.reading(), other.reading():
        empty(one)
        empty(other)

        def count(graph: DynamicGraph) -> int:
            return graph.num_edges

        assert list(prefetch_map(count, [one, other])) == [100, 100]
    assert list(prefetch_map(count, [one, other])) == [0, 0]


def closed(graph: DynamicGraph) -> Any:
    snapshot = graph.snapshot()
    snapshot.close()
    return snapshot


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda graph: live().snapshot(), InvalidArgumentError, "snapshot of another graph"),
        (lambda graph: 5, InvalidArgumentError, "snapshot is 5"),
        (lambda graph: graph, InvalidArgumentError, "give one of this graph"),
        (closed, ClosedError, "was closed"),
    ],
)
def test_what_is_no_commit_of_the_graph_is_refused(
    make: Callable[[DynamicGraph], Any], error: type[Exception], match: str
) -> None:
    graph = live()
    with pytest.raises(error, match=match), graph.reading(make(graph)):
        pass
    assert graph.num_edges == 100


def test_blocks_that_end_out_of_turn_leave_nothing() -> None:
    graph = live()

    def held() -> Iterator[int]:
        with graph.reading() as now:
            yield now.num_edges

    first = held()
    assert next(first) == 100
    graph.delete_edges([0], [0])
    second = held()
    assert next(second) == 100  # it began in the first one
    first.close()
    graph.delete_edges([1], [1])
    assert graph.num_edges == 100
    second.close()
    assert graph.num_edges == 98 and graph.stats().snapshots == 0


def test_an_exception_that_ends_a_block_leaves_no_snapshot() -> None:
    graph = live()
    gc.disable()
    try:
        with pytest.raises(ZeroDivisionError), graph.reading():
            raise ZeroDivisionError
        assert graph.stats().snapshots == 0
    finally:
        gc.enable()


def test_a_block_is_of_one_with_statement() -> None:
    graph = live()
    block = graph.reading()
    with block:
        graph.delete_edges([0], [0])
        assert graph.num_edges == 100
        with pytest.raises(InvalidArgumentError, match="has begun before"), block:
            pass
        assert graph.num_edges == 100
    with pytest.raises(InvalidArgumentError, match="has begun before"), block:
        pass
    assert graph.num_edges == 99 and graph.stats().snapshots == 0


def test_a_block_that_nobody_can_end_has_ended() -> None:
    """Ctrl-C may come between the beginning of a block and its ``with``."""
    graph = live()
    block = graph.reading()
    block.__enter__()
    empty(graph)
    assert graph.num_edges == 100
    del block
    assert graph.num_edges == 0 and graph.stats().snapshots == 0


def test_a_block_that_has_ended_holds_no_graph() -> None:
    graph = live()
    block = graph.reading()
    block.__enter__()
    context = contextvars.copy_context()  # as that of a task which goes on
    block.__exit__(None, None, None)
    gone = weakref.ref(graph._store.live._handle)
    graph.close()
    del graph, block
    gc.collect()
    assert gone() is None, context


def test_a_block_may_end_in_another_thread() -> None:
    graph = live()
    block = graph.reading()
    block.__enter__()
    empty(graph)
    assert graph.num_edges == 100
    with ThreadPoolExecutor(1) as pool:
        pool.submit(block.__exit__, None, None, None).result(timeout=60)
    assert graph.num_edges == 0 and graph.stats().snapshots == 0


def test_coroutines_hold_commits_of_their_own() -> None:
    graph = live()
    seen = []

    async def read(last: int) -> None:
        graph.delete_edges([last], [last])
        with graph.reading():
            before = graph.num_edges
            for _ in range(3):
                await asyncio.sleep(0.001)
                graph.delete_edges([10 + len(seen)], [10 + len(seen)])
                assert graph.num_edges == before
                seen.append(before)

    async def both() -> None:
        await asyncio.gather(read(0), read(1))

    asyncio.run(both())
    assert sorted(set(seen)) == [98, 99] and len(seen) == 6
    assert graph.num_edges == 92 and graph.stats().snapshots == 0


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_processes_that_are_not_forked_do_not_begin_inside_of_a_block(method: str) -> None:
    """They would see what is last, and nothing would say so."""
    graph, other = live(), live()
    context: Any = multiprocessing.get_context(method)
    for one in (graph, SubgraphLoader(graph, [2]).sampler):
        child = context.Process(target=id, args=(one,))
        with graph.reading(), pytest.raises(UnsupportedError, match=r"this block of reading\(\)"):
            child.start()
    with graph.reading():
        assert pickle.loads(pickle.dumps(graph)).num_edges == 100  # no process begins
    with other.reading():
        child = context.Process(target=id, args=(graph,))
        child.start()
        child.join(60)
    assert child.exitcode == 0
