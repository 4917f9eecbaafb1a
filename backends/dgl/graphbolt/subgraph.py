"""Sampled layer that edges can be removed from, whatever the size of ids.

Source followed: ``dgl/graphbolt/sampled_subgraph.py``, which packs two ids into 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

import dgl.graphbolt as gb
from aethergraph.dgl.graphbolt._signatures import Finished
from aethergraph.errors import InvalidArgumentError

__all__ = ["SampledSubgraph"]


class SampledSubgraph(gb.SampledSubgraphImpl):  # type: ignore[misc]
    """Layer of :class:`NeighborSampler`, with the fields of ``gb.SampledSubgraphImpl``."""

    def exclude_edges(
        self, edges: Any, assume_num_node_within_int32: bool = True, async_op: bool = False
    ) -> SampledSubgraph | Finished:
        """Return this layer without the edges between pairs of nodes; its nodes stay.

        ``gb.exclude_seed_edges`` calls it.

        Args:
            edges: pairs [n, 2] or ``(sources, destinations)`` in original ids, or a dict of them by
                edge type where the layer has types.
            assume_num_node_within_int32: not used: ids of any size are told apart.
            async_op: return an object whose ``wait()`` gives the layer, as GraphBolt from 2.4 on.

        Raises:
            InvalidArgumentError: a dict for a layer without types, or the other way round.
        """
        left = self._without(edges)
        return Finished(left) if async_op else left

    def _without(self, edges: Any) -> SampledSubgraph:
        typed = isinstance(self.sampled_csc, Mapping)
        if typed != isinstance(edges, Mapping):
            form = "a dict by edge type" if typed else "a tensor or a pair of them"
            raise InvalidArgumentError(f"edges must be {form}, got {type(edges).__name__}")
        rows, columns = self.original_row_node_ids, self.original_column_node_ids
        if not typed:
            csc, ids = _exclude(self.sampled_csc, self.original_edge_ids, rows, columns, edges)
            return SampledSubgraph(csc, columns, rows, ids)
        formats, named = dict(self.sampled_csc), dict(self.original_edge_ids)
        for kind, pairs in edges.items():
            if kind in formats:
                source, _, target = kind.split(":")
                formats[kind], named[kind] = _exclude(
                    formats[kind], named[kind], rows[source], columns[target], pairs
                )
        return SampledSubgraph(formats, columns, rows, named)


def _exclude(csc: Any, ids: Tensor, rows: Tensor, columns: Tensor, pairs: Any) -> Any:
    """Return the compressed edges that are none of the pairs, and their ids."""
    src, dst = (pairs[:, 0], pairs[:, 1]) if isinstance(pairs, Tensor) else pairs
    indptr = csc.indptr.long()
    own_dst = columns.repeat_interleave(indptr.diff())
    # Ids are replaced by their ranks among those that occur, so that two fit into one number.
    sources, u = torch.cat([rows[csc.indices], src.to(rows.dtype)]).unique(return_inverse=True)  # type: ignore[no-untyped-call]
    _, v = torch.cat([own_dst, dst.to(columns.dtype)]).unique(return_inverse=True)  # type: ignore[no-untyped-call]
    number = v * len(sources) + u
    keep = ~torch.isin(number[: len(own_dst)], number[len(own_dst) :])
    before = torch.cat([torch.zeros(1, dtype=torch.int64, device=keep.device), keep.cumsum(0)])
    left = gb.CSCFormatBase(indptr=before[indptr].to(csc.indptr.dtype), indices=csc.indices[keep])
    return left, ids[keep]
