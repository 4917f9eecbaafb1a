"""Logs of live graphs: the notes of a replay, and damage, which is found and cut off."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from aethergraph._native.core import ffi, lib, new_error, raise_error
from aethergraph._native.tasks import Task, lend, run_task


def verify_journal(directory: str, graph: bytes, begin: int) -> int:
    """Look for damage in a log that no graph has open, from commit ``begin`` on.

    Returns:
        The number of the last commit.
    """
    last = ffi.new("uint64_t *")
    uuid, err = ffi.from_buffer("uint8_t[]", graph), new_error()

    def read(task: Task) -> int:
        return int(
            lib.aether_journal_verify(os.fsencode(directory), uuid, begin, last, lend(task, 1), err)
        )

    code = run_task(read, None, 1)
    if code:
        raise_error(code, err)
    return int(last[0])


def truncate_journal(directory: str, graph: bytes, begin: int) -> int:
    """Let a damaged log end before its first damaged commit; return the number of the last one."""
    last = ffi.new("uint64_t *")
    uuid, err = ffi.from_buffer("uint8_t[]", graph), new_error()
    code = lib.aether_journal_truncate(os.fsencode(directory), uuid, begin, last, err)
    if code:
        raise_error(code, err)
    return int(last[0])


class Notes:
    """Taker of the notes of a replay, and the exception that it raised."""

    def __init__(self, take: Callable[[int, int, bytes], None]) -> None:
        self.take = take
        self.error: BaseException | None = None


@ffi.def_extern(name="aether_python_note", error=1)  # type: ignore[untyped-decorator]
def _note(user: Any, lsn: int, kind: int, content: Any, size: int) -> int:
    notes: Notes = ffi.from_handle(user)
    try:
        notes.take(lsn, kind, bytes(ffi.buffer(content, size)))
    except BaseException as error:
        notes.error = error
        return 1
    return 0
