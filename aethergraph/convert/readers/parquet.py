"""Parquet files as streams of numpy chunks, without any conversion that would lose something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from aethergraph._checks.exact import first_changed
from aethergraph._checks.times import convert_times
from aethergraph.convert.inputs import is_url, open_input
from aethergraph.convert.readers.base import (
    INT64_MAX,
    MAP_NAMES,
    Field,
    InputError,
    PathLike,
    ProgressFn,
    check_readable,
    first_bad_id,
    is_index_name,
    reading_error,
    require_pyarrow,
)
from aethergraph.convert.readers.exact import explain_change

__all__ = ["ParquetTable"]

_ROWS = 1 << 18  # rows per chunk
_READ_BYTES = 1 << 20  # read of a column at once; row groups may be larger

Array = npt.NDArray[Any]


class ParquetTable:
    """Parquet file with columns.

    Attributes:
        num_columns: number of top-level columns.
        names: names of these columns.
        num_rows: number of rows.
        rounded: columns in which float32 has rounded fractions of float64 so far.

    Raises:
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
            self._file = pq.ParquetFile(
                source,
                buffer_size=_READ_BYTES,
                pre_buffer=False,
                page_checksum_verification=True,
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(path, f"is not a readable Parquet file: {error}") from None
        except OSError as error:
            raise reading_error(path, error, "is not a readable Parquet file") from None
        self.names: list[str] | None = list(self._file.schema_arrow.names)
        self._types: list[Any] = list(self._file.schema_arrow.types)
        self.num_columns = len(self.names)
        self.num_rows: int = self._file.metadata.num_rows
        self.rounded: set[int] = set()

    def settle_header(self, columns: Sequence[int]) -> None:
        """Do nothing: a Parquet file always has names."""

    def require_header(self) -> None:
        """Do nothing: a Parquet file always has names."""

    def peek_names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.names or ())

    def is_integral(self, column: int) -> bool:
        """Return whether the column holds integers, or lists of them."""
        import pyarrow.types as pat

        return bool(pat.is_integer(_item_type(self._types[column])))

    def time_unit(self, column: int) -> str | None:
        """Return the unit of a column of timestamps or dates; None for another column."""
        return _unit(self._types[column])

    def time_zone(self, column: int) -> str | None:
        """Return the time zone of a column of timestamps, whose values are in UTC, or None."""
        import pyarrow.types as pat

        kind = self._types[column]
        return str(kind.tz) if pat.is_timestamp(kind) and kind.tz is not None else None

    def has_zone(self, column: int, unit: str) -> bool | None:
        """Return whether a column of timestamps has a time zone; None for days and numbers."""
        if self.time_unit(column) in (None, "D"):
            return None
        return self.time_zone(column) is not None

    def is_double(self, column: int) -> bool:
        """Return whether the column holds 64-bit floats, or lists of them."""
        import pyarrow.types as pat

        return bool(pat.is_float64(_item_type(self._types[column])))

    def column_name(self, column: int) -> str | None:
        """Return the name of a column."""
        return self.names[column] if self.names is not None else None

    # ---- the index of pandas -----------------------------------------------

    @property
    def index_columns(self) -> list[int]:
        """Columns that hold the index of the data frame that pandas has written."""
        named = [entry for entry in self._pandas_index if isinstance(entry, str)]
        return [
            column
            for column, name in enumerate(self.names or ())
            if name in named or is_index_name(name)
        ]

    @property
    def moved_range(self) -> tuple[str, str] | None:
        """Index of pandas that is a range but not 0, 1, 2..., as text, and its name.

        Such an index is no column.
        """
        for entry in self._pandas_index:
            if isinstance(entry, dict) and entry.get("kind") == "range":
                start, stop, step = (entry.get(key) for key in ("start", "stop", "step"))
                if self.num_rows and (start != 0 or step != 1):
                    return f"{start}:{stop}:{step}", str(entry.get("name") or "")
        return None

    @property
    def _pandas_index(self) -> list[Any]:
        try:
            metadata = self._file.schema_arrow.pandas_metadata or {}
        except (ValueError, KeyError, AttributeError):  # not what pandas writes
            return []
        index = metadata.get("index_columns") if isinstance(metadata, dict) else None
        return index if isinstance(index, list) else []

    # ---- reading -----------------------------------------------------------

    def chunks(
        self, fields: Sequence[Field], progress: ProgressFn | None = None, skip: int = 0
    ) -> Iterator[list[Array]]:
        """Yield arrays of each field, some hundred thousand rows at a time.

        Args:
            fields: columns to read, and their types.
            progress: called with (bytes done, bytes in all).
            skip: number of chunks to leave out at the beginning.

        Raises:
            InputError: a column of another type, or the first bad value with its row and column.
        """
        import pyarrow as pa

        for field in fields:
            self._check_type(field)
        names = [self._name(f.column) for f in fields]
        row = 0
        try:
            widths = [self._width(field) for field in fields]
            # Fewer rows of many columns, so that a chunk is some megabytes in any case.
            items = sum(1 if width is None else width for width in widths)
            rows = max(1, min(_ROWS, 8 * _ROWS // max(items, 1)))
            batches = self._file.iter_batches(rows, columns=list(dict.fromkeys(names)))
            for number, batch in enumerate(batches):
                if number < skip:
                    row += batch.num_rows
                    continue
                arrays = [
                    self._array(self._column(batch, field.column), field, width, row)
                    for field, width in zip(fields, widths, strict=True)
                ]
                row += batch.num_rows
                if progress is not None and self.num_rows:
                    progress(self.size * row // self.num_rows, self.size)
                yield arrays
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(self.path, f"cannot be read: {error}", line=row, unit="row") from None
        except OSError as error:
            raise reading_error(self.path, error) from None

    def _width(self, field: Field) -> int | None:
        """Return items per row of a column of lists, by its first row; None for a plain column."""
        import pyarrow.types as pat

        kind = self._types[field.column]
        if not _is_list(kind):
            return None
        if pat.is_fixed_size_list(kind):
            return int(kind.list_size)
        for batch in self._file.iter_batches(1, columns=[self._name(field.column)]):
            first = self._column(batch, field.column)[0].as_py()
            if first is None:
                raise self._bad(field, f"the {field.role} is missing (null)", 0)
            return len(first)
        return 0

    def _name(self, column: int) -> str:
        return (self.names or [])[column]

    def _column(self, batch: Any, column: int) -> Any:
        """Return a column of the file from a batch, in which others may have the same name."""
        name = self._name(column)
        before = (self.names or [])[:column].count(name)
        places = [
            place for place, column_name in enumerate(batch.schema.names) if column_name == name
        ]
        return batch.column(places[before])

    def _bad(self, field: Field, problem: str, row: int | None = None) -> InputError:
        return InputError(
            self.path,
            problem,
            line=None if row is None else row + 1,
            column=field.column + 1,
            column_name=self.column_name(field.column),
            unit="row",
        )

    # ---- types ---------------------------------------------------------------

    def _check_type(self, field: Field) -> None:
        import pyarrow.types as pat

        kind = self._types[field.column]
        if field.lists:
            kind = _item_type(kind)
        if pat.is_integer(kind) or (field.logical and pat.is_boolean(kind)):
            if field.unit is not None and not field.declared:
                self._check_unit(field, kind)
            return
        if field.is_time and field.dtype == "int64" and _unit(kind) is not None:
            self._check_unit(field, kind)
            return
        expected = "an integer" if field.dtype == "int64" else "a number"
        if field.dtype != "int64" and pat.is_floating(kind):
            return
        example = self._first_value(field.column)
        problem = (
            f"the {field.role} is of type {self._types[field.column]}, not {expected}{example}"
        )
        raise self._bad(field, problem + _advice(kind, field))

    def _check_unit(self, field: Field, kind: Any) -> None:
        """Refuse times with a unit after times without one, and the reverse."""
        before = "plain numbers" if field.unit is None else f"in {field.unit!r}"
        if (_unit(kind) is None) != (field.unit is None):
            problem = (
                f"the {field.role} is of type {kind}, but those of the file before are {before}; "
                "--time-unit (time_unit=) says what plain numbers count"
            )
            raise self._bad(field, problem)

    def _first_value(self, column: int) -> str:
        for batch in self._file.iter_batches(1, columns=[self._name(column)]):
            try:
                text = repr(self._column(batch, column)[0].as_py())
            except (ValueError, OverflowError, ImportError):  # Python's types are narrower
                return ""
            return f" (the first one is {text if len(text) < 80 else text[:80] + '...'})"
        return ""

    # ---- values --------------------------------------------------------------

    def _array(self, column: Any, field: Field, width: int | None, first_row: int) -> Array:
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise self._bad(field, f"the {field.role} is missing (null){_FILL}", first_row + row)
        if field.unit is not None:
            return self._times(column, field, first_row)
        rows, items = len(column), column
        if width is not None:
            items = column.flatten()
            if items.null_count or (np.asarray(column.value_lengths()) != width).any():
                self._refuse_lists(field, column, width, first_row)
        array = items.to_numpy(zero_copy_only=False)
        self._check_values(field, array, width or 1, first_row)
        with np.errstate(over="ignore"):
            numbers = np.asarray(array, np.dtype(field.dtype))
        if array.dtype == np.float64 and field.dtype == "float32":
            self._note_rounding(field.column, array, numbers)
        return numbers if width is None else numbers.reshape(rows, width)

    def _times(self, column: Any, field: Field, first_row: int) -> Array:
        import pyarrow as pa
        import pyarrow.types as pat

        unit = _unit(column.type)
        if pat.is_date32(column.type):
            column = column.cast(pa.int32())
        elif unit is not None:
            column = column.cast(pa.int64())
        counts = column.to_numpy(zero_copy_only=False)
        self._check_values(field, counts, 1, first_row)
        counts = counts.astype(np.int64, copy=False)
        assert field.unit is not None
        times, wrong = convert_times(counts, unit or field.unit, field.unit)
        if wrong is not None:
            problem = f"the {field.role} {counts[wrong]} {unit} cannot be given in {field.unit!r}"
            raise self._bad(field, f"{problem}: --time-unit (time_unit=)", first_row + wrong)
        stamps = times.view(f"datetime64[{field.unit}]")
        missing = np.isnat(stamps)
        if missing.any():
            at = int(missing.argmax())
            raise self._bad(
                field, f"the {field.role} {counts[at]} is no time (NaT)", first_row + at
            )
        return stamps

    def _note_rounding(self, column: int, array: Array, numbers: Array) -> None:
        if column not in self.rounded and ((numbers != array) & ~np.isnan(array)).any():
            self.rounded.add(column)

    def _refuse_lists(self, field: Field, lists: Any, width: int, first_row: int) -> NoReturn:
        for number, values in enumerate(lists.to_pylist()):
            if None in values:
                raise self._bad(
                    field, f"the {field.role} is missing (null){_FILL}", first_row + number
                )
            if len(values) != width:
                problem = (
                    f"the {field.role} has {len(values)} values where the first row has {width}"
                )
                raise self._bad(field, problem, first_row + number)
        raise self._bad(field, "cannot be read as rows of equal length", first_row)

    def _check_values(self, field: Field, array: Array, width: int, first_row: int) -> None:
        if array.size == 0:
            return

        def bad(at: int, problem: str) -> InputError:
            return self._bad(field, problem, first_row + at // width)

        if field.finite and array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                fits = np.isfinite(array.astype(field.dtype, copy=False))
            if not fits.all():
                at = int(np.argmin(fits))
                raise bad(at, f"the {field.role} {array[at]} is not a finite {field.dtype}")
        if field.dtype == "int64":
            if array.dtype == np.uint64 and array.max() > INT64_MAX:
                at = int(np.argmax(array > INT64_MAX))
                raise bad(at, f"the {field.role} {array[at]} does not fit in 64 bits")
        elif array.dtype.kind != "b":
            changed = first_changed(array, field.stored)
            if changed is not None:
                raise bad(changed, explain_change(field, array[changed]))
        if field.is_id:
            fault = first_bad_id(field, array)
            if fault is not None:
                raise bad(*fault)
        if field.minimum is not None and array.min() < field.minimum:
            at = int(np.argmax(array < field.minimum))
            raise bad(at, f"the {field.role} {array[at]} is below {field.minimum:g}")


#: Advice about null values: pandas writes NaN as null.
_FILL = "; fill it or leave the row out (pandas writes NaN so)"


def _is_list(kind: Any) -> bool:
    import pyarrow.types as pat

    return bool(pat.is_fixed_size_list(kind) or pat.is_list(kind) or pat.is_large_list(kind))


def _item_type(kind: Any) -> Any:
    return kind.value_type if _is_list(kind) else kind


def _unit(kind: Any) -> str | None:
    """Return the unit of a type of timestamps or dates; None for another type."""
    import pyarrow.types as pat

    if pat.is_timestamp(kind):
        return str(kind.unit)
    if pat.is_date32(kind):
        return "D"
    return "ms" if pat.is_date64(kind) else None


def _advice(kind: Any, field: Field) -> str:
    """Return advice on converting a column of another type to numbers."""
    import pyarrow.types as pat

    if field.hint:
        return field.hint
    if pat.is_string(kind) or pat.is_large_string(kind) or pat.is_dictionary(kind):
        if field.is_id:
            return MAP_NAMES
        return "; write it as numbers, categories by their codes"
    if pat.is_floating(kind):
        return (
            "; pandas makes floats of integers if one is missing: fill it or leave the row out, "
            "then astype('int64')"
        )
    if pat.is_temporal(kind):
        return "; cast it to int64 in a unit of your choice"
    if pat.is_decimal(kind):
        return "; cast it to int64" if field.is_id else "; cast it to int64 or float64"
    return ""
