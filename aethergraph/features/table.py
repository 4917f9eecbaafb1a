"""RowTable: rows by id as people look at them: facts, indices, slices, numpy's protocol.

::

    RowTable ──┬── CachedRows, OrderedRows, RemoteRows, LeasedRows     rows of others
               └── NativeRowTable ──┬── LiveFeatureTable
                                    └── StoredRows ── FeatureTable     (stored_rows.py)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import describe_range, to_array
from aethergraph.errors import ClosedError, InvalidArgumentError, OutOfRangeError, UnsupportedError
from aethergraph.features.bfloat16 import bfloat16_to_float32
from aethergraph.protocols import RowSource

__all__ = ["NativeRowTable", "RowTable"]


class RowTable(RowSource):
    """Rows of one shape and dtype; a subclass places them and gathers."""

    _code: int
    _row_shape: tuple[int, ...]
    _num_rows: int
    _dtype: np.dtype[Any]
    _is_closed: bool = False

    def _set_form(self, code: int, shape: tuple[int, ...]) -> None:
        """Set the dtype of the rows, by its code, and the shape of all of them."""
        self._code, self._dtype = code, native.ARRAY_DTYPES[code]
        self._num_rows, self._row_shape = shape[0], shape[1:]

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
    def closed(self) -> bool:
        """True after the rows were closed."""
        return self._is_closed

    def check_open(self) -> None:
        """Raise ClosedError if the rows were closed."""
        if self.closed:
            raise ClosedError(f"{self!r} was closed")

    def __len__(self) -> int:
        return self._num_rows

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        array = self._to_array()
        if self._code == native.BFLOAT16:
            array = bfloat16_to_float32(array)
        if dtype is not None:
            array = array.astype(dtype, copy=False)
        return array.copy() if copy else array

    def _to_array(self) -> NDArray[Any]:
        """Return all rows."""
        return self.array

    @property
    def dtype_code(self) -> int:
        """Native code of the dtype."""
        return self._code

    # ---- rows ----------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> NDArray[Any]:
        """Return rows by number, slice, boolean mask or id array, always as a new array.

        A single number gives the row without the first dimension; a negative one counts from the
        end, as in numpy. In id arrays negative numbers are errors.
        """
        self.check_open()
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
                index.indices(self._num_rows)
            except (TypeError, ValueError) as error:
                raise InvalidArgumentError(f"{index} cannot choose rows: {error}") from error
            return self._slice(index)
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

    def _slice(self, rows: slice) -> NDArray[Any]:
        """Return the rows of a slice, as a new array."""
        return self.gather(np.arange(*rows.indices(self._num_rows)))

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for number in range(self._num_rows):
            yield self[number]


class NativeRowTable(RowTable):
    """Rows that the C core gathers: it checks the ids, and converts to a wider dtype as it goes."""

    checks_ids = True

    def gather_into(self, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Set ``out[i]`` to row ``ids[i]``."""
        self._gather(ids, out, self._code)

    def widen_into(self, ids: NDArray[np.int64], out: NDArray[Any], dtype: str) -> None:
        """Set ``out[i]`` to row ``ids[i]``, converted in the same pass."""
        self._gather(ids, out, native.DTYPE_CODES[dtype])

    @abstractmethod
    def _gather(self, ids: NDArray[np.int64], out: NDArray[Any], code: int) -> None:
        """Set ``out[i]`` to row ``ids[i]``, in the dtype of ``code``."""
