"""The boundary: dtypes, shapes, lengths and values of everything that users pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aethergraph import (
    FeatureTable,
    Graph,
    NeighborSampler,
    SubgraphLoader,
    errors,
    set_num_threads,
)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint16", "uint64", ">i4", ">u8"])
def test_any_integer_dtype_is_taken(dtype: str) -> None:
    src, dst = np.array([0, 1, 2, 1], dtype), np.array([1, 2, 0, 0], dtype)
    assert Graph.from_edges(3, src, dst).in_neighbors(0).tolist() == [2, 1]


def misaligned(values: list[int]) -> np.ndarray[Any, Any]:
    raw = np.zeros(8 * len(values) + 1, np.uint8)
    array = raw[1:].view(np.int64)
    array[:] = values
    return array


def test_any_memory_layout_is_taken() -> None:
    table = np.array([[0, 9], [1, 9], [2, 9]])
    for src in (table[:, 0], [0, 1, 2], (0, 1, 2), range(3), np.array([2, 1, 0])[::-1],
                misaligned([0, 1, 2])):  # fmt: skip
        graph = Graph.from_edges(3, src, [1, 1, 1])
        assert graph.in_neighbors(1).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([0.0, 1.0], "src must hold integers, got dtype float64"),
        ([True, False], "got dtype bool; for a mask use np.flatnonzero"),
        (["a", "b"], "got dtype <U1"),
        ([[0], [1]], "src must be one-dimensional, got shape (2, 1)"),
        (3, "src must be one-dimensional, got shape ()"),
        ([[0], [1, 2]], "src"),  # which of two messages depends on the numpy version
        (None, "src must be one-dimensional, got NoneType"),
        ({"a": [0]}, "src must be one-dimensional, got dict"),
        (np.empty((0, 2), np.int64), "src must be one-dimensional, got shape (0, 2)"),
        (np.empty(0), "src must hold integers, got dtype float64"),
    ],
)
def test_ids_that_are_refused(ids: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        Graph.from_edges(4, ids, [0, 1])
    assert text in str(caught.value)


@pytest.mark.parametrize("ids", [np.array([1, 2**63 + 5], np.uint64), [1, 2**70]])
def test_an_id_above_int64_is_named(ids: Any) -> None:
    with pytest.raises(errors.OutOfRangeError, match=rf"dst\[1\] = {ids[1]} is above 2\*\*63 - 1"):
        Graph.from_edges(4, [0, 0], ids)
    with pytest.raises(errors.OutOfRangeError, match=r"dst\[0\] = -\d* is below 0"):
        Graph.from_edges(4, [0, 0], [-(2**70), 3])


@pytest.mark.parametrize(("bad", "num_nodes"), [(-1, 5), (5, 5), (2**40, 5), (-(2**63), 5), (0, 0)])
@pytest.mark.parametrize("side", ["src", "dst"])
def test_ids_out_of_range_are_named(bad: int, num_nodes: int, side: str) -> None:
    at = 0 if num_nodes == 0 else 6
    for layout in ("csc", "csr", "both"):
        ids = {"src": np.zeros(9, np.int64), "dst": np.zeros(9, np.int64)}
        ids[side][at] = bad
        with pytest.raises(errors.OutOfRangeError) as caught:
            Graph.from_edges(num_nodes, ids["src"], ids["dst"], layout=layout)  # type: ignore[arg-type]
        assert (caught.value.position, caught.value.value) == (at, bad)
        if num_nodes:
            assert str(caught.value).startswith(f"{side}[{at}] = {bad} is not in 0..4")


def test_a_negative_id_is_named_when_num_nodes_is_inferred() -> None:
    with pytest.raises(errors.OutOfRangeError, match=r"dst\[1\] = -2 is negative"):
        Graph.from_edges(None, [0, 1], [1, -2])


@pytest.mark.parametrize("num_nodes", [-1, 2.0, "3", True, 2**63])
def test_num_nodes_that_cannot_be(num_nodes: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="num_nodes"):
        Graph.from_edges(num_nodes, [], [])


def test_num_nodes_that_does_not_fit_memory() -> None:
    for num_nodes in (2**45, 2**60, 2**63 - 1):
        with pytest.raises(errors.OutOfMemoryError):
            Graph.from_edges(num_nodes, [], [])


@pytest.mark.parametrize("layout", ["csc", "csr"])
def test_ids_that_are_no_numbers_of_nodes_are_told_how_to_become_them(layout: Any) -> None:
    account = 123_456_789_012_345
    src, dst = np.array([3, account, 3]), np.array([account - 9, 3, 5])
    hint = rf"src\[1\] = {account} is the largest; map other ids first:.*return_inverse=True"
    with pytest.raises(errors.OutOfMemoryError, match=hint):
        Graph.from_edges(None, src, dst, layout=layout)
    with pytest.raises(errors.OutOfMemoryError, match=hint):  # the row of the input, if sorted
        Graph.from_edges(None, src, dst, layout=layout, edge_time=[2, 1, 0])
    with pytest.raises(errors.OutOfMemoryError, match=r"num_nodes = 10+ is far more"):
        Graph.from_edges(10**15, src % 10, dst % 10, layout=layout)
    known, ids = np.unique(np.concatenate([src, dst]), return_inverse=True)
    graph = Graph.from_edges(len(known), ids[:3], ids[3:])
    assert sorted(known[graph.edge_index()[0]]) == [3, 3, account]


def test_lengths_that_differ() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="src has 2 ids, but dst has 3"):
        Graph.from_edges(4, [0, 1], [0, 1, 2])
    for name in ("edge_weight", "edge_time"):
        with pytest.raises(
            errors.InvalidArgumentError, match=f"{name} has 3 rows, but num_edges = 2"
        ):
            Graph.from_edges(4, [0, 1], [0, 1], **{name: [1, 2, 3]})  # type: ignore[arg-type]
    with pytest.raises(
        errors.InvalidArgumentError, match="node_time has 2 rows, but num_nodes = 4"
    ):
        Graph.from_edges(4, [0, 1], [0, 1], node_time=[1, 2])
    with pytest.raises(errors.InvalidArgumentError, match=r"edge_attrs\['a'\] has 1 rows"):
        Graph.from_edges(4, [0, 1], [0, 1], edge_attrs={"a": [[1.0, 2.0]]})


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        ([1.0, float("nan")], "edge_weight[1] = nan"),
        ([-0.5, 1.0], "edge_weight[0] = -0.5"),
        ([1.0, float("inf")], "edge_weight[1] = inf"),
        (["a", "b"], "edge_weight must hold numbers"),
        ([True, False], "edge_weight must hold numbers"),
        ([[1.0], [2.0]], "edge_weight must be one-dimensional"),
        ([1j, 2j], "edge_weight must hold numbers"),
    ],
)
def test_weights_that_are_refused(weights: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        Graph.from_edges(4, [0, 1], [0, 1], edge_weight=weights)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("given", "stored"),
    [("float16", "float32"), ("float32", "float32"), ("float64", "float64"), ("int32", "float64"),
     (">f4", "float32"), ("uint8", "float64")],
)  # fmt: skip
def test_weight_dtypes(given: str, stored: str) -> None:
    graph = Graph.from_edges(2, [0, 1], [1, 0], edge_weight=np.array([1, 2], given))
    assert graph.edge_weight is not None
    assert graph.edge_weight.dtype == stored
    assert graph.edge_weight.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("given", "stored"),
    [("int8", "int64"), ("uint64", "int64"), ("float32", "float64"), ("datetime64[s]", "int64")],
)
def test_time_dtypes(given: str, stored: str) -> None:
    times = np.array([3, 2, 1], np.int64).astype(given)
    graph = Graph.from_edges(3, [0, 1, 2], [2, 1, 0], edge_time=times, node_time=times)
    assert graph.edge_time is not None and graph.node_time is not None
    assert graph.edge_time.dtype == graph.node_time.dtype == stored
    assert graph.edge_time.tolist() == [1, 2, 3]
    assert graph.node_time.tolist() == [3, 2, 1]


def test_empty_graphs() -> None:
    for num_nodes in (0, 5, None):
        graph = Graph.from_edges(num_nodes, [], [], layout="both", keep_order=True)
        assert graph.num_nodes == (num_nodes or 0)
        assert graph.num_edges == 0
        assert graph.in_degrees().tolist() == [0] * graph.num_nodes
        assert [a.tolist() for a in graph.edge_index()] == [[], []]
        sample = NeighborSampler(graph, [3, -1]).sample([])
        assert (sample.num_nodes, sample.num_edges) == (0, 0)
        assert sample.num_sampled_nodes == [0, 0, 0]
        graph.verify()
    with pytest.raises(errors.OutOfRangeError, match="the graph has no nodes"):
        NeighborSampler(Graph.from_edges(0, [], []), [1]).sample([0])
    assert NeighborSampler(Graph.from_edges(3, [], []), [2]).sample([2]).node.tolist() == [2]


def test_seeds_out_of_range_are_named(graph: Graph) -> None:
    sampler = NeighborSampler(graph, [2])
    with pytest.raises(errors.OutOfRangeError, match=r"seeds\[1\] = 200 is not in 0\.\.199"):
        sampler.sample([0, 200])
    assert sampler.sample([1]).num_nodes > 0  # the scratch memory is as good as new


@pytest.mark.parametrize("node", [-1, 200, 2**64])
def test_nodes_out_of_range_are_named(node: int) -> None:
    graph = Graph.from_edges(200, [0], [1], layout="both")
    for call in (graph.in_neighbors, graph.neighbors, graph.in_edges, graph.out_edges):
        with pytest.raises(errors.OutOfRangeError, match=f"node = {node} is not in 0..199"):
            call(node)
    with pytest.raises(errors.OutOfRangeError, match=f"u = {node}"):
        graph.has_edge(node, 0)
    with pytest.raises(errors.OutOfRangeError, match=f"v = {node}"):
        graph.has_edge(0, node)


def test_nodes_of_wrong_type(graph: Graph) -> None:
    for node in (1.0, "1", True, None, np.float32(1), [1]):
        with pytest.raises(errors.InvalidArgumentError, match="node must be an integer"):
            graph.in_neighbors(node)  # type: ignore[arg-type]
    with pytest.raises(errors.OutOfRangeError, match=r"nodes\[2\] = -5"):
        graph.in_degrees([0, 1, -5])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fanouts": [3, -2]}, "fanouts[1] = -2"),
        ({"subgraph_type": "undirected"}, "subgraph_type = 'undirected' is not one of"),
        ({"layered": True, "subgraph_type": "bidirectional"}, "layered goes with directional or"),
        ({"num_threads": -1}, "num_threads = -1"),
        ({"num_threads": "2"}, "num_threads must be an integer"),
        ({"num_threads": 1000}, "num_threads = 1000"),
        ({"graph": "graph"}, "graph must be a Graph"),
    ],
)
def test_sampler_options_that_are_refused(graph: Graph, options: dict[str, Any], text: str) -> None:
    arguments = {"graph": graph, "fanouts": [2], **options}
    with pytest.raises(errors.InvalidArgumentError) as caught:
        NeighborSampler(**arguments)
    assert text in str(caught.value)


def test_options_of_graphs_that_are_refused(graph: Graph) -> None:
    with pytest.raises(
        errors.InvalidArgumentError, match="layout = 'coo' is not one of csc, csr, both"
    ):
        Graph.from_edges(2, [0], [1], layout="coo")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match=r"Graph\.from_edges"):
        Graph()
    with pytest.raises(errors.InvalidArgumentError, match=r"FeatureTable\.load"):
        FeatureTable()
    with pytest.raises(errors.InvalidArgumentError, match=r"node_attrs\['y'\] has 3 rows"):
        graph.node_attrs["y"] = [1, 2, 3]


@pytest.mark.parametrize("threads", [-1, 257, 2.0, True, "2"])
def test_thread_counts_that_are_refused(threads: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="num_threads"):
        set_num_threads(threads)


def masked(values: Any, at: Any) -> Any:
    mask = np.zeros(np.shape(values), bool)
    mask[at] = True
    return np.ma.masked_array(values, mask)


def graph_of(**options: Any) -> Graph:
    return Graph.from_edges(3, [0, 1, 2], [1, 2, 0], **options)


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: Graph.from_edges(3, masked([0, 1], 1), [0, 1]), "src[1]"),
        (lambda: Graph.from_edges(3, [0, 1], masked([0, 1], 0)), "dst[0]"),
        (lambda: graph_of(edge_weight=masked([1.0, 2, 3], 2)), "edge_weight[2]"),
        (lambda: graph_of(edge_weight=[1.0, np.ma.masked, 3]), "edge_weight[1]"),
        (lambda: graph_of(edge_time=masked([1, 2, 3], 1)), "edge_time[1]"),
        (lambda: graph_of(node_time=masked([1, 2, 3], 1)), "node_time[1]"),
        (lambda: graph_of(edge_attrs={"e": masked(np.ones((3, 2)), (1, 1))}), "'e'][1, 1]"),
        (lambda: FeatureTable.from_array(masked(np.ones((3, 2)), (2, 0))), "[2, 0]"),
        (lambda: FeatureTable.from_array([masked([1.0, 2], 0), [3.0, 4]]), "[0]"),
        (lambda: FeatureTable.from_array([1.0, 2.0]).gather(masked([0, 1], 1)), "[1]"),
        (lambda: graph_of().in_degrees(masked([0, 1], 1)), "[1]"),
        (lambda: NeighborSampler(graph_of(), [1]).sample(masked([0, 1], 1)), "seeds[1]"),
        (lambda: SubgraphLoader(graph_of(), [1], seeds=masked([0, 1], 1)), "seeds[1]"),
        (lambda: setattr(graph_of(), "features", masked(np.ones((3, 2)), (0, 1))), "[0, 1]"),
    ],
)  # fmt: skip
def test_masked_values_are_refused(call: Any, place: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        call()
    assert f"{place} is masked: fill it" in str(caught.value)


def test_an_array_that_masks_nothing_is_taken() -> None:
    nothing = np.ma.masked_array([0, 1, 2], [False] * 3)
    graph = Graph.from_edges(3, nothing, nothing, edge_weight=nothing, edge_time=nothing)
    assert [ids.tolist() for ids in graph.edge_index()] == [[0, 1, 2], [0, 1, 2]]
