"""UdpSource: rows in datagrams, at most once.

A datagram, little-endian::

    0 magic "AEU1"   4 u32 stream   8 u64 sequence   16 u32 rows   20 u32 CRC-32C   24 rows

The CRC is that of the datagram with zeros in its place. A stream is a partition, and numbers its
datagrams from 0; a sender that begins anew takes another stream. Datagrams that are lost stay lost,
and are counted; one that comes twice, or after later ones, is dropped.
"""

from __future__ import annotations

import errno
import os
import socket
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import as_count, as_port
from aethergraph._checks.options import as_flag, as_text, shown
from aethergraph._native import datagrams
from aethergraph.errors import (
    ClosedError,
    InvalidArgumentError,
    LimitError,
    SourceError,
    StorageError,
)
from aethergraph.streaming.decode import StructDecoder, Table
from aethergraph.streaming.records import Records
from aethergraph.streaming.schema import Schema, SchemaSource, check_listener

__all__ = ["UdpSource", "pack_datagram"]

#: Datagrams of a paused stream that are kept.
_KEPT = 1024
_LOOPBACK = ("127.0.0.1", "localhost")
#: What the system answers where AF_XDP is not allowed, or not there.
_NO_XDP = (
    errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EAFNOSUPPORT,
    errno.EINVAL,  # before Linux 5.9
)  # fmt: skip
#: Queues of an interface that are read directly.
_MOST_QUEUES = 64


def pack_datagram(stream: int, sequence: int, rows: NDArray[Any]) -> bytes:
    """Return a datagram with rows of a struct, for :class:`UdpSource`.

    Args:
        stream: number of the sender, below 2^32.
        sequence: number of the datagram in its stream, from 0.
        rows: rows of a dtype with fields; a datagram has 65,507 bytes at most.
    """
    for name, value, bits in (("stream", stream, 32), ("sequence", sequence, 63)):
        if as_count(value, name) >= 1 << bits:
            raise InvalidArgumentError(f"{name} = {value} is not below 2^{bits}")
    if not isinstance(rows, np.ndarray) or rows.dtype.names is None or rows.ndim != 1:
        raise InvalidArgumentError(
            f"rows must be a vector of a dtype with fields, got {shown(rows)}"
        )
    content = np.ascontiguousarray(rows).tobytes()
    try:
        return datagrams.pack(stream, sequence, len(rows), content)
    except LimitError:
        raise InvalidArgumentError(
            f"a datagram of {24 + len(content)} bytes: 65507 is the most"
        ) from None


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
        af_xdp: network interface, such as ``"eth0"``, whose datagrams are taken past the system's
            network stack. It needs root (CAP_NET_ADMIN,
            CAP_NET_RAW, CAP_BPF) and Linux 5.9; where the system refuses it, a warning says so,
            and they come by the socket, as those of other interfaces always do. The program in
            the kernel goes with this process, however that ends. Firewall rules do not see
            what it takes.

    Attributes:
        port: port that it listens at.
        af_xdp: interface that it takes datagrams from directly; None while it does not.
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
        af_xdp: str | None = None,
    ) -> None:
        check_listener(name, schema, "struct")
        host = as_text(host, "host") or ""
        if not as_flag(trust_network, "trust_network") and host not in _LOOPBACK:
            raise InvalidArgumentError(
                f"host = {shown(host)} is open to others, who need not prove who they are: "
                "trust_network=True if only friends can reach it"
            )
        self.name, self.schema = name, schema
        self._host, self.port = host, as_port(port)
        self._buffer = as_count(buffer, "buffer")
        self._socket: socket.socket | None = None
        self._receiver: datagrams.Receiver | None = None
        self._wanted = _as_interface(af_xdp)
        self._next: dict[int, int] = {}
        self._paused: frozenset[int] = frozenset()
        self._kept: dict[int, deque[tuple[int, Records]]] = {}
        self.af_xdp: str | None = None
        self.lost: dict[int, int] = {}
        self.dropped = 0

    # ---- Source --------------------------------------------------------------------------------

    def open(self, offsets: Mapping[int, int]) -> None:
        """Listen. Datagrams below these numbers are dropped."""
        self.close()
        listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, min(self._buffer, 2**31 - 1))
            listener.bind((self._host, self.port))
        except (OSError, OverflowError) as error:
            listener.close()
            raise SourceError(None, f"{self._host}:{self.port}: {error}") from None
        self.port = listener.getsockname()[1]
        self._socket = listener
        _listening.add(self)
        self._next, self._paused, self._kept = dict(offsets), frozenset(), {}
        self._refused = 0
        try:
            self._receiver = datagrams.Receiver(listener.fileno(), self._dtype.itemsize)
            if self._wanted is not None:
                self._attach(self._receiver, self._wanted)
        except BaseException:
            self.close()
            raise

    def poll(self, timeout: float) -> Sequence[Records] | None:
        """Return the rows of the datagrams that are there."""
        receiver = self._receiver
        if receiver is None:
            raise ClosedError(f"the source {self.name!r} is not open")
        records: list[Records] = []
        for stream in [number for number in self._kept if number not in self._paused]:
            records += [part for _, part in self._kept.pop(stream)]
        if records or receiver.wait(max(0, round(1000 * timeout))):
            heads, content = receiver.take()
            refused = receiver.stats().refused
            self.dropped += refused - self._refused
            self._refused = refused
            for stream in np.unique(heads["stream"]):
                self._sort(int(stream), heads[heads["stream"] == stream], content, records)
        return records

    def pause(self, partitions: Iterable[int]) -> None:
        """Keep back the rows of these streams, and drop them where they become too many."""
        self._paused = frozenset(partitions)

    def close(self) -> None:
        """Stop listening."""
        if self._receiver is not None:
            self._receiver.close()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._receiver = self.af_xdp = None

    # ---- datagrams -----------------------------------------------------------------------------

    @property
    def _dtype(self) -> Any:
        return self._decoder.dtype

    @property
    def _decoder(self) -> StructDecoder:
        decoder = self.schema.decoder
        assert isinstance(decoder, StructDecoder)  # check_listener
        return decoder

    def _attach(self, receiver: datagrams.Receiver, interface: str) -> None:
        queues = len(list(Path(f"/sys/class/net/{interface}/queues").glob("rx-*")))
        if queues > _MOST_QUEUES:
            warnings.warn(
                f"af_xdp = {interface!r} has {queues} receive queues, and {_MOST_QUEUES} of them "
                "are taken from directly: what comes to the others comes by the socket. "
                f"'ethtool -L {interface} combined {_MOST_QUEUES}' makes them fewer",
                RuntimeWarning,
                stacklevel=3,
            )
        try:
            receiver.attach(interface, min(max(queues, 1), _MOST_QUEUES))
        except StorageError as error:
            if error.errno not in _NO_XDP:
                raise SourceError(error.errno, f"af_xdp = {interface!r}: {error}") from None
            warnings.warn(
                f"af_xdp = {interface!r} cannot be had, datagrams come by the socket: {error}. "
                "It needs root (CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF) and Linux 5.9",
                RuntimeWarning,
                stacklevel=3,
            )
        else:
            self.af_xdp = interface

    def _sort(
        self, stream: int, heads: NDArray[Any], content: bytes, records: list[Records]
    ) -> None:
        """Add the rows of the datagrams of one stream, but for those that are late or doubled."""
        following = self._next.get(stream, 0)
        # What is out of int64 becomes negative, so late.
        numbers = heads["sequence"].astype(np.int64)
        reached = np.maximum.accumulate(np.concatenate([[following - 1], numbers]))[:-1]
        new = (numbers > reached) & (numbers < 2**63 - 1)
        self.dropped += len(heads) - int(new.sum())
        heads, numbers = heads[new], numbers[new]
        if not len(heads):
            return
        self._next[stream] = last = int(numbers[-1]) + 1
        if lost := last - following - len(heads):
            self.lost[stream] = self.lost.get(stream, 0) + lost
        part = self._records(stream, last, heads, numbers, content)
        if stream not in self._paused:
            records.append(part)
            return
        kept = self._kept.setdefault(stream, deque())
        if sum(count for count, _ in kept) + len(heads) <= _KEPT:
            kept.append((len(heads), part))
        else:
            self.dropped += len(heads)

    def _records(
        self,
        stream: int,
        following: int,
        heads: NDArray[Any],
        numbers: NDArray[np.int64],
        content: bytes,
    ) -> Records:
        size = self._dtype.itemsize
        counts = heads["rows"].astype(np.int64)
        begins = heads["offset"].astype(np.int64)
        ends = begins + counts * size
        if (begins[1:] == ends[:-1]).all():  # no other streams between
            rows = content[begins[0] : ends[-1]]
        else:
            pieces = zip(begins.tolist(), ends.tolist(), strict=True)
            rows = b"".join(content[begin:end] for begin, end in pieces)
        places = np.zeros(int(counts.sum()), np.int64)
        table = Table(self._decoder.columns(rows, self.schema.fields), places)
        return self.schema.records(
            table,
            stream,
            following,
            np.repeat(numbers, counts),
            (),
            lambda at: rows[at * size : (at + 1) * size],
        )


_listening: weakref.WeakSet[UdpSource] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Close what a forked child has copies of: port and queues would stay taken as long as it."""
    for source in list(_listening):
        source.close()


os.register_at_fork(after_in_child=_leave_to_parent)


def _as_interface(name: Any) -> str | None:
    if name is not None and (not isinstance(name, str) or not name.isascii() or "/" in name):
        raise InvalidArgumentError(f"af_xdp = {shown(name)} is not the name of a network interface")
    if name is not None and not 0 < len(os.fsencode(name)) < 16:
        raise InvalidArgumentError(f"af_xdp = {shown(name)}: names have 1 to 15 characters")
    return name
