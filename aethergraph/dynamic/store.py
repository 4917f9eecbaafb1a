"""LiveStore: changes of a graph of any number of types, and their commits.

::

    DynamicGraph ──────────┐
                           ├── LiveStore ──── LiveState: lists, rows and keys
    DynamicHeteroGraph ────┘    one writer    in shared memory (state.py)

What a transaction changes in lists and rows belongs to one commit: rows are written, or linked with
the number of the commit to come, before the lists' commit makes it the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import (
    as_count,
    as_ids,
    describe_range,
    empty,
)
from aethergraph._checks.options import is_name, shown
from aethergraph._tracepoints import stage
from aethergraph.dynamic.edge_types import EdgeKind, rows_room
from aethergraph.dynamic.growing_keys import GrowingKeys
from aethergraph.dynamic.inputs import as_rows, one_id, read_rows, read_times, read_weights
from aethergraph.dynamic.node_times import NODE_TIME, RESERVED
from aethergraph.dynamic.rows import GrowingRows
from aethergraph.dynamic.state import LiveState
from aethergraph.dynamic.transaction import Mark, SingleEdges, Transaction, pack_edge
from aethergraph.dynamic.watermarks import WATERMARK, packed, times_of
from aethergraph.errors import (
    AbsentError,
    AetherError,
    InvalidArgumentError,
    LimitError,
    OutOfRangeError,
    UnsupportedError,
)
from aethergraph.features.adapters import as_row_source
from aethergraph.protocols import FeatureSource, RowSource

__all__ = ["LiveStore"]

Ids = NDArray[np.int64]
V = TypeVar("V")

_insert_plain = native.insert_plain  # looked up once
#: Weights up to it are integers that float32 holds, or fractions.
_MOST_WEIGHT = 1 << 24
#: Errors that come before a change of the lists, or from the native graph, which has undone it.
_OF_ARGUMENTS = (AetherError, TypeError, OverflowError)
#: Changes of rows after which versions that nobody reads are looked for.
_RECLAIM_AFTER = 16
#: Time between looks for snapshots from before a merge, which memory waits for.
_LOOK_SECONDS = 0.05
#: Time between looks for readers that have ended or are overdue, while they keep versions of rows.
_LOOK_HARD_SECONDS = 1.0
#: Versions of the rows of an attribute, beside one for each node, that overdue readers may keep.
_KEPT_VERSIONS = 1 << 16


def _is_quick(kind: EdgeKind, time: Any, weight: Any) -> bool:
    """Return True if the values of an edge are all that it has, and plainly right."""
    form = kind.form
    if kind.attrs or kind.by_source:
        return False
    if form.has_time:
        # -2^63 would be NaT among datetimes.
        if type(time) is not int or not -(2**63) < time < 2**63:
            return False
    elif time is not None:
        return False
    if form.has_weight:
        return type(weight) in (float, int) and 0 <= weight <= _MOST_WEIGHT
    return weight is None


class LiveStore(LiveState):
    """Edges and rows of a graph that changes, with the changes of its one writer.

    Threads that write take turns. Made as :class:`LiveState` is.
    """

    #: When it was last looked for readers that have ended or are overdue.
    _looked = 0.0

    # ---- transactions ------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the changes inside the block one commit, or, after an exception, none at all."""
        with self.writing():
            if self._open is not None:
                raise InvalidArgumentError("a transaction is open in this thread already")
            with self._committing(goes_on=True) as opened:
                yield
                opened.check()

    def check_writer(self) -> None:
        """Raise UnsupportedError unless this process writes the graph."""
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
        self.check_writer()
        with self.taking_turns():
            yield

    @contextmanager
    def _changing(self) -> Iterator[Transaction]:
        """Change something in a ``with`` block: as a commit, or a call of the open transaction.

        After an exception nothing of the block has happened.
        """
        opened = self._open
        if opened is None:
            with self._committing(goes_on=False) as opened:
                yield opened
            return
        opened.check()
        if opened.is_calling or not opened.goes_on:  # a part of another change
            yield opened
            return
        mark = opened.mark()
        try:
            opened.is_calling = True
            yield opened
        except BaseException as error:
            self._undo_call(opened, mark, error)
            raise
        finally:
            opened.is_calling = False

    @contextmanager
    def _committing(self, goes_on: bool) -> Iterator[Transaction]:
        """Begin a commit, and end it with the block; undo all after an exception."""
        opened = self._open = Transaction(self.live.last_commit, goes_on)
        try:
            with stage("transaction"), self._undoing(opened):
                self.live.begin()
                yield opened
                with stage("commit"):
                    for show in opened.show:
                        show(self.live.last_commit + 1)
                    opened.is_ending = True
                    self.live.commit()
                self._end_commit(opened)
        finally:
            self._open = None
            self._reclaim()

    def change_lists(self, change: Callable[..., V], *args: Any) -> V:
        """Return ``change(*args)``, a call of the native graph, to be made again if need be."""
        value, opened = change(*args), self._open
        if opened is not None and opened.goes_on:
            kept = (arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args)
            opened.calls.append(partial(change, *kept))
        return value

    def _undo_call(
        self, opened: Transaction, mark: Mark, error: BaseException, has_changed: bool = False
    ) -> None:
        """Undo a call of the open transaction, what came after a mark; all where that fails, too.

        Args:
            opened: the transaction.
            mark: where it was before the call.
            error: what the call has raised.
            has_changed: the call is known to have changed the lists.
        """
        if opened.failure is not None or not self.is_writer:
            return
        try:
            is_undone = self.live.last_commit > opened.begun  # by the native graph, which failed
            has_changed |= opened.take_back(mark, self.live.last_commit)
            has_changed |= not isinstance(error, _OF_ARGUMENTS)  # Ctrl-C may come behind a change
            if has_changed and not is_undone:
                self.live.abort()
            if has_changed or is_undone:
                self.live.begin()
                opened.begun = self.live.last_commit
                for call in opened.calls:
                    call.insert(self.live) if isinstance(call, SingleEdges) else call()
        except BaseException as failure:
            self._undo(opened, failure)
            if not isinstance(failure, AetherError):
                raise

    @contextmanager
    def _undoing(self, opened: Transaction) -> Iterator[None]:
        """Undo the transaction after an exception, once."""
        try:
            yield
        except BaseException as error:
            self._undo(opened, error)
            raise

    def _undo(self, opened: Transaction, error: BaseException) -> None:
        # A child that was forked inside of the block leaves its parent's rows alone.
        if opened.failure is not None or not self.is_writer:
            return
        is_over = opened.is_ending and self.live.last_commit > opened.begun
        if is_over and not isinstance(error, AetherError):
            self._end_commit(opened)  # Ctrl-C has come when the commit could be seen already
            return
        opened.failure = error
        for undo in reversed(opened.undo):
            undo(self.live.last_commit)
        with suppress(AetherError):  # the failure has undone the native part already
            self.live.abort()

    def _end_commit(self, opened: Transaction) -> None:
        """Do what follows a commit that can be seen; perhaps again, after Ctrl-C in it."""
        if opened.offsets:
            # Another object in one step: other threads may be going through the former one.
            self.offsets = {**self.offsets, **dict(opened.offsets)}
        for call in opened.after:
            call()

    def _reclaim(self) -> None:
        """Let go of versions of rows and of former lists that no snapshot can ask for any more."""
        self.live.drop_former(_LOOK_SECONDS)
        changed = [rows for table in self.node_rows.values() for rows in table.values()]
        if any(rows.num_waiting > _RECLAIM_AFTER for rows in changed):
            if self.is_writer and monotonic() - self._looked >= _LOOK_HARD_SECONDS:
                self._look_for_readers()
            oldest = self.live.count().oldest_commit
            for rows in changed:
                rows.reclaim(oldest)

    def _look_for_readers(self) -> None:
        """Forget readers that have ended, and where versions of rows are many, overdue ones."""
        if any(
            rows.num_versions > self.count_nodes(node_type, self.live) + _KEPT_VERSIONS
            for node_type, table in self.node_rows.items()
            for rows in table.values()
        ):
            self.live.reclaim()
        else:
            self.live.reap()
        self._looked = monotonic()

    # ---- edges -------------------------------------------------------------------------------

    def insert_one(
        self, kind: EdgeKind, src: Any, dst: Any, time: Any, weight: Any, attrs: Any
    ) -> int:
        """Insert an edge; return its id, or that of the edge that is there already."""
        if type(src) is not int or type(dst) is not int:
            src, dst = one_id(src, "src"), one_id(dst, "dst")  # cffi takes a numpy 3.7 for 3
        plain = attrs is None and weight is None and time is None and kind.is_plain
        if plain and self._turn is None and self.is_writer:
            lock = self._lock
            lock.acquire()  # a with statement takes twice as long, a tenth of the whole call
            try:
                live = self._native or self.live
                handles = live.plain
                if self._open is None and handles is not None:
                    edge = _insert_plain(handles[0], kind.number, src, dst, handles[1])
                    if edge < 0:
                        live.fail(edge)
                    return edge
            except (TypeError, OverflowError) as error:
                if isinstance(error, AetherError):
                    raise  # else an id that is none, which is named below
            finally:
                lock.release()
        return self._insert_any(kind, src, dst, time, weight, attrs)

    def _insert_any(
        self, kind: EdgeKind, src: Any, dst: Any, time: Any, weight: Any, attrs: Any
    ) -> int:
        """Insert an edge with whatever it has, in a transaction or not, over a base or not."""
        quick = attrs is None or (type(attrs) is dict and not attrs)
        if kind.is_plain:
            quick = quick and time is None and weight is None
        else:
            # Inside of a transaction it must be known that the edge is a new one.
            quick = quick and (self._open is None or kind.form.order == "time")
            quick = quick and _is_quick(kind, time, weight)
        if quick and self.is_writer:
            turn = self._turn
            lock = None if turn is not None and turn.is_mine() else self._lock
            if lock is not None:
                lock.acquire()
            try:
                if self._open is not None:
                    return self._insert_into(self._open, kind, src, dst, time, weight)
                if kind.is_plain:
                    return (self._native or self.live).insert_one(kind.number, src, dst)
                self._put_values(kind, self.live.end_edge_ids(kind.number), time, weight)
                return self.live.insert_one(kind.number, src, dst, time or 0, weight or 0.0)
            except (TypeError, OverflowError) as error:
                if isinstance(error, AetherError):
                    raise  # else an id that is none, which is named below
            finally:
                if lock is not None:
                    lock.release()
        return self._insert_alone(kind, src, dst, time, weight, attrs)

    def _insert_alone(
        self, kind: EdgeKind, src: Any, dst: Any, time: Any, weight: Any, attrs: Any
    ) -> int:
        """Insert an edge as an array of one."""
        rows = attrs
        if isinstance(attrs, Mapping):
            rows = {name: [value] for name, value in attrs.items()}
        return int(
            self.insert(
                kind, [one_id(src, "src")], [one_id(dst, "dst")],
                None if time is None else [time], None if weight is None else [weight], rows,
            )[0]
        )  # fmt: skip

    def _insert_into(
        self, opened: Transaction, kind: EdgeKind, src: int, dst: int, time: Any, weight: Any
    ) -> int:
        """Insert an edge with plain values into the open transaction."""
        opened.check()
        singles = opened.singles(kind)
        size = len(singles)
        try:
            edge = self.live.insert_one(kind.number, src, dst, time or 0, weight or 0.0)
            singles += pack_edge(src, dst, time or 0, weight or 0.0)
            if not kind.is_plain:
                self._put_values(kind, edge, time, weight)
            return edge
        except BaseException as error:
            has_changed = len(singles) > size
            del singles[size:]
            self._undo_call(opened, opened.mark(), error, has_changed)
            raise

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
        self.check_writer()
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
            if kind.by_source:
                name = kind.name[0]
                times = self.node_times[name].of(source, self._count_now(name))
            if not rows and self._open is None:  # one native call is a commit of its own
                self.live.drop_former(_LOOK_SECONDS)
                with stage("commit"):
                    return self.live.insert(kind.number, source, target, times, weights)[0]
            with self._changing():
                ids, inserted = self.change_lists(
                    self.live.insert, kind.number, source, target, times, weights
                )
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
            return self.change_lists(self.live.delete, kind.number, source, target, ids)

    # ---- nodes -------------------------------------------------------------------------------

    def add_nodes(self, node_type: str, count: int, attrs: Mapping[str, ArrayLike]) -> Ids:
        """Add nodes with their rows; return their ids."""
        if node_type in self.keys:
            raise InvalidArgumentError(
                "each node has a key: graph.ids.add(keys) adds nodes, of a typed graph "
                f"graph.ids[{node_type!r}].add(keys)"
            )
        number = as_count(count, "count")
        if self.relation_of(node_type) is None:
            raise UnsupportedError(
                f"{node_type!r} is at the end of no edge type: such nodes cannot be added"
            )
        self.check_open()
        return self._put_nodes(node_type, number, self._read_node_rows(node_type, attrs, number))

    def _put_nodes(self, node_type: str, number: int, rows: Mapping[str, NDArray[Any]]) -> Ids:
        """Add nodes with rows as they are stored; return their ids."""
        end = self._count_now(node_type) + number
        if end > self.max_nodes:  # before there is memory for their ids
            raise LimitError(
                f"node {end - 1} is above the last one there can be: max_nodes = {self.max_nodes}"
            )
        ids = empty(number, np.int64, f"{number} ids")
        with self.writing(), self._changing() as opened:
            begin, tables = self._count_now(node_type), self.stored_node_rows()[node_type]
            for name, values in rows.items():
                tables[name].put(begin, values)
                if self.journal is not None:
                    self.journal.log_node_rows(node_type, name, begin, values)
            for kind in self.kinds.values():
                ends = [end == node_type for end in (kind.name[0], kind.name[2])]
                if any(ends):
                    counts = (number * is_end for is_end in ends)
                    self.change_lists(self.live.add_nodes, kind.number, *counts)
            opened.added[node_type] += number
            ids[:1], ids[1:] = begin, 1
            return np.cumsum(ids, out=ids)

    def _read_node_rows(
        self, node_type: str, attrs: Mapping[str, ArrayLike], count: int
    ) -> dict[str, NDArray[Any]]:
        """Return the rows of ``count`` nodes by name, as they are stored."""
        tables, times = self.node_rows[node_type], self.node_times.get(node_type)
        _check_given(tables, attrs, count)
        if times is None and "time" in attrs and "time" not in tables:
            raise InvalidArgumentError(
                "there is no attribute 'time', and nodes have no times: create the graph with "
                "node_time="
            )
        rows = {
            name: as_rows(values, tables.get(name), name, count)
            for name, values in attrs.items()
            if times is None or name != "time"
        }
        if times is not None:
            rows[NODE_TIME] = times.read(attrs.get("time"), count)
        return rows

    def keys_of(self, node_type: str) -> GrowingKeys:
        """Return the keys of the nodes of a type.

        Raises:
            AbsentError: they have none.
        """
        if node_type not in self.keys:
            is_typed = list(self.node_rows) != ["node"]
            ids = {node_type: "str"} if is_typed else "str"
            raise AbsentError(
                f"nodes of type {node_type!r} have no keys: a graph has them from its beginning, "
                f"make another one by open(path, ids={ids!r})"
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

        Raises:
            InvalidArgumentError: without ``attrs`` nodes are new that need times.
        """
        keys, tables = self.keys_of(node_type), self.node_rows[node_type]
        rows = {} if attrs is None else self._read_node_rows(node_type, attrs, len(block))
        with self.writing(), self._changing() as opened:
            before, begin = keys.tiers, self._count_now(node_type)
            # First: Ctrl-C behind the change would leave keys in the index that no node has.
            opened.undo.append(lambda _: setattr(keys, "tiers", before))
            added = keys.add(block, begin)
            count = len(added.new)
            if NODE_TIME in rows:
                self.node_times[node_type].check_kept(rows[NODE_TIME], added, begin)
            if count:
                if attrs is None and node_type in self.node_times:
                    raise InvalidArgumentError(
                        f"{count} keys are those of no node yet, and nodes of type {node_type!r} "
                        "have times: add them first, by add(keys, time=) of the graph's ids"
                    )
                first = {name: values[added.first] for name, values in rows.items()}
                for name, table in tables.items():
                    first.setdefault(name, np.zeros((count, *table.row_shape), table.dtype))
                self._put_nodes(node_type, count, first)
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

    def update_nodes(
        self,
        node_type: str,
        ids: ArrayLike,
        attrs: Mapping[str, ArrayLike],
        versions: Ids | None = None,
    ) -> None:
        """Change the rows of nodes; those that change by themselves at once, not by a commit.

        Args:
            node_type: type of the nodes.
            ids: the nodes.
            attrs: rows by attribute.
            versions: of rows that change by themselves; others have none.
        """
        nodes = as_ids(ids, "ids")
        tables, sources = self.node_rows[node_type], self.node_sources[node_type]
        if "time" in attrs and node_type in self.node_times:
            raise UnsupportedError(
                "time: nodes keep the times that they were added with, which lists are sorted by"
            )
        kept_attrs = {n: values for n, values in attrs.items() if n not in sources}
        rows = {
            n: as_rows(values, tables.get(n), n, len(nodes)) for n, values in kept_attrs.items()
        }
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
            for name in attrs.keys() - kept_attrs.keys():
                sources[name].put_many(nodes, attrs[name], versions)
            for name, values in rows.items():
                if tables[name].num_free < len(last):
                    self.live.reclaim()  # readers that have ended or are overdue keep nothing
                    tables[name].reclaim(self.live.count().oldest_commit)
                show = tables[name].change(nodes[last], values[last], None, opened.undo)
                opened.show.append(show)
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
            if node_type in self.node_times and name in RESERVED:
                raise InvalidArgumentError(
                    f"node_attrs[{name!r}]: nodes have times, which add_nodes(time=) gives and "
                    f"node_values['{NODE_TIME}'] has; take another name"
                )
            if value is None and is_name(name) and name in self.node_sources[node_type]:
                del self.node_sources[node_type][name]
                return
            if value is None:
                if not is_name(name) or name not in self.node_rows[node_type]:
                    raise InvalidArgumentError(
                        f"node_attrs[{shown(name)}] = None ends an attribute, and there is none"
                    )
                with self._logging(lambda: self.node_rows[node_type].pop(name, None)):
                    if self.journal is not None:
                        self.journal.log_rows_end(node_type, name)
                return
            if not is_name(name):
                raise InvalidArgumentError(
                    f"the name of a node attribute must be a non-empty string, got {shown(name)}"
                )
            base: RowSource | None = as_row_source(value, f"node_attrs[{name!r}]")
            assert base is not None
            count = self.count_nodes(node_type, self.live.take_last())
            if base.is_live:
                self._begin_live_rows(node_type, name, base, count)
                return
            if name in self.node_sources[node_type]:
                raise InvalidArgumentError(
                    f"node_attrs[{name!r}] has rows that change by themselves: end them first, by "
                    f"node_attrs[{name!r}] = None"
                )
            if base.num_rows != count:
                raise InvalidArgumentError(
                    f"node_attrs[{name!r}] has {base.num_rows} rows, but num_nodes = {count}"
                )
            shape, dtype_name = tuple(base.row_shape), base.dtype_name
            room = rows_room(shape, dtype_name, self.max_nodes)
            values = base.read(0, count) if base.path is None and base.is_in_memory else None
            rows = GrowingRows(shape, dtype_name, room, base if values is None else None)
            if values is not None:  # in shared memory other processes have it, too
                rows.put(0, values)
            with self._logging(lambda: self.node_rows[node_type].update({name: rows})):
                if self.journal is not None:
                    self.journal.log_rows_begin(node_type, name, base, rows)

    def _begin_live_rows(self, node_type: str, name: str, rows: RowSource, count: int) -> None:
        """Begin an attribute of rows that change by themselves, at least one for each node."""
        if name in self.node_rows[node_type]:
            raise InvalidArgumentError(
                f"node_attrs[{name!r}] has rows already: end them first, by node_attrs[{name!r}] = "
                "None"
            )
        if rows.num_rows < count:
            raise InvalidArgumentError(
                f"node_attrs[{name!r}] has {rows.num_rows} rows, but num_nodes = {count}"
            )
        self.node_sources[node_type][name] = rows

    @contextmanager
    def _logging(self, change: Callable[[], object]) -> Iterator[None]:
        """Change the attributes that there are behind a ``with`` block that logs it.

        After Ctrl-C that comes when the log has it, too.
        """
        last = self.live.lsn
        try:
            yield
            change()
            self._publish()
        except BaseException:
            if self.live.lsn > last:
                change()
                self._publish()
            raise

    def _publish(self) -> None:
        """Tell who attaches from now on of the attributes that there are."""
        if self.journal is not None:
            self.journal.publish()

    # ---- streams -----------------------------------------------------------------------------

    def set_offset(self, source: str, partition: int, following: int) -> None:
        """Note the number of the next record of a stream, in the commit of those before it."""
        place, number = (source, partition), as_count(following, "following")
        with self.writing(), self._changing() as opened:
            opened.offsets.append((place, number))
            if self.journal is not None:
                self.journal.log_offset(source, partition, number)

    def begin_stream(self, source: str, reader: object) -> None:
        """Note who takes the records of a stream; two would take each record twice.

        Raises:
            InvalidArgumentError: another one does.
        """
        with self.writing():
            if self.streams.setdefault(source, reader) is not reader:
                raise InvalidArgumentError(
                    f"the stream {source!r} is being taken into this graph already: stop that "
                    "ingestor first, or give the other source a name of its own (name=)"
                )

    def end_stream(self, source: str, reader: object) -> None:
        """Note that it does not any more."""
        if self.streams.get(source) is reader:
            del self.streams[source]

    def set_watermark(self, source: str, time: int) -> None:
        """Note the watermark of a stream, in the commit of the records that it speaks of."""
        with self.writing(), self._changing() as opened:
            self.set_offset(times_of(source), WATERMARK, packed(time))
            opened.after.append(lambda: self.watermark.show(self.offsets))


def _check_given(tables: Mapping[str, Any], attrs: Mapping[str, Any], count: int) -> None:
    for name in tables:
        if name not in attrs:
            raise InvalidArgumentError(
                f"nodes have the attribute {name!r}: give {name}= with {count} rows"
            )
