"""Sections of the graph file of a typed build, written piece by piece."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.convert.external.array_files import ColumnFiles
from aethergraph.convert.typed.edges import EdgeColumns

__all__ = ["ENCODED", "write_array", "write_no_edges", "write_offsets", "write_pieces"]

#: Bytes of a piece.
_COPY_BYTES = 4 << 20
#: Section of neighbours -> those of compressed blocks and of their index.
ENCODED = {
    native.SECTION_CSC_INDICES: (native.SECTION_CSC_BLOCKS, native.SECTION_CSC_INDEX),
    native.SECTION_CSR_INDICES: (native.SECTION_CSR_BLOCKS, native.SECTION_CSR_INDEX),
}


def write_array(
    writer: native.NativeWriter, kind: int, owner: int, array: NDArray[Any],
    task: native.Task | None,
) -> None:  # fmt: skip
    """Write a whole array as a section, piece by piece."""
    writer.begin(kind, owner, native.dtype_code(array.dtype))
    row = array.nbytes // max(len(array), 1)
    step = max(1, _COPY_BYTES // max(row, 1))
    for begin in range(0, len(array), step):
        writer.append(np.ascontiguousarray(array[begin : begin + step]), task)
    writer.end()


def write_offsets(
    writer: native.NativeWriter, files: ColumnFiles, kind: int, owner: int, count: int,
    task: native.Task | None,
) -> None:  # fmt: skip
    """Write the offsets of the lists that the type has; those behind them are empty."""
    writer.begin(kind, owner, native.dtype_code(np.uint64))
    for piece in files.pieces("indptr", _COPY_BYTES // 8):
        writer.append(piece[: max(count, 0)], task)
        count -= len(piece)
    writer.end()


def write_pieces(
    writer: native.NativeWriter, kind: int, owner: int, files: ColumnFiles, name: str, dtype: Any,
    task: native.Task | None,
) -> None:  # fmt: skip
    """Write a column of files as a section, in another dtype."""
    writer.begin(kind, owner, native.dtype_code(dtype))
    for piece in files.pieces(name, _COPY_BYTES // 8):
        writer.append(piece.astype(dtype, copy=False), task)
    writer.end()


def write_no_edges(
    writer: native.NativeWriter, number: int, source: int, target: int, columns: EdgeColumns,
    layout: Literal["csc", "csr", "both"], compress: bool,
) -> None:  # fmt: skip
    """Write the sections of an edge type of which no edge is left.

    Args:
        writer: the graph file.
        number: number of the edge type.
        source: nodes that edges start at.
        target: nodes that edges end at.
        columns: what edges have.
        layout: lists to write.
        compress: write the neighbours as compressed blocks.
    """

    def section(kind: int, dtype: Any, items: int = 0) -> None:
        writer.begin(kind, number, native.dtype_code(dtype))
        for begin in range(0, items, _COPY_BYTES // 8):
            writer.append(np.zeros(min(_COPY_BYTES // 8, items - begin), dtype))
        writer.end()

    for csc, lists, ids in ((True, target, source), (False, source, target)):
        if layout == ("csr" if csc else "csc"):
            continue
        indptr = native.SECTION_CSC_INDPTR if csc else native.SECTION_CSR_INDPTR
        section(indptr, np.uint64, lists + 1)
        kind = native.SECTION_CSC_INDICES if csc else native.SECTION_CSR_INDICES
        if compress:
            section(ENCODED[kind][0], np.uint8)
            writer.begin(ENCODED[kind][1], number, native.dtype_code(np.uint64))
            writer.append(native.BlockEncoder().index())
            writer.end()
        else:
            section(kind, native.id_dtype(native.id_bytes_for(ids)))
        if not csc and layout == "both":
            section(native.SECTION_CSR_EDGE_IDS, np.uint32)
    if columns.weight is not None:
        section(native.SECTION_EDGE_WEIGHT, columns.weight)
    if columns.time is not None:
        section(native.SECTION_EDGE_TIME, columns.time)
