"""A graph of one type as one of types with one of each, and rows by type and name.

Everything above graphs that goes through types does so by these, once for both kinds::

    HomogeneousGraph ── as_typed ──┐
                                   ├──> Schema: node_types, edge_types, edges, node_rows, edge_rows
    HeterogeneousGraph ────────────┘
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.adapters import as_row_source
from aethergraph.graph.typed_edges import unknown_type
from aethergraph.protocols import (
    AnyGraph,
    EdgeType,
    HeterogeneousGraph,
    HomogeneousGraph,
    RowSource,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from aethergraph._native import NativeSnapshot
    from aethergraph.protocols import Adjacency
    from aethergraph.storage.paging import Paging

__all__ = ["EDGE", "NODE", "Rows", "Schema", "as_typed"]

#: Rows by name.
Rows: TypeAlias = "Mapping[str, RowSource]"

#: Names of the types of a graph that has one of each: those that DGL gives them.
NODE: Final = "_N"
EDGE: Final = ("_N", "_E", "_N")


class _OneType(HeterogeneousGraph):
    """Graph of one type as a typed one, with these names of its types.

    Its nodes and its edges are the graph.
    """

    def __init__(self, graph: HomogeneousGraph, node_type: str, edge_type: EdgeType) -> None:
        self._graph = graph
        self._types = {node_type: graph, edge_type: graph}
        self._node_types, self._edge_types = [node_type], [edge_type]
        self.is_live = graph.is_live

    @property
    def node_types(self) -> list[str]:
        return self._node_types

    @property
    def edge_types(self) -> list[EdgeType]:
        return self._edge_types

    @property
    def time_zone(self) -> str | None:
        return self._graph.time_zone

    @property
    def time_attr(self) -> str | None:
        return self._graph.time_attr

    @property
    def path(self) -> str | None:
        return self._graph.path

    @property
    def paging(self) -> Paging | None:
        return self._graph.paging

    @property
    def renumbers_edges(self) -> bool:
        return self._graph.renumbers_edges

    @property
    def native_snapshot(self) -> NativeSnapshot | None:
        return self._graph.native_snapshot

    def pinned(self) -> _OneType:
        return _OneType(self._graph.pinned(), self._node_types[0], self._edge_types[0])

    def reading(self, snapshot: Any = None) -> AbstractContextManager[Any]:
        return self._graph.reading(snapshot)

    def __getitem__(self, name: Any) -> Any:
        graph = self._types.get(name)
        if graph is None:
            raise unknown_type("type", name, self._types)
        return graph


def as_typed(
    graph: AnyGraph, node_type: str = NODE, edge_type: EdgeType | None = None
) -> HeterogeneousGraph:
    """Return a graph as a typed one: itself, or one of one type under these names.

    Args:
        graph: the graph.
        node_type: name of the nodes of a graph of one type.
        edge_type: name of its edges; None: ``EDGE``, or ``(node_type, "to", node_type)``.
    """
    if graph.is_typed:
        return graph
    if edge_type is None:
        edge_type = EDGE if node_type == NODE else (node_type, "to", node_type)
    return _OneType(graph, node_type, edge_type)


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
        _check_types(graph)
        self.graph = graph
        #: The graph as a typed one.
        self.typed = as_typed(graph)
        self.node_types: list[str] = self.typed.node_types
        self.edge_types: list[EdgeType] = self.typed.edge_types
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
        return self.typed.num_nodes

    @property
    def counts(self) -> list[int]:
        """Numbers of nodes, in the order of the node types."""
        return list(self.num_nodes_of().values())

    def num_nodes(self, node_type: str) -> int:
        """Return the number of nodes of a type."""
        return self.typed[node_type].num_nodes

    def edges(self, kind: EdgeType) -> Adjacency:
        """Return the edges of a type."""
        return self.typed[kind]

    def node_attrs(self, node_type: str) -> Rows:
        """Return the attributes of the nodes of a type, without the times of the graph itself."""
        attrs = _as_rows(self.typed[node_type].node_attrs, self.label("node_attrs", node_type))
        return _over(attrs, self._node_rows.get(node_type))

    def edge_attrs(self, kind: EdgeType) -> Rows:
        """Return the attributes of the edges of a type, without weights and times of the graph."""
        attrs = _as_rows(self.typed[kind].edge_attrs, self.label("edge_attrs", kind))
        return _over(attrs, self._edge_rows.get(kind))

    def node_rows(self, node_type: str) -> dict[str, RowSource]:
        """Return the data of the nodes of a type by name: times, and what stands before them."""
        nodes = self.typed[node_type]
        values = nodes.node_values
        if not values and (times := nodes.node_time) is not None:  # of a graph that is not ours
            values = _as_rows({"node_time": times}, self.label("node_values", node_type))
        return {**values, **self.node_attrs(node_type)}

    def edge_rows(self, kind: EdgeType) -> dict[str, RowSource]:
        """Return the data of the edges of a type by name: weights, times, what stands before."""
        return {**self.typed[kind].edge_values, **self.edge_attrs(kind)}

    def label(self, option: str, kind: Any) -> str:
        """Return the name of an argument that goes by type: ``seeds['user']``, or ``seeds``."""
        return f"{option}[{kind!r}]" if self.is_typed else option

    def option(self, option: str, value: str, kind: Any) -> str:
        """Return an argument with its value, and the type that it is at: ``time_attr = 't'``."""
        return f"{option} = {value!r}" + (f" of {kind!r}" if self.is_typed else "")


def _over(rows: Rows, first: Rows | None) -> Rows:
    return {**rows, **first} if first else rows


def _as_rows(attrs: Mapping[str, Any], label: str) -> Rows:
    """Return attributes as rows to gather from; those of graphs of others may be arrays."""
    if all(isinstance(rows, RowSource) for rows in attrs.values()):
        return attrs
    return {name: as_row_source(rows, f"{label}[{name!r}]") for name, rows in attrs.items()}


def _check_types(graph: AnyGraph) -> None:
    """Raise unless the types of a graph fit together, and nothing changes that is said to stay.

    Raises:
        InvalidArgumentError: says what does not.
    """
    if not graph.is_typed:
        return
    node_types, edge_types = graph.node_types, graph.edge_types
    for kind in edge_types:
        if not isinstance(kind, tuple) or len(kind) != 3 or not {kind[0], kind[2]} <= {*node_types}:
            raise InvalidArgumentError(
                f"edge_types of {type(graph).__name__}: {shown(kind)} is no (source type, "
                f"relation, destination type) of {', '.join(map(repr, node_types)) or 'no types'}"
            )
    for option, types in (("node_types", node_types), ("edge_types", edge_types)):
        if len({*types}) < len(types):
            raise InvalidArgumentError(f"{option} of {type(graph).__name__}: {types} has one twice")
    if graph.is_live:
        return
    for kind in edge_types:
        if graph[kind].is_live:
            raise InvalidArgumentError(
                f"edges of {kind} change, and {type(graph).__name__}.is_live is False: take "
                "snapshots of live graphs, or define is_live, pinned() and reading()"
            )
