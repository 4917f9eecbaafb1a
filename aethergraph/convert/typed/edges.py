"""Edges of one type: joined rows of a table and their values, as a source for a bounded build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aethergraph.convert.readers.base import ProgressFn
from aethergraph.convert.readers.edges import EdgeChunk, Position
from aethergraph.convert.typed.columns import ColumnReader
from aethergraph.convert.typed.joins import JoinedEnds, SortedReads, pieces
from aethergraph.convert.typed.nodes import NodeFiles
from aethergraph.convert.typed.schema import EdgeSpec
from aethergraph.convert.typed.sources import Batch, Table
from aethergraph.graph.typed_edges import EdgeType

__all__ = ["EdgeColumns", "EdgeValues", "TableEdges", "read_weights"]

Ids = NDArray[np.int64]
_ROWS = 1 << 17  # rows of a chunk without values
_WINDOW_SHARE, _TIME_BYTES = 8, 32  # part of the memory for times, and bytes per row


class EdgeValues(Protocol):
    """Values of edges, read from rows of a table."""

    def read(
        self, batch: Batch, kept: NDArray[np.bool_]
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        """Return weights, times and attributes of the rows that are kept."""
        ...


class EdgeColumns:
    """Values of an edge type and their dtypes, before any row is read.

    Args:
        spec: the edge type.
        table: its table.
        unit: unit of all times.
        node_times: dtypes of the times of nodes that count for the time of an edge.
    """

    def __init__(
        self, spec: EdgeSpec, table: Table, unit: str | None, node_times: Sequence[str] = ()
    ) -> None:
        self._reader = reader = ColumnReader(table)
        self._spec = spec
        self._unit = unit
        self.weight: str | None = None
        if spec.weight is not None:
            kind = reader.number_type(spec.weight, "weight")
            self.weight = "float64" if kind == "float64" else "float32"
        self.time: str | None = None
        if spec.time is not None:
            self.time = "float64" if reader.time_form(spec.time).is_float else "int64"
        if node_times:
            known = [*node_times, *([] if self.time is None else [self.time])]
            self.time = "float64" if "float64" in known else "int64"
        self.attrs = {name: reader.number_type(name, "edge attribute") for name in spec.attrs}

    def read(
        self, batch: Batch, kept: NDArray[np.bool_]
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        """Return weights, times and attributes of the rows that are kept."""
        reader, spec = self._reader, self._spec
        weight = time = None
        if not kept.all():  # a row without an edge needs no values
            batch = batch.only(kept)
        if spec.weight is not None and self.weight is not None:
            weight = read_weights(reader, batch, spec.weight, self.weight)
        if spec.time is not None:
            time = reader.times(batch, spec.time, self._unit)
        attrs = {
            name: reader.numbers(batch, name, dtype, "edge attribute")
            for name, dtype in self.attrs.items()
        }
        return weight, time, attrs


def read_weights(
    reader: ColumnReader, batch: Batch, column: str, dtype: str
) -> NDArray[Any]:  # fmt: skip
    """Return the weights of some rows.

    Raises:
        InputError: a weight is missing, negative or not finite.
    """
    weight = reader.numbers(batch, column, dtype, "weight")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise batch.bad(f"the weight {weight[row]} is not finite and >= 0", wrong, column)
    return weight


class TableEdges:
    """Edges of a type, or their reverse, as ids: a source for :class:`BoundedBuild`.

    Args:
        spec: the edge type.
        reverse: swap the ends.
        table: its table.
        nodes: work files of the node types.
        ends: ids of the ends that keys gave.
        unit: unit of all times.
        memory: bytes that times of nodes may take, which edges are sorted by.
        show: called with (rows read, rows in all).
        values: values of the edges; None: as ``spec`` names them.
        joins_times: the time of an edge is the latest of its own and of those of both its nodes.
    """

    num_nodes = 0

    def __init__(
        self,
        spec: EdgeSpec,
        reverse: bool,
        table: Table,
        nodes: Mapping[str, NodeFiles],
        ends: JoinedEnds,
        unit: str | None,
        memory: int,
        show: ProgressFn,
        values: EdgeValues | None = None,
        joins_times: bool = False,
    ) -> None:
        self._spec = spec
        self._reverse = reverse
        self._table = table
        self._joined = ends
        self._show = show
        self._values = values or EdgeColumns(spec, table, unit)
        self.kind: EdgeType = spec.kind
        if reverse:
            self.kind = (spec.kind[2], f"rev_{spec.kind[1]}", spec.kind[0])
        self._joins_times = joins_times
        both = [0, 2] if joins_times else [2 if reverse else 0]
        if spec.time is not None and not joins_times:
            both = []
        times = {end: nodes[spec.kind[end]].time() for end in both}
        #: Times of nodes by end of the edge, 0 the source and 2 the destination.
        self._times = {end: SortedReads(t, memory) for end, t in times.items() if t is not None}
        self._window_rows = max(_ROWS, memory // (_WINDOW_SHARE * _TIME_BYTES))
        self._windows: dict[int, tuple[int, NDArray[Any]]] = {}

    @property
    def sorts_by_node(self) -> bool:
        """True if chunks carry the times of their source nodes, only to sort by."""
        return bool(self._times) and not self._joins_times

    @property
    def window_bytes(self) -> int:
        """Bytes that times of nodes take, when they are read for many rows together."""
        waiting = sum(times.waits for times in self._times.values())
        return self._window_rows * _TIME_BYTES * waiting

    def chunks(self, start: Position) -> Iterator[tuple[Position, EdgeChunk]]:
        """Yield the edges after ``start``, and the position where each chunk ends."""
        self._joined.verify()
        total = self._joined.num_rows
        columns = self._spec.value_columns
        if not columns:
            for first, ends in pieces(self._joined, start[1] * _ROWS, _ROWS):
                rows = len(ends[0])
                self._show(first + rows, total)
                yield (0, first // _ROWS + 1), self._chunk(first, ends, None)
            return
        for batch in self._table.batches(columns, (start[0], start[1])):
            first = self._joined.first_row(batch.file) + batch.first_row
            rows = batch.rows.num_rows
            self._show(first + rows, total)
            ends = self._joined.read(first, first + rows)
            yield (batch.file, batch.number + 1), self._chunk(first, ends, batch)

    def _chunk(self, first: int, ends: list[Ids], batch: Batch | None) -> EdgeChunk:
        """Return the edges of rows from ``first`` on; ``batch`` has their values."""
        kept = ends[-1] >= 0
        rows = len(kept)
        if not self._spec.source_key:
            ends = [np.arange(first, first + rows), *ends]
        src, dst = (end[kept] for end in ends)
        by_end = {0: src, 2: dst}
        if self._reverse:
            src, dst = dst, src
        weight = time = None
        attrs: dict[str, NDArray[Any]] = {}
        if batch is not None:
            weight, time, attrs = self._values.read(batch, kept)
        for end in self._times:
            node_times = self._node_times(end, first, by_end[end], kept)
            if time is None:
                time = node_times
                continue
            # A float64 of one kind of times makes floats of both.
            plain = time.view(np.int64) if time.dtype.kind == "M" else time
            latest: NDArray[Any] = np.maximum(plain, node_times)
            time = latest.view(time.dtype) if time.dtype.kind == "M" else latest
        return EdgeChunk(src, dst, weight, time, attrs)

    def _node_times(
        self, end: int, first: int, ids: Ids, kept: NDArray[np.bool_]
    ) -> NDArray[Any]:  # fmt: skip
        """Return the times of the nodes at one end; those of many rows are read together."""
        times = self._times[end]
        if not times.waits or (end == 0 and not self._spec.source_key):
            return times.take(ids)
        begin, window = self._windows.get(end, (0, np.empty(0)))
        if not begin <= first <= first + len(kept) <= begin + len(window):
            last = min(first + self._window_rows, self._joined.num_rows)
            number = 0 if end == 0 else -1
            window = times.take(np.maximum(self._joined.read(first, last)[number], 0))
            begin = first
            self._windows[end] = (begin, window)
        return window[first - begin : first - begin + len(kept)][kept]
