"""Files that nobody else sees and that are gone with their process, however it ends.

::

    put([7, 2, 5], [70, 20, 50])    run 0  | places 0 .. 3 | places 4 .. 7 |  (place, value), in the
    put([1, 4, 0], [10, 40,  0])    run 1  | places 0 .. 3 | places 4 .. 7 |  order of the calls
    pieces()                        range by range: its records of all runs, each put at its place
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import empty
from aethergraph.errors import CorruptFileError, DiskFullError, StorageError

__all__ = ["ScatteredArray", "Scratch", "storage_error"]

_MOST_PARTS = 1 << 16


def storage_error(error: OSError, path: str, action: str = "write") -> StorageError:
    """Return the named error for one of the system in writing ``path``; ``action``: or "read"."""
    code = error.errno or errno.EIO
    full = code in (errno.ENOSPC, errno.EDQUOT)
    text = f"cannot {action} {path}: {os.strerror(code)}"
    return (DiskFullError if full else StorageError)(code, text, path)


class Scratch:
    """File without a name, in the folder of what is being written.

    Args:
        folder: the folder.

    Raises:
        DiskFullError, StorageError: the file cannot be made.
    """

    def __init__(self, folder: str) -> None:
        self._where = f"a scratch file in {folder}"
        self.size = 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise storage_error(error, self._where) from None

    def append(self, data: NDArray[Any]) -> int:
        """Write an array at the end; return its offset.

        Raises:
            DiskFullError, StorageError: it cannot be written.
        """
        offset, view = self.size, data.reshape(-1).view(np.uint8).data
        try:
            while view:
                done = os.pwrite(self._file.fileno(), view[: 1 << 30], self.size)
                view, self.size = view[done:], self.size + done
        except OSError as error:
            raise storage_error(error, self._where) from None
        return offset

    def read(self, out: NDArray[Any], offset: int) -> None:
        """Fill an array from ``offset`` on.

        Raises:
            StorageError: it cannot be read.
        """
        view = out.view(np.uint8).data
        while view:
            try:
                done = os.preadv(self._file.fileno(), [view[: 1 << 30]], offset)
            except OSError as error:
                raise storage_error(error, self._where, "read") from None
            if done == 0:
                raise StorageError(errno.EIO, f"{self._where} ends at byte {offset}", self._where)
            view, offset = view[done:], offset + done

    def close(self) -> None:
        """Close the file, which frees its space."""
        self._file.close()


class ScatteredArray:
    """Array of numbers below its length that is filled in any order, then read from the front.

    Each place must be filled once. Memory holds a part of it at a time.

    Args:
        folder: folder of the scratch file.
        count: length of the array.
        memory: bytes for buffers.
    """

    def __init__(self, folder: str, count: int, memory: int) -> None:
        self._count = count
        self.dtype = native.id_dtype(native.id_bytes_for(count))
        self._records = native.record_dtype(self.dtype.itemsize)
        record_bytes = self._records.itemsize
        room = max(1, min(memory // (4 * record_bytes), count))
        # A part is read into as much memory as a run is gathered in.
        self._shift = max(0, room.bit_length() - 1, (count // _MOST_PARTS).bit_length())
        self._parts = max(1, -(-count >> self._shift))
        self._full = np.empty(room, self._records)
        self._sorted = np.empty(room, self._records)
        self._used = 0
        self._runs: list[tuple[int, NDArray[np.uint32]]] = []
        self._scratch = Scratch(folder)

    def put(self, places: native.Ids, values: native.Ids) -> None:
        """Set ``array[places] = values``.

        Raises:
            OutOfRangeError: a place is not in the array.
        """
        done = 0
        while done < len(places):
            some = min(len(places) - done, len(self._full) - self._used)
            native.pack_records(
                places[done : done + some], values[done : done + some], [],
                self._full[self._used : self._used + some],
            )  # fmt: skip
            done, self._used = done + some, self._used + some
            if self._used == len(self._full):
                self._flush()

    def _flush(self) -> None:
        records, out = self._full[: self._used], self._sorted[: self._used]
        counts = native.partition_records(records, "major", 0, self._shift, self._parts, out)
        ends = np.zeros(self._parts + 1, np.uint32)
        np.cumsum(counts, out=ends[1:])
        self._runs.append((self._scratch.append(out), ends))
        self._used = 0

    def pieces(self) -> Iterator[NDArray[Any]]:
        """Yield the array piece by piece; nothing can be put any more.

        Raises:
            CorruptFileError: some places were not filled, or filled twice.
        """
        if self._used:
            self._flush()
        self._full = self._sorted = np.empty(0, self._records)
        size = 1 << self._shift
        for part in range(self._parts):
            low = part * size
            count = min(size, self._count - low)
            if sum(int(e[part + 1]) - int(e[part]) for _, e in self._runs) != count:
                raise CorruptFileError(
                    f"the places {low}..{low + count - 1} of an array were not filled once each"
                )
            records = empty(count, self._records, f"{count} records")
            done = 0
            for offset, ends in self._runs:
                begin, end = int(ends[part]), int(ends[part + 1])
                chunk = records[done : done + end - begin]
                self._scratch.read(chunk, offset + begin * self._records.itemsize)
                done += len(chunk)
            out = empty(count, self.dtype, f"{count} numbers")
            out[records["major"] - low] = records["minor"]
            yield out

    def close(self) -> None:
        """Free the space on disk."""
        self._scratch.close()
