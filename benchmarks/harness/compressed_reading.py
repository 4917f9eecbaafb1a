"""Plain and compressed lists that stay in their files: the same batches within the same budget.

Every run opens its graph anew, so that nothing is kept in memory, and reads past the page cache.
The two files take turns, round by round. What is read in a run does not depend on the machine.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness import common
from harness.common import Ratio

FANOUTS, BATCH = [20, 15, 10], 1024
COLUMNS = [
    "graph", "lists", "sampling", "budget",
    "M edges/s plain", "compressed", "ratio",
    "ns of CPU per edge plain", "compressed", "ratio",
    "bytes read per edge plain", "compressed",
]  # fmt: skip


@dataclass
class Run:
    """One file, sampled once."""

    edges: int
    seconds: float
    cpu: float
    read_bytes: int
    content: int  # a checksum of the samples


def read(path: Path, budget: str, seeds: Sequence[common.Ids], grouped: bool) -> Run:
    """Sample all batches, many together or one by one."""
    from aethergraph import Graph, NeighborSampler

    with Graph.load(path, storage="uring", memory_budget=budget) as graph:
        sampler = NeighborSampler(graph, FANOUTS)
        assert graph.paging is not None
        before = graph.paging.stats()["read_bytes"]
        start, cpu = time.perf_counter(), time.process_time()
        keys = range(len(seeds))
        samples: Any = (sampler.sample(own, key=key) for key, own in enumerate(seeds))
        edges = content = 0
        for sample in sampler.sample_many(seeds, keys) if grouped else samples:
            edges += len(sample.edge)
            content = zlib.crc32(sample.node[-1000:].tobytes(), content)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        return Run(edges, seconds, cpu, graph.paging.stats()["read_bytes"] - before, content)


def compare(
    files: tuple[Path, Path], num_nodes: int, budget: str, batches: int, rounds: int
) -> list[list[common.Cell]]:
    """Rows for the columns from "sampling" on: in groups, and a quarter of it batch by batch."""
    rng = np.random.Generator(np.random.PCG64(6))
    seeds = [rng.integers(0, num_nodes, BATCH) for _ in range(batches)]
    rows = list[list[common.Cell]]()
    for name, grouped, some in (
        ("in groups", True, seeds),
        ("batch by batch", False, seeds[: max(1, batches // 4)]),
    ):
        runs = list[tuple[Run, Run]]()
        for number in range(rounds):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            found = {which: read(files[which], budget, some, grouped) for which in order}
            if found[0].content != found[1].content or found[0].edges != found[1].edges:
                raise SystemExit("the samples differ")
            runs.append((found[0], found[1]))
        rows.append([name, budget, *_row(runs)])
    return rows


def _row(runs: Sequence[tuple[Run, Run]]) -> list[common.Cell]:
    rate = [[run.edges / run.seconds / 1e6 for run in own] for own in zip(*runs, strict=True)]
    cpu = [[1e9 * run.cpu / run.edges for run in own] for own in zip(*runs, strict=True)]
    read_bytes = [
        float(np.median([run.read_bytes / run.edges for run in own]))
        for own in zip(*runs, strict=True)
    ]
    row: list[common.Cell] = []
    for plain, packed in (rate, cpu):
        row += [float(np.median(plain)), float(np.median(packed))]
        row.append(str(Ratio.paired(packed, plain)))
    return [*row, *read_bytes]
