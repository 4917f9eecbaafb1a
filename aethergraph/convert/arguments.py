"""Checks of arguments of conversions, made before any file is opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.options import as_flag, as_list, as_text
from aethergraph.errors import InvalidArgumentError

if TYPE_CHECKING:
    from aethergraph.convert.readers.base import ColumnSelector, PathLike

__all__ = [
    "Reading",
    "as_column",
    "as_columns",
    "as_file",
    "as_files",
    "as_header",
    "as_optional_count",
    "as_optional_file",
    "as_reading",
    "as_threads",
]

_MOST_THREADS = 256


class Reading(TypedDict):
    """Options for reading text; None: detected."""

    format: str | None
    delimiter: str | None
    header: bool | None


def as_file(path: Any) -> str:
    """Return a path, or a URL, as text.

    Raises:
        InvalidArgumentError: another type, or characters that no path has.
    """
    return native.encode_path(path)[0]


def as_optional_file(path: Any) -> str | None:
    """Return :func:`as_file` of a path, or None."""
    return None if path is None else as_file(path)


def as_files(paths: PathLike | Sequence[PathLike], name: str = "paths") -> list[str]:
    """Return one path, or a sequence of them, as a list of texts."""
    is_path = isinstance(paths, (str, bytes, os.PathLike))
    return [as_file(path) for path in ([paths] if is_path else as_list(paths, name, "paths"))]


def as_column(value: Any, name: str) -> ColumnSelector | None:
    """Return a column's name or number, or None.

    Raises:
        InvalidArgumentError: another type.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise InvalidArgumentError(f"{name} must be the name or number of a column, got a bool")
    try:
        return as_integer(value, name)
    except InvalidArgumentError:
        kind = type(value).__name__
        raise InvalidArgumentError(
            f"{name} must be the name or number of a column, got {kind}"
        ) from None


def as_columns(**columns: Any) -> list[ColumnSelector | None]:
    """Return :func:`as_column` of each, in their order."""
    return [as_column(value, name) for name, value in columns.items()]


def as_optional_count(value: Any, name: str) -> int | None:
    """Return a count that is not negative, or None."""
    return None if value is None else as_count(value, name)


def as_threads(threads: Any) -> int | None:
    """Return a number of threads, or None for the default, which may also be given as 0.

    Raises:
        InvalidArgumentError: not in 0..256.
    """
    count = as_optional_count(threads, "threads")
    if count is not None and count > _MOST_THREADS:
        raise InvalidArgumentError(f"threads = {count} is not in 0..{_MOST_THREADS}")
    return count or None


def as_header(header: Any) -> bool | None:
    """Return whether the first line holds names, or None to detect it."""
    return None if header is None else as_flag(header, "header")


def as_reading(format: Any, delimiter: Any, header: Any) -> Reading:
    """Return the checked options for reading text, for ``EdgeReader``."""
    return {
        "format": as_text(format, "format"),
        "delimiter": as_text(delimiter, "delimiter"),
        "header": as_header(header),
    }
