"""Subgraph: the result of samplers, in PyG's conventions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Subgraph", "to_bidirectional", "to_bidirectional_typed"]

Ids = NDArray[np.int64]
EdgeType = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class Subgraph:
    """Sampled subgraph with local ids ``0 .. len(node) - 1``.

    Attributes:
        node: int64 [N], global node ids: the seeds first, in input order and with their
            duplicates, then by hop in order of first appearance.
        row: int64 [E], local source of each edge; messages flow from row to col.
        col: int64 [E], local destination of each edge, non-decreasing (if layered, within each
            hop). Edges of one hop are contiguous.
        edge: int64 [E], global edge ids.
        batch: int64 [N], the seed slot each node was sampled for; only if disjoint.
        num_sampled_nodes: new nodes per hop (len hops + 1); hop 0 are the seeds. None for
            bidirectional samples.
        num_sampled_edges: edges per hop; None for bidirectional and induced samples.
    """

    node: Ids
    row: Ids
    col: Ids
    edge: Ids
    batch: Ids | None = None
    num_sampled_nodes: list[int] | None = None
    num_sampled_edges: list[int] | None = None

    @property
    def num_nodes(self) -> int:
        """Number of local nodes."""
        return int(self.node.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return int(self.row.shape[0])

    @property
    def edge_index(self) -> Ids:
        """Local ids of the edges' ends, int64 [2, E]: ``row`` over ``col``."""
        return np.stack((self.row, self.col))

    def __repr__(self) -> str:
        disjoint = "" if self.batch is None else ", disjoint"
        return f"Subgraph(num_nodes={self.num_nodes}, num_edges={self.num_edges}{disjoint})"


def to_bidirectional(row: Ids, col: Ids, edge: Ids, num_nodes: int) -> tuple[Ids, Ids, Ids]:
    """Return the edges and their reverses, sorted by (col, row), each pair once.

    Follows ``SamplerOutput.to_bidirectional`` of PyG. If several edges share a pair, PyG keeps any
    of their ids; this function keeps the first sampled edge of that direction, else the first of
    its reverse. Slots that hold the same seed are separate nodes, and so separate sources.
    """
    sources = np.concatenate((row, col))
    targets = np.concatenate((col, row))
    pairs = targets * np.int64(max(1, num_nodes)) + sources
    _, first = np.unique(pairs, return_index=True)
    return sources[first], targets[first], np.concatenate((edge, edge))[first]


def to_bidirectional_typed(
    row: dict[EdgeType, Ids],
    col: dict[EdgeType, Ids],
    edge: dict[EdgeType, Ids],
    num_nodes: dict[str, int],
) -> tuple[dict[EdgeType, Ids], dict[EdgeType, Ids], dict[EdgeType, Ids]]:
    """Return every edge and its reverse, by type.

    Follows ``HeteroSamplerOutput.to_bidirectional`` of PyG. Edges between nodes of one type are
    joined as in :func:`to_bidirectional`. Between two types, the reverses of ``(a, r, b)`` join the
    edges of ``(b, "rev_" + r, a)`` and vice versa, if the graph has that type; else nothing is
    added. An added edge has the id of the edge that it reverses, which belongs to the other edge
    type.
    """
    rows, cols, edges = dict(row), dict(col), dict(edge)
    for kind in row:
        source, relation, target = kind
        if source == target:
            ends = to_bidirectional(row[kind], col[kind], edge[kind], num_nodes[source])
        else:
            reverse = (target, reverse_name(relation), source)
            if reverse not in row:
                continue
            sources = np.concatenate((row[kind], col[reverse]))
            targets = np.concatenate((col[kind], row[reverse]))
            pairs = targets * np.int64(max(1, num_nodes[source])) + sources
            _, first = np.unique(pairs, return_index=True)
            ids = np.concatenate((edge[kind], edge[reverse]))
            ends = sources[first], targets[first], ids[first]
        rows[kind], cols[kind], edges[kind] = ends
    return rows, cols, edges


def reverse_name(relation: str) -> str:
    """Return ``"rev_votes"`` for ``"votes"``, and the other way round."""
    return relation[4:] if relation.startswith("rev_") else f"rev_{relation}"
