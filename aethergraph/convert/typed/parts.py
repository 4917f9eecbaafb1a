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

from aethergraph._checks.exact import describe_change, is_kept
from aethergraph.convert.readers.base import InputError

__all__ = ["WHOLE", "as_arrow", "as_first", "are_maybe_whole", "are_one_type", "are_whole"]

WHOLE = 2.0**53  # floats below it tell all integers apart: it may have been 2**53 + 1


def are_one_type(first: Any, second: Any) -> bool:
    """Return whether columns of two types may hold the same values."""
    import pyarrow.types as pat

    if pat.is_null(first) or pat.is_null(second):
        return True
    first, second = (
        kind.value_type if pat.is_dictionary(kind) else kind for kind in (first, second)
    )
    if first == second or (pat.is_integer(first) and pat.is_integer(second)):
        return True
    if pat.is_timestamp(first) and pat.is_timestamp(second):
        return bool(first.tz == second.tz)
    return _family(first) is not None and _family(first) == _family(second)


def _family(kind: Any) -> str | None:
    import pyarrow.types as pat

    if pat.is_string(kind) or pat.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    if pat.is_binary(kind) or pat.is_large_binary(kind) or str(kind) == "binary_view":
        return "bytes"
    return None


def are_maybe_whole(first: Any, second: Any) -> bool:
    """Return whether one type is of integers and the other float64, which may hold integers."""
    import pyarrow.types as pat

    return bool(
        (pat.is_integer(first) and pat.is_float64(second))
        or (pat.is_float64(first) and pat.is_integer(second))
    )


def are_whole(array: Any) -> bool:
    """Return whether all floats of an array are integers, exactly, or missing (null or NaN)."""
    numbers = array.fill_null(np.nan).to_numpy(zero_copy_only=False)
    numbers = numbers[~np.isnan(numbers)]
    with np.errstate(invalid="ignore"):
        return bool(((np.trunc(numbers) == numbers) & (np.abs(numbers) < WHOLE)).all())


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


def as_arrow(values: Any, kind: Any, source: str, column: Any, first_row: int = 0) -> Any:
    """Return values as an array of Arrow, integers as uint64 where int64 does not hold them.

    Args:
        values: a list, an array or a column of a data frame.
        kind: type of Arrow; None: that of the values.
        source: name of the table, for messages.
        column: name of the column.
        first_row: number of rows before these.

    Raises:
        InputError: the others do not leave an integer as it is; names it and its row.
    """
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except (OverflowError, pa.ArrowInvalid):
        items = [item.item() if isinstance(item, np.generic) else item for item in values]
        items = [None if type(item) is float and np.isnan(item) else item for item in items]
        integers = {row: item for row, item in enumerate(items) if type(item) is int}
        kinds = set(map(type, items)) - {type(None), int}
        if not integers or not kinds <= {float}:
            raise
        fraction = next((item for item in items if type(item) is float), None)
        is_signed = min(integers.values()) < 0 or fraction is not None
        dtype, end = ("int64", 2**63) if is_signed else ("uint64", 2**64)
        for row, item in integers.items():
            problem = None
            if not -(2**63) <= item < end:
                problem = f"{item} does not fit in {dtype}"
            elif fraction is not None and not is_kept(item, "float64"):
                problem = f"{describe_change(item, 'float64', '')}, beside {fraction}"
            if problem is not None:
                problem = f"column {column!r}: {problem}"
                raise InputError(source, problem, line=first_row + row + 1, unit="row") from None
        if fraction is not None or kind is not None:
            raise
        return pa.array(items, dtype)


def _is_castable(array: Any, kind: Any) -> bool:
    import pyarrow as pa

    try:
        array.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
