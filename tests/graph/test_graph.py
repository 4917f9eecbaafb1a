"""Graph: questions to the adjacency, layouts, attributes, closing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import Ids, edge_lists, examples

from aethergraph import (
    DynamicGraph,
    DynamicHeteroGraph,
    FeatureTable,
    Graph,
    HeteroGraph,
    NeighborSampler,
    errors,
    protocols,
)


@examples(60)
@given(edges=edge_lists(max_nodes=12, max_edges=60), layout=st.sampled_from(["csc", "csr", "both"]))
def test_adjacency_equals_the_edge_list(edges: tuple[int, Ids, Ids], layout: Any) -> None:
    num_nodes, src, dst = edges
    graph = Graph.from_edges(num_nodes, src, dst, layout=layout)
    pairs = set(zip(src.tolist(), dst.tolist(), strict=True))
    for v in range(num_nodes):
        if layout != "csr":
            assert graph.in_neighbors(v).tolist() == src[dst == v].tolist()
        if layout != "csc":
            assert graph.neighbors(v).tolist() == dst[src == v].tolist()
        for u in range(num_nodes):
            assert graph.has_edge(u, v) == ((u, v) in pairs)
    if layout != "csr":
        np.testing.assert_array_equal(graph.in_degrees(), np.bincount(dst, minlength=num_nodes))
    if layout != "csc":
        np.testing.assert_array_equal(graph.out_degrees(), np.bincount(src, minlength=num_nodes))
    counted = np.bincount(dst if layout == "csc" else src, minlength=num_nodes)
    assert [graph.degree(v) for v in range(num_nodes)] == counted.tolist()
    with pytest.raises(errors.OutOfRangeError, match=f"node = {num_nodes} is "):
        graph.degree(num_nodes)


def test_edge_ids_agree_between_the_layouts() -> None:
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 30, (2, 300))
    graph = Graph.from_edges(30, src, dst, layout="both")
    by_id = np.stack(graph.edge_index())
    for v in range(30):
        incoming = graph.in_edges(v)
        np.testing.assert_array_equal(by_id[0, incoming], graph.in_neighbors(v))
        assert (by_id[1, incoming] == v).all()
        outgoing = graph.out_edges(v)
        np.testing.assert_array_equal(by_id[1, outgoing], graph.neighbors(v))
        assert (by_id[0, outgoing] == v).all()


def test_layouts_that_are_not_stored() -> None:
    csc, csr = (Graph.from_edges(3, [0], [1], layout=lay) for lay in ("csc", "csr"))  # type: ignore[arg-type]
    for call in (csc.csr, csc.out_degrees, lambda: csc.neighbors(0), lambda: csc.out_edges(0)):
        with pytest.raises(errors.LayoutError, match="layout='csr' or layout='both'"):
            call()
    for call in (csr.csc, csr.in_degrees, lambda: csr.in_neighbors(0), lambda: csr.in_edges(0)):
        with pytest.raises(errors.LayoutError, match="layout='csc' or layout='both'"):
            call()
    with pytest.raises(NotImplementedError):
        NeighborSampler(csr, [2])
    assert csc.has_edge(0, 1) and csr.has_edge(0, 1)
    assert [a.tolist() for a in csr.edge_index()] == [[0], [1]]


def test_attributes(graph: Graph) -> None:
    assert graph.features is None
    graph.features = np.ones((200, 4), np.float32)
    assert isinstance(graph.features, FeatureTable)
    assert graph.node_attrs["x"] is graph.features
    graph.node_attrs["y"] = list(range(200))
    graph.edge_attrs["w"] = np.zeros((3000, 2))
    assert sorted(graph.node_attrs) == ["x", "y"]
    assert len(graph.edge_attrs) == 1
    assert graph.node_attrs["y"].gather([7]).tolist() == [7]
    graph.features = None
    assert "x" not in graph.node_attrs
    del graph.node_attrs["y"]
    with pytest.raises(KeyError):
        graph.node_attrs["y"]
    assert "w" in repr(graph.edge_attrs)


def test_info_and_repr(full_graph: Graph) -> None:
    info = full_graph.info()
    assert info["num_nodes"] == 120 and info["num_edges"] == 900
    assert info["layout"] == "both" and info["storage"] == "memory" and info["path"] is None
    assert info["edge_weight"] == "float32" and info["edge_time"] == "int64"
    assert info["node_time"] == "float64" and info["edge_order"] is True
    assert info["node_attrs"]["x"]["shape"] == (120, 8)
    assert info["adjacency_bytes"] == 2 * (121 * 8 + 900 * 4) + 900 * 4
    node, edge = list(full_graph.node_attrs), list(full_graph.edge_attrs)
    assert repr(full_graph) == (
        "Graph(num_nodes=120, num_edges=900, layout='both', storage='memory', "
        f"node_attrs={node}, edge_attrs={edge})"
    )
    assert "attrs" not in repr(Graph.from_edges(2, [0], [1]))


def test_a_closed_graph_says_so(graph: Graph) -> None:
    indptr, indices = graph.csc()
    sampler = NeighborSampler(graph, [2])
    expected = sampler.sample([1], key=1)
    with graph:
        pass
    graph.close()
    assert graph.closed and "closed" in repr(graph)
    calls: list[Any] = [
        lambda: graph.in_neighbors(0), graph.in_degrees, graph.csc, graph.edge_index, graph.verify,
        graph.info, lambda: graph.layout, lambda: graph.features, lambda: graph.node_attrs,
        lambda: graph.edge_weight, lambda: graph.has_edge(0, 1), lambda: graph.save("x"),
        lambda: NeighborSampler(graph, [2]), lambda: setattr(graph, "features", None),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(errors.ClosedError, match="was closed"):
            call()
    assert graph.num_nodes == 200 and len(indptr) == 201 and indices.sum() > 0
    np.testing.assert_array_equal(sampler.sample([1], key=1).node, expected.node)


def things(path: Path) -> Iterator[Any]:
    """Yield graphs, views and rows of every kind that have nothing but their edges, or rows."""
    likes = ("user", "likes", "post")
    for layout in ("csc", "csr", "both"):
        graph = Graph.from_edges(5, [0, 1], [1, 2], layout=layout)
        typed = HeteroGraph.from_edges(
            {likes: ([0, 1], [1, 2])}, {"user": 3, "post": 3}, layout=layout
        )
        live = DynamicGraph(5, arena_mb=8, layout=layout)
        live_typed = DynamicHeteroGraph({"user": 3, "post": 3}, [likes], arena_mb=8, layout=layout)
        yield from (graph, live, live.snapshot())
        for each in (typed, live_typed, live_typed.snapshot()):
            yield from (each, each[likes], each["user"])
        graph.save(path / "g.aeg")
        typed.save(path / "h.aeg")
        for how in ({"storage": "mmap"}, {"storage": "uring", "memory_budget": "64M"}):
            yield Graph.load(path / "g.aeg", **how)
            yield HeteroGraph.load(path / "h.aeg", **how)
    rows = FeatureTable.from_array(np.zeros((3, 2), np.float32))
    rows.save(path / "x.aef")
    yield from (rows, rows.astype("float64"), FeatureTable.load(path / "x.aef"))
    yield FeatureTable.load(path / "x.aef", storage="uring", memory_budget="64M")


class NoInteger:
    """Object with a method that makes it an integer, which fails."""

    def __index__(self) -> int:
        raise RuntimeError("no index after all")


def test_a_node_whose_number_cannot_be_asked_for_is_refused() -> None:
    graph = Graph.from_edges(2, [0], [1])
    with pytest.raises(errors.InvalidArgumentError, match="node must be an integer node id"):
        graph.in_edges(NoInteger())  # type: ignore[arg-type]


def test_whoever_asks_for_what_is_not_there_is_told_so(tmp_path: Path) -> None:
    absent = set()
    for thing in things(tmp_path):
        kind = type(thing)
        for name in dir(kind):
            if name.startswith("_") or not isinstance(getattr(kind, name), property):
                continue
            if not hasattr(thing, name):  # which raises whatever is no AttributeError
                absent.add((kind.__name__, name))
                with pytest.raises(errors.AbsentError, match=r"ids|no keys|no array of them all"):
                    getattr(thing, name)
    assert absent == {
        ("Graph", "ids"), ("DynamicGraph", "ids"), ("Snapshot", "ids"), ("FeatureTable", "array"),
    }  # fmt: skip
    graph = Graph.from_edges(2, [0], [1])
    assert not hasattr(graph, "nothing") and getattr(graph, "ids", None) is None
    assert issubclass(errors.AbsentError, errors.InvalidArgumentError)
    assert issubclass(errors.AbsentError, errors.UnsupportedError)


def test_the_protocols_describe_the_classes(full_graph: Graph) -> None:
    assert isinstance(full_graph, protocols.HomogeneousGraph)
    assert isinstance(full_graph.features, protocols.FeatureSource)
    sampler = NeighborSampler(full_graph, [2])
    assert isinstance(sampler, protocols.Sampler)
    assert isinstance(sampler.sample([0]), protocols.SampledSubgraph)
