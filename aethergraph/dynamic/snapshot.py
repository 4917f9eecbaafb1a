"""Snapshots: a graph that changes, as it was at one commit, with the members of any graph."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import shown
from aethergraph.dynamic.attrs import NodesOfSource, SnapshotRows
from aethergraph.dynamic.edge_types import EdgeKind
from aethergraph.dynamic.edges import SnapshotEdgeQueries
from aethergraph.dynamic.forms import EDGE_ID
from aethergraph.dynamic.keys import NodeIds, saving_keys
from aethergraph.dynamic.merge import MEMORY, SnapshotParts, write_base
from aethergraph.dynamic.store import LiveStore
from aethergraph.dynamic.watermarks import cap_times
from aethergraph.errors import ClosedError, InvalidArgumentError, UnsupportedError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.attributes import AttributeTable
from aethergraph.graph.base import StoredGraph
from aethergraph.graph.graph import Graph
from aethergraph.graph.lists import Lists
from aethergraph.graph.parts import EdgeParts, GraphParts, NodeParts
from aethergraph.protocols import RowSource
from aethergraph.storage.budget import Budget

__all__ = [
    "NodeTables",
    "OneCommit",
    "PartsByType",
    "Snapshot",
    "as_store",
    "commit_before",
    "edge_rows",
    "moments",
    "fill_edges",
]

Ids = NDArray[np.int64]
P = TypeVar("P", bound=EdgeParts)
K = TypeVar("K")
V = TypeVar("V")


class NodeTables:
    """Rows of a node type as they are when a snapshot is taken; those of snapshots come later."""

    __slots__ = ("_growing", "_sources", "_times")

    def __init__(self, store: LiveStore, name: str) -> None:
        # copies are made in one step: another thread may begin an attribute
        self._growing, self._sources = store.node_rows[name].copy(), store.node_sources[name].copy()
        self._times = store.node_times.get(name)

    def fill(self, parts: NodeParts, snapshot: native.NativeSnapshot) -> None:
        """Give ``parts`` the attributes as of the commit of a snapshot."""
        count = parts.num_nodes
        rows: dict[str, RowSource] = {
            key: SnapshotRows(attr, count, snapshot) for key, attr in self._growing.items()
        }
        for key, source in self._sources.items():  # these know no commits
            rows[key] = NodesOfSource(source, lambda: count)
        parts.node_attrs = AttributeTable("node", parts.num_nodes, rows)
        if self._times is not None:
            parts.times_elsewhere = SnapshotRows(self._times.rows, count, snapshot)
            parts.time_unit = self._times.unit


class PartsByType(Mapping[K, V]):
    """Parts of a snapshot by type, each made when it is first asked for.

    Args:
        types: the types, in order.
        make: makes the parts of a type.
    """

    __slots__ = ("_made", "_make", "_types")

    def __init__(self, types: Collection[K], make: Callable[[K], V]) -> None:
        self._types, self._make = types, make
        self._made: dict[K, V] = {}

    def __getitem__(self, name: K) -> V:
        parts = self._made.get(name)
        if parts is None:
            if name not in self._types:
                raise KeyError(name)
            parts = self._made.setdefault(name, self._make(name))  # of two threads the first
        return parts

    def __contains__(self, name: object) -> bool:
        return name in self._types

    def __iter__(self) -> Iterator[K]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


def fill_edges(parts: P, kind: EdgeKind, snapshot: native.NativeSnapshot) -> P:
    """Give ``parts`` the lists and attributes of an edge type as of the commit of a snapshot."""
    end = snapshot.describe(kind.number).end_edge_ids
    rows = {name: SnapshotRows(attr, end, snapshot) for name, attr in kind.attrs.items()}
    parts.edge_attrs = AttributeTable("edge", end, rows)
    layout, number = kind.form.layout, kind.number
    if layout != "csr":
        parts.csc = Lists.adopted(snapshot.topology(number, "csc"), kind.ends)
    if layout != "csc":
        ends = None if layout == "both" else kind.ends
        parts.csr = Lists.adopted(snapshot.topology(number, "csr"), ends)
    parts.other_lists = (
        "a live graph, and its directory, keeps the layout that it was made with: make another "
        "one with layout='both'"
    )
    if kind.form.has_time:
        parts.time_unit = kind.form.time_unit
    parts.sorted_by.update(kind.sorted_by)
    return parts


def edge_rows(parts: EdgeParts, ids: Ids, end: int, renumbers: bool) -> dict[str, Any]:
    """Return the attributes of the edges ``ids``; and these, if their order does not tell them.

    Args:
        parts: the edges.
        ids: those that there are, in order.
        end: number that the ids are below.
        renumbers: the order of the ids is not that of an input.
    """
    rows: dict[str, Any] = {name: as_store(attr, ids) for name, attr in parts.edge_attrs.items()}
    if renumbers or len(ids) != end:
        rows[EDGE_ID] = ids
    return rows


def moments(times: NDArray[Any], unit: str | None) -> NDArray[Any]:
    """Return times as datetimes, if they have a unit."""
    return times if unit is None else times.view(f"datetime64[{unit}]")


def as_store(rows: RowSource, ids: Ids) -> FeatureTable:
    """Copy some rows into a store of their dtype."""
    is_bits = rows.dtype_name == "bfloat16"
    return FeatureTable.from_array(rows.gather(ids), dtype="bfloat16" if is_bits else None)


def commit_before(since: Any, now: native.NativeSnapshot) -> int:
    """Return the number of the commit that ``since=`` names, itself or by a snapshot of it.

    Raises:
        InvalidArgumentError: neither a count nor a snapshot of the graph of ``now``.
    """
    native_snapshot = getattr(since, "native_snapshot", None)
    if native_snapshot is None:
        return as_count(since, "since")
    if native_snapshot.live is not now.live:
        raise InvalidArgumentError("since is a snapshot of another graph")
    if native_snapshot.store.memory_name != now.store.memory_name:
        raise InvalidArgumentError(
            "since is a snapshot of what another process wrote before; the one that writes now "
            "counts its commits anew: take all nodes for changed"
        )
    return int(native_snapshot.commit)


def take_commit(
    store: LiveStore, snapshot: native.NativeSnapshot | None
) -> tuple[LiveStore, native.NativeSnapshot, int | None]:
    """Return a native snapshot, that which is given or one of now, its store and its watermark.

    One that was taken earlier, perhaps by a block of ``reading()``, keeps the watermark of then.
    """
    while True:
        now = store.watermark.time  # before the commit, which has what it speaks of
        native_snapshot = store.live.take() if snapshot is None else snapshot
        if native_snapshot.store is store or snapshot is not None:
            break
        # A reader went on with the next writer, or is in a block from before.
        store = native_snapshot.store
    if native_snapshot.watermark is None:
        native_snapshot.watermark = (now,)
    return native_snapshot.store, native_snapshot, native_snapshot.watermark[0]


class OneCommit:
    """Base of snapshots of one type and of many: their commit, and how it is written to a file."""

    _store: LiveStore
    _commit: int
    _watermark: int | None

    @property
    def renumbers_edges(self) -> bool:
        """True if the first edges have ids of a file; see :attr:`LiveState.renumbers_edges`."""
        return self._store.renumbers_edges

    @property
    def commit(self) -> int:
        """Number of the commit that this is."""
        return self._commit

    @property
    def is_last(self) -> bool:
        """True while no commit has followed it."""
        now = self.native_snapshot
        return now.live.is_last(now)

    @property
    def watermark(self) -> int | None:
        """:attr:`DynamicGraph.watermark` as of this commit, at least: it has all edges up to it."""
        return self._watermark

    @property
    def time_zone(self) -> str | None:
        """Time zone of the times of edges; as :attr:`DynamicGraph.time_zone`."""
        return self._store.time_zone

    def cap(self, times: ArrayLike) -> NDArray[Any]:
        """Return times of seeds, none of them beyond the watermark; as :meth:`DynamicGraph.cap`.

        Raises:
            InvalidArgumentError: there was no watermark yet.
        """
        return cap_times(times, self._watermark, self._store.time_unit)

    @property
    @abstractmethod
    def native_snapshot(self) -> native.NativeSnapshot:
        """Native snapshot that the lists are of."""

    @property
    def lsn(self) -> int:
        """Number in the log of the last commit that this has; 0: the graph has no log, or none yet.

        :class:`aethergraph.dynamic.History` finds the graph as of this commit again.
        """
        return self.native_snapshot.lsn

    @abstractmethod
    def stored_parts(self) -> SnapshotParts:
        """Return what :meth:`save` writes."""

    def save(
        self,
        path: native.Path,
        *,
        compress: bool | None = None,
        attrs: bool = True,
        memory: int | str = MEMORY,
        progress: native.Progress | None = None,
    ) -> None:
        """Write the snapshot into a graph file, without a copy of it in memory.

        The file is that of ``to_graph().save(path)``, and appears complete and at once, or not at
        all. Reads and writes of the live graph go on meanwhile. Edge types may have lists of
        different kinds, which ``to_graph()`` refuses. The keys of nodes that have some are in files
        beside it, ``g.node.ids`` beside ``g.aeg``: ``Graph.load("g.aeg").ids`` finds them. A file
        there that was made by hand, or with another graph, is not replaced. Of a graph in a
        directory the file says which commit it is.

        Args:
            path: the file to write, by convention ``*.aeg``.
            compress: store the neighbours in compressed blocks, as :meth:`Graph.save` says.
            attrs: write ``node_attrs`` and ``edge_attrs`` as well.
            memory: bytes for buffers, or a text such as ``"1G"``. With layout "both" and more than
                about 45 million edges for 256M, scratch files of up to 24 bytes per edge are
                beside ``path`` meanwhile.
            progress: called with (done, total).

        Raises:
            InvalidArgumentError: too little memory; names the least.
            DiskFullError, StorageError: the file cannot be written, or a file beside it would
                replace one that was not made with the graph there.
            SnapshotExpiredError: the snapshot was held too long.
        """
        self._store.check_not_base(path)
        parts, keys = self.stored_parts(), self._store.keys
        counts = {name: parts.nodes[name].num_nodes for name in keys}
        graph = self._store.uuid
        with saving_keys(native.encode_path(path)[0], keys, counts, memory) as fingerprints:
            write_base(
                parts, path, memory=memory, compress=compress, attrs=attrs, beside=fingerprints,
                commit=None if graph is None else (graph, self.lsn), progress=progress,
            )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        raise UnsupportedError(
            "a snapshot does not pickle, as its commit lives in this process: give the live graph "
            "to spawned workers, or fork them"
        )


class Snapshot(SnapshotEdgeQueries, OneCommit, StoredGraph):
    """A live graph as it was at one commit: every query, sampler, loader and adapter takes it.

    ::

        with graph.snapshot() as now:
            sub = NeighborSampler(now, [15, 10]).sample(seeds, key=7)
            x = now.features.gather(sub.node)          # rows of the same commit

    It does not change, whatever the writer does. It keeps old versions of what has changed since,
    until it is closed or collected. Edge ids are the numbers under which edges were inserted;
    where edges were deleted, numbers are missing. Forked children share a snapshot. It does not
    pickle, as its commit lives in this process.
    """

    _ATTACH = ".node_attrs[{0!r}] = ... or .edge_attrs[{0!r}] = ..."

    def __init__(self, store: LiveStore, snapshot: native.NativeSnapshot | None = None) -> None:
        store, native_snapshot, self._watermark = take_commit(store, snapshot)
        (kind,) = store.kinds.values()
        numbers = native_snapshot.describe(kind.number)
        self._store, self._kind = store, kind
        self._taken: native.NativeSnapshot | None = native_snapshot
        self._tables = NodeTables(store, kind.name[0])
        self._parts = None
        self._num_nodes, self._num_edges = numbers.num_src, numbers.num_edges
        self._commit = native_snapshot.commit
        self._path, self._storage = None, "live"
        self._paging = None if store.base is None else store.base.paging

    @property
    def ids(self) -> NodeIds:
        """Ids of nodes by their keys, and the way back, as of this commit.

        Raises:
            AbsentError: the nodes have no keys; see :attr:`DynamicGraph.ids`.
        """
        _ = self.native_snapshot  # ClosedError
        node_type = self._kind.name[0]
        self._store.keys_of(node_type)
        return NodeIds(self._store, node_type, self._num_nodes)

    @property
    def native_snapshot(self) -> native.NativeSnapshot:
        """Native snapshot that the lists are of."""
        if self._taken is None:
            raise ClosedError(f"{self._label()} was closed")
        return self._taken

    def _live(self) -> GraphParts:
        """Return the parts, which are made when they are first asked for."""
        parts = self._parts
        if parts is None:
            native_snapshot = self.native_snapshot
            parts = GraphParts(self._num_nodes, self._num_edges)
            self._tables.fill(parts, native_snapshot)
            self._parts = fill_edges(parts, self._kind, native_snapshot)
        return parts

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._taken is None

    def close(self) -> None:
        """Let go of the commit; using the snapshot afterwards raises ClosedError."""
        self._parts = self._taken = None

    def __enter__(self) -> Snapshot:
        _ = self.native_snapshot  # ClosedError
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _label(self) -> str:
        return f"the snapshot of commit {self._commit}"

    def _guard(self) -> None:
        return None

    def changed(self, since: int | Snapshot, hops: int = 1) -> Ids:
        """Find the nodes whose sampled neighbourhood may differ from that of an earlier commit.

        For refreshing what was computed from neighbourhoods, such as embeddings::

            stale = now.changed(since=before, hops=2)
            embeddings[stale] = model(...)

        These are the nodes from which ``hops`` hops of sampling reach a list of in-edges that was
        changed since. Changes of rows do not count.

        Args:
            since: a snapshot that was taken earlier, or the number of its commit.
            hops: hops of the samples; more than 1 needs out-neighbours (layout "both").

        Returns:
            Node ids, int64, ascending.

        Raises:
            OutOfRangeError: the commit is after this one.
            LayoutError: in-neighbours are not stored, or out-neighbours for more than one hop.
        """
        number = commit_before(since, self.native_snapshot)
        parts = self._live()
        self._in_lists(parts)
        changed = self.native_snapshot.changed(self._kind.number, "csc", number)
        front = changed
        for _ in range(1, as_count(hops, "hops")):
            if not len(front):
                break
            out = self._out_lists(parts).topology.neighbors(front)[0]
            front = np.setdiff1d(out, changed)
            changed = np.union1d(changed, front)
        return changed if hops else changed[:0]

    def to_graph(
        self, layout: Any = None, *, path: native.Path | None = None, memory: int | str = MEMORY
    ) -> Graph:
        """Copy the snapshot into a static graph, in memory, or in a file that is opened.

        The lists are in the same order, so the same key draws the same neighbours.
        ``graph.edge_order`` has the place of each edge among those that there are, by id; that is
        its id here, unless edges were deleted: then ``graph.edge_attrs["edge_id"]`` has the ids.
        So it has of a live graph over a file, whose ids are not in the order of an input, and
        ``graph.edge_order`` is None. Attributes come along.

        Args:
            layout: ``"csc"``, ``"csr"`` or ``"both"``; None: as here.
            path: graph file to write the copy to, as :meth:`save` does, and to open; layout is as
                here then.
            memory: bytes for buffers if there is a path.
        """
        if path is not None:
            self._check_own_layout(layout)
            self.save(path, memory=memory)
            return Graph.load(path)
        Budget.parse(memory, "memory")
        parts = self._live()
        src, dst, ids = self.edge_list()
        values = {n: rows.gather(ids) for n, rows in self.edge_values.items()}
        nodes = np.arange(self._num_nodes)
        values |= {n: rows.gather(nodes) for n, rows in self.node_values.items()}
        for name in values.keys() & {"edge_time", "node_time"}:
            values[name] = moments(values[name], self.time_unit)
        graph = Graph.from_edges(
            self._num_nodes, src, dst, edge_weight=values.get("edge_weight"),
            edge_time=values.get("edge_time"), node_time=values.get("node_time"),
            edge_attrs=edge_rows(parts, ids, self.end_edge_ids, self.renumbers_edges),
            layout=parts.layout if layout is None else layout,
            keep_order=not self.renumbers_edges, sort_neighbors=self._kind.form.order == "id",
        )  # fmt: skip
        for name, rows in parts.node_attrs.items():
            graph.node_attrs[name] = as_store(rows, nodes)
        return graph

    def _check_own_layout(self, layout: Any) -> None:
        if layout not in (None, self.layout):
            raise InvalidArgumentError(
                f"layout = {shown(layout)}: a copy in a file has the lists of the live graph, "
                f"{self.layout!r}; leave layout out, or path"
            )

    def stored_parts(self) -> SnapshotParts:
        """Return what :meth:`save` writes."""
        parts = self._live()
        nodes = {self._kind.name[0]: parts}
        return SnapshotParts(
            nodes, [(self._kind, parts)], self.native_snapshot, self.time_zone,
            self.renumbers_edges,
        )  # fmt: skip

    @property
    def order(self) -> str:
        """Order of the lists: ``"id"`` or ``"time"``."""
        return self._kind.form.order

    def __repr__(self) -> str:
        if self._taken is None:
            return f"Snapshot(commit={self._commit}, closed)"
        return (
            f"Snapshot(commit={self._commit}, num_nodes={self._num_nodes}, "
            f"num_edges={self._num_edges}, layout={self.layout!r})"
        )
