"""Rows whose key comes more than once: which one of them stays.

::

    all keys -> a map, in which the n-th new key has the id n              kept-ids
    "first"     a row stays if its id is larger than all before
    "last"      the row of each id is noted, the last one over the others  kept-last
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph.convert.typed.columns import ColumnReader
from aethergraph.convert.typed.sources import Batch, RowError, Table
from aethergraph.ids import IdMap, IdMapBuilder
from aethergraph.ids.columns import KeyColumns
from aethergraph.storage.scratch import storage_error

__all__ = ["find_duplicates", "first_left_out", "leave_out"]

_ROWS = 1 << 20  # ids whose rows are marked at once


def find_duplicates(
    table: Table,
    key: Sequence[str],
    keys: KeyColumns,
    kept: Literal["first", "last"],
    prefix: str,
    memory: int,
) -> dict[str, Any]:
    """Find the rows that :func:`leave_out` leaves out; return their state for it.

    Rows without a key, or with none of its type, stay: reading them says what is wrong.

    Args:
        table: the table, with all its rows.
        key: columns of the key.
        keys: type of the key.
        kept: which row of a key stays.
        prefix: path that the names of work files begin with.
        memory: bytes for buffers.
    """
    reader = ColumnReader(table)

    def read(batch: Batch) -> tuple[Any, NDArray[np.bool_]]:
        try:
            return reader.keys(batch, key, keys)[:2]
        except RowError as error:
            good = ~error.find_rows()
            block, known = read(batch.only(good))
            all_known = np.zeros(len(good), np.bool_)
            all_known[good] = known
            return block, all_known

    def blocks() -> Iterator[tuple[Batch, Any, NDArray[np.bool_]]]:
        for batch in table.batches(key):
            yield batch, *read(batch)

    file_rows = [0] * len(table.files)
    path = f"{prefix}kept-ids"
    with IdMapBuilder(path, keys.types, memory, f"{prefix}kept-keys") as builder:
        for batch, block, _ in blocks():
            builder.add_block(block, unique=False)
            file_rows[batch.file] += batch.rows.num_rows
        left_out = builder.num_added
        count = builder.finish()
        left_out -= count
    state = {"file_rows": file_rows, "left_out": left_out}
    if left_out:
        with IdMap.load(path) as ids:
            stays = _mapped(f"{prefix}kept", np.bool_, sum(file_rows))
            if kept == "first":
                _mark_firsts(((ids.find(block), known) for _, block, known in blocks()), stays)
            else:
                rows = _mapped(f"{prefix}kept-last", np.int64, count)
                _mark_lasts(
                    ((ids.find(block), known) for _, block, known in blocks()), rows, stays
                )  # fmt: skip
                os.unlink(f"{prefix}kept-last")
            stays.flush()
    os.unlink(path)
    return state


def first_left_out(table: Table, state: dict[str, Any], prefix: str) -> tuple[str, int]:
    """Return file and row of the first row that is left out, of those that there are."""
    kept = np.memmap(f"{prefix}kept", np.bool_, "r")
    row = next(
        begin + int(kept[begin : begin + _ROWS].argmin())
        for begin in range(0, len(kept), _ROWS)
        if not kept[begin : begin + _ROWS].all()
    )
    ends = np.cumsum(state["file_rows"])
    file = int(np.searchsorted(ends, row, "right"))
    return table.files[file], row - int(ends[file]) + state["file_rows"][file]


def leave_out(table: Table, state: dict[str, Any], prefix: str) -> None:
    """Leave the rows out that :func:`find_duplicates` has found."""
    if state["left_out"]:
        table.keep_only(np.memmap(f"{prefix}kept", np.bool_, "r"), state["file_rows"])


_Found = Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]


def _mark_firsts(batches: _Found, stays: NDArray[np.bool_]) -> None:
    """Mark the rows that stay, given ids batch by batch, and the rows that have one."""
    top, first = -1, 0
    for ids, known in batches:
        tops = np.maximum.accumulate(np.concatenate([[top], ids]))
        some = np.ones(len(known), np.bool_)
        some[known] = ids > tops[:-1]
        stays[first : first + len(some)] = some
        top, first = int(tops[-1]), first + len(some)


def _mark_lasts(batches: _Found, rows: NDArray[np.int64], stays: NDArray[np.bool_]) -> None:
    """Mark the rows that stay; ``rows`` has room for the last row of each id."""
    first = 0
    for ids, known in batches:
        rows[ids] = first + np.flatnonzero(known)  # of equal ids numpy keeps the last
        stays[first : first + len(known)] = ~known
        first += len(known)
    for begin in range(0, len(rows), _ROWS):
        stays[rows[begin : begin + _ROWS]] = True


def _mapped(path: str, dtype: Any, count: int) -> np.memmap[Any, Any]:
    """Return a new file of zeros as an array; a full disk is an error here, and not when written.

    Raises:
        DiskFullError, StorageError: it cannot be made.
    """
    try:
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, count * np.dtype(dtype).itemsize)
        return np.memmap(path, dtype, "r+", shape=(count,))
    except OSError as error:
        raise storage_error(error, path) from None
