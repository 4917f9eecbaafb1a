"""Copies of live graphs are files like any others, which verify."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aethergraph import DynamicGraph, DynamicHeteroGraph, Graph, HeteroGraph


@pytest.mark.parametrize("deleted", [False, True])
def test_a_copy_is_saved_with_the_ids_of_its_edges(deleted: bool, tmp_path: Path) -> None:
    graph = DynamicGraph(20, arena_mb=1, order="time")
    src, dst = np.random.default_rng(0).integers(0, 20, (2, 200))
    ids = graph.insert_edges(src, dst)
    if deleted:
        gone = ids[::3]
        graph.delete_edges(src[gone], dst[gone], edge_ids=gone)
        ids = np.setdiff1d(ids, gone)
    graph.to_graph().save(tmp_path / "g.aeg")
    saved = Graph.load(tmp_path / "g.aeg")
    saved.verify()
    order = saved.edge_order
    assert order is not None and sorted(order.tolist()) == list(range(len(ids)))
    assert ("edge_id" in saved.edge_attrs) == deleted
    before = saved.edge_attrs["edge_id"].gather(np.arange(len(ids))) if deleted else order
    assert sorted(before.tolist()) == ids.tolist()
    found = saved.edge_index()
    np.testing.assert_array_equal(found[0], src[before])
    np.testing.assert_array_equal(found[1], dst[before])


def test_a_typed_copy_is_saved(tmp_path: Path) -> None:
    kind = ("user", "votes", "post")
    graph = DynamicHeteroGraph({"user": 3, "post": 2}, [kind], arena_mb=1)
    graph[kind].insert([0, 1, 2], [1, 0, 1])
    graph[kind].delete([0], [1])
    graph.to_graph().save(tmp_path / "g.aeg")
    saved = HeteroGraph.load(tmp_path / "g.aeg")
    saved.verify()
    assert saved[kind].num_edges == 2
