"""Directions of sampling, and samples of both directions joined into one.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py`` (``sample_direction``,
``BidirectionalNeighborSampler``).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import as_choice

__all__ = ["LAYOUTS", "SampleDirection", "check_direction", "turned"]

Ids = NDArray[np.int64]
SampleDirection = Literal["forward", "backward", "both"]

#: Lists that each direction follows: in-edges ("csc"), out-edges ("csr").
LAYOUTS: dict[str, tuple[Literal["csc", "csr"], ...]] = {
    "forward": ("csc",),
    "backward": ("csr",),
    "both": ("csc", "csr"),
}


class _Way(NamedTuple):
    """Edges found in the lists of one direction: ``row`` and ``col`` are source and destination.

    ``hop_edges`` counts the edges by hop, in whose order they are. The edges of an induced sample,
    which have no hops, are more than these counts add up to.
    """

    row: Ids
    col: Ids
    edge: Ids
    hop_edges: list[int]


def check_direction(direction: Any) -> None:
    """Raise unless ``direction`` is a ``sample_direction``.

    Raises:
        InvalidArgumentError: ``direction`` is another value.
    """
    as_choice(direction, LAYOUTS, "sample_direction")


def turned(sample: native.NativeSample, direction: SampleDirection) -> native.NativeSample:
    """Return a sample whose ``row`` is the source of each edge and ``col`` the destination.

    Args:
        sample: sample over the lists of ``LAYOUTS[direction]``, all edge types in one layout, then
            in the next.
        direction: the direction that was sampled. ``"both"`` joins the two ways of each edge type.
    """
    if direction == "forward":
        return sample
    if direction == "backward":
        return sample._replace(row=sample.col, col=sample.row, all_edges=None)
    num_kinds = len(sample.row) // 2
    ways = [
        _join(
            _Way(sample.row[i], sample.col[i], sample.edge[i], sample.hop_edges[i]),
            _Way(sample.col[j], sample.row[j], sample.edge[j], sample.hop_edges[j]),
        )
        for i, j in enumerate(range(num_kinds, 2 * num_kinds))
    ]
    return sample._replace(
        row=[way.row for way in ways],
        col=[way.col for way in ways],
        edge=[way.edge for way in ways],
        hop_edges=[way.hop_edges for way in ways],
        all_edges=None,
    )


def _join(inward: _Way, outward: _Way) -> _Way:
    """Join in-edges and out-edges of one edge type, hop by hop.

    An edge that was drawn at both of its ends, or more than once, is kept once for each of its
    destinations, in the first of its hops. It has several of these where it is in the trees of
    several seeds, and where a seed is repeated: every copy receives the messages of its node, and
    the first one sends them.

    Args:
        inward: the edges from lists of in-edges.
        outward: the edges from lists of out-edges.

    Returns:
        The distinct edges, sorted by hop.
    """
    row = np.concatenate((inward.row, outward.row))
    col = np.concatenate((inward.col, outward.col))
    edge = np.concatenate((inward.edge, outward.edge))
    names = col * (edge.max(initial=0) + 1) + edge
    hops = len(inward.hop_edges)
    counts = inward.hop_edges, outward.hop_edges
    hop = np.concatenate([np.repeat(np.arange(hops), per_hop) for per_hop in counts])
    if len(hop) != len(edge):
        hop = np.zeros(len(edge), np.int64)
    order = np.argsort(hop, kind="stable")
    order = order[np.sort(np.unique(names[order], return_index=True)[1])]
    per_hop = np.bincount(hop[order], minlength=hops)[:hops].tolist()
    return _Way(row[order], col[order], edge[order], per_hop)
