"""Peak memory of this process, by kind.

Linux counts resident pages by their backing (``/proc/self/status``):

* RssAnon: memory that was allocated. It stays until the process frees it; a process runs out of
  memory because of these pages.
* RssFile: pages of mapped files. They are the page cache: the kernel takes them back, unwritten,
  the moment something else needs the room, and other processes share them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from aethergraph._parallel.threads import start_thread

__all__ = ["MemoryWatch", "Resident", "resident"]


@dataclass(frozen=True)
class Resident:
    """Resident bytes: anonymous (with shared memory) and file-backed."""

    anon: int
    file: int


def resident() -> Resident:
    """Return the memory that this process holds now."""
    sizes = {"RssAnon": 0, "RssFile": 0, "RssShmem": 0}
    with open("/proc/self/status") as status:
        for line in status:
            name, _, value = line.partition(":")
            if name in sizes:
                sizes[name] = int(value.split()[0]) * 1024
    return Resident(sizes["RssAnon"] + sizes["RssShmem"], sizes["RssFile"])


class MemoryWatch:
    """Thread that samples :func:`resident`; ``peak`` is the largest of each kind so far."""

    def __init__(self, interval: float = 0.02) -> None:
        self._interval = interval
        self._anon = 0
        self._file = 0
        self._stop = threading.Event()
        self._look()
        self._thread = start_thread(self._run, "memory-watch")

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            self._look()

    def _look(self) -> None:
        now = resident()
        self._anon = max(self._anon, now.anon)
        self._file = max(self._file, now.file)

    @property
    def peak(self) -> Resident:
        """Largest resident bytes of each kind so far."""
        self._look()
        return Resident(self._anon, self._file)

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1)
