"""Statistics of columns, in one pass over the rows: the same for any budget and any source."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.columns.layout import Column, RowLayout

__all__ = ["column_statistics"]

Array = NDArray[Any]
_ROWS = 1 << 16  # rows at a time; sums depend on it, so it is not the caller's to choose
_SAMPLE = 100_000  # rows that quantiles are of
_QUANTILES = (0, 0.25, 0.5, 0.75, 1)


def column_statistics(
    layout: RowLayout,
    rows: Array,
    lengths: dict[str, Array],
    num_categories: dict[str, int],
    task: native.Task | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the statistics of each column, see :class:`Column`.

    Args:
        layout: of the rows.
        rows: uint8 [N, width], perhaps mapped.
        lengths: offsets of each text column, uint64 [N + 1].
        num_categories: number of categories by column of categories.
        task: of the call that asks; it may be cancelled between some rows and the next.
    """
    parts = {
        column.name: _Sums(column, num_categories.get(column.name, 2)) for column in layout.columns
    }
    for begin in range(0, len(rows), _ROWS):
        if task is not None:
            task.check()
        some = np.ascontiguousarray(rows[begin : begin + _ROWS])
        for column in layout.columns:
            known = ~layout.nulls(some, column.name)
            if column.kind == "text":
                values = np.diff(lengths[column.name][begin : begin + len(some) + 1])
            else:
                values = layout.values(some, column.name)
            parts[column.name].add(values[known], len(known))
    # One row of each stretch of equal length, at a place that is a hash of its number: sorted
    # tables and tables with a period are sampled alike.
    stretch = -(-len(rows) // _SAMPLE) if len(rows) else 1
    chosen = np.arange(0, len(rows), stretch, dtype=np.uint64)
    if stretch > 1:
        chosen = np.minimum(chosen + _mix(chosen) % np.uint64(stretch), np.uint64(len(rows) - 1))
    sample = np.ascontiguousarray(rows[chosen.astype(np.int64)])
    for column in layout.columns:
        if column.kind in ("number", "time"):
            known = ~layout.nulls(sample, column.name)
            parts[column.name].take_quantiles(layout.values(sample, column.name)[known])
    return {name: part.result() for name, part in parts.items()}


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return SplitMix64's finalizer (Steele et al., OOPSLA 2014) of each word."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class _Sums:
    """Running sums of one column; mean and variance are merged as of Chan et al. (1979)."""

    def __init__(self, column: Column, num_categories: int) -> None:
        self._column = column
        self._count = self._nulls = self._finite = 0
        self._min: Any = None
        self._max: Any = None
        self._mean = self._squares = 0.0
        self._counts = np.zeros(num_categories, np.int64)
        self._quantiles: list[Any] | None = None

    def add(self, values: Array, rows: int) -> None:
        """Add the values that are not null, of some rows."""
        self._count += len(values)
        self._nulls += rows - len(values)
        if self._column.kind in ("bool", "category"):
            self._counts += np.bincount(values.astype(np.int64), minlength=len(self._counts))
            return
        if values.dtype.kind == "f":
            values = values[np.isfinite(values)]
        if not len(values):
            return
        low, high = values.min().item(), values.max().item()
        self._min = low if self._min is None else min(self._min, low)
        self._max = high if self._max is None else max(self._max, high)
        if self._column.kind == "time":
            return
        wide = values.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, count = float(wide.mean()), len(wide)
            squares = float(np.square(wide - mean).sum())
        both = self._finite + count
        delta = mean - self._mean
        self._squares += squares + delta * delta * (self._finite * count / both)
        self._mean += delta * (count / both)
        self._finite = both

    def take_quantiles(self, values: Array) -> None:
        """Take the quantiles of a sample; those of times are values that are there."""
        if values.dtype.kind == "f":
            values = values[np.isfinite(values)]
        if not len(values):
            return
        if self._column.kind == "time":
            places = np.array(_QUANTILES) * (len(values) - 1)
            self._quantiles = np.sort(values)[places.astype(np.int64)].tolist()
        else:
            self._quantiles = np.quantile(values.astype(np.float64), _QUANTILES).tolist()

    def result(self) -> dict[str, Any]:
        """Return the statistics as JSON's types."""
        statistics: dict[str, Any] = {"count": self._count, "nulls": self._nulls}
        kind = self._column.kind
        if kind in ("bool", "category"):
            return {**statistics, "counts": self._counts.tolist()}
        statistics |= {"min": self._min, "max": self._max}
        if kind != "time":
            statistics["mean"] = _number(self._mean) if self._finite else None
        if kind == "number":
            deviation = math.sqrt(self._squares / self._finite) if self._finite else math.nan
            statistics["std"] = _number(deviation)
        if kind != "text":
            quantiles = self._quantiles
            if quantiles is not None:  # the ends are known exactly
                quantiles = [self._min, *quantiles[1:-1], self._max]
            statistics["quantiles"] = quantiles
        return statistics


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
