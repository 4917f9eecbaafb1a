"""Cuts: records held until every partition has come to the same place, on every machine.

::

    partition 0   |------- 100 -------|--- held --          offsets that are multiples of ``size``
    partition 1   |---------- 100 ----|                     and an order that is that of partitions:
    partition 2   |----- 70 ..                              what comes when makes no difference

A round is the records of all partitions up to their next multiple. It is complete when all of them
have come that far, and those that are ahead wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import shown
from aethergraph.errors import SourceError
from aethergraph.streaming.decode import as_items
from aethergraph.streaming.records import Records

__all__ = ["Cuts"]


class Cuts:
    """Records of a stream, handed out in rounds that do not depend on when they came.

    Args:
        size: offsets of a partition between two cuts, at least 1.
        describe: names a partition and its stream, for messages.
        offsets: offsets by partition that the graph goes on at.
    """

    def __init__(
        self, size: int, describe: Callable[[int], str], offsets: Mapping[int, int]
    ) -> None:
        self._size, self._describe = size, describe
        self._held: dict[int, list[Records]] = {}
        self._places = dict(offsets)
        #: Offset that each partition must come to; None: nothing is known of it yet.
        self._ends: dict[int, int | None] = {p: self._after(at) for p, at in offsets.items()}
        self._ended: frozenset[int] = frozenset()
        self._has_cut = bool(offsets)
        #: Partitions that the source has named or given records of; those that rounds were made
        #: without, as they were not there.
        self._there: set[int] = set()
        self._absent: set[int] = set()

    def _after(self, offset: int) -> int:
        return (offset // self._size + 1) * self._size

    def expect(self, partitions: Iterable[int], ended: Iterable[int] = ()) -> None:
        """Wait for these partitions, too, but not for those that have ended.

        After the first round there are no others to wait for: what was not there gives nothing.
        """
        self._ended = frozenset(ended)
        partitions = list(partitions)
        self._there.update(partitions)
        if not self._has_cut:
            self._ends = {**dict.fromkeys(partitions), **self._ends}

    def add(self, records: Records) -> None:
        """Hold records until their round is complete.

        Raises:
            SourceError: their partition was not there when the first round was made, or when
                later ones were made without it.
        """
        partition = records.partition
        if self._has_cut and partition not in self._ends:
            raise SourceError(
                None, f"{self._describe(partition)} was added, which others may see at another "
                "cut: with cut= the partitions stay as they were at the beginning. Read those "
                f"alone, of Kafka by partitions={shown(sorted(self._ends))}, or begin a new graph"
            )  # fmt: skip
        if partition in self._absent:
            raise SourceError(
                None, f"{self._describe(partition)} was not there at first, and commits were made "
                "without it that others made with it: go on with a graph of before, or with "
                "theirs, where all partitions are there"
            )  # fmt: skip
        self._there.add(partition)
        if self._ends.get(partition) is None:
            bad = [record.offset for record in records.bad]
            first = min((*bad, *_offsets(records)[:1].tolist()), default=records.following - 1)
            self._ends[partition] = self._after(first)
        self._held.setdefault(partition, []).append(records)
        self._places[partition] = records.following

    def _has_come(self, partition: int) -> bool:
        end = self._ends[partition]
        return end is not None and self._places.get(partition, 0) >= end

    @property
    def full(self) -> frozenset[int]:
        """Partitions that have come to the cut, and wait for others."""
        return frozenset(p for p in self._ends if self._has_come(p))

    @property
    def held(self) -> frozenset[int]:
        """Partitions with records that were not taken yet."""
        return frozenset(p for p, records in self._held.items() if records)

    @property
    def missing(self) -> list[int]:
        """Partitions that the round waits for, ascending."""
        return sorted(p for p in self._ends if not self._has_come(p) and p not in self._ended)

    @property
    def is_complete(self) -> bool:
        """True if there is a round to take."""
        return bool(self._ends) and not self.missing and self.has_any

    @property
    def has_any(self) -> bool:
        """True if records are held."""
        return any(self._held.values())

    def wanted(self, partition: int) -> int | None:
        """Return the offset that a partition must come to; None: nothing is known of it yet."""
        return self._ends[partition]

    def take(self) -> tuple[list[Records], dict[int, int]]:
        """Take a round: all that there is up to the cut.

        Returns:
            The records in the order of partitions and of their numbers, and the offset behind them
            by partition, which is the cut's also where messages are missing before it.
        """
        self._has_cut = True
        self._absent |= self._ends.keys() - self._there - self.full
        records: list[Records] = []
        offsets: dict[int, int] = {}
        for partition in sorted(self._held):
            end = self._ends[partition]
            assert end is not None
            pieces = [_split(part, end) for part in self._held[partition]]
            records += _joined([before for before, _ in pieces if before is not None])
            self._held[partition] = [later for _, later in pieces if later is not None]
            offsets[partition] = min(end, self._places[partition])
            if self._has_come(partition):
                self._ends[partition] = end + self._size
        return records, offsets


def _offsets(records: Records) -> NDArray[np.int64]:
    assert records.offsets is not None
    return np.asarray(records.offsets, np.int64)


def _split(records: Records, end: int) -> tuple[Records | None, Records | None]:
    """Return the records before an offset, and those from there on; None where there are none."""
    if records.following <= end:
        return records, None
    at = int(np.searchsorted(_offsets(records), end))
    before = [record for record in records.bad if record.offset < end]
    later = [record for record in records.bad if record.offset >= end]
    return (
        _part(records, slice(0, at), end, before) if at or before else None,
        _part(records, slice(at, None), records.following, later),
    )


def _part(records: Records, rows: slice, following: int, bad: Any) -> Records:
    payload, first = records.payload, rows.start
    return replace(
        records,
        following=following,
        columns={name: values[rows] for name, values in records.columns.items()},
        attrs={name: values[rows] for name, values in records.attrs.items()},
        given={name: values[rows] for name, values in records.given.items()},
        offsets=_offsets(records)[rows],
        bad=bad,
        payload=None if payload is None else lambda row: payload(first + row),
    )


def _joined(records: list[Records]) -> list[Records]:
    """Return runs of records of one sort as one each: nobody can tell how they came."""

    def sort(part: Records) -> Any:
        return str(part.kind), sorted(part.columns), sorted(part.attrs)

    return [_join(list(run)) for _, run in groupby(records, key=sort)]


def _join(parts: list[Records]) -> Records:
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([part.count for part in parts])

    def payload(row: int) -> bytes | None:
        number = int(np.searchsorted(ends, row, "right"))
        ask = parts[number].payload
        return None if ask is None else ask(row - int(ends[number]) + parts[number].count)

    names = sorted({name for part in parts for name in part.given})
    originals = [
        {name: part.given.get(name, part.columns[name]) for name in names} for part in parts
    ]

    def join(tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {name: _column([table[name] for table in tables]) for name in tables[0]}

    return replace(
        parts[-1],
        columns=join([part.columns for part in parts]),
        attrs=join([part.attrs for part in parts]),
        given=join(originals),
        offsets=np.concatenate([_offsets(part) for part in parts]),
        bad=[bad for part in parts for bad in part.bad],
        payload=payload,
    )


def _column(values: list[Any]) -> NDArray[Any]:
    """Return the values of a column one after the other, none of them converted."""
    arrays = [np.asarray(value) for value in values if len(value)] or [np.asarray(values[0])]
    kinds = {(array.dtype.kind, array.dtype.itemsize, array.shape[1:]) for array in arrays}
    texts = all(array.dtype.kind in "US" for array in arrays)
    if len(kinds) == 1 or (texts and len({array.dtype.kind for array in arrays}) == 1):
        return np.concatenate(arrays)
    items = [
        item for array in arrays for item in (as_items(array) if array.ndim == 1 else list(array))
    ]
    column = np.empty(len(items), object)
    for place, item in enumerate(items):
        column[place] = item
    return column
