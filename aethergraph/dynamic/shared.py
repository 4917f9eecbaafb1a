"""Arrays in memory that several processes map, larger than what is in use of them."""

from __future__ import annotations

import fcntl
import math
import mmap
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph.errors import OutOfMemoryError, UnsupportedError
from aethergraph.storage.other_process import OpenFile

__all__ = ["Region", "SharedArrays"]

_PAGE = mmap.PAGESIZE


class Region(NamedTuple):
    """One array of :class:`SharedArrays`."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


def _keeps_its_size(fd: int) -> bool:
    """Return whether nobody can shrink a file, where reading would end the process."""
    try:
        return bool(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
    except OSError:  # no memory of this kind
        return False


class SharedArrays:
    """Arrays of zeros in one anonymous file; a page takes memory once it is written to.

    Forked children share them as they are. Other processes open them by the descriptor.

    Args:
        regions: shapes and dtypes of the arrays.
        fd: descriptor of arrays of another process, which becomes this object's; None: make them.
    """

    def __init__(self, regions: Sequence[Region], fd: int | None = None) -> None:
        starts, end = [], 0
        for region in regions:
            starts.append(end)
            end += -(-max(1, region.nbytes) // _PAGE) * _PAGE
        if fd is None and not hasattr(os, "memfd_create"):
            raise UnsupportedError("live graphs need memfd_create, which this system does not have")
        flags = 0 if fd is not None else os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        self.fd = os.memfd_create("aether-live-rows", flags) if fd is None else fd
        if fd is not None and not _keeps_its_size(fd):
            self._close()
            raise UnsupportedError(
                "the rows of another process are in memory that it could cut while it is read: "
                "use the same version of AetherGraph in both"
            )
        try:
            if fd is None:
                os.ftruncate(self.fd, end)
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            self._map = mmap.mmap(self.fd, end)
        except (OSError, OverflowError, ValueError) as error:
            self._close()
            raise OutOfMemoryError(
                f"no address space for rows of {end} bytes ({error}): give max_nodes="
            ) from error
        self.arrays: list[NDArray[Any]] = [
            np.ndarray(region.shape, region.dtype, self._map, start)
            for region, start in zip(regions, starts, strict=True)
        ]

    @property
    def file(self) -> OpenFile:
        """File of the arrays, for another process."""
        return OpenFile.of(self.fd)

    def _close(self) -> None:
        """Close the descriptor, once: its number may be somebody else's afterwards."""
        descriptor, self.fd = self.fd, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            self._close()
