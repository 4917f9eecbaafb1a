"""The error of a work file that is not what the build left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aethergraph.errors import CorruptFileError, OutOfRangeError

__all__ = ["WorkFileError", "damage_of"]


class WorkFileError(CorruptFileError):
    """A file of the work folder is damaged: the build cannot go on from it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}: this work file is damaged, and the build cannot go on from it; "
            "--restart (restart=True) begins anew"
        )


@contextmanager
def damage_of(path: str) -> Iterator[None]:
    """Keys that are out of range were not so when the build wrote ``path``."""
    try:
        yield
    except OutOfRangeError as error:
        raise WorkFileError(path, f"holds records that were not written to it ({error})") from None
