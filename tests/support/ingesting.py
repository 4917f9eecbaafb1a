"""Live graphs that streams are taken into, what they hold, and kills meanwhile."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from support.processes import WarmPython
from support.threads import comes

from aethergraph import DynamicGraph, NeighborSampler
from aethergraph.streaming import Ingestor, Source

__all__ = [
    "Fed", "digest", "edges", "kills_timeout", "letters", "most_kills", "opened", "run_killed",
    "small", "wait_for_edges",
]  # fmt: skip


def small(nodes: int = 10_000, **options: Any) -> DynamicGraph:
    """Return a live graph in memory whose edges come in the order of their arrival."""
    return DynamicGraph(
        nodes, 16, huge_pages=False, **{"order": "time", "layout": "csc", **options}
    )


def letters(path: Path) -> list[dict[str, Any]]:
    """Return what a file of dead letters holds."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def wait_for_edges(ingestor: Ingestor, wanted: int) -> None:
    """Wait until a graph has as many edges, or its ingestor has failed."""
    found = comes(lambda: ingestor.check() or ingestor.graph.num_edges >= wanted)
    assert found, ingestor.stats()


S = TypeVar("S", bound=Source)


@contextmanager
def opened(source: S, offsets: Any = None) -> Iterator[S]:
    """Open a source for a block."""
    source.open(offsets or {})
    try:
        yield source
    finally:
        source.close()


def edges(graph: Any) -> list[tuple[int, int]]:
    """Edges of a live graph as of now, sorted."""
    src, dst, _ = graph.snapshot().edge_list()
    return sorted(zip(src.tolist(), dst.tolist(), strict=True))


def digest(graph: Any) -> str:
    """Everything in a graph of one type: edges with their ids in their order, and samples."""
    found = hashlib.sha256()
    sample = NeighborSampler(graph, [4, 3]).sample(np.arange(graph.num_nodes), key=7)
    for array in (*graph.edge_list(), sample.node, sample.row, sample.col, sample.edge):
        found.update(np.ascontiguousarray(array, np.int64).tobytes())
    return found.hexdigest()


def most_kills() -> int:
    """Return how often a process is killed at most: AETHERGRAPH_KILLS, or 2."""
    return int(os.environ.get("AETHERGRAPH_KILLS", "2"))


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
        assert comes(lambda: all(ends[n] >= min(c, 1) for n, c in enumerate(self.counts)))

    def feed(self, number: int, count: int) -> None:
        """Send the edges (number, 0), (number, 1)... up to ``count``."""
        raise NotImplementedError
