"""Copies of live graphs: into files, and into live graphs again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, DynamicHeteroGraph, FeatureStore, Graph, HeteroGraph, errors


@pytest.mark.parametrize("order", ["id", "time"])
def test_a_copy_of_a_copy(order: Any) -> None:
    graph = DynamicGraph(5, 16, order=order, edge_weight="float32", edge_attrs={"m": ((), "int64")})
    graph.insert_edges([0, 1, 2], [1, 2, 1], weight=[1, 2, 3], edge_attrs={"m": [7, 8, 9]})
    graph.delete_edge(0, 1)
    for source in (graph, graph.snapshot(), graph.to_graph()):
        again = DynamicGraph.from_graph(source)
        assert again.in_neighbors(1).tolist() == [2]
        edges = [*again.in_edges(1), *again.in_edges(2)]
        assert again.edge_attrs["m"].gather(edges).tolist() == [9, 8]
        assert again.value_stores("edge")["edge_weight"].gather(edges).tolist() == [3, 2]
        assert again.order == ("time" if isinstance(source, Graph) else order)


def test_files(tmp_path: Path) -> None:
    graph = DynamicGraph(5, 16)
    graph.insert_edges([0, 1], [1, 2])
    graph.save(tmp_path / "g.aeg")
    assert Graph.load(tmp_path / "g.aeg").num_edges == 2
    FeatureStore.from_array(np.eye(5)).save(tmp_path / "x.npy")
    graph.load_features(tmp_path / "x.npy")
    graph.add_nodes(1, x=np.ones((1, 5)))
    assert graph.features is not None
    assert graph.features.gather([1, 5]).tolist() == [[0, 1, 0, 0, 0], [1] * 5]
    typed = DynamicHeteroGraph({"u": 5}, [("u", "r", "u")], 16)
    typed["u", "r", "u"].insert([0], [1])
    typed.save(tmp_path / "h.aeg")
    assert HeteroGraph.load(tmp_path / "h.aeg")["u", "r", "u"].num_edges == 1


def test_values_that_do_not_fit_are_refused() -> None:
    graph = DynamicGraph(3, 16)
    graph.node_attrs["i"] = np.zeros(3, np.int64)
    graph.node_attrs["f"] = np.zeros(3, np.float32)
    for name, value in (("i", np.array([2**63], np.uint64)), ("f", np.array([1e60]))):
        with pytest.raises(errors.OutOfRangeError, match=rf"{name}\[0\]"):
            graph.update_nodes([0], **{name: value})
    graph.update_nodes([0], f=[np.inf], i=np.array([7], np.uint8))
    assert graph.node_attrs["f"].gather([0]).tolist() == [np.inf]


def test_since_is_of_the_same_graph() -> None:
    one, other = DynamicGraph(3, 16), DynamicGraph(3, 16)
    with pytest.raises(errors.InvalidArgumentError, match="another graph"):
        one.snapshot().changed(other.snapshot())
