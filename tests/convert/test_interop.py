"""Graphs from and to scipy and networkx, against dictionaries of edges."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import edge_lists, examples

from aethergraph import DynamicGraph, Graph, errors
from aethergraph.interop import from_networkx, from_scipy, to_networkx, to_scipy

sparse = pytest.importorskip("scipy.sparse")
networkx = pytest.importorskip("networkx")

layouts = st.sampled_from(["csc", "csr", "both"])


def edges_of(graph: Graph, values: Any = None) -> Counter[Any]:
    src, dst = graph.edge_index()
    values = np.ones(len(src)) if values is None else values
    return Counter(zip(src.tolist(), dst.tolist(), values.tolist(), strict=True))


# ---- scipy -----------------------------------------------------------------------------------


@examples(60)
@given(
    edges=edge_lists(), layout=layouts, format=st.sampled_from(["csr", "csc", "coo"]),
    weighted=st.booleans(), old=st.booleans(),
)  # fmt: skip
def test_scipy_and_back(edges: Any, layout: Any, format: Any, weighted: bool, old: bool) -> None:
    """Duplicates, self-loops and zeros are kept, in every format."""
    num_nodes, src, dst = edges
    weight = (np.arange(len(src)) % 4).astype(np.float32) if weighted else None
    graph = Graph.from_edges(num_nodes, src, dst, edge_weight=weight, layout=layout)
    matrix = graph.to_scipy(format)
    assert matrix.format == format
    assert matrix.shape == (num_nodes, num_nodes)
    assert matrix.nnz == len(src)
    assert matrix.dtype == np.float32
    if weighted and format in (layout, "coo"):  # entries are in the order of edge ids
        assert np.array_equal(matrix.data, graph.edge_weight)
    assert (graph.to_scipy(format, weight=False).data == 1).all()
    if num_nodes:
        dense = np.zeros((num_nodes, num_nodes))
        np.add.at(dense, (src, dst), 1 if weight is None else weight)
        assert np.array_equal(matrix.toarray(), dense)
    if old:
        matrix = getattr(sparse, f"{format}_matrix")(matrix)
    again = Graph.from_scipy(matrix, weight=weighted, layout=layout, keep_order=True)
    assert again.layout == layout
    assert edges_of(again, again.edge_weight) == edges_of(graph, graph.edge_weight)
    entries = matrix.tocoo()
    ends = np.stack([entries.row, entries.col])[:, again.edge_order]
    assert np.array_equal(ends, np.stack(again.edge_index()))


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_every_format_of_scipy_is_read(format: str) -> None:
    dense = np.array([[0, 2.5, 0], [1, 0, 0], [0, 3, 4]])
    graph = from_scipy(sparse.csr_array(dense).asformat(format))
    src, dst = graph.edge_index()
    found = np.zeros((3, 3))
    found[src, dst] = graph.edge_weight
    assert np.array_equal(found, dense)
    assert graph.has_edge(0, 1)
    assert not graph.has_edge(2, 0)


@pytest.mark.parametrize(
    ("given", "kept"), [("float32", "float32"), ("int8", "float64"), ("bool", "float32")]
)
def test_dtypes_of_weights(given: str, kept: str) -> None:
    entries = np.array([1, 0, 1]).astype(given), ([0, 1, 2], [1, 2, 0])
    graph = from_scipy(sparse.coo_array(entries, shape=(3, 3)))
    assert graph.num_edges == 3  # the zero as well
    assert graph.edge_weight is not None
    assert graph.edge_weight.dtype == kept
    assert sorted(graph.edge_weight) == [0, 1, 1]


def test_what_scipy_gives_that_is_no_graph() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"square, got shape \(2, 3\)"):
        from_scipy(sparse.csr_array((2, 3)))
    with pytest.raises(errors.InvalidArgumentError, match="ndarray"):
        from_scipy(np.eye(3))
    negative = sparse.csr_array(np.array([[0, -2.0], [0, 0]]))
    with pytest.raises(errors.InvalidArgumentError, match=r"\[0\] = -2.*weight=False") as caught:
        from_scipy(negative)
    assert caught.value.position == 0
    assert from_scipy(negative, weight=False).num_edges == 1
    with pytest.raises(errors.InvalidArgumentError, match="'bsr' is not one of csr, csc, coo"):
        to_scipy(from_scipy(negative, weight=False), "bsr")  # type: ignore[arg-type]


# ---- networkx --------------------------------------------------------------------------------


@examples(60)
@given(edges=edge_lists(max_nodes=12, max_edges=40), directed=st.booleans(), multi=st.booleans())
def test_networkx_graphs_of_every_class(edges: Any, directed: bool, multi: bool) -> None:
    num_nodes, src, dst = edges
    kind = {
        (True, True): networkx.MultiDiGraph, (True, False): networkx.DiGraph,
        (False, True): networkx.MultiGraph, (False, False): networkx.Graph,
    }[directed, multi]  # fmt: skip
    g = kind()
    names = [f"n{i}" for i in range(num_nodes)]
    g.add_nodes_from(names)
    for i, (u, v) in enumerate(zip(src, dst, strict=True)):
        g.add_edge(names[u], names[v], w=float(i))
    graph, labels = from_networkx(g, edge_weight="w")
    assert labels == names
    expected: Counter[Any] = Counter()
    for u, v, held in g.edges(data=True):
        a, b = names.index(u), names.index(v)
        expected[a, b, held["w"]] += 1
        if not directed and a != b:
            expected[b, a, held["w"]] += 1
    assert edges_of(graph, graph.edge_weight) == expected


@examples(40)
@given(edges=edge_lists(max_nodes=12, max_edges=40), layout=layouts)
def test_networkx_and_back(edges: Any, layout: Any) -> None:
    num_nodes, src, dst = edges
    count = len(src)
    graph = Graph.from_edges(
        num_nodes, src, dst, edge_weight=np.arange(count) / 2.0, edge_time=np.arange(count),
        node_time=np.arange(num_nodes), layout=layout,
        edge_attrs={"edge_attr": np.arange(2.0 * count).reshape(count, 2)},
    )  # fmt: skip
    graph.features = np.arange(3.0 * num_nodes).reshape(num_nodes, 3)
    labels = [("node", i) for i in range(num_nodes)]
    g = to_networkx(graph, labels)
    assert list(g.nodes) == labels
    assert g.number_of_edges() == count
    again, found = from_networkx(
        g, edge_weight="weight", edge_time="time", node_time="time", edge_attrs=["edge_attr"],
        node_attrs=["x"], layout=layout,
    )  # fmt: skip
    assert found == labels
    assert edges_of(again, again.edge_weight) == edges_of(graph, graph.edge_weight)
    assert graph.edge_time is not None
    assert again.edge_time is not None
    if not count:  # of no edges networkx does not know the shape either
        return
    by_time = again.edge_attrs["edge_attr"].array[np.argsort(again.edge_time)]
    assert np.array_equal(by_time, graph.edge_attrs["edge_attr"].array[np.argsort(graph.edge_time)])
    assert np.array_equal(again.features.array, graph.features.array)
    assert np.array_equal(again.node_time, graph.node_time)


def test_numbers_as_labels_stay() -> None:
    g = networkx.DiGraph([(2, 0), (0, 1)])
    graph, labels = from_networkx(g)
    assert labels == [0, 1, 2]
    assert graph.has_edge(2, 0)
    assert graph.has_edge(0, 1)
    graph, labels = from_networkx(networkx.DiGraph([(7, 3), (3, 5)]))
    assert labels == [7, 3, 5]
    assert graph.has_edge(0, 1)
    assert from_networkx(networkx.DiGraph([(True, False)]))[1] == [True, False]
    assert from_networkx(networkx.DiGraph())[0].num_nodes == 0


def test_networkx_algorithms_find_weights() -> None:
    graph = Graph.from_edges(3, [0, 1, 0], [1, 2, 2], edge_weight=[1.0, 1.0, 5.0])
    graph.edge_attrs["key"] = np.arange(3)  # a name of networkx's own arguments
    g = to_networkx(graph)
    assert networkx.shortest_path(g, 0, 2, weight="weight") == [0, 1, 2]
    assert isinstance(g[0][1][0]["weight"], float)
    assert g[0][1][0]["key"] == 0


def test_what_networkx_gives_that_is_no_graph() -> None:
    g = networkx.Graph()
    g.add_edge("a", "b", w=1.0)
    g.add_edge("a", "c", v=1.0)
    with pytest.raises(errors.InvalidArgumentError, match=r"edge \('a', 'c'\).* 'w'; it has: 'v'"):
        from_networkx(g, edge_weight="w")
    with pytest.raises(errors.InvalidArgumentError, match="node 'a' has no attribute 'x'"):
        from_networkx(g, node_attrs=["x"])
    g.add_node("a", x=[1, 2])
    g.add_node("b", x=[1])
    g.add_node("c", x=[1])
    with pytest.raises(errors.InvalidArgumentError, match="'x' is no array"):
        from_networkx(g, node_attrs=["x"])
    with pytest.raises(errors.InvalidArgumentError, match="dict"):
        from_networkx({})
    graph = Graph.from_edges(2, [0], [1])
    with pytest.raises(errors.InvalidArgumentError, match="3 entries, but num_nodes = 2"):
        to_networkx(graph, ["a", "b", "c"])
    with pytest.raises(errors.InvalidArgumentError, match="different"):
        to_networkx(graph, ["a", "a"])


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("scipy.sparse", lambda graph: graph.to_scipy()),
        ("scipy.sparse", lambda graph: from_scipy(None)),
        ("networkx", to_networkx),
        ("networkx", from_networkx),
    ],
)
def test_a_library_that_is_missing(
    module: str, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(errors.UnsupportedError, match=f"pip install {module.split('.')[0]}"):
        call(Graph.from_edges(2, [0], [1]))


@pytest.mark.parametrize("held", [False, True])
def test_live_graphs_bring_their_weights_and_times(held: bool) -> None:
    live = DynamicGraph(4, 16, order="time", edge_time="int64", edge_weight="float32")
    live.insert_edges([0, 1, 2], [1, 2, 3], time=[30, 20, 10], weight=[1, 2, 3])
    live.delete_edge(1, 2)
    graph = live.snapshot() if held else live
    dense = to_scipy(graph).toarray()
    assert (dense[0, 1], dense[2, 3], dense.sum()) == (1, 3, 4)
    found = {
        (u, v): (data["weight"], data["time"], data["edge_id"])
        for u, v, data in to_networkx(graph).edges(data=True)
    }
    assert found == {(0, 1): (1, 30, 0), (2, 3): (3, 10, 2)}
