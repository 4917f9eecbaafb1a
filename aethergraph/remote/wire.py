"""The wire: frames, what is said in them, and the limits that both ends keep.

A frame is a header of 12 bytes and a body; numbers are little-endian::

    u32 bytes of the body | u8 operation | u8 flags | u16 0 | u32 request | body

    client                                       server
    HELLO   magic, version, nonce          ──>
                                           <──   HELLO   magic, version, token needed, nonce
    AUTH    HMAC(token, "client", nonces)  ──>
                                           <──   AUTH    HMAC(token, "server", nonces)
    META    name of a table                ──>
                                           <──   META    table, shape, dtype, generation... (JSON)
    GATHER  u32 table, u32 0, i64 ids[]    ──>                               many at once,
                                           <──   GATHER  rows                answered in order
    PLAN    name of a graph                ──>
                                           <──   PLAN    service, plan, form, generation (JSON)
    SAMPLE  u32 service, u32 0, request    ──>                               samples/request.py
                                           <──   SAMPLE  sample with rows    samples/form.py
    LEASE   live graph, or a lease (JSON)  ──>                               leases.py
                                           <──   LEASE   its commit and tables (JSON)
    LEAVE                                  ──>   none: this connection needs no lease any more
    ATTACH  u32 table, u32 how             ──>
                                           <──   ATTACH  where to read the rows oneself (JSON)

ATTACH over a unix socket gets the descriptor of the file or memory that the rows are in, too.

The HMAC is that of RFC 2104 with SHA-256. Both nonces are in it, so an AUTH of an earlier
connection is worth nothing, and the server proves that it knows the token, too. A reply has the
operation and the number of its request; one with the flag ``ERROR`` says why there is none (JSON).
What is not as it should be ends the connection.
"""

from __future__ import annotations

import array
import hashlib
import hmac
import json
import operator
import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph import errors
from aethergraph._checks.places import move_error, reword

__all__ = [
    "ATTACH",
    "AUTH",
    "ERROR",
    "GATHER",
    "HEADER",
    "HELLO",
    "LEASE",
    "LEAVE",
    "MAX_BODY",
    "MAX_IDS",
    "META",
    "NONCE_BYTES",
    "PLAN",
    "SAMPLE",
    "BusyError",
    "Frame",
    "Inbox",
    "WireError",
    "advise_client",
    "bytes_of",
    "pack_attach",
    "pack_error",
    "pack_facts",
    "pack_gather",
    "pack_hello",
    "pack_number",
    "pack_seconds",
    "prove",
    "raise_error",
    "receive_descriptor",
    "send",
    "send_descriptor",
    "unpack_attach",
    "unpack_facts",
    "unpack_gather",
    "unpack_hello",
    "unpack_number",
]

HELLO, AUTH, META, GATHER, ATTACH, PLAN, SAMPLE, LEASE, LEAVE = 1, 2, 3, 4, 5, 6, 7, 8, 9
#: Flag of a reply that says why there is none.
ERROR = 1
#: Most bytes of a body, and most rows of a request; a client splits what is more.
MAX_BODY, MAX_IDS = 64 << 20, 4096
NONCE_BYTES = 32

_VERSION = 3
_MAGIC = b"AeGr"
HEADER = struct.Struct("<IBBHI")
_HELLO = struct.Struct(f"<4sHH{NONCE_BYTES}s")
_GATHER = struct.Struct("<II")
#: Most bytes that a client says at once: ids of a request, or the name of a table.
_MAX_REQUEST = _GATHER.size + 8 * MAX_IDS
#: Letters of a message that a client is told, at most.
_MESSAGE = 4096
#: Bytes up to which a frame is copied together, so that TLS makes one record of it.
_SMALL = 16 << 10


class WireError(Exception):
    """Error of what is no frame of this protocol, or not the one that is due."""


class BusyError(ConnectionError):
    """Error of a server that has no place for a further connection now."""


class Frame(NamedTuple):
    """Frame that has come.

    Attributes:
        op: operation.
        flags: 0 or ``ERROR``.
        request: number of the request.
        body: the body; valid until the next frame is read.
    """

    op: int
    flags: int
    request: int
    body: memoryview


# ---- sending ---------------------------------------------------------------------------------


def bytes_of(array: NDArray[Any]) -> memoryview:
    """Return the memory of a C-contiguous array as bytes."""
    return array.reshape(-1).view(np.uint8).data


def send(
    sock: socket.socket, op: int, request: int, *parts: bytes | memoryview, flags: int = 0,
    waiting: Callable[[float], float] | None = None,
) -> None:  # fmt: skip
    """Send a frame whose body is ``parts``, without copying large ones.

    Args:
        sock: the socket.
        op: operation.
        request: number of the request.
        parts: the body.
        flags: 0 or ``ERROR``.
        waiting: called each time that the socket has taken nothing for as long as its time-out
            says, with what it returned before, at first 0; raises if it was too long. None: the
            first time is.
    """
    size = sum(map(len, parts))
    header = HEADER.pack(size, op, flags, 0, request)
    if size <= _SMALL:
        _send_all(sock, b"".join((header, *parts)), waiting)
    elif isinstance(sock, ssl.SSLSocket):
        for part in (header, *parts):
            _send_all(sock, part, waiting)
    else:
        try:
            done = sock.sendmsg((header, *parts))
        except BlockingIOError:
            if waiting is None:
                raise
            done = 0
        for part in (header, *parts):
            if done < len(part):
                _send_all(sock, memoryview(part)[done:], waiting)
            done = max(0, done - len(part))


def _send_all(
    sock: socket.socket, data: bytes | memoryview, waiting: Callable[[float], float] | None
) -> None:
    if waiting is None:
        sock.sendall(data)
        return
    left, state = memoryview(data), 0.0
    while len(left):
        try:
            done = sock.send(left)
        except (BlockingIOError, TimeoutError):  # of the system, or of TLS, which has sent none
            state = waiting(state)
        else:
            left, state = left[done:], 0.0


def send_descriptor(
    sock: socket.socket, op: int, request: int, body: bytes, descriptor: int
) -> None:
    """Send a frame with a short body, and a descriptor, over a unix socket."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    data = HEADER.pack(len(body), op, 0, 0, request) + body
    done = sock.sendmsg([data], rights)
    if done < len(data):
        sock.sendall(data[done:])


def receive_descriptor(sock: socket.socket, size: int) -> tuple[bytes, int | None]:
    """Return ``size`` bytes, fewer at the end, and the descriptor that came with the first."""
    data, ancillary, _, _ = sock.recvmsg(
        size, socket.CMSG_LEN(array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers = array.array("i")
            numbers.frombytes(content[: len(content) // numbers.itemsize * numbers.itemsize])
            if numbers:
                return data, numbers[0]
    return data, None


# ---- receiving -------------------------------------------------------------------------------


class Inbox:
    """Frames that come through a socket, which may come in any pieces.

    Args:
        sock: the socket; it blocks, and gets time-outs in the middle of frames.
        max_bytes: bytes of a body at most.
        patience: seconds that the rest of a frame may take once it has begun.
    """

    def __init__(
        self, sock: socket.socket, max_bytes: int = _MAX_REQUEST, patience: float = 10
    ) -> None:
        self._sock, self._most, self._patience = sock, max_bytes, patience
        self._buffer = memoryview(bytearray(2 * (max_bytes + HEADER.size)))
        self._begin = self._end = 0

    def frame(self, until: float | None = None) -> Frame | None:
        """Return the next frame; None if the other side has ended between two.

        Args:
            until: time (monotonic) by which all of it must be there. None: it may begin at any
                time, and then must end within the patience.

        Raises:
            WireError: what comes is no frame.
            TimeoutError: it did not come in time.
            ConnectionError: the other side has ended in the middle of it.
        """
        limited = until is not None
        try:
            while True:
                have = self._end - self._begin
                if have >= HEADER.size:
                    size, op, flags, zero, request = HEADER.unpack_from(self._buffer, self._begin)
                    if zero or size > self._most:
                        raise WireError(f"a body of {size} bytes, where {self._most} are the most")
                    begin = self._begin + HEADER.size
                    if have >= HEADER.size + size:
                        self._begin = begin + size
                        return Frame(op, flags, request, self._buffer[begin : begin + size])
                if have and until is None:
                    until, limited = time.monotonic() + self._patience, True
                if until is not None:
                    left = until - time.monotonic()
                    if left <= 0:
                        raise TimeoutError("a frame did not come in time")
                    self._sock.settimeout(left)
                if not self._fill():
                    if have:
                        raise ConnectionError("the connection ended within a frame")
                    return None
        finally:
            if limited:
                self._sock.settimeout(None)

    def _fill(self) -> int:
        """Read what there is, behind what is there; return the number of bytes, 0 at the end."""
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._begin + HEADER.size + self._most > len(self._buffer):
            have = self._end - self._begin
            self._buffer[:have] = bytes(self._buffer[self._begin : self._end])
            self._begin, self._end = 0, have
        count = self._sock.recv_into(self._buffer[self._end :])
        self._end += count
        return count


# ---- bodies ----------------------------------------------------------------------------------


def pack_seconds(seconds: float) -> bytes:
    """Return a ``struct timeval``, as options of sockets take it."""
    whole_seconds = int(seconds)
    return struct.pack("@ll", whole_seconds, int((seconds - whole_seconds) * 1e6))


def pack_hello(nonce: bytes, needs_token: bool = False) -> bytes:
    """Return the body of a HELLO."""
    return _HELLO.pack(_MAGIC, _VERSION, needs_token, nonce)


def unpack_hello(body: memoryview) -> tuple[bool, bytes]:
    """Return whether a token is needed, and the nonce.

    Raises:
        WireError: it is no HELLO.
        VersionError: the other side speaks another version.
    """
    if len(body) != _HELLO.size:
        raise WireError("a HELLO of another length")
    magic, version, needs_token, nonce = _HELLO.unpack(body)
    if magic != _MAGIC:
        raise WireError("a HELLO of something else")
    if version != _VERSION:
        raise errors.VersionError(
            f"the other side speaks version {version} of the protocol, this one {_VERSION}: "
            "install the same version of AetherGraph on both"
        )
    return bool(needs_token), nonce


def prove(token: bytes, who: bytes, client_nonce: bytes, server_nonce: bytes) -> bytes:
    """Return the proof that ``who``, b"client" or b"server", knows the token."""
    return hmac.new(token, who + client_nonce + server_nonce, hashlib.sha256).digest()


def pack_gather(table: int, ids: NDArray[np.int64]) -> tuple[bytes, memoryview]:
    """Return the parts of the body of a GATHER."""
    return _GATHER.pack(table, 0), bytes_of(ids)


def unpack_gather(body: memoryview) -> tuple[int, NDArray[np.int64]]:
    """Return the number of the table, and a copy of the ids, which are aligned then.

    Raises:
        WireError: it is no GATHER.
    """
    if len(body) < _GATHER.size or len(body) % 8:
        raise WireError("a GATHER of another length")
    table, zero = _GATHER.unpack_from(body)
    if zero:
        raise WireError("a GATHER with something where 0 belongs")
    return table, np.frombuffer(body, "<i8", offset=_GATHER.size).astype(np.int64)


def pack_number(service: int) -> bytes:
    """Return what a SAMPLE begins with: the number of the service."""
    return _GATHER.pack(service, 0)


def unpack_number(body: memoryview) -> tuple[int, memoryview]:
    """Return the number of the service of a SAMPLE, and the request.

    Raises:
        WireError: it is no SAMPLE.
    """
    if len(body) < _GATHER.size:
        raise WireError("a SAMPLE of another length")
    service, zero = _GATHER.unpack_from(body)
    if zero:
        raise WireError("a SAMPLE with something where 0 belongs")
    return service, body[_GATHER.size :]


def pack_attach(table: int, how: int) -> bytes:
    """Return the body of an ATTACH."""
    return _GATHER.pack(table, how)


def unpack_attach(body: memoryview) -> tuple[int, int]:
    """Return the number of the table, and how its rows are to be read.

    Raises:
        WireError: it is no ATTACH.
    """
    if len(body) != _GATHER.size:
        raise WireError("an ATTACH of another length")
    table, how = _GATHER.unpack_from(body)
    return table, how


def pack_facts(facts: dict[str, Any]) -> bytes:
    """Return the body of an answer to ATTACH, or of a LEASE."""
    return json.dumps(facts).encode()


def unpack_facts(body: bytes | bytearray | memoryview) -> dict[str, Any]:
    """Return what an answer to ATTACH says, or a LEASE.

    Raises:
        WireError: it is none.
    """
    try:
        facts = json.loads(bytes(body))
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise WireError("an object of JSON that cannot be read")
    return facts


def advise_client(text: str) -> str:
    """Return the text of an error with what a client can do in the place of what it cannot."""
    return text.replace(
        "read with another `missing`",
        "let the server say what it is: aethergraph serve --missing zero, or nan",
    ).replace(
        "LiveFeatureTable.open(path) or .attach(descriptor) reads that one",
        "start the server anew, and open the rows again",
    )


def pack_error(error: BaseException) -> bytes:
    """Return the body of a reply with the flag ``ERROR``."""
    message, position, value = f"the server failed: {type(error).__name__}", None, None
    known = isinstance(error, (errors.AetherError, BusyError))
    if known:
        position, value = (_number_of(error, name) for name in ("position", "value"))
        with suppress(Exception):  # of a class of somebody else, which may say nothing
            message = advise_client(str(error))
    if len(message) > _MESSAGE:
        message = f"{message[:_MESSAGE]} ..."
    name = type(error).__name__ if known else "AetherError"
    facts = {"error": name, "message": message, "position": position, "value": value}
    return json.dumps(facts).encode()


def _number_of(error: BaseException, name: str) -> int | None:
    """Return an attribute of an error if it is an integer, of numpy's too."""
    try:
        return operator.index(getattr(error, name))
    except Exception:  # there is none, or it is something else
        return None


def raise_error(body: memoryview, address: str, begin: int = 0) -> None:
    """Raise what the body of a reply with the flag ``ERROR`` says.

    Args:
        body: the body.
        address: address of the server, for the message.
        begin: place of the request's ids among those of the gather.
    """
    try:
        facts = json.loads(bytes(body))
        name, message = str(facts["error"]), str(facts["message"])
        position, value = facts.get("position"), facts.get("value")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise WireError("an error that cannot be read") from None
    if name == "BusyError":
        raise BusyError(f"{address}: {message}")
    kind: Any = getattr(errors, name, None) if name in errors.__all__ else None
    error: errors.AetherError = (kind or errors.AetherError)(message)
    if isinstance(position, int):
        error.position = position
        move_error(error, position + begin)
    if isinstance(value, int):
        error.value = value
    reword(error, lambda text: f"{address}: {text}")
    try:
        raise error
    finally:
        del (
            error
        )  # its traceback has this frame: what its callers hold would wait for the collector
