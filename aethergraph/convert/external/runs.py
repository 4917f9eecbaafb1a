"""Records on disk, in runs that are partitioned by a key.

A run is as many records as memory holds, partitioned by ranges of the key::

    run 0   | part 0 | part 1 | ... | part 1023 |      in the order of the input
    run 1   | part 0 | part 1 | ... | part 1023 |      within a part

Part p of all runs together, run after run, holds all records of its key range; records with equal
keys are in the order of the input. The ranges are powers of two; later runs may have wider ones, as
larger keys appear.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._parallel.threads import ThreadPool
from aethergraph.convert.external.damage import WorkFileError
from aethergraph.errors import LimitError
from aethergraph.storage.scratch import storage_error

__all__ = [
    "Columns",
    "PARTS",
    "Part",
    "Run",
    "RunWriter",
    "Spill",
    "append_bytes",
    "load_runs",
    "save_counts",
]

PARTS = 1024
_MOST_BYTES = 1 << 16  # of a record, in native/src/build/records.c too
_MOST_ROOM = 256 << 20  # larger runs only leave less memory for the page cache
Records = NDArray[Any]
#: (name, dtype, items per row) of the values of a record beside its ids.
Columns = Sequence[tuple[str, np.dtype[Any], int]]


@dataclass(frozen=True)
class Run:
    """Records that were partitioned together.

    Attributes:
        offset: position of the run in the file, in bytes.
        count: number of records.
        id_bytes: bytes per id.
        shift: part = (key - low) >> shift.
        counts: records per part, uint64 [PARTS].
        sums: checksum of each part (:func:`aethergraph._native.hash_parts`), uint64 [PARTS];
            None if reads are not checked.
    """

    offset: int
    count: int
    id_bytes: int
    shift: int
    counts: NDArray[np.uint64]
    sums: NDArray[np.uint64] | None = None

    def sum_of(self, first: int, count: int) -> int | None:
        """Return the checksum of whole parts, ``count`` records from ``first`` on.

        None means that checksums are not kept.
        """
        if self.sums is None:
            return None
        ends = np.cumsum(self.counts)
        parts = slice(
            int(np.searchsorted(ends, np.uint64(first), "right")),
            int(np.searchsorted(ends, np.uint64(first + count), "right")),
        )
        return int(self.sums[parts].sum())


@dataclass(frozen=True)
class Part:
    """Records with keys ``low .. end - 1``: their number, and their places in runs.

    Attributes:
        low: the smallest key.
        end: the largest key + 1.
        count: number of records.
        pieces: (run, first record, number of records) of each place.
    """

    low: int
    end: int
    count: int
    pieces: tuple[tuple[int, int, int], ...]


def append_bytes(file: int, path: str, data: NDArray[Any], offset: int) -> None:
    """Write an array at ``offset``.

    Raises:
        StorageError: no space, or another failure of the system.
    """
    view = data.reshape(-1).view(np.uint8).data
    try:
        while view:
            done = os.pwrite(file, view[: 1 << 30], offset)
            view, offset = view[done:], offset + done
    except OSError as error:
        raise storage_error(error, path) from None


class Spill:
    """File of runs.

    Args:
        path: path of the file.
        field: name of the key field.
        columns: values of a record beside its ids.
        low: the smallest key.
        checked: compare reads with checksums of what was written, for files that outlive the
            process.

    Raises:
        StorageError: the file cannot be opened.
    """

    def __init__(
        self, path: str, field: str, columns: Columns, low: int = 0, *, checked: bool = False
    ) -> None:
        self.path = path
        self._checked = checked
        self.field = field
        self.columns = columns
        self.low = low
        self.runs: list[Run] = []
        self.size = 0
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise storage_error(error, path) from None

    def dtype(self, id_bytes: int) -> np.dtype[Any]:
        """Return the dtype of records with ids of ``id_bytes`` bytes."""
        return native.record_dtype(id_bytes, self.columns)

    def append(self, records: Records, shift: int, counts: NDArray[np.uint64]) -> Run:
        """Write a partitioned run."""
        id_bytes = records.dtype["major"].itemsize
        append_bytes(self._file, self.path, records, self.size)
        sums = native.hash_parts(records, counts) if self._checked else None
        run = Run(self.size, len(records), id_bytes, shift, counts, sums)
        self.runs.append(run)
        self.size += records.nbytes
        return run

    def sync(self) -> None:
        """Make the appended runs durable; the kernel can then take back its cached pages."""
        try:
            os.fdatasync(self._file)
        except OSError as error:
            raise storage_error(error, self.path) from None

    def restore(self, runs: Sequence[Run]) -> None:
        """Continue after ``runs``: cut off what was written after them.

        Raises:
            WorkFileError: the file is shorter than the runs.
        """
        self.runs = list(runs)
        self.size = 0
        if runs:
            last = runs[-1]
            self.size = last.offset + last.count * self.dtype(last.id_bytes).itemsize
        if os.fstat(self._file).st_size < self.size:
            raise WorkFileError(self.path, "is shorter than the build recorded")
        os.ftruncate(self._file, self.size)

    @property
    def shift(self) -> int:
        """Shift of the widest parts."""
        return max((run.shift for run in self.runs), default=0)

    @property
    def id_bytes(self) -> int:
        """Bytes per id of the widest ids."""
        return max((run.id_bytes for run in self.runs), default=4)

    def parts(self, end: int) -> list[Part]:
        """Return all parts of the keys below ``end``, by ascending key, empty ones too."""
        if end <= self.low:
            return []
        shift = self.shift
        number = min(((end - 1 - self.low) >> shift) + 1, PARTS)  # no larger key was written
        table = np.zeros((len(self.runs), number), np.uint64)
        for row, run in enumerate(self.runs):
            starts = np.arange(0, PARTS, 1 << (shift - run.shift))
            merged = np.add.reduceat(run.counts, starts)[:number]
            table[row, : len(merged)] = merged
        firsts = np.cumsum(table, axis=1) - table
        parts = []
        for part in range(number):
            counts = table[:, part]
            pieces = tuple(
                (int(run), int(firsts[run, part]), int(counts[run]))
                for run in np.flatnonzero(counts)
            )
            low = self.low + (part << shift)
            parts.append(Part(low, min(end, low + (1 << shift)), int(counts.sum()), pieces))
        return parts

    def read(self, pieces: Sequence[tuple[int, int, int]]) -> Records:
        """Read the records of some pieces, whole parts of runs, one after the other.

        Raises:
            WorkFileError: they are not what was written.
        """
        count = sum(count for *_, count in pieces)
        out = native.mapped_empty(count, self.dtype(self.id_bytes))
        done = 0
        for run, first, count in pieces:
            checksum = self._read_piece(run, first, out[done : done + count])
            self._compare(run, first, count, checksum)
            done += count
        return out

    def _read_piece(self, run_number: int, first: int, out: Records) -> int:
        """Fill ``out`` from record ``first`` of a run on; return the checksum of what was read."""
        run = self.runs[run_number]
        dtype = self.dtype(run.id_bytes)
        stored = out if dtype == out.dtype else native.mapped_empty(len(out), dtype)
        self._read_into(stored, run.offset + first * dtype.itemsize)
        if stored is not out:
            out[:] = stored.astype(out.dtype)
        return 0 if run.sums is None else native.hash_items(stored, first)

    def _compare(self, run: int, first: int, count: int, checksum: int) -> None:
        expected = self.runs[run].sum_of(first, count)
        if expected is not None and checksum % 2**64 != expected:
            raise WorkFileError(
                self.path,
                f"run {run} has other bytes in its records {first:,} to {first + count - 1:,} than "
                "were written",
            )

    def discard(self, end: int) -> None:
        """Free the disk space of all parts whose keys are below ``end``.

        They are not read again.
        """
        for run in self.runs:
            parts = min((end - self.low) >> run.shift, PARTS)
            size = int(run.counts[:parts].sum()) * self.dtype(run.id_bytes).itemsize
            native.discard(self._file, run.offset, size)

    def stream(self, part: Part, at_once: int) -> Iterator[Records]:
        """Yield the records of a part in order, at most ``at_once`` at a time."""
        dtype = self.dtype(self.id_bytes)
        for run, first, count in part.pieces:
            checksum = 0
            for begin in range(0, count, at_once):
                out = native.mapped_empty(min(at_once, count - begin), dtype)
                checksum += self._read_piece(run, first + begin, out)
                if begin + at_once >= count:
                    self._compare(run, first, count, checksum)
                yield out

    def _read_into(self, out: Records, offset: int) -> None:
        view = out.view(np.uint8).data
        try:
            while view:
                done = os.preadv(self._file, [view[: 1 << 30]], offset)
                if done == 0:
                    raise WorkFileError(self.path, f"ends at byte {offset}")
                view, offset = view[done:], offset + done
        except OSError as error:
            raise storage_error(error, self.path) from None

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def remove(self) -> None:
        """Close and delete the file."""
        self.close()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()


class RunWriter:
    """Buffer of records in memory, whose full runs are written in another thread.

    Args:
        spill: the file that runs are appended to.
        memory: bytes for two runs: one that is filled, one that is written.
        high: the largest key, if it is known; else parts widen as keys grow.
        id_bytes: bytes per id to begin with; ids widen to 8 bytes where needed.
        recorded: called in the writing thread with each durable run and the position that was
            given to :meth:`at` when it was full; None: nothing is made durable.

    Raises:
        LimitError: a record has too many bytes.
    """

    def __init__(
        self,
        spill: Spill,
        memory: int,
        *,
        high: int | None = None,
        id_bytes: int = 4,
        recorded: Callable[[Run, Any], None] | None = None,
    ) -> None:
        self._spill = spill
        if spill.dtype(id_bytes).itemsize > _MOST_BYTES:
            raise LimitError(
                f"the values of a row and its ids have {spill.dtype(id_bytes).itemsize:,} bytes: "
                f"rows of at most {_MOST_BYTES:,} are sorted on disk; use fewer columns or a "
                "narrower type, or convert without a memory budget"
            )
        self._room = max(min(memory // 2, _MOST_ROOM), spill.dtype(8).itemsize)
        self._full = native.buffer_alloc(self._room)
        self._sorted = native.buffer_alloc(self._room)
        self._fixed = high is not None
        self._high = spill.low if high is None else high
        self._shift = spill.shift
        self._recorded = recorded
        self._position: Any = None
        self._pool = ThreadPool(1, "aethergraph-spill")
        self._job: Future[None] | None = None
        self._use_ids(max(id_bytes, spill.id_bytes))

    def _use_ids(self, id_bytes: int) -> None:
        self._id_bytes = id_bytes
        dtype = self._spill.dtype(id_bytes)
        self._capacity = self._room // dtype.itemsize
        self._records = self._full[: self._capacity * dtype.itemsize].view(dtype)
        self._count = 0

    def add(
        self, major: native.Ids, minor: native.Ids, columns: Sequence[NDArray[Any]], largest: int
    ) -> None:
        """Add rows keyed by their major ids; ``largest`` is the largest id in them."""
        if largest > 0xFFFFFFFF and self._id_bytes == 4:
            self._flush()
            self._use_ids(8)
        if self._count + len(major) > self._capacity:
            self._flush()
        if not self._fixed and len(major):
            self._high = max(self._high, int(major.max()))
        self._position = None  # the rows may be in the middle of a chunk
        for begin in range(0, len(major), self._capacity):
            if begin:
                self._flush()
            rows = slice(begin, min(begin + self._capacity, len(major)))
            out = self._records[self._count : self._count + rows.stop - begin]
            native.pack_records(major[rows], minor[rows], [c[rows] for c in columns], out)
            self._count += len(out)

    def add_records(self, records: Records) -> None:
        """Add records of the spill's own dtype; needs ``high``."""
        begin = 0
        while begin < len(records):
            if self._count == self._capacity:
                self._flush()
            some = records[begin : begin + self._capacity - self._count]
            self._records[self._count : self._count + len(some)] = some
            self._count += len(some)
            begin += len(some)

    def at(self, position: Any) -> None:
        """Note that all records added so far end at ``position`` of the input."""
        self._position = position

    def _flush(self) -> None:
        if self._count == 0:
            return
        self._wait()
        while (self._high - self._spill.low) >> self._shift >= PARTS:
            self._shift += 1
        records, shift = self._records[: self._count], self._shift
        dtype = records.dtype
        out = self._sorted[: records.nbytes].view(dtype)
        counts = native.partition_records(
            records, self._spill.field, self._spill.low, shift, PARTS, out
        )
        self._count = 0
        self._job = self._pool.submit(self._write, out, shift, counts, self._position)

    def _write(
        self, records: Records, shift: int, counts: NDArray[np.uint64], position: Any
    ) -> None:  # fmt: skip
        run = self._spill.append(records, shift, counts)
        if self._recorded is not None:
            self._spill.sync()
            self._recorded(run, position)

    def _wait(self) -> None:
        if self._job is not None:
            job, self._job = self._job, None
            job.result()

    def close(self, *, finish: bool = True) -> None:
        """Write the remaining records and free the memory."""
        try:
            if finish:
                self._flush()
            self._wait()
        finally:
            self._pool.shutdown(wait=True)
            self._full = self._sorted = self._records = np.empty(0, np.uint8)


def save_counts(path: str, number: int, run: Run) -> list[int]:
    """Save counts and checksums of the parts of run ``number`` in a file, durably.

    Returns:
        The row of the run for :func:`load_runs`.
    """
    assert run.sums is not None
    table = np.concatenate([run.counts, run.sums])
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            append_bytes(file, path, table, number * table.nbytes)
            os.fdatasync(file)
        finally:
            os.close(file)
    except OSError as error:
        raise storage_error(error, path) from None
    return [run.offset, run.count, run.id_bytes, run.shift, native.hash_items(table)]


def load_runs(path: str, rows: Sequence[Sequence[int]]) -> list[Run]:
    """Restore runs from the rows that :func:`save_counts` gave and the file that it wrote.

    Raises:
        WorkFileError: the file is missing or damaged.
    """
    if not rows:
        return []
    try:
        words = np.fromfile(path, np.uint64, len(rows) * 2 * PARTS)
    except FileNotFoundError:
        raise WorkFileError(path, "is missing") from None
    if len(words) < len(rows) * 2 * PARTS:
        raise WorkFileError(path, "is shorter than the build recorded")
    runs = []
    for number, (*shape, checksum) in enumerate(rows):
        table = words[number * 2 * PARTS :][: 2 * PARTS]
        if native.hash_items(table) != checksum:
            raise WorkFileError(path, f"has other counts of run {number} than were written")
        offset, count, id_bytes, shift = shape
        runs.append(Run(offset, count, id_bytes, shift, table[:PARTS], table[PARTS:]))
    return runs
