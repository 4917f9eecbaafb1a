"""Schema: node types and edge types of a graph, the same whether it has one of each or many.

Everything above graphs that goes through types does so by a schema, so that a graph of one type is
a graph of types with one of each::

    Graph ─────────┐
                   ├──> Schema: node_types, edge_types, edges(kind), node_rows(...), edge_rows(...)
    HeteroGraph ───┘
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aethergraph.graph.hetero import HeteroGraph
from aethergraph.protocols import HomogeneousGraph

if TYPE_CHECKING:
    from aethergraph.graph.typed_edges import EdgeType
    from aethergraph.protocols import Adjacency, RowSource
    from aethergraph.storage.paging import Paging

__all__ = ["EDGE", "NODE", "AnyGraph", "Rows", "Schema"]

AnyGraph: TypeAlias = HomogeneousGraph | HeteroGraph
#: Rows by name.
Rows: TypeAlias = "Mapping[str, RowSource]"

#: Names of the types of a graph that has one of each: those that DGL gives them.
NODE: Final = "_N"
EDGE: Final = ("_N", "_E", "_N")


class Schema:
    """Types of a graph in the core's numbering, which is part of the random streams.

    Args:
        graph: a graph of one type, whose types are then called ``NODE`` and ``EDGE``, or of many.
        node_rows: rows by node type and name that stand before the graph's own of their name.
        edge_rows: likewise by edge type.
    """

    def __init__(
        self,
        graph: AnyGraph,
        node_rows: Mapping[str, Rows] | None = None,
        edge_rows: Mapping[EdgeType, Rows] | None = None,
    ) -> None:
        self.graph = graph
        self.node_types: list[str] = graph.node_types if graph.is_typed else [NODE]
        self.edge_types: list[EdgeType] = graph.edge_types if graph.is_typed else [EDGE]
        self._node_rows = node_rows or {}
        self._edge_rows = edge_rows or {}

    @property
    def is_typed(self) -> bool:
        """True if users name types, even if there is one of each."""
        return self.graph.is_typed

    @property
    def is_live(self) -> bool:
        """True if edges come and go: what is asked twice may have two answers."""
        return self.graph.is_live

    @property
    def paging(self) -> Paging | None:
        """Reader of lists that stay in a file; None: there is nothing to read ahead."""
        return self.graph.paging

    def num_nodes_of(self) -> dict[str, int]:
        """Return the number of nodes by type, in the order of the types."""
        graph = self.graph
        return graph.num_nodes if graph.is_typed else {NODE: graph.num_nodes}

    @property
    def counts(self) -> list[int]:
        """Numbers of nodes, in the order of the node types."""
        return list(self.num_nodes_of().values())

    def num_nodes(self, node_type: str) -> int:
        """Return the number of nodes of a type."""
        graph = self.graph
        return graph[node_type].num_nodes if graph.is_typed else graph.num_nodes

    def edges(self, kind: EdgeType) -> Adjacency:
        """Return the edges of a type."""
        return self.graph[kind] if self.graph.is_typed else self.graph

    def node_attrs(self, node_type: str) -> Rows:
        """Return the attributes of the nodes of a type, without the times of the graph itself."""
        graph = self.graph
        attrs = graph[node_type].attrs if graph.is_typed else graph.node_attrs
        return _over(attrs, self._node_rows.get(node_type))

    def edge_attrs(self, kind: EdgeType) -> Rows:
        """Return the attributes of the edges of a type, without weights and times of the graph."""
        return _over(self.edges(kind).edge_attrs, self._edge_rows.get(kind))

    def node_rows(self, node_type: str) -> dict[str, RowSource]:
        """Return the data of the nodes of a type by name: times, and what stands before them."""
        graph = self.graph
        values = graph[node_type].value_stores() if graph.is_typed else graph.value_stores("node")
        return {**values, **self.node_attrs(node_type)}

    def edge_rows(self, kind: EdgeType) -> dict[str, RowSource]:
        """Return the data of the edges of a type by name: weights, times, what stands before."""
        graph = self.graph
        values = graph[kind].value_stores() if graph.is_typed else graph.value_stores("edge")
        return {**values, **self.edge_attrs(kind)}

    def label(self, option: str, kind: Any) -> str:
        """Return the name of an argument that goes by type: ``seeds['user']``, or ``seeds``."""
        return f"{option}[{kind!r}]" if self.is_typed else option

    def option(self, option: str, value: str, kind: Any) -> str:
        """Return an argument with its value, and the type that it is at: ``time_attr = 't'``."""
        return f"{option} = {value!r}" + (f" of {kind!r}" if self.is_typed else "")


def _over(rows: Rows, first: Rows | None) -> Rows:
    return {**rows, **first} if first else rows
