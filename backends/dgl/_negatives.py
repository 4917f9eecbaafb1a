"""Random pairs of nodes that are no edges.

Source followed: ``global_uniform_negative_sampling`` of DGL (``dgl/sampling/negative.py``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from aethergraph._checks.arrays import empty
from aethergraph._checks.options import as_number
from aethergraph.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.protocols import Adjacency

__all__ = ["draw_negatives"]

Ids: TypeAlias = "NDArray[np.int64]"

#: Rounds in which more pairs are drawn if too many were edges or came twice.
_ROUNDS = 3
_MOST_REDUNDANCY = 1e6


def draw_negatives(
    edges: Adjacency,
    same_type: bool,
    count: int,
    key: int,
    *,
    exclude_self_loops: bool,
    replace: bool,
    redundancy: float | None,
) -> tuple[Ids, Ids]:
    """Draw at most ``count`` pairs (source, destination) without an edge, uniformly.

    Args:
        edges: edges, which are no negatives.
        same_type: sources and destinations are the same nodes.
        count: number of pairs.
        key: decides the draws.
        exclude_self_loops: no pair of a node with itself, where the types are the same.
        replace: pairs may come twice.
        redundancy: share of extra draws in a round; None: by the share of pairs that are edges.
    """
    num_src, num_dst = edges.num_src, edges.num_dst
    pairs = num_src * num_dst
    if redundancy is None:
        density = _num_edges(edges) / pairs if pairs else 1.0
        redundancy = min(10.0, 0.3 + density / max(1e-3, 1 - density))
    redundancy = as_number(redundancy, "redundancy")
    if not 0 <= redundancy <= _MOST_REDUNDANCY:
        raise InvalidArgumentError(f"redundancy = {redundancy} is not in 0..{_MOST_REDUNDANCY:g}")
    rng = np.random.default_rng(key)
    negatives = np.empty((2, 0), np.int64)
    for _ in range(_ROUNDS):
        missing = count - negatives.shape[1]
        if missing <= 0 or not pairs:
            break
        more = math.ceil(missing * (1 + redundancy))
        drawn = empty((2, more), np.int64, f"{more} pairs to draw")
        drawn[0] = rng.integers(0, num_src, more)
        drawn[1] = rng.integers(0, num_dst, more)
        keep = ~edges.has_edges(drawn[0], drawn[1])
        if exclude_self_loops and same_type:
            keep &= drawn[0] != drawn[1]
        negatives = np.concatenate((negatives, drawn[:, keep]), axis=1)
        if not replace:
            negatives = _distinct(negatives)
    return negatives[0, :count].copy(), negatives[1, :count].copy()


def _distinct(pairs: Ids) -> Ids:
    """Return the first of equal pairs, in the order in which they were drawn."""
    _, first = np.unique(pairs, axis=1, return_index=True)
    return pairs[:, np.sort(first)]


def _num_edges(edges: Any) -> int:
    return int(edges.num_edges)
