"""A server in front of another one, which cuts all connections when it is told to, for tests."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

__all__ = ["Relay"]


class Relay:
    """Passes bytes between its clients and a server.

    What it does to its clients is what they see of a server that dies at any moment, in the middle
    of an answer too, and comes back with its disk.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._away = False
        self._left: int | None = None
        self.was_cut = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def open(self, most: int | None = None) -> None:
        """Take connections, and cut them all once so many bytes have come from the server."""
        with self._lock:
            self.was_cut.clear()
            self._away, self._left = False, most

    def close_all(self) -> None:
        """Cut all connections, and take no more."""
        with self._lock:
            self._away, self._left = True, None
            for one in self._open:
                with suppress(OSError):  # with a reset, as a process that is gone
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._open.clear()
        self.was_cut.set()

    def close(self) -> None:
        self._listener.close()
        self.close_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._away:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self.target))
                self._open += [client, server]
            for one, other in ((client, server), (server, client)):
                threading.Thread(
                    target=self._pass, args=(one, other, one is server), daemon=True
                ).start()

    def _pass(self, one: socket.socket, other: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 14):
                if is_answer and (data := self._allowed(data)) is None:
                    return
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def _allowed(self, data: bytes) -> bytes | None:
        """Count bytes of the server; cut the connections if it is time."""
        with self._lock:
            if self._left is None:
                return data
            self._left -= len(data)
            if self._left > 0:
                return data
        self.close_all()
        return None
