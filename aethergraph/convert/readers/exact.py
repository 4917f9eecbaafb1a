"""Numbers of a table that the type of their column would change, and what keeps them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.exact import (
    LARGEST_ID,
    MANTISSA,
    changed_integers,
    describe_change,
    first_changed,
    is_kept,
    largest,
)
from aethergraph.convert.readers.base import Field

__all__ = ["explain_change", "explain_text_change", "may_change"]

_INTEGER = re.compile(r"([+-]?)0*([0-9]+)")
#: Also integers that a program has written as floats.
_WHOLE = re.compile(r"([+-]?)0*([0-9]*)\.?0*")


def may_change(array: NDArray[Any], dtype: str) -> NDArray[np.bool_] | None:
    """Mark numbers, parsed as floats, whose text may have another value; None if there are none.

    Args:
        array: float32 or float64, one-dimensional.
        dtype: type of the stored numbers: that of ``array``, or a half float.
    """
    limit = float(1 << MANTISSA[dtype])
    if not array.size or not largest(array) >= limit:
        return None
    with np.errstate(invalid="ignore"):
        large: NDArray[np.bool_] = np.abs(array) >= limit
        if dtype == array.dtype.name:
            return large
        # Fractions are rounded whatever their text is, and small integers are parsed exactly.
        large &= np.floor(array) == array
        parsed = np.flatnonzero(large & (np.abs(array) < 1 << MANTISSA[array.dtype.name]))
    large[parsed] = changed_integers(array[parsed].astype(np.int64), dtype)
    overflow = first_changed(array, dtype)
    if overflow is not None:
        large[overflow] = True
    return large if large.any() else None


def explain_text_change(field: Field, text: str) -> str | None:
    """Return the message if the type of a field does not hold the number in ``text``, else None."""
    number = float(text)
    if number != number or "inf" in text.lower():
        return None
    value: int | float = number
    halved = field.stored != field.dtype
    digits = (_INTEGER if halved else _WHOLE).fullmatch(text)
    if number.is_integer() and abs(number) <= LARGEST_ID and not (halved and digits is None):
        # Leading zeros are left out: Python converts at most some thousand digits.
        value = int(number if digits is None else digits[2] or "0")
        value = -value if digits is not None and digits[1] == "-" else value
    if np.isinf(value):
        return explain_change(field, text[:80])
    if is_kept(value, field.stored):
        return None
    return explain_change(field, value)


def explain_change(field: Field, value: Any) -> str:
    """Return the message about a value that a field must not change but would, or its text."""
    fitting = [way for dtype, way in field.keep if dtype and is_kept(value, dtype)][:1]
    ways = fitting + [way for dtype, way in field.keep if not dtype]
    advice = f": {'; '.join(ways)}" if ways else ""
    return describe_change(value, field.stored, f"the {field.role} ") + advice
