"""Compressed neighbours: bytes per edge, and what sampling from them costs.

    python benchmarks/compressed.py [--quick] [--large]

Two graphs of ten edges per node: a power-law graph, whose ids have no order that could be used,
and one with locality, where nine of ten neighbours have ids near the node's own (as after
reordering, or in web graphs). Each in input order and with ``sort_neighbors``. The plain file and
the compressed one take turns batch by batch in one process, pinned, one thread, the same seeds and
keys; samples are compared. Times are processor time: a machine that is not quiet does less harm.

Then both files are read with ``storage="uring"`` within a budget that holds a part of them (see
compressed_reading.py). ``--large`` adds the graph of benchmarks/outofcore.py: 1.2 billion edges,
and 4.4 GB more of disk for the compressed file.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common, compressed_reading
from harness.common import Ratio, Report
from large_graph import large_graph

Ids = common.Ids
FANOUTS, BATCH = (15, 10, 5), 1024
STORAGES = ("memory", "mmap")


def local_edges(num_nodes: int, num_edges: int) -> tuple[Ids, Ids]:
    """Sources within about 1000 of their destinations, one of ten anywhere."""
    rng = np.random.Generator(np.random.PCG64(3))
    src, dst = np.empty(num_edges, np.int64), np.empty(num_edges, np.int64)
    for begin in range(0, num_edges, 1 << 22):
        count = min(1 << 22, num_edges - begin)
        own = rng.integers(0, num_nodes, count)
        near = own + (500 * rng.standard_normal(count)).astype(np.int64)
        far = rng.integers(0, num_nodes, count)
        src[begin : begin + count] = np.where(rng.random(count) < 0.1, far, near % num_nodes)
        dst[begin : begin + count] = own
    return src, dst


MAKERS: dict[str, Callable[[int, int], tuple[Ids, Ids]]] = {
    "power law": common.power_law_edges,
    "local": local_edges,
}


def compress(plain: Path, packed: Path, storage: Any) -> float:
    """Save it compressed; the seconds of the processor that it took."""
    from aethergraph import Graph

    graph = Graph.load(plain, storage=storage)
    start = time.process_time()
    graph.save(packed, compress=True)
    return time.process_time() - start


def graph_files(folder: Path, kind: str, order: str, num_nodes: int) -> tuple[Path, Path, float]:
    """The plain file, the compressed one, and the seconds that compressing took."""
    from aethergraph import Graph

    stem = f"compressed-{kind}-{order}-{common.short(num_nodes)}".replace(" ", "-")
    plain, packed = folder / f"{stem}.aeg", folder / f"{stem}.packed.aeg"
    if not plain.exists():
        common.say(f"making {plain.name}")
        src, dst = MAKERS[kind](num_nodes, 10 * num_nodes)
        made = Graph.from_edges(num_nodes, src, dst, sort_neighbors=order == "sorted")
        del src, dst
        made.save(plain)
    return plain, packed, compress(plain, packed, "memory")


def measure(samplers: Sequence[Any], num_nodes: int, rounds: int) -> list[list[float]]:
    """Processor seconds per batch of each; round 0 is thrown away."""
    rng = np.random.Generator(np.random.PCG64(5))
    times: list[list[float]] = [[] for _ in samplers]
    for number in range(rounds + 1):
        seeds = rng.choice(num_nodes, BATCH, replace=False)
        samples = []
        for turn in range(len(samplers)):
            which = (turn + number) % len(samplers)
            start = time.process_time()
            samples.append(samplers[which].sample(seeds, key=number))
            if number:
                times[which].append(time.process_time() - start)
        if any(not np.array_equal(s.edge, samples[0].edge) for s in samples):
            raise SystemExit("the samples differ")
        if any(not np.array_equal(s.node, samples[0].node) for s in samples):
            raise SystemExit("the samples differ")
    return times


def run_case(args: argparse.Namespace, kind: str, order: str, num_nodes: int) -> dict[str, Any]:
    from aethergraph import Graph, NeighborSampler

    plain, packed, seconds = graph_files(args.dir, kind, order, num_nodes)
    found: dict[str, Any] = {"encode": seconds, "edges": 10 * num_nodes}
    for storage in STORAGES:
        graphs = [Graph.load(path, storage=storage) for path in (plain, packed)]
        found["bytes"] = [graph.info()["adjacency_bytes"] for graph in graphs]
        samplers = [NeighborSampler(graph, FANOUTS) for graph in graphs]
        edges = len(samplers[0].sample(np.arange(BATCH), key=1).edge)
        times = measure(samplers, num_nodes, 3 if args.quick else 30)
        found[storage] = {"times": times, "edges": edges}
    budget, batches, rounds = ("24M", 4, 1) if args.quick else ("128M", 64, 5)
    found["reading"] = compressed_reading.compare(
        (plain, packed), num_nodes, budget, batches, rounds
    )
    packed.unlink()
    return found


def run_large(args: argparse.Namespace) -> list[list[common.Cell]]:
    """The rows of the large graph."""
    files = large_graph(args.dir)
    packed = args.dir / "large.packed.aeg"
    if not packed.exists():
        common.say(f"making {packed.name}")
        compress(files.graph, packed, "mmap")
    rows = compressed_reading.compare((files.graph, packed), files.num_nodes, "1G", 256, 3)
    packed.unlink()
    return [["1.2G edges", "input order", *row] for row in rows]


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--large", action="store_true", help="also read a graph of 1.2G edges")
    args = common.parse(made, argv)
    os.sched_setaffinity(0, {args.core})
    report = Report("compressed", "Compressed neighbours", args)
    num_nodes = 20_000 if args.quick else 10_000_000
    sizes: list[list[common.Cell]] = []
    speeds: list[list[common.Cell]] = []
    reading: list[list[common.Cell]] = []
    for kind in MAKERS:
        for order in ("input order", "sorted"):
            found = run_case(args, kind, order.split()[0], num_nodes)
            edges, (plain, packed) = found["edges"], found["bytes"]
            offsets = 8 * (num_nodes + 1)
            bits = [8 * (total - offsets) / edges for total in (plain, packed)]
            rate = edges / found["encode"] / 1e6
            sizes.append([kind, order, *bits, bits[1] / bits[0], packed / plain, rate])
            reading += [[kind, order, *row] for row in found["reading"]]
            for storage in STORAGES:
                times = found[storage]["times"]
                medians = [statistics.median(own) for own in times]
                ratio = str(Ratio.paired(times[1], times[0]))
                speeds.append([kind, order, storage, *(1e3 * m for m in medians), ratio])
    if args.large:
        reading += run_large(args)
    report.parameters = {"nodes": num_nodes, "fanouts": list(FANOUTS), "batch": BATCH}
    report.table(
        "bits per neighbour; ratios; million edges encoded and written per second of one core",
        ["graph", "lists", "plain", "compressed", "ratio", "with offsets", "encoding"], sizes,
    )  # fmt: skip
    report.table(
        "processor ms per batch, medians; compressed / plain: median (range over rounds)",
        ["graph", "lists", "storage", "plain", "compressed", "ratio"], speeds,
    )  # fmt: skip
    report.table(
        'storage="uring", fanouts [20, 15, 10]: compressed beside plain, medians; ratios: '
        "compressed / plain (range over rounds)", compressed_reading.COLUMNS, reading,
    )  # fmt: skip
    report.note("Plain files map or copy 32-bit ids; both files are in the page cache.")
    report.note("The ratio with offsets counts the 8 bytes per node that both keep.")

    def draw(axes: Sequence[Any]) -> None:
        labels = [f"{row[0]}, {row[1]}" for row in sizes]
        common.bars(axes[0], labels, [float(row[3]) for row in sizes], "bits per neighbour")
        axes[0].set_title("compressed (plain: 32)", fontsize=9)
        chosen = [row for row in speeds if row[2] == "memory"]
        labels = [f"{row[0]}, {row[1]}, {n}" for row in chosen for n in ("plain", "compressed")]
        values = [float(value) for row in chosen for value in row[3:5]]
        common.bars(axes[1], labels, values, "ms per batch")
        axes[1].set_title("sampling, in memory", fontsize=9)

    common.plot(report, 2, draw)
    report.finish()


if __name__ == "__main__":
    main()
