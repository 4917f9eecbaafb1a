"""Adjacency that stays in its file: who reads it, and what its memory budget goes to.

budget  | index | values | windows |       samples at once         |
          |       |        |         how many, says sampling/groups.py
          |       |        four buffers that pages are read into
          |       rows of weights and times that are gathered
          offsets of all lists, and of blocks of compressed ids: themselves compressed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _binding as native
from aethergraph._holdings import Holdings
from aethergraph._memory import available_memory, format_size, parse_size
from aethergraph.errors import FileChangedError, InvalidArgumentError

__all__ = ["Paging"]

DEFAULT_BUDGET = 1 << 30
_WINDOWS = 4
_WINDOW_LEAST, _WINDOW_MOST = 256 << 10, 2 << 20
#: What sampling at all takes besides.
_SAMPLES_LEAST = 16 << 20
#: What gathering rows of a vector of values takes.
_ROWS_LEAST, _ROWS_MOST = 1 << 20, 16 << 20
_HEAD = 4096


class Paging:
    """Reads the lists of one graph file page by page, within a budget.

    Args:
        file: the mapped file.
        budget: bytes for the lists and for sampling from them; None: 1 GiB, or half of the memory
            that is available if that is less.
    """

    def __init__(self, file: native.NativeFile, budget: int | str | None) -> None:
        self.reader = native.FileReader(file.path)
        self._check_same(file)
        if budget is None:
            budget = min(DEFAULT_BUDGET, available_memory() // 2)
        self.budget = parse_size(budget)
        self._file = file.array(0, (file.size,), np.dtype(np.uint8))
        self._rows = dict[int, native.FileRows]()
        self.index_bytes = 0
        self._topologies = list[native.NativeTopology]()
        #: What groups of samples hold, of all samplers of the graph.
        self.groups = Holdings()
        self.window_bytes = min(max(self.budget // 128, _WINDOW_LEAST), _WINDOW_MOST)
        self.window_bytes -= self.window_bytes % 4096

    def _check_same(self, file: native.NativeFile) -> None:
        """The path may lead to another file by now; header and section table tell."""
        size = min(_HEAD, file.size)
        head = self.reader.read([0], size)
        if (
            self.reader.size != file.size
            or head.tobytes() != file.array(0, (size,), np.dtype(np.uint8)).tobytes()
        ):
            raise FileChangedError(f"{file.path}: the file was replaced while it was opened")

    def open(
        self,
        arrays: tuple[NDArray[np.uint64], NDArray[Any] | native.CompressedIds, NDArray[Any] | None],
        num_minor: int,
        guard: native.FileGuard,
        offsets: Sequence[int],
        task: native.Task | None = None,
    ) -> native.NativeTopology:
        """Lists whose indptr and indices lie at ``offsets`` of the file.

        Of compressed ids: their indptr, blocks and index.
        """
        place = native.Place(self.reader, *offsets)
        topology = native.NativeTopology.paged(arrays, num_minor, guard, place, task)
        self.index_bytes += topology.memory
        self._topologies.append(topology)
        return topology

    def offset_of(self, array: NDArray[Any]) -> int | None:
        """Where in the file a mapped array lies; None: it is no part of the mapping."""
        if array.nbytes == 0 or not array.flags.c_contiguous:
            return None
        offset = native.address_of(array) - native.address_of(self._file)
        return offset if 0 <= offset <= self._file.nbytes - array.nbytes else None

    def values_of(self, array: NDArray[Any]) -> native.NativeValues | None:
        """A mapped vector of numbers, for samplers to read from the file; None as above."""
        offset = self.offset_of(array)
        if offset is None or array.ndim != 1 or array.itemsize not in (4, 8) or offset % 64:
            return None
        return native.NativeValues(self.reader, offset, len(array), array.itemsize)

    def rows_of(self, array: NDArray[Any]) -> native.FileRows | None:
        """The items of a mapped array, to be gathered past the page cache; None as above.

        They take a little of the budget from their first use on.
        """
        offset = self.offset_of(array)
        if offset is None:
            return None
        if offset not in self._rows:
            size = min(max(self.budget // 64, _ROWS_LEAST), _ROWS_MOST)
            code = native.dtype_code(array.dtype)
            self._rows[offset] = native.FileRows(
                self.reader.path, offset, array.shape, code, size, tier=self.reader.tier
            )
        return self._rows[offset]

    @property
    def value_bytes(self) -> int:
        """What gathering values takes."""
        return sum(rows.stats().budget for rows in self._rows.values())

    def keep_pages(self) -> None:
        """Call when all lists are open: each may keep pages, by its share of the edges."""
        room = max(0, self.sample_room_of(1) // 2)
        edges = sum(topology.num_edges for topology in self._topologies)
        for topology in self._topologies:
            topology.keep_pages(room * topology.num_edges // max(1, edges))

    @property
    def kept_bytes(self) -> int:
        """What the pages take that are kept by now."""
        return sum(topology.kept for topology in self._topologies)

    def sample_room_of(self, shares: int) -> int:
        """What each of so many groups has for samples, which are read into buffers of its own.

        Where more are at work already, the shares are as many as those and one more.
        """
        share = self._group_bytes // max(shares, self.groups.num_at_work + 1)
        return max(0, share - _WINDOWS * self.window_bytes)

    @property
    def sample_room_left(self) -> int:
        """What one more group has for samples, beside what all of them hold."""
        return max(0, self._group_bytes - self.groups.total - _WINDOWS * self.window_bytes)

    @property
    def _group_bytes(self) -> int:
        return self.budget - self.index_bytes - self.kept_bytes - self.value_bytes

    def check_budget(self) -> None:
        """Call when all lists are open.

        Raises:
            InvalidArgumentError: the budget is too small; the message has the least.
        """
        least = self.index_bytes + _WINDOWS * _WINDOW_LEAST + _SAMPLES_LEAST
        if self.budget < least:
            raise InvalidArgumentError(
                f"memory_budget = {format_size(self.budget)} is too small for {self.reader.path}: "
                f"at least {-(-least >> 20)}M are needed, {format_size(_SAMPLES_LEAST)} for "
                f"samples at work, {format_size(_WINDOWS * _WINDOW_LEAST)} for read buffers and "
                f"{format_size(self.index_bytes)} for the index of its lists"
            )

    def stats(self) -> dict[str, Any]:
        """Where the budget goes, and what was read."""
        reads = self.reader.stats()
        return {
            "tier": self.reader.tier,
            "direct": self.reader.direct,
            "budget": self.budget,
            "index_bytes": self.index_bytes,
            "kept_bytes": self.kept_bytes,
            "value_bytes": self.value_bytes,
            "reads": reads.reads,
            "read_bytes": reads.bytes,
            "read_sizes": reads.sizes,
            "wait_seconds": reads.wait_ns / 1e9,
        }
