"""Reading of files that others wrote, without trust.

A downloaded dataset may hold anything. Nothing in it is executed: arrays of Python objects and
pickles are refused. A name in it leads to files below its folder only. Sizes that a file promises
are compared with what it holds, and with the free memory, before memory is taken. Every failure is
an exception of :mod:`aethergraph.errors` that names the file; it quotes little of the content, for
the file may not be the one that the user meant.
"""

from __future__ import annotations

import gzip
import os
import reprlib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.convert.readers.base import (
    Field,
    InputError,
    PathLike,
    check_readable,
    first_bad_id,
)
from aethergraph.convert.readers.text import TextTable
from aethergraph.errors import AetherError, OutOfMemoryError, StorageError
from aethergraph.storage.memory import available_memory, format_size
from aethergraph.storage.npy import (
    check_array,
    header_extent,
    map_npy,
    parse_header,
    read_npy_header,
)

__all__ = [
    "Archive",
    "check_ends",
    "check_memory",
    "decoding",
    "naming",
    "path_below",
    "read_npy",
    "read_npz",
    "read_table",
    "read_text",
    "shorten",
]

_QUOTED: Final = 60  # most characters of a value in a message
_READ_BYTES: Final = 1 << 20
_DEFLATE_RATIO: Final = 1032  # largest ratio that deflate compresses by


class _Shortened(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxdict = self.maxlist = self.maxtuple = 4
        self.maxstring = self.maxlong = self.maxother = _QUOTED

    def repr_int(self, value: int, level: int) -> str:
        # Python formats no integers of more than 4300 digits.
        return super().repr_int(value, level) if value.bit_length() < 512 else "a huge integer"


def shorten(value: object) -> str:
    """Return ``repr(value)`` in a few words, however large or nested the value is."""
    return _Shortened().repr(value)


@contextmanager
def decoding(path: PathLike) -> Iterator[None]:
    """Turn any error of decoding a file into an error that names the file.

    Raises:
        InputError: the content cannot be decoded.
        StorageError: reading fails.
        OutOfMemoryError: there is no memory for the content.
    """
    try:
        yield
    except AetherError:
        raise
    except MemoryError:
        raise OutOfMemoryError(f"{os.fspath(path)}: there is no memory to read it") from None
    except OSError as error:
        if error.errno is None:  # an error of a decoder, not of the operating system
            raise InputError(path, f"cannot be read: {_first_line(error)}") from None
        text = f"{os.fspath(path)}: {error.strerror}"
        raise StorageError(error.errno, text, os.fspath(path)) from None
    except Exception as error:
        # Parsers of hostile bytes fail in many ways: zipfile alone raises seven types.
        raise InputError(path, f"cannot be read: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= 2 * _QUOTED else text[: 2 * _QUOTED] + "..."


@contextmanager
def naming(path: PathLike) -> Iterator[None]:
    """Put the name of ``path`` before the text of an error unless a file is named in it."""
    try:
        yield
    except (InputError, StorageError):
        raise
    except AetherError as error:
        if os.fspath(path) in str(error):
            raise
        text = f"{os.fspath(path)}: {error}"
        raise type(error)(text, position=error.position, value=error.value) from None


def check_memory(path: PathLike, size: int, noun: str) -> None:
    """Raise OutOfMemoryError if ``size`` bytes for ``noun`` of a file exceed the free memory."""
    free = available_memory()
    if size > free:
        raise OutOfMemoryError(
            f"{os.fspath(path)}: {noun} needs {format_size(size)} of memory, of which "
            f"{format_size(free)} are free"
        )


def path_below(folder: Path, name: object, source: PathLike, place: str) -> Path:
    """Return the path of the file that a description in ``folder`` names.

    Args:
        folder: the folder that names start at.
        name: the name, as the description has it.
        source: the file that holds the description, for messages.
        place: the place in the description, for messages.

    Raises:
        InputError: no name, or one that leads out of the folder: absolute, with ``..``, or through
            a symbolic link.
    """
    if not isinstance(name, str) or not name or not _is_file_name(name):
        raise InputError(source, f"{place} = {shorten(name)} is no file name")
    parts = Path(name).parts
    root = os.path.realpath(folder)
    real = os.path.realpath(folder / name)
    if name.startswith("/") or ".." in parts or os.path.commonpath([root, real]) != root:
        raise InputError(
            source,
            f"{place} = {shorten(name)} leads out of the folder: only files below it are read, so "
            "put the file there",
        )
    return folder / name


def _is_file_name(name: str) -> bool:
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeError:
        return False


class Archive:
    """Zip file whose members are read into memory; a context manager.

    Args:
        path: the file.
        compressed: False refuses compressed members, in formats that have none: so no member is
            longer than the file.

    Raises:
        InputError: not a zip file.
        MissingFileError, StorageError: it cannot be opened.
    """

    def __init__(self, path: PathLike, *, compressed: bool = True) -> None:
        self.path = path
        self._allows_compressed = compressed
        self._size = check_readable(path)
        with decoding(path):
            self._zip = zipfile.ZipFile(path)

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """Names of the members, in the order of the archive."""
        return self._zip.namelist()

    def size(self, name: str) -> int:
        """Return the size of a member in bytes, after checking that it can be so long.

        Raises:
            InputError: no such member, or it is encrypted, compressed in an unknown way, or too
                short for the size that it promises.
        """
        if name not in self._zip.NameToInfo:
            raise InputError(self.path, f"has no member {shorten(name)}")
        info = self._zip.getinfo(name)
        ratio = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: _DEFLATE_RATIO}.get(
            info.compress_type
        )
        if info.flag_bits & 1 or ratio is None:
            raise InputError(
                self.path, f"member {shorten(name)} is encrypted or compressed in an unknown way"
            )
        if info.compress_type != zipfile.ZIP_STORED and not self._allows_compressed:
            raise InputError(
                self.path,
                f"member {shorten(name)} is compressed, which this format never is: write the file "
                "anew with the program that makes it",
            )
        if info.file_size > ratio * min(info.compress_size, self._size):
            raise InputError(
                self.path,
                f"member {shorten(name)} promises {info.file_size} bytes, more than "
                f"{info.compress_size} bytes can hold",
            )
        return info.file_size

    def read(self, name: str, limit: int | None = None) -> NDArray[np.uint8]:
        """Return the bytes of a member.

        Args:
            name: one of :attr:`names`.
            limit: refuse a member of more bytes.

        Raises:
            InputError: damaged, of another length than it promises, or of more bytes than
                ``limit``.
            OutOfMemoryError: more bytes than there is free memory.
        """
        size = self.size(name)
        if limit is not None and size > limit:
            raise InputError(self.path, f"member {shorten(name)} of {size} bytes is too long")
        check_memory(self.path, size, f"member {shorten(name)}")
        with decoding(self.path), self._zip.open(name) as stream:
            return _read_all(stream, size, self.path)

    def read_array(self, name: str) -> NDArray[Any]:
        """Return the array of a member that is a .npy file.

        Raises:
            AetherError: as :meth:`read` and :func:`read_npy`.
        """
        size, path = self.size(name), f"{os.fspath(self.path)}: member {shorten(name)}"
        with decoding(self.path), self._zip.open(name) as stream:
            start = stream.read(12)
            begin, length = header_extent(start, path)
            text = (start[begin:] + stream.read(begin + length - len(start)))[:length]
            dtype, shape, fortran = parse_header(text, start[6], path)
            left = size - begin - length
            check_array(dtype, shape, left, path)
            check_memory(self.path, left, f"member {shorten(name)}")
            values = _read_all(stream, left, self.path).view(dtype)
            return values.reshape(shape, order="F" if fortran else "C")


def _read_all(stream: IO[bytes], size: int, path: PathLike) -> NDArray[np.uint8]:
    """Return the next ``size`` bytes of a stream, which must end there."""
    out = np.empty(size, np.uint8)
    done = 0
    while done < size:
        part = stream.read(min(size - done, _READ_BYTES))
        if not part:
            raise InputError(path, f"ends after {done} of {size} bytes")
        out[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    # The end of a member is where zipfile compares its checksum.
    if stream.read(1):
        raise InputError(path, f"goes on behind {size} bytes")
    return out


def read_npy(path: PathLike) -> NDArray[Any]:
    """Return the array of a .npy file: numbers or booleans, with at least one dimension.

    Raises:
        AetherError: no such file, another dtype, or fewer bytes than the header promises.
        OutOfMemoryError: the array is larger than the free memory.
    """
    size = check_readable(path)
    with decoding(path):
        file = native.NativeFile(path, raw=True)
        header = read_npy_header(file)
        check_memory(path, min(size, file.size), "the array")
        with native.reading(file.guard()):
            return np.array(map_npy(file, header, "memory"))


def read_npz(path: PathLike) -> dict[str, NDArray[Any]]:
    """Return the arrays of a .npz file by name.

    Raises:
        AetherError: as :func:`read_npy`; names the member.
    """
    check_readable(path)
    with decoding(path), open(path, "rb") as file:
        if file.read(6) == b"\x93NUMPY":
            raise InputError(path, "is one array, not an archive of arrays (.npz)")
    with Archive(path) as archive:
        return {name.removesuffix(".npy"): archive.read_array(name) for name in archive.names}


def read_table(
    path: PathLike, *, limits: Sequence[int] | None = None, rows: int | None = None
) -> NDArray[Any]:
    """Return a text file of comma-separated numbers: int64 [n, d] if all are whole, else float32.

    Args:
        path: the file, which may be compressed. It needs pyarrow.
        limits: number of nodes for each column: the columns are ids below these.
        rows: number of rows that it must have.

    Raises:
        InputError: damaged, another number of columns or rows, or a bad value, with its line.
        OutOfMemoryError: the table is larger than the free memory.
    """
    with decoding(path):
        table = TextTable(path, delimiter=",", header=False)
        columns = range(table.num_columns)
        if limits is not None:
            if table.num_columns != len(limits):
                raise InputError(path, f"has {table.num_columns} columns instead of {len(limits)}")
            ids = [Field("id", c, "int64", is_id=True, limit=limits[c]) for c in columns]
            return _read_columns(table, ids, rows)
        if all(table.is_integral(column) for column in columns):
            try:
                return _read_columns(table, [Field("value", c, "int64") for c in columns], rows)
            except InputError:  # floats further down
                pass
        return _read_columns(table, [Field("value", c, "float32") for c in columns], rows)


def _read_columns(table: TextTable, fields: list[Field], rows: int | None) -> NDArray[Any]:
    chunks, num_rows, size = [np.empty((0, len(fields)), fields[0].dtype)], 0, 0
    for arrays in table.chunks(fields):
        chunks.append(np.stack(arrays, axis=1))
        num_rows += len(chunks[-1])
        size += chunks[-1].nbytes
        if rows is not None and num_rows > rows:
            break
        check_memory(table.path, size, "joining the parts of the table")
    if rows is not None and num_rows != rows:
        more = "more than " if num_rows > rows else ""
        raise InputError(table.path, f"has {more}{min(num_rows, rows)} rows, but needs {rows} rows")
    return np.concatenate(chunks)


def check_ends(
    ends: tuple[NDArray[Any], NDArray[Any]], counts: tuple[int, int], path: PathLike
) -> None:
    """Raise InputError for an edge with an end that is no node; name its number and column."""
    for column, (ids, count) in enumerate(zip(ends, counts, strict=True)):
        field = Field("id", column, "int64", is_id=True, limit=count)
        bad = first_bad_id(field, ids)
        if bad is not None:
            raise InputError(path, bad[1], line=bad[0] + 1, column=column + 1, unit="edge")


def read_text(path: PathLike, limit: int) -> str:
    """Return the content of a text file of at most ``limit`` bytes; ``.gz`` is decompressed.

    Raises:
        InputError: damaged, longer, or not UTF-8.
        MissingFileError, StorageError: it cannot be read.
    """
    check_readable(path)
    with decoding(path), open(path, "rb") as raw:
        compressed = os.fspath(path).endswith(".gz")
        data = (gzip.GzipFile(fileobj=raw) if compressed else raw).read(limit + 1)
        if len(data) > limit:
            raise InputError(path, f"is longer than {format_size(limit)}")
        return data.decode("utf-8")
