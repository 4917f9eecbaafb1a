"""Graphs that requests are answered from, one commit at a time.

::

    graph file, snapshot      the same graph for every request
    live graph                its last commit at each request
    directory of a live one   that of the process that writes it, followed when it is started again;
                              without one, the last commit in the log
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple, Protocol

from aethergraph import _native as native
from aethergraph._parallel.forks import renew_lock_in_forks
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.graph import DynamicGraph
from aethergraph.dynamic.hetero import DynamicHeteroGraph
from aethergraph.dynamic.history import History
from aethergraph.dynamic.one_commit import OneCommit
from aethergraph.errors import ClosedError, FileChangedError
from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.protocols import AnyGraph
from aethergraph.storage.live_directory import is_live_directory
from aethergraph.storage.meta import SectionTable
from aethergraph.storage.opening import open_container

__all__ = [
    "Commits",
    "Taken",
    "commit_number",
    "commits_of",
    "open_any",
    "saved_commit",
]


#: Seconds for which requests share a commit, if none follows it.
_KEPT_SECONDS = 0.1


def saved_commit(path: native.Path) -> tuple[str, int] | None:
    """Return identity of the live graph, and number of the commit, that a graph file was saved of.

    None: the file does not say.
    """
    return SectionTable(open_container(path), native.CONTENT_GRAPH).meta.commit


def open_any(path: native.Path) -> tuple[AnyGraph, str | None]:
    """Open a graph file, as a graph of one type if it has one; return it and its fingerprint."""
    graph = HeteroGraph.load(path)
    if (len(graph.node_types), len(graph.edge_types)) == (1, 1):
        return Graph.load(path), graph.fingerprint
    return graph, graph.fingerprint


class Taken(NamedTuple):
    """Graph to answer from.

    Attributes:
        graph: what the sampler is over.
        now: one commit of it.
        number: number of the commit, as :func:`commit_number` has it; 0 also if it is none.
        shared: what answers from this commit have in common, by names of whoever answers.
    """

    graph: Any
    now: Any
    number: int
    shared: dict[Any, Any]


class Commits(Protocol):
    """Commits of a graph."""

    identity: str | None
    #: True if there may be further ones.
    is_live: bool

    def take(self, anew: bool = False) -> Taken:
        """Return the last commit, which several may share.

        While another one reads the log that a writer has left, it is the commit before.

        Args:
            anew: take one for the caller alone, and wait for whoever reads the log.

        Raises:
            FileChangedError: the directory of the graph holds another one now.
        """


class _Fixed:
    """Graph that does not change."""

    is_live = False

    def __init__(self, graph: Any, identity: str | None) -> None:
        self.identity = identity
        self._taken = Taken(graph, graph, commit_number(graph) or 0, {})

    def take(self, anew: bool = False) -> Taken:
        return self._taken


class _Live:
    """Live graph of this process."""

    is_live = True

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self.identity: str | None = graph.store.uuid

    def take(self, anew: bool = False) -> Taken:
        now = self._graph.snapshot()
        return Taken(self._graph, now, commit_number(now) or 0, {})


class _Kept:
    """Commit that requests share which come within a moment, and that is given up after it.

    To take a snapshot costs as much as to draw from it. But one that was kept for longer would keep
    old versions in the memory of the process that writes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_lock_in_forks(self)
        self._taken: Taken | None = None
        self._since = 0.0
        self._watcher: threading.Thread | None = None

    def last_of(self, graph: Any) -> Taken | None:
        """Return what is kept, if it is the last commit of a graph; else None."""
        commit, watcher = self._taken, self._watcher
        if watcher is None or not watcher.is_alive():  # in a forked child nobody gives it up
            return None
        if commit is None or commit.graph is not graph or not commit.now.is_last:
            return None
        return commit if time.monotonic() - self._since < _KEPT_SECONDS else None

    def put(self, commit: Taken) -> Taken:
        """Keep a commit, in the place of the one before; return it."""
        with self._lock:
            if self._watcher is None or not self._watcher.is_alive():  # forked children have none
                watcher = threading.Thread(
                    target=self._watch, daemon=True, name="aethergraph commit"
                )
                try:
                    watcher.start()
                except RuntimeError:  # no further thread: nobody would give the commit up
                    return commit
                self._watcher = watcher
            self._taken, self._since = commit, time.monotonic()
        return commit

    def _watch(self) -> None:
        while True:
            time.sleep(_KEPT_SECONDS)
            with self._lock:
                if time.monotonic() - self._since >= _KEPT_SECONDS:
                    self._taken = self._watcher = None
                    return


class _Directory:
    """Live graph in a directory, which another process may write."""

    is_live = True

    def __init__(self, path: native.Path) -> None:
        self._directory = LiveDirectory(path)
        self.identity: str | None = self._directory.uuid.hex()
        self._lock = threading.Lock()
        renew_lock_in_forks(self)
        self._seen: tuple[int, int] | None = None
        #: Graph of the process that writes, or wrote last; or the last commit in the log.
        self._held: Any = None
        self._kept = _Kept()
        self._reads_log = False
        self._look()

    def take(self, anew: bool = False) -> Taken:
        # While one request reads the log, the others are answered from what is held.
        waits = anew or not self._reads_log
        if self._state() != self._seen and self._lock.acquire(blocking=waits):
            try:
                self._look()
            finally:
                self._lock.release()
        source = self._held
        if isinstance(source, Taken):
            return source
        kept = None if anew else self._kept.last_of(source)
        if kept is not None:
            return kept
        now = source.snapshot()
        return self._kept.put(Taken(source, now, now.lsn, {}))

    def _state(self) -> tuple[int, int] | None:
        """Return what differs for each process that writes, and after it."""
        return self._directory.published() or self._directory.closed()

    def _look(self) -> None:
        """Hold the graph of the process that writes; without one, the last commit."""
        seen = self._state()
        if self._held is not None and seen in (self._seen, None):  # None: it is being moved
            return
        identity = self._directory.uuid.hex()
        if identity != self.identity:
            raise FileChangedError(
                f"{self._directory.path} holds another live graph ({identity}) than when the "
                f"server was started ({self.identity}): start it again, or put that one back"
            )
        if not self._attach() and not self._has_last():
            self._reads_log = True
            try:
                then = History(self._directory.path).last()
            finally:
                self._reads_log = False
            self._held = Taken(then, then, then.lsn, {})
        self._seen = seen

    def _attach(self) -> bool:
        """Hold the graph of the process that writes; return whether there is one."""
        if self._held is not None and not isinstance(self._held, Taken):
            return bool(self._held.is_current)  # it follows
        typed = list(self._directory.description()["num_nodes"]) != ["node"]
        kind: Any = DynamicHeteroGraph if typed else DynamicGraph
        try:
            self._held = kind.attach(self._directory.path, follow=True)
        except ClosedError:
            return False
        return True

    def _has_last(self) -> bool:
        """Return whether what is held is of the last commit, as far as whoever closed it said."""
        graph = self._held.now if isinstance(self._held, Taken) else self._held
        if graph is None or self._directory.published() is not None:  # one that did not close it
            return False
        return bool(graph.lsn == self._directory.current().get("closed"))


def commit_number(graph: Any) -> int | None:
    """Return the number of the commit that a graph is: in the log, or in memory; None: it is none.

    Of a graph with a log it is that in the log also before the first one, which then is 0: its
    number in memory is that of another commit there.
    """
    if isinstance(graph, OneCommit):
        return graph.commit if graph._store.uuid is None else graph.lsn
    lsn: int | None = getattr(getattr(graph, "source", None), "lsn", None)  # a server has it
    return lsn


def commits_of(graph: Any) -> Commits:
    """Return the commits of a graph of any kind, or of the file or directory at a path."""
    if getattr(graph, "is_live", False):
        return _Live(graph)
    if isinstance(graph, AnyGraph):
        return _Fixed(graph, getattr(graph, "fingerprint", None) or None)
    if is_live_directory(graph):
        return _Directory(graph)
    return _Fixed(*open_any(graph))
