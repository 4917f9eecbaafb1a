"""OneCommit: a live graph as it was at one commit, whether it shows one type or many."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph.dynamic.attrs import NodesOfSource, SnapshotRows
from aethergraph.dynamic.edge_types import EdgeKind, EdgeType
from aethergraph.dynamic.edges import SnapshotEdgeQueries
from aethergraph.dynamic.forms import EDGE_ID
from aethergraph.dynamic.growing_keys import saving_keys
from aethergraph.dynamic.merge import MEMORY, SnapshotParts, write_base
from aethergraph.dynamic.store import LiveStore
from aethergraph.dynamic.watermarks import cap_times
from aethergraph.errors import ClosedError, InvalidArgumentError, UnsupportedError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.attributes import AttributeTable
from aethergraph.graph.lists import Lists
from aethergraph.graph.parts import EdgeParts, NodeParts
from aethergraph.protocols import RowSource
from aethergraph.storage.paging import Paging

__all__ = ["OneCommit", "as_store", "commit_before", "copied_edges", "fill_edges", "moments"]

Ids = NDArray[np.int64]
P = TypeVar("P", bound=EdgeParts)
S = TypeVar("S", bound="OneCommit")
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


def copied_edges(edges: SnapshotEdgeQueries) -> tuple[tuple[Ids, Ids], dict[str, Any]]:
    """Return the ends of all edges by id, and their columns: arguments of ``from_edges``."""
    src, dst, ids = edges.edge_list()
    attrs: dict[str, Any] = {name: as_store(attr, ids) for name, attr in edges.edge_attrs.items()}
    if edges._store.renumbers_edges or len(ids) != edges.end_edge_ids:
        attrs[EDGE_ID] = ids  # else their order tells the ids
    columns = {name: rows.gather(ids) for name, rows in edges.edge_values.items()}
    if "edge_time" in columns:
        columns["edge_time"] = moments(columns["edge_time"], edges._kind.form.time_unit)
    return (src, dst), {"edge_attrs": attrs, **columns}


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


class OneCommit:
    """Snapshot of any types; base of those that show one type, and many.

    One that is taken earlier, perhaps by a block of ``reading()``, keeps the watermark of then.

    Args:
        store: the store of the graph.
        snapshot: the native snapshot; None: one of now.
        tables: rows of nodes as they were when it was taken; None: it is taken now.
    """

    _path: str | None = None
    _storage = "live"
    num_nodes: Any
    num_edges: Any

    def __init__(
        self,
        store: LiveStore,
        snapshot: native.NativeSnapshot | None = None,
        tables: Mapping[str, NodeTables] | None = None,
    ) -> None:
        while True:
            watermark = store.watermark.time  # before the commit, which has what it speaks of
            now = store.live.take() if snapshot is None else snapshot
            if now.store is store or snapshot is not None:
                break
            # A reader went on with the next writer, or is in a block from before.
            store = now.store
        if now.watermark is None:
            now.watermark = (watermark,)
        self._store: LiveStore = now.store
        self._taken: native.NativeSnapshot | None = now
        self._commit, self._watermark = now.commit, now.watermark[0]
        store = self._store
        self._tables = tables or {name: NodeTables(store, name) for name in store.node_rows}
        base = store.base
        self._paging = None if base is None else base.paging
        self._begin()

    def _begin(self) -> None:
        """Take what is not to be looked up later."""

    @property
    def native_snapshot(self) -> native.NativeSnapshot:
        """Native snapshot that the lists are of."""
        if self._taken is None:
            raise ClosedError(f"{self._label()} was closed")
        return self._taken

    def _label(self) -> str:
        return f"the snapshot of commit {self._commit}"

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._taken is None

    def close(self) -> None:
        """Let go of the commit; using the snapshot afterwards raises ClosedError."""
        self._taken = None

    def __enter__(self: S) -> S:
        _ = self.native_snapshot  # ClosedError
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = f"{type(self).__name__}(commit={self._commit}"
        if self.closed:
            return f"{name}, closed)"
        counts = f"num_nodes={self.num_nodes}, num_edges={self.num_edges}"
        return f"{name}, {counts}{self._shown_form()})"

    def _shown_form(self) -> str:
        return ""

    @property
    def paging(self) -> Paging | None:
        """Reader of the lists of a base that stay in their file (``"uring"``); else None."""
        _ = self.native_snapshot  # ClosedError
        return self._paging

    def _parts_by_type(self) -> tuple[Mapping[str, NodeParts], Mapping[EdgeType, EdgeParts]]:
        """Return nodes and edges by type, which do not keep this object."""
        store, now, tables = self._store, self.native_snapshot, self._tables

        def make_nodes(name: str) -> NodeParts:
            parts = NodeParts(store.count_nodes(name, now))
            tables[name].fill(parts, now)
            return parts

        def make_edges(name: EdgeType) -> EdgeParts:
            numbers = now.describe(store.kinds[name].number)
            parts = EdgeParts(numbers.num_src, numbers.num_dst, numbers.num_edges)
            return fill_edges(parts, store.kinds[name], now)

        return PartsByType(tables, make_nodes), PartsByType(store.kinds, make_edges)

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
    def lsn(self) -> int:
        """Number in the log of the last commit that this has; 0: the graph has no log, or none yet.

        :class:`aethergraph.dynamic.History` finds the graph as of this commit again.
        """
        return self.native_snapshot.lsn

    def stored_parts(self) -> SnapshotParts:
        """Return what :meth:`save` writes."""
        nodes, edges = self._parts_by_type()
        kinds = self._store.kinds
        return SnapshotParts(
            nodes, [(kinds[name], part) for name, part in edges.items()], self.native_snapshot,
            self.time_zone, self.renumbers_edges,
        )  # fmt: skip

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
