"""GraphZero's files: ``.gl`` graphs and ``.gd`` feature tables.

::

    graph = read_gl("graph.gl")                    # Graph, out-edges stored: ready for walks
    graph.features = read_gd("features.gd")        # FeatureTable over the file itself

The layouts were found by inspecting files that GraphZero wrote. All numbers are little-endian.

    .gl   0  "graphlit"                     .gd   0  "GZDATA26"
          8  u64 bytes of offsets                 8  u32 0
         16  u64 bytes of targets                12  u32 dtype: int32, int64, float32, float64
         24  u64 place of offsets                16  u64 rows
         32  u64 place of targets                24  u64 columns
         40  u64 nodes                           32  rows, one after the other
         48  u64 edges
         56  u64 1 if there are weights
             u64 offsets[nodes + 1]: the out-edges of node v are offsets[v] .. offsets[v + 1]
             u64 targets[edges]
             f32 weights[edges], at the next multiple of 64 after the targets
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import empty
from aethergraph.convert.readers.base import Field, InputError, PathLike, ProgressFn
from aethergraph.errors import AetherError, CorruptFileError, FormatError, TruncatedFileError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.graph import Graph

__all__ = ["GlTable", "read_gd", "read_gl"]

_GL_MAGIC, _GD_MAGIC = b"graphlit", b"GZDATA26"
_GD_DTYPES = ("int32", "int64", "float32", "float64")
_ROWS = 1 << 18  # edges per chunk
_U64, _F32 = np.dtype("<u8"), np.dtype("<f4")


def read_gl(path: PathLike, layout: Literal["csc", "csr", "both"] = "csr") -> Graph:
    """Read a ``.gl`` file as a graph, with its edge weights if it has any.

    Takes 16 bytes per edge while the file is read.

    Args:
        path: the file.
        layout: layout of the graph; GraphZero's walks need out-edges, ``"csr"``.

    Raises:
        MissingFileError, StorageError: the file cannot be opened.
        FormatError, TruncatedFileError, CorruptFileError: its content is wrong.
    """
    table = GlTable(path)
    with native.reading(table.guard):
        src, dst = table.sources(0, table.num_rows), table.targets(0, table.num_rows)
        weight = None if table.weights is None else np.array(table.weights)
    try:
        return Graph.from_edges(table.num_nodes, src, dst, edge_weight=weight, layout=layout)
    except AetherError as error:
        raise CorruptFileError(
            f"{os.fspath(path)}: {error}", position=error.position, value=error.value
        ) from error


def read_gd(path: PathLike) -> FeatureTable:
    """Open a ``.gd`` file as features, mapped: opening takes no time and no memory.

    Returns:
        FeatureTable of shape [rows, columns]; int32, int64, float32 or float64.

    Raises:
        MissingFileError, StorageError: the file cannot be opened.
        FormatError, TruncatedFileError: its content is wrong.
    """
    file = native.NativeFile(path, raw=True)
    code, rows, columns = struct.unpack("<4xIQQ", _header(file, _GD_MAGIC, 32, ".gd")[8:])
    if code >= len(_GD_DTYPES):
        raise FormatError(f"{file.path}: dtype {code} is not known", position=12, value=code)
    dtype = np.dtype(_GD_DTYPES[code])
    _check_extent(file, 32, rows * columns, dtype.itemsize, "the features")
    native.check_shape((rows, columns), dtype.itemsize, file.path)
    return FeatureTable.from_mapped(file.array(32, (rows, columns), dtype), file.guard())


class GlTable:
    """Table of edges in a ``.gl`` file, with columns src, dst and perhaps weight.

    Attributes:
        num_nodes: number of nodes.
        num_rows: number of edges.
        offsets: uint64 [num_nodes + 1], checked.
        weights: float32 [num_rows] or None.

    Raises:
        FormatError, TruncatedFileError, CorruptFileError: its content is wrong.
    """

    unit = "row"

    def __init__(self, path: PathLike) -> None:
        file = native.NativeFile(path, raw=True)
        fields = struct.unpack("<7Q", _header(file, _GL_MAGIC, 64, ".gl")[8:])
        offset_bytes, target_bytes, offsets_at, targets_at, nodes, edges, weighted = fields
        if offset_bytes != 8 * (nodes + 1) or target_bytes != 8 * edges or weighted > 1:
            raise FormatError(
                f"{file.path}: the .gl header contradicts itself: {nodes} nodes, {edges} edges, "
                f"{offset_bytes} bytes of offsets, {target_bytes} bytes of targets"
            )
        self.path = path
        self.size = file.size
        self.guard = file.guard()
        self.num_nodes, self.num_rows = nodes, edges
        self.offsets = _vector(file, offsets_at, nodes + 1, _U64, "the offsets")
        self._targets = _vector(file, targets_at, edges, _U64, "the targets")
        self.weights: NDArray[np.float32] | None = None
        if weighted:
            place = -(-(targets_at + target_bytes) // 64) * 64
            self.weights = _vector(file, place, edges, _F32, "the weights")
        self.names: list[str] = ["src", "dst", "weight"][: 2 + int(weighted)]
        self.num_columns = len(self.names)
        with native.reading(self.guard):
            self._check_offsets(file.path)

    def _check_offsets(self, path: str) -> None:
        offsets = self.offsets
        falls = np.flatnonzero(offsets[1:] < offsets[:-1])
        if falls.size or int(offsets[0]) != 0 or int(offsets[-1]) != self.num_rows:
            at = int(falls[0]) + 1 if falls.size else 0 if int(offsets[0]) else self.num_nodes
            raise CorruptFileError(
                f"{path}: offset {at} is {int(offsets[at])}: offsets rise from 0 to "
                f"{self.num_rows}",
                position=at,
                value=int(offsets[at]),
            )

    def sources(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the source of each of the edges ``start .. stop - 1``."""
        if start == stop:
            return np.empty(0, np.int64)
        first, last = (
            int(np.searchsorted(self.offsets, np.uint64(edge), "right")) - 1
            for edge in (start, stop - 1)
        )
        bounds = np.clip(self.offsets[first : last + 2].astype(np.int64), start, stop)
        return np.repeat(np.arange(first, last + 1, dtype=np.int64), np.diff(bounds))

    def targets(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the target of each of the edges ``start .. stop - 1``.

        Targets above 2^63 - 1 become negative numbers.
        """
        out = empty(stop - start, np.int64, f"{stop - start} edges")
        out[:] = self._targets[start:stop].view(np.int64)
        return out

    # ---- interface of the readers of edge lists ---------------------------------------------

    def settle_header(self, columns: Sequence[int]) -> None:
        """Do nothing: the columns always have names."""

    def require_header(self) -> None:
        """Do nothing: the columns always have names."""

    def peek_names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.names)

    def is_integral(self, column: int) -> bool:
        """Return whether a column holds integers, as src and dst do."""
        return column < 2

    def column_name(self, column: int) -> str | None:
        """Return the name of a column."""
        return self.names[column]

    def chunks(
        self, fields: Sequence[Field], progress: ProgressFn | None = None, skip: int = 0
    ) -> Iterator[list[NDArray[Any]]]:
        """Yield arrays of each field, some hundred thousand edges at a time.

        Args:
            fields: columns to read, and their types.
            progress: called with (bytes done, bytes in all).
            skip: number of chunks to leave out at the beginning.

        Raises:
            InputError: the first target that is no node, or bad weight, with its row.
        """
        for start in range(skip * _ROWS, self.num_rows, _ROWS):
            stop = min(start + _ROWS, self.num_rows)
            with native.reading(self.guard):
                arrays = [self._column(field, start, stop) for field in fields]
            if progress is not None:
                progress(self.size * stop // self.num_rows, self.size)
            yield arrays

    def _column(self, field: Field, start: int, stop: int) -> NDArray[Any]:
        if field.column == 2:
            assert self.weights is not None
            values: NDArray[Any] = self.weights[start:stop].astype(field.dtype)
            bad = ~np.isfinite(values) if field.finite else np.zeros(values.shape, np.bool_)
            if field.minimum is not None:
                bad |= values < field.minimum
        else:
            values = (self.targets if field.column == 1 else self.sources)(start, stop)
            limit = self.num_nodes if field.limit is None else min(field.limit, self.num_nodes)
            bad = (
                (values < 0) | (values >= limit) if field.is_id else np.zeros(len(values), np.bool_)
            )
        if bad.any():
            at = int(bad.argmax())
            raise InputError(
                self.path,
                f"the {field.role} {values[at]} cannot be (num_nodes={self.num_nodes})",
                line=start + at + 1,
                column=field.column + 1,
                column_name=self.names[field.column],
                unit="row",
            )
        return values.astype(field.dtype, copy=False)


def _header(file: native.NativeFile, magic: bytes, size: int, kind: str) -> bytes:
    """Read the first ``size`` bytes, which must begin with ``magic``."""
    start = file.array(0, (min(file.size, size),), np.dtype(np.uint8)).tobytes()
    file.check()
    if not start.startswith(magic[: max(1, len(start))]):
        raise FormatError(f"{file.path}: this is not a {kind} file of GraphZero")
    if len(start) < size:
        raise TruncatedFileError(f"{file.path}: the {kind} header ends after {len(start)} bytes")
    return start


def _check_extent(file: native.NativeFile, place: int, count: int, item: int, noun: str) -> None:
    if place + count * item > file.size:
        raise TruncatedFileError(
            f"{file.path}: {noun} end at byte {place + count * item}, the file at {file.size}"
        )


def _vector(
    file: native.NativeFile, place: int, count: int, dtype: np.dtype[Any], noun: str
) -> NDArray[Any]:
    _check_extent(file, place, count, dtype.itemsize, noun)
    if place % dtype.itemsize:
        raise FormatError(f"{file.path}: {noun} are at byte {place}, which is not aligned")
    return file.array(place, (count,), dtype)
