"""Sources of rows that are not ours: adapting them, and checking what they return.

::

    FeatureSource ── as_row_source ──> RowSource ── gather_rows ──> rows of the right shape
    four members     checked once      defaults     checked each time

``as_row_source`` is in ``adapters.py``, since it makes a FeatureTable of an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, empty
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.table import check_out, check_rows
from aethergraph.protocols import FeatureSource, RowSource

__all__ = [
    "SourceRows",
    "all_rows",
    "check_result",
    "check_source",
    "gather_rows",
    "refuse_half_source",
]


class SourceRows(RowSource):
    """Rows of a source that has no more than the members of a :class:`FeatureSource`.

    Args:
        source: the source; its number of rows, their shape and dtype must not change.
    """

    def __init__(self, source: FeatureSource) -> None:
        self.source = source
        self._shape = source.shape
        self._dtype_name = source.dtype_name

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows: ``(num_rows, ...)``."""
        return self._shape

    @property
    def dtype_name(self) -> str:
        """Name of the dtype of the source."""
        return self._dtype_name

    @property
    def num_rows(self) -> int:
        """Number of rows, as the source counts them."""
        return self.source.num_rows

    @property
    def storage(self) -> str:
        """Name of the class of the source."""
        return type(self.source).__name__

    def gather(
        self,
        ids: ArrayLike,
        out: NDArray[Any] | None = None,
        dtype: DTypeLike | str | None = None,
    ) -> NDArray[Any]:
        """Return the rows of ``ids``, as :meth:`aethergraph.FeatureTable.gather` does.

        The source gets ids that are checked, and an ``out`` of its own dtype or none; rows of
        another dtype are converted here.

        Raises:
            OutOfRangeError: a row does not exist; names the first one and its position.
            InvalidArgumentError: ``out`` does not fit, or what the source returned does not.
            UnsupportedError: ``dtype`` is narrower than the stored one.
        """
        ids, own_code = as_ids(ids, "ids"), native.dtype_code(self._dtype_name)
        check_rows(ids, self.num_rows)
        shape = (len(ids), *self.row_shape)
        if out is not None:
            code = check_out(out, shape, dtype, own_code)
        else:
            code = own_code if dtype is None else native.dtype_code(dtype)
        given = ids.copy()  # the batch's: a source may sort its own
        if code != own_code:
            if out is None:
                out = empty(shape, native.ARRAY_DTYPES[code], f"{len(ids)} rows")
            return _widen(self, check_result(self, self.source.gather(given), len(ids)), out, code)
        rows = self.source.gather(given, out=out)
        if rows is out and out is not None:
            return out
        rows = check_result(self, rows, len(ids))
        if out is None:
            return rows
        out[...] = rows
        return out

    @property
    def can_widen(self) -> bool:
        """True: rows are converted after the source has returned them."""
        return True

    def __repr__(self) -> str:
        return f"SourceRows({shown(self.source)})"


def check_source(rows: RowSource, name: str) -> RowSource:
    """Return ``rows`` if its shape, number of rows and dtype are fit to gather from.

    Raises:
        InvalidArgumentError: one of them is not; the message begins with ``name``.
    """
    kind, shape, dtype = rows.storage, rows.shape, rows.dtype_name
    if not isinstance(shape, tuple) or not shape or not all(map(_is_count, shape)):
        raise InvalidArgumentError(
            f"{name}: shape of {kind} = {shown(shape)} is not a tuple (num_rows, ...) of counts"
        )
    count = rows.num_rows
    # Rows of a graph that changes may have come since their shape was asked for.
    if count != shape[0] and not (_is_count(count) and shape[0] <= count <= rows.shape[0]):
        raise InvalidArgumentError(
            f"{name}: num_rows of {kind} = {shown(count)}, but its shape is {shape}"
        )
    if not isinstance(dtype, str) or dtype not in native.DTYPE_CODES:
        known = ", ".join(native.DTYPE_CODES)
        raise InvalidArgumentError(
            f"{name}: dtype_name of {kind} = {shown(dtype)} is not one of {known}"
        )
    return rows


def refuse_half_source(value: Any, name: str) -> None:
    """Raise InvalidArgumentError for what was meant as a source and lacks members of one.

    That is an object with some member of a source that no array has, or a function or class; numpy
    would take it for a scalar.
    """
    members = ("gather", "dtype_name", "num_rows", "shape")
    if isinstance(value, type):
        wrong = f"is the class {value.__name__}: make an object of it"
    elif any(hasattr(value, one) for one in members[:3]) and not hasattr(value, "__array__"):
        missing = ", ".join(one for one in members if getattr(value, one, None) is None)
        wrong = f"is a {type(value).__name__}, which lacks {missing}: a source of rows has them too"
    elif callable(value) and not hasattr(value, "__array__"):
        wrong = (
            "is a function: give an object with shape, dtype_name, num_rows and gather "
            "(aethergraph.protocols.FeatureSource)"
        )
    else:
        return
    raise InvalidArgumentError(f"{name} {wrong}")


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and bool(value >= 0)


def gather_rows(
    rows: RowSource,
    ids: NDArray[Any],
    out: NDArray[Any] | None = None,
    dtype: str | None = None,
) -> NDArray[Any]:
    """Return ``rows.gather(ids, out, dtype)``, checked; ``dtype`` needs an ``out`` of it.

    A source that returns another array than ``out`` is forgiven: its rows are copied. A source that
    does not widen is never handed an ``out`` of another dtype, which it could fill wrongly.

    Raises:
        InvalidArgumentError: the result is no array, or has another shape or dtype than it should.
        UnsupportedError: ``out`` has a narrower dtype than the rows.
    """
    if out is None:
        return check_result(rows, rows.gather(ids), len(ids))
    if not rows.can_widen:
        if out.dtype != rows.array_dtype or dtype not in (None, rows.dtype_name):
            code = native.dtype_code(out.dtype if dtype is None else dtype)
            return _widen(rows, check_result(rows, rows.gather(ids), len(ids)), out, code)
        dtype = None
    found = rows.gather(ids, out, dtype)
    if found is not out:
        out[...] = check_result(rows, found, len(ids), out.dtype)
    return out


def _widen(rows: RowSource, found: NDArray[Any], out: NDArray[Any], code: int) -> NDArray[Any]:
    """Fill ``out``, of dtype ``code``, with ``found``, which ``rows`` returned; return ``out``."""
    table = native.NativeRows(np.ascontiguousarray(found), native.dtype_code(rows.dtype_name))
    table.gather(np.arange(len(found)), out, code)
    return out


def all_rows(rows: RowSource) -> NDArray[Any]:
    """Return ``rows.array``, checked as by :func:`gather_rows`."""
    return check_result(rows, rows.array, rows.num_rows)


def check_result(
    rows: RowSource, found: Any, count: int, dtype: np.dtype[Any] | None = None
) -> NDArray[Any]:
    """Return ``found`` if it can be ``count`` rows of ``rows``.

    Raises:
        InvalidArgumentError: it is no array, or has another shape or dtype (None: the stored one).
    """
    shape, dtype = (count, *rows.row_shape), dtype or rows.array_dtype
    if not isinstance(found, np.ndarray):
        wrong = f"a {type(found).__name__} instead of a numpy array"
    elif found.shape != shape:
        wrong = f"shape {found.shape} instead of {shape}"
    elif found.dtype != dtype:
        wrong = f"dtype {found.dtype} instead of {dtype}"
    else:
        return found
    raise InvalidArgumentError(
        f"{rows.storage} returned {wrong} for {count} of its {rows.num_rows} rows, which are of "
        f"{rows.dtype_name} {rows.row_shape}: correct its gather()"
    )
