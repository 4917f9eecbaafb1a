"""Per-node tables: features and labels from text, Parquet or .npy files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from aethergraph.convert.arguments import as_column, as_file
from aethergraph.convert.external.sort_rows import Room, reordered_rows
from aethergraph.convert.outputs import NpyWriter
from aethergraph.convert.readers.base import (
    INT64_MAX,
    ColumnSelector,
    Field,
    InputError,
    PathLike,
    ProgressFn,
    check_readable,
    list_columns,
    only_column,
    read_beginning,
    select_column,
    select_columns,
)
from aethergraph.convert.readers.edges import (
    Table,
    index_columns,
    open_table,
    rounding_note,
    side_by_side,
)
from aethergraph.convert.readers.npy import read_items, read_npy_form
from aethergraph.convert.readers.npy_edges import NpyTable, open_npy
from aethergraph.convert.readers.parquet import ParquetTable

__all__ = [
    "FeatureColumns",
    "is_array_file",
    "iter_rows",
    "read_labels",
    "write_labels",
    "write_row_major",
    "write_rows",
]

_LABEL_NAMES = ("label", "labels", "y", "class", "target")
_PIECE_ROWS = 1 << 16
_KEEP = (
    ("float32", "--dtype float32 (dtype=) keeps it"),
    ("float64", "--dtype float64 (dtype=) keeps it"),
    ("", "if it is an id, leave its column out by --feature-columns (feature_columns=)"),
)


def is_array_file(path: PathLike) -> bool:
    """Return whether a file is a .npy array or a native feature file, which are opened directly."""
    check_readable(path)
    magic = read_beginning(path)
    return magic in (b"\x93NUMPY", b"AETHER") or str(path).lower().endswith(".npy")


@dataclass(frozen=True)
class FeatureColumns:
    """Choice of the feature columns of a table, and the dtype to read them as.

    Attributes:
        id_column: column of node ids; None: row i belongs to node i.
        chosen: feature columns, in this order; None: all others.
        dtype: "float32" or "float64".
        half: the half float in which they are stored in the end, if they are.
    """

    id_column: ColumnSelector | None = None
    chosen: Sequence[ColumnSelector] | None = None
    dtype: Literal["float32", "float64"] = "float32"
    half: Literal["bfloat16", "float16"] | None = None


def iter_rows(
    path: PathLike,
    columns: FeatureColumns = FeatureColumns(),
    *,
    progress: ProgressFn | None = None,
    remark: Callable[[str], None] | None = None,
) -> Iterator[tuple[npt.NDArray[Any] | None, npt.NDArray[Any]]]:
    """Yield (ids int64 [n] or None, features [n, d]) of a text or Parquet file, in chunks.

    A Parquet column of lists of k numbers gives k of the d columns.

    Args:
        path: the file.
        columns: columns to read.
        progress: called with (bytes done, bytes in all).
        remark: called with remarks: the columns that are features, and those that were rounded.

    Raises:
        InputError: a bad file, with line and column of the fault.
    """
    table = _open(path)
    ids = _id_field(table, columns.id_column)
    id_fields = [] if ids is None else [ids]
    positions = _feature_columns(table, ids, columns.chosen)
    table.settle_header(positions)
    tell = remark or (lambda text: None)
    names = [table.column_name(c) or f"column {c + 1}" for c in positions]
    tell(f"{os.fspath(path)}: features are {list_columns(names)}")
    fields = [
        Field(
            "feature",
            column,
            columns.dtype,
            logical=True,
            lists=True,
            half=columns.half,
            keep=_KEEP,
        )
        for column in positions
    ]
    for arrays in table.chunks(id_fields + fields, progress):
        features = side_by_side(arrays[len(id_fields) :])
        yield (arrays[0] if id_fields else None), features
    if isinstance(table, ParquetTable) and table.rounded:
        names = [table.column_name(c) or "" for c in sorted(table.rounded)]
        tell(rounding_note(path, names, "--dtype float64"))


def _feature_columns(
    table: Table, ids: Field | None, chosen: Sequence[ColumnSelector] | None
) -> list[int]:
    if chosen is not None:
        if any(isinstance(selector, str) and not selector.isdecimal() for selector in chosen):
            table.require_header()
        columns = select_columns(table.path, chosen, table.names, table.num_columns, "feature")
        if ids is not None and ids.column in columns:
            raise InputError(table.path, "the column of node ids is chosen as a feature")
    else:
        excluded = {*index_columns(table), *([] if ids is None else [ids.column])}
        columns = [c for c in range(table.num_columns) if c not in excluded]
    if not columns:
        raise InputError(table.path, "holds no feature columns")
    return columns


def write_rows(
    path: PathLike,
    writer_path: PathLike,
    columns: FeatureColumns = FeatureColumns(),
    *,
    progress: ProgressFn | None = None,
    remark: Callable[[str], None] | None = None,
    room: Room | None = None,
) -> NpyWriter:
    """Write features of a text or Parquet file as a .npy file [N, d], not yet committed.

    With an id column the row of id i becomes row i: the ids must be 0..N-1, each once. Given
    ``room`` rows are sorted within it, else the ids are held in memory.

    Raises:
        InputError: a bad file, with line and column of the fault.
        StorageError: the output cannot be written.
    """
    chunks = iter_rows(path, columns, progress=progress, remark=remark)
    if room is not None and columns.id_column is not None:
        return reordered_rows(path, cast("Iterator[Any]", chunks), writer_path, room)
    writer: NpyWriter | None = None
    all_ids: list[npt.NDArray[Any]] = []
    try:
        for ids, rows in chunks:
            if writer is None:
                writer = NpyWriter(writer_path, columns.dtype, (rows.shape[1],))
            writer.append(rows)
            if ids is not None:
                all_ids.append(ids)
        if writer is None or writer.rows == 0:
            raise InputError(path, "holds no rows")
        writer.finish()
        if all_ids:
            writer = _reordered(path, writer, np.concatenate(all_ids))
        return writer
    except BaseException:
        if writer is not None:
            writer.abort()
        raise


def _reordered(path: PathLike, writer: NpyWriter, ids: npt.NDArray[Any]) -> NpyWriter:
    order = _row_order(path, ids)
    rows = open_npy(writer.temporary)
    ordered = NpyWriter(writer.path, writer.dtype, writer.row_shape)
    try:
        for start in range(0, order.size, _PIECE_ROWS):
            ordered.append(rows[order[start : start + _PIECE_ROWS]])
        ordered.finish()
    except BaseException:
        ordered.abort()
        raise
    writer.abort()
    return ordered


def read_labels(
    path: PathLike,
    *,
    id_column: ColumnSelector | None = None,
    progress: ProgressFn | None = None,
) -> npt.NDArray[np.int64]:
    """Read one integer label per node, int64 [N]; -1 (in .npy files also NaN) means no label.

    Text and Parquet files have one column, or one named label, y, class or target.

    Raises:
        InputError: a bad file, with line and column of the fault.
    """
    path, id_column = as_file(path), as_column(id_column, "id_column")
    if is_array_file(path):
        return np.concatenate([*_array_labels(path), np.empty(0, np.int64)])
    ids, source = _label_chunks(path, id_column, progress)
    chunks = list(source)
    labels: npt.NDArray[np.int64] = np.concatenate([c[0] for c in chunks] or [np.empty(0, "i8")])
    if labels.size == 0:
        raise InputError(path, "holds no labels")
    if ids is not None:
        labels = labels[_row_order(path, np.concatenate([c[1] for c in chunks]))]
    return labels


def write_labels(
    path: PathLike,
    writer_path: PathLike,
    room: Room,
    *,
    id_column: ColumnSelector | None = None,
    progress: ProgressFn | None = None,
) -> NpyWriter:
    """Write the labels of :func:`read_labels` as a .npy file of int64 [N], not yet committed."""
    if not is_array_file(path):
        ids, source = _label_chunks(path, id_column, progress)
        if ids is not None:
            pairs = ((chunk[1], chunk[0]) for chunk in source)
            return reordered_rows(path, pairs, writer_path, room)
        pieces: Iterator[npt.NDArray[Any]] = (chunk[0] for chunk in source)
    else:
        pieces = _array_labels(path)
    writer = NpyWriter(writer_path, np.int64, ())
    try:
        for piece in pieces:
            writer.append(piece)
        if writer.rows == 0 and not is_array_file(path):
            raise InputError(path, "holds no labels")
        writer.finish()
    except BaseException:
        writer.abort()
        raise
    return writer


def write_row_major(path: PathLike, writer_path: PathLike) -> NpyWriter:
    """Write a .npy array of another memory order in row-major order, not yet committed."""
    array = open_npy(path)
    writer = NpyWriter(writer_path, array.dtype, array.shape[1:])
    try:
        for begin in range(0, len(array), _PIECE_ROWS):
            writer.append(array[begin : begin + _PIECE_ROWS])
        writer.finish()
    except BaseException:
        writer.abort()
        raise
    return writer


def _label_chunks(
    path: PathLike, id_column: ColumnSelector | None, progress: ProgressFn | None
) -> tuple[Field | None, Iterator[list[npt.NDArray[Any]]]]:
    """Return the field of node ids, if there is one, and [labels] or [labels, ids] in chunks."""
    table = _open(path)
    ids = _id_field(table, id_column)
    column = _label_column(table, ids)
    table.settle_header([column])
    label = Field("label", column, "int64", logical=True)
    fields = [label] + ([] if ids is None else [ids])
    return ids, table.chunks(fields, progress)


def _open(path: PathLike) -> Table:
    table = open_table(path)
    if isinstance(table, NpyTable):  # pragma: no cover - callers look first
        raise InputError(path, "is a .npy file")
    return table


#: Names of columns that may be node ids: never guessed as ids, and never taken as features.
_ID_NAMES = frozenset({"id", "node", "node_id", "nodeid", "nid"})


def _id_field(table: Table, selector: ColumnSelector | None) -> Field | None:
    """Return the field of node ids; None if row i is node i and no column contradicts that."""
    if selector is None:
        _refuse_index(table)
        for name in table.peek_names():
            if name.strip().lower() in _ID_NAMES:
                raise InputError(
                    table.path,
                    f"has a column called {name!r}: say --id-column {name} (id_column=) if rows "
                    "belong to the nodes it names; without such a column row i is that of node i",
                )
        return None
    if isinstance(selector, str) and not selector.isdecimal():
        table.require_header()
    column = select_column(table.path, selector, table.names, table.num_columns, "node id")
    table.settle_header([column])
    return Field("node id", column, "int64", is_id=True)


def _refuse_index(table: Table) -> None:
    """Refuse a data frame that was sorted or filtered: row i could be node i, or node index[i]."""
    for column in index_columns(table):
        name = table.peek_names()[column] or column
        raise InputError(
            table.path,
            f"has an index that pandas wrote, column {column + 1} ({name}): say --id-column {name} "
            "(id_column=) if rows belong to the nodes it names; if row i is that of node i, write "
            "the table again without it (reset_index(drop=True), or index=False)",
        )
    moved = table.moved_range if isinstance(table, ParquetTable) else None
    if moved is not None:
        place, name = moved
        names = table.peek_names()
        if not name or name.isdecimal():  # a number would choose a column by its position
            name = "index"
        while name in names:
            name = f"node_{name}"
        raise InputError(
            table.path,
            f"has the index {place} of pandas, not 0, 1, 2...: write the table again after "
            f"reset_index(names={name!r}) if rows belong to the nodes it names (and say "
            f"--id-column {name}), or after reset_index(drop=True) if row i is that of node i",
        )


def _label_column(table: Table, ids: Field | None) -> int:
    excluded = {*index_columns(table), *([] if ids is None else [ids.column])}
    columns = [c for c in range(table.num_columns) if c not in excluded]
    if len(columns) == 1:
        return columns[0]
    names = [name.lower() for name in table.peek_names()]
    for name in _LABEL_NAMES:
        if name in names:
            table.require_header()
            return only_column(table.path, name, names, "label")
    raise InputError(
        table.path,
        f"has {len(columns)} columns and none is called label; keep one column, one line per node",
    )


def _array_labels(path: PathLike) -> Iterator[npt.NDArray[np.int64]]:
    """Yield labels of a .npy file in pieces.

    The file is read, since a mapped file may fail without an error.
    """
    open_npy(path)  # raises if the file is bad
    form = read_npy_form(path)
    vector = len(form.shape) == 1 or (len(form.shape) == 2 and form.shape[1] == 1)
    if not vector or form.dtype.kind not in "iubf":
        raise InputError(
            path,
            f"has shape {list(form.shape)} and dtype {form.dtype}; labels are one integer per "
            "node, shape [N]",
        )
    with open(path, "rb", buffering=0) as file:
        for begin in range(0, form.shape[0], _PIECE_ROWS):
            items = min(_PIECE_ROWS, form.shape[0] - begin)
            yield _labels_of_array(path, read_items(path, file, form, begin, items), begin)


def _labels_of_array(
    path: PathLike, array: npt.NDArray[Any], first: int = 0
) -> npt.NDArray[np.int64]:
    """Convert a piece of a label column that begins at row ``first`` of the file."""
    if array.dtype.kind != "f":
        unsigned = array.dtype.newbyteorder("=") == np.uint64
        large = array > INT64_MAX if unsigned else np.zeros(0, np.bool_)
        if large.any():
            row = int(np.argmax(large))
            problem = f"the label {array[row]} does not fit in 64 bits"
            raise InputError(path, problem, line=first + row + 1, unit="row")
        return np.asarray(array, np.int64)
    known = ~np.isnan(array)
    labels = np.where(known, array, -1).astype(np.int64)
    wrong = known & (labels != array)
    if wrong.any():
        row = int(np.argmax(wrong))
        problem = f"the label {array[row]} is not an integer"
        raise InputError(path, problem, line=first + row + 1, unit="row")
    return labels


def _row_order(path: PathLike, ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the positions of the ids 0..N-1; each must occur once."""
    order = np.argsort(ids, kind="stable")
    wrong = ids[order] != np.arange(ids.size)
    if wrong.any():
        expected = int(np.argmax(wrong))
        node_id = int(ids[order[expected]])
        problem = (
            f"the node id {expected} is missing: {ids.size} rows need the ids 0..{ids.size - 1}"
        )
        if node_id < expected:
            problem = f"the node id {node_id} comes twice"
        raise InputError(os.fspath(path), problem)
    return order
