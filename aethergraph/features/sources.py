"""Sources of rows that are not ours: adapting them, and checking what they return.

::

    FeatureSource ── as_row_source ──> RowSource ── gather_rows ──> rows of the right shape
    three members    checked once      defaults     (gathering.py)

``as_row_source`` is in ``adapters.py``, since it makes a FeatureTable of an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.protocols import FeatureSource, RowSource

__all__ = ["SourceRows", "all_rows", "check_result", "check_source", "refuse_half_source"]


class SourceRows(RowSource):
    """Rows of a source that has no more than the members of a :class:`FeatureSource`.

    Args:
        source: the source; the shape and dtype of its rows must not change.
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
    def storage(self) -> str:
        """Name of the class of the source."""
        return type(self.source).__name__

    def gather_into(self, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Copy what the source returns for ``ids``.

        Raises:
            InvalidArgumentError: it is no array of these rows.
        """
        own_ids = ids.copy()  # the batch's: a source may sort its own
        out[...] = check_result(self, self.source.gather(own_ids), len(ids))

    def __repr__(self) -> str:
        return f"SourceRows({shown(self.source)})"


def check_source(rows: RowSource, name: str) -> RowSource:
    """Return ``rows`` if its shape and dtype are fit to gather from.

    Raises:
        InvalidArgumentError: one of them is not; the message begins with ``name``.
    """
    kind, shape, dtype = rows.storage, rows.shape, rows.dtype_name
    if not isinstance(shape, tuple) or not shape or not all(map(_is_count, shape)):
        raise InvalidArgumentError(
            f"{name}: shape of {kind} = {shown(shape)} is not a tuple (num_rows, ...) of counts"
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
    members = ("gather", "dtype_name", "shape")
    if isinstance(value, type):
        wrong = f"is the class {value.__name__}: make an object of it"
    elif any(hasattr(value, member) for member in members[:2]) and not hasattr(value, "__array__"):
        missing = ", ".join(member for member in members if getattr(value, member, None) is None)
        wrong = f"is a {type(value).__name__}, which lacks {missing}: a source of rows has them too"
    elif callable(value) and not hasattr(value, "__array__"):
        wrong = (
            "is a function: give an object with shape, dtype_name and gather "
            "(aethergraph.protocols.FeatureSource)"
        )
    else:
        return
    raise InvalidArgumentError(f"{name} {wrong}")


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and bool(value >= 0)


def all_rows(rows: RowSource) -> NDArray[Any]:
    """Return ``rows.array``, checked."""
    return check_result(rows, rows.array, rows.num_rows)


def check_result(rows: RowSource, result: Any, count: int) -> NDArray[Any]:
    """Return ``result`` if it can be ``count`` rows of ``rows``.

    Raises:
        InvalidArgumentError: it is no array, or has another shape or dtype.
    """
    shape, dtype = (count, *rows.row_shape), rows.array_dtype
    if not isinstance(result, np.ndarray):
        wrong = f"a {type(result).__name__} instead of a numpy array"
    elif isinstance(result, np.ma.MaskedArray):
        wrong = "a masked array, whose masked rows are of no value,"
    elif result.shape != shape:
        wrong = f"shape {result.shape} instead of {shape}"
    elif result.dtype != dtype:
        wrong = f"dtype {result.dtype} instead of {dtype}"
    else:
        return result
    raise InvalidArgumentError(
        f"{rows.storage} returned {wrong} for {count} of its {rows.num_rows} rows, which are of "
        f"{rows.dtype_name} {rows.row_shape}: correct its gather()"
    )
