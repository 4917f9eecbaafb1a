"""LiveGraph: what concerns a live graph as a whole, whether it has one type or many."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.options import as_flag, is_name, shown
from aethergraph._tracepoints import made, stage
from aethergraph.dynamic.attaching import attach
from aethergraph.dynamic.following import Following
from aethergraph.dynamic.merge import MEMORY
from aethergraph.dynamic.store import LiveStore
from aethergraph.dynamic.watermarks import cap_times, is_kept
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.storage.paging import Paging

__all__ = ["LiveGraph"]

L = TypeVar("L", bound="LiveGraph")


class LiveGraph:
    """Live graph of any types; base of those that show one type, and many.

    All that concerns the graph as a whole is here: how it is opened, its commits, log and numbers.
    """

    _store: LiveStore
    #: Of a reader: what it knows of the writer; None: it is the writer, or a child of its.
    _following: Following | None = None
    #: True: edges come and go.
    is_live = True
    _path: str | None = None
    _storage = "live"

    # ---- made, opened, closed ----------------------------------------------------------------

    def _begin(self, store: LiveStore) -> None:
        self.go_on(store)
        made(self)

    @classmethod
    def of_store(cls: type[L], store: LiveStore, follow: bool = False) -> L:
        """Return the graph of a store, perhaps one of another process."""
        graph = cls.__new__(cls)
        graph._begin(store)
        if not store.is_writer and store.path is not None:
            # It looks at the writer before each commit that it takes.
            graph._following = Following(store, graph.go_on if follow else None)
            store.live.check_writer = graph._following.check
        return graph

    @classmethod
    def attach(cls: type[L], path: native.Path, *, follow: bool = False) -> L:
        """Open the live graph that another process of this user has open, to read it as it changes.

        Nothing is copied. The memory stays until the last process has closed it, so a snapshot that
        is held can be read whatever becomes of the writer.

        Where the writer has closed the graph, has ended, or was followed by another one, whatever
        asks for the last commit raises WriterGoneError: the next batch, snapshot or number. It
        is looked for at most every hundredth of a second, with one stat of a file, and for a
        process that was killed every tenth. :attr:`is_current` asks without an error, and
        :meth:`stats` counts what this process has.

        Args:
            path: the directory.
            follow: go on with the next writer instead, at the first batch, snapshot or number after
                it has opened the graph; until then the last commit stays as it is. Samplers and
                loaders over the graph stay good. Numbers of commits are the writer's own: ``lsn``
                goes on. Attributes that begin later are seen, too.

        Raises:
            ClosedError: nobody has it open.
        """
        follow = as_flag(follow, "follow")
        store = attach(path)
        cls._check_types(store, path)
        return cls.of_store(store, follow)

    @classmethod
    def _check_types(cls, store: LiveStore, path: native.Path) -> None:
        """Raise unless the class can show the types of a store."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).of_store, (self._store, self.follows)

    def close(self) -> None:
        """Wait until all commits are on disk, and drop the graph's references.

        Using the graph afterwards raises ClosedError.
        """
        self._store.close()

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._store.closed

    def __enter__(self: L) -> L:
        self._store.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.closed:
            return f"{name}(closed)"
        if not self.is_current:
            return f"{name}({self._store.path}, without a writer)"
        now = self.snapshot()
        return (
            f"{name}(num_nodes={now.num_nodes}, num_edges={now.num_edges}, "
            f"{self._shown_form()}commit={now.commit})"
        )

    def _shown_form(self) -> str:
        return ""

    @property
    def paging(self) -> Paging | None:
        """Reader of the lists of a base that stay in their file (``"uring"``); else None."""
        base = self.store.base
        return None if base is None else base.paging

    @property
    def renumbers_edges(self) -> bool:
        """True if the first edges have ids of a file; see :attr:`LiveState.renumbers_edges`."""
        return self._store.renumbers_edges

    @property
    def store(self) -> LiveStore:
        """Edges and rows of all types.

        Raises:
            ClosedError: the graph was closed.
        """
        self._store.check_open()
        return self._store

    # ---- commits -----------------------------------------------------------------------------

    def transaction(self) -> AbstractContextManager[None]:
        """Make all changes of a ``with`` block one commit, or, after an exception, none of them.

        Other threads that write wait for the end of the block, which may be in another thread than
        its beginning, as of a generator. Another coroutine of this thread cannot wait without
        keeping this one from its end, and is refused.

        Raises:
            InvalidArgumentError: a transaction is open in this thread.
            UnsupportedError: this copy of the graph can only read.
        """
        return self._store.transaction()

    @abstractmethod
    def snapshot(self) -> Any:
        """Take a snapshot of the last commit: a graph that does not change."""

    def save(self, path: native.Path, **options: Any) -> None:
        """Write a static copy of the last commit to a file; see :meth:`Snapshot.save`."""
        self.snapshot().save(path, **options)

    def pinned(self) -> Any:
        """Return :meth:`snapshot`, for what must not see two commits."""
        return self.snapshot()

    def reading(self, snapshot: Any = None) -> AbstractContextManager[Any]:
        """Let this thread, or coroutine, see one commit throughout a ``with`` block.

        It sees that commit whatever it asks for, but for attributes of nodes that are assigned or
        deleted meanwhile (``graph.features = other``): these are seen at once, also by snapshots
        that are taken inside. The snapshot that the block returns keeps the rows that it has.
        Batches that it draws are of that commit, too, with the rows of their nodes and edges:
        ``with graph.reading(): for batch in loader`` holds a commit for an epoch of any loader,
        whose threads see what this one does when its first batch is asked for, as do processes that
        are forked in the block; others do not begin in it. Other threads and coroutines see what is
        last. Of blocks inside of each other the innermost counts, of those
        of generators, which take turns, the one that began last.

        Args:
            snapshot: the commit, a snapshot of this graph; None: the last one at the beginning.

        Returns:
            A context manager that returns the snapshot.

        Raises:
            InvalidArgumentError: ``snapshot`` is none, or one of another graph.
            ClosedError: it was closed.
        """
        return _Reading(self, snapshot)

    @property
    def commit(self) -> int:
        """Number of the last commit, counted since the graph was made or opened.

        Transactions that were undone count as well: as commits that change nothing.
        """
        return self._store.live.take().commit

    def stats(self) -> native.LiveStats:
        """Return the numbers of edges, bytes and readers, as of the last commit.

        Also where the writer is gone; ``is_current`` says so.
        """
        is_current = self.is_current  # first: a reader may go on with the next writer
        return self._store.live.count()._replace(is_current=is_current)

    # ---- the writer, for readers -------------------------------------------------------------

    @property
    def is_current(self) -> bool:
        """True while the process that writes what this graph has lives, and no other one does.

        False: the last commit that this graph has will stay the last; see :meth:`attach`. Of a
        graph in memory it is so once the process that made it has ended.
        """
        store = self._store
        if store.closed or store.is_writer:
            return not store.closed
        if store.path is None:
            return store.writer is None or store.writer.is_alive
        following = self._following or Following(store, None)
        return following.look(store.live) is None

    def go_on(self, store: LiveStore) -> None:
        """Be the graph of another store, that of the next writer."""
        self._store = store

    @property
    def follows(self) -> bool:
        """True: it was attached with ``follow=True``."""
        return self._following is not None and self._following.goes_on

    def reclaim(self) -> None:
        """Free now what no snapshot needs any more, which otherwise happens when there is need."""
        with self._store.writing():
            self._store.live.reclaim()

    @property
    def time_unit(self) -> str | None:
        """Unit of the times of edges and nodes, such as ``"us"``; None for plain numbers."""
        return self._store.time_unit

    @property
    def time_zone(self) -> str | None:
        """Time zone of the times of edges, ``"UTC"``, if the graph began with a file that has."""
        return self.store.time_zone

    # ---- log ---------------------------------------------------------------------------------

    @property
    def directory(self) -> str | None:
        """Directory that the graph survives in; None: it is in memory only."""
        journal = self._store.journal
        return None if journal is None else str(journal.directory.path)

    @property
    def lsn(self) -> int:
        """Number of the last commit in the log (log sequence number); 0: there is none."""
        return self._store.live.lsn

    def flush(self) -> None:
        """Wait until all commits so far are on disk. Does nothing for a graph in memory."""
        self._store.check_open()
        journal = self._store.journal
        if journal is not None:
            journal.flush()

    def merge(self, progress: native.Progress | None = None, memory: int | str = MEMORY) -> str:
        """Write the graph as of now to the next base, an ordinary graph file; return its path.

        The log before it is given up. Reads and writes go on meanwhile; another :meth:`merge` waits
        for the end. What writes replace is kept until then, as for any snapshot.

        Files of bases stay for a while: the one before the last merge is removed by the next one
        (who has it open goes on reading it), the one that the graph was opened with by the next
        open.

        Afterwards the lists are over the new base: those that had changed leave memory with the
        last snapshot from before, and only what was committed meanwhile is there. Where memory has
        no room for both, they stay, which is logged as a warning. Rows of edges that were inserted
        stay until the graph is opened again.

        A crash, or a full disk, leaves the base before, and the whole log.

        Args:
            progress: called with (done, total).
            memory: bytes for buffers, or a text such as ``"1G"``; see :meth:`Snapshot.save`.

        Raises:
            UnsupportedError: the graph has no directory, or this copy of it can only read.
            InvalidArgumentError: too little memory, and names the least; or a transaction is open
                in this thread, or ``progress`` has called this.
            DiskFullError, StorageError: the base cannot be written.
            SnapshotExpiredError: it took longer than ``max_snapshot_age``.
            OutOfMemoryError: memory for its buffers is not there.
            ClosedError: the graph was closed.
        """
        self._store.check_open()
        self._store.check_writer()
        if self._store.journal is None:
            raise UnsupportedError(
                "this live graph is in memory only: open(path) keeps one in a directory, and "
                "save(path) writes a copy"
            )
        with stage("merge"):
            path = self._store.journal.checkpoint(progress, memory)
            self._store.live.drop_former()
        return path

    def set_offset(self, source: str, partition: int, following: int) -> None:
        """Keep the number of the next record of a stream, in the same commit as its edges.

        ::

            with graph.transaction():
                graph.insert_edges(src, dst)
                graph.set_offset("clicks", 0, last + 1)

        After a crash, what was read up to :meth:`offsets` is in the graph, and nothing after it.

        Raises:
            InvalidArgumentError: ``partition`` or ``following`` is not in 0 .. 2^63 - 1.
        """
        name = _stream_name(source)
        self._store.set_offset(name, as_count(partition, "partition"), following)

    def offsets(self, source: str) -> dict[int, int]:
        """Return the number of the next record of each partition of a stream, as committed.

        Raises:
            UnsupportedError: this copy of the graph can only read; offsets are the writer's. Those
                of a graph in a directory are read by :attr:`aethergraph.dynamic.History.streams`.
        """
        self._store.check_open()
        if not self._store.is_writer:
            advice = "ask it"
            if self._store.path is not None:
                advice = (
                    "ask it, or read them in the directory: history = aethergraph.dynamic.History("
                    f"{self._store.path!r}), then history.last() and history.streams"
                )
            raise UnsupportedError(
                f"offsets are known to the process that writes the graph: {advice}"
            )
        stream, kept = _stream_name(source), self._store.offsets.items()
        return {partition: number for (name, partition), number in kept if name == stream}

    # ---- event time --------------------------------------------------------------------------

    def set_watermark(self, source: str, time: int) -> None:
        """Say that no record of a stream is expected to be older than a time, in the open commit.

        An ingestor does so by itself. The graph keeps it, as :meth:`set_offset` keeps offsets.

        Args:
            source: name of the stream.
            time: in the unit of the graph. It may be below the one before: a stream that gets
                another partition, with older records, goes back.

        Raises:
            InvalidArgumentError: it is no integer, or does not fit.
        """
        number = as_integer(time, "time", bools=False)
        if not is_kept(number):
            raise InvalidArgumentError(f"time = {number} is not in -2^62 + 1 .. 2^62 - 1")
        self._store.set_watermark(_stream_name(source), number)

    @property
    def watermark(self) -> int | None:
        """Time that no record is expected to be older than, in the graph's unit; None: unknown.

        The least watermark of the streams that edges come from. Copies of the graph in other
        processes know it, too. A snapshot that is taken after asking has all edges up to it; where
        it is taken before, ask the snapshot.
        """
        self.store.live.look()
        return self._store.watermark.time

    def cap(self, times: ArrayLike) -> NDArray[Any]:
        """Return times of seeds, none of them beyond the :attr:`watermark`.

        ::

            loader = NeighborLoader(graph, [10], input_nodes=nodes, input_time=graph.cap(times))

        Batches with such times see no edge that others may still come before, in any loader.

        Args:
            times: numbers in the graph's unit, or datetimes.

        Raises:
            InvalidArgumentError: there is no watermark yet.
        """
        return cap_times(times, self.watermark, self._store.time_unit)


def _stream_name(source: Any) -> str:
    if not is_name(source):
        raise InvalidArgumentError(f"source = {shown(source)} is no name of a stream")
    return str(source)


class _Reading(AbstractContextManager[Any]):
    """Block of :meth:`LiveGraph.reading`, for one ``with`` statement."""

    def __init__(self, graph: LiveGraph, snapshot: Any) -> None:
        self._graph, self._snapshot = graph, snapshot
        self._block: native.Reading | None = None

    def __enter__(self) -> Any:
        if self._block is not None:
            raise InvalidArgumentError(
                "this block of reading() has begun before: call reading() again for another one"
            )
        now = self._graph.snapshot() if self._snapshot is None else self._snapshot
        native_snapshot = getattr(now, "native_snapshot", None)
        live = self._graph._store.live
        if native_snapshot is None or native_snapshot.live is not live:
            label = "a snapshot of another graph" if native_snapshot is not None else shown(now)
            raise InvalidArgumentError(
                f"snapshot is {label}: give one of this graph, such as graph.snapshot()"
            )
        self._block = block = live.reading(native_snapshot)
        try:
            block.__enter__()
        except BaseException:  # Ctrl-C
            block.__exit__()
            raise
        return now

    def __exit__(self, *exception: object) -> None:
        assert self._block is not None
        self._snapshot = None
        self._block.__exit__(*exception)
