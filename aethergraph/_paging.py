"""Adjacency that stays in its file: who reads it, and what its memory budget goes to.

budget  | index | kept pages | columns | windows |     samples at once       |
          |       |            |         |         how many, says sampling/groups.py
          |       |            |         four buffers that pages are read into
          |       |            weights, times and other short rows, held whole if there is room
          |       of lists, those that single samples use most
          offsets of all lists, and of blocks of compressed ids: themselves compressed

It is one pool. A column is given room when it is first used: what pages of lists may come to take
and the least that sampling needs stay free, all else is there for columns. From then on groups of
samples become smaller by it; until they have, the column is read by page.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from aethergraph import _binding as native
from aethergraph._holdings import Holdings
from aethergraph._memory import available_memory, format_size, parse_size
from aethergraph._value_columns import ValueColumn
from aethergraph.errors import FileChangedError, InvalidArgumentError

__all__ = ["Paging"]

DEFAULT_BUDGET = 1 << 30
_WINDOWS = 4
_WINDOW_LEAST, _WINDOW_MOST = 256 << 10, 2 << 20
#: What sampling at all takes besides.
_SAMPLES_LEAST = 16 << 20
#: What sorting the positions of a gather takes, and the part of the budget that is.
_SPANS_LEAST, _SPANS_MOST, _SPANS_PART = 1 << 20, 16 << 20, 32
#: Pages that are kept need so much besides.
_PAGE, _PAGE_EXTRA = 4096, 8
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
        # Columns know this object, and nobody who has files open may be in a cycle.
        self._columns: WeakValueDictionary[int, ValueColumn] = WeakValueDictionary()
        # Only tried: who does not get it reads by page. A child may be forked with it locked.
        self._loading = threading.Lock()
        self._staging = deque[native.NativeStaging]()  # append and pop are atomic
        self.index_bytes = 0
        self._list_pages = 0
        self._topologies = list[native.NativeTopology]()
        #: What groups of samples hold, of all samplers of the graph.
        self.groups = Holdings()
        #: What loaders hold of completed samples whose values are read together.
        self.ahead = Holdings()
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
        self._list_pages += arrays[1].nbytes // _PAGE + 2
        return topology

    def offset_of(self, array: NDArray[Any]) -> int | None:
        """Where in the file a mapped array lies; None: it is no part of the mapping."""
        if array.nbytes == 0 or not array.flags.c_contiguous:
            return None
        offset = native.address_of(array) - native.address_of(self._file)
        return offset if 0 <= offset <= self._file.nbytes - array.nbytes else None

    def values_of(
        self, array: NDArray[Any], ids_of: native.NativeTopology | None = None
    ) -> native.NativeValues | None:
        """A mapped vector of numbers, for samplers to read from the file; None as above.

        Args:
            array: the vector.
            ids_of: the lists whose ids it has.
        """
        offset = self.offset_of(array)
        if offset is None or array.ndim != 1 or array.itemsize not in (4, 8) or offset % 64:
            return None
        if ids_of is None:
            column = self.column_of(array)
            return None if column is None else column.values
        return native.NativeValues(self.reader, offset, len(array), array.itemsize, ids_of)

    def held(self, array: NDArray[Any]) -> NDArray[Any] | None:
        """A mapped column in memory, read now if it was not; None if there is no room for it."""
        column = self.column_of(array)
        return None if column is None else column.hold()

    def column_of(
        self,
        array: NDArray[Any],
        code: int | None = None,
        edges_of: native.NativeTopology | None = None,
    ) -> ValueColumn | None:
        """The short rows of a mapped array, to be gathered past the page cache; None as above.

        Args:
            array: the rows.
            code: of their dtype, where it is not that of the array.
            edges_of: the lists whose edges the rows are of.
        """
        offset = self.offset_of(array)
        if offset is None or offset % 64 or not ValueColumn.takes(array):
            return None
        column = self._columns.get(offset)
        if column is None:
            own = native.dtype_code(array.dtype) if code is None else code
            column = self._columns.setdefault(offset, ValueColumn(self, array, offset, own))
        if edges_of is not None and edges_of.edge_ids is None:
            column.edges_of = edges_of
        return column

    # ---- memory of columns -----------------------------------------------------------------

    def hold(self, column: ValueColumn) -> None:
        """Load ``column`` if there is room for it, and nobody loads one at this moment."""
        if column.is_refused or not self._loading.acquire(blocking=False):
            return
        try:
            if column.room is None:
                self._give_room(column)
            if not column.is_refused and column.held is None and column.nbytes <= self._unused:
                column.load()
        finally:
            self._loading.release()

    def _give_room(self, column: ValueColumn) -> None:
        """Room for all of ``column``, or if that is too much, for some pages of it."""
        room = (
            self._sampling_bytes - self._most_kept - max(_SAMPLES_LEAST, self._sampling_bytes // 8)
        )
        room -= sum(other.room or 0 for other in self._live)
        if column.nbytes <= room:
            column.room = column.nbytes
        else:
            column.keep_pages(max(0, room // 4))

    @contextmanager
    def staging(self) -> Iterator[native.NativeStaging]:
        """Lend memory to gather values with."""
        try:
            staging = self._staging.pop()
        except IndexError:
            spans = min(max(self.budget // _SPANS_PART, _SPANS_LEAST), _SPANS_MOST)
            staging = native.NativeStaging(self.window_bytes, spans)
        try:
            yield staging
        finally:
            self._staging.append(staging)

    @property
    def value_bytes(self) -> int:
        """What columns take, and gathering from them."""
        columns = sum(column.memory for column in self._live)
        return columns + sum(staging.counts().memory for staging in list(self._staging))

    @property
    def _promised(self) -> int:
        """What columns that are not loaded yet will take."""
        waiting = (c for c in self._live if not c.is_refused and c.held is None)
        return sum(column.room or 0 for column in waiting)

    @property
    def _live(self) -> list[ValueColumn]:
        return [c for ref in self._columns.valuerefs() if (c := ref()) is not None]

    @property
    def _sampling_bytes(self) -> int:
        return self.budget - self.index_bytes - _WINDOWS * self.window_bytes

    @property
    def _most_kept(self) -> int:
        """What pages of lists may come to take."""
        return min(self._list_pages * (_PAGE + _PAGE_EXTRA), max(0, self._sampling_bytes // 2))

    @property
    def _unused(self) -> int:
        """What nobody has at this moment."""
        taken = self.kept_bytes + self.value_bytes + self.groups.total + self.ahead.total
        return self._sampling_bytes - taken

    # ---- memory of lists and samples -------------------------------------------------------

    def keep_pages(self) -> None:
        """Call when all lists are open: each may keep pages, by its share of the edges."""
        room = max(0, self._sampling_bytes // 2)
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
        others = self.kept_bytes + self.value_bytes + self._promised + self.ahead.total
        return self.budget - self.index_bytes - others

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
