"""Threads beside a test, and conditions that it waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from aethergraph.loading import Ahead

__all__ = ["WAIT", "ahead_of", "comes", "repeating", "run_together", "run_with_each", "running"]

#: Seconds that anything may take on a busy machine.
WAIT = 60


def comes(condition: Callable[[], object], seconds: float = WAIT) -> bool:
    """Return whether a condition holds within some seconds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


@contextmanager
def running(*works: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Run functions in threads beside the block, and wait for their ends behind it.

    Yields:
        What went wrong in them, the first of which is raised at the end.
    """
    failures = list[BaseException]()

    def guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield failures
    finally:
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def run_together(*works: Callable[[], object]) -> None:
    """Run functions in threads at once, and raise the first of their errors."""
    with running(*works):
        pass


@contextmanager
def repeating(*calls: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Call functions again and again in threads, until the block ends or they fail."""
    over = threading.Event()

    def repeat(call: Callable[[], object]) -> Callable[[], None]:
        def work() -> None:
            while not over.is_set():
                call()

        return work

    with running(*map(repeat, calls)) as failures:
        try:
            yield failures
        finally:
            over.set()


def run_with_each(work: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
    """Call ``work`` with each argument in a thread of its own; return what each call returned.

    The threads wait for each other before they begin, and the first failure is raised here.
    """
    start = threading.Barrier(len(arguments))

    def run(argument: Any) -> Any:
        start.wait()
        return work(argument)

    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(run, arguments))


def ahead_of(threads: int, batches: int = 2, plan: int = 0) -> Ahead:
    """Return the option of a loader with so many background threads; 0: nothing is made ahead."""
    return Ahead(batches if threads else 0, max(1, threads), plan)
