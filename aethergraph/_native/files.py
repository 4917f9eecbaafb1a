"""Container files: mapping, checking, writing."""

from __future__ import annotations

import math
import os
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from aethergraph import errors
from aethergraph._checks.options import shown
from aethergraph._native.core import ARRAY_DTYPES, Path, ffi, lib, new_error, raise_error
from aethergraph._native.memory import address_of, view_memory
from aethergraph._native.tasks import Task, lend, run_task

T = TypeVar("T", bound="NewFile")

CONTENT_GRAPH: Final[int] = lib.AETHER_CONTENT_GRAPH
CONTENT_FEATURES: Final[int] = lib.AETHER_CONTENT_FEATURES
CONTENT_KEYS: Final[int] = lib.AETHER_CONTENT_KEYS

SECTION_META: Final[int] = lib.AETHER_SECTION_META
SECTION_CSC_INDPTR: Final[int] = lib.AETHER_SECTION_CSC_INDPTR
SECTION_CSC_INDICES: Final[int] = lib.AETHER_SECTION_CSC_INDICES
SECTION_CSR_INDPTR: Final[int] = lib.AETHER_SECTION_CSR_INDPTR
SECTION_CSR_INDICES: Final[int] = lib.AETHER_SECTION_CSR_INDICES
SECTION_CSR_EDGE_IDS: Final[int] = lib.AETHER_SECTION_CSR_EDGE_IDS
SECTION_EDGE_ORDER: Final[int] = lib.AETHER_SECTION_EDGE_ORDER
SECTION_EDGE_WEIGHT: Final[int] = lib.AETHER_SECTION_EDGE_WEIGHT
SECTION_EDGE_TIME: Final[int] = lib.AETHER_SECTION_EDGE_TIME
SECTION_NODE_TIME: Final[int] = lib.AETHER_SECTION_NODE_TIME
SECTION_ARRAY: Final[int] = lib.AETHER_SECTION_ARRAY
SECTION_CSC_BLOCKS: Final[int] = lib.AETHER_SECTION_CSC_BLOCKS
SECTION_CSC_INDEX: Final[int] = lib.AETHER_SECTION_CSC_INDEX
SECTION_CSR_BLOCKS: Final[int] = lib.AETHER_SECTION_CSR_BLOCKS
SECTION_CSR_INDEX: Final[int] = lib.AETHER_SECTION_CSR_INDEX
SECTION_KEY_HASHES: Final[int] = lib.AETHER_SECTION_KEY_HASHES
SECTION_KEY_BUCKETS: Final[int] = lib.AETHER_SECTION_KEY_BUCKETS
SECTION_KEY_IDS: Final[int] = lib.AETHER_SECTION_KEY_IDS
SECTION_KEY_PLACES: Final[int] = lib.AETHER_SECTION_KEY_PLACES
SECTION_KEY_OFFSETS: Final[int] = lib.AETHER_SECTION_KEY_OFFSETS
SECTION_KEY_BYTES: Final[int] = lib.AETHER_SECTION_KEY_BYTES


class Section(NamedTuple):
    """Row of a container's section table."""

    number: int
    kind: int
    owner: int
    dtype: int
    offset: int
    size: int
    checksum: int


def encode_path(path: Path) -> tuple[str, bytes]:
    """Return ``path`` as text and as the bytes that the system call takes."""
    try:
        encoded = os.fsencode(path)
    except (TypeError, UnicodeError) as error:
        raise errors.InvalidArgumentError(f"{shown(path)} is not a file name: {error}") from None
    text = os.fsdecode(encoded)
    if not encoded or b"\0" in encoded:
        raise errors.InvalidArgumentError(f"{text!r} is not a file name")
    return text, encoded


def check_shape(shape: tuple[int, ...], itemsize: int, path: str) -> None:
    """Raise FormatError for a shape that no array can have, however few items it holds."""
    extents = math.prod(extent for extent in shape if extent)
    if len(shape) > 32 or extents * itemsize >= 1 << 63:
        raise errors.FormatError(f"{path}: no array can have the shape {shape}")


class NativeFile:
    """Mapped container, or with ``raw`` any mapped file. Immutable, shared by threads."""

    __slots__ = ("_base", "_handle", "path", "raw", "size")

    def __init__(self, path: Path, *, raw: bool = False) -> None:
        self._handle: Any = None
        text, encoded = encode_path(path)
        self.path = os.path.abspath(text)
        self.raw = raw
        out = ffi.new("aether_file **")
        err = new_error()
        call = lib.aether_file_map_raw if raw else lib.aether_file_open
        code = call(encoded, out, err)
        if code:
            raise_error(code, err, text)
        self._handle = ffi.gc(out[0], lib.aether_file_close)
        self.size = int(lib.aether_file_size(self._handle))
        base = lib.aether_file_base(self._handle)
        self._base = int(ffi.cast("uintptr_t", base))

    def _live(self) -> Any:
        if self._handle is None:
            raise errors.ClosedError(f"{self.path}: the file was closed")
        return self._handle

    @property
    def content(self) -> int:
        """Kind of the content: CONTENT_GRAPH, CONTENT_FEATURES or CONTENT_KEYS."""
        return int(lib.aether_file_content(self._live()))

    def sections(self) -> list[Section]:
        """Return the rows of the section table."""
        handle = self._live()
        row = ffi.new("aether_section *")
        err = new_error()
        sections = []
        for i in range(lib.aether_file_num_sections(handle)):
            code = lib.aether_file_section(handle, i, row, err)
            if code:
                raise_error(code, err, self.path)
            sections.append(
                Section(i, row.kind, row.owner, row.dtype, row.offset, row.size, row.checksum)
            )
        return sections

    def offset_of(self, array: NDArray[Any]) -> int:
        """Return the byte offset in the file of an array that :meth:`array` returned."""
        return address_of(array) - self._base

    def section_array(self, section: Section) -> NDArray[Any]:
        """Return a section as a read-only vector that keeps the mapping alive."""
        dtype = ARRAY_DTYPES.get(section.dtype)
        if dtype is None:
            raise errors.CorruptFileError(
                f"{self.path}: section {section.number} has the unknown dtype {section.dtype}"
            )
        if section.size % dtype.itemsize:
            raise errors.CorruptFileError(
                f"{self.path}: section {section.number} of {section.size} bytes is not a whole "
                f"number of {dtype} values"
            )
        return self.array(section.offset, (section.size // dtype.itemsize,), dtype)

    def array(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a read-only array at ``offset`` of the mapping, which the array keeps alive."""
        handle = self._live()
        items = math.prod(shape)
        if offset < 0 or offset + items * dtype.itemsize > self.size:
            raise errors.TruncatedFileError(
                f"{self.path}: {items * dtype.itemsize} bytes at {offset} are past the end of the "
                f"file ({self.size} bytes)"
            )
        check_shape(shape, dtype.itemsize, self.path)
        if items == 0:
            array = np.empty(shape, dtype)
            array.flags.writeable = False
            return array
        return view_memory(self._base + offset, shape, dtype, handle)

    def verify(self, task: Task | None = None) -> None:
        """Raise CorruptFileError unless every section has its checksum."""
        err = new_error()
        code = lib.aether_file_verify(self._live(), lend(task, self.size), err)
        if code:
            raise_error(code, err, self.path)

    def check(self) -> None:
        """Raise FileChangedError if a page of the mapping could not be read any more."""
        check_handle(self._live(), self.path)

    def guard(self) -> FileGuard:
        """Return a guard to check after reads, which stays valid when this object is closed."""
        return FileGuard(self._live(), self.path)

    def close(self) -> None:
        """Drop this reference; arrays and guards that use the mapping keep it open."""
        self._handle = None

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._handle is None


class FileGuard:
    """Check whether a mapping lost pages because its file shrank."""

    __slots__ = ("_handle", "path")

    def __init__(self, handle: Any, path: str) -> None:
        self._handle = handle
        self.path = path

    def check(self) -> None:
        """Raise FileChangedError if a page of the mapping could not be read any more."""
        check_handle(self._handle, self.path)

    @property
    def descriptor(self) -> int:
        """Descriptor of the file, open for reading; it stays the guard's."""
        return int(lib.aether_file_descriptor(self._handle))

    def offset_of(self, array: NDArray[Any]) -> int:
        """Return the byte offset in the file of an array that lies in its mapping."""
        base = int(ffi.cast("uintptr_t", lib.aether_file_base(self._handle)))
        return address_of(array) - base


def check_handle(handle: Any, path: str) -> None:
    """Raise the error of ``aether_file_check``, if there is one."""
    err = new_error()  # checked only once: the file may have grown back before a second check
    code = lib.aether_file_check(handle, err)
    if code:
        raise_error(code, err, path)


class NativeWriter:
    """Writer of a container beside ``path``, which :meth:`commit` renames over ``path``.

    As a context manager the writer commits on success and leaves nothing behind on failure.

    Args:
        path: the file to write.
        content: kind of the content.
        files: set that puts the file in place, in place of leaving the ``with`` block.
    """

    __slots__ = ("_err", "_files", "_writer", "path")

    def __init__(self, path: Path, content: int, files: FileSet | None = None) -> None:
        self._writer: Any = None
        self._files = files
        text, encoded = encode_path(path)
        self.path = text
        self._err = new_error()
        out = ffi.new("aether_writer **")
        self._check(lib.aether_writer_create(encoded, content, out, self._err))
        self._writer = out[0]

    def _check(self, code: int) -> None:
        if code:
            raise_error(code, self._err, self.path)

    def _live(self) -> Any:
        if self._writer is None:
            raise errors.ClosedError(f"{self.path}: the file was already committed or given up")
        return self._writer

    def begin(self, kind: int, owner: int, dtype: int) -> None:
        """Start a section."""
        self._check(lib.aether_writer_begin(self._live(), kind, owner, dtype, self._err))

    def append(self, array: NDArray[Any] | bytes, task: Task | None = None) -> None:
        """Append the bytes of a contiguous array to the section."""
        data = ffi.from_buffer(array)
        size = len(array) if isinstance(array, bytes) else array.nbytes
        writer = self._live()
        self._check(lib.aether_writer_append(writer, data, size, lend(task, size), self._err))

    def end(self) -> None:
        """End the section."""
        self._check(lib.aether_writer_end(self._live(), self._err))

    def reserve(self, kind: int, owner: int, dtype: int, nbytes: int) -> int:
        """Reserve the place of a section, and return its number for :meth:`put`."""
        out = ffi.new("uint32_t *")
        writer = self._live()
        self._check(lib.aether_writer_reserve(writer, kind, owner, dtype, nbytes, out, self._err))
        return int(out[0])

    def put(self, section: int, array: NDArray[Any], task: Task | None = None) -> None:
        """Fill a reserved section on with a contiguous array; several may be filled in turns."""
        data, size = ffi.from_buffer(array), array.nbytes
        writer = self._live()
        self._check(lib.aether_writer_put(writer, section, data, size, lend(task, size), self._err))

    def finish(self) -> None:
        """Make the file complete and durable: what is left for :meth:`commit` is the rename."""
        self._check(lib.aether_writer_finish(self._live(), self._err))

    def commit(self) -> None:
        """Make the file durable and put it in place."""
        writer, self._writer = self._live(), None
        self._check(lib.aether_writer_commit(writer, self._err))

    def abort(self) -> None:
        """Remove the unfinished file; does nothing after :meth:`commit`."""
        writer, self._writer = self._writer, None
        if writer is not None:
            lib.aether_writer_abort(writer)

    def __enter__(self) -> NativeWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        _leave(self, self._files, kind is None)

    def __del__(self) -> None:
        self.abort()


class NativeReplacement:
    """File of any content, written beside ``path`` and renamed over ``path`` at the end.

    As a context manager it commits on success and leaves nothing behind on failure; ``files`` as
    in :class:`NativeWriter`.
    """

    __slots__ = ("_err", "_files", "_handle", "_size", "path")

    def __init__(self, path: Path, files: FileSet | None = None) -> None:
        self._handle: Any = None
        self._files = files
        self._size = 0
        text, encoded = encode_path(path)
        self.path = text
        self._err = new_error()
        out = ffi.new("aether_replace **")
        self._check(lib.aether_replace_begin(encoded, out, self._err))
        self._handle = out[0]

    def _check(self, code: int) -> None:
        if code:
            raise_error(code, self._err, self.path)

    def append(self, data: NDArray[Any] | bytes) -> None:
        """Append the bytes of ``data`` (contiguous) to the file."""
        size = len(data) if isinstance(data, bytes) else data.nbytes
        handle, lent = self._handle, ffi.from_buffer(data)
        lib.aether_guard()  # the data may be mapped
        self._check(lib.aether_replace_write(handle, lent, size, self._size, self._err))
        self._size += size

    def __enter__(self) -> NativeReplacement:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        _leave(self, self._files, kind is None)

    def finish(self) -> None:
        """Make the file durable: what is left for :meth:`commit` is the rename."""
        self._check(lib.aether_replace_sync(self._handle, self._err))

    def commit(self) -> None:
        """Make the file durable and put it in place."""
        handle, self._handle = self._handle, None
        self._check(lib.aether_replace_commit(handle, self._err))

    def abort(self) -> None:
        """Remove the unfinished file; does nothing after a commit."""
        handle, self._handle = self._handle, None
        if handle is not None:
            lib.aether_replace_abort(handle)

    def __del__(self) -> None:
        self.abort()


class NewFile(Protocol):
    """File that is written under another name."""

    def finish(self) -> None:
        """Make the file complete and durable; once more does no harm."""

    def commit(self) -> None:
        """Put the finished file in place."""

    def abort(self) -> None:
        """Remove the file, if it is not in place."""


class FileSet:
    """New files that are put in place together: all are finished before the first is renamed.

    As a context manager it removes those that were not put in place.
    """

    def __init__(self) -> None:
        self._files: list[NewFile] = []

    def add(self, file: T) -> T:
        """Take charge of a file, and return it."""
        self._files.append(file)
        return file

    def commit(self) -> None:
        """Put all files in place, in the order they were added.

        Ctrl-C is raised when all are: in a thread, since it would part them here.
        """
        for file in self._files:
            file.finish()
        run_task(lambda task: self._rename())

    def _rename(self) -> None:
        for file in self._files:
            file.commit()
        self._files.clear()

    def __enter__(self) -> FileSet:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for file in self._files:
            file.abort()


def _leave(file: NativeWriter | NativeReplacement, files: FileSet | None, done: bool) -> None:
    """End a ``with`` block of a file: put it in place, or leave that to ``files``."""
    if not done:
        file.abort()
    elif files is None:
        file.commit()
    else:
        files.add(file).finish()
