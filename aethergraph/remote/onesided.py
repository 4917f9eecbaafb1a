"""Rows that a client's network card reads out of the server's memory, by UCX.

::

    server   slots of live tables, registered ── keys, to who has proved to know the token
                 │  no processor of the server's takes part
    client   get, get, get ──> slots ──checksums──> rows       not whole: read again, then asked for

No order of memory reaches over the network, so a row counts if its number is even and its checksum
right (``native/src/slots/layout.h``). Rows that are not there after some tries are asked for over
the connection: the server knows what becomes of missing and torn ones. The connection is also what
ends when the server does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.places import at_places
from aethergraph._native import rdma
from aethergraph.errors import AetherError, StorageError, UnsupportedError
from aethergraph.features.live import LiveFeatureTable
from aethergraph.protocols import RowSource
from aethergraph.remote import wire
from aethergraph.remote.endpoint import Connection
from aethergraph.remote.served import ServedRows

__all__ = ["RDMA", "SlotReader", "SlotServer"]

log = logging.getLogger("aethergraph")

#: Number of the way in a request: by a key for the server's memory.
RDMA = 1
#: Bytes of slots that are read at once, about; tries before the server is asked for a row.
_LAND, _TRIES = 4 << 20, 4
#: Bytes of a slot before the row.
_HEAD = 16
#: Rows that are copied into slots at once.
_COPIED = 4096


class SlotServer:
    """Slots of a server's tables that clients read themselves, and the thread that connects them.

    Args:
        tables: the tables; rows that do not lie in slots are copied there, which takes memory.

    Raises:
        UnsupportedError: nothing here can be read by others; says why.
    """

    def __init__(self, tables: Iterable[ServedRows]) -> None:
        problem = rdma.rdma_problem()
        if problem is not None:
            raise UnsupportedError(problem)
        self._target = rdma.RdmaTarget()
        self._facts: dict[int, dict[str, Any]] = {}
        self._ended = threading.Event()
        try:
            for number, table in enumerate(tables):
                try:
                    self._facts[number] = self._register(table)
                except AetherError as error:
                    log.warning("table %d goes over TCP alone: %s", number, error)
        except BaseException:
            self._target.close()
            raise
        self._thread = threading.Thread(target=self._serve, daemon=True, name="aethergraph rdma")
        self._thread.start()

    def _register(self, table: ServedRows) -> dict[str, Any]:
        slots = _slots_of(table)
        layout = slots.layout
        region = self._target.add(slots.slots[table.begin : table.end])
        return {
            "key": region.key.hex(), "base": region.base, "size": region.size,
            "shape": layout.row_shape, "code": layout.code, "scaled": layout.is_scaled,
            "row_bytes": layout.row_bytes, "stride": layout.stride,
            "address": self._target.address.hex(), "ucx": rdma.rdma_version(),
        }  # fmt: skip

    def _serve(self) -> None:
        while not self._ended.is_set():
            try:
                self._target.serve(1000)
            except AetherError as error:
                log.warning("rows go over TCP alone from now on: %s", error)
                return

    def answer(self, number: int) -> dict[str, Any]:
        """Return what a client is told about a table; nothing if it goes over TCP alone."""
        return self._facts.get(number, {})

    def close(self) -> None:
        """Let nobody read any more."""
        self._ended.set()
        self._target.wake()
        self._thread.join()
        self._target.close()


def _slots_of(table: ServedRows) -> native.LiveSlots:
    """Return the slots of a table; made, and filled, if its rows do not lie in slots."""
    shared = table.rows.shared_file(writable=True)
    if shared is not None:
        with shared:
            if shared.missing is not None:
                return native.LiveSlots.attach(shared.descriptor, shared.is_writable)
    if table.rows.is_live:
        raise UnsupportedError("its rows change, and do not lie in slots")
    return _copied(table.rows, table.begin, table.end).native_slots()


def _copied(rows: RowSource, begin: int, end: int) -> LiveFeatureTable:
    table = LiveFeatureTable.create(None, rows.num_rows, rows.row_shape, rows.dtype_name)
    for start in range(begin, end, _COPIED):
        ids = np.arange(start, min(start + _COPIED, end))
        table.put_many(ids, rows.read(start, int(ids[-1]) + 1), version=0)
    return table


class SlotReader:
    """Reads rows out of a server's memory; belongs to a connection, whose thread it serves.

    Raises:
        UnsupportedError: there is no transport for that; says why.
    """

    def __init__(self, connection: Connection) -> None:
        problem = rdma.rdma_problem()
        if problem is not None:
            raise UnsupportedError(problem)
        self._connection = connection
        facts, _ = connection.attach(RDMA)
        if not facts:
            raise UnsupportedError("the server has no memory to read: start it with rdma")
        try:
            version, server_version = rdma.rdma_version(), int(facts["ucx"])
            table = connection.table
            layout = native.SlotLayout(
                table.shape[0], tuple(map(int, facts["shape"])), int(facts["code"]),
                bool(facts["scaled"]), 0, int(facts["row_bytes"]), int(facts["stride"]), b"",
            )  # fmt: skip
            region = rdma.Region(
                bytes.fromhex(facts["key"]), int(facts["base"]), int(facts["size"])
            )
            address = bytes.fromhex(facts["address"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise wire.WireError("a description of memory that cannot be read") from None
        if version != server_version:
            raise UnsupportedError(
                f"UCX is {version >> 16}.{version & 0xFFFF} here and "
                f"{server_version >> 16}.{server_version & 0xFFFF} there: "
                "install the same version on both"
            )
        self._check(layout)
        self.layout = layout
        self._reader = rdma.RdmaReader(address, region)
        self._stride = -(-(_HEAD + layout.row_bytes) // 64) * 64
        self._most = max(1, min(wire.MAX_IDS, _LAND // self._stride))
        self._land = np.empty(self._most * self._stride, np.uint8)
        self._reader.land(self._land)

    def _check(self, layout: native.SlotLayout) -> None:
        """Raise WireError if the slots are others than those of the table."""
        table = self._connection.table
        shape = (table.shape[0], *layout.row_shape)
        code = native.dtype_code("float32") if layout.is_scaled else layout.code
        if shape != table.shape or native.DTYPE_NAMES.get(code) != table.dtype:
            raise wire.WireError("a description of memory that contradicts the table's")

    def gather(
        self, ids: NDArray[np.int64], out: NDArray[Any], task: native.Task | None = None
    ) -> None:
        """Set ``out[i]`` to row ``ids[i]``, in the stored dtype.

        Raises:
            ConnectionError: the other side is gone.
            AetherError: what the server says of a row that is missing or torn.
        """
        left = np.arange(len(ids))
        for _ in range(_TRIES):
            left = self._read(ids, out, left, task)
            if not len(left):
                return
        rows = np.empty((len(left), *out.shape[1:]), out.dtype)
        with at_places(left):
            self._connection.gather(ids[left], rows, task).finish()
        out[left] = rows

    def _read(
        self, ids: NDArray[np.int64], out: NDArray[Any], which: NDArray[np.int64],
        task: native.Task | None,
    ) -> NDArray[np.int64]:  # fmt: skip
        """Read some of the rows; return which of these were not whole."""
        begin, whole_out, missed = self._connection.table.begin, len(which) == len(ids), []
        for start in range(0, len(which), self._most):
            some = which[start : start + self._most]
            numbers = ids[some]
            offsets = (numbers - begin).astype(np.uint64) * np.uint64(self.layout.stride)
            self.read_slots(offsets, task)
            rows = out[start : start + len(some)] if whole_out else np.empty(
                (len(some), *out.shape[1:]), out.dtype
            )  # fmt: skip
            is_whole = rdma.take_rows(self.layout, numbers, self._land, self._stride, rows)
            if not whole_out:
                out[some[is_whole]] = rows[is_whole]
            missed.append(some[~is_whole])
        return np.concatenate(missed) if missed else which

    def read_slots(self, offsets: NDArray[np.uint64], task: native.Task | None = None) -> None:
        """Read the slots at these offsets to where they land, one behind the other."""
        size = _HEAD + self.layout.row_bytes
        patience = int(1000 * self._connection.patience)
        try:
            self._reader.read(offsets, size, self._stride, patience, task)
        except StorageError as error:
            raise ConnectionError(str(error)) from None

    def close(self) -> None:
        """End the connection of the card."""
        self._reader.close()
