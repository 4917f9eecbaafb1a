"""Obviously correct, slow models of the engine: what tests compare it with, value by value.

Nothing here is shared with the native core. The sampler's model follows the documented random
streams (``native/src/core/rng.h``) in Python integers, so it predicts every node, edge and count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.sampling.subgraph import Subgraph

__all__ = ["bidirectional", "compressed_lists", "positions", "sample", "stream_draw"]

Ids = NDArray[np.int64]

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


# ---- random numbers --------------------------------------------------------------------------


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def stream_start(key: int, hop: int, node: int, seed: int | None, relation: int = 0) -> int:
    """Start of the stream of (key, hop, edge type, node), and of the seed's slot if disjoint."""
    base = _mix((_mix(key & _MASK) + (hop + 1) * _GAMMA) & _MASK)
    if relation:
        base = _mix((base + relation * _GAMMA) & _MASK)
    start = _mix((base + node * _GAMMA) & _MASK)
    return start if seed is None else _mix((start + (seed + 1) * _GAMMA) & _MASK)


def stream_draw(start: int, i: int) -> int:
    """Draw ``i`` of a stream, uniform over 64 bits."""
    return _mix((start + (i + 1) * _GAMMA) & _MASK)


def positions(degree: int, fanout: int, replace: bool, start: int) -> list[int]:
    """Positions drawn from a list of ``degree`` entries."""
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
    """``(indptr, indices, order)`` of an edge list grouped by ``major``, input order kept."""
    keys, values = np.asarray(major, np.int64), np.asarray(minor, np.int64)
    order = np.argsort(keys, kind="stable")
    counts = np.bincount(keys, minlength=num_nodes) if len(keys) else np.zeros(num_nodes, int)
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return indptr, values[order], order


# ---- sampling --------------------------------------------------------------------------------


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
) -> Subgraph:
    """What ``NeighborSampler.sample`` returns over these in-lists."""
    starts = [int(p) for p in indptr]
    sources = [int(v) for v in indices]
    ids = list(range(len(sources))) if edge_ids is None else [int(e) for e in edge_ids]

    # A node is known by (tree, node); without disjoint all belong to one tree.
    nodes: list[tuple[int, int]] = []
    local: dict[tuple[int, int], int] = {}
    for slot, seed in enumerate(seeds):
        name = (slot if disjoint else 0, int(seed))
        local.setdefault(name, slot)
        nodes.append(name)
    hop_nodes, hop_edges = [len(nodes)], list[int]()
    row, col, edge = list[int](), list[int](), list[int]()
    begin = 0
    for hop, fanout in enumerate(fanouts):
        end, before = len(nodes), len(row)
        for v in range(begin, end):
            tree, node = nodes[v]
            start = stream_start(key, hop, node, tree if disjoint else None)
            degree = starts[node + 1] - starts[node]
            for position in positions(degree, int(fanout), replace, start):
                at = starts[node] + position
                name = (tree, sources[at])
                if name not in local:
                    local[name] = len(nodes)
                    nodes.append(name)
                row.append(local[name])
                col.append(v)
                edge.append(ids[at])
        hop_nodes.append(len(nodes) - end)
        hop_edges.append(len(row) - before)
        begin = end

    if subgraph_type == "induced":
        row, col, edge = [], [], []
        for v, name in enumerate(nodes):
            for at in range(starts[name[1]], starts[name[1] + 1]):
                if (0, sources[at]) in local:
                    row.append(local[0, sources[at]])
                    col.append(v)
                    edge.append(ids[at])
    if subgraph_type == "bidirectional":
        row, col, edge = bidirectional(row, col, edge)

    def vector(values: list[int]) -> Ids:
        return np.array(values, np.int64).reshape(-1)

    batch = vector([tree for tree, _ in nodes]) if disjoint else None
    directional = subgraph_type == "directional"
    return Subgraph(
        vector([node for _, node in nodes]),
        vector(row),
        vector(col),
        vector(edge),
        batch,
        None if subgraph_type == "bidirectional" else hop_nodes,
        hop_edges if directional else None,
    )


def bidirectional(
    row: list[int], col: list[int], edge: list[int]
) -> tuple[list[int], list[int], list[int]]:  # fmt: skip
    """Edges and reverses, each pair once, sorted by (col, row), the first edge id kept."""
    first: dict[tuple[int, int], int] = {}
    for r, c, e in zip(row, col, edge, strict=True):
        first.setdefault((c, r), e)
    for r, c, e in zip(row, col, edge, strict=True):
        first.setdefault((r, c), e)
    pairs = sorted(first)
    return [r for _, r in pairs], [c for c, _ in pairs], [first[pair] for pair in pairs]
