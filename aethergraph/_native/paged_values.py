"""Numbers that stay in a file, for samplers and for gathers (``topology/paged/values``)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import ffi, lib, new_error, raise_error, sized
from aethergraph._native.io import FileReader
from aethergraph._native.tasks import Task, lend
from aethergraph._native.topology import NativeTopology


class StagingCounts(NamedTuple):
    """Counts of reads with the memory of a :class:`NativeStaging`, and the bytes that it holds."""

    reads: int
    bytes: int
    memory: int


class NativeStaging:
    """Workspace for gathering values; used by one thread at a time.

    Args:
        window_bytes: bytes of each of the four buffers that pages are read into.
        span_bytes: most bytes for sorting.
    """

    __slots__ = ("handle",)

    handle: Any

    def __init__(self, window_bytes: int, span_bytes: int) -> None:
        out, err = ffi.new("aether_staging **"), new_error()
        code = lib.aether_staging_create(window_bytes, span_bytes, out, err)
        if code:
            raise_error(code, err)
        self.handle = ffi.gc(out[0], lib.aether_staging_destroy)

    def counts(self) -> StagingCounts:
        """Return counts since the workspace was made."""
        numbers = ffi.new("uint64_t[3]")
        lib.aether_staging_count(self.handle, numbers, numbers + 1, numbers + 2)
        return StagingCounts(*map(int, numbers))


class NativeValues:
    """Values in a file, some of whose pages may be kept. Threads may share it.

    Args:
        reader: reader of the file.
        offset: byte offset of value 0, a multiple of 64.
        count: number of values.
        item_bytes: bytes of a value, a power of two up to 64. Samplers take 4 and 8.
        ids_of: lists whose uncompressed ids these are; the pages that they keep are shared.
    """

    __slots__ = ("_ids_of", "_reader", "handle")

    handle: Any

    def __init__(
        self,
        reader: FileReader,
        offset: int,
        count: int,
        item_bytes: int,
        ids_of: NativeTopology | None = None,
    ) -> None:
        self._reader = reader  # the core borrows the reader and the lists
        self._ids_of = ids_of
        out = ffi.new("aether_values **")
        err = new_error()
        code = lib.aether_values_open(reader.handle, offset, count, item_bytes, out, err)
        if code:
            raise_error(code, err)
        self.handle = ffi.gc(out[0], lib.aether_values_close)
        if ids_of is not None:
            code = lib.aether_values_share_pages(self.handle, ids_of.handle, err)
            if code:
                raise_error(code, err)

    def keep_pages(self, nbytes: int) -> None:
        """Keep the most used pages, within ``nbytes``. Call once, before the first read."""
        err = new_error()
        code = lib.aether_values_keep_pages(self.handle, nbytes, err)
        if code:
            raise_error(code, err)

    @property
    def kept(self) -> int:
        """Bytes of the pages kept so far."""
        return int(lib.aether_values_kept(self.handle))

    def gather(
        self,
        positions: NDArray[np.int64],
        out: NDArray[Any],
        staging: NativeStaging,
        *,
        learn: bool,
        task: Task | None = None,
    ) -> None:
        """Write value ``positions[i]`` to ``out[i]``, reading each page once.

        Args:
            positions: contiguous.
            out: contiguous and writable, with room for as many values.
            staging: the workspace, which no other thread uses meanwhile.
            learn: count this call's pages among those that are used most.
            task: the long call that this gather is part of.

        Raises:
            OutOfRangeError: a position does not exist; has its place in ``positions``.
            FileChangedError, StorageError: the file could not be read.
        """
        err = new_error()
        lib.aether_staging_learn(staging.handle, learn)
        lent, room = ffi.from_buffer("uint64_t[]", positions), ffi.from_buffer(out)
        request = sized("aether_value_request", lent, len(positions), room, out.nbytes)
        code = lib.aether_values_gather(
            self.handle, request, staging.handle, lend(task, out.nbytes), err
        )
        if code:
            raise_error(code, err, self._reader.path)
