"""Edges as packed records: packing, partitioning, ordering, checksums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import Ids, dtype_code, ffi, lib, new_error, raise_error, sized
from aethergraph._native.memory import mapped_empty
from aethergraph.errors import InvalidArgumentError

Records = NDArray[Any]


def record_dtype(
    id_bytes: int, columns: Sequence[tuple[str, np.dtype[Any], int]] = ()
) -> np.dtype[Any]:
    """Return the dtype of records of ``major``, ``minor`` and columns, without gaps.

    A column is (name, dtype, number of items).
    """
    ids = np.dtype(f"<u{id_bytes}")
    fields: list[Any] = [("major", ids), ("minor", ids)]
    for name, dtype, items in columns:
        fields.append((name, dtype) if items == 1 else (name, dtype, (items,)))
    return np.dtype(fields)


def pack_records(major: Ids, minor: Ids, columns: Sequence[NDArray[Any]], out: Records) -> None:
    """Write the rows of contiguous columns into ``out``, a vector of :func:`record_dtype`.

    Raises:
        OutOfRangeError: an id does not fit; ``position`` is the row.
    """
    table = ffi.new("aether_column[]", max(len(columns), 1))
    lent = [ffi.from_buffer(column) for column in columns]
    for number, (column, data) in enumerate(zip(columns, lent, strict=True)):
        table[number].data = data
        table[number].bytes = column.nbytes // max(len(column), 1)
    err = new_error()
    lent_ids = [ffi.from_buffer("int64_t[]", ids) for ids in (major, minor)]
    id_bytes = out.dtype["major"].itemsize
    rows = sized("aether_record_columns", *lent_ids, len(major), table, len(columns), id_bytes)
    room = ffi.from_buffer(out, require_writable=True)
    code = lib.aether_records_pack(rows, room, out.nbytes, err)
    if code:
        raise_error(code, err)


def parse_integers(
    text: memoryview, delimiter: str, num_columns: int, room: int
) -> NDArray[np.int64] | None:
    """Return the columns [num_columns, rows] of lines of plain integers; None for other text.

    A plain integer has 1 to 18 digits; delimiters are single, and there are at most ``room`` lines.
    Empty lines are skipped.
    """
    out = np.empty((num_columns, room), np.int64)
    rows = ffi.new("uint64_t *")
    err = new_error()
    lent = ffi.from_buffer("int64_t[]", out, require_writable=True)
    columns = sized("aether_integer_columns", lent, room, num_columns, delimiter.encode("ascii"))
    code = lib.aether_parse_integers(ffi.from_buffer(text), len(text), columns, rows, err)
    if code == lib.AETHER_E_FORMAT:
        return None
    if code:
        raise_error(code, err)
    return out[:, : rows[0]]


def _field(dtype: np.dtype[Any], name: str) -> Any:
    fields = dtype.fields
    assert fields is not None
    kind, offset = fields[name][:2]
    return {"offset": offset, "dtype": dtype_code(kind)}


def record_keys(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return unsigned numbers in the order of ids or times, for partitions to compare."""
    sign = np.uint64(1 << 63)
    if values.dtype.kind == "u":
        return values.astype(np.uint64)
    if values.dtype.kind == "i":
        return values.astype(np.int64).view(np.uint64) ^ sign
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    return np.where(bits & sign != 0, ~bits, bits | sign)


def partition_records(
    records: Records, field: str, low: int, shift: int, num_parts: int, out: Records
) -> NDArray[np.uint64]:
    """Copy records to ``out``, part by part, and return the sizes of the parts.

    The part of a record is ``(key - low) >> shift``.

    Raises:
        OutOfRangeError: a key is outside all parts.
    """
    if out.nbytes != records.nbytes:
        raise InvalidArgumentError(f"{records.nbytes} bytes of records do not fill {out.nbytes}")
    counts = np.zeros(num_parts, np.uint64)
    err = new_error()
    key = _field(records.dtype, field)
    lent = ffi.from_buffer(records)
    code = lib.aether_records_partition(
        sized("aether_records", lent, len(records), records.dtype.itemsize),
        sized("aether_partition", low, num_parts, key, shift),
        ffi.from_buffer("uint64_t[]", counts),
        ffi.from_buffer(out, require_writable=True),
        ffi.NULL,
        err,
    )
    if code:
        raise_error(code, err)
    return counts


def hash_items(items: NDArray[Any], first: int = 0) -> int:
    """Return the sum, modulo 2^64, of a checksum of each row of ``items`` and its number.

    Rows are numbered from ``first`` on. Sums of consecutive pieces add up to the sum of the whole.
    """
    out = np.zeros(1, np.uint64)
    _hash_items(items, first, ffi.NULL, ffi.NULL, 0, out)
    return int(out[0])


def hash_parts(items: NDArray[Any], counts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return :func:`hash_items` of consecutive parts, ``counts`` rows each."""
    sums = np.empty(len(counts), np.uint64)
    begins = np.cumsum(counts) - counts
    lent = ffi.from_buffer("uint64_t[]", begins), ffi.from_buffer("uint64_t[]", counts)
    _hash_items(items, 0, lent[0], lent[1], len(counts), sums)
    return sums


def _hash_items(
    items: NDArray[Any], first: int, begins: Any, counts: Any, parts: int, out: NDArray[np.uint64]
) -> None:
    count = len(items)
    item_bytes = items.nbytes // count if count else 1
    err = new_error()
    lent = ffi.from_buffer(items)
    code = lib.aether_hash_items(
        sized("aether_items", lent, count, first, item_bytes), begins, counts, parts,
        ffi.from_buffer("uint64_t[]", out), err,
    )  # fmt: skip
    if code:
        raise_error(code, err)


def order_records(
    records: Records, low: int, num_lists: int, *, row: bool, time: bool, unique: bool
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return the end of each of the lists ``low ..``, and the record at each place in them.

    Args:
        records: the records, which belong to these lists.
        low: first list, a value of ``major``.
        num_lists: number of lists.
        row: sort each list by the column ``row``, stably, before ``time``.
        time: sort each list by the column ``time``, stably.
        unique: keep only the first record of each minor id.
    """
    ends = mapped_empty(num_lists, np.dtype(np.uint64))
    order = mapped_empty(len(records), np.dtype(np.uint32))
    err = new_error()
    lent = ffi.from_buffer(records)
    sizes = records.dtype.itemsize, records.dtype["major"].itemsize
    fields = [
        ffi.new("aether_field *", _field(records.dtype, name)) if used else ffi.NULL
        for name, used in (("row", row), ("time", time))
    ]
    code = lib.aether_records_order(
        sized("aether_records", lent, len(records), *sizes),
        sized("aether_record_order", low, num_lists, *fields, int(unique)),
        ffi.from_buffer("uint64_t[]", ends),
        ffi.from_buffer("uint32_t[]", order),
        err,
    )
    if code:
        raise_error(code, err)
    return ends, order[: int(ends[-1]) if num_lists else 0]
