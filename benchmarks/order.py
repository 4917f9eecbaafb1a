"""Orders of nodes: Rabbit Order beside its authors' program, and what each order buys.

    apt install libboost-dev libnuma-dev libgoogle-perftools-dev
    git clone https://github.com/araij/rabbit_order
    python benchmarks/order.py --rabbit rabbit_order [--quick]
    python benchmarks/order.py --nodes 12500000       # only a graph of 100 million edges

Graphs have planted communities, power-law degrees and 20% of the edges anywhere. Both programs run
on one core and take turns, by processor time: ours from the graph to the permutation, with the
making of its lists; theirs from adjacency lists in memory, which are made before. Pages of 4 KiB
per batch are counted in samples: of lists, and of features of 512 bytes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

Ids = common.Ids
HOW = "git clone https://github.com/araij/rabbit_order, --rabbit PATH"
FLAGS = ["-O3", "-std=c++14", "-mcx16", "-fopenmp", "-DNDEBUG", "-w"]
LIBRARIES = ["-ltcmalloc_minimal", "-lnuma"]
SIZES = (1_000_000, 4_000_000)
QUICK = (20_000,)
FANOUTS, BATCH = (15, 10), 1024


def build_peer(args: argparse.Namespace, report: Report) -> Path | None:
    """Compile the authors' header with our calls; return the program, or None and say why."""
    if args.rabbit is None or not common.have("g++"):
        report.note(f"araij/rabbit_order is missing ({HOW}).")
        return None
    source = common.HERE / "contenders" / "rabbit_peer.cpp"
    program: Path = args.dir / "rabbit-peer"
    common.say("compiling rabbit_order")
    command = ["g++", *FLAGS, "-I", args.rabbit, "-o", program, source, *LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        report.note(f"araij/rabbit_order does not compile: {done.stderr.strip()[:300]} ({HOW})")
        return None
    return program


def modularity(src: Ids, dst: Ids, parts: Any) -> float:
    """Newman's modularity; loops do not count."""
    keep = src != dst
    src, dst = src[keep], dst[keep]
    degrees = np.bincount(src, minlength=len(parts)) + np.bincount(dst, minlength=len(parts))
    strengths = np.bincount(parts, weights=degrees)
    inside = float((parts[src] == parts[dst]).mean())
    return inside - float(((strengths / (2 * len(src))) ** 2).sum())


def run_peer(program: Path, folder: Path, edges: Path, nodes: int) -> tuple[float, Any, Any]:
    """Processor seconds, old id of each new one, communities."""
    out = folder / "rabbit-peer.out"
    done = subprocess.run(
        [program, edges, str(nodes), out], capture_output=True, text=True, check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    new, parts = np.fromfile(out, np.uint32).reshape(2, nodes)
    return float(done.stdout.split()[-1]), np.argsort(new), parts


def measure(
    args: argparse.Namespace, nodes: int, program: Path | None, rounds: int, slow: bool
) -> dict[str, Any]:
    """Orders, seconds and pages of one graph."""
    from aethergraph import Graph
    from aethergraph.sampling.locality import measure_locality
    from aethergraph.testing.graphs import CommunityGraph

    common.say(f"{common.short(nodes)} nodes")
    made = CommunityGraph(nodes, 8 * nodes, max(nodes // 500, 2), homophily=0.8)
    src, dst = made.edges()
    path = args.dir / "order-edges.bin"
    np.stack([src, dst], axis=1).astype(np.uint32).tofile(path)
    graph = Graph.from_edges(nodes, src, dst)
    seconds: dict[str, list[float]] = {}
    orders: dict[str, Any] = {"as it is": np.arange(nodes)}
    found: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        common.say(name)
        start = time.process_time()
        result = call()
        seconds.setdefault(name, []).append(time.process_time() - start)
        return result

    for number in range(rounds + 1):  # the first one warms up
        orders["rabbit"], parts = timed("rabbit", graph.reorder_rabbit_with_partitions)
        if program is not None:
            one, orders["araij/rabbit_order"], theirs = run_peer(program, args.dir, path, nodes)
            seconds.setdefault("araij/rabbit_order", []).append(one)
        if number == 0:
            seconds.clear()
            found["rabbit"] = modularity(src, dst, parts)
            if program is not None:
                found["araij/rabbit_order"] = modularity(src, dst, theirs.astype(np.int64))
    for name in ("bfs", "degree", *(("gorder",) if slow else ())):
        orders[name] = timed(name, lambda name=name: graph.reorder(name))
    os.unlink(path)
    common.say("pages")
    pages = {n: measure_locality(graph, p, FANOUTS, batches=10) for n, p in orders.items()}
    return {
        "seconds": seconds, "modularity": found, "pages": pages,
        "sampling": time_batches(graph, graph.permute(orders["rabbit"]), rounds),
    }  # fmt: skip


def time_batches(before: Any, after: Any, rounds: int) -> dict[str, Ratio]:
    """How many times faster batches of the reordered graph are sampled, in turns."""
    from aethergraph import NeighborSampler

    rng = np.random.default_rng(0)
    count, size = before.num_nodes, min(BATCH, before.num_nodes)
    starts = rng.integers(0, count - size + 1, 30)
    kinds = {
        "shuffled": [rng.choice(count, size, replace=False) for _ in starts],
        "aligned": [np.arange(start, start + size) for start in starts],
    }
    samplers = [NeighborSampler(graph, list(FANOUTS)) for graph in (before, after)]
    found = {}
    for kind, batches in kinds.items():
        times: list[list[float]] = [[], []]
        for number in range(rounds + 1):
            for which, sampler in enumerate(samplers):
                start = time.process_time()
                for key, seeds in enumerate(batches):
                    sampler.sample(seeds, key)
                if number:
                    times[which].append(time.process_time() - start)
        found[kind] = Ratio.paired(times[0], times[1])
    return found


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--rabbit", type=Path, help="a clone of araij/rabbit_order")
    made.add_argument("--nodes", type=int, help="only a graph of so many nodes, of 8 edges each")
    args = common.parse(made, argv)
    os.sched_setaffinity(0, {args.core})
    os.environ["AETHERGRAPH_NUM_THREADS"] = "1"
    report = Report("order", "Orders of nodes", args)
    program = build_peer(args, report)
    sizes, rounds = (QUICK, 2) if args.quick else (SIZES, 3)
    if args.nodes is not None:
        sizes = (args.nodes,)
    speed, pages, sampling = [], [], []
    for nodes in sizes:
        one = measure(args, nodes, program, rounds, slow=nodes <= SIZES[0])
        size, seconds, quality = common.short(nodes), one["seconds"], one["modularity"]
        peer = seconds.get("araij/rabbit_order")
        for name, some in seconds.items():
            ratio = "" if peer is None else str(Ratio.paired(some, peer[: len(some)]))
            speed.append([size, name, statistics.median(some), ratio, quality.get(name, "")])
        for name, found in one["pages"].items():
            for kind in ("shuffled", "aligned"):
                now = getattr(found, f"{kind}_{'before' if name == 'as it is' else 'after'}")
                first = getattr(found, f"{kind}_before")
                gain = first.feature_pages / now.feature_pages
                pages.append([size, kind, name, *now, gain])
        sampling += [[size, kind, str(ratio)] for kind, ratio in one["sampling"].items()]
    pages.sort(key=lambda row: (row[0], row[1] == "aligned"))
    report.parameters = {"edges per node": 8, "fanouts": FANOUTS, "batch": BATCH}
    report.table(
        "processor seconds on one core, medians; times as long as the authors' program",
        ["nodes", "order", "seconds", "as araij/rabbit_order", "modularity"], speed,
    )  # fmt: skip
    report.table(
        "a batch: nodes, pages of lists, pages of features, times fewer pages of features",
        ["nodes of the graph", "seeds", "order", "nodes", "list pages", "feature pages", "gain"],
        pages,
    )
    report.table(
        "sampling in memory after Rabbit Order, times as fast as before",
        ["nodes", "seeds", "times as fast"], sampling,
    )  # fmt: skip

    def draw(axes: Sequence[Any]) -> None:
        last = [row for row in pages if row[0] == pages[-1][0]]
        ours = {"rabbit": "aethergraph rabbit"}
        names = [f"{ours.get(row[2], row[2])}, {row[1]}" for row in last]
        common.bars(axes[0], names, [row[5] for row in last], "pages of features per batch")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
