"""A live graph whose every commit is known by its number alone, and what readers check by it.

Commit ``k`` of a :class:`Plan`, one transaction, inserts the edges ``6 (k - 1) .. 6 k - 1``,
deletes those of commit ``k - 600``, changes rows of two nodes, and at times adds a node. Ends,
times and weights are functions of an edge's number, which is its id; rows are functions of ``k``
and the node. So whoever reads ``k``, which is row 0, can tell in numpy what all of the graph must
be, in any process and after any crash.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph import DynamicGraph, NeighborSampler

__all__ = ["Plan", "attached_reader", "read_until"]

Ids = NDArray[np.int64]

EDGES = 6  # of one commit
WINDOW = 600  # commits whose edges are there
SOURCES, HUBS = 509, 16  # hubs have some 200 in-edges each: more than one leaf
FIRST_NODES = 512
NODE_EVERY = 100  # commits
CHANGING = 100  # nodes whose rows change in turn


class _Failure(Exception):
    pass


class Expected(NamedTuple):
    """Edges that are there, by number."""

    ids: Ids
    src: Ids
    dst: Ids


class Plan:
    """Commits of a live graph with lists in one order, ``"time"`` or ``"id"``."""

    def __init__(self, order: Any) -> None:
        self.order = order
        self.has_times = order == "time"

    # ---- writing -----------------------------------------------------------------------------

    def open(self, path: Path, durability: Any = "batch", arena_mb: int = 12) -> DynamicGraph:
        """Open the graph, or make one.

        The arena is small: memory is used again, and at times readers hold all of it, so that a
        transaction is undone halfway.
        """
        if (path / "graph.json").exists():
            graph = DynamicGraph.open(
                path, arena_mb=arena_mb, durability=durability, huge_pages=False
            )
        else:
            graph = DynamicGraph.open(
                path, FIRST_NODES, arena_mb, durability=durability, order=self.order,
                edge_time="int64" if self.has_times else None, edge_weight="float32",
                edge_attrs={"note": ((), "int64")}, max_nodes=1 << 20, huge_pages=False,
            )  # fmt: skip
        if "x" not in graph.node_attrs:  # a kill may have come between the two
            assert graph.num_edges == 0
            graph.features = np.zeros((FIRST_NODES, 2))
        return graph

    def commit(self, graph: DynamicGraph, k: int) -> None:
        """Make commit ``k``; a transaction that fails may come before it and leaves nothing."""
        if k % 7 == 0:
            try:
                with graph.transaction():
                    self._change(graph, k + 1_000_003)
                    graph.add_nodes(3, x=np.full((3, 2), -1.0))
                    raise _Failure
            except _Failure:
                pass
        with graph.transaction():
            if k % NODE_EVERY == 0:
                graph.add_nodes(1, x=np.full((1, 2), k))
            ids = self._change(graph, k)
            graph.update_nodes([0, 1 + k % CHANGING], x=np.full((2, 2), k))
            if k > WINDOW:
                old = self.edges(k - WINDOW)
                assert graph.delete_edges(old.src, old.dst, old.ids) == EDGES
            graph.set_offset("soak", 0, k)
        assert ids.tolist() == self.edges(k).ids.tolist()

    def _change(self, graph: DynamicGraph, k: int) -> Ids:
        new = self.edges(k)
        dst = np.minimum(new.dst, graph.num_nodes - 1) if k > 1_000_000 else new.dst
        return graph.insert_edges(
            new.src, dst, time=self.times(new.ids) if self.has_times else None,
            weight=self.weights(new.ids), edge_attrs={"note": new.ids // EDGES + 1},
        )  # fmt: skip

    # ---- what there is at a commit -----------------------------------------------------------

    def edges(self, first: int, last: int | None = None) -> Expected:
        """Return the edges that the commits ``first..last`` insert."""
        ids = np.arange(EDGES * (first - 1), EDGES * (first if last is None else last))
        pair = ids * 7919 % (SOURCES * HUBS)  # no pair twice within the window
        src, dst, k = pair % SOURCES, pair // SOURCES, ids // EDGES + 1
        newest = ids % EDGES == EDGES - 1  # the last one of a commit: into the newest node
        src = np.where(newest, k % SOURCES, src)
        return Expected(ids, src, np.where(newest, FIRST_NODES - 1 + k // NODE_EVERY, dst))

    def alive(self, k: int) -> Expected:
        """Return the edges that are there after commit ``k``."""
        return self.edges(max(1, k - WINDOW + 1), k)

    def num_nodes(self, k: int) -> int:
        """Return the number of nodes after commit ``k``."""
        return FIRST_NODES + k // NODE_EVERY

    @staticmethod
    def times(ids: Ids) -> Ids:
        """Return the times of edges, most of which come late."""
        return ids - ids * 31 % 211

    @staticmethod
    def weights(ids: Ids) -> NDArray[np.float32]:
        """Return the weights of edges."""
        return (ids % 1021 / 4).astype(np.float32)

    def rows(self, k: int) -> NDArray[np.float64]:
        """Return the rows of all nodes after commit ``k``."""
        rows = np.zeros(self.num_nodes(k))
        turn = np.arange(CHANGING)
        rows[1 : 1 + CHANGING] = np.maximum(0, k - (k - turn) % CHANGING)
        rows[FIRST_NODES:] = NODE_EVERY * np.arange(1, len(rows) - FIRST_NODES + 1)
        rows[0] = k
        return np.stack([rows, rows], axis=1)

    def in_list(self, there: Expected, node: int) -> Expected:
        """Return the edges into a node in the order of its list."""
        own = np.flatnonzero(there.dst == node)
        by = self.times(there.ids[own]) if self.has_times else there.src[own]
        own = own[np.lexsort((there.ids[own], by))]
        return Expected(there.ids[own], there.src[own], there.dst[own])

    # ---- checks ------------------------------------------------------------------------------

    def number(self, graph: Any) -> int:
        """Return the commit that a graph or snapshot is at."""
        return int(graph.features.gather([0])[0, 0])

    def check(self, snapshot: Any, rng: np.random.Generator) -> int:
        """Compare all of a snapshot with its commit; return the commit's number."""
        k = self.number(snapshot)
        there = self.alive(k)
        count = self.num_nodes(k)
        assert (snapshot.num_nodes, snapshot.num_edges) == (count, len(there.ids)), k
        src, dst, ids = snapshot.edge_list()
        same(ids, there.ids, k)
        same(src, there.src, k)
        same(dst, there.dst, k)
        same(snapshot.in_degrees(), np.bincount(there.dst, minlength=count), k)
        same(snapshot.out_degrees(), np.bincount(there.src, minlength=count), k)
        same(snapshot.features.gather(np.arange(count)), self.rows(k), k)
        values = snapshot.edge_values
        same(values["edge_weight"].gather(ids), self.weights(ids), k)
        same(snapshot.edge_attrs["note"].gather(ids), ids // EDGES + 1, k)
        if self.has_times:
            same(values["edge_time"].gather(ids), self.times(ids), k)
        for node in (*rng.integers(0, HUBS, 3).tolist(), count - 1):
            own = self.in_list(there, node)
            same(snapshot.in_edges(node), own.ids, k)
            same(snapshot.in_neighbors(node), own.src, k)
        self._check_sample(snapshot, there, k, rng)
        assert self.number(snapshot) == k
        return k

    def _check_sample(self, snapshot: Any, there: Expected, k: int, rng: Any) -> None:
        seeds = np.unique(rng.integers(0, HUBS, 3))
        sub = NeighborSampler(snapshot, [-1, -1]).sample(seeds, int(rng.integers(1 << 30)))
        front = np.isin(there.dst, seeds)
        front |= np.isin(there.dst, there.src[front])
        same(np.sort(sub.edge), there.ids[front], k)
        few = NeighborSampler(snapshot, [4, 3], weight_attr="edge_weight").sample(seeds, k)
        assert np.isin(few.edge, there.ids[front]).all(), k

    def check_batch(self, sampler: NeighborSampler, graph: DynamicGraph, rng: Any) -> int:
        """Sample the graph beside its writer: the batch is of one commit from then to now."""
        seeds = np.append(np.unique(rng.integers(0, HUBS, 2)), FIRST_NODES - 1)
        before = self.number(graph)
        found = np.sort(sampler.sample(seeds, before).edge)
        after = self.number(graph)
        assert after >= before
        near = self.edges(max(1, before - WINDOW + 1), after)
        own = near.ids[np.isin(near.dst, seeds)]
        at = own // EDGES + 1
        for k in range(before, after + 1):
            if np.array_equal(found, own[(at > k - WINDOW) & (at <= k)]):
                return k
        like = [
            k
            for k in range(1, after + 1000)
            if found[-1] // EDGES + 1 <= k and np.array_equal(found, self._into(seeds, k))
        ]
        raise AssertionError(
            f"none of the commits {before}..{after} has the edges into {seeds.tolist()} from "
            f"{found[0]} to {found[-1]}, {len(found)} in all; commits that have: {like}"
        )

    def _into(self, seeds: Ids, k: int) -> Ids:
        there = self.alive(k)
        return there.ids[np.isin(there.dst, seeds)]


def same(found: Any, expected: Any, k: int) -> None:
    """Raise unless two arrays are equal."""
    assert np.array_equal(found, expected), f"commit {k}: {found!r}, but expected {expected!r}"


# ---- readers ---------------------------------------------------------------------------------


def read_until(
    plan: Plan,
    graph: DynamicGraph,
    is_over: Callable[[], bool],
    tell: Callable[[int], None],
    seed: int,
) -> None:
    """Check snapshots and batches until ``is_over()``; tell the number of every commit seen.

    Snapshots are held for a while, some of them beyond the next one.
    """
    rng = np.random.default_rng(seed)
    sampler = NeighborSampler(graph, [-1])
    held, last = graph.snapshot(), 0
    while not is_over():
        if rng.random() < 0.3:
            snapshot = graph.snapshot()
            if rng.random() < 0.5:
                time.sleep(rng.random() / 50)
            now = plan.check(snapshot, rng)
            if rng.random() < 0.2:
                at = plan.check(held, rng)
                assert at <= now
                held = snapshot
        else:
            now = plan.check_batch(sampler, graph, rng)
        assert now >= last, f"commit {now} was seen after {last}"
        last = now
        tell(now)


def attached_reader(path: str, order: str, seed: int) -> None:
    """Read the graph of another process for ever; print every commit seen, or what is wrong."""
    graph = DynamicGraph.attach(path)

    def tell(k: int) -> None:
        print(json.dumps(k), flush=True)

    try:
        read_until(Plan(order), graph, lambda: False, tell, seed)
    except BaseException as error:
        print(json.dumps(repr(error)), flush=True)


if __name__ == "__main__":
    attached_reader(sys.argv[1], sys.argv[2], int(sys.argv[3]))
