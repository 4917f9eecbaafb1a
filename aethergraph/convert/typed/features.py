"""Columns of a node table as typed features: what they hold, their values, and their work files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.times import convert_times
from aethergraph.columns.file import write_columns
from aethergraph.columns.inputs import NULL_VALUES, fill_nulls
from aethergraph.columns.layout import Column, Kind, RowLayout
from aethergraph.convert.readers.base import InputError
from aethergraph.convert.typed.columns import ColumnReader
from aethergraph.convert.typed.sources import Batch
from aethergraph.storage.memory import format_size
from aethergraph.storage.scratch import storage_error

__all__ = ["ColumnParts", "ColumnScan", "column_of"]

Array = NDArray[Any]
Append = Callable[[str, Array], None]

#: Names of categories are kept in memory, here and where they are used.
MAX_CATEGORIES = 100_000
#: Bytes that a category takes beside its name (dict, text object, code), and copies of its name.
_CATEGORY_BYTES, _NAME_COPIES = 200, 3
_FILL_ROWS = 1 << 16


def column_of(reader: ColumnReader, name: str, kind: Kind | None, where: str) -> Column:
    """Return what a column is kept as.

    Args:
        reader: of the table.
        name: the column.
        kind: what the schema says; None: by the type of the column. Texts are texts then, unless
            Arrow holds them as a dictionary.
        where: the node type, for messages.

    Raises:
        InputError: the column cannot be of this kind.
    """
    column_kind = kind or _kind_of(reader, name, where)
    if column_kind == "number":
        return Column(name, column_kind, reader.stored_number(name))
    if column_kind == "time":
        form = reader.time_form(name)
        if form.unit is None:
            raise InputError(
                reader.file, f"column {name!r} ({where}) holds plain numbers, not times with a unit"
            )
        return Column(name, column_kind, unit=form.unit)
    if not reader.is_text and _is_nested(reader.type_of(name)):
        raise _unfit(reader, name, where)
    return Column(name, column_kind)


def _is_nested(kind: Any) -> bool:
    import pyarrow.types as pat

    return bool(pat.is_nested(kind)) and not pat.is_dictionary(kind)


def _unfit(reader: ColumnReader, name: str, where: str) -> InputError:
    return InputError(
        reader.file,
        f"column {name!r} ({where}) is of type {reader.type_of(name)}: columns hold numbers, "
        "booleans, times, categories or texts; cast it, or leave it out",
    )


def _kind_of(reader: ColumnReader, name: str, where: str) -> Kind:
    import pyarrow.types as pat

    if reader.is_text:
        text = reader.kind_of_text(name)
        kinds: dict[str, Kind] = {
            "int": "number", "uint": "number", "mixed": "number", "float": "number",
            "bool": "bool", "time": "time", "zoned": "time",
        }  # fmt: skip
        return kinds.get(text, "text")
    kind = reader.type_of(name)
    if pat.is_boolean(kind):
        return "bool"
    if pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind):
        return "number"
    if pat.is_timestamp(kind) or pat.is_date(kind):
        return "time"
    if pat.is_dictionary(kind):
        return "category"
    if pat.is_string(kind) or pat.is_large_string(kind) or str(kind) == "string_view":
        return "text"
    raise _unfit(reader, name, where)


class ColumnScan:
    """Columns of a node table on their way to work files, batch by batch.

    Args:
        reader: of the table.
        columns: what the columns are.
        append: called with a name of a file and rows to append to it.
        room: bytes for the names of categories.
    """

    def __init__(
        self, reader: ColumnReader, columns: list[Column], append: Append, room: int
    ) -> None:
        self._reader = reader
        self._columns = columns
        self._append = append
        self._room, self._held = room, 0
        self._layout = RowLayout(columns)
        self._codes: dict[str, dict[str, int]] = {
            column.name: {} for column in columns if column.kind == "category"
        }
        self._ends = {column.name: 0 for column in columns if column.kind == "text"}
        for name in self._ends:
            self._append(self._text_file(name, "offsets"), np.zeros(1, np.uint64))
            self._append(self._text_file(name, "bytes"), np.empty(0, np.uint8))

    def _text_file(self, name: str, part: str) -> str:
        number = [column.name for column in self._columns].index(name)
        return f"text-{number}-{part}.npy"

    def add(self, batch: Batch) -> None:
        """Append the rows of a batch.

        Raises:
            InputError: a value is none of the column's kind; names row and column.
        """
        values: dict[str, Array] = {}
        nulls: dict[str, Array] = {}
        for column in self._columns:
            array = batch.rows.column(column.name)
            null = None
            if array.null_count:
                null = array.is_null().to_numpy(zero_copy_only=False)
            if column.kind == "text":
                self._add_texts(column.name, array)
            else:
                column_values = self._values(batch, column, array, null)
                values[column.name], null = fill_nulls(column, column_values, null)
            if null is not None:
                nulls[column.name] = null
        self._append("columns.npy", self._layout.pack(batch.rows.num_rows, values, nulls))

    def _values(self, batch: Batch, column: Column, array: Any, null: Array | None) -> Array:
        if column.kind == "category":
            return self._category(batch, column.name, array)
        if column.kind == "time":
            assert column.unit is not None
            out = np.full(len(array), NULL_VALUES["time"], np.int64)
            known = np.ones(len(array), np.bool_) if null is None else ~null
            if known.any():
                some = batch if null is None else batch.only(known)
                unit = self._reader.time_form(column.name).unit
                times = self._reader.times(some, column.name, unit)
                counts, _ = convert_times(times.view(np.int64), str(unit), column.unit)
                out[known] = counts
            return out
        dtype = "bool" if column.kind == "bool" else column.dtype
        return self._reader.stored(batch, column.name, dtype)

    def _category(self, batch: Batch, name: str, array: Any) -> Array:
        """Return codes in the order in which categories first appear."""
        import pyarrow as pa
        import pyarrow.types as pat

        if pat.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        coded = array.cast(pa.string()).dictionary_encode()
        codes = self._codes[name]
        before = len(codes)
        batch_codes = [
            codes.setdefault(str(category), len(codes)) for category in coded.dictionary.to_pylist()
        ]
        self._held += (len(codes) - before) * _CATEGORY_BYTES
        self._held += sum(_NAME_COPIES * len(category) for category in islice(codes, before, None))
        if self._held > self._room:
            raise batch.bad(
                f"the names of categories take more than {format_size(self._room)}, their share of "
                "the memory budget: give more, or keep the column as texts (of kind \"text\")",
                batch.rows.num_rows - 1, name,
            )  # fmt: skip
        if len(codes) > MAX_CATEGORIES:
            raise batch.bad(
                f"there are more than {MAX_CATEGORIES:,} categories; as a column of kind "
                '"text" it may have any number', batch.rows.num_rows - 1, name,
            )  # fmt: skip
        places = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        row_codes: Array = np.array([*batch_codes, -1], np.int32)[places]
        return row_codes

    def _add_texts(self, name: str, array: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        array = array.cast(pa.large_string()).fill_null("")
        lengths = pc.binary_length(array).to_numpy(zero_copy_only=False)
        ends = self._ends[name] + np.cumsum(lengths, dtype=np.int64)
        _, offsets, data = array.buffers()
        if len(array):
            begins = np.frombuffer(offsets, np.int64)[array.offset :]
            text = np.frombuffer(data or b"", np.uint8)[begins[0] : begins[len(array)]]
            self._append(self._text_file(name, "offsets"), ends.astype(np.uint64))
            self._append(self._text_file(name, "bytes"), text)
            self._ends[name] = int(ends[-1])

    def fill(self, count: int) -> None:
        """Append rows of nulls, for nodes that are in no row of the table."""
        while count:
            some = min(count, _FILL_ROWS)
            values: dict[str, Array] = {}
            null = np.ones(some, np.bool_)
            for column in self._columns:
                if column.kind == "text":
                    ends = np.full(some, self._ends[column.name], np.uint64)
                    self._append(self._text_file(column.name, "offsets"), ends)
                else:
                    values[column.name], _ = fill_nulls(column, np.zeros(some, column.dtype), null)
            nulls = {column.name: null for column in self._columns}
            self._append("columns.npy", self._layout.pack(some, values, nulls))
            count -= some

    def save(self, path: str) -> None:
        """Write what :class:`ColumnParts` needs beside the arrays."""
        content = [
            {**asdict(column), "categories": list(self._codes.get(column.name, ()))}
            for column in self._columns
        ]
        try:
            with open(path, "w", encoding="utf-8") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_error(error, path) from None


class ColumnParts:
    """Work files of the columns of a node type.

    Args:
        prefix: path that their names begin with.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, for progress."""
        folder, name = os.path.split(self._prefix)
        files = (entry for entry in os.scandir(folder) if entry.name.startswith(name))
        return sum(entry.stat().st_size for entry in files if is_part(entry.name[len(name) :]))

    def write(self, path: str, task: native.Task | None) -> None:
        """Write the file of the columns."""
        with open(f"{self._prefix}columns.json", encoding="utf-8") as file:
            content: list[Mapping[str, Any]] = json.load(file)
        columns = [
            Column(entry["name"], entry["kind"], entry["dtype"], entry["unit"]) for entry in content
        ]
        texts = {
            column.name: (
                self._array(f"text-{number}-offsets"),
                self._array(f"text-{number}-bytes"),
            )
            for number, column in enumerate(columns)
            if column.kind == "text"
        }
        categories = {entry["name"]: entry["categories"] for entry in content}
        names = {
            column.name: categories[column.name] for column in columns if column.kind == "category"
        }
        write_columns(path, columns, self._array("columns"), texts, names, task, of_graph=True)

    def _array(self, name: str) -> Array:
        path = f"{self._prefix}{name}.npy"
        array: Array = np.load(path, mmap_mode="r")
        return array


def is_part(name: str) -> bool:
    """Return whether a work file of a node type is an array of its columns."""
    return name == "columns.npy" or (name.startswith("text-") and name.endswith(".npy"))
