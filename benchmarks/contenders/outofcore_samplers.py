"""The contenders of outofcore.py that are ours; each run is a process under a memory limit.

    python benchmarks/contenders outofcore_samplers CONFIG         CONFIG: JSON

Prints "ready" when the graph is open, then what it did as one line of JSON; or "missing: REASON" if
the installed version cannot do this.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from itertools import takewhile, tee
from pathlib import Path
from typing import Any

import numpy as np
from harness.worker import memory

MMAP, READ_AHEAD = "aethergraph mmap", "aethergraph mmap, read-ahead"
URING, GROUPED = "aethergraph uring", "aethergraph uring, grouped"
ALONE = "aethergraph uring, one thread"
NAMES = (MMAP, READ_AHEAD, ALONE, URING, GROUPED)
IN_FLIGHT = 2  # batches that are sampled at once, each by a thread of its own
MADV_NORMAL = 0

# (key, seeds) of batches, read as they are needed -> subgraphs, in order
Sample = Callable[[Iterator[tuple[int, Any]]], Iterator[Any]]


class Missing(Exception):
    """The installed version lacks this contender; the message says what."""


def open_graph(name: str, path: str, budget: int) -> Any:
    from aethergraph import Graph

    if name in (MMAP, READ_AHEAD):
        graph = Graph.load(path, storage="mmap")
        if name == READ_AHEAD:
            for array in graph.csc():
                read_ahead(array)
        return graph
    storage: Any = "uring"
    try:
        return Graph.load(path, storage=storage, memory_budget=budget)
    except ValueError as error:
        if "storage" not in str(error):
            raise
        raise Missing(str(error)) from None


def read_ahead(array: np.ndarray[Any, Any]) -> None:
    """Let the kernel read ahead as it does in mappings that nobody has advised it on."""
    import ctypes

    begin = array.ctypes.data & ~4095
    length = array.ctypes.data + array.nbytes - begin
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(length), MADV_NORMAL) != 0:
        raise OSError(ctypes.get_errno(), "madvise")


def make_sampler(name: str, graph: Any, fanouts: list[int]) -> Sample:
    from aethergraph import NeighborSampler
    from aethergraph._parallel.prefetch import prefetch_map

    sampler = NeighborSampler(graph, fanouts)

    def one(batch: tuple[int, Any]) -> Any:
        return sampler.sample(batch[1], key=batch[0])

    if name == URING:
        return lambda batches: prefetch_map(
            one, batches, num_threads=IN_FLIGHT, depth=IN_FLIGHT + 1
        )
    if name != GROUPED:
        return lambda batches: map(one, batches)
    if not hasattr(sampler, "sample_many"):
        raise Missing("NeighborSampler has no sample_many")
    many: Any = sampler.sample_many

    def grouped(batches: Iterator[tuple[int, Any]]) -> Iterator[Any]:
        keys, seeds = tee(batches)
        return many((ids for _, ids in seeds), (key for key, _ in keys))

    return grouped


def device_bytes() -> int:
    """Bytes that this process made the kernel read from devices."""
    lines = Path("/proc/self/io").read_text(encoding="utf-8").splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def read_sizes(graph: Any) -> np.ndarray[Any, Any]:
    """[sizes, 2]: reads that our engine began, and their bytes; nothing if it did not read."""
    paging = getattr(graph, "paging", None)
    return np.array([] if paging is None else paging.stats()["read_sizes"], np.int64)


def measure(sample: Sample, graph: Any, seeds: np.ndarray[Any, Any], seconds: float) -> Any:
    """Sample batch after batch until the time is over; what was begun is finished."""
    batches = edges = first = 0
    device, faults = device_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    sizes = read_sizes(graph)
    cpu, start = time.process_time(), time.perf_counter()
    in_time = takewhile(lambda _: time.perf_counter() - start < seconds, enumerate(seeds))
    for out in sample(in_time):
        edges += out.num_edges
        first = first or out.num_edges
        batches += 1
        del out
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "batches": batches,
        "edges": edges,
        "edges_of_first_batch": first,
        "device_bytes": device_bytes() - device,
        "major_faults": resource.getrusage(resource.RUSAGE_SELF).ru_majflt - faults,
        "read_sizes": (read_sizes(graph) - sizes).tolist(),
    }


def main(config: dict[str, Any]) -> None:
    name = config["contender"]
    try:
        graph = open_graph(name, config["graph"], config["budget"])
        sample = make_sampler(name, graph, config["fanouts"])
    except Missing as reason:
        print(f"missing: {reason}", flush=True)
        return
    seeds = np.load(config["seeds"], mmap_mode="r")
    print("ready", flush=True)
    result = measure(sample, graph, seeds, config["seconds"])
    print(json.dumps({**result, "resident_peak": memory()["peak"]}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
