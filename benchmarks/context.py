"""Contexts of rows over foreign keys: rows per second beside a straightforward one in torch.

    python benchmarks/context.py [--quick]

Orders refer to users and items, reviews to users and orders; every row but items has a time. The
seeds are users at random times. The peer follows the published procedure (arXiv 2510.06377: parents
whole, children up to a width, nothing later than the seed) one seed at a time, over lists in torch
tensors that are sorted by time, with a Python set of the rows that are there. Its contexts of the
latest children are compared with ours row by row in every round. Both run in one process pinned to
one core and take turns, timed by the processor time of the thread; one column has all cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

Ids = common.Ids
Kind = tuple[str, str, str]
REFERENCES: tuple[Kind, ...] = (
    ("order", "of", "user"),
    ("order", "for", "item"),
    ("review", "by", "user"),
    ("review", "on", "order"),
)
#: Rows of each table by size.
SIZES = {
    "small": {"user": 10_000, "item": 1_000, "order": 100_000, "review": 50_000},
    "large": {"user": 1_000_000, "item": 50_000, "order": 8_000_000, "review": 2_000_000},
}
QUICK = {"user": 200, "item": 30, "order": 2_000, "review": 1_000}
#: Budget and fanout.
SHAPES = ((64, 4), (256, 8), (1024, 16))
TIMES = 1 << 30


def make_graph(counts: dict[str, int]) -> Any:
    """The graph, in memory, with lists sorted by the times of the rows."""
    from aethergraph import HeteroGraph

    rng = np.random.Generator(np.random.PCG64(5))
    edges = {}
    for kind in REFERENCES:
        rows = counts[kind[0]]
        chosen = (rng.random(rows) ** 2 * counts[kind[2]]).astype(np.int64)  # some are liked more
        edges[kind] = np.arange(rows), rng.permutation(counts[kind[2]])[chosen]
    times = {
        name: rng.integers(0, TIMES, count) for name, count in counts.items() if name != "item"
    }
    return HeteroGraph.from_edges(edges, counts, node_time=times, add_reverse=True)


class TorchSampler:
    """Contexts by the published procedure, with the latest children or random ones."""

    def __init__(self, graph: Any, budget: int, fanout: int, latest: bool) -> None:
        import torch

        self.torch = torch
        self.budget, self.fanout, self.latest = budget, fanout, latest
        types = graph.node_types
        self.links: dict[int, list[tuple[int, int, bool, Any, Any, Any]]] = {
            i: [] for i in range(len(types))
        }
        parents = [((b, f"rev_{name}", a), True) for a, name, b in REFERENCES]
        children = [(kind, False) for kind in REFERENCES]
        kinds = [kind for kind in graph.edge_types if kind in REFERENCES]
        order = [
            *sorted(parents, key=lambda p: kinds.index((p[0][2], p[0][1][4:], p[0][0]))),
            *sorted(children, key=lambda c: kinds.index(c[0])),
        ]
        for number, (kind, whole) in enumerate(order):
            indptr, indices = graph[kind].csc()
            indices = indices.astype(np.int64)
            times = graph[kind[0]].node_time
            far_times = None if times is None else torch.from_numpy(times[indices])
            self.links[types.index(kind[2])].append(
                (
                    number, types.index(kind[0]), whole, torch.from_numpy(indptr.astype(np.int64)),
                    torch.from_numpy(indices), far_times,
                )
            )  # fmt: skip

    def context(self, node_type: int, node: int, until: int) -> list[tuple[int, ...]]:
        """Rows (type, id, place of the parent, depth, link) around one seed."""
        rows: list[tuple[int, ...]] = [(node_type, node, -1, 0, -1)]
        known, at = {(node_type, node)}, 0
        while at < len(rows) < self.budget:
            own_type, own, _, depth, _ = rows[at]
            for number, to, whole, indptr, indices, times in self.links[own_type]:
                begin, end = int(indptr[own]), int(indptr[own + 1])
                if times is not None and end > begin:
                    seen = self.torch.searchsorted(times[begin:end], until, right=True)
                    end = begin + int(seen)
                found = indices[begin:end]
                if not whole and self.latest:
                    found = found[-self.fanout :].flip(0)
                elif not whole:
                    found = found[self.torch.randperm(len(found))[: self.fanout]]
                for other in found.tolist():
                    if (to, other) not in known and len(rows) < self.budget:
                        known.add((to, other))
                        rows.append((to, other, at, depth + 1, number))
            at += 1
        return rows

    def sample(self, node_type: int, seeds: Ids, times: Ids) -> tuple[Any, ...]:
        """The padded tensors: type, node, parent, depth, link [seeds, budget]; length [seeds]."""
        torch, shape = self.torch, (len(seeds), self.budget)
        out = [torch.full(shape, -1, dtype=torch.int64) for _ in range(5)]
        length = torch.zeros(len(seeds), dtype=torch.int64)
        for i, (seed, until) in enumerate(zip(seeds.tolist(), times.tolist(), strict=True)):
            rows = torch.tensor(self.context(node_type, seed, until))
            length[i] = len(rows)
            for column, values in enumerate(out):
                values[i, : len(rows)] = rows[:, column]
        return *out, length


def check_equal(ours: Any, theirs: Sequence[Any]) -> None:
    """Raise unless both have the same rows, in the same order."""
    names = ("node_type", "node", "parent", "depth", "link", "length")
    for name, other in zip(names, theirs, strict=True):
        np.testing.assert_array_equal(getattr(ours, name), other.numpy(), err_msg=name)


def measure(
    graph: Any, shape: tuple[int, int], strategy: Any, seeds: int, rounds: int
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Seconds per seed by round of each contender, after a round to warm up; rows per seed."""
    from aethergraph.sampling import ContextSampler

    budget, fanout = shape
    options: dict[str, Any] = {
        "budget": budget, "fanout": fanout, "time_attr": "node_time", "temporal_strategy": strategy,
    }  # fmt: skip
    one, every = (ContextSampler(graph, num_threads=n, **options) for n in (1, 0))
    peer = TorchSampler(graph, budget, fanout, strategy == "last")
    number, rng = graph.node_types.index("user"), np.random.Generator(np.random.PCG64(2))
    own_seeds = 32 * seeds
    times: dict[str, list[float]] = {"ours": [], "ours, all cores": [], "torch": []}
    rows: dict[str, float] = {}
    cores = os.sched_getaffinity(0)
    for turn in range(-1, rounds):
        ids = rng.integers(0, graph.num_nodes["user"], own_seeds)
        when = rng.integers(TIMES // 2, TIMES, own_seeds)
        found = {}
        calls: dict[str, tuple[int, Callable[..., Any]]] = {
            "ours, all cores": (own_seeds, lambda i, t: every.sample({"user": i}, {"user": t}, 1)),
            "ours": (own_seeds, lambda i, t: one.sample({"user": i}, {"user": t}, 1)),
            "torch": (seeds, lambda i, t: peer.sample(number, i, t)),
        }
        for name, (count, call) in calls.items():
            every_core = name.endswith("cores")
            os.sched_setaffinity(0, cores if every_core else {min(cores)})
            clock = time.perf_counter if every_core else time.thread_time
            begin = clock()
            found[name] = call(ids[:count], when[:count])
            if turn >= 0:
                times[name].append((clock() - begin) / count)
        os.sched_setaffinity(0, cores)
        rows = {
            "ours": float(found["ours"].length.mean()),
            "torch": float(found["torch"][-1].double().mean()),
        }
        if strategy == "last":
            check_equal(
                one.sample({"user": ids[:seeds]}, {"user": when[:seeds]}, 1), found["torch"]
            )
    rows["ours, all cores"] = rows["ours"]
    return times, rows


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    args: argparse.Namespace = common.parse(made, argv)
    import torch

    torch.set_num_threads(1)
    report = Report("context", "Contexts of rows", args)
    rows: list[list[common.Cell]] = []
    for size, counts in ({"quick": QUICK} if args.quick else SIZES).items():
        common.say(f"making the {size} graph")
        graph = make_graph(counts)
        for shape in SHAPES[:1] if args.quick else SHAPES:
            for strategy in ("last", "uniform"):
                seeds, rounds = (10, 3) if args.quick else (max(4, 16_384 // shape[0] // 8), 9)
                times, each = measure(graph, shape, strategy, seeds, rounds)
                speeds = {n: each[n] / statistics.median(times[n]) for n in times}
                ratio = Ratio.paired(times["torch"], times["ours"])
                rows.append(
                    [
                        size, f"{shape[0]}, {shape[1]}", strategy, each["ours"],
                        *(speeds[n] / 1e6 for n in times), str(ratio),
                    ]
                )  # fmt: skip
        del graph
    report.parameters = {"tables": SIZES, "seeds": "users, times in the later half"}
    report.data = {"torch": torch.__version__}
    report.table(
        "million rows per second, medians; times as fast: median (range over rounds)",
        ["tables", "budget, fanout", "children", "rows each", "ours", "ours, all cores", "torch",
         "ours as torch"],
        rows,
    )  # fmt: skip
    report.note("One core by its processor time, but where all are named.")
    report.note("With the latest children the rows of both are the same, in the same order.")

    def draw(axes: Sequence[Any]) -> None:
        labels = [f"{row[0]}, {row[1]}, {row[2]}, {n}" for row in rows for n in ("ours", "torch")]
        values = [v if isinstance(v, float) else None for row in rows for v in (row[4], row[6])]
        common.bars(axes[0], labels, values, "million rows per second, one core")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
