"""Watermarks: times that no record of a stream is expected to be older than.

The log keeps the watermark of each stream, and the largest times behind it, among the offsets of
the stream. Readers in other processes see one number in shared memory: the least of all streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph.dynamic.shared import Region, SharedArrays
from aethergraph.errors import InvalidArgumentError
from aethergraph.storage.other_process import OpenFile

__all__ = ["WATERMARK", "SharedWatermark", "cap_times", "is_kept", "packed", "times_of", "unpacked"]

_TIMES = "#time"
#: Partition under which the watermark itself is.
WATERMARK = -1
_NONE = -(2**63)


def times_of(source: str) -> str:
    """Return the name under which the times of a stream are, beside its offsets."""
    return source + _TIMES


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
        (self._place,) = self._shared.arrays
        if fd is None:
            self._place[0] = _NONE

    @property
    def file(self) -> OpenFile:
        """File of the memory, for another process."""
        return self._shared.file

    @property
    def time(self) -> int | None:
        """The watermark; None: no stream has one."""
        found = int(self._place[0])
        return None if found == _NONE else found

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
        InvalidArgumentError: there is no watermark yet.
    """
    if watermark is None:
        raise InvalidArgumentError("there is no watermark yet: no record with a time was read")
    given = np.asarray(times)
    most: Any = np.int64(watermark)
    if given.dtype.kind == "M" and unit is not None:
        most = most.view(f"datetime64[{unit}]").astype(given.dtype)
    capped: NDArray[Any] = np.minimum(given, most)
    return capped
