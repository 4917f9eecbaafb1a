"""Typed graphs over lists that are not ours: a topology for each edge type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, read_only
from aethergraph._checks.options import as_items, shown
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.attributes import AttributeTable
from aethergraph.graph.edge_input import read_node_time
from aethergraph.graph.foreign_lists import read_attributes, read_edge_values, read_lists
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.graph.lists import Lists
from aethergraph.graph.parts import EdgeParts, NodeParts
from aethergraph.graph.typed_edges import EdgeType
from aethergraph.protocols import RowSource, TypedGraphSource

__all__ = ["ForeignHeteroGraph", "TypedTopologySource", "typed_graph"]

K = TypeVar("K")
Rows = Mapping[str, RowSource]
#: The source's own rows, by type of nodes and of edges.
_Own: TypeAlias = "tuple[dict[str, dict[str, RowSource]], dict[EdgeType, dict[str, RowSource]]]"


class TypedTopologySource(Protocol):
    """Typed graph in topologies of one's own, in C."""

    @property
    def layout(self) -> str:
        """``"csc"``: the lists have the nodes that in-edges come from; or ``"csr"``."""

    @property
    def other_lists(self) -> str | None:
        """Advice on lists of the other layout, for error messages; None: build them."""

    @property
    def num_nodes(self) -> Mapping[str, int]:
        """Number of nodes by type."""

    @property
    def topologies(self) -> Mapping[EdgeType, Any]:
        """Address of an ``aether_topology`` by edge type; they live as long as this."""

    @property
    def node_time(self) -> Mapping[str, Any]:
        """Times, int64 or float64 vectors, of the node types that have them."""

    @property
    def time_unit(self) -> str | None:
        """Unit of the times of nodes, and of those in topologies; None: plain numbers."""

    @property
    def time_zone(self) -> str | None:
        """Time zone of all times, as of :class:`aethergraph.HeteroGraph`."""

    @property
    def time_attr(self) -> str | None:
        """Name of the times that samples go by, as of ``HeteroGraph``."""

    @property
    def edge_values(self) -> Mapping[EdgeType, Rows]:
        """Rows of ``edge_weight`` and ``edge_time`` by edge id, of the edge types that have them.

        The topologies draw by the same values, if they have any.
        """

    @property
    def node_attrs(self) -> Mapping[str, Rows]:
        """Rows by node type and name."""

    @property
    def edge_attrs(self) -> Mapping[EdgeType, Rows]:
        """Rows by edge type and name."""


class ForeignHeteroGraph(HeteroGraph):
    """Typed graph over lists that are not ours.

    It answers what ``HeteroGraph`` answers, and pickles by its source. It is not saved, nor its
    nodes put into another order, since its weights and times are where its lists are.
    """

    _source: TypedTopologySource | _Sources | None

    def __init__(self, source: TypedTopologySource | _Sources) -> None:
        read = source.parts() if isinstance(source, _Sources) else _adopted_parts(source)
        self._nodes, self._edges = nodes, edges = read
        self._source = source
        self._own: _Own = (
            {name: dict(part.node_attrs) for name, part in nodes.items()},
            {kind: dict(part.edge_attrs) for kind, part in edges.items()},
        )
        self._reader, self._closed = None, False
        self._path, self._storage = None, type(self.source).__name__
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
        return self._source.given if isinstance(self._source, _Sources) else self._source

    @property
    def lsn(self) -> int:
        """Number of the commit of a live graph that a server holds; 0: of none, or none yet."""
        return int(getattr(self.source, "lsn", 0))

    def _with_parts(
        self, nodes: dict[str, NodeParts], edges: dict[EdgeType, EdgeParts]
    ) -> HeteroGraph:
        made = self.__class__.__new__(self.__class__)
        made.__dict__.update(self.__dict__)
        made._nodes, made._edges = nodes, edges
        return made

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
        source = self._source
        nodes = {name: part.node_attrs for name, part in self._nodes.items()}
        edges = {kind: part.edge_attrs for kind, part in self._edges.items()}
        own_nodes, own_edges = self._own
        return _rebuild, (source, _changed(nodes, own_nodes), _changed(edges, own_edges))


class _Sources:
    """Edge types of a :class:`TypedGraphSource`, each read as a topology of its own.

    It is what a :class:`ForeignHeteroGraph` is made of, and keeps the object that it reads.
    """

    def __init__(self, given: TypedGraphSource, layout: str) -> None:
        self.given, self.layout = given, layout

    def parts(self) -> tuple[dict[str, NodeParts], dict[EdgeType, EdgeParts]]:
        """Read nodes and edges by type."""
        nodes = self._nodes()
        edges: dict[EdgeType, EdgeParts] = {}
        for kind, of_kind in as_items(self.given.edges, "edges", "lists"):
            name = type(self.given).__name__
            if not (isinstance(kind, tuple) and len(kind) == 3 and {kind[0], kind[2]} <= {*nodes}):
                raise InvalidArgumentError(
                    f"edges of {name}: {shown(kind)} is no edge type, (source type, relation, "
                    f"destination type), of {', '.join(map(repr, nodes)) or 'no types'}"
                )
            edges[kind] = self._edges(kind, of_kind, nodes)
        self._check_unit(nodes, edges)
        return nodes, edges

    def _nodes(self) -> dict[str, NodeParts]:
        counts = as_items(self.given.num_nodes, "num_nodes", "counts")
        nodes = {t: NodeParts(as_count(count, f"num_nodes[{t!r}]")) for t, count in counts}
        for option, read in (("node_time", read_node_time), ("node_attrs", _read_attrs)):
            by_type = getattr(self.given, option, None)
            for node_type, values in () if by_type is None else as_items(by_type, option, "values"):
                if node_type not in nodes:
                    raise InvalidArgumentError(
                        f"{option}: {shown(node_type)} is no node type; there are: "
                        f"{', '.join(map(repr, nodes)) or 'none'}"
                    )
                read(nodes[node_type], values, f"{option}[{node_type!r}]")
        return nodes

    def _edges(self, kind: EdgeType, source: Any, nodes: Mapping[str, NodeParts]) -> EdgeParts:
        num_src, num_dst = nodes[kind[0]].num_nodes, nodes[kind[2]].num_nodes
        major, minor = (num_dst, num_src) if self.layout == "csc" else (num_src, num_dst)
        label = f"edges[{kind!r}]."
        missing = [name for name in ("indptr", "indices") if not hasattr(source, name)]
        if missing:
            raise InvalidArgumentError(
                f"edges[{kind!r}] is a {type(source).__name__}, which has no "
                f"{' and no '.join(missing)}: it needs these arrays"
            )
        lists = read_lists(source, major, minor, label)
        parts = EdgeParts(num_src, num_dst, lists.topology.num_edges)
        if self.layout == "csc":
            parts.csc = lists
        else:
            parts.csr = lists
        other = "csr" if self.layout == "csc" else "csc"
        parts.other_lists = f"as_graph(source, layout={other!r}) takes such lists"
        read_edge_values(source, parts, lists.topology.end_edge_ids, label)
        return parts

    def _check_unit(
        self, nodes: Mapping[str, NodeParts], edges: Mapping[EdgeType, EdgeParts]
    ) -> None:
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


def _read_attrs(part: NodeParts, attrs: Any, name: str) -> None:
    read_attributes(attrs, part.node_attrs, name)


def typed_graph(source: TypedGraphSource, layout: str) -> ForeignHeteroGraph:
    """Make a typed graph of the lists of another library; see :func:`aethergraph.as_graph`."""
    if not hasattr(source, "edges"):
        raise InvalidArgumentError(
            f"{type(source).__name__} has no edges: a typed graph has num_nodes by node type and "
            "edges by edge type (aethergraph.protocols.TypedGraphSource)"
        )
    return ForeignHeteroGraph(_Sources(source, layout))


def _changed(now: Mapping[K, Rows], own: Mapping[K, Rows]) -> dict[K, dict[str, RowSource | None]]:
    """Return rows by type and name, None in the place of the source's own."""
    return {
        kind: {name: None if own[kind].get(name) is rows else rows for name, rows in table.items()}
        for kind, table in now.items()
    }


def _adopted_parts(
    source: TypedTopologySource,
) -> tuple[dict[str, NodeParts], dict[EdgeType, EdgeParts]]:
    """Return nodes and edges by type over topologies in C."""
    nodes = {name: NodeParts(count) for name, count in source.num_nodes.items()}
    for name, part in nodes.items():
        times = source.node_time.get(name)
        if times is not None:
            part.node_time, part.time_unit = read_only(times), source.time_unit
        for attr, rows in source.node_attrs.get(name, {}).items():
            part.node_attrs[attr] = rows
    edges = {}
    for kind, pointer in source.topologies.items():
        ends = nodes[kind[0]].num_nodes, nodes[kind[2]].num_nodes
        adopted = native.NativeTopology.adopt(pointer, source)
        edges[kind] = _edge_parts(kind, adopted, source, *ends)
        edges[kind].other_lists = source.other_lists
        edges[kind].elsewhere.update(source.edge_values.get(kind, {}))
        for attr, rows in source.edge_attrs.get(kind, {}).items():
            edges[kind].edge_attrs[attr] = rows
    return nodes, edges


def _edge_parts(
    kind: EdgeType, topology: native.NativeTopology, source: TypedTopologySource, num_src: int,
    num_dst: int,
) -> EdgeParts:  # fmt: skip
    """Return the parts of an edge type with these lists.

    Raises:
        InvalidArgumentError: the topology is of other numbers of nodes.
    """
    parts = EdgeParts(num_src, num_dst, topology.num_edges)
    parts.edge_attrs = AttributeTable("edge", topology.end_edge_ids)  # ids may have gaps
    lists = Lists.adopted(topology)
    major, minor = (num_dst, num_src) if source.layout == "csc" else (num_src, num_dst)
    if (topology.num_major, topology.num_minor) != (major, minor):
        raise InvalidArgumentError(
            f"a topology of {type(source).__name__} has num_major = {topology.num_major} and "
            f"num_minor = {topology.num_minor}, but its types have {major} and {minor} nodes"
        )
    if source.layout == "csc":
        parts.csc = lists
    else:
        parts.csr = lists
    if topology.has_own_times:
        parts.time_unit = source.time_unit
        names = getattr(source, "sorted_by", {}).get(kind, ())
        parts.sorted_by.update((source.layout, name) for name in names)
    return parts


def _rebuild(
    source: Any,
    node_attrs: dict[str, dict[str, Any]],
    edge_attrs: dict[EdgeType, dict[str, Any]],
) -> ForeignHeteroGraph:
    """Return the graph of ``source`` with these attributes; None stands for the source's own."""
    graph = ForeignHeteroGraph(source)
    for name, rows in node_attrs.items():
        own = graph.node_parts(name)
        own.set_node_attrs({k: own.node_attrs[k] if v is None else v for k, v in rows.items()})
    for kind, rows in edge_attrs.items():
        part = graph.edge_parts(kind)
        part.set_edge_attrs({k: part.edge_attrs[k] if v is None else v for k, v in rows.items()})
    return graph
