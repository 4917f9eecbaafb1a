"""Journal: the log of a live graph in its directory, and the bases that shorten it.

Opening a graph is: the base, which stays where it is, then the commits since, which
:class:`LogReader` takes, then weights and times by edge id, which come from the lists.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.dynamic.base_graph import Base
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.edge_types import EdgeKind
from aethergraph.dynamic.growing_keys import GrowingKeys
from aethergraph.dynamic.log_reader import LogReader, Note, collect_values, pack
from aethergraph.dynamic.merge import MEMORY, write_base
from aethergraph.dynamic.one_commit import OneCommit
from aethergraph.dynamic.rows import GrowingRows
from aethergraph.dynamic.store import LiveStore
from aethergraph.errors import (
    AetherError,
    CorruptFileError,
    InvalidArgumentError,
    StorageError,
    UnsupportedError,
)
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.files import save_rows
from aethergraph.graph.beside import fingerprint_of
from aethergraph.graph.id_files import ids_path
from aethergraph.protocols import RowSource
from aethergraph.storage.choice import Storage, log
from aethergraph.storage.scratch import storage_error

__all__ = ["Journal"]

Ids = NDArray[np.int64]


class Journal(LogReader):
    """Log of the changes of a live graph, in its directory.

    Args:
        store: the graph, new and empty.
        directory: its directory, which this process writes.
        durability: ``"sync"``, ``"batch"`` or ``"none"``.
        interval_ms: of ``"batch"``, the time from a commit to its place on disk.
        storage: where the lists of coming bases live.
        memory_budget: of ``storage="uring"``.
        progress: called with (done, total).
    """

    def __init__(
        self,
        store: LiveStore,
        directory: LiveDirectory,
        durability: str,
        interval_ms: int,
        storage: Storage = "mmap",
        memory_budget: int | str | None = None,
        progress: native.Progress | None = None,
    ) -> None:
        super().__init__(store, directory)
        self._storage, self._budget = storage, memory_budget
        self._log = (
            str(directory.path), directory.uuid, native.DURABILITY[durability], interval_ms,
        )  # fmt: skip
        store.path, store.uuid = str(directory.path), directory.uuid.hex()
        self._merging = threading.Lock()
        #: Thread that holds it.
        self._merger: int | None = None
        #: Last base that this session has written, and those before it that are still there.
        self._written: str | None = None
        self._superseded = list[str]()
        current, lsn = self.current, int(self.current["lsn"])
        native.run_task(
            lambda task: store.live.open_journal(*self._log, lsn + 1, self.take_note, task),
            progress,
            1,
        )
        directory.check_end(current, store.live.lsn)
        store.live.release_journal(lsn + 1)  # a crash may have come between a merge and this
        for kind in store.kinds.values():
            collect_values(store, kind)
        for name, keys in store.keys.items():
            if keys.end != (count := store.count_nodes(name, store.live.take_last())):
                raise CorruptFileError(
                    f"{directory.path}: {count} nodes of type {name!r} have {keys.end} keys"
                )
        used = {self.base or "", *self._row_files, *current.get("ids", {}).values()}
        directory.remove_others(used)
        store.journal = self
        store.watermark.show(store.offsets)
        self.publish()

    def publish(self, lists: native.NativeLive | None = None) -> None:
        """Tell who attaches from now on where the memory is, and which attributes there are.

        Args:
            lists: where the graph goes on; None: in its own memory.
        """
        store = self._store
        self.directory.publish(store.address(_name_of, lists))

    def close(self) -> None:
        """Wait until all commits are on disk, and let another process write, whatever fails."""
        store, directory = self._store, self.directory
        # To the end: what another thread changed meanwhile would not be in the log.
        with self._alone(), store.taking_turns():
            if store.journal is not self:
                return  # another thread has closed it
            failure: AetherError | None = None
            if store.is_writer:  # else a call that Ctrl-C has ended came as far as this
                try:
                    store.live.flush()
                    end = {**directory.current(), "closed": store.live.lsn}
                    directory.write_json("CURRENT", end)
                except AetherError as error:
                    failure = error
            # A snapshot that is held keeps the lists, and would keep the log locked.
            steps = (self._close_log, directory.withdraw, directory.unlock, store.forget)
            try:
                for step in steps:
                    try:
                        step()
                    except AetherError as error:
                        failure = failure or error
            except BaseException:
                store.is_writer = False  # Ctrl-C: there may be no log; another call goes on here
                raise
            if failure is not None:
                raise failure

    def _close_log(self) -> None:
        with suppress(AetherError):  # after a failed sync, or where a call before has closed it
            self._store.live.close_journal()

    def flush(self) -> None:
        """Wait until all commits so far are on disk."""
        store = self._store
        while True:
            live = store.live
            try:
                # Without a lock: a signal's handler may wait for a merge here, and that for us.
                return live.flush()
            except InvalidArgumentError:
                if store.has_turn or not store.is_writer:
                    raise
            with store.taking_turns():
                pass  # a merge had closed the log for a moment, or it was closed for good

    # ---- writing -----------------------------------------------------------------------------

    def log_node_rows(self, node_type: str, name: str, begin: int, rows: NDArray[Any]) -> None:
        """Log rows of nodes that are added."""
        self._note(Note.NODE_ROWS, {"type": node_type, "name": name, "begin": begin}, rows)

    def log_changed_rows(self, node_type: str, name: str, ids: Ids, rows: NDArray[Any]) -> None:
        """Log new rows of nodes that there are."""
        header = {"type": node_type, "name": name, "count": len(ids)}
        self._note(Note.CHANGED_ROWS, header, ids, rows)

    def log_edge_rows(self, kind: EdgeKind, name: str, begin: int, rows: NDArray[Any]) -> None:
        """Log attributes of edges that are inserted."""
        self._note(Note.EDGE_ROWS, {"kind": kind.number, "name": name, "begin": begin}, rows)

    def log_rows_begin(self, node_type: str, name: str, base: RowSource, rows: GrowingRows) -> None:
        """Save the rows that an attribute begins with, and log that it does."""
        if not isinstance(base, FeatureTable):
            if base.dtype_name == "bfloat16":
                raise UnsupportedError("bfloat16 rows of a foreign source: give a FeatureTable")
            base = FeatureTable.from_array(base.read(0, base.num_rows))
        file = self.directory.next_rows()
        base.native_rows()
        save_rows(self.directory.path / file, base, None, None, part_of=self.directory.part(file))
        self.directory.sync()
        rows.origin = {"file": file}
        fingerprint = fingerprint_of(str(self.directory.path / file))
        header = {"type": node_type, "name": name, "file": file, "fingerprint": fingerprint}
        self._note(Note.ROWS_BEGIN, header)
        self._row_files.add(file)

    def log_rows_end(self, node_type: str, name: str) -> None:
        """Log that an attribute ends."""
        self._note(Note.ROWS_END, {"type": node_type, "name": name})

    def log_offset(self, source: str, partition: int, following: int) -> None:
        """Log the number of the next record of a stream."""
        self._note(Note.OFFSET, {"source": source, "partition": partition, "next": following})

    def log_keys(self, node_type: str, begin: int, block: native.KeyBlock) -> None:
        """Log the keys of nodes that are added."""
        header = {"type": node_type, "begin": begin, "count": len(block)}
        sizes = [] if block.offsets is None else [np.diff(block.offsets).astype(np.uint32)]
        self._note(Note.KEYS, header, *sizes, block.data)

    def _note(self, kind: int, header: dict[str, Any], *arrays: NDArray[Any]) -> None:
        store = self._store
        store.change_lists(store.live.note, kind, pack(header, *arrays))

    # ---- base --------------------------------------------------------------------------------

    def checkpoint(
        self, progress: native.Progress | None = None, memory: int | str = MEMORY
    ) -> str:
        """Write the graph as of now to a new base, and give up the log before; return its path.

        Changes go on meanwhile; another call waits.

        Raises:
            InvalidArgumentError: inside of a transaction, or of ``progress``.
        """
        # Before the wait: another merge waits for the end of this thread's transaction.
        with self._store.writing():
            if self._store.in_transaction:
                raise InvalidArgumentError("merge() inside a transaction: call it after its end")
        self.check_not_merging("merge()")
        with self._alone():
            return self._checkpoint(progress, memory)

    def check_not_merging(self, call: str) -> None:
        """Raise InvalidArgumentError if this thread is merging, and would wait for itself."""
        if self._merger == threading.get_ident():
            raise InvalidArgumentError(f"{call} inside the progress= of merge(): call it after it")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads from merging in a ``with`` block."""
        with self._merging:
            self._merger = threading.get_ident()
            try:
                yield
            finally:
                self._merger = None

    def _checkpoint(self, progress: native.Progress | None, memory: int | str) -> str:
        store = self._store
        with store.writing():
            native_snapshot, lsn = store.live.take_last(), store.live.written_lsn
            offsets = [[list(place), number] for place, number in store.offsets.items()]
            # Here: attributes that begin or end from now on are in the log.
            snapshot = OneCommit(store, native_snapshot)
        counts = {name: store.count_nodes(name, native_snapshot) for name in store.node_rows}
        ends = [native_snapshot.describe(kind.number).end_edge_ids for kind in store.kinds.values()]
        renumbers = snapshot.renumbers_edges
        base = self.directory.next_base()
        path = self.directory.path / base
        part = self.directory.part
        write_base(
            snapshot.stored_parts(), path, memory=memory, part_of=part(base), progress=progress
        )
        ids = {name: ids_path(base, name) for name in store.keys}
        try:
            for name, file in ids.items():
                path_of_keys = str(self.directory.path / file)
                store.keys[name].save(path_of_keys, counts[name], memory, part_of=part(file))
            below = Base(path, self._storage, self._budget, ends=ends, renumbers_edges=renumbers)
        except BaseException:
            for file in (base, *ids.values()):
                (self.directory.path / file).unlink(missing_ok=True)
            raise
        state = {
            "lsn": lsn, "fingerprint": below.fingerprint, "nodes": counts, "edge_ids": ends,
            "offsets": offsets,
        }  # fmt: skip
        if lsn and (origin := self.directory.origin(lsn)):  # which the log will not have any more
            state["origin"] = origin
        if renumbers:  # else as older builds wrote it
            state["renumbers_edges"] = True
        self._make_current(base, {**state, "ids": ids} if ids else state)
        self._replace_base(base)
        store.sum_weights(below)  # which reads them: not while others wait
        with store.writing():
            store.live.release_journal(lsn + 1)
            self._go_on_over(below, counts, lsn, native_snapshot.commit)
        return str(path)

    def _replace_base(self, base: str) -> None:
        """Remember what the base is; remove the one that was written two merges ago.

        Who has that one open goes on reading it. Two stay until the graph is opened again, since
        they are opened by their names: the first base of all, for rows and keys that began with it;
        and one that the lists are still over, where there was no room to make them anew.
        """
        if self._written:
            self._superseded.append(self._written)
        self.base = self._written = base
        below = self._store.base
        for name in self._superseded[:-1]:
            if below is None or str(self.directory.path / name) != below.path:
                self.directory.remove_base(name)
                self._superseded.remove(name)

    def _go_on_over(self, base: Base, counts: dict[str, int], lsn: int, commit: int) -> None:
        """Let the lists be those of a base, and of what was committed since, in fresh memory.

        The former lists go with their last snapshot. Commits keep their numbers, or get larger ones
        up to the last, where some were undone: what has changed since one is never left out.

        Args:
            base: the base, of the commit ``commit``.
            counts: nodes by type in it.
            lsn: number of that commit in the log, or of the one behind it that was undone.
            commit: its number.
        """
        live = self._store.live
        former, fresh = live.memory, None
        last, last_lsn = live.take_last().commit, live.written_lsn
        before = self.directory.published()
        if last_lsn > lsn:
            live.flush()  # if the disk fails here, the log goes on as it is
        try:
            with suppress(StorageError):  # of a log that failed before: the base has all of it
                live.close_journal()
            fresh = self._replayed(base, counts, lsn, commit, last)
            self.publish(fresh)  # before readers leave the former lists: a full disk may refuse it
            live.become(fresh)
            live.retire(former)
        except BaseException as error:
            if fresh is not None and self.directory.published() != before:
                # Ctrl-C, say: there is no way back, for readers may have the fresh lists already.
                if live.memory is former:
                    live.become(fresh)
                live.retire(former)
                if isinstance(error, AetherError):
                    return  # of a sync: who attaches needs no file that survives a crash
                raise
            try:
                if fresh is not None:
                    with suppress(AetherError):
                        fresh.close_journal()
            finally:
                self._log_on(live, last_lsn)
            with suppress(AetherError):  # else those who attach find nobody until the next merge
                self.publish()
            if not isinstance(error, AetherError):
                raise
            # There is no room for both, say. The base is good; the lists leave memory another time.
            log.warning("%s: merged, but the lists stay in memory: %s", self.directory.path, error)

    def _replayed(
        self, base: Base, counts: dict[str, int], lsn: int, commit: int, last: int
    ) -> native.NativeLive:
        """Return lists over a base with what was committed since, up to commit ``last``."""
        first = commit
        while True:
            fresh = self._store.make_lists(base, counts, first)
            try:
                fresh.open_journal(*self._log, lsn + 1, _leave_note)
                reached = fresh.take_last().commit
                if reached >= last:
                    fresh.release_journal(lsn + 1)  # the segment of what the base has is used again
                    return fresh
                first += last - reached
                fresh.close_journal()
            except BaseException:
                with suppress(AetherError):  # whoever handles this has the lists in its frames
                    fresh.close_journal()
                raise

    def _log_on(self, live: native.NativeLive, lsn: int) -> None:
        """Log changes again after commit ``lsn``; refuse them if that fails."""
        try:
            with suppress(AetherError):  # it is closed, unless Ctrl-C came before that
                live.close_journal()
            live.open_journal(*self._log, lsn + 1, _leave_note)
        except BaseException:
            self._store.is_writer = False
            raise

    def _make_current(self, base: str, state: Mapping[str, Any]) -> None:
        """Let a base be what the graph is opened from; remove it if that fails."""
        directory = self.directory
        try:
            directory.sync()
            directory.write_json("CURRENT", {**state, "base": base})
        except BaseException as error:
            # Not if the failure came after the file was replaced: then the base is in use.
            if directory.current().get("base") != base:
                (directory.path / base).unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise storage_error(error, str(directory.path / "CURRENT")) from None
            raise


def _leave_note(lsn: int, kind: int, content: bytes) -> None:
    """Do nothing: rows, keys and offsets are those of the graph already."""


def _name_of(growing: GrowingRows | GrowingKeys) -> Any:
    """Return where another process finds the base of rows or keys."""
    if isinstance(growing, GrowingRows):
        return growing.origin
    return None if growing.base is None else growing.base.path
