"""Recorder: the own time of every stage, by thread, while a profile is made.

A stage's own time is that without the stages in it, so that the own times of a thread add up to the
time that it spent in stages.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from aethergraph.observe.reading import wait_seconds

__all__ = ["READING", "Key", "Recorder"]

#: Stage and what it is of; with READING behind it: the part that it waited for reads.
Key = tuple[str, ...]
READING = "reading"


class _Frame:
    """Stage that has begun."""

    __slots__ = ("began", "inner", "key", "reads", "waited")

    def __init__(self, key: Key, reads: Any) -> None:
        self.key, self.reads = key, reads
        self.waited = None if reads is None else wait_seconds(reads)
        self.inner = 0.0
        self.began = time.perf_counter()


class Recorder:
    """Observer that keeps calls and own seconds of each stage, by thread.

    The thread that makes it is the first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: dict[int, list[_Frame]] = {}
        self._is_stopped = False
        self._threads: list[threading.Thread] = []
        self._places: dict[int, int] = {}
        #: Calls and seconds by key, for as many threads as there were at once: one that begins
        #: when another has ended, as with each epoch, takes its place.
        self.times: list[dict[Key, list[float]]] = []
        self._take_place(threading.get_ident(), threading.current_thread())

    def begin(self, name: str, of: str = "", reads: Any = None) -> _Frame:
        """Note that a stage begins in this thread."""
        number, thread = threading.get_ident(), threading.current_thread()
        with self._lock:
            place = self._places.get(number)
            if place is None or self._threads[place] is not thread:  # numbers are used again
                self._take_place(number, thread)
            frames = self._frames[number]
            outer = frames[-1].key if frames else None
        # Whoever waits within a wait waits for the outer thing.
        key = outer if name == "wait" and outer and outer[0] == "wait" else (name, of)
        frame = _Frame(key, reads)
        frames.append(frame)
        return frame

    def _take_place(self, number: int, thread: threading.Thread) -> None:
        self._frames[number] = []
        ended = [place for place, holder in enumerate(self._threads) if not holder.is_alive()]
        place = ended[0] if ended else len(self._threads)
        if not ended:
            self._threads.append(thread)
            self.times.append({})
        self._threads[place] = thread
        self._places[number] = place

    def take_own(self) -> dict[Key, list[float]]:
        """Remove what the thread that made this has done from :attr:`times`, and return it."""
        return self.times.pop(0)

    def take_done(self) -> dict[Key, list[float]]:
        """Remove what this thread has done, and return it; nothing while a stage is at work."""
        thread = threading.get_ident()
        with self._lock:
            if self._frames.get(thread):
                return {}
            place = self._places[thread]
            times, self.times[place] = self.times[place], {}
            return times

    def end(self, begun: _Frame, error: BaseException | None = None) -> None:
        """Note that a stage of this thread ends, and those in it that nobody has ended."""
        now = time.perf_counter()
        thread = threading.get_ident()
        with self._lock:
            frames = self._frames.get(thread, [])
            if self._is_stopped or begun not in frames:
                return
            while frames:
                frame = frames.pop()
                self._add(thread, frame, now, frames[-1] if frames else None)
                if frame is begun:
                    return

    def stop(self) -> float:
        """Take no further notes; what is at work counts up to now. Return the time of it."""
        with self._lock:
            now = time.perf_counter()
            self._is_stopped = True
            for thread, frames in self._frames.items():
                while frames:
                    frame = frames.pop()
                    self._add(thread, frame, now, frames[-1] if frames else None)
        return now

    def _add(self, thread: int, frame: _Frame, now: float, outer: _Frame | None) -> None:
        elapsed = now - frame.began
        own_seconds = max(0.0, elapsed - frame.inner)
        if outer is not None:
            outer.inner += elapsed
        times = self.times[self._places[thread]]
        if frame.waited is not None:
            # Other threads may have waited for the same file meanwhile: no more than the stage had.
            waited = min(own_seconds, max(0.0, (wait_seconds(frame.reads) or 0.0) - frame.waited))
            own_seconds -= waited
            _count(times, (*frame.key, READING), waited)
        _count(times, frame.key, own_seconds)


def _count(times: dict[Key, list[float]], key: Key, seconds: float) -> None:
    total = times.setdefault(key, [0, 0.0])
    total[0] += 1
    total[1] += seconds
