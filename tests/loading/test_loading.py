"""Loading: order, errors and endings of prefetching, recycled buffers, batches."""

from __future__ import annotations

import gc
import itertools
import pickle
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import make_graph
from support.strategies import assert_same_subgraph
from support.threads import ahead_of, run_with_each

from aethergraph import DynamicGraph, FeatureTable, Graph, NeighborSampler, SubgraphLoader, errors
from aethergraph._native.signals import thread_owner
from aethergraph._parallel.prefetch import prefetch_iter, prefetch_map
from aethergraph.loading import buffers
from aethergraph.loading.buffers import SMALL_BYTES, BufferPool, pool_of, size_class
from aethergraph.sampling.keys import mix_key

THREADS = [0, 1, 3]


def prefetch_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "aethergraph-prefetch"]


def refuse_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


def taken_before(
    results: Iterator[Any], kind: type[BaseException], match: str | None = None
) -> tuple[list[Any], pytest.ExceptionInfo[BaseException]]:
    """Return what comes before an error, which ends the iterator and its threads, and the error."""
    taken = []
    with pytest.raises(kind, match=match) as caught:
        for value in results:
            taken.append(value)
    assert list(results) == [] and prefetch_threads() == []
    return taken, caught


# ---- prefetch_map ----------------------------------------------------------------------------


@pytest.mark.parametrize("num_threads", THREADS)
@pytest.mark.parametrize("depth", [1, 7])
@pytest.mark.parametrize("helping", [False, True])
def test_results_come_in_order(num_threads: int, depth: int, helping: bool) -> None:
    def slow(i: int) -> int:
        time.sleep((i * 7 % 5) / 5000)
        return i * i

    options: dict[str, Any] = {"num_threads": num_threads, "depth": depth, "helping": helping}
    assert list(prefetch_map(slow, range(40), **options)) == [i * i for i in range(40)]
    assert prefetch_threads() == []
    assert list(prefetch_map(slow, [], **options)) == []


@pytest.mark.parametrize("depth", [1, 2])
def test_a_consumer_that_would_wait_helps(depth: int) -> None:
    held = threading.Event()

    def make(i: int) -> tuple[int, bool]:
        mine = threading.current_thread() is threading.main_thread()
        if mine:
            held.set()  # the worker goes on once the consumer has helped
        else:
            assert held.wait(60)
        return i, mine

    with prefetch_map(make, range(20), depth=depth, helping=True) as results:
        found = list(results)
    assert [i for i, _ in found] == list(range(20))
    assert any(mine for _, mine in found)


def test_a_consumer_that_is_busy_is_left_alone() -> None:
    def make(i: int) -> bool:
        return threading.current_thread() is threading.main_thread()

    made_here = []
    with prefetch_map(make, range(20), depth=1, helping=True) as results:
        for mine in results:
            made_here.append(mine)
            for slot in results._slots:  # the next result is there when it is asked for
                assert slot.ready.acquire(timeout=60)
                slot.ready.release()
    # Nothing was ready for the first call: while it waited it may have made the second, too.
    assert not any(made_here[2:])


def test_an_interrupt_while_helping_comes_at_once() -> None:
    interrupted = threading.Event()

    def make(i: int) -> int:
        if threading.current_thread() is threading.main_thread():
            interrupted.set()
            raise KeyboardInterrupt
        assert interrupted.wait(60)
        return i

    results = prefetch_map(make, range(100), depth=5, helping=True)
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert list(results) == [] and prefetch_threads() == []


@pytest.mark.parametrize("num_threads", THREADS)
@pytest.mark.parametrize("helping", [False, True])
def test_an_exception_comes_at_its_place(num_threads: int, helping: bool) -> None:
    def fail(i: int) -> int:
        if i == 3:
            raise KeyError("three")
        return i

    results = prefetch_map(fail, range(10), num_threads=num_threads, depth=4, helping=helping)
    taken, caught = taken_before(results, KeyError, "three")
    assert taken == [0, 1, 2]
    assert any(entry.name == "fail" for entry in caught.traceback)


@pytest.mark.parametrize("num_threads", [*THREADS, None], ids=str)
def test_an_exception_of_the_items_comes_at_its_place(
    num_threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ZeroDivisionError

    if num_threads is None:
        refuse_threads(monkeypatch)
    threads = {} if num_threads is None else {"num_threads": num_threads}
    results = prefetch_map(lambda i: i, items(), depth=2, **threads)
    assert taken_before(results, ZeroDivisionError)[0] == [0, 1, 2]


def test_it_runs_ahead_by_depth_and_no_further() -> None:
    started: list[int] = []
    results = prefetch_map(started.append, itertools.count(), num_threads=2, depth=3)
    assert started == []  # nothing runs before the first result is asked for
    next(results)
    deadline = time.time() + 60
    while len(started) < 4 and time.time() < deadline:
        time.sleep(0.001)
    time.sleep(0.05)
    assert sorted(started) == [0, 1, 2, 3]
    results.close()


@pytest.mark.parametrize("refused", [False, True])
def test_results_are_let_go(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the workers nor the iterator keep a result that was handed out."""
    if refused:
        refuse_threads(monkeypatch)
    alive = weakref.WeakSet[Held]()

    def make(i: int) -> Held:
        result = Held()
        alive.add(result)
        return result

    with prefetch_map(make, range(20), num_threads=1, depth=2) as results:
        for _ in results:
            assert len(alive) <= (2 if refused else 4)


class Held:
    """Stands for the rows or the commit of a batch; an instance can be referred to weakly."""


@pytest.mark.parametrize("num_threads", [0, 1])
@pytest.mark.parametrize("helping", [False, True])
@pytest.mark.parametrize("is_dropped", [False, True])
def test_an_error_holds_nothing_when_it_is_gone(
    num_threads: int, helping: bool, is_dropped: bool
) -> None:
    held = weakref.WeakSet[Held]()
    has_failed = threading.Event()

    def fail(i: int) -> int:
        if i == 0:
            return i
        rows = Held()
        held.add(rows)
        has_failed.set()
        raise KeyError("rows")

    gc.collect()
    gc.disable()
    try:
        results = prefetch_map(fail, range(9), num_threads=num_threads, depth=2, helping=helping)
        assert next(results) == 0
        if not is_dropped:
            with pytest.raises(KeyError):
                next(results)
        elif num_threads:
            assert has_failed.wait(60)
        results.close()
        assert not held
    finally:
        gc.enable()


@pytest.mark.parametrize("num_threads", THREADS)
def test_a_function_does_not_end_the_iteration(num_threads: int) -> None:
    def stop(i: int) -> int:
        return next(iter([i] * (i < 3)))

    results = prefetch_map(stop, range(10), num_threads=num_threads)
    taken, caught = taken_before(results, RuntimeError, "raised StopIteration")
    assert taken == [0, 1, 2]
    assert isinstance(caught.value.__context__, StopIteration)


def test_closing_while_another_thread_reads_the_items() -> None:
    is_read, is_closed = threading.Event(), threading.Event()
    taken: list[int] = []

    def items() -> Iterator[int]:
        yield 0
        is_read.set()
        assert is_closed.wait(60)
        yield 1

    results = prefetch_map(abs, items(), num_threads=1, depth=1)
    consumer = threading.Thread(target=taken.extend, args=(results,))
    consumer.start()
    assert is_read.wait(60)
    results.close()
    is_closed.set()
    consumer.join(60)
    assert taken == [0]
    assert prefetch_threads() == []


def test_an_interrupt_while_threads_begin_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    start, begun = threading.Thread.start, list[threading.Thread]()

    def interrupt(thread: threading.Thread) -> None:
        start(thread)
        begun.append(thread)
        if len(begun) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(prefetch_map(abs, range(9), num_threads=3))
    assert len(begun) == 2
    for thread in begun:
        thread.join(20)
    assert prefetch_threads() == []


@pytest.mark.parametrize("num_threads", THREADS)
def test_consumers_in_several_threads_share_the_results(num_threads: int) -> None:
    taken: list[list[int]] = [[], [], [], []]

    def items() -> Iterator[int]:
        for i in range(60):
            time.sleep(0.0001)  # a generator must not be entered twice
            yield i

    shared = prefetch_map(lambda i: i, items(), num_threads=num_threads, depth=3)
    run_with_each(lambda mine: mine.extend(shared), taken)
    assert sorted(itertools.chain(*taken)) == list(range(60))
    assert all(mine == sorted(mine) for mine in taken)


@pytest.mark.parametrize(("num_threads", "helping"), [(2, False), (1, True)])
def test_the_end_cancels_nothing_that_another_consumer_waits_for(
    num_threads: int, helping: bool
) -> None:
    begun, ended = threading.Event(), threading.Event()
    taken: list[list[int]] = [[], []]

    def make(i: int) -> int:
        begun.set()
        while i == 0 and not ended.wait(0.001):
            owner = thread_owner()
            if owner is not None:
                owner.check()  # as native calls do
        return i

    shared = prefetch_map(make, range(2), num_threads=num_threads, depth=2, helping=helping)
    slow, quick = (threading.Thread(target=mine.extend, args=(shared,)) for mine in taken)
    slow.start()
    assert begun.wait(60)
    quick.start()
    quick.join(60)  # it has met the end, while the first result is being made
    ended.set()
    slow.join(60)
    assert taken == [[0], [1]]
    assert prefetch_threads() == []


def test_an_iterator_is_run_by_one_thread_ahead() -> None:
    ran_in: set[int] = set()

    def items() -> Iterator[int]:
        for number in range(20):
            ran_in.add(threading.get_ident())
            yield number
        raise KeyError("end")

    assert taken_before(prefetch_iter(items(), depth=3), KeyError, "end")[0] == list(range(20))
    assert len(ran_in) == 1 and threading.get_ident() not in ran_in
    assert list(prefetch_iter(iter("abc"), depth=7)) == ["a", "b", "c"]
    assert prefetch_threads() == []


def test_closing_stops_the_threads() -> None:
    ran: list[int] = []

    def slow(i: int) -> int:
        time.sleep(0.01)
        ran.append(i)
        return i

    with prefetch_map(slow, range(1000), num_threads=2, depth=500) as results:
        assert next(results) == 0
        assert len(prefetch_threads()) == 2
    assert prefetch_threads() == []
    assert len(ran) < 400
    assert list(results) == []
    results.close()
    results = prefetch_map(slow, range(1000), num_threads=1, depth=2)
    next(results)
    del results  # dropping it is closing it
    gc.collect()
    assert prefetch_threads() == []
    for value in prefetch_map(slow, range(1000), num_threads=1, depth=2):
        if value == 2:
            break
    gc.collect()
    assert prefetch_threads() == []


def test_options_that_are_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="num_threads = -1"):
        prefetch_map(int, [], num_threads=-1)
    for helping in (5, "no", 0.5, [1]):
        with pytest.raises(errors.InvalidArgumentError, match="helping must be True or False"):
            prefetch_map(int, [], helping=helping)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="items must be iterable, got int"):
        prefetch_map(abs, 5)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="depth = 0"):
        prefetch_map(int, [], depth=0)


def test_the_interpreter_ends_while_it_runs(run_python: Callable[..., Any]) -> None:
    done = run_python(
        """
        import itertools
        import numpy as np
        from aethergraph import Graph, NeighborSampler
        from aethergraph._parallel.prefetch import prefetch_map
        rng = np.random.default_rng(0)
        graph = Graph.from_edges(20_000, *rng.integers(0, 20_000, (2, 400_000)))
        sampler = NeighborSampler(graph, [10, 10])
        results = prefetch_map(lambda k: sampler.sample(np.arange(2000), k), itertools.count(),
                               num_threads=3, depth=5)
        next(results)
        print("end")
        """
    )
    assert done.stdout == "end\n" and done.stderr == ""


def test_ctrl_c_while_waiting(run_python: Callable[..., Any]) -> None:
    done = run_python(
        """
        import os, signal, threading, time
        from aethergraph._parallel.prefetch import prefetch_map
        signal.signal(signal.SIGINT, signal.default_int_handler)
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            timer.start()
            for _ in prefetch_map(time.sleep, [0.4] * 100, num_threads=1, depth=2):
                pass
        except KeyboardInterrupt:
            timer.join()  # it may not have returned from kill yet
            print("interrupted", threading.active_count())
        """
    )
    assert done.stdout == "interrupted 1\n"


@pytest.mark.forks
def test_a_forked_child_is_told(run_python: Callable[..., Any]) -> None:
    run_python(
        """
        import os, sys
        from aethergraph import errors
        from aethergraph._parallel.prefetch import prefetch_map
        results = prefetch_map(lambda i: i, range(100), num_threads=1, depth=2)
        next(results)
        if os.fork() == 0:
            try:
                next(results)
            except errors.ClosedError:
                fresh = list(prefetch_map(lambda i: i, range(5), num_threads=1))
                os._exit(7 if fresh == [0, 1, 2, 3, 4] else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
        assert list(results) == list(range(1, 100))
        """
    )


# ---- BufferPool ------------------------------------------------------------------------------


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def block_bytes(size: int) -> int:
    """Of a new block for so many bytes."""
    return size_class(size + size // 8)


def test_memory_is_used_again_when_nothing_references_it() -> None:
    pool = BufferPool()
    first = pool.empty((1000, 128))
    first[:] = 1
    place, view = address(first), first[10:].reshape(-1)[::2]
    del first
    gc.collect()
    assert pool.idle_bytes == 0  # the view still uses it
    other = pool.empty((1000, 128))
    assert address(other) != place
    assert view.sum() == view.size
    del view
    assert pool.idle_bytes == block_bytes(1000 * 128 * 4)
    again = pool.empty((999, 128), np.float32)
    assert address(again) == place
    assert again.flags.writeable and again.flags.c_contiguous
    assert again.shape == (999, 128)


def test_small_and_empty_arrays() -> None:
    pool = BufferPool()
    for shape in (0, (0, 5), (3, 0), 10, (2, 3)):
        assert pool.empty(shape, "int64").shape == np.empty(shape).shape
    del shape
    assert pool.idle_bytes == 0
    assert pool.empty(5, np.dtype("uint8")).dtype == np.uint8


def test_idle_memory_is_bounded() -> None:
    pool = BufferPool(max_idle="3M")
    arrays = [pool.empty(1 << 20, np.uint8) for _ in range(10)]
    arrays.clear()
    assert 0 < pool.idle_bytes <= 3 << 20
    pool.clear()
    assert pool.idle_bytes == 0


def test_no_more_is_held_than_was_in_use_at_once() -> None:
    pool = BufferPool()
    most = 0
    for sizes in ([100, 100], *([size] * 2 for size in range(60, 3, -7)), [4] * 6, [30]):
        held: list[Any] = []
        for size in sizes:
            held.append(pool.empty(size << 20, np.uint8))
            lent = sum(block_bytes(array.nbytes) for array in held)
            most = max(most, lent)
            assert pool.idle_bytes + lent <= most * 1.01, sizes
        held.clear()
    assert 0 < pool.idle_bytes <= most


@pytest.mark.parametrize("sizes", [[200], [200, 1]])
def test_a_large_batch_is_forgotten(sizes: list[int]) -> None:
    """Also where those that come after it lie in memory that is there."""
    pool = BufferPool()
    held = [pool.empty(size << 20, np.uint8) for size in sizes]
    held.clear()
    for _ in range(5000):
        pool.empty(1 << 20, np.uint8)
    assert pool.idle_bytes < 50 << 20


def test_a_block_that_is_not_kept_pushes_no_other_out() -> None:
    pool = BufferPool(max_idle="2M")
    large, small = pool.empty(8 << 20, np.uint8), pool.empty(1 << 20, np.uint8)
    del small
    assert pool.idle_bytes == block_bytes(1 << 20)
    del large
    assert pool.idle_bytes == block_bytes(1 << 20)


def test_idle_blocks_of_other_sizes_make_room() -> None:
    pool = BufferPool(max_idle="4M")
    first, other = pool.empty(1 << 20, np.uint8), pool.empty(3 << 20, np.uint8)
    del first
    assert pool.idle_bytes == block_bytes(1 << 20)
    del other
    assert pool.idle_bytes == block_bytes(3 << 20)
    place = address(pool.empty(3 << 20, np.uint8))
    assert address(pool.empty(3 << 20, np.uint8)) == place


def test_batches_of_like_size_share_blocks() -> None:
    pool = BufferPool()
    place = address(pool.empty(9 << 20, np.uint8))
    for size in (10 << 20, 8 << 20, 9 << 20):
        assert address(pool.empty(size, np.uint8)) == place
    assert address(pool.empty(4 << 20, np.uint8)) != place


def test_size_classes_waste_at_most_an_eighth() -> None:
    for size in [SMALL_BYTES, 1 << 20, (1 << 20) + 1, 12_345_678, 10**10]:
        assert size <= size_class(size) <= size * 1.125 + 4096
        assert size_class(size) % 4096 == 0
        assert size_class(size_class(size)) == size_class(size)


def test_the_pool_is_safe_to_share() -> None:
    pool = BufferPool()

    def work(mark: int) -> None:
        for i in range(200):
            array = pool.empty((1 << 16) + i, np.int64)
            array[:] = mark
            time.sleep(0)
            assert (array == mark).all()

    run_with_each(work, range(4))


# ---- SubgraphLoader --------------------------------------------------------------------------


@pytest.fixture
def attributed() -> Graph:
    graph = make_graph(300, 4000, edge_attrs={"w": np.arange(4000.0)})
    rng = np.random.default_rng(0)
    graph.features = rng.random((300, 5), dtype=np.float32)
    graph.node_attrs["y"] = np.arange(300) % 7
    half = FeatureTable.from_array(np.full((300, 2), 0x3F80, np.uint16), dtype="bfloat16")
    graph.node_attrs["half"] = half
    return graph


@pytest.mark.parametrize("num_threads", THREADS)
def test_batches_carry_their_rows(attributed: Graph, num_threads: int) -> None:
    loader = SubgraphLoader(attributed, [4, 3], batch_size=32, ahead=ahead_of(num_threads, 3))
    assert len(loader) == 10
    seen = []
    for batch in loader:
        sub = batch.subgraph
        np.testing.assert_array_equal(sub.node[: batch.batch_size], batch.seeds)
        np.testing.assert_array_equal(batch.x, attributed.features.array[sub.node])  # type: ignore[arg-type,union-attr]
        np.testing.assert_array_equal(batch.y, sub.node % 7)  # type: ignore[arg-type]
        np.testing.assert_array_equal(
            batch.edge_attrs["w"], attributed.edge_attrs["w"].array[sub.edge]
        )
        assert batch.node_attrs["half"].dtype == np.float32
        assert (batch.node_attrs["half"] == 1).all()
        assert batch.edge_index.shape == (2, sub.num_edges)
        seen.append(batch.seeds)
    np.testing.assert_array_equal(np.concatenate(seen), np.arange(300))


def test_seeds_of_all_kinds(attributed: Graph) -> None:
    mask = np.arange(300) % 3 == 0
    for seeds in (mask, np.flatnonzero(mask), np.flatnonzero(mask).tolist()):
        loader = SubgraphLoader(attributed, [2], seeds, batch_size=60, node_attrs=["y"])
        assert [batch.batch_size for batch in loader] == [60, 40]
        assert [sorted(batch.node_attrs) for batch in loader] == [["y"], ["y"]]
    short = SubgraphLoader(attributed, [2], mask, batch_size=60, drop_last=True)
    assert len(short) == len(list(short)) == 1
    assert list(SubgraphLoader(attributed, [2], [], batch_size=60)) == []


def test_loader_options_that_are_refused(attributed: Graph) -> None:
    for options, text in [
        ({"batch_size": 0}, "batch_size = 0"),
        (
            {"order": 3},
            "order = 3 is no aethergraph.loading.Order: give Order",
        ),
        ({"ahead": -1}, "ahead = -1"),
        ({"batch_size": 2.5}, "batch_size must be an integer, got float"),
        ({"node_attrs": ["z"]}, "node_attrs: 'z' does not exist; there are: x, y, half"),
        ({"seeds": [True, False]}, r"mask of shape \(2,\)"),
        ({"seeds": [0.5]}, "seeds must hold integers"),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            SubgraphLoader(attributed, [2], **options)  # type: ignore[arg-type]
    for seeds, text in (([0, 300], r"seeds\[1\] = 300"), ([3, 4, -1], r"seeds\[2\] = -1")):
        with pytest.raises(errors.OutOfRangeError, match=text):  # before any batch is made
            SubgraphLoader(attributed, [2], seeds, batch_size=1)
    loader = SubgraphLoader(attributed, [2])
    with pytest.raises(errors.InvalidArgumentError, match=r"epoch = -1 is not in 0\.\."):
        loader.set_epoch(-1)
    loader.load_state_dict(loader.state_dict())


def test_seeds_that_a_live_graph_does_not_have_yet() -> None:
    graph = DynamicGraph(3)
    loader = SubgraphLoader(graph, [2], [0, 3], batch_size=1)
    with pytest.raises(errors.OutOfRangeError, match=r"seeds\[0\] = 3"):
        list(loader)
    graph.add_nodes(1)
    assert [batch.seeds.tolist() for batch in loader] == [[0], [3]]


class Recorded:
    """A sampler of a user's: the protocol's one method, and no more."""

    def __init__(self, sampler: NeighborSampler) -> None:
        self._sampler = sampler
        self.keys: list[int | None] = []

    def sample(self, seeds: Any, key: int | None = None) -> Any:
        self.keys.append(key)
        return self._sampler.sample(seeds, key)


@pytest.mark.parametrize("storage", ["mmap", "uring"])
def test_a_sampler_in_place_of_fanouts(storage: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 300, (2, 4000))
    made = Graph.from_edges(
        300, src, dst, edge_weight=rng.random(4000), edge_time=rng.integers(0, 50, 4000)
    )
    made.node_attrs["y"] = np.arange(300) % 7
    made.save(tmp_path / "g")
    budget = "20M" if storage == "uring" else None
    graph = Graph.load(tmp_path / "g", storage=storage, memory_budget=budget)
    seeds, times = np.arange(0, 300, 2), np.arange(150) % 40
    weighted = NeighborSampler(graph, [4, 3], weight_attr="edge_weight", num_threads=2)
    timed = NeighborSampler(graph, [4, 3], time_attr="edge_time")
    plain = NeighborSampler(graph, [4, 3])
    options: dict[str, Any] = {"batch_size": 20, "shuffle": True, "seed": 3}
    for sampler, seed_time in ((weighted, None), (timed, times), (plain, None)):
        loader = SubgraphLoader(graph, seeds=seeds, sampler=sampler, seed_time=seed_time, **options)
        batches = list(loader)
        for number, batch in enumerate(batches):
            key = mix_key(3, 0, number)
            own = None if seed_time is None else seed_time[batch.index]
            expected = sampler.sample(batch.seeds, key, seed_time=own)
            assert_same_subgraph(batch.subgraph, expected)
            np.testing.assert_array_equal(batch.y, expected.node % 7)
            np.testing.assert_array_equal(batch.edge_index, expected.edge_index)
            assert_same_subgraph(loader.collate(batch.index, key).subgraph, expected)
        assert (sampler.groups is not None and sampler.groups.memory > 0) == (storage == "uring")
    for batch, other in zip(batches, SubgraphLoader(graph, [4, 3], seeds, **options), strict=True):
        assert_same_subgraph(batch.subgraph, other.subgraph)
    recorded = Recorded(plain)
    for batch, other in zip(
        SubgraphLoader(graph, seeds=seeds, sampler=recorded, **options), batches, strict=True
    ):
        assert_same_subgraph(batch.subgraph, other.subgraph)
        np.testing.assert_array_equal(batch.edge_index, other.edge_index)
    assert recorded.keys == [mix_key(3, 0, number) for number in range(8)]


def test_a_sample_of_a_subclass_is_asked_for_out_of_core(tmp_path: Path) -> None:
    class OneHop(NeighborSampler):
        def sample(self, seeds: Any, key: Any = None, **options: Any) -> Any:
            return NeighborSampler(self.graph, [2]).sample(seeds, key, **options)

    Graph.from_edges(300, *np.random.default_rng(1).integers(0, 300, (2, 4000))).save(
        tmp_path / "g"
    )
    graph = Graph.load(tmp_path / "g", storage="uring", memory_budget="20M")
    batches = list(SubgraphLoader(graph, sampler=OneHop(graph, [4, 4]), batch_size=50))
    assert {len(batch.subgraph.num_sampled_nodes or []) for batch in batches} == {2}


def test_samplers_that_are_refused(attributed: Graph) -> None:
    own = NeighborSampler(attributed, [2])
    for options, text in [
        ({}, "fanouts or sampler is needed"),
        ({"fanouts": [2], "sampler": own}, "fanouts and sampler exclude each other"),
        ({"sampler": 3}, r"sampler must have a method sample\(seeds, key\), got int"),
        ({"sampler": own, "replace": True}, "replace = True goes without sampler"),
        ({"sampler": own, "disjoint": True}, "disjoint = True goes without sampler"),
        ({"sampler": own, "subgraph_type": "induced"}, "subgraph_type = 'induced' goes without"),
        ({"fanouts": [2], "seed_time": [1]}, "seed_time needs a sampler"),
        ({"sampler": own, "seed_time": [1]}, r"seed_time has shape \(1,\), .* 300 seeds"),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            SubgraphLoader(attributed, **options)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="seed_time needs a sampler with time"):
        list(SubgraphLoader(attributed, sampler=own, seed_time=np.arange(300)))


def test_loaders_pickle_by_their_parts(attributed: Graph) -> None:
    loader = SubgraphLoader(attributed, [3], batch_size=100, shuffle=True, seed=4)
    loader.buffers.empty((1000, 128))
    copied = pickle.loads(pickle.dumps(loader))
    assert copied.buffers.idle_bytes == 0
    for batch, other in zip(copied, loader, strict=True):
        assert_same_subgraph(batch.subgraph, other.subgraph)
        np.testing.assert_array_equal(batch.x, other.x)


def make_wide_graph() -> Graph:
    """A graph whose batches have rows of more bytes than the C library recycles by itself."""
    ids = np.arange(2000)
    graph = Graph.from_edges(2000, ids, np.roll(ids, 1))
    graph.features = np.arange(2000 * 128, dtype=np.float32).reshape(2000, 128)
    return graph


def test_loaders_of_a_graph_share_buffers() -> None:
    graph = make_wide_graph()
    places: list[set[int]] = []
    for _ in range(3):
        used = set()
        for batch in SubgraphLoader(graph, [1], batch_size=500, ahead=0):
            assert batch.x is not None
            assert (batch.x == graph.features.gather(batch.subgraph.node)).all()  # type: ignore[union-attr]
            used.add(address(batch.x))
        places.append(used)
    del batch
    assert len(places[0]) == 2  # one in use while the next is made
    assert places[1] <= places[0] and places[2] <= places[0]
    assert SubgraphLoader(graph, [1]).buffers is pool_of(graph)


def test_buffers_go_with_their_graph() -> None:
    graph, other = make_wide_graph(), make_wide_graph()
    assert pool_of(graph) is pool_of(graph) is not pool_of(other)
    list(SubgraphLoader(graph, [1], batch_size=500))
    gc.collect()
    assert pool_of(graph).idle_bytes > 0 == pool_of(other).idle_bytes
    count = len(buffers._pools)
    del graph
    gc.collect()
    assert len(buffers._pools) == count - 1


def test_a_graph_that_cannot_be_remembered_shares_no_buffers() -> None:
    class Slotted:
        __slots__ = ()

    class Equal:
        def __eq__(self, other: object) -> bool:
            return True

    for graph in (Slotted(), Equal()):
        assert pool_of(graph) is not pool_of(graph)
