"""Stages of worker processes, while a profile is made.

    this process     | memory that all append to |  <── a line for each piece of work ── worker 0
                     |                           |  <─────────────────────────────────── worker 1

Workers that are forks of this process have its observers, and a memory file that was open before.
So they are seen if they begin within a profile; those that began before, or by another program, are
not. A piece of work is a stage that is in no other, with those in it: writing it down costs a few
microseconds. The clock is the same in all processes.
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from typing import Any

from aethergraph.observe.recording import Key, Recorder

__all__ = ["ProcessRecorder"]


_observers: weakref.WeakSet[ProcessRecorder] = weakref.WeakSet()


def _begin_anew() -> None:
    """Give a fork recorders of its own: a lock of another may never be let go there."""
    for observer in list(_observers):
        observer._worker = Recorder()


os.register_at_fork(after_in_child=_begin_anew)


class ProcessRecorder:
    """Observer that hands stages of this process to a recorder, and writes down those of its forks.

    Args:
        recorder: recorder of this process; it hears nothing before :attr:`is_recording`.
    """

    def __init__(self, recorder: Recorder) -> None:
        #: Stages of this process are recorded.
        self.is_recording = False
        self._recorder = recorder
        #: Recorder of a fork; None: this is the process that began.
        self._worker: Recorder | None = None
        _observers.add(self)
        self._file = os.memfd_create("aethergraph-profile")
        fcntl.fcntl(self._file, fcntl.F_SETFL, os.O_APPEND)  # processes do not overwrite each other

    def begin(self, name: str, of: str = "", reads: Any = None) -> Any:
        """Note that a stage begins in this thread."""
        if self._worker is not None:
            return self._worker, self._worker.begin(name, of, reads)
        if not self.is_recording:
            return None
        return self._recorder, self._recorder.begin(name, of, reads)

    def end(self, begun: Any, error: BaseException | None = None) -> None:
        """Note that a stage of this thread ends; in a fork, write it down if it is in no other."""
        if begun is None:
            return
        recorder, frame = begun
        recorder.end(frame, error)
        if recorder is self._recorder:
            return
        times = recorder.take_done()
        if times:
            piece = [frame.began, [[*key, *total] for key, total in times.items()]]
            os.write(self._file, json.dumps(piece).encode() + b"\n")

    def take(self, began: float, ended: float) -> dict[Key, list[float]]:
        """Return calls and own seconds by stage of the forks' work that began in a time."""
        totals: dict[Key, list[float]] = {}
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(0)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # a worker is writing it, about work that ended after this time
                at, times = json.loads(line)
                if not began <= at <= ended:
                    continue
                for *key, calls, seconds in times:
                    total = totals.setdefault(tuple(key), [0, 0.0])
                    total[0] += calls
                    total[1] += seconds
        return totals

    def close(self) -> None:
        """Give the memory back."""
        os.close(self._file)
