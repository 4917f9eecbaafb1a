"""The waist of rows: whatever asks for rows by id, and whatever has them, meets here.

::

    FeatureTable.gather, loaders, torch's columns, servers
          └─> gather_rows: ids, out and dtype are checked, memory is made
                 └─> fill_rows: rows that do not exist are named
                        ├─> rows.gather_into(ids, out)           in the stored dtype
                        └─> rows.widen_into(ids, out, dtype)     in a wider one
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, empty
from aethergraph.errors import InvalidArgumentError, OutOfRangeError

if TYPE_CHECKING:
    from aethergraph.protocols import RowSource

__all__ = [
    "check_out",
    "check_rows",
    "fill_rows",
    "gather_rows",
    "name_row",
    "no_such_row",
    "result_of",
    "widen",
    "widen_gathered",
]


def gather_rows(
    rows: RowSource,
    ids: ArrayLike,
    out: NDArray[Any] | None = None,
    dtype: DTypeLike | str | None = None,
) -> NDArray[Any]:
    """Return the rows of ``ids``: :meth:`aethergraph.protocols.RowSource.gather`."""
    numbers = as_ids(ids, "ids")
    own_code = native.DTYPE_CODES[rows.dtype_name]
    out, code = result_of(rows, len(numbers), out, dtype, own_code)
    fill_rows(rows, numbers, out, None if code == own_code else native.DTYPE_NAMES[code])
    return out


def fill_rows(
    rows: RowSource, ids: NDArray[np.int64], out: NDArray[Any], dtype: str | None = None
) -> None:
    """Set ``out[i]`` to row ``ids[i]``: :func:`gather_rows` into memory that is known to fit.

    Args:
        rows: the source.
        ids: contiguous int64 vector.
        out: array of the stored dtype, or of ``dtype``.
        dtype: a wider dtype; None: the stored one.

    Raises:
        OutOfRangeError: a row does not exist; names the first one and its position.
    """
    if not rows.checks_ids:
        check_rows(ids, rows.num_rows)
        ids = ids.view()  # the batch's: a source that writes to them fails
        ids.flags.writeable = False
    try:
        if dtype is None:
            result: object = rows.gather_into(ids, out)
        else:
            result = rows.widen_into(ids, out, dtype)  # type: ignore[func-returns-value]
    except OutOfRangeError as error:
        if rows.checks_ids:
            raise name_row(error, rows.num_rows) from None
        raise
    if result is not None and result is not out:
        raise InvalidArgumentError(
            f"{rows.storage} returned a {type(result).__name__}: its gather_into() writes the rows "
            "into out (out[...] = rows) and returns nothing"
        )


def result_of(
    rows: RowSource,
    count: int,
    out: NDArray[Any] | None,
    dtype: DTypeLike | str | None,
    own_code: int,
) -> tuple[NDArray[Any], int]:
    """Return the array that ``count`` rows go to, and the code of its dtype.

    Args:
        rows: the source, whose ``empty_rows`` is asked for memory.
        count: number of rows.
        out: the array that was given, or None.
        dtype: dtype that was asked for, or None.
        own_code: code of the stored dtype.

    Raises:
        InvalidArgumentError: ``out`` does not fit.
        MemoryError: there is no memory for the rows.
    """
    shape = (count, *rows.row_shape)
    if out is not None:
        return out, check_out(out, shape, dtype, own_code)
    code = own_code if dtype is None else native.dtype_code(dtype)
    array_dtype = native.ARRAY_DTYPES[code]
    memory = rows.empty_rows(count, array_dtype)
    return (empty(shape, array_dtype, f"{count} rows") if memory is None else memory), code


def widen_gathered(rows: RowSource, ids: NDArray[np.int64], out: NDArray[Any], dtype: str) -> None:
    """Gather rows as they are stored and convert them: ``widen_into`` of any source."""
    stored = empty((len(ids), *rows.row_shape), rows.array_dtype, f"{len(ids)} rows")
    code = native.DTYPE_CODES[dtype]
    widen(stored[:0], rows.dtype_name, out[:0], code)  # refuses a dtype before the rows are read
    fill_rows(rows, ids, stored)
    widen(stored, rows.dtype_name, out, code)


def widen(stored: NDArray[Any], dtype_name: str, out: NDArray[Any], code: int) -> None:
    """Fill ``out``, of the dtype of ``code``, with rows of ``dtype_name``.

    Raises:
        UnsupportedError: the dtype is not widened to that one.
    """
    table = native.NativeRows(np.ascontiguousarray(stored), native.DTYPE_CODES[dtype_name])
    numbers = np.arange(len(stored))
    native.run_long(lambda task: table.gather(numbers, out, code, task), None, out.nbytes)


# ---- checks ------------------------------------------------------------------------------------


def check_rows(ids: NDArray[np.int64], num_rows: int) -> None:
    """Raise OutOfRangeError for the first of ``ids`` that is not in ``0 .. num_rows - 1``."""
    # As unsigned numbers, negative ids are the largest: one pass finds both kinds.
    if len(ids) and int(ids.view(np.uint64).max()) >= num_rows:
        at = int(((ids < 0) | (ids >= num_rows)).argmax())
        raise no_such_row(at, int(ids[at]), num_rows)


def no_such_row(at: int, value: int, num_rows: int) -> OutOfRangeError:
    """Return the error for row ``value``, at position ``at`` of the ids, that does not exist."""
    message = f"ids[{at}] = {value} is not in 0..{num_rows - 1}"
    if num_rows == 0:
        message = f"ids[{at}] = {value}: there are no rows"
    return OutOfRangeError(f"{message} (num_rows={num_rows})", position=at, value=value)


def name_row(error: OutOfRangeError, num_rows: int) -> OutOfRangeError:
    """Return the error of a native call as :func:`no_such_row` words it."""
    if error.position is None or error.value is None:
        return error
    return no_such_row(error.position, error.value, num_rows)


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
