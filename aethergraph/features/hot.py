"""Choice of the hot rows, which a cache keeps for good: the most requested ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import as_ids, to_array
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.storage.budget import ROWS_BYTES, Budget

__all__ = ["Numbers", "RowCache", "check_cache", "choose_cache", "hottest", "refuse_words"]

_CHUNK_ROWS = 1 << 18
_LEAST_FRAME = 256  # bytes of a frame; several smaller rows share one

Ids = NDArray[np.int64]


#: Function of (start, stop) that returns the numbers of rows ``start .. stop - 1``.
Numbers = Callable[[int, int], NDArray[Any]]


class RowCache(NamedTuple):
    """Cache of a file's rows: its budget, the hot rows, and their share of it in percent."""

    budget: Budget
    hot: Ids | None
    hot_percent: int


class Table(Protocol):
    """Anything with rows: an array, or a store."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows: ``(num_rows, ...)``."""

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""


def check_cache(storage: str, hot_share: Any, **options: object) -> None:
    """Raise if an option of a cache is wrong, or is given for a storage that has no cache."""
    if not _is_number(hot_share) or not 0 <= hot_share <= 1:
        raise InvalidArgumentError(f"hot_share = {shown(hot_share)} is not a number in 0..1")
    for name, value in options.items():
        if value is not None and storage not in ("uring", "auto"):
            raise InvalidArgumentError(f"{name} needs storage='uring' or 'auto', not {storage!r}")


def choose_cache(
    rows: Table,
    budget: Budget | None,
    hot: ArrayLike | None,
    frequency: ArrayLike | Numbers | None,
    hot_share: float,
) -> RowCache:
    """Choose the hot rows of a cache; its options have gone through :func:`check_cache`.

    ``budget`` None: the default. ``frequency`` may be a function that returns the numbers of a span
    of rows.
    """
    budget = budget or Budget.default(ROWS_BYTES)
    if hot is not None and frequency is not None:
        raise InvalidArgumentError("give hot or frequency, not both")
    percent, num_rows = round(hot_share * 100), rows.shape[0]
    chosen: Ids | None = None
    if hot is not None:
        chosen = _check_hot(as_ids(hot, "hot"), num_rows)
    elif frequency is not None:
        numbers = frequency if callable(frequency) else _check_frequency(frequency, num_rows)
        frame_bytes = max(_LEAST_FRAME, rows.nbytes // max(1, num_rows))
        room = 1 + budget.limit * percent // 100 // frame_bytes
        chosen = hottest(numbers, num_rows, room)
    return RowCache(budget, chosen, percent if chosen is not None else 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating))


def refuse_words(hot: object) -> None:
    """Raise for ``hot="degree"``: only a graph can count degrees."""
    if isinstance(hot, str):
        raise InvalidArgumentError(
            f"hot = {hot!r} is no vector of row numbers: only Graph.load_features takes 'degree'; "
            "FeatureTable.load and to_uring take frequency=graph.out_degrees() instead, or where "
            "the graph has layout 'csc' frequency=graph.in_degrees()"
        )


def _check_frequency(frequency: ArrayLike, num_rows: int) -> Numbers:
    numbers = to_array(frequency, "frequency")
    if numbers.shape != (num_rows,) or numbers.dtype.kind not in "biuf":
        raise InvalidArgumentError(
            f"frequency needs a number for each of the {num_rows} rows, got shape "
            f"{numbers.shape}, dtype {numbers.dtype}"
        )
    return lambda start, stop: numbers[start:stop]


def _check_hot(hot: Ids, num_rows: int) -> Ids:
    bad = (hot < 0) | (hot >= num_rows)
    if bad.any():
        at = int(bad.argmax())
        raise OutOfRangeError(
            f"hot[{at}] = {hot[at]} is not in 0..{num_rows - 1}", position=at, value=int(hot[at])
        )
    return np.ascontiguousarray(hot, np.int64)


def hottest(numbers: Numbers, num_rows: int, count: int, span: int = _CHUNK_ROWS) -> Ids:
    """Return the ``count`` rows with the largest numbers, the largest first; ties by row.

    ``numbers(start, stop)`` returns the numbers of a span of rows, so that memory is bounded by
    ``count`` and ``span``.

    Raises:
        InvalidArgumentError: a number is negative or not finite; names the first one.
    """
    best_ids, best = np.empty(0, np.int64), np.empty(0)
    for start in range(0, num_rows, span):
        stop = min(start + span, num_rows)
        values = _check_span(numbers(start, stop), start, stop)
        ids = np.concatenate([best_ids, np.arange(start, stop)])
        values = np.concatenate([best, values])
        order = np.argsort(-values, kind="stable")[:count]
        best_ids, best = ids[order], values[order]
    return best_ids


def _check_span(numbers: ArrayLike, start: int, stop: int) -> NDArray[np.float64]:
    values = to_array(numbers, "frequency")
    if values.shape != (stop - start,) or values.dtype.kind not in "biuf":
        raise InvalidArgumentError(
            f"frequency({start}, {stop}) must give {stop - start} numbers, got shape "
            f"{values.shape}, dtype {values.dtype}"
        )
    good = np.isfinite(values) & (values >= 0)
    if not good.all():
        at = int(good.argmin())
        raise InvalidArgumentError(
            f"frequency[{start + at}] = {values[at]} is not a finite number of at least 0: give 0 "
            "where it is not known",
            position=start + at,
        )
    return values.astype(np.float64)
