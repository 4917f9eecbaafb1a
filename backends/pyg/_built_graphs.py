"""Graphs that samplers draw from, built from edge indices that were put into a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from aethergraph._checks.arrays import check_length
from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.graph.schema import EDGE, NODE, as_typed
from aethergraph.protocols import AnyGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph.hetero import EdgeType

__all__ = ["Ends", "SamplingGraph", "SortKey", "build_graph"]

#: ``(row, col)`` by edge type; positions are the edge ids of the store.
Ends: TypeAlias = "Mapping[EdgeType, tuple[NDArray[Any], NDArray[Any]]]"


class SamplingGraph(NamedTuple):
    """Graph to sample from, and the store's id of each of its edges.

    ``edge_ids`` holds by edge type an unsigned vector [E] that maps the graph's edge ids to the
    store's; for types that are missing the two are equal.
    """

    graph: AnyGraph
    edge_ids: Mapping[EdgeType, NDArray[Any]]


class SortKey(NamedTuple):
    """Times that lists have to be sorted by: by node type, or by edge type in store order."""

    name: str
    nodes: Mapping[str, NDArray[Any]]  # int64 or float64
    edges: Mapping[EdgeType, NDArray[Any]]

    def check_rows(self, num_nodes: Mapping[str, int], ends: Ends) -> None:
        """Check that there is one time for each node or edge of the types that have times."""
        for kind, times in self.edges.items():
            label = repr(self.name) if kind == EDGE else f"{kind}: {self.name!r}"
            check_length(times, len(ends[kind][0]), label, "num_edges")
        for name, times in self.nodes.items():
            label = repr(self.name) if name == NODE else f"{name!r}: {self.name!r}"
            check_length(times, num_nodes[name], label, "num_nodes")

    def sorts(self, graph: AnyGraph) -> bool:
        """Return whether ``graph`` was built with these very times."""
        typed = as_typed(graph)
        return all(
            _same(typed[name].node_time, self.nodes.get(name), None) for name in typed.node_types
        ) and all(
            _same(typed[kind].edge_time, self.edges.get(kind), typed[kind].edge_order)
            for kind in typed.edge_types
        )


def _same(
    built: NDArray[Any] | None, times: NDArray[Any] | None, order: NDArray[Any] | None
) -> bool:
    if built is None or times is None:
        return built is times
    if len(built) != len(times) or built.dtype != times.dtype:
        return False
    return np.array_equal(built, times if order is None else times[order])


def build_graph(
    ends: Ends,
    num_nodes: Mapping[str, int],
    sort_by: SortKey | None,
    layout: Literal["csc", "both"],
    *,
    keep_order: bool = True,
) -> AnyGraph:
    """Build a graph that knows the position in ``ends`` of each of its edges.

    Args:
        ends: the edges; those of a graph of one type are called ``EDGE``, its nodes ``NODE``.
        num_nodes: number of nodes by type.
        sort_by: times that the graph holds, and that its lists are sorted by.
        layout: lists that it stores.
        keep_order: False: positions are in the graph's order already.

    Raises:
        InvalidArgumentError: not one time for each node or edge of a type.
    """
    if sort_by is not None:
        sort_by.check_rows(num_nodes, ends)
    nodes, edges = ({}, {}) if sort_by is None else (sort_by.nodes, sort_by.edges)
    if EDGE not in ends:
        return HeteroGraph.from_edges(
            ends, num_nodes, node_time=nodes, edge_time=edges, layout=layout, keep_order=True
        )
    return Graph.from_edges(
        num_nodes[NODE], *ends[EDGE], node_time=nodes.get(NODE), edge_time=edges.get(EDGE),
        layout=layout, keep_order=keep_order,
    )  # fmt: skip
