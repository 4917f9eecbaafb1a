"""prefetch_map: ``map`` that runs ahead of its consumer in background threads, in order.

    items ---> [slot][slot][slot] ---> results, in the order of the items
                 ^     ^     ^
                 worker threads fill the slots; at most ``depth`` of them wait
                 (and a helping consumer one, where it would wait for another)

The native core runs without the GIL, so one or two threads keep a training loop fed. Nothing runs
before a consumer asks for the first result. If its thread holds a commit of a graph that changes,
the threads read that one, too. Loaders, conversion and made graphs share it; the text
parser alone has a loop of its own, as it hands used blocks back to its reader.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import Any, Generic, SupportsIndex, TypeVar

from aethergraph._checks.arrays import as_integer
from aethergraph._checks.options import as_flag
from aethergraph._native.live_reading import held_snapshots, hold_snapshots
from aethergraph._native.tasks import Task, cancel_with
from aethergraph._parallel.threads import start_thread
from aethergraph._tracepoints import stage
from aethergraph.errors import ClosedError, InvalidArgumentError

__all__ = ["PrefetchIterator", "call_in_epoch", "prefetch_iter", "prefetch_map"]

T = TypeVar("T")
R = TypeVar("R")


class _Slot:
    """Place of one result; ``ready`` stays locked until the result is there."""

    __slots__ = ("cancelled", "error", "item", "ready", "result")

    def __init__(self, item: Any) -> None:
        self.item = item
        self.result: Any = None
        self.error: BaseException | None = None
        self.cancelled = False
        self.ready = threading.Lock()
        self.ready.acquire()


def call_in_epoch(function: Callable[[T], R], item: T) -> R:
    """Return ``function(item)``, whose StopIteration must not end an epoch as if it were over.

    Raises:
        RuntimeError: for a StopIteration, as from a generator (PEP 479), unless the function is
            ``next``.
    """
    try:
        return function(item)
    except StopIteration as error:
        if function is next:
            raise
        raise RuntimeError("a function that makes batches raised StopIteration") from error


def _fill_slot(function: Callable[[Any], Any], slot: _Slot) -> None:
    if not slot.cancelled:
        try:
            slot.result = call_in_epoch(function, slot.item)
        except BaseException as error:
            slot.error = error
    slot.ready.release()


def _raise_error(slot: _Slot) -> None:
    """Raise the error of a slot, which lets go of it.

    The error refers to the frames that it went through and these to the slot: in a circle they
    would keep rows and commits of the batch until the garbage collector comes.
    """
    error = slot.error
    slot.error = None
    try:
        if error is not None:
            raise error
    finally:
        del error


def _work(
    function: Callable[[Any], Any], queue: SimpleQueue[_Slot | None], task: Task, snapshots: Any
) -> None:
    cancel_with(task)
    hold_snapshots(snapshots)
    while True:
        slot = queue.get()
        if slot is None:
            return
        _fill_slot(function, slot)
        del slot  # only the consumer decides how long a result lives


class _Workers:
    """Threads of one iterator, as many as the system grants.

    They refer to the queue and the function, not to the iterator, so that it can be collected.
    """

    def __init__(self, function: Callable[[Any], Any], num_threads: int) -> None:
        self.queue: SimpleQueue[_Slot | None] = SimpleQueue()
        self.pid = os.getpid()
        self.task = Task(0)
        self.threads: list[threading.Thread] = []
        _running.add(self)
        try:
            for _ in range(num_threads):
                thread = start_thread(
                    _work, "aethergraph-prefetch", function, self.queue, self.task, held_snapshots()
                )
                if thread is None:
                    break
                self.threads.append(thread)
        except BaseException:  # Ctrl-C; one more thread may have begun, which is not listed yet
            self.queue.put(None)
            self.stop()
            raise

    def stop(self) -> None:
        """End the threads: cancel their native calls and wait for them."""
        _running.discard(self)
        self.task.cancel()
        if self.pid != os.getpid():  # threads do not survive a fork
            return
        for _ in self.threads:
            self.queue.put(None)
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join()


_running: set[_Workers] = set()


@atexit.register
def _stop_all() -> None:
    """Stop all workers: no thread may be in a native call while the interpreter ends."""
    for workers in list(_running):
        workers.stop()


class PrefetchIterator(Generic[T, R]):
    """Iterator that :func:`prefetch_map` returns; it can be closed, and is a context manager."""

    def __init__(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        num_threads: int,
        depth: int,
        helping: bool = False,
    ) -> None:
        self._finish: Callable[[Any], Any] | None = None
        self._workers: _Workers | None = None
        self._function = function
        try:
            self._items: Iterator[T] | None = iter(items)
        except (TypeError, ValueError) as error:  # closed files raise ValueError
            kind = type(items).__name__
            raise InvalidArgumentError(f"items must be iterable, got {kind}: {error}") from None
        self._num_threads = num_threads
        self._depth = depth
        self._helping = helping
        self._slots: deque[_Slot] = deque()
        self._lock = threading.Lock()  # consumers in several threads take turns at ``items``
        self._closed = False
        self._taking = 0  # consumers that wait for a result, or make it
        self._pid = os.getpid()

    def __iter__(self) -> PrefetchIterator[T, R]:
        return self

    def then(self, finish: Callable[[R], Any]) -> PrefetchIterator[T, Any]:
        """Give ``finish(result)``, called by who asks for a result; return this iterator.

        What ``finish`` raises does not end the iteration.
        """
        self._finish = finish
        return self

    def __next__(self) -> R:
        result: Any = self._advance()
        if self._finish is not None:
            result = call_in_epoch(self._finish, result)
        return result  # type: ignore[no-any-return]

    def _advance(self) -> R:
        if self._pid != os.getpid():
            raise ClosedError("a prefetching iterator cannot be used in a forked child: make a new")
        try:
            if not self._num_threads:
                return call_in_epoch(self._function, self._next_item())
            begun = self._begin()
            if begun is not None:
                return self._take(begun[0], begun[1])
        except BaseException:
            self.close()
            raise
        if not self._taking:  # else the last of them comes here later: results are being made
            self.close()
        raise StopIteration

    def _next_item(self) -> T:
        with self._lock:
            if self._items is None:
                raise StopIteration
            return next(self._items)

    def _begin(self) -> tuple[_Slot, _Workers | None] | None:
        """Return the slot of the next result, for :meth:`_take`, and its workers; None: the end."""
        with self._lock:
            self._fill()
            if not self._slots:
                return None
            slot = self._slots.popleft()
            self._taking += 1
            if self._helping:
                self._fill()  # so that there is something to help with
            return slot, self._workers

    def _take(self, slot: _Slot, workers: _Workers | None) -> R:
        if workers is not None:
            if not workers.threads:
                if slot.ready.locked():  # else it has an error of the items
                    _fill_slot(self._function, slot)
            elif self._helping:
                self._help(workers, slot)
        if not slot.ready.acquire(blocking=False):
            with stage("wait"):
                slot.ready.acquire()
        _raise_error(slot)
        with self._lock:
            self._taking -= 1  # not after an error, which closes the iterator
            self._fill()  # the threads stay busy while the consumer works on this result
        result: R = slot.result
        return result

    def _help(self, workers: _Workers, awaited: _Slot) -> None:
        """Fill slots that no thread has begun, the awaited one or later ones, until it is ready."""
        while awaited.ready.locked():
            try:
                slot = workers.queue.get_nowait()
            except Empty:
                return
            if slot is None:  # another thread has closed the iterator: a worker is to see it
                workers.queue.put(None)
                return
            _fill_slot(self._function, slot)
            if slot is awaited:
                return
            if slot.error is not None and not isinstance(slot.error, Exception):
                raise slot.error  # an interrupt is for this moment

    def _fill(self) -> None:
        """Queue items until ``depth`` results wait; the caller holds the lock."""
        while self._items is not None and len(self._slots) < self._depth:
            try:
                slot = _Slot(next(self._items))
            except StopIteration:
                self._items = None
                return
            except Exception as error:  # to be raised in order, after the results before it
                self._items = None
                slot = _Slot(None)
                slot.error = error
                slot.ready.release()
                self._slots.append(slot)
                return
            if self._closed:  # by another thread, while this item was read
                return
            if self._workers is None:
                self._workers = _Workers(self._function, self._num_threads)
            self._slots.append(slot)
            if self._workers.threads:  # else nobody would take it from there
                self._workers.queue.put(slot)

    def close(self) -> None:
        """Stop running ahead: drop waiting items, and wait for calls in progress."""
        self._closed = True
        self._items = None
        dropped = list(self._slots)
        for slot in dropped:
            slot.cancelled = True
        self._slots.clear()
        workers = self._workers
        self._workers = None
        if workers is not None:
            workers.stop()
        for slot in dropped:
            slot.error = None  # see _raise_error

    def __enter__(self) -> PrefetchIterator[T, R]:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_workers", None) is not None:
            self.close()


def prefetch_map(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    num_threads: SupportsIndex = 1,
    depth: SupportsIndex = 2,
    helping: SupportsIndex = False,  # and not bool, which compiled code would ask for itself
) -> PrefetchIterator[T, R]:
    """Return ``map(function, items)``, computed ahead by background threads, in order.

    ``items`` is read by the consumer's thread, ``function`` runs in the others (if ``helping``, in
    both). An exception of either is raised in place of its result, and ends the iteration. Closing,
    dropping, or leaving a ``with`` block stops the threads.

    Args:
        function: called once per item.
        items: arguments of ``function``; may be endless.
        num_threads: background threads; 0 runs ``function`` in the consumer's thread.
        depth: most results computed ahead.
        helping: a consumer that would wait computes a result that no thread has begun, the one it
            waits for or a later one: a consumer that is faster than the threads loads with them,
            one that is busy is left alone. ``function`` must be safe to call in two threads.

    Raises:
        InvalidArgumentError: ``num_threads`` is negative, ``depth`` is not positive, or ``helping``
            is no flag.
    """
    threads, ahead = as_integer(num_threads, "num_threads"), as_integer(depth, "depth")
    if threads < 0:
        raise InvalidArgumentError(f"num_threads = {threads} is negative")
    if ahead < 1:
        raise InvalidArgumentError(f"depth = {ahead} is not at least 1")
    return PrefetchIterator(function, items, threads, ahead, as_flag(helping, "helping"))


def prefetch_iter(items: Iterator[T], *, depth: SupportsIndex = 2) -> PrefetchIterator[Any, T]:
    """Return the items, made ahead by one background thread, which alone runs ``items``.

    Errors and endings are those of :func:`prefetch_map`.

    Args:
        items: the iterator, such as a generator that reads a file.
        depth: most items made ahead.
    """
    return prefetch_map(next, itertools.repeat(items), depth=depth)
