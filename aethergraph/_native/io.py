"""Reading many ranges of a file at once (``native/src/io``)."""

from __future__ import annotations

import os
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import errors
from aethergraph._checks.arrays import as_count, as_ids, empty
from aethergraph._native.core import Path as FilePath
from aethergraph._native.core import ffi, lib, new_error, raise_error
from aethergraph._native.files import encode_path
from aethergraph._native.memory import address_of
from aethergraph._native.tasks import Progress, Task, lend, run_long

IO_TIERS: Final[dict[str, int]] = {
    "auto": lib.AETHER_IO_AUTO,
    "uring": lib.AETHER_IO_URING,
    "pread": lib.AETHER_IO_PREAD,
}
IO_TIER_NAMES: Final[dict[int, str]] = {code: name for name, code in IO_TIERS.items()}


class IoStats(NamedTuple):
    """Counts of the reads of a file since it was opened.

    Attributes:
        requests: ranges that callers asked for.
        reads: reads from the operating system; long requests are cut, short reads continued.
        bytes: bytes of these reads.
        copied: reads that were not aligned and went through a buffer.
        repeated: reads that came back short, or that the system put off.
        max_in_flight: most concurrent reads of one thread.
        wait_ns: nanoseconds that threads spent in the system, submitting and waiting.
        sizes: (reads, bytes) of the reads in each class of read sizes.
    """

    requests: int
    reads: int
    bytes: int
    copied: int
    repeated: int
    max_in_flight: int
    wait_ns: int
    #: (reads, bytes) by read size: up to 4 KiB, more and up to 8 KiB, ... up to 1 MiB.
    sizes: tuple[tuple[int, int], ...]


def io_problem(tier: str) -> str | None:
    """Return why a tier (``uring`` or ``pread``) does not work in this process, or None."""
    err = new_error()
    code = lib.aether_io_probe(IO_TIERS[tier], err)
    return bytes(ffi.string(err.message)).decode("utf-8", "replace") if code else None


class FileReader:
    """File that byte ranges are read from, many at a time. Threads may share it.

    Args:
        path: a regular file, which does not change while it is open.
        tier: ``uring``, ``pread``, or ``auto``: the tier in ``AETHERGRAPH_IO``, else the first
            that works.
        direct: read past the page cache if the file system can; :attr:`direct` has the outcome.
        depth: most concurrent reads for each thread, 1 to 256; 0: 128.

    Raises:
        MissingFileError, StorageError: the file cannot be opened.
        UnsupportedError: the requested tier does not work here; the message says why.
        InvalidArgumentError: another argument, or ``AETHERGRAPH_IO``, is invalid.
    """

    __slots__ = (
        "_handle", "alignment", "depth", "direct", "memory_alignment", "path", "size", "tier",
    )  # fmt: skip

    def __init__(
        self, path: FilePath, *, tier: str = "auto", direct: bool = True, depth: int = 0
    ) -> None:
        self._handle: Any = None
        text, encoded = encode_path(path)
        self.path = os.path.abspath(text)
        if tier not in IO_TIERS:
            raise errors.InvalidArgumentError(f"tier = {tier!r} is not one of {list(IO_TIERS)}")
        options = ffi.new("aether_io_options *")
        options.tier = IO_TIERS[tier]
        options.direct = bool(direct)
        options.depth = min(as_count(depth, "depth"), 1 << 31)
        out, err = ffi.new("aether_io **"), new_error()
        code = lib.aether_io_open(encoded, options, out, err)
        if code:
            raise_error(code, err, text)
        self._handle = ffi.gc(out[0], lib.aether_io_close)
        info = ffi.new("aether_io_info *")
        lib.aether_io_describe(self._handle, info)
        self.tier: str = IO_TIER_NAMES[info.tier]
        self.direct = bool(info.direct)
        self.depth = int(info.depth)
        self.alignment = int(info.alignment)
        self.memory_alignment = int(info.memory_alignment)
        self.size = int(info.size)

    @property
    def handle(self) -> Any:
        """Native ``aether_io *``; users of the handle must keep this object alive."""
        if self._handle is None:
            raise errors.ClosedError(f"{self.path}: the file was closed")
        return self._handle

    def read(
        self, offsets: ArrayLike, lengths: ArrayLike | int, out: NDArray[Any] | None = None, *,
        progress: Progress | None = None, task: Task | None = None,
    ) -> NDArray[Any]:  # fmt: skip
        """Return the bytes of n ranges, one range after the other.

        Args:
            offsets: [n] integers, in any order; ranges may overlap.
            lengths: [n] integers, or one for all ranges.
            out: a contiguous array with room for all bytes; None: new memory.
            progress: called with (bytes done, total bytes).
            task: the long call that this read is part of.

        Returns:
            ``out``, or a uint8 vector of the sum of ``lengths``.

        Raises:
            OutOfRangeError: a range is outside the file; ``position`` is its number.
            FileChangedError: the file has become shorter, or was written to.
            StorageError: a read failed; ``position`` is its offset.
        """
        handle = self.handle
        requests, total = self._requests(offsets, lengths)
        if out is None:
            out = empty(total, np.uint8, f"{total} bytes of {self.path}")
        elif out.dtype.hasobject or not out.flags.carray or out.nbytes < total:
            raise errors.InvalidArgumentError(
                f"out must be contiguous and writable with room for {total} bytes, got an array of "
                f"{out.nbytes} bytes, dtype {out.dtype}, shape {out.shape}, strides {out.strides}"
            )
        requests[:, 2] += np.uint64(address_of(out))
        lent = ffi.from_buffer("aether_io_request[]", requests)

        def call(task: Task | None) -> None:
            err = new_error()
            code = lib.aether_io_read(handle, lent, len(requests), lend(task, total), err)
            if code:
                raise_error(code, err, self.path)

        if task is None:
            run_long(call, progress, total)
        else:
            call(task)
        return out

    def _requests(
        self, offsets: ArrayLike, lengths: ArrayLike | int
    ) -> tuple[NDArray[np.uint64], int]:
        """Return ``aether_io_request`` rows [n, 3] with buffers as offsets, and the total bytes."""
        begin = as_ids(offsets, "offsets")
        size: NDArray[np.int64]
        if np.ndim(lengths) == 0:
            size = np.full(len(begin), as_count(lengths, "lengths"), np.int64)
        else:
            size = as_ids(lengths, "lengths")
        if len(size) != len(begin):
            raise errors.InvalidArgumentError(f"{len(begin)} offsets, but {len(size)} lengths")
        bad = (begin < 0) | (size < 0) | (size > self.size) | (begin > self.size - size)
        if bad.any():
            at = int(bad.argmax())
            raise errors.OutOfRangeError(
                f"range {at}: {size[at]} bytes at {begin[at]} are not within {self.path} "
                f"({self.size} bytes)",
                position=at, value=int(begin[at]),
            )  # fmt: skip
        if float(size.sum(dtype=np.float64)) > 2.0**62:
            raise errors.OutOfMemoryError(f"{len(begin)} ranges are more than any memory holds")
        ends = np.cumsum(size)
        requests = np.empty((len(begin), 3), np.uint64)
        requests[:, 0] = begin
        requests[:, 1] = size
        requests[:, 2] = ends - size
        return requests, int(ends[-1]) if len(ends) else 0

    def stats(self) -> IoStats:
        """Return counts since the file was opened, over all threads."""
        counts = ffi.new("aether_io_stats *")
        lib.aether_io_count(self.handle, counts)
        sizes = tuple(zip(list(counts.size_reads), list(counts.size_bytes), strict=True))
        numbers = {name: int(getattr(counts, name)) for name in IoStats._fields if name != "sizes"}
        return IoStats(**numbers, sizes=sizes)

    def close(self) -> None:
        """Close the file, once no thread reads from it any more."""
        self._handle = None

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._handle is None

    def __enter__(self) -> FileReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
