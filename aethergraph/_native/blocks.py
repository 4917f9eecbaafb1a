"""Neighbour ids compressed in blocks of 128 (native/FORMAT.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import empty
from aethergraph._native.core import ffi, lib, new_error, raise_error, sized
from aethergraph._native.tasks import Task, lend

BLOCK: Final = 128
GROUP: Final = 16
#: Words of the index for a group of blocks: the offset of the group, then 16 offsets of 16 bits.
GROUP_WORDS: Final = 5


def index_words(count: int) -> int:
    """Return the length of the index of ``count`` ids, in 64-bit words."""
    return GROUP_WORDS * (-(-count // (BLOCK * GROUP)) + 1)


@dataclass(frozen=True)
class CompressedIds:
    """Compressed ids of all lists of one direction.

    ``blocks`` are uint8 and ``index`` is uint64, both 8-byte aligned. They encode ``count`` ids of
    ``dtype`` (uint32 or uint64).
    """

    blocks: NDArray[np.uint8]
    index: NDArray[np.uint64]
    count: int
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        """Bytes of blocks and index."""
        return self.blocks.nbytes + self.index.nbytes


class BlockEncoder:
    """Encoder of ids, piece by piece; :meth:`index` returns the index that finds the blocks."""

    def __init__(self) -> None:
        self._size = 0
        self._groups: list[NDArray[np.uint64]] = []

    def encode(self, ids: NDArray[Any], task: Task | None = None) -> NDArray[np.uint8]:
        """Return the blocks of a piece; all pieces but the last have a multiple of 2048 ids."""
        id_bytes = ids.dtype.itemsize
        bound = int(lib.aether_encode_bound(len(ids), id_bytes))
        out = empty(bound, np.uint8, f"{len(ids)} ids")
        sizes = np.zeros(-(-len(ids) // (BLOCK * GROUP)) * GROUP, np.uint16)
        used = ffi.new("uint64_t *")
        err = new_error()
        lent, room = ffi.from_buffer(ids), ffi.from_buffer(out)
        room_of_sizes = ffi.from_buffer("uint16_t[]", sizes)
        encoding = sized(
            "aether_encoding", lent, len(ids), room, out.nbytes, room_of_sizes, id_bytes
        )
        code = lib.aether_encode_blocks(encoding, used, lend(task, ids.nbytes), err)
        if code:
            raise_error(code, err)
        self._add_groups(sizes.reshape(-1, GROUP).astype(np.uint64))
        return out[: used[0]]

    def _add_groups(self, sizes: NDArray[np.uint64]) -> None:
        ends = sizes.cumsum(axis=1)
        groups = np.empty((len(sizes), GROUP_WORDS), np.uint64)
        after = ends[:, -1].cumsum()
        groups[:, 0] = self._size + after - ends[:, -1]
        groups[:, 1:] = (ends - sizes).astype(np.uint16).view(np.uint64)
        self._groups.append(groups.reshape(-1))
        self._size += int(after[-1]) if len(after) else 0

    def take_index(self) -> NDArray[np.uint64]:
        """Return the index of the pieces since the last call, and forget it."""
        groups, self._groups = self._groups, []
        return np.concatenate([np.empty(0, np.uint64), *groups])

    def index(self) -> NDArray[np.uint64]:
        """Return the index of all pieces not taken yet, and the end of the blocks."""
        last = np.array([self._size, 0, 0, 0, 0], np.uint64)
        return np.concatenate([self.take_index(), last])
