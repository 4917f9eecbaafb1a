"""HeteroSnapshot: one commit of a live typed graph, a graph like any other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph.dynamic.edge_types import EdgeKind
from aethergraph.dynamic.edges import SnapshotEdgeQueries
from aethergraph.dynamic.keys import IdsByType, NodeIds
from aethergraph.dynamic.merge import MEMORY, SnapshotParts
from aethergraph.dynamic.snapshot import (
    NodeTables,
    OneCommit,
    PartsByType,
    as_store,
    commit_before,
    edge_rows,
    fill_edges,
    moments,
    take_commit,
)
from aethergraph.dynamic.store import LiveStore
from aethergraph.errors import ClosedError, UnsupportedError
from aethergraph.graph.hetero import EdgeType, HeteroGraph
from aethergraph.graph.parts import EdgeParts, NodeParts
from aethergraph.graph.views import EdgeView
from aethergraph.storage.budget import Budget
from aethergraph.storage.paging import Paging

__all__ = ["HeteroSnapshot"]

Ids = NDArray[np.int64]


class HeteroSnapshot(OneCommit, HeteroGraph):
    """A live typed graph as it was at one commit of all its types; see :class:`Snapshot`."""

    def __init__(self, store: LiveStore, snapshot: native.NativeSnapshot | None = None) -> None:
        store, native_snapshot, self._watermark = take_commit(store, snapshot)
        self._store, self._taken = store, native_snapshot
        self._commit = native_snapshot.commit
        tables = {name: NodeTables(store, name) for name in store.node_rows}

        def make_nodes(name: str) -> NodeParts:
            parts = NodeParts(store.count_nodes(name, native_snapshot))
            tables[name].fill(parts, native_snapshot)
            return parts

        def make_edges(name: EdgeType) -> EdgeParts:
            kind = store.kinds[name]
            numbers = native_snapshot.describe(kind.number)
            parts = EdgeParts(numbers.num_src, numbers.num_dst, numbers.num_edges)
            return fill_edges(parts, kind, native_snapshot)

        self._nodes, self._edges = (
            PartsByType(tables, make_nodes), PartsByType(store.kinds, make_edges),
        )  # fmt: skip
        self._reader, self._closed = None, False
        self._path, self._storage = None, "live"
        self._paging = None if store.base is None else store.base.paging

    @classmethod
    def of(cls, snapshot: OneCommit) -> HeteroSnapshot:
        """Return a snapshot of one type or of many as one that is asked by types."""
        if isinstance(snapshot, cls):
            return snapshot
        return cls(snapshot._store, snapshot.native_snapshot)

    @property
    def native_snapshot(self) -> native.NativeSnapshot:
        """Native snapshot that the lists are of."""
        self._check_open()
        return self._taken

    @property
    def num_nodes(self) -> dict[str, int]:
        """Number of nodes by type."""
        now, store = self.native_snapshot, self._store
        return {name: store.count_nodes(name, now) for name in store.node_rows}

    @property
    def num_edges(self) -> dict[EdgeType, int]:
        """Number of edges by type."""
        now = self.native_snapshot
        kinds = self._store.kinds.items()
        return {name: now.describe(kind.number).num_edges for name, kind in kinds}

    @property
    def paging(self) -> Paging | None:
        """Reader of the lists of a base that stay in their file (``"uring"``); else None."""
        self._check_open()
        return self._paging

    def close(self) -> None:
        """Let go of the commit; using the snapshot afterwards raises ClosedError."""
        super().close()
        del self._taken

    def __enter__(self) -> HeteroSnapshot:
        self._check_open()
        return self

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the snapshot of commit {self._commit} was closed")

    @property
    def ids(self) -> IdsByType[NodeIds]:  # type: ignore[override]
        """Ids of nodes by their keys, by node type, as of this commit."""
        self._check_open()
        store = self._store
        counts = {name: part.num_nodes for name, part in self._nodes.items()}
        return IdsByType(store, lambda name: NodeIds(store, name, counts[name]))

    def __getitem__(self, name: Any) -> Any:
        """Return the view of a node type (a string) or an edge type (three strings)."""
        view = super().__getitem__(name)
        return view if isinstance(name, str) else SnapshotEdges(self, name)

    def changed(
        self,
        since: int | HeteroSnapshot,
        hops: int = 1,
        edge_types: Iterable[EdgeType] | None = None,
    ) -> dict[str, Ids]:
        """Find the nodes whose sampled neighbourhood may differ from that of an earlier commit.

        See :meth:`Snapshot.changed`. ::

            for name, nodes in now.changed(since=before, hops=2).items():
                embeddings[name][nodes] = model(...)

        Args:
            since: a snapshot that was taken earlier, or the number of its commit.
            hops: hops of the samples; more than 1 needs out-neighbours (layout "both").
            edge_types: the edge types that samples follow; None: all of them.

        Returns:
            Node ids by node type, int64, ascending; of every type.

        Raises:
            OutOfRangeError: the commit is after this one.
            InvalidArgumentError: an edge type does not exist, or ``since`` is of another graph.
            LayoutError: in-neighbours are not stored, or out-neighbours for more than one hop.
        """
        snapshot, count = self.native_snapshot, as_count(hops, "hops")
        number = commit_before(since, snapshot)
        followed = list(self._edges if edge_types is None else edge_types)
        views = [self[kind] for kind in followed]
        none = np.empty(0, np.int64)
        front = dict.fromkeys(self._nodes, none)
        for kind, view in zip(followed, views, strict=True):
            view.topology("csc")  # LayoutError
            changed_ids = snapshot.changed(self._store.kinds[kind].number, "csc", number)
            front[kind[2]] = np.union1d(front[kind[2]], changed_ids)
        changed = dict(front)
        for _ in range(1, count):
            reached = dict.fromkeys(self._nodes, none)
            for kind, view in zip(followed, views, strict=True):
                out = view.topology("csr").neighbors(front[kind[0]])[0]
                reached[kind[2]] = np.union1d(reached[kind[2]], out)
            front = {name: np.setdiff1d(ids, changed[name]) for name, ids in reached.items()}
            changed = {name: np.union1d(ids, front[name]) for name, ids in changed.items()}
        return changed if count else dict.fromkeys(self._nodes, none)

    def to_graph(
        self, *, path: native.Path | None = None, memory: int | str = MEMORY
    ) -> HeteroGraph:
        """Copy the snapshot into a static typed graph; see :meth:`Snapshot.to_graph`."""
        if path is not None:
            self.save(path, memory=memory)
            return HeteroGraph.load(path)
        Budget.parse(memory, "memory")
        orders = {kind.form.order for kind in self._store.kinds.values()}
        layouts = {kind.form.layout for kind in self._store.kinds.values()}
        lists = {kind: self[kind].edge_list() for kind in self._edges}
        weights: dict[EdgeType, Any] = {}
        times: dict[EdgeType, Any] = {}
        for kind, (_, _, ids) in lists.items():
            for name, rows in self[kind].edge_values.items():
                values: NDArray[Any] = rows.gather(ids)
                unit = self._edges[kind].time_unit
                if name == "edge_weight":
                    weights[kind] = values
                else:
                    times[kind] = moments(values, unit)
        node_time = {
            name: moments(rows.gather(np.arange(part.num_nodes)), part.time_unit)
            for name, part in self._nodes.items()
            if (rows := part.times_elsewhere) is not None
        }
        if len(orders) > 1 or len(layouts) > 1:
            raise UnsupportedError(
                f"a static graph has lists of one kind, this one has {sorted(orders)} and "
                f"{sorted(layouts)}"
            )
        order, layout = orders.pop(), layouts.pop()
        graph = HeteroGraph.from_edges(
            {kind: edge_list[:2] for kind, edge_list in lists.items()},
            self.num_nodes,
            edge_weight=weights,
            edge_time=times,
            node_time=node_time,
            edge_attrs={
                kind: edge_rows(
                    self._edges[kind], edge_list[2], self[kind].end_edge_ids, self.renumbers_edges
                )
                for kind, edge_list in lists.items()
            },
            layout=layout,
            keep_order=not self.renumbers_edges,
            sort_neighbors=order == "id",
        )
        for name, part_of in self._nodes.items():
            for attr, rows in part_of.node_attrs.items():
                graph[name].attrs[attr] = as_store(rows, np.arange(part_of.num_nodes))
        return graph

    def stored_parts(self) -> SnapshotParts:
        """Return what :meth:`save` writes."""
        native_snapshot = self.native_snapshot
        edges = [(self._store.kinds[name], part) for name, part in self._edges.items()]
        return SnapshotParts(
            self._nodes, edges, native_snapshot, self.time_zone, self.renumbers_edges
        )

    def __repr__(self) -> str:
        if self._closed:
            return f"HeteroSnapshot(commit={self._commit}, closed)"
        return (
            f"HeteroSnapshot(commit={self._commit}, num_nodes={self.num_nodes}, "
            f"num_edges={self.num_edges})"
        )


class SnapshotEdges(SnapshotEdgeQueries, EdgeView):
    """Edges of one type at one commit."""

    _graph: HeteroSnapshot

    @property
    def _store(self) -> LiveStore:  # type: ignore[override]
        return self._graph._store

    @property
    def _kind(self) -> EdgeKind:  # type: ignore[override]
        return self._store.kinds[self.name]

    @property
    def native_snapshot(self) -> native.NativeSnapshot:
        """Native snapshot that the lists are of."""
        return self._graph.native_snapshot
