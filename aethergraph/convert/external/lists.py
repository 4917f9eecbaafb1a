r"""Building of lists in files from partitioned records, a bounded part at a time.

::

    parts       small | small | large | small | one node with more edges than memory holds
                \____________/    |              |
                ordered at once   split finer    streamed: sorted by row or time from disk

Ordering is done by several threads; what they give is appended in order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._parallel.prefetch import prefetch_map
from aethergraph.convert.external.array_files import ColumnFiles
from aethergraph.convert.external.damage import damage_of
from aethergraph.convert.external.runs import Part, RunWriter, Spill
from aethergraph.errors import LimitError

__all__ = ["ListBuilder", "ListOrder"]

Records = NDArray[Any]
_GROUP_EDGES = 1 << 21  # more at once is no faster
_KEYED_BYTES = 32  # memory of sorting a list, per edge


@dataclass(frozen=True)
class ListOrder:
    """Order of the edges of one list.

    Up to three steps, in this order.

    Attributes:
        row: sort by ``row``, the order of the input.
        unique: keep the first edge of each (major, minor).
        time: sort by ``time``, stably.
    """

    row: bool = False
    unique: bool = False
    time: bool = False

    @property
    def sorts(self) -> bool:
        """True if any step is to be done."""
        return self.row or self.unique or self.time


class ListBuilder:
    """Builder that turns the parts of a spill into column files.

    Args:
        spill: records by major id.
        files: output; a column ``minor`` holds the minor ids, other columns have their names in
            the records.
        order: order of the edges of a list.
        memory: bytes that may be taken.
        threads: number of threads that order parts.
        scratch: path prefix of temporary files.
        advanced: called after whole parts, when all of ``files`` is consistent.
    """

    def __init__(
        self,
        spill: Spill,
        files: ColumnFiles,
        order: ListOrder,
        memory: int,
        threads: int,
        scratch: str,
        advanced: Callable[[], None],
    ) -> None:
        self._files = files
        self._order = order
        self._memory = memory
        self._threads = threads
        self._scratch = scratch
        self._advanced = advanced
        self._numbers = itertools.count()
        self._spill = spill
        record = spill.dtype(spill.id_bytes).itemsize
        out = sum(dtype.itemsize * items for dtype, items in files.columns.values())
        narrow = record if any(run.id_bytes != spill.id_bytes for run in spill.runs) else 0
        self._edge_bytes = record + 4 + out + narrow + (_KEYED_BYTES if order.sorts else 0)
        self._group_bytes = memory // (threads + 2)
        self._capacity = max(1, self._group_bytes // self._edge_bytes)

    def build(self, num_lists: int) -> None:
        """Write all lists that ``files`` does not have yet."""
        self._build(self._spill, num_lists, self._advanced)
        self._files.append_empty(num_lists - self._files.lists)
        self._advanced()

    # ---- parts ---------------------------------------------------------------------------

    def _build(self, spill: Spill, end: int, advanced: Callable[[], None]) -> None:
        done = self._files.lists  # an interruption is between two parts
        groups = self._groups([p for p in spill.parts(end) if p.end > done])
        for is_small, parts in itertools.groupby(groups, self._is_small):
            if is_small:
                self._build_small(spill, parts, advanced)
                continue
            for part in parts:
                self._build_large(spill, part)
                advanced()

    def _build_small(
        self, spill: Spill, parts: Iterator[Part], advanced: Callable[[], None]
    ) -> None:  # fmt: skip
        """Order some parts in threads, and append them one after the other."""
        order, threads = partial(self._ordered, spill), self._threads
        with prefetch_map(order, parts, num_threads=threads, depth=threads) as ordered:
            for ends, columns in ordered:
                base = self._files.edges
                self._files.append_edges(columns)
                ends += np.uint64(base)
                self._files.append_ends(ends)
                advanced()
                del ends, columns  # before another part is begun in their place

    def _is_small(self, part: Part) -> bool:
        return self._fits(part.count, part.end - part.low)

    def _fits(self, edges: int, lists: int) -> bool:
        return edges * self._edge_bytes + 8 * lists <= self._group_bytes

    def _groups(self, parts: Sequence[Part]) -> Iterator[Part]:
        """Yield neighbouring parts joined into one, as long as that is small."""
        some: list[Part] = []
        edges = 0
        for part in parts:
            edges += part.count
            if some and not (edges <= _GROUP_EDGES and self._fits(edges, part.end - some[0].low)):
                yield _join(some)
                some, edges = [], part.count
            some.append(part)
        if some:
            yield _join(some)

    def _ordered(self, spill: Spill, part: Part) -> tuple[Any, dict[str, NDArray[Any]]]:
        records = spill.read(part.pieces)
        order = self._order
        with damage_of(self._spill.path):
            ends, places = native.order_records(
                records, part.low, part.end - part.low,
                row=order.row, time=order.time, unique=order.unique,
            )  # fmt: skip
        return ends, self._take(records, places)

    def _take(self, records: Records, places: NDArray[np.uint32]) -> dict[str, NDArray[Any]]:
        """Return the columns of records, in the order of ``places``."""
        columns = {}
        for name, (dtype, items) in self._files.columns.items():
            column = records[name]
            shape = (len(places),) if items == 1 else (len(places), items)
            out = native.mapped_empty(shape, column.dtype.base)
            code = native.dtype_code(out.dtype)
            native.NativeRows(column, code).gather(places, out, code)
            columns[name] = out.astype(dtype, copy=False)
        return columns

    def _build_large(self, spill: Spill, part: Part) -> None:
        """Build a part that memory does not hold: split it, down to single nodes."""
        if part.count == 0:
            self._files.append_empty(part.end - part.low)
        elif part.end - part.low > 1:
            finer = self._split(spill.stream(part, self._capacity), spill, "major", part)
            self._build(finer, part.end, lambda: None)
            finer.remove()
        else:
            for records in self._stream_list(spill, part):
                places = np.arange(len(records), dtype=np.uint32)
                self._files.append_edges(self._take(records, places))
            self._files.append_ends(np.array([self._files.edges], np.uint64))

    def _split(
        self, stream: Iterator[Records], like: Spill, field: str, part: Part
    ) -> Spill:  # fmt: skip
        path = f"{self._scratch}{next(self._numbers)}"
        spill = Spill(path, field, like.columns, part.low)
        memory = self._capacity * self._edge_bytes
        writer = RunWriter(spill, memory, high=part.end - 1, id_bytes=self._spill.id_bytes)
        try:
            with damage_of(self._spill.path):
                for records in stream:
                    writer.add_records(records)
                writer.close()
        except BaseException:
            writer.close(finish=False)
            spill.remove()
            raise
        return spill

    # ---- one long list ----------------------------------------------------------------------

    def _stream_list(self, spill: Spill, part: Part) -> Iterator[Records]:
        """Yield the edges of one node in the order asked for, some at a time."""
        stream = spill.stream(part, self._capacity)
        if self._order.row:
            stream = self._sorted(stream, "row", part.low)
        if self._order.unique:
            stream = self._without_repetitions(stream)
        if self._order.time:
            stream = self._sorted(stream, "time", part.low)
        return stream

    def _sorted(self, stream: Iterator[Records], field: str, major: int) -> Iterator[Records]:
        """Yield the records sorted stably by ``field``: through a copy whose key range is known."""
        path = f"{self._scratch}{next(self._numbers)}"
        copy = Spill(path, field, self._spill.columns)
        low, high, pieces = 2**64, 0, []
        try:
            for records in stream:
                keys = native.record_keys(records[field])
                low, high = min(low, int(keys.min())), max(high, int(keys.max()))
                run = copy.append(records, 0, np.zeros(0, np.uint64))
                pieces.append((len(copy.runs) - 1, 0, run.count))
            part = Part(low, high + 1, sum(count for *_, count in pieces), tuple(pieces))
            yield from self._sorted_part(copy, part, field, major)
        finally:
            copy.remove()

    def _sorted_part(
        self, spill: Spill, part: Part, field: str, major: int
    ) -> Iterator[Records]:  # fmt: skip
        if part.count == 0:
            return
        if part.count <= self._capacity:
            records = spill.read(part.pieces)
            with damage_of(self._spill.path):
                _, places = native.order_records(
                    records, major, 1, row=field == "row", time=field == "time", unique=False
                )
            yield records[places]
        elif part.end - part.low == 1:
            yield from spill.stream(part, self._capacity)
        else:
            finer = self._split(spill.stream(part, self._capacity), spill, field, part)
            try:
                for finer_part in finer.parts(part.end):
                    yield from self._sorted_part(finer, finer_part, field, major)
            finally:
                finer.remove()

    def _without_repetitions(self, stream: Iterator[Records]) -> Iterator[Records]:
        """Yield the first edge from each node; a flag per node marks those already seen."""
        seen = np.zeros(0, np.bool_)
        for records in stream:
            minor = records["minor"].astype(np.int64)
            needed = int(minor.max()) + 1
            if needed > self._group_bytes:
                raise LimitError(
                    f"dropping duplicates from a list of more than {self._capacity:,} edges needs "
                    f"a byte per node, {needed:,}, in a third of the memory that is left: give more"
                )
            if needed > len(seen):
                seen = np.concatenate([seen, np.zeros(needed - len(seen), np.bool_)])
            first = np.zeros(len(minor), np.bool_)
            first[np.unique(minor, return_index=True)[1]] = True
            new = first & ~seen[minor]
            seen[minor] = True
            if new.any():
                yield records[new]


def _join(parts: Sequence[Part]) -> Part:
    """Join neighbouring parts into one, whose pieces cover those of each part."""
    if len(parts) == 1:
        return parts[0]
    pieces: dict[int, tuple[int, int, int]] = {}
    for part in parts:  # parts of one run lie next to each other
        for run, first, count in part.pieces:
            start, known = pieces[run][1:] if run in pieces else (first, 0)
            pieces[run] = (run, start, known + count)
    return Part(
        parts[0].low,
        parts[-1].end,
        sum(part.count for part in parts),
        tuple(pieces[run] for run in sorted(pieces)),
    )
