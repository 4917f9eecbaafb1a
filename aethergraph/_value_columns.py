"""Columns of short rows in a graph file whose lists stay there: held in memory, or read by page.

::

    ids  [ 900 12 90000 12 ]                    of one gather, or of several that are announced
          sorted by page, each page once  ->  rows, in the order of the ids

A column is held whole where the graph's budget has room for it (``_paging.py`` decides), and then
gathered from as any array. Otherwise its pages are read, and those that single gathers use most are
kept. Who samples a group of coming batches has the values of their edges read with it: a gather
knows its own among them by a hash of its ids.
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _binding as native
from aethergraph.errors import OutOfRangeError

if TYPE_CHECKING:
    from aethergraph._paging import Paging

__all__ = ["ValueColumn"]

Ids = NDArray[np.int64]
_PAGE = 4096
#: Wider rows are worth a cache of their own (``FeatureStore.to_uring``).
MOST_ROW_BYTES = 16
#: So many groups bring values that nobody asks for until they bring none: some may be under way.
_IN_VAIN = 4


class RowsInStore:
    """Rows that were read before they are asked for, of several gathers.

    They are gone when the object is dropped, or each gather has had its own.
    """

    def __init__(self, rows: NDArray[Any], num_gathers: int) -> None:
        self.nbytes = rows.nbytes
        self._rows: NDArray[Any] | None = rows
        self._waiting = [None] * num_gathers  # pop is atomic

    def take(self, begin: int, end: int) -> NDArray[Any] | None:
        """The rows of one gather; None if they are gone."""
        rows = self._rows
        if rows is None:
            return None
        self._waiting.pop()
        if not self._waiting:
            self._rows = None
        return rows[begin:end]


class ValueColumn:
    """Rows of up to 16 bytes that lie one after the other in the file of ``paging``.

    Threads may share it.

    Args:
        paging: reads the file, and says what the column may hold.
        array: the rows, mapped.
        offset: of row 0 in the file.
        code: of the dtype.
    """

    def __init__(self, paging: Paging, array: NDArray[Any], offset: int, code: int) -> None:
        self.code = code
        self._paging = paging
        self.offset = offset
        self._shape = array.shape
        self._dtype = array.dtype
        self.row_bytes = math.prod(array.shape[1:]) * array.itemsize
        item_bytes = self.row_bytes & -self.row_bytes  # no item lies on two pages
        self._items = self.row_bytes // item_bytes
        self._values = native.NativeValues(
            paging.reader, offset, len(array) * self._items, item_bytes
        )
        #: Bytes that the budget has for it, whether it has taken them or not; None: not asked yet.
        self.room: int | None = None
        #: Whether that is less than all rows take.
        self.is_refused = False
        self._array: NDArray[Any] | None = None
        self._held: native.NativeRows | None = None
        self._rows = self._hits = self._reads = self._read_bytes = 0
        #: The lists whose edge ids number the rows, where they are positions.
        self.edges_of: native.NativeTopology | None = None
        # By hash of the ids; pop and setdefault are atomic.
        self._expected = dict[int, tuple[weakref.ref[RowsInStore], int, int]]()
        self._in_vain = 0

    @staticmethod
    def takes(array: NDArray[Any]) -> bool:
        """Whether these rows can be a column."""
        row_bytes = math.prod(array.shape[1:]) * array.itemsize
        return array.ndim > 0 and 0 < row_bytes <= MOST_ROW_BYTES

    # ---- memory ----------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, in pages."""
        pages = -(-int(self._shape[0]) * self.row_bytes // _PAGE)
        return pages * _PAGE

    @property
    def memory(self) -> int:
        """Bytes that the column takes now."""
        return self._values.kept if self._array is None else self.nbytes

    @property
    def held(self) -> NDArray[Any] | None:
        """All rows, if they are in memory."""
        return self._array

    @property
    def values(self) -> native.NativeValues:
        """The same numbers for samplers, which use the pages that are kept."""
        return self._values

    def hold(self) -> NDArray[Any] | None:
        """All rows in memory, read now if they were not; None where the budget has no room."""
        if self._array is None:
            self._paging.hold(self)
        return self._array

    def load(self) -> None:
        """Read all rows. For ``paging``, which knows that there is room."""
        size = self._shape[0] * self.row_bytes
        memory = native.buffer_alloc(self.nbytes)
        self._paging.reader.read([self.offset], size, memory)
        rows = memory[:size].view(self._dtype).reshape(self._shape)
        rows.flags.writeable = False
        self._reads += 1
        self._read_bytes += size
        self._held = native.NativeRows(rows, self.code)
        self._array = rows

    def keep_pages(self, nbytes: int) -> None:
        """Keep the pages that are used most, within ``nbytes``. For ``paging``."""
        self._values.keep_pages(nbytes)
        self.room, self.is_refused = nbytes, True

    # ---- rows ------------------------------------------------------------------------------

    def gather(
        self, ids: NDArray[Any], out: NDArray[Any], out_code: int, task: native.Task | None = None
    ) -> None:
        """Put row ``ids[i]`` at place ``i`` of ``out``.

        Args:
            ids: contiguous, int64 or uint32.
            out: contiguous and writable.
            out_code: of its dtype.
            task: of the long call that this one is part of.

        Raises:
            OutOfRangeError: an id that is no row, with its position.
            FileChangedError, StorageError: the file could not be read.
        """
        self._rows += len(ids)
        if self._expected and self._serve_expected(ids, out, out_code):
            return
        self.hold()
        if self._held is not None:
            self._hits += len(ids)
            self._held.gather(ids, out, out_code, task)
        elif out_code == self.code:
            self.read(ids, out, learn=True, task=task)
        else:
            self.convert(self.read(ids, learn=True, task=task), out, out_code)

    def read(
        self,
        ids: NDArray[Any],
        out: NDArray[Any] | None = None,
        *,
        learn: bool,
        task: native.Task | None = None,
    ) -> NDArray[Any]:
        """Read rows as they are from the file, each page once."""
        if out is None:
            out = self.empty(len(ids))
        positions = np.ascontiguousarray(ids, np.int64)
        if self._items > 1:
            _check_ids(positions, self._shape[0])
            positions = (positions[:, None] * self._items + np.arange(self._items)).reshape(-1)
        with self._paging.staging() as staging:
            before = staging.counts()
            self._values.gather(positions, out, staging, learn=learn, task=task)
            after = staging.counts()
        self._reads += after.reads - before.reads
        self._read_bytes += after.bytes - before.bytes
        return out

    # ---- rows of coming gathers ------------------------------------------------------------

    @property
    def comes_with_samples(self) -> bool:
        """Whether rows are worth reading with the samples of ``edges_of``.

        Not where nobody asked for what the last samples brought: edges were added to them since.
        """
        return self.edges_of is not None and self._items == 1 and self._in_vain < _IN_VAIN

    def expect(
        self, hashes: NDArray[np.uint64], counts: NDArray[np.uint64], rows: NDArray[Any]
    ) -> RowsInStore:
        """Serve gathers from rows that were read for them, while the result is held.

        Args:
            hashes: of the ids of each gather.
            counts: of its rows.
            rows: those of one gather after the other.
        """
        held = RowsInStore(rows, len(counts))
        for key in [k for k, (its, _, _) in list(self._expected.items()) if its() is None]:
            self._expected.pop(key, None)
        begin, reference = 0, weakref.ref(held)
        for key, count in zip(hashes.tolist(), counts.tolist(), strict=True):
            self._expected[key] = (reference, begin, begin + count)
            begin += count
        self._in_vain += 1
        return held

    def _serve_expected(self, ids: NDArray[Any], out: NDArray[Any], out_code: int) -> bool:
        key = native.hash_ids(np.ascontiguousarray(ids, np.int64))
        reference, begin, end = self._expected.pop(key, (None, 0, 0))
        held = None if reference is None else reference()
        rows = None if held is None else held.take(begin, end)
        if rows is None:
            return False
        self._in_vain = 0
        self._hits += len(ids)
        self.put(rows, out, out_code)
        return True

    def empty(self, count: int) -> NDArray[Any]:
        """Memory for so many rows."""
        return np.empty((count, *self._shape[1:]), self._dtype)

    def put(self, rows: NDArray[Any], out: NDArray[Any], out_code: int) -> None:
        """Put ``rows`` into ``out``, widened if it has another dtype."""
        if out_code == self.code:
            out[...] = rows
        else:
            self.convert(rows, out, out_code)

    def convert(self, rows: NDArray[Any], out: NDArray[Any], out_code: int) -> None:
        """Put ``rows`` into ``out``, widened."""
        native.NativeRows(rows, self.code).gather(np.arange(len(rows)), out, out_code)

    def plan(self, ids: Ids, ends: NDArray[np.uint64]) -> ReadAhead:
        """Read the rows of several gathers to come, each page once for all of them.

        Args:
            ids: int64, of all of them.
            ends: uint64, where the ids of each end.
        """
        return ReadAhead(self, ids, ends)

    def stats(self) -> native.RowStats:
        """Counts since the file was opened, of all threads of this process."""
        rows, hits, reader = self._rows, self._hits, self._paging.reader
        memory = self.memory
        return native.RowStats(
            rows=rows, hits=hits, reads=self._reads, direct_rows=0, device_reads=self._reads,
            device_bytes=self._read_bytes, wanted_bytes=(rows - hits) * self.row_bytes,
            wait_seconds=0.0, frames=0, frames_held=memory // _PAGE, hot_frames=0, inserted=0,
            evicted=0, frame_rows=max(1, _PAGE // self.row_bytes), budget=self._paging.budget,
            used=memory, tier=reader.tier, direct=reader.direct,
        )  # fmt: skip


class ReadAhead:
    """The rows of several gathers, read together and handed out one gather after the other."""

    def __init__(self, column: ValueColumn, ids: Ids, ends: NDArray[np.uint64]) -> None:
        self._column = column
        self._ends = ends
        self._next = 0
        held = column.hold()
        self._hits = 0 if held is None else len(ids)
        if held is None:
            self._rows = column.read(ids, learn=False)
        else:
            self._rows = column.empty(len(ids))
            column.gather(ids, self._rows, column.code)

    def gather(self, out: NDArray[Any], out_code: int, task: native.Task | None = None) -> None:
        """Put the rows of the next gather into ``out``."""
        begin = int(self._ends[self._next - 1]) if self._next else 0
        rows = self._rows[begin : int(self._ends[self._next])]
        self._next += 1
        self._column.put(rows, out, out_code)

    def stats(self) -> native.PlanStats:
        """Of all gathers; nothing more is read for them."""
        return native.PlanStats(len(self._rows), self._hits, 0, 0, self._rows.nbytes)

    def close(self) -> None:
        """Give the rows up."""
        self._rows = self._rows[:0]


def _check_ids(ids: Ids, count: int) -> None:
    low, high = native.id_bounds(ids)
    if len(ids) and (low < 0 or high >= count):
        at = int(((ids < 0) | (ids >= count)).argmax())
        raise OutOfRangeError(
            f"id {ids[at]} at position {at} is not in [0, {count})",
            position=at, value=int(ids[at]),
        )  # fmt: skip
