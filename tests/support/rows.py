"""Rows of every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np


def random_rows(dtype: str, shape: tuple[int, ...] = (50, 3), seed: int = 0) -> Any:
    """Return numbers from all that the dtype holds; bfloat16 as bits, neither infinite nor NaN."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        return rng.normal(size=shape).astype(dtype)
    limits = np.iinfo("uint16" if dtype == "bfloat16" else dtype)
    rows = rng.integers(limits.min, limits.max, shape, dtype=limits.dtype, endpoint=True)
    return rows & np.uint16(0xBFFF) if dtype == "bfloat16" else rows
