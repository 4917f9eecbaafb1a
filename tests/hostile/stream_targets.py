"""Streams and their schemas for the attack."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from target import Target, then

import aethergraph as ag
from aethergraph import streaming
from aethergraph.streaming.address import open_source

__all__ = ["stream_targets"]

_RECORD = np.dtype([("u", "<i8"), ("v", "<i8"), ("t", "<i8")])
_ENDS: dict[str, Any] = {"src": "u", "dst": "v"}
_AVRO = {
    "type": "record", "name": "E", "fields": [{"name": n, "type": "long"} for n in "uv"],
}  # fmt: skip


def _struct() -> streaming.Schema:
    return streaming.Schema.struct(_RECORD, **_ENDS)


def _graph() -> Any:
    return ag.DynamicGraph(
        20, arena_mb=2, max_nodes=1000, huge_pages=False, order="time", edge_time="int64"
    )


def _source() -> streaming.MemorySource:
    source = streaming.MemorySource("m")
    source.append(src=[0, 1], dst=[1, 2], time=[1, 2])
    source.end()
    return source


def _read(source: Any) -> None:
    """Open a source and look at it once."""
    try:
        source.open({})
        source.poll(0)
    finally:
        source.close()


def _lines(folder: Path) -> Path:
    path = folder / "lines.jsonl"
    if not path.exists():
        path.write_text('{"u": 0, "v": 1}\n{"u": 1, "v": 2}\n')
    return path


def stream_targets() -> Iterator[Target]:
    """Yield the targets of ``aethergraph.streaming``."""
    schema = streaming.Schema
    fields = {**_ENDS, "time": "t", "weight": None, "delete": None, "attrs": {}, "ids": None}
    yield Target("Schema.json", lambda _: (schema.json, dict(fields)))
    yield Target("Schema.arrow", lambda _: (schema.arrow, dict(fields)))
    yield Target(
        "Schema.csv", lambda _: (schema.csv, {"columns": ["u", "v"], "delimiter": ",", **_ENDS})
    )
    yield Target("Schema.struct", lambda _: (schema.struct, {"dtype": _RECORD, **_ENDS}))
    yield Target("Schema.avro", lambda _: (schema.avro, {"schema": _AVRO, **_ENDS}))
    yield Target(
        "Schema.avro (registry)",
        lambda _: (schema.avro, {"registry": "http://127.0.0.1:1", **_ENDS}),
    )
    yield Target("Schema.load", lambda f: (schema.load, {"path": f / "edges.csv"}))
    yield Target("MemorySource", lambda _: (_ingested, {"name": "m", "kind": None, "most": 10}))
    records = {"partition": 0, "src": [0], "dst": [1], "time": [3], "attrs": {}}
    yield Target(
        "MemorySource.append", lambda _: (streaming.MemorySource("m").append, dict(records))
    )
    yield Target(
        "MemorySource.append, ingested",
        lambda _: (_appended, {"src": [0, 1], "dst": [1, 2], "time": [3, 4]}),
    )
    yield Target(
        "Ingestor",
        lambda _: (
            then(streaming.Ingestor, lambda ingestor: ingestor.run()),
            {"graph": _graph(), "source": _source()},
        ),
        (AttributeError, TypeError),  # of a source of somebody else
    )
    yield Target(
        "FileSource",
        lambda f: (
            then(streaming.FileSource, _read),
            {"path": _lines(f), "schema": schema.json(**_ENDS), "follow": False},
        ),
    )
    for cls in (streaming.SocketSource, streaming.FlightSource):
        given = {"name": "s", "schema": schema.arrow(**_ENDS), "host": "127.0.0.1", "port": 0}
        yield Target(cls.__name__, lambda _, cls=cls, given=given: (then(cls, _read), dict(given)))
    yield Target(
        "UdpSource",
        lambda _: (
            then(streaming.UdpSource, _read),
            {"name": "s", "schema": _struct(), "host": "127.0.0.1", "port": 0},
        ),
    )
    yield Target(
        "KafkaSource",
        lambda _: (
            streaming.KafkaSource,
            {"topic": "t", "bootstrap": "127.0.0.1:1", "schema": schema.json(**_ENDS)},
        ),
    )
    yield Target(
        "streaming.open_source",
        lambda f: (open_source, {"address": str(_lines(f)), "schema": schema.json(**_ENDS)}),
    )


def _ingested(name: Any, kind: Any, most: Any) -> None:
    source = streaming.MemorySource(name, kind=kind, most=most)
    source.append(src=[0, 1], dst=[1, 2], time=[3, 4])
    source.end()
    streaming.Ingestor(_graph(), source).run()


def _appended(src: Any, dst: Any, time: Any) -> None:
    source = streaming.MemorySource("m")
    source.append(src=src, dst=dst, time=time)
    source.end()
    with tempfile.TemporaryDirectory() as folder:
        streaming.Ingestor(_graph(), source, dead_letter=Path(folder, "bad")).run()
