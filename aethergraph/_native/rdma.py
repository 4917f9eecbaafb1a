"""Memory that other machines read by UCX, and reading theirs (``native/src/rdma``)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import Ids, ffi, lib, new_error, raise_error, sized
from aethergraph._native.live_rows import SlotLayout
from aethergraph._native.memory import address_of
from aethergraph._native.tasks import Task, lend

__all__ = ["RdmaReader", "RdmaTarget", "Region", "rdma_problem", "rdma_version", "take_rows"]


def rdma_problem() -> str | None:
    """Return why no memory can be read by RDMA here; None: it can."""
    err = new_error()
    if not lib.aether_rdma_problem(err):
        return None
    return str(ffi.string(err.message).decode(errors="replace"))


def rdma_version() -> int:
    """Return the version of UCX, major * 65536 + minor; 0 without it."""
    return int(lib.aether_rdma_version())


class Region(NamedTuple):
    """Memory that is read from elsewhere.

    Attributes:
        key: what lets others read it.
        base: its address in the process that has it.
        size: bytes.
    """

    key: bytes
    base: int
    size: int


class RdmaTarget:
    """Place where others read memory of this process; one thread at a time, but for :meth:`wake`.

    Raises:
        UnsupportedError: there is no transport for that; says why.
        StorageError: UCX fails.
    """

    __slots__ = ("_handle", "_kept")

    def __init__(self) -> None:
        out, err = ffi.new("aether_rdma_target **"), new_error()
        code = lib.aether_rdma_target_create(out, err)
        if code:
            raise_error(code, err)
        self._handle = ffi.gc(out[0], lib.aether_rdma_target_destroy)
        self._kept: list[NDArray[np.uint8]] = []

    @property
    def address(self) -> bytes:
        """Address that readers connect to."""
        size = ffi.new("uint64_t *")
        data = lib.aether_rdma_target_address(self._handle, size)
        return bytes(ffi.buffer(data, size[0]))

    def add(self, memory: NDArray[np.uint8]) -> Region:
        """Let whoever has the key read memory, which stays as long as this object."""
        key, size, err = ffi.new("void **"), ffi.new("uint64_t *"), new_error()
        base = address_of(memory)
        code = lib.aether_rdma_target_add(
            self._handle, ffi.cast("void *", base), memory.nbytes, key, size, err
        )
        if code:
            raise_error(code, err)
        self._kept.append(memory)
        return Region(bytes(ffi.buffer(key[0], size[0])), base, memory.nbytes)

    def serve(self, milliseconds: int) -> None:
        """Let readers connect, for so long at most; to be called again and again."""
        err = new_error()
        code = lib.aether_rdma_target_serve(self._handle, milliseconds, err)
        if code:
            raise_error(code, err)

    def wake(self) -> None:
        """End the wait of :meth:`serve` in another thread."""
        lib.aether_rdma_target_wake(self._handle)

    def close(self) -> None:
        """Let nobody read any more; nothing else may be called then."""
        ffi.release(self._handle)
        self._kept.clear()


class RdmaReader:
    """Reads memory of another process; one thread at a time, of no use to a forked child.

    Args:
        address: address of the target.
        region: memory there.

    Raises:
        UnsupportedError: no transport between the two reads memory.
        StorageError: UCX fails.
    """

    __slots__ = ("_address", "_handle", "_land", "region")

    def __init__(self, address: bytes, region: Region) -> None:
        self.region, self._address = region, address
        self._land: object = None
        out, err = ffi.new("aether_rdma_reader **"), new_error()
        code = lib.aether_rdma_reader_create(
            ffi.from_buffer(address), ffi.from_buffer(region.key), region.base, region.size, out,
            err,
        )  # fmt: skip
        if code:
            raise_error(code, err)
        self._handle = ffi.gc(out[0], lib.aether_rdma_reader_destroy)

    def land(self, memory: NDArray[np.uint8]) -> None:
        """Register memory to read into."""
        self.land_at(address_of(memory), memory.nbytes, memory)

    def land_at(self, address: int, size: int, owner: object) -> None:
        """Register memory at an address, of this machine or of a GPU; ``owner`` keeps it."""
        err = new_error()
        code = lib.aether_rdma_reader_land(self._handle, ffi.cast("void *", address), size, err)
        if code:
            raise_error(code, err)
        self._land = owner

    def read(
        self, offsets: NDArray[np.uint64], size: int, stride: int, milliseconds: int,
        task: Task | None = None,
    ) -> None:  # fmt: skip
        """Read ``size`` bytes at each offset, to multiples of ``stride`` of the memory.

        Raises:
            OutOfRangeError: an offset is beyond the region.
            StorageError: the connection has ended, and is of no use any more.
        """
        err = new_error()
        lent, count = ffi.from_buffer("uint64_t[]", offsets), len(offsets)
        pieces = sized("aether_rdma_pieces", lent, count, size, stride, milliseconds)
        code = lib.aether_rdma_read(self._handle, pieces, lend(task, count * size), err)
        if code:
            raise_error(code, err)

    def close(self) -> None:
        """End the connection; what was to be read into is free again."""
        ffi.release(self._handle)


def take_rows(
    layout: SlotLayout, ids: Ids, slots: NDArray[np.uint8], stride: int, out: NDArray[Any]
) -> NDArray[np.bool_]:
    """Take rows out of slots that were read from outside; return which are whole [n].

    Args:
        layout: layout of the table.
        ids: row number of each slot, int64 [n].
        slots: bytes in which slot i begins at ``i * stride``.
        stride: bytes between two slots.
        out: contiguous array [n, ...] for the rows that are whole, of the dtype of a gather.
    """
    info = ffi.new("aether_table_info *")
    info.num_rows, info.dtype, info.tick = layout.num_rows, layout.code, layout.tick
    info.num_dims, info.shape = len(layout.row_shape), list(layout.row_shape)
    info.flags = lib.AETHER_TABLE_SCALED if layout.is_scaled else 0
    info.row_items, info.row_bytes = layout.row_items, layout.row_bytes
    info.stride = layout.stride
    is_whole = np.empty(len(ids), np.bool_)
    num_taken, err = ffi.new("uint64_t *"), new_error()
    lent = ffi.from_buffer("int64_t[]", ids), ffi.from_buffer(slots)
    room = ffi.from_buffer(out), ffi.from_buffer("uint8_t[]", is_whole)
    read = sized("aether_slots", lent[0], len(ids), lent[1], stride, room[0], out.nbytes, room[1])
    code = lib.aether_slots_take(info, read, num_taken, err)
    if code:
        raise_error(code, err)
    return is_whole
