"""Questions, by hand, about nodes and edges of a live graph of one type, as of the last commit.

::

    graph.degree(7)  ──>  the core looks at one relation of the last commit       a microsecond
                     └──> a snapshot, where the core says so: in blocks of reading(), in readers of
                          a writer's graph, over a base, and for the message of an error
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph.dynamic.state import MOST_NODES
from aethergraph.graph.adjacency import EdgeQueries

if TYPE_CHECKING:
    from aethergraph.dynamic.edge_types import EdgeKind
    from aethergraph.dynamic.snapshot import Snapshot
    from aethergraph.dynamic.store import LiveStore

__all__ = ["Questions"]

Ids = NDArray[np.int64]


class Questions(EdgeQueries):
    """Questions about single nodes and edges of a live graph."""

    _store: LiveStore
    _kind: EdgeKind

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return the last commit, to hold on to."""

    def degree(self, node: int) -> int:
        """Return the number of edges that start at ``node`` (layout "csc": that end there)."""
        live = self._store.live.asked
        if live is not None and _is_plain(node):
            layout: Literal["csc", "csr"] = "csc" if self._kind.form.layout == "csc" else "csr"
            length = native.degree_now(live, self._kind.number, layout, node)
            if length is not None:
                return length
        return self.snapshot().degree(node)

    def neighbors(self, node: int) -> Ids:
        """Return the destinations of the edges that start at ``node``, int64, in their order.

        Raises:
            LayoutError: layout is "csc".
            OutOfRangeError: the node does not exist.
        """
        ids = self._ids_in_list("csr", node)
        return self.snapshot().neighbors(node) if ids is None else ids

    def in_neighbors(self, node: int) -> Ids:
        """Return the sources of the edges that end at ``node``, int64, in their order.

        Raises:
            LayoutError: layout is "csr".
            OutOfRangeError: the node does not exist.
        """
        ids = self._ids_in_list("csc", node)
        return self.snapshot().in_neighbors(node) if ids is None else ids

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
        return self.snapshot().has_edge(u, v)

    def has_edges(self, u: ArrayLike, v: ArrayLike) -> NDArray[np.bool_]:
        """Return whether there is an edge from ``u[i]`` to ``v[i]``, bool [n]."""
        return self.snapshot().has_edges(u, v)


def _is_plain(node: Any) -> bool:
    """Return whether a node may be one; others have an error to be told."""
    return type(node) is int and 0 <= node <= MOST_NODES
