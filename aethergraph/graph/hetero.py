"""HeteroGraph: many types of nodes and edges in one file."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.options import as_choice, as_flag, as_items, is_hashable, shown
from aethergraph.errors import ClosedError, InvalidArgumentError
from aethergraph.graph.adjacency import Layout, NoStrayAttributes
from aethergraph.graph.column_files import ColumnFiles
from aethergraph.graph.edge_input import read_node_time, share_unit
from aethergraph.graph.file import GraphReader, GraphWriter
from aethergraph.graph.id_files import IdFiles
from aethergraph.graph.parts import EdgeParts, NodeParts
from aethergraph.graph.reordering import TypedReordering
from aethergraph.graph.typed_edges import (
    build_relation,
    count_nodes,
    read_edges,
    reversed_edges,
    unknown_type,
)
from aethergraph.graph.verify import verified_bytes, verify_edges, verify_nodes
from aethergraph.graph.views import EdgeView, NodeView
from aethergraph.protocols import EdgeType, FeatureSource, HeterogeneousGraph, RowSource
from aethergraph.storage.budget import Budget
from aethergraph.storage.choice import (
    Storage,
    check_storage,
    refuse_address,
)
from aethergraph.storage.meta import EdgeType as EdgeMeta
from aethergraph.storage.meta import NodeType as NodeMeta
from aethergraph.storage.meta import check_fingerprint
from aethergraph.storage.paging import Paging

__all__ = ["EdgeType", "HeteroGraph"]

Ids = NDArray[np.int64]
_LAYOUTS = ("csc", "csr", "both")


class HeteroGraph(NoStrayAttributes, TypedReordering, HeterogeneousGraph):
    """Directed graph with several types of nodes and edges.

    ::

        graph = HeteroGraph.from_edges(
            {("user", "votes", "post"): (src, dst), ("post", "in", "subreddit"): (src, dst)},
            num_nodes={"user": 100_000},
        )
        graph["user"].features = x
        graph["user", "votes", "post"].in_neighbors(7)     # users that voted for post 7
        graph.save("graph.aeg")
        graph = HeteroGraph.load("graph.aeg")              # instant: the file is mapped

    Ids count from 0 in every type. Sampling follows edges backwards, from destination to source:
    an edge type whose destination type is never reached contributes nothing, as in PyG.
    ``add_reverse`` makes all types reachable.

    A graph does not change. It may be shared by threads and used in forked children. It pickles by
    path when it was loaded from a file (which must still be the same), else by its arrays.
    """

    _ATTACH = "graph[type].attrs[{!r}] = ..."

    def __init__(self, *_: Any, **__: Any) -> None:
        raise InvalidArgumentError("use HeteroGraph.from_edges(...) or HeteroGraph.load(path)")

    _nodes: Mapping[str, NodeParts]
    _edges: Mapping[EdgeType, EdgeParts]
    _reader: GraphReader | None = None
    _path: str | None
    _storage: str
    _closed: bool
    _ids: IdFiles | None = None
    _columns: ColumnFiles | None = None
    _time_attr: str | None = None  # of a graph that changes none says it
    _side_files: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def _make(
        cls,
        nodes: dict[str, NodeParts],
        edges: dict[EdgeType, EdgeParts],
        reader: GraphReader | None = None,
    ) -> HeteroGraph:
        self = cls.__new__(cls)
        self._nodes, self._edges, self._reader, self._closed = nodes, edges, reader, False
        self._path = None if reader is None else reader.path
        self._storage = "memory" if reader is None else reader.storage
        self._time_zone = None if reader is None else reader.meta.time_zone
        self._time_attr = None if reader is None else reader.meta.time_attr
        self._side_files = {} if reader is None else reader.meta.beside
        return self

    # ---- building ------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        edges: Mapping[EdgeType, tuple[ArrayLike, ArrayLike]],
        num_nodes: Mapping[str, int] | None = None,
        *,
        edge_weight: Mapping[EdgeType, ArrayLike] | None = None,
        edge_time: Mapping[EdgeType, ArrayLike] | None = None,
        node_time: Mapping[str, ArrayLike] | None = None,
        edge_attrs: Mapping[EdgeType, Mapping[str, FeatureSource | ArrayLike]] | None = None,
        layout: Layout = "csc",
        keep_order: bool = False,
        add_reverse: bool = False,
        sort_neighbors: bool = False,
        progress: native.Progress | None = None,
    ) -> HeteroGraph:
        """Build a graph from an edge list per type; see :meth:`Graph.from_edges`.

        Args:
            edges: ``(src, dst)`` by edge type, each a pair of integer vectors [E] or an array
                [2, E]. The graph keeps this order of edge types.
            num_nodes: number of nodes by type; missing types take the largest id + 1. A type may
                have nodes without any edge.
            edge_weight: weights by edge type, as in ``Graph.from_edges``.
            edge_time: times by edge type, as in ``Graph.from_edges``.
            node_time: times by node type, as in ``Graph.from_edges``.
            edge_attrs: attributes by edge type, as in ``Graph.from_edges``.
            layout: ``"csc"``, ``"csr"`` or ``"both"``, for all edge types.
            keep_order: keep the input row of each edge id.
            add_reverse: add ``(dst, "rev_" + relation, src)`` for every edge type, with the same
                weights, times and attributes, like PyG's ``ToUndirected``.
            sort_neighbors: sort each list by id, as ``Graph.from_edges`` does.
            progress: called with (done, total).

        Raises:
            OutOfRangeError: an id is out of range; names the first one, its row, value and type.
            InvalidArgumentError: a type, dtype, length, shape or value is invalid.
        """
        layout = as_choice(layout, _LAYOUTS, "layout")
        keep_order = as_flag(keep_order, "keep_order")
        add_reverse = as_flag(add_reverse, "add_reverse")
        sort_neighbors = as_flag(sort_neighbors, "sort_neighbors")
        by_type = {
            "edges": edges, "num_nodes": num_nodes, "edge_weight": edge_weight,
            "edge_time": edge_time, "node_time": node_time, "edge_attrs": edge_attrs,
        }  # fmt: skip
        for option, argument in by_type.items():
            if not isinstance(argument, Mapping) and not (argument is None and option != "edges"):
                raise InvalidArgumentError(
                    f"{option} goes by type, {{type: ...}}, got {type(argument).__name__}"
                )
        values: dict[str, dict[Any, Any]] = {
            "edge_weight": dict(edge_weight or {}),
            "edge_time": dict(edge_time or {}),
            "edge_attrs": dict(edge_attrs or {}),
        }
        inputs = read_edges(edges, values)
        if add_reverse:
            inputs.update(reversed_edges(inputs))
        for edge_input in inputs.values():
            edge_input.sort_neighbors = sort_neighbors
        nodes = count_nodes(inputs, num_nodes or {})
        for name, times in (node_time or {}).items():
            if name not in nodes:
                raise unknown_type("node_time", name, nodes)
            read_node_time(nodes[name], times)
        share_unit(nodes, inputs)
        relations = {
            kind: build_relation(kind, edge_input, nodes, layout, keep_order, progress)
            for kind, edge_input in inputs.items()
        }
        return cls._make(nodes, relations)

    # ---- files ---------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        path: native.Path,
        *,
        storage: Storage = "mmap",
        memory_budget: int | str | None = None,
        progress: native.Progress | None = None,
    ) -> HeteroGraph:
        """Open a graph file, also one that ``Graph.save`` wrote (its node type is ``"node"``).

        Arguments and errors are those of :meth:`Graph.load`.
        """
        check_storage(storage)
        budget = Budget.optional(memory_budget)
        refuse_address(path)
        reader = GraphReader(path)
        return cls._read(reader, storage, budget, progress)

    @classmethod
    def _read(
        cls,
        reader: GraphReader,
        storage: str,
        budget: Budget | None,
        progress: native.Progress | None,
    ) -> HeteroGraph:
        nodes, edges = reader.make_all()
        reader.read(nodes, edges, storage, budget, progress)
        names = [kind.name for kind in reader.meta.node_types]
        kinds = [
            (names[kind.source], kind.name, names[kind.destination])
            for kind in reader.meta.edge_types
        ]
        return cls._make(
            dict(zip(names, nodes, strict=True)), dict(zip(kinds, edges, strict=True)), reader
        )

    def save(
        self,
        path: native.Path,
        *,
        compress: bool | None = None,
        attrs: bool = True,
        progress: native.Progress | None = None,
    ) -> None:
        """Write the graph to one file that appears complete or not at all; see :meth:`Graph.save`.

        ``attrs=False`` leaves out the attributes of all types.
        """
        self._check_open()
        number = {name: i for i, name in enumerate(self._nodes)}
        writer = GraphWriter(
            [(NodeMeta(name, part.num_nodes), part) for name, part in self._nodes.items()],
            [
                (EdgeMeta(number[kind[0]], kind[1], number[kind[2]], part.num_edges), part)
                for kind, part in self._edges.items()
            ],
            compress,
            attrs=as_flag(attrs, "attrs"),
        )
        writer.meta = replace(
            writer.meta, time_zone=self.time_zone, time_attr=self.time_attr, beside=self._side_files
        )
        guard = self.guard()
        native.run_long(lambda task: writer.write(path, guard, task), progress, writer.size)

    @property
    def ids(self) -> IdFiles:
        """Maps between keys and ids by node type, of files beside that of the graph.

        ``convert.tables`` writes them: ``graph.ids["user"].lookup(["u17"])``.
        """
        if self._ids is None:
            self._ids = IdFiles(self._path, self._counts(), self._side_files)
        return self._ids

    @property
    def columns(self) -> ColumnFiles:
        """Columns of several dtypes by node type, of files beside that of the graph.

        ``convert.tables`` writes them: ``graph.columns["user"].gather(ids)["age"]``.
        """
        if self._columns is None:
            self._columns = ColumnFiles(self._path, self._counts(), self._side_files)
        return self._columns

    def _counts(self) -> dict[str, int]:
        return {name: part.num_nodes for name, part in self._nodes.items()}

    def verify(self, progress: native.Progress | None = None) -> None:
        """Read the whole file, compare all checksums, and check every id and offset.

        If both directions are stored, they must hold the same edges with the same ids.

        Raises:
            CorruptFileError: a section is damaged; names the first one.
        """
        self._check_open()
        file, label = None if self._reader is None else self._reader.file, self.path or "the graph"

        def work(task: native.Task | None) -> None:
            if file is not None:
                file.verify(task)
            for kind, part in self._edges.items():
                verify_edges(part, f"{label}: {kind}", task)
            for name, node in self._nodes.items():
                verify_nodes(node, f"{label}: {name}", task)
            if file is not None:
                file.check()

        size = sum(verified_bytes(part) for part in self._edges.values())
        native.run_long(work, progress, size + (0 if file is None else file.size))

    def with_attrs(
        self,
        node_attrs: Mapping[str, Mapping[str, FeatureSource | ArrayLike]],
        edge_attrs: Mapping[EdgeType, Mapping[str, FeatureSource | ArrayLike]],
    ) -> HeteroGraph:
        """Return a copy of this graph with attributes added or, under the same names, replaced.

        Edges, values and the other attributes are shared, not copied. This graph does not change.

        Args:
            node_attrs: rows by node type and name, one row per node.
            edge_attrs: rows by edge type and name, one row per edge in edge-id order.

        Raises:
            InvalidArgumentError: an unknown type, or a wrong number of rows.
        """
        self._check_open()
        nodes, edges = dict(self._nodes), dict(self._edges)
        for name, more in as_items(node_attrs, "node_attrs", "attributes"):
            nodes[name] = copy.copy(self.node_parts(name))
            nodes[name].set_node_attrs(self._nodes[name].node_attrs)
            for attr, rows in as_items(more, f"node_attrs[{shown(name)}]", "rows"):
                nodes[name].node_attrs[attr] = rows
        for kind, more in as_items(edge_attrs, "edge_attrs", "attributes"):
            edges[kind] = copy.copy(self.edge_parts(kind))
            edges[kind].set_edge_attrs(self._edges[kind].edge_attrs)
            for attr, rows in as_items(more, f"edge_attrs[{shown(kind)}]", "rows"):
                edges[kind].edge_attrs[attr] = rows
        return self._with_parts(nodes, edges)

    def _with_parts(
        self, nodes: dict[str, NodeParts], edges: dict[EdgeType, EdgeParts]
    ) -> HeteroGraph:
        """Return a graph of the same lists with other attributes."""
        graph = self._make(nodes, edges, self._reader)
        graph._time_zone, graph._time_attr = self._time_zone, self._time_attr
        graph._side_files = self._side_files
        return graph

    def close(self) -> None:
        """Drop the graph's own references; see :meth:`Graph.close`."""
        self._closed = True
        self._nodes, self._edges = {}, {}
        self._reader = None  # another graph may share it

    def __enter__(self) -> HeteroGraph:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError(f"{self.path or 'the graph'} was closed")

    def guard(self) -> native.FileGuard | None:
        """Return the guard of the file that arrays are mapped from; None for a graph in memory."""
        return None if self._reader is None else self._reader.guard

    # ---- properties ----------------------------------------------------------------------

    @property
    def node_types(self) -> list[str]:
        """Names of the node types, in order."""
        self._check_open()
        return list(self._nodes)

    @property
    def edge_types(self) -> list[EdgeType]:
        """Edge types, in the order in which sampling visits them."""
        self._check_open()
        return list(self._edges)

    @property
    def num_nodes(self) -> dict[str, int]:
        """Number of nodes by type."""
        self._check_open()
        return {name: part.num_nodes for name, part in self._nodes.items()}

    @property
    def num_edges(self) -> dict[EdgeType, int]:
        """Number of edges by type."""
        self._check_open()
        return {kind: part.num_edges for kind, part in self._edges.items()}

    @property
    def time_unit(self) -> str | None:
        """Unit of all times of nodes and edges; see :attr:`Graph.time_unit`."""
        self._check_open()
        parts: list[NodeParts | EdgeParts] = [*self._nodes.values(), *self._edges.values()]
        return next((part.time_unit for part in parts if part.time_unit is not None), None)

    @property
    def time_zone(self) -> str | None:
        """Time zone of all times, ``"UTC"``, if the tables that the graph was made of gave one."""
        return self._time_zone

    @property
    def time_attr(self) -> str | None:
        """Name of the times that samples go by, ``"edge_time"``, where there are of nodes too.

        ``convert.tables`` makes such graphs: the time of an edge is the latest of its own and of
        those of both its nodes. None: the graph does not say.
        """
        return self._time_attr

    @property
    def path(self) -> str | None:
        """Absolute path of the file that the graph was loaded from, or None."""
        return self._path

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the file's content; None for a graph that was not loaded from a file."""
        return None if self._reader is None else self._reader.fingerprint

    @property
    def storage(self) -> str:
        """Place of the adjacency: ``"mmap"``, ``"memory"`` or ``"uring"``; or ``"live"``."""
        return self._storage

    @property
    def paging(self) -> Paging | None:
        """Reader of lists that stay in the file (``"uring"``), with its ``stats()``; else None."""
        self._check_open()
        return None if self._reader is None else self._reader.paging

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._closed

    @property
    def renumbers_edges(self) -> bool:
        """True if edge ids are places in lists that an input was sorted into."""
        return True

    def node_parts(self, name: str) -> NodeParts:
        """Return the stored parts of a node type (for views and samplers)."""
        self._check_open()
        if not isinstance(name, str) or name not in self._nodes:
            raise unknown_type("node type", name, self._nodes)
        return self._nodes[name]

    def edge_parts(self, kind: EdgeType) -> EdgeParts:
        """Return the stored parts of an edge type (for views and samplers)."""
        self._check_open()
        if not is_hashable(kind) or kind not in self._edges:
            raise unknown_type("edge type", kind, self._edges)
        return self._edges[kind]

    @overload
    def __getitem__(self, name: str) -> NodeView: ...
    @overload
    def __getitem__(self, name: EdgeType) -> EdgeView: ...
    def __getitem__(self, name: Any) -> Any:
        """Return the view of a node type (a string) or an edge type (three strings)."""
        if isinstance(name, str):
            self.node_parts(name)
            return NodeView(self, name)
        self.edge_parts(name)
        return EdgeView(self, name)

    def __contains__(self, name: object) -> bool:
        self._check_open()
        return name in self._nodes or name in self._edges

    def __repr__(self) -> str:
        if self.closed:
            return f"HeteroGraph(closed, path={self.path!r})"
        place = f", path={self.path!r}" if self.path is not None else ""
        return (
            f"HeteroGraph(num_nodes={self.num_nodes}, num_edges={self.num_edges}, "
            f"storage={self.storage!r}{place})"
        )

    # ---- pickling ------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_open()
        attrs = (
            {name: dict(part.node_attrs) for name, part in self._nodes.items()},
            {kind: dict(part.edge_attrs) for kind, part in self._edges.items()},
        )
        if self._reader is not None:
            reader = self._reader
            budget = None if reader.paging is None else reader.paging.budget
            return _reopen, (reader.path, self.storage, budget, reader.fingerprint, *attrs)
        nodes = {name: (part.num_nodes, part.pack_nodes()) for name, part in self._nodes.items()}
        edges = {kind: (part.num_edges, part.pack_edges()) for kind, part in self._edges.items()}
        metadata = (self._time_zone, self._time_attr, dict(self._side_files))
        return _rebuild, (nodes, edges, *attrs, *metadata)


# ---- pickles ---------------------------------------------------------------------------------


def _attach(
    graph: HeteroGraph,
    node_attrs: Mapping[str, Mapping[str, RowSource]],
    edge_attrs: Mapping[EdgeType, Mapping[str, RowSource]],
) -> HeteroGraph:
    for name, stores in node_attrs.items():
        graph.node_parts(name).set_node_attrs(stores)
    for kind, stores in edge_attrs.items():
        graph.edge_parts(kind).set_edge_attrs(stores)
    return graph


def _reopen(
    path: str, storage: str, budget: Budget | None, fingerprint: str, *attrs: Any
) -> HeteroGraph:
    reader = GraphReader(path)
    check_fingerprint(path, fingerprint, reader.fingerprint)
    return _attach(HeteroGraph._read(reader, storage, budget, None), *attrs)


def _rebuild(
    nodes: dict[str, Any],
    edges: dict[EdgeType, Any],
    node_attrs: dict[str, dict[str, RowSource]],
    edge_attrs: dict[EdgeType, dict[str, RowSource]],
    time_zone: str | None = None,
    time_attr: str | None = None,
    side_files: Mapping[str, str] | None = None,
) -> HeteroGraph:
    node_parts = {}
    for name, (count, state) in nodes.items():
        node_parts[name] = NodeParts(count)
        node_parts[name].unpack_nodes(state)
    edge_parts = {}
    for kind, (count, state) in edges.items():
        source, target = node_parts[kind[0]], node_parts[kind[2]]
        edge_parts[kind] = EdgeParts(source.num_nodes, target.num_nodes, count)
        edge_parts[kind].unpack_edges(state)
    graph = _attach(HeteroGraph._make(node_parts, edge_parts), node_attrs, edge_attrs)
    graph._time_zone, graph._time_attr = time_zone, time_attr
    graph._side_files = side_files or {}
    return graph
