"""What a build within a memory budget may take for its buffers."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from aethergraph._memory import format_size, parse_size
from aethergraph.errors import InvalidArgumentError

__all__ = ["working_memory"]

#: Blocks that are being parsed, what libraries keep, and slack; more for each parsing thread.
_PARSING = 104 << 20
_PER_THREAD = 16 << 20
_LEAST = 32 << 20
_NAME = "memory_budget (--memory)"


def working_memory(budget: int | str, parses: bool, threads: int) -> int:
    """Bytes left for buffers of a process that may take ``budget`` in all.

    Arguments:
        parses: text or Parquet is read, by pyarrow.
        threads: how many parse.

    Errors:
        InvalidArgumentError: too small; names the least.
    """
    if parses:
        with contextlib.suppress(ImportError):  # explained where a file is opened
            import pyarrow.csv
            import pyarrow.parquet  # noqa: F401
    size, taken = parse_size(budget, _NAME), _resident()
    parsing = _PARSING + threads * _PER_THREAD
    least = taken + parsing + _LEAST
    if size < least:
        raise InvalidArgumentError(
            f"{_NAME} = {budget!r} is too small: the least is {-(-least >> 20)}M here "
            f"(this process takes {format_size(taken)} by itself, parsing up to "
            f"{format_size(parsing)}, and buffers need {format_size(_LEAST)})"
        )
    return size - taken - parsing


def _resident() -> int:
    """Resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
