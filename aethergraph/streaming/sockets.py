r"""SocketSource: rows that programs send over TCP, as Arrow IPC streams.

A connection, as lines of JSON and then Arrow::

    client   {"token": "...", "partition": 0}\n          who it is, and what it sends
    server   {"next": 1200}\n                            number of the row to send next
    client   Arrow IPC stream                            rows 1200, 1201, ...
    server   {"next": 1700}\n ...                        rows before 1700 are on disk
             {"error": "..."}\n                          and the end

A client keeps rows until the server says that they are on disk, and after a broken connection sends
from "next" on. So each row is in the graph once, whichever side is killed.
"""

from __future__ import annotations

import hmac
import json
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.optional import require
from aethergraph._checks.options import as_text, shown
from aethergraph.errors import AetherError, ClosedError, InvalidArgumentError, SourceError
from aethergraph.streaming.decode import Table, arrow_columns
from aethergraph.streaming.records import Records
from aethergraph.streaming.schema import Schema, SchemaSource, check_listener

__all__ = ["SocketSource"]

#: Bytes of a line, and seconds that its first one may take to come.
_LINE, _GREETING = 1 << 16, 10.0
#: Batches of a partition that wait to be polled; connections at once, and those among them that
#: have not said who they are.
_WAITING, _CONNECTIONS, _STRANGERS = 16, 256, 64
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(eq=False)
class _Connection:
    """Connection that sends the rows of a partition."""

    socket: socket.socket
    partition: int = -1
    is_current: bool = True
    #: Number of the row behind its last one.
    end_row: int = 0
    writing: threading.Lock = field(default_factory=threading.Lock)

    def say(self, **line: Any) -> None:
        with suppress(OSError), self.writing:
            self.socket.sendall(json.dumps(line).encode() + b"\n")

    def end(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class _Bounded:
    """File that refuses to read what is announced as longer than a message may be."""

    closed = False

    def __init__(self, file: Any, most: int) -> None:
        self._file, self._most = file, most

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= self._most:
            raise _TooLongError(f"a message of {size} bytes, where {self._most} are the most")
        found: bytes = self._file.read(size)
        return found


class _TooLongError(Exception):
    """Error of a message that is longer than it may be."""


class SocketSource(SchemaSource):
    r"""Stream of rows that other programs send over TCP, as Arrow IPC streams.

    ::

        source = SocketSource("events", Schema.arrow(src="user", dst="post"), port=9000)
        with Ingestor(graph, source): ...

        # elsewhere
        file = socket.create_connection(("localhost", 9000)).makefile("rwb")
        file.write(b'{"partition": 0}\n')
        file.flush()
        following = json.loads(file.readline())["next"]        # the row to begin with
        with pyarrow.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table.slice(following))
        file.flush()

    The server says ``{"next": n}`` once the rows before n are on disk. A client keeps rows until
    then, and sends them again after a broken connection, from the number that it is told.

    Args:
        name: name under which the graph keeps the offsets.
        schema: fields of the rows, made by :meth:`Schema.arrow`.
        host: address to listen at. Others than loopback need ``token`` and ``tls``.
        port: port to listen at; 0: any that is free, see :attr:`port`.
        token: text that clients must give.
        tls: files of certificate and key in PEM.
        max_message: bytes of a message, which is a batch of rows, at most; a client that announces
            more is told so, and its connection ends.

    Attributes:
        port: port that it listens at.
        needs_disk: True: what is acknowledged must be on disk.
    """

    needs_disk = True

    def __init__(
        self,
        name: str,
        schema: Schema,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        tls: tuple[str | Path, str | Path] | None = None,
        max_message: int = 64 << 20,
    ) -> None:
        require("pyarrow", "sockets need", "stream")
        check_listener(name, schema, "arrow")
        if host not in _LOOPBACK and (token is None or tls is None):
            raise InvalidArgumentError(
                f"host = {shown(host)} is open to others: give token= and tls=, or listen at "
                "127.0.0.1"
            )
        self.name, self.schema = name, schema
        self._host, self.port = host, as_count(port, "port")
        self._token = as_text(token, "token")
        self._max_message = as_count(max_message, "max_message")
        self._tls: ssl.SSLContext | None = None
        if tls is not None:
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            try:
                self._tls.load_cert_chain(*tls)
            except (OSError, TypeError, ValueError) as error:
                raise InvalidArgumentError(f"tls = {shown(tls)}: {error}") from None
        self._server: socket.socket | None = None
        self._changed = threading.Condition()
        self._waiting: dict[int, deque[Records]] = {}
        self._next: dict[int, int] = {}
        self._read: dict[int, int] = {}
        self._told: dict[int, int] = {}
        self._paused: frozenset[int] = frozenset()
        self._strangers: deque[_Connection] = deque()
        self._connections: set[_Connection] = set()
        self._threads: set[threading.Thread] = set()
        self._failure: AetherError | None = None

    # ---- Source --------------------------------------------------------------------------------

    def open(self, offsets: Mapping[int, int]) -> None:
        """Listen; clients are told to begin at these numbers."""
        self.close()
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        server = socket.socket(family, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((self._host, self.port))
            server.listen()
        except (OSError, OverflowError) as error:
            server.close()
            raise SourceError(None, f"{self._host}:{self.port}: {error}") from None
        self.port = server.getsockname()[1]
        self._next, self._read, self._told = dict(offsets), dict(offsets), dict(offsets)
        self._waiting, self._paused, self._failure = {}, frozenset(), None
        self._server = server
        self._begin(self._accept, server)

    def poll(self, timeout: float) -> Sequence[Records] | None:
        """Return the rows that have come."""
        until = time.monotonic() + timeout
        with self._changed:
            while True:
                if self._server is None:
                    raise ClosedError(f"the source {self.name!r} is not open")
                if self._failure is not None:
                    raise self._failure
                found = []
                for partition, waiting in self._waiting.items():
                    while waiting and partition not in self._paused:
                        found.append(waiting.popleft())
                        self._read[partition] = found[-1].following
                if found:
                    self._changed.notify_all()
                    return found
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return []

    def pause(self, partitions: Iterable[int]) -> None:
        """Return no rows of these partitions; their clients wait when enough is on its way."""
        with self._changed:
            self._paused = frozenset(partitions)
            self._changed.notify_all()

    def lag(self) -> dict[int, int]:
        """Return the number of rows of each partition that have come and were not read yet."""
        with self._changed:
            return {p: end - self._read.get(p, 0) for p, end in self._next.items()}

    def acknowledge(self, offsets: Mapping[int, int]) -> None:
        """Tell the clients what is on disk."""
        with self._changed:
            told = [one for one in self._connections if one.is_current and one.partition in offsets]
        for one in told:
            one.say(next=offsets[one.partition])
        with self._changed:
            self._told.update(offsets)
            self._changed.notify_all()

    def close(self) -> None:
        """End all connections."""
        with self._changed:
            server, self._server = self._server, None
            connections = [*self._connections, *self._strangers]
            self._connections, self._strangers = set(), deque()
            for one in connections:
                one.is_current = False
            self._changed.notify_all()
        if server is None:
            return
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        for one in connections:
            one.end()
        for thread in list(self._threads):
            thread.join(_GREETING)

    # ---- connections -------------------------------------------------------------------------

    def _begin(self, call: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=call, args=args, daemon=True, name=f"socket {self.name}")
        thread.start()  # before it is known: close() joins it
        self._threads = {one for one in self._threads if one.is_alive()} | {thread}

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:  # it was closed
                return
            with self._changed:
                if self._server is not server:
                    client.close()
                    return
                one = _Connection(client)
                self._strangers.append(one)
                # Whoever says nothing holds no place that another could have.
                oldest = self._strangers.popleft() if len(self._strangers) > _STRANGERS else None
                if oldest is not None:
                    oldest.is_current = False
            if oldest is not None:
                oldest.end()
            self._begin(self._serve, one)

    def _serve(self, one: _Connection) -> None:
        try:
            one.socket.settimeout(_GREETING)
            if self._tls is not None and not self._shake_hands(one, self._tls):
                return
            with one.socket.makefile("rb") as file:
                greeting = self._greet(one, file.readline(_LINE))
                if greeting is not None:
                    one.say(error=greeting)
                    return
                one.socket.settimeout(None)
                self._receive(one, file)
        except (OSError, ValueError):  # it is gone; what came whole stays
            pass
        finally:
            with self._changed:
                self._connections.discard(one)
                with suppress(ValueError):
                    self._strangers.remove(one)
            one.end()

    def _shake_hands(self, one: _Connection, tls: ssl.SSLContext) -> bool:
        """Begin TLS; return False if the connection has ended meanwhile."""
        with self._changed:  # close() is to end the socket that the handshake is made on
            if not one.is_current:
                return False
            one.socket = tls.wrap_socket(
                one.socket, server_side=True, do_handshake_on_connect=False
            )
        try:
            one.socket.do_handshake()
        except AttributeError:  # what ssl raises once another thread has shut the socket down
            return False
        return True

    def _greet(self, one: _Connection, line: bytes) -> str | None:
        """Begin a connection; return why that is not possible."""
        try:
            found = json.loads(line)
            token, partition = found.get("token"), found["partition"]
            as_integer(partition, "partition", bools=False)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            return 'the first line must be {"partition": number, "token": text}'
        if self._token is not None and not (
            isinstance(token, str) and hmac.compare_digest(token.encode(), self._token.encode())
        ):
            return "the token is wrong"
        if not 0 <= partition < 2**63:
            return f"partition = {partition} is not in 0..2**63 - 1"
        with self._changed:
            if not one.is_current:
                return "there are too many connections"
            self._strangers.remove(one)
            # The connection before may be dead without knowing.
            before = {other for other in self._connections if other.partition == partition}
            if len(self._connections - before) >= _CONNECTIONS:
                return f"there are {_CONNECTIONS} connections already"
            self._connections.add(one)
            for other in before:
                other.is_current = False
            one.partition = partition
            following = self._next.setdefault(partition, 0)
            self._read.setdefault(partition, 0)
            self._changed.notify_all()
        for other in before:
            other.end()
        one.say(next=following)
        return None

    def _receive(self, one: _Connection, file: Any) -> None:
        import pyarrow as pa

        try:
            while file.peek(1):  # one stream after the other, until the client has ended
                bounded = pa.PythonFile(_Bounded(file, self._max_message), "r")
                for batch in pa.ipc.open_stream(bounded):
                    columns = arrow_columns(batch, self.schema.fields)
                    if batch.num_rows and not self._put(one, batch, columns):
                        return
        except (AetherError, _TooLongError) as error:
            one.say(error=str(error))
            return
        except (pa.ArrowException, OSError, ValueError) as error:
            one.say(error=f"no Arrow IPC stream: {error}")
            return
        with self._changed:  # it may wait to hear that all is on disk
            while one.is_current and self._told.get(one.partition, 0) < one.end_row:
                self._changed.wait()

    def _put(self, one: _Connection, batch: Any, columns: dict[str, Any]) -> bool:
        """Hand a batch over; return False if the connection has ended meanwhile."""

        def row(at: int) -> bytes:
            return json.dumps(batch.slice(at, 1).to_pylist()[0], default=str).encode()

        with self._changed:
            waiting = self._waiting.setdefault(one.partition, deque())
            while one.is_current and len(waiting) >= _WAITING:
                self._changed.wait()
            if not one.is_current or self._server is None:
                return False
            begin = self._next[one.partition]
            end = self._next[one.partition] = one.end_row = begin + batch.num_rows
            table = Table(columns, np.arange(batch.num_rows))
            waiting.append(
                self.schema.records(table, one.partition, end, np.arange(begin, end), (), row)
            )
            self._changed.notify_all()
            return True
