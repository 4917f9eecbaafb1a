"""Error of a work file with other content than the build wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aethergraph.errors import CorruptFileError, OutOfRangeError

__all__ = ["WorkFileError", "damage_of"]


class WorkFileError(CorruptFileError):
    """Error of a damaged file in the work folder: the build cannot continue from it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}: this work file is damaged, and the build cannot go on from it; "
            "restart=True begins anew"
        )


@contextmanager
def damage_of(path: str) -> Iterator[None]:
    """Turn OutOfRangeError about keys into WorkFileError: they were in range when written."""
    try:
        yield
    except OutOfRangeError as error:
        raise WorkFileError(path, f"holds records that were not written to it ({error})") from None
