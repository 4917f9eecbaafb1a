"""Schema: which field of a record is the source of an edge, which is its time, and so on."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import as_choice, as_flag, as_list, is_name, shown
from aethergraph._checks.regular import open_regular
from aethergraph._checks.times import check_unit
from aethergraph.errors import (
    FormatError,
    InvalidArgumentError,
    MissingFileError,
    StorageError,
    UnsupportedError,
)
from aethergraph.ids.columns import read_key_types
from aethergraph.streaming.avro import AvroDecoder
from aethergraph.streaming.decode import (
    ArrowDecoder,
    CsvDecoder,
    Decoder,
    JsonDecoder,
    StructDecoder,
    Table,
    objects,
)
from aethergraph.streaming.moments import of_iso
from aethergraph.streaming.records import BadRecord, Records, one_value_each

if TYPE_CHECKING:
    from aethergraph.streaming.changes import Target

__all__ = ["Schema", "SchemaSource", "check_listener"]

Array = NDArray[Any]

_ENDS = ("src", "dst", "time", "weight", "delete", "relation", "node")
#: Times that say themselves what they are.
_Moment = date | np.datetime64
#: What numpy has for no time.
_NAT = -(2**63)
#: Those that may be keys of nodes, and types of keys that are written as texts.
_KEYED, _TEXTS = ("src", "dst", "node"), ("str", "uuid")
_FORMATS = ("json", "csv", "avro", "struct", "arrow")


@dataclass(frozen=True)
class Schema:
    """Fields of records, and what they are of a graph.

    ::

        Schema.json(src="user", dst="post", time="ts", time_unit="ms")
        Schema.csv(src="from", dst="to", columns=["from", "to", "amount"], weight="amount")
        Schema.avro(src="user", dst="post", registry="http://registry:8081")
        Schema.struct([("src", "<u4"), ("dst", "<u4")], src="src", dst="dst")
        Schema.arrow(node="user", attrs={"x": "embedding"})        # rows of nodes

    In JSON, Avro and Arrow, ``"a.b"`` is field b of the structure a.

    Attributes:
        format: ``"json"``, ``"csv"``, ``"avro"``, ``"struct"`` or ``"arrow"``; the last one is
            that of Parquet files, too.
        src, dst: fields with the ends of edges.
        time: field with the time of an edge: an integer, a datetime, or a text in ISO 8601, which
            is in UTC unless it says otherwise. What is not exact in the graph's unit is refused,
            never rounded. With ``node`` it is the version of the rows, which
            are those of a :class:`aethergraph.LiveFeatureTable`.
        time_unit: unit of integers: ``"s"``, ``"ms"``...; None: that of the graph.
        watermark_only: True: the time serves the watermark, and the graph keeps none.
        weight: field with the weight.
        delete: field that is true where the edge is deleted instead of inserted.
        delete_values: values of that field that mean so, such as ``["d"]``; None: true and 1. Of
            CSV all texts, which are compared as they are written (``"1"`` is not ``01``), or no
            texts: then a field is read as a number or as true or false.
        relation: field with the edge type: the relation, or ``"user,votes,post"``.
        node: field with the node, of records that bring rows of nodes.
        attrs: field of each attribute of the edges, or of the nodes; or several fields, whose
            values stand side by side.
        edge_type: edge type of all records.
        node_type: node type of all records with ``node``.
        ids: type of the keys in ``src``, ``dst`` and ``node``, of a graph whose nodes have keys
            (``DynamicGraph.open(path, ids="str")``): one type for all, or a table of types by
            field; here the types by role.
        decoder: reader of the format.
    """

    format: str
    decoder: Decoder
    src: str | None = None
    dst: str | None = None
    time: str | None = None
    time_unit: str | None = None
    weight: str | None = None
    delete: str | None = None
    delete_values: tuple[Any, ...] | None = None
    relation: str | None = None
    node: str | None = None
    attrs: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    edge_type: tuple[str, str, str] | None = None
    node_type: str | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    watermark_only: bool = False

    # ---- making ------------------------------------------------------------------------------

    @classmethod
    def json(cls, **fields: Any) -> Schema:
        """Return the schema of records that are JSON objects.

        Args:
            fields: the attributes above.
        """
        return _make("json", JsonDecoder(), fields)

    @classmethod
    def csv(
        cls, *, columns: Sequence[str] | None = None, delimiter: str | None = None, **fields: Any
    ) -> Schema:
        """Return the schema of records that are lines.

        Args:
            columns: names of the columns; None: the first line of each file has them.
            delimiter: ASCII character between fields; None: a comma, or what parts the names in
                the first line: a comma, tab, semicolon or ``|``.
            fields: the attributes above.
        """
        return _make("csv", CsvDecoder(columns, delimiter), fields)

    @classmethod
    def avro(
        cls,
        *,
        schema: Any = None,
        registry: str | Mapping[str, Any] | Callable[[int], Any] | None = None,
        **fields: Any,
    ) -> Schema:
        """Return the schema of Avro records.

        Args:
            schema: Avro schema that they were written with, as a dict or as JSON.
            registry: in place of it, the address of a schema registry, or the settings of
                Confluent's ``SchemaRegistryClient``, such as ``{"url": "https://..",
                "basic.auth.user.info": "user:password"}``, or a function from the number of a
                schema to the schema. Records then begin with their schema's number.
            fields: the attributes above.
        """
        decoder = AvroDecoder(schema, registry)
        record_schema = _make("avro", decoder, fields)
        decoder.expect(record_schema.fields)
        return record_schema

    @classmethod
    def struct(cls, dtype: Any, **fields: Any) -> Schema:
        """Return the schema of records that are structs of a numpy dtype.

        Args:
            dtype: dtype with named fields.
            fields: the attributes above.
        """
        decoder = StructDecoder(dtype)
        record_schema = _make("struct", decoder, fields)
        decoder.columns(b"", record_schema.fields)  # names a field that is not there
        return record_schema

    @classmethod
    def arrow(cls, **fields: Any) -> Schema:
        """Return the schema of Arrow IPC streams, of Parquet files, and of sockets.

        Args:
            fields: the attributes above.
        """
        return _make("arrow", ArrowDecoder(), fields)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from a TOML or JSON file.

        ::

            format = "json"
            src = "user"
            dst = "post"
            time = "ts"
            time_unit = "ms"
            [attrs]
            amount = "amount"

        Raises:
            MissingFileError, StorageError: there is no such file, or it cannot be opened.
            FormatError: it is no TOML or JSON.
            InvalidArgumentError: it has an option that does not exist.
        """
        place = Path(native.encode_path(path)[0])
        try:
            with open_regular(place) as file:
                content = file.read()
        except FileNotFoundError:
            raise MissingFileError(2, f"{place}: there is no such schema", str(place)) from None
        except OSError as error:
            text = f"{place}: the schema cannot be read: {error.strerror}"
            raise StorageError(error.errno, text, str(place)) from None
        try:
            if place.suffix == ".json":
                options = json.loads(content)
            else:
                options = _toml().loads(content.decode())
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{place} cannot be read: {error}") from None
        try:
            return cls.from_options(options)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{place}: {error}") from None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Schema:
        """Return the schema of the options that a file has: ``format``, and its arguments."""
        if not isinstance(options, Mapping):
            raise InvalidArgumentError("a schema is a table of options")
        arguments = dict(options)
        kind = as_choice(arguments.pop("format", None), (*_FORMATS, "parquet"), "format")
        make: Any = getattr(cls, "arrow" if kind == "parquet" else kind)
        try:
            if kind == "struct":
                schema: Schema = make(arguments.pop("dtype", None), **arguments)
            else:
                schema = make(**arguments)
        except TypeError as error:
            raise InvalidArgumentError(f"schema of {kind}: {error}") from None
        return schema

    # ---- reading -----------------------------------------------------------------------------

    @property
    def fields(self) -> list[str]:
        """Fields that are read."""
        names = [name for role in _ENDS if (name := getattr(self, role)) is not None]
        for source in self.attrs.values():
            names += [source] if isinstance(source, str) else list(source)
        return list(dict.fromkeys(names))

    @property
    def roles(self) -> list[str]:
        """Columns that records will have besides attributes."""
        return [role for role in _ENDS if getattr(self, role) is not None]

    @property
    def kind(self) -> Any:
        """Edge type or node type of all records, or None."""
        return self.edge_type if self.node is None else self.node_type

    def decode(
        self,
        partition: int,
        following: int,
        payloads: Sequence[bytes],
        offsets: NDArray[np.int64],
        decoder: Decoder | None = None,
    ) -> Records:
        """Return records of their bytes.

        Args:
            partition: number of the partition.
            following: number of the record after them.
            payloads: the records.
            offsets: number of each, int64 [n].
            decoder: reader in place of the schema's.
        """
        numbers = () if self.weight is None else (self.weight,)
        table = (decoder or self.decoder).decode(payloads, self.fields, numbers)
        bad = [BadRecord(int(offsets[at]), why, payloads[at]) for at, why in table.bad]
        rows = table.rows
        return self.records(
            table, partition, following, offsets[rows], bad, lambda at: payloads[rows[at]]
        )

    def records(
        self,
        table: Table,
        partition: int,
        following: int,
        offsets: NDArray[np.int64],
        bad: Sequence[BadRecord] = (),
        payload: Callable[[int], bytes | None] | None = None,
    ) -> Records:
        """Return records of columns by field."""
        columns, originals = {}, {}
        for role in self.roles:
            values = one_value_each(table.columns[getattr(self, role)])
            if role == "time":
                originals[role], values = values, self._as_times(values)
            elif role == "delete" and self.delete_values is not None:
                values = self._are_deletes(values)
            columns[role] = values
        attrs = {}
        for name, source in self.attrs.items():
            if isinstance(source, str):
                attrs[name] = table.columns[source]
            else:
                attrs[name] = _side_by_side([table.columns[field] for field in source])
        names = {role: getattr(self, role) for role in self.roles}
        names.update({n: source for n, source in self.attrs.items() if isinstance(source, str)})
        return Records(
            partition,
            following,
            columns,
            attrs,
            offsets,
            self.kind,
            bad,
            payload,
            names,
            originals,
            self.time_unit,
        )

    def _are_deletes(self, values: Array) -> Array:
        """Return which values are among ``delete_values``; True is not 1 there."""
        assert self.delete_values is not None
        items = values.tolist()
        if self.format == "csv":
            items = [item.strip() if isinstance(item, str) else item for item in items]
        deletes = [(type(value) is bool, value) for value in self.delete_values]
        return np.array([(type(item) is bool, item) in deletes for item in items], bool)

    def _as_times(self, values: Array) -> Array:
        """Return integers as datetimes of the unit, and texts as datetimes.

        What a value becomes does not depend on the others.
        """
        if values.dtype.kind in "iu" and self.time_unit is not None:
            integers = values.astype(np.int64)
            if values.dtype.kind == "u":
                integers[integers < 0] = _NAT  # 2^63 and above
            return integers.view(f"datetime64[{self.time_unit}]")
        if values.dtype != object:
            return values
        items = values.tolist()
        unit = self.time_unit
        if unit is not None and not any(isinstance(value, str | _Moment) for value in items):
            counts = [value if _is_count(value) else _NAT for value in items]
            return np.array(counts, np.int64).view(f"datetime64[{unit}]")
        times = values.copy()
        for at, value in enumerate(items):
            if isinstance(value, str):
                times[at] = of_iso(value)
            elif unit is not None and not isinstance(value, _Moment):
                count = np.array(value if _is_count(value) else _NAT, np.int64)
                times[at] = count.view(f"datetime64[{unit}]")[()]
        return times


class SchemaSource:
    """Base of sources whose records are read by a schema."""

    schema: Schema

    def check(self, target: Target) -> None:
        """Raise unless the graph takes what the schema brings."""
        schema = self.schema
        target.check_columns(schema.roles, schema.attrs, schema.kind)
        target.check_keys(schema.roles, schema.ids, schema.kind)
        if "time" not in schema.roles or schema.node is not None:
            return
        if target.keeps_time and schema.watermark_only:
            raise InvalidArgumentError(
                "the graph keeps the times of edges: leave watermark_only= out of the schema"
            )
        if not target.keeps_time and not schema.watermark_only:
            raise InvalidArgumentError(
                f"the records have a time ({schema.time}), but the graph keeps none: make it with "
                "edge_time=, or leave time= out of the schema; with watermark_only=true it serves "
                "the watermark, and no edge has it"
            )


def check_listener(name: Any, schema: Any, format: str) -> None:
    """Raise unless a source that is sent to has a name, and a schema of its format.

    Raises:
        InvalidArgumentError: ``name`` is no text, or ``schema`` another one.
    """
    if not is_name(name):
        raise InvalidArgumentError(f"name = {shown(name)} is no text")
    if not isinstance(schema, Schema) or schema.format != format:
        raise InvalidArgumentError(f"schema must be made by Schema.{format}(...)")


def _is_count(value: Any) -> bool:
    """Return whether a value is an integer of 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and _NAT < value < 2**63


def _side_by_side(columns: Sequence[Array]) -> Array:
    if all(column.dtype.kind in "iuf" and column.ndim == 1 for column in columns):
        return np.stack(columns, axis=1)
    # A record with a value that is missing has none, which is found out later.
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return objects([None if None in row else list(row) for row in rows])


def _toml() -> Any:
    for name in ("tomllib", "tomli"):  # Python has the first from 3.11 on
        with suppress(ImportError):
            return importlib.import_module(name)
    raise UnsupportedError(
        "schemas in TOML need Python 3.11, or tomli: pip install tomli; or write it as .json"
    )


def _make(kind: str, decoder: Decoder, options: Mapping[str, Any]) -> Schema:
    known = [*_ENDS, "time_unit", "delete_values", "attrs", "edge_type", "node_type", "ids",
             "watermark_only"]  # fmt: skip
    for name in options:
        if name not in known:
            raise InvalidArgumentError(
                f"schema: there is no option {name!r}; there are {', '.join(known)}"
            )
    arguments = {name: value for name, value in options.items() if value is not None}
    for role in _ENDS:
        if role in arguments and not is_name(arguments[role]):
            raise InvalidArgumentError(
                f"schema: {role} = {shown(arguments[role])} is no field's name"
            )
    if "node" in arguments:
        for name in ("src", "dst", "weight", "delete", "relation", "edge_type"):
            if name in arguments:
                raise InvalidArgumentError(
                    f"schema: records with node= bring rows of nodes; leave {name}= out"
                )
        if not arguments.get("attrs"):
            raise InvalidArgumentError("schema: node= needs attrs=, the rows that nodes get")
    elif "src" not in arguments or "dst" not in arguments:
        raise InvalidArgumentError("schema: give src= and dst=, or node=")
    if "relation" in arguments and "edge_type" in arguments:
        raise InvalidArgumentError("schema: give relation= or edge_type=, not both")
    if "watermark_only" in arguments:
        arguments["watermark_only"] = as_flag(arguments["watermark_only"], "schema: watermark_only")
        if arguments["watermark_only"] and "time" not in arguments:
            raise InvalidArgumentError("schema: watermark_only= needs time=, the field")
    if "time_unit" in arguments:
        arguments["time_unit"] = check_unit(arguments["time_unit"])
    if "delete_values" in arguments:
        arguments["delete_values"] = _read_delete_values(arguments["delete_values"])
        if "delete" not in arguments:
            raise InvalidArgumentError("schema: delete_values= needs delete=, the field")
    if "edge_type" in arguments:
        kinds = arguments["edge_type"]
        if not isinstance(kinds, tuple | list) or len(kinds) != 3 or not all(map(is_name, kinds)):
            raise InvalidArgumentError(
                f"schema: edge_type = {shown(kinds)} is not (source type, relation, destination "
                "type)"
            )
        arguments["edge_type"] = tuple(kinds)
    if "node_type" in arguments and not is_name(arguments["node_type"]):
        raise InvalidArgumentError(
            f"schema: node_type = {shown(arguments['node_type'])} is no name"
        )
    arguments["attrs"] = _read_attrs(arguments.get("attrs", {}))
    roles = [role for role in _KEYED if role in arguments]
    arguments["ids"] = ids = read_key_types(arguments.get("ids", {}), roles, "field of the schema")
    decoder.texts = frozenset(
        arguments[role] for role, key_type in ids.items() if key_type in _TEXTS
    )
    if kind == "csv" and arguments.get("delete_values"):
        texts = [isinstance(value, str) for value in arguments["delete_values"]]
        if all(texts):
            decoder.texts |= {arguments["delete"]}
        elif any(texts):
            raise InvalidArgumentError(
                f"schema: delete_values = {shown(list(arguments['delete_values']))} has texts and "
                "others: give all as texts, as they are written"
            )
    return Schema(kind, decoder, **arguments)


def _read_delete_values(values: Any) -> tuple[Any, ...]:
    name = "schema: delete_values"
    if isinstance(values, str | bytes | Number | np.generic):
        raise InvalidArgumentError(
            f"{name} = {shown(values)} is no list: put it in one, [{shown(values)}]"
        )
    if isinstance(values, Mapping):
        raise InvalidArgumentError(f'{name} = {shown(values)} is no list, such as ["d"]')
    items = as_list(values, name)
    for at, value in enumerate(items):
        if not isinstance(value, Hashable):
            raise InvalidArgumentError(
                f"{name}[{at}] = {shown(value)} is no value of a field: give texts, numbers, True "
                "or False"
            )
    return tuple(item.item() if isinstance(item, np.generic) else item for item in items)


def _read_attrs(attrs: Any) -> dict[str, str | tuple[str, ...]]:
    if not isinstance(attrs, Mapping):
        raise InvalidArgumentError(f"schema: attrs = {shown(attrs)} is not {{attribute: field}}")
    sources: dict[str, str | tuple[str, ...]] = {}
    for name, source in attrs.items():
        names = [source] if isinstance(source, str) else source
        if not isinstance(names, Sequence) or not names or not all(map(is_name, names)):
            raise InvalidArgumentError(f"schema: attrs[{name!r}] = {shown(source)} is no field")
        sources[name] = source if isinstance(source, str) else tuple(source)
    return sources
