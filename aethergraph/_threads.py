"""Threads that the system may refuse.

Limits on processes (``ulimit -u``, the pids of a cgroup) count threads. Work that would run beside
the caller then runs in the caller, as the native pool's does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["ThreadPool", "start_thread"]

T = TypeVar("T")
log = logging.getLogger("aethergraph")


def start_thread(work: Callable[..., None], name: str, *args: Any) -> threading.Thread | None:
    """Start a daemon thread that runs ``work(*args)``; return None if the system refuses it."""
    thread = threading.Thread(target=work, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        log.debug("%s: %s; working in the calling thread", name, error)
        return None
    return thread


class ThreadPool:
    """A ``ThreadPoolExecutor`` whose work runs in the caller where the system refuses threads.

    Args:
        threads: at most.
        name: what the names of its threads begin with.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._name = name

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """Return the future of ``work(*args)``."""
        future: Future[T] = Future()
        claim = threading.Lock()

        def run() -> None:
            if not claim.acquire(blocking=False) or not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work(*args))
            except BaseException as error:
                future.set_exception(error)

        try:
            self._pool.submit(run)
        except RuntimeError as error:
            # The work is queued all the same: a thread that did start may have claimed it.
            log.debug("%s: %s; working in the calling thread", self._name, error)
            run()
        return future

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """End the threads, as ``ThreadPoolExecutor.shutdown`` does."""
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.shutdown()
