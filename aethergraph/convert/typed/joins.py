"""Join of the keys of edges to ids: once for each table, and read by both directions.

::

    rows of the table -> keys, as many as memory holds
                      -> ids, looked up in the order of their hashes     a sweep through the map
                      -> files of ids, in the order of the rows          join-*

A map of ids lies in the order of hashes. So however large it is, it is read from its front to its
end once for each time that memory is full of keys, and never page by page. A map that is small
stays in the page cache, and its keys are looked up as they come.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.convert.external import builder
from aethergraph.convert.external.array_files import ColumnFiles
from aethergraph.convert.readers.base import InputError, ProgressFn
from aethergraph.convert.typed.columns import ColumnReader
from aethergraph.convert.typed.problems import Problems
from aethergraph.convert.typed.schema import EdgeSpec
from aethergraph.convert.typed.sources import Batch, Table
from aethergraph.ids import IdMap

__all__ = ["JoinedEnds", "KeyJoin", "SortedReads", "pieces"]

Ids = NDArray[np.int64]
_SORTED_ROWS = 1 << 20  # keys that are copied into the order of their hashes together
_KEY_BYTES = 32  # hash, place, id and what sorting takes, per key
_CACHED_SHARE = 2  # part of the memory within which a map stays in the page cache


class JoinedEnds:
    """Ids of the ends of edges that keys gave, row by row, in work files.

    Args:
        prefix: path that the names of the files begin with.
        dtypes: dtype of the ids of each end.
        state: what an earlier build has recorded of it; empty at first.

    Attributes:
        state: how far it is; "null" and "missing" count the edges without a key at one end, and
            with a key that the other table does not have; "first" is the first of these.
    """

    def __init__(
        self, prefix: str, dtypes: list[np.dtype[Any]], state: Mapping[str, Any]
    ) -> None:  # fmt: skip
        self.state: dict[str, Any] = {
            "lists": 0, "edges": 0, "sums": {}, "position": [0, 0], "file_rows": [],
            "null": 0, "missing": 0, "first": "", "done": False, **state,
        }  # fmt: skip
        self._known = bool(state.get("done"))
        self._names = [f"end-{number}" for number in range(len(dtypes))]
        columns = {name: (dtype, 1) for name, dtype in zip(self._names, dtypes, strict=True)}
        state = self.state
        #: Every batch of rows is a list, so that a build that goes on cuts at the end of one.
        self._files = ColumnFiles(prefix, columns, state["lists"], state["edges"], state["sums"])

    @property
    def num_rows(self) -> int:
        """Number of rows, those that are left out too."""
        return self._files.edges

    def first_row(self, file: int) -> int:
        """Return the number of the first row of a file of the table."""
        return int(sum(self.state["file_rows"][:file]))

    def append(self, batch: Batch, ends: list[Ids]) -> None:
        """Append the ids of a batch; -1 stands for an edge that is left out."""
        rows = len(ends[0])
        columns = {}
        for name, ids in zip(self._names, ends, strict=True):
            dtype = self._files.dtype(name)
            columns[name] = ids.astype(dtype)  # -1 becomes the largest value
        self._files.append_edges(columns)
        self._files.append_ends(np.array([self._files.edges], np.uint64))
        counts = self.state["file_rows"]
        counts.extend([0] * (batch.file + 1 - len(counts)))
        counts[batch.file] += rows
        self.state["position"] = [batch.file, batch.number + 1]

    def add_dropped(self, null: int, missing: int, first: str) -> None:
        """Count edges that are left out."""
        state = self.state
        state["null"] += null
        state["missing"] += missing
        state["first"] = state["first"] or first

    def sync(self) -> dict[str, Any]:
        """Make all rows durable; return the state to record."""
        self._files.sync()
        files = self._files
        self.state.update(lists=files.lists, edges=files.edges, sums=dict(files.sums))
        return {**self.state, "file_rows": list(self.state["file_rows"])}

    def verify(self) -> None:
        """Compare the files with what was written, if another process wrote them.

        Raises:
            WorkFileError: they have other bytes.
        """
        if self._known:
            for name in self._names:
                for _ in self._files.pieces(name, _SORTED_ROWS):
                    pass
            self._known = False

    def read(self, begin: int, end: int) -> list[Ids]:
        """Return the ids of rows ``begin .. end - 1``, for each end; -1: left out."""
        ends = []
        for name in self._names:
            ids = self._files.read(name, begin, end)
            out = ids.astype(np.int64)
            out[ids == np.iinfo(ids.dtype).max] = -1
            ends.append(out)
        return ends

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    def remove(self) -> None:
        """Close and delete the files."""
        self._files.remove()


@dataclass
class _Keys:
    """Keys of one end in a batch of rows.

    Attributes:
        block: the keys; None once they are looked up.
        known: mask of the rows whose keys are not null.
        impossible: mask of keys that the map cannot have, or None.
        ids: ids of the keys, once they are looked up.
    """

    block: native.KeyBlock
    known: NDArray[np.bool_]
    impossible: NDArray[np.bool_] | None
    ids: Ids | None = None


class KeyJoin:
    """Join of all rows of a table of edges; :meth:`run` does all of it.

    Args:
        spec: the edge type.
        table: its table.
        ids: maps of ids of the node types that keys refer to.
        ends: the files to write.
        memory: bytes that may be taken.
        record: called with the state to record, now and then and at the end.
        show: called with (rows read, rows in all).
        problems: what is told of rows that are wrong.
    """

    def __init__(
        self,
        spec: EdgeSpec,
        table: Table,
        ids: Mapping[str, IdMap],
        ends: JoinedEnds,
        memory: int,
        record: Callable[[dict[str, Any]], None],
        show: ProgressFn,
        problems: Problems,
    ) -> None:
        self._problems = problems
        self._spec = spec
        self._table = table
        self._ids = [ids[name] for name, _ in spec.ends()]
        self._ends = ends
        self._room = memory // 2
        self._record = record
        self._show = show
        self._reader = ColumnReader(table)
        self._waits = [
            os.path.getsize(id_map.path) > memory // _CACHED_SHARE for id_map in self._ids
        ]
        self._held: list[tuple[Batch, list[_Keys]]] = []
        self._held_bytes = 0

    def run(self) -> None:
        """Look up the keys of all rows that an earlier build has not joined.

        Raises:
            InputError: a key is null or refers to nothing, where the schema does not allow it.
        """
        file, number = self._ends.state["position"]
        total, recorded = self._table.num_rows, time.monotonic()
        columns = list(dict.fromkeys(column for _, named in self._spec.ends() for column in named))
        done = self._ends.num_rows
        for batch in self._table.batches(columns, (file, number)):
            self._problems.read(self._table.name, batch, self._hold)
            done += batch.rows.num_rows
            if self._held_bytes >= self._room or not any(self._waits):
                self._flush()
                if time.monotonic() - recorded >= builder.RECORD_SECONDS:
                    self._record(self._ends.sync())
                    recorded = time.monotonic()
            self._show(done, max(total, done))
        self._flush()
        if not self._ends.num_rows:
            raise InputError(self._table.files[0], "holds no rows")
        self._ends.state["done"] = True
        self._record(self._ends.sync())

    def _hold(self, batch: Batch) -> None:
        """Read the keys of a batch, to be looked up with those of others."""
        try:
            keys = [self._keys(batch, end) for end in range(len(self._ids))]
        except InputError:
            self._flush()  # an error of a row before comes first, whatever the memory
            raise
        self._held.append((replace(batch, rows=None), keys))

    def _keys(self, batch: Batch, end: int) -> _Keys:
        ids, (_, columns) = self._ids[end], self._spec.ends()[end]
        keys = _Keys(*self._reader.keys(batch, columns, ids.columns))
        if self._waits[end]:
            # A copy: the arrays may be those of a larger batch.
            block = keys.block
            keys.block = native.KeyBlock(block.data.copy(), block.offsets, block.width)
            self._held_bytes += 2 * block.nbytes + _KEY_BYTES * len(block)
        else:
            keys.ids = ids.find(keys.block)
            self._held_bytes += keys.ids.nbytes
        return keys

    def _flush(self) -> None:
        batches, self._held, self._held_bytes = self._held, [], 0
        for end, waits in enumerate(self._waits):
            if waits and batches:
                self._find([keys[end] for _, keys in batches], self._ids[end])
        for batch, keys in batches:
            self._append(batch, keys)

    def _find(self, some: list[_Keys], ids: IdMap) -> None:
        """Look up the keys of many batches together, in the order of their hashes."""
        hashes = np.concatenate([native.hash_keys(keys.block) for keys in some])
        order = np.argsort(hashes)
        block = native.KeyBlock.joined([keys.block for keys in some])
        node_ids = np.empty(len(order), np.int64)
        for begin in range(0, len(order), _SORTED_ROWS):
            places = order[begin : begin + _SORTED_ROWS]
            node_ids[places] = ids.find(block.take(places.astype(np.uint64)), hashes[places])
        begin = 0
        for keys in some:
            keys.ids = node_ids[begin : begin + len(keys.block)]
            begin += len(keys.block)

    def _append(self, batch: Batch, keys: list[_Keys]) -> None:
        kept = np.ones(len(keys[0].known), np.bool_)
        null = missing = 0
        first, ends = "", []
        for end, end_keys in enumerate(keys):
            name, columns = self._spec.ends()[end]
            if not end_keys.known.all():
                if self._spec.null == "error":
                    problem = f"the key of a {name!r} is missing (null)"
                    error = batch.bad(problem, ~end_keys.known, columns[0])
                    self._problems.add(self._table.name, error, int((~end_keys.known).sum()))
                else:
                    null += int((kept & ~end_keys.known).sum())
                kept &= end_keys.known
            out = np.full(len(kept), -1, np.int64)
            assert end_keys.ids is not None
            out[end_keys.known] = end_keys.ids
            if end_keys.impossible is not None:
                out[np.flatnonzero(end_keys.known)[end_keys.impossible]] = -1
            lost = kept & (out < 0)
            if lost.any():
                row = int(lost.argmax())
                at = int(end_keys.known[:row].sum())
                fits = end_keys.impossible is None or not end_keys.impossible[at]
                key = self._ids[end].columns.show(end_keys.block, at, fits)
                problem = f"there is no {name!r} with the key {key}"
                if self._spec.missing == "error":
                    error = batch.bad(
                        f'{problem}; missing = "drop" leaves such edges out, "keep" makes nodes '
                        "of such keys",
                        lost,
                        columns[0],
                    )
                    self._problems.add(self._table.name, error, int(lost.sum()))
                else:
                    missing += int(lost.sum())
                    first = first or str(batch.bad(problem, lost, columns[0]))
                kept &= ~lost
            ends.append(out)
        for out in ends:
            out[~kept] = -1
        self._ends.add_dropped(null, missing, first)
        self._ends.append(batch, ends)


class SortedReads:
    """Reads of a mapped array by any places, many at once in ascending order.

    What is larger than memory is so read from its front to its end, and not page by page.

    Args:
        array: the array.
        memory: bytes within which it stays in the page cache.
    """

    def __init__(self, array: NDArray[Any], memory: int) -> None:
        self._array = array
        self.waits = array.nbytes > memory // _CACHED_SHARE

    def take(self, places: Ids) -> NDArray[Any]:
        """Return the entries at some places."""
        if not self.waits:
            return np.ascontiguousarray(self._array[places])
        order = np.argsort(places)
        entries = np.empty(len(places), self._array.dtype)
        for begin in range(0, len(order), _SORTED_ROWS):
            some = order[begin : begin + _SORTED_ROWS]
            entries[some] = self._array[places[some]]
        return entries


def pieces(ends: JoinedEnds, begin: int, rows: int) -> Iterator[tuple[int, list[Ids]]]:
    """Yield (first row, ids of each end) of all rows from ``begin`` on, some at a time."""
    for first in range(begin, ends.num_rows, rows):
        yield first, ends.read(first, min(first + rows, ends.num_rows))
