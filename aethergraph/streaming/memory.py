"""A stream in memory: another thread appends to it."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import is_name, shown
from aethergraph.errors import ClosedError, InvalidArgumentError
from aethergraph.streaming.records import Records

__all__ = ["MemorySource"]


@dataclass
class _Part:
    """Pieces of a partition, each with the number of records up to its end."""

    pieces: list[tuple[Records, int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.pieces[-1][1] if self.pieces else 0


class MemorySource:
    """Stream of arrays that threads of this process append to.

    ::

        source = MemorySource("clicks")
        with Ingestor(graph, source):
            source.append(src=[1, 2], dst=[3, 3])
            source.append(src=[4], dst=[3], delete=[True])

    It keeps copies of what was appended, so another ingestor finds it again. The number of a record
    is its place in the partition.

    Args:
        name: name under which the graph keeps the offsets.
        kind: edge type or node type of the records; None: the only one.
        most: most records that one poll returns.
    """

    def __init__(self, name: str, *, kind: Any = None, most: int = 10_000) -> None:
        if not is_name(name):
            raise InvalidArgumentError(f"name = {shown(name)} is no text")
        self.name, self._kind = name, kind
        self._most = as_count(most, "most")
        if not self._most:
            raise InvalidArgumentError("most = 0: a poll returns one record at least")
        self._parts: dict[int, _Part] = {}
        self._places: dict[int, int] = {}
        self._paused: set[int] = set()
        self._changed = threading.Condition()
        self._ended, self._opened = False, False

    def append(
        self, partition: int = 0, *, attrs: Mapping[str, Any] | None = None, **columns: Any
    ) -> None:
        """Append records: ``append(src=[1, 2], dst=[3, 3])``; see :class:`Records`."""
        number = as_count(partition, "partition")
        added = Records(0, 0, columns, {} if attrs is None else attrs)
        added.columns = {name: values.copy() for name, values in added.columns.items()}
        added.attrs = {name: values.copy() for name, values in added.attrs.items()}
        if not added.count and not columns:
            raise InvalidArgumentError(
                f"{self.name}: append() was given no columns: append(src=[1, 2], dst=[3, 3])"
            )
        with self._changed:
            if self._ended:
                raise ClosedError(f"the source {self.name!r} was ended")
            part = self._parts.setdefault(number, _Part())
            # In one step, wherever Ctrl-C comes: else all later records had wrong numbers.
            piece = added, part.count + added.count
            part.pieces.append(piece)
            self._changed.notify_all()

    def end(self) -> None:
        """Say that nothing will be appended any more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    # ---- Source --------------------------------------------------------------------------------

    def open(self, offsets: Mapping[int, int]) -> None:
        """Begin to read at these numbers."""
        with self._changed:
            for partition, place in offsets.items():
                count = self._parts[partition].count if partition in self._parts else 0
                if place > count:
                    raise InvalidArgumentError(
                        f"{self.name}: the graph goes on with record {place} of partition "
                        f"{partition}, which has {count}"
                    )
            self._places, self._paused, self._opened = dict(offsets), set(), True

    def poll(self, timeout: float) -> Sequence[Records] | None:
        """Return what was appended."""
        until = time.monotonic() + timeout
        with self._changed:
            while True:
                if not self._opened:
                    raise ClosedError(f"the source {self.name!r} is not open")
                records = [
                    batch for p in sorted(self._parts) if (batch := self._next(p)) is not None
                ]
                if records:
                    return records
                if self._ended and not any(self.lag().values()):
                    return None
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return []

    def _next(self, partition: int) -> Records | None:
        part, begin = self._parts[partition], self._places.get(partition, 0)
        if partition in self._paused or begin >= part.count:
            return None
        number = bisect.bisect_right(part.pieces, begin, key=itemgetter(1))
        chunk, chunk_end = part.pieces[number]
        first, end = chunk_end - chunk.count, min(begin + self._most, chunk_end)
        self._places[partition] = end
        some = slice(begin - first, end - first)
        return Records(
            partition, end, {name: values[some] for name, values in chunk.columns.items()},
            {name: values[some] for name, values in chunk.attrs.items()}, kind=self._kind,
        )  # fmt: skip

    def pause(self, partitions: Iterable[int]) -> None:
        """Return no records of these partitions."""
        with self._changed:
            self._paused = set(partitions)
            self._changed.notify_all()

    def lag(self) -> dict[int, int]:
        """Return the number of records of each partition that were not read yet."""
        with self._changed:  # append() may add a partition
            return {p: part.count - self._places.get(p, 0) for p, part in self._parts.items()}

    def ended(self) -> set[int]:
        """Return the partitions that will give nothing any more."""
        with self._changed:
            return {p for p, left in self.lag().items() if not left} if self._ended else set()

    def close(self) -> None:
        """Stop reading; what was appended stays."""
        with self._changed:
            self._opened = False
            self._changed.notify_all()
