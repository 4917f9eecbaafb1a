"""bfloat16, which numpy lacks: arrays hold its bit patterns as uint16."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.exact import MANTISSA, first_changed


def float32_to_bfloat16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Round ``values`` to nearest even and return their bit patterns; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    halves: NDArray[np.uint16] = np.where(nan, quiet, rounded).astype(np.uint16)
    return halves


def bfloat16_to_float32(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Return the values of bfloat16 bit patterns."""
    wide: NDArray[np.uint32] = bits.astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32)


def torch_bfloat16_bits(values: Any) -> NDArray[np.uint16] | None:
    """Return the bits of a bfloat16 torch tensor, sharing CPU memory; None for other values."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(values, torch.Tensor) or values.dtype != torch.bfloat16:
        return None
    bits: NDArray[np.uint16] = values.detach().cpu().view(torch.int16).numpy().view(np.uint16)
    return bits


def can_save_as(code: int, to: int) -> bool:
    """Return whether ``to`` can hold every value of dtype ``code``, rounded if it is a float."""
    floats = [native.dtype_code(name) for name in ("bfloat16", "float16", "float32", "float64")]
    if code == to or to in floats:
        return True
    return code not in floats and np.can_cast(
        native.ARRAY_DTYPES[code], native.ARRAY_DTYPES[to], "safe"
    )


def convert(rows: NDArray[Any], code: int, to: int) -> NDArray[Any]:
    """Convert ``rows`` from native dtype ``code`` to native dtype ``to``."""
    if code == to:
        return rows
    if code == native.BFLOAT16:
        rows = bfloat16_to_float32(rows)
    if to == native.BFLOAT16:
        return float32_to_bfloat16(rows)
    return rows.astype(native.ARRAY_DTYPES[to], copy=False)


def first_lost(rows: NDArray[Any], code: int, to: int) -> tuple[int, Any] | None:
    """Return the first value that :func:`convert` must not change but would, and its row, or None.

    See :func:`aethergraph._checks.exact.first_changed` for the rules.
    """
    name = native.DTYPE_NAMES[to]
    if code == to or name not in MANTISSA:
        return None
    if code == native.BFLOAT16:
        if name != "float16":
            return None
        rows = bfloat16_to_float32(rows)
    values = rows.reshape(-1)
    at = first_changed(values, name)
    return None if at is None else (at * len(rows) // values.size, values[at])
