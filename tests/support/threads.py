"""Threads that do the same work at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def run_together(work: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
    """Call ``work`` with each argument in a thread of its own; return what each call returned.

    The threads wait for each other before they begin, and the first failure is raised here.
    """
    start = threading.Barrier(len(arguments))

    def run(argument: Any) -> Any:
        start.wait()
        return work(argument)

    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(run, arguments))
