"""Binary tables as streams of numpy chunks: Parquet files and .npy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from aethergraph.build.inputs import is_url, open_input
from aethergraph.build.npy_columns import NpyColumns, read_npy_form
from aethergraph.build.source import (
    INT64_MAX,
    MAP_NAMES,
    Field,
    InputError,
    PathLike,
    ProgressFn,
    check_readable,
    explain_id,
    require_pyarrow,
)

__all__ = ["NpyTable", "ParquetTable", "open_npy"]

_ROWS = 1 << 18  # rows per chunk
_READ_BYTES = 1 << 20  # of a column at once: not whole row groups


class ParquetTable:
    """A Parquet file with columns.

    Attributes:
        num_columns, names: its columns (top level).
        num_rows: its rows.

    Errors:
        InputError: not a Parquet file, or damaged.
    """

    unit = "row"

    def __init__(self, path: PathLike) -> None:
        require_pyarrow()
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        self.size = check_readable(path)
        try:
            source = open_input(path) if is_url(path) else path
            self._file = pq.ParquetFile(source, buffer_size=_READ_BYTES, pre_buffer=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(path, f"is not a readable Parquet file: {error}") from None
        self.names: list[str] | None = list(self._file.schema_arrow.names)
        self.num_columns = len(self.names)
        self.num_rows: int = self._file.metadata.num_rows

    def settle_header(self, columns: Sequence[int]) -> None:
        """Parquet always has names."""

    def require_header(self) -> None:
        """Parquet always has names."""

    def peek_names(self) -> list[str]:
        return list(self.names or ())

    def is_integral(self, column: int) -> bool:
        import pyarrow.types as pat

        kind = self._file.schema_arrow.types[column]
        return bool(pat.is_integer(kind) or pat.is_timestamp(kind))

    def is_double(self, column: int) -> bool:
        """Whether the column holds 64-bit floats."""
        import pyarrow.types as pat

        return bool(pat.is_float64(self._file.schema_arrow.types[column]))

    def column_name(self, column: int) -> str | None:
        return self.names[column] if self.names is not None else None

    def chunks(
        self, fields: Sequence[Field], progress: ProgressFn | None = None, skip: int = 0
    ) -> Iterator[list[npt.NDArray[Any]]]:
        """Arrays of each field, some hundred thousand rows at a time, from chunk ``skip`` on.

        Errors:
            InputError: a column of another type, or the first bad value with its row and column.
        """
        import pyarrow as pa

        for one in fields:
            self._check_type(one)
        names = [self._name(f.column) for f in fields]
        row = 0
        try:
            # Fewer rows of many columns: some megabytes in any case.
            rows = max(1, min(_ROWS, 8 * _ROWS // len(fields)))
            batches = self._file.iter_batches(rows, columns=list(dict.fromkeys(names)))
            for number, batch in enumerate(batches):
                if number < skip:
                    row += batch.num_rows
                    continue
                arrays = [self._array(self._column(batch, one.column), one, row) for one in fields]
                row += batch.num_rows
                if progress is not None and self.num_rows:
                    progress(self.size * row // self.num_rows, self.size)
                yield arrays
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(self.path, f"cannot be read: {error}", line=row, unit="row") from None

    def list_width(self, column: int) -> int | None:
        """Items per row of a column of lists (by its first row), or None for a plain column."""
        import pyarrow.types as pat

        kind = self._file.schema_arrow.types[column]
        if pat.is_fixed_size_list(kind):
            return int(kind.list_size)
        if not (pat.is_list(kind) or pat.is_large_list(kind)):
            return None
        for batch in self._file.iter_batches(1, columns=[self._name(column)]):
            return len(self._column(batch, column)[0].as_py() or ())
        return 0

    def list_chunks(
        self, column: int, width: int, dtype: str, progress: ProgressFn | None = None
    ) -> Iterator[npt.NDArray[Any]]:
        """A column of lists of equal length as arrays [n, width].

        Errors:
            InputError: a row of another length, or a missing value, with its row.
        """
        row = 0
        one = Field("feature", column, "float32")
        for batch in self._file.iter_batches(_ROWS // 8, columns=[self._name(column)]):
            lists = self._column(batch, column)
            items = lists.flatten()
            if items.null_count or len(items) != width * batch.num_rows:
                self._refuse_ragged(one, lists, width, row)
            lengths = np.asarray(lists.value_lengths())
            if (lengths != width).any():
                self._refuse_ragged(one, lists, width, row)
            row += batch.num_rows
            if progress is not None and self.num_rows:
                progress(self.size * row // self.num_rows, self.size)
            values = np.asarray(items.to_numpy(zero_copy_only=False), dtype)
            yield values.reshape(batch.num_rows, width)

    def _refuse_ragged(self, one: Field, lists: Any, width: int, first_row: int) -> NoReturn:
        for number, values in enumerate(lists.to_pylist()):
            if values is None or None in values:
                raise self._bad(one, "a feature is missing (null)", first_row + number)
            if len(values) != width:
                problem = f"{len(values)} features where the first row has {width}"
                raise self._bad(one, problem, first_row + number)
        raise self._bad(one, "cannot be read as rows of equal length", first_row)

    def _check_type(self, one: Field) -> None:
        import pyarrow.types as pat

        kind = self._file.schema_arrow.types[one.column]
        if pat.is_integer(kind):
            return
        if one.dtype == "int64":
            if not one.is_id and pat.is_timestamp(kind):
                return
            shown = self._first_value(one.column)
            text = pat.is_string(kind) or pat.is_large_string(kind) or pat.is_dictionary(kind)
            problem = f"the {one.role} is of type {kind}, not an integer{shown}"
            raise self._bad(one, problem + (MAP_NAMES if one.is_id and text else one.hint))
        if not (pat.is_floating(kind) or pat.is_boolean(kind)):
            shown = self._first_value(one.column)
            raise self._bad(one, f"the {one.role} is of type {kind}, not a number{shown}")

    def _first_value(self, column: int) -> str:
        for batch in self._file.iter_batches(1, columns=[self._name(column)]):
            return f" (the first one is {self._column(batch, column)[0].as_py()!r})"
        return ""

    def _name(self, column: int) -> str:
        return (self.names or [])[column]

    def _column(self, batch: Any, column: int) -> Any:
        """A column of the file in a batch of it, where others may have the same name."""
        name = self._name(column)
        before = (self.names or [])[:column].count(name)
        places = [place for place, one in enumerate(batch.schema.names) if one == name]
        return batch.column(places[before])

    def _bad(self, one: Field, problem: str, row: int | None = None) -> InputError:
        return InputError(
            self.path,
            problem,
            line=None if row is None else row + 1,
            column=one.column + 1,
            column_name=self.column_name(one.column),
            unit="row",
        )

    def _array(self, column: Any, one: Field, first_row: int) -> npt.NDArray[Any]:
        import pyarrow.types as pat

        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise self._bad(one, f"the {one.role} is missing (null)", first_row + row)
        if pat.is_timestamp(column.type):
            column = column.cast("int64")
        array = column.to_numpy(zero_copy_only=False)
        self._check_values(one, array, first_row)
        return np.asarray(array, np.dtype(one.dtype))

    def _check_values(self, one: Field, array: npt.NDArray[Any], first_row: int) -> None:
        if array.size == 0:
            return
        if one.dtype == "int64" and array.dtype == np.uint64 and array.max() > INT64_MAX:
            row = int(np.argmax(array > INT64_MAX))
            raise self._bad(
                one, f"the {one.role} {array[row]} does not fit in 64 bits", first_row + row
            )
        if one.is_id:
            found = first_bad_id(one, array)
            if found is not None:
                raise self._bad(one, found[1], first_row + found[0])
        if one.finite and array.dtype.kind == "f":
            fits = np.isfinite(array.astype(one.dtype, copy=False))
            if not fits.all():
                row = int(np.argmin(fits))
                problem = f"the {one.role} {array[row]} is not a finite {one.dtype}"
                raise self._bad(one, problem, first_row + row)
        if one.minimum is not None and array.min() < one.minimum:
            row = int(np.argmax(array < one.minimum))
            problem = f"the {one.role} {array[row]} is below {one.minimum:g}"
            raise self._bad(one, problem, first_row + row)


class NpyTable:
    """An edge list in a .npy file: integers of shape [2, E] or [E, 2] ([2, 2] reads as [2, E]).

    Attributes:
        num_rows: the number of edges.

    Errors:
        InputError: not a .npy file, or another shape or dtype.
    """

    unit = "row"
    names: list[str] | None = None
    num_columns = 2

    def __init__(self, path: PathLike) -> None:
        self.path = path
        self.size = check_readable(path)
        if not is_url(path):
            open_npy(path)  # says what is wrong with the file
        self._form = read_npy_form(path)
        dtype, shape = self._form.dtype, self._form.shape
        if dtype.kind not in "iu":
            raise InputError(
                path, f"holds {dtype}, but node ids must be integers (save it as int64)"
            )
        if len(shape) != 2 or 2 not in shape:
            raise InputError(
                path,
                f"has shape {list(shape)}, but edges have shape [2, E] or [E, 2]; give "
                "weights and times as columns of a CSV or Parquet file",
            )
        self.num_rows = shape[1] if shape[0] == 2 else shape[0]

    def settle_header(self, columns: Sequence[int]) -> None:
        """There are no names."""

    def require_header(self) -> None:
        raise InputError(self.path, "columns of a .npy file are chosen by number, 0 or 1")

    def peek_names(self) -> list[str]:
        return []

    def is_integral(self, column: int) -> bool:
        return True

    def column_name(self, column: int) -> str | None:
        return None

    def chunks(
        self, fields: Sequence[Field], progress: ProgressFn | None = None, skip: int = 0
    ) -> Iterator[list[npt.NDArray[Any]]]:
        """Arrays of each field, some hundred thousand edges at a time, from chunk ``skip`` on.

        Errors:
            InputError: the first bad id with its row and column; the file has become shorter.
        """
        with open_input(self.path) as file:
            yield from self._chunks(NpyColumns(self.path, file, self._form), fields, progress, skip)

    def _chunks(
        self,
        columns: NpyColumns,
        fields: Sequence[Field],
        progress: ProgressFn | None,
        skip: int,
    ) -> Iterator[list[npt.NDArray[Any]]]:
        for start in range(skip * _ROWS, self.num_rows, _ROWS):
            stop = min(start + _ROWS, self.num_rows)
            columns.load(start, stop)
            arrays = []
            for one in fields:
                array = columns.column(one.column)
                found = first_bad_id(one, array)
                if found is not None:
                    raise InputError(
                        self.path,
                        found[1],
                        line=start + found[0] + 1,
                        column=one.column + 1,
                        column_name=one.role,
                        unit="row",
                    )
                arrays.append(array.astype(np.int64, copy=False))
            if progress is not None:
                progress(self.size * stop // self.num_rows, self.size)
            yield arrays


def first_bad_id(one: Field, array: npt.NDArray[Any]) -> tuple[int, str] | None:
    """(position, problem) of the first value that is no node id, or None."""
    if array.size == 0:
        return None
    limit = INT64_MAX + 1 if one.limit is None else one.limit
    if array.min() >= 0 and int(array.max()) < limit:
        return None
    bad = array < 0
    if int(array.max()) >= limit:
        bad |= array >= array.dtype.type(limit)
    row = int(np.argmax(bad))
    value = int(array[row])
    if value > INT64_MAX:
        return row, f"the {one.role} {value} does not fit in 64 bits"
    return row, explain_id(one, value) or ""


def open_npy(path: PathLike) -> npt.NDArray[Any]:
    """A .npy file as a read-only mapped array.

    Errors:
        MissingFileError, StorageError: it cannot be opened.
        InputError: not a .npy file, shorter than its header says, or of Python objects.
    """
    size = check_readable(path)
    if size == 0:
        raise InputError(path, "is empty")
    with open(path, "rb") as file:
        magic = file.read(6)
    if magic.startswith(b"PK"):
        raise InputError(
            path, "is an archive (.npz?), not a .npy file; save the array by numpy.save"
        )
    if magic != b"\x93NUMPY":
        raise InputError(path, "is not a .npy file")
    form = read_npy_form(path)
    order: Literal["C", "F"] = "F" if form.fortran_order else "C"
    if 0 in form.shape or not form.dtype.itemsize:  # nothing to map
        return np.empty(form.shape, form.dtype, order)
    return np.memmap(path, form.dtype, "r", form.offset, form.shape, order)
