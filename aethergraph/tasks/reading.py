"""Reading of training tables: keys -> ids of nodes, times in the unit of a graph, labels."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import as_choice, shown
from aethergraph.convert.readers.base import InputError
from aethergraph.convert.typed.columns import ColumnReader, TimeForm
from aethergraph.convert.typed.sources import Batch, Table, needs_spool, open_table, spool
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.schema import as_typed
from aethergraph.protocols import AnyGraph

__all__ = [
    "End", "Known", "NamedTable", "Rows", "Source", "Unknown", "as_columns",
    "read_rows",
]  # fmt: skip

Ids = NDArray[np.int64]
#: Graphs that tasks are over: loaded, live, or snapshots of these.
#: What a column of entities holds: keys of their table, or ids of nodes.
Known = Literal["key", "id"]
#: What becomes of rows whose entity the graph does not have.
Unknown = Literal["error", "drop"]
_SAMPLED_TIMES = 100_000


def as_columns(value: Any, name: str) -> tuple[str, ...]:
    """Return a column, or several, as names.

    Raises:
        InvalidArgumentError: something else, or none.
    """
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not names or not all(isinstance(c, str) for c in names):
        raise InvalidArgumentError(f"{name} is a column, or a list of columns, got {shown(value)}")
    return tuple(names)


@dataclass(frozen=True)
class End:
    """Entities of a table: their node type, and the columns of their key.

    Attributes:
        name: node type; None: the only one of a graph of one type.
        columns: columns of the key.
        is_list: a row may hold a list of keys, each of which is a seed of its own.
    """

    name: str | None
    columns: tuple[str, ...]
    is_list: bool = False


@dataclass(frozen=True)
class NamedTable:
    """Table, and what messages call it."""

    source: Any
    name: str = "the training table"


@dataclass(frozen=True)
class Source:
    """Columns of a training table, and how they are read."""

    ends: tuple[End, ...]
    time: str | None
    labels: tuple[str, ...]
    known: Known
    unknown: Unknown

    def __post_init__(self) -> None:
        as_choice(self.known, ("key", "id"), "entity_is")
        as_choice(self.unknown, ("error", "drop"), "unknown")
        if self.time is not None and not isinstance(self.time, str):
            raise InvalidArgumentError(f"time_col is a column, got {shown(self.time)}")

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        named = [*(c for end in self.ends for c in end.columns), self.time, *self.labels]
        return list(dict.fromkeys(column for column in named if column is not None))


@dataclass
class Rows:
    """Seeds of a table: ids of nodes by end, and what else is known of them."""

    ids: list[Ids]
    rows: Ids
    time: NDArray[Any] | None
    labels: NDArray[Any] | None
    num_dropped: int = 0
    first_dropped: str = ""


def read_rows(graph: AnyGraph, table: Any, source: Source) -> Rows:
    """Read all rows of a training table.

    Raises:
        InputError: a column is missing or of another type, a key is missing or unknown, a time
            cannot be given in the unit of the graph; names file and row.
    """
    named_table = table if isinstance(table, NamedTable) else NamedTable(table)
    if not needs_spool(named_table.source):
        return _Reading(
            graph, open_table(named_table.source, named_table.name, None), source
        ).read()
    with tempfile.TemporaryDirectory(prefix="aethergraph-") as folder:
        spooled = os.path.join(folder, "table.parquet")
        spool(named_table.source, named_table.name, None, spooled, source.columns)
        table = open_table(named_table.source, named_table.name, None, spooled)
        return _Reading(graph, table, source).read()


class _Reading:
    """One pass over a table."""

    def __init__(self, graph: AnyGraph, table: Table, source: Source) -> None:
        table.check_columns(source.columns, "the task")
        self._table, self._source = table, source
        self._reader = reader = ColumnReader(table)
        self._counts = [_count(graph, end) for end in source.ends]
        self._maps = [
            _map(graph, end.name) if source.known == "key" else None for end in source.ends
        ]
        self._unit = graph.time_unit
        if source.time is not None:
            form = reader.time_form(source.time)
            if form.unit is not None and self._unit is None:
                raise InvalidArgumentError(
                    f"{form.where} holds times in {form.unit!r}, but the times of the graph have "
                    "no unit: give numbers, or build the graph with timestamps"
                )
            _check_zone(form, graph)
        self._first_time = None
        if source.time is not None and form.unit is None and self._unit is not None:
            self._first_time = _first_time(graph)
        self._kinds = [
            "int64" if reader.number_type(column, "label") == "int64" else "float32"
            for column in source.labels
        ]
        self._dropped, self._first = 0, ""

    def read(self) -> Rows:
        """Return the seeds of all rows."""
        ids: list[list[Ids]] = [[np.empty(0, np.int64)] for _ in self._source.ends]
        rows, times, labels = [np.empty(0, np.int64)], [], []
        first = 0
        for batch in self._table.batches(self._source.columns):
            count = batch.rows.num_rows
            seeds, places, kept = self._seeds(batch)
            for parts, some in zip(ids, seeds, strict=True):
                parts.append(some[kept])
            rows.append(first + places[kept])
            if self._source.time is not None:
                times.append(self._times(batch)[places[kept]])
            if self._kinds:
                labels.append(self._labels(batch)[places[kept]])
            first += count
        if not first:
            raise InputError(self._table.files[0], "holds no rows")
        if times and self._first_time is not None:
            self._check_numbers(max((int(part.max()) for part in times if len(part)), default=None))
        return Rows(
            [np.concatenate(parts) for parts in ids], np.concatenate(rows),
            np.concatenate(times) if times else None, np.concatenate(labels) if labels else None,
            self._dropped, self._first,
        )  # fmt: skip

    def _seeds(self, batch: Batch) -> tuple[list[Ids], Ids, NDArray[np.bool_]]:
        """Return ids by end, the row in the batch of each seed, and the mask of known seeds."""
        places = np.arange(batch.rows.num_rows)
        if any(end.is_list for end in self._source.ends):
            batch, places = _flat(batch, [c for e in self._source.ends for c in e.columns])
        kept = np.ones(len(places), np.bool_)
        seeds = []
        for number, end in enumerate(self._source.ends):
            look = self._by_id if self._maps[number] is None else self._by_key
            seeds.append(look(batch, number, end, kept))
        return seeds, places, kept

    def _by_key(self, batch: Batch, number: int, end: End, kept: NDArray[np.bool_]) -> Ids:
        ids = self._maps[number]
        assert ids is not None
        block, known, impossible = self._reader.keys(batch, end.columns, ids.columns)
        if not known.all():
            raise batch.bad("the key is missing (null)", int(known.argmin()), end.columns[0])
        seeds: Ids = ids.find(block)
        if impossible is not None:
            seeds[impossible] = -1
        lost = kept & (seeds < 0)
        if lost.any():
            row = int(lost.argmax())
            noun = "node" if end.name is None else repr(end.name)
            key = ids.columns.show(block, row, impossible is None or not impossible[row])
            self._lose(batch, lost, f"there is no {noun} with the key {key}", end)
            kept &= ~lost
        return seeds

    def _by_id(self, batch: Batch, number: int, end: End, kept: NDArray[np.bool_]) -> Ids:
        column = end.columns[0]
        if len(batch.rows) and str(batch.rows.column(column).type) == "bool":
            raise batch.bad("a boolean is no id of a node", 0, column)
        seeds = self._reader.numbers(batch, column, "int64", "id of a node")
        count = self._counts[number]
        lost = kept & ((seeds < 0) | (seeds >= count))
        if lost.any():
            value = seeds[int(lost.argmax())]
            self._lose(batch, lost, f"the node {value} is not in 0..{count - 1}", end)
            kept &= ~lost
        return np.asarray(seeds, np.int64)

    def _lose(self, batch: Batch, lost: NDArray[np.bool_], problem: str, end: End) -> None:
        advice = "" if self._source.unknown == "drop" else '; unknown="drop" leaves such rows out'
        error = batch.bad(problem + advice, int(lost.argmax()), end.columns[0])
        if self._source.unknown == "error":
            raise error
        self._dropped += int(lost.sum())
        self._first = self._first or str(error)

    def _times(self, batch: Batch) -> NDArray[Any]:
        assert self._source.time is not None
        form = self._reader.time_form(self._source.time)
        unit = None if form.is_float else self._unit
        times = self._reader.times(batch, self._source.time, unit)
        return times.view(np.int64) if times.dtype.kind == "M" else times

    def _check_numbers(self, last: int | None) -> None:
        """Refuse numbers of which none is as late as the graph begins: they count another unit."""
        if last is not None and self._first_time is not None and last < self._first_time:
            where, unit = self._reader.where(str(self._source.time)), self._unit
            latest, first = np.array([last, self._first_time]).view(f"datetime64[{unit}]")
            raise InvalidArgumentError(
                f"{where} holds numbers, the latest {last}, which are counts of {unit!r} since "
                f"1970-01-01, the unit of the graph: {latest}. The graph has nothing before "
                f"{first}, so no seed would see anything: give timestamps, or numbers in that unit"
            )

    def _labels(self, batch: Batch) -> NDArray[Any]:
        labels = [
            self._reader.numbers(batch, column, kind, "label", -1 if kind == "int64" else np.nan)
            for column, kind in zip(self._source.labels, self._kinds, strict=True)
        ]
        return labels[0] if len(labels) == 1 else np.stack(labels, axis=1)


def _check_zone(form: TimeForm, graph: AnyGraph) -> None:
    """Refuse times of which it is not known what time they are in the graph.

    Raises:
        InvalidArgumentError: only one of both has a time zone.
    """
    if form.unit is None or form.unit == "D" or graph.time_unit is None:
        return
    if form.zone is not None and graph.time_zone is None:
        raise InvalidArgumentError(
            f"{form.where} has the time zone {form.zone}, but the times of the graph have none: "
            "give the times of the task without one, in the zone that the graph's times are in "
            "(pandas: .dt.tz_convert(ZONE).dt.tz_localize(None))"
        )
    if form.zone is None and graph.time_zone is not None:
        raise InvalidArgumentError(
            f"{form.where} has no time zone, but the times of the graph have: give the times of "
            "the task with one (pandas: .dt.tz_localize(ZONE))"
        )


def _first_time(graph: AnyGraph) -> int | None:
    """Return about the earliest time of a graph: of many times some are looked at."""
    typed = as_typed(graph)
    values = [typed[name].node_values for name in typed.node_types]
    values += [typed[kind].edge_values for kind in typed.edge_types]
    times = [v[name] for v in values for name in ("node_time", "edge_time") if name in v]
    firsts = []
    for rows in times:
        count = rows.num_rows
        some = rows.gather(np.arange(0, count, max(1, count // _SAMPLED_TIMES)))
        firsts += [int(some.min())] if count else []
    return min(firsts, default=None)


def _count(graph: AnyGraph, end: End) -> int:
    if not graph.is_typed:
        if end.name is not None:
            raise InvalidArgumentError(
                f"entity_table = {shown(end.name)}: the graph has nodes of one type: leave it out"
            )
        return graph.num_nodes
    if end.name is None or end.name not in graph.node_types:
        known = ", ".join(map(repr, graph.node_types))
        raise InvalidArgumentError(
            f"entity_table = {shown(end.name)} is no node type of the graph; there are: {known}"
        )
    return int(graph[end.name].num_nodes)


def _map(graph: Any, name: str | None) -> Any:
    """Return the ids by key of a node type: an ``IdMap``, or those of a live graph."""
    try:
        return graph.ids if name is None else graph.ids[name]
    except UnsupportedError as error:
        raise InvalidArgumentError(f"{error}; or name nodes by ids: entity_is='id'") from None
    except AttributeError:
        message = "the nodes of the graph have no keys: give ids, entity_is='id'"
        raise InvalidArgumentError(message) from None


def _flat(batch: Batch, columns: Sequence[str]) -> tuple[Batch, Ids]:
    """Return a batch with a row for each item of its lists, and the row that each was in."""
    import pyarrow as pa
    import pyarrow.types as pat

    lists = {c: batch.rows.column(c) for c in columns if pat.is_list(batch.rows.column(c).type)
             or pat.is_large_list(batch.rows.column(c).type)}  # fmt: skip
    places = np.arange(batch.rows.num_rows)
    if not lists:
        return batch, places
    sizes: NDArray[np.int64] | None = None
    for name, column in lists.items():
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        if sizes is not None and not np.array_equal(lengths, sizes):
            row = int((lengths != sizes).argmax())
            raise batch.bad("the lists of a row differ in length", row, name)
        sizes = lengths
    assert sizes is not None
    places = np.repeat(places, sizes)
    index = pa.array(places)
    arrays = [
        lists[name].flatten() if name in lists else batch.rows.column(name).take(index)
        for name in columns
    ]
    rows = pa.record_batch(arrays, names=list(columns))
    return replace(batch, rows=rows, places=places), places
