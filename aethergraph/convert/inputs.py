"""Inputs: local files, patterns of names, and URLs that fsspec opens."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from typing import IO, Any, cast

from aethergraph._checks.optional import how_to_get
from aethergraph.convert.arguments import as_files
from aethergraph.errors import (
    InvalidArgumentError,
    MissingFileError,
    StorageError,
    UnsupportedError,
)

__all__ = ["expand_inputs", "input_state", "is_url", "open_input", "url_size"]

PathLike = str | os.PathLike[str]
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_PATTERN = re.compile(r"[*?\[]")


def is_url(path: PathLike) -> bool:
    """Return whether ``path`` is a URL such as ``s3://bucket/edges.csv``."""
    return _URL.match(os.fspath(path)) is not None


def _file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    try:
        import fsspec
    except ImportError as error:
        raise UnsupportedError(
            f"{url}: inputs by URL need fsspec, which cannot be imported ({error}): "
            f"{how_to_get('fsspec')}"
        ) from None
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise UnsupportedError(f"{url}: fsspec cannot open it: {error}") from None
    return system, path


def open_input(path: PathLike) -> IO[bytes]:
    """Open an input for reading bytes, with seek; unbuffered if it is local.

    Raises:
        MissingFileError, StorageError: it cannot be opened.
        UnsupportedError: no fsspec for a URL.
    """
    name = os.fspath(path)
    if not is_url(name):
        return open(name, "rb", buffering=0)
    system, inside = _file_system(name)
    try:
        return cast("IO[bytes]", system.open(inside, "rb"))
    except FileNotFoundError as error:
        raise MissingFileError(error.errno or 2, f"{name}: no such file", name) from None
    except OSError as error:
        raise StorageError(error.errno or 5, f"{name}: {error}", name) from None


def url_size(url: str) -> int:
    """Return the size of the file at a URL in bytes; raise the errors of :func:`open_input`."""
    with open_input(url) as file:
        return file.seek(0, os.SEEK_END)


def expand_inputs(paths: PathLike | Sequence[PathLike]) -> list[PathLike]:
    """Replace patterns (``*``, ``?``, ``[...]``) by the names that they match, sorted.

    A name with such characters is not taken for a pattern if a file has it.

    Raises:
        MissingFileError: a pattern matches nothing.
        InvalidArgumentError: no input.
    """
    names: list[PathLike] = []
    for name in as_files(paths):
        if not _PATTERN.search(name) or (not is_url(name) and os.path.exists(name)):
            names.append(name)
            continue
        matches = _matches(name)
        if not matches:
            raise MissingFileError(2, f"{name}: no file matches", name)
        names += matches
    if not names:
        raise InvalidArgumentError("no input file was given")
    return names


def _matches(name: str) -> list[str]:
    if not is_url(name):
        return sorted(glob.glob(name))
    system, inside = _file_system(name)
    return sorted(system.unstrip_protocol(path) for path in system.glob(inside))


def input_state(path: PathLike) -> dict[str, Any]:
    """Return what tells an input from a changed one: absolute name, size, and time or tag."""
    name = os.fspath(path)
    if is_url(name):
        system, inside = _file_system(name)
        info = system.info(inside)
        tags = {k: str(info[k]) for k in ("ETag", "etag", "mtime", "LastModified") if k in info}
        return {"path": name, "size": url_size(name), "time": tags}
    status = os.stat(name)
    return {"path": os.path.abspath(name), "size": status.st_size, "time": status.st_mtime_ns}
