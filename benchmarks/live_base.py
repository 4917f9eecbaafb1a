"""Live graphs over a graph file: opening, inserting, and sampling beside a file of the same edges.

    python benchmarks/live_base.py [--quick] [--rounds 9]
    python benchmarks/live_base.py --large [--edges 1200000000] [--inserted 100000000] [--budget 1G]

A power-law graph of ten edges per node lies in a file; edges with random ends are inserted above
it. The static contender is a file of all the edges, so that both draw the same samples. In memory
and mapped, single samples are timed; out of core (uring, a quarter of the file as budget) a loader,
which draws coming batches together. The contenders take turns.

--large is the last of these for a file that is larger than memory, with in-lists alone; the budget
is that of each contender for what it reads, and the arena with the inserted edges comes beside it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.cgroups import parse_size
from harness.common import Ratio, Report
from large_graph import EDGES, NODES, large_graph

SHARES = (0.0, 0.01, 0.1)
FANOUTS, BATCH = [20, 15, 10], 1024
LOADED = [10, 10]
COLUMNS = [
    "storage", "inserted", "ms to open", "ns per edge", "bytes per edge", "sample",
    "times as long as static",
]  # fmt: skip


def changed(base: Path, folder: Path, count: int, **where: Any) -> tuple[Any, list[common.Cell]]:
    """Open a live graph over a file, insert ``count`` edges; return it with what that took."""
    from aethergraph import DynamicGraph

    begin = time.perf_counter()
    arena = max(1024, count * 160 >> 20)
    graph = DynamicGraph.open(folder, arena_mb=arena, base=base, durability="none", **where)
    opened = time.perf_counter() - begin
    rng = np.random.default_rng(0)
    begin = time.process_time()
    for at in range(0, count, 10_000):
        graph.insert_edges(*rng.integers(0, graph.num_nodes, (2, min(10_000, count - at))))
    spent = time.process_time() - begin
    used = graph.stats().used_bytes
    row: list[common.Cell] = [1e3 * opened, None, None]
    if count:
        row[1:] = [1e9 * spent / count, used / count]
    return graph, row


def in_turns(calls: Sequence[Callable[[int], Any]], rounds: int, clock: Any) -> list[list[float]]:
    """Return the seconds of each call in each round; the order alternates."""
    took: list[list[float]] = [[] for _ in calls]
    for number in range(rounds):
        order = range(len(calls)) if number % 2 else reversed(range(len(calls)))
        for i in order:
            begin = clock()
            calls[i](number)
            took[i].append(clock() - begin)
    return took


def time_sampling(
    graphs: Sequence[Any], storage: str, seeds: common.Ids, rounds: int
) -> tuple[str, Ratio]:
    """Return what was sampled, and how many times as long the first graph took as the second."""
    from aethergraph import NeighborSampler, SubgraphLoader

    clock: Callable[[], float]
    calls: list[Callable[[int], Any]]
    if storage == "uring":
        calls = [
            lambda number, one=one: list(  # type: ignore[misc]
                SubgraphLoader(one, LOADED, seeds.ravel(), batch_size=BATCH, seed=number)
            )
            for one in graphs
        ]
        what, clock = f"{LOADED} x {BATCH}, loaded in groups", time.perf_counter
    else:
        calls = [
            lambda number, one=one: [one.sample(some, key=number) for some in seeds]  # type: ignore[misc]
            for one in (NeighborSampler(graph, FANOUTS) for graph in graphs)
        ]
        what, clock = f"{FANOUTS} x {BATCH}", time.process_time
    in_turns(calls, 1, clock)  # the first samples find nothing in the caches
    live, static = in_turns(calls, rounds, clock)
    return what, Ratio.paired(live, static)


def compare(
    base: Path,
    folder: Path,
    count: int,
    seeds: common.Ids,
    rounds: int,
    layout: str | None = None,
    **where: Any,
) -> tuple[list[common.Cell], str, Ratio]:
    """Return what inserting ``count`` edges over a file took, what was sampled, and the ratio."""
    from aethergraph import Graph

    with tempfile.TemporaryDirectory(dir=folder) as name:
        graph, row = changed(base, Path(name) / "live", count, layout=layout, **where)
        common.say(f"{count:,} edges inserted")
        graph.save(Path(name) / "copy.aeg")
        static = Graph.load(Path(name) / "copy.aeg", **where)
        what, ratio = time_sampling([graph, static], where["storage"], seeds, rounds)
        graph.close()
    return row, what, ratio


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--large", action="store_true", help="a file larger than memory, uring")
    made.add_argument("--edges", type=int, default=EDGES, help="of the large file")
    made.add_argument("--inserted", type=int, default=100_000_000, help="edges above it")
    made.add_argument("--budget", type=parse_size, default=1 << 30, help="for what is read of it")
    made.add_argument("--rounds", type=int, default=9, help="not of --large")
    args = common.parse(made, argv)
    if args.large:
        measure_large(args)
    else:
        measure(args)


def measure_large(args: argparse.Namespace) -> None:
    report = Report("live_base_large", "Live graphs over a graph file larger than memory", args)
    nodes, rounds, batches = NODES * args.edges // EDGES, 5, 100
    base = large_graph(args.dir, nodes, args.edges).graph
    seeds = np.random.default_rng(1).integers(0, nodes, (batches, BATCH))
    row, what, ratio = compare(
        base, args.dir, args.inserted, seeds, rounds,
        layout="csc", storage="uring", memory_budget=args.budget,
    )  # fmt: skip
    report.parameters = {"nodes": nodes, "rounds": rounds, "batches": batches}
    report.table(
        f"{args.inserted:,} edges with random ends above a file of {args.edges:,}, sampled within "
        f"{common.size(args.budget)} against a file of all edges",
        COLUMNS[2:],
        [[*row, what, str(ratio)]],
    )
    report.finish()


def measure(args: argparse.Namespace) -> None:
    report = Report("live_base", "Live graphs over a graph file", args)
    nodes, rounds, batches = (5_000, 1, 2) if args.quick else (1_000_000, args.rounds, 8)
    base = common.power_law_graph(args.dir, nodes).folder / "graph.aeg"
    seeds = np.random.default_rng(1).integers(0, nodes, (batches, min(BATCH, nodes)))
    budget = max(32 << 20, base.stat().st_size // 4)
    rows: list[list[common.Cell]] = []
    ratios: dict[str, float] = {}
    for share in SHARES:
        for storage in ("memory", "mmap", "uring"):
            where: dict[str, Any] = {"storage": storage}
            if storage == "uring":
                where["memory_budget"] = budget
            count = int(share * 10 * nodes)
            row, what, ratio = compare(base, args.dir, count, seeds, rounds, **where)
            rows.append([storage, f"{share:.0%}", *row, what, str(ratio)])
            ratios[f"aethergraph {storage}, {share:.0%} inserted"] = ratio.median
    report.parameters = {"nodes": nodes, "rounds": rounds, "batches": batches}
    report.table(
        "inserting edges with random ends above a file, and sampling against a file of all edges",
        COLUMNS,
        rows,
    )
    report.notes.append("Processor time; the loaders by the clock.")
    label = "sampling: times as long as a file of all edges"
    common.plot(report, 1, lambda axes: common.bars(axes[0], [*ratios], [*ratios.values()], label))
    report.finish()


if __name__ == "__main__":
    main()
