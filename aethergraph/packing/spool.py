"""Spool: the row numbers of all batches, on disk until they are packed."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph.errors import DiskFullError, MissingFileError, StorageError
from aethergraph.packing.layout import fingerprint

__all__ = ["Spool", "SpooledBatch"]

Ids = NDArray[np.int64]
_KINDS = {
    errno.ENOENT: MissingFileError, errno.ENOSPC: DiskFullError, errno.EDQUOT: DiskFullError,
}  # fmt: skip


class SpooledBatch(NamedTuple):
    """Row numbers of a batch, which are ``unique[inverse]``; ``unique`` ascends."""

    unique: Ids
    inverse: NDArray[np.uint32]


class Spool:
    """Batches in a file without a name, of which nothing is left, even after a kill.

    Args:
        folder: a folder with room for 12 bytes per id.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        with _named(folder):
            # Open until close(), so not in a with statement.
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._parts: list[tuple[int, int, int]] = []
        self._bytes = 0
        self._data: NDArray[np.uint8] = np.empty(0, np.uint8)
        self.fingerprints: list[bytes] = []

    def append(self, ids: Ids) -> None:
        """Add a batch."""
        unique, inverse = np.unique(ids, return_inverse=True)
        self.fingerprints.append(fingerprint(ids))
        self._parts.append((self._bytes, len(unique), len(ids)))
        places = np.zeros(len(ids) + len(ids) % 2, np.uint32)  # int64 stays aligned
        places[: len(ids)] = inverse
        with _named(self._folder):
            self._file.write(unique.data)
            self._file.write(places.data)
        self._bytes += unique.nbytes + places.nbytes

    def end(self) -> None:
        """Make the batches readable; call after the last one."""
        with _named(self._folder):
            self._file.flush()
        if self._bytes:
            self._data = np.asarray(np.memmap(self._file, np.uint8, "r", shape=(self._bytes,)))

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[SpooledBatch]:
        for begin, rows, ids in self._parts:
            middle = begin + 8 * rows
            yield SpooledBatch(
                self._data[begin:middle].view(np.int64),
                self._data[middle : middle + 4 * ids].view(np.uint32),
            )

    def counts(self, start: int, stop: int) -> NDArray[Any]:
        """Return how many batches ask for each of the rows ``start .. stop - 1``."""
        counts = np.zeros(stop - start, np.uint32)
        for unique, _ in self:
            begin, end = np.searchsorted(unique, (start, stop))
            counts[unique[begin:end] - start] += 1
        return counts

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._file.closed

    def close(self) -> None:
        """Give the disk space back."""
        self._data = np.empty(0, np.uint8)
        with suppress(OSError):  # unwritten data is not needed any more
            self._file.close()


@contextmanager
def _named(folder: str) -> Iterator[None]:
    """Raise failures of the temporary file as errors of this package that name the folder."""
    try:
        yield
    except OSError as error:
        code = error.errno or errno.EIO
        message = f"{folder}: the batches cannot be noted here: {os.strerror(code)}"
        raise _KINDS.get(code, StorageError)(code, message, folder) from error
