"""A sample of in-edges and out-edges as one.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py``
(``BidirectionalNeighborSampler``).
"""

from __future__ import annotations

import numpy as np

from aethergraph import _binding as native

__all__ = ["join_ways"]


def join_ways(sample: native.NativeSample, num_edges: int) -> native.NativeSample:
    """The in-edges and the out-edges of a sample, hop by hop.

    Out-edges come from the lists of their sources, so they are turned around. An edge that was
    drawn at both of its ends, or more than once (in a disjoint sample: for the same tree), is there
    once, in the first of its hops.
    """
    row = np.concatenate((sample.row[0], sample.col[1]))
    col = np.concatenate((sample.col[0], sample.row[1]))
    edge = np.concatenate((sample.edge[0], sample.edge[1]))
    names = edge
    if sample.batch is not None:
        names = sample.batch[0][col] * np.int64(num_edges) + edge
    hops = len(sample.hop_edges[0])
    hop = np.concatenate([np.repeat(np.arange(hops), counts) for counts in sample.hop_edges])
    if len(hop) != len(edge):  # an induced sample has no hops
        hop = np.zeros(len(edge), np.int64)
    order = np.argsort(hop, kind="stable")
    order = order[np.sort(np.unique(names[order], return_index=True)[1])]
    per_hop = np.bincount(hop[order], minlength=hops)[:hops].tolist()
    return sample._replace(
        row=[row[order]], col=[col[order]], edge=[edge[order]], hop_edges=[per_hop]
    )
