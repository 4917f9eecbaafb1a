"""Copies of live graphs: into files, and into live graphs again."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, DynamicHeteroGraph, FeatureTable, Graph, HeteroGraph, errors


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
        assert again.edge_values["edge_weight"].gather(edges).tolist() == [3, 2]
        assert again.order == ("time" if isinstance(source, Graph) else order)


@pytest.mark.parametrize("typed", [False, True])
def test_what_was_attached_to_a_snapshot_is_copied(tmp_path: Path, typed: bool) -> None:
    kind = ("a", "to", "a") if typed else ("node", "to", "node")
    graph: Any = DynamicHeteroGraph({"a": 3}, [kind], 16) if typed else DynamicGraph(3, 16)
    (graph[kind].insert if typed else graph.insert_edges)([0, 1], [1, 2])
    with graph.snapshot() as now:
        graph_x = np.eye(3)
        nodes = now[kind[0]].attrs if typed else now.node_attrs
        edges = now[kind].attrs if typed else now.edge_attrs
        nodes["x"], edges["e"] = graph_x, np.array([7, 8])
        now.save(tmp_path / "g.aeg")
        for copied in (HeteroGraph.load(tmp_path / "g.aeg"), now.to_graph(path=tmp_path / "h.aeg")):
            if isinstance(copied, Graph):
                rows, values = copied.node_attrs["x"], copied.edge_attrs["e"]
            else:
                rows, values = copied[kind[0]].attrs["x"], copied[kind].attrs["e"]
            assert np.array_equal(rows.gather([0, 1, 2]), graph_x)
            assert values.gather([0, 1]).tolist() == [7, 8]


COPIES: list[Callable[[Any], Any]] = [
    copy.deepcopy,
    lambda graph: pickle.loads(pickle.dumps(graph)),
]


@pytest.mark.parametrize("make", COPIES, ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("kept", [False, True], ids=["memory", "directory"])
def test_what_python_copies_reads_the_same_graph(tmp_path: Path, make: Any, kept: bool) -> None:
    graph = DynamicGraph.open(tmp_path / "g", 5, 16) if kept else DynamicGraph(5, 16)
    graph.features = np.eye(5)
    graph.insert_edge(0, 1)
    reader = make(graph)
    graph.insert_edge(2, 1)  # seen by both
    graph.update_nodes([2], x=np.full((1, 5), 7))
    assert reader.in_neighbors(1).tolist() == [0, 2]
    assert reader.features.gather([2]).tolist() == [[7] * 5]
    with graph.snapshot() as held:
        graph.insert_edge(3, 1)
        assert held.in_neighbors(1).tolist() == [0, 2]
        with pytest.raises(errors.UnsupportedError, match="does not pickle"):
            make(held)
    changes: list[Callable[[], Any]] = [
        lambda: reader.insert_edge(0, 2), lambda: reader.delete_edge(0, 1),
        lambda: reader.add_nodes(1, x=np.eye(5)[:1]), lambda: reader.set_offset("clicks", 0, 1),
        lambda: reader.update_nodes([0], x=np.eye(5)[:1]), reader.reclaim,
        lambda: reader.node_attrs.update(y=np.zeros(5)),
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(errors.UnsupportedError, match="can only read"):
            change()
    reader.flush()  # there is nothing to wait for
    reader.close()
    graph.insert_edge(4, 1)  # closing the reader changes nothing
    graph.set_offset("clicks", 0, 1)
    assert graph.offsets("clicks") == {0: 1}
    graph.close()
    if kept:
        graph = DynamicGraph.open(tmp_path / "g", arena_mb=16)
        assert graph.num_edges == 4
        graph.close()


@pytest.mark.parametrize("make", COPIES, ids=["deepcopy", "pickle"])
def test_copies_of_many_types_read_the_same_graph(make: Any) -> None:
    graph = DynamicHeteroGraph({"u": 5}, [("u", "r", "u")], 16)
    reader = make(graph)
    graph["u", "r", "u"].insert([0], [1])
    assert reader["u", "r", "u"].in_neighbors(1).tolist() == [0]
    for change in (
        lambda: reader["u", "r", "u"].insert([0], [1]), lambda: reader["u"].add(1),
        lambda: reader.set_offset("clicks", 0, 1),
    ):  # fmt: skip
        with pytest.raises(errors.UnsupportedError, match="can only read"):
            change()
    with pytest.raises(errors.UnsupportedError, match="does not pickle"):
        make(graph.snapshot())


def test_files(tmp_path: Path) -> None:
    graph = DynamicGraph(5, 16)
    graph.insert_edges([0, 1], [1, 2])
    graph.save(tmp_path / "g.aeg")
    assert Graph.load(tmp_path / "g.aeg").num_edges == 2
    FeatureTable.from_array(np.eye(5)).save(tmp_path / "x.npy")
    graph.load_features(tmp_path / "x.npy")
    graph.add_nodes(1, x=np.ones((1, 5)))
    assert graph.features is not None
    assert graph.features.gather([1, 5]).tolist() == [[0, 1, 0, 0, 0], [1] * 5]
    typed = DynamicHeteroGraph({"u": 5}, [("u", "r", "u")], 16)
    typed["u", "r", "u"].insert([0], [1])
    typed.save(tmp_path / "h.aeg")
    assert HeteroGraph.load(tmp_path / "h.aeg")["u", "r", "u"].num_edges == 1
