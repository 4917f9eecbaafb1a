"""Numbers that a smaller type would change, found before anything is stored.

Integers stay exact or are refused: they may be ids. A finite number that would become infinite is
refused as well. Fractions are rounded, as every fraction is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LARGEST_ID",
    "MANTISSA",
    "array_of",
    "changed_integers",
    "describe_change",
    "first_changed",
    "is_kept",
    "largest",
    "narrowest_float",
    "of_integers",
]

#: Integers of at most this many bits (behind the lowest that is set) are exact.
MANTISSA: Final = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
#: Whole numbers above it are no ids: they are rounded as fractions are.
LARGEST_ID: Final = 2.0**64
#: Magnitudes from here on round to infinity. bfloat16 is rounded by way of float32.
_OVERFLOW: Final = {
    "bfloat16": 2.0**128 - 2.0**119 - 2.0**103,
    "float16": 65520.0,
    "float32": 2.0**128 - 2.0**103,
}
_LARGEST_FLOAT16 = 65504


def of_integers(values: Sequence[int]) -> NDArray[Any]:
    """Return integers as int64 or uint64 [n], as objects where neither holds all of them.

    ``np.array([-1, 2**63])`` and ``np.array([1, 2**63])`` are float64, which changes them.
    """
    try:
        return np.array(values, np.int64)
    except OverflowError:
        pass
    if min(values) >= 0 and max(values) < 2**64:
        return np.array(values, np.uint64)
    objects = np.empty(len(values), object)
    objects[:] = values
    return objects


def array_of(values: Any) -> NDArray[Any]:
    """Return ``np.asarray(values)``, where lists of integers do not become floats.

    Those that no integer type holds together, such as -1 and 2^63, are objects.
    """
    array = np.asarray(values)
    if array.dtype.kind != "f" or not array.size or not isinstance(values, list | tuple):
        return array
    first: Any = values
    while isinstance(first, list | tuple):
        first = first[0]
    if not _is_integer(first):  # so are most lists of floats: no need to look at all of them
        return array
    items = np.array(values, object)
    flat = items.reshape(-1).tolist()
    if not all(map(_is_integer, flat)):
        return array
    return of_integers([int(item) for item in flat]).reshape(items.shape)


def _is_integer(value: Any) -> bool:
    """Return whether a value is an integer of Python or a scalar of numpy, and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def first_changed(array: NDArray[Any], dtype: str) -> int | None:
    """Return the position of the first number that ``dtype`` must not change but would, or None.

    Integers are to stay exact. So are whole numbers of float64 in float32, up to 2^64. To round
    floats to float16 or bfloat16 is the purpose of these types, so only overflow counts. Numbers
    wider than float64 are rounded by nobody's wish: every change counts.

    Args:
        array: numbers or booleans, one-dimensional, in native byte order.
        dtype: "bfloat16", "float16", "float32" or "float64".
    """
    kind, size = array.dtype.kind, array.dtype.itemsize
    if not array.size:
        return None
    if kind in "iu":
        changed = changed_integers(array, dtype)
    elif kind != "f" or size == 2 or (size <= 8 and dtype == "float64"):
        return None
    elif size > 8:
        with np.errstate(over="ignore"):
            changed = (array.astype(dtype) != array) & ~np.isnan(array)
    elif dtype == "float32":
        if size == 4 or not largest(array) > 1 << MANTISSA[dtype]:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = array.astype(dtype)
            is_whole = (np.abs(array) <= LARGEST_ID) & (np.floor(array) == array)
        changed = (is_whole & (narrow != array)) | (np.isinf(narrow) & np.isfinite(array))
    else:
        limit = _OVERFLOW[dtype]
        if not largest(array) >= limit:
            return None
        changed = (np.abs(array) >= array.dtype.type(limit)) & np.isfinite(array)
    return int(changed.argmax()) if changed.any() else None


def largest(array: NDArray[Any]) -> float:
    """Return the largest magnitude of floats, at least one, leaving NaN out if there are others."""
    return max(float(np.fmax.reduce(array)), -float(np.fmin.reduce(array)))


def changed_integers(array: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
    """Return which integers a float type would change."""
    bits = MANTISSA[dtype]
    if not array.size or -(1 << bits) <= int(array.min()) <= int(array.max()) <= 1 << bits:
        return np.zeros(array.size, np.bool_)
    unsigned = array.astype(np.uint64)  # modulo 2^64, so that the smallest int64 is 2^63 below
    size = np.where(array < 0, np.uint64(0) - unsigned, unsigned)
    lowest = size & (np.uint64(0) - size)
    changed: NDArray[np.bool_] = (size >> np.uint64(bits)) >= np.maximum(lowest, np.uint64(1))
    if dtype == "float16":
        changed |= size > np.uint64(_LARGEST_FLOAT16)
    return changed


def is_kept(value: Any, dtype: str) -> bool:
    """Return whether a type keeps a number, by the rules of :func:`first_changed`.

    Args:
        value: an int, a float or a scalar of numpy; a text stands for a number beyond float64.
        dtype: a float type, or "int64".
    """
    if isinstance(value, str):
        return False
    if isinstance(value, (int, np.integer)):
        if dtype == "int64":
            return -(1 << 63) <= int(value) < 1 << 63
        stored = _rounded(int(value), dtype)
        return math.isfinite(stored) and int(stored) == value
    if dtype == "int64":
        return -(2.0**63) <= value < 2.0**63 and float(value).is_integer()
    return first_changed(np.array([value]), dtype) is None


def narrowest_float(value: Any) -> str | None:
    """Return the narrower of float32 and float64 that keeps a number; None if neither does."""
    return next((name for name in ("float32", "float64") if is_kept(value, name)), None)


def describe_change(value: Any, dtype: str, label: str) -> str:
    """Return the message about a number that :func:`first_changed` has found.

    Args:
        value: the number, or its text if it is beyond float64.
        dtype: the type that would change it.
        label: words that stand before the number, such as ``"the weight "``.
    """
    stored = math.inf if isinstance(value, str) else _rounded(value, dtype)
    if not math.isfinite(stored):
        return f"{label}{value!s} is too large for {dtype}"
    if stored.is_integer() and value == int(value):
        return f"{dtype} would make {int(stored)} of {label}{int(value)}"
    return f"{dtype} would make {stored} of {label}{value!s}"


def _rounded(value: Any, dtype: str) -> float:
    with np.errstate(over="ignore"):
        number = float(np.array(value).astype("float32" if dtype == "bfloat16" else dtype))
    if dtype != "bfloat16" or not math.isfinite(number):
        return number
    if abs(number) >= _OVERFLOW[dtype]:
        return math.inf
    mantissa, exponent = math.frexp(number)
    bits = MANTISSA[dtype]
    return math.ldexp(round(math.ldexp(mantissa, bits)), exponent - bits)
