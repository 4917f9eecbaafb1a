"""Streams whose records name nodes by keys: strings, or numbers of somebody else."""

from __future__ import annotations

import csv
import io
import json
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.crafted_keys import same_hash
from support.ingesting import kills_timeout, letters, run_killed
from support.strategies import examples

from aethergraph import DynamicGraph, DynamicHeteroGraph, errors
from aethergraph._checks.dialect import find_head
from aethergraph.streaming import FileSource, Ingestor, MemorySource, Schema, decode

SMALL: dict[str, Any] = {"arena_mb": 16, "huge_pages": False, "max_nodes": 100_000}


def by_keys(graph: Any) -> list[tuple[Any, Any]]:
    """Edges of a graph as pairs of keys, sorted."""
    src, dst, _ = graph.snapshot().edge_list()
    return sorted(zip(graph.ids.keys(src), graph.ids.keys(dst), strict=True))


def ingest(graph: Any, *records: dict[str, Any], **options: Any) -> Any:
    source = MemorySource("m", kind=options.pop("kind", None))
    for number, one in enumerate(records):
        attrs = {name: one.pop(name) for name in list(one) if name in ("x",)}
        source.append(number, attrs=attrs, **one)
    source.end()
    return Ingestor(graph, source, **options).run()


# ---- what fields hold ----------------------------------------------------------------------------

words = st.one_of(st.text(max_size=4), st.sampled_from(["007", "1e3", "true", "2024-01-01", " a "]))


def columns_of(schema: Schema, payloads: list[bytes], *, at_once: bool) -> Any:
    decoder = schema.decoder
    if not at_once:
        return decoder._decode_each(payloads, schema.fields).columns["u"].tolist()
    found = decoder._decode_all(payloads, schema.fields)
    return None if found is None else found["u"].tolist()


@given(st.lists(words, min_size=1, max_size=6))
@examples(50)
def test_json_texts_stay_what_they_are(keys: list[str]) -> None:
    pytest.importorskip("pyarrow")
    schema = Schema.json(src="u", dst="u", ids="str")
    payloads = [json.dumps({"u": key}).encode() for key in keys]
    assert columns_of(schema, payloads, at_once=False) == keys
    assert columns_of(schema, payloads, at_once=True) in (None, keys)
    plain = [json.dumps({"u": f"2024-01-{n:02}", "other": n}).encode() for n in range(1, 9)]
    assert columns_of(schema, plain, at_once=True) == [f"2024-01-{n:02}" for n in range(1, 9)]
    mixed = [*plain, b'{"u": 7}']
    assert columns_of(schema, mixed, at_once=True) is None
    assert columns_of(schema, mixed, at_once=False)[-1] == 7


@given(st.lists(words.filter(lambda one: "\n" not in one and "\r" not in one), max_size=6))
@examples(50)
def test_csv_texts_stay_what_they_are(keys: list[str]) -> None:
    pytest.importorskip("pyarrow")
    schema = Schema.csv(src="u", dst="n", columns=["n", "u"], ids={"src": "str"})

    def line(number: int, key: str) -> bytes:
        out = io.StringIO()
        csv.writer(out, lineterminator="").writerow([number, key])
        return out.getvalue().encode()

    payloads = [line(number, key) for number, key in enumerate(["x", *keys])]
    wanted = ["x", *(key or None for key in keys)]
    assert columns_of(schema, payloads, at_once=False) == wanted
    assert columns_of(schema, payloads, at_once=True) in (None, wanted)
    clean = [line(number, f"00{number}") for number in range(5)]
    assert columns_of(schema, clean, at_once=True) == [f"00{number}" for number in range(5)]


def files_of(folder: Path, pairs: list[tuple[Any, Any]], kind: str) -> Iterator[FileSource]:
    """The same edges in files of every format."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table({"u": [u for u, _ in pairs], "v": [v for _, v in pairs]})
    ends: dict[str, Any] = {"src": "u", "dst": "v", "ids": kind}
    (folder / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in table.to_pylist()))
    yield FileSource(folder / "a.jsonl", Schema.json(**ends), follow=False)
    with open(folder / "a.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("u", "v"), *pairs])
    yield FileSource(folder / "a.csv", Schema.csv(**ends), follow=False)
    parquet.write_table(table, folder / "a.parquet")
    yield FileSource(folder / "a.parquet", Schema.arrow(**ends), follow=False)
    with pa.ipc.new_stream(folder / "a.arrows", table.schema) as stream:
        stream.write_table(table)
    yield FileSource(folder / "a.arrows", Schema.arrow(**ends), follow=False)


@pytest.mark.parametrize("kind", ["str", "int64"])
def test_every_format(tmp_path: Path, kind: str) -> None:
    own = random.Random(1)
    numbers = [own.randrange(-(2**62), 2**62) for _ in range(30)]
    keys: list[Any] = [f"0{n}" for n in range(30)] if kind == "str" else numbers
    pairs = [(own.choice(keys), own.choice(keys)) for _ in range(200)]
    graph = DynamicGraph.open(tmp_path / "g", ids=kind, order="time", **SMALL)
    for number, source in enumerate(files_of(tmp_path, pairs, kind), 1):
        stats = Ingestor(graph, source).run()
        assert (stats.edges, stats.nodes) == (200, len(graph.ids) if number == 1 else 0)
        assert by_keys(graph) == sorted(pairs * number)
    graph.close()


def test_avro_and_structs(tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    avro = {"type": "record", "name": "E", "fields": [{"name": n, "type": "string"} for n in "uv"]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(avro), {"u": "ü", "v": "7"})
    graph = DynamicGraph.open(tmp_path / "g", ids="str", **SMALL)
    schema = Schema.avro(schema=avro, src="u", dst="v", ids="str")
    rows = np.array([("ü".encode(), b"x"), (b"\xff", b"x")], [("u", "S4"), ("v", "S4")])
    struct = Schema.struct(rows.dtype, src="u", dst="v", ids="str")
    for own, payloads, edges, bad in (
        (schema, [out.getvalue()], 1, 0),
        (struct, [row.tobytes() for row in rows], 1, 1),
    ):
        records = own.decode(0, len(payloads), payloads, np.arange(len(payloads)))
        ingestor = Ingestor(graph, MemorySource("s"), dead_letter=tmp_path / "bad")
        changes, refused = ingestor._target.check(records)
        assert len(refused) == bad
        with graph.transaction():
            assert ingestor._target.write(changes)["edges"] == edges
    assert by_keys(graph) == [("ü", "7"), ("ü", "x")]
    assert "u (src) = b'\\xff' is no key of type str" in refused[0].reason
    graph.close()


# ---- what becomes of them ------------------------------------------------------------------------

records = st.lists(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12
    ),
    max_size=5,
)


@pytest.mark.parametrize("chunk", [5000, 300], ids=["one poll", "small polls"])
def test_keys_that_were_made_to_have_one_hash(tmp_path: Path, chunk: int) -> None:
    keys = same_hash(5400)
    pairs = [(keys[n], keys[n * 7 % (n + 1)]) for n in range(5000)]
    path = tmp_path / "g"
    graph = DynamicGraph.open(path, ids="bytes", durability="none", **SMALL)
    source = MemorySource("m", most=chunk)
    source.append(src=[u for u, _ in pairs], dst=[v for _, v in pairs])
    source.end()
    stats = Ingestor(graph, source, batch=chunk).run()
    assert (stats.records, stats.edges, stats.nodes) == (5000, 5000, 5000)
    graph.merge()
    pairs += [(keys[n], keys[7]) for n in range(5000, 5400)]
    more = MemorySource("n", most=chunk)
    more.append(src=[u for u, _ in pairs[5000:]], dst=[keys[7]] * 400)
    more.end()
    assert Ingestor(graph, more).run().nodes == 400
    graph.merge()
    graph.close()
    with DynamicGraph.open(path, ids="bytes", **SMALL) as again:
        assert sorted(again.ids.lookup(keys).tolist()) == list(range(5400))
        assert again.ids.keys(again.ids.lookup(keys)) == keys
        assert by_keys(again) == sorted(pairs)


@given(records, st.booleans())
@examples(8)
def test_inserted_and_deleted_by_keys(
    tmp_path_factory: pytest.TempPathFactory, chunks: Any, one_commit: bool
) -> None:
    """Edges are those of a set of pairs; keys those of edges that were ever inserted."""
    path = tmp_path_factory.mktemp("keyed") / "g"
    graph = DynamicGraph.open(path, ids="int64", durability="none", **SMALL)
    model, keys = set[tuple[int, int]](), set[int]()
    source = MemorySource("m")
    for chunk in chunks:
        for is_deleted, u, v in chunk:
            (model.discard if is_deleted else model.add)((u, v))
            keys |= set() if is_deleted else {u, v}
        deleted, src, dst = zip(*chunk, strict=True)
        source.append(0, src=src, dst=dst, delete=deleted)
    source.end()
    stats = Ingestor(graph, source, batch=10_000 if one_commit else 1).run()
    assert by_keys(graph) == sorted(model)
    assert sorted(graph.ids.keys(np.arange(graph.num_nodes))) == sorted(keys)
    assert stats.nodes == len(keys)
    graph.close()


def test_bad_keys_add_no_nodes(tmp_path: Path) -> None:
    graph = DynamicGraph.open(tmp_path / "g", ids="str", **SMALL)
    src: Any = ["a", None, "b", 7, "\ud800", "c", 1.5, True]
    bad = tmp_path / "bad"
    stats = ingest(graph, {"src": src, "dst": ["x"] * 8}, dead_letter=bad, max_bad=10)
    assert (stats.edges, stats.bad, graph.ids.keys(range(4))) == (3, 5, ["a", "b", "c", "x"])
    reasons = [one["reason"] for one in letters(bad)]
    assert reasons[0] == "src is missing" and reasons[1] == "src = 7 is no key of type str"
    graph.close()
    graph = DynamicGraph.open(tmp_path / "n", ids="int64", **SMALL)
    src = np.array([1, 2**63, 5], np.uint64)
    stats = ingest(graph, {"src": src, "dst": [1, 1, 1]}, dead_letter=bad, max_bad=10)
    assert by_keys(graph) == [(1, 1), (5, 1)] and stats.bad == 1
    graph.close()


def test_late_records_add_no_nodes(tmp_path: Path) -> None:
    graph = DynamicGraph.open(tmp_path / "g", ids="str", order="time", edge_time="int64", **SMALL)
    first = {"src": ["a"], "dst": ["b"], "time": [100]}
    source = MemorySource("m")
    source.append(**first)
    source.append(src=["late", "a"], dst=["b", "c"], time=[3, 101])
    source.end()
    stats = Ingestor(
        graph, source, batch=1, linger=0, late="dead_letter", dead_letter=tmp_path / "bad"
    ).run()
    assert (stats.edges, stats.late) == (2, 1)
    assert graph.ids.keys([0, 1, 2]) == ["a", "b", "c"] and graph.num_nodes == 3
    graph.close()


def test_many_types_and_rows(tmp_path: Path) -> None:
    votes = ("user", "votes", "post")
    graph = DynamicHeteroGraph.open(
        tmp_path / "g", {"user": 0, "post": 9}, [votes, ("user", "knows", "user")],
        ids={"user": "uuid"}, **SMALL,
    )  # fmt: skip
    graph["user"].attrs["x"] = np.zeros((0, 1), np.float32)
    names = [str(uuid.UUID(int=n)) for n in range(4)]
    ingest(
        graph,
        {"src": [names[1], names[2]], "dst": [8, 7], "relation": ["votes", "votes"]},
        {"src": [names[1]], "dst": [names[3]], "relation": ["knows"]},
    )
    ids = graph.ids["user"].lookup(names, missing="mark")
    assert ids.tolist() == [-1, 0, 1, 2] and list(graph.ids) == ["user"]
    assert graph[votes].in_neighbors(7).tolist() == [1]
    source = MemorySource("rows", kind="user")
    source.append(node=[names[0], names[2]], attrs={"x": [[5.0], [6.0]]})
    source.end()
    assert Ingestor(graph, source).run().nodes == 1
    assert graph["user"].attrs["x"].gather([0, 1, 2, 3])[:, 0].tolist() == [0, 6, 0, 5]
    graph.close()


def test_what_does_not_fit_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    keyed = DynamicGraph.open(tmp_path / "g", ids="str", **SMALL)
    plain = DynamicGraph(3, 16)
    file = tmp_path / "e.jsonl"
    file.touch()
    for graph, ids, message in (
        (keyed, None, r"keys of type 'str', but the schema says None of src: give the schema ids="),
        (keyed, "int64", "keys of type 'str', but the schema says 'int64' of src"),
        (keyed, {"src": "str"}, "the schema says None of dst"),
        (
            plain,
            "str",
            "have no keys, but the schema says 'str' of src: leave ids= out, or make the graph",
        ),
    ):
        schema = Schema.json(src="u", dst="v", ids=ids)
        with pytest.raises(errors.InvalidArgumentError, match=message):
            Ingestor(graph, FileSource(file, schema, follow=False))
    with pytest.raises(errors.InvalidArgumentError, match="leave id_map out"):
        Ingestor(keyed, MemorySource("m"), id_map=object())  # type: ignore[arg-type]
    for bad, message in (
        (3, "ids = 3 is no type"), ("text", "a key is of type"), ({"node": "str"}, "ids has 'node'")
    ):  # fmt: skip
        with pytest.raises(errors.InvalidArgumentError, match=message):
            Schema.json(src="u", dst="v", ids=bad)
    keyed.close()


# ---- killed --------------------------------------------------------------------------------------

INGEST = """
import sys
from aethergraph import DynamicGraph
from aethergraph.streaming import FileSource, Ingestor, Schema, files
files._BYTES = 1500
path, file = sys.argv[1:]
graph = DynamicGraph.open(path, ids="str", order="time", arena_mb=16, huge_pages=False,
                          max_nodes=100_000)
schema = Schema.json(src="u", dst="v", ids="str")
ingestor = Ingestor(graph, FileSource(file, schema, follow=False), batch=29, linger=0)
commit = ingestor._commit
def noted(**options):
    commit(**options)
    print(str(ingestor.stats().commits).ljust(2000), flush=True)
    if ingestor.stats().commits % 40 == 7:
        graph.merge()
ingestor._commit = noted
ingestor.run()
graph.close()
print("done", flush=True)
"""


@pytest.mark.any_python
@pytest.mark.timeout(kills_timeout())
def test_killed_anywhere_keys_and_edges_agree(tmp_path: Path) -> None:
    own, pairs = random.Random(2), []
    with open(tmp_path / "e.jsonl", "w") as file:
        for _ in range(1500):
            pairs.append((f"user {own.randrange(3000)}", f"post {own.randrange(3000)}"))
            file.write(json.dumps(dict(zip("uv", pairs[-1], strict=True))) + "\n")
    args = [tmp_path / "g", tmp_path / "e.jsonl"]
    kills, most = run_killed(INGEST, args, np.random.default_rng(4), 12)
    assert kills >= min(most, 6)
    graph = DynamicGraph.open(tmp_path / "g", **SMALL)
    assert by_keys(graph) == sorted(pairs)
    assert graph.num_nodes == len({key for pair in pairs for key in pair})
    graph.close()


def test_decoders_of_texts_are_found_again() -> None:
    schema = Schema.csv(src="u", dst="v", ids="str")
    assert isinstance(schema.decoder, decode.CsvDecoder)
    head = find_head(b"u,v", None)
    assert head is not None and schema.decoder.below(head).texts == {"u", "v"}
