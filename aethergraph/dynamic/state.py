"""LiveState: lists, rows and keys of a live graph in shared memory: made, attached, and read.

::

    LiveState ──┬── native live graph: the lists of every edge type
                ├── GrowingRows: attributes of nodes and of edges
                └── GrowingKeys: keys of nodes

Another process opens the memory by descriptors. There, and in a forked child, it is for reading.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from multiprocessing.context import get_spawning_popen
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from uuid import uuid4

from aethergraph import _native as native
from aethergraph._checks.options import shown
from aethergraph.dynamic.base_graph import Base
from aethergraph.dynamic.edge_types import EdgeKind, make_kinds, set_bases
from aethergraph.dynamic.forms import EdgeForm, MemoryOptions
from aethergraph.dynamic.graph_form import MOST_NODES, GraphForm
from aethergraph.dynamic.growing_keys import GrowingKeys
from aethergraph.dynamic.node_times import (
    NODE_TIME,
    make_node_times,
    node_time_from_json,
    node_time_to_json,
)
from aethergraph.dynamic.rows import GrowingRows
from aethergraph.dynamic.shared_lists import attach_lists, published_lists
from aethergraph.dynamic.transaction import Transaction
from aethergraph.dynamic.turns import Turn
from aethergraph.dynamic.watermarks import SharedWatermark
from aethergraph.errors import (
    ClosedError,
    InvalidArgumentError,
    MissingFileError,
    StorageError,
    UnsupportedError,
)
from aethergraph.protocols import RowSource
from aethergraph.storage.described import is_count
from aethergraph.storage.live_directory import check_outside
from aethergraph.storage.other_process import OpenFile, Owner, open_descriptors

if TYPE_CHECKING:
    from aethergraph.dynamic.journal import Journal

__all__ = ["LiveState"]

Own = TypeVar("Own", bound="LiveState")


_stores: weakref.WeakSet[LiveState] = weakref.WeakSet()


def _follower(store: LiveState) -> Callable[[], native.NativeLive | None]:
    """Return :meth:`LiveState.follow` of a store, which it does not keep."""
    kept = weakref.ref(store)

    def follow() -> native.NativeLive | None:
        state = kept()
        return None if state is None else state.follow()

    return follow


def _forget_writers() -> None:
    """Make the stores of a forked child readers: its copy of a lock may be held for ever."""
    for store in _stores:
        store.is_writer, store._lock, store._turn = False, threading.Lock(), None
        store.journal = None
        if store._open is not None:  # the parent may undo it, and give its ids to other keys
            for keys in store.keys.values():
                keys.forget_index()
        if store._native is not None:
            store._native.begin_child(_follower(store))


os.register_at_fork(after_in_child=_forget_writers)


class LiveState:
    """Edges, rows and keys of a graph that changes, as far as a reader knows them.

    Threads may share it. Readers take snapshots and wait for nobody.

    Args:
        form: types of nodes and edges, and what is kept of them.
        memory: memory for the edges.
        base: graph file that the graph begins with; None: it begins without edges.
    """

    def __init__(self, form: GraphForm, memory: MemoryOptions, base: Base | None = None) -> None:
        #: Base that rows by edge id began with.
        self.rows_base = base
        self.max_nodes = MOST_NODES if form.max_nodes is None else form.max_nodes
        self.first_nodes = dict(form.num_nodes)
        self.node_rows: dict[str, dict[str, GrowingRows]] = {name: {} for name in form.num_nodes}
        #: Rows of nodes that change by themselves, by node type and attribute.
        self.node_sources: dict[str, dict[str, RowSource]] = {name: {} for name in form.num_nodes}
        #: Times of nodes, by the node types that have times.
        self.node_times = {
            name: make_node_times(
                form.node_time[name], self.max_nodes,
                None if base is None else base.node_times(place),
            )
            for place, name in enumerate(form.num_nodes)
            if name in form.node_time
        }  # fmt: skip
        self.kinds = make_kinds(form.edges, base, self.node_times)
        self._memory = memory
        self._set(self.make_lists(base, form.num_nodes), is_writer=True)

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
                kind.columns, kind.form.edge_id_bytes,
                base_edges=0 if below is None else below.num_edges,
                base_edge_ids=0 if below is None else below.end,
            )
            for (name, kind), below in zip(self.kinds.items(), edges, strict=True)
        ]  # fmt: skip
        lists = self._memory.create(relations, first_commit)
        set_bases(lists, self.kinds, base)
        return lists

    def _set(
        self, live: native.NativeLive, *, is_writer: bool, watermark: int | None = None,
        memory_name: str | None = None,
    ) -> None:  # fmt: skip
        self._native: native.NativeLive | None = live
        live.store = self
        self.is_writer = is_writer
        #: Name of what is in memory, in all processes that read it; the next graph has another.
        self.memory_name = memory_name or uuid4().hex
        #: Version of LIVE that a reader has read; None: none.
        self.publication: tuple[int, int] | None = None
        #: Process that writes it, or has; None: that is not known.
        self.writer: Owner | None = None
        if is_writer:
            with suppress(OSError):  # no /proc
                self.writer = Owner.here()
        #: Held while :attr:`_turn` is. An RLock can be left only by the thread that took it, and
        #: a transaction in a generator or a pool of threads may end in another one.
        self._lock = threading.Lock()
        self._turn: Turn | None = None
        self._open: Transaction | None = None
        #: Log of the changes; None: the graph is in memory only.
        self.journal: Journal | None = None
        #: Identity of the graph in a directory, whose log numbers its commits; None: it is in none.
        self.uuid: str | None = None
        #: Directory whose log is done again here, by a History; None: there is none.
        self.replayed_path: str | None = None
        if is_writer:
            #: Directory of the graph; None: it is in memory only.
            self.path: str | None = None
        #: Number of the next record by (source, partition), of streams that edges come from.
        self.offsets: dict[tuple[str, int], int] = {}
        #: Who takes the records of each of them at the moment.
        self.streams: dict[str, object] = {}
        #: Least watermark of these streams, for readers.
        self.watermark = SharedWatermark(watermark)
        #: Lists of the base that are drawn from by weight: number of the edge type, and layout.
        self._weighted: set[tuple[int, Literal["csc", "csr"]]] = set()
        #: Keys by node type, of types whose nodes have any.
        self.keys: dict[str, GrowingKeys] = {}
        _stores.add(self)

    # ---- other processes ---------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the memory is: the copy reads this graph as it changes.

        Raises:
            UnsupportedError: a process begins with it that would not see the commit that this
                thread holds, or cannot have the memory.
        """
        if get_spawning_popen() is not None and self.live.is_reading:
            raise UnsupportedError(
                "a worker process that is not forked cannot see the commit of this block of "
                "reading(), but only the last one: fork it (multiprocessing_context='fork'), take "
                "threads (num_workers=0), or begin it outside of the block"
            )
        self.live.check_shared()
        address = self.address(lambda growing: growing.base)
        sources = {kind: dict(table) for kind, table in self.node_sources.items()}
        return _attach, (type(self), address, self.path, self.uuid, self.writer, sources)

    def address(
        self, name_of: Callable[[GrowingRows | GrowingKeys], Any],
        lists: native.NativeLive | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Describe where the memory is, for :meth:`attached` in another process.

        Args:
            name_of: returns the base of rows or keys, as the other process is to find it.
            lists: where the graph goes on; None: in its own memory.
        """
        files, base = (self.live if lists is None else lists).describe_memory(OpenFile.of)
        rows: dict[str, dict[str, Any]] = {
            kind: {
                name: [
                    list(attr.row_shape), attr.dtype_name, attr.room,
                    None if attr.base is None else name_of(attr), attr.file,
                ]
                for name, attr in table.items()
            }
            for kind, table in self.node_rows.items()
        }  # fmt: skip
        for kind, times in self.node_times.items():  # their base is that of all rows
            rows[kind][NODE_TIME] = [[], "int64", times.rows.room, None, times.rows.file]
        return {
            "owner": Owner.here(), "memory": self.memory_name, "descriptors": files,
            "num_nodes": self.first_nodes, "rows": rows,
            "edges": [
                [list(name), kind.form.to_json(), {n: attr.file for n, attr in kind.rows.items()}]
                for name, kind in self.kinds.items()
            ],
            "base": None if base is None else base.to_json(),
            "rows_base": None if self.rows_base is None else self.rows_base.to_json(),
            "ids": {
                name: [
                    keys.type, keys.room, None if keys.base is None else name_of(keys), keys.file,
                ]
                for name, keys in self.keys.items()
            },
            "watermark": self.watermark.file,
            NODE_TIME: node_time_to_json({n: times.unit for n, times in self.node_times.items()}),
        }  # fmt: skip

    @classmethod
    def attached(
        cls: type[Own], address: Mapping[str, Any], path: str | None, uuid: str | None,
        writer: Owner | None, base_of: Callable[[Any], Any],
        sources: Mapping[str, Mapping[str, RowSource]] | None = None,
    ) -> Own:  # fmt: skip
        """Open the store of another process, for reading.

        Args:
            address: what its :meth:`address` describes. If a merge has put other lists in the place
                of its since, those that the directory names are opened.
            path: directory of the graph; None: it has none.
            uuid: its :attr:`uuid`.
            writer: its :attr:`writer`.
            base_of: opens the base of rows or keys.
            sources: rows that change by themselves, by node type and attribute.
        """
        self = cls.__new__(cls)
        owner, memory_name = Owner(*address["owner"]), address.get("memory", "")

        def opened(file: Any) -> int:
            return open_descriptors(owner, [file])[0]

        try:
            live, below = attach_lists(owner, address["descriptors"], address["base"])
        except (ClosedError, MissingFileError):
            if path is None:
                raise
            live, below = published_lists(path, memory_name)
        first, units = address["rows_base"], node_time_from_json(address)
        self.rows_base = rows_base = None if first is None else Base.from_json(first)
        self.path, self.max_nodes, self.first_nodes = path, MOST_NODES, address["num_nodes"]
        self.node_times, self.node_rows, self.node_sources, self.kinds = {}, {}, {}, {}
        for place, (kind, table) in enumerate(address["rows"].items()):
            rows = dict(table)
            if kind in units:
                *form, _, file = rows.pop(NODE_TIME)
                _, _, room = _row_form(*form)
                first_times = None if rows_base is None else rows_base.node_times(place)
                times = make_node_times(units[kind], room, first_times, opened(file))
                self.node_times[kind] = times
            self.node_rows[kind] = {
                name: GrowingRows(
                    *_row_form(*form), None if base is None else base_of(base), fd=opened(file)
                )
                for name, (*form, base, file) in rows.items()
            }
            self.node_sources[kind] = dict((sources or {}).get(kind, {}))
        for number, (names, form, files) in enumerate(address["edges"]):
            name = (names[0], names[1], names[2])
            fds = dict(zip(files, open_descriptors(owner, list(files.values())), strict=True))
            self.kinds[name] = EdgeKind(
                name, number, EdgeForm.from_json(form), self.node_times, fds,
                None if rows_base is None else rows_base.edges[number],
            )  # fmt: skip
        set_bases(live, self.kinds, below)
        watermark = address.get("watermark")
        self._set(
            live, is_writer=False, watermark=None if watermark is None else opened(watermark),
            memory_name=memory_name,
        )  # fmt: skip
        self.uuid, self.writer = uuid, writer
        self.keys = {
            name: GrowingKeys(key_type, room, None if base is None else base_of(base), opened(file))
            for name, (key_type, room, base, file) in address.get("ids", {}).items()
        }
        live.follow = _follower(self)
        return self

    def succeed(self, live: native.NativeLive) -> None:
        """Take the place of the store of a former writer, whose readers go on in ``live``."""
        former = live.store
        assert self._native is not None
        if former is not None:
            _stores.discard(former)
            self._weighted = former._weighted
            for number, layout in self._weighted:
                self._native.sum_weights(number, layout)
        live.become_next(self._native)
        self._native = live

    def follow(self) -> native.NativeLive | None:
        """Return the lists that a reader goes on with after a merge; None: nobody has them."""
        if self.path is None:
            return None
        try:
            live, base = published_lists(self.path, self.memory_name)
        except (ClosedError, StorageError):
            return None  # the writer has closed it: there are no more commits
        if base is not None:
            self.sum_weights(base)
        set_bases(live, self.kinds, base)
        return live

    def prepare_weights(self, kind: EdgeKind, layout: Literal["csc", "csr"]) -> None:
        """Get ready for draws by weight: of a base's long lists, and of those of coming bases."""
        self._weighted.add((kind.number, layout))
        self.live.sum_weights(kind.number, layout)

    def sum_weights(self, base: Base) -> None:
        """Sum up the weights of a coming base as far as they are drawn by."""
        for number, layout in list(self._weighted):
            base.edges[number].sum_weights(layout)

    # ---- reading -----------------------------------------------------------------------------

    @property
    def base(self) -> Base | None:
        """Base of the lists; None: they have none, or the graph was closed."""
        return None if self._native is None else cast("Base | None", self._native.base_file)

    @property
    def renumbers_edges(self) -> bool:
        """True if the first edges have the ids of the file that the graph was made over.

        Else each edge has the number of its insertion.
        """
        base = self.base
        return base is not None and base.renumbers_edges

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
            InvalidArgumentError: it is the base, or would be in the directory of a live graph.
        """
        name = os.path.abspath(native.encode_path(path)[0])
        for base in (self.base, self.rows_base):
            if base is not None and os.path.realpath(name) == os.path.realpath(base.path):
                raise InvalidArgumentError(
                    f"{name} is the base of this live graph, which must stay as it is: give another"
                    " path"
                )
        check_outside(path)

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._native is None

    @property
    def has_turn(self) -> bool:
        """True if the caller is inside of a transaction: all others that write wait for it.

        Raises:
            InvalidArgumentError: another coroutine of this thread is.
        """
        now = self._turn
        return now is not None and now.is_mine()

    @contextmanager
    def taking_turns(self) -> Iterator[None]:
        """Keep other threads out of a ``with`` block, which any thread may leave.

        Raises:
            InvalidArgumentError: another coroutine of this thread is inside of one.
        """
        if self.has_turn:
            yield
            return
        turn = Turn()
        try:
            # Ctrl-C may raise wherever Python code is called: nothing is between lock and release.
            with self._lock:
                self._turn = turn
                try:
                    yield
                finally:
                    turn.is_over, self._turn = True, None
        finally:
            turn.end()

    def close(self) -> None:
        """Drop the store's own references, whatever fails; snapshots keep theirs.

        Waits for the changes of other threads. Those that come later raise ClosedError.

        Raises:
            InvalidArgumentError: this thread is inside of a transaction, or is merging; then
                nothing is closed.
        """
        if self.has_turn:
            raise InvalidArgumentError("close() inside a transaction: call it after its end")
        journal = self.journal
        if journal is not None:
            journal.check_not_merging("close()")
            journal.close()
        else:
            with self.taking_turns():
                self.forget()

    def forget(self) -> None:
        """Drop the references to log and lists; the log is closed."""
        self.journal = self._native = None

    def stored_node_rows(self) -> dict[str, dict[str, GrowingRows]]:
        """Return all rows by node type and name: attributes, and times of nodes."""
        return {
            name: {**table, NODE_TIME: self.node_times[name].rows}
            if name in self.node_times
            else table
            for name, table in self.node_rows.items()
        }

    @property
    def time_unit(self) -> str | None:
        """Unit of the times of edges and nodes; None for plain numbers and without times."""
        units = [kind.form.time_unit for kind in self.kinds.values() if kind.form.has_time]
        units += [times.unit for times in self.node_times.values()]
        return units[0] if units else None

    @property
    def time_zone(self) -> str | None:
        """Time zone of the times of edges, ``"UTC"``, if the base names one."""
        return None if self.base is None else self.base.graph.time_zone

    @cached_property
    def _relations(self) -> dict[str, tuple[int, bool]]:
        """Relation with nodes of each type, and whether they are its destinations."""
        relations: dict[str, tuple[int, bool]] = {}
        for (source, _, target), kind in self.kinds.items():
            relations.setdefault(source, (kind.number, False))
            relations.setdefault(target, (kind.number, True))
        return relations

    def relation_of(self, node_type: str) -> tuple[int, bool] | None:
        """Return a relation with nodes of that type, and whether they are its destinations."""
        return self._relations.get(node_type)

    def count_nodes(
        self, node_type: str, snapshot: native.NativeSnapshot | native.NativeLive
    ) -> int:
        """Return the number of nodes of a type at the commit of a snapshot, or now."""
        relation = self.relation_of(node_type)
        if relation is None:
            return self.first_nodes[node_type]
        numbers = snapshot.describe(relation[0])
        return numbers.num_dst if relation[1] else numbers.num_src

    def take_nodes(self, node_type: str) -> tuple[native.NativeSnapshot, int]:
        """Take a snapshot; return it with the number of nodes of a type."""
        snapshot = self.live.take()
        return snapshot, snapshot.store.count_nodes(node_type, snapshot)

    def take_edges(self, kind: EdgeKind) -> tuple[native.NativeSnapshot, int]:
        """Take a snapshot; return it with the number that edge ids of a type are below."""
        snapshot = self.live.take()
        return snapshot, snapshot.describe(kind.number).end_edge_ids


def _row_form(shape: Any, dtype: Any, room: Any) -> tuple[tuple[int, ...], str, int]:
    proper = isinstance(shape, list) and all(map(is_count, shape)) and is_count(room)
    if not proper or dtype not in native.DTYPE_CODES:
        raise ValueError(f"{shown(room)} rows {shown(shape)} of {shown(dtype)}")
    return tuple(shape), dtype, room


def _attach(
    cls: type[LiveState], address: dict[str, Any], path: str | None, uuid: str | None,
    writer: Owner | None, sources: dict[str, dict[str, RowSource]],
) -> LiveState:  # fmt: skip
    return cls.attached(address, path, uuid, writer, lambda base: base, sources)
