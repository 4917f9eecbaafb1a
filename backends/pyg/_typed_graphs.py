"""Typed graphs, built for samplers from edge indices that were put into a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from aethergraph._checks.arrays import check_length
from aethergraph.graph import HeteroGraph
from aethergraph.protocols import HeterogeneousGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph import EdgeType

__all__ = ["TypedSamplingGraph", "TypedSortKey", "build_typed"]

#: ``(row, col)`` by edge type; positions are the edge ids of the store.
Ends: TypeAlias = "Mapping[EdgeType, tuple[NDArray[Any], NDArray[Any]]]"


class TypedSamplingGraph(NamedTuple):
    """Typed graph to sample from, and the store's ids of its edges.

    ``edge_ids`` holds by edge type an unsigned vector [E] that maps the graph's edge ids to the
    store's; for types that are missing the two are equal.
    """

    graph: HeterogeneousGraph
    edge_ids: Mapping[EdgeType, NDArray[Any]]


class TypedSortKey(NamedTuple):
    """Times that lists have to be sorted by: by node type, or by edge type in store order."""

    name: str
    nodes: Mapping[str, NDArray[Any]]  # int64 or float64
    edges: Mapping[EdgeType, NDArray[Any]]

    def check_rows(self, num_nodes: Mapping[str, int], ends: Ends) -> None:
        """Check that there is one time for each node or edge of the types that have times."""
        for kind, times in self.edges.items():
            check_length(times, len(ends[kind][0]), f"{kind}: {self.name!r}", "num_edges")
        for name, times in self.nodes.items():
            check_length(times, num_nodes[name], f"{name!r}: {self.name!r}", "num_nodes")

    def sorts(self, graph: HeterogeneousGraph) -> bool:
        """Return whether ``graph`` was built with these very times."""
        for name in graph.node_types:
            if not _same(graph[name].node_time, self.nodes.get(name), None):
                return False
        return all(
            _same(graph[kind].edge_time, self.edges.get(kind), graph[kind].edge_order)
            for kind in graph.edge_types
        )


def _same(own: NDArray[Any] | None, times: NDArray[Any] | None, order: NDArray[Any] | None) -> bool:
    if own is None or times is None:
        return own is times
    if len(own) != len(times) or own.dtype != times.dtype:
        return False
    return np.array_equal(own, times if order is None else times[order])


def build_typed(
    ends: Ends,
    num_nodes: Mapping[str, int],
    sort_by: TypedSortKey | None,
    layout: Literal["csc", "both"] = "csc",
) -> HeteroGraph:
    """Build a graph that knows the position in ``ends`` of each of its edges."""
    if sort_by is None:
        return HeteroGraph.from_edges(ends, num_nodes, layout=layout, keep_order=True)
    sort_by.check_rows(num_nodes, ends)
    return HeteroGraph.from_edges(
        ends,
        num_nodes,
        node_time=sort_by.nodes,
        edge_time=sort_by.edges,
        layout=layout,
        keep_order=True,
    )
