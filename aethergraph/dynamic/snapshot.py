"""Snapshot: one commit of a live graph of one type, a graph like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import shown
from aethergraph.dynamic.edge_types import EdgeType
from aethergraph.dynamic.edges import SnapshotEdgeQueries
from aethergraph.dynamic.hetero_snapshot import HeteroSnapshot
from aethergraph.dynamic.keys import NodeIds
from aethergraph.dynamic.merge import MEMORY
from aethergraph.dynamic.one_commit import OneCommit, as_store, copied_edges, fill_edges, moments
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.base import StoredGraph
from aethergraph.graph.graph import Graph
from aethergraph.graph.parts import EdgeParts, GraphParts, NodeParts
from aethergraph.storage.budget import Budget

__all__ = ["Snapshot"]

Ids = NDArray[np.int64]


class Snapshot(OneCommit, SnapshotEdgeQueries, StoredGraph):
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

    def _begin(self) -> None:
        (self._kind,) = self._store.kinds.values()
        numbers = self.native_snapshot.describe(self._kind.number)
        self._parts = None
        self._num_nodes, self._num_edges = numbers.num_src, numbers.num_edges

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

    def _live(self) -> GraphParts:
        """Return the parts, which are made when they are first asked for."""
        parts = self._parts
        if parts is None:
            native_snapshot = self.native_snapshot
            parts = GraphParts(self._num_nodes, self._num_edges)
            self._tables[self._kind.name[0]].fill(parts, native_snapshot)
            self._parts = fill_edges(parts, self._kind, native_snapshot)
        return parts

    def _parts_by_type(self) -> tuple[Mapping[str, NodeParts], Mapping[EdgeType, EdgeParts]]:
        parts, name = self._live(), self._kind.name
        return {name[0]: parts}, {name: parts}

    def close(self) -> None:
        """Let go of the commit; using the snapshot afterwards raises ClosedError."""
        super().close()
        self._parts = None

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
        return HeteroSnapshot.of(self).changed(since, hops)[self._kind.name[2]]

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
        parts, nodes = self._live(), np.arange(self._num_nodes)
        (src, dst), columns = copied_edges(self)
        for name, rows in self.node_values.items():
            columns[name] = moments(rows.gather(nodes), parts.time_unit)
        graph = Graph.from_edges(
            self._num_nodes, src, dst, layout=parts.layout if layout is None else layout,
            keep_order=not self.renumbers_edges, sort_neighbors=self.order == "id", **columns,
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

    def _shown_form(self) -> str:
        return f", layout={self.layout!r}"
