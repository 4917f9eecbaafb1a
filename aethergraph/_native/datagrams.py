"""Rows in datagrams, from a socket or the queues of a network interface (``native/src/net``)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import ffi, lib, new_error, raise_error

#: What is known of a datagram before its rows, as ``aether_datagram``.
HEAD = np.dtype([("sequence", "<u8"), ("offset", "<u8"), ("stream", "<u4"), ("rows", "<u4")])
#: Datagrams that one call takes at most, and the bytes that it has for their rows.
_AT_ONCE, _ROOM = 1024, 8 << 20


class ReceiverStats(NamedTuple):
    """Counts of a receiver.

    Attributes:
        by_socket: datagrams that came by the socket.
        by_xdp: frames that came by AF_XDP.
        refused: those of both that were damaged, or no datagrams of ours.
    """

    by_socket: int
    by_xdp: int
    refused: int


def pack(stream: int, sequence: int, num_rows: int, rows: bytes) -> bytes:
    """Return a datagram of rows.

    Raises:
        LimitError: it would be longer than UDP can carry.
    """
    head = ffi.new("aether_datagram *", {"sequence": sequence, "stream": stream, "rows": num_rows})
    out = bytearray(24 + len(rows))
    err = new_error()
    code = lib.aether_datagram_pack(
        head, ffi.from_buffer(rows), len(rows), ffi.from_buffer(out), len(out), err
    )
    if code:
        raise_error(code, err)
    return bytes(out)


class Receiver:
    """Takes many datagrams to a call.

    Args:
        descriptor: a bound UDP socket, to be closed after the receiver.
        row_bytes: bytes of a row.
    """

    def __init__(self, descriptor: int, row_bytes: int) -> None:
        self._err = new_error()
        self._receiver: Any = lib.aether_receiver_open(descriptor, row_bytes, self._err)
        if self._receiver == ffi.NULL:
            raise_error(self._err.code, self._err)
        self._row_bytes = row_bytes
        self._room = np.empty(_ROOM, np.uint8)
        self._heads = np.empty(_AT_ONCE, HEAD)
        self._count = ffi.new("uint32_t *")

    def attach(self, interface: str, queues: int) -> None:
        """Also take what comes to the first queues of a network interface, by AF_XDP.

        Raises:
            MissingFileError: there is no such interface.
            StorageError: the system refuses; its ``errno`` says why. The socket goes on.
        """
        name = ffi.new("char[]", interface.encode())
        code = lib.aether_receiver_attach(self._receiver, name, queues, self._err)
        if code:
            raise_error(code, self._err)

    def wait(self, milliseconds: int) -> bool:
        """Return whether a datagram is there; wait so long for one, or until a signal."""
        code = lib.aether_receiver_wait(self._receiver, milliseconds, self._err)
        if code < 0:
            raise_error(code, self._err)
        return bool(code)

    def take(self) -> tuple[NDArray[Any], bytes]:
        """Return the heads [n] of the datagrams that are there, and the bytes of all their rows."""
        code = lib.aether_receiver_take(
            self._receiver,
            ffi.from_buffer(self._room),
            _ROOM,
            ffi.cast("aether_datagram *", ffi.from_buffer(self._heads)),
            _AT_ONCE,
            self._count,
            self._err,
        )
        if code:
            raise_error(code, self._err)
        heads = self._heads[: self._count[0]].copy()
        size = int(heads["rows"].sum(dtype=np.uint64)) * self._row_bytes
        return heads, self._room[:size].tobytes()

    def stats(self) -> ReceiverStats:
        """Return what came since it was opened."""
        counts = ffi.new("aether_receiver_stats *")
        lib.aether_receiver_stats_read(self._receiver, counts)
        return ReceiverStats(counts.by_socket, counts.by_xdp, counts.refused)

    def close(self) -> None:
        """Leave the interface. Calling it twice does nothing."""
        if self._receiver != ffi.NULL:
            lib.aether_receiver_close(self._receiver)
            self._receiver = ffi.NULL

    def __del__(self) -> None:
        if getattr(self, "_receiver", None):
            self.close()
