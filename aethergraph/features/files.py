"""Feature files: finding and opening their rows, and writing them."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.exact import describe_change, narrowest_float
from aethergraph.errors import (
    FileChangedError,
    FormatError,
    InvalidArgumentError,
    UnsupportedError,
)
from aethergraph.features.bfloat16 import can_save_as, convert, first_lost
from aethergraph.features.hot import RowCache
from aethergraph.features.sources import check_result
from aethergraph.protocols import RowSource
from aethergraph.storage.meta import (
    ArrayMeta,
    FileMeta,
    SectionTable,
    check_fingerprint,
    write_meta,
)
from aethergraph.storage.npy import identity, is_npy, map_npy, read_npy_header
from aethergraph.storage.opening import open_container

__all__ = [
    "FoundRows",
    "Origin",
    "find_part",
    "find_rows",
    "find_section",
    "is_npy_name",
    "row_pieces",
    "save_native",
    "save_npy",
    "save_rows",
    "verify",
    "write_rows",
]

#: Rows are converted and written in pieces of about this size.
_PIECE_BYTES = 16 << 20


class Origin:
    """Origin of a store, which a pickle carries instead of the rows."""

    __slots__ = ("cache", "fingerprint", "kind", "number", "path", "storage")

    def __init__(
        self, path: str, kind: str, number: int, storage: str, fingerprint: str,
        cache: RowCache | None = None,
    ) -> None:  # fmt: skip
        self.path = path
        self.kind = kind
        self.number = number
        self.storage = storage
        self.fingerprint = fingerprint
        self.cache = cache

    def stored(self, storage: str, cache: RowCache | None = None) -> Origin:
        """Return the origin of the same rows with another storage."""
        return Origin(self.path, self.kind, self.number, storage, self.fingerprint, cache)

    def is_same_section(self, other: Origin) -> bool:
        """Return whether both are the same array of one graph file, mapped without a cache."""
        return all(
            (origin.kind, origin.storage, origin.cache) == ("graph", "mmap", None)
            for origin in (self, other)
        ) and (self.path, self.number, self.fingerprint) == (
            other.path, other.number, other.fingerprint,
        )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        return Origin, (
            self.path, self.kind, self.number, self.storage, self.fingerprint, self.cache,
        )  # fmt: skip


class FoundRows(NamedTuple):
    """Rows of an open file: mapped, or read into memory if they cannot be mapped."""

    array: NDArray[Any]
    code: int
    guard: native.FileGuard
    origin: Origin
    offset: int

    @property
    def is_mapped(self) -> bool:
        """True if there are any bytes and they are mapped from the file."""
        return isinstance(self.array.base, native.MemoryView)


def find_rows(path: native.Path, storage: str) -> FoundRows:
    """Open a ``.npy`` file or a native feature file and return its rows."""
    file = native.NativeFile(path, raw=True)
    if is_npy(file):
        header = read_npy_header(file)
        guard = file.guard()
        array = map_npy(file, header, storage)
        code = native.dtype_code(header.dtype, file.path)
        origin = Origin(file.path, "npy", 0, storage, header.fingerprint)
        return FoundRows(array, code, guard, origin, header.offset)
    file = open_container(path)
    table = SectionTable(file, native.CONTENT_FEATURES)
    if len(table.meta.arrays) != 1:
        raise FormatError(
            f"{file.path}: a feature file has one array; packed batches are opened by "
            "aethergraph.packing.PackedFeatures.load, columns by ColumnStore.load"
        )
    return _find_array(table, 0, "native", storage)


def find_part(path: native.Path, number: int) -> FoundRows:
    """Return the rows of array ``number`` of a file with several arrays of rows."""
    table = SectionTable(open_container(path), native.CONTENT_FEATURES)
    return _find_array(table, number, "part", "mmap")


def find_section(table: SectionTable, number: int) -> FoundRows:
    """Return the rows of array ``number`` of a graph file."""
    return _find_array(table, number, "graph", "mmap")


def _find_array(table: SectionTable, number: int, kind: str, storage: str) -> FoundRows:
    array = table.array(number)
    code = native.DTYPE_CODES[table.meta.arrays[number].dtype]
    origin = Origin(table.path, kind, number, storage, table.fingerprint())
    return FoundRows(array, code, table.file.guard(), origin, table.file.offset_of(array))


def open_rows(
    found_rows: FoundRows,
    before: tuple[int, ...],
    cache: RowCache,
    progress: native.Progress | None,
) -> native.FileRows:
    """Return the rows behind a cache that reads them from the file.

    ``before`` is what :func:`aethergraph.storage.npy.identity` said before ``found_rows`` were
    opened.
    """
    array, code, guard, origin, offset = found_rows
    rows = native.FileRows(
        origin.path, offset, array.shape, code, cache.budget.limit,
        hot=cache.hot, hot_percent=cache.hot_percent, progress=progress,
    )  # fmt: skip
    guard.check()
    if identity(origin.path) != before:
        raise FileChangedError(
            errno.ESTALE, f"{origin.path}: the file was replaced while it was opened", origin.path
        )
    return rows


def row_pieces(rows: RowSource, code: int) -> Iterator[NDArray[Any]]:
    """Yield all rows in contiguous pieces, converted to dtype code ``code``.

    Raises:
        InvalidArgumentError: a value that the conversion must keep but does not; ``position`` is
            its row. Or the source returned something else than its rows.
    """
    stored_code, num_rows = native.dtype_code(rows.dtype_name), rows.num_rows
    row_bytes = max(1, rows.nbytes // max(1, num_rows))
    step = max(1, _PIECE_BYTES // row_bytes)
    for start in range(0, num_rows, step):
        stop = min(start + step, num_rows)
        piece = check_result(rows, rows.read(start, stop), stop - start)
        lost = first_lost(piece, stored_code, code)
        if lost is not None:
            _refuse_change(start + lost[0], lost[1], native.DTYPE_NAMES[code])
        yield np.ascontiguousarray(convert(piece, stored_code, code))


def _refuse_change(row: int, value: Any, dtype: str) -> NoReturn:
    wide = narrowest_float(value)
    way = "leaving dtype out" if wide is None else f"dtype={wide!r}"
    problem = describe_change(value, dtype, "the value ")
    raise InvalidArgumentError(f"row {row}: {problem}; {way} keeps it", position=row)


def write_rows(
    rows: RowSource,
    writer: native.NativeWriter,
    number: int,
    task: native.Task | None,
    dtype: DTypeLike | str | None = None,
) -> None:
    """Write all rows as ARRAY section ``number``; ``dtype`` as in ``FeatureTable.save``."""
    code = native.dtype_code(rows.dtype_name if dtype is None else dtype)
    writer.begin(native.SECTION_ARRAY, number, code)
    with native.reading(rows.guard):
        for piece in row_pieces(rows, code):
            writer.append(piece, task)
    writer.end()


def save_native(
    path: native.Path,
    shape: tuple[int, ...],
    code: int,
    write_section: Callable[[native.NativeWriter, native.Task | None], None],
    task: native.Task | None,
    files: native.FileSet | None = None,
    part_of: str | None = None,
) -> None:
    """Write a feature file; ``write_section`` writes its only array section.

    ``files`` puts it in place together with others; None: at once. ``part_of`` is the live graph
    and the name under which the file is a part of its directory.
    """
    arrays = (ArrayMeta("x", "row", 0, native.DTYPE_NAMES[code], shape),)
    meta = FileMeta(arrays=arrays, part_of=part_of)
    with native.NativeWriter(path, native.CONTENT_FEATURES, files) as writer:
        write_meta(writer, meta)
        write_section(writer, task)


def is_npy_name(path: native.Path) -> bool:
    """Return whether a file of this name is written in numpy's format."""
    return os.fsdecode(native.encode_path(path)[1]).endswith(".npy")


def save_npy(
    path: native.Path,
    shape: tuple[int, ...],
    code: int,
    pieces: Iterator[NDArray[Any]],
    guard: native.FileGuard | None,
    task: native.Task | None,
    files: native.FileSet | None = None,
) -> None:
    """Write a ``.npy`` file; ``guard`` watches the file that the pieces are read from.

    ``files`` as in :func:`save_native`.
    """
    if code == native.BFLOAT16:
        raise UnsupportedError(
            "a .npy file cannot hold bfloat16; choose another file name for the native "
            "format, or dtype='float32'"
        )
    header = {
        "descr": np.lib.format.dtype_to_descr(native.ARRAY_DTYPES[code]),
        "fortran_order": False,
        "shape": shape,
    }
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, header)
    with native.NativeReplacement(path, files) as out, native.reading(guard):
        out.append(head.getvalue())
        for piece in pieces:
            out.append(piece)
            if task is not None:
                task.lend(piece.nbytes)
                task.check()


def save_rows(
    path: native.Path,
    rows: RowSource,
    dtype: DTypeLike | str | None,
    progress: native.Progress | None,
    files: native.FileSet | None = None,
    part_of: str | None = None,
) -> None:
    """Write rows as ``FeatureTable.save`` does.

    ``files`` and ``part_of`` as in :func:`save_native`.
    """
    code = native.dtype_code(rows.dtype_name if dtype is None else dtype)
    name = native.DTYPE_NAMES[code]
    if not can_save_as(native.dtype_code(rows.dtype_name), code):
        raise UnsupportedError(
            f"rows of {rows.dtype_name} cannot be saved as {name}: that would change values; all "
            "can be saved as floats, integers as wider ones"
        )

    def write(writer: native.NativeWriter, task: native.Task | None) -> None:
        write_rows(rows, writer, 0, task, name)

    def work(task: native.Task | None) -> None:
        if is_npy_name(path):
            save_npy(path, rows.shape, code, row_pieces(rows, code), rows.guard, task, files)
        else:
            save_native(path, rows.shape, code, write, task, files, part_of)

    native.run_long(work, progress, rows.nbytes)


def verify(origin: Origin | None, progress: native.Progress | None) -> None:
    """Compare the checksums of the file that the rows came from, or what tells a ``.npy`` file."""
    if origin is None:
        return
    if origin.kind == "npy":
        raw = native.NativeFile(origin.path, raw=True)
        fingerprint = read_npy_header(raw).fingerprint if is_npy(raw) else ""
        check_fingerprint(origin.path, origin.fingerprint, fingerprint)
        return
    file = native.NativeFile(origin.path)
    content = native.CONTENT_GRAPH if origin.kind == "graph" else native.CONTENT_FEATURES
    table = SectionTable(file, content)
    check_fingerprint(origin.path, origin.fingerprint, table.fingerprint())
    native.run_long(file.verify, progress, file.size)
    file.check()
