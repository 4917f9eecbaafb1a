"""Rows of a file, gathered through a cache within a number of bytes (``rows/row_file``)."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import Path, ffi, lib, new_error, raise_error
from aethergraph._native.files import encode_path
from aethergraph._native.io import IO_TIER_NAMES, IO_TIERS
from aethergraph._native.lists import RowRequests
from aethergraph._native.memory import buffer_alloc
from aethergraph._native.tasks import Progress, Task, lend, run_long
from aethergraph.errors import InvalidArgumentError

#: A smaller result is copied in less time than memory for direct reads is allocated.
_DIRECT_BYTES = 128 << 10


class RowStats(NamedTuple):
    """Counts of gathering rows of a file since it was opened in this process.

    Attributes:
        rows: rows requested.
        hits: rows found in the cache.
        reads: ranges read for the other rows; a range serves rows that are near each other.
        direct_rows: rows read straight into the result, without a copy.
        device_reads: reads from the operating system.
        device_bytes: bytes of these reads.
        wanted_bytes: bytes of the rows that the cache did not have, including duplicates.
        wait_seconds: time that threads spent waiting for the operating system.
        frames: rows, or groups of ``frame_rows`` small rows, that the cache has room for.
        frames_held: frames in use, including the hot ones.
        hot_frames: frames of the hot set, which are pinned.
        inserted: frames that entered the dynamic part of the cache.
        evicted: frames that left the dynamic part of the cache.
        frame_rows: rows in a frame; 1 if a row has 256 bytes or more.
        budget: bytes of the memory budget.
        used: most bytes that the cache, its index, the list of hot rows, concurrent reads and
            sorting take of the budget.
        tier: ``"uring"`` or ``"pread"``, the way of reading.
        direct: True if reads go past the page cache.
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
        """Number of rows that the cache did not have."""
        return self.rows - self.hits

    @property
    def hit_rate(self) -> float:
        """Share of rows found in the cache, ``hits / rows``; 0.0 before the first request."""
        return self.hits / self.rows if self.rows else 0.0

    @property
    def amplification(self) -> float:
        """Bytes read per byte wanted, ``device_bytes / wanted_bytes``; duplicates lower it."""
        return self.device_bytes / self.wanted_bytes if self.wanted_bytes else 0.0


class FileRows:
    """Rows that lie one after the other in a file. Threads may share it.

    Args:
        path: the file, which must not change while it is open.
        offset: byte offset of row 0.
        shape: ``(num_rows, ...)``; no extent may be 0.
        code: dtype code of the rows.
        memory: bytes for everything, including ``hot``, which its owner keeps for pickles.
        hot: rows that stay in the cache, the most important first.
        hot_percent: most percent of the cache for hot rows.
        tier: ``uring``, ``pread`` or ``auto``.
        progress: called with (bytes done, total bytes) while hot rows are read.

    Raises:
        InvalidArgumentError: an argument is invalid; for too little memory the message names the
            minimum.
        TruncatedFileError: the file ends before its last row.
    """

    __slots__ = ("_handle", "_hot_bytes", "_requests", "_row_bytes", "code", "path")

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
        self._requests = RowRequests()
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
                        message = f"{error}, beside {self._hot_bytes} for the list of hot rows"
                        raise InvalidArgumentError(message) from None
                    raise

        self._row_bytes = options.row_items * int(lib.aether_dtype_size(code))
        total = 0 if hot is None else len(hot) * self._row_bytes
        run_long(call, progress, total)
        self._handle = ffi.gc(out[0], lib.aether_row_close, memory)

    def gather(
        self, ids: NDArray[Any], out: NDArray[Any], out_code: int, task: Task | None = None
    ) -> None:
        """Set ``out[i] = rows[ids[i]]``; ``ids`` int64 or uint32, ``out`` contiguous, writable."""
        request, err = call = self._requests.take()
        lent, room = ffi.from_buffer(ids), ffi.from_buffer(out)
        request.ids, request.n, request.id_bytes = lent, ids.shape[0], ids.itemsize
        request.out, request.out_size, request.out_dtype = room, out.nbytes, out_code
        code = lib.aether_row_gather(self._handle, request, lend(task, out.nbytes), err)
        if code:
            raise_error(code, err, self.path)
        self._requests.give_back(call)

    def plan(self, ids: NDArray[np.int64], ends: NDArray[np.uint64]) -> NativePlan:
        """Return a plan of announced gathers; the arguments are those of :class:`NativePlan`."""
        return NativePlan(self, ids, ends)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """Return an array that rows can be read into directly; None if that gains nothing."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if size < _DIRECT_BYTES or self._row_bytes % 512:
            return None
        return buffer_alloc(size).view(dtype).reshape(shape)

    def stats(self) -> RowStats:
        """Return counts since the file was opened, over all threads of this process."""
        counts = ffi.new("aether_row_stats *")
        lib.aether_row_count(self._handle, counts)
        return RowStats(
            rows=counts.rows,
            hits=counts.hits,
            reads=counts.reads,
            direct_rows=counts.direct_rows,
            device_reads=counts.device_reads,
            device_bytes=counts.device_bytes,
            wanted_bytes=(counts.rows - counts.hits) * self._row_bytes,
            wait_seconds=counts.wait_ns / 1e9,
            frames=counts.frames,
            frames_held=counts.frames_held,
            hot_frames=counts.hot_frames,
            inserted=counts.inserted,
            evicted=counts.evicted,
            frame_rows=counts.frame_rows,
            budget=counts.budget + self._hot_bytes,
            used=counts.cache_bytes + counts.work_bytes + self._hot_bytes,
            tier=IO_TIER_NAMES[counts.tier],
            direct=bool(counts.direct),
        )


class PlanStats(NamedTuple):
    """Totals over a whole plan; see :class:`aethergraph.features.plan.RowPlan`."""

    rows: int
    hits: int
    frames_read: int
    frames_lent: int
    bytes: int


class NativePlan:
    """Gathers of rows of a file that are known ahead. One thread at a time.

    Args:
        rows: the rows of the file.
        ids: contiguous int64, the ids of all gathers; not to be changed afterwards.
        ends: uint64, the end of each gather in ``ids``.

    Raises:
        OutOfRangeError: an id is not a row; has the position of the first one in ``ids``.
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
        """Copy the rows of the next ids to ``out``, which is contiguous and writable."""
        err = new_error()
        code = lib.aether_row_plan_gather(
            self._handle, ffi.from_buffer(out), out.nbytes, out_code, lend(task, out.nbytes), err
        )
        if code:
            raise_error(code, err, self._rows.path)

    def stats(self) -> PlanStats:
        """Return totals over the whole plan, including gathers not executed yet."""
        counts = ffi.new("aether_row_plan_stats *")
        lib.aether_row_plan_count(self._handle, counts)
        return PlanStats(
            counts.rows, counts.hits, counts.frames_read, counts.frames_lent, counts.bytes
        )

    def close(self) -> None:
        """Give the cache back."""
        ffi.release(self._handle)
