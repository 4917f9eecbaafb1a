"""Endpoint: connections to one server, used by any thread, made anew when they break.

::

    thread ──┐                ┌─ connection, lent to one thread at a time
    thread ──┼─ Endpoint.run ─┼─ connection
    thread ──┘                └─ ...        idle ones are kept; a forked child makes its own

A connection that failed is gone, and what it was used for is done again over a new one: requests
only read. One that was left in the middle, as its thread's task was cancelled, is gone, too.
"""

from __future__ import annotations

import errno
import hmac
import json
import os
import random
import secrets
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.errors import (
    AccessDeniedError,
    AetherError,
    FileChangedError,
    FormatError,
    ServerTimeoutError,
)
from aethergraph.remote import wire
from aethergraph.remote.address import Address, Location, speaks_tls
from aethergraph.remote.waiting import check_cancelled, keep_waiting

__all__ = ["Connection", "Endpoint", "Table", "rows_at_once", "window"]

R = TypeVar("R")
#: ``describe(connection, name)`` asks what a server has under a name.
Describe: TypeAlias = "Callable[[Connection, str], Any]"

#: Requests under way on a connection; what they take must fit the socket's buffer (address.py).
_WINDOW = 4
#: Bytes of rows that a request asks for, about: enough to be worth one, and to be two at once.
_REPLY_BYTES = 2 << 20
#: Most bytes of a description.
_DESCRIPTION = 1 << 20
#: Seconds between two tries to connect at most: a server may be there for a moment only.
_MOST_WAIT = 0.1
#: Seconds to find out whether a server that ended the connection speaks TLS, for its message.
_TLS_SECONDS = 2.0
#: Idle connections that are kept.
_IDLE = 64

#: Endpoints of this process.
_endpoints: weakref.WeakSet[Endpoint] = weakref.WeakSet()


def rows_at_once(row_bytes: int) -> int:
    """Return how many rows of so many bytes a request asks for, at most."""
    return max(1, min(wire.MAX_IDS, _REPLY_BYTES // max(1, row_bytes)))


def window() -> int:
    """Return how many requests may be under way on a connection."""
    return _WINDOW


class Table(NamedTuple):
    """Table as a server describes it.

    Attributes:
        number: number that requests name it by.
        shape: shape of all rows, those of other shards included.
        dtype: name of the dtype.
        generation: identity of the content.
        live: True if rows change.
        begin: first row of the server's shard.
        end: row behind its last one.
        shard: (k, n): it is the k-th of n shards.
        names: names of the server's tables.
        content: identity of the content on every machine; "": none is known.
    """

    number: int
    shape: tuple[int, ...]
    dtype: str
    generation: str
    live: bool
    begin: int
    end: int
    shard: tuple[int, int]
    names: tuple[str, ...]
    content: str

    @property
    def called(self) -> str:
        """Name of what is opened, in messages."""
        return "rows"

    def difference(self, before: Table) -> str:
        """Say how it differs from ``before``."""
        facts = (
            ("shape", self.shape, before.shape),
            ("dtype", self.dtype, before.dtype),
            ("shard", "{}/{}".format(*self.shard), "{}/{}".format(*before.shard)),
            ("generation", self.generation, before.generation),
        )
        changed = [f"{name} {now}, before {then}" for name, now, then in facts if now != then]
        return "; ".join(changed) or "another description"

    def is_as(self, before: Table) -> bool:
        """Return whether its rows are those of ``before``; of live ones there may be more."""
        mine, its = (table._replace(number=0, names=()) for table in (self, before))
        if self.live and mine.shape[0] >= its.shape[0]:
            mine = mine._replace(shape=its.shape, begin=its.begin, end=its.end)
        return mine == its


def _certificate_advice(code: int) -> str:
    """Return what helps against what OpenSSL finds wrong with a certificate; see its x509_vfy.h."""
    if code == 9:
        return "correct the clock of this machine or the server's, or have it made anew"
    if code == 10:
        return "give the server a new one, or correct the clock of this machine"
    if code in (62, 64):  # of a name, of an IP address
        return "give a host in the URL that the certificate is for, or make one for this host"
    if code in (2, 18, 19, 20, 21):  # nobody who is known has signed it
        return "give ca= the file of the certificate that the server's own is signed by"
    return "give the server another one, or ca= the file of the one that its own is signed by"


class Connection:
    """Connection to a server that has said who it is.

    Raises:
        OSError, EOFError: it cannot be reached, or breaks off.
        AccessDeniedError: one side does not know the token.
        FormatError: what answers is no server of this protocol.
    """

    def __init__(
        self, address: Address, location: Location, describe: Describe | None = None
    ) -> None:
        self._where, self._request = str(location), 0
        self._process = os.getpid()
        #: True: it is somebody's own, and no longer the endpoint's.
        self.is_kept = False
        #: Seconds that a request may take.
        self.patience = address.timeout
        #: What reads the server's memory beside this connection (onesided.py), or None.
        self.reader: Any = None
        self._head = bytearray(wire.HEADER.size)
        token = address.token()
        try:
            self._socket, name = address.connect(location)
        except ssl.SSLCertVerificationError as error:
            raise FormatError(
                f"{location}: the server's certificate is not accepted: "
                f"{error.verify_message.rstrip('.')}: {_certificate_advice(error.verify_code)}"
            ) from error
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError) as error:
            raise ConnectionResetError(
                f"{location} ended the connection before it said who it is"
            ) from error
        except ssl.SSLError as error:
            raise FormatError(
                f"{location}: no TLS with this server: {error.reason or error}; ca= is the file of "
                "the certificate that its own is signed by, or is left out if it has none"
            ) from error
        self._flags = 0 if isinstance(self._socket, ssl.SSLSocket) else socket.MSG_WAITALL
        try:
            self._greet(token, address, location)
            #: What the server says of what was asked for: a :class:`Table` unless told otherwise.
            self.table: Any = (describe or Connection._describe)(self, name)
        except wire.WireError as error:
            self.close()
            raise FormatError(f"{location}: no server of AetherGraph answers: {error}") from None
        except BaseException:
            self.close()
            raise

    def leave(self) -> None:
        """End the connection, and say before that nothing is asked for any more.

        There is no reply, so that nobody waits for one while a graph is collected.
        """
        with suppress(Exception):  # if it has broken, the server learns of the end anyway
            self.begin(wire.LEAVE)
        self.close()

    @property
    def is_inherited(self) -> bool:
        """True if this process was forked from the one that it belongs to."""
        return self._process != os.getpid()

    def close(self) -> None:
        """End the connection."""
        reader, self.reader = self.reader, None
        if reader is not None:
            reader.close()
        if not self.is_inherited:  # its parent has the socket, too
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    # ---- who is who ----------------------------------------------------------------------------

    def _greet(self, token: bytes | None, address: Address, location: Location) -> None:
        nonce = secrets.token_bytes(wire.NONCE_BYTES)
        try:
            body = self.ask(wire.HELLO, wire.pack_hello(nonce), max_bytes=1 << 16)
        except wire.BusyError:
            raise
        except ConnectionError as error:
            if address.ca is None and speaks_tls(location, min(address.timeout, _TLS_SECONDS)):
                raise FormatError(
                    f"{self._where} speaks TLS: give ca= in the URL, the file of the certificate "
                    "that its own is signed by"
                ) from None
            raise type(error)(
                f"{self._where} ended the connection before it said who it is"
            ) from None
        needs_token, server_nonce = wire.unpack_hello(memoryview(body))
        if token is None:
            if needs_token:
                raise AccessDeniedError(f"{self._where} asks for a token: give token_file=")
            return
        if not needs_token:
            raise AccessDeniedError(
                f"{self._where} asks for no token, so it cannot prove that it is the right server: "
                "start it with a token, or leave token_file= out"
            )
        body = self.ask(
            wire.AUTH, wire.prove(token, b"client", nonce, server_nonce), max_bytes=1 << 16
        )
        if not hmac.compare_digest(body, wire.prove(token, b"server", nonce, server_nonce)):
            raise AccessDeniedError(f"{self._where} does not know the token")

    def _describe(self, name: str) -> Table:
        body = self.ask(wire.META, name.encode(), max_bytes=_DESCRIPTION)
        try:
            facts = json.loads(body)
            shape, shard = tuple(map(int, facts["shape"])), tuple(map(int, facts["shard"]))
            table = Table(
                int(facts["table"]), shape, str(facts["dtype"]), str(facts["generation"]),
                bool(facts["live"]), int(facts["begin"]), int(facts["end"]), (shard[0], shard[1]),
                tuple(map(str, facts["names"])), str(facts.get("content", "")),
            )  # fmt: skip
            size = table.shape[0]
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
            raise wire.WireError("a description that cannot be read") from None
        known = table.dtype in native.DTYPE_CODES
        if not known or min(shape) < 0 or not 0 <= table.begin <= table.end <= size:
            raise wire.WireError("a description that contradicts itself")
        return table

    # ---- requests ------------------------------------------------------------------------------

    def begin(self, op: int, *parts: bytes | memoryview) -> int:
        """Send a request; return its number."""
        self._request = (self._request + 1) % 2**32
        wire.send(self._socket, op, self._request, *parts, waiting=self._wait_to_send)
        return self._request

    def _wait_to_send(self, until: float) -> float:
        until = until or time.monotonic() + self.patience
        keep_waiting(until, self._where)
        return until

    def end(
        self, op: int, request: int, out: memoryview | None, max_bytes: int = 0, begin: int = 0,
        have: bytes = b"",
    ) -> bytearray:  # fmt: skip
        """Receive the reply to a request, into ``out`` if it is given, else return it.

        Args:
            op: operation of the request.
            request: its number.
            out: memory that the body must fill exactly, or None.
            max_bytes: most bytes of a body that is returned.
            begin: place of the request's ids among those of the gather, for messages.
            have: first bytes of the reply, if they were received before.
        """
        until = time.monotonic() + self.patience
        self._head[: len(have)] = have
        self._fill(memoryview(self._head)[len(have) :], until)
        size, found_op, flags, zero, found_request = wire.HEADER.unpack(self._head)
        if flags == wire.ERROR and not zero and size <= 1 << 16:
            body = bytearray(size)
            self._fill(memoryview(body), until)
            wire.raise_error(memoryview(body), self._where, begin)
        if flags or zero or (found_op, found_request) != (op, request):
            raise wire.WireError("a reply that was not asked for")
        if out is not None:
            if size != len(out):
                raise wire.WireError(f"{size} bytes of rows instead of {len(out)}")
            self._fill(out, until)
            return bytearray()
        if size > max_bytes:
            raise wire.WireError(f"a reply of {size} bytes, where {max_bytes} are the most")
        body = bytearray(size)
        self._fill(memoryview(body), until)
        return body

    def ask(self, op: int, *parts: bytes | memoryview, max_bytes: int) -> bytearray:
        """Return the reply to a request, of ``max_bytes`` bytes at most."""
        return self.end(op, self.begin(op, *parts), None, max_bytes)

    def attach(self, how: int) -> tuple[dict[str, Any], int | None]:
        """Ask how to read the rows oneself; return what is told, and the descriptor of a file.

        Args:
            how: by the descriptor of a file, which a unix socket brings, or otherwise.
        """
        request = self.begin(wire.ATTACH, wire.pack_attach(self.table.number, how))
        have, descriptor = b"", None
        if self._socket.family == socket.AF_UNIX:
            have, descriptor = self._receive_descriptor()
            if not have:
                raise ConnectionResetError(f"{self._where} ended the connection")
        try:
            body = self.end(wire.ATTACH, request, None, _DESCRIPTION, have=have)
            return wire.unpack_facts(body), descriptor
        except BaseException:
            if descriptor is not None:
                os.close(descriptor)
            raise

    def _receive_descriptor(self) -> tuple[bytes, int | None]:
        until = time.monotonic() + self.patience
        while True:
            try:
                return wire.receive_descriptor(self._socket, wire.HEADER.size)
            except BlockingIOError:
                keep_waiting(until, self._where)

    def is_open(self) -> bool:
        """Return whether the server is still there, as far as this side was told."""
        try:
            flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
            return bool(socket.socket.recv(self._socket, 1, flags))  # below TLS, which has no peek
        except (BlockingIOError, TimeoutError) as error:  # nothing is there to be read
            return error.errno != errno.ETIMEDOUT
        except OSError:
            return False

    def kept(self) -> Connection:
        """Return this connection, which its endpoint then lends nobody else."""
        self.is_kept = True
        return self

    def _fill(self, view: memoryview, until: float) -> None:
        """Receive into all of ``view``."""
        done = 0
        while done < len(view):
            try:
                count = self._socket.recv_into(view[done:], 0, self._flags)
            except (BlockingIOError, TimeoutError):  # of the system, or of TLS
                keep_waiting(until, self._where)
                continue
            if count == 0:
                raise ConnectionResetError(f"{self._where} ended the connection")
            done += count
            if done < len(view):
                keep_waiting(until, self._where)

    def gather(
        self, ids: NDArray[np.int64], out: NDArray[Any], task: native.Task | None = None,
        table: int | None = None,
    ) -> Gathering:  # fmt: skip
        """Ask for the first rows; the rest come with :meth:`Gathering.finish`.

        Args:
            ids: int64 vector [n] of rows of this server, with the numbers that all shards use.
            out: C-contiguous array [n, ...] for them, of the stored dtype.
            task: stops the gather between two requests, if it is cancelled.
            table: number of the table; None: that of the connection.
        """
        return Gathering(self, ids, out, task, self.table.number if table is None else table)


class Gathering:
    """Rows under way on a connection: requests ahead, replies in order."""

    def __init__(
        self, connection: Connection, ids: NDArray[np.int64], out: NDArray[Any],
        task: native.Task | None, table: int,
    ) -> None:  # fmt: skip
        self._connection, self._ids, self._task, self._table = connection, ids, task, table
        self._out = wire.bytes_of(out) if out.nbytes else memoryview(b"")
        row_bytes = len(self._out) // max(1, len(ids))
        self._row_bytes = row_bytes
        self._step = rows_at_once(row_bytes)
        self._sent: list[int] = []
        self._received = 0
        self._count = -(-len(ids) // self._step)
        self._send(_WINDOW)

    def _send(self, up_to: int) -> None:
        for number in range(len(self._sent), min(up_to, self._count)):
            some = self._ids[number * self._step : (number + 1) * self._step]
            parts = wire.pack_gather(self._table, some)
            self._sent.append(self._connection.begin(wire.GATHER, *parts))

    def receive(self) -> bool:
        """Receive the next reply, and send one more request; return whether replies are due."""
        number, size = self._received, self._step * self._row_bytes
        if number < self._count:
            if self._task is not None:
                self._task.check()
            out = self._out[number * size : (number + 1) * size]
            self._connection.end(wire.GATHER, self._sent[number], out, begin=number * self._step)
            self._received += 1
            self._send(self._received + _WINDOW)
        return self._received < self._count

    def finish(self) -> None:
        """Receive all rows."""
        while self.receive():
            pass


class Endpoint:
    """Server at one place, and the connections to it.

    Args:
        address: the address.
        location: the place.
        describe: asks what the server has; None: for a table.
        leaves: connections take part in a lease, and leave it when they are not needed any more.
            One does nothing else: a request that is broken off, or takes too long, ends its
            connection, not the lease. Where the server has no place for two, one does all.
    """

    def __init__(
        self, address: Address, location: Location, describe: Describe | None = None,
        leaves: bool = False,
    ) -> None:  # fmt: skip
        self._address, self._location, self._describe = address, location, describe
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._holder: Connection | None = None
        self._inherited: Connection | None = None
        self._closed = False
        self._is_lease = self._has_holder = leaves
        self.leaves = leaves
        self.connections = self.waits = 0
        _endpoints.add(self)
        #: What the server said of its table first, and must always say.
        self.table: Any = self.run(lambda connection: connection.table)

    @property
    def place(self) -> str:
        """Address of the server, in messages."""
        return str(self._location)

    @property
    def scheme(self) -> str:
        """Scheme of the address, such as ``"tcp"``."""
        return self._address.scheme

    def take(self) -> Connection:
        """Return a connection for this thread alone; :meth:`give_back` it, or close it.

        Raises:
            FileChangedError: the server has other rows than it had.
            OSError: there is no connection.
        """
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            connection = Connection(self._address, self._location, self._describe)
        except wire.BusyError:
            with self._lock:
                holder, self._holder = self._holder, None
                self._has_holder = self._has_holder and holder is None
            if holder is None:
                raise
            return holder
        known = getattr(self, "table", connection.table)
        if not connection.table.is_as(known):
            connection.close()
            raise FileChangedError(
                f"{self._location} has other {known.called} than when they were opened "
                f"({connection.table.difference(known)}): open them again"
            )
        with self._lock:
            self.connections += 1
            inherited, self._inherited = self._inherited, None
        if inherited is not None:
            inherited.close()
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for its next use."""
        if connection.is_kept:
            return
        with self._lock:
            if self._has_holder and self._holder is None and not self._closed:
                self._holder = connection
                return
            if len(self._idle) < _IDLE and not self._closed:
                self._idle.append(connection)
                return
        self._end(connection)

    def run(self, work: Callable[[Connection], R], task: native.Task | None = None) -> R:
        """Return ``work(connection)``, done again over new connections while they break.

        Raises:
            ServerTimeoutError: it could not be done in time.
            CancelledError: ``task``, or the one that this thread works for, was cancelled.
        """
        until = time.monotonic() + self._address.timeout
        wait = 0.01
        while True:
            try:
                connection = self.take()
                try:
                    result = work(connection)
                except BaseException:
                    connection.close()
                    raise
                self.give_back(connection)
                return result
            except AetherError:
                raise
            except wire.WireError as error:
                raise FormatError(f"{self._location}: {error}") from None
            except (OSError, EOFError) as error:
                if isinstance(error, wire.BusyError):
                    self._make_room()
                else:
                    self.forget()
                if time.monotonic() + wait > until:
                    raise ServerTimeoutError(
                        f"{self._location} was not reached within {self._address.timeout:g} s: "
                        f"{error}"
                    ) from error
            self.waits += 1
            if task is not None:
                task.check()
            check_cancelled()
            time.sleep(wait * random.uniform(0.5, 1))  # clients of one server do not come at once
            wait = min(2 * wait, _MOST_WAIT)

    def leave_to_parent(self) -> None:
        """Close a forked child's copies of the connections, which stay those of its parent.

        One of a lease is kept, unused, until the child has its own: the parent may end before.
        """
        self._lock = threading.Lock()
        inherited = self._holder or self._inherited
        self._holder = self._inherited = None
        self.forget()
        self._inherited = inherited

    def forget(self) -> None:
        """Close the idle connections: where one broke, others did.

        One that a lease depends on has asked for nothing, and is kept while it is open.
        """
        with self._lock:
            broken, self._idle = self._idle, []
            if self._holder is not None and not self._holder.is_open():
                broken.append(self._holder)
                self._holder = None
            if self._inherited is not None and not self._inherited.is_open():
                broken.append(self._inherited)
                self._inherited = None
        for connection in broken:
            connection.close()

    def _give_up(self) -> list[Connection]:
        """Return the connections that are not in use, which are no longer kept."""
        with self._lock:
            holder, self._holder = self._holder, None
            inherited, self._inherited = self._inherited, None
            before, self._idle = self._idle, []
        return [
            *before,
            *(connection for connection in (holder, inherited) if connection is not None),
        ]

    def _make_room(self) -> None:
        """Give idle connections of this process back, where the server has no place for another."""
        with suppress(RuntimeError):  # another thread opens one: the next try comes soon
            for endpoint in list(_endpoints):
                if endpoint._location == self._location:
                    endpoint._forget_spare()

    def _forget_spare(self) -> None:
        """Close the idle connections that hold no lease."""
        with self._lock:
            if self._is_lease and self._holder is None:
                return
            spare, self._idle = self._idle, []
        for connection in spare:
            connection.close()

    def _end(self, connection: Connection) -> None:
        """End a connection that has not broken."""
        if self.leaves and not connection.is_inherited:
            connection.leave()
        else:
            connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_idle"):
            for connection in self._give_up():
                self._end(connection)

    def close(self) -> None:
        """Close the connections, those in use when their gathers end."""
        self._closed = True
        for connection in self._give_up():
            self._end(connection)


def _leave_to_parent() -> None:
    for endpoint in list(_endpoints):
        endpoint.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)
