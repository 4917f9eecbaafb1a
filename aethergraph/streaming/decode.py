"""From the bytes of records to columns: JSON, CSV, structs of numpy, Arrow; Avro is in avro.py.

A decoder takes payloads and returns a Table: a column for each field that is wanted, and the
payloads that it could not read. Values are not judged here. A column of dtype object holds Python's
values, None where there is none.

JSON and CSV are parsed by pyarrow, all payloads of a call at once, if it is installed and nothing
is wrong with any of them; else one by one, which tells the bad ones from the others.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.dialect import (
    BYTE_ORDER_MARK,
    INTEGER,
    LOGICAL,
    NUMBER,
    Head,
    explain_byte,
    explain_count,
    split_records,
)
from aethergraph._checks.exact import LARGEST_ID, MANTISSA, of_integers
from aethergraph._checks.optional import require
from aethergraph._checks.options import as_list, shown
from aethergraph.errors import AetherError, InvalidArgumentError

__all__ = [
    "ArrowDecoder",
    "CsvDecoder",
    "Decoder",
    "JsonDecoder",
    "StructDecoder",
    "Table",
    "arrow_columns",
    "arrow_row",
    "lacking",
    "no_field",
    "one_line",
]

Array: TypeAlias = NDArray[Any]
Payloads: TypeAlias = Sequence[bytes]

#: Lists and objects of a payload of JSON that is parsed with others. Python refuses deep ones, and
#: pyarrow takes them: what may be so deep is read one by one, wherever it stands.
_MANY = 500
#: One payload of so many is looked at for the types of fields.
_SAMPLED = 128
#: Characters of the names of fields in a message.
_NAMED = 200
#: What pyarrow raises of values that Python has not: times beyond the year 9999, texts that are no
#: UTF-8, time zones that are not installed.
_NO_VALUE = (ValueError, OverflowError, KeyError)


@dataclass
class Table:
    """Columns of payloads by field.

    Attributes:
        columns: values [n] or [n, ...] by field.
        rows: number of the payload of each row, int64 [n].
        bad: number of each payload that could not be read, and why.
    """

    columns: dict[str, Array]
    rows: NDArray[np.int64]
    bad: list[tuple[int, str]] = field(default_factory=list)


class Decoder:
    """Base of the decoders of formats that have one record to a payload.

    Attributes:
        texts: fields that are texts, whatever they look like.
    """

    texts: frozenset[str] = frozenset()
    #: The format says of each value whether it is an integer: none is guessed.
    is_typed = False

    def decode(
        self, payloads: Payloads, fields: Sequence[str], numbers: Collection[str] = ()
    ) -> Table:
        """Return the fields of payloads as columns.

        Args:
            payloads: the records.
            fields: fields to read.
            numbers: those of them in which 1 and 1.0 are the same.
        """
        if payloads:
            columns = self._decode_all(payloads, fields, numbers)
            if columns is not None and (
                self.is_typed
                or not any(_is_blurred(columns[name], name in numbers) for name in columns)
            ):
                return Table(columns, np.arange(len(payloads)))
        return self._decode_each(payloads, fields)

    def _decode_all(
        self, payloads: Payloads, fields: Sequence[str], numbers: Collection[str] = ()
    ) -> dict[str, Array] | None:
        """Return columns if nothing is wrong with any payload; None: look at each."""
        return None

    def _decode_one(self, payload: bytes) -> Mapping[str, Any]:
        """Return the fields of one payload; any exception says what is wrong with it."""
        raise NotImplementedError

    def _decode_each(self, payloads: Payloads, fields: Sequence[str]) -> Table:
        paths = [(name, name.split(".")) for name in fields]
        values: dict[str, list[Any]] = {name: [] for name in fields}
        rows: list[int] = []
        bad: list[tuple[int, str]] = []
        for number, payload in enumerate(payloads):
            try:
                record = self._decode_one(payload)
            except AetherError:
                raise
            except Exception as error:  # decoders raise many kinds
                bad.append((number, f"cannot be read: {one_line(error)}"))
                continue
            rows.append(number)
            for name, path in paths:
                value: Any = record
                for part in path:
                    value = value.get(part) if isinstance(value, Mapping) else None
                values[name].append(value)
        columns = {name: objects(items) for name, items in values.items()}
        return Table(columns, np.array(rows, np.int64), bad)


def _is_blurred(column: Array, is_number: bool) -> bool:
    """Return whether integers may have become numbers, beside others with a fraction.

    Args:
        column: the column.
        is_number: 1 and 1.0 are the same there: integers matter that float64 may have changed.
    """
    if column.dtype.kind != "f":
        return False
    if is_number:
        sizes = np.abs(column)
        return bool(((sizes >= 1 << MANTISSA["float64"]) & (sizes <= LARGEST_ID)).any())
    return bool((column == np.floor(column)).any())


def _is_text(content: bytes) -> bool:
    """Return whether all of it is UTF-8. pyarrow looks at the fields alone that are asked for."""
    try:
        return content.isascii() or bool(content.decode())
    except UnicodeDecodeError:
        return False


def one_line(error: BaseException) -> str:
    """Return what an exception says, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def no_field(name: str, known: Iterable[str], noun: str = "field") -> str:
    """Return that there is no field of a name, and which there are, those most like it first."""
    return _no_field(name, tuple(known), noun)


@lru_cache(maxsize=64)  # many records lack a field in one way, and to compare names takes long
def _no_field(name: str, known: tuple[str, ...], noun: str) -> str:
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names)
    text = ", ".join([*near, *(field for field in names if field not in near)])
    if len(text) > _NAMED:
        text = f"{text[:_NAMED]}..."
    return f"no {noun} {name!r}" + (f", but {text}" if names else "")


def lacking(payload: bytes | None, name: str) -> str:
    """Return that a JSON object has no field of a name; nothing if it has, or is none."""
    try:
        value = json.loads(payload or b"")
    except (ValueError, RecursionError):
        return ""
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return ""
        if part not in value:
            return no_field(part, value)
        value = value[part]
    return ""


def objects(items: Sequence[Any]) -> Array:
    """Return values as an array, of their dtype where all are integers, numbers or flags."""
    kinds = set(map(type, items))
    if kinds == {int}:
        return of_integers(items)
    if kinds in ({float}, {bool}):
        return np.array(items)
    array = np.empty(len(items), object)
    array[:] = items if not any(isinstance(item, list | tuple) for item in items) else None
    if len(items) and array[0] is None:
        for at, item in enumerate(items):
            array[at] = item
    return array


# ---- JSON ----------------------------------------------------------------------------------------


class JsonDecoder(Decoder):
    """Decoder of one JSON object to a payload; ``"a.b"`` is field b of the object a."""

    def _decode_all(
        self, payloads: Payloads, fields: Sequence[str], numbers: Collection[str] = ()
    ) -> dict[str, Array] | None:
        try:
            import pyarrow as pa
        except ImportError:
            return None
        # What begins and ends so is one object at least. So as many objects as payloads are one
        # object each.
        if not all(p[:1] == b"{" and p[-1:] == b"}" for p in payloads):
            return None
        if max(map(len, payloads)) > _MANY and any(
            p.count(b"[") + p.count(b"{") > _MANY for p in payloads
        ):
            return None
        text = b"\n".join(payloads)
        if not _is_text(text):
            return None
        # pyarrow is told the types. Where it guesses them, of fields that nobody wants as well, it
        # recurses for each level of a value, and makes a column of every name in any payload.
        types = self._types(payloads, fields)
        if types is None:
            return None
        table = _read_json(text, types)
        integer_fields = [name for name in fields if name in numbers and types[name] == pa.int64()]
        if table is None and integer_fields:  # few of them may have a fraction
            table = _read_json(text, {**types, **dict.fromkeys(integer_fields, pa.float64())})
        if table is None or table.num_rows != len(payloads):
            return None
        columns = {}
        for name in fields:
            column = _nested(table, name)
            if column is None or not _is_plain(column):
                return None
            columns[name] = arrow_column(column)
        return columns

    def _types(self, payloads: Payloads, fields: Sequence[str]) -> dict[str, Any] | None:
        """Return the types of Arrow that fields have in some payloads; None: there is no such."""
        sample = self._decode_each(payloads[::_SAMPLED], fields)
        if sample.bad:
            return None
        types = {name: _type_of(sample.columns[name].tolist()) for name in fields}
        return None if None in types.values() else types

    def _decode_one(self, payload: bytes) -> Mapping[str, Any]:
        record = json.loads(payload)
        if not isinstance(record, dict):
            raise ValueError(f"{shown(record)} is no object")
        return record


def _read_json(text: bytes, types: Mapping[str, Any]) -> Any:
    """Return fields of objects as a table of Arrow; None: they have not these types."""
    import pyarrow as pa
    import pyarrow.json as pajson

    # Blocks end at line ends, and a payload may have some in it.
    options = pajson.ReadOptions(use_threads=False, block_size=len(text) + 1)
    parsing = pajson.ParseOptions(
        newlines_in_values=True,
        explicit_schema=pa.schema(_members(types)),
        unexpected_field_behavior="ignore",
    )
    try:
        return pajson.read_json(pa.BufferReader(text), options, parsing)
    except (pa.ArrowException, UnicodeError):
        return None


def _type_of(values: Sequence[Any]) -> Any:
    """Return the type of Arrow that holds values, or lists of them; None: there is no such."""
    import pyarrow as pa

    kinds = set(map(type, values))
    if kinds == {list}:
        items = [item for value in values for item in value]
        inner = None if list in map(type, items) else _type_of(items)
        return None if inner is None else pa.list_(inner)
    if kinds == {int, float}:
        return pa.float64()
    known = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    return known.get(kinds.pop()) if len(kinds) == 1 else None


def _members(types: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return fields and their types, ``"a.b"`` as a field of the structure a."""
    import pyarrow as pa

    members: dict[str, Any] = {}
    for name, kind in types.items():
        head, dot, tail = name.partition(".")
        if dot:
            members.setdefault(head, {})[tail] = kind
        else:
            members[head] = kind
    return [
        (head, pa.struct(_members(kind)) if isinstance(kind, dict) else kind)
        for head, kind in members.items()
    ]


def _nested(table: Any, name: str) -> Any:
    """Return a column of a table, or of a structure in it; None if it is not there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    head, *tail = name.split(".")
    if head not in table.column_names:
        return None
    column = table.column(head)
    for part in tail:
        if not pa.types.is_struct(column.type) or column.null_count:
            return None
        if column.type.get_field_index(part) < 0:
            return None
        column = pc.struct_field(column, part)
    return column


def _is_plain(column: Any) -> bool:
    """Return whether a column has no nulls, and integers, numbers, flags or rows of them."""
    import pyarrow.types as pat

    kind = column.type
    if pat.is_list(kind):
        kind = kind.value_type
    plain = pat.is_int64(kind) or pat.is_float64(kind) or pat.is_boolean(kind)
    return bool(column.null_count == 0 and (plain or pat.is_string(kind)))


# ---- CSV -----------------------------------------------------------------------------------------


class CsvDecoder(Decoder):
    """Decoder of one line to a payload.

    Args:
        names: names of the columns; None: the first line of a file has them.
        delimiter: one ASCII character between fields; None: that of the first line, or a comma
            where ``names`` are given.
    """

    def __init__(self, names: Sequence[str] | None, delimiter: str | None = None) -> None:
        self.names = None if names is None else as_list(names, "columns", "names")
        for name in self.names or ():
            if not isinstance(name, str):
                raise InvalidArgumentError(f"columns: {shown(name)} is no name")
        is_one = isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()
        if delimiter is not None and (not is_one or delimiter in '\0\r\n"'):
            raise InvalidArgumentError(
                f"delimiter = {shown(delimiter)} cannot part fields: give one ASCII character, "
                "such as ',' or '\\t', but no quote"
            )
        self.delimiter = "," if delimiter is None and names is not None else delimiter

    def below(self, head: Head) -> CsvDecoder:
        """Return a decoder for the lines below a header."""
        decoder = CsvDecoder(head.names, head.delimiter)
        decoder.texts = self.texts
        return decoder

    def _decode_all(
        self, payloads: Payloads, fields: Sequence[str], numbers: Collection[str] = ()
    ) -> dict[str, Array] | None:
        try:
            import pyarrow as pa
            import pyarrow.csv as pacsv
        except ImportError:
            return None
        text = b"\n".join(payloads)
        if self.names is None or text.count(b"\n") != len(payloads) - 1 or not _is_text(text):
            return None
        if text.startswith(BYTE_ORDER_MARK) or not self._is_closed(payloads[-1]):
            return None  # pyarrow drops the one, and closes the quotes of the other
        if b"0x" in text or b"0X" in text:  # an integer to pyarrow, a text to everybody else
            return None
        if not set(fields) <= set(self.names):
            return None
        try:
            table = pacsv.read_csv(
                pa.BufferReader(text),
                pacsv.ReadOptions(
                    use_threads=False, column_names=self.names, block_size=len(text) + 1
                ),
                pacsv.ParseOptions(delimiter=self.delimiter),
                pacsv.ConvertOptions(
                    include_columns=list(fields), strings_can_be_null=False, null_values=[],
                    timestamp_parsers=[], quoted_strings_can_be_null=False,
                    column_types={name: pa.string() for name in self.texts},
                ),
            )  # fmt: skip
        except (pa.ArrowException, UnicodeError):
            return None
        if table.num_rows != len(payloads) or not all(map(_is_plain, table.columns)):
            return None
        for name, kind in zip(table.schema.names, table.schema.types, strict=True):
            if pa.types.is_string(kind) and name not in self.texts:
                return None  # a column is of texts as soon as one of them is no number
        columns = {name: arrow_column(table.column(name)) for name in fields}
        # What is empty is missing, which is looked for one by one.
        return None if any("" in columns[name] for name in self.texts) else columns

    def _is_closed(self, payload: bytes) -> bool:
        """Return whether the quotes of a payload are closed."""
        if b'"' not in payload:
            return True
        try:
            return len([*split_records(payload.decode(), self.delimiter or ",")]) == 1
        except ValueError:
            return False

    def _decode_one(self, payload: bytes) -> Mapping[str, Any]:
        if self.names is None or self.delimiter is None:
            raise InvalidArgumentError("the schema must have columns=, as lines have no names")
        try:
            text = payload.decode()
        except UnicodeDecodeError as error:
            raise ValueError(explain_byte(error)) from None
        records = [fields for _, _, fields in split_records(text, self.delimiter)]
        if len(records) != 1:
            raise ValueError(f"{len(records)} lines where one record stands")
        (fields,) = records
        if len(fields) != len(self.names):
            raise ValueError(explain_count(len(fields), len(self.names), text))
        return {
            name: field if name in self.texts or field is None else _of_text(field)
            for name, field in zip(self.names, fields, strict=True)
        }


def _of_text(text: str) -> Any:
    """Return the number or flag that a field of a CSV file says, else its text; None: empty."""
    text = text.strip(" \t")
    if INTEGER.fullmatch(text):
        return int(text)
    if NUMBER.fullmatch(text):
        return float(text)
    if text in LOGICAL:
        return text.lower() == "true"
    return text or None


# ---- structs -------------------------------------------------------------------------------------


class StructDecoder(Decoder):
    """Decoder of structs: a payload is the bytes of one record of a numpy dtype.

    Args:
        dtype: dtype with named fields, such as ``[("src", "<u8"), ("dst", "<u8")]``.
    """

    def __init__(self, dtype: Any) -> None:
        try:
            if isinstance(dtype, Sequence) and not isinstance(dtype, str):
                dtype = [tuple(field) for field in dtype]  # as lists, where it comes from a file
            self.dtype = np.dtype(dtype)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"struct: dtype = {shown(dtype)}: {error}") from None
        if not self.dtype.names or self.dtype.hasobject:
            raise InvalidArgumentError(f"struct: dtype = {shown(dtype)} has no named fields")

    def decode(
        self, payloads: Payloads, fields: Sequence[str], numbers: Collection[str] = ()
    ) -> Table:
        """Return the fields of payloads as columns."""
        size = self.dtype.itemsize
        rows = np.arange(len(payloads))
        bad: list[tuple[int, str]] = []
        if set(map(len, payloads)) - {size}:
            for number, payload in enumerate(payloads):
                if len(payload) != size:
                    bad.append((number, f"has {len(payload)} bytes where records have {size}"))
            payloads = [payload for payload in payloads if len(payload) == size]
            rows = np.delete(rows, [number for number, _ in bad])
        return Table(self.columns(b"".join(payloads), fields), rows, bad)

    def columns(self, content: bytes, fields: Sequence[str]) -> dict[str, Array]:
        """Return the fields of records that follow each other as columns."""
        records = np.frombuffer(content, self.dtype)
        columns = {}
        for name in fields:
            if name not in (self.dtype.names or ()):
                raise InvalidArgumentError(
                    f"struct: there is {no_field(name, self.dtype.names or ())}"
                )
            column = records[name]
            columns[name] = column.astype(column.dtype.newbyteorder("="))
        return columns


# ---- Arrow ---------------------------------------------------------------------------------------


class ArrowDecoder(Decoder):
    """Decoder of Arrow IPC streams: a payload is a stream of any number of rows."""

    def decode(
        self, payloads: Payloads, fields: Sequence[str], numbers: Collection[str] = ()
    ) -> Table:
        """Return the fields of payloads as columns."""
        pa = require("pyarrow", "Arrow records need", "stream")
        parts: list[dict[str, Array]] = []
        counts: list[tuple[int, int]] = []
        bad: list[tuple[int, str]] = []
        for number, payload in enumerate(payloads):
            try:
                table = pa.ipc.open_stream(pa.BufferReader(payload)).read_all()
            except (pa.ArrowException, OSError, ValueError) as error:
                bad.append((number, f"is no Arrow IPC stream: {one_line(error)}"))
                continue
            try:
                parts.append(arrow_columns(table, fields))
            except InvalidArgumentError as error:  # another schema wrote it
                bad.append((number, str(error)))
                continue
            counts.append((number, table.num_rows))
        columns = {name: _stacked([part[name] for part in parts]) for name in fields}
        rows = [np.full(count, number, np.int64) for number, count in counts]
        return Table(columns, np.concatenate(rows) if rows else np.empty(0, np.int64), bad)


def _stacked(parts: Sequence[Array]) -> Array:
    if not parts:
        return np.empty(0, object)
    if len({(part.dtype, part.shape[1:]) for part in parts}) == 1:
        return np.concatenate(parts)
    return objects([item for part in parts for item in as_items(part)])


def as_items(values: Array) -> list[Any]:
    """Return the values of an array; times as those of numpy, of which Python makes numbers."""
    items: list[Any] = list(values) if values.dtype.kind == "M" else values.tolist()
    return items


def arrow_columns(table: Any, fields: Iterable[str]) -> dict[str, Array]:
    """Return columns of a table or record batch of Arrow as arrays."""
    columns = {}
    for name in fields:
        head, *tail = name.split(".")
        if head not in table.schema.names:
            raise InvalidArgumentError(f"there is {no_field(head, table.schema.names, 'column')}")
        column = table.column(table.schema.names.index(head))
        for part in tail:
            column = _member(column, part)
        columns[name] = arrow_column(column)
    return columns


def _member(column: Any, name: str) -> Any:
    """Return a field of a column of structures; nulls if it is not there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_struct(kind) and kind.get_field_index(name) >= 0:
        return pc.struct_field(column, name)  # null where the structure is
    return pa.nulls(len(column))


def arrow_column(column: Any) -> Array:
    """Return a column of Arrow as an array, of dtype object where it has nulls or other types."""
    import pyarrow as pa
    import pyarrow.types as pat

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # of no chunk or of several
            column = pa.concat_arrays(column.chunks)
    kind = column.type
    if pat.is_dictionary(kind):
        return arrow_column(column.dictionary_decode())
    if pat.is_timestamp(kind) or pat.is_date(kind):
        unit = kind.unit if pat.is_timestamp(kind) else {32: "D", 64: "ms"}[kind.bit_width]
        return as_array(column).astype(f"datetime64[{unit}]")
    if not column.null_count:
        if pat.is_integer(kind) or pat.is_floating(kind) or pat.is_boolean(kind):
            return as_array(column)
        lists = pat.is_list(kind) or pat.is_large_list(kind) or pat.is_fixed_size_list(kind)
        if lists and len(column):
            items = column.flatten()
            plain = pat.is_integer(items.type) or pat.is_floating(items.type)
            width = len(items) // len(column)
            sizes = [width] if pat.is_fixed_size_list(kind) else column.value_lengths().unique()
            if (
                plain
                and not items.null_count
                and [int(size) for size in np.asarray(sizes)] == [width]
            ):
                return as_array(items).reshape(len(column), width)
    try:
        return objects(column.to_pylist())
    except _NO_VALUE:
        return objects([_value_or(scalar, lambda _: None) for scalar in column])


def arrow_row(batch: Any, at: int) -> bytes:
    """Return a row of a record batch as JSON, with all that can be said of each value."""
    values = {
        name: _value_or(column[at], _describe)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return json.dumps(values, default=str).encode()


def _value_or(scalar: Any, fallback: Callable[[Any], Any]) -> Any:
    """Return a scalar of Arrow as Python has it, or what ``fallback`` says where it has none."""
    try:
        return scalar.as_py()
    except _NO_VALUE:
        return fallback(scalar)


def _describe(scalar: Any) -> Any:
    import pyarrow.types as pat

    if pat.is_struct(scalar.type):
        return {name: _value_or(member, _describe) for name, member in scalar.items()}
    if pat.is_list(scalar.type) or pat.is_large_list(scalar.type):
        return [_value_or(member, _describe) for member in scalar.values]
    number = getattr(scalar, "value", None)
    return f"{'a value' if number is None else number} of type {scalar.type}"


def as_array(column: Any) -> Array:
    """Return a column of numbers, flags or times without nulls."""
    array: Array = column.to_numpy(zero_copy_only=False)
    return array
