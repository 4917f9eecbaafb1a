"""Rows that change while they are read, in slots of memory or a file (``native/src/slots``)."""

from __future__ import annotations

import math
import os
from time import monotonic
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import Ids, Path, ffi, lib, new_error, raise_error
from aethergraph._native.files import encode_path
from aethergraph._native.memory import view_memory
from aethergraph._native.tasks import Task, lend
from aethergraph.errors import WriterGoneError

#: Word for what a row is that nobody has written -> the number of the core.
MISSING: Final[dict[str, int]] = {
    "error": lib.AETHER_MISSING_ERROR,
    "zero": lib.AETHER_MISSING_ZERO,
    "nan": lib.AETHER_MISSING_NAN,
}
MOST_DIMENSIONS: Final[int] = lib.AETHER_TABLE_DIMS
#: Seconds between two looks of a reader at whether what it reads is still there.
LOOK_SECONDS = 0.01


class SlotLayout(NamedTuple):
    """Facts of a table of slots, which never change.

    Attributes:
        num_rows: number of slots.
        row_shape: shape of a row.
        code: native code of the stored dtype.
        is_scaled: True if a row is a float32 factor and int8 elements.
        tick: nanoseconds that a version counts; 0: versions are no times.
        row_bytes: bytes of a row as it is stored, the factor included.
        stride: bytes from slot to slot.
        generation: 16 random bytes that no other table has.
    """

    num_rows: int
    row_shape: tuple[int, ...]
    code: int
    is_scaled: bool
    tick: int
    row_bytes: int
    stride: int
    generation: bytes

    @property
    def row_items(self) -> int:
        """Number of elements of a row."""
        return math.prod(self.row_shape)


class LiveSlots:
    """Rows by id that any number of threads and processes write and read.

    Use :meth:`create`, :meth:`open` or :meth:`attach`.

    Attributes:
        missing: number of :data:`MISSING`, what a gather makes of rows that nobody has written.
        check: True: a gather compares checksums, too.
    """

    __slots__ = (
        "_file", "_handle", "_next_look", "_options", "check", "code", "layout", "missing", "path",
        "writable",
    )  # fmt: skip

    def __init__(
        self, handle: Any, path: str | None, writable: bool, *, is_made: bool = False
    ) -> None:
        self._handle = ffi.gc(handle, lib.aether_table_close)
        self.path, self.writable = path, writable
        status = os.fstat(self.descriptor)
        # Who made it has what it made, and memory has no name that could be taken away.
        is_followed = not is_made and (path is not None or status.st_nlink > 0)
        self._file = (status.st_dev, status.st_ino) if is_followed else None
        self._next_look = 0.0
        info = ffi.new("aether_table_info *")
        lib.aether_table_describe(handle, info)
        scaled = bool(info.flags & lib.AETHER_TABLE_SCALED)
        self.layout = SlotLayout(
            info.num_rows, tuple(info.shape[0 : info.num_dims]), info.dtype, scaled, info.tick,
            info.row_bytes, info.stride, bytes(info.generation),
        )  # fmt: skip
        self.code: int = lib.AETHER_F32 if scaled else info.dtype
        self._options: dict[tuple[int, int, bool], Any] = {}
        self.missing: int = lib.AETHER_MISSING_ERROR
        self.check = False

    @classmethod
    def create(
        cls, path: Path | None, num_rows: int, row_shape: tuple[int, ...], code: int, *,
        is_scaled: bool = False, tick: int = 0,
    ) -> LiveSlots:  # fmt: skip
        """Make a table without rows written, in a new file or (None) in shared memory.

        Raises:
            StorageError: the file exists, or cannot be made.
            DiskFullError: the disk has no room for all rows.
        """
        info = ffi.new("aether_table_info *")
        info.num_rows, info.dtype, info.tick = num_rows, code, tick
        info.num_dims = len(row_shape)
        info.shape = list(row_shape)
        info.flags = lib.AETHER_TABLE_SCALED if is_scaled else 0
        text, encoded = (None, ffi.NULL) if path is None else encode_path(path)
        out, err = ffi.new("aether_table **"), new_error()
        code = lib.aether_table_create(encoded, info, out, err)
        if code:
            raise_error(code, err, text)
        return cls(out[0], None if text is None else os.path.abspath(text), True, is_made=True)

    @classmethod
    def open(cls, path: Path, writable: bool) -> LiveSlots:
        """Open the table in a file."""
        text, encoded = encode_path(path)
        out, err = ffi.new("aether_table **"), new_error()
        code = lib.aether_table_open(encoded, writable, out, err)
        if code:
            raise_error(code, err, text)
        return cls(out[0], os.path.abspath(text), writable)

    @classmethod
    def attach(cls, descriptor: int, writable: bool) -> LiveSlots:
        """Open the table behind a descriptor, which is duplicated."""
        out, err = ffi.new("aether_table **"), new_error()
        code = lib.aether_table_attach(descriptor, writable, out, err)
        if code:
            raise_error(code, err)
        return cls(out[0], None, writable)

    def use_huge_pages(self) -> None:
        """Let puts take huge pages, if these are rows in shared memory; before the first put."""
        lib.aether_table_use_huge_pages(self._handle)

    @property
    def descriptor(self) -> int:
        """Descriptor of the file or memory; it stays the table's."""
        return int(lib.aether_table_descriptor(self._handle))

    def look(self) -> str | None:
        """Return what became of the file that was opened, for a message; None: it is there."""
        if self._file is None:
            return None
        try:
            status = os.fstat(self.descriptor) if self.path is None else os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return "was deleted"
        except OSError:  # nobody can tell, as after a change of user
            return None
        if not status.st_nlink:
            return "was deleted"
        return None if (status.st_dev, status.st_ino) == self._file else "was replaced by another"

    def _check_file(self) -> None:
        """Raise WriterGoneError unless the file that was opened is there."""
        if self._file is None or monotonic() < self._next_look:
            return
        gone = self.look()
        if gone is not None:
            place = "" if self.path is None else f"{self.path}: "
            raise WriterGoneError(
                f"{place}the file of this live feature table {gone}, so no put of others is seen "
                "here any more: once a table is in its place, LiveFeatureTable.open(path) or "
                ".attach(descriptor) reads that one"
            )
        self._next_look = monotonic() + LOOK_SECONDS

    @property
    def slots(self) -> NDArray[np.uint8]:
        """All slots as they are in memory, read-only ``[num_rows, stride]``."""
        address = int(ffi.cast("uintptr_t", lib.aether_table_slots(self._handle)))
        shape = (self.layout.num_rows, self.layout.stride)
        return view_memory(address, shape, np.dtype(np.uint8), self._handle)

    def put(
        self, ids: Ids, rows: NDArray[Any], versions: Ids | None, task: Task | None = None
    ) -> int:
        """Write rows, which are contiguous and as they are stored; return how many were written."""
        self._check_file()
        written, err = ffi.new("uint64_t *"), new_error()
        code = lib.aether_table_put(
            self._handle, ffi.from_buffer("int64_t[]", ids), len(ids), ffi.from_buffer(rows),
            rows.nbytes, ffi.NULL if versions is None else ffi.from_buffer("int64_t[]", versions),
            written, lend(task, rows.nbytes), err,
        )  # fmt: skip
        if code:
            raise_error(code, err, self.path)
        return int(written[0])

    def gather(
        self, ids: NDArray[Any], out: NDArray[Any], out_code: int, task: Task | None = None
    ) -> None:
        """Set ``out[i]`` to row ``ids[i]``, in the dtype of code ``out_code``."""
        self._check_file()
        err, key = new_error(), (out_code, self.missing, self.check)
        options = self._options.get(key)
        if options is None:  # made once: nobody writes to it
            options = ffi.new("aether_table_gather_options *")
            options.dtype, options.missing = out_code, self.missing
            options.flags = lib.AETHER_TABLE_CHECK if self.check else 0
            self._options[key] = options
        numbers = ids if ids.dtype == np.int64 else ids.astype(np.int64)
        code = lib.aether_table_gather(
            self._handle, ffi.from_buffer("int64_t[]", numbers), len(numbers),
            ffi.from_buffer(out), out.nbytes, options, lend(task, out.nbytes), err,
        )  # fmt: skip
        if code:
            raise_error(code, err, self.path)

    def versions(self, ids: Ids, task: Task | None = None) -> Ids:
        """Return the versions of rows; -1: never written."""
        self._check_file()
        out, err = np.empty(len(ids), np.int64), new_error()
        code = lib.aether_table_versions(
            self._handle, ffi.from_buffer("int64_t[]", ids), len(ids),
            ffi.from_buffer("int64_t[]", out), lend(task, out.nbytes), err,
        )  # fmt: skip
        if code:
            raise_error(code, err, self.path)
        return out
