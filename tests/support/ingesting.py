"""Live graphs that streams are taken into: their edges, kills meanwhile, and a certificate."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from support.processes import WarmPython

__all__ = ["Fed", "edges", "kills_timeout", "most_kills", "run_killed"]


def edges(graph: Any) -> list[tuple[int, int]]:
    """Edges of a live graph as of now, sorted."""
    src, dst, _ = graph.snapshot().edge_list()
    return sorted(zip(src.tolist(), dst.tolist(), strict=True))


def most_kills() -> int:
    """Return how often a process is killed at most: AETHERGRAPH_KILLS, or 6."""
    return int(os.environ.get("AETHERGRAPH_KILLS", "6"))


def kills_timeout() -> int:
    """Return the seconds that a test of so many kills may take, on a machine that is busy."""
    return 600 + 20 * most_kills()


def run_killed(
    script: str, args: Sequence[object], rng: np.random.Generator, lines: int
) -> tuple[int, int]:
    """Run a script again and again until it prints ``done``; kill it meanwhile.

    Args:
        script: prints a line of 2,000 characters now and then, and ``done`` at its end.
        args: its arguments.
        rng: draws when it is killed: up to 3 ms after one of its first lines.
        lines: it is killed before it has printed so many.

    Returns:
        How often it was killed, and how often at most: :func:`most_kills`.
    """
    kills, is_done, most = 0, False, most_kills()
    with (
        tempfile.TemporaryDirectory() as name,
        WarmPython(["aethergraph.streaming"]) as python,
    ):
        folder = Path(name)
        (folder / "killed.py").write_text(script)
        os.mkfifo(folder / "printed")
        while not is_done:
            process = python.start([folder / "killed.py", *args], folder, folder / "printed")
            left = int(rng.integers(0, lines)) if kills < most else 10**9
            with open(folder / "printed") as printed:
                # It waits for who reads its lines, which are long: it cannot be done meanwhile.
                fcntl.fcntl(printed, fcntl.F_SETPIPE_SZ, 4096)
                for line in printed:
                    is_done = line == "done\n"
                    left -= 1
                    if left <= 0:
                        time.sleep(float(rng.uniform(0, 0.003)))
                        os.kill(process, signal.SIGKILL)
                        kills += 1
                        break
                status = python.wait()
            if kills < most:
                assert status in (0, -signal.SIGKILL), (folder / "printed.err").read_text()
    return kills, most


class Fed:
    """Mixed into a source that is sent to: clients send all they have whenever it is opened."""

    counts: Sequence[int] = ()

    def open(self, offsets: Any) -> None:
        super().open(offsets)  # type: ignore[misc]
        ends: dict[int, int] = self._next  # type: ignore[attr-defined]
        for number, count in enumerate(self.counts):
            ends.setdefault(number, 0)
            threading.Thread(target=self.feed, args=(number, count), daemon=True).start()
        until = time.monotonic() + 60
        while time.monotonic() < until and any(
            ends[n] < min(count, 1) for n, count in enumerate(self.counts)
        ):
            time.sleep(0.001)

    def feed(self, number: int, count: int) -> None:
        """Send the edges (number, 0), (number, 1)... up to ``count``."""
        raise NotImplementedError
