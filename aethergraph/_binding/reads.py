"""What surrounds every native call that reads mapped memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from aethergraph._binding.core import lib, raise_error
from aethergraph._binding.files import FileGuard
from aethergraph.errors import AetherError, CorruptFileError


def begin_read(guard: FileGuard | None) -> None:
    """Make sure that a page that cannot be read does not end the process (``aether_guard``)."""
    if guard is not None:
        lib.aether_guard()


def end_read(
    code: int, err: Any, guard: FileGuard | None, path: str | None = None
) -> None:  # fmt: skip
    """Raise what went wrong: first that the file changed, from which other errors follow.

    ``path`` is the file that what was read came from, if it is not the one that is guarded.
    """
    if guard is not None:
        guard.check()
        path = path or guard.path
    if code:
        raise_named(code, err, () if path is None else (path,))


def raise_named(code: int, err: Any, paths: Iterable[str]) -> NoReturn:
    """``raise_error``, with the files that were read before a complaint about damage."""
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
    """Both around a block of reads that are not one native call."""
    begin_read(guard)
    try:
        yield
    except AetherError:
        end_read(0, None, guard)
        raise
    end_read(0, None, guard)
