"""One poisonous record, at every place of a batch: what becomes of the others does not change."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph
from aethergraph.streaming import Records, Schema
from aethergraph.streaming.changes import Target

pa = pytest.importorskip("pyarrow")

JSON = Schema.json(src="u", dst="v", weight="w", time="t")
CSV = Schema.csv(columns=["u", "v", "w", "t"], src="u", dst="v", weight="w", time="t")
STRUCT = Schema.struct([("u", "<u8"), ("v", "<i8")], src="u", dst="v")
ARROW = Schema.arrow(src="u", dst="v")
AVRO_FIELDS = [{"name": name, "type": ["long", "string", "double"]} for name in "uv"]
LARGE = [str(2**63 - 1), str(2**63), str(2**64 - 1), str(-(2**63))]


def arrow(u: Any, v: Any) -> bytes:
    table = pa.table({"u": [u], "v": [v]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def struct(u: int, v: int) -> bytes:
    return np.array([(u, v)], [("u", "<u8"), ("v", "<i8")]).tobytes()


def avro(u: Any, v: Any) -> bytes:
    fastavro = pytest.importorskip("fastavro")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {"type": "record", "name": "e", "fields": AVRO_FIELDS},
                               {"u": u, "v": v})  # fmt: skip
    return out.getvalue()


def avro_schema() -> Schema:
    pytest.importorskip("fastavro")
    record = {"type": "record", "name": "e", "fields": AVRO_FIELDS}
    return Schema.avro(schema=record, src="u", dst="v")


def json_lines() -> list[bytes]:
    values: list[Any] = [(number, 1, 5) for number in LARGE]
    values += [(1, number, 5) for number in LARGE] + [(1, 1, number) for number in LARGE]
    values += [("1.0", 1, 5), ("true", 1, 5), ('"1"', 1, 5), ("null", 1, 5), (1, "NaN", 5)]
    values += [(1, "1e400", 5), (1, 0.1, 5), (1, 1, 5.5)]
    return [
        *(f'{{"u": {u}, "v": 2, "w": {w}, "t": {t}}}'.encode() for u, w, t in values),
        b'{"u": 1, "u": 3, "v": 2, "w": 1, "t": 5}',
        b'{"u": [1], "v": 2, "w": 1, "t": 5}',
        b"{}",
        b'{"u"',
        b"\xff",
        b"",
    ]


def csv_lines() -> list[bytes]:
    ends = [*LARGE, "0x1", "0X1F", "1.0", "1e0", "+1", " 1", "01", "true", '"1"', "", "x", "1_0"]
    lines = [line for end in ends for line in (f"{end},2,1,5", f"1,2,{end},5", f"1,2,1,{end}")]
    return [*map(str.encode, lines), b"1,2", b'"1,2,3', b"\xff,2,1,5"]


def structs() -> list[bytes]:
    pairs = [(2**63 - 1, 1), (2**63, 1), (2**64 - 1, 1), (1, -1), (1, -(2**63))]
    return [*(struct(u, v) for u, v in pairs), b"x"]


def arrows() -> list[bytes]:
    large = [arrow(pa.scalar(number, pa.uint64()), 1) for number in (2**63, 2**64 - 1)]
    return [*large, arrow(-1, 1), arrow("1", 1), arrow(None, 1), arrow(1.0, 1), b"x"]


def avros() -> list[bytes]:
    return [avro(-1, 1), avro(2**63 - 1, 1), avro("1", 1), avro(1.0, 1), b""]


#: Schema, good records and poisonous ones, each by a function: not all packages may be there.
FORMS: dict[str, tuple[Any, Any, Any]] = {
    "json": (
        lambda: JSON,
        lambda: [b'{"u": 5, "v": 6, "w": 1, "t": 7}', b'{"u": 7, "v": 8, "w": 1.5, "t": 7}'],
        json_lines,
    ),
    "csv": (lambda: CSV, lambda: [b"5,6,1,7", b"7,8,1.5,7"], csv_lines),
    "struct": (lambda: STRUCT, lambda: [struct(5, 6)], structs),
    "arrow": (lambda: ARROW, lambda: [arrow(5, 6)], arrows),
    "avro": (avro_schema, lambda: [avro(5, 6)], avros),
}


def fates(schema: Schema, payloads: Sequence[bytes], target: Target) -> list[Any]:
    """Return the edge that each payload becomes, or why it becomes none."""
    records = schema.decode(0, len(payloads), payloads, np.arange(len(payloads)))
    changes, bad = target.check(records)
    fate: list[Any] = [None] * len(payloads)
    for change in changes:
        weights = change.weights if change.weights is not None else change.src
        for row, *edge in zip(change.rows, change.src, change.dst, weights, strict=True):
            fate[int(records.offsets[row])] = tuple(float(part) for part in edge)  # type: ignore[index]
    for record in bad:
        fate[record.offset] = record.reason
    return fate


@pytest.mark.parametrize("form", FORMS)
def test_what_a_record_becomes_does_not_depend_on_its_neighbours(form: str) -> None:
    make_schema, make_neighbours, make_poison = FORMS[form]
    schema, neighbours = make_schema(), make_neighbours()
    options: dict[str, Any] = {}
    if form in ("json", "csv"):
        options = {"edge_time": "int64", "edge_weight": "float32"}
    target = Target(DynamicGraph(1000, 8, order="time", huge_pages=False, **options))
    alone = [fates(schema, [payload], target)[0] for payload in neighbours]
    assert all(isinstance(fate, tuple) for fate in alone)
    broken = {"json": b'{"u"', "csv": b'"x', "arrow": b"x"}.get(form)
    for poison in make_poison():
        fate = fates(schema, [poison], target)[0]
        for place in range(len(neighbours) + 1):
            batch = [*neighbours[:place], poison, *neighbours[place:]]
            expected = [*alone[:place], fate, *alone[place:]]
            assert fates(schema, batch, target) == expected, poison
            if broken is not None:
                assert fates(schema, [*batch, broken], target)[:-1] == expected, poison


@pytest.mark.parametrize("form", ["json", "csv"])
def test_keys_of_64_bits_come_as_they_are(form: str) -> None:
    """Any hash: also in one batch with small numbers, which numpy would make floats of."""
    numbers = [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]
    if form == "json":
        schema = Schema.json(src="u", dst="v", ids="uint64")
        lines = [f'{{"u": {n}, "v": {n}}}'.encode() for n in numbers]
    else:
        schema = Schema.csv(columns=["u", "v"], src="u", dst="v", ids="uint64")
        lines = [f"{n},{n}".encode() for n in numbers]
    columns = schema.decode(0, len(lines), lines, np.arange(len(lines))).columns
    for name in ("src", "dst"):
        assert [int(value) for value in columns[name]] == numbers
        assert np.asarray(columns[name]).dtype.kind in "uO"


def test_integers_of_a_source_of_ones_own_stay_exact() -> None:
    records = Records(0, 3, {"src": [-1, 2**63, 2**53 + 1], "dst": [1, 2, 2**64 - 1]})
    assert records.columns["src"].tolist() == [-1, 2**63, 2**53 + 1]
    assert records.columns["dst"].tolist() == [1, 2, 2**64 - 1]
