"""Records of Avro read by columns: as fastavro reads them one by one."""

from __future__ import annotations

import io
import struct
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aethergraph import errors
from aethergraph.streaming import Schema
from aethergraph.streaming.avro import AvroDecoder

fastavro = pytest.importorskip("fastavro")

LONGS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-200, 200))
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(
    lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000, tzinfo=timezone.utc)
)
#: Types with values of each: what is read by columns, and what is not if it is wanted.
TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("long", LONGS),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("double", st.floats(allow_nan=False)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("boolean", st.booleans()),
    ("string", st.text(max_size=4)),
    ({"type": "long", "logicalType": "timestamp-millis"}, MOMENTS),
    ({"type": "long", "logicalType": "timestamp-micros"}, MOMENTS),
    ("bytes", st.binary(max_size=4)),
    ({"type": "fixed", "name": "three", "size": 3}, st.binary(min_size=3, max_size=3)),
    ({"type": "enum", "name": "sign", "symbols": ["a", "b"]}, st.sampled_from(["a", "b"])),
    ({"type": "array", "items": "long"}, st.lists(LONGS, max_size=2)),
    ({"type": "int", "logicalType": "date"}, MOMENTS.map(datetime.date)),
]  # fmt: skip


@st.composite
def tables(draw: Any) -> tuple[Any, list[dict[str, Any]]]:
    """A schema with some fields, and records of it."""
    fields, values = [], {}
    for number in range(draw(st.integers(1, 4))):
        kind, items = TYPES[draw(st.integers(0, len(TYPES) - 1))]
        if isinstance(kind, dict) and "name" in kind:
            kind = {**kind, "name": f"{kind['name']}{number}"}
        choice = draw(st.integers(0, 4))
        if choice < 2:
            kind = ["null", kind] if choice else [kind, "null"]
            items = st.one_of(items, st.none()) if draw(st.booleans()) else items
        elif choice == 2:
            inner = [{"name": "x", "type": kind}]
            kind = {"type": "record", "name": f"inner{number}", "fields": inner}
            items = st.fixed_dictionaries({"x": items})
        fields.append({"name": f"f{number}", "type": kind})
        values[f"f{number}"] = items
    records = draw(st.lists(st.fixed_dictionaries(values), max_size=5))
    return {"type": "record", "name": "one", "fields": fields}, records


def written(schema: Any, record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def same(one: Any, other: Any) -> bool:
    """Return whether a value of a column is that of a record."""
    if isinstance(one, np.datetime64):
        return bool(one == np.datetime64(other.replace(tzinfo=None), "us"))
    return bool(one == other) and type(one) is type(other)


def check_as_one_by_one(decoder: AvroDecoder, payloads: list[bytes], fields: list[str]) -> None:
    found, wanted = decoder.decode(payloads, fields), decoder._decode_each(payloads, fields)
    assert found.rows.tolist() == wanted.rows.tolist() and found.bad == wanted.bad
    for name in fields:
        column, other = found.columns[name], wanted.columns[name]
        values = column if column.dtype.kind == "M" else column.tolist()
        assert all(map(same, values, other.tolist()))
        assert column.dtype == other.dtype or column.dtype.kind == "M"


@given(tables(), st.data())
def test_columns_are_those_of_records(table: Any, data: Any) -> None:
    schema, records = table
    paths = [f"{one['name']}.x" for one in schema["fields"]]
    paths += [one["name"] for one in schema["fields"] if "inner" not in str(one["type"])]
    fields = data.draw(st.lists(st.sampled_from([*paths, "none"]), unique=True))
    payloads = [written(schema, one) for one in records]
    decoder = AvroDecoder(schema)
    check_as_one_by_one(decoder, payloads, fields)
    # Cut off, longer, or with another byte: what is bad is bad beside others, too.
    for number in range(len(payloads)):
        payload = bytearray(payloads[number])
        damage = data.draw(st.integers(0, 2))
        if damage == 0:
            payload += data.draw(st.binary(min_size=1, max_size=2))
        elif payload and damage == 1:
            del payload[data.draw(st.integers(0, len(payload) - 1)) :]
        elif payload:
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        payloads[number] = bytes(payload)
        check_as_one_by_one(decoder, payloads, fields)


FLAT = {
    "type": "record", "name": "edge",
    "fields": [
        {"name": "u", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "v", "type": ["null", "long"]},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "w", "type": "double"},
    ],
}  # fmt: skip


def test_it_is_read_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, records = np.random.default_rng(0), []
    for number in range(1000):
        records.append({
            "u": int(rng.integers(2**62)) >> int(rng.integers(62)), "v": number, "w": float(number),
            "t": datetime.fromtimestamp(int(rng.integers(2**31)), timezone.utc),
            "note": None if number % 3 else "ä" * (number % 5),
        })  # fmt: skip
    fields = ["u", "v", "t", "w"]
    monkeypatch.setattr(AvroDecoder, "_decode_one", lambda *_: pytest.fail("one by one"))
    payloads = [written(FLAT, one) for one in records]
    for decoder, given_ in (
        (AvroDecoder(FLAT), payloads),
        (AvroDecoder(registry=lambda _: FLAT), [b"\0\0\0\0\7" + one for one in payloads]),
    ):
        table = decoder.decode(given_, fields)
        assert table.columns["u"].tolist() == [one["u"] for one in records]
        assert table.columns["v"].tolist() == [one["v"] for one in records]
        assert table.columns["w"].tolist() == [one["w"] for one in records]
        moments = table.columns["t"].astype("datetime64[s]").astype(int).tolist()
        assert moments == [one["t"].timestamp() for one in records]
    schema = Schema.avro(schema=FLAT, src="u", dst="v", time="t", weight="w")
    found = schema.decode(0, 1000, payloads, np.arange(1000))
    assert found.columns["time"].dtype.kind == "M" and not found.bad


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\x80" * 10 + b"\1", "u"),  # more than 64 bits
        (b"\2\0\2", "cut off"),
        (b"\2\2\3\xff\xfe\0", "no UTF-8"),
        (b"\2\5\2\2", "no such branch"),
        (b"\2\0\2\2" + b"\xff" * 9 + b"\1" + bytes(8), "a time that is none"),
        (b"\2\0\2\2" + b"\xfe" * 9 + b"\1" + bytes(8), "a time after the year 9999"),
        (b"\2\2\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", "a text of a length below zero"),
    ],
)
def test_what_is_wrong_is_told_beside_what_is_right(payload: bytes, reason: str) -> None:
    moment = datetime(2020, 1, 1, tzinfo=timezone.utc)
    good = written(FLAT, {"u": 1, "note": "a", "v": 2, "t": moment, "w": 0.5})
    decoder = AvroDecoder(FLAT)
    check_as_one_by_one(decoder, [good, payload, good], ["u", "v"])
    bad = decoder.decode([good, payload, good], ["u", "v"]).bad
    assert [number for number, _ in bad] == [1], reason


def test_records_of_two_schemas_of_a_registry() -> None:
    known = {7: FLAT, 8: {**FLAT, "fields": [*FLAT["fields"], {"name": "x", "type": "float"}]}}  # type: ignore[misc]
    moment = datetime(2020, 1, 1, tzinfo=timezone.utc)
    payloads = []
    for number in range(20):
        key = 7 + number // 5 % 2
        record = {"u": number, "note": None, "v": 2, "t": moment, "w": 0.5, "x": 1.5}
        payloads.append(b"\0" + struct.pack(">I", key) + written(known[key], record))
    decoder = AvroDecoder(registry=known.__getitem__)
    check_as_one_by_one(decoder, payloads, ["u", "t", "w"])
    for begin in range(0, 20, 5):  # each of one schema
        check_as_one_by_one(decoder, payloads[begin : begin + 5], ["u", "t", "w"])


def endless(shape: str) -> Any:
    """A schema that is no tree, or a tree that nobody can walk by recursion."""
    fields: list[Any] = [{"name": "s", "type": "long"}, {"name": "d", "type": "long"}]
    schema = {"type": "record", "name": "R", "fields": fields}
    kind: Any = "int"
    if shape == "record":
        kind = schema
    elif shape == "union":
        kind = ["null"]
        kind.append(kind)
    elif shape == "array":
        kind = {"type": "array"}
        kind["items"] = kind
    else:
        for _ in range(3000):
            kind = {"type": "array", "items": kind}
    fields.append({"name": "x", "type": kind})
    return schema


@pytest.mark.parametrize("shape", ["record", "union", "array", "deep"])
def test_a_schema_that_contains_itself_is_named(shape: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="bad schema: it contains itself, or"):
        Schema.avro(schema=endless(shape), src="s", dst="d")
    asked = []

    def registry(number: int) -> Any:
        asked.append(number)
        return endless(shape) if number == 7 else '{"type": 5}'

    schema = Schema.avro(registry=registry, src="s", dst="d")
    payloads = [struct.pack(">bI", 0, number) + b"\2\4\0" for number in (7, 7, 8, 8)]
    for some in (payloads[:2], payloads):
        records = schema.decode(0, len(some), some, np.arange(len(some)))
        assert [bad.offset for bad in records.bad] == list(range(len(some)))
        assert "schema 7 of the registry is none: it contains itself" in records.bad[0].reason
    assert "schema 8 of the registry is none" in records.bad[3].reason
    assert asked == [7, 8]


def test_a_record_may_name_itself() -> None:
    fields = [{"name": "s", "type": "long"}, {"name": "d", "type": "long"}]
    tree = {
        "type": "record",
        "name": "R",
        "fields": [*fields, {"name": "x", "type": ["null", "R"]}],
    }
    schema = Schema.avro(registry=lambda _: tree, src="s", dst="d")
    records = schema.decode(0, 1, [struct.pack(">bI", 0, 7) + b"\2\4\0"], np.arange(1))
    assert not records.bad and records.columns["src"].tolist() == [1]


def test_a_union_of_no_types_and_a_branch_that_is_not_there() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="bad schema: it is a union of no types"):
        Schema.avro(schema="[]", src="s", dst="d")
    rows = np.zeros(2, [("a", int)])  # which compare with no list
    with pytest.raises(errors.InvalidArgumentError, match="schema"):
        Schema.avro(schema=rows, src="s", dst="d")  # type: ignore[arg-type]
    kinds: dict[int, Any] = {
        8: ["null", "long"],
        9: {"type": "enum", "name": "E", "symbols": ["a"]},
        10: [],
    }
    fields = [{"name": "s", "type": "long"}, {"name": "d", "type": "long"}]
    known: dict[int, Any] = {7: []}
    for number, kind in kinds.items():
        parts = [*fields, {"name": "x", "type": kind}]
        known[number] = {"type": "record", "name": "R", "fields": parts}
    schema = Schema.avro(registry=known.__getitem__, src="s", dst="d")
    payloads = [struct.pack(">bI", 0, number) + b"\2\4\6" for number in known]
    records = schema.decode(0, 4, payloads, np.arange(4))
    reasons = [bad.reason.removeprefix("cannot be read: ValueError: ") for bad in records.bad]
    assert reasons[0] == "schema 7 of the registry is none: it is a union of no types"
    assert reasons[1:] == 3 * [
        "it names a type of a union, or a symbol of an enum, that is not there: another schema "
        "wrote it"
    ]
