"""Peer: connection of a client, as its server sees it."""

from __future__ import annotations

import math
import socket
import ssl
import time
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from aethergraph.remote import wire
from aethergraph.remote.listening import REPLY_SECONDS

__all__ = ["Peer"]

#: Bytes of the memory for replies that a connection keeps.
_KEPT = 8 << 20


class Peer:
    """Connection of a client."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.memory = np.empty(0, np.uint8)
        #: Time (monotonic) by which the reply that is sent must have been read.
        self._until = math.inf
        self.requests = self.rows = self.row_bytes = self.samples = 0

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Counts of its use: requests, rows, bytes of rows, samples."""
        return self.requests, self.rows, self.row_bytes, self.samples

    def begin_tls(self, context: ssl.SSLContext, seconds: float) -> None:
        """Agree upon TLS with the client.

        Raises:
            OSError: there is none, which the client cannot be told.
        """
        self.socket.settimeout(seconds)
        secured = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.socket = secured
        try:
            secured.do_handshake()
        except TimeoutError as error:  # of no use to one who has no TLS yet: words would wait, too
            raise ConnectionError(str(error)) from None

    def send(self, op: int, request: int, *parts: bytes | memoryview, flags: int = 0) -> None:
        """Send a frame; whoever finds the client late may :meth:`stop` it meanwhile."""
        self._until = time.monotonic() + REPLY_SECONDS
        wire.send(self.socket, op, request, *parts, flags=flags)
        self._until = math.inf

    @property
    def is_late(self) -> bool:
        """True if the client has not read the last reply in the time that it may take.

        The system's time-outs are for each of its calls, and a reply may need any number of them.
        """
        return time.monotonic() >= self._until

    def stop(self, how: int) -> None:
        """End the connection for reading, or altogether, from any thread."""
        with suppress(OSError):  # not SSLSocket's own, which takes TLS away from the other thread
            socket.socket.shutdown(self.socket, how)

    def room(self, size: int) -> NDArray[np.uint8]:
        """Return memory for a reply."""
        if size > len(self.memory):
            if size > _KEPT:
                return np.empty(size, np.uint8)
            self.memory = np.empty(max(size, 1 << 16), np.uint8)
        return self.memory[:size]
