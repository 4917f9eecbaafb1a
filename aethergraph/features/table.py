"""RowTable: rows by id, in memory, mapped or read from a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, describe_range, empty, to_array
from aethergraph._checks.options import as_list
from aethergraph.errors import (
    AbsentError,
    ClosedError,
    InvalidArgumentError,
    OutOfRangeError,
    UnsupportedError,
)
from aethergraph.features.bfloat16 import bfloat16_to_float32
from aethergraph.features.plan import RowPlan
from aethergraph.protocols import RowSource
from aethergraph.storage.value_columns import ValueColumn

__all__ = [
    "NativeTable",
    "RowTable",
    "check_out",
    "check_rows",
    "gather_filled",
    "no_such_row",
    "plain_rows",
]


class NativeTable(Protocol):
    """Reader behind a :class:`RowTable`: of memory, of a file, of packed batches, of a cache."""

    @property
    def code(self) -> int:
        """Native code of the dtype of the rows."""

    def gather(
        self, ids: NDArray[Any], out: NDArray[Any], out_code: int, task: native.Task | None = None
    ) -> None:
        """Set ``out[i]`` to row ``ids[i]``, widened to dtype code ``out_code``."""


def no_such_row(at: int, value: int, num_rows: int) -> OutOfRangeError:
    """Return the error for row ``value``, at position ``at`` of the ids, that does not exist."""
    message = f"ids[{at}] = {value} is not in 0..{num_rows - 1}"
    if num_rows == 0:
        message = f"ids[{at}] = {value}: there are no rows"
    return OutOfRangeError(f"{message} (num_rows={num_rows})", position=at, value=value)


def check_rows(ids: NDArray[np.int64], num_rows: int) -> None:
    """Raise OutOfRangeError for the first of ``ids`` that is not in ``0 .. num_rows - 1``."""
    # As unsigned numbers, negative ids are the largest: one pass finds both kinds.
    if len(ids) and int(ids.view(np.uint64).max()) >= num_rows:
        at = int(((ids < 0) | (ids >= num_rows)).argmax())
        raise no_such_row(at, int(ids[at]), num_rows)


def check_out(
    out: NDArray[Any], shape: tuple[int, ...], dtype: DTypeLike | str | None, own_code: int
) -> int:
    """Return the dtype code of the rows that ``out`` is to take; raise if it does not fit.

    Args:
        out: destination of the rows.
        shape: shape that the rows need.
        dtype: dtype that was asked for, or None: that of ``out``.
        own_code: code of the stored dtype; an ``out`` of its array dtype takes the stored bits.
    """
    if not isinstance(out, np.ndarray):
        raise InvalidArgumentError(f"out must be a numpy array, got {type(out).__name__}")
    if out.shape != shape:
        raise InvalidArgumentError(f"out has shape {out.shape}, the rows need {shape}")
    flags = out.flags
    if not (flags.c_contiguous and flags.writeable and flags.aligned):
        raise InvalidArgumentError("out must be C-contiguous, aligned and writable")
    if not out.dtype.isnative:
        raise InvalidArgumentError(
            f"out has dtype {out.dtype.str!r}, in the other byte order: give "
            f"{out.dtype.newbyteorder('=').str!r}"
        )
    if dtype is None:
        if out.dtype == native.ARRAY_DTYPES[own_code]:
            return own_code
        return native.dtype_code(out.dtype, "out")
    code = native.dtype_code(dtype)
    if out.dtype != native.ARRAY_DTYPES[code]:
        raise InvalidArgumentError(f"out has dtype {out.dtype}, but dtype = {dtype} is asked")
    return code


def gather_filled(
    fill: Callable[[NDArray[Any]], None],
    out: NDArray[Any],
    own_code: int,
    out_code: int,
    task: native.Task | None,
) -> None:
    """Let ``fill`` put rows of dtype code ``own_code`` into ``out``, widened if it has another."""
    if out_code == own_code:
        fill(out)
        return
    rows = empty(out.shape, native.ARRAY_DTYPES[own_code], f"{len(out)} rows")
    fill(rows)
    native.NativeRows(rows, own_code).gather(np.arange(len(out)), out, out_code, task)


class RowTable(RowSource):
    """Queries that a :class:`FeatureTable` answers about its rows; the store places the rows."""

    _rows: NativeTable | None
    _array: NDArray[Any] | None
    _code: int
    _guard: native.FileGuard | None
    _row_shape: tuple[int, ...]
    _num_rows: int
    _dtype: np.dtype[Any]

    # ---- properties ----------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows: ``(num_rows, ...)``."""
        return (self._num_rows, *self._row_shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions, including that of the rows."""
        return 1 + len(self._row_shape)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._num_rows

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row; ``()`` for a vector."""
        return self._row_shape

    @property
    def dtype(self) -> np.dtype[Any] | str:
        """Numpy dtype of the rows, or the string ``"bfloat16"``."""
        return "bfloat16" if self._code == native.BFLOAT16 else self._dtype

    @property
    def dtype_name(self) -> str:
        """Name of the dtype, a string also for bfloat16."""
        return native.DTYPE_NAMES[self._code]

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self._num_rows * math.prod(self._row_shape) * self._dtype.itemsize

    @property
    def array_dtype(self) -> np.dtype[Any]:
        """Numpy dtype of gathered rows: uint16 for bfloat16."""
        return self._dtype

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
        self.native_rows()
        if self._converts:
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

    def __len__(self) -> int:
        return self._num_rows

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        array = self[:] if self._converts else self.array
        if self._code == native.BFLOAT16:
            array = bfloat16_to_float32(array)
        if dtype is not None:
            array = array.astype(dtype, copy=False)
        return array.copy() if copy else array

    @property
    def _converts(self) -> bool:
        """True if rows are stored in another dtype than they are gathered in."""
        return self.native_rows().code != self._code

    @property
    def dtype_code(self) -> int:
        """Native code of the dtype."""
        return self._code

    def native_rows(self) -> NativeTable:
        """Return the native handle; raise ClosedError after :meth:`close`."""
        if self._rows is None:
            raise ClosedError(f"{self!r} was closed")
        return self._rows

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

    @property
    def can_widen(self) -> bool:
        """True: rows are converted while they are gathered."""
        return True

    # ---- rows ----------------------------------------------------------------------------

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows ``start .. stop - 1``: a read-only view if they are memory or mapped."""
        self.native_rows()
        if self._array is None:
            return self.gather(np.arange(start, stop))
        return self._array[start:stop]

    def gather(
        self,
        ids: ArrayLike,
        out: NDArray[Any] | None = None,
        dtype: DTypeLike | str | None = None,
    ) -> NDArray[Any]:
        """Return the rows of ``ids``, in that order, duplicates kept.

        Args:
            ids: integer vector [n] of row numbers.
            out: destination of the rows: C-contiguous, writable, shape ``(n, *shape[1:])``.
            dtype: widen on the way: float16, bfloat16 -> float32, float64; float32 -> float64;
                uint8, int8, int16, int32 -> wider integers, float32, float64 (float32 rounds int32
                beyond 2^24). Default: the dtype of ``out``, else the stored one (bfloat16 as
                uint16).

        Returns:
            ``out``, or a new array ``(n, *shape[1:])``.

        Raises:
            OutOfRangeError: a row does not exist; names the first one and its position.
            InvalidArgumentError: ``out`` does not fit.
            UnsupportedError: the stored dtype is not widened to ``dtype``.
            FileChangedError: the file was made shorter, or written to.
            StorageError: a read of ``storage="uring"`` failed.
        """
        rows = self._rows
        if rows is None:
            rows = self.native_rows()
        if not (type(ids) is np.ndarray and ids.dtype == np.uint32 and ids.ndim == 1
                and ids.flags.c_contiguous and ids.flags.aligned):  # fmt: skip
            ids = as_ids(ids, "ids")
        out, code = self._result(rows, ids.shape[0], out, dtype)
        try:
            if out.nbytes < native.LONG_CALL_BYTES:
                rows.gather(ids, out, code)
            else:
                native.run_task(lambda task: rows.gather(ids, out, code, task), None, out.nbytes)
        except OutOfRangeError as error:
            raise self._name_row(error) from None
        return out

    def _result(
        self,
        rows: NativeTable,
        count: int,
        out: NDArray[Any] | None,
        dtype: DTypeLike | str | None,
    ) -> tuple[NDArray[Any], int]:
        """Return the destination of ``count`` rows and its dtype code."""
        if out is not None:
            return out, self._check_out(out, count, dtype)
        if dtype is None:
            code, target = self._code, self._dtype
        else:
            code = native.dtype_code(dtype)
            target = native.ARRAY_DTYPES[code]
        shape = (count, *self._row_shape)
        if isinstance(rows, native.FileRows):
            out = rows.empty(shape, target)
        return empty(shape, target, f"{count} rows") if out is None else out, code

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
        rows = self.native_rows()
        if not isinstance(rows, (native.FileRows, ValueColumn)):
            raise UnsupportedError(
                f"{self!r} has no cache to plan for: only storage='uring' has one"
            )
        return RowPlan(
            rows,
            [as_ids(ids, "lists") for ids in as_list(lists, "lists", "row numbers")],
            self._result,
            self._num_rows,
        )

    def _name_row(self, error: OutOfRangeError) -> OutOfRangeError:
        at, value = error.position, error.value
        if at is None or value is None:
            return error
        return no_such_row(at, value, self._num_rows)

    def _check_out(self, out: NDArray[Any], count: int, dtype: DTypeLike | str | None) -> int:
        return check_out(out, (count, *self._row_shape), dtype, self._code)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        """Return rows by number, slice, boolean mask or id array, always as a new array.

        A single number gives the row without the first dimension; a negative one counts from the
        end, as in numpy. In id arrays negative numbers are errors.
        """
        self.native_rows()
        if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
            number = int(index)
            if not -self._num_rows <= number < self._num_rows:
                raise OutOfRangeError(
                    f"row {number} is {describe_range(self._num_rows)}".replace(
                        "num_nodes", "num_rows"
                    ),
                    value=number,
                )
            row: NDArray[Any] = self.gather(np.array([number % self._num_rows]))[0]
            return row
        if index is Ellipsis or index is None:
            index = slice(None)
        if isinstance(index, slice):
            try:
                bounds = index.indices(self._num_rows)
            except (TypeError, ValueError) as error:
                raise InvalidArgumentError(f"{index} cannot choose rows: {error}") from error
            if self._array is None:
                return self.gather(np.arange(*bounds))
            with native.reading(self._guard):
                return self._array[index].copy()
        if isinstance(index, tuple):
            raise UnsupportedError("index rows only; index the result for more dimensions")
        ids = to_array(index, "index")
        if ids.dtype.kind == "b":
            if ids.shape != (self._num_rows,):
                raise InvalidArgumentError(
                    f"the mask has shape {ids.shape}, the store has {self._num_rows} rows"
                )
            ids = np.flatnonzero(ids)
        elif ids.size == 0 and not hasattr(index, "dtype"):
            ids = np.empty(0, np.int64)
        return self.gather(ids)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for number in range(self._num_rows):
            yield self[number]


def plain_rows(rows: RowSource) -> native.NativeRows | None:
    """Return the memory of rows that are gathered as they lie there, for native calls; else None.

    Raises:
        ClosedError: the rows were closed.
    """
    if not isinstance(rows, RowTable):
        return None
    found = rows.native_rows()
    return found if isinstance(found, native.NativeRows) and found.code == rows.dtype_code else None
