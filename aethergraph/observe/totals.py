"""StageTotals: calls and seconds by stage, while stages are observed."""

from __future__ import annotations

import threading
import time
from typing import Any

from aethergraph.observe.reading import Sample

#: Calls and seconds by stage, and what it is of.
Totals = dict[tuple[str, str], list[float]]

__all__ = ["StageTotals"]


class StageTotals:
    """Observer that adds up the calls and the seconds of stages, over all threads.

    Each thread adds to numbers of its own, so that none waits for another.
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._lock = threading.Lock()
        self._threads: list[tuple[threading.Thread, Totals]] = []
        #: What threads that have ended had added up.
        self._ended: Totals = {}

    def begin(self, name: str, of: str, reads: Any) -> tuple[str, str, float]:
        """Note when a stage begins."""
        return name, of, time.perf_counter()

    def end(self, begun: tuple[str, str, float], error: BaseException | None) -> None:
        """Add a stage to its totals."""
        name, of, at = begun
        seconds = time.perf_counter() - at
        thread_totals: Totals | None = getattr(self._own, "totals", None)
        if thread_totals is None:
            thread_totals = self._own.totals = {}
            with self._lock:
                self._threads.append((threading.current_thread(), thread_totals))
                self._fold()
        total = thread_totals.get((name, of))
        if total is None:
            total = thread_totals[name, of] = [0, 0.0]
        total[0] += 1
        total[1] += seconds

    def _fold(self) -> None:
        """Keep the numbers of threads that have ended, and not the threads."""
        alive = []
        for thread, thread_totals in self._threads:
            if thread.is_alive():
                alive.append((thread, thread_totals))
            else:
                _add(self._ended, thread_totals)
        self._threads = alive

    def renew(self) -> None:
        """Go on in a forked child, where another thread may have held the lock."""
        self._lock = threading.Lock()

    def samples(self) -> list[Sample]:
        """Return the totals as samples."""
        with self._lock:
            self._fold()
            totals = {key: list(value) for key, value in self._ended.items()}
            for _, thread_totals in self._threads:
                _add(totals, thread_totals)
        samples = []
        for (stage, of), (calls, seconds) in sorted(totals.items()):
            labels = {"name": "process", "stage": stage, "of": of}
            samples.append(Sample("aethergraph_stage_calls_total", labels, calls))
            samples.append(Sample("aethergraph_stage_seconds_total", labels, seconds))
        return samples


def _add(totals: Totals, thread_totals: Totals) -> None:
    for key, (calls, seconds) in list(thread_totals.items()):
        total = totals.setdefault(key, [0, 0.0])
        total[0] += calls
        total[1] += seconds
