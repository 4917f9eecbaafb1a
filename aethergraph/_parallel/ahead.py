"""Iterator that runs ahead of its consumer in a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

from aethergraph._parallel.threads import start_thread

__all__ = ["ahead"]

T = TypeVar("T")
_END = object()


def ahead(items: Iterator[T], depth: int = 3) -> Generator[T, None, None]:
    """Yield the items, of which up to ``depth`` are made before they are asked for.

    An exception of ``items`` is raised here, after the items before it. Closing the generator stops
    the thread.
    """
    waiting: queue.Queue[Any] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: Any) -> None:
        while not stop.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((item, None))
                if stop.is_set():
                    break
            put((_END, None))
        except BaseException as error:
            put((_END, error))

    thread = start_thread(work, "aethergraph-ahead")
    if thread is None:
        yield from items
        return
    try:
        while True:
            item, error = waiting.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        stop.set()
        thread.join()
