"""Guards around every native call that reads mapped memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from aethergraph._native.core import lib, raise_error
from aethergraph._native.files import FileGuard
from aethergraph.errors import AetherError, CorruptFileError


def begin_read(guard: FileGuard | None) -> None:
    """Keep an unreadable page of a mapping from ending the process (``aether_guard``)."""
    if guard is not None:
        lib.aether_guard()


def end_read(
    code: int, err: Any, guard: FileGuard | None, path: str | None = None
) -> None:  # fmt: skip
    """Raise the error of a read; first that the file changed, as other errors may follow from it.

    ``path`` is the file that the data came from, if it is not the guarded one.
    """
    if guard is not None:
        guard.check()
        path = path or guard.path
    if code:
        raise_named(code, err, () if path is None else (path,))


def raise_named(code: int, err: Any, paths: Iterable[str]) -> NoReturn:
    """Raise the error of ``code``; in a report of damage, name the files that were read."""
    try:
        raise_error(code, err)
    except CorruptFileError as error:
        message, files = str(error), list(dict.fromkeys(paths))
        if not files or any(path in message for path in files):
            raise
        raise CorruptFileError(
            f"{' or '.join(files)}: {message}", position=error.position, value=error.value
        ) from None


@contextlib.contextmanager
def reading(guard: FileGuard | None) -> Iterator[None]:
    """Guard a block of reads that are not one native call: begin_read, then end_read."""
    begin_read(guard)
    try:
        yield
    except AetherError:
        end_read(0, None, guard)
        raise
    end_read(0, None, guard)
