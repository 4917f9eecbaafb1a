"""Orders of edges: rows by position, made and applied in pieces that Ctrl-C can end.

An order is uint32, or uint64 for 2^32 - 1 rows and more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import STRETCH, empty, stretches
from aethergraph.features.rows import as_rows
from aethergraph.features.sources import all_rows
from aethergraph.protocols import RowSource

__all__ = ["inverse", "sorting_order", "take", "take_rows"]

#: Bits of the keys that one pass sorts by: each of their values has an offset of 8 bytes.
_MOST_BITS = 22


def take(array: NDArray[Any], rows: NDArray[Any], task: native.Task | None = None) -> NDArray[Any]:
    """Return ``array[rows]`` of a vector; ``rows`` is an order, or int64."""
    out = empty(len(rows), array.dtype, f"{len(rows)} edge values")
    native.gather(array, _as_gathered(rows), out, task)
    return out


def take_rows(
    store: RowSource, rows: NDArray[Any], task: native.Task | None = None
) -> NDArray[Any]:
    """Return the rows of ``store`` by position in the order ``rows``."""
    bits = "bfloat16" if store.dtype_name == "bfloat16" else None
    array, code = as_rows(all_rows(store), bits, "edge values")
    out = empty((len(rows), *array.shape[1:]), array.dtype, f"{len(rows)} edge values")
    native.NativeRows(array, code, store.guard).gather(_as_gathered(rows), out, code, task)
    return out


def _as_gathered(rows: NDArray[Any]) -> NDArray[Any]:
    return rows if rows.dtype.itemsize == 4 else rows.view(np.int64)


def inverse(order: NDArray[Any], task: native.Task | None = None) -> NDArray[Any]:
    """Return the position of every row in ``order``."""
    out = empty(len(order), order.dtype, f"{len(order)} edge ids")
    for some in stretches(len(order), task):
        out[order[some]] = np.arange(some.start, some.stop, dtype=order.dtype)
    return out


def sorting_order(values: NDArray[Any]) -> NDArray[Any] | None:
    """Return the order that sorts ``values``, ties by row; None if they are sorted.

    Args:
        values: times or ids, int64 or float64, without NaN.
    """
    pairs = stretches(len(values) - 1)
    if all((values[some.start + 1 : some.stop + 1] >= values[some]).all() for some in pairs):
        return None
    dtype = native.id_dtype(native.id_bytes_for(len(values)))
    if len(values) <= STRETCH:
        return np.argsort(values, kind="stable").astype(dtype)
    keys, used = _as_keys(values)
    low, high = (used & -used).bit_length() - 1, used.bit_length()
    passes = -(-(high - low) // _MOST_BITS)
    width = -(-(high - low) // passes)
    order: NDArray[Any] | None = None
    for shift in range(low, high, width):
        order = _sort_by_bits(keys, shift, width, order)
    return order


def _as_keys(values: NDArray[Any]) -> tuple[NDArray[np.uint64], int]:
    """Return numbers from 0 on in the order of ``values``, and the bits that they have set."""
    keys = empty(len(values), np.int64, f"{len(values)} values")
    for some in stretches(len(values)):
        keys[some] = values[some] if values.dtype == np.int64 else _as_integers(values[some])
    lowest = np.int64(native.id_bounds(keys)[0]).view(np.uint64)
    offsets, used = keys.view(np.uint64), 0
    for some in stretches(len(values)):
        offsets[some] -= lowest  # modulo 2^64
        used |= int(np.bitwise_or.reduce(offsets[some]))
    return offsets, used


def _as_integers(times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return integers in the order of ``times``."""
    bits = (times + 0.0).view(np.int64)  # -0.0 becomes 0.0, which it is equal to
    # The other bits grow with the magnitude: those of negative numbers are turned round.
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)


def _sort_by_bits(
    keys: NDArray[np.uint64], shift: int, width: int, order: NDArray[Any] | None
) -> NDArray[Any]:
    """Sort the rows stably by ``width`` bits of their keys; ``order`` is that by lower bits."""
    count = len(keys)
    rows = empty(count, np.int64, f"{count} rows")
    for some in stretches(count):
        rows[some] = np.arange(some.start, some.stop) if order is None else order[some]
    digits = empty(count, np.uint64, f"{count} values")
    if order is not None:
        native.gather(keys.view(np.int64), rows, digits.view(np.int64))
    for some in stretches(count):
        bits = (keys if order is None else digits)[some] >> np.uint64(shift)
        np.bitwise_and(bits, np.uint64((1 << width) - 1), out=digits[some])
    return native.build_lists(
        digits.view(np.int64), rows, 1 << width, count,
        id_bytes=native.id_bytes_for(count), with_order=False,
    )[1]  # fmt: skip
