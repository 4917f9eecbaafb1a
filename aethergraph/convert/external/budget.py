"""Memory of a build within a budget that is left for its buffers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from aethergraph.errors import InvalidArgumentError
from aethergraph.storage.budget import Budget
from aethergraph.storage.memory import format_size

__all__ = ["working_memory"]

#: Memory of blocks in parsing, of libraries, and slack; more for each parsing thread. Text is
#: parsed in blocks of 1 MiB: 46 MiB were measured for two threads and lines of two digits, less for
#: longer lines. The size of a Parquet page is up to its writer: 105 MiB were measured for two
#: threads, with six columns of 4 million rows in one row group.
_PARSING, _PER_THREAD = 104 << 20, 16 << 20
_PARSING_TEXT, _PER_TEXT_THREAD = 40 << 20, 16 << 20
_TEXT_OR_ARRAYS = frozenset({"csv", "tsv", "whitespace", "npy", "gl"})
_LEAST = 32 << 20
_DEFAULT = 4 << 30


def working_memory(
    budget: Budget | None, formats: Collection[str] | None, threads: int, nodes: int = 0
) -> int:
    """Return the bytes left for buffers of a process that may take ``budget`` in all.

    Args:
        budget: bound for the whole process; None: 4 GiB, or half of the memory if that is less.
        formats: formats of the files that are read (``FileFormat``); None: a program makes edges.
        threads: number of parsing threads.
        nodes: bytes that arrays of all nodes take, beside the buffers or in their place.

    Raises:
        InvalidArgumentError: too small; names the least.
    """
    with contextlib.suppress(ImportError):  # opening a file explains the error
        if formats is not None and not {"npy", "gl"}.issuperset(formats):
            import pyarrow.csv
        if formats is not None and "parquet" in formats:
            import pyarrow.parquet  # noqa: F401
    budget = budget or Budget.default(_DEFAULT)
    resident = _resident()
    parsing = _PARSING + threads * _PER_THREAD
    if formats is not None and _TEXT_OR_ARRAYS.issuperset(formats):
        parsing = _PARSING_TEXT + threads * _PER_TEXT_THREAD
    minimum = resident + parsing + _LEAST + nodes
    if budget.limit < minimum:
        arrays = f", arrays of all nodes {format_size(nodes)}" if nodes else ""
        raise InvalidArgumentError(
            f"{budget} is too small: the least is {-(-minimum >> 20)}M here "
            f"(this process takes {format_size(resident)} by itself, reading up to "
            f"{format_size(parsing)}{arrays}, and buffers need {format_size(_LEAST)})"
        )
    return budget.limit - resident - parsing


def _resident() -> int:
    """Return the resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
