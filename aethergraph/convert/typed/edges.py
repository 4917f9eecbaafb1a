"""Edges of one type: rows of a table whose keys become ids, as a source for a bounded build."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aethergraph.convert.outputs import storage_error
from aethergraph.convert.readers.base import InputError, ProgressFn
from aethergraph.convert.readers.edges import EdgeChunk, Position
from aethergraph.convert.typed.columns import ColumnReader
from aethergraph.convert.typed.nodes import NodeFiles
from aethergraph.convert.typed.schema import EdgeSpec
from aethergraph.convert.typed.sources import Batch, Table
from aethergraph.graph.typed_edges import EdgeType
from aethergraph.ids import IdMap

__all__ = ["Dropped", "EdgeColumns", "EdgeValues", "TableEdges", "read_weights"]

Ids = NDArray[np.int64]


@dataclass
class Dropped:
    """Count of edges that were left out, and the first of them.

    Attributes:
        null: edges without a key at one end.
        missing: edges with a key that the other table does not have.
        first: file, row and key of the first of these; "" if there are none.
    """

    null: int = 0
    missing: int = 0
    first: str = ""


class EdgeValues(Protocol):
    """Values of edges, read from rows of a table."""

    def read(
        self, batch: Batch, kept: NDArray[np.bool_]
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        """Return weights, times and attributes of the rows that are kept."""
        ...


class EdgeColumns:
    """Values of an edge type and their dtypes, before any row is read."""

    def __init__(self, spec: EdgeSpec, table: Table, unit: str | None) -> None:
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
        self.attrs = {one: reader.number_type(one, "edge attribute") for one in spec.attrs}

    def read(
        self, batch: Batch, kept: NDArray[np.bool_]
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        """Return weights, times and attributes of the rows that are kept."""
        reader, spec = self._reader, self._spec
        weight = time = None
        if spec.weight is not None and self.weight is not None:
            weight = read_weights(reader, batch, spec.weight, self.weight)[kept]
        if spec.time is not None:
            time = reader.times(batch, spec.time, self._unit)[kept]
        attrs = {
            one: reader.numbers(batch, one, dtype, "edge attribute")[kept]
            for one, dtype in self.attrs.items()
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
        raise batch.bad(f"the weight {weight[row]} is not finite and >= 0", row, column)
    return weight


class TableEdges:
    """Edges of a type, or their reverse, as ids: a source for :class:`BoundedBuild`.

    Args:
        spec: the edge type.
        reverse: swap the ends.
        table: its table.
        nodes: work files of the node types.
        ids: maps of ids of the node types that keys refer to.
        unit: unit of all times.
        notes: file that remembers what was left out, for a build that goes on later.
        show: called with (rows read, rows in all).
        values: values of the edges; None: as ``spec`` names them.
    """

    num_nodes = 0

    def __init__(
        self,
        spec: EdgeSpec,
        reverse: bool,
        table: Table,
        nodes: Mapping[str, NodeFiles],
        ids: Mapping[str, IdMap],
        unit: str | None,
        notes: str,
        show: ProgressFn,
        values: EdgeValues | None = None,
    ) -> None:
        self._spec = spec
        self._reverse = reverse
        self._table = table
        self._nodes = nodes
        self._ids = ids
        self._reader = ColumnReader(table)
        self._notes = notes
        self._show = show
        self._values = values or EdgeColumns(spec, table, unit)
        self.kind: EdgeType = spec.kind
        if reverse:
            self.kind = (spec.kind[2], f"rev_{spec.kind[1]}", spec.kind[0])
        self._source_time = None if spec.time is not None else nodes[self.kind[0]].time()

    @property
    def sorts_by_node(self) -> bool:
        """True if chunks carry the times of their source nodes, only to sort by."""
        return self._source_time is not None

    @property
    def num_lists(self) -> int:
        """Largest number of nodes of both ends."""
        return max(self._nodes[self.kind[0]].num_nodes, self._nodes[self.kind[2]].num_nodes)

    def chunks(self, start: Position) -> Iterator[tuple[Position, EdgeChunk]]:
        """Yield the edges after ``start``, and the position where each chunk ends."""
        done, total = 0, self._table.num_rows
        fresh = tuple(start) == (0, 0)
        for batch in self._table.batches(self._spec.columns, (start[0], start[1])):
            done += batch.rows.num_rows
            self._show(done, max(total, done))
            yield (batch.file, batch.number + 1), self._chunk(batch)
        if fresh and not done:
            raise InputError(self._table.files[0], "holds no rows")

    def _chunk(self, batch: Batch) -> EdgeChunk:
        rows = batch.rows.num_rows
        kept = np.ones(rows, np.bool_)
        dropped = Dropped()
        ends = []
        if not self._spec.source_key:
            first = self._nodes[self._spec.kind[0]].first_row(batch.file) + batch.first_row
            ends.append(np.arange(first, first + rows))
        for name, columns in self._spec.ends():
            ends.append(self._end(batch, name, columns, kept, dropped))
        if dropped.null or dropped.missing:
            self._remember(batch, dropped)
        src, dst = (end[kept] for end in ends)
        if self._reverse:
            src, dst = dst, src
        weight, time, attrs = self._values.read(batch, kept)
        if self._source_time is not None:
            time = np.ascontiguousarray(self._source_time[src])
        return EdgeChunk(src, dst, weight, time, attrs)

    def _end(
        self, batch: Batch, name: str, columns: tuple[str, ...], kept: NDArray[np.bool_],
        dropped: Dropped,
    ) -> Ids:  # fmt: skip
        """Return the ids of one end; clear in ``kept`` the rows that have none."""
        ids, spec = self._ids[name], self._spec
        block, known, impossible = self._reader.keys(batch, columns, ids.columns)
        if not known.all():
            if spec.null == "error":
                raise batch.bad(
                    f"the key of a {name!r} is missing (null)", int(known.argmin()), columns[0]
                )
            dropped.null += int((kept & ~known).sum())
            kept &= known
        found = ids.find(block)
        if impossible is not None:
            found[impossible] = -1
        out = np.full(len(known), -1, np.int64)
        out[known] = found
        lost = kept & known & (out < 0)
        if lost.any():
            row = int(lost.argmax())
            key = ids.columns.show(block, int(known[:row].sum()))
            problem = f"there is no {name!r} with the key {key}"
            if spec.missing == "error":
                raise batch.bad(
                    f'{problem}; missing = "drop" leaves such edges out, "keep" makes nodes of '
                    "such keys",
                    row,
                    columns[0],
                )
            dropped.missing += int(lost.sum())
            dropped.first = dropped.first or str(batch.bad(problem, row, columns[0]))
            kept &= ~lost
        return out

    # ---- what was left out ------------------------------------------------------------------

    def _remember(self, batch: Batch, dropped: Dropped) -> None:
        place = [batch.file, batch.number]
        line = json.dumps([place, dropped.null, dropped.missing, dropped.first])
        try:
            with open(self._notes, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise storage_error(error, self._notes) from None

    def dropped(self) -> Dropped:
        """Return what was left out, also by an interrupted build that this one went on from."""
        found: dict[tuple[int, int], Any] = {}
        if os.path.exists(self._notes):
            with open(self._notes, encoding="utf-8") as file:
                for line in file:
                    try:
                        place, null, missing, first = json.loads(line)
                    except ValueError:  # the line that a kill has cut
                        continue
                    found[tuple(place)] = Dropped(null, missing, first)
        parts = [found[place] for place in sorted(found)]
        first = next((part.first for part in parts if part.first), "")
        return Dropped(sum(p.null for p in parts), sum(p.missing for p in parts), first)
