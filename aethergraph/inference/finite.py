"""FiniteWatch: warnings of numbers that are none, where they first come up."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.features.bfloat16 import bfloat16_to_float32, float32_to_bfloat16

__all__ = ["FiniteWatch"]

Rows = NDArray[Any]
_LARGEST_BFLOAT16 = float(bfloat16_to_float32(np.array([0x7F7F], np.uint16))[0])


class FiniteWatch:
    """Warnings of NaN in what layers return, and of numbers that a dtype makes infinite.

    Of each the first is told: what comes behind has it from there.
    """

    def __init__(self) -> None:
        self._saw_nan = self._saw_overflow = False

    def stored(
        self, rows: Rows, dtype: np.dtype[Any], nodes: NDArray[np.int64], label: str,
        is_bfloat16: bool = False,
    ) -> Rows:  # fmt: skip
        """Return rows as they are stored.

        Args:
            rows: what a layer has returned.
            dtype: dtype of the file.
            nodes: the nodes of the rows.
            label: name of the layer, for messages.
            is_bfloat16: they are stored as bits of bfloat16, of which ``dtype`` is that of arrays.
        """
        if not rows.size or (rows.dtype == dtype and rows.dtype.kind != "f"):
            return rows.astype(dtype, copy=False)
        with np.errstate(invalid="ignore"):
            low = rows.min()  # NaN if any is: the cheapest look, a hundredth of a layer's work
        if low != low and not self._saw_nan:
            self._saw_nan = True
            node = nodes[_first(np.isnan(rows))]
            warnings.warn(
                f"{label} returned NaN, first for node {node}: rows of its neighbours or values of "
                "its edges are NaN, or the layer makes it of them, as by dividing by zero",
                stacklevel=2,
            )
        if rows.dtype == dtype:
            return rows
        with np.errstate(over="ignore"):
            converted = float32_to_bfloat16(rows) if is_bfloat16 else rows.astype(dtype)
        largest = _LARGEST_BFLOAT16 if is_bfloat16 else np.finfo(dtype).max
        if not self._saw_overflow and not (-largest <= low and rows.max() <= largest):
            values = bfloat16_to_float32(converted) if is_bfloat16 else converted
            name = "bfloat16" if is_bfloat16 else dtype.name
            self._warn_of_overflow(rows, values, nodes, label, name)
        return converted

    def _warn_of_overflow(
        self, rows: Rows, converted: Rows, nodes: NDArray[np.int64], label: str, name: str
    ) -> None:
        is_lost = np.isfinite(rows) & ~np.isfinite(converted)
        if is_lost.any():
            self._saw_overflow = True
            at = _first(is_lost)
            value = rows[at][is_lost[at]].flat[0]
            wider = "float32" if abs(value) <= np.finfo(np.float32).max else "float64"
            warnings.warn(
                f"{label} returned {value:.7g} for node {nodes[at]}, which is infinite in {name}: "
                f"take dtype={wider!r}",
                stacklevel=2,
            )


def _first(mask: NDArray[np.bool_]) -> int:
    """Return the first row in which anything is True."""
    return int(mask.reshape(len(mask), -1).any(axis=1).argmax())
