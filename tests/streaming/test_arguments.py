"""Arguments of ingestors, of streams in memory and of offsets: what is wrong with them is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import Ingestor, KafkaSource, MemorySource, Records, Schema, UdpSource
from aethergraph.streaming.arguments import as_latest, as_span
from aethergraph.streaming.records import BadRecord
from aethergraph.streaming.udp import pack_datagram


def small(nodes: int = 100) -> DynamicGraph:
    return DynamicGraph(nodes, 8, order="time", huge_pages=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch = 0"),
        ({"linger": "soon"}, "linger = 'soon' is no time"),
        ({"max_bad": "many"}, "max_bad = 'many'"),
        ({"max_bad": -1}, "max_bad = -1"),
        ({"max_bad": "101%"}, "max_bad = '101%'"),
        ({"late": "drop"}, "late = 'drop' is not one of insert, dead_letter"),
        ({"late": "dead_letter"}, "needs dead_letter="),
        ({"lateness": -1}, "lateness = -1"),
        ({"lateness": "5s"}, "lateness = '5s', but the graph's times have no unit"),
        ({"idle": -1}, "idle = -1"),
        ({"new_nodes": -1}, "new_nodes = -1"),
        ({"id_map": 5}, r"id_map of node type 'node' is 5, which has no lookup\(\) and append"),
        ({"id_map": {"user": []}}, "id_map: 'user' is no node type, but node"),
        ({"id_map": {"node": []}}, r"id_map of node type 'node' is \[\], which has no lookup"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        Ingestor(small(), MemorySource("s"), **options)


@pytest.mark.parametrize("name", [None, 5, "", "\ud800"])
def test_names_of_streams(name: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"name = .* is no text"):
        MemorySource(name)


def test_a_poll_returns_records() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="most = 0"):
        MemorySource("s", most=0)


@pytest.mark.parametrize("kind", ["x", ("a", "to", "b"), [1], {}])
def test_edge_types_that_the_graph_has_not(kind: Any) -> None:
    source = MemorySource("s", kind=kind)
    source.append(src=[0], dst=[1])
    source.end()
    with pytest.raises(errors.InvalidArgumentError, match="the graph has no edge type"):
        Ingestor(small(), source).run()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": 5}, "name must be a text"),
        ({"timeout": float("nan")}, "timeout = nan is not in 0"),
        ({"timeout": -1}, "timeout = -1 is not in 0"),
    ],
)
def test_bad_arguments_of_kafka(options: dict[str, Any], message: str) -> None:
    pytest.importorskip("confluent_kafka")
    schema = Schema.json(src="u", dst="v")
    with pytest.raises(errors.InvalidArgumentError, match=message):
        KafkaSource("t", "127.0.0.1:1", schema, **options)


def test_whom_to_trust_is_yes_or_no() -> None:
    schema = Schema.struct([("u", "<u4"), ("v", "<u4")], src="u", dst="v")
    with pytest.raises(errors.InvalidArgumentError, match="trust_network must be True or False"):
        UdpSource("s", schema, trust_network="no")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("partition", "following", "columns", "message"),
    [
        (0, None, {"src": [1]}, "following must be an integer, got NoneType"),
        (None, 1, {"src": [1]}, "partition must be an integer, got NoneType"),
        (0, 1, None, r"columns must be \{role: values\}, got None"),
        (0, 1, [1], r"columns must be \{role: values\}, got \[1\]"),
    ],
)
def test_bad_records(partition: Any, following: Any, columns: Any, message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        Records(partition, following, columns)


@pytest.mark.parametrize("rows", [None, 5, [1, 2], np.zeros(3), np.zeros((1, 2), "u4,u4")])
def test_datagrams_of_what_has_no_fields(rows: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="rows must be a vector of a dtype with"):
        pack_datagram(0, 0, rows)


@pytest.mark.parametrize(
    ("unit", "span", "count"),
    [
        ("ms", "5s", 5000), ("ns", "1us", 1000), ("s", "0s", 0), ("s", "500ms", 1), ("h", "90m", 2),
        ("D", "90m", 1), ("W", "7D", 1), ("15m", "30m", 2), ("15m", "31m", 3), ("M", "1D", 1),
        ("Y", "366D", 2), ("as", "9s", 9 * 10**18),
    ],
)  # fmt: skip
def test_spans_are_rounded_up(unit: str, span: str, count: int) -> None:
    assert as_span(span, unit, "lateness") == count


def test_a_span_that_does_not_fit() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="max_skew = '90m' does not fit in 64"):
        as_span("90m", "as", "max_skew")


@pytest.mark.parametrize("latest", ["9999-12-31", "2300-01-01", np.datetime64(9999, "Y")])
def test_a_date_after_all_times_of_the_graph_bounds_none(latest: Any) -> None:
    assert as_latest(latest, "ns") == 2**63 - 1
    assert as_latest(latest, "us") == int(np.datetime64(latest, "us").astype(np.int64))


def test_a_date_between_times_of_the_graph() -> None:
    assert as_latest("1970-01-01T02:59", "h") == 2
    assert as_latest("1969-12-31T23:30", "h") == -1
    assert as_latest("2200-01-01", "ns") == np.datetime64("2200-01-01", "ns").astype(np.int64)
    with pytest.raises(errors.InvalidArgumentError, match="'1600-01-01' is before all times in"):
        as_latest("1600-01-01", "ns")


@pytest.mark.parametrize(
    ("append", "message"),
    [
        ({"src": 5, "dst": [1]}, r"src = 5 is no column: give a list .*src=\[\.\.\.\]"),
        ({"src": None, "dst": [1]}, "src = None is no column"),
        ({"src": [1], "dst": "ab"}, "dst = 'ab' is no column"),
        ({"src": [1, 2], "dst": {2, 1}}, r"dst = \{1, 2\} is no column"),
        ({"src": np.array(3), "dst": [1]}, r"src = array\(3\) is no column"),
        ({"src": [1], "dst": [2], "attrs": 5}, "attrs must be {attribute: values}, got 5"),
        ({"src": [1], "dst": [2], "attrs": {"x": 5}}, "x = 5 is no column"),
        ({"partition": -1, "src": [1], "dst": [2]}, "partition = -1 is not in 0"),
        ({"partition": 2**70, "src": [1], "dst": [2]}, "partition = 118.* is not in 0"),
        ({"partition": "a", "src": [1], "dst": [2]}, "partition must be an integer"),
        ({}, r"s: append\(\) was given no columns"),
    ],
)
def test_what_cannot_be_appended(append: Any, message: str) -> None:
    source = MemorySource("s")
    with pytest.raises(errors.InvalidArgumentError, match=message):
        source.append(**append)
    assert source.lag() == {}


def test_columns_of_others_are_arrays() -> None:
    class Column:
        def __array__(self, *_: Any, **__: Any) -> Any:
            return np.array([1, 2])

    graph, source = small(), MemorySource("s")
    source.append(src=Column(), dst=range(2, 4))
    source.end()
    assert Ingestor(graph, source).run().edges == 2


@pytest.mark.parametrize(
    ("partition", "following", "message"),
    [
        (-1, 5, "partition = -1 is not in 0"),
        (2**70, 5, "partition = 118.* is not in 0"),
        (1.5, 5, "partition must be an integer"),
        (0, -1, "following = -1 is not in 0"),
        (0, 2**70, "following = 118.* is not in 0"),
    ],
)
def test_offsets_that_are_none(
    tmp_path: Path, partition: Any, following: Any, message: str
) -> None:
    graph = DynamicGraph.open(tmp_path / "g", 10, arena_mb=8, huge_pages=False)
    with pytest.raises(errors.InvalidArgumentError, match=message), graph.transaction():
        graph.set_offset("s", partition, following)
    assert graph.offsets("s") == {}
    graph.close()


@pytest.mark.parametrize("name", ["clicks#time", "clicks#mark"])
def test_names_of_what_is_kept_beside_a_stream(name: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"source.name = '{name}': .*name="):
        Ingestor(small(), MemorySource(name))
    Ingestor(small(), MemorySource(f"{name}s"))


def test_what_is_no_graph_or_no_source() -> None:
    from aethergraph import Graph

    with pytest.raises(errors.InvalidArgumentError, match="graph must be"):
        Ingestor(Graph.from_edges(2, [0], [1]), MemorySource("s"))  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="source must be"):
        Ingestor(small(), object())  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="not 'weigth'"):
        Records(0, 1, {"weigth": [1]})
    with pytest.raises(errors.InvalidArgumentError, match="2 values of one column, but 1"):
        Records(0, 1, {"src": [1, 2], "dst": [1]})
    assert BadRecord(1, "why").payload is None
