"""HeteroSnapshot: one commit of a live typed graph, a graph like any other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph.dynamic.edge_types import EdgeKind
from aethergraph.dynamic.edges import SnapshotEdgeQueries
from aethergraph.dynamic.keys import IdsByType, NodeIds
from aethergraph.dynamic.merge import MEMORY
from aethergraph.dynamic.one_commit import (
    OneCommit,
    as_store,
    commit_before,
    copied_edges,
    moments,
)
from aethergraph.dynamic.store import LiveStore
from aethergraph.errors import UnsupportedError
from aethergraph.graph.hetero import EdgeType, HeteroGraph
from aethergraph.graph.parts import EdgeParts, NodeParts
from aethergraph.graph.views import EdgeView
from aethergraph.storage.budget import Budget

__all__ = ["HeteroSnapshot"]

Ids = NDArray[np.int64]


class HeteroSnapshot(OneCommit, HeteroGraph):
    """A live typed graph as it was at one commit of all its types; see :class:`Snapshot`."""

    def _begin(self) -> None:
        self._nodes, self._edges = super()._parts_by_type()

    def _parts_by_type(self) -> tuple[Mapping[str, NodeParts], Mapping[EdgeType, EdgeParts]]:
        return self._nodes, self._edges

    @classmethod
    def of(cls, snapshot: OneCommit) -> HeteroSnapshot:
        """Return a snapshot of one type or of many as one that is asked by types."""
        if isinstance(snapshot, cls):
            return snapshot
        return cls(snapshot._store, snapshot.native_snapshot, snapshot._tables)

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

    def close(self) -> None:
        """Let go of the commit; using the snapshot afterwards raises ClosedError."""
        super().close()
        self._nodes, self._edges = {}, {}

    def _check_open(self) -> None:
        _ = self.native_snapshot  # ClosedError

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
        since: int | OneCommit,
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
            reached: dict[str, list[Ids]] = {name: [] for name in front}
            for kind, view in zip(followed, views, strict=True):
                if len(front[kind[0]]):
                    out = view.topology("csr").neighbors(front[kind[0]])[0]
                    reached[kind[2]].append(out)
            front = {
                name: np.setdiff1d(np.concatenate([none, *ids]), changed[name])
                for name, ids in reached.items()
            }
            if not any(map(len, front.values())):
                break
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
        forms = [kind.form for kind in self._store.kinds.values()]
        orders, layouts = {form.order for form in forms}, {form.layout for form in forms}
        if len(orders) > 1 or len(layouts) > 1:
            raise UnsupportedError(
                f"a static graph has lists of one kind, this one has {sorted(orders)} and "
                f"{sorted(layouts)}"
            )
        ends, columns = {}, dict[str, Any]()
        for kind in self._edges:
            ends[kind], columns_of_kind = copied_edges(self[kind])
            for name, values in columns_of_kind.items():
                columns.setdefault(name, {})[kind] = values
        node_time = {
            name: moments(rows.gather(np.arange(part.num_nodes)), part.time_unit)
            for name, part in self._nodes.items()
            if (rows := part.times_elsewhere) is not None
        }
        graph = HeteroGraph.from_edges(
            ends, self.num_nodes, node_time=node_time, layout=layouts.pop(),
            keep_order=not self.renumbers_edges, sort_neighbors=orders == {"id"}, **columns,
        )  # fmt: skip
        for name, part in self._nodes.items():
            for attr, rows in part.node_attrs.items():
                graph[name].attrs[attr] = as_store(rows, np.arange(part.num_nodes))
        return graph


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
