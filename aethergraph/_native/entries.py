"""All lists of a topology as long columns, some at a time: their entries, and their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import empty
from aethergraph._native.core import Ids, ffi, lib, new_error, raise_error, sized
from aethergraph._native.guards import begin_read, end_read
from aethergraph._native.tasks import Task, lend
from aethergraph._native.topology import NativeTopology

Column = Literal["neighbors", "edge_ids", "weights", "times"]

_COLUMNS: Final[dict[str, int]] = {
    "neighbors": lib.AETHER_READ_NEIGHBORS,
    "edge_ids": lib.AETHER_READ_EDGE_IDS,
    "weights": lib.AETHER_READ_WEIGHTS,
    "times": lib.AETHER_READ_TIMES,
}


class EntryReader:
    """Reader of columns of the entries of all lists, list after list.

    Args:
        topology: the lists.
        columns: what to read; weights and times only if the topology keeps them itself.
    """

    def __init__(self, topology: NativeTopology, columns: Sequence[Column]) -> None:
        self._topology = topology
        self._columns = ffi.new("aether_entry_column[]", max(1, len(columns)))
        self._room = sized("aether_entry_columns", self._columns, len(columns))
        for row, column in zip(self._columns, columns, strict=False):
            row.what = _COLUMNS[column]
        self._place = ffi.new("aether_list_place *")
        self._count = ffi.new("uint64_t *")
        self._err = new_error()

    def read(self, outs: Sequence[NDArray[Any]], task: Task | None = None) -> int:
        """Fill one array for each column from the next entries; return the number of these.

        It is less than the arrays' length only at the end. Items are of 4 or 8 bytes: ids of any
        integer dtype, weights of any float dtype, times int64.
        """
        topology = self._topology
        lent = [ffi.from_buffer(out) for out in outs]
        for row, data, out in zip(self._columns, lent, outs, strict=False):
            row.out, row.item_bytes = data, out.itemsize
        self._room.capacity = len(outs[0])
        begin_read(topology.guard)
        code = lib.aether_topology_read(
            topology.handle, self._room, self._place, self._count,
            lend(task, sum(out.nbytes for out in outs)), self._err,
        )  # fmt: skip
        end_read(code, self._err, topology.guard, topology.path)
        return int(self._count[0])


def list_ends(
    topology: NativeTopology, first: int, count: int, before: int, task: Task | None = None
) -> NDArray[np.uint64]:
    """Return where the lists ``first .. first + count - 1`` end, counted on from ``before``."""
    out = empty(count, np.uint64, f"{count} offsets")
    err = new_error()
    begin_read(topology.guard)
    code = lib.aether_topology_ends(
        topology.handle, first, count, before, ffi.from_buffer("uint64_t[]", out),
        lend(task, out.nbytes), err,
    )  # fmt: skip
    end_read(code, err, topology.guard, topology.path)
    return out


class Ranks:
    """Set of numbers, and the place of each among those that it has, ascending.

    Takes 1 1/3 bits for each number that there could be. Add all; then count; then ask.

    Args:
        end: numbers are below it.
    """

    def __init__(self, end: int) -> None:
        self._end = end
        self._blocks = np.zeros(int(lib.aether_ranks_words(end)), np.uint64)
        self._lent = ffi.from_buffer("uint64_t[]", self._blocks)
        self._err = new_error()

    @staticmethod
    def bytes_for(end: int) -> int:
        """Return the bytes that the set of numbers below ``end`` takes."""
        return 8 * int(lib.aether_ranks_words(end))

    def add(self, ids: Ids) -> None:
        """Add numbers.

        Raises:
            OutOfRangeError: one is not below the end, or was added before.
        """
        lent = ffi.from_buffer("int64_t[]", ids)
        code = lib.aether_ranks_mark(self._lent, self._end, lent, len(ids), self._err)
        if code:
            raise_error(code, self._err)

    def count(self) -> int:
        """Return how many numbers there are; call it after the last was added."""
        return int(lib.aether_ranks_count(self._lent, self._end))

    def replace(self, ids: Ids) -> None:
        """Put the ranks of ``ids``, which are in the set, in their place."""
        lent = ffi.from_buffer("int64_t[]", ids)
        code = lib.aether_ranks_of(self._lent, self._end, lent, len(ids), lent, self._err)
        if code:
            raise_error(code, self._err)


def put_places(ids: Ids, first: int, out: NDArray[Any]) -> None:
    """Set ``out[ids[i]] = first + i``, items of 4 or 8 bytes: the inverse of an order.

    Raises:
        OutOfRangeError: an id is not a place of ``out``.
    """
    err = new_error()
    code = lib.aether_put_places(
        ffi.from_buffer("int64_t[]", ids), len(ids), first, ffi.from_buffer(out), out.itemsize,
        len(out), err,
    )  # fmt: skip
    if code:
        raise_error(code, err)
