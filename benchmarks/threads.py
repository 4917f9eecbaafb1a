"""What a thread that prefetches pays: sampling in another thread beside the main thread.

    python benchmarks/threads.py [--quick]

The same batches with the same keys, one thread at a time, in turns, by the processor time of the
thread that samples. Native calls of the main thread let Python run its signal handlers; those of
another thread have nothing to ask for, and should take no longer.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

WAYS = ("main", "another")
CASES = ((128, [15, 10]), (512, [15, 10, 5]), (1024, [20, 15, 10]))


def sample(sampler: Any, batches: Any, first_key: int) -> tuple[float, int]:
    """Sample the batches in this thread; return the processor time of one, and its edges."""
    begin, edges = time.thread_time(), 0
    for number, seeds in enumerate(batches):
        edges += sampler.sample(seeds, key=first_key + number).num_edges
    return (time.thread_time() - begin) / len(batches), edges // len(batches)


def main(argv: Sequence[str] | None = None) -> None:
    args = common.parse(common.parser(__doc__), argv)
    from aethergraph import Graph, NeighborSampler

    report = Report("threads", "Sampling in the main thread and in another one", args)
    os.sched_setaffinity(0, {args.core})  # both ways find the same caches
    nodes, rounds = (2_000, 3) if args.quick else (200_000, 31)
    graph = Graph.from_edges(nodes, *common.power_law_edges(nodes, 10 * nodes))
    rng = np.random.Generator(np.random.PCG64(1))
    rows: list[list[common.Cell]] = []
    for size, fanouts in CASES:
        batches = rng.integers(0, nodes, (4096 // size, size))
        samplers = {way: NeighborSampler(graph, fanouts, num_threads=1) for way in WAYS}
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        edges = 0
        with ThreadPoolExecutor(1) as thread:
            for turn in range(-1, rounds):
                for way in WAYS if turn % 2 else reversed(WAYS):
                    work = samplers[way], batches, len(batches) * (turn + 1)
                    taken, edges = (
                        sample(*work) if way == "main" else thread.submit(sample, *work).result()
                    )
                    if turn >= 0:
                        times[way].append(taken)
        ratio = Ratio.paired(times["another"], times["main"])
        case = f"{fanouts} x {size}"
        cells = [1e3 * statistics.median(times[way]) for way in WAYS]
        rows.append([case, edges, *cells, str(ratio)])
    report.table(
        "processor time of a batch",
        ["case", "edges", "main, ms", "another, ms", "another / main"],
        rows,
    )

    def draw(axes: Sequence[Any]) -> None:
        labels = [f"{row[0]}, {way}" for row in rows for way in WAYS]
        values = [float(str(row[column])) for row in rows for column in (2, 3)]
        common.bars(axes[0], labels, values, "ms per batch")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
