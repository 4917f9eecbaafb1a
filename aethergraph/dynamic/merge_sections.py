"""Sections of the graph file of a snapshot: what is written at once, and what walks fill."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import empty
from aethergraph.protocols import RowSource
from aethergraph.storage.budget import Budget
from aethergraph.storage.scratch import Scratch

__all__ = [
    "Columns", "Content", "EncodedIds", "EncodedIndex", "NodeRows", "Offsets", "Piece", "Put",
    "Room", "Section", "pieces", "row_bytes", "rows_at_once", "stored_ids",
]  # fmt: skip

Columns: TypeAlias = "dict[native.Column, np.dtype[Any]]"
Piece: TypeAlias = "dict[native.Column, NDArray[Any]]"


def pieces(
    topology: native.NativeTopology, columns: Columns, at_once: int, task: native.Task | None
) -> Iterator[Piece]:
    """Yield columns of all lists, piece by piece; the next piece reuses the memory."""
    reader = native.EntryReader(topology, list(columns))
    left = topology.num_edges
    room = {
        name: empty(min(at_once, left), dtype, f"{at_once} entries")
        for name, dtype in columns.items()
    }
    while left:
        count = reader.read([out[:left] for out in room.values()], task)
        left -= count
        yield {name: out[:count] for name, out in room.items()}


def stored_ids(topology: native.NativeTopology) -> np.dtype[Any]:
    """Return the dtype of neighbours in a file."""
    return native.id_dtype(native.id_bytes_for(topology.num_minor))


class Room(NamedTuple):
    """Room that one budget leaves."""

    entries: int  # entries at a time
    row_bytes: int  # bytes of rows at a time
    tables: int  # bytes for ranks and places
    folder: str  # folder for scratch files
    budget: Budget


class Content(Protocol):
    """Bytes of a section whose size is not known, or that no walk fills; ``nbytes`` is the work."""

    nbytes: int

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append the whole content to the section that was begun."""


class Put:
    """Place of a section in the file; :meth:`__call__` fills it on."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._target: tuple[native.NativeWriter, int, native.Task | None] | None = None

    def reserve(
        self, writer: native.NativeWriter, kind: int, owner: int, code: int,
        task: native.Task | None,
    ) -> None:  # fmt: skip
        """Reserve the section; it is filled in the file of ``writer`` from now on."""
        self._target = writer, writer.reserve(kind, owner, code, self.nbytes), task

    def __call__(self, array: NDArray[Any]) -> None:
        """Put an array behind what was put before."""
        assert self._target is not None
        writer, section, task = self._target
        writer.put(section, np.ascontiguousarray(array), task)


class Section(NamedTuple):
    """Section of the file: its kind, owner and dtype as in the file, and what is in it."""

    kind: int
    owner: int
    dtype_code: int
    content: Content | Put


class Offsets:
    """Offsets of lists."""

    def __init__(self, topology: native.NativeTopology, room: Room) -> None:
        self._topology, self._at_once = topology, room.entries
        self.nbytes = 8 * (topology.num_major + 1)

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append all offsets."""
        writer.append(np.zeros(1, np.uint64), task)
        last, lists = 0, self._topology.num_major
        for first in range(0, lists, self._at_once):
            count = min(self._at_once, lists - first)
            ends = native.list_ends(self._topology, first, count, last)
            writer.append(ends, task)
            last = int(ends[-1])


class EncodedIds:
    """Neighbours as compressed blocks; their index is kept in a scratch file until it is due."""

    def __init__(self, topology: native.NativeTopology, room: Room) -> None:
        self._topology, self._room = topology, room
        self._encoder = native.BlockEncoder()
        self._scratch: Scratch | None = None
        self.nbytes = 3 * topology.num_edges * topology.id_dtype.itemsize

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append all blocks."""
        self._scratch = Scratch(self._room.folder)
        columns: Columns = {"neighbors": stored_ids(self._topology)}
        for piece in pieces(self._topology, columns, self._room.entries, task):
            writer.append(self._encoder.encode(piece["neighbors"], task), task)
            self._scratch.append(self._encoder.take_index())

    def write_index(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append the index of the blocks that were written, to a section of its own."""
        assert self._scratch is not None
        words = self._scratch.size // 8
        for begin in range(0, words, self._room.entries):
            index = empty(min(self._room.entries, words - begin), np.uint64, "an index")
            self._scratch.read(index, 8 * begin)
            writer.append(index, task)
        writer.append(self._encoder.index(), task)
        self._scratch.close()


class EncodedIndex:
    """Index of blocks that come in the section before."""

    def __init__(self, ids: EncodedIds) -> None:
        self.nbytes = 0
        self._ids = ids

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append the index."""
        self._ids.write_index(writer, task)


class NodeRows:
    """Rows of nodes."""

    def __init__(self, rows: RowSource, room: Room) -> None:
        self._rows, self._at_once = rows, rows_at_once(rows, room)
        self.nbytes = rows.nbytes

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append all rows."""
        rows = self._rows
        for begin in range(0, rows.num_rows, self._at_once):
            if task is not None:
                task.check()
            ids = np.arange(begin, min(begin + self._at_once, rows.num_rows))
            writer.append(np.ascontiguousarray(rows.gather(ids)), task)


def row_bytes(rows: RowSource) -> int:
    """Return the bytes of one row."""
    return math.prod(rows.row_shape) * rows.array_dtype.itemsize


def rows_at_once(rows: RowSource, room: Room) -> int:
    """Return the number of rows to read at a time, at least 1."""
    return max(1, min(room.entries, room.row_bytes // max(1, row_bytes(rows))))
