"""Obviously correct, slow models of the engine that tests compare it with, value by value.

The models share nothing with the native core. The sampler's model follows the documented random
streams (``native/src/core/rng.h``) in Python integers, so it predicts every node, edge and count.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.sampling.subgraph import Subgraph

__all__ = [
    "Relation",
    "sample",
    "sample_hgt",
    "sample_typed",
]

Ids = NDArray[np.int64]
Edge = tuple[int, int, int]

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


# ---- random numbers --------------------------------------------------------------------------


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def stream_start(key: int, hop: int, node: int, seed: int | None, relation: int = 0) -> int:
    """Return the start of the stream of (key, hop, edge type, node, seed's slot if disjoint)."""
    base = _mix((_mix(key & _MASK) + (hop + 1) * _GAMMA) & _MASK)
    if relation:
        base = _mix((base + relation * _GAMMA) & _MASK)
    start = _mix((base + node * _GAMMA) & _MASK)
    return start if seed is None else _mix((start + (seed + 1) * _GAMMA) & _MASK)


def stream_draw(start: int, i: int) -> int:
    """Return draw ``i`` of a stream, uniform over 64 bits."""
    return _mix((start + (i + 1) * _GAMMA) & _MASK)


def positions(degree: int, fanout: int, replace: bool, start: int) -> list[int]:
    """Draw positions from a list of ``degree`` entries."""
    if degree == 0 or fanout == 0:
        return []
    if fanout < 0 or (not replace and fanout >= degree):
        return list(range(degree))
    if replace:
        return [(stream_draw(start, i) * degree) >> 64 for i in range(fanout)]
    chosen: dict[int, None] = {}  # Floyd's method: a uniform subset without a table of the list
    for i in range(fanout):
        last = degree - fanout + i
        t = (stream_draw(start, i) * (last + 1)) >> 64
        chosen[last if t in chosen else t] = None
    return list(chosen)


# ---- adjacency -------------------------------------------------------------------------------


def compressed_lists(num_nodes: int, major: Any, minor: Any) -> tuple[Ids, Ids, Ids]:
    """Return ``(indptr, indices, order)`` of an edge list grouped by ``major``, in input order."""
    keys, values = np.asarray(major, np.int64), np.asarray(minor, np.int64)
    order = np.argsort(keys, kind="stable")
    counts = np.bincount(keys, minlength=num_nodes) if len(keys) else np.zeros(num_nodes, int)
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return indptr, values[order], order


# ---- sampling --------------------------------------------------------------------------------


@dataclass
class Relation:
    """Edge type as the sampler walks it: a list of ``to`` nodes for every ``source`` node.

    ``weight`` and ``time`` have a value per edge id, ``node_time`` one per ``to`` node; times
    ascend in
    every list.
    """

    indptr: NDArray[Any]
    indices: NDArray[Any]
    edge_ids: NDArray[Any] | None = None
    source: int = 0
    to: int = 0
    weight: NDArray[Any] | None = None
    time: NDArray[Any] | None = None
    node_time: NDArray[Any] | None = None

    def entries(self, node: int) -> list[tuple[int, int]]:
        """Return (far end, edge id) of every entry of the list of ``node``."""
        span = range(int(self.indptr[node]), int(self.indptr[node + 1]))
        ids = self.edge_ids
        return [(int(self.indices[p]), p if ids is None else int(ids[p])) for p in span]

    def is_visible(self, entry: tuple[int, int], since: float, until: float) -> bool:
        """Return whether the entry's time is within the bounds."""
        if self.time is not None:
            return bool(since <= self.time[entry[1]] <= until)
        if self.node_time is not None:
            return bool(since <= self.node_time[entry[0]] <= until)
        return True

    def visible(
        self,
        node: int,
        bounds: tuple[float, float],
        latest: int | None,
        exclude: frozenset[int] = frozenset(),
    ) -> list[tuple[int, int]]:
        """Return the entries in time.

        With ``latest`` only from the first of the ``latest`` last entries that are not excluded.
        """
        entries = [entry for entry in self.entries(node) if self.is_visible(entry, *bounds)]
        timed = self.time is not None or self.node_time is not None
        if timed and latest is not None and latest >= 0:
            left = [i for i, entry in enumerate(entries) if entry[1] not in exclude]
            if latest < len(left):
                entries = entries[left[len(left) - latest] :] if latest else []
        return entries

    def draw(
        self,
        node: int,
        entries: list[tuple[int, int]],
        fanout: int,
        replace: bool,
        start: int,
        exclude: frozenset[int] = frozenset(),
    ) -> list[tuple[int, int]]:
        """Draw from ``entries``, a part of the list of ``node``, by the stream ``start``."""
        if self.weight is None:
            left = [entry for entry in entries if entry[1] not in exclude]
            return [left[i] for i in positions(len(left), fanout, replace, start)]
        all_entries = self.entries(node)
        first = all_entries.index(entries[0]) if entries else 0
        chosen = weighted_positions(
            [float(self.weight[edge]) for _, edge in entries], fanout, replace, start,
            holes={i for i, (_, edge) in enumerate(entries) if edge in exclude},
            before=[float(self.weight[edge]) for _, edge in all_entries[:first]],
        )  # fmt: skip
        return [entries[i] for i in chosen]


#: Few draws from a long list are made from sums of weights: at most one per _FEW entries, of at
#: least _LONG entries; see ``weighted.c``.
_LONG, _FEW = 128, 16


def weighted_positions(
    weights: Sequence[float],
    fanout: int,
    replace: bool,
    start: int,
    *,
    holes: Collection[int] = (),
    before: Sequence[float] = (),
) -> list[int]:
    """Draw positions by weight; see ``native/src/sample/draw/weighted.h``.

    Args:
        weights: weights of the entries.
        fanout: number of draws, -1 for all.
        replace: draw with replacement.
        start: start of the random stream.
        holes: excluded positions.
        before: weights of the entries that the list has before these.
    """
    drawable = [i for i, weight in enumerate(weights) if weight > 0 and i not in holes]
    if not drawable or fanout == 0:
        return []
    if fanout < 0 or (not replace and fanout >= len(drawable)):
        return drawable
    picks, draws = list[int](), 0
    if len(weights) >= _LONG and _FEW * fanout <= len(drawable):
        picks, draws = _few_positions(weights, fanout, replace, start, holes, before)
    remaining = fanout - len(picks)
    if replace:
        cumulative = list(itertools.accumulate(weights[i] for i in drawable))
        for i in range(draws, draws + remaining):
            at = bisect.bisect_right(cumulative, _unit(start, i) * cumulative[-1])
            picks.append(drawable[min(at, len(drawable) - 1)])
        return picks

    def key(i: int) -> float:
        u = ((stream_draw(start, draws + i) >> 11) + 0.5) * 2.0**-53
        return -math.log(u) / weights[i]

    left = [i for i in drawable if i not in picks]
    return sorted(picks + sorted(left, key=key)[:remaining])


def _few_positions(
    weights: Sequence[float],
    fanout: int,
    replace: bool,
    start: int,
    holes: Collection[int],
    before: Sequence[float],
) -> tuple[list[int], int]:
    """Return positions in the order of their draws, perhaps too few, and the number of draws."""
    sums = list(itertools.accumulate([*before, *weights]))
    low = sums[len(before) - 1] if before else 0.0
    total = sums[-1] - low
    if not (2.0**-1022 <= total < math.inf and total >= sums[-1] * 2.0**-16):
        return [], 0
    picks, draws = list[int](), 0
    while len(picks) < fanout and draws < 4 * fanout + 16:
        i = bisect.bisect_right(sums, low + _unit(start, draws) * total) - len(before)
        draws += 1
        if 0 <= i < len(weights) and i not in holes and (replace or i not in picks):
            picks.append(i)
    return picks, draws


def _unit(start: int, i: int) -> float:
    """Return draw ``i`` of a stream, uniform in [0, 1)."""
    return (stream_draw(start, i) >> 11) * 2.0**-53


@dataclass
class TypedSample:
    """Sample by type: nodes in the order of node types, edges in that of relations."""

    node: list[Ids]
    batch: list[Ids]
    row: list[Ids]
    col: list[Ids]
    edge: list[Ids]
    hop_nodes: list[list[int]]
    hop_edges: list[list[int]]


class _Nodes:
    """Sampled nodes of one type; a node is identified by (tree, node)."""

    def __init__(self, names: list[tuple[int, int]]) -> None:
        self.names = list(names)
        self.local: dict[tuple[int, int], int] = {}
        for slot, name in enumerate(names):
            self.local.setdefault(name, slot)
        self.frontier = range(len(names))

    def add(self, name: tuple[int, int]) -> int:
        """Return the local id of a node, which is added if it is new."""
        if name not in self.local:
            self.local[name] = len(self.names)
            self.names.append(name)
        return self.local[name]


def sample_typed(
    relations: Sequence[Relation],
    seeds: Sequence[Sequence[int] | Ids],
    fanouts: Sequence[Sequence[int]],
    key: int,
    *,
    replace: bool = False,
    disjoint: bool = False,
    induced: bool = False,
    latest: bool = False,
    layered: bool = False,
    since: Sequence[float] | None = None,
    until: Sequence[float] | None = None,
    exclude: Sequence[frozenset[int]] | None = None,
) -> TypedSample:
    """Sample over several node types (one list of seeds each) and edge types.

    ``since`` and ``until`` have a bound for each tree, trees being numbered through the types;
    ``exclude`` has the edges to leave out for each relation.
    """
    trees = itertools.count()
    nodes = [_Nodes([(next(trees) if disjoint else 0, int(v)) for v in ids]) for ids in seeds]
    hop_nodes = [[len(n.names)] for n in nodes]
    hop_edges: list[list[int]] = [[] for _ in relations]
    edge_lists: list[list[tuple[int, int, int]]] = [[] for _ in relations]  # row, col, edge

    def bounds(tree: int) -> tuple[float, float]:
        low = -math.inf if since is None else since[tree]
        return low, math.inf if until is None else until[tree]

    for hop in range(len(fanouts[0]) if fanouts else 0):
        before = [len(n.names) for n in nodes]
        for number, relation in enumerate(relations):
            fanout, far = int(fanouts[number][hop]), nodes[relation.to]
            count = len(edge_lists[number])
            holes = frozenset[int]() if exclude is None else exclude[number]
            for v in nodes[relation.source].frontier:
                tree, node = nodes[relation.source].names[v]
                entries = relation.visible(node, bounds(tree), fanout if latest else None, holes)
                start = stream_start(key, hop, node, tree if disjoint else None, number)
                for neighbor, edge in relation.draw(node, entries, fanout, replace, start, holes):
                    edge_lists[number].append((far.add((tree, neighbor)), v, edge))
            hop_edges[number].append(len(edge_lists[number]) - count)
        for counts, type_nodes, size in zip(hop_nodes, nodes, before, strict=True):
            type_nodes.frontier = range(0 if layered else size, len(type_nodes.names))
            counts.append(len(type_nodes.names) - size)
    if induced:
        edge_lists = [
            _among(relation, nodes, bounds, frozenset() if exclude is None else exclude[number])
            for number, relation in enumerate(relations)
        ]
        hop_edges = [[0] * len(counts) for counts in hop_edges]

    return _typed_sample(nodes, edge_lists, hop_nodes, hop_edges)


def _typed_sample(
    nodes: list[_Nodes],
    edge_lists: list[list[tuple[int, int, int]]],
    hop_nodes: list[list[int]],
    hop_edges: list[list[int]],
) -> TypedSample:
    """Make a sample of the nodes and of ``edge_lists``, (row, col, edge) by edge type."""

    def column(edges: list[tuple[int, int, int]], which: int) -> Ids:
        return np.array([edge[which] for edge in edges], np.int64)

    return TypedSample(
        [np.array([node for _, node in n.names], np.int64) for n in nodes],
        [np.array([tree for tree, _ in n.names], np.int64) for n in nodes],
        [column(edges, 0) for edges in edge_lists],
        [column(edges, 1) for edges in edge_lists],
        [column(edges, 2) for edges in edge_lists],
        hop_nodes,
        hop_edges,
    )


def _among(
    relation: Relation,
    nodes: list[_Nodes],
    bounds: Callable[[int], tuple[float, float]] = lambda tree: (-math.inf, math.inf),
    exclude: frozenset[int] = frozenset(),
) -> list[tuple[int, int, int]]:
    """Return every edge between sampled nodes of one tree that the tree may see."""
    local = nodes[relation.to].local
    return [
        (local[tree, neighbor], v, edge)
        for v, (tree, node) in enumerate(nodes[relation.source].names)
        for neighbor, edge in relation.visible(node, bounds(tree), None)
        if (tree, neighbor) in local and edge not in exclude
    ]


_LONG_LISTS = 1 << 31


def sample_hgt(
    relations: Sequence[Relation],
    seeds: Sequence[Sequence[int] | Ids],
    num_samples: Sequence[Sequence[int]],
    key: int,
    *,
    max_neighbors: int | None = None,
) -> TypedSample:
    """Sample as ``HGTSampler.sample`` does; see ``native/src/sample/hgt.h``."""
    nodes = [_Nodes([(0, int(v)) for v in ids]) for ids in seeds]
    scores: list[dict[int, float]] = [{} for _ in nodes]
    hop_nodes = [[len(n.names)] for n in nodes]
    limit = -1 if max_neighbors is None else max_neighbors
    for hop in range(len(num_samples[0]) if num_samples else 0):
        for number, relation in enumerate(relations):
            near, far = nodes[relation.source], nodes[relation.to]
            for _, node in (near.names[v] for v in near.frontier):
                entries = relation.entries(node)
                start = stream_start(key, hop + _LONG_LISTS, node, None, number)
                chosen = positions(len(entries), limit, False, start)
                for neighbor in (entries[i][0] for i in chosen):
                    if (0, neighbor) not in far.local:
                        score = scores[relation.to].get(neighbor, 0.0)
                        scores[relation.to][neighbor] = score + 1 / len(chosen)
        for number, type_nodes in enumerate(nodes):
            order = _draw_order(scores[number], key, hop, number)
            before = len(type_nodes.names)
            for node in order[: int(num_samples[number][hop])]:
                type_nodes.add((0, node))
                del scores[number][node]
            type_nodes.frontier = range(before, len(type_nodes.names))
            hop_nodes[number].append(len(type_nodes.frontier))
    return _typed_sample(nodes, [_among(r, nodes) for r in relations], hop_nodes, [])


def _draw_order(scores: dict[int, float], key: int, hop: int, number: int) -> list[int]:
    """Return nodes in the order of draws in proportion to the square of their scores."""

    def draw_key(node: int) -> float:
        draw = stream_draw(stream_start(key, hop, node, None, number), 0)
        return -math.log(((draw >> 11) + 0.5) * 2.0**-53) / (scores[node] * scores[node])

    return sorted(scores, key=draw_key)


def sample(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    seeds: Sequence[int] | Ids,
    fanouts: Sequence[int],
    key: int,
    *,
    replace: bool = False,
    disjoint: bool = False,
    subgraph_type: str = "directional",
    edge_ids: NDArray[Any] | None = None,
    **values: Any,
) -> Subgraph:
    """Sample as ``NeighborSampler.sample`` does over these in-lists.

    ``values`` are those of :class:`Relation` (``weight``, ``time``, ``node_time``) and of
    :func:`sample_typed` (``latest``, ``since``, ``until``); ``exclude`` has the edges to leave out.
    """
    names = ("weight", "time", "node_time")
    relation = Relation(
        indptr, indices, edge_ids, **{name: values.pop(name, None) for name in names}
    )
    induced = subgraph_type == "induced"
    exclude = values.pop("exclude", None)
    if exclude is not None:
        values["exclude"] = [frozenset(int(edge) for edge in exclude)]
    typed_sample = sample_typed(
        [relation], [seeds], [list(fanouts)], key,
        replace=replace, disjoint=disjoint, induced=induced, **values,
    )  # fmt: skip
    row, col, edge = typed_sample.row[0], typed_sample.col[0], typed_sample.edge[0]
    if subgraph_type == "bidirectional":
        lists = bidirectional(row.tolist(), col.tolist(), edge.tolist())
        row, col, edge = (np.array(values, np.int64) for values in lists)
    directional = subgraph_type == "directional"
    return Subgraph(
        typed_sample.node[0],
        row,
        col,
        edge,
        typed_sample.batch[0] if disjoint else None,
        None if subgraph_type == "bidirectional" else typed_sample.hop_nodes[0],
        typed_sample.hop_edges[0] if directional else None,
    )


def bidirectional(
    row: list[int], col: list[int], edge: list[int]
) -> tuple[list[int], list[int], list[int]]:  # fmt: skip
    """Add reverses to edges: each pair once, sorted by (col, row), with its first edge id."""
    edges = list(zip(row, col, edge, strict=True))
    pairs = _with_reverses(edges, edges)
    return [r for r, _, _ in pairs], [c for _, c, _ in pairs], [e for _, _, e in pairs]


def bidirectional_typed(edges: dict[tuple[str, str, str], list[Edge]]) -> dict[Any, list[Edge]]:
    """Add reverses to edges (row, col, edge) of several types, as :func:`bidirectional` does.

    Reverses join their own type within one node type. Else they join the type that leads back and
    has the same name with "rev_" put before it, or taken away; without such a type there are none.
    """
    joined = {}
    for (source, name, target), type_edges in edges.items():
        reverse_name = name.removeprefix("rev_") if name.startswith("rev_") else "rev_" + name
        back = (source, name, target) if source == target else (target, reverse_name, source)
        joined[source, name, target] = (
            _with_reverses(type_edges, edges[back]) if back in edges else type_edges
        )
    return joined


def _with_reverses(edges: list[Edge], back_edges: list[Edge]) -> list[Edge]:
    first: dict[tuple[int, int], int] = {}
    for row, col, edge in edges:
        first.setdefault((col, row), edge)
    for row, col, edge in back_edges:
        first.setdefault((row, col), edge)
    return [(row, col, first[col, row]) for col, row in sorted(first)]
