"""Rows of a file, gathered through a cache within a number of bytes (``store/row_file``)."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._binding.core import Path, ffi, lib, new_error, raise_error
from aethergraph._binding.files import encode_path
from aethergraph._binding.io import IO_TIER_NAMES, IO_TIERS
from aethergraph._binding.memory import buffer_alloc
from aethergraph._binding.tasks import Progress, Task, lend, run_long
from aethergraph.errors import InvalidArgumentError

#: Smaller results are copied faster than memory for direct reads is made.
_DIRECT_BYTES = 128 << 10


class RowStats(NamedTuple):
    """What gathering rows of a file came to since it was opened in this process.

    Attributes:
        rows: rows that were asked for.
        hits: of them found in the cache.
        reads: ranges that were read for the others; a range serves rows that are near each other.
        direct_rows: rows that were read straight into the result, without a copy.
        device_reads: reads that the operating system was asked for.
        device_bytes: bytes that came from it.
        wanted_bytes: bytes of the rows that the cache did not have, duplicates counted.
        wait_seconds: time that threads spent in the operating system for it.
        frames: rows that the cache has room for, or groups of ``frame_rows`` small ones.
        frames_held: of them in use, the hot ones included.
        hot_frames: of them pinned: the hot set.
        inserted, evicted: frames that came into the dynamic part of the cache, and left it.
        frame_rows: rows in a frame: 1 from 256 bytes a row on.
        budget: bytes that were given.
        used: bytes of it that the cache, its index, the list of hot rows, reads under way and
            sorting take at most.
        tier: ``"uring"`` or ``"pread"``: how the system is asked.
        direct: whether reads go past the page cache.
    """

    rows: int
    hits: int
    reads: int
    direct_rows: int
    device_reads: int
    device_bytes: int
    wanted_bytes: int
    wait_seconds: float
    frames: int
    frames_held: int
    hot_frames: int
    inserted: int
    evicted: int
    frame_rows: int
    budget: int
    used: int
    tier: str
    direct: bool

    @property
    def misses(self) -> int:
        """Rows that the cache did not have."""
        return self.rows - self.hits

    @property
    def hit_rate(self) -> float:
        """``hits / rows``; 0.0 before any row was asked for."""
        return self.hits / self.rows if self.rows else 0.0

    @property
    def amplification(self) -> float:
        """``device_bytes / wanted_bytes``; below 1 where duplicates are many."""
        return self.device_bytes / self.wanted_bytes if self.wanted_bytes else 0.0


class FileRows:
    """Rows that lie one after the other in a file. Threads may share it.

    Args:
        path: the file, which must not change while it is open.
        offset: of row 0.
        shape: ``(num_rows, ...)``; neither rows nor their items may be none.
        code: of the dtype.
        memory: bytes for everything, ``hot`` included, which its owner keeps for pickles.
        hot: rows that stay in the cache, the most important first.
        hot_percent: part of the cache that they may take.
        tier: ``uring``, ``pread`` or ``auto``.

    Raises:
        InvalidArgumentError: among others a memory that is too small; the message has the least.
        TruncatedFileError: the file ends before its last row.
    """

    __slots__ = ("_handle", "_hot_bytes", "_row_bytes", "code", "path")

    def __init__(
        self, path: Path, offset: int, shape: tuple[int, ...], code: int, memory: int, *,
        hot: NDArray[np.int64] | None = None, hot_percent: int = 0, tier: str = "auto",
        progress: Progress | None = None,
    ) -> None:  # fmt: skip
        text, encoded = encode_path(path)
        self.path = os.path.abspath(text)
        self.code = code
        options = ffi.new("aether_row_options *")
        options.offset = offset
        options.num_rows = shape[0]
        options.row_items = int(np.prod(shape[1:], dtype=np.int64))
        self._hot_bytes = 0 if hot is None else hot.nbytes
        options.memory = max(0, min(memory, (1 << 63) - 1) - self._hot_bytes)
        options.dtype = code
        options.tier = IO_TIERS[tier]
        options.hot_percent = hot_percent
        lent = None if hot is None else ffi.from_buffer("int64_t[]", hot)
        if hot is not None:
            options.hot, options.num_hot = lent, len(hot)
        out, err = ffi.new("aether_row_file **"), new_error()

        def call(task: Task | None) -> None:
            code = lib.aether_row_open(encoded, options, lend(task, total), out, err)
            if code:
                try:
                    raise_error(code, err, text)
                except InvalidArgumentError as error:
                    if self._hot_bytes:
                        beside = f"{error}, beside {self._hot_bytes} for the list of hot rows"
                        raise InvalidArgumentError(beside) from None
                    raise

        self._row_bytes = options.row_items * int(lib.aether_dtype_size(code))
        total = 0 if hot is None else len(hot) * self._row_bytes
        run_long(call, progress, total)
        self._handle = ffi.gc(out[0], lib.aether_row_close, memory)

    def gather(
        self, ids: NDArray[Any], out: NDArray[Any], out_code: int, task: Task | None = None
    ) -> None:
        """``out[i] = rows[ids[i]]``; ``ids`` int64 or uint32, ``out`` contiguous and writable."""
        err = new_error()
        code = lib.aether_row_gather(
            self._handle,
            ffi.from_buffer(ids),
            ids.itemsize,
            ids.shape[0],
            ffi.from_buffer(out),
            out.nbytes,
            out_code,
            lend(task, out.nbytes),
            err,
        )
        if code:
            raise_error(code, err, self.path)

    def plan(self, ids: NDArray[np.int64], ends: NDArray[np.uint64]) -> NativePlan:
        """Announce gathers; the arguments are those of :class:`NativePlan`."""
        return NativePlan(self, ids, ends)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """An array that rows can be read into directly, or None where that gains nothing."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if size < _DIRECT_BYTES or self._row_bytes % 512:
            return None
        return buffer_alloc(size).view(dtype).reshape(shape)

    def stats(self) -> RowStats:
        """Counts since the file was opened, of all threads of this process."""
        found = ffi.new("aether_row_stats *")
        lib.aether_row_count(self._handle, found)
        return RowStats(
            rows=found.rows,
            hits=found.hits,
            reads=found.reads,
            direct_rows=found.direct_rows,
            device_reads=found.device_reads,
            device_bytes=found.device_bytes,
            wanted_bytes=(found.rows - found.hits) * self._row_bytes,
            wait_seconds=found.wait_ns / 1e9,
            frames=found.frames,
            frames_held=found.frames_held,
            hot_frames=found.hot_frames,
            inserted=found.inserted,
            evicted=found.evicted,
            frame_rows=found.frame_rows,
            budget=found.budget + self._hot_bytes,
            used=found.cache_bytes + found.work_bytes + self._hot_bytes,
            tier=IO_TIER_NAMES[found.tier],
            direct=bool(found.direct),
        )


class PlanStats(NamedTuple):
    """What a plan comes to; see :class:`aethergraph._row_plan.RowPlan`."""

    rows: int
    hits: int
    frames_read: int
    frames_lent: int
    bytes: int


class NativePlan:
    """Gathers of rows of a file that are known ahead. One thread at a time.

    Args:
        rows: the file.
        ids: contiguous int64, of all gathers; nobody changes them any more.
        ends: uint64, where the ids of each gather end.

    Raises:
        OutOfRangeError: the first id that is no row; its position is that in ``ids``.
        LimitError: more rows than can be planned.
    """

    __slots__ = ("_handle", "_ids", "_rows")

    def __init__(self, rows: FileRows, ids: NDArray[np.int64], ends: NDArray[np.uint64]) -> None:
        out, err = ffi.new("aether_row_plan **"), new_error()
        lent = ffi.from_buffer("uint64_t[]", ids)
        code = lib.aether_row_plan_create(
            rows._handle, lent, ffi.from_buffer("uint64_t[]", ends), len(ends), out, err
        )
        if code:
            raise_error(code, err, rows.path)
        self._rows = rows
        self._ids = lent
        self._handle = ffi.gc(out[0], lib.aether_row_plan_destroy)

    def gather(self, out: NDArray[Any], out_code: int, task: Task | None = None) -> None:
        """The rows of the next ids; ``out`` is contiguous and writable."""
        err = new_error()
        code = lib.aether_row_plan_gather(
            self._handle, ffi.from_buffer(out), out.nbytes, out_code, lend(task, out.nbytes), err
        )
        if code:
            raise_error(code, err, self._rows.path)

    def stats(self) -> PlanStats:
        """Of all gathers, also those to come."""
        found = ffi.new("aether_row_plan_stats *")
        lib.aether_row_plan_count(self._handle, found)
        return PlanStats(found.rows, found.hits, found.frames_read, found.frames_lent, found.bytes)

    def close(self) -> None:
        """Give the cache back."""
        ffi.release(self._handle)
