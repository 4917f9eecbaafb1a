"""Errors of a part of the ids, as errors of all of them.

Whoever splits a gather hands on parts of its ids. Errors name a place among these, in their text
and as their ``position``; here both become the place among the ids that were given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.errors import AetherError, FormatError, StorageError

__all__ = ["at_places", "move_error", "reword"]


def reword(error: AetherError, change: Callable[[str], str]) -> None:
    """Let an error say ``change(text)`` where it says ``text``."""
    error.args = tuple(change(part) if isinstance(part, str) else part for part in error.args)
    if isinstance(error, OSError):  # has its texts a second time
        if isinstance(error.strerror, str):
            error.strerror = change(error.strerror)
        if isinstance(error.filename, str):
            error.filename = change(error.filename)


def move_error(error: AetherError, place: int) -> None:
    """Let an error name another place among ids, if it names one at all."""
    before = f"ids[{error.position}]"
    if before in str(error):
        reword(error, lambda text: text.replace(before, f"ids[{place}]", 1))
    elif isinstance(error, (FormatError, StorageError)):
        return  # the position is an offset in a file
    error.position = place


@contextmanager
def at_places(places: NDArray[np.integer[Any]]) -> Iterator[None]:
    """Let errors name the place among all ids, of which those at ``places`` are asked for."""
    try:
        yield
    except AetherError as error:
        if error.position is not None and 0 <= error.position < len(places):
            move_error(error, int(places[error.position]))
        raise
