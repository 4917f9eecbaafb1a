"""Live graphs over a graph file: opening, inserting, and sampling beside a file of the same edges.

    python benchmarks/live_base.py [--quick]

A power-law graph of ten edges per node lies in a file; edges with random ends are inserted above
it. The static contender is a file of all the edges, so that both draw the same samples. In memory
and mapped, single samples are timed; out of core (uring, a quarter of the file as budget) a loader,
which draws coming batches together. The contenders take turns.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

SHARES = (0.0, 0.01, 0.1)
FANOUTS, BATCH = [20, 15, 10], 1024
LOADED = [10, 10]


def changed(base: Path, folder: Path, share: float, **where: Any) -> tuple[Any, list[common.Cell]]:
    """Open a live graph over a file, insert a share of its edges; return it with what that took."""
    from aethergraph import DynamicGraph

    begin = time.perf_counter()
    graph = DynamicGraph.open(folder, arena_mb=8192, base=base, durability="none", **where)
    opened = time.perf_counter() - begin
    rng = np.random.default_rng(0)
    count = int(share * graph.num_edges)
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
    from aethergraph import NeighborSampler
    from aethergraph.loading import SubgraphLoader

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


def main(argv: Sequence[str] | None = None) -> None:
    from aethergraph import Graph

    args = common.parse(common.parser(__doc__), argv)
    report = Report("live_base", "Live graphs over a graph file", args)
    nodes, rounds, batches = (5_000, 1, 2) if args.quick else (1_000_000, 9, 8)
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
            with tempfile.TemporaryDirectory(dir=args.dir) as folder:
                graph, row = changed(base, Path(folder) / "live", share, **where)
                graph.save(Path(folder) / "copy.aeg")
                static = Graph.load(Path(folder) / "copy.aeg", **where)
                what, ratio = time_sampling([graph, static], storage, seeds, rounds)
                rows.append([storage, f"{share:.0%}", *row, what, str(ratio)])
                ratios[f"aethergraph {storage}, {share:.0%} inserted"] = ratio.median
                graph.close()
    report.parameters = {"nodes": nodes, "rounds": rounds, "batches": batches}
    report.table(
        "inserting edges with random ends above a file, and sampling against a file of all edges",
        ["storage", "inserted", "ms to open", "ns per edge", "bytes per edge", "sample",
         "times as long as static"],
        rows,
    )  # fmt: skip
    report.notes.append("Processor time; the loaders by the clock.")
    label = "sampling: times as long as a file of all edges"
    common.plot(report, 1, lambda axes: common.bars(axes[0], [*ratios], [*ratios.values()], label))
    report.finish()


if __name__ == "__main__":
    main()
