"""Walks through the lists of a snapshot, which fill the sections of its edges in the graph file."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from aethergraph import _native as native
from aethergraph._checks.arrays import empty
from aethergraph.dynamic.merge_sections import (
    Columns,
    Piece,
    Put,
    Room,
    pieces,
    rows_at_once,
)
from aethergraph.errors import InvalidArgumentError
from aethergraph.protocols import RowSource
from aethergraph.storage.scratch import ScatteredArray

__all__ = ["LEAST", "EdgeOrder", "EdgeRows", "EdgeWork", "Numbers", "Walk"]

#: Least budget.
LEAST = 16 << 20
_I64 = np.dtype(np.int64)


class _Step(Protocol):
    """Taker of the pieces of a walk."""

    def take(self, piece: Piece, ranks: native.Ids, begin: int) -> None:
        """Take a piece that begins at entry ``begin``; ``ranks`` are those of its edge ids."""


class _Column:
    """Section that is a column of the lists."""

    def __init__(self, column: native.Column, put: Put) -> None:
        self._column, self._put = column, put

    def take(self, piece: Piece, ranks: native.Ids, begin: int) -> None:
        self._put(piece[self._column])


class EdgeOrder:
    """Section of the ranks of edges."""

    def __init__(self, dtype: np.dtype[Any], put: Put) -> None:
        self._dtype, self._put = dtype, put

    def take(self, piece: Piece, ranks: native.Ids, begin: int) -> None:
        """Put the ranks."""
        self._put(ranks.astype(self._dtype))


class EdgeRows:
    """Section of rows of edges."""

    def __init__(self, rows: RowSource, put: Put, room: Room) -> None:
        self._rows, self._put, self._at_once = rows, put, rows_at_once(rows, room)

    def take(self, piece: Piece, ranks: native.Ids, begin: int) -> None:
        """Gather and put the rows of the edges."""
        ids = piece["edge_ids"]
        for first in range(0, len(ids), self._at_once):
            self._put(self._rows.gather(ids[first : first + self._at_once]))


class Walk:
    """One pass through the lists of a layout, which fills sections that were reserved."""

    def __init__(self, topology: native.NativeTopology, numbers: Numbers) -> None:
        self._topology, self._numbers = topology, numbers
        self.columns: Columns = {"edge_ids": _I64}
        self.steps = list[_Step]()

    @property
    def nbytes(self) -> int:
        """Bytes that are read."""
        return self._topology.num_edges * sum(dtype.itemsize for dtype in self.columns.values())

    def add_column(self, column: native.Column, dtype: np.dtype[Any]) -> Put:
        """Return the section of a column, which this walk fills."""
        self.columns[column] = dtype
        put = Put(self._topology.num_edges * dtype.itemsize)
        self.steps.append(_Column(column, put))
        return put

    def run(self, task: native.Task | None) -> None:
        """Do the pass, piece by piece."""
        begin, numbers = 0, self._numbers
        for piece in pieces(self._topology, self.columns, numbers.room.entries, task):
            ids = piece["edge_ids"]
            ranks = numbers.ranks(ids)
            for step in self.steps:
                step.take(piece, ranks, begin)
            begin += len(ids)


# ---- numbers of edges ----------------------------------------------------------------------------


class Numbers:
    """Numbers of the edges of one type in the file, which has no gaps: ranks of their ids.

    Args:
        first: lists whose places are the edge ids of the file.
        room: what the budget leaves.
        name: the edge type, for errors.
    """

    def __init__(self, first: native.NativeTopology, room: Room, name: str) -> None:
        self.first, self.room = first, room
        self.count, self._end = first.num_edges, first.end_edge_ids
        self.dtype = native.id_dtype(native.id_bytes_for(self.count))
        self._ranks: native.Ranks | None = None
        #: Bytes left for places.
        self.left = room.tables
        if self.has_gaps:
            rank_bytes = native.Ranks.bytes_for(self._end)
            self.left -= rank_bytes
            if self.left < room.tables // 4:
                needed = _least_to_renumber(rank_bytes)
                raise InvalidArgumentError(
                    f"{room.budget} is too small: {name} has had {self._end} edges, some of which "
                    f"were deleted; renumbering the others takes at least {-(-needed >> 20)}M"
                )

    @property
    def has_gaps(self) -> bool:
        """True if edges were deleted."""
        return bool(self.count != self._end)

    @property
    def nbytes(self) -> int:
        """Bytes that are read for the ranks."""
        return 8 * self.count * self.has_gaps

    def open(self, task: native.Task | None) -> None:
        """Collect the ids that are left."""
        if not self.has_gaps:
            return
        self._ranks = native.Ranks(self._end)
        columns: Columns = {"edge_ids": _I64}
        for piece in pieces(self.first, columns, self.room.entries, task):
            self._ranks.add(piece["edge_ids"])
        self._ranks.count()

    def ranks(self, ids: native.Ids) -> native.Ids:
        """Return the ranks of ids."""
        if self._ranks is None:
            return ids
        ranks = ids.copy()
        self._ranks.replace(ranks)
        return ranks

    def close(self) -> None:
        """Forget the ids."""
        self._ranks = None


class _PlacesInMemory:
    """Number in the file of each edge by its rank: a step of the first walk, then of the second."""

    def __init__(self, numbers: Numbers, put: Put) -> None:
        self._numbers, self._put = numbers, put
        self._places = np.empty(0, numbers.dtype)
        self._is_second = False

    def take(self, piece: Piece, ranks: native.Ids, begin: int) -> None:
        if self._is_second:
            out = empty(len(ranks), self._numbers.dtype, f"{len(ranks)} edges")
            native.gather(self._places, ranks, out)
            self._put(out)
            return
        if begin == 0:
            count = self._numbers.count
            self._places = empty(count, self._numbers.dtype, f"{count} edges")
        native.put_places(ranks, begin, self._places)

    def turn(self) -> None:
        """Go on to the second walk."""
        self._is_second = True

    def close(self) -> None:
        """Free the memory."""
        self._places = self._places[:0].copy()


class _PlacesOnDisk:
    """Edge ids of the CSR lists, where memory does not hold a number for each edge.

    ::

        first walk    place by rank ──┐
        second walk   entry by rank ──┴── both by rank ──> place by entry
    """

    def __init__(self, numbers: Numbers, put: Put) -> None:
        self._put, self._numbers = put, numbers
        self._arrays = list[ScatteredArray]()

    def take(self, piece: Piece, ranks: native.Ids, begin: int) -> None:
        if not self._arrays:
            self.turn()
        self._arrays[-1].put(ranks, np.arange(begin, begin + len(ranks)))
        if len(self._arrays) == 2 and begin + len(ranks) == self._numbers.count:
            self._finish()

    def turn(self) -> None:
        """Go on to the second walk."""
        room, count = self._numbers.room, self._numbers.count
        self._arrays.append(ScatteredArray(room.folder, count, self._numbers.left // 2))

    def _finish(self) -> None:
        self.turn()
        by_rank, others_by_rank, by_place = self._arrays
        for places, entries in zip(by_rank.pieces(), others_by_rank.pieces(), strict=True):
            by_place.put(entries.astype(np.int64), places.astype(np.int64))
        for piece in by_place.pieces():
            self._put(piece)

    def close(self) -> None:
        """Free the space on disk."""
        for array in self._arrays:
            array.close()


class EdgeWork:
    """Walks that fill the sections of one edge type."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.walks = list[Walk]()
        self._places: _PlacesInMemory | _PlacesOnDisk | None = None

    def add_walk(self, topology: native.NativeTopology) -> Walk:
        """Return a walk through a layout; the second finds the places of its edges in the first."""
        self.walks.append(Walk(topology, self.numbers))
        return self.walks[-1]

    def add_places(self) -> Put:
        """Return the section of the places of the second walk's edges in the first."""
        numbers = self.numbers
        nbytes = numbers.count * numbers.dtype.itemsize
        put = Put(nbytes)
        make = _PlacesInMemory if nbytes <= numbers.left else _PlacesOnDisk
        self._places = make(numbers, put)
        for walk in self.walks:
            walk.steps.append(self._places)
        return put

    @property
    def nbytes(self) -> int:
        """Bytes that are read."""
        return self.numbers.nbytes + sum(walk.nbytes for walk in self.walks)

    def run(self, task: native.Task | None) -> None:
        """Do the walks."""
        try:
            self.numbers.open(task)
            for number, walk in enumerate(self.walks):
                if number and self._places is not None:
                    self._places.turn()
                walk.run(task)
        finally:
            self.numbers.close()
            if self._places is not None:
                self._places.close()


def _least_to_renumber(rank_bytes: int) -> int:
    """Return the least budget, three quarters of three quarters of which are for ranks."""
    return max(LEAST, 16 * rank_bytes // 9 + 16)
