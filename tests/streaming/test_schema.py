"""Schemas: bytes to columns. What is parsed at once must be what is parsed one by one."""

from __future__ import annotations

import base64
import io
import json
import struct
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ingesting import opened
from support.strategies import examples

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import FileSource, Ingestor, MemorySource, Schema
from aethergraph.streaming.changes import Target
from aethergraph.streaming.decode import (
    CsvDecoder,
    Decoder,
    JsonDecoder,
    arrow_column,
    arrow_columns,
    arrow_row,
)

pa = pytest.importorskip("pyarrow")

OPTIONS: dict[str, Any] = {
    "order": "time", "edge_time": "datetime64[us]", "edge_weight": "float32",
    "edge_attrs": {"a": ((), "int32"), "r": ((2,), "float64")},
}  # fmt: skip
FIELDS: dict[str, Any] = {
    "src": "u", "dst": "v", "time": "t", "time_unit": "s", "weight": "w", "delete": "gone",
    "attrs": {"a": "a", "r": "r"},
}  # fmt: skip


@cache
def target_of(text: str) -> Target:
    options = json.loads(text)
    return Target(DynamicGraph(1000, 8, huge_pages=False, **{**OPTIONS, **options}))


@pytest.fixture(scope="module", autouse=True)
def forget() -> Iterator[None]:
    yield
    target_of.cache_clear()


def target(**options: Any) -> Target:
    return target_of(json.dumps(options))


def read(schema: Schema, payloads: Sequence[bytes], into: Target | None = None) -> Any:
    """Return what becomes of payloads: tuples of edges, and the numbers of the bad ones."""
    records = schema.decode(3, len(payloads), payloads, np.arange(len(payloads)))
    changes, bad = (into or target()).check(records)
    rows = []
    for one in changes:
        columns = [one.src, one.dst, one.times, one.weights, one.delete, *one.attrs.values()]
        lists = [[None] * len(one) if c is None else c.tolist() for c in columns]
        if one.delete is not None:  # what edges have that are deleted is of no account
            for own in (*lists[2:4], *lists[5:]):
                own[:] = [None if gone else v for v, gone in zip(own, lists[4], strict=True)]
        rows += list(zip(records.offsets[one.rows].tolist(), *lists, strict=True))
    return rows, {one.offset: one.reason for one in bad}


def read_one_by_one(decoder: Any, *args: Any) -> Any:
    """Return what becomes of payloads without what decodes all of them at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "_decode_all", Decoder._decode_all)
        return read(*args)


# ---- JSON ----------------------------------------------------------------------------------------

numbers = st.one_of(
    st.integers(-5, 1005), st.sampled_from([2**63 - 1, 2**63, -(2**63) - 1, 2**53 + 1]),
    st.floats(), st.none(), st.booleans(), st.text(max_size=3), st.just("2020-01-01"),
    st.lists(st.integers(0, 3), max_size=3), st.just({"u": 1}),
)  # fmt: skip
good = st.fixed_dictionaries(
    {
        "u": st.integers(0, 999), "v": st.integers(0, 999), "t": st.integers(-(10**9), 10**9),
        "w": st.one_of(st.integers(0, 100), st.floats(0, 1e6)), "a": st.integers(-100, 100),
        "gone": st.booleans(), "r": st.lists(st.floats(-10, 10), min_size=2, max_size=2),
    }
)  # fmt: skip
texts = st.one_of(
    good.map(json.dumps),
    st.tuples(good, st.sampled_from(list("uvtwar") + ["gone"]), numbers).map(
        lambda one: json.dumps({**one[0], one[1]: one[2]})
    ),
    st.tuples(good, st.sampled_from(list("uvtwar") + ["gone"])).map(
        lambda one: json.dumps({key: value for key, value in one[0].items() if key != one[1]})
    ),
    good.map(lambda one: json.dumps(one, indent=1)),
    st.sampled_from(
        ["", "{}", "{", "[]", "null", '{"u": 1} {"u": 2}', '{"u": 1, "u": 2}', "\xff", "{}\n{}",
         '{"u": 1,\n"v": 2}', '{"x": {"u": 1}', '{"u":1}}', "{\"u\": NaN}"]
    ),
)  # fmt: skip


@examples(120)
@given(given_texts=st.lists(texts, max_size=6), clean=st.lists(good, max_size=6))
def test_json_at_once_is_json_one_by_one(given_texts: list[str], clean: list[Any]) -> None:
    schema, into = Schema.json(**FIELDS), target()
    for lines in (given_texts, [json.dumps(one) for one in clean]):
        payloads = [line.encode("latin-1") for line in lines]
        at_once = read(schema, payloads, into)
        slowly = read_one_by_one(JsonDecoder, schema, payloads, into)
        assert at_once == slowly
    expected = [
        (n, d["u"], d["v"], 10**6 * d["t"], float(np.float32(d["w"])), False, d["a"], d["r"])
        if not d["gone"]
        else (n, d["u"], d["v"], None, None, True, None, None)
        for n, d in enumerate(clean)
    ]
    assert at_once == (expected, {})


def test_clean_json_is_parsed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the rest of this page would compare nothing."""
    looked_at: list[bytes] = []
    one = JsonDecoder._decode_one
    monkeypatch.setattr(
        JsonDecoder, "_decode_one", lambda self, line: looked_at.append(line) or one(self, line)
    )
    found = read(Schema.json(**FIELDS), [
        b'{"u":1,"v":2,"t":3,"w":0.5,"gone":false,"a":1,"r":[1.5,2.5], "more": {"x": [1]}}',
        b'{"u":2,"v":2,"t":4,"w":1.5,"gone":true,"a":2,"r":[3.25,4.5]}',
    ])  # fmt: skip
    assert len(found[0]) == 2
    assert len(looked_at) == 1, "the first one, for the types"


@pytest.mark.parametrize("field", ["x", "u"])
@pytest.mark.parametrize(("begin", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_json_is_a_bad_record(field: str, begin: bytes, end: bytes) -> None:
    """pyarrow recursed for each level of a value, and took the process with it."""
    schema = Schema.json(src="u", dst="v")
    into = target(edge_time=None, edge_weight=None, edge_attrs=None)
    clean = b'{"u": 1, "v": 2}'
    for levels in (450, 100_000):
        deep = begin * levels + b"1" + end * levels
        line = b'{"v": 2, "%s": %s}' % (field.encode(), deep)
        if field != "u":
            line = b'{"u": 1, ' + line[1:]
        for payloads in ([line, clean], [clean, line], [clean, line, b"{}"]):
            at = payloads.index(line)
            rows, bad = read(schema, payloads, into)
            if levels < 500 and field != "u":
                assert at in [row[0] for row in rows]
            else:
                assert ("RecursionError" in bad[at]) is (levels > 500)
            assert 1 - at in [row[0] for row in rows]


def test_names_that_each_payload_has_alone_make_no_columns() -> None:
    """There were as many columns as payloads, each of as many rows."""
    lines = [b'{"u": 1, "v": 2, "x": {"user %d": 1}}' % number for number in range(20_000)]
    found = JsonDecoder()._decode_all(lines, ["u", "v"])
    assert found is not None and found["u"].sum() == len(lines)


def test_reasons_name_field_and_value() -> None:
    line = {"u": 1, "v": 2, "t": 3, "w": 1, "gone": False, "a": 1, "r": [1, 2]}
    for change, reason in (
        ({"u": 1000}, r"u (src) = 1000 is not in 0..999"),
        ({"v": "x"}, "v (dst) = 'x' is no integer"),
        ({"t": "soon"}, "t (time) = 'soon' is no time"),
        ({"t": 1.5}, "t (time) = 1.5 is no time"),
        ({"t": -(2**63)}, f"t (time) = {-(2**63)} is no time"),
        ({"w": -1}, "w (weight) = -1.0 is not finite, or negative"),
        ({"w": "1"}, "w (weight) = '1' is no number"),
        ({"gone": 7}, "gone (delete) = 7 is neither true nor false"),
        ({"a": 2**40}, f"a = {2**40} is no int32"),
        ({"a": 0.5}, "a = 0.5 is no int32"),
        ({"r": [1]}, "r = [1] is not of shape (2,)"),
        ({"r": None}, "r is missing"),
    ):
        rows, bad = read(Schema.json(**FIELDS), [json.dumps({**line, **change}).encode()])
        assert not rows
        assert bad[0].startswith(reason), (bad, reason)


def test_the_number_that_is_no_datetime() -> None:
    line = f'{{"u": 1, "v": 2, "t": {-(2**63)}}}'.encode()
    schema = Schema.json(src="u", dst="v", time="t")
    values: dict[str, Any] = {"edge_weight": None, "edge_attrs": None}
    assert read(schema, [line], target(edge_time="int64", **values))[1] == {}
    rows, bad = read(schema, [line, line.replace(b"-9", b"-8")], target(**values))
    assert [row[0] for row in rows] == [1] and bad == {0: f"t (time) = {-(2**63)} is no time"}


@pytest.mark.parametrize(
    ("dtype", "good", "wrong"),
    [
        ("uint8", [0, 255], [-1, 256, 1.0]), ("uint64", [0, 2**63 - 1], [-1]),
        ("int8", [-128, 127], [-129, 128]), ("bool", [0, 1, True], [2, -1, 1.0]),
    ],
)  # fmt: skip
def test_integers_go_by_their_values(dtype: str, good: list[Any], wrong: list[Any]) -> None:
    into = target(edge_time=None, edge_weight=None, edge_attrs={"k": ((), dtype)})
    schema = Schema.json(src="u", dst="v", attrs={"k": "k"})
    payloads = [json.dumps({"u": 1, "v": 2, "k": k}).encode() for k in (*good, *wrong)]
    rows, bad = read(schema, payloads, into)
    assert [row[-1] for row in rows] == good
    assert sorted(bad) == list(range(len(good), len(payloads)))
    assert bad[len(good)] == f"k = {wrong[0]} is no {dtype}"
    for k in good:  # and in columns of one type
        assert read(schema, [json.dumps({"u": 1, "v": 2, "k": k}).encode()] * 2, into)[1] == {}


def test_edges_to_delete_need_no_values() -> None:
    rows, bad = read(Schema.json(**FIELDS), [b'{"u": 1, "v": 2, "gone": true}'])
    assert not bad and rows[0][:3] == (0, 1, 2) and rows[0][5] is True


def test_fields_of_structures_and_words_that_delete() -> None:
    schema = Schema.json(
        src="after.u", dst="after.v", delete="op", delete_values=["d"], time="ts", time_unit="ms"
    )
    into = target(edge_weight=None, edge_attrs=None)
    payloads = [
        b'{"op": "c", "ts": 5, "after": {"u": 1, "v": 2}}',
        b'{"op": "d", "ts": 6, "after": {"u": 1, "v": 3}}',
    ]
    expected = [(0, 1, 2, 5000, None, False), (1, 1, 3, None, None, True)]
    assert read(schema, payloads, into) == (expected, {})
    rows, bad = read(schema, [*payloads, b'{"op": "c", "ts": 7, "after": 3}'], into)
    assert rows == expected and "after.u (src) is missing" in bad[2]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-05-01T12:00:00Z", datetime(2024, 5, 1, 12, tzinfo=timezone.utc)),
        ("2024-05-01T12:00:00.123456+02:00", datetime(2024, 5, 1, 10, 0, 0, 123456, timezone.utc)),
        ("2024-05-01 12:00:00", datetime(2024, 5, 1, 12, tzinfo=timezone.utc)),
        ("2024-05-01", datetime(2024, 5, 1, tzinfo=timezone.utc)),
        ("2024-05-01T12:00:00.1234560000Z", datetime(2024, 5, 1, 12, 0, 0, 123456, timezone.utc)),
    ],
)
def test_times_as_texts(text: str, moment: datetime) -> None:
    schema = Schema.json(src="u", dst="v", time="t")
    into = target(edge_weight=None, edge_attrs=None)
    rows, bad = read(schema, [json.dumps({"u": 1, "v": 2, "t": text}).encode()], into)
    assert not bad
    assert rows[0][3] == round(moment.timestamp() * 1e6)


def test_times_that_are_not_exact() -> None:
    into = target(edge_time="datetime64[s]", edge_weight=None, edge_attrs=None)
    schema = Schema.json(src="u", dst="v", time="t", time_unit="ms")
    payloads = [json.dumps({"u": 1, "v": 2, "t": t}).encode() for t in (1000, 1500, 2000, 2**62)]
    rows, bad = read(schema, payloads, into)
    assert [row[3] for row in rows] == [1, 2, 2**62 // 1000] or set(bad) >= {1}
    assert "is not exact in 's'" in bad[1]
    whole = target(edge_time="int64", edge_weight=None, edge_attrs=None)
    with pytest.raises(errors.InvalidArgumentError, match="plain numbers"):
        read(schema, payloads, whole)


@pytest.mark.own_share
@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2024-05-01T12:00:00.123456789", 123456789),
        ("2024-05-01T12:00:00.1234567Z", 123456700),
        ("2024-05-01T14:00:00.000000001+02:00", 1),
        ("2024-05-01T12:00:00.00000000100", 1),
        ("2024-05-01T12:00:00.0000000001", None),  # beyond nanoseconds
        ("2300-05-01T12:00:00.123456789", None),  # no nanoseconds there
        ("2024-05-01T12:00:00.123456789x", None),
    ],
)
def test_digits_of_a_second_are_kept_or_refused(text: str, nanoseconds: int | None) -> None:
    """None is cut off: a graph of a coarser unit refuses what it cannot keep."""
    schema = Schema.json(src="u", dst="v", time="t", time_unit="s")
    payload = json.dumps({"u": 1, "v": 2, "t": text}).encode()
    fine = target(edge_time="datetime64[ns]", edge_weight=None, edge_attrs=None)
    rows, bad = read(schema, [payload], fine)
    whole = int(datetime(2024, 5, 1, 12, tzinfo=timezone.utc).timestamp())
    if nanoseconds is None:
        assert f"t (time) = '{text}' is no time" in bad[0]
    else:
        assert not bad and rows[0][3] == whole * 10**9 + nanoseconds
    coarse = target(edge_time="datetime64[us]", edge_weight=None, edge_attrs=None)
    rows, bad = read(schema, [payload], coarse)
    assert not rows and len(bad) == 1
    if nanoseconds is not None:
        assert "is not exact in 'us', the unit of the graph: round it" in bad[0]


moments = st.one_of(
    st.integers(-(2**63), 2**63), st.floats(), st.none(), st.booleans(), st.lists(st.just(1)),
    st.sampled_from(
        ["2024-05-01T12:00:00Z", "2024-05-01", "2024-05-01T12:00:00.000001+02:00", "soon", "",
         "2024-05-01T12:00:00.000000001", "2024-05-01T12:00:00.1234567000-01:00",
         "0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00", "2300-01-01", "1677-01-01"]
    ),
)  # fmt: skip


@examples(60)
@given(
    times=st.lists(moments, min_size=1, max_size=6),
    unit=st.sampled_from([None, "s", "ms", "ns"]),
    kept=st.sampled_from(["int64", "datetime64[s]", "datetime64[us]", "datetime64[ns]"]),
    has_bad_text=st.booleans(),
)
def test_what_a_record_becomes_does_not_depend_on_those_beside_it(
    times: list[Any], unit: str | None, kept: str, has_bad_text: bool
) -> None:
    """Else a kill, after which records come in other batches, could change the graph."""
    into = target(edge_time=kept, edge_weight=None, edge_attrs=None)
    schema = Schema.json(src="u", dst="v", time="t", time_unit=unit)
    payloads = [json.dumps({"u": 1, "v": 2, "t": t}).encode() for t in times]
    if has_bad_text:
        payloads.append(b'{"u": 1, "v": 2, "t": 5, "name": "\xff"}')

    def fates(some: Sequence[bytes]) -> list[Any]:
        try:
            rows, bad = read(schema, some, into)
        except errors.InvalidArgumentError as error:  # the schema does not fit the graph at all
            assert unit is not None and kept == "int64" and "plain numbers" in str(error)
            return ["unfit"] * len(some)
        kept_ones = {row[0]: row[3] for row in rows}
        return [bad.get(at, kept_ones.get(at)) for at in range(len(some))]

    together = fates(payloads)
    alone = [fates([one])[0] for one in payloads]
    if unit is None or kept != "int64":
        assert together == alone
    if has_bad_text:
        assert together[-1] == "unfit" or "UnicodeDecodeError" in together[-1]


def test_texts_and_numbers_are_times_beside_each_other() -> None:
    into = target(edge_time="datetime64[ms]", edge_weight=None, edge_attrs=None)
    lines = [b'{"u": 1, "v": 2, "t": 1500}', b'{"u": 1, "v": 2, "t": "1970-01-01T00:00:02Z"}']
    rows, bad = read(Schema.json(src="u", dst="v", time="t"), lines, into)
    assert not bad and [row[3] for row in rows] == [1500, 2000]
    plain = target(edge_time="int64", edge_weight=None, edge_attrs=None)
    rows, bad = read(Schema.json(src="u", dst="v", time="t"), lines, plain)
    assert [row[3] for row in rows] == [1500]
    assert bad[1].startswith("t (time) = '1970-01-01T00:00:02Z' is a date, but the graph's times")
    assert "edge_time='datetime64[us]'" in bad[1]


# ---- CSV -----------------------------------------------------------------------------------------


@examples(80)
@given(
    lines=st.lists(
        st.tuples(
            st.sampled_from(
                ["1", "22", "007", " 3", "x", "", "1.0", "1_0", '"5"', "9" * 20, "٣"]
            ),
            st.sampled_from(["1", "2", "-1"]),
            st.sampled_from(["0.5", "1e3", "1", "nan", "inf", "", "x", '"a,b"']),
        ).map(",".join),
        max_size=5,
    )
)  # fmt: skip
def test_csv_at_once_is_csv_one_by_one(lines: list[str]) -> None:
    schema = Schema.csv(columns=["u", "v", "w"], src="u", dst="v", weight="w")
    into = target(edge_time=None, edge_attrs=None)
    payloads = [line.encode() for line in lines]
    at_once = read(schema, payloads, into)
    slowly = read_one_by_one(CsvDecoder, schema, payloads, into)
    assert (at_once[0], set(at_once[1])) == (slowly[0], set(slowly[1]))


@pytest.mark.parametrize("delimiter", ["", "::", "é", "\ud800", "\0", "\n", '"', 5])
def test_delimiters_that_no_reader_knows(delimiter: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="cannot part fields: give one ASCII"):
        Schema.csv(columns=["u", "v"], delimiter=delimiter, src="u", dst="v")


def test_csv() -> None:
    schema = Schema.csv(columns=["u", "v", "t"], delimiter=";", src="u", dst="v", time="t")
    into = target(edge_weight=None, edge_attrs=None)
    payloads = [b"1;2;2024-05-01", b"1;2", b"1;2;3;4", b"5;6;1970-01-02T00:00:00", b"\xff;1;2"]
    rows, bad = read(schema, payloads, into)
    assert [row[:3] for row in rows] == [(0, 1, 2), (3, 5, 6)] and rows[1][3] == 86400 * 10**6
    assert "2 fields where there are 3 columns" in bad[1] and "4 fields" in bad[2] and 4 in bad


# ---- Avro ----------------------------------------------------------------------------------------

AVRO = {
    "type": "record", "name": "edge", "fields": [
        {"name": "u", "type": "long"}, {"name": "v", "type": "int"},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "w", "type": ["null", "double"]},
    ],
}  # fmt: skip


def avro(schema: Any, record: Any) -> bytes:
    fastavro = pytest.importorskip("fastavro")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


MOMENT = datetime(2024, 5, 1, 12, 0, 0, 5000, timezone.utc)


def test_avro() -> None:
    record = avro(AVRO, {"u": 3, "v": 4, "t": MOMENT, "w": 2.5})
    nothing = avro(AVRO, {"u": 3, "v": 4, "t": MOMENT, "w": None})
    schema = Schema.avro(schema=json.dumps(AVRO), src="u", dst="v", time="t", weight="w")
    into = target(edge_attrs=None)
    rows, bad = read(schema, [record, record[:-3], nothing, record + b"x"], into)
    assert rows == [(0, 3, 4, round(MOMENT.timestamp() * 1e6), 2.5, None)]
    assert set(bad) == {1, 2, 3} and "w (weight) is missing" in bad[2] and "1 bytes" in bad[3]


@pytest.mark.parametrize("field", ["w", "after.u", "u.x", "t.a"])
def test_avro_fields_that_the_schema_has_not(field: str) -> None:
    """They are refused at once, not record by record."""
    pytest.importorskip("fastavro")
    written = {**AVRO, "fields": AVRO["fields"][:3]}  # type: ignore[index]
    for role in ("src", "time", "delete"):
        fields = {"src": "u", "dst": "v", role: field}
        with pytest.raises(
            errors.InvalidArgumentError, match=f"avro: .* has no field '{field}', but u, v, t"
        ):
            Schema.avro(schema=written, **fields)


def test_avro_fields_within_others() -> None:
    pytest.importorskip("fastavro")
    inner = {"type": "record", "name": "end", "namespace": "a", "fields": [
        {"name": "id", "type": "long"}, {"name": "of", "type": ["null", "end"]},
    ]}  # fmt: skip
    schema = {"type": "record", "name": "edge", "fields": [
        {"name": "u", "type": ["null", inner]}, {"name": "v", "type": "a.end"},
        {"name": "m", "type": {"type": "map", "values": "double"}},
    ]}  # fmt: skip
    found = Schema.avro(schema=schema, src="u.of.id", dst="v.id", weight="m.any")
    assert found.fields == ["u.of.id", "v.id", "m.any"]
    with pytest.raises(errors.InvalidArgumentError, match=r"has no field 'v\.no', but u, v, m"):
        Schema.avro(schema=schema, src="u.id", dst="v.no")


def test_avro_of_a_registry_says_which_schema_lacks_a_field() -> None:
    pytest.importorskip("fastavro")
    older = {**AVRO, "fields": AVRO["fields"][:3]}  # type: ignore[index]
    schema = Schema.avro(
        registry={1: older, 2: AVRO}.__getitem__, src="u", dst="v", time="t", weight="w"
    )
    record = {"u": 3, "v": 4, "t": MOMENT, "w": 2.5}
    payloads = [
        b"\0" + struct.pack(">I", number) + avro(own, record)
        for number, own in ((1, older), (2, AVRO), (1, older))
    ]
    with pytest.warns(UserWarning, match="schema 1 of the registry has no field 'w', but u, v, t"):
        rows, bad = read(schema, payloads, target(edge_attrs=None))
    assert [row[0] for row in rows] == [1] and set(bad) == {0, 2}


def test_avro_with_a_registry() -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("authlib", reason="Confluent's client of a registry needs it")
    asked: list[str] = []
    failing = [503]
    second = {**AVRO, "fields": [*AVRO["fields"], {"name": "x", "type": "string"}]}  # type: ignore

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            password = f"Basic {base64.b64encode(b'me:secret').decode()}"
            if failing or self.headers["Authorization"] != password:
                self.send_error(failing.pop() if failing else 401)
                return
            known = {"/schemas/ids/7": AVRO, "/schemas/ids/8": second}.get(self.path)
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"schema": json.dumps(known)}).encode() if known else b"{}")

        def log_message(self, *_: Any) -> None:
            return None

    server = HTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"127.0.0.1:{server.server_port}"
    names = {"src": "u", "dst": "v", "time": "t", "weight": "w"}
    try:
        settings = {"url": f"http://{url}/", "basic.auth.user.info": "me:secret"}
        schema = Schema.avro(registry={**settings, "retries.wait.ms": 1}, **names)
        record = {"u": 3, "v": 4, "t": MOMENT, "w": 2.5}
        payloads = [
            b"\0" + struct.pack(">I", 7) + avro(AVRO, record),
            b"\0" + struct.pack(">I", 8) + avro(second, {**record, "x": "y"}),
            b"\0" + struct.pack(">I", 9) + avro(AVRO, record),
            avro(AVRO, record),
            b"\0" + struct.pack(">I", 7) + avro(AVRO, record),
        ]
        rows, bad = read(schema, payloads, target(edge_attrs=None))
        assert [row[0] for row in rows] == [0, 1, 4]
        assert "no schema 9" in bad[2] and "header of a schema registry" in bad[3]
        # The first one twice: the registry could not answer for a moment.
        assert sorted(asked) == [f"/schemas/ids/{number}" for number in (7, 7, 8, 9)]
        schema = Schema.avro(registry=f"http://me:secret@{url}", **names)
        assert [row[0] for row in read(schema, payloads[:1], target(edge_attrs=None))[0]] == [0]
        schema = Schema.avro(registry=f"http://me:wrong@{url}", **names)
        with pytest.raises(errors.SourceError, match=r"schema 7: .*401") as refused:
            read(schema, payloads[:1])
        assert "wrong" not in str(refused.value)
        failing += [503] * 2
        schema = Schema.avro(registry={**settings, "max.retries": 1, "retries.wait.ms": 1}, **names)
        with pytest.raises(errors.SourceError, match=r"schema 7: .*503"):
            read(schema, payloads[:1])
    finally:
        server.shutdown()
        server.server_close()
    schema = Schema.avro(registry={"url": f"http://{url}", "max.retries": 0}, **names)
    with pytest.raises(errors.SourceError, match=f"the registry {url} does not give schema 7"):
        read(schema, payloads[:1])


@pytest.mark.parametrize(
    ("registry", "message"),
    [
        (5, "registry = 5 is no address, settings or function"),
        ("localhost:8081", "registry = 'localhost:8081' is no http"),
        ({}, "registry = None is no http"),
        ({"url": "http://a", "basic.auth.user.info": "me"}, "bad settings of the registry: basic"),
        ({"url": "http://a", "colour": "red"}, "bad settings of the registry: .*colour"),
    ],
)
def test_settings_of_a_registry_that_are_none(registry: Any, message: str) -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("authlib", reason="Confluent's client of a registry needs it")
    with pytest.raises(errors.InvalidArgumentError, match=message):
        Schema.avro(registry=registry, src="u", dst="v")


@pytest.mark.parametrize("form", ["struct", "arrow"])
def test_times_that_no_datetime_can_be(form: str, tmp_path: Any) -> None:
    dtype = np.dtype([("u", "<u4"), ("v", "<u4"), ("t", "<u8")])
    rows = np.array([(1, 2, 2**64 - 1), (3, 4, 2**63), (5, 6, 7)], dtype)
    fields: dict[str, Any] = {"src": "u", "dst": "v", "time": "t", "time_unit": "us"}
    into = target(edge_weight=None, edge_attrs=None)
    if form == "struct":
        _, bad = read(Schema.struct(dtype, **fields), [one.tobytes() for one in rows], into)
        assert sorted(bad) == [0, 1]
    else:
        table = pa.table({name: rows[name] for name in dtype.names or ()})
        path = tmp_path / "e.arrow"
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        with opened(FileSource(path, Schema.arrow(**fields))) as source:
            (records,) = source.poll(1) or ()
        changes, letters = into.check(records)
        assert [one.times.tolist() for one in changes if one.times is not None] == [[7]]
        bad = {one.offset: one.reason for one in letters}
    assert bad[0] == f"t (time) = {2**64 - 1} is no time" and f"{2**63} is no time" in bad[1]


# ---- structs and Arrow ---------------------------------------------------------------------------


def test_structs() -> None:
    dtype = np.dtype([("u", ">u4"), ("v", "<i8"), ("w", "<f4"), ("r", "<f4", 2)])
    records = np.zeros(3, dtype)
    records["u"], records["v"], records["w"], records["r"] = [1, 2, 3], 5, 0.5, [[1, 2]] * 3
    schema = Schema.struct(dtype, src="u", dst="v", weight="w", attrs={"r": "r"})
    into = target(edge_time=None, edge_attrs={"r": ((2,), "float64")})
    payloads = [one.tobytes() for one in records]
    rows, bad = read(schema, [payloads[0], b"short", payloads[2]], into)
    assert [row[:2] for row in rows] == [(0, 1), (2, 3)] and rows[0][-1] == [1, 2]
    assert "has 5 bytes where records have 24" in bad[1]
    with pytest.raises(errors.InvalidArgumentError, match="no field 'x', but u, v, w, r"):
        Schema.struct(dtype, src="x", dst="v")
    with pytest.raises(errors.InvalidArgumentError, match="no named fields"):
        Schema.struct("f4", src="x", dst="v")


def test_arrow_of_many_rows_to_a_record() -> None:
    def stream(table: Any) -> bytes:
        out = io.BytesIO()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        return out.getvalue()

    moments = pa.array([0, 1000, None], pa.timestamp("ms", "UTC"))
    first = pa.table({"u": pa.array([1, 2, 3], pa.uint8()), "v": [4, 5, 6], "t": moments})
    second = pa.table({"u": [7], "v": [8], "t": pa.array([5], pa.timestamp("s"))})
    schema = Schema.arrow(src="u", dst="v", time="t")
    into = target(edge_weight=None, edge_attrs=None)
    rows, bad = read(schema, [stream(first), b"nonsense"], into)
    assert [row[:4] for row in rows] == [(0, 1, 4, 0), (0, 2, 5, 10**6)]
    assert "t (time) = " in bad[0] and "is no time" in bad[0] and "no Arrow IPC stream" in bad[1]
    assert read(schema, [stream(second)], into)[0] == [(0, 7, 8, 5 * 10**6, None, None)]
    missing = stream(pa.table({"u": [1], "v": [2]}))
    rows, bad = read(schema, [missing, stream(second)], into)
    assert [row[0] for row in rows] == [1] and bad == {0: "there is no column 't', but u, v"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
        (pa.array([1, None]), [1, None]),
        (pa.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (pa.array([[1], [3, 4]]), [[1], [3, 4]]),
        (pa.array([[1.5, 2], [3, 4]], pa.list_(pa.float32(), 2)), [[1.5, 2], [3, 4]]),
        (pa.array([True, False]), [True, False]),
        (pa.chunked_array([[1], [2]]), [1, 2]),
        (pa.chunked_array([], pa.int64()), []),
        (pa.array([0, 1], pa.date32()), np.array([0, 1], "M8[D]").tolist()),
    ],
)
def test_columns_of_arrow(values: Any, expected: Any) -> None:
    assert arrow_column(values).tolist() == expected


FAR = pa.array([0, 2**62]).cast(pa.timestamp("us"))


def test_fields_of_structures_of_arrow() -> None:
    inner = pa.StructArray.from_arrays(
        [FAR, pa.array([1, 2])], ["t", "n"], mask=pa.array([False, True])
    )
    table = pa.table({"a": pa.StructArray.from_arrays([pa.concat_arrays([inner, inner])], ["b"])})
    for rows in (table, table.slice(1)):
        found = arrow_columns(rows, ["a.b.t", "a.b.n", "a.c", "a.b.n.x"])
        begin = 4 - rows.num_rows
        assert found["a.b.t"].dtype == "M8[us]"
        assert np.isnat(found["a.b.t"]).tolist() == [False, True, False, True][begin:]
        assert found["a.b.n"].tolist() == [1, None, 1, None][begin:]
        assert found["a.c"].tolist() == found["a.b.n.x"].tolist() == [None] * rows.num_rows
    whole = arrow_columns(pa.table({"t": FAR, "s": pa.array([[FAR[0]], [FAR[1]]])}), ["t", "s"])
    assert whole["t"].astype(int).tolist() == [0, 2**62] and whole["s"][1] is None


def test_rows_of_arrow_whose_values_python_has_not() -> None:
    structs = pa.StructArray.from_arrays([FAR, pa.array([1, 2])], ["t", "n"])
    days = pa.array([0, 10**9], pa.int32()).cast(pa.date32())
    columns = {
        "t": FAR,
        "s": structs,
        "l": pa.array([[FAR[0]], [FAR[1]]]),
        "d": days,
        "b": [b"", b"x"],
    }
    far = f"{2**62} of type timestamp[us]"
    assert json.loads(arrow_row(pa.record_batch(columns), 1)) == {
        "t": far, "s": {"t": far, "n": 2}, "l": [far], "d": f"{10**9} of type date32[day]",
        "b": "b'x'",
    }  # fmt: skip


# ---- schemas -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give src= and dst="),
        ({"src": "u"}, "give src= and dst="),
        ({"src": 3, "dst": "v"}, "src = 3 is no field's name"),
        ({"src": "u", "dst": "v", "wieght": "w"}, "no option 'wieght'; there are src"),
        ({"src": "u", "dst": "v", "time_unit": "sec"}, "time_unit = 'sec' is no unit"),
        ({"src": "u", "dst": "v", "delete_values": [1]}, "needs delete="),
        ({"src": "u", "dst": "v", "edge_type": "votes"}, "edge_type = 'votes'"),
        ({"src": "u", "dst": "v", "edge_type": ("a", "b", "c"), "relation": "r"}, "not both"),
        ({"src": "u", "dst": "v", "attrs": ["x"]}, r"attrs = \['x'\]"),
        ({"src": "u", "dst": "v", "attrs": {"x": []}}, r"attrs\['x'\] = \[\]"),
        ({"node": "n"}, "needs attrs="),
        ({"node": "n", "src": "u", "attrs": {"x": "x"}}, "leave src= out"),
    ],
)
def test_bad_schemas(options: Any, message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        Schema.json(**options)


def test_the_graph_is_asked_before_anything_is_read(tmp_path: Any) -> None:
    (tmp_path / "e").write_text("")
    graph = DynamicGraph(10, 8, **OPTIONS)
    source = FileSource(tmp_path / "e", Schema.json(src="u", dst="v"))
    with pytest.raises(errors.InvalidArgumentError, match="keeps a time of each edge"):
        Ingestor(graph, source)
    assert Ingestor(graph, MemorySource("s")).stats().state == "new"


def test_a_field_of_another_name_is_looked_for() -> None:
    """The record says which fields it has, the most like it first."""
    schema = Schema.json(src="custmer", dst="a.item", time="ts", time_unit="s", attrs={"w": "wait"})
    graph = DynamicGraph(
        10, 8, order="time", edge_time="datetime64[s]", edge_attrs={"w": ((), "float32")},
        huge_pages=False,
    )  # fmt: skip
    good = {"custmer": 1, "a": {"item": 1}, "ts": 1, "wait": 1.0}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"id": 1, "customer": 2}, "custmer (src) is missing: the record has no field 'custmer', "
         "but customer, id"),
        ({"custmer": None}, "custmer (src) is missing"),
        ({**good, "a": {"x": 2}}, "a.item (dst) is missing: the record has no field 'item', but x"),
        ({**good, "a": {}}, "a.item (dst) is missing: the record has no field 'item'"),
        ({**good, "ts": None}, "ts (time) is missing"),
        ({k: good[k] for k in ("custmer", "a", "wait")}, "ts (time) is missing: the record has no "
         "field 'ts', but custmer, a, wait"),
        ({k: good[k] for k in ("custmer", "a", "ts")}, "wait is missing: the record has no field "
         "'wait', but custmer, a, ts"),
        ({"x" * 1000: 1}, "custmer (src) is missing: the record has no field 'custmer', but "
         + "x" * 200 + "..."),
    ]  # fmt: skip
    payloads = [json.dumps(record).encode() for record in (good, *(row for row, _ in wrong))]
    offsets = np.arange(len(payloads))
    changes, bad = Target(graph).check(schema.decode(0, len(payloads), payloads, offsets))
    assert len(changes[0]) == 1
    assert [record.reason for record in bad] == [reason for _, reason in wrong]


def test_names_of_fields_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream may have many records that lack a field in one way, and goes on fast."""
    compared: list[str] = []
    monkeypatch.setattr("difflib.get_close_matches", lambda name, _: compared.append(name) or [])
    graph = DynamicGraph(10, 8, huge_pages=False)
    schema = Schema.json(src="u", dst="fields_compared")
    changes, bad = Target(graph).check(schema.decode(0, 9, [b'{"u": 1}'] * 9, np.arange(9)))
    reason = "fields_compared (dst) is missing: the record has no field 'fields_compared', but u"
    assert [record.reason for record in bad] == [reason] * 9
    assert compared == ["fields_compared"] and not changes
