"""What Ray Data costs beside the plain loader, and what a second worker brings.

    python benchmarks/ray_data.py [--quick]

Epochs of the same batches of two hops from a mapped file, by a SubgraphLoader with one thread and
by sampling datasets with one worker and with two, in turns; and Ray Data with one worker alone: a
source whose tasks hand out one batch again and again, as many bytes without sampling. The time of
an epoch counts from the first batch to the last: what Ray takes to start an execution is a column
of its own. Processor time is that of the driver, the workers and Ray's own processes together,
over the whole epoch. Batches are read as arrays. The driver and its workers share the cores that
there are, so two workers need three cores to be two.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from harness import common
from harness.common import Ratio, Report

WAYS = ("loader", "ray alone", "ray, 1 worker", "ray, 2 workers")
BLOCKS = 8
#: What is in a batch: fanouts, other options of the sample, attributes (None: all).
CASES: dict[str, tuple[list[int], dict[str, Any], list[str] | None]] = {
    "samples alone": ([15, 10], {}, []),
    "all edges between the nodes": ([10, 5], {"subgraph_type": "induced"}, []),
    "with rows of features": ([15, 10], {}, None),
}


class Epoch(NamedTuple):
    """Seconds to the first batch, from there to the last, and of processors; number of batches."""

    start: float
    taken: float
    processor: float
    count: int


def processor_seconds() -> dict[int, float]:
    """Return processor seconds by process: this one and those that it has started."""
    import psutil

    found = {os.getpid(): time.process_time()}
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = one.cpu_times()
            found[one.pid] = times.user + times.system
    return found


def run_epoch(batches: Iterator[Any]) -> Epoch:
    """Take all batches."""
    before, begin = processor_seconds(), time.perf_counter()
    next(batches)
    first = time.perf_counter()
    count = 1 + sum(1 for _ in batches)
    end, after = time.perf_counter(), processor_seconds()
    processor = sum(now - before.get(one, 0.0) for one, now in after.items())
    return Epoch(first - begin, end - first, processor, count)


def same_again(table: Any, count: int) -> Any:
    """Return a dataset of ``count`` rows, all of them ``table``: what Ray takes by itself."""
    import ray
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    kept = ray.put(table)

    class Same(Datasource):  # type: ignore[misc]
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            bounds = [count * number // BLOCKS for number in range(BLOCKS + 1)]
            return [task(stop - start) for start, stop in pairwise(bounds) if stop > start]

    def task(rows: int) -> Any:
        def read() -> Iterator[Any]:
            one = ray.get(kept)
            return (one for _ in range(rows))

        told = BlockMetadata(num_rows=rows, size_bytes=None, input_files=None, exec_stats=None)
        return ReadTask(read, told)

    return ray.data.read_datasource(Same(), override_num_blocks=BLOCKS, concurrency=1)


def batches_of(
    way: str, path: Any, case: str, seeds: Any, epoch: int, **more: Any
) -> Iterator[Any]:
    """Return the batches of an epoch, which have begun to be made."""
    from aethergraph import Graph, SubgraphLoader
    from aethergraph.ray import create_sampling_dataset
    from aethergraph.ray.rows import RowsOfBlocks, as_row, as_table

    fanouts, options, attrs = CASES[case]
    options = {**options, **more, "node_attrs": attrs, "shuffle": True}
    if way in ("loader", "ray alone"):
        loader = SubgraphLoader(Graph.load(path), fanouts, seeds, **options)
        if way == "loader":
            return loader.batches_at(epoch, range(len(loader)))
        table = as_table(next(loader.batches_at(epoch, [0])), epoch, 0)
        blocks = same_again(table, len(loader)).iter_batches(
            batch_size=None, batch_format="pyarrow"
        )
        return map(as_row, RowsOfBlocks(blocks))
    dataset = create_sampling_dataset(
        path, fanouts, epoch=epoch, concurrency=1 if way == "ray, 1 worker" else 2,
        override_num_blocks=BLOCKS, input_nodes=seeds, **options,
    )  # fmt: skip
    return map(as_row, dataset.iter_batches(batch_format="pyarrow"))


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    args: argparse.Namespace = common.parse(made, argv)
    import ray

    from aethergraph import Graph

    report = Report("ray_data", "Ray Data beside the plain loader", args)
    nodes, num_seeds, size = (2_000, 400, 50) if args.quick else (500_000, 80_000, 512)
    rounds = 1 if args.quick else 4
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
    for case in CASES:
        found: dict[str, list[Epoch]] = {way: [] for way in WAYS}
        for turn in range(-1, rounds):
            for way in WAYS:
                one = run_epoch(batches_of(way, path, case, seeds, max(turn, 0), **options))
                assert one.count == -(-num_seeds // size), (way, one.count)
                if turn >= 0:
                    found[way].append(one)
        taken = {way: [one.taken for one in some] for way, some in found.items()}
        busy = {way: [one.processor for one in some] for way, some in found.items()}
        rows += [
            [
                case, way, *(
                    1e3 * statistics.median(times[way]) / found[way][0].count
                    for times in (busy, taken)
                ),
                str(Ratio.paired(busy[way], busy["loader"])),
                str(Ratio.paired(taken[way], taken["loader"])),
                str(Ratio.paired(taken["ray, 1 worker"], taken[way])),
                statistics.median(one.start for one in found[way]),
            ]
            for way in WAYS
        ]  # fmt: skip
    ray.shutdown()
    report.table(
        "epochs of the same batches",
        [
            "what", "who", "processor ms per batch", "ms per batch", "processor time as the loader",
            "time as the loader", "speed as one worker", "s to the first batch",
        ],
        rows,
    )  # fmt: skip
    load = os.getloadavg()[0]
    report.note(f"{num_seeds} seeds, {size} per batch, 64 float32 per node; load {load:.0f}.")

    def draw(axes: Sequence[Any]) -> None:
        labels = [f"{row[0]}, {row[1]}" for row in rows]
        common.bars(axes[0], labels, [float(str(row[2])) for row in rows], "processor ms per batch")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
