r"""SocketSource: rows that programs send over TCP, as Arrow IPC streams.

A connection, as lines of JSON and then Arrow::

    client   {"token": "...", "partition": 0}\n          who it is, and what it sends
    server   {"next": 1200, "on_disk": 1000}\n           row to send next; which are on disk
    client   Arrow IPC stream                            rows 1200, 1201, ...
    server   {"next": 1700}\n ...                        rows before 1700 are on disk
             {"error": "..."}\n                          and the end

A client keeps rows until the server says that they are on disk, and after a broken connection sends
from "next" on. Rows before that which are not on disk yet are here; the server says when they are.
So each row is in the graph once, whichever side is killed.
"""

from __future__ import annotations

import hmac
import io
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aethergraph._checks.arrays import as_integer
from aethergraph._checks.optional import require
from aethergraph._checks.options import shown
from aethergraph.errors import AetherError, InvalidArgumentError
from aethergraph.remote.listening import accept, keep_alive
from aethergraph.streaming.pushed import LimitedFile, PushedSource, Sender
from aethergraph.streaming.schema import Schema

__all__ = ["SocketSource"]

#: Bytes of a line, and seconds until a client must have said who it is.
_LINE, _GREETING = 1 << 16, 10.0
#: Bytes that are read at once.
_BUFFER = 1 << 18
#: Connections at once that have not said so yet. More are ended, the oldest ones.
_STRANGERS = 64


class _Wire(io.RawIOBase):
    """Bytes of a connection that one thread reads while another writes.

    TLS has one state for both directions, which is not for two threads at once. So they take turns,
    and wait for the other end outside of them.

    Attributes:
        until: time at which the other end must have answered; None: there is none.
    """

    def __init__(self, connection: socket.socket, until: float | None) -> None:
        self._socket, self._turn, self.until = connection, threading.Lock(), until
        connection.setblocking(False)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is, waiting for the first byte; return its number of bytes, 0 at the end.

        Raises:
            OSError: the connection has broken; or it took too long.
        """
        return self._try(lambda: self._socket.recv_into(buffer), select.POLLIN)

    def send(self, content: bytes) -> None:
        """Write all of it.

        Raises:
            OSError: as :meth:`readinto`.
        """
        left = memoryview(content)
        while left:
            some = left
            left = left[self._try(lambda: self._socket.send(some), select.POLLOUT) :]  # noqa: B023

    def _try(self, call: Callable[[], int], event: int) -> int:
        while True:
            with self._turn:
                try:
                    return call()
                except ssl.SSLWantReadError:
                    event = select.POLLIN
                except ssl.SSLWantWriteError:
                    event = select.POLLOUT
                except BlockingIOError:
                    pass
            look = select.poll()
            look.register(self._socket, event)
            left = None if self.until is None else 1000 * max(0.0, self.until - time.monotonic())
            if not look.poll(left):
                raise TimeoutError


@dataclass(eq=False)
class _Connection(Sender):
    """Connection that sends the rows of a partition."""

    socket: socket.socket = field(kw_only=True)
    wire: _Wire | None = None
    writing: threading.Lock = field(default_factory=threading.Lock)

    def say(self, **line: Any) -> None:
        """Send a message; nothing if it is gone."""
        with suppress(OSError), self.writing:
            if self.wire is not None:
                self.wire.send(json.dumps(line).encode() + b"\n")

    def leave(self) -> None:
        """Let its thread, which may be in a handshake, find that it is at its end."""
        with suppress(OSError):
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)  # not that of TLS, which waits


class SocketSource(PushedSource):
    r"""Stream of rows that other programs send over TCP, as Arrow IPC streams.

    ::

        source = SocketSource("events", Schema.arrow(src="user", dst="post"), port=9000)
        with Ingestor(graph, source): ...

        # elsewhere
        file = socket.create_connection(("localhost", 9000)).makefile("rwb")
        file.write(b'{"partition": 0}\n')
        file.flush()
        begin = json.loads(file.readline())
        with pyarrow.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table.slice(begin["next"]))     # the row to begin with
        file.flush()
        on_disk = begin["on_disk"]
        while on_disk < len(table):
            on_disk = json.loads(file.readline())["next"]      # on disk up to here

    The server says ``{"next": n}`` once the rows before n are on disk. A client keeps rows until
    then, and goes on after a broken connection with the row ``"next"`` that it is told. Rows before
    it may not be on disk yet: those before ``"on_disk"`` are, and of the others it hears. If the
    ingestor fails, the server says ``{"error": why}`` and ends.

    Args:
        name: name under which the graph keeps the offsets.
        schema: fields of the rows, made by :meth:`Schema.arrow`.
        host: address to listen at. Others than loopback need ``token`` and ``tls``.
        port: port to listen at; 0: any that is free, see :attr:`port`.
        token: text that clients must give.
        tls: files of certificate and key in PEM.
        max_message: most bytes of a message of a stream, a number or a text such as ``"1G"``.

    Attributes:
        port: port that it listens at.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        tls: tuple[str | Path, str | Path] | None = None,
        max_message: int | str = "256M",
    ) -> None:
        require("pyarrow", "sockets need", "stream")
        super().__init__(name, schema, host, port, token, tls, max_message)
        self._tls: ssl.SSLContext | None = None
        if tls is not None:
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            try:
                self._tls.load_cert_chain(*tls)
            except (OSError, TypeError, ValueError) as error:
                raise InvalidArgumentError(f"tls = {shown(tls)}: {error}") from None
        self._server: socket.socket | None = None
        #: Connections that have not said who they are, the oldest first.
        self._strangers: list[_Connection] = []
        self._threads: set[threading.Thread] = set()

    # ---- Source --------------------------------------------------------------------------------

    def open(self, offsets: Mapping[int, int]) -> None:
        """Listen; clients are told to begin at these numbers."""
        self.close()
        server = self._bound()
        self.port = server.getsockname()[1]
        self._begin_at(offsets)
        self._server = server
        self._begin(self._accept, server)

    def close(self) -> None:
        """End all connections."""
        ended = self._end()
        with self._changed:
            server, self._server = self._server, None
            strangers, self._strangers = self._strangers, []
        if server is None:
            return
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        for connection in (*ended, *strangers):
            connection.leave()
        for thread in list(self._threads):
            thread.join(_GREETING)

    # ---- connections -------------------------------------------------------------------------

    def _begin(self, call: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=call, args=args, daemon=True, name=f"socket {self.name}")
        thread.start()  # before it is known: close() joins it
        self._threads = {worker for worker in self._threads if worker.is_alive()} | {thread}

    def _accept(self, server: socket.socket) -> None:
        while (client := accept(server)) is not None:
            connection = _Connection(socket=client)
            with self._changed:
                if self._server is not server:
                    client.close()
                    return
                self._strangers.append(connection)
                # Whoever has the token gets in, even if many without it knock.
                oldest = self._strangers.pop(0) if len(self._strangers) > _STRANGERS else None
            if oldest is not None:
                oldest.leave()
            try:
                self._begin(self._serve, connection)
            except RuntimeError:  # no further thread
                self._forget(connection)
                client.close()

    def _serve(self, connection: _Connection) -> None:
        try:
            until = time.monotonic() + _GREETING
            keep_alive(connection.socket)
            if self._tls is not None:
                self._shake_hands(connection, self._tls)
            wire = connection.wire = _Wire(connection.socket, until)
            file = io.BufferedReader(wire, _BUFFER)
            refusal = self._greet(connection, file.readline(_LINE))
            if refusal is not None:
                connection.say(error=refusal)
                return
            wire.until = None
            self._receive(connection, file)
        except (OSError, ValueError):  # it is gone; what came whole stays
            pass
        finally:
            self._forget(connection)
            self._end_sending(connection)
            connection.leave()
            if connection.telling is not None:
                connection.telling.join()
            connection.socket.close()

    def _shake_hands(self, connection: _Connection, tls: ssl.SSLContext) -> None:
        with self._changed:  # close() finds one socket or the other
            if connection not in self._strangers:
                raise ConnectionAbortedError
            wrapped = tls.wrap_socket(
                connection.socket, server_side=True, do_handshake_on_connect=False
            )
            connection.socket = wrapped
        wrapped.settimeout(_GREETING)
        wrapped.do_handshake()

    def _forget(self, connection: _Connection) -> None:
        with self._changed:
            if connection in self._strangers:
                self._strangers.remove(connection)

    def _greet(self, connection: _Connection, line: bytes) -> str | None:
        """Begin a connection; return why that is not possible."""
        try:
            greeting = json.loads(line)
            token, partition = greeting.get("token"), greeting["partition"]
            as_integer(partition, "partition", bools=False)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            return 'the first line must be {"partition": number, "token": text}'
        credential = token.strip() if isinstance(token, str) else ""  # as the source's own is
        if self._token is not None and not hmac.compare_digest(
            credential.encode(), self._token.encode()
        ):
            return "the token is wrong"
        self._forget(connection)
        return self._begin_sending(connection, partition)

    def _receive(self, connection: _Connection, file: Any) -> None:
        import pyarrow as pa

        limited = LimitedFile(file, self.max_message)
        try:
            while file.peek(1):  # one stream after the other, until the client has ended
                for batch in pa.ipc.open_stream(limited):
                    if batch.num_rows and not self._put(connection, batch):
                        return
        except AetherError as error:
            connection.say(error=str(error))
            return
        except (pa.ArrowException, OSError, ValueError) as error:
            connection.say(error=f"no Arrow IPC stream: {error}")
            return
        self._wait_until_told(connection)
