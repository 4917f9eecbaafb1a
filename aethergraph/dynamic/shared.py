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

from aethergraph import _native as native
from aethergraph.errors import LimitError, OutOfMemoryError, UnsupportedError
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


def _whole_pages(nbytes: int) -> int:
    return -(-nbytes // _PAGE) * _PAGE


def _make_file(nbytes: int) -> int:
    """Return the descriptor of an anonymous file that nobody can shrink."""
    try:
        fd = os.memfd_create("aether-live-rows", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise LimitError(
            f"no descriptor for rows ({error.strerror}): each attribute takes one; raise the limit "
            "(ulimit -n)"
        ) from error
    try:
        os.ftruncate(fd, nbytes)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    except (OSError, OverflowError) as error:
        os.close(fd)
        raise OutOfMemoryError(
            f"no shared memory for rows of up to {nbytes} bytes ({error}): give max_nodes="
        ) from error
    return fd


def _keeps_its_size(fd: int, nbytes: int) -> bool:
    """Return whether nobody can shrink a file of so many bytes, where reading would fault."""
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:  # no memory of this kind
        return False
    return bool(seals & fcntl.F_SEAL_SHRINK) and os.fstat(fd).st_size >= nbytes


class SharedArrays:
    """Arrays of zeros in one anonymous file; a page takes memory once it is written to.

    ::

        file      | array 0, room for 2^32 rows                | array 1 ...    takes nothing
        mapped    |=====|                                      |==|
        later     |===========|   the same memory elsewhere; who reads the first goes on

    Forked children share them as they are. Other processes open them by the descriptor. Everybody
    maps as much as he needs.

    Args:
        regions: shapes and dtypes of the arrays, as large as they may become.
        fd: descriptor of arrays of another process, which becomes this object's; None: make them.
    """

    def __init__(self, regions: Sequence[Region], fd: int | None = None) -> None:
        self._regions = regions
        self._starts = [0]
        for region in regions:
            self._starts.append(self._starts[-1] + _whole_pages(max(1, region.nbytes)))
        if fd is None and not hasattr(os, "memfd_create"):
            raise UnsupportedError("live graphs need memfd_create, which this system does not have")
        self.fd = _make_file(self._starts[-1]) if fd is None else fd
        if fd is not None and not _keeps_its_size(fd, self._starts[-1]):
            self._close()
            raise UnsupportedError(
                "the rows of another process are in memory that it could cut while it is read: "
                "use the same version of AetherGraph in both"
            )
        self._arrays = [np.empty((0, *region.shape[1:]), region.dtype) for region in regions]

    def array(self, number: int, length: int) -> NDArray[Any]:
        """Return one of the arrays as far as it is mapped: ``length`` rows or more, or all.

        Several threads may ask at once. What was returned before stays good.

        Raises:
            OutOfMemoryError: there is no address space for it.
        """
        array, region = self._arrays[number], self._regions[number]
        if length <= len(array) or len(array) == region.shape[0]:
            return array
        row = region.nbytes // region.shape[0]
        size = min(_whole_pages(max(length, 2 * len(array)) * row), region.nbytes)
        memory = native.buffer_map(self.fd, self._starts[number], size)
        length = size // row if row else region.shape[0]
        array = np.ndarray((length, *region.shape[1:]), region.dtype, memory)
        if length > len(self._arrays[number]):  # else another thread has mapped more
            self._arrays[number] = array
        return array

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
