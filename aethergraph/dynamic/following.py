"""What a reader of a live graph in a directory knows of the process that writes it.

::

    LIVE as before, process alive    it writes
    LIVE as before, process ended    it was killed
    no LIVE                          it has closed the graph
    LIVE with other memory           another one writes

A look is one stat of ``LIVE``, which every publication replaces, at most every hundredth of a
second; and at most every tenth of a second one at the process.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from time import monotonic
from typing import NoReturn

from aethergraph import _native as native
from aethergraph._parallel.forks import renew_lock_in_forks
from aethergraph.dynamic.attaching import attach
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.store import LiveStore
from aethergraph.errors import ClosedError, FileChangedError, MissingFileError, WriterGoneError

__all__ = ["Following"]

#: Seconds between two looks at the process, which a file of /proc tells of.
_PROCESS_SECONDS = 0.1


class Following:
    """Writer of the graph that a reader has, and of what follows it.

    Args:
        store: what the reader has of a graph in a directory.
        follow: method of its graph, which is not kept, that takes the store of the next writer;
            None: the reader does not go on with it.
    """

    def __init__(self, store: LiveStore, follow: Callable[[LiveStore], None] | None) -> None:
        assert store.path is not None
        self.goes_on = follow is not None
        self._follow = None if follow is None else weakref.WeakMethod(follow)
        self._directory = LiveDirectory(store.path)
        self._uuid, self._memory, self._writer = store.uuid, store.memory_name, store.writer
        #: Version of LIVE that was read; None: none was.
        self._seen = store.publication
        self._has_ended, self._next_look, self._next_process = False, 0.0, 0.0
        self._lock = threading.Lock()
        renew_lock_in_forks(self)

    def check(self, live: native.NativeLive) -> None:
        """Raise if nobody writes what ``live`` has, unless the reader goes on with the next one.

        Raises:
            WriterGoneError: nobody does.
            FileChangedError: the directory has another graph now.
        """
        if monotonic() < self._next_look:
            return
        gone = self.look(live)
        if gone is not None and not self.goes_on:
            self._fail(live, gone)
        self._next_look = monotonic() + native.LOOK_SECONDS

    def look(self, live: native.NativeLive) -> str | None:
        """Return what became of the writer, for a message; None: it writes.

        A reader that goes on does so now, where another one writes.

        Raises:
            FileChangedError: the directory has another graph now.
        """
        version = self._directory.published()
        if version is None or version != self._seen:
            return self._look_again(version, live)
        if not self._has_ended:
            now = monotonic()
            if now < self._next_process:
                return None
            self._has_ended = not self._is_alive
            self._next_process = now + _PROCESS_SECONDS
        return "has ended" if self._has_ended else None

    @property
    def _is_alive(self) -> bool:
        return self._writer is None or self._writer.is_alive

    def _look_again(self, version: tuple[int, int] | None, live: native.NativeLive) -> str | None:
        """Return the same, after ``LIVE`` has changed or where there is none."""
        if version is None:
            if not os.path.isdir(self._directory.path) and self._is_alive:
                return None  # the directory was moved or removed; its writer goes on
            return "has closed it" if self._is_alive else "has ended"
        with self._lock:
            if version == self._seen:  # another thread has seen to it
                return None
            try:
                memory = self._directory.address().get("memory", "")
                is_same = memory == self._memory
                if not self.goes_on and not is_same:
                    return "was followed by another one that writes"
                if self.goes_on and not (is_same and self._seen is None):
                    self._go_on(live)
            except (ClosedError, MissingFileError):
                return "has closed it"
            self._seen, self._has_ended = version, False
            return None

    def _go_on(self, live: native.NativeLive) -> None:
        """Let the graph be what the directory's writer has now."""
        store = attach(self._directory.path)
        if store.uuid != self._uuid:
            raise FileChangedError(
                f"{self._directory.path} holds another live graph ({store.uuid}) than when it was "
                f"attached to ({self._uuid}): put that one back, or attach again"
            )
        store.succeed(live)
        self._memory, self._writer = store.memory_name, store.writer
        follow = None if self._follow is None else self._follow()
        if follow is not None:
            follow(store)

    def _fail(self, live: native.NativeLive, gone: str) -> NoReturn:
        pid = "" if self._writer is None else f" {self._writer.pid}"
        raise WriterGoneError(
            f"{self._directory.path}: process{pid}, which wrote this live graph, {gone}; the last "
            f"commit that this reader has is {live.last_commit} (lsn {live.last_lsn}). Once "
            "another process has it open, attach(path) reads that one; attach(path, follow=True) "
            "goes on with the next one by itself"
        )
