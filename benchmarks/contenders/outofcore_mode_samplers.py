"""The contenders of outofcore_modes.py; each run is a process under a memory limit.

    python benchmarks/contenders outofcore_mode_samplers CONFIG         CONFIG: JSON

Prints "ready" when the graph is open, then what it did as one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from harness.worker import memory
from large_graph import SPAN

from contenders.outofcore_samplers import device_bytes

FANOUTS = [10, 10]
WALK_LENGTH = 20

# (rows of seeds, number of the first) -> (what was made, what is compared), a batch at a time
Step = Callable[[Any, int], Iterator[tuple[int, list[Any]]]]


def neighbors(graph: Any, **options: Any) -> Step:
    from aethergraph import NeighborSampler

    sampler = NeighborSampler(graph, FANOUTS, is_sorted=True, **options)

    def step(rows: Any, number: int) -> Iterator[tuple[int, list[Any]]]:
        times = None
        if options.get("time_attr"):
            times = [np.full(len(seeds), SPAN // 2) for seeds in rows]
        keys = range(number, number + len(rows))
        for sub in sampler.sample_many(list(rows), keys, seed_time=times):
            yield sub.num_edges, [sub.node, sub.row, sub.edge]

    return step


def edge_values(graph: Any) -> Step:
    plain = neighbors(graph)
    stores = graph.edge_values

    def step(rows: Any, number: int) -> Iterator[tuple[int, list[Any]]]:
        for count, (_, _, edge) in plain(rows, number):
            yield count, [stores["edge_weight"].gather(edge), stores["edge_time"].gather(edge)]

    return step


def walks(graph: Any, **options: Any) -> Step:
    from aethergraph import RandomWalker

    walker = RandomWalker(graph, direction="in", edge_table=False, **options)

    def step(rows: Any, number: int) -> Iterator[tuple[int, list[Any]]]:
        for key, starts in enumerate(rows, number):
            made = walker.walk(starts, WALK_LENGTH, key=key)
            yield made.size - len(starts), [made]

    return step


def fanout(graph: Any) -> Step:
    from aethergraph.sampling.walks import random_fanout

    def step(rows: Any, number: int) -> Iterator[tuple[int, list[Any]]]:
        for key, nodes in enumerate(rows, number):
            made = random_fanout(graph, nodes, 10, direction="in", key=key)
            yield int((made >= 0).sum()), [made]

    return step


def lookups(graph: Any) -> Step:
    def step(rows: Any, number: int) -> Iterator[tuple[int, list[Any]]]:
        del number
        for v in rows:
            yield len(v), [graph.has_edges(np.roll(v, 1), v)]

    return step


def hgt(graph: Any) -> Step:
    from aethergraph import HeteroGraph, HGTSampler

    budget = None if graph.paging is None else graph.paging.budget.limit
    typed = HeteroGraph.load(graph.path, storage=graph.storage, memory_budget=budget)
    sampler = HGTSampler(typed, [512, 512])
    kind = typed.edge_types[0]
    graph.close()

    def step(rows: Any, number: int) -> Iterator[tuple[int, list[Any]]]:
        for key, seeds in enumerate(rows, number):
            sub = sampler.sample({typed.node_types[0]: seeds}, key=key)
            node = sub.node[typed.node_types[0]]
            yield len(node) + len(sub.edge[kind]), [node, sub.row[kind], sub.edge[kind]]

    return step


#: name: (how, what is counted, seeds of a batch)
MODES: dict[str, tuple[Callable[[Any], Step], str, int]] = {
    "uniform": (neighbors, "edges", 1024),
    "weights and times of sampled edges": (edge_values, "edges", 256),
    "temporal": (lambda g: neighbors(g, time_attr="edge_time"), "edges", 256),
    "temporal, the latest": (
        lambda g: neighbors(g, time_attr="edge_time", temporal_strategy="last"), "edges", 256
    ),
    "weighted": (lambda g: neighbors(g, weight_attr="edge_weight"), "edges", 256),
    "induced, disjoint (ShaDow)": (
        lambda g: neighbors(g, subgraph_type="induced", disjoint=True), "edges", 64
    ),
    "random walks": (walks, "steps", 1024),
    "node2vec walks": (lambda g: walks(g, p=0.5, q=2.0), "steps", 64),
    "table of neighbours": (fanout, "neighbours", 1024),
    "does the edge exist?": (lookups, "pairs", 1024),
    "HGT": (hgt, "nodes and edges", 64),
}  # fmt: skip


def checksum(arrays: list[Any]) -> int:
    found = 0
    for array in arrays:
        found = zlib.crc32(np.ascontiguousarray(array).view(np.uint8), found)
    return found


def measure(step: Step, seeds: Any, seconds: float, block: int) -> dict[str, Any]:
    """Blocks of batches until the time is over; a block that was begun is finished."""
    batches = items = first = 0
    device = device_bytes()
    cpu, start = time.process_time(), time.perf_counter()
    while batches < len(seeds) and time.perf_counter() - start < seconds:
        for count, arrays in step(seeds[batches : batches + block], batches):
            first = first if batches else checksum(arrays)
            items += count
            batches += 1
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "batches": batches,
        "items": items,
        "checksum": first,
        "device_bytes": device_bytes() - device,
    }


def main(config: dict[str, Any]) -> None:
    from aethergraph import Graph

    uring = config["storage"] == "uring"
    budget = config["budget"] if uring else None
    graph = Graph.load(config["graph"], storage=config["storage"], memory_budget=budget)
    make, _, batch = MODES[config["mode"]]
    start = time.perf_counter()
    step = make(graph)
    made = time.perf_counter() - start
    seeds = np.load(config["seeds"], mmap_mode="r")[:, : min(batch, config["batch"])]
    print("ready", flush=True)
    result = measure(step, seeds, config["seconds"], config["block"] if uring else 1)
    print(json.dumps({**result, "make_seconds": made, "resident_peak": memory()["peak"]}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
