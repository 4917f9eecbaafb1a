"""Live graphs of the core: one writer, and snapshots that any thread or process may take.

::

    NativeLive ──insert, delete, commit──> lists in shared memory
        ├── take() ──> live_snapshots.py, one commit of all relations
        ├── reading() ──> live_reading.py, the same one throughout a block
        └── open_journal() ──> live_journal.py, commits that were logged, done again
    live_types.py   edge types, bases and numbers of them
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import empty
from aethergraph._native.core import Ids, ffi, lib, new_error, raise_error
from aethergraph._native.guards import reading
from aethergraph._native.live_journal import Notes
from aethergraph._native.live_reading import Reading, held_snapshot, is_any_open
from aethergraph._native.live_snapshots import NativeSnapshot
from aethergraph._native.live_types import (
    LIVE_LAYOUTS,
    LiveBase,
    LiveNumbers,
    LiveRelation,
    LiveStats,
    fail,
)
from aethergraph._native.memory import address_of
from aethergraph._native.tasks import Task, lend
from aethergraph._native.topology import struct_address
from aethergraph._native.weight_sums import NativeSums
from aethergraph.errors import UnsupportedError

T = TypeVar("T")
#: What snapshots are of: see :class:`NativeLive`.
LiveParts: TypeAlias = tuple[Any, dict[tuple[int, str], LiveBase], Any, Callable[[], object]]

#: Seconds between two looks of a reader for former memory that nobody reads any more.
_LOOK_SECONDS = 1.0

#: Looked up once: a call for each edge is made of such steps.
_insert_one, _NULL = lib.aether_live_insert_one, ffi.NULL
#: ``insert_plain(handle, relation, src, dst, err)`` returns the id of the edge, or the code of an
#: error. Handle and err are :attr:`NativeLive.plain`; a method would be a tenth of the whole call.
insert_plain: Callable[[Any, int, int, int, Any], int] = lib.aether_live_insert_plain


class NativeLive:
    """Handle of a live graph: the writer's, or a reader's in another process."""

    __slots__ = (
        "_err", "_following", "_former", "_handle", "_looked", "_number", "_numbers", "_state",
        "check_writer", "follow", "plain", "relations",
    )  # fmt: skip

    def __init__(
        self, handle: Any, relations: Sequence[LiveRelation], owner: object = None
    ) -> None:
        def close(handle: Any, close: Any = lib.aether_live_close, owner: object = owner) -> None:
            close(handle)  # which calls functions that the owner keeps

        self._handle = ffi.gc(handle, close)
        self.relations = tuple(relations)
        #: Handle, by relation and layout the bases that it borrows, :attr:`base_file`, and what
        #: returns :attr:`store`: what snapshots are of. One object, since threads read it while a
        #: merge replaces it.
        self._state: LiveParts = (self._handle, {}, None, _nothing)
        #: Handles before :meth:`become`, while snapshots of theirs are held.
        self._former: list[Any] = []
        self._looked = 0.0  # when
        #: Of a reader: returns the graph that this one goes on in; None: it is not known.
        self.follow: Callable[[], NativeLive | None] | None = None
        #: Of a reader: called before each look at the last commit; raises where nobody writes any
        #: more, or lets :meth:`become` go on with the next writer. None: it is not known.
        self.check_writer: Callable[[NativeLive], None] | None = None
        self._following = threading.Lock()
        # Of the writer, which is one thread at a time.
        self._err = new_error()
        self._number = ffi.new("int64_t *")
        self._numbers = ffi.new("aether_live_relation_stats *")
        #: Handle and err for :func:`insert_plain`; None: a change reads a base, which is guarded.
        self.plain: tuple[Any, Any] | None = (self._handle, self._err)

    @classmethod
    def create(
        cls,
        relations: Sequence[LiveRelation],
        arena_bytes: int,
        max_snapshot_age: int = 0,
        flags: int = 0,
        first_commit: int = 1,
        memory: Any = None,
        memory_owner: object = None,
    ) -> NativeLive:
        """Create a graph without edges but those of bases, which :meth:`set_base` gives.

        Args:
            relations: the edge types.
            arena_bytes: memory for the edges of all of them together.
            max_snapshot_age: nanoseconds after which a snapshot may expire; 0: none does.
            flags: ``LIVE_*``, combined.
            first_commit: number of the commit that it begins with.
            memory: address of an ``aether_live_memory``; None: edges are in shared memory.
            memory_owner: object that keeps its functions; held as long as the graph.
        """
        rows = ffi.new("aether_live_relation[]", len(relations))
        for row, relation in zip(rows, relations, strict=True):
            row.num_src, row.num_dst = relation.num_src, relation.num_dst
            row.max_src, row.max_dst = relation.max_src, relation.max_dst
            row.layouts, row.order = LIVE_LAYOUTS[relation.layout], relation.order
            row.columns, row.edge_id_bytes = relation.columns, relation.edge_id_bytes
            row.base_edges, row.base_edge_ids = relation.base_edges, relation.base_edge_ids
        options = ffi.new("aether_live_options *")
        options.relations, options.num_relations = rows, len(relations)
        options.flags = flags
        options.arena_bytes, options.max_snapshot_age = arena_bytes, max_snapshot_age
        options.first_commit = first_commit
        if memory is not None:
            options.memory = ffi.cast(
                "aether_live_memory *", struct_address(memory, "aether_live_memory")
            )
        out, err = ffi.new("aether_live **"), new_error()
        code = lib.aether_live_create(options, out, err)
        if code:
            fail(code, err)
        return cls(out[0], relations, memory_owner)

    @classmethod
    def attach(cls, descriptors: Sequence[int]) -> NativeLive:
        """Open the graph of another process, for reading, by copies of its descriptors."""
        out, err = ffi.new("aether_live **"), new_error()
        code = lib.aether_live_attach(list(descriptors), len(descriptors), out, err)
        if code:
            fail(code, err)
        relations = list[LiveRelation]()
        row = ffi.new("aether_live_relation *")
        layouts = {bits: name for name, bits in LIVE_LAYOUTS.items()}
        for number in range(lib.aether_live_num_relations(out[0])):
            code = lib.aether_live_relation_at(out[0], number, row, err)
            if code:
                lib.aether_live_close(out[0])
                fail(code, err)
            relations.append(
                LiveRelation(
                    row.num_src, row.num_dst, row.max_src, row.max_dst, layouts[row.layouts],
                    row.order, row.columns, row.edge_id_bytes, row.base_edges, row.base_edge_ids,
                )
            )  # fmt: skip
        return cls(out[0], relations)

    @property
    def memory(self) -> Any:
        """Handle of the memory that the graph is in now, for :meth:`retire`."""
        return self._handle

    def become(self, successor: NativeLive) -> None:
        """Go on in the memory of another graph; snapshots that are held stay as they are."""
        self._former.append(self._handle)
        *parts, find = successor._state
        self._handle, self.relations = successor._handle, successor.relations
        self._state = (parts[0], parts[1], parts[2], self._state[3] if find is _nothing else find)
        self.plain = None if self._state[1] else (self._handle, self._err)

    def become_next(self, successor: NativeLive) -> None:
        """Go on in the memory of the next writer, which numbers its commits anew."""
        self.become(successor)
        self.follow = successor.follow
        self._former.clear()  # snapshots keep theirs; their numbers mean nothing here

    def retire(self, former: Any) -> None:
        """Tell readers in other processes that the graph goes on elsewhere.

        Args:
            former: :attr:`memory` before :meth:`become`.
        """
        self._check(lib.aether_live_retire(former, self._err))

    def begin_child(self, follow: Callable[[], NativeLive | None]) -> None:
        """Become a reader, in a forked child: its copy of a lock may be held for ever."""
        self.follow, self._following = follow, threading.Lock()

    def _catch_up(self) -> None:
        """Let a reader go on where the graph does, and give up memory where it was."""
        if self.check_writer is not None:
            self.check_writer(self)
        self._follow_merge()

    def look(self) -> None:
        """Let a reader go on where the graph does; see :attr:`check_writer`."""
        if self.follow is not None:
            self._catch_up()

    def _follow_merge(self) -> None:
        """Let a reader go on where a merge has put the graph, and give up memory where it was."""
        if self._former:
            self.drop_former(_LOOK_SECONDS)
        if self.follow is None or not lib.aether_live_is_retired(self._handle):
            return
        with self._following:
            if lib.aether_live_is_retired(self._handle):
                successor = self.follow()
                if successor is not None:
                    self.become(successor)

    @property
    def is_shared(self) -> bool:
        """True: other processes can open the graph's memory; False: it has memory of a user's."""
        return bool(lib.aether_live_num_descriptors(self._handle))

    def check_shared(self) -> None:
        """Raise UnsupportedError if the edges are in memory that other processes do not have."""
        if not self.is_shared:
            raise UnsupportedError(
                "the edges of this live graph are in its arena_memory, which other processes do "
                "not have: sample in threads, or create it without arena_memory"
            )

    def describe_memory(self, describe: Callable[[int], T]) -> tuple[list[T], Any]:
        """Return ``describe`` of each descriptor of the memory, and :attr:`base_file`.

        The descriptors stay the graph's; a merge cannot close one meanwhile.
        """
        handle, _, base_file, _ = self._state
        out = ffi.new("int32_t[]", int(lib.aether_live_num_descriptors(handle)))
        lib.aether_live_descriptors(handle, out)
        return [describe(descriptor) for descriptor in out], base_file

    @property
    def base_file(self) -> Any:
        """Object that the bases are of, which its user has given; None: there are none."""
        return self._state[2]

    @base_file.setter
    def base_file(self, file: Any) -> None:
        handle, bases, _, find = self._state
        self._state = (handle, bases, file, find)

    @property
    def store(self) -> Any:
        """Object that has what belongs to the edges, such as rows; None: nobody has given one.

        It is not kept, but by snapshots.
        """
        return self._state[3]()

    @store.setter
    def store(self, store: Any) -> None:
        self._state = (*self._state[:3], weakref.ref(store))

    def set_base(self, relation: int, layout: Literal["csc", "csr"], base: LiveBase) -> None:
        """Say where the lists of a relation's base are; before anything else, in every process."""
        lent_base, err = ffi.new("aether_live_base *"), new_error()
        lent_base.lists = base.topology.handle
        lent_base.last_time = 2**63 - 1 if base.last_time is None else base.last_time
        if base.edge_ids is not None:
            lent_base.edge_ids = ffi.cast("const void *", address_of(base.edge_ids))
            lent_base.edge_id_bytes = base.edge_ids.dtype.itemsize
        if base.times is not None:
            lent_base.times = ffi.cast("const int64_t *", address_of(base.times))
            lent_base.times_of = lib.AETHER_TIMES_OF_NODES * base.by_source
        if base.weights is not None:
            lent_base.weights = ffi.cast("const float *", address_of(base.weights))
        code = lib.aether_live_set_base(
            self._handle, relation, LIVE_LAYOUTS[layout], lent_base, err
        )
        if code:
            raise_error(code, err)
        self._state[1][relation, layout] = base
        self.plain = None
        if base.sums is not None:
            self._give_sums(self._handle, relation, layout, base.sums)

    def sum_weights(self, relation: int, layout: Literal["csc", "csr"]) -> None:
        """Sum up the weights of a base's long lists, once, for draws by them.

        Reads all weights of the base. Does nothing where there are none, or where the lists stay
        in their file: sums are for all of them.

        Raises:
            InvalidArgumentError: a weight is negative or not finite.
        """
        handle, bases, _, _ = self._state
        base = bases.get((relation, layout))
        if base is None or base.weights is None or not base.is_near or base.sums is not None:
            return
        sums = NativeSums(base.topology, base.weights, base.topology.guard)
        with self._following:
            if bases[relation, layout].sums is None:  # else others use those
                bases[relation, layout] = base._replace(sums=sums)
                self._give_sums(handle, relation, layout, sums)

    @staticmethod
    def _give_sums(
        handle: Any, relation: int, layout: Literal["csc", "csr"], sums: NativeSums
    ) -> None:
        """Give the core the sums of a base, which must be kept as long as it."""
        err = new_error()
        code = lib.aether_live_set_base_sums(
            handle, relation, LIVE_LAYOUTS[layout], sums.handle, err
        )
        if code:
            raise_error(code, err)

    # ---- writing -----------------------------------------------------------------------------

    @property
    def last_commit(self) -> int:
        """Number of the last commit of this handle's memory."""
        return int(lib.aether_live_last_commit(self._handle))

    def begin(self) -> None:
        """Begin a transaction."""
        self._check(lib.aether_live_begin(self._handle, self._err))

    def commit(self) -> None:
        """Let readers see what the transaction changed."""
        self._check(lib.aether_live_commit(self._handle, self._err))

    def abort(self) -> None:
        """Undo what the transaction changed."""
        self._check(lib.aether_live_abort(self._handle, self._err))

    def insert_one(
        self, relation: int, src: int, dst: int, time: int = 0, weight: float = 0.0
    ) -> int:
        """Insert an edge; return its id, or that of the edge that was there already."""
        number, err = self._number, self._err
        if self._state[1]:
            with self._reading_bases():
                code = _insert_one(
                    self._handle, relation, src, dst, time, weight, number, _NULL, err
                )
                self._check(code)
            return int(number[0])
        code = _insert_one(self._handle, relation, src, dst, time, weight, number, _NULL, err)
        if code:
            fail(code, err)
        edge: int = number[0]
        return edge

    def fail(self, code: int) -> NoReturn:
        """Raise the error that :func:`insert_plain` has returned."""
        fail(code, self._err)

    def end_edge_ids(self, relation: int) -> int:
        """Return the id that the next edge gets; the last commit says so, also inside a block."""
        code = lib.aether_live_count_relation(self._handle, relation, self._numbers, self._err)
        if code:
            fail(code, self._err)
        return int(self._numbers.end_edge_ids)

    def insert(
        self,
        relation: int,
        src: Ids,
        dst: Ids,
        times: Ids | None,
        weights: NDArray[np.float32] | None,
    ) -> tuple[Ids, int]:
        """Insert edges; return the id of each, and the number of those that were not there yet."""
        edges = ffi.new("aether_live_edges *")
        lent = [ffi.from_buffer("int64_t[]", src), ffi.from_buffer("int64_t[]", dst)]
        edges.src, edges.dst, edges.count = *lent, len(src)
        if times is not None:
            lent.append(ffi.from_buffer("int64_t[]", times))
            edges.times = lent[-1]
        if weights is not None:
            lent.append(ffi.from_buffer("float[]", weights))
            edges.weights = lent[-1]
        ids = empty(len(src), np.int64, f"{len(src)} edge ids")
        inserted = ffi.new("uint64_t *")
        with self._reading_bases():
            code = lib.aether_live_insert(
                self._handle, relation, edges, ffi.from_buffer("int64_t[]", ids), inserted,
                self._err,
            )  # fmt: skip
            self._check(code)
        return ids, int(inserted[0])

    @contextmanager
    def _reading_bases(self) -> Iterator[None]:
        """Guard the files of bases, which a change reads, in a ``with`` block."""
        guards = {id(g): g for base in self._state[1].values() if (g := base.topology.guard)}
        with ExitStack() as stack:
            for guard in guards.values():
                stack.enter_context(reading(guard))
            yield

    def delete(self, relation: int, src: Ids, dst: Ids, edge_ids: Ids | None) -> int:
        """Delete the edges of each pair, or only the one of each edge id; return their number."""
        deleted = ffi.new("uint64_t *")
        lent = ffi.NULL if edge_ids is None else ffi.from_buffer("int64_t[]", edge_ids)
        with self._reading_bases():
            code = lib.aether_live_delete(
                self._handle, relation, ffi.from_buffer("int64_t[]", src),
                ffi.from_buffer("int64_t[]", dst), lent, len(src), deleted, self._err,
            )  # fmt: skip
            self._check(code)
        return int(deleted[0])

    def add_nodes(self, relation: int, num_src: int, num_dst: int) -> None:
        """Add nodes without edges behind the last, at either end."""
        self._check(lib.aether_live_add_nodes(self._handle, relation, num_src, num_dst, self._err))

    # ---- log ---------------------------------------------------------------------------------

    def open_journal(
        self,
        directory: str,
        graph: bytes,
        durability: int,
        interval_ms: int,
        begin: int,
        on_note: Callable[[int, int, bytes], None],
        task: Task | None = None,
    ) -> None:
        """Do the commits from number ``begin`` on again, then log those to come.

        ``on_note`` gets the number of the commit, the kind and the bytes of each note.
        """
        options = ffi.new("aether_journal_options *")
        options.graph = graph
        options.durability, options.interval_ms = durability, interval_ms
        notes = Notes(on_note)
        user = ffi.new_handle(notes)
        code = lib.aether_live_open_journal(
            self._handle, os.fsencode(directory), options, begin, lib.aether_python_note, user,
            lend(task, 1), self._err,
        )  # fmt: skip
        if notes.error is not None:
            raise notes.error
        self._check(code)

    def replay(
        self,
        directory: str,
        graph: bytes,
        begin: int,
        until: int,
        on_note: Callable[[int, int, bytes], None],
        task: Task | None = None,
    ) -> int:
        """Do the commits of a log from number ``begin`` up to ``until`` again, without keeping it.

        Returns:
            The number of the last one that was done; ``begin - 1``: there was none.
        """
        notes, last = Notes(on_note), ffi.new("uint64_t *")
        user = ffi.new_handle(notes)
        code = lib.aether_live_replay(
            self._handle, os.fsencode(directory), ffi.from_buffer("uint8_t[]", graph), begin, until,
            lib.aether_python_note, user, last, lend(task, 1), self._err,
        )  # fmt: skip
        if notes.error is not None:
            raise notes.error
        self._check(code)
        return int(last[0])

    def note(self, kind: int, content: bytes) -> None:
        """Write bytes into the log, with the open transaction."""
        self._check(
            lib.aether_live_note(
                self._handle, kind, ffi.from_buffer(content), len(content), self._err
            )
        )

    @property
    def written_lsn(self) -> int:
        """Number in the log of the last commit, or of the undone one after it; the writer's."""
        return int(lib.aether_live_written_lsn(self._handle))

    def close_journal(self) -> None:
        """Wait until all commits are on disk; let another graph open the log, whatever fails."""
        self._check(lib.aether_live_close_journal(self._handle, self._err))

    def flush(self) -> None:
        """Wait until all commits so far are on disk."""
        err = new_error()
        code = lib.aether_live_flush(self._handle, err)
        if code:
            fail(code, err)

    def release_journal(self, lsn: int) -> None:
        """Give up the commits below ``lsn``."""
        self._check(lib.aether_live_release_journal(self._handle, lsn, self._err))

    @property
    def lsn(self) -> int:
        """Number in the log of the last commit, also for readers; 0: it has none."""
        self.look()
        return self.last_lsn

    @property
    def last_lsn(self) -> int:
        """Number in the log of the last commit of this handle's memory."""
        return int(lib.aether_live_lsn(self._handle))

    def reclaim(self) -> None:
        """Reuse what no snapshot needs any more, and let overdue snapshots expire."""
        self._check(lib.aether_live_reclaim(self._handle, self._err))
        self.drop_former()

    def reap(self) -> None:
        """Free the snapshots of processes that have ended; overdue ones stay."""
        self._check(lib.aether_live_reap(self._handle, self._err))

    def _check(self, code: int) -> None:
        if code:
            fail(code, self._err)

    # ---- reading -----------------------------------------------------------------------------

    def take(self) -> NativeSnapshot:
        """Take a snapshot of the last commit; inside :meth:`reading` return that of the block."""
        return held_snapshot(self) or self.take_last()

    def take_last(self) -> NativeSnapshot:
        """Take a snapshot of the last commit, also inside :meth:`reading`."""
        if self.follow is not None:
            self._catch_up()
        while True:
            before = self._state
            snapshot = NativeSnapshot(self)
            # Again, with the pin: a merge may have come before it, which has given up the memory.
            if not snapshot.is_retired:
                return snapshot
            if self.follow is not None:
                self._catch_up()
            if self._state is before:
                return snapshot  # its writer has closed the graph: nothing changes any more

    @property
    def is_reading(self) -> bool:
        """True in a block of :meth:`reading`, for its thread or coroutine."""
        return held_snapshot(self) is not None

    def state_to_take(self) -> LiveParts:
        """Return what :meth:`take` would take a snapshot of.

        The handle is None inside :meth:`reading`, where nothing is taken.
        """
        if self.is_reading:
            return None, {}, None, _nothing
        if self.follow is not None:
            self._catch_up()
        return self._state

    def reading(self, snapshot: NativeSnapshot | None = None) -> Reading:
        """Let this thread, or coroutine, take the same snapshot throughout a ``with`` block.

        Args:
            snapshot: the snapshot; None: one of the last commit.
        """
        return Reading(snapshot or self.take_last())

    def describe(self, relation: int) -> LiveNumbers:
        """Return what :meth:`take` would show of a relation, without a snapshot."""
        reading = held_snapshot(self)
        if reading is not None:
            return LiveNumbers(*reading.describe(relation)[1:-1])
        if self.follow is not None:
            self._catch_up()
        out, err = ffi.new("aether_live_relation_stats *"), new_error()
        code = lib.aether_live_count_relation(self._handle, relation, out, err)
        if code:
            raise_error(code, err)
        return LiveNumbers(out.num_src, out.num_dst, out.num_edges, out.end_edge_ids)

    @property
    def asked(self) -> Any:
        """Handle for single questions to the last commit; None: a snapshot is to be asked.

        So it is in blocks of :meth:`reading`, in readers, and where lists lie in a file.
        """
        if self.follow is not None or self._state[1] or is_any_open():
            return None
        return self._handle

    def is_last(self, snapshot: NativeSnapshot) -> bool:
        """Return whether :meth:`take_last` would show the commit of a snapshot of this graph."""
        if self.follow is not None:
            self._catch_up()
        handle = self._handle
        return snapshot.is_of(handle) and lib.aether_live_last_commit(handle) == snapshot.commit

    def count(self) -> LiveStats:
        """Count what the graph holds, and who reads it, former memory included.

        Also where nobody writes any more: the last commit is counted.
        """
        if self.follow is not None:
            self._follow_merge()
        self.drop_former()
        now = _count(self._handle)
        for handle in self._former[:1]:  # those that follow are younger
            before = _count(handle)
            now = now._replace(
                snapshots=now.snapshots + before.snapshots, oldest_commit=before.oldest_commit,
                oldest_age=before.oldest_age, oldest_pid=before.oldest_pid,
            )  # fmt: skip
        return now

    def drop_former(self, seconds: float = 0) -> None:
        """Give up former memory that no snapshot is of any more.

        Snapshots of processes that have ended do not count. Does nothing if it was looked into
        less than ``seconds`` ago.
        """
        if self._former and time.monotonic() - self._looked >= seconds:
            for handle in [handle for handle in self._former if not _count(handle).snapshots]:
                with suppress(ValueError):  # another thread looks as well
                    self._former.remove(handle)
            self._looked = time.monotonic()


def _nothing() -> None:
    """Return the store of a graph that nobody has given one."""


def _count(handle: Any) -> LiveStats:
    out = ffi.new("aether_live_stats *")
    lib.aether_live_count(handle, out)
    return LiveStats(
        out.epoch, out.num_edges, out.touched_nodes, out.arena_bytes, out.used_bytes,
        out.retired_bytes, out.snapshots, out.oldest_epoch, out.oldest_age * 1e-9,
        out.oldest_pid or None,
    )  # fmt: skip
