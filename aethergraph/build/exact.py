"""Numbers that a float type would change, so that no number is changed silently.

An integer that float32 or float64 does not hold exactly is refused: it may be an id. A fraction is
rounded, as every fraction is. A finite number that would become infinite is refused as well.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aethergraph.build.source import Field

__all__ = ["MANTISSA", "explain_change", "explain_text_change", "first_changed", "may_change"]

#: Bits of the integers that are exact (counted from the lowest bit that is set).
MANTISSA: Final = {"float32": 24, "float64": 53}
_WHOLE = re.compile(r"([+-]?)0*([0-9]*)\.?0*")
#: Whole numbers above this are no ids: they are rounded as fractions are.
_LARGEST = 2.0**64


def first_changed(array: NDArray[Any], dtype: str) -> int | None:
    """Return the position of the first number that ``dtype`` would change, or None.

    Args:
        array: numbers, one-dimensional.
        dtype: "float32" or "float64".
    """
    if array.dtype.kind in "iu":
        changed = _inexact_integers(array, MANTISSA[dtype])
    elif array.dtype.itemsize > np.dtype(dtype).itemsize:
        with np.errstate(over="ignore"):
            narrow = array.astype(dtype)
        whole = (np.abs(array) <= _LARGEST) & (np.floor(array) == array)
        changed = (whole & (narrow != array)) | (np.isinf(narrow) & np.isfinite(array))
    else:
        return None
    return int(changed.argmax()) if changed.any() else None


def _inexact_integers(array: NDArray[Any], bits: int) -> NDArray[np.bool_]:
    if not array.size or -(1 << bits) <= int(array.min()) <= int(array.max()) <= 1 << bits:
        return np.zeros(array.size, np.bool_)
    unsigned = array.astype(np.uint64)  # modulo 2^64, so that the smallest int64 is 2^63 below
    size = np.where(array < 0, np.uint64(0) - unsigned, unsigned)
    lowest = size & (np.uint64(0) - size)
    changed: NDArray[np.bool_] = (size >> np.uint64(bits)) >= np.maximum(lowest, np.uint64(1))
    return changed


def may_change(array: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Mark numbers, parsed as floats, whose text may have another value; None if there are none."""
    limit = float(1 << MANTISSA[array.dtype.name])
    # fmax and fmin ignore NaN.
    if not array.size or max(np.fmax.reduce(array), -np.fmin.reduce(array)) < limit:
        return None
    with np.errstate(invalid="ignore"):
        large: NDArray[np.bool_] = np.abs(array) >= limit
    return large


def explain_text_change(one: Field, text: str) -> str | None:
    """Return the message if the type of a field does not hold the number in ``text``, else None."""
    number = float(text)
    if number != number or "inf" in text.lower():
        return None
    value: int | float = number
    if number.is_integer() and abs(number) <= _LARGEST:
        digits = _WHOLE.fullmatch(text)
        # Leading zeros are left out: Python converts at most some thousand digits.
        value = int(number if digits is None else digits[2] or "0")
        value = -value if digits is not None and digits[1] == "-" else value
    with np.errstate(over="ignore"):
        stored = float(np.array(number).astype(one.dtype))
    if np.isfinite(stored) and (isinstance(value, float) or int(stored) == value):
        return None
    return explain_change(one, value if np.isfinite(value) else text[:80])


def explain_change(one: Field, value: Any) -> str:
    """Return the message about a value that :func:`first_changed` has found, or its text."""
    advice = f": {one.keep}" if one.keep else ""
    with np.errstate(over="ignore"):
        stored = np.inf if isinstance(value, str) else float(np.array(value).astype(one.dtype))
    if np.isfinite(stored):
        return f"{one.dtype} would make {int(stored)} of the {one.role} {int(value)}{advice}"
    return f"the {one.role} {value} is too large for {one.dtype}{advice}"
