"""Further attributes of ``FusedCSCSamplingGraph``: totals, and pointers to the others.

Source followed: ``impl/fused_csc_sampling_graph.py`` of ``dgl/graphbolt``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from aethergraph.dgl.graphbolt._forms import is_typed
from aethergraph.errors import MissingNameError

if TYPE_CHECKING:
    from aethergraph.dgl._schema import Schema

__all__ = ["FusedNames"]

_LISTS = (
    "the lists are those of the graph below, .graph.csc() (of .graph[edge_type] if typed); "
    "to_fused_csc(graph) has it, in memory"
)
_DATA = "data is the graph's below, and FeatureStore(.graph) reads it by edge ids"

#: Attributes that a graph in memory has, and what to use instead.
_HINTS = {
    "csc_indptr": _LISTS,
    "indices": _LISTS,
    "type_per_edge": _LISTS,
}


class _Elsewhere(Mapping[str, Tensor]):
    """Empty data that tells where the data is: later GraphBolt looks whether there is some."""

    def __init__(self, hint: str) -> None:
        self._hint = hint

    def __getitem__(self, name: str) -> Tensor:
        raise MissingNameError(f"{name!r} is not here, but in {self._hint}")

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"<nothing: see {self._hint}>"


class FusedNames:
    """Part of a :class:`SamplingGraph` that GraphBolt's samplers do not call."""

    _schema: Schema

    @property
    def total_num_nodes(self) -> int:
        """Number of nodes of all types."""
        return sum(self._schema.num_nodes(name) for name in self._schema.ntypes)

    @property
    def total_num_edges(self) -> int:
        """Number of edges of all types."""
        return sum(self._schema.num_edges(kind) for kind in self._schema.canonical_etypes)

    @property
    def node_type_offset(self) -> Tensor | None:
        """First id of each node type [num_types + 1], counting nodes through all types.

        Types are in the order of ``node_type_to_id``; None for a graph of one type.
        """
        if not is_typed(self._schema):
            return None
        counts = [self._schema.num_nodes(name) for name in self._schema.ntypes]
        return torch.tensor([0, *itertools.accumulate(counts)])

    @property
    def node_attributes(self) -> Mapping[str, Tensor]:
        """Empty: node data is in the graph below."""
        return _Elsewhere(f".graph.node_attrs: {_DATA}")

    @property
    def edge_attributes(self) -> Mapping[str, Tensor]:
        """Empty: edge data is in the graph below."""
        return _Elsewhere(f".graph.edge_attrs: {_DATA}")

    def __getattr__(self, name: str) -> Any:
        hint = _HINTS.get(name, "to_fused_csc(graph) makes a graph of GraphBolt's, in memory")
        raise AttributeError(f"SamplingGraph has no {name!r}: {hint}")
