"""DynamicHeteroGraph: many types of nodes and edges that change, all in one order of commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_items, as_list, is_hashable, is_name, shown
from aethergraph.dynamic.attrs import LiveAttributes, live_node_values, node_table
from aethergraph.dynamic.base_graph import Base
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.edge_types import EdgeKind
from aethergraph.dynamic.edges import LiveEdgeQueries
from aethergraph.dynamic.forms import EdgeForm, EdgeOptions, MemoryOptions, time_dtype
from aethergraph.dynamic.graph_form import GraphForm
from aethergraph.dynamic.hetero_snapshot import HeteroSnapshot, SnapshotEdges
from aethergraph.dynamic.keys import IdsByType, LiveIds
from aethergraph.dynamic.live import LiveGraph
from aethergraph.dynamic.merge import MEMORY
from aethergraph.dynamic.node_times import read_node_time
from aethergraph.dynamic.opening import Durability, FormRequest, Opening, open_store
from aethergraph.dynamic.store import LiveStore
from aethergraph.errors import InvalidArgumentError, MissingNameError, UnsupportedError
from aethergraph.graph.hetero import EdgeType, HeteroGraph
from aethergraph.graph.parts import EdgeParts, NodeParts
from aethergraph.graph.typed_edges import unknown_type
from aethergraph.graph.views import EdgeView, NodeView
from aethergraph.protocols import Layout, MemorySource, RowSource
from aethergraph.storage.choice import Storage

__all__ = ["DynamicHeteroGraph"]

Ids = NDArray[np.int64]


class LiveNodes(NodeView):
    """Nodes of one type of a live graph: ``graph["user"]``."""

    _graph: DynamicHeteroGraph

    @property
    def attrs(self) -> Any:
        """Attributes by name, rows as of the last commit; ``attrs["x"] = rows`` begins one."""
        return node_table(self._graph.store, self.name)

    @property
    def node_values(self) -> Mapping[str, RowSource]:
        """``node_time``, if the nodes have times, as rows to gather from."""
        return live_node_values(self._graph.store, self.name)

    def add(self, count: int, **attrs: ArrayLike) -> Ids:
        """Add nodes; see :meth:`DynamicGraph.add_nodes`."""
        return self._graph.store.add_nodes(self.name, count, attrs)

    def update(self, ids: ArrayLike, **attrs: ArrayLike) -> None:
        """Change rows of nodes; see :meth:`DynamicGraph.update_nodes`."""
        self._graph.store.update_nodes(self.name, ids, attrs)


class LiveEdges(LiveEdgeQueries, EdgeView):
    """Edges of one type of a live graph: ``graph["user", "votes", "post"]``."""

    _graph: DynamicHeteroGraph
    is_live = True

    @property
    def _store(self) -> LiveStore:  # type: ignore[override]
        return self._graph.store

    @property
    def _kind(self) -> EdgeKind:  # type: ignore[override]
        return self._store.kinds[self.name]

    @property
    def _place(self) -> str:  # type: ignore[override]
        return f"{self._label()}: "

    def _now(self) -> SnapshotEdges:
        edges: SnapshotEdges = self._graph.snapshot()[self.name]
        return edges

    @property
    def attrs(self) -> LiveAttributes:
        """Attributes by name, rows by edge id, as of the last commit."""
        return self.edge_attrs

    def insert(
        self, src: ArrayLike, dst: ArrayLike, *, time: ArrayLike | None = None,
        weight: ArrayLike | None = None, edge_attrs: Mapping[str, ArrayLike] | None = None,
    ) -> Ids:  # fmt: skip
        """Insert edges in one commit; see :meth:`DynamicGraph.insert_edges`."""
        return self._store.insert(self._kind, src, dst, time, weight, edge_attrs)

    def delete(self, src: ArrayLike, dst: ArrayLike, edge_ids: ArrayLike | None = None) -> int:
        """Delete edges in one commit; see :meth:`DynamicGraph.delete_edges`."""
        return self._store.delete(self._kind, src, dst, edge_ids)


class DynamicHeteroGraph(LiveGraph, HeteroGraph):
    """Typed graph that changes: :class:`DynamicGraph` of many types of nodes and edges.

    ::

        graph = DynamicHeteroGraph(
            {"user": 1000, "post": 0},
            [("user", "votes", "post"), ("user", "writes", "post")],
            order="time", edge_time="datetime64[us]",
        )
        with graph.transaction():                      # one commit of all types
            new = graph["post"].add(2, x=rows)
            graph["user", "writes", "post"].insert([7, 9], new, time=now)

    A snapshot, and so each batch, shows one commit of all types.

    Args:
        num_nodes: number of nodes by type.
        edge_types: the edge types; by type also a dict of ``layout``, ``order``, ``edge_time``,
            ``edge_weight``, ``edge_attrs`` and ``edge_id_bytes`` that differ from those below.
        arena_mb: MiB of memory for the edges of all types together.
        layout, order, edge_time, edge_weight, edge_attrs, edge_id_bytes: of every edge type, as in
            :class:`DynamicGraph`.
        node_time: dtype of the times of nodes, by the node types that have times, which begin
            without nodes; as in :class:`DynamicGraph`.
        max_snapshot_age, max_nodes, huge_pages, mlock, arena_memory: as in :class:`DynamicGraph`.
    """

    def __init__(
        self,
        num_nodes: Mapping[str, int],
        edge_types: Any,
        arena_mb: int = 1024,
        *,
        layout: Layout = "both",
        order: Literal["id", "time"] = "id",
        edge_time: DTypeLike | None = None,
        edge_weight: DTypeLike | None = None,
        edge_attrs: Mapping[str, tuple[tuple[int, ...], DTypeLike]] | None = None,
        node_time: Mapping[str, DTypeLike] | None = None,
        edge_id_bytes: Literal[4, 8] = 8,
        max_snapshot_age: float | None = None,
        max_nodes: int | None = None,
        huge_pages: bool = True,
        mlock: bool = False,
        arena_memory: MemorySource | None = None,
    ) -> None:
        edges = EdgeOptions(layout, order, edge_time, edge_weight, edge_attrs, edge_id_bytes)
        form = _form(num_nodes, edge_types, edges, node_time, max_nodes)
        memory = MemoryOptions(arena_mb, max_snapshot_age, huge_pages, mlock, arena_memory)
        self._begin(LiveStore(form, memory))

    @classmethod
    def open(
        cls,
        path: native.Path,
        num_nodes: Mapping[str, int] | None = None,
        edge_types: Any = None,
        arena_mb: int = 1024,
        *,
        durability: Durability = "batch",
        interval_ms: int = 10,
        base: native.Path | None = None,
        storage: Storage = "mmap",
        memory_budget: int | str | None = None,
        layout: Layout | None = None,
        order: Literal["id", "time"] | None = None,
        edge_time: DTypeLike | None = None,
        edge_weight: DTypeLike | None = None,
        edge_attrs: Mapping[str, tuple[tuple[int, ...], DTypeLike]] | None = None,
        node_time: Mapping[str, DTypeLike] | None = None,
        edge_id_bytes: Literal[4, 8] | None = None,
        max_snapshot_age: float | None = None,
        max_nodes: int | None = None,
        huge_pages: bool = True,
        mlock: bool = False,
        arena_memory: MemorySource | None = None,
        ids: str | Mapping[str, str] | None = None,
        progress: native.Progress | None = None,
    ) -> DynamicHeteroGraph:
        """Open the live graph in a directory, to write it; make one if there is none.

        See :meth:`DynamicGraph.open`. ``num_nodes``, ``edge_types`` and what is kept of edges are
        for a graph that is made; of one that is there, None or what it was made with. One that
        begins with a base has what the base has. ``ids`` is the type of the keys of all nodes, or
        by node type, of some.
        """
        edges = EdgeOptions(layout, order, edge_time, edge_weight, edge_attrs, edge_id_bytes)
        return open_store(
            path,
            Opening(durability, interval_ms, base, storage, memory_budget, progress, ids),
            _Request(num_nodes, edge_types, edges, node_time, max_nodes),
            MemoryOptions(arena_mb, max_snapshot_age, huge_pages, mlock, arena_memory),
            cls.of_store,
        )

    # ---- commits -----------------------------------------------------------------------------

    def snapshot(self) -> HeteroSnapshot:
        """Take a snapshot of the last commit: a graph that does not change."""
        return HeteroSnapshot(self.store)

    def to_graph(
        self, *, path: native.Path | None = None, memory: int | str = MEMORY
    ) -> HeteroGraph:
        """Copy the last commit into a static typed graph; see :meth:`Snapshot.to_graph`."""
        return self.snapshot().to_graph(path=path, memory=memory)

    @classmethod
    def from_edges(cls, *_: Any, **__: Any) -> DynamicHeteroGraph:
        """Refuse: a live graph is made empty, or over a file."""
        raise UnsupportedError(
            "a live graph begins without edges: DynamicHeteroGraph(num_nodes, edge_types), then "
            "graph[edge_type].insert(src, dst); or over a file: .open(path, base=)"
        )

    def permute(self, *_: Any, **__: Any) -> DynamicHeteroGraph:
        """Refuse: the ids of a live graph's nodes stay."""
        raise UnsupportedError(
            "nodes of a live graph keep their ids: to_graph().permute(perms) reorders a copy"
        )

    def with_attrs(self, *_: Any, **__: Any) -> DynamicHeteroGraph:
        """Refuse: attributes of a live graph change where they are."""
        raise UnsupportedError(
            "graph[node_type].attrs[name] = rows adds an attribute to a live graph; "
            "to_graph().with_attrs(...) to a copy"
        )

    # ---- the graph as it is ------------------------------------------------------------------

    @property
    def _nodes(self) -> Mapping[str, NodeParts]:  # type: ignore[override]
        return self.snapshot()._nodes

    @property
    def _edges(self) -> Mapping[EdgeType, EdgeParts]:  # type: ignore[override]
        return self.snapshot()._edges

    @property
    def num_nodes(self) -> dict[str, int]:
        """Number of nodes by type, as of the last commit."""
        return self.snapshot().num_nodes

    @property
    def num_edges(self) -> dict[EdgeType, int]:
        """Number of edges by type, as of the last commit."""
        return self.snapshot().num_edges

    @property
    def node_types(self) -> list[str]:
        """Names of the node types, in order."""
        return list(self.store.node_rows)

    @property
    def edge_types(self) -> list[EdgeType]:
        """Edge types, in the order in which sampling visits them."""
        return list(self.store.kinds)

    @property
    def ids(self) -> IdsByType[LiveIds]:  # type: ignore[override]
        """Ids of nodes by their keys, by node type: ``graph.ids["user"].lookup(["u17"])``.

        Types whose nodes have no keys are not in it; see :attr:`DynamicGraph.ids`.
        """
        store = self.store
        return IdsByType(store, lambda name: LiveIds(store, name))

    def __getitem__(self, name: Any) -> Any:
        """Return the view of a node type (a string) or an edge type (three strings)."""
        store = self.store
        if isinstance(name, str):
            if name not in store.node_rows:
                raise unknown_type("node type", name, store.node_rows)
            return LiveNodes(self, name)
        if not is_hashable(name) or name not in store.kinds:
            raise unknown_type("edge type", name, store.kinds)
        return LiveEdges(self, name)


def _form(
    num_nodes: Any, edge_types: Any, edges: EdgeOptions, node_time: Any, max_nodes: Any
) -> GraphForm:
    """Return the form of a new graph."""
    nodes = {}
    for name, count in as_items(num_nodes, "num_nodes", "counts"):
        if not is_name(name):
            raise InvalidArgumentError(f"num_nodes: {shown(name)} is no name of a node type")
        nodes[name] = as_count(count, f"num_nodes[{name!r}]")
    forms = {}
    for kind, options in _options_by_type(edge_types, edges):
        if not (isinstance(kind, tuple) and len(kind) == 3 and all(map(is_name, kind))):
            raise InvalidArgumentError(
                f"edge_types: {shown(kind)} is not (source type, relation, destination type)"
            )
        for end in (kind[0], kind[2]):
            if end not in nodes:
                raise MissingNameError(
                    f"edge_types: {shown(kind)} names the node type {shown(end)}, which num_nodes "
                    f"lacks; it has: {', '.join(map(repr, nodes)) or 'none'}"
                )
        forms[kind] = EdgeForm.read(options)
    if not forms:
        raise InvalidArgumentError("edge_types: give at least one edge type")
    dtypes = sorted({time_dtype(form.time_unit) for form in forms.values() if form.has_time})
    if len(dtypes) > 1:
        raise InvalidArgumentError(
            f"edge_time is {' and '.join(dtypes)}: give all times in one unit"
        )
    return GraphForm(nodes, forms, read_node_time(node_time, nodes), max_nodes).check_new()


def _options_by_type(edge_types: Any, edges: EdgeOptions) -> Iterator[tuple[Any, EdgeOptions]]:
    """Yield the edge types of an argument, each with its options."""
    if not isinstance(edge_types, Mapping):
        edge_types = as_list(edge_types, "edge_types", "edge types")
        for kind in edge_types:
            if not is_hashable(kind):
                raise InvalidArgumentError(
                    f"edge_types: {shown(kind)} is not (source type, relation, destination type)"
                )
        edge_types = {kind: {} for kind in edge_types}
    for kind, differing in edge_types.items():
        if not isinstance(differing, Mapping) or not set(differing) <= set(edges._fields):
            raise InvalidArgumentError(
                f"edge_types[{kind!r}]: options are {', '.join(edges._fields)}, got "
                f"{shown(differing)}"
            )
        yield kind, edges._replace(**differing)


class _Request(FormRequest):
    """Request for a graph of many types.

    Args:
        num_nodes: number of nodes by type; None: as many as there are.
        edge_types: edge types, perhaps with options that differ; None: those that there are.
        options, node_time, max_nodes: as of :class:`FormRequest`.
    """

    def __init__(
        self, num_nodes: Any, edge_types: Any, options: EdgeOptions, node_time: Any, max_nodes: Any
    ) -> None:
        super().__init__(options, node_time, max_nodes)
        self._num_nodes, self._edge_types = num_nodes, edge_types

    def new(self, path: native.Path) -> GraphForm:
        """Return the form of a graph that is made in a directory."""
        if self._num_nodes is None or self._edge_types is None:
            raise InvalidArgumentError(
                f"there is no live graph in {LiveDirectory(path).path}: give num_nodes= and "
                "edge_types= to make one"
            )
        edges = self._options.completed()
        return _form(self._num_nodes, self._edge_types, edges, self._node_time, self._max_nodes)

    def over(self, base: Base, progress: native.Progress | None) -> GraphForm:
        """Return the form of a graph that is made over a base."""
        if self._num_nodes is not None or self._edge_types is not None:
            raise InvalidArgumentError(
                "num_nodes and edge_types are those of the base: leave them out"
            )
        if not base.edges:
            raise InvalidArgumentError(
                f"{base.path} has no edge types: a live graph has at least one. Give the file one, "
                "which may be without edges"
            )
        return self._over(base, base.graph.node_types, base.graph.edge_types, progress)

    def same(self, form: GraphForm, path: native.Path) -> GraphForm:
        """Return the form of the graph that is there, with edge ids as they are asked for."""
        if self._num_nodes is not None:
            counts = dict(as_items(self._num_nodes, "num_nodes", "counts"))
            if counts != form.num_nodes:
                raise InvalidArgumentError(
                    f"the graph was made with num_nodes = {form.num_nodes}, not {shown(counts)}: "
                    "leave it out"
                )
        kinds, edge_types = list(form.edges), self._edge_types
        options = dict(_options_by_type(kinds if edge_types is None else edge_types, self._options))
        if list(options) != kinds:
            raise InvalidArgumentError(
                f"the graph was made with edge_types = {kinds}, not {shown(list(options))}: leave "
                "them out"
            )
        return self._same(form, options)
