"""What surrounds every native call that reads mapped memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from aethergraph._binding.core import lib, raise_error
from aethergraph._binding.files import FileGuard
from aethergraph.errors import AetherError


def begin_read(guard: FileGuard | None) -> None:
    """Make sure that a page that cannot be read does not end the process (``aether_guard``)."""
    if guard is not None:
        lib.aether_guard()


def end_read(code: int, err: Any, guard: FileGuard | None) -> None:
    """Raise what went wrong: first that the file changed, from which other errors follow."""
    if guard is not None:
        guard.check()
    if code:
        raise_error(code, err)


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
