"""CachedRows: a cache in memory in front of any source of rows.

::

    ids ──> set of each id ──> found there ─────────────────────────> rows, in the order of the ids
            (a remainder)  └─> missing: each once ──> source.gather ──┘
                                   └── kept in their sets, in place of the rows used longest ago

The cache is set-associative, as those of processors are: a row can be kept in one of the eight
places of its set. Looking up all ids of a gather, and making room for all that were missing, are
then a few operations on arrays, and the memory depends on the budget alone, not on the number of
rows. Consecutive ids are in different sets; a cache with a place for each row keeps them all.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import empty, stretches
from aethergraph._checks.options import as_number
from aethergraph._checks.places import at_places
from aethergraph._parallel.forks import renew_lock_in_forks
from aethergraph._tracepoints import made
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.adapters import as_row_source
from aethergraph.features.gathering import gather_rows
from aethergraph.features.table import RowTable
from aethergraph.protocols import FeatureSource, RowSource
from aethergraph.storage.budget import ROWS_BYTES, Budget

__all__ = ["CacheStats", "CachedRows"]

Ids = NDArray[np.int64]

#: Places of a set.
_WAYS = 8
#: Bytes of a place beside the row: its id and the gather that used it last; its end.
_PLACE_BYTES, _UNTIL_BYTES = 16, 8


class CacheStats(NamedTuple):
    """Counts of a :class:`CachedRows` in this process.

    Attributes:
        rows: rows asked for.
        hits: rows of these that were in the cache.
        gathers: calls of the source's ``gather``.
        rows_read: rows that these calls asked for, each once per call.
        rows_held: rows in the cache.
        nbytes: bytes of memory of the cache, full or not.
    """

    rows: int
    hits: int
    gathers: int
    rows_read: int
    rows_held: int
    nbytes: int


class _Cache:
    """Rows of a source by id, as many as the memory holds."""

    def __init__(self, source: RowSource, budget: Budget, max_age: float | None) -> None:
        self.code = native.dtype_code(source.dtype_name)
        self.source = source
        row_bytes = source.nbytes // max(1, source.num_rows)
        overhead = _PLACE_BYTES + (0 if max_age is None else _UNTIL_BYTES)
        set_bytes = _WAYS * (row_bytes + overhead)
        num_sets = min(budget.limit // set_bytes, -(-source.num_rows // _WAYS))
        if budget.limit < set_bytes:
            raise InvalidArgumentError(
                f"{budget} does not hold {_WAYS} rows of {row_bytes} bytes: give "
                f"at least {set_bytes}"
            )
        self.nbytes = num_sets * set_bytes
        places = num_sets * _WAYS
        self._rows = empty((places, *source.row_shape), source.array_dtype, "a cache of rows")
        self._ids = np.full((num_sets, _WAYS), -1, np.int64)
        self._used = np.zeros((num_sets, _WAYS), np.int64)
        self._max_age = max_age
        #: Time (monotonic) until which the row at each place may be used.
        self._until = np.zeros((num_sets, _WAYS) if max_age is not None else (0, _WAYS))
        self._lock = threading.Lock()
        renew_lock_in_forks(self)
        self.rows = self.hits = self.gathers = self.rows_read = 0
        self._clock = 0

    def gather_into(self, ids: Ids, out: NDArray[Any]) -> None:
        """Set ``out[i]`` to row ``ids[i]``."""
        with self._lock:
            places = self._find(ids)
            is_hit = places >= 0
            hits = int(np.count_nonzero(is_hit))
            self.rows += len(ids)
            self.hits += hits
            if hits == len(ids):
                native.NativeRows(self._rows, self.code).gather(places, out, self.code)
                return
            out[is_hit] = self._rows[places[is_hit]]
        missed = np.flatnonzero(~is_hit)
        unique, first, inverse = np.unique(ids[missed], return_index=True, return_inverse=True)
        until = 0.0 if self._max_age is None else time.monotonic() + self._max_age
        # Without the lock: a source may wait long.
        with at_places(missed[first]):
            rows = gather_rows(self.source, unique)
        out[missed] = rows[inverse]
        with self._lock:
            self.gathers += 1
            self.rows_read += len(unique)
            self._keep(unique, rows, until)

    def _find(self, ids: Ids) -> NDArray[np.int64]:
        """Return the place of each id, -1 where there is none, and note that it was used."""
        self._clock += 1
        places = np.full(len(ids), -1, np.int64)
        if not self._ids.size:
            return places
        now = time.monotonic()
        for some in stretches(len(ids)):
            sets = ids[some] % len(self._ids)
            at, ways = np.nonzero(self._ids[sets] == ids[some, None])
            if self._max_age is not None:  # what is too old is not there, and makes room first
                good = self._until[sets[at], ways] > now
                self._used[sets[at[~good]], ways[~good]] = 0
                at, ways = at[good], ways[good]
            places[some][at] = sets[at] * _WAYS + ways
            self._used[sets[at], ways] = self._clock
        return places

    def _keep(self, ids: Ids, rows: NDArray[Any], until: float) -> None:
        """Put rows into their sets, in place of those that were used longest ago."""
        new = np.flatnonzero(self._find(ids) < 0)  # another thread may have put them there
        if not self._ids.size or not len(new):
            return
        sets = ids[new] % len(self._ids)
        order = np.argsort(sets, kind="stable")
        new, sets = new[order], sets[order]
        first = np.searchsorted(sets, sets)
        rank = np.arange(len(sets)) - first  # a set takes one row at a time, up to all its places
        for turn in range(min(_WAYS, int(rank.max()) + 1)):
            some = rank == turn
            turn_sets, turn_rows = sets[some], new[some]
            ways = self._used[turn_sets].argmin(axis=1)
            if self._max_age is not None:  # an old copy of the row itself, before any other row
                same = self._ids[turn_sets] == ids[turn_rows][:, None]
                ways = np.where(same.any(axis=1), same.argmax(axis=1), ways)
                self._until[turn_sets, ways] = until
            self._ids[turn_sets, ways] = -1  # a child that is forked here must not take the old row
            self._rows[turn_sets * _WAYS + ways] = rows[turn_rows]
            self._used[turn_sets, ways] = self._clock
            self._ids[turn_sets, ways] = ids[turn_rows]

    def stats(self) -> CacheStats:
        """Return the counts so far."""
        rows_held = int(np.count_nonzero(self._ids >= 0))
        return CacheStats(
            self.rows, self.hits, self.gathers, self.rows_read, rows_held, self.nbytes
        )

    def clear(self) -> None:
        """Drop all rows and the memory for them."""
        with self._lock:
            self._ids, self._used = self._ids[:0], self._used[:0]
            self._until = self._until[:0]
            self._rows, self.nbytes = self._rows[:0].copy(), 0


class CachedRows(RowTable):
    """Source of rows whose often used rows stay in memory.

    ::

        graph.node_attrs["x"] = CachedRows(SqliteRows("rows.db"), memory_budget="1G")

    Worth it where a row costs more than a copy of memory: over a network, in a database, in a
    compressed file. (Rows of a feature file have a better cache of their own:
    :meth:`aethergraph.FeatureTable.to_uring`.) The rows are those of the source, bit by bit. The
    source is asked for each missing row once per gather, in ascending order of the ids. Of the rows
    that could take the same place in the cache, the one that was used longest ago makes room.

    Threads share the cache, and read from the source at the same time. Each forked child goes on
    with a cache of its own; a pickled copy starts with an empty one.

    Of rows that change, such as those of a live table on another machine, copies may be used for
    ``max_age`` seconds after they were asked for. Without it they are refused.

    Args:
        source: a source of rows, or an array.
        memory_budget: bytes, or a text such as ``"512M"``, for cached rows and their index. Results
            of ``gather`` are not counted. None: 512 MiB, or half of the available memory if that is
            less.
        max_age: seconds that a row may be used after the source was asked for it; None: for ever.

    Raises:
        InvalidArgumentError: no source of rows, a budget for fewer than eight rows, or rows that
            change and no ``max_age``.
    """

    def __init__(
        self, source: FeatureSource | ArrayLike, memory_budget: int | str | None = None,
        max_age: float | None = None,
    ) -> None:  # fmt: skip
        #: The source, as rows that loaders gather from.
        self.source = rows = as_row_source(source, "source")
        self._budget = Budget.optional(memory_budget) or Budget.default(ROWS_BYTES)
        self._max_age = None if max_age is None else as_number(max_age, "max_age")
        if self._max_age is not None and not 0 < self._max_age <= 1e9:
            raise InvalidArgumentError(f"max_age = {self._max_age} is not in (0, 1e9] seconds")
        if rows.is_live and self._max_age is None:
            raise InvalidArgumentError(
                "source has rows that change: give max_age=, the seconds that a copy may be used"
            )
        self._cache = _Cache(rows, self._budget, self._max_age)
        self._set_form(self._cache.code, (rows.num_rows, *rows.row_shape))
        made(self)

    def gather_into(self, ids: Ids, out: NDArray[Any]) -> None:
        """Set ``out[i]`` to row ``ids[i]``, out of the cache or the source."""
        self.check_open()
        self._cache.gather_into(ids, out)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows ``start .. stop - 1`` of the source; they do not go through the cache."""
        self.check_open()
        return self.source.read(start, stop)

    @property
    def array(self) -> NDArray[Any]:
        """All rows, as the source gives them."""
        self.check_open()
        return self.source.array

    @property
    def guard(self) -> native.FileGuard | None:
        """Guard of the file that :attr:`array` is mapped from; None if it is not."""
        guard: native.FileGuard | None = self.source.guard
        return guard

    @property
    def path(self) -> str | None:
        """Path of the file of the source, or None."""
        return self.source.path

    @property
    def fingerprint(self) -> str | None:
        """Identity of the source's content, or None."""
        return self.source.fingerprint

    @property
    def is_live(self) -> bool:
        """True if the source's rows change; what is gathered is at most ``max_age`` seconds old."""
        return self.source.is_live

    def stats(self) -> CacheStats:
        """Return counts of hits and of the source's gathers in this process."""
        self.check_open()
        return self._cache.stats()

    def close(self) -> None:
        """Drop the cached rows; the source stays open."""
        self._is_closed = True
        self._cache.clear()

    def __enter__(self) -> CachedRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"CachedRows({self.source!r}, memory_budget={self._budget.limit}{state})"

    def __reduce__(self) -> tuple[Any, ...]:
        self.check_open()
        return CachedRows, (self.source, self._budget.limit, self._max_age)
