"""Which modules gain from mypyc? Times the same calls on two builds, side by side.

    AETHERGRAPH_NO_MYPYC=1 pip install --no-deps --target plain .
    pip install --no-deps --target compiled .        # with the candidates in setup.py's list
    python benchmarks/mypyc_modules.py plain compiled

Rounds of the two builds alternate; the table shows the median of each and their ratio. What is in
the list of setup.py, and why, follows from this table.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any


def cases() -> dict[str, tuple[Callable[[], Any], int]]:
    """name -> (call, how many operations one call does)."""
    import numpy as np

    from aethergraph import Graph, NeighborSampler, SubgraphLoader
    from aethergraph._checks.arrays import as_ids
    from aethergraph._parallel.prefetch import prefetch_map
    from aethergraph.loading.buffers import BufferPool
    from aethergraph.sampling.keys import hash_ids, mix_key
    from aethergraph.storage.meta import ArrayMeta, EdgeType, FileMeta, NodeType

    rng = np.random.default_rng(0)
    graph = Graph.from_edges(1000, *rng.integers(0, 1000, (2, 5000)))
    graph.features = rng.random((1000, 8), dtype=np.float32)
    sampler = NeighborSampler(graph, [2])
    ids = np.arange(1024)
    few = np.arange(4)
    pool = BufferPool()
    meta = FileMeta(
        (NodeType("n", 5),),
        (EdgeType(0, "to", 0, 9),),
        tuple(ArrayMeta(f"a{i}", "node", 0, "float32", (5, i)) for i in range(50)),
    ).encode()

    def drain(num_threads: int) -> None:
        for _ in prefetch_map(abs, range(200), num_threads=num_threads, depth=4):
            pass

    def load() -> None:
        for _ in SubgraphLoader(graph, [2], ids[:400], batch_size=4, ahead=0):
            pass

    return {
        "keys: mix_key of 3 numbers": (lambda: mix_key(1, 2, 3), 1),
        "keys: hash_ids of 1024": (lambda: hash_ids(ids), 1),
        "prefetch: an item, no thread": (lambda: drain(0), 200),
        "prefetch: an item, one thread": (lambda: drain(1), 200),
        "buffers: a recycled array": (lambda: pool.empty((1000, 128)), 1),
        "arrays: as_ids of int64": (lambda: as_ids(ids, "ids"), 1),
        "arrays: as_ids of a list of 4": (lambda: as_ids([1, 2, 3, 4], "ids"), 1),
        "container: decode 50 arrays": (lambda: FileMeta.decode(meta, "p"), 1),
        "neighbor: sample 4 seeds": (lambda: sampler.sample(few, 1), 1),
        "loader: a batch of 4 seeds": (load, 100),
    }


def measure() -> dict[str, float]:
    """name -> nanoseconds per operation, the best of some rounds."""
    out = {}
    for name, (call, operations) in cases().items():
        timer = timeit.Timer(call, timer=time.process_time)  # CPU time: other work does not count
        number, _ = timer.autorange()
        number = max(1, number // 4)
        best = min(timer.repeat(5, number)) / number
        out[name] = best / operations * 1e9
    return out


def run_in(folder: str) -> dict[str, float]:
    env = {**os.environ, "PYTHONPATH": os.path.abspath(folder), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__)], env=env, check=True, capture_output=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    if len(sys.argv) != 3:
        print(json.dumps(measure()))
        return
    plain, compiled = zip(
        *[(run_in(sys.argv[1]), run_in(sys.argv[2])) for _ in range(3)], strict=True
    )
    print(f"{'ns per operation':34}{'plain':>10}{'compiled':>10}{'ratio':>8}")
    for name in plain[0]:
        before = statistics.median(run[name] for run in plain)
        after = statistics.median(run[name] for run in compiled)
        print(f"{name:34}{before:10,.0f}{after:10,.0f}{before / after:8.2f}")


if __name__ == "__main__":
    main()
