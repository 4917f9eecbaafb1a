"""Snapshots of live graphs, and their lists.

::

    NativeLive.take() ──> NativeSnapshot, one commit of all relations
                              └── topology(relation, layout) ──> SnapshotTopology
    LiveTopology   the last commit whenever it is asked: pinned() is one of those topologies
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import empty
from aethergraph._native.core import Ids, ffi, lib, new_error, raise_error
from aethergraph._native.live_types import (
    LIVE_LAYOUTS,
    LIVE_TIMES,
    LIVE_WEIGHTS,
    LiveBase,
    LiveCommit,
    LiveNumbers,
)
from aethergraph._native.single import has_edge_in
from aethergraph._native.tasks import Task, lend
from aethergraph._native.topology import NativeTopology
from aethergraph.errors import SnapshotExpiredError

if TYPE_CHECKING:
    from aethergraph._native.live import NativeLive

#: By the address of a snapshot the handle of its graph, which must be closed after it. A member of
#: the snapshot would not do: the collector takes the objects of a cycle apart in any order.
_handles: dict[int, Any] = {}


def _release(
    snapshot: Any,
    handles: dict[int, Any] = _handles,
    release: Any = lib.aether_snapshot_release,
    cast: Any = ffi.cast,
) -> None:
    """Release a snapshot, then what it keeps of its graph; also when modules are gone already."""
    handle = handles.pop(int(cast("uintptr_t", snapshot)), None)  # None: it rests
    release(snapshot)
    del handle


class NativeSnapshot:
    """One commit of a live graph, kept until the last user of this object is gone.

    Attributes:
        watermark: a tuple of that of the graph before this was taken; None: nobody has noted it.
        store: :attr:`NativeLive.store` of the memory that this is of; None while it rests.
    """

    __slots__ = (
        "__weakref__", "_address", "_bases", "_handle", "_numbers", "_rests", "live", "store",
        "watermark",
    )  # fmt: skip

    def __init__(self, live: NativeLive) -> None:
        out, err = ffi.new("aether_snapshot **"), new_error()
        handle, self._bases, _, find = live._state
        code = lib.aether_snapshot_take(handle, out, err)
        if code:
            raise_error(code, err)
        self.live = live
        self.store: Any = find()
        self.watermark: tuple[int | None] | None = None
        self._numbers: dict[int, LiveCommit] = {}
        self._address = int(ffi.cast("uintptr_t", out[0]))
        _handles[self._address] = handle
        self._handle = ffi.gc(out[0], _release)
        #: While it rests, what was its graph's handle.
        self._rests: weakref.ref[Any] | None = None

    def is_of(self, handle: Any) -> bool:
        """Return whether it was taken from the memory behind a handle of a live graph."""
        return _handles.get(self._address) is handle

    @property
    def is_retired(self) -> bool:
        """True: it is of memory from before a merge."""
        return bool(lib.aether_live_is_retired(_handles[self._address]))

    def rest(self) -> None:
        """Keep nothing of the graph, neither versions nor its memory, until :meth:`wake`.

        Nobody may be reading it or its topologies.
        """
        lib.aether_snapshot_rest(self._handle)
        self._bases, self.watermark, self.store = {}, None, None
        self._numbers.clear()
        self._rests = weakref.ref(_handles.pop(self._address))

    def wake(self) -> bool:
        """Show the last commit after a rest; False: another snapshot is needed.

        That is so where the graph goes on in other memory, and in a block of
        :meth:`NativeLive.reading`.
        """
        handle, bases, _, find = self.live.state_to_take()
        if handle is None or self._rests is None or self._rests() is not handle:
            return False
        err = new_error()
        code = lib.aether_snapshot_renew(self._handle, err)
        if code:
            raise_error(code, err)
        if lib.aether_live_is_retired(handle):  # a merge came before the pin, as in take_last()
            lib.aether_snapshot_rest(self._handle)
            return False
        _handles[self._address] = handle
        self._bases, self._rests, self.store = bases, None, find()
        return True

    @property
    def commit(self) -> int:
        """Number of the commit."""
        return self.describe(0).commit

    @property
    def lsn(self) -> int:
        """Number of the commit in a log; 0: there is none."""
        return self.describe(0).lsn

    def describe(self, relation: int) -> LiveCommit:
        """Return the numbers of a relation."""
        commit = self._numbers.get(relation)
        if commit is None:
            # They stay as they are, and each request for a sample asks several times.
            out, err = ffi.new("aether_live_commit_info *"), new_error()
            code = lib.aether_snapshot_describe(self._handle, relation, out, err)
            if code:
                raise_error(code, err)
            commit = self._numbers[relation] = LiveCommit(
                out.epoch, out.num_src, out.num_dst, out.num_edges, out.end_edge_ids, out.lsn
            )
        return commit

    def check(self) -> None:
        """Raise SnapshotExpiredError if what it shows may have been overwritten."""
        out = ffi.new("aether_live_stats *")
        lib.aether_live_count(_handles[self._address], out)
        if out.oldest_epoch > self.commit:
            raise SnapshotExpiredError(
                f"the snapshot of commit {self.commit} was held too long, and its memory is in use "
                "again: take a new one, or raise max_snapshot_age="
            )

    def topology(self, relation: int, layout: Literal["csc", "csr"]) -> NativeTopology:
        """Return the lists of a relation; they keep the snapshot."""
        pointer = lib.aether_snapshot_topology(self._handle, relation, LIVE_LAYOUTS[layout])
        lists = SnapshotTopology.of_handle(pointer, owner=self)
        assert isinstance(lists, SnapshotTopology)
        lists.snapshot, lists.relation, lists.layout = self, relation, layout
        lists.find_base()
        return lists

    def base(self, relation: int, layout: Literal["csc", "csr"]) -> LiveBase | None:
        """Return what lists of a relation begin with; None: they began empty."""
        return self._bases.get((relation, layout))

    def changed(self, relation: int, layout: Literal["csc", "csr"], since: int) -> Ids:
        """Return the nodes whose lists were changed by commits after ``since``, ascending."""
        count, err = ffi.new("uint64_t *"), new_error()
        nodes = np.empty(1024, np.int64)
        while True:
            code = lib.aether_snapshot_changed(
                self._handle, relation, LIVE_LAYOUTS[layout], since,
                ffi.from_buffer("int64_t[]", nodes), len(nodes), count, lend(None, 0), err,
            )  # fmt: skip
            if code:
                raise_error(code, err)
            if count[0] <= len(nodes):
                return nodes[: count[0]].copy()
            nodes = empty(int(count[0]), np.int64, f"{count[0]} nodes")

    def has_edge(self, relation: int, src: int, dst: int) -> bool:
        """Return whether there is an edge between two nodes, which must exist."""
        return has_edge_in(self._handle, relation, src, dst)

    def has_edges(self, relation: int, src: Ids, dst: Ids) -> NDArray[np.bool_]:
        """Return whether there is an edge from ``src[i]`` to ``dst[i]``."""
        out = empty(len(src), np.bool_, f"{len(src)} answers")
        err = new_error()
        code = lib.aether_snapshot_has_edges(
            self._handle,
            relation,
            ffi.from_buffer("int64_t[]", src),
            ffi.from_buffer("int64_t[]", dst),
            len(src),
            ffi.from_buffer("uint8_t[]", out),
            lend(None, 0),
            err,
        )
        if code:
            raise_error(code, err)
        return out


class SnapshotTopology(NativeTopology):
    """Lists of a snapshot."""

    __slots__ = ("is_over_base", "layout", "relation", "snapshot")

    snapshot: NativeSnapshot
    relation: int
    layout: Literal["csc", "csr"]
    is_over_base: bool

    def find_base(self) -> None:
        """Note the file of the snapshot's base, which the lists read, too."""
        base = self.snapshot.base(self.relation, self.layout)
        self.is_over_base = base is not None
        if base is not None:
            self.guard, self.path = base.topology.guard, base.topology.path

    def rest(self) -> None:
        """Keep no file until :meth:`wake`; the snapshot rests as well."""
        self.guard = self.path = None

    def wake(self) -> None:
        """Show what the snapshot shows now."""
        self.read_facts()
        self.find_base()

    def listed(self) -> Ids | None:
        """Return the nodes whose lists may hold something: those that were ever written to.

        None: all may, as a base has lists, too.
        """
        return None if self.is_over_base else self.changed(0)

    def changed(self, since: int) -> Ids:
        """Return the nodes whose lists were changed by commits after ``since``, ascending."""
        return self.snapshot.changed(self.relation, self.layout, since)


class LiveTopology(NativeTopology):
    """Lists of a live graph as of its last commit, whenever they are asked for.

    It holds no snapshot. Native samplers, which need one commit for the whole of a sample, take
    :meth:`pinned`.
    """

    __slots__ = ("layout", "live", "relation")

    live: NativeLive
    relation: int
    layout: Literal["csc", "csr"]

    def __init__(self, live: NativeLive, relation: int, layout: Literal["csc", "csr"]) -> None:
        self.live, self.relation, self.layout = live, relation, layout
        live_relation = live.relations[relation]
        self._owner: object = None
        self._reader = None
        self.indptr = self.indices = self.edge_ids = None
        self.guard = self.path = None
        self.edge_ids_are_positions = False
        self.own_values = lib.AETHER_OWN_TIMES * bool(
            live_relation.columns & LIVE_TIMES
        ) | lib.AETHER_OWN_WEIGHTS * bool(live_relation.columns & LIVE_WEIGHTS)
        self.id_dtype = np.dtype(np.uint32)

    def pinned(self, snapshot: NativeSnapshot | None = None) -> NativeTopology:
        """Return the lists of a snapshot (None: of the last commit), which they keep."""
        return (snapshot or self.live.take()).topology(self.relation, self.layout)

    @property
    def is_live(self) -> bool:
        """True."""
        return True

    @property
    def is_dense(self) -> bool:
        """False: positions name versions of lists."""
        return False

    def _commit(self) -> LiveNumbers:
        return self.live.describe(self.relation)

    @property
    def num_major(self) -> int:  # type: ignore[override]
        """Number of lists."""
        now = self._commit()
        return now.num_dst if self.layout == "csc" else now.num_src

    @property
    def num_minor(self) -> int:  # type: ignore[override]
        """Number of nodes that lists may hold."""
        now = self._commit()
        return now.num_src if self.layout == "csc" else now.num_dst

    @property
    def num_edges(self) -> int:  # type: ignore[override]
        """Number of edges."""
        return self._commit().num_edges

    @property
    def end_edge_ids(self) -> int:  # type: ignore[override]
        """Number that all edge ids are below."""
        return self._commit().end_edge_ids

    @property
    def end_positions(self) -> int:  # type: ignore[override]
        """Number that all positions are below."""
        return 2**63

    @property
    def handle(self) -> Any:
        """Nothing: only a pinned topology has a handle."""
        raise AssertionError("lists of a live graph reach the core by pinned()")

    def degrees(self, nodes: Ids | None) -> Ids:
        """Return the length of the list of each node (None: of all nodes), int64."""
        return self.pinned().degrees(nodes)

    def neighbors(self, nodes: Ids, *, with_edges: bool = False) -> tuple[Ids, Ids | None]:
        """Return the lists of ``nodes``, one after the other, and their edge ids or None."""
        return self.pinned().neighbors(nodes, with_edges=with_edges)

    def find(self, major: Ids, minor: Ids, task: Task | None = None) -> tuple[Ids, Ids]:
        """Refuse to find positions, which are those of one snapshot."""
        raise AssertionError("positions in the lists of a live graph are those of a snapshot")

    def fanout(
        self,
        nodes: Ids,
        k: int,
        key: int,
        *,
        replace: bool,
        num_threads: int,
        task: Task | None = None,
    ) -> Ids:
        """Return ``k`` neighbours of each node, int64 [n, k], rows filled up with -1."""
        return self.pinned().fanout(
            nodes, k, key, replace=replace, num_threads=num_threads, task=task
        )


def pin_all(
    topologies: Sequence[NativeTopology], snapshot: NativeSnapshot | None = None
) -> list[NativeTopology]:
    """Return the topologies, live ones pinned: those of one live graph at one commit.

    That is the commit of ``snapshot`` for the live graph that it is of, else the last one.
    """
    snapshots = {} if snapshot is None else {id(snapshot.live): snapshot}
    out = list[NativeTopology]()
    for topology in topologies:
        if isinstance(topology, LiveTopology):
            key = id(topology.live)
            if key not in snapshots:
                snapshots[key] = topology.live.take()
            out.append(topology.pinned(snapshots[key]))
        else:
            out.append(topology)
    return out
