"""Live features: putting and gathering rows of 512 bytes, beside a FeatureTable and numpy.

    python benchmarks/live_features.py [--quick]

Random rows of a float32 table of 128 columns, one thread, pinned. One process; the contenders take
turns call by call. Putting is compared with numpy's assignment, gathering with a FeatureTable in
memory and with numpy: neither of these is safe beside a writer. Last, a reader beside a process
that puts rows as fast as it can, on two cores.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from harness import common
from harness.common import Ids, Ratio, Report

WIDTH = 128
CALLS = (256, 20_000)  # rows of a call
STORE, LIVE, NUMPY = "FeatureTable", "live table", "numpy"
CHECKED, STREAM = "live table, checksums too", "live table, rows in order"

Calls = dict[str, Callable[[Ids], Any]]


def take_turns(calls: Calls, rows: int, count: int, rounds: int) -> dict[str, list[float]]:
    """Nanoseconds per row by round; two warm-up rounds first.

    Each contender gets rows of its own: some share memory, which would be in the cache for those
    that come second.
    """
    rng = np.random.Generator(np.random.PCG64(1))
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    repeat = max(1, 20_000 // count)
    for number in range(-2, rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            call = calls[name]
            lists = [rng.integers(0, rows, count) for _ in range(repeat)]
            start = time.perf_counter()
            for ids in lists:
                call(ids)
            if number >= 0:
                times[name].append(1e9 * (time.perf_counter() - start) / (count * repeat))
    return times


def gathers(table: Any, values: Any, count: int) -> Calls:
    from aethergraph import FeatureTable, LiveFeatureTable

    out = np.zeros((count, WIDTH), np.float32)
    store = FeatureTable.from_array(values)
    checked = LiveFeatureTable.attach(table.descriptor, check=True)
    return {
        STORE: lambda ids: store.gather(ids, out),
        LIVE: lambda ids: table.gather(ids, out),
        CHECKED: lambda ids: checked.gather(ids, out),
        NUMPY: lambda ids: np.take(values, ids, 0, out, "clip"),
    }


def puts(table: Any, values: Any, count: int) -> Calls:
    rows = np.random.default_rng(2).random((count, WIDTH), np.float32)
    run = np.arange(count)

    def assign(ids: Ids) -> None:
        values[ids] = rows

    return {
        NUMPY: assign,
        LIVE: lambda ids: table.put_many(ids, rows),
        STREAM: lambda ids: table.put_many((run + ids[0]) % len(table), rows),
    }


def write_on(table: Any, core: int, stop: Any, out: Any) -> None:
    """Put random rows until told to stop; send rows per second."""
    os.sched_setaffinity(0, {core})
    rng = np.random.default_rng(3)
    rows = rng.random((1000, WIDTH), np.float32)
    out.send(None)
    done, begin = 0, time.perf_counter()
    while not stop.is_set():
        done += table.put_many(rng.integers(0, len(table), 1000), rows)
    out.send(done / (time.perf_counter() - begin))


def beside_a_writer(
    table: Any, count: int, rounds: int, cores: Sequence[int]
) -> tuple[dict[str, list[float]], float]:
    """Gather alone, then beside a writer in another process; also return the writer's rate."""
    context = multiprocessing.get_context("spawn")
    out = np.zeros((count, WIDTH), np.float32)
    calls: Calls = {LIVE: lambda ids: table.gather(ids, out)}
    alone = take_turns(calls, len(table), count, rounds)[LIVE]
    stop, (ours, theirs) = context.Event(), context.Pipe()
    writer = context.Process(target=write_on, args=(table, cores[-1], stop, theirs))
    writer.start()
    ours.recv()
    beside = take_turns(calls, len(table), count, rounds)[LIVE]
    stop.set()
    rate = ours.recv()
    writer.join()
    return {"alone": alone, "beside": beside}, rate


def table_of(
    times: dict[str, list[float]], base: str, label: common.Cell
) -> list[list[common.Cell]]:
    return [
        [label, name, statistics.median(own), str(Ratio.paired(times[base], own))]
        for name, own in times.items()
    ]


def main(argv: Sequence[str] | None = None) -> None:
    import aethergraph
    from aethergraph import LiveFeatureTable

    args = common.parse(common.parser(__doc__), argv)
    report = Report("live_features", "Live features", args)
    rows, rounds = (20_000, 3) if args.quick else (1_000_000, 40)
    cores = sorted(os.sched_getaffinity(0))
    aethergraph.set_num_threads(1)
    os.sched_setaffinity(0, {args.core})
    values = aethergraph._native.buffer_alloc(rows * WIDTH * 4).view(np.float32)
    values = values.reshape(rows, WIDTH)
    values[:] = np.random.default_rng(0).random(values.shape, np.float32)
    table = LiveFeatureTable.create(None, rows, WIDTH)
    table.put_many(np.arange(rows), values)
    gathered: list[list[common.Cell]] = []
    written: list[list[common.Cell]] = []
    for count in CALLS:
        common.say(f"calls of {count} rows")
        times = take_turns(gathers(table, values, count), rows, count, rounds)
        gathered += table_of(times, STORE, count)
        report.data[f"gather {count}"] = times
        times = take_turns(puts(table, values, count), rows, count, rounds)
        written += table_of(times, NUMPY, count)
        report.data[f"put {count}"] = times
    row, calls = values[0].copy(), 2_000 if args.quick else 50_000
    begin = time.perf_counter()
    for number in range(calls):
        table.put(number % rows, row)
    single = 1e6 * (time.perf_counter() - begin) / calls
    common.say("beside a writer")
    beside, rate = beside_a_writer(table, CALLS[-1], rounds, cores)
    report.parameters = {"rows": rows, "bytes": WIDTH * 4, "rounds": rounds, "core": args.core}
    columns = ["rows of a call", "contender", "ns per row", "times as fast as "]
    report.table("gathering", [*columns[:3], columns[3] + STORE], gathered)
    report.table("putting", [*columns[:3], columns[3] + NUMPY], written)
    report.table(
        "gathering beside a writer",
        ["ns per row, alone", "beside", "times as fast as alone", "rows/s of the writer"],
        [
            [
                *(statistics.median(own) for own in beside.values()),
                str(Ratio.paired(beside["alone"], beside["beside"])),
                rate,
            ]
        ],
    )
    report.note(f"One row put by a call from Python: {single:.1f} us.")
    report.note("The store and numpy have their rows in huge pages; so has the live table, if any.")

    def draw(axes: Sequence[Any]) -> None:
        for axis, name, cells in zip(axes, ("gather", "put"), (gathered, written), strict=True):
            few = [cell for cell in cells if cell[0] == CALLS[-1]]
            common.bars(axis, [str(c[1]) for c in few], [float(str(c[2])) for c in few], "ns/row")
            axis.set_title(f"{name}, {CALLS[-1]} rows a call", fontsize=9)

    common.plot(report, 2, draw)
    report.finish()


if __name__ == "__main__":
    main()
