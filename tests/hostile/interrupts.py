"""Ctrl-C at random moments of long calls.

    python interrupts.py FOLDER SIZE SEED [CALL ...]

A thread sends SIGINT after a random share of the time that the call takes by itself. Printed are,
for every call, the seconds of processor time until KeyboardInterrupt was there: others use the
machine as well, so that seconds of the clock would be theirs. Afterwards the same objects give what
they gave before.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import aethergraph as ag
from aethergraph import SubgraphLoader, convert
from aethergraph.loading import Ahead

DEGREE = 12
MOMENTS = 3  # interruptions of each call


class _Undo(Exception):
    pass


class Calls:
    """Long calls over one graph; ``size`` is its number of nodes."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        rng = np.random.default_rng(0)
        edges = size * DEGREE
        self._src, self._dst = rng.integers(0, size, (2, edges))
        self._weight = rng.random(edges, dtype=np.float32)
        self._seeds = rng.integers(0, size, size // 4)
        self._pairs = rng.integers(0, size, (2, 4 * size))
        self._positions = rng.integers(0, edges, edges)
        path = folder / "graph.aether"
        self._times = rng.integers(0, 10**9, edges)
        graph = ag.Graph.from_edges(size, self._src, self._dst, edge_weight=self._weight)
        graph.save(path)
        np.save(folder / "ends.npy", np.stack([self._src, self._dst]))
        np.save(folder / "x.npy", np.zeros((size, 64), np.float32))
        self._graph = ag.Graph.load(path)
        self._paged = ag.Graph.load(path, storage="uring", memory_budget="256M")
        self._rows = ag.FeatureTable.load(folder / "x.npy")
        self._size = size
        self._kept: ag.DynamicGraph | None = None

    def _sample(self, graph: ag.Graph, fanouts: list[int], **options: Any) -> int:
        sampler = ag.NeighborSampler(graph, fanouts, **options)
        return len(sampler.sample(self._seeds, key=1).edge)

    def full(self) -> int:
        return self._sample(self._graph, [-1, -1])

    def full_in_threads(self) -> int:
        return self._sample(self._graph, [-1, -1], num_threads=2)

    def induced(self) -> int:
        return self._sample(self._graph, [10, 5], subgraph_type="induced")

    def disjoint(self) -> int:
        return self._sample(self._graph, [10, 5], disjoint=True)

    def layered(self) -> int:
        return self._sample(self._graph, [10, 5], layered=True)

    def weighted(self) -> int:
        return self._sample(self._graph, [10, 5], weight_attr="edge_weight")

    def paged(self) -> int:
        return self._sample(self._paged, [10, 5])

    def edge_index(self) -> int:
        return int(self._graph.edge_index()[0].sum())

    def has_edges(self) -> int:
        return int(self._graph.has_edges(*self._pairs).sum())

    def edge_ends(self) -> int:
        return int(self._graph.edge_ends(self._positions)[1].sum())

    def degrees(self) -> int:
        return int(self._graph.in_degrees(self._positions % self._size).sum())

    def walk(self) -> int:
        walker = ag.RandomWalker(self._graph, direction="in")
        return int(walker.walk(self._seeds, 60, key=1).sum())

    def gather(self) -> int:
        return int(self._rows.gather(self._positions[: 4 * self._size] % self._size).shape[0])

    def verify(self) -> int:
        self._graph.verify()
        return 0

    def save(self) -> int:
        self._graph.save(self._folder / "copy.aether", compress=True)
        return 0

    def _build(self, **options: Any) -> int:
        graph = ag.Graph.from_edges(self._size, self._src, self._dst, layout="both", **options)
        return graph.num_edges

    def from_edges(self) -> int:
        return self._build()

    def from_edges_sorted(self) -> int:
        return self._build(sort_neighbors=True, keep_order=True)

    def from_edges_with_weights(self) -> int:
        return self._build(keep_order=True, edge_weight=self._weight)

    def from_edges_with_times(self) -> int:
        return self._build(keep_order=True, edge_time=self._times)

    def from_edges_with_float_times(self) -> int:
        return self._build(edge_time=self._weight, edge_weight=self._times)

    def from_edges_with_node_times(self) -> int:
        return self._build(node_time=self._times[: self._size], edge_attrs={"t": self._times})

    def from_edges_of_one_list(self) -> int:
        star = np.zeros_like(self._src)
        return ag.Graph.from_edges(1, star, star, sort_neighbors=True).num_edges

    def convert(self) -> int:
        return self._convert(None)

    def convert_within(self) -> int:
        return self._convert("4G")

    def _convert(self, budget: str | None) -> int:
        found = convert.convert(
            self._folder / "ends.npy", self._folder / "out.aether", force=True, restart=True,
            memory_budget=budget,
        )  # fmt: skip
        return found.num_edges

    def _live(self, order: Any) -> ag.DynamicGraph:
        return ag.DynamicGraph(self._size, 2048, layout="csc", order=order)

    def live_insert(self) -> int:
        return self._insert_into(self._live("time"))

    def live_insert_into_a_set(self) -> int:
        return self._insert_into(self._live("id"))

    def _insert_into(self, graph: ag.DynamicGraph) -> int:
        some = slice(0, len(self._src) // 10)  # undoing takes as long as there was done
        try:
            graph.insert_edges(self._src[some], self._dst[some])
        finally:  # all of them or none
            assert graph.num_edges == 0 or graph.num_edges > len(self._src[some]) * 0.99
        return graph.num_edges

    def live_delete(self) -> int:
        some = slice(0, len(self._src) // 40)
        graph = self._filled()
        before = graph.num_edges
        try:
            with graph.transaction():
                graph.delete_edges(self._src[some], self._dst[some])
                left = graph.pinned().num_edges  # of the last commit: nothing is gone yet
                raise _Undo
        except _Undo:
            pass
        finally:
            assert graph.num_edges == before
        return left

    def live_edge_list(self) -> int:
        return int(self._filled().snapshot().edge_list()[2].sum())

    def live_to_graph(self) -> int:
        return self._filled().to_graph().num_edges

    def live_sample(self) -> int:
        sampler = ag.NeighborSampler(self._filled(), [10, 5])
        return len(sampler.sample(self._seeds, key=1).edge)

    def _filled(self) -> ag.DynamicGraph:
        if self._kept is None:
            self._kept = self._live("time")
            self._kept.insert_edges(self._src, self._dst)
        return self._kept

    def batches(self) -> int:
        loader = SubgraphLoader(
            self._graph,
            [-1, -1],
            self._seeds,
            batch_size=len(self._seeds) // 3,
            ahead=Ahead(threads=2),
        )
        return sum(len(batch.subgraph.edge) for batch in loader)

    def all(self) -> dict[str, Callable[[], int]]:
        """Return the calls by name."""
        names = [name for name in vars(type(self)) if not name.startswith("_") and name != "all"]
        return {name: getattr(self, name) for name in names}


def _interrupt(call: Callable[[], int], delay: float) -> float | None:
    """Return the processor time from SIGINT to KeyboardInterrupt; None if none came."""
    sent = threading.Event()
    at = 0.0

    def send() -> None:
        nonlocal at
        time.sleep(delay)
        at = time.process_time()
        sent.set()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    try:
        thread.start()
        call()
        sent.wait()
        time.sleep(0.5)  # it is on its way
    except KeyboardInterrupt:
        waited = time.process_time() - at
    else:
        waited = None
    thread.join()
    return waited


def main(folder: Path, size: int, seed: int, names: list[str]) -> None:
    """Print a line of JSON for each call: its name, its own time, seconds until it ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    calls, rng = Calls(folder, size).all(), random.Random(seed)
    for name in names or list(calls):
        begin = time.perf_counter()
        expected = calls[name]()
        took = time.perf_counter() - begin
        waits = [_interrupt(calls[name], rng.uniform(0.05, 0.9) * took) for _ in range(MOMENTS)]
        found = calls[name]()
        line = {"call": name, "seconds": took, "waits": waits, "same": found == expected}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
