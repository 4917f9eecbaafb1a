"""Graphs of others: the arrays of another library, or a topology of one's own in C.

::

    GraphSource     indptr, indices ──┐
                                      ├── as_graph ──> ForeignGraph, a HomogeneousGraph
    TopologySource  topology ─────────┘   checked once
    TypedGraphSource  either by edge type ────────────> ForeignHeteroGraph, a HeterogeneousGraph

Arrays are used where they are, and a topology is asked through its operations. Nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar, overload

from aethergraph import _native as native
from aethergraph._checks.arrays import (
    as_count,
    to_array,
)
from aethergraph._checks.options import as_choice, shown
from aethergraph.errors import (
    InvalidArgumentError,
    UnsupportedError,
)
from aethergraph.graph.base import StoredGraph
from aethergraph.graph.edge_input import read_node_time
from aethergraph.graph.foreign_lists import (
    adopt_lists,
    fill_edges,
    read_attributes,
    read_lists,
    unit_of_source,
)
from aethergraph.graph.foreign_typed import ForeignHeteroGraph
from aethergraph.graph.lists import Lists
from aethergraph.graph.parts import GraphParts
from aethergraph.protocols import (
    Adjacency,
    AnyGraph,
    GraphSource,
    RowSource,
    TopologySource,
    TypedGraphSource,
)

__all__ = ["ForeignGraph", "as_graph", "graph_hint"]

G = TypeVar("G", bound=AnyGraph)

_MEMBERS = ("num_nodes", "num_edges", "indptr", "indices")


@overload
def as_graph(source: G, *, layout: str = ...) -> G: ...
@overload
def as_graph(source: TypedGraphSource, *, layout: str = ...) -> ForeignHeteroGraph: ...
@overload
def as_graph(source: GraphSource | TopologySource, *, layout: str = ...) -> ForeignGraph: ...
def as_graph(source: Any, *, layout: str = "csc") -> Any:
    """Make a graph of the lists of another library, for every sampler, loader and adapter.

    ::

        class MyGraph:                       # arrays of any library, used where they are
            num_nodes, num_edges = 3, 4
            indptr, indices = [0, 1, 1, 4], [2, 0, 1, 1]
            node_attrs = {"x": features}

        loader = SubgraphLoader(as_graph(MyGraph()), [15, 10], batch_size=1024)

    Args:
        source: one of

            * an object with the members of :class:`aethergraph.protocols.GraphSource`;
            * an object with a member ``topology``, the address of an ``aether_topology`` of a
              library of yours (:class:`aethergraph.protocols.TopologySource`);
            * an object with either for each edge type
              (:class:`aethergraph.protocols.TypedGraphSource`), which makes a typed graph;
            * a graph, which is returned as it is.

            The result keeps the object, and pickles with it. What it holds must not change.
        layout: ``"csc"``: the lists have the nodes that in-edges come from; ``"csr"``: those that
            out-edges lead to.

    Raises:
        InvalidArgumentError: a member is missing or wrong; says which, and what it should be.
        OutOfRangeError: an id is not below the number of nodes (or edges); has its position.
    """
    if isinstance(source, AnyGraph):
        return source
    chosen = as_choice(layout, ("csc", "csr"), "layout")
    if isinstance(getattr(source, "num_nodes", None), Mapping):
        return ForeignHeteroGraph(source, chosen)
    return ForeignGraph(source, chosen)


class ForeignGraph(StoredGraph):
    """Graph over lists that are not ours; made by :func:`as_graph`.

    It answers what ``Graph`` answers, and takes attributes in the same way. It is not saved:
    ``Graph.from_edges(graph.num_nodes, *graph.edge_index(), keep_order=True)`` makes a copy that
    can be. Edge ids are those of the source.
    """

    _ATTACH = ".node_attrs[{0!r}] = ... or .edge_attrs[{0!r}] = ..."

    def __init__(self, source: Any, layout: str) -> None:
        _check_members(source)
        lists = _adopt(source) if hasattr(source, "topology") else _read_lists(source)
        parts = GraphParts(lists.topology.num_major, lists.topology.num_edges)
        fill_edges(parts, lists, layout, source, unit_of_source(source))
        _read_nodes(source, parts)
        self._source_attrs = dict(parts.node_attrs), dict(parts.edge_attrs)
        self._source = source
        self._parts = parts
        self._num_nodes, self._num_edges = parts.num_nodes, parts.num_edges
        self._path = None
        self._storage = type(source).__name__
        self._paging = None

    @property
    def renumbers_edges(self) -> bool:
        """True if the source says that edge ids are places in lists that were sorted."""
        return bool(getattr(self._source, "renumbers_edges", False))

    def close(self) -> None:
        """Drop the graph's references; using the graph afterwards raises ClosedError."""
        self._parts = self._source = None
        self._source_attrs = {}, {}

    def save(self, path: native.Path, **options: Any) -> None:
        """Raise UnsupportedError: save the graph where its lists are, or a copy of them."""
        raise self._elsewhere("saved")

    def permute(self, *_: Any, **options: Any) -> NoReturn:
        """Raise UnsupportedError: order the nodes where the lists are, or of a copy of them."""
        raise self._elsewhere("put into another order")

    reorder = reorder_rabbit = reorder_rabbit_with_partitions = permute

    def _elsewhere(self, done: str) -> UnsupportedError:
        self._live()
        return UnsupportedError(
            f"a graph whose lists are elsewhere ({self._storage}) is not {done}: do it with the "
            "graph's own file, or with a copy, Graph.from_edges(graph.num_nodes, "
            "*graph.edge_index(), keep_order=True)"
        )

    def __enter__(self) -> ForeignGraph:
        self._live()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _label(self) -> str:
        return f"the graph of {self._storage}"

    def _guard(self) -> None:
        return None

    @property
    def source(self) -> Any:
        """Object that the graph was made of."""
        self._live()
        return self._source

    @property
    def lsn(self) -> int:
        """Number of the commit of a live graph that a server holds; 0: of none, or none yet.

        It is :attr:`~aethergraph.dynamic.snapshot.Snapshot.lsn` there.
        """
        return int(getattr(self.source, "lsn", 0))

    def __repr__(self) -> str:
        if self._parts is None:
            return f"ForeignGraph({self._storage}, closed)"
        return (
            f"ForeignGraph({self._storage}, num_nodes={self._num_nodes}, "
            f"num_edges={self._num_edges}, layout={self.layout!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self._live()
        tables = zip((parts.node_attrs, parts.edge_attrs), self._source_attrs, strict=True)
        attrs = [
            {name: None if source_rows.get(name) is rows else rows for name, rows in table.items()}
            for table, source_rows in tables
        ]
        return _rebuild, (self.source, self.layout, *attrs)


def _rebuild(
    source: Any,
    layout: str,
    node_attrs: dict[str, RowSource | None],
    edge_attrs: dict[str, RowSource | None],
) -> ForeignGraph:
    """Return the graph of ``source`` with these attributes; None stands for the source's own."""
    graph = ForeignGraph(source, layout)
    parts = graph._live()
    nodes, edges = parts.node_attrs, parts.edge_attrs
    parts.set_node_attrs({n: nodes[n] if rows is None else rows for n, rows in node_attrs.items()})
    parts.set_edge_attrs({n: edges[n] if rows is None else rows for n, rows in edge_attrs.items()})
    return graph


def graph_hint(value: Any) -> str:
    """Return what to do with an object that is no graph, but could be made one; else ``""``."""
    sources = (GraphSource, TopologySource, TypedGraphSource)
    if isinstance(value, sources) and not isinstance(value, Adjacency):
        return ": aethergraph.as_graph(source) makes a graph of it"
    return ""


# ---- members of the source ------------------------------------------------------------------


def _check_members(source: Any) -> None:
    """Raise InvalidArgumentError unless ``source`` has the members of one of the forms."""
    if isinstance(source, Adjacency):
        raise InvalidArgumentError(
            f"as_graph takes graphs, got {type(source).__name__}: the edges of one type of a graph"
        )
    if hasattr(source, "topology"):
        return
    missing = [name for name in _MEMBERS if not hasattr(source, name)]
    if missing:
        raise InvalidArgumentError(
            f"{type(source).__name__} has no {' and no '.join(missing)}: a graph in arrays has the "
            f"members {', '.join(_MEMBERS)} (aethergraph.protocols.GraphSource), one in C the "
            "member topology, an address (TopologySource)"
        )


def _adopt(source: Any) -> Lists:
    """Return the lists of the topology that ``source`` has the address of."""
    lists = adopt_lists(source, owner=source)
    topology = lists.topology
    if topology.num_major != topology.num_minor:
        raise InvalidArgumentError(
            f"topology of {type(source).__name__}: num_major = {topology.num_major} and num_minor "
            f"= {topology.num_minor} differ: both are the number of nodes"
        )
    return lists


def _read_lists(source: Any) -> Lists:
    """Return the lists in the arrays of ``source``."""
    nodes, edges = as_count(source.num_nodes, "num_nodes"), as_count(source.num_edges, "num_edges")
    indices = to_array(source.indices, "indices")
    if indices.ndim == 1 and len(indices) != edges:
        raise InvalidArgumentError(f"indices has {len(indices)} ids, but num_edges = {edges}")
    return read_lists(source, nodes, nodes)


def _read_nodes(source: Any, parts: GraphParts) -> None:
    """Read the times and attributes of nodes that ``source`` has; of lists elsewhere their rows."""
    parts.times_elsewhere = getattr(source, "node_values", {}).get("node_time")
    node_time = getattr(source, "node_time", None)
    if node_time is not None:
        unit = parts.time_unit
        read_node_time(parts, node_time)
        parts.time_unit = parts.time_unit or getattr(source, "time_unit", None)
        if parts.edge_time is not None and unit != parts.time_unit:
            raise InvalidArgumentError(
                f"edge_time is in {shown(unit)}, node_time in {shown(parts.time_unit)}: give both "
                "in one unit"
            )
    read_attributes(getattr(source, "node_attrs", None), parts.node_attrs, "node_attrs")
