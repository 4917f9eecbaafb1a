"""What Ray Data costs beside the plain loader, and what a second worker brings.

    python benchmarks/ray_data.py [--quick]

Epochs of the same batches, two hops with features from a mapped file, by a SubgraphLoader with one
thread and by sampling datasets with one worker and with two, in turns. The time of an epoch counts
from the first batch to the last: what Ray takes to start an execution is a row of its own. Batches
are read as arrays. The driver and its workers share the cores that there are, so one worker has the
rest of a core more than the loader, and two workers need three cores to be two.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

WAYS = ("loader", "ray, 1 worker", "ray, 2 workers")


def epoch_seconds(batches: Iterator[Any]) -> tuple[float, float, int]:
    """Seconds to the first batch, seconds from there to the last, and the number of batches."""
    begin = time.perf_counter()
    next(batches)
    first = time.perf_counter()
    count = 1 + sum(1 for _ in batches)
    return first - begin, time.perf_counter() - first, count


def batches_of(way: str, path: Any, options: dict[str, Any], epoch: int) -> Iterator[Any]:
    from aethergraph import Graph, SubgraphLoader
    from aethergraph.ray import create_sampling_dataset
    from aethergraph.ray.rows import as_row

    fanouts = [15, 10]
    if way == "loader":
        loader = SubgraphLoader(Graph.load(path), fanouts, shuffle=True, **options)
        return loader.batches_at(epoch, range(len(loader)))
    dataset = create_sampling_dataset(
        path, fanouts, epoch=epoch, concurrency=1 if way == "ray, 1 worker" else 2,
        override_num_blocks=8, **options,
    )  # fmt: skip
    return map(as_row, dataset.iter_batches(batch_format="pyarrow"))


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    args: argparse.Namespace = common.parse(made, argv)
    import ray

    from aethergraph import Graph

    report = Report("ray_data", "Ray Data beside the plain loader", args)
    nodes, num_seeds, size = (2_000, 400, 50) if args.quick else (500_000, 80_000, 512)
    rounds = 1 if args.quick else 5
    path = args.dir / f"ray-{nodes}.aeg"
    rng = np.random.Generator(np.random.PCG64(1))
    if not path.exists():
        graph = Graph.from_edges(nodes, *rng.integers(0, nodes, (2, 20 * nodes)))
        graph.features = rng.random((nodes, 64), np.float32)
        graph.save(path)
    options: dict[str, Any] = {"batch_size": size, "seed": 1}
    seeds = np.arange(num_seeds)
    ray.init(
        num_cpus=max(2, os.cpu_count() or 2), include_dashboard=False, log_to_driver=False,
        logging_level="error", object_store_memory=1 << 30,
    )  # fmt: skip
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows: list[list[common.Cell]] = []
    for case, attrs in (("samples alone", []), ("with rows of features", None)):
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        starts: dict[str, list[float]] = {way: [] for way in WAYS}
        for turn in range(-1, rounds):
            for way in WAYS:
                name = "seeds" if way == "loader" else "input_nodes"
                given = {**options, name: seeds, "node_attrs": attrs}
                start, taken, count = epoch_seconds(batches_of(way, path, given, max(turn, 0)))
                assert count == -(-num_seeds // size), (way, count)
                if turn >= 0:
                    times[way].append(taken)
                    starts[way].append(start)
        rows += [
            [
                case, way, 1e3 * statistics.median(times[way]) / (num_seeds // size),
                str(Ratio.paired(times[way], times["loader"])),
                str(Ratio.paired(times["ray, 1 worker"], times[way])),
                statistics.median(starts[way]),
            ]
            for way in WAYS
        ]  # fmt: skip
    ray.shutdown()
    report.table(
        "epochs of the same batches",
        [
            "what", "who", "ms per batch", "time as the loader", "speed as one worker",
            "s to the first batch",
        ],
        rows,
    )  # fmt: skip
    report.note(f"{num_seeds} seeds, {size} per batch, [15, 10], 64 float32 per node.")

    def draw(axes: Sequence[Any]) -> None:
        labels = [f"{row[0]}, {row[1]}" for row in rows]
        common.bars(axes[0], labels, [float(str(row[2])) for row in rows], "ms per batch")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
