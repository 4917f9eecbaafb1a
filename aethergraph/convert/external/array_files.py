"""Arrays of a graph file in the making: one plain file each, appended list by list."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.convert.external.damage import WorkFileError
from aethergraph.convert.external.runs import append_bytes
from aethergraph.storage.scratch import storage_error

__all__ = ["ColumnFiles"]

_COPY_BYTES = 4 << 20
_COPY_LISTS = 1 << 16


class ColumnFiles:
    """``indptr`` and named columns with one row per edge, each in a file.

    Args:
        prefix: path that the files' names begin with.
        columns: (dtype, items per row) by name.
        lists: number of lists that are written already; more in the files is cut off.
        edges: number of edges that are written already; more in the files is cut off.
        sums: checksums of what is written, as :attr:`sums` was then.
        minor_end: ids in a column ``minor`` are below this; None: below the number of lists.

    Attributes:
        lists: number of lists written.
        edges: number of edges written.
        sums: checksum of each column and of ``indptr`` (:func:`aethergraph._native.hash_items`).

    Raises:
        WorkFileError: a file is shorter than ``lists`` and ``edges`` say.
    """

    def __init__(
        self,
        prefix: str,
        columns: Mapping[str, tuple[np.dtype[Any], int]],
        lists: int = 0,
        edges: int = 0,
        sums: Mapping[str, int] | None = None,
        minor_end: int | None = None,
    ) -> None:
        self.columns = dict(columns)
        self._minor_end = minor_end
        self.sums = dict.fromkeys(("indptr", *columns), 0) | dict(sums or {} if lists else {})
        self.lists = lists
        self.edges = edges
        self._prefix = prefix
        self._files: dict[str, int] = {}
        self._open("indptr", 8 * (lists + 1) if lists else 0)
        for name in self.columns:
            self._open(name, edges * self._row_bytes(name))
        if lists == 0:
            self._append("indptr", np.zeros(1, np.uint64), 0)

    def path(self, name: str) -> str:
        """Return the path of a column's file.

        The name has the column's number, since names of attributes may hold anything.
        """
        return f"{self._prefix}{name if name == 'indptr' else [*self.columns].index(name)}"

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the dtype of a column or of ``indptr``."""
        return np.dtype(np.uint64) if name == "indptr" else self.columns[name][0]

    def _row_bytes(self, name: str) -> int:
        dtype, items = self.columns[name]
        return dtype.itemsize * items

    def _open(self, name: str, size: int) -> None:
        path = self.path(name)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._files[name] = file
            file_size = os.fstat(file).st_size
            os.ftruncate(file, size)
        except OSError as error:
            raise storage_error(error, path) from None
        if file_size < size:
            raise WorkFileError(path, "is shorter than the build recorded")

    def _append(self, name: str, rows: NDArray[Any], at: int) -> None:
        row_bytes = 8 if name == "indptr" else self._row_bytes(name)
        append_bytes(self._files[name], self.path(name), rows, at * row_bytes)
        self.sums[name] = (self.sums[name] + native.hash_items(rows, at)) % 2**64

    def append_edges(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Append rows to every column, as many to each."""
        rows = 0
        for name, array in columns.items():
            rows = len(array)
            self._append(name, array, self.edges)
        self.edges += rows

    def append_ends(self, ends: NDArray[np.uint64]) -> None:
        """Append the ends of some more lists, counted over all edges."""
        self._append("indptr", ends, self.lists + 1)
        self.lists += len(ends)

    def append_empty(self, lists: int) -> None:
        """Append lists without edges."""
        for begin in range(0, lists, _COPY_LISTS):
            count = min(_COPY_LISTS, lists - begin)
            self.append_ends(np.full(count, self.edges, np.uint64))

    def sync(self) -> None:
        """Make the appended rows durable; the kernel can then take back its cached pages."""
        for name, file in self._files.items():
            try:
                os.fdatasync(file)
            except OSError as error:
                raise storage_error(error, self.path(name)) from None

    def read(self, name: str, begin: int, end: int) -> NDArray[Any]:
        """Read rows ``begin .. end - 1`` of a column, or entries of ``indptr``.

        Raises:
            WorkFileError: the file is too short, or holds ids or offsets that cannot be.
        """
        if name == "indptr":
            shape: tuple[int, ...] = (end - begin,)
        else:
            items = self.columns[name][1]
            shape = (end - begin,) if items == 1 else (end - begin, items)
        out = np.empty(shape, self.dtype(name))
        view = out.reshape(-1).view(np.uint8).data
        offset = begin * (out.nbytes // max(len(out), 1))
        while view:
            try:
                done = os.preadv(self._files[name], [view], offset)
            except OSError as error:
                raise storage_error(error, self.path(name)) from None
            if done == 0:
                raise WorkFileError(self.path(name), f"ends at byte {offset}")
            view, offset = view[done:], offset + done
        self._check(name, out)
        return out

    def _check(self, name: str, rows: NDArray[Any]) -> None:
        """Check that offsets of finished lists ascend to the edges, and that ids are of lists."""
        if name == "indptr" and len(rows):
            if rows[-1] > self.edges or (rows[1:] < rows[:-1]).any():
                raise WorkFileError(self.path(name), "its offsets are not those of lists")
        elif name == "minor" and len(rows):
            nodes = self.lists if self._minor_end is None else self._minor_end
            if int(rows.max()) >= nodes:
                problem = f"holds the id {rows.max()}, but there are {nodes:,} nodes"
                raise WorkFileError(self.path(name), problem)

    def edges_from(self, begin: int, rows: int) -> Iterator[tuple[int, native.Ids]]:
        """Yield (first edge, list number of each edge) for at most ``rows`` edges at a time."""
        for first in range(0, self.lists, _COPY_LISTS):
            last = min(first + _COPY_LISTS, self.lists)
            offsets = self.read("indptr", first, last + 1).astype(np.int64)
            if offsets[-1] <= begin:
                continue
            numbers = np.arange(first, last)
            for start in range(max(begin, int(offsets[0])), int(offsets[-1]), rows):
                stop = min(start + rows, int(offsets[-1]))
                bounds = np.clip(offsets, start, stop)
                yield start, np.repeat(numbers, bounds[1:] - bounds[:-1])

    def write_section(
        self,
        writer: native.NativeWriter,
        name: str,
        kind: int,
        owner: int,
        task: native.Task | None,
    ) -> None:
        """Copy a column into a section of the graph file."""
        writer.begin(kind, owner, native.dtype_code(self.dtype(name)))
        row_bytes = 8 if name == "indptr" else self._row_bytes(name)
        for rows in self.pieces(name, max(1, _COPY_BYTES // max(row_bytes, 1))):
            writer.append(rows, task)
        writer.end()

    def pieces(self, name: str, at_once: int) -> Iterator[NDArray[Any]]:
        """Yield all rows of a column in order, ``at_once`` at a time.

        Raises:
            WorkFileError: they are not what was appended; raised after the last piece at the
                latest.
        """
        count = self.lists + 1 if name == "indptr" else self.edges
        checksum = 0
        for begin in range(0, count, at_once):
            rows = self.read(name, begin, min(begin + at_once, count))
            checksum += native.hash_items(rows, begin)
            yield rows
        self.compare(name, checksum)

    def compare(self, name: str, checksum: int) -> None:
        """Raise WorkFileError if ``checksum`` is not that of a whole column."""
        if checksum % 2**64 != self.sums[name]:
            raise WorkFileError(self.path(name), "has other bytes than were written")

    def nbytes(self, name: str) -> int:
        """Return the size of a column or of ``indptr`` in bytes."""
        return 8 * (self.lists + 1) if name == "indptr" else self.edges * self._row_bytes(name)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            os.close(file)
        self._files = {}

    def remove(self) -> None:
        """Close and delete the files."""
        names = list(self._files)
        self.close()
        for name in names:
            os.unlink(self.path(name))

    def __del__(self) -> None:
        self.close()
