"""Typed graphs over lists that are not ours: arrays or a topology in C for each edge type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_items, shown
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.edge_input import read_node_time
from aethergraph.graph.foreign_lists import (
    adopt_lists,
    fill_edges,
    read_attributes,
    read_lists,
    unit_of_source,
)
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.graph.lists import Lists
from aethergraph.graph.parts import EdgeParts, NodeParts
from aethergraph.protocols import EdgeType, RowSource, TypedGraphSource

__all__ = ["ForeignHeteroGraph"]

K = TypeVar("K")
Rows = Mapping[str, RowSource]
#: The source's own rows, by type of nodes and of edges.
_Own: TypeAlias = "tuple[dict[str, dict[str, RowSource]], dict[EdgeType, dict[str, RowSource]]]"


class ForeignHeteroGraph(HeteroGraph):
    """Typed graph over lists that are not ours; made by :func:`aethergraph.as_graph`.

    It answers what ``HeteroGraph`` answers, and pickles by its source. It is not saved, nor its
    nodes put into another order, since its weights and times are where its lists are.
    """

    _source: TypedGraphSource | None

    def __init__(self, source: TypedGraphSource, layout: str) -> None:
        if not hasattr(source, "edges"):
            raise InvalidArgumentError(
                f"{type(source).__name__} has no edges: a typed graph has num_nodes by node type "
                "and edges by edge type (aethergraph.protocols.TypedGraphSource)"
            )
        self._nodes = nodes = _read_nodes(source)
        self._edges = edges = _read_edges(source, layout, nodes)
        _check_unit(nodes, edges)
        self._source, self._layout = source, layout
        self._own: _Own = (
            {name: dict(part.node_attrs) for name, part in nodes.items()},
            {kind: dict(part.edge_attrs) for kind, part in edges.items()},
        )
        self._reader, self._closed = None, False
        self._path, self._storage = None, type(source).__name__
        self._time_zone = getattr(source, "time_zone", None)
        self._time_attr = getattr(source, "time_attr", None)

    def close(self) -> None:
        """Drop the graph's references; using the graph afterwards raises ClosedError."""
        super().close()
        self._source, self._own = None, ({}, {})

    def __enter__(self) -> ForeignHeteroGraph:
        self._check_open()
        return self

    @property
    def renumbers_edges(self) -> bool:
        """True if the source says that edge ids are places in lists that were sorted."""
        return bool(getattr(self.source, "renumbers_edges", False))

    @property
    def source(self) -> Any:
        """Object that the graph was made of."""
        self._check_open()
        return self._source

    @property
    def lsn(self) -> int:
        """Number of the commit of a live graph that a server holds; 0: of none, or none yet."""
        return int(getattr(self.source, "lsn", 0))

    def _with_parts(
        self, nodes: dict[str, NodeParts], edges: dict[EdgeType, EdgeParts]
    ) -> HeteroGraph:
        graph = self.__class__.__new__(self.__class__)
        graph.__dict__.update(self.__dict__)
        graph._nodes, graph._edges = nodes, edges
        return graph

    def save(self, path: native.Path, **options: Any) -> None:
        """Raise UnsupportedError: save the graph where its lists are."""
        raise self._elsewhere("saved")

    def permute(self, perms: Any, **options: Any) -> ForeignHeteroGraph:
        """Raise UnsupportedError: order the nodes where the lists are."""
        raise self._elsewhere("put into another order")

    def _elsewhere(self, done: str) -> UnsupportedError:
        return UnsupportedError(
            f"a graph whose lists are elsewhere ({self._storage}) is not {done}, as its weights "
            "and times are there, too: do it with the graph's own file"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_open()
        nodes = {name: part.node_attrs for name, part in self._nodes.items()}
        edges = {kind: part.edge_attrs for kind, part in self._edges.items()}
        own_nodes, own_edges = self._own
        changed = _changed(nodes, own_nodes), _changed(edges, own_edges)
        return _rebuild, (self._source, self._layout, *changed)


def _read_nodes(source: TypedGraphSource) -> dict[str, NodeParts]:
    """Read the nodes of all types: their numbers, times and attributes."""
    counts = as_items(source.num_nodes, "num_nodes", "counts")
    nodes = {t: NodeParts(as_count(count, f"num_nodes[{t!r}]")) for t, count in counts}
    unit = unit_of_source(source)
    for node_type, rows in getattr(source, "node_values", {}).items():
        if rows:  # of lists elsewhere
            part = nodes[node_type]
            part.times_elsewhere, part.time_unit = rows["node_time"], unit
    for option in ("node_time", "node_attrs"):
        by_type = getattr(source, option, None)
        for node_type, values in () if by_type is None else as_items(by_type, option, "values"):
            if node_type not in nodes:
                raise InvalidArgumentError(
                    f"{option}: {shown(node_type)} is no node type; there are: "
                    f"{', '.join(map(repr, nodes)) or 'none'}"
                )
            part, label = nodes[node_type], f"{option}[{node_type!r}]"
            if option == "node_attrs":
                read_attributes(values, part.node_attrs, label, of_type=True)
            else:
                read_node_time(part, values, label)
                part.time_unit = part.time_unit or unit
    return nodes


def _read_edges(
    source: TypedGraphSource, layout: str, nodes: Mapping[str, NodeParts]
) -> dict[EdgeType, EdgeParts]:
    """Read the edges of all types: their lists, values and attributes."""
    name, unit = type(source).__name__, unit_of_source(source)
    edges: dict[EdgeType, EdgeParts] = {}
    for kind, of_kind in as_items(source.edges, "edges", "lists"):
        if not (isinstance(kind, tuple) and len(kind) == 3 and {kind[0], kind[2]} <= {*nodes}):
            raise InvalidArgumentError(
                f"edges of {name}: {shown(kind)} is no edge type, (source type, relation, "
                f"destination type), of {', '.join(map(repr, nodes)) or 'no types'}"
            )
        num_src, num_dst = nodes[kind[0]].num_nodes, nodes[kind[2]].num_nodes
        ends = (num_dst, num_src) if layout == "csc" else (num_src, num_dst)
        lists = _lists_of(source, kind, of_kind, *ends)
        edges[kind] = EdgeParts(num_src, num_dst, lists.topology.num_edges)
        fill_edges(edges[kind], lists, layout, of_kind, unit, f"edges[{kind!r}].")
    return edges


def _lists_of(
    source: TypedGraphSource, kind: EdgeType, of_kind: Any, num_major: int, num_minor: int
) -> Lists:
    """Return the lists of one edge type, in arrays or in C.

    Raises:
        InvalidArgumentError: a member is missing or wrong, or the lists are of other numbers of
            nodes.
    """
    label = f"edges[{kind!r}]"
    if not hasattr(of_kind, "topology"):
        missing = [name for name in ("indptr", "indices") if not hasattr(of_kind, name)]
        if missing:
            raise InvalidArgumentError(
                f"{label} is a {type(of_kind).__name__}, which has no {' and no '.join(missing)}: "
                "it needs these arrays, or topology, an address"
            )
        return read_lists(of_kind, num_major, num_minor, f"{label}.")
    lists = adopt_lists(of_kind, owner=(source, of_kind))
    topology = lists.topology
    if (topology.num_major, topology.num_minor) != (num_major, num_minor):
        raise InvalidArgumentError(
            f"{label}.topology of {type(source).__name__} has num_major = {topology.num_major} and "
            f"num_minor = {topology.num_minor}, but its types have {num_major} and {num_minor} "
            "nodes"
        )
    return lists


def _check_unit(nodes: Mapping[str, NodeParts], edges: Mapping[EdgeType, EdgeParts]) -> None:
    """Raise unless all times are in one unit, since a seed's time is compared with all."""
    units = {t: part.time_unit for t, part in nodes.items() if part.node_time is not None}
    of_edges = {k: part.time_unit for k, part in edges.items() if part.edge_time is not None}
    named: dict[Any, str | None] = {**units, **of_edges}
    first = next(iter(named.items()), None)
    for kind, unit in named.items():
        if first is not None and unit != first[1]:
            raise InvalidArgumentError(
                f"times of {kind!r} are in {shown(unit)}, those of {first[0]!r} in "
                f"{shown(first[1])}: give all in one unit"
            )


def _changed(
    now: Mapping[K, Rows], source_rows: Mapping[K, Rows]
) -> dict[K, dict[str, RowSource | None]]:
    """Return rows by type and name, None in the place of the source's own."""
    return {
        kind: {
            name: None if source_rows[kind].get(name) is rows else rows
            for name, rows in table.items()
        }
        for kind, table in now.items()
    }


def _rebuild(
    source: Any,
    layout: str,
    node_attrs: dict[str, dict[str, Any]],
    edge_attrs: dict[EdgeType, dict[str, Any]],
) -> ForeignHeteroGraph:
    """Return the graph of ``source`` with these attributes; None stands for the source's own."""
    graph = ForeignHeteroGraph(source, layout)
    for name, rows in node_attrs.items():
        nodes = graph.node_parts(name)
        nodes.set_node_attrs({k: nodes.node_attrs[k] if v is None else v for k, v in rows.items()})
    for kind, rows in edge_attrs.items():
        part = graph.edge_parts(kind)
        part.set_edge_attrs({k: part.edge_attrs[k] if v is None else v for k, v in rows.items()})
    return graph
