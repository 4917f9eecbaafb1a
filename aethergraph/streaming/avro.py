"""Avro records to columns.

Records of one schema that are numbers, flags and texts, perhaps with nulls, are read column by
column: each record has a place in the bytes of all, and a field moves all places at once::

    places   00 ......02 ......05 ......09      n records, one after the other
    field 1  ^^       ^        ^^       ^       a long: one or two bytes here
    field 2    ^       ^^        ^^^     ^^     the next one begins where it ended

So the work is that of numpy, a few calls to a field. Where anything is wrong, or is more than that
(arrays, maps, other unions and logical types), fastavro reads the records one by one, and tells
the bad ones. What is bad does not depend on which of the two it was.

The format: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.optional import require
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError, SourceError
from aethergraph.streaming.decode import Array, Decoder, Payloads, no_field, one_line

__all__ = ["AvroDecoder"]

#: Bytes of the header of a schema registry: 0, and the number of the schema.
_HEADER = 5
#: Levels of lists and objects in a schema, and all that is in them.
_MOST_LEVELS, _MOST_PARTS = 300, 1_000_000
#: Bytes that follow the last record, so that what is cut off is read from something.
_PADDING = 16
#: Times of Avro that are counts since 1970 in UTC, by their logical types.
_TIMES = {"timestamp-millis": "datetime64[ms]", "timestamp-micros": "datetime64[us]"}
#: Times from year 1 to 9999, which fastavro can read.
_FIRST, _LAST = np.datetime64("0001-01-01", "D"), np.datetime64("9999-12-31", "D")
_FIXED = {"float": "<f4", "double": "<f8"}


class AvroDecoder(Decoder):
    """Decoder of one Avro datum to a payload, perhaps behind the header of a schema registry.

    Args:
        schema: Avro schema that records were written with; None: the registry has it.
        registry: returns the schema of a number; or the address of a registry, or the settings
            of its client. Payloads then begin with a byte 0 and the number of their schema in
            four bytes.
    """

    is_typed = True

    def __init__(
        self,
        schema: Any = None,
        registry: str | Mapping[str, Any] | Callable[[int], Any] | None = None,
    ) -> None:
        require("fastavro", "Avro records need", "stream")
        if (schema is None) == (registry is None):
            raise InvalidArgumentError("avro: give schema= or registry=, one of them")
        self._schema: Any = None
        if schema is not None:
            try:
                self._schema = _parse(schema)
            except ValueError as error:
                raise InvalidArgumentError(f"avro: bad schema: {error}") from None
        if isinstance(registry, str):
            registry = {"url": registry}
        if registry is not None and not isinstance(registry, Mapping) and not callable(registry):
            raise InvalidArgumentError(
                f"avro: registry = {shown(registry)} is no address, settings or function"
            )
        self._look_up = _Registry(registry) if isinstance(registry, Mapping) else registry
        self._known: dict[int, Any] = {}
        self._bad: dict[int, str] = {}  # what is wrong with others, which are asked for once, too
        self._wanted: Sequence[str] = ()
        #: Fields of the last schema that was read by columns, None if it cannot be.
        self._plan: tuple[Any, list[_Field] | None] = None, None

    def expect(self, fields: Sequence[str]) -> None:
        """Raise unless the schema has these fields; those of a registry are looked at as they come.

        Raises:
            InvalidArgumentError: it has not; names the first, and those that it has.
        """
        self._wanted = fields
        missing = None if self._schema is None else _missing(self._schema, fields)
        if missing is not None:
            raise InvalidArgumentError(f"avro: the schema of the records {missing}")

    def _decode_all(
        self, payloads: Payloads, fields: Sequence[str], numbers: Collection[str] = ()
    ) -> dict[str, Array] | None:
        ends = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)))
        starts = np.concatenate([[0], ends[:-1]])
        content = b"".join(payloads)
        places = _Places(np.frombuffer(content + bytes(_PADDING), np.uint8), starts, ends)
        try:
            schema = self._schema
            if schema is None:
                heads = places.take(_HEADER)
                if heads[0, 0] or (heads != heads[0]).any():
                    return None
                schema = self._schema_of(int.from_bytes(heads[0, 1:].tobytes(), "big"))
            if self._plan[0] is not schema:
                self._plan = schema, _plan(schema)
            plan = self._plan[1]
            if plan is None:
                return None
            return _read(plan, places, content, fields)
        except (_NotByColumns, UnicodeDecodeError, ValueError):
            return None

    def _decode_one(self, payload: bytes) -> Mapping[str, Any]:
        from fastavro import schemaless_reader

        stream = io.BytesIO(payload)
        schema = self._schema
        if schema is None:
            head = stream.read(5)
            if len(head) < 5 or head[0] != 0:
                raise ValueError("it does not begin with the header of a schema registry")
            schema = self._schema_of(int.from_bytes(head[1:], "big"))
        try:
            record = schemaless_reader(stream, schema, None)
        except EOFError:
            raise ValueError(
                f"it ends in the middle of a value, after {len(payload)} bytes"
            ) from None
        except IndexError:
            raise ValueError(
                "it names a type of a union, or a symbol of an enum, that is not there: another "
                "schema wrote it"
            ) from None
        unread = len(payload) - stream.tell()
        if unread:
            raise ValueError(f"{unread} bytes are left behind the record: another schema wrote it")
        if not isinstance(record, dict):
            raise ValueError(f"{shown(record)} is no record")
        return record

    def _schema_of(self, number: int) -> Any:
        if number in self._bad:
            raise ValueError(self._bad[number])
        if number not in self._known:
            assert self._look_up is not None
            source = self._look_up(number)
            try:
                schema = _parse(source)
            except ValueError as error:
                self._bad[number] = f"schema {number} of the registry is none: {error}"
                raise ValueError(self._bad[number]) from None
            self._known[number] = schema
            missing = _missing(schema, self._wanted)
            if missing is not None:  # others of the topic may have it: older ones, newer ones
                warnings.warn(f"avro: schema {number} of the registry {missing}", stacklevel=2)
        return self._known[number]


def _parse(source: Any) -> Any:
    """Return a schema, which may be JSON, as fastavro reads it.

    Raises:
        ValueError: it is none.
    """
    from fastavro import parse_schema

    try:
        schema = json.loads(source) if isinstance(source, str) else source
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {one_line(error)}") from None
    _check_nesting(schema)
    if isinstance(schema, list) and not schema:
        raise ValueError("it is a union of no types")
    try:
        return parse_schema(schema)
    except Exception as error:  # fastavro raises many kinds
        raise ValueError(one_line(error)) from None


def _check_nesting(schema: Any) -> None:
    """Raise unless all of a schema can be walked, which fastavro does without looking."""
    level, parts = [schema], 0
    for _ in range(_MOST_LEVELS):
        below: list[Any] = []
        for part in level:
            if isinstance(part, Mapping):
                below += part.values()
            elif isinstance(part, list | tuple):
                below += part
        level, parts = below, parts + len(below)
        if not level:
            return
        if parts > _MOST_PARTS:
            break
    raise ValueError("it contains itself, or nests too deeply: name a record in place of itself")


def _missing(schema: Any, fields: Sequence[str]) -> str | None:
    """Return which of the fields a schema has not, in words; None: it may have all of them."""
    named: dict[str, Any] = {}

    def note(part: Any) -> None:
        """Find the records that others refer to by their names."""
        if isinstance(part, list):
            for branch in part:
                note(branch)
        elif isinstance(part, Mapping):
            if part.get("type") in ("record", "error"):
                named[part["name"]] = part
                for member in part["fields"]:
                    note(member["type"])
            else:
                for key in ("type", "items", "values"):
                    note(part.get(key))

    def inner(part: Any, name: str) -> list[Any]:
        """Return the types that a field may have in values of a type; none: there is no such."""
        if isinstance(part, list):
            return [inner_part for branch in part for inner_part in inner(branch, name)]
        if isinstance(part, str):
            return inner(named[part], name) if part in named else []
        kind = part.get("type")
        if kind in ("record", "error"):
            return [member["type"] for member in part["fields"] if member["name"] == name]
        if kind == "map":
            return [part["values"]]
        return inner(kind, name) if isinstance(kind, str | list | Mapping) else []

    note(schema)
    for field in fields:
        parts = [schema]
        for name in field.split("."):
            parts = [inner_part for part in parts for inner_part in inner(part, name)]
        if not parts:
            members = schema.get("fields") if isinstance(schema, Mapping) else None
            return f"has {no_field(field, [member['name'] for member in members or ()])}"
    return None


# ---- by columns ----------------------------------------------------------------------------------


class _NotByColumns(Exception):
    """These records are to be read one by one."""


@dataclass
class _Field:
    """A field of plain values.

    Attributes:
        path: its name, behind those of the records around it: ``"a.b"``.
        kind: its type in Avro.
        logical: its logical type, if it has one.
        null: number of null in a union of it and null, if it is one.
        size: bytes of a value of a ``fixed``, symbols of an ``enum``.
    """

    path: str
    kind: str
    logical: str | None = None
    null: int | None = None
    size: int = 0


def _plan(schema: Any, path: str = "", null: int | None = None) -> list[_Field] | None:
    """Return the fields of a schema in their order; None if some are not plain."""
    logical = None
    size = 0
    if isinstance(schema, list):
        if len(schema) != 2 or "null" not in schema or null is not None:
            return None
        null = schema.index("null")
        return _plan(schema[1 - null], path, null)
    if isinstance(schema, Mapping):
        logical = schema.get("logicalType")
        size = schema.get("size", len(schema.get("symbols", ())))
        if schema["type"] == "record":
            if null is not None:
                return None
            plan = []
            for member in schema["fields"]:
                name = f"{path}.{member['name']}" if path else member["name"]
                inner = _plan(member["type"], name)
                if inner is None:
                    return None
                plan += inner
            return plan
        schema = schema["type"]
    if not path or schema not in _KINDS:
        return None
    if logical is not None and (schema != "long" or logical not in _TIMES):
        return None
    return [_Field(path, schema, logical, null, size)]


class _Places:
    """Places of records in their bytes, which fields move on.

    Args:
        content: bytes of all records, and some more.
        at: place of each record, int64 [n].
        ends: where each record ends, int64 [n].
    """

    def __init__(
        self, content: NDArray[np.uint8], at: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> None:
        self.content, self.at, self.ends = content, at, ends
        #: Number of bytes before each that are not ASCII.
        self._beyond_ascii: NDArray[np.int64] | None = None

    def skip(self, sizes: Any) -> None:
        """Move on by some bytes each."""
        if np.any(sizes < 0) or np.any(sizes > self.ends - self.at):
            raise _NotByColumns
        self.at = self.at + sizes

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return the next bytes of each record, uint8 [n, size]."""
        begin = self.at
        self.skip(np.int64(size))
        block: NDArray[np.uint8] = self.content[begin[:, None] + np.arange(size)]
        return block

    def check_texts(self, begins: NDArray[np.int64], content: bytes) -> None:
        """Check that texts which begin there and end at the places are UTF-8."""
        if self._beyond_ascii is None:
            self._beyond_ascii = np.concatenate([[0], np.cumsum(self.content > 127)])
        beyond = self._beyond_ascii[self.at] != self._beyond_ascii[begins]
        for begin, end in zip(begins[beyond].tolist(), self.at[beyond].tolist(), strict=True):
            content[begin:end].decode()

    def integers(self) -> NDArray[np.int64]:
        """Return the next integer of each record: seven bits to a byte, the lowest first."""
        at = self.at
        byte = self.content[at]
        at = at + 1
        value = (byte & 127).astype(np.uint64)
        more = np.flatnonzero(byte > 127)
        shift = 7
        while len(more):
            byte = self.content[np.minimum(at[more], len(self.content) - 1)]
            if shift == 63 and (byte > 1).any():  # of 64 bits, one is left
                raise _NotByColumns
            value[more] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
            at[more] += 1
            more = more[byte > 127]
            shift += 7
        if (at > self.ends).any():
            raise _NotByColumns
        self.at = at
        signed: NDArray[np.int64] = (value >> np.uint64(1)).view(np.int64)
        signed ^= -(value & np.uint64(1)).view(np.int64)
        return signed


def _read(
    plan: Sequence[_Field], places: _Places, content: bytes, fields: Sequence[str]
) -> dict[str, Array]:
    """Return columns of the fields that are wanted."""
    if not set(fields) <= {field.path for field in plan}:
        raise _NotByColumns
    columns = {}
    for field in plan:
        if field.null is not None:
            branch = places.integers()
            is_null = branch == field.null
            if is_null.any():
                if field.path in fields or ((branch != 0) & (branch != 1)).any():
                    raise _NotByColumns
                rows = np.flatnonzero(~is_null)
                some = _Places(places.content, places.at[rows], places.ends[rows])
                _KINDS[field.kind](field, some, content)
                places.at[rows] = some.at
                continue
            if (branch != 1 - field.null).any():
                raise _NotByColumns
        read = _KINDS[field.kind](field, places, content)
        if field.path in fields:
            columns[field.path] = read()
    if (places.at != places.ends).any():
        raise _NotByColumns
    return columns


def _integers(field: _Field, places: _Places, content: bytes) -> Callable[[], Array]:
    numbers = places.integers()
    if field.logical is None:
        return lambda: numbers
    times = numbers.view(_TIMES[field.logical])
    if not ((times >= _FIRST) & (times <= _LAST)).all():  # NaT is neither
        raise _NotByColumns
    return lambda: times


def _numbers(field: _Field, places: _Places, content: bytes) -> Callable[[], Array]:
    kind = np.dtype(_FIXED[field.kind])
    block = places.take(kind.itemsize)
    # As fastavro's: numbers of Python, which have eight bytes.
    return lambda: np.ascontiguousarray(block).view(kind)[:, 0].astype(np.float64)


def _flags(field: _Field, places: _Places, content: bytes) -> Callable[[], Array]:
    flags = places.take(1)[:, 0]
    if (flags > 1).any():
        raise _NotByColumns
    return lambda: flags == 1


def _texts(field: _Field, places: _Places, content: bytes) -> Callable[[], Array]:
    sizes = places.integers()
    begins = places.at
    places.skip(sizes)
    places.check_texts(begins, content)

    def column() -> Array:
        pairs = zip(begins.tolist(), (begins + sizes).tolist(), strict=True)
        texts = np.empty(len(begins), object)
        texts[:] = [content[begin:end].decode() for begin, end in pairs]
        return texts

    return column


def _skipped(field: _Field, places: _Places, content: bytes) -> Callable[[], Array]:
    """Pass over values that are read one by one where they are wanted."""
    if field.kind == "enum":
        symbols = places.integers()
        if ((symbols < 0) | (symbols >= field.size)).any():
            raise _NotByColumns
    else:
        places.skip(np.int64(field.size) if field.kind == "fixed" else places.integers())

    def column() -> Array:
        raise _NotByColumns

    return column


_KINDS: dict[str, Callable[[_Field, _Places, bytes], Callable[[], Array]]] = {
    "int": _integers, "long": _integers, "float": _numbers, "double": _numbers,
    "boolean": _flags, "string": _texts, "bytes": _skipped, "enum": _skipped, "fixed": _skipped,
}  # fmt: skip


# ---- registry ------------------------------------------------------------------------------------


#: Settings of the client that hold unless others are given.
_DEFAULTS: dict[str, Any] = {"timeout": 10}


class _Registry:
    """Schema registry, by Confluent's client, which asks again where that may help.

    Args:
        settings: those of ``SchemaRegistryClient``, such as ``url``.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        module = "confluent_kafka.schema_registry"
        needs = "the address of a schema registry needs"
        self._library = require(module, needs, "stream", "confluent-kafka[schemaregistry]")
        url = settings.get("url")
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise InvalidArgumentError(f"avro: registry = {shown(url)} is no http(s) address")
        self._url = url.split("://", 1)[1].rsplit("@", 1)[-1]  # no passwords in messages
        try:
            self._client = self._library.SchemaRegistryClient({**_DEFAULTS, **settings})
        except Exception as error:  # the client raises many kinds
            raise InvalidArgumentError(f"avro: bad settings of the registry: {error}") from None

    def __call__(self, number: int) -> Any:
        try:
            return json.loads(self._client.get_schema(number).schema_str)
        except Exception as error:  # of the client, and of the library that it asks by
            status = getattr(error, "http_status_code", None)
            if status == 404:
                raise ValueError(f"the registry {self._url} has no schema {number}") from None
            answer = "" if status is None else f"HTTP {status}, "
            raise SourceError(
                f"the registry {self._url} does not give schema {number}: {answer}{one_line(error)}"
            ) from None
