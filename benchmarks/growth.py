"""Cost against graph size: time per batch and memory, 10K to 10M nodes.

    python benchmarks/growth.py [--quick] [--nodes 10K 1M ...]

128 float32 features, fanouts [15, 10], batch 1024, loading only, no workers. Memory is what the
process holds after the batches, less what it held before opening: "anonymous" memory cannot be
taken back; "mapped" file pages are the page cache's and the kernel takes them back at need.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import end_to_end
import sampling
from harness import common
from harness.common import Report
from harness.worker import WorkerError, take_turns

FANOUTS, BATCH = [15, 10], 1024


@dataclass(frozen=True)
class Point:
    """One contender at one size."""

    num_nodes: int
    name: str
    ms: float
    anonymous: int
    mapped: int


def measure(args: Any, names: list[str], num_nodes: int) -> list[Point]:
    files = common.power_law_graph(args.dir, num_nodes)
    files.csc()
    features = files.features(end_to_end.WIDTH).name
    rounds, count = (1, 4) if args.quick else (7, 20)
    with ExitStack() as stack:
        workers = end_to_end.start(files, features, names, stack)
        arguments = {"fanouts": FANOUTS, "batch": min(BATCH, num_nodes // 8), "model": False}
        answers = take_turns(
            workers,
            rounds,
            lambda worker, number: worker.ask("epoch", count=count, seed=2 + number, **arguments),
        )
        points = []
        for worker in workers:
            held = worker.ask("memory")
            grown = {key: held["now"][key] - held["before"][key] for key in ("anonymous", "file")}
            points.append(
                Point(
                    num_nodes,
                    worker.name,
                    1e3 * statistics.median(a["seconds"] / count for a in answers[worker.name]),
                    grown["anonymous"],
                    grown["file"],
                )
            )
    return points


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--nodes", nargs="+", type=common.parse_count, help="graph sizes")
    args = common.parse(made, argv)
    report = Report("growth", "Cost against graph size", args)
    # Files for ours, memory for PyG: three copies of the largest graph would not fit many machines.
    names = [name for name in end_to_end.contenders(report) if not name.endswith("memory")]
    sizes = args.nodes or ((2_000,) if args.quick else sampling.NODES)
    points = []
    for num_nodes in sizes:
        common.say(f"{common.short(num_nodes)} nodes")
        points += measure(args, names, num_nodes)
    report.parameters = {"fanouts": FANOUTS, "batch": BATCH, "width": end_to_end.WIDTH}
    report.data = {"points": [vars(point) for point in points]}
    by = {(point.num_nodes, point.name): point for point in points}
    columns: dict[str, Callable[[Point], float]] = {
        "ms per batch, medians": lambda p: p.ms,
        "anonymous memory, MiB": lambda p: p.anonymous / 2**20,
        "mapped file pages, MiB": lambda p: p.mapped / 2**20,
    }
    for title, value in columns.items():
        report.table(
            title,
            ["nodes", "graph + features", *names],
            [
                [common.short(n), common.size(bytes_of(n)), *(value(by[n, name]) for name in names)]
                for n in sizes
            ],
        )
    draw(report)
    report.finish()


def bytes_of(num_nodes: int) -> int:
    """Return bytes of graph and features."""
    return num_nodes * (4 * end_to_end.WIDTH + 80)


def draw(report: Report) -> None:
    def panels(axes: Sequence[Any]) -> None:
        for axis, label in zip(axes, ("ms per batch", "anonymous memory, MiB"), strict=True):
            rows = report.rows(label)
            names = list(rows[0])[2:]
            series = {name: common.points(rows, "nodes", name) for name in names}
            if "MiB" in label:
                sizes = [common.parse_count(row["nodes"]) for row in rows]
                series["graph + features"] = [(n, bytes_of(n) / 2**20) for n in sizes]
            common.lines(axis, series, "nodes (10 edges each)", label)

    common.plot(report, 2, panels)


if __name__ == "__main__":
    try:
        main()
    except WorkerError as error:
        raise SystemExit(str(error)) from None
