"""Records that a source once lost without a word: read, or an error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.kafka import Broker, kafka_source, running_broker

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import FileSource, FlightSource, Ingestor, Schema, SocketSource

JSON = Schema.json(src="u", dst="v")
WAIT = 60


def small() -> DynamicGraph:
    return DynamicGraph(10_000, 64, order="time", layout="csc", huge_pages=False)


def lines(first: int, count: int, u: int = 1) -> bytes:
    return b"".join(b'{"u": %d, "v": %d}\n' % (u, v) for v in range(first, first + count))


@pytest.mark.parametrize("form", ["another beginning", "another end"])
def test_a_file_that_is_truncated_and_grows_beyond_the_place(tmp_path: Path, form: str) -> None:
    """Nothing but what stands there tells that it is not the file that was read."""
    path, graph = tmp_path / "e.jsonl", small()
    path.write_bytes(lines(0, 500))
    same = b"" if form == "another beginning" else lines(0, 100)
    anew = pytest.raises(errors.SourceError, match="it was written anew in place")
    with anew, Ingestor(graph, FileSource(path, JSON, interval=0.001)) as ingestor:
        ingestor.drain(WAIT)
        assert graph.num_edges == 500
        # In one write: a reader sees the old content, or all of the new one.
        with open(path, "r+b", buffering=0) as file:
            file.write(same + lines(2000, 1000, u=2))
        ingestor.drain(WAIT)
    assert graph.num_edges == 500


def test_a_file_may_grow_by_any_pieces(tmp_path: Path) -> None:
    path, graph = tmp_path / "e.jsonl", small()
    whole = lines(0, 300)
    path.touch()
    with Ingestor(graph, FileSource(path, JSON, interval=0.001)) as ingestor:
        for begin in range(0, len(whole), 37):
            with open(path, "ab") as file:
                file.write(whole[begin : begin + 37])
                os.fsync(file.fileno())
        ingestor.drain(WAIT)
    assert graph.num_edges == 300


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as running:
        yield running


def test_what_comes_between_two_runs_from_the_latest_on(broker: Broker) -> None:
    broker.make_topic("between", 2)
    for number in range(3):
        broker.send("between", 0, [b'{"u": 1, "v": %d}' % number])
    graph = small()
    options: dict[str, Any] = {"start": "latest", "stop_at_end": True}
    Ingestor(graph, kafka_source("between", broker.address, JSON, **options)).run()
    assert graph.num_edges == 0 and graph.offsets("between") == {0: 3, 1: 0}
    for number in range(5):
        broker.send("between", number % 2, [b'{"u": 2, "v": %d}' % number])
    Ingestor(graph, kafka_source("between", broker.address, JSON, **options)).run()
    assert graph.num_edges == 5


@pytest.mark.parametrize("option", ["delete_values", "columns"])
def test_a_text_is_no_list_of_its_letters(option: str) -> None:
    fields: dict[str, Any] = {"src": "u", "dst": "v", "delete": "op", "columns": ["u", "v", "op"]}
    with pytest.raises(errors.InvalidArgumentError, match=rf"{option} .*'delete'.*: put it in"):
        Schema.csv(**{**fields, option: "delete"})
    assert Schema.csv(**fields, delete_values=["delete"]).delete_values == ("delete",)


@pytest.mark.parametrize(
    ("values", "deleted"),
    [
        (["1"], [0, 6]), (["01"], [1]), (["-1"], [2]), (["true"], [3]), (["True"], [4]),
        (["1", "d"], [0, 5, 6]), ([1], [0, 1, 6]), ([True], [3, 4]), ([-1.0], [2]),
    ],
)  # fmt: skip
def test_values_that_mean_a_deletion_are_those_that_are_written(
    values: list[Any], deleted: list[int]
) -> None:
    texts = ["1", "01", "-1", "true", "True", "d", " 1"]
    schema = Schema.csv(
        src="u", dst="v", delete="op", delete_values=values, columns=["u", "v", "op"]
    )
    payloads = [f"{number},0,{text}".encode() for number, text in enumerate(texts)]
    for more in ([], [b"x"]):  # beside a record that cannot be read, each is looked at by itself
        given = [*payloads, *more]
        records = schema.decode(0, len(given), given, np.arange(len(given)))
        assert np.flatnonzero(records.columns["delete"]).tolist() == deleted
        assert len(records.bad) == len(more)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (
            Schema.csv,
            {"delete": "d", "columns": ["u", "v", "d"], "delete_values": ["1", 2]},
            "has texts and others",
        ),
        (
            Schema.json,
            {"delete": "d", "delete_values": 5},
            r"delete_values = 5 is no list: put it in one, \[5\]",
        ),
        (Schema.csv, {"delete": "d", "delete_values": {"d": 1}}, r"is no list, such as \[\"d\"\]"),
        (Schema.csv, {"delete": "d", "delete_values": ["d", [1]]}, r"delete_values\[1\] = \[1\]"),
        (Schema.csv, {"columns": 5}, "columns must be a sequence"),
        (Schema.csv, {"columns": [5]}, "5 is no name"),
        (Schema.json, {"edge_type": 5}, "edge_type = 5 is not"),
        (Schema.json, {"node_type": 5}, "node_type = 5 is no name"),
        (Schema.struct, {"dtype": []}, "has no named fields"),
        (Schema.struct, {"dtype": [5]}, "struct: dtype"),
    ],
)
def test_schemas_that_are_none(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        make(**{"src": "u", "dst": "v", **options})


@pytest.mark.parametrize("token", ["", " ", "\n"])
@pytest.mark.parametrize("kind", [SocketSource, FlightSource])
def test_an_empty_secret_is_none(kind: Any, token: str) -> None:
    schema = Schema.arrow(src="u", dst="v")
    with pytest.raises(errors.InvalidArgumentError, match="token is empty or no text"):
        kind("events", schema, host="0.0.0.0", token=token, tls=("cert.pem", "key.pem"))


@pytest.mark.parametrize("kind", [SocketSource, FlightSource])
def test_places_to_listen_at_that_are_none(kind: Any) -> None:
    schema = Schema.arrow(src="u", dst="v")
    with pytest.raises(errors.InvalidArgumentError, match=r"port = 99999 is not in 0\.\.65535"):
        kind("events", schema, port=99999)
    with pytest.raises(errors.InvalidArgumentError, match="host must be a text"):
        kind("events", schema, host=[1, 2])
