"""Columns of a table as what they are used for: keys, times, numbers; the errors name file and row.

A table of text has strings alone. What they stand for is decided by the first rows of a column, and
all others have to fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.dialect import LOGICAL, NUMBER
from aethergraph._checks.exact import LARGEST_ID, describe_change, first_changed
from aethergraph._checks.options import shown
from aethergraph._checks.times import convert_times, unit_of
from aethergraph.convert.readers.base import InputError
from aethergraph.convert.typed.parts import WHOLE
from aethergraph.convert.typed.sources import Batch, Table, failing_rows
from aethergraph.errors import InvalidArgumentError
from aethergraph.ids.columns import KeyColumns

__all__ = ["ColumnReader", "TimeForm", "odd_texts", "share_times", "zone_of"]

Array = NDArray[Any]
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
#: Also integers that a program has written as floats.
_WHOLE_NUMBER = re.compile(r"([+-]?[0-9]+)\.?0*")
_SAMPLE = 10_000  # values of a text column that decide what it holds
_FILL = "; leave the row out, or fill it"


@dataclass(frozen=True)
class TimeForm:
    """Form of a column of times.

    Attributes:
        unit: unit of timestamps and dates; None: plain numbers.
        zone: time zone that the column names, or None.
        is_float: plain numbers with fractions.
        where: table and column, for messages.
    """

    unit: str | None
    zone: str | None
    is_float: bool
    where: str


def share_times(forms: Sequence[TimeForm], time_unit: str | None) -> str | None:
    """Return the unit of all times of a graph; None if they are plain numbers.

    Args:
        forms: all columns of times.
        time_unit: unit that the schema asks for; integers count it.

    Raises:
        InvalidArgumentError: some have a unit or a time zone, and others do not; names two.
    """
    stamps = [form for form in forms if form.unit is not None]
    plain = [form for form in forms if form.unit is None]
    if time_unit is not None and any(form.is_float for form in plain):
        where = next(form.where for form in plain if form.is_float)
        raise InvalidArgumentError(
            f"{where} holds times with fractions, which time_unit = {time_unit!r} cannot count"
        )
    if stamps and plain and time_unit is None:
        raise InvalidArgumentError(
            f"{plain[0].where} holds plain numbers as times, but {stamps[0].where} is in "
            f"{stamps[0].unit!r}: time_unit says what the numbers count"
        )
    zones = [form for form in stamps if form.zone is not None]
    bare = [form for form in stamps if form.zone is None and form.unit != "D"]
    if zones and bare:
        raise InvalidArgumentError(
            f"{zones[0].where} has the time zone {zones[0].zone}, but {bare[0].where} has none: "
            "its times could be of any; give both with a zone, or both without"
        )
    if time_unit is not None or not stamps:
        return time_unit
    return unit_of(np.result_type(*(f"datetime64[{form.unit}]" for form in stamps)))


def zone_of(forms: Sequence[TimeForm]) -> str | None:
    """Return the time zone that times are kept in, "UTC" if the columns name one."""
    return "UTC" if any(form.zone is not None for form in forms) else None


class ColumnReader:
    """Reader of the columns of one table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._text: dict[str, str] = {}

    @property
    def is_text(self) -> bool:
        """True if the values are text, of which the first rows tell what it holds."""
        return self._table.is_text

    @property
    def file(self) -> str:
        """Name of the first file, for messages."""
        return self._table.files[0]

    def type_of(self, column: str) -> Any:
        """Return the type of a column, of Arrow."""
        return self._table.types[column]

    def where(self, column: str) -> str:
        """Return table and column for messages."""
        return f"{self._table.name}, column {column!r}"

    # ---- text ------------------------------------------------------------------------------

    def kind_of_text(self, column: str) -> str:
        """Return what a column holds by the first values.

        "int" fit in int64, "uint" in uint64 alone; "mixed" are integers that fit in 64 bits, but
        not in one type. "float", "bool", "time", "zoned" or "str" are others.
        """
        if column not in self._text:
            values: list[str] = []
            for batch in self._table.batches([column]):
                values += batch.rows.column(0).slice(0, _SAMPLE).drop_null().to_pylist()
                if values:
                    break
            self._text[column] = _kind_of([value.strip(" \t") for value in values])
        return self._text[column]

    def first_with_blanks(self, column: str) -> str | None:
        """Return the first text that begins or ends with a blank, among the first rows."""
        import pyarrow.compute as pc
        import pyarrow.types as pat

        for batch in self._table.batches([column]):
            texts = batch.rows.column(0).slice(0, _SAMPLE)
            if not (pat.is_string(texts.type) or pat.is_large_string(texts.type)):
                return None
            padded_texts = texts.filter(pc.not_equal(pc.utf8_trim_whitespace(texts), texts))
            return str(padded_texts[0]) if len(padded_texts) else None
        return None

    def _cast(self, batch: Batch, column: str, kind: Any, role: str) -> Any:
        import pyarrow.types as pat

        array = batch.rows.column(column)

        def describe(text: str) -> str:
            if pat.is_integer(kind) and re.fullmatch(r"-?[0-9]+", text):
                wider = "uint64" if _kind_of([text]) == "uint" else "str"
                advice = f": keys of type {wider} hold it" if role == "key" else ""
                return f"the {role} {text!r} does not fit in {kind}{advice}"
            advice = _advice_of_fraction(text) if pat.is_integer(kind) and role != "key" else ""
            return f"the {role} {text!r} is not {_plain(kind)}{advice}"

        numbers = _cast(batch, array, kind, describe)
        if pat.is_float64(kind):
            _refuse_rounded(batch, column, array, numbers, f"the {role} ")
        return numbers

    # ---- keys ------------------------------------------------------------------------------

    def key_types(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the types of the columns of a key.

        Raises:
            InputError: a column cannot be a key.
        """
        return tuple(self._key_type(column) for column in columns)

    def _key_type(self, column: str) -> str:
        import pyarrow as pa
        import pyarrow.types as pat

        if self._table.is_text:
            text = self.kind_of_text(column)
            if text == "mixed":
                raise self._mixed(column, 'key_type = "str" keeps them as they are written')
            return {"int": "int64", "uint": "uint64"}.get(text, "str")
        kind = self._table.types[column]
        if pat.is_dictionary(kind):
            kind = kind.value_type
        if pat.is_integer(kind):
            return "uint64" if kind == pa.uint64() else "int64"
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if pat.is_fixed_size_binary(kind) and kind.byte_width == 16:
            return "uuid"
        if pat.is_binary(kind) or pat.is_large_binary(kind) or pat.is_fixed_size_binary(kind):
            return "bytes"
        if pat.is_string(kind) or pat.is_large_string(kind) or str(kind) == "string_view":
            return "str"
        if pat.is_null(kind):
            raise InputError(self._table.files[0], f"column {column!r} is a key, but has no values")
        advice = "cast it to integers or strings"
        if pat.is_floating(kind):
            advice = (
                "pandas makes floats of integers if one is missing; cast it to a nullable integer "
                "('Int64')"
            )
        raise InputError(
            self._table.files[0],
            f"column {column!r} is a key of type {self._table.types[column]}: {advice}",
        )

    def _mixed(self, column: str, advice: str) -> InputError:
        """Return the error about the first integer of 2**63 or more beside others below 0."""
        batch, row, text = next(
            (batch, row, text)
            for batch in self._table.batches([column])
            for row, text in enumerate(batch.rows.column(0).to_pylist())
            if text and _kind_of([text]) == "uint"
        )
        problem = f"{text} is 2**63 or more, and others are below 0: no type of 64 bits has both"
        return batch.bad(f"{problem}; {advice}", row, column)

    def keys(
        self, batch: Batch, columns: Sequence[str], keys: KeyColumns
    ) -> tuple[native.KeyBlock, NDArray[np.bool_], NDArray[np.bool_] | None]:
        """Return the keys of the rows in which no column is null, and the mask of these rows.

        The third value marks those keys that none of this type can equal, if there are any.

        Raises:
            InputError: a column has another type than the key.
        """
        arrays = []
        for column, kind in zip(columns, keys.types, strict=True):
            read_key = self._text_key if self._table.is_text else self._own_key
            arrays.append(read_key(batch, column, kind))
        known = np.ones(batch.rows.num_rows, np.bool_)
        if any(array.null_count for array in arrays):
            for array in arrays:
                known &= array.is_valid().to_numpy(zero_copy_only=False)
            arrays = [array.filter(_mask(known)) for array in arrays]
        try:
            block, impossible = keys.encode(arrays[0] if len(arrays) == 1 else arrays)
        except InvalidArgumentError as error:
            names = ", ".join(columns)
            if error.position is not None:
                row = int(np.flatnonzero(known)[error.position])
                problem = re.sub(r"^key [0-9]+", "the key", str(error))  # its number in the batch
                if len(columns) > 1:
                    raise batch.bad(f"the key ({names}): {problem}", row) from None
                raise batch.bad(problem, row, columns[0]) from None
            raise InputError(
                batch.path, f"column {names!r}: {error}; both tables need keys of one type"
            ) from None
        return block, known, impossible

    def _own_key(self, batch: Batch, column: str, kind: str) -> Any:
        """Return a column of keys; whole numbers with missing ones are floats in pandas."""
        import pyarrow as pa
        import pyarrow.types as pat

        array = batch.rows.column(column)
        if pat.is_null(array.type):
            types = {"str": pa.string(), "bytes": pa.binary(), "uuid": pa.binary(16)}
            return pa.nulls(len(array), types[kind] if kind in types else getattr(pa, kind)())
        if not (pat.is_floating(array.type) and kind in ("int64", "uint64")):
            return array
        numbers = array.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
        known = ~np.isnan(numbers)
        with np.errstate(invalid="ignore"):
            wrong = known & ((np.trunc(numbers) != numbers) | (np.abs(numbers) >= WHOLE))
        if wrong.any():
            row = int(wrong.argmax())
            raise batch.bad(f"the key {numbers[row]} is not an integer below 2**53", wrong, column)
        integers = np.where(known, numbers, 0).astype(np.int64)
        return pa.array(integers, mask=~known)

    def _text_key(self, batch: Batch, column: str, kind: str) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if kind in ("int64", "uint64"):
            texts = _trimmed(batch.rows.column(column))
            zero = pc.and_(pc.starts_with(texts, "0"), pc.not_equal(texts, "0"))
            named = zero.fill_null(False).to_numpy(zero_copy_only=False)
            if named.any():
                raise batch.bad(
                    f"the key {texts[int(named.argmax())].as_py()!r} begins with a zero, so it is "
                    'a name and no number: key_type = "str" keeps such keys as they are',
                    named,
                    column,
                )
            return self._cast(batch, column, getattr(pa, kind)(), "key")
        array = batch.rows.column(column)
        return array.cast(pa.binary()) if kind == "bytes" else array

    # ---- times -----------------------------------------------------------------------------

    def time_form(self, column: str) -> TimeForm:
        """Return the form of a column of times.

        Raises:
            InputError: it cannot be one.
        """
        import pyarrow.types as pat

        where, kind = self.where(column), self._table.types[column]
        if pat.is_string(kind) or pat.is_large_string(kind):
            text = self.kind_of_text(column)
            forms = {
                "int": TimeForm(None, None, False, where),
                "uint": TimeForm(None, None, False, where),
                "float": TimeForm(None, None, True, where),
                "time": TimeForm("us", None, False, where),
                "zoned": TimeForm("us", "UTC", False, where),
            }
            if text in forms:
                return forms[text]
        elif pat.is_timestamp(kind):
            return TimeForm(str(kind.unit), kind.tz, False, where)
        elif pat.is_date(kind):
            return TimeForm("D" if pat.is_date32(kind) else "ms", None, False, where)
        elif pat.is_integer(kind) or pat.is_floating(kind):
            return TimeForm(None, None, bool(pat.is_floating(kind)), where)
        self._refuse_odd_time(column)
        raise InputError(
            self._table.files[0], f"column {column!r} of type {kind} does not hold times"
        )

    def _refuse_odd_time(self, column: str) -> None:
        """Raise InputError for the first text that is no time, or none as the first one is."""
        for batch in self._table.batches([column]):
            array = batch.rows.column(0).slice(0, _SAMPLE)
            first = ""
            for row, value in enumerate(array.to_pylist()):
                if not isinstance(value, str):
                    continue
                kind = _kind_of([value])
                if kind in ("str", "bool"):
                    advice = ", such as 2024-05-01 12:00:00 or 2024-05-01T12:00:00Z"
                    raise batch.bad(f"{value!r} is no time{advice}", row, column)
                first = first or value
                if kind != _kind_of([first]):
                    raise batch.bad(f"{value!r} is not a time as {first!r} is", row, column)
            return

    def times(self, batch: Batch, column: str, unit: str | None) -> Array:
        """Return times as datetime64 of a unit, or, without one, as int64 or float64.

        Raises:
            InputError: a time is missing, is none, or cannot be given in the unit.
        """
        import pyarrow as pa

        form = self.time_form(column)
        array = batch.rows.column(column)
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            kind = pa.float64() if form.is_float else pa.int64()
            if form.unit is not None:
                kind = pa.timestamp("us", form.zone)
            array = self._cast(batch, column, kind, "time")
        self._refuse_null(batch, array, column, "time")
        if form.unit is None:
            numbers = array.to_numpy(zero_copy_only=False)
            if form.is_float:
                wrong = ~np.isfinite(numbers)
                if wrong.any():
                    at = int(wrong.argmax())
                    value = "NaN" if np.isnan(numbers[at]) else f"{numbers[at]}, not finite"
                    raise batch.bad(f"the time is {value}", wrong, column)
                return np.asarray(numbers, np.float64)
            counts = self._as_int64(batch, numbers, column)
            return counts if unit is None else self._stamps(batch, counts, column, unit)
        assert unit is not None
        column_unit = form.unit
        if pa.types.is_date32(array.type):
            array = array.cast(pa.int32())
        counts = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
        times, wrong = convert_times(counts, form.unit, unit)
        if wrong is not None:
            raise batch.bad(
                f"the time {array[wrong].as_py() if form.unit != 'ns' else counts[wrong]} cannot "
                f"be given in {unit!r} (time_unit)", wrong, column,
                lambda begin, end: (
                    convert_times(counts[begin:end], column_unit, unit)[1] is not None
                ),
            )  # fmt: skip
        return self._stamps(batch, times, column, unit)

    def _stamps(self, batch: Batch, counts: Array, column: str, unit: str) -> Array:
        """Return counts of a unit as times, all of which are some."""
        times = counts.view(f"datetime64[{unit}]")
        if np.isnat(times).any():
            raise batch.bad("the time is none (NaT)", np.isnat(times), column)
        return times

    def _as_int64(self, batch: Batch, numbers: Array, column: str) -> NDArray[np.int64]:
        if numbers.dtype.kind == "f":
            wrong = ~((numbers == np.trunc(numbers)) & (np.abs(numbers) < 2.0**63))
            if wrong.any():
                row = int(wrong.argmax())
                raise batch.bad(f"{numbers[row]} is no integer of 64 bits", wrong, column)
        elif numbers.dtype.kind not in "iub":
            raise batch.bad(f"{shown(numbers[0])} is no number", 0, column)
        if numbers.dtype == np.uint64 and (numbers > 2**63 - 1).any():
            wrong = numbers > 2**63 - 1
            row = int(wrong.argmax())
            raise batch.bad(f"{numbers[row]} does not fit in 64 bits with a sign", wrong, column)
        return numbers.astype(np.int64)

    def _refuse_null(self, batch: Batch, array: Any, column: str, role: str) -> None:
        if array.null_count:
            missing = array.is_null().to_numpy(zero_copy_only=False)
            raise batch.bad(f"the {role} is missing (null){_FILL}", missing, column)

    # ---- numbers -----------------------------------------------------------------------------

    def number_type(self, column: str, role: str) -> str:
        """Return the dtype that the numbers of a column are kept in: int64, float32 or float64.

        Raises:
            InputError: it does not hold numbers.
        """
        import pyarrow.types as pat

        kind = self._table.types[column]
        if self._table.is_text:
            text = self.kind_of_text(column)
            if text == "mixed":
                raise self._mixed(column, 'a column of kind "text" keeps them as they are written')
            if text in ("int", "uint", "bool"):
                return "int64"
            if text == "float":
                return "float32"
        elif pat.is_integer(kind) or pat.is_boolean(kind):
            return "int64"
        elif pat.is_float64(kind) or pat.is_decimal(kind):
            return "float64"
        elif pat.is_floating(kind):
            return "float32"
        times = ", times as a type of times or as numbers" if role == "feature" else ""
        raise InputError(
            self._table.files[0],
            f"column {column!r} is of type {kind}: a {role} is a number; write categories as "
            f"their codes{times}",
        )

    def numbers(
        self, batch: Batch, column: str, dtype: str, role: str, fill: float | None = None
    ) -> Array:
        """Return numbers in a dtype; booleans as 0 and 1; ``fill`` stands for missing ones.

        Raises:
            InputError: a number is missing, is none, or the dtype would change it.
        """
        import pyarrow as pa
        import pyarrow.types as pat

        array = batch.rows.column(column)
        if self._table.is_text:
            kind = pa.int64() if dtype == "int64" else pa.float64()
            kind = pa.bool_() if self.kind_of_text(column) == "bool" else kind
            array = self._cast(batch, column, kind, role)
        if pat.is_boolean(array.type):
            array = array.cast(pa.uint8())
        elif pat.is_decimal(array.type):
            array = _as_floats(batch, array, column, f"the {role}")
        unknown = None
        if array.null_count:
            if fill is None:
                self._refuse_null(batch, array, column, role)
            unknown = array.is_null().to_numpy(zero_copy_only=False)
            array = array.fill_null(0)
        values = array.to_numpy(zero_copy_only=False)
        if dtype == "int64":
            numbers = self._as_int64(batch, values, column)
        else:
            changed = first_changed(values, dtype)
            if changed is not None:
                raise batch.bad(
                    describe_change(values[changed], dtype, f"the {role} "), changed, column,
                    lambda begin, end: first_changed(values[begin:end], dtype) is not None,
                )  # fmt: skip
            numbers = values.astype(dtype)
        if unknown is not None and fill is not None:
            numbers = numbers.copy()
            numbers[unknown] = fill
        return numbers

    def stored_number(self, column: str) -> str:
        """Return the dtype that a column of numbers is kept in: its own.

        Of text int64, uint64 where it has numbers that need it, or float64.

        Raises:
            InputError: it does not hold numbers.
        """
        import pyarrow.types as pat

        kind = self._table.types[column]
        if not self._table.is_text and (pat.is_integer(kind) or pat.is_floating(kind)):
            return str(np.dtype(kind.to_pandas_dtype()))
        number_type = self.number_type(column, "value of kind 'number'")
        if self._table.is_text and self.kind_of_text(column) == "uint":
            return "uint64"
        return "int64" if number_type == "int64" else "float64"

    def stored(self, batch: Batch, column: str, dtype: str) -> Array:
        """Return numbers or booleans in a dtype, exactly; 0, False or NaN where they are null.

        Raises:
            InputError: a value does not fit into the dtype.
        """
        import pyarrow as pa
        import pyarrow.types as pat

        array = batch.rows.column(column)
        if pat.is_decimal(array.type):
            array = _as_floats(batch, array, column, "the value")
        elif pat.is_floating(array.type) and dtype == "bool":
            array = _cast(batch, array, pa.uint8(), lambda text: f"{text!r} is not true or false")
        kind = pa.from_numpy_dtype(np.dtype(dtype))
        if pat.is_integer(array.type) and dtype == "bool":
            wrong = array.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
            bad = np.flatnonzero((wrong != 0) & (wrong != 1))
            if len(bad):
                at = int(bad[0])
                raise batch.bad(f"{array[at].as_py()} is not true or false (1 or 0)", at, column)

        def describe(text: str) -> str:
            advice = _advice_of_fraction(text) if self.is_text and dtype == "int64" else ""
            return f"column {column!r}: {text!r} is no {dtype}{advice}"

        cast = _cast(batch, array, kind, describe)
        if self.is_text and dtype == "float64":
            _refuse_rounded(batch, column, array, cast, "")
        zero = False if dtype == "bool" else 0
        values: Array = cast.fill_null(zero).to_numpy(zero_copy_only=False)
        return values

    def check_feature(self, column: str) -> None:
        """Check that a column can be a feature.

        Raises:
            InputError: it holds neither numbers nor times.
        """
        if not self._is_time(column):
            self.number_type(column, "feature")

    def feature(self, batch: Batch, column: str, fill: float | None) -> Array:
        """Return a feature as float32: a number, 0 or 1, or days since 1970.

        NaN is a missing one, as it is in pandas: some sources have no other word for it.
        """
        self.check_feature(column)
        if not self._is_time(column):
            values = self.numbers(batch, column, "float32", "feature", fill)
            missing = np.isnan(values)
            if not missing.any():
                return values
            if fill is None:
                raise batch.bad(f"the feature is missing (NaN){_FILL}", missing, column)
            return np.where(missing, np.float32(fill), values)
        array = batch.rows.column(column)
        if array.null_count and fill is None:
            self._refuse_null(batch, array, column, "feature")
        known = array.is_valid().to_numpy(zero_copy_only=False)
        out = np.full(batch.rows.num_rows, 0 if fill is None else fill, np.float32)
        if known.any():
            some = batch if known.all() else batch.only(known)
            times = self.times(some, column, self.time_form(column).unit)
            day = np.timedelta64(1, "D")
            out[known] = (times - np.datetime64(0, "D")) / day
        return out

    def _is_time(self, column: str) -> bool:
        import pyarrow.types as pat

        kind = self._table.types[column]
        if self._table.is_text:
            return self.kind_of_text(column) in ("time", "zoned")
        return bool(pat.is_timestamp(kind) or pat.is_date(kind))


def odd_texts(array: Any, kind: Any) -> NDArray[np.bool_]:
    """Return which texts of a column cannot be given as a type of Arrow."""
    return failing_rows(len(array), _casting_fails(array, kind))


def _casting_fails(array: Any, kind: Any) -> Callable[[int, int], bool]:
    """Return a function that tells whether a range of a column cannot be given as a type."""
    import pyarrow as pa

    def fails(begin: int, end: int) -> bool:
        try:
            _as_type(array.slice(begin, end - begin), kind)
        except pa.ArrowInvalid:
            return True
        return False

    return fails


def _as_type(array: Any, kind: Any) -> Any:
    """Return a column as a type of Arrow, which reads integers of texts in base 16, too."""
    import pyarrow as pa

    texts = _trimmed(array)
    numbers = texts.cast(kind)
    if texts.type == pa.string() and pa.types.is_integer(kind) and _may_hold(texts, b"xX"):
        texts.cast(pa.float64())  # fails
    return numbers


def _trimmed(array: Any) -> Any:
    """Return texts without the blanks around them; other columns as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if array.type != pa.string() or not _may_hold(array, b" \t"):
        return array
    return pc.utf8_trim(array, " \t")


def _may_hold(texts: Any, characters: bytes) -> bool:
    """Return whether some of the texts, or others of their buffer, hold one of some characters."""
    buffer = texts.buffers()[2]
    content = b"" if buffer is None else buffer.to_pybytes()
    return any(content.find(character) >= 0 for character in characters)


def _mask(known: NDArray[np.bool_]) -> Any:
    import pyarrow as pa

    return pa.array(known)


def _kind_of(values: Sequence[str]) -> str:
    if not values:
        return "float"
    integers = [text for text in values if _INTEGER.fullmatch(text)]
    if len(integers) == len(values):
        return _kind_of_integers(integers)
    if set(values) <= LOGICAL:
        return "bool"
    if all(map(NUMBER.fullmatch, values)):
        # Digits alone that are no canonical integers (007) are names, as those beyond 64 bits are.
        named = any(re.fullmatch(r"[+-]?0[0-9]+", text) for text in values)
        return "str" if named or _kind_of_integers(integers) == "str" else "float"
    for kind, zone in (("time", None), ("zoned", "UTC")):
        if _castable(values, zone):
            return kind
    return "str"


def _kind_of_integers(texts: Sequence[str]) -> str:
    """Return the kind of a column of canonical integers, "str" of those beyond 64 bits."""
    if any(len(text) > 20 for text in texts):  # Python reads some thousand digits at most
        return "str"
    low, high = (end(map(int, texts), default=0) for end in (min, max))
    if low < -(2**63) or high >= 2**64:
        return "str"
    if high < 2**63:
        return "int"
    return "mixed" if low < 0 else "uint"


def _castable(values: Sequence[str], zone: str | None) -> bool:
    import pyarrow as pa

    try:
        pa.array(values, pa.string()).cast(pa.timestamp("us", zone))
    except pa.ArrowInvalid:
        return False
    return True


def _as_floats(batch: Batch, array: Any, column: str, subject: str) -> Any:
    """Return decimals as float64, which rounds fractions, and must change nothing larger."""
    import pyarrow as pa

    floats = array.cast(pa.float64())
    sizes = np.abs(floats.fill_null(0).to_numpy(zero_copy_only=False))
    for row in map(int, np.flatnonzero(sizes >= WHOLE)):
        if array[row].as_py() != floats[row].as_py():
            problem = describe_change(array[row].as_py(), "float64", f"{subject} ")
            raise batch.bad(f"{problem}; cast it to an integer or a string", row, column)
    return floats


def _cast(batch: Batch, array: Any, kind: Any, describe: Callable[[str], str]) -> Any:
    """Cast a column; the error names the first row that cannot be."""
    import pyarrow as pa

    fails = _casting_fails(array, kind)
    try:
        return _as_type(array, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if isinstance(error, pa.ArrowNotImplementedError):
            raise InputError(batch.path, f"{describe('')}: {error}") from None
    low, high = 0, len(array)
    while high - low > 1:  # the first row that fails is in low .. high - 1
        middle = (low + high) // 2
        if fails(low, middle):
            high = middle
        else:
            low = middle
    raise batch.bad(describe(array[low].as_py()), low, None, fails)


def _refuse_rounded(batch: Batch, column: str, texts: Any, floats: Any, label: str) -> None:
    """Refuse texts of integers of 64 bits that float64 would change; fractions are rounded."""
    sizes = np.abs(floats.fill_null(0).to_numpy(zero_copy_only=False))
    changed = np.zeros(len(sizes), np.bool_)
    first = 0
    for row in map(int, np.flatnonzero((sizes >= WHOLE) & (sizes <= LARGEST_ID))):
        digits = _WHOLE_NUMBER.fullmatch(str(texts[row]).strip(" \t"))
        if digits is not None and int(digits[1]) != int(floats[row].as_py()):
            first = first or int(digits[1])
            changed[row] = True
    if first:
        raise batch.bad(describe_change(first, "float64", label), changed, column)


def _advice_of_fraction(text: str) -> str:
    """Return what to do about a number with a fraction below integers, by which text is judged."""
    if not re.fullmatch(r"[+-]?[0-9]*\.[0-9]*([eE][+-]?[0-9]+)?", text):
        return ""
    return (
        ", as the values above it are: write one of the first rows with a fraction (3.0 for 3), or "
        "give the table as Parquet"
    )


def _plain(kind: Any) -> str:
    import pyarrow.types as pat

    if pat.is_integer(kind):
        return "an integer"
    if pat.is_boolean(kind):
        return "true or false"
    return "a number" if pat.is_floating(kind) else "a time"
