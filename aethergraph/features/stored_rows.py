"""StoredRows: rows in memory or in a file, and how the core gathers them.

::

    handle      NativeRows (memory, mapped), FileRows (a file behind a cache), or ValueColumn (a
                graph's file, by page)
    array       all rows, where they are memory or mapped
    plan        gathers that are known ahead, for the cache of a file

What opens, converts and saves them is ``feature_table.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids
from aethergraph._checks.options import as_list
from aethergraph.errors import AbsentError, UnsupportedError
from aethergraph.features.plan import RowPlan
from aethergraph.features.table import NativeRowTable
from aethergraph.protocols import RowSource
from aethergraph.storage.value_columns import ValueColumn

__all__ = ["NativeHandle", "StoredRows", "plain_rows"]

#: Rows in memory, in a file behind a cache, and in a graph's file that is read by page.
NativeHandle: TypeAlias = native.NativeRows | native.FileRows | ValueColumn


class StoredRows(NativeRowTable):
    """Rows in memory or in a file; a subclass places them there."""

    #: The rows; None: they are closed, or a subclass gathers them.
    _rows: NativeHandle | None
    #: All rows, if they are memory or mapped.
    _array: NDArray[Any] | None
    _guard: native.FileGuard | None
    #: The rows in their stored dtype, if these convert them; else None.
    _stored: StoredRows | None = None

    @property
    def array(self) -> NDArray[Any]:
        """All rows as a read-only view (bfloat16 as uint16).

        The view keeps the mapping alive after :meth:`close` and after the file is unlinked. If the
        file is made shorter while it is mapped, the view reads zeros there; ``gather`` raises
        FileChangedError instead.

        Raises:
            AbsentError: the rows are read with ``storage="uring"`` or converted when they are
                gathered, so there is no array.
        """
        self.check_open()
        if self._stored is not None:
            raise AbsentError(
                f"{self!r} converts rows when they are gathered and has no array of them all: use "
                "gather(), or the store without astype()"
            )
        if self._array is None:
            raise AbsentError(
                f"{self!r} reads rows when they are gathered and has no array of them all: use "
                "gather(), or to_memory() if they fit, or load the file with storage='mmap'"
            )
        return self._array

    def _to_array(self) -> NDArray[Any]:
        return self.array if self._stored is None else self[:]

    def native_rows(self) -> NativeHandle:
        """Return the native handle; raise ClosedError after :meth:`close`."""
        if self._rows is None:
            self.check_open()
            raise AbsentError(f"{self!r} has no native handle of all rows")
        return self._rows

    # ---- gathers -------------------------------------------------------------------------

    def _gather(self, ids: NDArray[np.int64], out: NDArray[Any], code: int) -> None:
        """Set ``out[i]`` to row ``ids[i]``, in the dtype of ``code``."""
        rows = self._rows
        if rows is None:
            self.check_open()
            assert self._stored is not None  # a store that gathers by itself has another _gather
            self._stored._gather(ids, out, code)
        elif out.nbytes < native.LONG_CALL_BYTES:
            rows.gather(ids, out, code)
        else:
            table = rows
            native.run_task(lambda task: table.gather(ids, out, code, task), None, out.nbytes)

    def empty_rows(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """Return memory that rows can be read into directly; None if that gains nothing."""
        rows = self._rows
        if not isinstance(rows, native.FileRows):
            return None
        return rows.empty((count, *self._row_shape), dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows ``start .. stop - 1``: a read-only view if they are memory or mapped."""
        self.check_open()
        if self._array is None:
            return self.gather(np.arange(start, stop))
        return self._array[start:stop]

    def _slice(self, rows: slice) -> NDArray[Any]:
        if self._array is None:
            return super()._slice(rows)
        with native.reading(self._guard):
            return self._array[rows].copy()

    def paged_column(self) -> ValueColumn | None:
        """Return the column, if these are rows of a graph file that its budget has no room for.

        Gathers that are known ahead read such rows together. If there is room, this call loads the
        column.
        """
        rows = self._rows
        return rows if isinstance(rows, ValueColumn) and rows.hold() is None else None

    @property
    def can_plan(self) -> bool:
        """True if rows are read from the file, through a cache that a plan can manage.

        False for rows that the budget of their graph has room for: see :meth:`paged_column`.
        """
        return isinstance(self._rows, native.FileRows) or self.paged_column() is not None

    def plan(self, lists: Iterable[ArrayLike]) -> RowPlan:
        """Plan gathers that are known ahead, to use the cache best; ``storage="uring"`` only.

        ::

            with store.plan([[1, 2], [5, 1], [2, 5]]) as plan:
                for rows in plan:                       # rows 1 and 2, then 5 and 1 ...
                    use(rows)

        The part of the cache without the hot rows always keeps the rows that the lists use again
        soonest. No other cache of that size reads fewer rows (Belady, "A study of replacement
        algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966; Park, Min and
        Lee, "Ginex", VLDB 2022, plan the features of sampled batches like this). Rows that no list
        uses again are dropped first, the least recently used one before the others. Results are
        those of :meth:`gather`.

        A plan holds the cache until it is closed, collected, or has handed out all lists. Meanwhile
        other gathers and plans of this store in this process find only the hot rows. A plan takes
        about 12 bytes for each row of the lists and 8 for each row of the cache, beside the memory
        budget, and three times that while it is made.

        Args:
            lists: row numbers [n] of each coming gather, an integer vector per gather.

        Raises:
            OutOfRangeError: a row does not exist; names the list, the first such row number and
                its position.
            UnsupportedError: the rows are mapped or in memory.
        """
        self.check_open()
        rows = self._rows
        if not isinstance(rows, (native.FileRows, ValueColumn)):
            raise UnsupportedError(
                f"{self!r} has no cache to plan for: only storage='uring' has one"
            )
        numbers = [as_ids(ids, "lists") for ids in as_list(lists, "lists", "row numbers")]
        return RowPlan(self, rows, numbers)


def plain_rows(rows: RowSource) -> native.NativeRows | None:
    """Return the memory of rows that are gathered as they lie there, for native calls; else None.

    Raises:
        ClosedError: the rows were closed.
    """
    if not isinstance(rows, StoredRows):
        return None
    rows.check_open()
    table = rows._rows
    return table if isinstance(table, native.NativeRows) and rows._stored is None else None
