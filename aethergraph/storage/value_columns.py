"""Columns of short rows in a graph file whose lists stay there: in memory, or read by page.

::

    ids  [ 900 12 90000 12 ]            of one gather, or of several announced gathers
          sorted by page, each page once  ->  rows, in the order of the ids

If the graph's budget has room for a column (``paging.py`` decides), all of it is loaded and
gathered from like any array. Otherwise its pages are read, and the pages that single gathers use
most are kept. Sampling a group of coming batches also reads the values of their edges: a gather
finds its own rows among them by a hash of its ids.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.errors import OutOfRangeError

if TYPE_CHECKING:
    from aethergraph.storage.paging import Paging

__all__ = ["ValueColumn"]

Ids = NDArray[np.int64]
_PAGE = 4096
#: Wider rows are worth a cache of their own (``FeatureTable.to_uring``).
MOST_ROW_BYTES = 16
#: Groups whose values nobody gathered before groups stop reading values; some may be in progress.
_IN_VAIN = 4


class RowsInStore:
    """Rows of one gather, read before they are asked for; released when it has taken them."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._rows = [rows]  # pop is atomic

    def take(self) -> NDArray[Any] | None:
        """Return the rows; None if they were taken before."""
        try:
            return self._rows.pop()
        except IndexError:
            return None


class ValueColumn:
    """Rows of up to 16 bytes that lie one after the other in the file of ``paging``.

    Threads may share a column.

    Args:
        paging: reader of the file, which decides what the column may load.
        array: the rows, mapped.
        offset: byte offset of row 0 in the file.
        code: dtype code of the rows.
    """

    def __init__(self, paging: Paging, array: NDArray[Any], offset: int, code: int) -> None:
        self.code = code
        self._paging = paging
        self.offset = offset
        self._shape = array.shape
        self._dtype = array.dtype
        self.row_bytes = math.prod(array.shape[1:]) * array.itemsize
        item_bytes = self.row_bytes & -self.row_bytes  # a power of two: no item spans two pages
        self._items = self.row_bytes // item_bytes
        self._values = native.NativeValues(
            paging.reader, offset, len(array) * self._items, item_bytes
        )
        #: Bytes reserved for the column in the budget, used or not; None: not decided yet.
        self.room: int | None = None
        #: True if ``room`` is less than all rows take.
        self.is_refused = False
        self._array: NDArray[Any] | None = None
        self._held: native.NativeRows | None = None
        self._rows = self._hits = self._reads = self._read_bytes = 0
        #: Lists whose positions are the edge ids that number the rows; else None.
        self.edges_of: native.NativeTopology | None = None
        # Keys are hashes of ids. pop and setdefault are atomic.
        self._expected = dict[int, weakref.ref[RowsInStore]]()
        self._in_vain = 0

    @staticmethod
    def takes(array: NDArray[Any]) -> bool:
        """Return whether the rows of ``array`` can be a column."""
        row_bytes = math.prod(array.shape[1:]) * array.itemsize
        return array.ndim > 0 and 0 < row_bytes <= MOST_ROW_BYTES

    # ---- memory ----------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, rounded up to pages."""
        pages = -(-int(self._shape[0]) * self.row_bytes // _PAGE)
        return pages * _PAGE

    @property
    def memory(self) -> int:
        """Bytes that the column takes in memory now."""
        return self._values.kept if self._array is None else self.nbytes

    @property
    def held(self) -> NDArray[Any] | None:
        """All rows, if they are in memory; else None."""
        return self._array

    @property
    def values(self) -> native.NativeValues:
        """Native values of the column for samplers, which share its kept pages."""
        return self._values

    def hold(self) -> NDArray[Any] | None:
        """Return all rows in memory, read now if needed; None if the budget has no room."""
        if self._array is None:
            self._paging.hold(self)
        return self._array

    def load(self) -> None:
        """Read all rows. Called by ``paging``, which knows that there is room."""
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
        """Keep the pages that are used most, within ``nbytes``. Called by ``paging``."""
        self._values.keep_pages(nbytes)
        self.room, self.is_refused = nbytes, True

    # ---- rows ------------------------------------------------------------------------------

    def gather(
        self, ids: NDArray[Any], out: NDArray[Any], out_code: int, task: native.Task | None = None
    ) -> None:
        """Copy row ``ids[i]`` to ``out[i]``.

        Args:
            ids: contiguous, int64 or uint32.
            out: contiguous and writable.
            out_code: dtype code of ``out``.
            task: the long call that this gather is part of.

        Raises:
            OutOfRangeError: an id is not a row; has its position.
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
        """Read rows from the file in their stored dtype, each page once."""
        if out is None:
            out = self.empty(len(ids))
        # A copy: they are read again once checked, and other threads may write into the caller's.
        positions = np.array(ids, np.int64)
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
        """True if rows are worth reading together with the samples of ``edges_of``.

        False after several groups whose values nobody gathered, which happens if edges are added
        to the samples before the gather.
        """
        return self.edges_of is not None and self._items == 1 and self._in_vain < _IN_VAIN

    def expect(self, hashes: NDArray[np.uint64], rows: Iterable[NDArray[Any]]) -> list[RowsInStore]:
        """Serve gathers from rows that were read for them.

        Args:
            hashes: hash of the ids of each gather.
            rows: rows of each gather.

        Returns:
            One object for each gather, which is served as long as the caller keeps it.
        """
        for key in [key for key, its in list(self._expected.items()) if its() is None]:
            self._expected.pop(key, None)
        expected = [RowsInStore(array) for array in rows]
        for key, its in zip(hashes.tolist(), expected, strict=True):
            self._expected[key] = weakref.ref(its)
        self._in_vain += 1
        return expected

    def _serve_expected(self, ids: NDArray[Any], out: NDArray[Any], out_code: int) -> bool:
        key = native.hash_ids(np.ascontiguousarray(ids, np.int64))
        reference = self._expected.pop(key, None)
        expected = None if reference is None else reference()
        rows = None if expected is None else expected.take()
        if rows is None:
            return False
        self._in_vain = 0
        self._hits += len(ids)
        self.put(rows, out, out_code)
        return True

    def empty(self, count: int) -> NDArray[Any]:
        """Return uninitialised memory for ``count`` rows."""
        return np.empty((count, *self._shape[1:]), self._dtype)

    def put(self, rows: NDArray[Any], out: NDArray[Any], out_code: int) -> None:
        """Copy ``rows`` to ``out``, widened if ``out`` has another dtype."""
        if out_code == self.code:
            out[...] = rows
        else:
            self.convert(rows, out, out_code)

    def convert(self, rows: NDArray[Any], out: NDArray[Any], out_code: int) -> None:
        """Copy ``rows`` to ``out``, widened."""
        native.NativeRows(rows, self.code).gather(np.arange(len(rows)), out, out_code)

    def plan(self, ids: Ids, ends: NDArray[np.uint64]) -> ReadAhead:
        """Read the rows of several coming gathers, each page once for all of them.

        Args:
            ids: int64, the ids of all gathers, one gather after the other.
            ends: uint64, the end of each gather in ``ids``.
        """
        return ReadAhead(self, ids, ends)

    def stats(self) -> native.RowStats:
        """Return counts since the file was opened, over all threads of this process."""
        rows, hits, reader = self._rows, self._hits, self._paging.reader
        memory = self.memory
        return native.RowStats(
            rows=rows, hits=hits, reads=self._reads, direct_rows=0, device_reads=self._reads,
            device_bytes=self._read_bytes, wanted_bytes=(rows - hits) * self.row_bytes,
            wait_seconds=0.0, frames=0, frames_held=memory // _PAGE, hot_frames=0, inserted=0,
            evicted=0, frame_rows=max(1, _PAGE // self.row_bytes), budget=self._paging.budget.limit,
            used=memory, tier=reader.tier, direct=reader.direct,
        )  # fmt: skip


class ReadAhead:
    """Rows of several gathers, read together and handed out one gather after the other."""

    def __init__(self, column: ValueColumn, ids: Ids, ends: NDArray[np.uint64]) -> None:
        self._column = column
        self._ends = ends
        self._next = 0
        hold = column.hold()
        self._hits = 0 if hold is None else len(ids)
        if hold is None:
            self._rows = column.read(ids, learn=False)
        else:
            self._rows = column.empty(len(ids))
            column.gather(ids, self._rows, column.code)

    def gather(self, out: NDArray[Any], out_code: int, task: native.Task | None = None) -> None:
        """Copy the rows of the next gather to ``out``."""
        begin = int(self._ends[self._next - 1]) if self._next else 0
        rows = self._rows[begin : int(self._ends[self._next])]
        self._next += 1
        self._column.put(rows, out, out_code)

    def stats(self) -> native.PlanStats:
        """Return totals over all gathers, which are final: all rows are read already."""
        return native.PlanStats(len(self._rows), self._hits, 0, 0, self._rows.nbytes)

    def close(self) -> None:
        """Release the rows."""
        self._rows = self._rows[:0]


def _check_ids(ids: Ids, count: int) -> None:
    low, high = native.id_bounds(ids)
    if len(ids) and (low < 0 or high >= count):
        at = int(((ids < 0) | (ids >= count)).argmax())
        raise OutOfRangeError(
            f"id {ids[at]} at position {at} is not in [0, {count})",
            position=at, value=int(ids[at]),
        )  # fmt: skip
