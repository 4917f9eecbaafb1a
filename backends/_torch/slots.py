"""Slots of live rows as torch tensors: what is in them, and whether it is whole, on any device.

Whoever reads slots from outside (RDMA, a copy into the memory of a GPU, a file) has no fences: a
row is good if its number is even and its checksum right. Everything here is torch operations, which
run where the slots are.

A checksum is linear but for its start and end: the remainder of a block is the XOR of the
remainders of its bytes, each looked up by place and value. So a block of 1024 bytes is one look-up
of 1024 numbers and ten XORs of halves, for all rows at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids
from aethergraph._checks.options import shown
from aethergraph._torch.tensors import torch_dtype
from aethergraph.errors import InvalidArgumentError
from aethergraph.protocols import RowSource

__all__ = ["SlotRows", "gather_to_device", "validate_slots"]

_HEAD = 16
_POLYNOMIAL = np.uint32(0x82F63B78)  # CRC-32C, bits reflected
_BLOCK = 1024  # bytes looked up at once; a power of two
_ROWS = 4096  # of which a block each is looked up at once


class SlotRows(NamedTuple):
    """Rows out of slots, on the device of the slots.

    Attributes:
        rows: ``[n, *row_shape]``; those that are not ``ok`` may be anything.
        ok: bool [n], True: the row is whole.
        versions: int64 [n]; those that are not ``ok`` may be anything.
        missing: bool [n], True: the row was never written.
    """

    rows: Tensor
    ok: Tensor
    versions: Tensor
    missing: Tensor


def validate_slots(
    slots: Any, ids: Any, layout: native.SlotLayout, *, check: bool = True, seq_after: Any = None
) -> SlotRows:
    """Take rows out of slots that were read from outside, and tell which are whole.

    Args:
        slots: bytes of the slots, uint8 ``[n, stride]`` or as many as a row needs, a tensor on any
            device or anything that has DLPack.
        ids: row number of each slot, int64 [n]; one that was read from a wrong place is not ok.
        layout: :attr:`LiveFeatureTable.layout <aethergraph.LiveFeatureTable.layout>` of the table.
        check: False: leave the checksums out. Rows are then known to be whole only if ``seq_after``
            is there, and the reads were in order.
        seq_after: the first four bytes of each slot, read again after the slots, as int32 [n]; a
            row that has changed meanwhile is not ok. None: they were not read.

    Returns:
        Rows, and which are ok. ``rows[ok]`` and ``ids[~ok]`` are those to use and to read again.

    Raises:
        InvalidArgumentError: the tensors do not fit each other or the layout.
        UnsupportedError: this torch has no such dtype.
    """
    raw, numbers = _as_tensor(slots, "slots"), _as_tensor(ids, "ids")
    end = _HEAD + layout.row_bytes
    if raw.dtype != torch.uint8 or raw.ndim != 2 or raw.shape[1] < end:
        raise InvalidArgumentError(
            f"slots must be uint8 [n, {end} or more], got {raw.dtype} {list(raw.shape)}"
        )
    if numbers.dtype != torch.int64 or numbers.shape != raw.shape[:1]:
        raise InvalidArgumentError(
            f"ids must be int64 [{len(raw)}], got {numbers.dtype} {list(numbers.shape)}"
        )
    numbers = numbers.to(raw.device)
    seq, sums = _numbers(raw[:, :4], torch.int32), _numbers(raw[:, 4:8], torch.int32)
    missing = seq == 0
    ok = ~missing & (seq & 1 == 0)
    if seq_after is not None:
        after = _as_tensor(seq_after, "seq_after")
        if after.dtype != torch.int32 or after.shape != seq.shape:
            raise InvalidArgumentError(
                f"seq_after must be int32 [{len(raw)}], got {after.dtype} {list(after.shape)}"
            )
        ok &= after.to(raw.device) == seq
    if check:
        id_bytes = numbers.contiguous().view(torch.uint8).view(-1, 8)
        parts = [id_bytes, raw[:, _HEAD:end], raw[:, 8:_HEAD], raw[:, :4]]
        ok &= _checksums(torch.cat(parts, 1)) == sums
    return SlotRows(
        _rows(raw[:, _HEAD:end], layout), ok, _numbers(raw[:, 8:_HEAD], torch.int64), missing
    )


def gather_to_device(rows: RowSource, ids: Any, device: Any = "cpu") -> Tensor:
    """Gather rows of any source as a tensor on a device.

    For a CUDA device they are gathered into pinned memory and copied from there without waiting, in
    the order of the current stream.

    Args:
        rows: the source.
        ids: integer vector [n] of row numbers.
        device: a torch device.

    Returns:
        Tensor ``[n, *row_shape]``.

    Raises:
        OutOfRangeError: a row does not exist.
        InvalidArgumentError: there is no such device.
    """
    if not isinstance(rows, RowSource):
        raise InvalidArgumentError(f"rows must be a RowSource, got {type(rows).__name__}")
    try:
        target = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InvalidArgumentError(f"device = {shown(device)}: {error}") from None
    numbers = as_ids(ids, "ids")
    pinned = target.type == "cuda" and torch.cuda.is_available()
    dtype = torch_dtype(rows.dtype_name)
    out = torch.empty((len(numbers), *rows.row_shape), dtype=dtype, pin_memory=pinned)
    carrier = torch.int16 if dtype == torch.bfloat16 else dtype
    rows.gather(numbers, out.view(carrier).numpy().view(rows.array_dtype))
    return out.to(target, non_blocking=pinned)


# ---- parts of a slot ---------------------------------------------------------------------------


def _as_tensor(value: Any, name: str) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value if value.flags.writeable else value.copy())
        from_dlpack: Any = torch.from_dlpack  # type: ignore[attr-defined]
        tensor: Tensor = from_dlpack(value)
        return tensor
    except (TypeError, ValueError, RuntimeError, AttributeError, BufferError) as error:
        raise InvalidArgumentError(
            f"{name} must be a tensor, or have DLPack; got {shown(value)}: {error}"
        ) from None


def _numbers(part: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the number that each row of bytes holds."""
    return part.contiguous().view(dtype).view(-1)


def _rows(data: Tensor, layout: native.SlotLayout) -> Tensor:
    shape = (len(data), *layout.row_shape)
    if layout.is_scaled:
        factors = data[:, :4].contiguous().view(torch.float32)
        return (data[:, 4:].contiguous().view(torch.int8).float() * factors).view(shape)
    return data.contiguous().view(torch_dtype(native.DTYPE_NAMES[layout.code])).view(shape)


# ---- checksums ---------------------------------------------------------------------------------


def _checksums(messages: Tensor) -> Tensor:
    """Return the CRC-32C of each row of bytes, as int32."""
    count, size = messages.shape
    blocks = -(-size // _BLOCK)
    # Zeros in front change no remainder that begins with 0.
    padded = torch.nn.functional.pad(messages, (blocks * _BLOCK - size, 0))
    table = _device_table(messages.device)
    places = torch.arange(_BLOCK, device=messages.device) * 256
    out = torch.empty(count, dtype=torch.int32, device=messages.device)
    for begin in range(0, count, _ROWS):
        some = padded[begin : begin + _ROWS]
        state = torch.zeros(len(some), dtype=torch.int32, device=messages.device)
        for block in range(blocks):
            part = some[:, block * _BLOCK : (block + 1) * _BLOCK].contiguous()
            part[:, :4] ^= state.view(-1, 1).view(torch.uint8)
            remainders = table[part.long() + places]
            width = _BLOCK
            while width > 1:
                width //= 2
                remainders = remainders[:, :width] ^ remainders[:, width : 2 * width]
            state = remainders[:, 0]
        out[begin : begin + _ROWS] = state
    return out ^ _start_and_end(size)


@lru_cache(maxsize=8)
def _device_table(device: torch.device) -> Tensor:
    return torch.from_numpy(_table()).to(device)


@lru_cache(maxsize=1)
def _table() -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the remainder of each byte at each place of a block, as if all others were zero."""
    last = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        last = np.where(last & 1, (last >> np.uint32(1)) ^ _POLYNOMIAL, last >> np.uint32(1))
    table = np.empty((_BLOCK, 256), np.uint32)
    table[-1] = last
    for place in range(_BLOCK - 2, -1, -1):  # one more zero behind it
        table[place] = (table[place + 1] >> np.uint32(8)) ^ last[table[place + 1] & 0xFF]
    return table.reshape(-1).view(np.int32)


@lru_cache(maxsize=64)
def _start_and_end(size: int) -> int:
    """Return what all ones before and after ``size`` bytes of zeros add to the remainder."""
    byte = _table()[-256:].view(np.uint32)
    state = 0xFFFFFFFF
    for _ in range(size):
        state = (state >> 8) ^ int(byte[state & 0xFF])
    return int(np.uint32(state ^ 0xFFFFFFFF).view(np.int32))
