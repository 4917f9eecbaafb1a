"""Batches of a graph whose lists and rows lie on servers with a shard each, beside a local file.

    python benchmarks/sharded.py [--quick] [--rounds 5]

The same batches, bit by bit, two hops with rows of 256 bytes, by a SubgraphLoader with one thread:
from the file by io_uring within a budget that holds a part of it, from the file mapped, and from
one, two and four servers over TCP on this machine. In turns; wall times, and the processor
time of client and servers beside them. Servers share the cores with the client here, which they do
not on machines of their own.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

WIDTH, FANOUTS, BATCH = 64, [15, 10], 1024


@contextmanager
def served(path: Any, shards: int) -> Iterator[tuple[str, list[int]]]:
    """Run servers of all shards; yield the URL and their process ids."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "aethergraph", "serve", path, "--graph", "--tcp",
                     "127.0.0.1:0", "--shard", f"{number}/{shards}"],
                    stdout=subprocess.PIPE, text=True,
                )
            )
            for number in range(shards)
        ]  # fmt: skip
        places = []
        for one in processes:
            stack.callback(one.terminate)
            assert one.stdout is not None
            places.append(one.stdout.readline().split(" at tcp://")[1].split()[0])
        yield f"tcp://{','.join(places)}", [one.pid for one in processes]


def processor_seconds(pids: Sequence[int]) -> float:
    """Processor time so far of this process and of others."""
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--rounds", type=int, default=5)
    args = common.parse(made, argv)
    from aethergraph import Graph, SubgraphLoader
    from aethergraph.loading import Ahead
    from aethergraph.remote import open_graph

    report = Report("sharded", "A graph on several servers", args)
    nodes, batches = (20_000, 3) if args.quick else (2_000_000, 8)
    rounds, budget = (2, "32M") if args.quick else (args.rounds, "64M")
    files = common.power_law_graph(args.dir, nodes)
    path = args.dir / f"sharded-{nodes}.aeg"
    if not path.exists():
        graph = Graph.load(files.graph)
        rng = np.random.default_rng(0)
        graph.features = rng.random((nodes, WIDTH), np.float32)
        graph.save(path)
    seeds = np.random.default_rng(1).permutation(nodes)[: batches * BATCH]
    with ExitStack() as stack:
        graphs: dict[str, tuple[Any, list[int]]] = {
            "uring": (Graph.load(path, storage="uring", memory_budget=budget), []),
            "mapped": (Graph.load(path), []),
        }
        for shards in (1, 2, 4):
            url, pids = stack.enter_context(served(path, shards))
            name = "1 server" if shards == 1 else f"{shards} shards"
            graphs[name] = open_graph(url), pids
        loaders = {
            name: SubgraphLoader(
                one, FANOUTS, seeds, batch_size=BATCH, seed=3, ahead=Ahead(threads=1)
            )
            for name, (one, _) in graphs.items()
        }
        times: dict[str, list[float]] = {name: [] for name in graphs}
        spent: dict[str, list[float]] = {name: [] for name in graphs}
        for turn in range(-1, rounds):
            sums = {}
            for name, loader in loaders.items():
                loader.set_epoch(max(turn, 0))
                pids = graphs[name][1]
                before, begin = processor_seconds(pids), time.perf_counter()
                sums[name] = [
                    (int(one.subgraph.edge.sum()), float(one.x.sum(dtype=np.float64)))
                    for one in loader
                ]
                if turn >= 0:
                    times[name].append(time.perf_counter() - begin)
                    spent[name].append(processor_seconds(pids) - before)
            assert all(found == sums["mapped"] for found in sums.values())
    report.parameters = {
        "nodes": nodes, "edges": files.num_edges, "row_bytes": 4 * WIDTH, "fanouts": FANOUTS,
        "batch": BATCH, "batches": batches, "budget": budget, "rounds": rounds,
    }  # fmt: skip
    report.data = {"seconds": times, "processor": spent}
    lines: list[list[common.Cell]] = [
        [
            name, 1e3 * statistics.median(times[name]) / batches,
            str(Ratio.paired(times["uring"], times[name])),
            1e3 * statistics.median(spent[name]) / batches,
            str(Ratio.paired(spent[name], spent["uring"])),
        ]
        for name in graphs
    ]  # fmt: skip
    report.table(
        "the same batches with rows",
        ["graph", "ms a batch", "speed as uring", "processor ms, all", "processor as uring"],
        lines,
    )

    def draw(axes: Sequence[Any]) -> None:
        common.bars(axes[0], list(graphs), [float(str(one[1])) for one in lines], "ms per batch")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
