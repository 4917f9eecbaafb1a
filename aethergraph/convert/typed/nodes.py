"""Nodes of one type: a pass over their table that makes ids of keys, and files of values."""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.convert.outputs import NpyWriter
from aethergraph.convert.readers.base import InputError, ProgressFn
from aethergraph.convert.typed.columns import ColumnReader
from aethergraph.convert.typed.features import ColumnParts, ColumnScan, column_of
from aethergraph.convert.typed.problems import Problems
from aethergraph.convert.typed.schema import EdgeSpec, NodeTable
from aethergraph.convert.typed.sources import Batch, Table
from aethergraph.ids.builder import DuplicateKeyError, IdMapBuilder
from aethergraph.ids.columns import KeyColumns

__all__ = ["NodeFiles", "scan_nodes"]

_FILL_ROWS = 1 << 16
_NAMES_SHARE = 4  # part of the memory that names of categories may take


class NodeFiles:
    """Work files of the nodes of one type.

    Args:
        prefix: path that the names of the files begin with.
        state: what :func:`scan_nodes` has returned.
    """

    def __init__(self, prefix: str, state: Mapping[str, Any]) -> None:
        self._prefix = prefix
        self.num_nodes = int(state["num_nodes"])
        #: Rows of the table by file, and names of the arrays.
        self.file_rows: list[int] = list(state["file_rows"])
        self.arrays: dict[str, str] = dict(state["arrays"])
        #: Work files of the columns that are kept as they are, if there are any.
        self.columns = ColumnParts(prefix) if state.get("columns") else None
        self._first_rows = np.concatenate([[0], np.cumsum(self.file_rows, dtype=np.int64)])

    @property
    def ids_path(self) -> str:
        """Path of the map of ids."""
        return f"{self._prefix}ids"

    def first_row(self, file: int) -> int:
        """Return the id of the first row of a file."""
        return int(self._first_rows[file])

    def time(self) -> NDArray[Any] | None:
        """Return the times, mapped, or None."""
        path = f"{self._prefix}time.npy"
        return np.load(path, mmap_mode="r") if os.path.exists(path) else None

    def array(self, name: str) -> NDArray[Any]:
        """Return an array, mapped."""
        array: NDArray[Any] = np.load(f"{self._prefix}{self.arrays[name]}", mmap_mode="r")
        return array


def scan_nodes(
    name: str,
    spec: NodeTable,
    table: Table | None,
    keeps: list[tuple[EdgeSpec, tuple[str, ...], Table]],
    keys: KeyColumns | None,
    prefix: str,
    unit: str | None,
    memory: int,
    show: ProgressFn,
    problems: Problems,
) -> dict[str, Any]:
    """Read the nodes of a type; return their state for :class:`NodeFiles`.

    Args:
        name: the node type.
        spec: its part of the schema.
        table: its table, or None.
        keeps: edges whose keys become nodes, the columns of these keys, and their tables.
        keys: type of the keys; None: nothing refers to them.
        prefix: path that the names of work files begin with.
        unit: unit of all times.
        memory: bytes for buffers.
        show: called with (rows done, rows in all).
        problems: what is told of rows that are wrong.
    """
    with ExitStack() as stack:
        builder = None
        names = memory // _NAMES_SHARE if spec.columns else 0
        if keys is not None:
            builder = IdMapBuilder(
                f"{prefix}ids", keys.types, memory - names, f"{prefix}keys", of_graph=True
            )
            stack.enter_context(builder)
        scan = _Scan(spec, prefix, stack, names, problems)
        if table is not None:
            scan.read(table, builder, unit, show)
        rows = scan.num_rows
        for edge, columns, edge_table in keeps:
            assert builder is not None
            _add_keys(builder, edge_table, columns, edge, problems)
        count = rows
        if builder is not None:
            try:
                count = builder.finish()
            except DuplicateKeyError as error:
                raise scan.duplicate(error) from None
        if not problems.collects:  # else columns lack the rows that are wrong
            scan.finish(count)
        if table is None and count == 0:
            raise InputError(keeps[0][2].files[0], f"names no node of type {name!r}")
    return {
        "num_nodes": count, "file_rows": scan.file_rows, "arrays": scan.arrays,
        "columns": scan.has_columns, "empty": scan.empty,
    }  # fmt: skip


class _Scan:
    """One pass over the table of a node type."""

    def __init__(
        self, spec: NodeTable, prefix: str, stack: ExitStack, names: int, problems: Problems
    ) -> None:
        self._problems = problems
        self.num_rows = 0
        self.file_rows: list[int] = []
        self.arrays: dict[str, str] = {}
        self._spec = spec
        self._prefix = prefix
        self._stack = stack
        self._names = names
        #: Columns that "all" left out, as all their values are null.
        self.empty: list[str] = []
        self._files: list[str] = []
        self._columns: ColumnScan | None = None
        self._writers: dict[str, NpyWriter] = {}

    def _append(self, file: str, rows: NDArray[Any]) -> None:
        writer = self._writers.get(file)
        if writer is None:
            writer = NpyWriter(f"{self._prefix}{file}", rows.dtype, rows.shape[1:])
            self._writers[file] = self._stack.enter_context(writer)
        writer.append(rows)

    def read(
        self, table: Table, builder: IdMapBuilder | None, unit: str | None, show: ProgressFn
    ) -> None:
        """Read all rows: keys into ``builder``, values into files."""
        spec, reader = self._spec, ColumnReader(table)
        key, labels = list(spec.key), list(spec.label)
        named = [*([spec.time] if spec.time else []), *spec.features, *labels]
        chosen = spec.chosen_columns([*table.types])
        if spec.columns == "all":
            self.empty = [column for column in chosen if table.is_null(column)]
        kept = [
            column_of(reader, column, kind, table.name)
            for column, kind in chosen.items()
            if column not in self.empty
        ]
        if kept:
            self._columns = ColumnScan(reader, kept, self._append, self._names)
            named += [column.name for column in kept]
        kinds = {label: _label_type(reader, label) for label in labels}
        self._files = table.files
        self.file_rows = [0] * len(table.files)
        columns = list(dict.fromkeys([*(key if builder else []), *named]))
        steps = self._steps(reader, builder, unit, kinds)
        total = table.num_rows
        # Without any column a Parquet reader has no rows: one is enough to count them.
        for batch in table.batches(columns or [next(iter(table.types))]):
            for step in steps:
                self._problems.read(table.name, batch, step)
            self.file_rows[batch.file] += batch.rows.num_rows
            self.num_rows += batch.rows.num_rows
            show(self.num_rows, max(total, self.num_rows))
        if not self.num_rows:
            raise InputError(table.files[0], "holds no rows")
        if spec.features:
            self.arrays["x"] = "x.npy"
        for number, label in enumerate(labels):
            self.arrays["y" if len(labels) == 1 else label] = f"label-{number}.npy"

    def _steps(
        self,
        reader: ColumnReader,
        builder: IdMapBuilder | None,
        unit: str | None,
        label_types: Mapping[str, str],
    ) -> list[Callable[[Batch], Any]]:
        """Return what is done with the rows of a batch, one after the other."""
        spec = self._spec
        key = list(spec.key)

        def add_keys(batch: Batch) -> None:
            assert builder is not None
            block, known, impossible = reader.keys(batch, key, builder.columns)
            if not known.all():
                raise batch.bad("the primary key is missing (null)", ~known, key[0])
            if impossible is not None:
                problem = f"does not fit in a key of type {builder.columns}"
                raise batch.bad(problem, impossible, key[0])
            try:
                builder.add_block(block)
            except DuplicateKeyError as error:
                self.file_rows[batch.file] += batch.rows.num_rows
                raise self.duplicate(error) from None

        def add_times(batch: Batch) -> None:
            assert spec.time is not None
            times = reader.times(batch, spec.time, unit)
            self._append("time.npy", times.view(np.int64) if times.dtype.kind == "M" else times)

        def add_features(batch: Batch) -> None:
            features = [reader.feature(batch, column, spec.fill) for column in spec.features]
            self._append("x.npy", np.stack(features, axis=1))

        def add_label(number: int, column: str, batch: Batch) -> None:
            kind = label_types[column]
            missing = -1 if kind == "int64" else np.nan
            values = reader.numbers(batch, column, kind, "label", missing)
            self._append(f"label-{number}.npy", values)

        steps: list[Callable[[Batch], Any]] = []
        if builder is not None:
            steps.append(add_keys)
        if spec.time:
            steps.append(add_times)
        if spec.features and not self._problems.collects:
            steps.append(add_features)
        elif spec.features:  # each by itself: a row may have a problem in several
            steps += [
                partial(reader.feature, column=column, fill=spec.fill) for column in spec.features
            ]
        if self._columns is not None:
            steps.append(self._columns.add)
        return steps + [partial(add_label, n, label) for n, label in enumerate(spec.label)]

    @property
    def has_columns(self) -> bool:
        """True if columns are kept as they are."""
        return self._columns is not None

    def finish(self, count: int) -> None:
        """Give rows to nodes that were kept, and close the files."""
        left = count - self.num_rows
        if "x.npy" in self._writers:
            while left:
                some = min(left, _FILL_ROWS)
                shape = (some, len(self._spec.features))
                fill = 0 if self._spec.fill is None else self._spec.fill
                self._append("x.npy", np.full(shape, fill, np.float32))
                left -= some
        if self._columns is not None:
            self._columns.fill(count - self.num_rows)
            self._columns.save(f"{self._prefix}columns.json")
        for writer in self._writers.values():
            writer.commit()

    def duplicate(self, error: DuplicateKeyError) -> InputError:
        """Return the error about a key that came twice, with both places."""
        (first, first_row), (second, second_row) = (
            self._place(error.first),
            self._place(error.second),
        )
        also = f"row {first_row + 1}" if first == second else f"{first}, row {first_row + 1}"
        key = ", ".join(self._spec.key)
        return InputError(
            second, f"the key {error.key} ({key}) comes twice; the first is in {also}",
            line=second_row + 1, unit="row",
        )  # fmt: skip

    def _place(self, row: int) -> tuple[str, int]:
        ends = np.cumsum(self.file_rows).tolist()
        file = bisect.bisect_right(ends, row)
        return self._files[file], row - (ends[file - 1] if file else 0)


def _label_type(reader: ColumnReader, column: str) -> str:
    return "int64" if reader.number_type(column, "label") == "int64" else "float32"


def _add_keys(
    builder: IdMapBuilder,
    table: Table,
    columns: tuple[str, ...],
    edge: EdgeSpec,
    problems: Problems,
) -> None:
    """Add the keys of the ends of edges that become nodes where they are new."""
    reader = ColumnReader(table)
    other_columns = [c for _, end in edge.ends() if end != columns for c in end]

    def add(batch: Batch) -> None:
        block, known, impossible = reader.keys(batch, columns, builder.columns)
        if impossible is not None:
            wrong = np.zeros(len(known), np.bool_)
            wrong[np.flatnonzero(known)[impossible]] = True
            raise batch.bad(f"does not fit in a key of type {builder.columns}", wrong, columns[0])
        if other_columns:  # an end of an edge that is left out for the null at its other end
            complete = np.ones(len(known), np.bool_)
            for column in other_columns:
                complete &= batch.rows.column(column).is_valid().to_numpy(zero_copy_only=False)
            kept = np.flatnonzero(complete[known])
            block = block.take(kept.astype(np.uint64))
        builder.add_block(block, unique=False)

    for batch in table.batches(list(dict.fromkeys([*columns, *other_columns]))):
        problems.read(table.name, batch, add)
