"""Ends of edges by edge id, kept from snapshot to snapshot of a live graph.

The lists know an edge by its ends, and nothing knows the ends of an edge id. What was read once
holds for ever: an id is given to one edge. So only lists that have changed since are read again,
and of them only the edges that are new.
"""

from __future__ import annotations

import os
import threading
import weakref

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.errors import UnsupportedError

__all__ = ["EndsById"]

Ids = NDArray[np.int64]

#: Entries of deleted edges that may be kept, beside as many as there are edges.
_SLACK = 1 << 20

_tables: weakref.WeakSet[EndsById] = weakref.WeakSet()


def _begin_anew() -> None:
    """Empty the tables of a forked child: a thread of the parent may have been at work in one."""
    for table in list(_tables):
        table._lock = threading.Lock()
        table._forget()


os.register_at_fork(after_in_child=_begin_anew)


class EndsById:
    """Table (edge id, node of the list, node in the list) of one edge type, ascending by id.

    It also has edges that were deleted after they were read. Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()
        _tables.add(self)

    def _forget(self) -> None:
        self._commit = self._end = self._count = 0
        self._table = np.empty((3, 0), np.int64)
        #: Commit and table of an older snapshot that was asked for last.
        self._before: tuple[int, NDArray[np.int64]] | None = None

    def known(self, topology: native.NativeTopology) -> tuple[Ids, Ids, Ids]:
        """Return the table with all edges of the lists of a snapshot, and perhaps others.

        Args:
            topology: lists of a snapshot of the live graph, always those of the same layout.
        """
        assert isinstance(topology, native.SnapshotTopology)
        with self._lock:
            commit = topology.snapshot.commit
            if commit < self._commit:
                return self._known_before(topology, commit)
            if commit > self._commit:
                if self._count > 2 * topology.num_edges + _SLACK:
                    self._forget()
                self._read(topology)
            ids, major, minor = self._table[:, : self._count]
            return ids, major, minor

    def _known_before(self, topology: native.SnapshotTopology, commit: int) -> tuple[Ids, Ids, Ids]:
        """Return the table of a snapshot that is older than what was read.

        It may have edges that were deleted before anybody asked.
        """
        if self._before is None or self._before[0] != commit:
            ends = EndsById()
            ends._read(topology)
            self._before = commit, ends._table[:, : ends._count]
        ids, major, minor = self._before[1]
        return ids, major, minor

    def _read(self, topology: native.SnapshotTopology) -> None:
        try:
            nodes = topology.changed(self._commit)
        except UnsupportedError:  # the graph was merged since
            nodes = np.arange(topology.num_major)
        if self._commit == 0 and topology.is_over_base:
            nodes = np.arange(topology.num_major)
        minor, edges = topology.neighbors(nodes, with_edges=True)
        assert edges is not None
        new = np.flatnonzero(edges >= self._end)
        new = new[np.argsort(edges[new], kind="stable")]
        end = self._count + len(new)
        if end > self._table.shape[1]:
            more = np.empty((3, max(end, 2 * self._count)), np.int64)
            more[:, : self._count] = self._table[:, : self._count]
            self._table = more
        # What was handed out ends before: nobody reads here yet.
        self._table[0, self._count : end] = edges[new]
        self._table[1, self._count : end] = np.repeat(nodes, topology.degrees(nodes))[new]
        self._table[2, self._count : end] = minor[new]
        self._count = end
        self._commit, self._end = topology.snapshot.commit, topology.end_edge_ids
