"""Arguments of ingestors, of streams in memory and of offsets: what is wrong with them is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import BadRecord, Ingestor, MemorySource, Records


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
        ({"idle": -1}, "idle = -1"),
        ({"new_nodes": -1}, "new_nodes = -1"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        Ingestor(small(), MemorySource("s"), **options)


@pytest.mark.parametrize(
    ("append", "message"),
    [
        ({"src": 5, "dst": [1]}, r"src = 5 is no column: give a list .*src=\[\.\.\.\]"),
        ({"src": None, "dst": [1]}, "src = None is no column"),
        ({"src": [1], "dst": "ab"}, "dst = 'ab' is no column"),
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
