"""Reading a live graph by hand: one question, a snapshot, and going on to the next commit.

    python benchmarks/live_reads.py [--quick]

Questions from Python, a call each, to a graph that changes, to a snapshot of it, to a static graph
of the same edges, and to a dict of lists, which is what programs without a library ask, by
processor time of the thread. Snapshots are taken and given back, and renewed by the core, one
commit of one edge type later each time; renewals are timed by the clock.
"""

from __future__ import annotations

import functools
import statistics
import timeit
from collections import defaultdict
from collections.abc import Callable, Sequence
from time import perf_counter_ns, thread_time
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

QUESTIONS: dict[str, Callable[[Any, int, int], object]] = {
    "degree(7)": lambda graph, node, _: (
        graph.degree(node) if hasattr(graph, "degree") else graph.out_degrees([node])[0]
    ),
    "has_edge(7, 9)": lambda graph, node, other: graph.has_edge(node, other),
    "neighbors(7)": lambda graph, node, _: graph.neighbors(node),
}


class DictOfLists:
    """Graph as a dict of lists of neighbours."""

    def __init__(self, src: Sequence[int], dst: Sequence[int]) -> None:
        self._lists: dict[int, list[int]] = defaultdict(list)
        for u, v in zip(src, dst, strict=True):
            self._lists[u].append(v)

    def degree(self, node: int) -> int:
        return len(self._lists[node])

    def has_edge(self, u: int, v: int) -> bool:
        return v in self._lists[u]

    def neighbors(self, node: int) -> list[int]:
        return self._lists[node]


def microseconds(call: Callable[[], object], number: int) -> float:
    return 1e6 * timeit.timeit(call, number=number, timer=thread_time) / number


def ask(report: Report, nodes: int, rounds: int, number: int) -> None:
    from aethergraph import DynamicGraph, Graph

    src, dst = np.random.default_rng(1).integers(0, nodes, (2, 10 * nodes))
    live = DynamicGraph(nodes, 1 + nodes // 2000, layout="both", order="id")
    live.insert_edges(src, dst)
    asked = {
        "live": live, "snapshot": live.snapshot(),
        "static": Graph.from_edges(nodes, src, dst, layout="both", sort_neighbors=True),
        "dict of lists": DictOfLists(src.tolist(), dst.tolist()),
    }  # fmt: skip
    rows: list[list[common.Cell]] = []
    for label, question in QUESTIONS.items():
        times: dict[str, list[float]] = {name: [] for name in asked}
        for _ in range(rounds):
            for name, graph in asked.items():
                call = functools.partial(question, graph, 7, 9)
                times[name].append(microseconds(call, number))
        for name, taken in times.items():
            ratio = Ratio.paired(taken, times["dict of lists"])
            rows.append([label, name, round(statistics.median(taken), 2), str(ratio)])
    report.table(
        f"one question, {nodes:,} nodes",
        ["question", "asked", "us", "times as long as a dict of lists"],
        rows,
    )


def take(report: Report, rounds: int, number: int) -> None:
    from aethergraph import DynamicHeteroGraph
    from aethergraph import _native as native

    rows: list[list[common.Cell]] = []
    for count in (2, 16, 64, 1024):
        names = [f"n{i}" for i in range(count // 2)]
        kinds = [(names[i // 2], f"r{i}", names[(i + 1) // 2 % len(names)]) for i in range(count)]
        graph = DynamicHeteroGraph(dict.fromkeys(names, 100), kinds, 64, max_nodes=1000)
        for name in names[:32]:
            graph[name].attrs["x"] = np.zeros((100, 4), np.float32)
        snapshot = graph.snapshot()
        renewed, error = snapshot.native_snapshot, native.core.new_error()
        renew: list[int] = []
        edges = graph[kinds[-1]]
        for _ in range(rounds * number):
            edges.insert([1], [2])
            begin = perf_counter_ns()
            native.core.lib.aether_snapshot_renew(renewed._handle, error)
            renew.append(perf_counter_ns() - begin)
        taken = [
            microseconds(lambda graph=graph: graph.snapshot().close(), number)
            for _ in range(rounds)
        ]
        cells = statistics.median(taken), statistics.median(renew) / 1e3, max(renew) / 1e3
        rows.append([count, *(round(cell, 2) for cell in cells)])
    report.table(
        "snapshots of typed graphs",
        [
            "edge types",
            "us to take one and give it back",
            "us to go on to the next commit",
            "at most",
        ],
        rows,
    )


def main(argv: Sequence[str] | None = None) -> None:
    args = common.parse(common.parser(__doc__), argv)
    report = Report("live_reads", "Reading a live graph by hand", args)
    nodes, rounds, number = (2_000, 3, 200) if args.quick else (200_000, 9, 20_000)
    ask(report, nodes, rounds, number)
    take(report, rounds, number // 10)
    report.finish()


if __name__ == "__main__":
    main()
