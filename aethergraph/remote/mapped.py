"""Rows of a server on this machine, read from its file or memory without asking it.

::

    ATTACH over a unix socket ──> descriptor ──mapped──> rows, as of a file of one's own
         └── stays open: its end says that the server is gone

The server answers for what is read: once its connection has ended, nothing is read before it, or
one that came in its place, has said that the rows are the same. Otherwise a table that begins anew
would be read as it was.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.places import reword
from aethergraph.errors import AetherError, FormatError
from aethergraph.protocols import RowSource
from aethergraph.remote import wire
from aethergraph.remote.endpoint import Connection, Endpoint, Table

__all__ = ["FILE", "Mapped", "send_file"]

#: Rows of a file that is mapped, and those of a live table.
MappedRows: TypeAlias = native.NativeRows | native.LiveSlots

#: Number of the way in a request: by the descriptor of a file or memory.
FILE = 0
#: Path of a file that came as a descriptor.
_DESCRIPTOR = re.compile(r"/proc/self/fd/\d+")


def send_file(sock: socket.socket, request: int, rows: RowSource) -> None:
    """Answer an ATTACH for the descriptor of rows; without one if nobody can map them."""
    shared = rows.shared_file()
    if shared is None:
        wire.send(sock, wire.ATTACH, request, wire.pack_facts({}))
        return
    with shared:
        facts = {"offset": shared.offset, "missing": shared.missing}
        body = wire.pack_facts(facts)
        wire.send_descriptor(sock, wire.ATTACH, request, body, shared.descriptor)


class Mapped:
    """Rows of a server that are mapped; None in :meth:`rows` if they cannot be.

    Args:
        endpoint: the server, at a unix socket.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._attached: tuple[Connection | None, MappedRows | None] = self._attach()

    def gather(
        self, ids: NDArray[Any], out: NDArray[Any], out_code: int, task: native.Task | None = None
    ) -> bool:
        """Set ``out[i]`` to row ``ids[i]``; return False if the server is to be asked instead.

        Raises:
            AetherError: of the rows, as the server would say it.
        """
        rows = self.rows(task)
        if rows is not None:
            with _as_remote(self._endpoint.place):
                rows.gather(ids, out, out_code, task)
        return rows is not None

    def rows(self, task: native.Task | None = None) -> MappedRows | None:
        """Return the rows; None: ask the server for them.

        Raises:
            ServerTimeoutError, FileChangedError: the server is gone, or has come with others.
        """
        connection, rows = self._attached
        if rows is None or connection is None or connection.is_open():
            return rows
        connection.close()
        self._attached = self._attach(task)
        return self._attached[1]

    def _attach(
        self, task: native.Task | None = None
    ) -> tuple[Connection | None, MappedRows | None]:
        with _as_remote(self._endpoint.place):
            return self._endpoint.run(_attach, task)

    @property
    def is_there(self) -> bool:
        """True if the server's rows can be mapped."""
        return self._attached[1] is not None

    def close(self) -> None:
        """End the connection, and let go of the rows."""
        (connection, _), self._attached = self._attached, (None, None)
        if connection is not None:
            connection.close()


@contextmanager
def _as_remote(place: str) -> Iterator[None]:
    """Let errors name the server's address, not a descriptor, and what its clients can do."""

    def change(text: str) -> str:
        return wire.advise_client(_DESCRIPTOR.sub(f"rows of {place}", text))

    try:
        yield
    except AetherError as error:
        reword(error, change)
        raise


def _attach(connection: Connection) -> tuple[Connection | None, MappedRows | None]:
    """Return a connection of its own and the rows; (None, None) if there is no descriptor."""
    facts, descriptor = connection.attach(FILE)
    if descriptor is None:
        return None, None
    try:
        rows = _open(facts, descriptor, connection.table)
    finally:
        os.close(descriptor)
    return connection.kept(), rows


def _open(facts: dict[str, Any], descriptor: int, table: Table) -> MappedRows:
    code = native.dtype_code(table.dtype)
    try:
        offset, missing = int(facts["offset"]), facts["missing"]
        number = None if missing is None else native.MISSING[missing]
    except (KeyError, TypeError, ValueError):
        raise wire.WireError("a description of a file that cannot be read") from None
    if number is None:
        file = native.NativeFile(f"/proc/self/fd/{descriptor}", raw=True)
        array: NDArray[Any] = file.array(offset, table.shape, native.ARRAY_DTYPES[code])
        native.advise(array, native.ADVICE_RANDOM)
        return native.NativeRows(array, code, file.guard())
    slots = native.LiveSlots.attach(descriptor, False)
    if (slots.layout.num_rows, *slots.layout.row_shape) != table.shape or slots.code != code:
        raise FormatError("the memory has other rows than the server says")
    slots.missing = number
    return slots
