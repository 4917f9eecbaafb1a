"""DynamicGraph: a graph that is written to while others read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph.dynamic.attrs import (
    LiveAttributes,
    live_node_values,
    node_table,
)
from aethergraph.dynamic.base_graph import Base
from aethergraph.dynamic.copying import copied
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.edges import LiveEdgeQueries
from aethergraph.dynamic.forms import EdgeForm, EdgeOptions, MemoryOptions, read_time_dtype
from aethergraph.dynamic.graph_form import GraphForm
from aethergraph.dynamic.keys import LiveIds
from aethergraph.dynamic.live import LiveGraph
from aethergraph.dynamic.merge import MEMORY
from aethergraph.dynamic.opening import (
    Durability,
    FormRequest,
    Opening,
    check_same_count,
    open_store,
)
from aethergraph.dynamic.snapshot import Snapshot
from aethergraph.dynamic.store import LiveStore
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.base import StoredGraph
from aethergraph.graph.graph import Graph
from aethergraph.graph.parts import GraphParts
from aethergraph.protocols import HomogeneousGraph, Layout, MemorySource, RowSource
from aethergraph.storage.choice import Storage

__all__ = ["DynamicGraph"]

Ids = NDArray[np.int64]
#: Edge type of a graph without types.
_KIND = ("node", "to", "node")


class DynamicGraph(LiveEdgeQueries, LiveGraph, StoredGraph):
    """Directed graph that changes: one process writes, any number of readers sample meanwhile.

    ::

        graph = DynamicGraph(num_vertices=2_000_000_000, arena_mb=8192)
        graph.insert_edge(7, 9)                        # seen by readers when the call returns
        graph.insert_edges(src, dst)                   # all of them at once
        with graph.transaction():                      # several changes as one
            graph.delete_edges(src[:10], dst[:10])
            graph.insert_edge(7, 8)

        loader = NeighborLoader(graph, [15, 10], batch_size=128)

    Every sampler, loader and adapter takes it in the place of a ``Graph``: each batch is drawn from
    the last commit at that moment, whole, and nobody waits for anybody. ``snapshot()`` gives a
    commit to hold on to. The structure follows Aspen (Dhulipala et al., PLDI 2019), a C-tree with
    versions, with wide leaves that fill up in place.

    Edge ids are the numbers under which edges were inserted, from 0, whatever is deleted; edge
    attributes go by them.

    Threads may share a graph; those that write take turns. Forked children and processes that
    unpickle the graph read it as it changes. It is in memory, and gone with its last process;
    :meth:`open` keeps one in a directory.

    Args:
        num_vertices: number of nodes; :meth:`add_nodes` adds more. Nodes without edges take no
            memory.
        arena_mb: MiB of memory for edges and their older versions. It is taken as it is used.
        layout: lists to keep, ``"csc"`` (in-edges, which samplers follow), ``"csr"`` (out-edges) or
            ``"both"``.
        order: ``"id"``: lists are sorted by id, and an edge is there once. ``"time"``: lists are in
            the order of the edges' times, else of their arrival, and parallel edges are kept.
        edge_time: ``"int64"`` or ``"datetime64[unit]"``: edges have times; with ``order="time"``.
        edge_weight: ``"float32"``: edges have weights, to draw by.
        edge_attrs: attributes of edges by name: ``(shape of a row, dtype)``.
        node_time: ``"int64"`` or ``"datetime64[unit]"``: nodes have times; with ``order="time"``.
            The graph begins without nodes, and :meth:`add_nodes` brings them with theirs, which
            stay. Lists of in-edges are in the order of the times of their nodes, unless edges have
            times of their own.
        edge_id_bytes: 8, or 4: an edge takes a third less memory, and is inserted faster, but after
            2^32 - 1 edges, deleted ones included, no more can be inserted.
        max_snapshot_age: seconds after which a snapshot expires when memory is needed: the arena is
            full or 64 KiB of older lists wait, an attribute of nodes has 65,536 more versions of
            rows than there are nodes, or a merge has come. None: a snapshot that is held keeps its
            memory.
        max_nodes: most nodes there can be; None: 2^32 - 1.
        huge_pages: ask for huge pages where the system has them.
        mlock: keep the edges in memory, so that they are never swapped out.
        arena_memory: object with the address of functions in C that give memory for the edges
            (:class:`aethergraph.protocols.MemorySource`). Other processes, forked children
            included, cannot read the graph then. None: shared memory.

    Raises:
        InvalidArgumentError: an argument is invalid; names it.
        OutOfMemoryError: there is no memory, or no right to lock it.
    """

    _ATTACH = ".node_attrs[{0!r}] = ... or edge_attrs= when the graph is made"

    def __init__(
        self,
        num_vertices: int,
        arena_mb: int = 1024,
        *,
        layout: Layout = "both",
        order: Literal["id", "time"] = "id",
        edge_time: DTypeLike | None = None,
        edge_weight: DTypeLike | None = None,
        edge_attrs: Mapping[str, tuple[tuple[int, ...], DTypeLike]] | None = None,
        node_time: DTypeLike | None = None,
        edge_id_bytes: Literal[4, 8] = 8,
        max_snapshot_age: float | None = None,
        max_nodes: int | None = None,
        huge_pages: bool = True,
        mlock: bool = False,
        arena_memory: MemorySource | None = None,
    ) -> None:
        edges = EdgeOptions(layout, order, edge_time, edge_weight, edge_attrs, edge_id_bytes)
        form = _form(num_vertices, edges, node_time, max_nodes)
        memory = MemoryOptions(arena_mb, max_snapshot_age, huge_pages, mlock, arena_memory)
        self._begin(LiveStore(form, memory))

    @classmethod
    def open(
        cls,
        path: native.Path,
        num_vertices: int | None = None,
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
        node_time: DTypeLike | None = None,
        edge_id_bytes: Literal[4, 8] | None = None,
        max_snapshot_age: float | None = None,
        max_nodes: int | None = None,
        huge_pages: bool = True,
        mlock: bool = False,
        arena_memory: MemorySource | None = None,
        ids: str | None = None,
        progress: native.Progress | None = None,
    ) -> DynamicGraph:
        """Open the live graph in a directory, to write it; make one if there is none.

        ::

            graph = DynamicGraph.open("g.aegd", num_vertices=1000)   # the first time
            graph.insert_edges(src, dst)
            graph.close()
            graph = DynamicGraph.open("g.aegd")                      # all is there again

        What is committed goes into a log before readers see it, and comes back after a crash:
        wholly or not at all, in order. :meth:`merge` writes a new base and shortens the log.
        Opening reads the log into memory; the base, a graph file, stays where it is, below the
        changes. A graph that is larger than memory is made live by ``base="graph.aeg"``, which is
        never changed.

        Args:
            path: the directory.
            num_vertices: nodes of a graph that is made; of one that is there, None.
            arena_mb: as in the constructor; it may change from time to time.
            durability: ``"sync"``: a change returns when it is on disk, and only then readers see
                it. ``"batch"``: it is on disk within ``interval_ms``; :meth:`flush` waits for it.
                ``"none"``: it is on disk when the system writes it. Killing the process loses
                nothing with any of them; a crash of the system may lose the last changes with
                the last two.
            interval_ms: milliseconds from a change to its place on disk, of ``"batch"``.
            base: graph file that a new graph begins with, with all it has of nodes and edges: its
                weights (float32), times of edges and nodes (int64) and attributes. Edges keep
                their ids, and edges that are inserted get those behind. The file stays where it is,
                and must stay as it is. ``order="id"`` needs sorted lists without parallel edges.
            storage: where the lists of the base live, also of one that :meth:`merge` has written;
                see :meth:`Graph.load`.
            memory_budget: of ``storage="uring"``, as in :meth:`Graph.load`.
            layout: as in the constructor; of a graph that is there, None or what it was made with.
            order: as ``layout``.
            edge_time: as ``layout``.
            edge_weight: as ``layout``.
            edge_attrs: as ``layout``.
            node_time: as ``layout``.
            edge_id_bytes: as in the constructor; it may change from time to time. Of a graph that
                is there, None is what it was made with.
            max_snapshot_age: as in the constructor.
            max_nodes: as in the constructor.
            huge_pages: as in the constructor.
            mlock: as in the constructor.
            arena_memory: as in the constructor; it is asked for more when a merge makes the lists
                anew, and is given back what they had.
            ids: type of the keys of nodes, ``"str"``, ``"int64"``, ``"uint64"``, ``"bytes"`` or
                ``"uuid"``: each node has one, and :attr:`ids` knows them. The graph begins without
                nodes; or over a base, with those of the map of ids that lies beside it. Of a graph
                that is there, None or what it was made with.
            progress: called with (done, total).

        Raises:
            UnsupportedError: another process writes it; names its pid.
            InvalidArgumentError: it was made with other options; or there is none, and
                ``num_vertices`` is missing.
            CorruptFileError: base or log are damaged, or files are missing.
            StorageError: the directory cannot be read or written.
        """
        edges = EdgeOptions(layout, order, edge_time, edge_weight, edge_attrs, edge_id_bytes)
        return open_store(
            path,
            Opening(durability, interval_ms, base, storage, memory_budget, progress, ids),
            _Request(num_vertices, edges, node_time, max_nodes, may_be_empty=ids is not None),
            MemoryOptions(arena_mb, max_snapshot_age, huge_pages, mlock, arena_memory),
            cls.of_store,
        )

    @classmethod
    def _check_types(cls, store: LiveStore, path: native.Path) -> None:
        if list(store.kinds) != [_KIND]:
            raise InvalidArgumentError(
                f"{LiveDirectory(path).path} holds a graph of many types: attach it with "
                "DynamicHeteroGraph.attach(path)"
            )

    def go_on(self, store: LiveStore) -> None:
        """Be the graph of another store, that of the next writer."""
        super().go_on(store)
        self._kind = store.kinds[_KIND]

    @classmethod
    def from_graph(
        cls,
        graph: HomogeneousGraph,
        arena_mb: int | None = None,
        **options: Any,
    ) -> DynamicGraph:
        """Copy a graph, with its weights, times and attributes, into a live one.

        Args:
            graph: the graph; edges keep their ids, without the gaps of a live graph.
            arena_mb: as in the constructor; None: room for four times the edges of ``graph``.
            options: as in the constructor. By default ``layout`` is that of ``graph``; ``order``
                that of a live graph, else ``"time"``, which keeps the lists as they are. With
                ``order="id"`` the first of parallel edges is copied, and edges are numbered anew
                if there are any. Weights become float32, which must not change whole numbers up
                to 2^64.

        Raises:
            InvalidArgumentError: times that are floats, or what the constructor refuses; or times,
                which ``order="id"`` does not keep.
        """
        live: DynamicGraph = copied(cls, graph, arena_mb, options)
        return live

    # ---- edges -------------------------------------------------------------------------------

    def insert_edge(
        self,
        src: int,
        dst: int,
        *,
        time: Any = None,
        weight: float | None = None,
        edge_attrs: Mapping[str, ArrayLike] | None = None,
    ) -> int:
        """Insert an edge; return its id. With order "id", the id of the edge that is there already.

        Args:
            src: node that the edge starts at.
            dst: node that it ends at.
            time: its time, if the graph keeps times.
            weight: its weight, finite and not negative, if the graph keeps weights.
            edge_attrs: one row of each attribute of edges.

        Raises:
            OutOfRangeError: a node does not exist.
            InvalidArgumentError: a time, weight or attribute is missing, wrong or not kept.
            OutOfMemoryError: the arena is full; names the reader that holds most of it.
        """
        return self._store.insert_one(self._kind, src, dst, time, weight, edge_attrs)

    def insert_edges(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        *,
        time: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        edge_attrs: Mapping[str, ArrayLike] | None = None,
    ) -> Ids:
        """Insert edges, all of them in one commit; return the id of each, int64 [n].

        Args:
            src: nodes that the edges start at, integers [n].
            dst: nodes that they end at, integers [n].
            time: integers or datetimes [n], if the graph keeps times. An edge that comes late is
                put at its place in time.
            weight: numbers [n], finite and not negative, if the graph keeps weights.
            edge_attrs: rows [n, ...] of each attribute of edges.

        Raises:
            OutOfRangeError, InvalidArgumentError, OutOfMemoryError: as :meth:`insert_edge`; names
                the first position at fault. Nothing is inserted then.
        """
        return self._store.insert(self._kind, src, dst, time, weight, edge_attrs)

    def delete_edge(self, src: int, dst: int) -> int:
        """Delete all edges from ``src`` to ``dst``; return their number."""
        return self._store.delete(self._kind, [src], [dst], None)

    def delete_edges(
        self, src: ArrayLike, dst: ArrayLike, edge_ids: ArrayLike | None = None
    ) -> int:
        """Delete, for each pair, all edges between them; return the number of deleted edges.

        Pairs without an edge are left alone.

        Args:
            src: nodes that edges start at, integers [n].
            dst: nodes that they end at, integers [n].
            edge_ids: for each pair the one edge to delete, integers [n]; None: all of them.

        Raises:
            OutOfRangeError: a node or edge id does not exist; names the position.
        """
        return self._store.delete(self._kind, src, dst, edge_ids)

    # ---- nodes -------------------------------------------------------------------------------

    def add_nodes(self, count: int, **attrs: ArrayLike) -> Ids:
        """Add nodes behind the last; return their ids, int64 [count].

        Args:
            count: number of nodes.
            attrs: rows [count, ...] of each attribute of nodes: ``add_nodes(2, x=x, y=y)``.

        Raises:
            InvalidArgumentError: an attribute is missing, unknown or of another shape.
            LimitError: more than ``max_nodes``.
        """
        return self._store.add_nodes("node", count, attrs)

    def update_nodes(self, ids: ArrayLike, **attrs: ArrayLike) -> None:
        """Change rows of nodes: ``update_nodes([3, 7], x=rows)``.

        Snapshots that were taken before go on reading the rows as they were. Of a node that is
        named twice, the last row counts.

        Args:
            ids: the nodes, integers [n].
            attrs: rows [n, ...] of the attributes that change.

        Raises:
            OutOfRangeError: a node does not exist; names the position.
            InvalidArgumentError: an attribute is unknown or of another shape.
        """
        self._store.update_nodes("node", ids, attrs)

    # ---- commits -----------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Take a snapshot of the last commit: a graph that does not change."""
        return Snapshot(self._store)

    def load_features(self, path: native.Path, name: str = "x", **options: Any) -> FeatureTable:
        """Begin ``node_attrs[name]`` with the rows of a feature file, one per node.

        Args:
            path: the file.
            name: name of the attribute.
            options: see :meth:`FeatureTable.load`.
        """
        store = FeatureTable.load(path, **options)
        self.node_attrs[name] = store
        return store

    def load_edge_features(self, path: native.Path, name: str = "x", **_: Any) -> FeatureTable:
        """Refuse: edges of a live graph bring their rows when they are inserted."""
        raise UnsupportedError("edges bring their rows: insert_edges(..., edge_attrs={name: rows})")

    def to_graph(
        self,
        layout: Layout | None = None,
        *,
        path: native.Path | None = None,
        memory: int | str = MEMORY,
    ) -> Graph:
        """Copy the last commit into a static graph; see :meth:`Snapshot.to_graph`."""
        return self.snapshot().to_graph(layout, path=path, memory=memory)

    # ---- the graph as it is ------------------------------------------------------------------

    def _live(self) -> GraphParts:
        return self.snapshot()._live()

    def _label(self) -> str:
        return "the live graph"

    @property
    def num_nodes(self) -> int:
        """Number of nodes; ids are ``0 .. num_nodes - 1``."""
        return self._store.count_nodes("node", self._store.live)

    @property
    def ids(self) -> LiveIds:
        """Ids of nodes by their keys, and the way back, of a graph that was opened with ``ids=``.

        ::

            graph = DynamicGraph.open("g.aegd", ids="str")
            graph.insert_edges(graph.ids.add(["ann"]), graph.ids.add(["bob"]))
            graph.ids.lookup(["bob"])                          # array([1])
            graph.ids.keys([0])                                # ['ann']

        A key is in the commit of its node: after a crash both are there, or none.

        Raises:
            AbsentError: its nodes have no keys.
        """
        self._store.keys_of("node")
        return LiveIds(self._store, "node")

    @property
    def node_attrs(self) -> LiveAttributes:
        """Node attributes by name: features ``"x"``, labels, ..., rows as of the last commit."""
        self._store.check_open()
        return node_table(self._store, "node")

    @property
    def node_values(self) -> Mapping[str, RowSource]:
        """``node_time``, if nodes have times, as rows to gather from."""
        return live_node_values(self._store, "node")

    def _now(self) -> Snapshot:
        return self.snapshot()

    def _shown_form(self) -> str:
        return f"layout={self.layout!r}, order={self.order!r}, "


def _form(num_vertices: Any, edges: EdgeOptions, node_time: Any, max_nodes: Any) -> GraphForm:
    """Return the form of a new graph."""
    nodes = {"node": as_count(num_vertices, "num_vertices")}
    units = {} if node_time is None else {"node": read_time_dtype(node_time, "node_time")}
    return GraphForm(nodes, {_KIND: EdgeForm.read(edges)}, units, max_nodes).check_new()


class _Request(FormRequest):
    """Request for a graph of one type.

    Args:
        num_vertices: number of nodes; None: as many as there are.
        options, node_time, max_nodes: as of :class:`FormRequest`, of the only type.
        may_be_empty: a new graph without ``num_vertices`` has no nodes.
    """

    def __init__(
        self, num_vertices: Any, options: EdgeOptions, node_time: Any, max_nodes: Any, *,
        may_be_empty: bool,
    ) -> None:  # fmt: skip
        super().__init__(options, None if node_time is None else {"node": node_time}, max_nodes)
        self._num_vertices, self._may_be_empty = num_vertices, may_be_empty

    def new(self, path: native.Path) -> GraphForm:
        """Return the form of a graph that is made in a directory."""
        count = self._num_vertices
        if count is None and not self._may_be_empty:
            raise InvalidArgumentError(
                f"there is no live graph in {LiveDirectory(path).path}: give num_vertices= to make "
                "one, or base="
            )
        times = None if self._node_time is None else self._node_time["node"]
        edges = self._options.completed()
        return _form(0 if count is None else count, edges, times, self._max_nodes)

    def over(self, base: Base, progress: native.Progress | None) -> GraphForm:
        """Return the form of a graph that is made over a base of one type."""
        if len(base.edges) != 1 or len(base.num_nodes) != 1:
            raise InvalidArgumentError(
                f"{base.path} holds a graph of many types: open it with "
                "DynamicHeteroGraph.open(base=)"
            )
        form, count = self._over(base, ["node"], [_KIND], progress), self._num_vertices
        if count is not None and count != form.num_nodes["node"]:
            raise InvalidArgumentError(
                f"num_vertices = {count}, but {base.path} has {form.num_nodes['node']} nodes: "
                "leave it out; add_nodes() adds more"
            )
        return form

    def same(self, form: GraphForm, path: native.Path) -> GraphForm:
        """Return the form of the graph that is there, with edge ids as they are asked for."""
        if list(form.num_nodes) != ["node"]:
            raise InvalidArgumentError(
                f"{LiveDirectory(path).path} holds a graph of many types: open it with "
                "DynamicHeteroGraph.open(path)"
            )
        check_same_count(self._num_vertices, form.num_nodes["node"], "num_vertices")
        return self._same(form, {_KIND: self._options})
