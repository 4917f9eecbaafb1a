"""Asking other processes of the same user for their snapshots."""

from __future__ import annotations

import json
import socket
from typing import Any

from aethergraph._checks.arrays import as_count
from aethergraph.errors import FormatError, MissingFileError, StorageError
from aethergraph.observe.place import connect, folder, opened_folder, processes

__all__ = ["ask", "list_processes"]

#: Bytes of an answer at most: more is no snapshot.
_MOST = 64 << 20


def list_processes() -> list[int]:
    """Return the numbers of this user's processes that are observed.

    Raises:
        StorageError: the folder of their sockets is not this user's own.
    """
    with opened_folder() as where:
        return [] if where is None else processes(where)


def ask(pid: int) -> dict[str, Any]:
    """Return the snapshot of another process, as :func:`aethergraph.observe.snapshot` there.

    Raises:
        InvalidArgumentError: ``pid`` is no number of a process.
        MissingFileError: no process of that number is observed.
        StorageError: it does not answer.
        FormatError: its answer is no snapshot.
    """
    number = as_count(pid, "pid")
    try:
        with opened_folder() as where:
            link = None if where is None else connect(where, number)
        if link is None:
            raise MissingFileError(
                f"process {pid} shows no metrics in {folder()}: it has to call "
                "aethergraph.observe.enable()"
            )
        with link:
            text = _read(link)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"process {pid} does not answer: {error}") from None
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("metrics"), dict):
        raise FormatError(f"process {pid}: its answer is no snapshot")
    return answer


def _read(link: socket.socket) -> bytes:
    parts, size = [], 0
    while size < _MOST and (part := link.recv(1 << 16)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)
