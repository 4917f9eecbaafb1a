"""Files of columns: container files with the rows, the texts, the categories, and a description.

The arrays of such a file, in this order:

==============  =====================  ==========================================================
``rows``        uint8 [N, width]       rows as of :class:`RowLayout`
``columns``     uint8 [bytes]          JSON: ``{"columns": [{"name", "kind", "dtype", "unit",
                                       "statistics"}, ...], "version": 1}``
``offsets-I``   uint64 [n + 1]         of column I of texts (n = N) or categories (n of them):
``bytes-I``     uint8 [bytes]          text j is ``bytes[offsets[j]:offsets[j + 1]]``, UTF-8
==============  =====================  ==========================================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import shown
from aethergraph._checks.times import is_unit
from aethergraph.columns.layout import KINDS, Column, RowLayout
from aethergraph.columns.statistics import column_statistics
from aethergraph.errors import CorruptFileError, FormatError, VersionError
from aethergraph.storage.described import Fields, is_count, is_integer, read_fields
from aethergraph.storage.meta import ArrayMeta, FileMeta, SectionTable, write_meta
from aethergraph.storage.opening import open_container

__all__ = ["ColumnFile", "encode_texts", "is_column_file", "write_columns"]

Array = NDArray[Any]
_VERSION = 1
_NUMBERS = tuple(name for name in native.DTYPE_CODES if name != "bfloat16")
_PIECE = 4 << 20  # bytes that are written at once


def encode_texts(texts: Sequence[str | None]) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Return (offsets [n + 1], bytes) of texts, as Arrow's string columns; None is empty."""
    encoded = [b"" if text is None else text.encode("utf-8") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.uint64)
    np.cumsum([len(piece) for piece in encoded], out=offsets[1:], dtype=np.uint64)
    return offsets, np.frombuffer(b"".join(encoded), np.uint8)


def write_columns(
    path: native.Path,
    columns: Sequence[Column],
    rows: Array,
    texts: Mapping[str, tuple[Array, Array]],
    categories: Mapping[str, Sequence[str]],
    task: native.Task | None = None,
    *,
    of_graph: bool = False,
) -> None:
    """Write a file of columns.

    Args:
        path: the file.
        columns: the columns; their statistics are computed here.
        rows: uint8 [N, width] as of :class:`RowLayout`, perhaps mapped.
        texts: by column of texts (offsets uint64 [N + 1], bytes), perhaps mapped.
        categories: by column of categories their names.
        task: of the call that writes.
        of_graph: the file is made together with a graph, which will have its fingerprint.

    Raises:
        StorageError: the file cannot be written.
    """
    layout = RowLayout(columns)
    statistics = column_statistics(
        layout, rows, {name: offsets for name, (offsets, _) in texts.items()},
        {name: len(names) for name, names in categories.items()}, task,
    )  # fmt: skip
    content = {
        "version": _VERSION,
        "columns": [
            {
                "name": column.name, "kind": column.kind, "dtype": column.dtype,
                "unit": column.unit, "statistics": statistics[column.name],
            }
            for column in columns
        ],
    }  # fmt: skip
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    arrays: list[tuple[str, Array]] = [
        ("rows", rows),
        ("columns", np.frombuffer(text.encode("utf-8"), np.uint8)),
    ]
    for number, column in enumerate(columns):
        if column.kind in ("text", "category"):
            both = (
                texts[column.name]
                if column.kind == "text"
                else encode_texts(categories[column.name])
            )
            arrays += [(f"offsets-{number}", both[0]), (f"bytes-{number}", both[1])]
    meta = FileMeta(
        arrays=tuple(ArrayMeta(n, "row", 0, str(array.dtype), array.shape) for n, array in arrays),
        of_graph=of_graph,
    )
    with native.NativeWriter(path, native.CONTENT_FEATURES) as writer:
        write_meta(writer, meta)
        for number, (_, array) in enumerate(arrays):
            writer.begin(native.SECTION_ARRAY, number, native.dtype_code(array.dtype))
            step = max(1, _PIECE // max(1, array.nbytes // max(1, len(array))))
            for begin in range(0, len(array), step):
                writer.append(np.ascontiguousarray(array[begin : begin + step]), task)
            writer.end()


def is_column_file(path: native.Path) -> bool:
    """Return whether a file of features is one of columns.

    Raises:
        AetherError: it cannot be opened, or is of another kind.
    """
    file = open_container(path)
    try:
        arrays = SectionTable(file, native.CONTENT_FEATURES).meta.arrays
    finally:
        file.close()
    return [array.name for array in arrays[:2]] == ["rows", "columns"]


class ColumnFile:
    """Open file of columns, checked.

    Attributes:
        columns: the columns, with statistics and categories.
        layout: layout of the rows.
        num_rows: number of rows.
        texts: keys of the native core over the texts of each text column.

    Raises:
        FormatError: the file is of another kind.
        CorruptFileError: its parts contradict each other.
    """

    def __init__(self, file: native.NativeFile) -> None:
        self.file = file
        self.path: str = file.path
        self.table = table = SectionTable(file, native.CONTENT_FEATURES)
        names = [array.name for array in table.meta.arrays]
        if names[:2] != ["rows", "columns"]:
            raise FormatError(
                f"{self.path}: not a file of columns; open features with FeatureTable.load"
            )
        self._numbers = {name: number for number, name in enumerate(names)}
        shape = table.meta.arrays[0].shape
        columns = self._decode(table.array(1).tobytes())
        self.layout = RowLayout(columns)
        if table.meta.arrays[0].dtype != "uint8" or shape[1:] != (self.layout.width,):
            raise CorruptFileError(
                f"{self.path}: its rows are {shape}, but its columns need {self.layout.width} bytes"
            )
        self.num_rows = shape[0]
        self.texts: dict[str, native.KeyBlock] = {}
        completed = []
        for number, column in enumerate(columns):
            if column.kind == "text":
                self.texts[column.name] = self._texts(number, column.name, self.num_rows)
            elif column.kind == "category":
                column = replace(column, categories=self._categories(number, column))
            completed.append(column)
        self.columns = tuple(completed)
        file.check()

    def _decode(self, data: bytes) -> list[Column]:
        fields = read_fields(
            data,
            lambda text: CorruptFileError(
                f"{self.path}: what its columns are cannot be read: {text}"
            ),
        )
        version = fields.count("version")
        if version > _VERSION:
            raise VersionError(
                f"{self.path}: its columns have version {version}, this AetherGraph reads up "
                f"to {_VERSION}; install a newer one"
            )
        columns = [self._column(entry) for entry in fields.objects("columns", "a column")]
        fields.require(len(columns) > 0, "there is none")
        names = {column.name for column in columns}
        fields.require(len(names) == len(columns), "a name comes twice")
        return columns

    def _column(self, entry: Fields) -> Column:
        kind = entry.choice("kind", KINDS)
        dtype = entry.choice("dtype", _NUMBERS) if kind == "number" else ""
        unit = entry.text("unit") if kind == "time" else None
        entry.require(unit is None or is_unit(unit), f"unit = {shown(unit)} is unknown")
        entry.need("statistics")
        statistics = Fields(entry.values["statistics"], entry.complaint, f"statistics of a {kind}")
        if kind in ("bool", "category"):
            statistics.items("counts", is_count)
        elif kind != "text":
            statistics.need("quantiles")
            quantiles = statistics.items("quantiles", _is_number, None)
            entry.require(not quantiles or len(quantiles) == 5, "there are five quantiles")
            is_whole = kind == "number" or all(map(is_integer, quantiles or ()))
            entry.require(is_whole, f"quantiles = {shown(quantiles)} of times are no integers")
        if kind == "number":
            statistics.need("mean", "std")
            for name in ("mean", "std"):
                value = statistics.values[name]
                entry.require(value is None or _is_number(value), f"{name} = {shown(value)}")
        return Column(entry.text("name"), kind, dtype, unit, statistics.values)

    def _texts(self, number: int, name: str, count: int | None) -> native.KeyBlock:
        arrays = []
        for part, dtype in (("offsets", np.uint64), ("bytes", np.uint8)):
            at = self._numbers.get(f"{part}-{number}")
            array = None if at is None else self.table.array(at)
            if array is None or array.dtype != dtype or array.ndim != 1:
                raise CorruptFileError(f"{self.path}: the texts of {name!r} have no proper {part}")
            arrays.append(array)
        offsets, data = arrays
        if len(offsets) < 1 or (count is not None and len(offsets) != count + 1):
            raise CorruptFileError(
                f"{self.path}: {name!r} has {len(offsets) - 1} texts for {count} rows"
            )
        return native.KeyBlock(data, offsets)

    def _categories(self, number: int, column: Column) -> tuple[str, ...]:
        block = self._texts(number, column.name, None)
        every = np.arange(len(block), dtype=np.uint64)
        texts = block.take(every, self.file.guard())
        assert texts.offsets is not None
        ends, data = texts.offsets.tolist(), texts.data.tobytes()
        try:
            names = tuple(data[begin:end].decode("utf-8") for begin, end in pairwise(ends))
        except UnicodeDecodeError as error:
            raise CorruptFileError(
                f"{self.path}: a category of {column.name!r} is not UTF-8: {error}"
            ) from None
        counts = column.statistics["counts"]
        if len(counts) != len(names):
            raise CorruptFileError(
                f"{self.path}: {column.name!r} has {len(names)} categories and {len(counts)} counts"
            )
        return names


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)
