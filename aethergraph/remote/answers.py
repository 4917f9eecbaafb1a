"""Answers: what a server has, and its replies to the requests for it.

Commits of live graphs, which connections take part in by LEASE, are held in ``leases.py``; whole
samples are made in ``samples/``.
"""

from __future__ import annotations

import logging
import socket

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.features.gathering import check_rows, gather_rows
from aethergraph.remote import wire
from aethergraph.remote.leases import Leases
from aethergraph.remote.mapped import FILE, send_file
from aethergraph.remote.onesided import RDMA, SlotServer
from aethergraph.remote.peer import Peer
from aethergraph.remote.samples.desk import SampleDesk
from aethergraph.remote.served import ServedRows

__all__ = ["Answers", "expect"]

log = logging.getLogger("aethergraph")


class Answers:
    """Tables, samples and commits of a server, and the replies to requests for them.

    Args:
        tables: tables by name.
        desk: services that draw samples.
        leases: commits of live graphs that are held for clients.
    """

    def __init__(self, tables: dict[str, ServedRows], desk: SampleDesk, leases: Leases) -> None:
        self.tables, self.desk, self.leases = tables, desk, leases
        self._numbered = list(tables.values())
        self._slots: SlotServer | None = None

    @property
    def names(self) -> list[str]:
        """Names of the tables, and of the graphs that samples are drawn from, or that are live."""
        return list(dict.fromkeys([*self.tables, *self.desk.names, *self.leases.names]))

    def open_slots(self) -> None:
        """Let network cards read the tables, where that is possible; else say so in the log."""
        try:
            self._slots = SlotServer(self._numbered)
        except UnsupportedError as error:
            log.warning("no RDMA, rows go over TCP: %s", error)

    def close(self) -> None:
        """Let go of the memory that cards read, of all commits, and of the log of samples."""
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.close()
        self.leases.close()
        self.desk.close()

    def answer(self, peer: Peer, frame: wire.Frame) -> None:
        """Answer a request of a client, if only by an error.

        Raises:
            WireError: it is no request of this protocol.
            OSError: the client is gone.
        """
        parts: tuple[bytes | memoryview, ...]
        try:
            if frame.op == wire.ATTACH:
                self._attach(peer, frame)
                return
            if frame.op == wire.LEAVE and not frame.flags and not frame.body:
                self.leases.leave(peer, orderly=True)
                return
            parts, flags = self._reply(peer, frame), 0
        except wire.WireError:
            raise
        except Exception as error:  # a source may raise anything: its client is told
            parts, flags = (wire.pack_error(error),), wire.ERROR
        peer.send(frame.op, frame.request, *parts, flags=flags)

    def _reply(self, peer: Peer, frame: wire.Frame) -> tuple[bytes | memoryview, ...]:
        if frame.op == wire.GATHER:
            number, ids = wire.unpack_gather(frame.body)
            return (self._gather(peer, self._table(number), ids),)
        if frame.op == wire.SAMPLE:
            sample = self.desk.answer(frame.body, peer.room)
            peer.requests += 1
            peer.samples += 1
            return (wire.bytes_of(sample),)
        if frame.op == wire.LEASE:
            facts = self.leases.answer(wire.unpack_facts(frame.body), peer)
            return (wire.pack_facts(facts),)
        if frame.op != wire.PLAN:
            expect(frame, wire.META)
        try:
            name = bytes(frame.body).decode()
        except UnicodeDecodeError:
            raise wire.WireError("a name that is no text") from None
        if frame.op == wire.PLAN:
            return (self.desk.describe(name),)
        if not name and len(self.tables) == 1:
            name = next(iter(self.tables))
        if name not in self.tables:
            raise InvalidArgumentError(self._no_table(name))
        table = self.tables[name]
        return (table.description(self._numbered.index(table), self.tables),)

    def _no_table(self, name: str) -> str:
        """Say what there is in the place of a table."""
        known = ", ".join(self.tables)
        text = f"there is no table {shown(name)}; there are: {known or 'none'}"
        if not name:
            text = f"give the name of a table, as /NAME or ?name=: {known}"
            if not self.tables:
                text = "there are no tables of rows"
        if self.leases.names:
            graphs = ", ".join(self.leases.names)
            text += f"; open_graph opens the live graphs: {graphs}"
        if self.desk.names:
            text += f"; open_sampler asks for samples from: {', '.join(self.desk.names)}"
        return text

    def _attach(self, peer: Peer, frame: wire.Frame) -> None:
        """Tell a client how to read a table itself, if it can."""
        number, how = wire.unpack_attach(frame.body)
        table = self._table(number)
        if how == FILE and peer.socket.family == socket.AF_UNIX and table.is_whole:
            send_file(peer.socket, frame.request, table.rows)
            return
        slots = self._slots if how == RDMA else None
        is_leased = number >= len(self._numbered)
        facts = {} if slots is None or is_leased else slots.answer(number)
        peer.send(wire.ATTACH, frame.request, wire.pack_facts(facts))

    def _table(self, number: int) -> ServedRows:
        if number < len(self._numbered):
            return self._numbered[number]
        leased = self.leases.table(number)
        if leased is None:
            raise wire.WireError(f"there is no table {number}")
        return leased

    def _gather(self, peer: Peer, table: ServedRows, ids: NDArray[np.int64]) -> memoryview:
        size = len(ids) * table.row_bytes
        if size > wire.MAX_BODY:
            raise wire.WireError(f"{len(ids)} rows are {size} bytes, more than a frame holds")
        check_rows(ids, table.num_rows)
        if not table.is_whole:
            end = table.num_rows if table.is_last else table.end
            outside = (ids < table.begin) | (ids >= end)
            if outside.any():
                at = int(outside.argmax())
                raise InvalidArgumentError(
                    f"row {ids[at]} (ids[{at}]) is not in this shard, "
                    f"{table.begin}..{end - 1}",
                    position=at, value=int(ids[at]),
                )  # fmt: skip
        rows = table.rows
        shape = (len(ids), *rows.row_shape)
        memory = peer.room(size)
        out = memory.view(rows.array_dtype).reshape(shape)
        gather_rows(rows, ids, out)
        peer.requests += 1
        peer.rows += len(ids)
        peer.row_bytes += size
        return wire.bytes_of(memory)


def expect(frame: wire.Frame, op: int) -> None:
    """Raise WireError for a frame of another operation."""
    if frame.op != op or frame.flags:
        raise wire.WireError(f"operation {frame.op} (flags {frame.flags}) where {op} is due")
