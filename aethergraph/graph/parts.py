"""Stored parts of a graph. ``Graph`` wraps them; ``edge_input.py`` makes them of an edge list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import read_only
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.sources import all_rows
from aethergraph.graph.attributes import AttributeTable
from aethergraph.graph.lists import Lists
from aethergraph.protocols import RowSource
from aethergraph.storage.paging import Paging
from aethergraph.storage.value_columns import ValueColumn

__all__ = ["BY_EDGE_TIME", "BY_SOURCE_TIME", "EdgeParts", "GraphParts", "NodeParts"]


@dataclass
class NodeParts:
    """All data of the nodes of one type. Optional parts are None."""

    num_nodes: int
    node_time: NDArray[Any] | None = field(default=None, kw_only=True)
    #: Unit of ``node_time`` (of an edge type: of ``edge_time``); None if times are plain numbers.
    time_unit: str | None = field(default=None, kw_only=True)
    node_attrs: AttributeTable = field(init=False)
    #: Times that are no array here, but rows by node.
    times_elsewhere: RowSource | None = field(init=False, default=None)
    _node_columns: dict[str, ValueColumn] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.node_attrs = AttributeTable("node", self.num_nodes)

    def set_node_attrs(self, stores: Mapping[str, RowSource]) -> None:
        """Replace all attributes. Parts that share the previous table keep it unchanged."""
        self.node_attrs = self.node_attrs.replaced(stores)

    def pack_nodes(self) -> tuple[Any, ...]:
        """Return everything but the attributes, for a pickle."""
        return self.node_time, self.time_unit

    def unpack_nodes(self, state: tuple[Any, ...]) -> None:
        """Restore the state that :meth:`pack_nodes` returned."""
        times, self.time_unit = state
        self.node_time = None if times is None else read_only(times)

    def read_times(self) -> NDArray[Any] | None:
        """Return the times as an array, if there are any; those that are elsewhere are read."""
        rows = self.times_elsewhere
        return self.node_time if rows is None else read_only(all_rows(rows))

    def node_values(
        self, guard: native.FileGuard | None, paging: Paging | None
    ) -> Mapping[str, RowSource]:
        """Return ``node_time``, if there is one, as a store to gather from."""
        if self.times_elsewhere is not None:
            return MappingProxyType({"node_time": self.times_elsewhere})
        named = {"node_time": self.node_time}
        return MappingProxyType(_value_stores(named, self._node_columns, guard, paging))


#: ``sorted_by`` of lists of edges in the order of their own times.
BY_EDGE_TIME = frozenset({("csc", "edge_time"), ("csr", "edge_time")})
#: ``sorted_by`` of lists of edges in the order of the times of their sources, which are no order
#: among the edges of one source.
BY_SOURCE_TIME = frozenset({("csc", "node_time")})


@dataclass
class EdgeParts:
    """All data of the edges of one type. Optional parts are None."""

    num_src: int
    num_dst: int
    num_edges: int
    csc: Lists | None = None
    csr: Lists | None = None
    edge_order: NDArray[Any] | None = None
    edge_weight: NDArray[Any] | None = None
    edge_time: NDArray[Any] | None = None
    time_unit: str | None = None
    edge_attrs: AttributeTable = field(init=False)
    #: Lists that are known to be sorted, and by what: ``("csc", "node_time")``. The times of nodes
    #: are those of the neighbours in the lists.
    sorted_by: set[tuple[str, str]] = field(init=False, default_factory=set)
    #: Way to lists of the other layout, where it is not to build the graph with them.
    other_lists: str | None = field(init=False, default=None)
    #: Weights and times that are no arrays here, but rows by edge id, by name.
    elsewhere: dict[str, RowSource] = field(init=False, default_factory=dict)
    _edge_columns: dict[str, ValueColumn] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.edge_attrs = AttributeTable("edge", self.num_edges)

    def set_edge_attrs(self, stores: Mapping[str, RowSource]) -> None:
        """Replace all attributes. Parts that share the previous table keep it unchanged."""
        self.edge_attrs = self.edge_attrs.replaced(stores)

    def pack_edges(self) -> tuple[Any, ...]:
        """Return everything but the attributes, for a pickle."""
        lists = tuple(None if part is None else part.raw for part in (self.csc, self.csr))
        values = self.edge_order, self.edge_weight, self.edge_time
        return *lists, *values, self.sorted_by, self.time_unit

    def unpack_edges(self, state: tuple[Any, ...]) -> None:
        """Restore the state that :meth:`pack_edges` returned."""
        csc, csr, *values, self.sorted_by, self.time_unit = state
        self.csc = None if csc is None else Lists(csc, self.num_src, None)
        self.csr = None if csr is None else Lists(csr, self.num_dst, None)
        self.edge_order, self.edge_weight, self.edge_time = (
            None if v is None else read_only(v) for v in values
        )

    @property
    def layout(self) -> Literal["csc", "csr", "both"]:
        """Stored directions: ``"csc"``, ``"csr"`` or ``"both"``."""
        if self.csc is None:
            return "csr"
        return "csc" if self.csr is None else "both"

    @property
    def any_lists(self) -> Lists:
        """Lists that edges are looked up in: CSC if stored, else CSR."""
        lists = self.csc or self.csr
        assert lists is not None
        return lists

    @property
    def adjacency_bytes(self) -> int:
        """Bytes of all lists, in their stored form."""
        arrays = [a for part in (self.csc, self.csr) if part is not None for a in part.raw]
        return sum(a.nbytes for a in arrays if a is not None)

    def edge_values(
        self, guard: native.FileGuard | None, paging: Paging | None
    ) -> Mapping[str, RowSource]:
        """Return ``edge_weight`` and ``edge_time``, if there are any, as stores to gather from."""
        named = {"edge_weight": self.edge_weight, "edge_time": self.edge_time}
        lists = self.any_lists.topology
        stores = _value_stores(named, self._edge_columns, guard, paging, lists)
        return MappingProxyType({**self.elsewhere, **stores})


class GraphParts(NodeParts, EdgeParts):
    """All data of a graph with one node type and one edge type."""

    def __init__(self, num_nodes: int, num_edges: int) -> None:
        NodeParts.__init__(self, num_nodes)
        EdgeParts.__init__(self, num_nodes, num_nodes, num_edges)
        NodeParts.__post_init__(self)
        EdgeParts.__post_init__(self)


def _value_stores(
    named: dict[str, NDArray[Any] | None],
    columns: dict[str, ValueColumn],
    guard: native.FileGuard | None,
    paging: Paging | None,
    edges_of: native.NativeTopology | None = None,
) -> dict[str, RowSource]:
    """Wrap mapped arrays as stores; ``paging``, if given, reads the gathered rows."""
    stores: dict[str, RowSource] = {}
    for name, array in named.items():
        if array is not None:
            column = None if paging is None else paging.column_of(array, edges_of=edges_of)
            if column is not None:
                columns[name] = column  # the graph keeps the column, and the rows loaded in it
            stores[name] = FeatureTable.from_mapped(array, guard, column)
    return stores
