"""A graph that fits in memory, sampled from each storage: what does not copying it cost?

    python benchmarks/storages.py [--quick] [--nodes 10M]

A power-law graph with ten edges per node, fanouts [20, 15, 10], batches of 1024. "memory" is the
pointer path: lists are found through pointers into an array. Beside it "auto" within a budget
that the graph fits in, "mmap" with the file in the page cache, and "uring" within the same budget
after it has kept all pages that it can, batch by batch and grouped. All sample in one process in
turn, from the same seeds and keys, and must find the same edges.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

from aethergraph import Graph, NeighborSampler

FANOUTS, BATCH, GROUP = [20, 15, 10], 1024, 16
AIM = 1.1  # times as long as the pointer path

# (seeds of some batches, first key) -> edges sampled
Sample = Callable[[Sequence[Any], int], int]


def by_batch(sampler: NeighborSampler) -> Sample:
    return lambda seeds, key: sum(
        sampler.sample(ids, key=key + i).num_edges for i, ids in enumerate(seeds)
    )


def grouped(sampler: NeighborSampler) -> Sample:
    return lambda seeds, key: sum(
        out.num_edges for out in sampler.sample_many(seeds, list(range(key, key + len(seeds))))
    )


def measure(samples: dict[str, Sample], nodes: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Seconds and processor seconds of each in every round, the first one changing by round."""
    rng = np.random.default_rng(0)
    batch = min(BATCH, nodes // 10)
    found: dict[str, dict[str, Any]] = {
        name: {"seconds": [], "cpu": [], "edges": []} for name in samples
    }
    names = list(samples)
    for number in range(-2, rounds):  # two to warm up
        seeds = [rng.choice(nodes, batch, replace=False) for _ in range(GROUP)]
        for name in names[number % len(names) :] + names[: number % len(names)]:
            cpu, start = time.process_time(), time.perf_counter()
            edges = samples[name](seeds, 1000 + number * GROUP)
            seconds, used = time.perf_counter() - start, time.process_time() - cpu
            if number >= 0:
                found[name]["seconds"].append(seconds)
                found[name]["cpu"].append(used)
                found[name]["edges"].append(edges)
    if len({tuple(one["edges"]) for one in found.values()}) > 1:
        raise SystemExit(f"the storages sampled different edges: {found}")
    return found


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--nodes", type=int, help="ten edges each (default: 10M)")
    args = common.parse(made, argv)
    nodes = args.nodes or (20_000 if args.quick else 10_000_000)
    files = common.power_law_graph(args.dir, nodes)
    budget = 2 * files.graph.stat().st_size + (256 << 20)
    path = files.graph
    graphs = {
        "memory": Graph.load(path, storage="memory"),
        "auto, within the budget": Graph.load(path, storage="auto", memory_budget=budget),
        "mmap": Graph.load(path, storage="mmap"),
        "uring, batch by batch": Graph.load(path, storage="uring", memory_budget=budget),
    }
    samplers = {name: NeighborSampler(graph, FANOUTS) for name, graph in graphs.items()}
    samples = {name: by_batch(sampler) for name, sampler in samplers.items()}
    samples["memory, grouped"] = grouped(samplers["memory"])
    samples["uring, grouped"] = grouped(samplers["uring, batch by batch"])
    rounds = 2 if args.quick else 9
    report = Report("storages", "Sampling a graph that fits in memory, from each storage", args)
    report.parameters = {
        "nodes": nodes, "edges": files.num_edges, "file_bytes": path.stat().st_size,
        "budget": budget, "fanouts": FANOUTS, "batch": BATCH, "batches_per_round": GROUP,
        "rounds": rounds,
    }  # fmt: skip
    found = measure(samples, nodes, rounds)
    paging = graphs["uring, batch by batch"].paging
    assert paging is not None
    report.data = {"runs": found, "uring": paging.stats()}

    def ratio(name: str, key: str) -> Ratio:
        return Ratio.paired(found[name][key], found["memory"][key])

    report.table(
        f"{common.short(files.num_edges)} edges, {common.size(path.stat().st_size)}, budget "
        f"{common.size(budget)}: times as long as memory, rounds of {GROUP} batches",
        ["storage", "becomes", "seconds", "processor seconds", "processor ns per edge",
         f"within {AIM:.2f} of the pointer path"],
        [
            [name, graphs.get(name, graphs["uring, batch by batch"]).storage if name !=
             "memory, grouped" else "memory", str(ratio(name, "seconds")), str(ratio(name, "cpu")),
             1e9 * sum(one["cpu"]) / sum(one["edges"]),
             "yes" if ratio(name, "cpu").median <= AIM else "no"]
            for name, one in found.items()
        ],
    )  # fmt: skip
    report.note(
        f"The pages that uring keeps: {common.size(paging.stats()['kept_bytes'])}. The last column "
        f"goes by processor time. Load after the run: {os.getloadavg()[0]:.1f}."
    )
    report.finish()


if __name__ == "__main__":
    main()
