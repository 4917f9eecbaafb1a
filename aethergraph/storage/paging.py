"""Adjacency that stays in its file: the reader of the file and its memory budget.

budget  | index | kept pages | columns | windows |      samples in progress       |
          |       |            |         |         sampling/groups.py chooses how many
          |       |            |         four buffers that pages are read into
          |       |            weights, times and other short rows, loaded whole if there is room
          |       pages of the lists that single samples use most
          compressed offsets of all lists, and of the blocks of compressed ids

The budget is one pool. A column is given room on its first use: everything but the most that kept
pages of lists may grow to and the least that sampling needs is available to columns. From then on
groups of samples become smaller by the column's size. Until they have, the column is read by page.
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._tracepoints import made
from aethergraph.errors import FileChangedError, InvalidArgumentError
from aethergraph.storage.budget import ADJACENCY_BYTES, Budget, Holdings
from aethergraph.storage.memory import format_size
from aethergraph.storage.value_columns import ValueColumn

__all__ = ["Paging"]

_WINDOWS = 4
_WINDOW_LEAST, _WINDOW_MOST = 256 << 10, 2 << 20
#: Least bytes for samples in progress.
_SAMPLES_LEAST = 16 << 20
#: Bytes for sorting the positions of a gather: least, most, and the divisor of the budget.
_SPANS_LEAST, _SPANS_MOST, _SPANS_PART = 1 << 20, 16 << 20, 32
#: Bytes of a page, and bytes of bookkeeping for each kept page.
_PAGE, _PAGE_EXTRA = 4096, 8
_HEAD = 4096


class Paging:
    """Reads the lists of one graph file page by page, within a budget.

    Args:
        file: the mapped file.
        budget: bound for the lists and for sampling from them; None: the default.
    """

    def __init__(self, file: native.NativeFile, budget: Budget | None) -> None:
        self.reader = native.FileReader(file.path)
        self._check_same(file)
        self.budget = budget or Budget.default(ADJACENCY_BYTES)
        self._file = file.array(0, (file.size,), np.dtype(np.uint8))
        # Weak: columns refer to this object, and owners of open files must not be in a cycle.
        self._columns: WeakValueDictionary[int, ValueColumn] = WeakValueDictionary()
        # Only tried, never waited for (hold()): a child may be forked while the lock is taken.
        self._loading = threading.Lock()
        self._staging = deque[native.NativeStaging]()  # append and pop are atomic
        self.index_bytes = 0
        self._list_pages = 0
        self._topologies = list[native.NativeTopology]()
        #: Bytes that groups of samples hold, over all samplers of the graph.
        self.groups = Holdings()
        #: Bytes that loaders hold of completed samples whose values are read together.
        self.ahead = Holdings()
        self.window_bytes = min(max(self.budget.limit // 128, _WINDOW_LEAST), _WINDOW_MOST)
        self.window_bytes -= self.window_bytes % 4096
        made(self)

    def _check_same(self, file: native.NativeFile) -> None:
        """Raise if the path leads to another file by now; compare header and section table."""
        size = min(_HEAD, file.size)
        head = self.reader.read([0], size)
        if (
            self.reader.size != file.size
            or head.tobytes() != file.array(0, (size,), np.dtype(np.uint8)).tobytes()
        ):
            raise FileChangedError(
                errno.ESTALE, f"{file.path}: the file was replaced while it was opened", file.path
            )

    def open(
        self,
        arrays: tuple[NDArray[np.uint64], NDArray[Any] | native.CompressedIds, NDArray[Any] | None],
        num_minor: int,
        guard: native.FileGuard,
        offsets: Sequence[int],
        task: native.Task | None = None,
    ) -> native.NativeTopology:
        """Open the lists whose indptr and indices lie at ``offsets`` of the file.

        For compressed ids, ``offsets`` are the places of indptr, blocks and block index.
        """
        place = native.Place(self.reader, *offsets)
        topology = native.NativeTopology.paged(arrays, num_minor, guard, place, task)
        self.index_bytes += topology.memory
        self._topologies.append(topology)
        self._list_pages += arrays[1].nbytes // _PAGE + 2
        return topology

    def offset_of(self, array: NDArray[Any]) -> int | None:
        """Return the offset of a mapped array in the file; None if it is not in the mapping."""
        if array.nbytes == 0 or not array.flags.c_contiguous:
            return None
        offset = native.address_of(array) - native.address_of(self._file)
        return offset if 0 <= offset <= self._file.nbytes - array.nbytes else None

    def values_of(
        self, array: NDArray[Any], ids_of: native.NativeTopology | None = None
    ) -> native.NativeValues | None:
        """Wrap a mapped vector of numbers for samplers to read from the file.

        Args:
            array: the vector.
            ids_of: the lists whose ids the vector holds; None for a column of values.

        Returns:
            None if the vector is not part of the mapping or cannot be read this way.
        """
        offset = self.offset_of(array)
        if offset is None or array.ndim != 1 or array.itemsize not in (4, 8) or offset % 64:
            return None
        if ids_of is None:
            column = self.column_of(array)
            return None if column is None else column.values
        return native.NativeValues(self.reader, offset, len(array), array.itemsize, ids_of)

    def held(self, array: NDArray[Any]) -> NDArray[Any] | None:
        """Return a mapped column in memory, read now if needed; None if there is no room for it."""
        column = self.column_of(array)
        return None if column is None else column.hold()

    def column_of(
        self,
        array: NDArray[Any],
        code: int | None = None,
        edges_of: native.NativeTopology | None = None,
    ) -> ValueColumn | None:
        """Return the short rows of a mapped array, to be gathered past the page cache.

        Args:
            array: the rows.
            code: dtype code of the rows, if it is not that of the array.
            edges_of: the lists whose edges the rows belong to.

        Returns:
            None if the array is not part of the mapping, or its rows are not short.
        """
        offset = self.offset_of(array)
        if offset is None or offset % 64 or not ValueColumn.takes(array):
            return None
        column = self._columns.get(offset)
        if column is None:
            dtype_code = native.dtype_code(array.dtype) if code is None else code
            column = self._columns.setdefault(offset, ValueColumn(self, array, offset, dtype_code))
        if edges_of is not None and edges_of.edge_ids is None:
            column.edges_of = edges_of
        return column

    # ---- memory of columns -----------------------------------------------------------------

    def hold(self, column: ValueColumn) -> None:
        """Load ``column`` if there is room and no other column is being loaded at this moment."""
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
        """Reserve room for all of ``column``, or if that is too much, for some of its pages."""
        room = (
            self._sampling_bytes - self._most_kept - max(_SAMPLES_LEAST, self._sampling_bytes // 8)
        )
        room -= sum(live_column.room or 0 for live_column in self._live)
        if column.nbytes <= room:
            column.room = column.nbytes
        else:
            column.keep_pages(max(0, room // 4))

    @contextmanager
    def staging(self) -> Iterator[native.NativeStaging]:
        """Lend a workspace for gathering values."""
        try:
            staging = self._staging.pop()
        except IndexError:
            spans = min(max(self.budget.limit // _SPANS_PART, _SPANS_LEAST), _SPANS_MOST)
            staging = native.NativeStaging(self.window_bytes, spans)
        try:
            yield staging
        finally:
            self._staging.append(staging)

    @property
    def value_bytes(self) -> int:
        """Bytes of the columns and of the workspaces that gather from them."""
        columns = sum(column.memory for column in self._live)
        return columns + sum(staging.counts().memory for staging in list(self._staging))

    @property
    def _promised(self) -> int:
        """Bytes reserved for columns that are not loaded yet."""
        waiting = (c for c in self._live if not c.is_refused and c.held is None)
        return sum(column.room or 0 for column in waiting)

    @property
    def _live(self) -> list[ValueColumn]:
        return [c for ref in self._columns.valuerefs() if (c := ref()) is not None]

    @property
    def _sampling_bytes(self) -> int:
        return self.budget.limit - self.index_bytes - _WINDOWS * self.window_bytes

    @property
    def _most_kept(self) -> int:
        """Bytes that kept pages of lists may grow to."""
        return min(self._list_pages * (_PAGE + _PAGE_EXTRA), max(0, self._sampling_bytes // 2))

    @property
    def _unused(self) -> int:
        """Bytes of the budget that are free at this moment."""
        used_bytes = self.kept_bytes + self.value_bytes + self.groups.total + self.ahead.total
        return self._sampling_bytes - used_bytes

    # ---- memory of lists and samples -------------------------------------------------------

    def keep_pages(self) -> None:
        """Let each topology keep pages, by its share of the edges. Call when all lists are open."""
        room = max(0, self._sampling_bytes // 2)
        edges = sum(topology.num_edges for topology in self._topologies)
        for topology in self._topologies:
            topology.keep_pages(room * topology.num_edges // max(1, edges))

    @property
    def kept_bytes(self) -> int:
        """Bytes of the pages kept so far."""
        return sum(topology.kept for topology in self._topologies)

    def sample_room_of(self, shares: int) -> int:
        """Return the bytes for samples of one of ``shares`` groups, net of its read windows.

        If more groups are at work, the budget is divided by their number plus one instead.
        """
        share = self._group_bytes // max(shares, self.groups.num_at_work + 1)
        return max(0, share - _WINDOWS * self.window_bytes)

    @property
    def sample_room_left(self) -> int:
        """Bytes for samples of one more group, beside those that all groups hold now."""
        return max(0, self._group_bytes - self.groups.total - _WINDOWS * self.window_bytes)

    @property
    def _group_bytes(self) -> int:
        used_bytes = self.kept_bytes + self.value_bytes + self._promised + self.ahead.total
        return self.budget.limit - self.index_bytes - used_bytes

    def check_budget(self) -> None:
        """Raise if the budget cannot hold the index and the least buffers. Call after all open().

        Raises:
            InvalidArgumentError: the budget is too small; the message names the minimum.
        """
        minimum = self.index_bytes + _WINDOWS * _WINDOW_LEAST + _SAMPLES_LEAST
        if self.budget.limit < minimum:
            raise InvalidArgumentError(
                f"{self.budget} is too small for {self.reader.path}: "
                f"at least {-(-minimum >> 20)}M are needed, {format_size(_SAMPLES_LEAST)} for "
                f"samples at work, {format_size(_WINDOWS * _WINDOW_LEAST)} for read buffers and "
                f"{format_size(self.index_bytes)} for the index of its lists"
            )

    def stats(self) -> dict[str, Any]:
        """Return the use of the budget and the counts of reads."""
        reads = self.reader.stats()
        return {
            "tier": self.reader.tier,
            "direct": self.reader.direct,
            "budget": self.budget.limit,
            "index_bytes": self.index_bytes,
            "kept_bytes": self.kept_bytes,
            "value_bytes": self.value_bytes,
            "reads": reads.reads,
            "read_bytes": reads.bytes,
            "read_sizes": reads.sizes,
            "wait_seconds": reads.wait_ns / 1e9,
        }
