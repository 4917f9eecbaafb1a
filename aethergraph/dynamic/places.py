"""Places of edges in the file of a base, by their ids in the live graph.

::

    base     edge ids by place   [0, 2, 3]
    places   places by edge id   [0, -, 1, 2]    - the largest number: edge 1 was deleted

The process that writes the graph keeps them in a file beside the base. Others read that one; where
it is missing or damaged they have the places in memory, and the directory stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import empty
from aethergraph.errors import AetherError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.files import save_native
from aethergraph.protocols import RowSource
from aethergraph.storage.memory import available_memory

__all__ = ["PlacedRows", "find_places"]

_IDS_AT_ONCE = 1 << 20


def find_places(
    path: str, edge_ids: NDArray[Any] | None, num_edges: int, end: int, *, keep: bool
) -> FeatureTable:
    """Return the place of each edge id; the largest number of the dtype: it was deleted.

    Args:
        path: the file that they are kept in.
        edge_ids: edge id at each place; None: the same number.
        num_edges: number of places.
        end: number that all ids are below.
        keep: write the file if it is missing or damaged.

    Raises:
        DiskFullError, StorageError: it cannot be written.
    """
    dtype = np.dtype(np.uint32 if num_edges < 2**32 - 1 else np.int64)
    table = _load(path, dtype, end)
    if table is not None:
        return table
    if not keep:
        return FeatureTable.from_array(_places(edge_ids, num_edges, 0, end, dtype))
    part = max(_IDS_AT_ONCE, available_memory() // 4 // dtype.itemsize)
    code = native.dtype_code(dtype)

    def write(writer: native.NativeWriter, task: native.Task | None) -> None:
        writer.begin(native.SECTION_ARRAY, 0, code)
        for begin in range(0, end, part):
            some = _places(edge_ids, num_edges, begin, min(begin + part, end), dtype)
            writer.append(some, task)
        writer.end()

    save_native(path, (end,), code, write, None)
    return FeatureTable.load(path)


def _load(path: str, dtype: np.dtype[Any], end: int) -> FeatureTable | None:
    """Open the file; None if it is missing, cannot be opened, or is of another base."""
    try:
        table = FeatureTable.load(path)
    except AetherError:
        return None
    return table if table.dtype_name == dtype.name and table.shape == (end,) else None


def _places(
    edge_ids: NDArray[Any] | None, num_edges: int, begin: int, end: int, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Return the places of the ids ``begin .. end - 1``."""
    places = empty(end - begin, dtype, f"places of {end - begin} edges")
    places[...] = np.iinfo(dtype).max
    for at, ids in _ids_in_parts(edge_ids, num_edges):
        inside = np.flatnonzero((ids >= begin) & (ids < end))
        places[ids[inside] - begin] = at + inside
    return places


def _ids_in_parts(
    edge_ids: NDArray[Any] | None, num_edges: int
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    for at in range(0, num_edges, _IDS_AT_ONCE):
        stop = min(at + _IDS_AT_ONCE, num_edges)
        yield at, np.arange(at, stop) if edge_ids is None else edge_ids[at:stop].astype(np.int64)


class PlacedRows(RowSource):
    """Rows by edge id of a live graph; those of deleted edges are zeros."""

    def __init__(self, rows: RowSource, places: FeatureTable, end: int) -> None:
        self._rows, self._places, self._end = rows, places, end
        self._gone = np.iinfo(places.dtype_name).max

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all rows: ``(num_rows, ...)``."""
        return (self._end, *self._rows.row_shape)

    @property
    def dtype_name(self) -> str:
        """Name of the dtype of the rows."""
        return self._rows.dtype_name

    def gather_into(self, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Set ``out[i]`` to the row of edge ``ids[i]``."""
        places = self._places.gather(ids)
        gone = places == self._gone
        self._rows.gather_into(np.where(gone, 0, places).astype(np.int64), out)
        out[gone] = 0
