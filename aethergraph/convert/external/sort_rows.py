"""Sorting of the rows of a table by their node ids, on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from aethergraph import _native as native
from aethergraph.convert.external.array_files import ColumnFiles
from aethergraph.convert.external.lists import ListBuilder, ListOrder
from aethergraph.convert.external.runs import PARTS, RunWriter, Spill
from aethergraph.convert.outputs import NpyWriter
from aethergraph.convert.readers.base import InputError, PathLike

__all__ = ["Room", "reordered_rows"]

_PIECE = 1 << 20  # node ids that are checked together


class Room:
    """Memory for sorting, and the path prefix of its files."""

    def __init__(self, memory: int, scratch: str) -> None:
        self.memory = memory
        self.scratch = scratch


def reordered_rows(
    path: PathLike,
    chunks: Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]],
    output: PathLike,
    room: Room,
) -> NpyWriter:
    """Write rows [n, ...] as a .npy file in which row i has id i, not yet committed.

    Args:
        path: the table, for messages.
        chunks: (ids int64 [n], rows [n, ...]).
        output: the file to write.
        room: memory and place for sorting.

    Raises:
        InputError: the ids are not 0..N-1, each once.
    """
    spill: Spill | None = None
    writer: RunWriter | None = None
    shape: tuple[int, ...] = ()
    rows, largest = 0, -1
    name = f"{room.scratch}rows"
    try:
        for ids, values in chunks:
            if spill is None:
                shape = values.shape[1:]
                column = ("rows", values.dtype, int(np.prod(shape, dtype=np.int64)))
                spill = Spill(name, "major", [column])
                writer = RunWriter(spill, room.memory)
            assert writer is not None
            if len(ids):
                ids = np.ascontiguousarray(ids, np.int64)
                values = np.ascontiguousarray(values)
                largest = max(largest, int(ids.max()))
                writer.add(ids, np.zeros(len(ids), np.int64), [values], largest)
                rows += len(ids)
        if spill is None or writer is None or rows == 0:
            raise InputError(path, "holds no rows")
        writer.close()
        # Whole parts: ids from `rows` on lie in the last one, and are no damage of it.
        lists = -(-rows >> spill.shift) << spill.shift
        if lists > 2 * rows + PARTS:  # a part has that many only if an id is far beyond the rows
            raise InputError(
                path, f"the node id {largest} is too large: {rows} rows need the ids 0..{rows - 1}"
            )
        files = _sorted(spill, lists, room)
    finally:
        if writer is not None:
            writer.close(finish=False)
        if spill is not None:
            spill.remove()
    try:
        _check_ids(path, files, rows)
        return _copied(files, output, shape)
    finally:
        files.remove()


def _sorted(spill: Spill, lists: int, room: Room) -> ColumnFiles:
    _, dtype, items = spill.columns[0]
    files = ColumnFiles(f"{room.scratch}sorted-", {"rows": (dtype, items)})
    try:
        threads = native.get_num_threads()
        scratch = f"{room.scratch}split-"
        builder = ListBuilder(
            spill, files, ListOrder(), room.memory, threads, scratch, lambda: None
        )
        builder.build(lists)
    except BaseException:
        files.remove()
        raise
    return files


def _check_ids(path: PathLike, files: ColumnFiles, rows: int) -> None:
    for begin in range(0, rows, _PIECE):
        offsets = files.read("indptr", begin, min(begin + _PIECE, rows) + 1)
        wrong = offsets[1:] != np.arange(begin + 1, begin + len(offsets), dtype=np.uint64)
        if wrong.any():
            at = int(np.argmax(wrong))
            problem = f"the node id {begin + at} comes twice"
            if offsets[at + 1] == offsets[at]:
                problem = (
                    f"the node id {begin + at} is missing: {rows} rows need the ids 0..{rows - 1}"
                )
            raise InputError(os.fspath(path), problem)


def _copied(files: ColumnFiles, output: PathLike, shape: tuple[int, ...]) -> NpyWriter:
    dtype, items = files.columns["rows"]
    writer = NpyWriter(output, dtype, shape)
    at_once = max(1, (4 << 20) // max(1, dtype.itemsize * items))
    try:
        for begin in range(0, files.edges, at_once):
            some = files.read("rows", begin, min(begin + at_once, files.edges))
            writer.append(some.reshape(len(some), *shape))
        writer.finish()
    except BaseException:
        writer.abort()
        raise
    return writer
