"""Graphs as tables of rows, which servers have and samplers ask for hop by hop.

::

    table               rows                                   of
    graph/csc/lists     uint64 [num_nodes, 2]: place, degree   the list of each node
    graph/csc/ids       int64 [num_edges]                      the node at each place
    graph/csr/edges     int64 [num_edges]                      the edge at each place; csc: itself
    graph/edge_weight   float [num_edges]                      edges; edge_time alike
    graph/node_time     int64 or float64 [num_nodes]           nodes
    graph/types         uint8 [n]: JSON                        GraphTypes

Of a typed graph a table has the rows of all types, one type after the other, so a client needs as
few connections as for one type. Places, nodes and edges count from 0 in every type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.errors import FormatError
from aethergraph.graph.hetero import EdgeType
from aethergraph.graph.schema import as_typed
from aethergraph.protocols import (
    AnyGraph,
    HeterogeneousGraph,
    RowSource,
)

__all__ = ["PREFIX", "GraphTypes", "IdTable", "graph_tables"]

PREFIX = "graph/"
#: Numbers of some ids.
Get: TypeAlias = "Callable[[NDArray[np.int64]], NDArray[Any]]"


class GraphTypes(NamedTuple):
    """Types of a graph, in its order, and what there is of each.

    Attributes:
        nodes: number of nodes by type.
        edges: number of edges by type.
        node_attrs: table by attribute, by node type.
        edge_attrs: table by attribute, by edge type.
        weighted: edge types with weights.
        timed: edge types with times.
        timed_nodes: node types with times.
        time_unit, time_zone, time_attr: as of :class:`aethergraph.HeteroGraph`.
    """

    nodes: dict[str, int]
    edges: dict[EdgeType, int]
    node_attrs: dict[str, dict[str, str]]
    edge_attrs: dict[EdgeType, dict[str, str]]
    weighted: list[EdgeType]
    timed: list[EdgeType]
    timed_nodes: list[str]
    time_unit: str | None
    time_zone: str | None
    time_attr: str | None

    @classmethod
    def of(cls, graph: HeterogeneousGraph) -> GraphTypes:
        """Return the types of a graph."""
        nodes, edges = graph.node_types, graph.edge_types
        is_one = (len(nodes), len(edges)) == (1, 1)
        values = {kind: graph[kind].edge_values for kind in edges}
        return cls(
            graph.num_nodes,
            graph.num_edges,
            {
                name: {
                    attr: attr if is_one else f"{name}/{attr}" for attr in graph[name].node_attrs
                }
                for name in nodes
            },
            {
                kind: {
                    attr: f"{'edges' if is_one else '-'.join(kind)}/{attr}"
                    for attr in graph[kind].edge_attrs
                }
                for kind in edges
            },
            [kind for kind in edges if "edge_weight" in values[kind]],
            [kind for kind in edges if "edge_time" in values[kind]],
            [name for name in nodes if graph[name].node_time is not None],
            graph.time_unit,
            graph.time_zone,
            graph.time_attr,
        )

    @property
    def is_one(self) -> bool:
        """True if there is one type of nodes and one of edges."""
        return (len(self.nodes), len(self.edges)) == (1, 1)

    def pack(self) -> NDArray[np.uint8]:
        """Return the table of it."""
        facts = {
            name: list(value.items()) if isinstance(value, dict) else value
            for name, value in self._asdict().items()
        }
        return np.frombuffer(json.dumps(facts).encode(), np.uint8)

    @classmethod
    def unpack(cls, table: NDArray[np.uint8], label: str) -> GraphTypes:
        """Return the types that a table tells of.

        Raises:
            FormatError: it tells of none; names ``label``.
        """
        try:
            facts = json.loads(table.tobytes())
            edges = {_edge_type(kind): int(count) for kind, count in facts["edges"]}
            types = cls(
                {str(name): int(count) for name, count in facts["nodes"]},
                edges,
                {str(name): dict(attrs) for name, attrs in facts["node_attrs"]},
                {_edge_type(kind): dict(attrs) for kind, attrs in facts["edge_attrs"]},
                [_edge_type(kind) for kind in facts["weighted"]],
                [_edge_type(kind) for kind in facts["timed"]],
                [str(name) for name in facts["timed_nodes"]],
                facts["time_unit"],
                facts["time_zone"],
                facts["time_attr"],
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise FormatError(f"{label}: types of a graph that cannot be read") from None
        ends = {name for kind in edges for name in (kind[0], kind[2])}
        known = set(types.weighted) | set(types.timed) | set(types.edge_attrs)
        nodes = ends | set(types.timed_nodes) | set(types.node_attrs)
        counts = (*types.nodes.values(), *edges.values())
        if not known <= set(edges) or not nodes <= set(types.nodes) or min(counts, default=0) < 0:
            raise FormatError(f"{label}: types of a graph that contradict each other")
        return types


def _edge_type(kind: Sequence[Any]) -> EdgeType:
    source, relation, target = map(str, kind)
    return source, relation, target


class IdTable(RowSource):
    """Numbers of a graph by id, as a function gives them."""

    def __init__(
        self, shape: tuple[int, ...], dtype_name: str, fingerprint: str | None, get: Get
    ) -> None:
        self._shape, self._dtype_name, self._fingerprint = shape, dtype_name, fingerprint
        self._get = get

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows: ``(num_rows, ...)``."""
        return self._shape

    @property
    def dtype_name(self) -> str:
        """Name of the dtype."""
        return self._dtype_name

    @property
    def fingerprint(self) -> str | None:
        """Identity of the content; None: there is none."""
        return self._fingerprint

    @property
    def content(self) -> str | None:
        """Identity of the content on every machine: that of the graph's file."""
        return self._fingerprint

    def gather_into(self, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Set ``out[i]`` to row ``ids[i]``."""
        out[...] = self._get(ids)


class _Part(NamedTuple):
    """Rows of a table that are of one type."""

    size: int
    get: Get


def graph_tables(graph: AnyGraph, fingerprint: str | None = None) -> dict[str, RowSource]:
    """Return the lists, weights and times of a graph as tables by name.

    Args:
        graph: the graph, with any ``storage``.
        fingerprint: identity of its file; clients of a server that is started again with the same
            file go on. None: they open the graph anew.
    """
    tables: dict[str, RowSource] = {}

    def add(name: str, parts: list[_Part], width: tuple[int, ...], dtype: str) -> None:
        table_fingerprint = None if fingerprint is None else f"{fingerprint}/{name}"
        shape = (sum(part.size for part in parts), *width)
        tables[PREFIX + name] = IdTable(
            shape, dtype, table_fingerprint, _joined(parts, width, dtype)
        )

    def add_values(name: str, stores: list[RowSource]) -> None:
        """Add the values of all types that have them, if there is one dtype for them."""
        dtypes = {rows.dtype_name for rows in stores}
        dtype = dtypes.pop() if len(dtypes) == 1 else "float64"
        if stores and (not dtypes or name == "edge_weight"):  # times are not converted
            add(name, [_Part(rows.num_rows, rows.gather) for rows in stores], (), dtype)

    typed = as_typed(graph)
    relations = [typed[kind] for kind in typed.edge_types]
    of_nodes = [typed[name].node_values for name in typed.node_types]
    of_edges = [edges.edge_values for edges in relations]
    if graph.is_typed:
        tables[f"{PREFIX}types"] = _told(GraphTypes.of(graph), fingerprint)
    layouts: tuple[Literal["csc", "csr"], ...] = ("csc", "csr")
    for layout in layouts:
        if any(relation.layout not in (layout, "both") for relation in relations):
            continue
        lists = [relation.topology(layout) for relation in relations]
        add(f"{layout}/lists", [_Part(t.num_major, _lists_of(t)) for t in lists], (2,), "uint64")
        add(f"{layout}/ids", [_Part(t.num_edges, t.ids_at) for t in lists], (), "int64")
        if not all(t.edge_ids_are_positions for t in lists):
            edges = [_Part(t.num_edges, t.edge_ids_at) for t in lists]
            add(f"{layout}/edges", edges, (), "int64")
    add_values("node_time", [values["node_time"] for values in of_nodes if "node_time" in values])
    for name in ("edge_weight", "edge_time"):
        add_values(name, [values[name] for values in of_edges if name in values])
    return tables


def _told(types: GraphTypes, fingerprint: str | None) -> RowSource:
    """Return the table of the types."""
    table = types.pack()
    table_fingerprint = None if fingerprint is None else f"{fingerprint}/types"
    return IdTable(table.shape, "uint8", table_fingerprint, lambda ids: table[ids])


def _joined(parts: list[_Part], width: tuple[int, ...], dtype: str) -> Get:
    """Return what gives the rows of all types, one type after the other."""
    if len(parts) == 1:
        return parts[0].get
    ends = np.cumsum([part.size for part in parts])
    begins = [0, *ends.tolist()]

    def get(ids: NDArray[np.int64]) -> NDArray[Any]:
        types = np.searchsorted(ends, ids, "right")
        if len(types) and (types == types[0]).all():  # as a hop asks
            first = int(types[0])
            return parts[first].get(ids - begins[first]).astype(dtype, copy=False)
        rows = np.empty((len(ids), *width), dtype)
        for number in np.unique(types).tolist():
            mask = types == number
            rows[mask] = parts[number].get(ids[mask] - begins[number])
        return rows

    return get


def _lists_of(topology: native.NativeTopology) -> Get:
    """Return what gives place and degree of the lists of nodes."""
    offsets, guard = topology.indptr, topology.guard
    assert offsets is not None

    def get(nodes: NDArray[np.int64]) -> NDArray[np.uint64]:
        rows = np.empty((len(nodes), 2), np.uint64)
        with native.reading(guard):
            rows[:, 0] = offsets[nodes]
            rows[:, 1] = offsets[nodes + 1]
        rows[:, 1] -= rows[:, 0]
        return rows

    return get
