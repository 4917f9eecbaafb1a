"""Edges of one type of a live graph: as of its last commit, and as of one that is held.

::

    graph.degree(7)  ──>  the core looks at one relation of the last commit       a microsecond
                     └──> a snapshot, where the core says so: in blocks of reading(), in readers of
                          a writer's graph, over a base, and for the message of an error

A graph of one type has these members itself, one of many types in ``graph[edge_type]``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_node
from aethergraph._checks.options import as_choice
from aethergraph.dynamic.attrs import LiveAttributes, SnapshotRows, edge_table, live_values
from aethergraph.dynamic.edge_types import EdgeKind
from aethergraph.dynamic.graph_form import MOST_NODES
from aethergraph.dynamic.store import LiveStore
from aethergraph.errors import LayoutError
from aethergraph.graph.adjacency import EdgeQueries
from aethergraph.protocols import Layout, RowSource

__all__ = ["LiveEdgeQueries", "SnapshotEdgeQueries"]

Ids = NDArray[np.int64]


class _QueriesOfStore(EdgeQueries):
    """Edges of one type of a store."""

    _store: LiveStore
    _kind: EdgeKind

    def _guard(self) -> None:
        return None

    @property
    def order(self) -> str:
        """Order of the lists: ``"id"`` or ``"time"``."""
        return self._kind.form.order

    def prepare_weights(self, layout: Literal["csc", "csr"] = "csc") -> None:
        """Sum up the weights of the base's long lists, if there is a base, for draws by weight."""
        self._store.prepare_weights(self._kind, layout)


class SnapshotEdgeQueries(_QueriesOfStore):
    """Edges of one type as of the commit of a snapshot."""

    @property
    @abstractmethod
    def native_snapshot(self) -> native.NativeSnapshot:
        """Native snapshot that the lists are of."""

    @property
    def end_edge_ids(self) -> int:
        """Number that all edge ids are below: the edges that were ever inserted."""
        return self.native_snapshot.describe(self._kind.number).end_edge_ids

    @property
    def edge_values(self) -> Mapping[str, RowSource]:
        """Weights and times of the edges, if they have any, as rows to gather from."""
        now, end = self.native_snapshot, self.end_edge_ids
        return {name: SnapshotRows(rows, end, now) for name, rows in self._kind.values.items()}

    def has_edge(self, u: int, v: int) -> bool:
        """Return whether there is an edge from ``u`` to ``v``."""
        parts = self._edges()
        source, target = as_node(u, parts.num_src, "u"), as_node(v, parts.num_dst, "v")
        return self.native_snapshot.has_edge(self._kind.number, source, target)

    def has_edges(self, u: ArrayLike, v: ArrayLike) -> NDArray[np.bool_]:
        """Return whether there is an edge from ``u[i]`` to ``v[i]``, bool [n].

        With order "id" it costs the logarithm of a list's length, with order "time" one pass over
        a list.

        Raises:
            OutOfRangeError: a node does not exist; names the argument and the position.
        """
        source, target = self._ends(u, v)
        return self.native_snapshot.has_edges(self._kind.number, source, target)


class LiveEdgeQueries(_QueriesOfStore):
    """Edges of one type as of the last commit."""

    #: Begin of messages that tells the edges from those of other types.
    _place = ""

    @abstractmethod
    def _now(self) -> SnapshotEdgeQueries:
        """Return the edges as of the last commit, to hold on to."""

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self._store.live.describe(self._kind.number).num_edges

    @property
    def layout(self) -> Layout:
        """Lists that are kept: ``"csc"``, ``"csr"`` or ``"both"``."""
        return self._kind.form.layout

    @property
    def sorted_by(self) -> set[tuple[str, str]]:
        """Lists that are in the order of times, and the name of these: ``("csc", "node_time")``."""
        return set(self._kind.sorted_by)

    def topology(self, layout: Literal["csc", "csr"] = "csc") -> native.NativeTopology:
        """Return the lists as of the last commit whenever a sampler uses them."""
        layout, kind = as_choice(layout, ("csc", "csr"), "layout"), self._kind
        kept = kind.form.layout
        if kept not in (layout, "both"):
            label = "in-neighbours" if layout == "csc" else "out-neighbours"
            raise LayoutError(
                f"{self._place}{label} are not stored: this graph has layout={kept!r}; make it "
                f"with layout={layout!r} or layout='both'"
            )
        return native.LiveTopology(self._store.live, kind.number, layout)

    @property
    def edge_attrs(self) -> LiveAttributes:
        """Edge attributes by name, rows by edge id, as of the last commit."""
        return edge_table(self._store, self._kind)

    @property
    def edge_values(self) -> Mapping[str, RowSource]:
        """Weights and times of the edges, if they have any, as rows to gather from."""
        return live_values(self._store, self._kind)

    # ---- questions by hand -------------------------------------------------------------------

    def degree(self, node: int) -> int:
        """Return the number of edges that start at ``node`` (layout "csc": that end there)."""
        live = self._store.live.asked
        if live is not None and _is_plain(node):
            kind = self._kind
            layout: Literal["csc", "csr"] = "csc" if kind.form.layout == "csc" else "csr"
            length = native.degree_now(live, kind.number, layout, node)
            if length is not None:
                return length
        return self._now().degree(node)

    def neighbors(self, node: int) -> Ids:
        """Return the destinations of the edges that start at ``node``, int64, in their order.

        Raises:
            LayoutError: layout is "csc".
            OutOfRangeError: the node does not exist.
        """
        ids = self._ids_in_list("csr", node)
        return self._now().neighbors(node) if ids is None else ids

    def in_neighbors(self, node: int) -> Ids:
        """Return the sources of the edges that end at ``node``, int64, in their order.

        Raises:
            LayoutError: layout is "csr".
            OutOfRangeError: the node does not exist.
        """
        ids = self._ids_in_list("csc", node)
        return self._now().in_neighbors(node) if ids is None else ids

    def _ids_in_list(self, layout: Literal["csc", "csr"], node: int) -> Ids | None:
        live = self._store.live.asked
        if live is None or not _is_plain(node):
            return None
        return native.neighbors_now(live, self._kind.number, layout, node)

    def has_edge(self, u: int, v: int) -> bool:
        """Return whether there is an edge from ``u`` to ``v``."""
        live = self._store.live.asked
        if live is not None and _is_plain(u) and _is_plain(v):
            answer = native.has_edge_now(live, self._kind.number, u, v)
            if answer is not None:
                return answer
        return self._now().has_edge(u, v)

    def has_edges(self, u: ArrayLike, v: ArrayLike) -> NDArray[np.bool_]:
        """Return whether there is an edge from ``u[i]`` to ``v[i]``, bool [n]."""
        return self._now().has_edges(u, v)


def _is_plain(node: Any) -> bool:
    """Return whether a node may be one; others have an error to be told."""
    return type(node) is int and 0 <= node <= MOST_NODES
