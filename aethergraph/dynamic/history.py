"""History: a live graph as it was at commits of its log."""

from __future__ import annotations

from typing import Any

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.forms import MemoryOptions
from aethergraph.dynamic.graph_form import GraphForm
from aethergraph.dynamic.hetero_snapshot import HeteroSnapshot
from aethergraph.dynamic.log_reader import LogReader, collect_values
from aethergraph.dynamic.opening import Opening, open_base_of, restore_keys
from aethergraph.dynamic.snapshot import Snapshot
from aethergraph.dynamic.store import LiveStore
from aethergraph.dynamic.watermarks import streams_of
from aethergraph.errors import ClosedError, CorruptFileError, MissingFileError, OutOfRangeError
from aethergraph.storage.choice import Storage

__all__ = ["History"]

_LAST = 2**63 - 1


class History:
    """Live graph in a directory, as it was at any commit since its base.

    ::

        with History("g.aegd") as history:
            then = history.at(1234)                 # as of the commit with that number in the log
            sub = NeighborSampler(then, [15, 10]).sample(seeds, key)

    The number of a commit is :attr:`Snapshot.lsn` of a snapshot of it. The commits are done again
    in memory of this object; nothing is written to the directory, where another process may write
    meanwhile. Edges have the ids that they had, and the same key draws the same samples. Rows of
    live tables (:class:`aethergraph.LiveFeatureTable`) are in no log, and are not there.

    :meth:`merge` of a live graph gives up the commits before it: what is needed of them is replayed
    before, or saved by :meth:`Snapshot.save`.

    Args:
        path: the directory.
        arena_mb: MiB of memory for the edges, as of :class:`DynamicGraph`.
        storage: where the lists of the base live; see :meth:`Graph.load`.
        memory_budget: of ``storage="uring"``.

    Raises:
        MissingFileError: there is no live graph.
        StorageError, CorruptFileError: its files cannot be read, or are damaged.
    """

    def __init__(
        self,
        path: native.Path,
        arena_mb: int = 1024,
        *,
        storage: Storage = "mmap",
        memory_budget: int | str | None = None,
    ) -> None:
        self._directory = LiveDirectory(path)
        self._arena_mb = arena_mb
        self._how = Opening("none", 1, None, storage, memory_budget, None)
        self._store: LiveStore | None = None
        self._closed = False
        self._begin()

    @property
    def first(self) -> int:
        """Number of the first commit that can be asked for: that of the base, or 0, the beginning.

        Greater once the graph is merged, and opened here anew.
        """
        return self._first

    @property
    def streams(self) -> dict[str, dict[int, int]]:
        """Number of the next record of each partition, by the name of the stream.

        What :meth:`DynamicGraph.offsets` was at the commit that was asked for last; before any,
        that of the base.
        """
        self._check_open()
        if self._store is None:
            self._begin()
        assert self._store is not None
        return streams_of(self._store.offsets)

    def last(self) -> Snapshot | HeteroSnapshot:
        """Return the graph as of the last commit in the log; good until the next call.

        Raises:
            CorruptFileError: the log is damaged.
        """
        self._check_open()
        if self._store is None:
            self._begin()
        self._go_on(_LAST)
        return self._now()

    def at(self, lsn: int) -> Snapshot | HeteroSnapshot:
        """Return the graph as of a commit; good until the next call.

        Ascending numbers are cheap, as each commit is done once; a lower one than before begins
        anew from the base.

        Args:
            lsn: number of the commit in the log.

        Raises:
            OutOfRangeError: there is no commit of this number, or it was given up by a merge.
            CorruptFileError: the log is damaged before it.
        """
        number = as_count(lsn, "lsn")
        self._check_open()
        if number < self._last or self._store is None:
            self._begin()
        if number < self._first:
            raise OutOfRangeError(
                f"lsn = {number}: the base of {self._directory.path} is of commit {self._first}, "
                "and merging gave up those before it; replay them before, or save(path) a snapshot",
                value=number,
            )
        self._go_on(number)
        if self._last != number:
            before, self._store = self._last, None
            raise OutOfRangeError(
                f"lsn = {number} is no commit of {self._directory.path}: the last one "
                f"up to it is {before}",
                value=number,
            )
        return self._now()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the history of {self._directory.path} was closed")

    def _now(self) -> Snapshot | HeteroSnapshot:
        store = self._store
        assert store is not None
        is_one = list(store.kinds) == [("node", "to", "node")]
        return Snapshot(store) if is_one else HeteroSnapshot(store)

    def close(self) -> None:
        """Release the memory; snapshots must not be used any more."""
        self._closed = True
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"at={self._last}, first={self._first}"
        return f"History({str(self._directory.path)!r}, {state})"

    def _begin(self) -> None:
        """Make the graph as of its base."""
        while True:
            current = self._directory.current()
            try:
                self._begin_from(current)
            except MissingFileError:  # a base that was merged twice meanwhile
                if self._directory.current() == current:
                    raise
            else:
                assert self._reader is not None
                if self._reader.current == current:  # else merged between two looks
                    break
        self._first = self._last = int(current["lsn"])

    def _begin_from(self, current: dict[str, Any]) -> None:
        directory = self._directory
        description = directory.description()
        form = GraphForm.from_json(description, current.get("nodes"))
        base = open_base_of(directory, form, current, self._how)
        store = LiveStore(form, MemoryOptions(self._arena_mb), base)
        store.uuid, store.replayed_path = directory.uuid.hex(), str(directory.path)
        restore_keys(store, directory, current, description.get("ids", {}), None)
        self._store, self._reader = store, LogReader(store, directory)
        store.watermark.show(store.offsets)

    def _go_on(self, until: int) -> None:
        """Do the commits up to ``until`` again."""
        store, reader = self._store, self._reader
        assert store is not None
        if until > self._last:
            live, before = store.live, store.live.take_last().commit
            reader.commit = before + 1  # of what follows the snapshot that was taken before

            def replay(task: native.Task) -> int:
                return live.replay(
                    str(self._directory.path), self._directory.uuid, self._last + 1, until,
                    reader.take_note, task,
                )  # fmt: skip

            try:
                self._last = native.run_task(replay, None, 1)
            except BaseException as error:
                self._store = None  # some commits may be done: another call begins anew
                now = self._directory.current()
                gone = isinstance(error, (CorruptFileError, MissingFileError))
                if gone and now != reader.current:
                    raise OutOfRangeError(
                        f"lsn = {until}: {self._directory.path} was merged meanwhile, which gave "
                        f"up the commits up to {now['lsn']}",
                        value=until,
                    ) from None
                raise
            for kind in store.kinds.values():
                collect_values(store, kind, before)
            store.watermark.show(store.offsets)
        elif self._last:  # what is shown has a number, also if nothing was done again
            store.live.replay(
                str(self._directory.path), self._directory.uuid, self._last + 1, self._last,
                reader.take_note,
            )  # fmt: skip
