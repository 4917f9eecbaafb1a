"""Parts of one table whose columns differ only in how Arrow holds the same values.

Each file may have been written by another program, or by pandas with other values in it:

::

    string        large_string, string_view
    binary        large_binary, binary_view
    timestamp     of another unit, where no time loses anything
    integers      float64, which pandas makes of integers of which some are missing

A part becomes as the first one. What is not the same stays an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["as_first", "are_maybe_whole", "are_one_type", "are_whole"]

_WHOLE = 2.0**53  # floats up to it tell all integers apart


def are_one_type(one: Any, other: Any) -> bool:
    """Return whether columns of two types may hold the same values."""
    import pyarrow.types as pat

    if pat.is_null(one) or pat.is_null(other):
        return True
    one, other = (kind.value_type if pat.is_dictionary(kind) else kind for kind in (one, other))
    if one == other or (pat.is_integer(one) and pat.is_integer(other)):
        return True
    if pat.is_timestamp(one) and pat.is_timestamp(other):
        return bool(one.tz == other.tz)
    return _family(one) is not None and _family(one) == _family(other)


def _family(kind: Any) -> str | None:
    import pyarrow.types as pat

    if pat.is_string(kind) or pat.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    if pat.is_binary(kind) or pat.is_large_binary(kind) or str(kind) == "binary_view":
        return "bytes"
    return None


def are_maybe_whole(one: Any, other: Any) -> bool:
    """Return whether one type is of integers and the other float64, which may hold integers."""
    import pyarrow.types as pat

    return bool(
        (pat.is_integer(one) and pat.is_float64(other))
        or (pat.is_float64(one) and pat.is_integer(other))
    )


def are_whole(array: Any) -> bool:
    """Return whether all floats of an array are integers, exactly, or missing (null or NaN)."""
    numbers = array.fill_null(np.nan).to_numpy(zero_copy_only=False)
    numbers = numbers[~np.isnan(numbers)]
    with np.errstate(invalid="ignore"):
        return bool(((np.trunc(numbers) == numbers) & (np.abs(numbers) <= _WHOLE)).all())


def as_first(array: Any, kind: Any, bad: Callable[[str, int], Exception]) -> Any:
    """Return a column as the first part of its table holds it; most differences need no change.

    Args:
        array: the column.
        kind: type of it in the first part.
        bad: returns the error about a row.
    """
    import pyarrow as pa
    import pyarrow.types as pat

    if pat.is_float64(array.type) and pat.is_integer(kind):
        numbers = array.fill_null(np.nan).to_numpy(zero_copy_only=False)
        missing = np.isnan(numbers)
        return pa.array(np.where(missing, 0, numbers).astype(np.int64), mask=missing)
    is_changed = (
        (pat.is_timestamp(kind) and pat.is_timestamp(array.type))
        or (pat.is_float64(kind) and pat.is_integer(array.type))
        or (_family(kind) is not None and _family(kind) == _family(array.type))
    )
    if not is_changed or array.type == kind:
        return array
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        row = next(row for row in range(len(array)) if not _is_castable(array.slice(row, 1), kind))
        raise bad(f"{array[row]} cannot be given as {kind} exactly", row) from None


def _is_castable(array: Any, kind: Any) -> bool:
    import pyarrow as pa

    try:
        array.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
