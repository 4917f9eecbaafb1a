"""Graphs that change, as contenders of live_peers.py: ours, Aspen, a rebuilt Data, Python's own.

All hold in-edges and get the same stream: edge ``i`` of :class:`Stream` is a function of ``i`` and
the number of nodes.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import Any

import numpy as np
from harness import common
from harness.worker import Commands, memory, serve

Ids = common.Ids
PIECE = 1 << 20
BATCH = 10_000
#: Calls of one edge whose times are told apart.
QUANTILES = (0.5, 0.99, 0.999, 0.9999)


class Stream:
    """Edges of a power-law graph that come one after the other, made in pieces."""

    def __init__(self, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self._number, self._piece = -1, (np.empty(0, np.int64), np.empty(0, np.int64))

    def edges(self, first: int, last: int) -> tuple[Ids, Ids]:
        """Return the edges ``first..last - 1``."""
        parts: list[tuple[Ids, Ids]] = []
        while first < last:
            number, at = divmod(first, PIECE)
            if number != self._number:
                self._number = number
                self._piece = common.power_law_edges(self.num_nodes, PIECE, seed=number)
            end = min(PIECE, at + last - first)
            parts.append((self._piece[0][at:end], self._piece[1][at:end]))
            first += end - at
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


class Contender(ABC):
    """A graph that edges are inserted into."""

    def __init__(self, num_nodes: int, num_edges: int) -> None:
        self.num_nodes = num_nodes

    @abstractmethod
    def insert(self, src: Ids, dst: Ids) -> None:
        """Insert edges in one batch."""

    def insert_each(self, src: Ids, dst: Ids) -> list[int]:
        """Insert edges one by one; return the nanoseconds of each."""
        clock, insert = time.perf_counter_ns, self.insert_one
        spent = []
        for u, v in zip(src.tolist(), dst.tolist(), strict=True):
            begin = clock()
            insert(u, v)
            spent.append(clock() - begin)
        return spent

    def insert_one(self, src: int, dst: int) -> None:
        """Insert one edge."""
        raise NotImplementedError

    @abstractmethod
    def sample(self, seeds: Ids, fanouts: list[int], key: int) -> int:
        """Draw neighbours hop by hop; return the number of drawn edges."""


class Ours(Contender):
    """A DynamicGraph with in-lists, in one order, with edge ids of 8 or 4 bytes."""

    def __init__(self, num_nodes: int, num_edges: int, order: Any, id_bytes: Any) -> None:
        from aethergraph import DynamicGraph

        super().__init__(num_nodes, num_edges)
        room = min(32 << 10, max(64, num_edges * 80 >> 20))
        self.graph = DynamicGraph(
            num_nodes, room, layout="csc", order=order, edge_id_bytes=id_bytes
        )
        self.insert_one = self.graph.insert_edge  # type: ignore[method-assign,assignment]
        self._samplers: dict[tuple[int, ...], Any] = {}

    def insert(self, src: Ids, dst: Ids) -> None:
        self.graph.insert_edges(src, dst)

    def sample(self, seeds: Ids, fanouts: list[int], key: int) -> int:
        from aethergraph import NeighborSampler

        sampler = self._samplers.setdefault(tuple(fanouts), NeighborSampler(self.graph, fanouts))
        return len(sampler.sample(seeds, key).edge)


class Aspen(Contender):
    """Aspen's C-tree (aspen_live.cpp), which is called from C++: nothing of Python is counted."""

    def __init__(self, num_nodes: int, num_edges: int, library: str) -> None:
        super().__init__(num_nodes, num_edges)
        self._lib = ctypes.CDLL(library)
        self._lib.aspen_sample.restype = ctypes.c_uint64
        self._lib.aspen_make()

    @staticmethod
    def _at(array: Any) -> Any:
        return ctypes.c_void_p(array.ctypes.data)

    def _pairs(self, src: Ids, dst: Ids) -> Any:
        return np.stack([dst, src], axis=1).astype(np.uint32)

    def insert(self, src: Ids, dst: Ids) -> None:
        pairs = self._pairs(src, dst)
        count, nodes = ctypes.c_size_t(len(pairs)), ctypes.c_size_t(self.num_nodes)
        self._lib.aspen_insert(self._at(pairs), count, nodes)

    def insert_each(self, src: Ids, dst: Ids) -> list[int]:
        pairs, spent = self._pairs(src, dst), np.zeros(len(src), np.int64)
        count, nodes = ctypes.c_size_t(len(pairs)), ctypes.c_size_t(self.num_nodes)
        self._lib.aspen_insert_each(self._at(pairs), count, nodes, self._at(spent))
        return list(spent.tolist())

    def sample(self, seeds: Ids, fanouts: list[int], key: int) -> int:
        each = np.array(fanouts, np.int32)
        counts = ctypes.c_size_t(len(seeds)), ctypes.c_size_t(len(each))
        found = self._lib.aspen_sample(
            self._at(seeds), counts[0], self._at(each), counts[1], ctypes.c_uint64(key)
        )
        return int(found)


class Lists(Contender):
    """A dict of lists: the floor of code without a library."""

    def __init__(self, num_nodes: int, num_edges: int) -> None:
        super().__init__(num_nodes, num_edges)
        self.lists: dict[int, Any] = defaultdict(list)

    def insert(self, src: Ids, dst: Ids) -> None:
        lists = self.lists
        for u, v in zip(src.tolist(), dst.tolist(), strict=True):
            lists[v].append(u)

    def insert_one(self, src: int, dst: int) -> None:
        self.lists[dst].append(src)

    def list_of(self, node: int) -> list[int]:
        return self.lists.get(node, [])  # type: ignore[no-any-return]

    def sample(self, seeds: Ids, fanouts: list[int], key: int) -> int:
        rng, front, edges = random.Random(key), set(seeds.tolist()), 0
        seen = set(front)
        for k in fanouts:
            drawn: set[int] = set()
            for node in front:
                own = self.list_of(node)
                some = own if len(own) <= k else rng.sample(own, k)
                edges += len(some)
                drawn.update(some)
            front = drawn - seen
            seen |= front
        return edges


class NetworkX(Lists):
    """networkx.DiGraph."""

    def __init__(self, num_nodes: int, num_edges: int) -> None:
        import networkx as nx

        super().__init__(num_nodes, num_edges)
        self.graph = nx.DiGraph()
        self.graph.add_nodes_from(range(num_nodes))
        self.insert_one = self.graph.add_edge  # type: ignore[method-assign]

    def insert(self, src: Ids, dst: Ids) -> None:
        self.graph.add_edges_from(zip(src.tolist(), dst.tolist(), strict=True))

    def list_of(self, node: int) -> list[int]:
        return list(self.graph.pred[node])


class Rebuilt(Contender):
    """PyG's Data: edges are appended to an array, and the lists are made anew when they are read.

    ``to_csc`` is what PyG's loaders do with a Data when they are made.
    """

    def __init__(self, num_nodes: int, num_edges: int) -> None:
        super().__init__(num_nodes, num_edges)
        self.parts: list[Any] = []

    def insert(self, src: Ids, dst: Ids) -> None:
        self.parts.append(np.stack([src, dst]))

    def rebuild(self) -> float:
        import torch
        from torch_geometric.data import Data
        from torch_geometric.sampler.utils import to_csc

        whole = np.concatenate(self.parts, axis=1)
        self.parts = [whole]
        begin = time.process_time()
        data = Data(edge_index=torch.from_numpy(whole), num_nodes=self.num_nodes)
        to_csc(data, device="cpu")
        return time.process_time() - begin

    def sample(self, seeds: Ids, fanouts: list[int], key: int) -> int:
        raise NotImplementedError


def _make(config: dict[str, Any]) -> Contender:
    name, sizes = config["contender"], (config["num_nodes"], config["num_edges"])
    if name == "Aspen":
        return Aspen(*sizes, config["aspen"])
    if name.startswith("aethergraph"):
        order, id_bytes = "id" if "set" in name else "time", 4 if "4 bytes" in name else 8
        return Ours(*sizes, order, id_bytes)
    return {"dict of lists": Lists, "networkx": NetworkX, "PyG Data, rebuilt": Rebuilt}[name](
        *sizes
    )


def setup(config: dict[str, Any]) -> Commands:
    """Return the commands of a contender; they go on along the stream."""
    graph, stream, at = _make(config), Stream(config["num_nodes"]), 0

    def load(last: int) -> float:
        """Insert edges up to ``last``; return processor nanoseconds per edge."""
        nonlocal at
        spent, count = 0.0, last - at
        while at < last:
            end = min(last, at + PIECE)
            src, dst = stream.edges(at, end)
            begin = time.process_time()
            for first in range(0, end - at, BATCH):
                graph.insert(src[first : first + BATCH], dst[first : first + BATCH])
            spent += time.process_time() - begin
            at = end
        return 1e9 * spent / max(1, count)

    def batches(size: int, count: int) -> float:
        """Insert more edges in batches of a size; return processor nanoseconds per edge."""
        nonlocal at
        src, dst = stream.edges(at, at + size * count)
        at += size * count
        begin = time.process_time()
        for first in range(0, size * count, size):
            graph.insert(src[first : first + size], dst[first : first + size])
        return 1e9 * (time.process_time() - begin) / (size * count)

    def singles(count: int) -> dict[str, float]:
        """Insert more edges, a call each; return the mean processor time and quantiles, in us."""
        nonlocal at
        src, dst = stream.edges(at, at + count)
        at += count
        begin = time.process_time()
        spent = np.array(graph.insert_each(src, dst)) / 1e3
        mean = 1e6 * (time.process_time() - begin) / count
        found = {str(q): float(np.quantile(spent, q)) for q in QUANTILES}
        return {"mean": mean, "max": float(spent.max()), **found}

    def sample(seeds: list[list[int]], fanouts: list[int]) -> dict[str, float]:
        """Return processor milliseconds and edges of a batch."""
        given = [np.array(one) for one in seeds]
        edges = graph.sample(given[0], fanouts, 0)
        begin = time.process_time()
        drawn = [graph.sample(one, fanouts, key) for key, one in enumerate(given)]
        spent = 1e3 * (time.process_time() - begin) / len(given)
        return {"ms": spent, "edges": statistics.mean(drawn), "first": edges}

    def size() -> float:
        """Return the bytes of the arena per edge."""
        assert isinstance(graph, Ours)
        stats = graph.graph.stats()
        return stats.used_bytes / stats.num_edges

    def rebuild() -> float:
        assert isinstance(graph, Rebuilt)
        return graph.rebuild()

    return {
        "load": load, "batches": batches, "singles": singles, "sample": sample,
        "size": size, "rebuild": rebuild, "memory": memory,
    }  # fmt: skip


if __name__ == "__main__":
    serve(setup)
