"""Watermarks: times that no record of a stream is expected to be older than.

The log keeps the watermark of each stream, and the largest times behind it, among the offsets of
the stream. Readers in other processes see one number in shared memory: the least of all streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import to_array
from aethergraph._checks.times import convert_times, unit_of
from aethergraph.dynamic.shared import Region, SharedArrays
from aethergraph.errors import InvalidArgumentError
from aethergraph.storage.other_process import OpenFile

__all__ = [
    "BESIDE",
    "WATERMARK",
    "SharedWatermark",
    "cap_times",
    "is_kept",
    "marks_of",
    "packed",
    "streams_of",
    "times_of",
    "unpacked",
]

_TIMES, _MARKS = "#time", "#mark"
#: Ends of names under which an ingestor keeps what belongs to a stream, beside its offsets.
BESIDE = _TIMES, _MARKS
#: Partition under which the watermark itself is.
WATERMARK = -1
_NONE = -(2**63)
_LAST = 2**63 - 1


def times_of(source: str) -> str:
    """Return the name under which the times of a stream are, beside its offsets."""
    return source + _TIMES


def marks_of(source: str) -> str:
    """Return the name under which the graph keeps what the partitions of a source are known by."""
    return source + _MARKS


def streams_of(offsets: Mapping[tuple[str, int], int]) -> dict[str, dict[int, int]]:
    """Return the number of the next record of each partition, by the name of the stream."""
    streams: dict[str, dict[int, int]] = {}
    for (name, partition), number in offsets.items():
        if not name.endswith(BESIDE):
            streams.setdefault(name, {})[partition] = number
    return streams


def is_kept(time: int) -> bool:
    """Return whether a time can be kept among offsets."""
    return abs(time) < 2**62


def packed(time: int) -> int:
    """Return a number that is not negative, as offsets are, for any time."""
    return 2 * time if time >= 0 else -2 * time - 1


def unpacked(number: int) -> int:
    """Return the time of such a number."""
    return number // 2 if number % 2 == 0 else -(number + 1) // 2


class SharedWatermark:
    """The least watermark of the streams of a live graph, in memory that its readers map.

    A reader must ask for it before it takes a snapshot: it is set behind the commit of the records
    that it speaks of, so that a later snapshot has them.

    Args:
        fd: descriptor of that of another process, which becomes this object's; None: a new one.
    """

    def __init__(self, fd: int | None = None) -> None:
        self._shared = SharedArrays([Region((1,), np.dtype(np.int64))], fd)
        self._place = self._shared.array(0, 1)
        if fd is None:
            self._place[0] = _NONE

    @property
    def file(self) -> OpenFile:
        """File of the memory, for another process."""
        return self._shared.file

    @property
    def time(self) -> int | None:
        """The watermark; None: no stream has one."""
        value = int(self._place[0])
        return None if value == _NONE else value

    def show(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Let readers see the least watermark among the offsets of all streams."""
        times = [
            unpacked(number)
            for (name, partition), number in offsets.items()
            if partition == WATERMARK and name.endswith(_TIMES)
        ]
        self._place[0] = min(times, default=_NONE)


def cap_times(times: ArrayLike, watermark: int | None, unit: str | None) -> NDArray[Any]:
    """Return times, none of them beyond a watermark.

    Args:
        times: numbers, or datetimes.
        watermark: in the graph's unit.
        unit: unit of the graph's times; None: they are plain numbers.

    Raises:
        InvalidArgumentError: there is no watermark yet; or what is given are no times, or datetimes
            where the graph has none.
    """
    if watermark is None:
        raise InvalidArgumentError("there is no watermark yet: no record with a time was read")
    array = to_array(times, "times")
    if array.dtype.kind not in "iufM":
        raise InvalidArgumentError(f"times must hold numbers or datetime64, got {array.dtype}")
    limit: Any = np.int64(watermark)
    if array.dtype.kind == "M":
        moment = _watermark_in(array.dtype, watermark, unit)
        if moment is None:
            return array
        limit = moment
    elif array.dtype.kind == "u":  # beside int64 numpy would make them float64
        array = np.minimum(array, np.uint64(_LAST)).astype(np.int64)
    capped: NDArray[Any] = np.minimum(array, limit)
    return capped


def _watermark_in(dtype: np.dtype[Any], watermark: int, unit: str | None) -> Any:
    """Return a watermark as a datetime of a dtype; None: all times of it are before."""
    to = unit_of(dtype)
    if unit is None or to is None:
        raise InvalidArgumentError(
            f"times are {dtype}, but the graph's times are plain numbers: give numbers"
            if unit is None
            else "times are datetimes without a unit: give datetime64[us], or another"
        )
    moment = np.array([watermark]).view(f"datetime64[{unit}]")
    if not np.can_cast(moment.dtype, dtype, "safe"):  # coarser: the watermark is rounded down
        return moment.astype(dtype)[0]
    counts, wrong = convert_times(moment.view(np.int64), unit, to)
    if wrong is None:
        return counts.view(dtype.newbyteorder("="))[0]  # int64 are in the order of this machine
    if watermark > 0:
        return None
    raise InvalidArgumentError(
        f"the watermark, {watermark} in {unit!r}, is before all times that {dtype} holds: give "
        f"times in {unit!r}"
    )
