"""Long native calls: Ctrl-C and progress while they run in a worker thread."""

from __future__ import annotations

import _thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from aethergraph import errors
from aethergraph._native.core import ffi
from aethergraph._native.signals import (
    poll_signals,
    raise_interrupt,
    thread_owner,
    thread_task,
    work_for,
)

T = TypeVar("T")
Progress = Callable[[int, int], None]


class Task:
    """Shared state of a long call: cancellation, and progress summed over its native calls.

    Each native call counts its own items from 0. The task scales them to the ``size`` bytes that it
    was lent for, so that an operation of many calls has one measure.
    """

    __slots__ = ("_base", "_handle", "_size", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._handle = ffi.new("aether_task *")
        self._base = 0
        self._size = 0

    def lend(self, size: int) -> Any:
        """Return the ``aether_task *`` for a native call that stands for ``size`` bytes."""
        self._base += self._size
        self._size = 0
        self._handle.done = 0
        self._handle.total = 0
        self._size = size
        return self._handle

    @property
    def done(self) -> int:
        """Bytes done so far, out of ``total``."""
        part, total = self._handle.done, self._handle.total
        inside = self._size * min(part, total) // total if total else 0
        return int(min(self._base + inside, self.total))

    def cancel(self) -> None:
        """Ask the running native call, and the following ones, to stop."""
        self._handle.cancel = 1

    @property
    def cancelled(self) -> bool:
        """True after :meth:`cancel`."""
        return bool(self._handle.cancel)

    def check(self) -> None:
        """Raise CancelledError if the task was cancelled; for loops between native calls."""
        if self._handle.cancel:
            raise errors.CancelledError("cancelled")


def lend(task: Task | None, size: int) -> Any:
    """Return ``task.lend(size)``; without a task, that of this thread."""
    return thread_task() if task is None else task.lend(size)


def cancel_with(task: Task | None) -> None:
    """Let ``task`` cancel the native calls that this thread makes from now on; None ends that."""
    work_for(task, None if task is None else task._handle)


@contextmanager
def working_for(task: Task | None) -> Iterator[None]:
    """Let ``task``, if there is one, cancel the native calls of this thread inside the block."""
    before: Task | None = thread_owner()
    cancel_with(before if task is None else task)
    try:
        yield
    finally:
        cancel_with(before)


def run_task(
    call: Callable[[Task], T],
    progress: Progress | None = None,
    total: int = 0,
    *,
    interval: float = 0.1,
) -> T:
    """Run ``call(task)`` in a worker thread and wait for it.

    ``call`` hands ``task`` to the native functions it uses. Meanwhile this thread stays
    responsive: Ctrl-C (or an exception of ``progress``) asks the call to stop, waits until it has
    let go of the memory lent to it, and is raised again.

    The call runs in this thread instead if the thread works for a task itself
    (:func:`cancel_with`), or if the system refuses another thread. Then native calls look for
    signals, and progress is reported only at the end.

    Args:
        call: the work; runs once.
        progress: called with (done, total) about every ``interval`` seconds and at the end.
        total: bytes that the work moves in all.
        interval: seconds between two progress calls.
    """
    owner: Task | None = thread_owner()
    if owner is not None:
        return _run_here(call, owner, progress, total)
    task = Task(total)
    # Allocated now: a thread without memory may fail at any allocation, silently.
    result: list[T | None] = [None]
    failure: list[BaseException | None] = [None]
    ended = [False]
    # Bare locks: a Ctrl-C inside Event.wait could leave the event's own lock held for ever.
    running, claim = _thread.allocate_lock(), _thread.allocate_lock()
    running.acquire()

    def work() -> None:
        if not claim.acquire(blocking=False):
            return  # interrupted before it began
        try:
            result[0] = call(task)
        except BaseException as error:
            failure[0] = error
        finally:
            ended[0] = True
            running.release()

    interrupt: BaseException | None = None
    started = False
    reported = 0
    alone = False
    patience = _PATIENCE
    while True:
        try:
            if not started:
                try:
                    _thread.start_new_thread(work, ())
                except RuntimeError:  # a limit of processes or threads
                    alone = True
                    break
                started = True
            while not ended[0]:
                if running.acquire(timeout=interval):
                    continue
                patience -= interval
                if patience < 0 and interrupt is None and claim.acquire(blocking=False):
                    alone = True  # the thread has not begun and, without the claim, cannot any more
                    break
                if progress is not None and interrupt is None:
                    reported = max(reported, task.done)
                    progress(reported, total)
            break
        except BaseException as error:
            task.cancel()
            if interrupt is not None or (not started and claim.acquire(blocking=False)):
                raise  # a second Ctrl-C, or the work cannot begin any more: nothing to wait for
            started = True
            interrupt = error
    if alone:
        poll_signals(task._handle)
        return _run_here(call, task, progress, total)
    if interrupt is not None:
        raise interrupt
    if failure[0] is not None:
        raise failure[0]
    if progress is not None:
        progress(total, total)
    return cast("T", result[0])


def _run_here(
    call: Callable[[Task], T], task: Task, progress: Progress | None, total: int
) -> T:  # fmt: skip
    result = call(task)
    raise_interrupt()
    if progress is not None:
        progress(total, total)
    return result


def run_long(call: Callable[[Task | None], T], progress: Progress | None, size: int) -> T:
    """Run ``call`` like :func:`run_task` if ``size`` is large or ``progress`` is given.

    Otherwise call it with None in this thread: its native calls look for signals.
    """
    if progress is None and size < LONG_CALL_BYTES:
        return call(None)
    return run_task(call, progress, size)


#: Seconds in which a started thread begins its work, or dies for lack of memory.
_PATIENCE = 2.0

#: Calls that move fewer bytes run in the calling thread: they end before a person notices.
LONG_CALL_BYTES = 64 << 20
