"""Threads that the system may refuse.

Limits on processes (``ulimit -u``, the pids of a cgroup) count threads. If a thread is refused, its
work runs in the calling thread, as in the native pool.
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
    """A ``ThreadPoolExecutor`` whose work runs in the caller if the system refuses threads.

    Args:
        threads: the most threads to start.
        name: prefix of the threads' names.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._name = name

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """Run ``work(*args)`` in a thread, or here if threads are refused; return its future."""
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
            # The refused work stays queued: a thread that did start may have claimed it.
            log.debug("%s: %s; working in the calling thread", self._name, error)
            run()
        return future

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """End the threads, like ``ThreadPoolExecutor.shutdown``."""
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.shutdown()
