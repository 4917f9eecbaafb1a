"""How much of a live directory's files is written, beside a writer that may give them up.

Logs are filled with zeros before they are written to, and files of a stranger may be anything: what
is no regular file is refused, and holes are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from aethergraph._checks.regular import open_regular

__all__ = ["bytes_before_zeros", "sizes_of"]

_BYTES_AT_ONCE = 1 << 20


def sizes_of(paths: Iterable[Path]) -> list[os.stat_result]:
    """Return the status of each file that is still there: a merge may give it up meanwhile."""
    sizes = []
    for path in paths:
        with suppress(FileNotFoundError):
            sizes.append(path.stat())
    return sizes


def bytes_before_zeros(path: Path) -> int:
    """Return the bytes of a file but for the zeros at its end, with which logs are filled."""
    with suppress(FileNotFoundError), open_regular(path) as file:  # as in sizes_of
        for first, end in reversed(_written(file.fileno())):
            while end > first:
                begin = max(first, end - _BYTES_AT_ONCE)
                file.seek(begin)
                content = file.read(end - begin).rstrip(b"\0")
                if content:
                    return begin + len(content)
                end = begin
    return 0


def _written(descriptor: int) -> list[tuple[int, int]]:
    """Return the stretches of a file that are no holes: a file of zeros may be of any size."""
    stretches: list[tuple[int, int]] = []
    with suppress(OSError):  # there is nothing more
        while True:
            begin = os.lseek(descriptor, stretches[-1][1] if stretches else 0, os.SEEK_DATA)
            stretches.append((begin, os.lseek(descriptor, begin, os.SEEK_HOLE)))
    return stretches
