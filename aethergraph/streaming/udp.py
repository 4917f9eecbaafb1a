"""UdpSource: rows in datagrams, at most once.

A datagram, little-endian::

    0 magic "AEU1"    4 u32 stream    8 u64 sequence    16 u32 rows    20 u32 CRC-32    24 rows

The CRC is that of the datagram with zeros in its place. A stream is a partition, and numbers its
datagrams from 0; a sender that begins anew takes another stream. Datagrams that are lost stay lost,
and are counted; one that comes twice, or after later ones, is dropped.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
import time
import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_flag, shown
from aethergraph.errors import ClosedError, InvalidArgumentError, SourceError
from aethergraph.streaming.decode import StructDecoder, Table
from aethergraph.streaming.records import Records
from aethergraph.streaming.schema import Schema, SchemaSource, check_listener

__all__ = ["UdpSource", "pack_datagram"]

_HEADER = struct.Struct("<4sIQII")
_MAGIC = b"AEU1"
#: Datagrams that one call of the system takes, and the bytes of each at most.
_AT_ONCE, _BYTES = 128, 1 << 16
#: Datagrams of a paused stream that are kept.
_KEPT = 1024
_LOOPBACK = ("127.0.0.1", "localhost")


def pack_datagram(stream: int, sequence: int, rows: NDArray[Any]) -> bytes:
    """Return a datagram with rows of a struct, for :class:`UdpSource`.

    Args:
        stream: number of the sender, below 2^32.
        sequence: number of the datagram in its stream, from 0.
        rows: rows of a dtype with fields; a datagram has 65,507 bytes at most.
    """
    content = np.ascontiguousarray(rows).tobytes()
    size = _HEADER.size + len(content)
    if size > 65_507:
        raise InvalidArgumentError(f"a datagram of {size} bytes: 65507 is the most")
    head = _HEADER.pack(_MAGIC, stream, sequence, len(rows), 0)
    check = zlib.crc32(content, zlib.crc32(head))
    return _HEADER.pack(_MAGIC, stream, sequence, len(rows), check) + content


class UdpSource(SchemaSource):
    """Stream of rows that other programs send in datagrams: quick, and at most once.

    For what is soon overwritten anyway, such as features. Nobody proves who they are, so it listens
    at loopback unless ``trust_network`` says that only friends can send.

    Args:
        name: name under which the graph keeps the numbers of the datagrams.
        schema: fields of the rows, made by :meth:`Schema.struct`.
        host: IPv4 address to listen at.
        port: port to listen at; 0: any that is free, see :attr:`port`.
        trust_network: whoever reaches the address may send.
        buffer: bytes that the system keeps while nobody reads, as far as it allows.

    Attributes:
        port: port that it listens at.
        lost: datagrams that did not come, by stream.
        dropped: datagrams that were damaged, came late, or found no room.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        trust_network: bool = False,
        buffer: int = 8 << 20,
    ) -> None:
        check_listener(name, schema, "struct")
        if host not in _LOOPBACK and not as_flag(trust_network, "trust_network"):
            raise InvalidArgumentError(
                f"host = {shown(host)} is open to others, who need not prove who they are: "
                "trust_network=True if only friends can reach it"
            )
        self.name, self.schema = name, schema
        self._host, self.port = host, as_count(port, "port")
        self._buffer = as_count(buffer, "buffer")
        self._socket: socket.socket | None = None
        self._receiver: _Receiver | None = None
        self._next: dict[int, int] = {}
        self._paused: frozenset[int] = frozenset()
        self._kept: dict[int, deque[Records]] = {}
        self.lost: dict[int, int] = {}
        self.dropped = 0

    # ---- Source --------------------------------------------------------------------------------

    def open(self, offsets: Mapping[int, int]) -> None:
        """Listen. Datagrams below these numbers are dropped."""
        self.close()
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, min(self._buffer, 2**31 - 1))
            made.bind((self._host, self.port))
        except (OSError, OverflowError) as error:
            made.close()
            raise SourceError(None, f"{self._host}:{self.port}: {error}") from None
        self.port = made.getsockname()[1]
        self._socket, self._receiver = made, _Receiver(made.fileno())
        self._next, self._paused, self._kept = dict(offsets), frozenset(), {}

    def poll(self, timeout: float) -> Sequence[Records] | None:
        """Return the rows of the datagrams that are there."""
        if self._socket is None or self._receiver is None:
            raise ClosedError(f"the source {self.name!r} is not open")
        found: list[Records] = []
        for stream in [one for one in self._kept if one not in self._paused]:
            found += self._kept.pop(stream)
        until = time.monotonic() + timeout
        while not found:
            left = until - time.monotonic()
            if not select.select([self._socket], [], [], max(left, 0))[0]:
                return []
            for datagram in self._receiver.take():
                self._sort(datagram, found)
            if left <= 0:
                break
        return found

    def pause(self, partitions: Iterable[int]) -> None:
        """Keep back the rows of these streams, and drop them where they become too many."""
        self._paused = frozenset(partitions)

    def close(self) -> None:
        """Stop listening."""
        if self._socket is not None:
            self._socket.close()
            self._socket = self._receiver = None

    def _sort(self, datagram: bytes, found: list[Records]) -> None:
        one = self._read(datagram)
        if one is None:
            self.dropped += 1
            return
        if one.partition not in self._paused:
            found.append(one)
            return
        kept = self._kept.setdefault(one.partition, deque())
        if len(kept) < _KEPT:
            kept.append(one)
        else:
            self.dropped += 1

    def _read(self, datagram: bytes) -> Records | None:
        """Return the rows of a datagram; None if it is none of ours, damaged or late."""
        decoder = self.schema.decoder
        assert isinstance(decoder, StructDecoder)
        if len(datagram) < _HEADER.size:
            return None
        magic, stream, sequence, count, check = _HEADER.unpack_from(datagram)
        rows = datagram[_HEADER.size :]
        head = _HEADER.pack(magic, stream, sequence, count, 0)
        size = decoder.dtype.itemsize
        if magic != _MAGIC or zlib.crc32(rows, zlib.crc32(head)) != check:
            return None
        following = self._next.get(stream, 0)
        if len(rows) != count * size or not following <= sequence < 2**63 - 1:
            return None
        if sequence > following:
            self.lost[stream] = self.lost.get(stream, 0) + sequence - following
        self._next[stream] = sequence + 1
        table = Table(decoder.columns(rows, self.schema.fields), np.zeros(count, np.int64))
        offsets = np.full(count, sequence, np.int64)
        return self.schema.records(
            table, stream, sequence + 1, offsets, (), lambda at: rows[at * size : (at + 1) * size]
        )


# ---- many datagrams to a call --------------------------------------------------------------------


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _Head(ctypes.Structure):
    """``struct msghdr`` of Linux."""

    _fields_ = (
        ("name", ctypes.c_void_p), ("name_size", ctypes.c_uint32),
        ("pieces", ctypes.POINTER(_Piece)), ("num_pieces", ctypes.c_size_t),
        ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )  # fmt: skip


class _Message(ctypes.Structure):
    """``struct mmsghdr`` of Linux."""

    _fields_ = (("head", _Head), ("received", ctypes.c_uint))


class _Receiver:
    """Room for many datagrams, filled by one call of ``recvmmsg``."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._room = bytearray(_AT_ONCE * _BYTES)
        base = ctypes.addressof((ctypes.c_char * len(self._room)).from_buffer(self._room))
        pieces = [_Piece(base + i * _BYTES, _BYTES) for i in range(_AT_ONCE)]
        self._pieces = (_Piece * _AT_ONCE)(*pieces)
        self._messages = (_Message * _AT_ONCE)()
        for message, piece in zip(self._messages, self._pieces, strict=True):
            message.head.pieces, message.head.num_pieces = ctypes.pointer(piece), 1
        self._call = ctypes.CDLL(None, use_errno=True).recvmmsg

    def take(self) -> list[bytes]:
        """Return the datagrams that are there, without waiting."""
        flags = socket.MSG_DONTWAIT
        count = self._call(self._descriptor, self._messages, _AT_ONCE, flags, None)
        if count < 0:
            number = ctypes.get_errno()
            if number in (errno.EAGAIN, errno.EINTR):
                return []
            raise SourceError(number, f"recvmmsg: {os.strerror(number)}")
        view = memoryview(self._room)
        return [
            bytes(view[i * _BYTES : i * _BYTES + self._messages[i].received]) for i in range(count)
        ]
