"""Reading of edge lists from files into numpy arrays.

:func:`read_edges` holds all edges of files; :class:`EdgeReader` yields them in chunks, for builders
that must not hold all of them::

    table = read_edges("edges.csv", weight="w")
    graph = Graph.from_edges(table.num_nodes, table.src, table.dst, edge_weight=table.weight)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from aethergraph.convert.arguments import as_reading, as_threads
from aethergraph.convert.formats.graphzero import GlTable
from aethergraph.convert.inputs import expand_inputs, is_url
from aethergraph.convert.readers.base import (
    ColumnSelector,
    Field,
    InputError,
    InputWatch,
    PathLike,
    ProgressFn,
    check_readable,
    detect_format,
    list_columns,
    only_column,
    select_column,
)
from aethergraph.convert.readers.edge_plan import (
    AttrSpec,
    EdgePlan,
    NumberType,
    TimeType,
    WeightType,
    attr_specs,
)
from aethergraph.convert.readers.first_file import FirstFile, Table, ZoneCheck
from aethergraph.convert.readers.npy_edges import NpyTable
from aethergraph.convert.readers.parquet import ParquetTable
from aethergraph.convert.readers.text import TextTable
from aethergraph.errors import InvalidArgumentError, UnsupportedError

__all__ = [
    "EdgeChunk",
    "EdgeReader",
    "EdgeTable",
    "Position",
    "Table",
    "index_columns",
    "known_ends",
    "open_table",
    "read_edges",
    "read_planned",
    "rounding_note",
    "side_by_side",
]

Array: TypeAlias = npt.NDArray[Any]
#: Position in the inputs: (file number, chunks read of this file).
Position: TypeAlias = tuple[int, int]
_ID_NAMES = (
    ("src", "dst"),
    ("source", "target"),
    ("source", "destination"),
    ("src", "dest"),
    ("from", "to"),
    ("source_id", "target_id"),
    ("src_id", "dst_id"),
    ("fromnodeid", "tonodeid"),
    ("u", "v"),
    ("head", "tail"),
    ("row", "col"),
)


@dataclass(frozen=True)
class EdgeChunk:
    """Some edges: ``src`` and ``dst`` int64 [n], and the chosen columns, each of n rows.

    ``time`` is int64 or float64, or datetime64 if its unit is known.
    """

    src: Array
    dst: Array
    weight: Array | None = None
    time: Array | None = None
    attrs: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class EdgeTable(EdgeChunk):
    """All edges of the inputs, in the order of the files.

    Attributes:
        num_nodes: the number given, else the largest id + 1 (0 without edges).
        unused: names of columns that were not chosen.
        notes: remarks for the user: columns that were guessed, values that were rounded.
    """

    num_nodes: int = 0
    unused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return int(self.src.size)


def open_table(
    path: PathLike,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    threads: int | None = None,
) -> Table:
    """Open one input file for reading by columns; see :func:`read_edges` for the arguments."""
    check_readable(path)
    kind = detect_format(path, format)
    if kind == "parquet":
        return ParquetTable(path)
    if kind == "npy":
        return NpyTable(path)
    if kind == "gl":
        if is_url(path):
            raise UnsupportedError(f"{os.fspath(path)}: .gl files are mapped: download it first")
        return GlTable(path)
    candidates = {"csv": ",\t;| ", "tsv": "\t", "whitespace": " "}[kind]
    if kind == "whitespace" and format is None:
        candidates = ",;| "  # a .txt file may hold CSV
    return TextTable(
        path, delimiter=delimiter, candidates=candidates, header=header, threads=threads
    )


def read_edges(
    paths: PathLike | Sequence[PathLike],
    *,
    src: ColumnSelector | None = None,
    dst: ColumnSelector | None = None,
    weight: ColumnSelector | None = None,
    time: ColumnSelector | None = None,
    attrs: Sequence[AttrSpec | str] = (),
    time_type: TimeType = "auto",
    time_unit: str | None = None,
    weight_type: WeightType = "auto",
    num_nodes: int | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    threads: int | None = None,
    progress: ProgressFn | None = None,
) -> EdgeTable:
    """Read edges into memory: 16 bytes per edge, more for weights, times and attributes.

    Args:
        paths: one file or several, which have the columns of the first; patterns such as
            ``edges-*.csv``, or URLs that fsspec opens: CSV, TSV, blank-separated text (also .gz,
            .bz2, .zst, .lz4), Parquet, .npy of shape [2, E] or [E, 2], or .gl of GraphZero (which
            has its number of nodes).
        src: column of source ids, by name or number from 0. Default for both ends: columns with
            well-known names (src/dst, source/target, from/to, u/v, ...), else the first two.
        dst: column of destination ids; given if and only if ``src`` is.
        weight: column of edge weights -> float32 (Parquet doubles: float64); finite, >= 0.
        time: column of edge times -> int64, or float64 where the first rows are fractions;
            Parquet timestamps and dates -> datetime64.
        attrs: further columns to read: ``"price"``, ``"price=amount:float64"``, or several side by
            side in one attribute, ``"at=x,y"``. Without a dtype they are int64 if the first rows
            are integers, else float32 (Parquet doubles: float64).
        time_type: "int64" or "float64": the dtype of times; "auto": as described.
        time_unit: unit of the times, as in ``datetime64[unit]``: integers count it since
            1970-01-01, dates in text such as 2001-03-05T10:20:30 are read in it (D, s, ms, us,
            ns), timestamps are converted to it. Times are then datetime64.
        weight_type: "float32" or "float64": the dtype of weights; "auto": as described.
        num_nodes: ids must be below it; None: the largest id + 1.
        format: "csv", "tsv", "whitespace", "parquet", "npy", "gl"; None: by name and first
            bytes.
        delimiter: delimiter of text files; None: detected.
        header: whether the first line holds names; None: detected.
        threads: parsing threads; None for as many as the native core uses.
        progress: called with (bytes done, bytes in all).

    Returns:
        The edges, in the order of the files.

    Raises:
        MissingFileError: a file does not exist.
        StorageError: a file cannot be opened.
        InputError: a bad file, with line and column of the fault. An integer that the type of
            its column does not hold exactly is a fault too.
        InvalidArgumentError: the arguments contradict each other.
    """
    plan = EdgePlan(
        src, dst, weight, time, attr_specs(attrs), time_type, num_nodes, time_unit, weight_type
    )
    return read_planned(
        expand_inputs(paths),
        plan,
        format=format,
        delimiter=delimiter,
        header=header,
        threads=threads,
        progress=progress,
    )


def read_planned(
    files: Sequence[PathLike],
    plan: EdgePlan,
    *,
    format: str | None,
    delimiter: str | None,
    header: bool | None,
    threads: int | None,
    progress: ProgressFn | None,
) -> EdgeTable:
    """Read edges as :func:`read_edges` does, of files whose patterns are expanded."""
    growing = _Growing()
    reader = EdgeReader(files, plan, format, delimiter, header, threads, progress)
    for arrays in reader.arrays():
        growing.append(arrays, reader.share_done)
    columns = growing.finish()
    if not columns or columns[0].size == 0:
        raise InputError(files[0], "holds no edges")
    chunk = reader.chunk(columns)
    num_nodes = plan.num_nodes
    if num_nodes is None:
        num_nodes = max(reader.num_nodes, 1 + int(chunk.src.max()), 1 + int(chunk.dst.max()))
    values = (chunk.weight, chunk.time, chunk.attrs)
    return EdgeTable(chunk.src, chunk.dst, *values, num_nodes, reader.unused, tuple(reader.notes))


def side_by_side(columns: Sequence[Array]) -> Array:
    """Return vectors and matrices of n rows as one matrix of n rows."""
    return np.concatenate([c[:, None] if c.ndim == 1 else c for c in columns], axis=1)


def index_columns(table: Table) -> list[int]:
    """Return the columns that hold an index written by pandas."""
    return table.index_columns if isinstance(table, TextTable | ParquetTable) else []


class EdgeReader:
    """Reader that opens the files one after the other and yields arrays of the planned fields."""

    def __init__(
        self,
        files: Sequence[PathLike],
        plan: EdgePlan,
        format: str | None,
        delimiter: str | None,
        header: bool | None,
        threads: int | None,
        progress: ProgressFn | None,
    ) -> None:
        self._plan = plan
        self._files = files
        self._options: dict[str, Any] = {
            **as_reading(format, delimiter, header),
            "threads": as_threads(threads),
        }
        self._progress = progress
        self._watches = [InputWatch(path) for path in files]
        self._sizes = [watch.size for watch in self._watches]
        self._done = 0
        self._dtypes: list[NumberType] | None = None  # weight, time, attrs: fixed by file 1
        self._time_unit = plan.time_unit  # None: fixed by file 1
        self._first: FirstFile | None = None
        self._zones = ZoneCheck()
        self.notes: list[str] = []
        self.unused: tuple[str, ...] = ()
        self.num_nodes = 0  # largest number that the files themselves give

    @property
    def share_done(self) -> float:
        """Share of all bytes that has been read, 0 to 1."""
        total = sum(self._sizes)
        return min(1.0, self._done / total) if total else 1.0

    def arrays(self) -> Iterator[list[Array]]:
        """Yield the arrays of one chunk after the other, of all files."""
        for _, arrays in self.arrays_from((0, 0)):
            yield arrays

    def arrays_from(self, start: Position) -> Iterator[tuple[Position, list[Array]]]:
        """Yield the chunks from ``start`` on: the position where each ends, and its arrays.

        Raises:
            InputError: as :func:`read_edges`; a file that changed while it was read.
        """
        before = 0
        for number, (path, size) in enumerate(zip(self._files, self._sizes, strict=True)):
            if 0 < number < start[0]:
                before += size
                continue
            table = open_table(path, **self._options)
            if isinstance(table, GlTable):
                self.num_nodes = max(self.num_nodes, table.num_nodes)
            fields = self._fields(table)  # the first file fixes the types
            if number >= start[0]:
                skip = start[1] if number == start[0] else 0
                chunks = table.chunks(fields, self._reporter(before), skip)
                for chunk, arrays in enumerate(chunks, skip + 1):
                    yield (number, chunk), arrays
                self._watches[number].check()
                self._note_rounding(table)
            before += size

    def _note_rounding(self, table: Table) -> None:
        if isinstance(table, ParquetTable) and table.rounded:
            names = [table.column_name(c) or "" for c in sorted(table.rounded)]
            self.notes.append(rounding_note(table.path, names, "NAME:float64"))

    def _reporter(self, before: int) -> ProgressFn:
        def report(done: int, _total: int) -> None:
            self._done = before + done
            if self._progress is not None:
                self._progress(self._done, sum(self._sizes))

        return report

    def chunk(self, arrays: Sequence[Array]) -> EdgeChunk:
        """Return the arrays of a chunk as edges, with attributes put together."""
        remaining = list(arrays[2:])
        weight = remaining.pop(0) if self._plan.weight is not None else None
        time = remaining.pop(0) if self._plan.time is not None else None
        attrs: dict[str, Array] = {}
        for spec in self._plan.attrs:
            columns = [remaining.pop(0) for _ in spec.columns]
            attrs[spec.name] = columns[0] if len(columns) == 1 else side_by_side(columns)
        return EdgeChunk(arrays[0], arrays[1], weight, time, attrs)

    def _fields(self, table: Table) -> list[Field]:
        src, dst, *columns = self._columns(table)
        limit = self._plan.num_nodes
        ids = [
            Field("source id", src, "int64", is_id=True, limit=limit),
            Field("destination id", dst, "int64", is_id=True, limit=limit),
        ]
        if self._dtypes is None:
            self._dtypes = self._choose_dtypes(table, columns)
            self._choose_unit(table, columns)
            used = {src, dst, *columns}
            self.unused = tuple(
                table.column_name(c) or f"column {c + 1}"
                for c in range(table.num_columns)
                if c not in used
            )
        self._check_zone(table, columns)
        return ids + self._value_fields(columns)

    def _choose_unit(self, table: Table, columns: Sequence[int]) -> None:
        if self._plan.time is None or not isinstance(table, ParquetTable):
            return
        column = columns[0 if self._plan.weight is None else 1]
        if self._time_unit is None and self._plan.time_type != "float64":
            self._time_unit = table.time_unit(column)

    def _check_zone(self, table: Table, columns: Sequence[int]) -> None:
        if self._plan.time is None or self._time_unit is None:
            return
        column = columns[0 if self._plan.weight is None else 1]
        self._zones.check(table, column, self._time_unit)
        zone = table.time_zone(column) if isinstance(table, ParquetTable) else None
        note = (
            f"times of column {table.column_name(column)} are kept in UTC; their time zone, "
            f"{zone}, is not"
        )
        if zone not in (None, "UTC") and note not in self.notes:
            self.notes.append(note)

    def _value_fields(self, columns: Sequence[int]) -> list[Field]:
        fields = []
        for (_, role), column, dtype in zip(
            self._plan.selectors(), columns, self._dtypes or (), strict=True
        ):
            if role == "time":
                fields.append(self._time_field(column, dtype))
            elif role == "weight":
                fields.append(
                    Field(
                        role, column, dtype, finite=True, minimum=0, logical=True,
                        keep=_KEEP_WEIGHT,
                    )
                )  # fmt: skip
            else:
                fields.append(
                    Field(
                        role, column, dtype, logical=True, lists=True,
                        hint=_FRACTIONS if dtype == "int64" else "",
                        keep=_KEEP_ATTRIBUTE,
                    )
                )  # fmt: skip
        return fields

    def _time_field(self, column: int, dtype: NumberType) -> Field:
        unit, declared = self._time_unit, self._plan.time_unit is not None
        hint = _FRACTIONS if dtype == "int64" and unit is None else ""
        return Field(
            "time", column, dtype, finite=True, is_time=True, unit=unit, declared=declared,
            hint=hint, keep=_KEEP_TIME,
        )  # fmt: skip

    def _select(self, table: Table, selector: ColumnSelector, role: str) -> int:
        return select_column(table.path, selector, table.names, table.num_columns, role)

    def _columns(self, table: Table) -> list[int]:
        """Find the columns of sources, destinations and values; the first file decides."""
        if self._first is not None:
            guess = self._plan.src is None
            known = known_ends(table.path, table.peek_names()) if guess else None
            self._first.settle_header(table, known)
            columns = self._first.columns_of(table, known)
            if columns is not None:
                return columns
        values = self._plan.selectors()
        columns = [*self._id_columns(table), *(self._select(table, *chosen) for chosen in values)]
        if self._first is None:
            chosen = [self._plan.src, self._plan.dst, *(selector for selector, _ in values)]
            by_number = all(isinstance(s, int) or (s or "").isdecimal() for s in chosen)
            self._first = FirstFile(table, columns, by_number)
        return columns

    def _id_columns(self, table: Table) -> tuple[int, int]:
        """Find the columns of source and destination; also decides whether there is a header."""
        plan = self._plan
        if table.num_columns < 2:
            raise InputError(
                table.path, "has one column, but an edge needs two (is the delimiter right?)"
            )
        chosen = [plan.src, plan.dst, *(selector for selector, _ in plan.selectors())]
        if any(isinstance(s, str) and not s.isdecimal() for s in chosen):
            table.require_header()
        if plan.src is None or plan.dst is None:
            src, dst, guessed = _known_id_columns(table)
            if guessed and self._first is not None:
                src, dst = self._first.ends_of(table) or (src, dst)
            table.settle_header([src, dst])
            if guessed and self._dtypes is None and table.names is not None:
                names = (table.names[src], table.names[dst])
                self.notes.append(
                    f"edges go from column {names[0]} to column {names[1]}, the first two "
                    "(--src and --dst choose others)"
                )
            for column, role in ((src, "source id"), (dst, "destination id")):
                if table.names is not None:
                    only_column(table.path, table.names[column], table.names, role)
        else:
            ends = [s for s in (plan.src, plan.dst) if isinstance(s, int | str)]
            numbers = [int(s) for s in ends if isinstance(s, int) or s.isdecimal()]
            table.settle_header(numbers)
            src = self._select(table, plan.src, "source id")
            dst = self._select(table, plan.dst, "destination id")
        if src == dst:
            raise InvalidArgumentError(
                f"{os.fspath(table.path)}: the same column is both source and destination"
            )
        if isinstance(table, TextTable) and table.names is not None:
            first, second = table.names[src], table.names[dst]
            if first.isdecimal() and second.isdecimal():
                self.notes.append(
                    f"{os.fspath(table.path)}: the first line holds numbers, {first} and {second}, "
                    "and is taken for names: leave out --header (header=) if it is an edge"
                )
        return src, dst

    def _choose_dtypes(self, table: Table, columns: Sequence[int]) -> list[NumberType]:
        kinds: list[str | None] = []
        if self._plan.weight is not None:
            auto = self._plan.weight_type == "auto"
            kinds.append("weight" if auto else self._plan.weight_type)
        if self._plan.time is not None:
            kinds.append("time" if self._plan.time_type == "auto" else self._plan.time_type)
        for spec in self._plan.attrs:
            kinds += [spec.dtype] * len(spec.columns)
        if self._plan.time_unit is not None:
            kinds = ["int64" if kind == "time" else kind for kind in kinds]
        chosen = [_choose_dtype(table, c, k) for c, k in zip(columns, kinds, strict=True)]
        position = len(chosen) - sum(len(spec.columns) for spec in self._plan.attrs)
        for spec in self._plan.attrs:  # one matrix has one dtype
            width = len(spec.columns)
            part = chosen[position : position + width]
            if len(set(part)) > 1:
                wide: NumberType = "float64" if "float64" in part else "float32"
                chosen[position : position + width] = [wide] * width
            position += width
        return chosen


_KEEP_WEIGHT = (
    ("float64", "--weight-type float64 (weight_type=) keeps it"),
    ("int64", "no weight does, but --attr NAME=COLUMN:int64 (attrs=) takes it along"),
)
_KEEP_ATTRIBUTE = (
    ("float64", "ask for NAME:float64 to keep it"),
    ("int64", "ask for NAME:int64 to keep it"),
)
_KEEP_TIME = (("int64", "ask for int64 times, --time-type int64 (time_type=)"),)
_FRACTIONS = " (the first rows hold integers; ask for float64 to read fractions)"


def rounding_note(path: PathLike, names: Sequence[str], option: str) -> str:
    """Return the remark that float32 has rounded fractions of float64."""
    return (
        f"{os.fspath(path)}: float64 rounded to float32 in {list_columns(names)} "
        f"({option} keeps it)"
    )


def _choose_dtype(table: Table, column: int, kind: str | None) -> NumberType:
    if kind in ("int64", "float32", "float64"):
        return cast("NumberType", kind)
    double = isinstance(table, ParquetTable) and table.is_double(column)
    if kind == "weight":
        return "float64" if double else "float32"
    if table.is_integral(column):
        return "int64"
    if kind != "time":
        return "float64" if double else "float32"
    return "int64" if isinstance(table, ParquetTable) and table.time_unit(column) else "float64"


def known_ends(path: PathLike, names: Sequence[str]) -> tuple[int, int] | None:
    """Return the columns with well-known names of sources and destinations, or None.

    Raises:
        InputError: several columns have such a name.
    """
    lower = [name.lower() for name in names]
    for src, dst in _ID_NAMES:
        if src in lower and dst in lower:
            return (
                only_column(path, src, lower, "source id"),
                only_column(path, dst, lower, "destination id"),
            )
    return None


def _known_id_columns(table: Table) -> tuple[int, int, bool]:
    """Return source and destination column, and whether they are just the first two columns."""
    known = known_ends(table.path, table.peek_names())
    if known is not None:
        return (*known, False)
    index = index_columns(table)
    first = [c for c in range(table.num_columns) if c not in index][:2]
    return (*first, True) if len(first) == 2 else (0, 1, True)  # type: ignore[return-value]


class _Growing:
    """Columns that grow by whole chunks; capacity follows the share of the input read so far.

    Memory beyond what is filled is never touched, so a generous capacity costs nothing.
    """

    def __init__(self) -> None:
        self._columns: list[Array] = []
        self._rows = 0

    def append(self, arrays: Sequence[Array], share_done: float) -> None:
        rows = int(arrays[0].size)
        needed = self._rows + rows
        if not self._columns:
            self._columns = [np.empty((0, *a.shape[1:]), a.dtype) for a in arrays]
        if needed > len(self._columns[0]):
            expected = int(needed / max(share_done, 1e-6) * 1.05) if share_done > 0 else 0
            capacity = max(needed, min(expected, needed * 1000))
            self._columns = [self._grown(c, capacity) for c in self._columns]
        for column, array in zip(self._columns, arrays, strict=True):
            column[self._rows : needed] = array
        self._rows = needed

    def _grown(self, column: Array, capacity: int) -> Array:
        larger = np.empty((capacity, *column.shape[1:]), column.dtype)
        larger[: self._rows] = column[: self._rows]
        return larger

    def finish(self) -> list[Array]:
        return [column[: self._rows] for column in self._columns]
