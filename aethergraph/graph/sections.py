"""Contents of a graph file's sections: arrays, and ids encoded or decoded while writing."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.graph.lists import Lists

__all__ = ["ArrayContent", "Content", "EncodedIds", "EncodedIndex", "id_content"]

#: Number of ids encoded or decoded at a time: many groups of blocks.
_PIECE = 1 << 22


class Content(Protocol):
    """Bytes of a section; ``nbytes`` measures the work, which may differ from the bytes written."""

    dtype: np.dtype[Any]
    nbytes: int

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append the whole content to the section that was begun."""


class ArrayContent:
    """An array, written unchanged."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.dtype = array.dtype
        self.nbytes = array.nbytes
        self._array = array

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append the array."""
        writer.append(self._array, task)


class _DecodedIds:
    """Compressed ids, written decoded."""

    def __init__(self, lists: Lists) -> None:
        self.dtype = lists.ids.dtype
        self.nbytes = len(lists.ids) * self.dtype.itemsize
        self._lists = lists

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        count = len(self._lists.ids)
        for start in range(0, count, _PIECE):
            size = min(_PIECE, count - start)
            writer.append(self._lists.topology.ids(start, size, self.dtype, task))


class EncodedIds:
    """Plain ids, written as compressed blocks."""

    def __init__(self, lists: Lists) -> None:
        assert isinstance(lists.ids, np.ndarray)
        self.dtype = np.dtype(np.uint8)
        self.nbytes = lists.ids.nbytes
        self.encoder = native.BlockEncoder()
        self._ids = lists.ids
        self._stored = native.id_dtype(native.id_bytes_for(lists.topology.num_minor))

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append the blocks, encoded piece by piece."""
        self.encoder = native.BlockEncoder()
        for start in range(0, len(self._ids), _PIECE):
            piece = self._ids[start : start + _PIECE].astype(self._stored, copy=False)
            writer.append(self.encoder.encode(piece, task))


class EncodedIndex:
    """The index of the blocks that an :class:`EncodedIds` has written."""

    def __init__(self, ids: EncodedIds) -> None:
        self.dtype = np.dtype(np.uint64)
        self.nbytes = 0
        self._ids = ids

    def write(self, writer: native.NativeWriter, task: native.Task | None) -> None:
        """Append the index that encoding has left."""
        writer.append(self._ids.encoder.index())


def id_content(lists: Lists) -> Content:
    """Return the content that writes the ids of ``lists`` uncompressed."""
    return ArrayContent(lists.ids) if isinstance(lists.ids, np.ndarray) else _DecodedIds(lists)
