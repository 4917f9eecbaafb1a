"""What else code asks a ``FusedCSCSamplingGraph``: totals, and where to find the rest of it.

Source followed: ``impl/fused_csc_sampling_graph.py`` of ``dgl/graphbolt``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aethergraph.dgl._schema import Schema

__all__ = ["FusedNames"]

_LISTS = (
    "the lists are those of the graph below, .graph.csc() (of .graph[edge_type] if typed); "
    "to_fused_csc(graph) has it, in memory"
)
_DATA = "data is the graph's below, and FeatureStore(.graph) reads it by edge ids"

#: What a graph in memory has, and what to take instead.
_HINTS = {
    "csc_indptr": _LISTS,
    "indices": _LISTS,
    "node_type_offset": _LISTS,
    "type_per_edge": _LISTS,
    "node_attributes": f".graph.node_attrs: {_DATA}",
    "edge_attributes": f".graph.edge_attrs: {_DATA}",
    "pin_memory_": "sampling is on the CPU: leave it out",
}


class FusedNames:
    """The part of a :class:`SamplingGraph` that GraphBolt's samplers do not call."""

    _schema: Schema

    @property
    def total_num_nodes(self) -> int:
        """Nodes of all types."""
        return sum(self._schema.num_nodes(name) for name in self._schema.ntypes)

    @property
    def total_num_edges(self) -> int:
        """Edges of all types."""
        return sum(self._schema.num_edges(kind) for kind in self._schema.canonical_etypes)

    def __getattr__(self, name: str) -> Any:
        hint = _HINTS.get(name, "to_fused_csc(graph) makes a graph of GraphBolt's, in memory")
        raise AttributeError(f"SamplingGraph has no {name!r}: {hint}")
