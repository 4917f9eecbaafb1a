"""Checks that hold of every sample, of one node type or many, and read only the graph's edges.

A :class:`Walk` is a sample with all values that it must agree with. A homogeneous one has the node
type ``"node"`` and the edge type ``("node", "to", "node")``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.testing.rules import equal, require

__all__ = [
    "KIND", "NODE", "Edges", "Hop", "Walk", "check_arrays", "check_counts", "check_draws",
    "check_edges", "check_local_ids", "check_order", "check_seeds", "check_times", "check_trees",
    "draws_by_node", "edges_of", "typed",
]  # fmt: skip

Ids = NDArray[np.int64]
EdgeType = tuple[str, str, str]

NODE = "node"
KIND: EdgeType = (NODE, "to", NODE)


@dataclass(eq=False)
class Edges:
    """True edges of one edge type: ends by edge id, and the weights and times of draws."""

    src: Ids
    dst: Ids
    weight: NDArray[Any] | None = None
    time: NDArray[Any] | None = None  # by edge id, even if it is the time of the source node

    @cached_property
    def _by_node(self) -> tuple[Ids, Ids]:
        order = np.argsort(self.dst, kind="stable")
        return order, self.dst[order]

    def into(self, node: int) -> Ids:
        """Return the ids of the edges that end at ``node``."""
        order, ends = self._by_node
        first, last = np.searchsorted(ends, [node, node + 1])
        return order[first:last]


def edges_of(
    graph: Graph | HeteroGraph, weight: str | None = None, time: str | None = None
) -> dict[EdgeType, Edges]:
    """Return a graph's edges by type.

    ``weight`` and ``time`` name the values to draw by, if any.
    """
    edges = {}
    views: dict[EdgeType, Any] = {KIND: graph}
    if graph.is_typed:
        views = {kind: graph[kind] for kind in graph.edge_types}
    for kind, view in views.items():
        src, dst = view.edge_index()
        times = None
        if time == "edge_time":
            times = view.edge_time
        elif time == "node_time":
            node_times = graph[kind[0]].node_time if graph.is_typed else graph.node_time
            times = None if node_times is None else node_times[src]
        edges[kind] = Edges(src, dst, None if weight is None else view.edge_weight, times)
    return edges


@dataclass(eq=False)
class Hop:
    """One hop: by edge type the edges ``[first, last)``, by node type the nodes that it expands."""

    number: int
    edges: dict[EdgeType, tuple[int, int]]
    nodes: dict[str, tuple[int, int]]


@dataclass(eq=False)
class Walk:
    """Sample by type, with the graph and the options that it was drawn from.

    ``since`` and ``until`` are inclusive bounds by tree; None: no bound. ``exclude`` has the edges
    that
    were left out.
    """

    node: Mapping[str, Any]
    row: Mapping[EdgeType, Any]
    col: Mapping[EdgeType, Any]
    edge: Mapping[EdgeType, Any]
    batch: Mapping[str, Any] | None
    hop_nodes: Mapping[str, Any] | None
    hop_edges: Mapping[EdgeType, Any] | None
    seeds: dict[str, Ids]
    fanouts: dict[EdgeType, Sequence[int]]
    truth: dict[EdgeType, Edges]
    replace: bool = False
    disjoint: bool = False
    latest: bool = False
    since: NDArray[Any] | None = None
    until: NDArray[Any] | None = None
    exclude: Mapping[EdgeType, Any] = field(default_factory=dict)

    @property
    def num_hops(self) -> int:
        """Number of hops."""
        return max((len(row) for row in self.fanouts.values()), default=0)

    @cached_property
    def hops(self) -> list[Hop]:
        """Hops, found from the edges; raises BrokenRule if the edges are in no such order."""
        return list(_find_hops(self))

    def tree(self, kind: str, local: int) -> int:
        """Return the tree of a node."""
        return 0 if self.batch is None else int(self.batch[kind][local])

    def may_see(self, kind: EdgeType, ids: Ids, trees: Any) -> NDArray[np.bool_]:
        """Return whether ``trees`` (one, or one each) may hold the edges: in time, not left out."""
        is_visible, times = np.ones(len(ids), bool), self.truth[kind].time
        if kind in self.exclude:
            is_visible = ~np.isin(ids, self.exclude[kind])
        if times is not None and self.until is not None:
            is_visible &= times[ids] <= self.until[trees]
        if times is not None and self.since is not None:
            is_visible &= times[ids] >= self.since[trees]
        return is_visible

    def may_draw(self, kind: EdgeType, ids: Ids, trees: Any) -> NDArray[np.bool_]:
        """Return whether the edges may be drawn: they may be seen, and have a weight above 0."""
        is_visible, weight = self.may_see(kind, ids, trees), self.truth[kind].weight
        return is_visible if weight is None else is_visible & (weight[ids] > 0)

    def visible(self, kind: EdgeType, local: int) -> Ids:
        """Return the edges that the node ``local`` may have in its tree."""
        ids = self.truth[kind].into(int(self.node[kind[2]][local]))
        return ids[self.may_see(kind, ids, self.tree(kind[2], local))]

    def drawable(self, kind: EdgeType, local: int) -> Ids:
        """Return the edges that may be drawn for the node ``local``."""
        ids = self.truth[kind].into(int(self.node[kind[2]][local]))
        return ids[self.may_draw(kind, ids, self.tree(kind[2], local))]


def typed(sample: Any, graph: Graph | HeteroGraph) -> dict[str, Any]:
    """Return the fields of a sample by type, as :class:`Walk` takes them."""
    nodes = getattr(sample, "num_sampled_nodes", None)
    edges = getattr(sample, "num_sampled_edges", None)
    batch = getattr(sample, "batch", None)
    if graph.is_typed:
        return {
            "node": sample.node, "row": sample.row, "col": sample.col, "edge": sample.edge,
            "batch": batch, "hop_nodes": nodes, "hop_edges": edges,
        }  # fmt: skip
    return {
        "node": {NODE: sample.node},
        "row": {KIND: sample.row},
        "col": {KIND: sample.col},
        "edge": {KIND: sample.edge},
        "batch": None if batch is None else {NODE: batch},
        "hop_nodes": None if nodes is None else {NODE: nodes},
        "hop_edges": None if edges is None else {KIND: edges},
    }


def _find_hops(walk: Walk) -> Iterator[Hop]:
    """Yield the hops of a walk; new nodes must be numbered in order of first appearance."""
    size = {kind: len(ids) for kind, ids in walk.seeds.items()}
    frontier = {kind: (0, count) for kind, count in size.items()}
    done = dict.fromkeys(walk.truth, 0)
    for kind in walk.truth:
        col = walk.col[kind]
        require(
            (col[1:] >= col[:-1]).all(), f"col of {kind} must be non-decreasing, found {col}"
        )  # fmt: skip
    for number in range(walk.num_hops):
        before, spans = dict(size), {}
        for kind in walk.truth:
            first = done[kind]
            last = first + int((walk.col[kind][first:] < frontier[kind[2]][1]).sum())
            rows = walk.row[kind][first:last]
            fresh = list(dict.fromkeys(rows[rows >= size[kind[0]]].tolist()))
            start = size[kind[0]]
            require(
                fresh == list(range(start, start + len(fresh))),
                f"new nodes must be numbered in order of first appearance, from {start} on: hop "
                f"{number} of {kind} has the rows {rows.tolist()}",
            )
            size[kind[0]] += len(fresh)
            spans[kind] = first, last
            done[kind] = last
        yield Hop(number, spans, frontier)
        frontier = {kind: (before[kind], size[kind]) for kind in size}
    for kind, last in done.items():
        count = len(walk.col[kind])
        require(
            last == count,
            f"{kind}: edges {last} to {count - 1} end at nodes of no hop that is expanded",
        )
    for name, count in size.items():
        require(
            len(walk.node[name]) == count,
            f"{name}: {len(walk.node[name])} nodes, but seeds and edges lead to {count}",
        )


# ---- checks ----------------------------------------------------------------------------------


def check_arrays(walk: Walk) -> None:
    """Require int64 vectors, of one length for one set of edges or nodes."""
    named = {"row": walk.row, "col": walk.col, "edge": walk.edge}
    require(set(walk.node) == set(walk.seeds), f"node has the types {list(walk.node)}")
    for name, values in named.items():
        require(set(values) == set(walk.truth), f"{name} has the edge types {list(values)}")
        for kind, ids in values.items():
            equal(ids, np.asarray(ids).reshape(-1), f"{name} of {kind}", np.int64)
            same = len(ids) == len(walk.row[kind])
            require(same, f"{name} of {kind} has {len(ids)} ids, row {len(walk.row[kind])}")
    for kind_of_node, ids in walk.node.items():
        equal(ids, np.asarray(ids).reshape(-1), f"node of {kind_of_node}", np.int64)


def check_seeds(walk: Walk) -> None:
    """Require the seeds first, in their order and with duplicates."""
    for kind, seeds in walk.seeds.items():
        equal(walk.node[kind][: len(seeds)], seeds, f"the first nodes of {kind}")


def check_local_ids(walk: Walk) -> None:
    """Require local ids in range; every node has one (per tree), seeds one per slot."""
    for kind in walk.truth:
        for name, ids, of in (("row", walk.row[kind], kind[0]), ("col", walk.col[kind], kind[2])):
            count = len(walk.node[of])
            inside = ((ids >= 0) & (ids < count)).all()
            require(inside, f"{name} of {kind} must be in 0..{count - 1}, found {ids}")
    for name, nodes in walk.node.items():
        first: dict[tuple[int, int], int] = {}
        for local, node in enumerate(nodes.tolist()):
            known = first.setdefault((walk.tree(name, local), node), local)
            require(
                known == local or local < len(walk.seeds[name]),
                f"node {node} of {name} has two local ids, {known} and {local}",
            )
        slots = {first[walk.tree(name, i), int(nodes[i])] for i in range(len(nodes))}
        for kind in walk.truth:
            if kind[0] == name:
                wrong_rows = sorted(set(walk.row[kind].tolist()) - slots)
                require(
                    not wrong_rows,
                    f"row of {kind}: a seed that is there twice is a source by its first slot, "
                    f"found {wrong_rows}",
                )


def check_order(walk: Walk) -> None:
    """Require ascending ``col``, and nodes numbered in order of first appearance, hop by hop."""
    require(len(walk.hops) == walk.num_hops, "as many hops as fanouts")


def check_edges(walk: Walk) -> None:
    """Require every edge to be one of the graph, with the id that the graph gives it."""
    for kind, edges in walk.truth.items():
        ids, count = walk.edge[kind], len(edges.src)
        inside = ((ids >= 0) & (ids < count)).all()
        require(inside, f"edge ids of {kind} must be in 0..{count - 1}, found {ids}")
        equal(walk.node[kind[0]][walk.row[kind]], edges.src[ids], f"sources of {kind}")
        equal(walk.node[kind[2]][walk.col[kind]], edges.dst[ids], f"destinations of {kind}")


def check_draws(walk: Walk) -> None:
    """Require min(k, d) distinct edges for fanout k of d in time; exactly k with replacement."""
    for hop in walk.hops:
        for kind, (first, last) in hop.edges.items():
            k = int(walk.fanouts[kind][hop.number])
            col = walk.col[kind][first:last]
            for local in range(*hop.nodes[kind[2]]):
                _check_drawn(walk, kind, local, k, walk.edge[kind][first:last][col == local])


def _check_drawn(walk: Walk, kind: EdgeType, local: int, k: int, drawn: Ids) -> None:
    possible = walk.drawable(kind, local)
    times = walk.truth[kind].time
    where = f"slot {local} (node {int(walk.node[kind[2]][local])}, fanout {k}) of {kind}"
    latest = walk.latest and times is not None and k >= 0
    weighted = walk.truth[kind].weight is not None
    if latest:
        assert times is not None
        latest_times = np.sort(times[possible])[max(0, len(possible) - k) :]
        drawn_times = np.sort(times[drawn])
        same = np.array_equal(drawn_times, latest_times)
        if walk.replace or weighted:  # any of the k latest
            same = not len(latest_times) or bool((drawn_times >= latest_times[0]).all())
        require(same, f"{where}: the latest times are {latest_times}, found {drawn_times}")
    count = len(possible)
    if k >= 0:
        count = k * (count > 0) if walk.replace else min(k, count)
    # Edges of weight 0 may be among the latest, so that fewer can be drawn.
    fits = len(drawn) <= count if latest and weighted else len(drawn) == count
    require(
        fits,
        f"{where}: {len(possible)} edges may be drawn, so it has {count}, found {len(drawn)}",
    )
    forbidden = sorted(set(drawn.tolist()) - set(possible.tolist()))
    require(not forbidden, f"{where}: the edges {forbidden} may not be drawn")
    if not walk.replace or k < 0:
        twice = [edge for edge, times in Counter(drawn.tolist()).items() if times > 1]
        require(not twice, f"{where}: without replacement the edges {twice} came twice")


def check_counts(walk: Walk) -> None:
    """Require ``num_sampled_nodes`` and ``num_sampled_edges``, where given, to count the hops."""
    if walk.hop_nodes is not None:
        for name, seeds in walk.seeds.items():
            starts = [hop.nodes[name][0] for hop in walk.hops] + [len(walk.node[name])]
            if walk.hops:
                starts.insert(-1, walk.hops[-1].nodes[name][1])
            counts = list(walk.hop_nodes[name])
            expected = np.diff(starts).tolist() if walk.hops else [len(seeds)]
            require(counts == expected, f"num_sampled_nodes of {name}: {expected}, found {counts}")
    if walk.hop_edges is not None:
        for kind in walk.truth:
            expected = [last - first for first, last in (hop.edges[kind] for hop in walk.hops)]
            counts = list(walk.hop_edges[kind])
            require(counts == expected, f"num_sampled_edges of {kind}: {expected}, found {counts}")


def check_trees(walk: Walk) -> None:
    """Require the tree of every node in ``batch``, and no edge from one tree to another."""
    require(walk.batch is not None, "a disjoint sample must have batch")
    assert walk.batch is not None
    before = 0
    for name, seeds in walk.seeds.items():
        trees = walk.batch[name]
        equal(trees, np.asarray(trees).reshape(-1), f"batch of {name}", np.int64)
        require(len(trees) == len(walk.node[name]), f"batch of {name} has {len(trees)} entries")
        expected = np.arange(before, before + len(seeds))
        equal(trees[: len(seeds)], expected, f"batch of the seeds of {name}")
        before += len(seeds)
    for kind in walk.truth:
        ends = walk.batch[kind[0]][walk.row[kind]], walk.batch[kind[2]][walk.col[kind]]
        equal(ends[0], ends[1], f"the trees of the sources of {kind}")


def check_times(walk: Walk) -> None:
    """Require no edge to be later, or earlier, than the bounds of its tree."""
    assert walk.batch is not None
    for kind, edges in walk.truth.items():
        if edges.time is None:
            continue
        trees, seen = walk.batch[kind[2]][walk.col[kind]], edges.time[walk.edge[kind]]
        for bound, name, wrong in (
            (walk.until, "later", np.greater), (walk.since, "earlier", np.less)
        ):  # fmt: skip
            if bound is not None:
                bad = np.flatnonzero(wrong(seen, bound[trees]))
                require(
                    not len(bad),
                    f"edges {bad.tolist()} of {kind} have the times {seen[bad]}, {name} than the "
                    f"bounds of their trees, {bound[trees][bad]}",
                )


def draws_by_node(walk: Walk) -> dict[tuple[EdgeType, int, int], list[int]]:
    """Return the edge ids drawn, sorted, by (edge type, hop, node).

    Slots of one node must agree.
    """
    draws: dict[tuple[EdgeType, int, int], list[int]] = {}
    for hop in walk.hops:
        for kind, (first, last) in hop.edges.items():
            col, edges = walk.col[kind][first:last], walk.edge[kind][first:last]
            for local in range(*hop.nodes[kind[2]]):
                drawn = sorted(edges[col == local].tolist())
                node = int(walk.node[kind[2]][local])
                known = draws.setdefault((kind, hop.number, node), drawn)
                require(known == drawn, f"node {node} drew {known} and {drawn} in one sample")
    return draws
