"""Event time: how far partitions have come, the watermark, and times that cannot be true."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.times import datetime_of

__all__ = ["EventTime", "TimeBound", "find_unit"]

#: Units in which times are counted where they are integers, finest first.
_UNITS = ("ns", "us", "ms", "s")
#: Day before which times of now do not lie, and seconds that they may be ahead of the clock.
_EARLIEST, _AHEAD = np.datetime64("1990-01-01", "s"), 86400


@dataclass
class _Part:
    largest: int
    seen: float


class EventTime:
    """Largest times of partitions, and what follows from them.

    The watermark is the smallest of them, less ``lateness``: a record is not expected to be older.
    It never goes back. A partition that has given nothing for ``idle`` seconds does not count.

    Args:
        lateness: how much older than the newest record of its partition a record may be.
        idle: seconds after which a partition that gives nothing is left out.
        max_skew: how far a partition may be ahead of the slowest; None: as far as it wants.
        clock: seconds now.
    """

    def __init__(
        self,
        lateness: int = 0,
        idle: float = 30.0,
        max_skew: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lateness, self.idle, self.max_skew = lateness, idle, max_skew
        self._clock = clock
        self._parts: dict[int, _Part] = {}
        #: Time that no record is expected to be older than; None: nothing has been seen.
        self.watermark: int | None = None

    def restore(self, largest: Mapping[int, int], watermark: int | None) -> None:
        """Go on where an earlier run was."""
        now = self._clock()
        self._parts = {partition: _Part(newest, now) for partition, newest in largest.items()}
        self.watermark = watermark

    @property
    def largest(self) -> dict[int, int]:
        """Largest time of each partition."""
        parts = self._parts.items()
        return {partition: part.largest for partition, part in parts if part.largest != _NOTHING}

    def expect(self, partition: int) -> None:
        """Let a partition hold the watermark back that has records, but none was read yet."""
        self._parts.setdefault(partition, _Part(_NOTHING, self._clock()))

    def observe(self, partition: int, largest: int | None) -> None:
        """Note that a partition gave records, and the largest of their times."""
        part = self._parts.setdefault(partition, _Part(_NOTHING, 0.0))
        part.seen = self._clock()
        if largest is not None:
            part.largest = max(part.largest, largest)

    def advance(self, busy: frozenset[int] = frozenset()) -> int | None:
        """Return the watermark as of now.

        Args:
            busy: partitions that are known to have more records: they are not idle.
        """
        active = self._active(busy)
        if active and min(active.values()) != _NOTHING:
            watermark = min(active.values()) - self.lateness
            self.watermark = watermark if self.watermark is None else max(self.watermark, watermark)
        return self.watermark

    def ahead(
        self, busy: frozenset[int] = frozenset(), read: frozenset[int] = frozenset()
    ) -> frozenset[int]:
        """Return the partitions that are too far ahead of the slowest.

        Args:
            busy: as in :meth:`advance`.
            read: partitions that are known to have no more records: nobody waits for them.
        """
        if self.max_skew is None:
            return frozenset()
        active = self._active(busy)
        waited = [largest for partition, largest in active.items() if partition not in read]
        if not waited:
            return frozenset()
        slowest = min(waited)
        if slowest == _NOTHING:  # nothing is known of it: it comes first
            return frozenset(p for p, largest in active.items() if largest != _NOTHING)
        return frozenset(p for p, largest in active.items() if largest - slowest > self.max_skew)

    def _active(self, busy: frozenset[int]) -> dict[int, int]:
        now = self._clock()
        return {
            partition: part.largest
            for partition, part in self._parts.items()
            if partition in busy or now - part.seen <= self.idle
        }


_NOTHING = -(2**63)


def find_unit(counts: NDArray[Any], unit: str) -> str | None:
    """Return the unit that integers seem to count in place of a finer one; None: it may be theirs.

    All of them are dates of 1990 till now in it, and so of January 1970 in the finer one, at which
    nothing was recorded. Times that are counted from 0 are not: their first are of 1970 in both.

    Args:
        counts: integers, at least one.
        unit: unit that they are said to count.
    """
    if unit not in _UNITS:
        return None
    first, last = int(counts.min()), int(counts.max())
    for coarser in _UNITS[_UNITS.index(unit) + 1 :]:
        per_second = 10 ** (3 * (_UNITS.index("s") - _UNITS.index(coarser)))
        earliest = int(_EARLIEST.astype(np.int64)) * per_second
        if earliest <= first and last <= (time.time() + _AHEAD) * per_second:
            return coarser
    return None


class TimeBound:
    """Largest time that a record may have, as a wrong one would move the watermark for good.

    Whether a record is within it does not depend on other records, nor on how they come.

    Args:
        max_time: the largest time; None: any.
        ahead: seconds that a time may be ahead of the clock; None: any.
        unit: unit of the times; None: they are plain numbers, and have no clock.
        clock: seconds since 1970 in UTC.
    """

    def __init__(
        self,
        max_time: int | None,
        ahead: float | None,
        unit: str | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.max_time, self.ahead, self.unit, self._clock = max_time, ahead, unit, clock

    def limit(self) -> int | None:
        """Return the largest time as of now; None: there is none."""
        if self.ahead is None or self.unit is None:
            return self.max_time
        moment = np.datetime64(round(1e6 * (self._clock() + self.ahead)), "us")
        now = int(moment.astype(f"datetime64[{self.unit}]").astype(np.int64))
        return now if self.max_time is None else min(now, self.max_time)

    def why(self, value: int) -> str:
        """Return what is wrong with a time beyond the limit, in words that do not change."""
        text = str(value if self.unit is None else datetime_of(value, self.unit))
        if self.max_time is not None and value > self.max_time:
            return f"= {text} is after max_time = {self.max_time}"
        return (
            f"= {text} is more than {self.ahead:g} s ahead of the clock: max_ahead= allows more; "
            "or its integers do not count what time_unit= of the schema says"
        )
