"""LiveStore: edges and rows of a graph that changes, of any number of types, and their commits.

::

    DynamicGraph ──────────┐                 ┌── native live graph: the lists of every edge type
                           ├── LiveStore ────┤
    DynamicHeteroGraph ────┘    one writer   └── GrowingRows: attributes of nodes and of edges

What a transaction changes in lists and rows belongs to one commit: rows are written, or linked with
the number of the commit to come, before the lists' commit makes it the last one.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import (
    as_count,
    as_ids,
    describe_range,
)
from aethergraph._checks.options import as_flag, as_number, is_name, shown
from aethergraph._tracepoints import stage
from aethergraph.dynamic.base import Base
from aethergraph.dynamic.forms import EdgeForm
from aethergraph.dynamic.inputs import as_rows, one_id, read_rows, read_times, read_weights
from aethergraph.dynamic.keys import GrowingKeys
from aethergraph.dynamic.kinds import EdgeKind, EdgeType, make_kinds, rows_room, set_bases
from aethergraph.dynamic.rows import GrowingRows
from aethergraph.dynamic.sharing import Owner, open_descriptors
from aethergraph.errors import (
    AetherError,
    ClosedError,
    InvalidArgumentError,
    OutOfRangeError,
    StorageError,
    UnsupportedError,
)
from aethergraph.features import as_row_source
from aethergraph.ids import IdMap
from aethergraph.protocols import FeatureSource, MemorySource, RowSource

if TYPE_CHECKING:
    from aethergraph.dynamic.journal import Journal


__all__ = ["LiveStore"]

Ids = NDArray[np.int64]

_MOST_NODES = 2**32 - 1
#: Weights up to it are finite in float32.
_MOST_WEIGHT = float(np.finfo(np.float32).max)
#: Changes of rows after which versions that nobody reads are looked for.
_RECLAIM_AFTER = 16
#: Time between looks for snapshots from before a merge, which memory waits for.
_LOOK_SECONDS = 0.05


def _attach_lists(owner: Owner, descriptors: list[int]) -> native.NativeLive:
    own = open_descriptors(owner, descriptors)
    try:
        return native.NativeLive.attach(own)
    finally:
        for descriptor in own:
            os.close(descriptor)


_stores: weakref.WeakSet[LiveStore] = weakref.WeakSet()


def _is_quick(kind: EdgeKind, time: Any, weight: Any) -> bool:
    """Return True if the values of an edge are all that it has, and plainly right."""
    form = kind.form
    if kind.attrs:
        return False
    if form.has_time:
        if type(time) is not int or not -(2**63) <= time < 2**63:
            return False
    elif time is not None:
        return False
    if form.has_weight:
        return type(weight) in (float, int) and 0 <= weight <= _MOST_WEIGHT
    return weight is None


def _follower(store: LiveStore) -> Callable[[], native.NativeLive | None]:
    """Return :meth:`LiveStore.follow` of a store, which it does not keep."""
    kept = weakref.ref(store)

    def follow() -> native.NativeLive | None:
        found = kept()
        return None if found is None else found.follow()

    return follow


def _forget_writers() -> None:
    """Make the stores of a forked child readers: its copy of a lock may be held for ever."""
    for store in _stores:
        store.is_writer, store._lock, store.journal = False, threading.RLock(), None
        if store._native is not None:
            store._native.follow = _follower(store)


os.register_at_fork(after_in_child=_forget_writers)


@dataclass
class _Transaction:
    """Changes of the open transaction, besides those of the native graph."""

    #: Take back each change of rows and offsets.
    undo: list[Callable[[], None]] = field(default_factory=list)
    #: Let readers of the commit see changed rows. Not before the end: a native change that fails
    #: undoes the lists at once, under the number of the commit, and those rows come back later.
    show: list[Callable[[], None]] = field(default_factory=list)
    #: Number of nodes that were added, by node type.
    added: Counter[str] = field(default_factory=Counter)
    #: Error that has undone it already.
    failure: BaseException | None = None

    def check(self) -> None:
        """Raise unless the transaction goes on.

        Raises:
            InvalidArgumentError: it was undone when a change failed.
        """
        if self.failure is not None:
            raise InvalidArgumentError(
                f"the transaction was undone when a change failed: {self.failure}"
            ) from self.failure


class LiveStore:
    """Edges and rows of a graph that changes.

    Threads may share it; those that write take turns. Readers take snapshots and wait for nobody.

    Args:
        num_nodes: nodes by node type, to begin with.
        edges: what is kept of each edge type.
        arena_bytes: memory for edges.
        max_snapshot_age: seconds after which a snapshot may expire; None: none does.
        max_nodes: most nodes of a type there can be; None: 2^32 - 1.
        flags: ``native.LIVE_*``.
        memory: where edges are stored; None: in shared memory.
        base: graph file that the graph begins with; None: it begins without edges.
    """

    def __init__(
        self,
        num_nodes: Mapping[str, int],
        edges: Mapping[EdgeType, EdgeForm],
        *,
        arena_bytes: int,
        max_snapshot_age: float | None = None,
        max_nodes: int | None = None,
        flags: int = 0,
        memory: MemorySource | None = None,
        base: Base | None = None,
    ) -> None:
        #: Base of the lists, and the one that rows by edge id began with.
        self.base = self.rows_base = base
        self.max_nodes = _MOST_NODES if max_nodes is None else max_nodes
        self.first_nodes = dict(num_nodes)
        self.node_rows: dict[str, dict[str, GrowingRows]] = {name: {} for name in num_nodes}
        self.kinds = make_kinds(edges, base)
        age = 0 if max_snapshot_age is None else max(1, int(max_snapshot_age * 1e9))
        self._memory = (arena_bytes, age, flags, memory)
        made = self.make_lists(base, num_nodes)
        self._set(made, is_writer=True)

    def make_lists(
        self, base: Base | None, num_nodes: Mapping[str, int], first_commit: int = 1
    ) -> native.NativeLive:
        """Return a native graph of the same form over a base, as of its first commit."""
        edges = [None] * len(self.kinds) if base is None else base.edges
        relations = [
            native.LiveRelation(
                num_nodes[name[0]], num_nodes[name[2]], self.max_nodes, self.max_nodes,
                kind.form.layout,
                native.ORDER_ID if kind.form.order == "id" else native.ORDER_TIME,
                kind.form.columns, kind.form.edge_id_bytes,
                base_edges=0 if below is None else below.num_edges,
                base_edge_ids=0 if below is None else below.end,
            )
            for (name, kind), below in zip(self.kinds.items(), edges, strict=True)
        ]  # fmt: skip
        arena_bytes, age, flags, memory = self._memory
        made = native.NativeLive.create(
            relations, arena_bytes, age, flags, first_commit,
            None if memory is None else memory.live_memory, memory,
        )  # fmt: skip
        set_bases(made, self.kinds, base)
        return made

    @classmethod
    def make(
        cls,
        num_nodes: Mapping[str, int],
        edges: Mapping[EdgeType, EdgeForm],
        *,
        arena_mb: Any,
        max_snapshot_age: Any,
        max_nodes: Any,
        huge_pages: Any,
        mlock: Any,
        arena_memory: Any = None,
        base: Base | None = None,
    ) -> LiveStore:
        """Make a store of a user's options, which are checked.

        Raises:
            InvalidArgumentError: one is invalid; names it.
        """
        megabytes = as_count(arena_mb, "arena_mb")
        if not 0 < megabytes <= 32 << 10:
            raise InvalidArgumentError(f"arena_mb = {megabytes} is not in 1..32768 (32 GiB)")
        most = max(num_nodes.values(), default=0)
        if most > _MOST_NODES:
            raise InvalidArgumentError(f"{most} nodes are more than 2^32 - 1")
        if max_nodes is not None:
            if as_count(max_nodes, "max_nodes") < max(1, most):
                raise InvalidArgumentError(
                    f"max_nodes = {max_nodes} is below num_vertices = {most}"
                )
            if max_nodes > _MOST_NODES:
                raise InvalidArgumentError(f"max_nodes = {max_nodes} is not in 1..{_MOST_NODES}")
        age = None if max_snapshot_age is None else as_number(max_snapshot_age, "max_snapshot_age")
        if age is not None and not 0 < age < 1e9:
            raise InvalidArgumentError(f"max_snapshot_age = {age} is not in 0..1e9 seconds")
        flags = native.LIVE_HUGE * as_flag(huge_pages, "huge_pages")
        flags |= native.LIVE_LOCKED * as_flag(mlock, "mlock")
        if arena_memory is not None and not isinstance(arena_memory, MemorySource):
            raise InvalidArgumentError(
                f"arena_memory is of type {type(arena_memory).__name__}: give an object with a "
                "member live_memory, an address (MemorySource)"
            )
        return cls(
            num_nodes, edges, arena_bytes=megabytes << 20, max_snapshot_age=age,
            max_nodes=max_nodes, flags=flags, memory=arena_memory, base=base,
        )  # fmt: skip

    def _set(self, live: native.NativeLive, *, is_writer: bool) -> None:
        self._native: native.NativeLive | None = live
        self.is_writer = is_writer
        self._lock = threading.RLock()
        self._open: _Transaction | None = None
        #: Log of the changes; None: the graph is in memory only.
        self.journal: Journal | None = None
        if is_writer:
            #: Directory of the graph; None: it is in memory only.
            self.path: str | None = None
        #: Number of the next record by (source, partition), of streams that edges come from.
        self.offsets: dict[tuple[str, int], int] = {}
        #: Keys by node type, of types whose nodes have any.
        self.keys: dict[str, GrowingKeys] = {}
        _stores.add(self)

    # ---- other processes ---------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the memory is: the copy reads this graph as it changes."""
        rows = {
            kind: {
                name: (one.row_shape, one.dtype_name, one.room, one.base, one.fd)
                for name, one in table.items()
            }
            for kind, table in self.node_rows.items()
        }
        edges = {
            name: (kind.form, {key: one.fd for key, one in kind.rows.items()})
            for name, kind in self.kinds.items()
        }
        where = (Owner.here(), self.live.descriptors, self.first_nodes)
        keys = {name: (one.type, one.room, one.base, one.fd) for name, one in self.keys.items()}
        return _attach, (*where, rows, edges, self.rows_base, self.base, self.path, keys)

    @classmethod
    def attached(
        cls,
        owner: Owner,
        descriptors: list[int],
        num_nodes: dict[str, int],
        rows: Mapping[str, Mapping[str, tuple[Any, ...]]],
        edges: Mapping[EdgeType, tuple[EdgeForm, Mapping[str, int]]],
        rows_base: Base | None = None,
        base: Base | None = None,
        path: str | None = None,
        keys: Mapping[str, tuple[str, int, IdMap | None, int]] | None = None,
    ) -> LiveStore:
        """Open the store of another process, for reading.

        Args:
            owner: the process.
            descriptors: its descriptors of the native live graph.
            num_nodes: nodes by type that the graph began with.
            rows: by node type and attribute the shape of a row, dtype, room, base and descriptor.
            edges: by edge type what is kept, and the descriptors of rows by name.
            rows_base: graph file that rows by edge id begin with, opened by this process.
            base: graph file that the lists are over.
            path: directory of the graph; None: it has none.
            keys: by node type with keys their type, room, base and descriptor.
        """
        self = cls.__new__(cls)
        self.rows_base, self.base, self.path = rows_base, base, path
        self.max_nodes, self.first_nodes = _MOST_NODES, num_nodes
        live = _attach_lists(owner, descriptors)
        self.node_rows = {
            kind: {
                name: GrowingRows(*form, fd=open_descriptors(owner, [fd])[0])
                for name, (*form, fd) in table.items()
            }
            for kind, table in rows.items()
        }
        self.kinds = {}
        for number, (name, (form, fds)) in enumerate(edges.items()):
            opened = dict(zip(fds, open_descriptors(owner, list(fds.values())), strict=True))
            below = None if rows_base is None else rows_base.edges[number]
            self.kinds[name] = EdgeKind(name, number, form, opened, below)
        set_bases(live, self.kinds, base)
        self._set(live, is_writer=False)
        self.keys = {
            name: GrowingKeys(kind, room, below, open_descriptors(owner, [fd])[0])
            for name, (kind, room, below, fd) in (keys or {}).items()
        }
        live.follow = _follower(self)
        return self

    def follow(self) -> native.NativeLive | None:
        """Return the lists that a reader goes on with after a merge; None: nobody has them."""
        from aethergraph.dynamic.directory import LiveDirectory

        if self.path is None:
            return None
        try:
            address = LiveDirectory(self.path).address()
            base = None if address["base"] is None else Base.from_json(address["base"])
            live = _attach_lists(Owner(*address["owner"]), address["descriptors"])
        except (ClosedError, StorageError):
            return None  # the writer has closed it: there are no more commits
        set_bases(live, self.kinds, base)
        self.base = base
        return live

    # ---- reading -----------------------------------------------------------------------------

    @property
    def live(self) -> native.NativeLive:
        """Native live graph.

        Raises:
            ClosedError: the graph was closed.
        """
        if self._native is None:
            raise ClosedError("the live graph was closed")
        return self._native

    def check_open(self) -> None:
        """Raise ClosedError if the graph was closed."""
        if self._native is None:
            raise ClosedError("the live graph was closed")

    def check_not_base(self, path: native.Path) -> None:
        """Raise unless a file can be written at ``path`` without replacing what the lists are over.

        Raises:
            InvalidArgumentError: it is the base.
        """
        name = os.path.abspath(native.encode_path(path)[0])
        for base in (self.base, self.rows_base):
            if base is not None and os.path.realpath(name) == os.path.realpath(base.path):
                raise InvalidArgumentError(
                    f"{name} is the base of this live graph, which must stay as it is: give another"
                    " path"
                )

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._native is None

    def close(self) -> None:
        """Drop the store's own references; snapshots keep theirs."""
        if self.journal is not None:
            self.journal.close()
            self.journal = None
        self._native = None

    def relation_of(self, node_type: str) -> tuple[int, bool] | None:
        """Return a relation with nodes of that type, and whether they are its destinations."""
        for name, kind in self.kinds.items():
            if node_type in (name[0], name[2]):
                return kind.number, name[0] != node_type
        return None

    def count_nodes(
        self, node_type: str, snapshot: native.NativeSnapshot | native.NativeLive
    ) -> int:
        """Return the number of nodes of a type at the commit of a snapshot, or now."""
        found = self.relation_of(node_type)
        if found is None:
            return self.first_nodes[node_type]
        numbers = snapshot.describe(found[0])
        return numbers.num_dst if found[1] else numbers.num_src

    def take_nodes(self, node_type: str) -> tuple[native.NativeSnapshot, int]:
        """Take a snapshot; return it with the number of nodes of a type."""
        snapshot = self.live.take()
        return snapshot, self.count_nodes(node_type, snapshot)

    def take_edges(self, kind: EdgeKind) -> tuple[native.NativeSnapshot, int]:
        """Take a snapshot; return it with the number that edge ids of a type are below."""
        snapshot = self.live.take()
        return snapshot, snapshot.describe(kind.number).end_edge_ids

    # ---- transactions ------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the changes inside the block one commit, or, after an exception, none at all."""
        with self.writing():
            if self._open is not None:
                raise InvalidArgumentError("a transaction is open in this thread already")
            with self._changing() as opened:
                yield
                opened.check()

    def _check_writer(self) -> None:
        if not self.is_writer:
            raise UnsupportedError(
                "this copy of the live graph can only read: the process that made the graph writes"
            )

    @property
    def in_transaction(self) -> bool:
        """True while a transaction is open."""
        return self._open is not None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other threads from writing in a ``with`` block."""
        self._check_writer()
        with self._lock:
            yield

    @contextmanager
    def _changing(self) -> Iterator[_Transaction]:
        """Begin a commit unless one is open; end it with the block, undo all after an exception."""
        if self._open is not None:
            self._open.check()
            with self._undoing(self._open):
                yield self._open
            return
        self.live.begin()
        opened = self._open = _Transaction()
        try:
            with stage("transaction"), self._undoing(opened):
                yield opened
                with stage("commit"):
                    for show in opened.show:
                        show()
                    self.live.commit()
        finally:
            self._open = None
            self._reclaim()

    @contextmanager
    def _undoing(self, opened: _Transaction) -> Iterator[None]:
        """Undo the transaction after an exception, once."""
        try:
            yield
        except BaseException as error:
            self._undo(opened, error)
            raise

    def _undo(self, opened: _Transaction, error: BaseException) -> None:
        # A child that was forked inside of the block leaves its parent's rows alone.
        if opened.failure is not None or not self.is_writer:
            return
        opened.failure = error
        for undo in reversed(opened.undo):
            undo()
        with suppress(AetherError):  # the failure has undone the native part already
            self.live.abort()

    def _reclaim(self) -> None:
        """Let go of versions of rows and of former lists that no snapshot can ask for any more."""
        self.live.drop_former(_LOOK_SECONDS)
        changed = [rows for table in self.node_rows.values() for rows in table.values()]
        if any(rows.num_waiting > _RECLAIM_AFTER for rows in changed):
            oldest = self.live.count().oldest_commit
            for rows in changed:
                rows.reclaim(oldest)

    # ---- edges -------------------------------------------------------------------------------

    def insert_one(
        self, kind: EdgeKind, src: Any, dst: Any, time: Any, weight: Any, attrs: Any
    ) -> int:
        """Insert an edge; return its id, or that of the edge that is there already."""
        quick = attrs is None or (type(attrs) is dict and not attrs)
        if kind.is_plain:
            quick = quick and time is None and weight is None
        else:
            # Inside of a transaction it must be known that the edge is a new one.
            quick = quick and (self._open is None or kind.form.order == "time")
            quick = quick and _is_quick(kind, time, weight)
        if quick and self.is_writer and self._native is not None:
            try:
                with self._lock:
                    if self._open is not None:
                        self._open.check()
                    if self._open is None and not kind.is_plain:
                        self._put_values(kind, self.live.end_edge_ids(kind.number), time, weight)
                    try:
                        edge = self._native.insert_one(
                            kind.number, src, dst, time or 0, weight or 0.0
                        )
                        if self._open is not None and not kind.is_plain:
                            self._put_values(kind, edge, time, weight)
                        return edge
                    except AetherError as error:
                        if self._open is not None:
                            self._undo(self._open, error)
                        raise
            except (TypeError, OverflowError) as error:
                if isinstance(error, AetherError):
                    raise  # else an id that is none, which is named below
        one = attrs
        if isinstance(attrs, Mapping):
            one = {name: [value] for name, value in attrs.items()}
        return int(
            self.insert(
                kind, one_id(src, "src"), one_id(dst, "dst"),
                None if time is None else [time], None if weight is None else [weight], one,
            )[0]
        )  # fmt: skip

    def _put_values(self, kind: EdgeKind, edge: int, time: Any, weight: Any) -> None:
        """Write time and weight of an edge that is not committed yet: nobody asks for them."""
        if weight is not None:
            kind.values["edge_weight"].put_one(edge, weight)
        if time is not None:
            kind.values["edge_time"].put_one(edge, time)

    def insert(
        self,
        kind: EdgeKind,
        src: ArrayLike,
        dst: ArrayLike,
        time: ArrayLike | None,
        weight: ArrayLike | None,
        attrs: Mapping[str, ArrayLike] | None,
    ) -> Ids:
        """Insert edges; return the id of each."""
        self._check_writer()
        source, target = as_ids(src, "src"), as_ids(dst, "dst")
        count = len(source)
        if count != len(target):
            raise InvalidArgumentError(f"src has {count} ids, but dst has {len(target)}")
        times, weights = read_times(kind, time, count), read_weights(kind, weight, count)
        rows = read_rows(kind, {} if attrs is None else attrs, count)
        if weights is not None:
            rows["edge_weight"] = weights
        if times is not None:
            rows["edge_time"] = times
        with self.writing():
            if not rows and self._open is None:  # one native call is a commit of its own
                self.live.drop_former(_LOOK_SECONDS)
                with stage("commit"):
                    return self.live.insert(kind.number, source, target, times, weights)[0]
            with self._changing():
                ids, inserted = self.live.insert(kind.number, source, target, times, weights)
                if inserted:
                    self._put_rows(kind, ids, inserted, rows)
                return ids

    def _put_rows(
        self, kind: EdgeKind, ids: Ids, inserted: int, rows: Mapping[str, NDArray[Any]]
    ) -> None:
        """Write the rows of new edges, whose ids follow each other; others have theirs."""
        begin = int(ids.max()) - inserted + 1
        first: Any = slice(None)
        if inserted < len(ids):
            new = np.flatnonzero(ids >= begin)
            first = new[np.unique(ids[new], return_index=True)[1]]
        tables = kind.rows
        for name, values in rows.items():
            tables[name].put(begin, values[first])
            # Weights and times are in the edges' own operations.
            if self.journal is not None and name in kind.attrs:
                self.journal.log_edge_rows(kind, name, begin, values[first])

    def delete(
        self, kind: EdgeKind, src: ArrayLike, dst: ArrayLike, edge_ids: ArrayLike | None
    ) -> int:
        """Delete edges; return their number."""
        source, target = as_ids(src, "src"), as_ids(dst, "dst")
        ids = None if edge_ids is None else as_ids(edge_ids, "edge_ids")
        for name, values in (("dst", target), ("edge_ids", ids)):
            if values is not None and len(values) != len(source):
                raise InvalidArgumentError(
                    f"src has {len(source)} ids, but {name} has {len(values)}"
                )
        with self.writing(), self._changing():
            return self.live.delete(kind.number, source, target, ids)

    # ---- nodes -------------------------------------------------------------------------------

    def add_nodes(self, node_type: str, count: int, attrs: Mapping[str, ArrayLike]) -> Ids:
        """Add nodes with their rows; return their ids."""
        if node_type in self.keys:
            raise InvalidArgumentError(
                "each node has a key: graph.ids.add(keys) adds nodes, of a typed graph "
                f"graph.ids[{node_type!r}].add(keys)"
            )
        return self._add_nodes(node_type, as_count(count, "count"), attrs)

    def _add_nodes(self, node_type: str, number: int, attrs: Mapping[str, ArrayLike]) -> Ids:
        if self.relation_of(node_type) is None:
            raise UnsupportedError(
                f"{node_type!r} is at the end of no edge type: such nodes cannot be added"
            )
        tables = self.node_rows[node_type]
        _check_given(tables, attrs, number)
        rows = {
            name: as_rows(values, tables.get(name), name, number) for name, values in attrs.items()
        }
        with self.writing(), self._changing() as opened:
            begin = self._count_now(node_type)
            for name, values in rows.items():
                tables[name].put(begin, values)
                if self.journal is not None:
                    self.journal.log_node_rows(node_type, name, begin, values)
            for kind in self.kinds.values():
                ends = [end == node_type for end in (kind.name[0], kind.name[2])]
                if any(ends):
                    self.live.add_nodes(kind.number, *(number * is_end for is_end in ends))
            opened.added[node_type] += number
            return np.arange(begin, begin + number)

    def keys_of(self, node_type: str) -> GrowingKeys:
        """Return the keys of the nodes of a type.

        Raises:
            UnsupportedError: they have none.
        """
        if node_type not in self.keys:
            raise UnsupportedError(
                f"nodes of type {node_type!r} have no keys: make the graph by open(path, ids='str')"
            )
        return self.keys[node_type]

    def add_keys(
        self,
        node_type: str,
        block: native.KeyBlock,
        attrs: Mapping[str, ArrayLike] | None = None,
    ) -> tuple[Ids, int]:
        """Return the id of the node of each key, and how many were added for keys without one.

        Args:
            node_type: type of the nodes.
            block: the keys.
            attrs: rows of each attribute, one per key; None: rows of new nodes are zeros.
        """
        keys, tables = self.keys_of(node_type), self.node_rows[node_type]
        if attrs is not None:
            _check_given(tables, attrs, len(block))
        rows = {
            name: as_rows(values, tables.get(name), name, len(block))
            for name, values in (attrs or {}).items()
        }
        with self.writing(), self._changing() as opened:
            before, begin = keys.tiers, self._count_now(node_type)
            added = keys.add(block, begin)
            count = len(added.new)
            if count:
                opened.undo.append(lambda: setattr(keys, "tiers", before))
                first = {name: values[added.first] for name, values in rows.items()}
                for name, one in tables.items():
                    first.setdefault(name, np.zeros((count, *one.row_shape), one.dtype))
                self._add_nodes(node_type, count, first)
                if self.journal is not None:
                    self.journal.log_keys(node_type, begin, added.new)
            return added.ids, count

    def find_keys(self, node_type: str, block: native.KeyBlock) -> Ids:
        """Return the id of the node of each key, -1 where none has it, in the open transaction."""
        with self.writing():
            count = self._count_now(node_type)
            return self.keys_of(node_type).find(block, native.hash_keys(block), count)

    def _count_now(self, node_type: str) -> int:
        """Return the number of nodes of a type, with those of the open transaction."""
        last = self.count_nodes(node_type, self.live.take_last())
        return last + (0 if self._open is None else self._open.added[node_type])

    def update_nodes(self, node_type: str, ids: ArrayLike, attrs: Mapping[str, ArrayLike]) -> None:
        """Change the rows of nodes."""
        nodes = as_ids(ids, "ids")
        tables = self.node_rows[node_type]
        rows = {n: as_rows(values, tables.get(n), n, len(nodes)) for n, values in attrs.items()}
        last = (
            len(nodes) - 1 - np.unique(nodes[::-1], return_index=True)[1]
        )  # of equal ids the last
        with self.writing(), self._changing() as opened:
            count = self._count_now(node_type)
            bad = np.flatnonzero((nodes < 0) | (nodes >= count))
            if len(bad):
                at = int(bad[0])
                raise OutOfRangeError(
                    f"ids[{at}] = {nodes[at]} is {describe_range(count)}",
                    position=at, value=int(nodes[at]),
                )  # fmt: skip
            commit = self.live.take_last().commit + 1
            for name, values in rows.items():
                if tables[name].num_free < len(last):
                    tables[name].reclaim(self.live.count().oldest_commit)
                change = tables[name].change(nodes[last], values[last], commit, hidden=True)
                opened.undo.append(change.undo)
                opened.show.append(change.show)
                if self.journal is not None:
                    self.journal.log_changed_rows(node_type, name, nodes[last], values[last])

    def begin_rows(
        self, node_type: str, name: str, value: FeatureSource | ArrayLike | None
    ) -> None:
        """Begin an attribute of nodes with one row for each that there is; None: end it."""
        with self.writing():
            if self._open is not None:
                raise InvalidArgumentError(
                    f"node_attrs[{name!r}]: attributes begin and end outside of transactions"
                )
            if value is None:
                if not is_name(name) or name not in self.node_rows[node_type]:
                    raise InvalidArgumentError(
                        f"node_attrs[{shown(name)}] = None ends an attribute, and there is none"
                    )
                if self.journal is not None:
                    self.journal.log_rows_end(node_type, name)
                del self.node_rows[node_type][name]
                self._publish()
                return
            if not is_name(name):
                raise InvalidArgumentError(
                    f"the name of a node attribute must be a non-empty string, got {shown(name)}"
                )
            base: RowSource | None = as_row_source(value, f"node_attrs[{name!r}]")
            assert base is not None
            count = self.count_nodes(node_type, self.live.take_last())
            if base.num_rows != count:
                raise InvalidArgumentError(
                    f"node_attrs[{name!r}] has {base.num_rows} rows, but num_nodes = {count}"
                )
            shape, dtype_name = tuple(base.row_shape), base.dtype_name
            room = rows_room(shape, dtype_name, self.max_nodes)
            given = base.read(0, count) if base.path is None and base.is_in_memory else None
            rows = GrowingRows(shape, dtype_name, room, base if given is None else None)
            if given is not None:  # in shared memory other processes have it, too
                rows.put(0, given)
            if self.journal is not None:
                self.journal.log_rows_begin(node_type, name, base, rows)
            self.node_rows[node_type][name] = rows
            self._publish()

    def _publish(self) -> None:
        """Tell who attaches from now on of the attributes that there are."""
        if self.journal is not None:
            self.journal.publish()

    # ---- streams -----------------------------------------------------------------------------

    def set_offset(self, source: str, partition: int, following: int) -> None:
        """Note the number of the next record of a stream, in the commit of those before it."""
        place, number = (source, partition), as_count(following, "following")
        with self.writing(), self._changing() as opened:
            before = self.offsets.get(place)
            self.offsets[place] = number

            def undo() -> None:
                if before is None:
                    del self.offsets[place]
                else:
                    self.offsets[place] = before

            opened.undo.append(undo)
            if self.journal is not None:
                self.journal.log_offset(source, partition, number)


def _check_given(tables: Mapping[str, Any], attrs: Mapping[str, Any], count: int) -> None:
    for name in tables:
        if name not in attrs:
            raise InvalidArgumentError(
                f"nodes have the attribute {name!r}: give {name}= with {count} rows"
            )


def _attach(*state: Any) -> LiveStore:
    return LiveStore.attached(*state)
