"""Common parts of the input readers: formats, columns, and the error that names a place.

A reader turns a file into a stream of chunks, one numpy array per :class:`Field`::

    file --blocks--> parse (pyarrow, no Python objects) --check--> [array, array, ...]
                         |
                         +-- wrong? read that block again, slowly --> InputError(line, column)

The slow second reading happens only for a block that is known to be bad.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.optional import how_to_get
from aethergraph._checks.options import shown
from aethergraph.convert.inputs import is_url, open_input, url_size
from aethergraph.errors import (
    FormatError,
    InvalidArgumentError,
    MissingFileError,
    StorageError,
    UnsupportedError,
)

__all__ = [
    "ColumnSelector",
    "Field",
    "FileFormat",
    "INT64_MAX",
    "InputError",
    "InputWatch",
    "MAP_NAMES",
    "PathLike",
    "ProgressFn",
    "check_readable",
    "describe_column",
    "detect_format",
    "explain_id",
    "first_bad_id",
    "is_compressed",
    "is_index_name",
    "list_columns",
    "only_column",
    "read_beginning",
    "reading_error",
    "require_pyarrow",
    "select_column",
    "select_columns",
]

PathLike = str | os.PathLike[str]
ColumnSelector = int | str
ProgressFn = Callable[[int, int], None]  # (bytes done, bytes in all)
FileFormat = Literal["csv", "tsv", "whitespace", "parquet", "npy", "gl"]

INT64_MAX = 2**63 - 1
MAP_NAMES = (
    "; node ids are the integers 0..N-1: convert takes names with --ids string (ids=), or map "
    "them first, for example with numpy.unique(names, return_inverse=True)"
)

_SUFFIXES: dict[str, FileFormat] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "whitespace",
    ".edges": "whitespace",
    ".edgelist": "whitespace",
    ".el": "whitespace",
    ".ws": "whitespace",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".gl": "gl",
}
_COLUMN_NUMBER = re.compile(r"-?[0-9]{1,18}")
_INDEX_NAME = re.compile(r"__index_level_[0-9]+__|Unnamed: [0-9]+")
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}


class InputError(FormatError):
    """Error of an input file with content that cannot be converted.

    Attributes:
        path: the file.
        place: the file, and line and column if they are known, in words.
        line: 1-based line (text) or row (Parquet, .npy), or None.
        column: 1-based column, or None.
    """

    path: str
    place: str
    line: int | None
    column: int | None

    def __init__(
        self,
        path: PathLike,
        problem: str,
        *,
        line: int | None = None,
        column: int | None = None,
        column_name: str | None = None,
        unit: str = "line",
    ) -> None:
        where = os.fspath(path)
        if line is not None:
            where += f", {unit} {line}"
        if column is not None:
            where += f", {describe_column(column - 1, column_name)}"
        super().__init__(f"{where}: {problem}", position=None if line is None else line - 1)
        self.path = os.fspath(path)
        self.place = where
        self.line = line
        self.column = column


@dataclass(frozen=True)
class Field:
    """Column to read, and the rules for its values.

    Attributes:
        role: meaning of the values, for messages ("source id", "weight").
        column: 0-based position in the file.
        dtype: "int64", "float32" or "float64".
        is_id: values are node ids: integers >= 0, and below ``limit`` if it is set.
        limit: the number of nodes, if it was given.
        finite: refuse NaN and infinities.
        minimum: refuse values below it.
        logical: read true and false as 1 and 0.
        is_time: read datetimes, in ``unit``; arrays are then datetime64.
        unit: unit of times; None: plain numbers.
        declared: the caller gave ``unit``, so plain integers are counts of it.
        lists: read a Parquet column of lists as rows [n, width].
        hint: advice to the user if a value is not an integer.
        half: float16 or bfloat16 if the values are stored in it in the end.
        keep: advice to the user if a float type changes a value: pairs of a dtype and how to ask
            for it. The first dtype that keeps the value is named, and every pair of the dtype "".
    """

    role: str
    column: int
    dtype: Literal["int64", "float32", "float64"]
    is_id: bool = False
    limit: int | None = None
    finite: bool = False
    minimum: float | None = None
    logical: bool = False
    is_time: bool = False
    unit: str | None = None
    declared: bool = False
    lists: bool = False
    hint: str = field(default="", compare=False)
    half: Literal["bfloat16", "float16"] | None = None
    keep: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def stored(self) -> str:
        """Name of the dtype in which the values are stored in the end."""
        return self.half or self.dtype


def describe_column(column: int, name: str | None = None) -> str:
    """Return ``column 2 (dst)`` for the 0-based position 1."""
    return f"column {column + 1}" + (f" ({name})" if name else "")


def check_readable(path: PathLike) -> int:
    """Check that a file or URL can be read, and return its size in bytes.

    Raises:
        InputError: not a regular file.
        MissingFileError: no such file.
        StorageError: it cannot be opened.
    """
    name = os.fspath(path)
    if is_url(name):
        return url_size(name)
    try:
        if os.path.isdir(name):
            raise InputError(name, "is a folder, not a file")
        if os.path.exists(name) and not os.path.isfile(name):
            raise InputError(name, "is a pipe or a device, not a file: write it to a file first")
        with open(name, "rb") as file:
            return os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise MissingFileError(error.errno, f"{name}: no such file", name) from None
    except OSError as error:
        raise StorageError(error.errno, f"{name}: {error.strerror}", name) from None


class InputWatch:
    """Check of an input for changes while it is read.

    A local file counts as changed if its size, its times (including that of its inode, which no
    program sets) or the inode itself differ; for a URL only the size is compared.

    Args:
        path: a regular file, or a URL.

    Raises:
        InputError, MissingFileError, StorageError: it cannot be read.
    """

    def __init__(self, path: PathLike) -> None:
        self._path = path
        self.size = check_readable(path)
        self._mark = self._look()

    def _look(self) -> tuple[int, ...]:
        if is_url(self._path):
            return ()
        status = os.stat(self._path)
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns

    def check(self) -> None:
        """Raise InputError if the input has changed since this object was made."""
        size = check_readable(self._path)
        if size != self.size:
            raise InputError(
                self._path,
                f"changed while it was read: it had {self.size:,} bytes and now has {size:,}",
            )
        if self._look() != self._mark:
            raise InputError(
                self._path,
                "changed while it was read: it was written to or replaced by another file of the "
                "same size: start again when nobody writes to it",
            )


def is_compressed(path: PathLike) -> bool:
    """Return whether the name ends as a compressed file's does (.gz, .bz2, .zst, .lz4)."""
    return Path(path).suffix.lower() in _COMPRESSED


def detect_format(path: PathLike, file_format: str | None = None) -> FileFormat:
    """Return the format of an input file: as asked, else by its name, else by its first bytes.

    Raises:
        InvalidArgumentError: an unknown format name.
    """
    if file_format not in (None, "auto"):
        if file_format not in ("csv", "tsv", "whitespace", "parquet", "npy", "gl"):
            raise InvalidArgumentError(
                f"unknown format {file_format!r}: csv, tsv, whitespace, parquet, npy or gl"
            )
        return file_format  # type: ignore[return-value]
    plain = Path(path)
    if plain.suffix.lower() in _COMPRESSED:
        plain = plain.with_suffix("")
    else:
        magic = read_beginning(path)
        if magic == b"\x93NUMPY":
            return "npy"
        if magic[:4] == b"PAR1":
            return "parquet"
    return _SUFFIXES.get(plain.suffix.lower(), "csv")


def read_beginning(path: PathLike) -> bytes:
    """Return the first 6 bytes of a file, which tell many formats.

    Raises:
        MissingFileError, StorageError: they cannot be read.
    """
    try:
        with open_input(path) as file:
            return file.read(6)
    except MissingFileError:
        raise
    except OSError as error:
        raise reading_error(path, error) from None


def select_column(
    path: PathLike,
    selector: ColumnSelector,
    names: Sequence[str] | None,
    num_columns: int,
    role: str,
) -> int:
    """Return the 0-based position of a column given by name or 0-based number (also as text, "2").

    Raises:
        InputError: the file has no such column, and the message lists those that exist; or it has
            several of this name, and the message gives their numbers.
        InvalidArgumentError: the selector is neither a name nor a number.
    """
    if isinstance(selector, bool) or not isinstance(selector, int | str):
        raise InvalidArgumentError(
            f"a column is chosen by name or number, not by {shown(selector)} (for the {role})"
        )
    if isinstance(selector, str) and names is not None and selector in names:
        return only_column(path, selector, names, role)
    if isinstance(selector, int) or _COLUMN_NUMBER.fullmatch(selector):
        number = int(selector)
        if 0 <= number < num_columns:
            return number
        raise InputError(
            path,
            f"there is no column number {number} for the {role}: the file has {num_columns} "
            f"columns, counted from 0",
        )
    if names is None:
        raise InputError(
            path,
            f"there is no column {selector!r} for the {role}: the file has no header line; "
            f"give a number from 0 to {num_columns - 1}",
        )
    known = ", ".join(repr(name) for name in names[:20]) + (", ..." if len(names) > 20 else "")
    raise InputError(path, f"there is no column {selector!r} for the {role}; columns: {known}")


def select_columns(
    path: PathLike,
    selectors: Sequence[ColumnSelector],
    names: Sequence[str] | None,
    num_columns: int,
    role: str,
) -> list[int]:
    """Return the positions of several columns, in the order of ``selectors``.

    Raises:
        InputError: as :func:`select_column`; a column is chosen twice.
    """
    columns = [select_column(path, selector, names, num_columns, role) for selector in selectors]
    for number, column in enumerate(columns):
        if column in columns[:number]:
            chosen = describe_column(column, None if names is None else names[column])
            raise InputError(path, f"{chosen} is chosen twice for the {role}s")
    return columns


def list_columns(names: Sequence[str]) -> str:
    """Join column names for a message; only some of them if there are many."""
    if len(names) <= 12:
        return ", ".join(names)
    return f"{', '.join(names[:6])}, ... {names[-1]} ({len(names):,} in all)"


def is_index_name(name: str) -> bool:
    """Return whether pandas gives an index this name: ``__index_level_0__``, ``Unnamed: 0``."""
    return _INDEX_NAME.fullmatch(name) is not None


def only_column(path: PathLike, name: str, names: Sequence[str], role: str) -> int:
    """Return the 0-based position of ``name`` in ``names``.

    Raises:
        InputError: several columns have this name.
    """
    positions = [number for number, column_name in enumerate(names) if column_name == name]
    if len(positions) > 1:
        numbers = f"{', '.join(map(str, positions[:-1]))} and {positions[-1]}"
        raise InputError(
            path,
            f"{len(positions)} columns are called {name!r}, so the name does not say which is the "
            f"{role}: columns {numbers}, counted from 0; choose columns by number",
        )
    return positions[0]


def explain_id(field: Field, value: int) -> str | None:
    """Describe what is wrong with an integer as a node id, or return None."""
    if not field.is_id:
        return None
    if value < 0:
        return f"the {field.role} {value} is negative; node ids count from 0"
    if field.limit is not None and value >= field.limit:
        return f"the {field.role} {value} is not below the number of nodes, {field.limit}"
    return None


def first_bad_id(field: Field, array: NDArray[Any]) -> tuple[int, str] | None:
    """Return (position, problem) of the first value that is no node id, or None."""
    if array.size == 0:
        return None
    limit = INT64_MAX + 1 if field.limit is None else field.limit
    if array.min() >= 0 and int(array.max()) < limit:
        return None
    bad = array < 0
    if int(array.max()) >= limit:
        bad |= array >= array.dtype.type(limit)
    row = int(np.argmax(bad))
    value = int(array[row])
    if value > INT64_MAX:
        return row, f"the {field.role} {value} does not fit in 64 bits"
    return row, explain_id(field, value) or ""


def reading_error(path: PathLike, error: OSError, problem: str = "cannot be read") -> Exception:
    """Return the named error of a failed read, of the system or of damaged content.

    pyarrow raises OSError without a number if the content is damaged.
    """
    name = os.fspath(path)
    if error.errno is None:
        return InputError(name, f"{problem}: {error}")
    return StorageError(error.errno, f"{name}: cannot be read: {error.strerror}", name)


def require_pyarrow(
    needs: str = "text and Parquet inputs need", instead: str = ", or give the edges as .npy"
) -> None:
    """Raise UnsupportedError, with the reason, if pyarrow cannot be imported.

    Args:
        needs: words of the message before it.
        instead: words at its end that say what works without.
    """
    try:
        import pyarrow as pa  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise UnsupportedError(f"{needs} pyarrow, which cannot be imported: {error}") from None
        raise UnsupportedError(
            f"{needs} pyarrow, which is not installed: {how_to_get('cli')}{instead}"
        ) from None
    except Exception as error:  # not only ImportError, if it was built for another NumPy
        raise UnsupportedError(
            f"{needs} pyarrow, which is installed but cannot be imported: {error}. Install a "
            "version that fits the packages here (with NumPy 1: pip install 'pyarrow<18')"
            f"{instead}"
        ) from None
