"""Edge ids of 4 bytes: the same graph in less memory, until there are no more of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, DynamicHeteroGraph, NeighborSampler, errors
from aethergraph._native.core import lib

NODES = 300
LAST = 2**32 - 2  # the greatest edge id of 4 bytes


def changed(graph: Any) -> Any:
    """Insert edges and delete some, in several commits."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        src, dst = rng.integers(0, NODES, (2, 900))
        dst[::3] = 7  # a long list
        graph.insert_edges(src, dst, time=rng.integers(0, 1000, 900))
        graph.delete_edges(src[::7], dst[::7])
    return graph


def test_samples_and_ids_are_those_of_wide_ids() -> None:
    options: Any = {"order": "time", "edge_time": "int64"}
    wide = changed(DynamicGraph(NODES, 64, **options))
    narrow = changed(DynamicGraph(NODES, 64, edge_id_bytes=4, **options))
    seeds = np.arange(0, NODES, 3)
    for key in range(5):
        one, other = (NeighborSampler(g, [7, 5]).sample(seeds, key=key) for g in (wide, narrow))
        for name in ("node", "row", "col", "edge"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for one, other in zip(wide.edge_list(), narrow.edge_list(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert narrow.stats().used_bytes < wide.stats().used_bytes


@pytest.mark.parametrize("typed", [False, True])
def test_ids_end_with_an_error(typed: bool) -> None:
    graph: Any
    if typed:
        kind = ("a", "to", "a")
        graph = DynamicHeteroGraph({"a": 4}, {kind: {"edge_id_bytes": 4}}, 64)
        edges = graph[kind]
    else:
        graph = DynamicGraph(4, 64, edge_id_bytes=4)
        edges = graph
    live = graph._store.live
    assert lib.aether_live_skip_edge_ids(live._handle, 0, LAST - 1, live._err) == 0
    insert = edges.insert if typed else edges.insert_edges
    assert insert([0, 1], [1, 2]).tolist() == [LAST - 1, LAST]
    with pytest.raises(errors.LimitError, match="edge_id_bytes 8"):
        insert([2], [3])
    assert edges.num_edges == 2


def test_a_directory_keeps_the_size_and_takes_another(tmp_path: Path) -> None:
    path = tmp_path / "g.aegd"
    with DynamicGraph.open(path, NODES, 64, order="time", edge_id_bytes=4) as graph:
        graph.insert_edges([1, 2], [3, 4])
        graph.merge()
        graph.insert_edges([5, 6], [3, 4])
    described = json.loads((path / "graph.json").read_text())
    assert described["edge_types"][0][1]["edge_id_bytes"] == 4
    with DynamicGraph.open(path, arena_mb=64) as graph:
        assert graph.in_edges(3).tolist() == [0, 2]
        used = graph.stats().used_bytes
    with DynamicGraph.open(path, arena_mb=64, edge_id_bytes=8) as graph:
        assert graph.in_edges(3).tolist() == [0, 2]
        assert graph.stats().used_bytes > used
    with pytest.raises(errors.InvalidArgumentError, match="edge_id_bytes = 5"):
        DynamicGraph.open(path, arena_mb=64, edge_id_bytes=5)


def test_a_directory_of_before_has_wide_ids(tmp_path: Path) -> None:
    path = tmp_path / "g.aegd"
    with DynamicGraph.open(path, NODES, 64) as graph:
        graph.insert_edges([1, 2], [3, 4])
    described = json.loads((path / "graph.json").read_text())
    del described["edge_types"][0][1]["edge_id_bytes"], described["checksum"]
    (path / "graph.json").write_text(json.dumps(described))
    with DynamicGraph.open(path, arena_mb=64) as graph:
        assert graph.in_edges(3).tolist() == [0]
