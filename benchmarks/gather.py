"""Gathering feature rows: rows per second against torch.index_select and numpy.take.

    python benchmarks/gather.py [--quick]

Random rows of a float32 table, into memory that is used again; one thread (pinned, torch set to
one) and all threads. One process; the contenders take turns call by call.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import common
from harness.common import Ratio, Report

Ids = common.Ids
CASES = ((1_000_000, 128), (8_000_000, 128), (1_000_000, 16))  # rows, width
OURS = ("aethergraph memory", "aethergraph mmap")
TORCH = "torch.index_select"


def table_file(folder: Path, rows: int, width: int) -> Path:
    path = folder / f"table-{rows}x{width}.npy"
    if not path.exists():
        common.say(f"making {path.name}")
        rng = np.random.Generator(np.random.PCG64(0))
        part = path.with_suffix(".part.npy")
        made = np.lib.format.open_memmap(part, "w+", np.float32, (rows, width))
        for begin in range(0, rows, 1 << 18):
            made[begin : begin + (1 << 18)] = rng.standard_normal(
                made[begin : begin + (1 << 18)].shape, np.float32
            )
        made.flush()
        part.rename(path)
    return path


def contenders(path: Path, count: int) -> dict[str, Callable[[Ids], Any]]:
    from aethergraph import FeatureTable

    table = np.load(path)
    tensor = torch.from_numpy(table)
    out = np.zeros((count, table.shape[1]), np.float32)
    out_tensor = torch.zeros(count, table.shape[1])
    memory, mapped = FeatureTable.load(path, storage="memory"), FeatureTable.load(path)
    return {
        OURS[0]: lambda ids: memory.gather(ids, out=out),
        OURS[1]: lambda ids: mapped.gather(ids, out=out),
        TORCH: lambda ids: torch.index_select(tensor, 0, torch.from_numpy(ids), out=out_tensor),
        "numpy.take": lambda ids: np.take(table, ids, axis=0, out=out, mode="clip"),
    }


def measure(
    calls: dict[str, Callable[[Ids], Any]], rows: int, count: int, rounds: int
) -> dict[str, list[float]]:
    """Seconds per call by round; a warm-up round first."""
    rng = np.random.Generator(np.random.PCG64(1))
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(-2, rounds):
        ids = rng.integers(0, rows, count)
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            start = time.perf_counter()
            calls[name](ids)
            if number >= 0:
                times[name].append(time.perf_counter() - start)
    return times


def main(argv: Sequence[str] | None = None) -> None:
    import aethergraph

    args = common.parse(common.parser(__doc__), argv)
    report = Report("gather", "Gathering feature rows", args)
    count, rounds = (2_000, 3) if args.quick else (20_000, 50)
    cases = ((20_000, 16),) if args.quick else CASES
    cores = os.sched_getaffinity(0)
    rows: list[list[common.Cell]] = []
    ratios: list[list[common.Cell]] = []
    for table_rows, width in cases:
        calls = contenders(table_file(args.dir, table_rows, width), count)
        for threads in sorted({1, len(cores)}):
            torch.set_num_threads(threads)
            aethergraph.set_num_threads(threads)
            os.sched_setaffinity(0, {args.core} if threads == 1 else cores)
            times = measure(calls, table_rows, count, rounds)
            os.sched_setaffinity(0, cores)
            label: list[common.Cell] = [f"{common.short(table_rows)} x {width}", threads]
            rows.append([*label, *(count / statistics.median(t) / 1e6 for t in times.values())])
            ratios.append([*label, *(str(Ratio.paired(times[TORCH], times[n])) for n in OURS)])
            names = list(times)
    report.parameters = {"rows_per_call": count, "rounds": rounds, "core": args.core}
    report.table("million rows per second, medians", ["table", "threads", *names], rows)
    report.table(
        f"times as fast as {TORCH}: median (range over calls)", ["table", "threads", *OURS], ratios
    )
    report.note("torch and numpy hold the table in ordinary memory, as torch.from_numpy gives it.")

    def draw(axes: Sequence[Any]) -> None:
        for axis, row in zip(axes, rows, strict=True):
            values = [value if isinstance(value, float) else None for value in row[2:]]
            common.bars(axis, names, values, "million rows/s")
            axis.set_title(f"{row[0]} float32, {row[1]} threads", fontsize=9)

    common.plot(report, len(rows), draw)
    report.finish()


if __name__ == "__main__":
    main()
