"""Files of the rows of a layer: .npy, written from the first row to the last, or changed later."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.convert.external.damage import WorkFileError
from aethergraph.storage.scratch import storage_error

__all__ = ["ChangedLayerFile", "LayerFile", "map_rows"]


class LayerFile:
    """Writer of a .npy file of a known shape.

    Args:
        path: the file.
        shape: shape of all rows.
        dtype: their dtype.
        rows: rows that are there from an earlier process, durably; 0: the file begins anew.

    Attributes:
        rows: rows written so far.

    Raises:
        DiskFullError, StorageError: it cannot be written.
        WorkFileError: it has not these rows.
    """

    _IS_CHANGED = False

    def __init__(
        self, path: str, shape: tuple[int, ...], dtype: np.dtype[Any], rows: int = 0
    ) -> None:
        self._path, self.rows, self._count = path, rows, shape[0]
        self._row_bytes = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        head = io.BytesIO()
        descr = np.lib.format.dtype_to_descr(dtype)
        np.lib.format.write_array_header_1_0(
            head, {"descr": descr, "fortran_order": False, "shape": shape}
        )
        self._head = head.getvalue()
        is_there = rows > 0 or self._IS_CHANGED
        flags = os.O_RDWR | os.O_CLOEXEC | (0 if is_there else os.O_CREAT | os.O_TRUNC)
        try:
            self._file = os.open(path, flags, 0o666)
        except FileNotFoundError:
            if is_there:
                raise WorkFileError(path, "is missing") from None
            raise storage_error(FileNotFoundError(2, "", path), path) from None
        except OSError as error:
            raise storage_error(error, path) from None
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        if not self.rows:
            self._write(self._head, 0)
        elif os.fstat(self._file).st_size < self._end or self._read_head() != self._head:
            raise self._damage()

    def _damage(self) -> WorkFileError:
        return WorkFileError(self._path, f"has not the {self.rows} rows that were recorded")

    def _read_head(self) -> bytes:
        return os.pread(self._file, len(self._head), 0)

    @property
    def _end(self) -> int:
        return len(self._head) + self.rows * self._row_bytes

    def append(self, rows: NDArray[Any]) -> None:
        """Write the next rows."""
        self._write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data, self._end)
        self.rows += len(rows)

    def extend(self) -> None:
        """Make the file as long as it will be, without writing: its rows are zeros."""
        os.truncate(self._file, len(self._head) + self._count * self._row_bytes)

    def _write(self, data: Any, offset: int) -> None:
        view = memoryview(data)
        try:
            while view:
                done = os.pwrite(self._file, view[: 1 << 30], offset)
                view, offset = view[done:], offset + done
        except OSError as error:
            raise storage_error(error, self._path) from None

    def sync(self) -> None:
        """Make the rows so far durable."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise storage_error(error, self._path) from None

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __enter__(self) -> LayerFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ChangedLayerFile(LayerFile):
    """Writer of any rows of a .npy file that is there; it may get more rows than it has.

    Args:
        path: the file.
        shape: shape of all rows, those to come included.
        dtype: their dtype.
        rows: rows that are there. More may be, of a process that was killed.

    Raises:
        DiskFullError, StorageError: it cannot be written.
        WorkFileError: it has not these rows.
    """

    _IS_CHANGED = True

    def __enter__(self) -> ChangedLayerFile:
        return self

    def _begin(self) -> None:
        # numpy leaves room in a header for the number of rows to grow.
        try:
            before, after = (_read_form(head) for head in (self._read_head(), self._head))
        except ValueError:
            raise self._damage() from None
        if before != after or os.fstat(self._file).st_size < self._end:
            raise self._damage()

    def put(self, ids: NDArray[np.int64], rows: NDArray[Any]) -> None:
        """Write rows at their places, ``ids``, ascending."""
        data = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
        ends = np.flatnonzero(np.diff(ids) != 1) + 1  # of runs of ids that follow each other
        size, head = self._row_bytes, len(self._head)
        bounds = [0, *ends.tolist(), len(ids)]
        for start, end, first in zip(bounds, bounds[1:], ids[bounds[:-1]].tolist(), strict=False):
            self._write(data[start * size : end * size], head + first * size)

    def sync(self) -> None:
        """Make the rows so far durable, and then the number of rows: a file has what it says."""
        super().sync()
        self._write(self._head, 0)
        super().sync()


def map_rows(path: str) -> NDArray[Any]:
    """Return the rows of a .npy file, mapped.

    Raises:
        WorkFileError: it cannot be read.
    """
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise WorkFileError(path, f"cannot be read ({error})") from None
    return array


def _read_form(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return what a header says, but for the number of rows, and its bytes.

    Raises:
        ValueError: it is none.
    """
    file = io.BytesIO(head)
    np.lib.format.read_magic(file)
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    return shape[1:], is_fortran, dtype, file.tell()
