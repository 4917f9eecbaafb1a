"""Permuted graphs are the same graphs: edge by edge, with all values, under other ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.strategies import examples

from aethergraph import FeatureTable, Graph, HeteroGraph
from aethergraph.errors import ClosedError, InvalidArgumentError, OutOfRangeError
from aethergraph.sampling import ContextSampler

Ids = NDArray[np.int64]


def make(seed: int, nodes: int, edges: int, layout: Any, times: str, keep: bool) -> Graph:
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)
    graph = Graph.from_edges(
        nodes, src, dst, layout=layout, keep_order=keep,
        edge_weight=rng.random(edges).astype(np.float32),
        edge_time=rng.integers(0, 50, edges) if times == "edge" else None,
        node_time=rng.random(nodes) if times == "node" else None,
        edge_attrs={"a": rng.integers(0, 99, (edges, 2)), "n": np.arange(edges)},
    )  # fmt: skip
    graph.features = rng.random((nodes, 3), dtype=np.float32)
    graph.node_attrs["y"] = rng.integers(0, 5, nodes)
    return graph


def rows_by_number(graph: Graph, names: Ids) -> list[Any]:
    """Ends (as `names` has them) and values of each edge, by the number that it was made with."""
    src, dst = graph.edge_index()
    numbers = graph.edge_attrs["n"].gather(np.arange(graph.num_edges))
    order = np.argsort(numbers)
    columns = [names[src], names[dst], graph.edge_weight, graph.edge_time, graph.edge_order]
    columns.append(graph.edge_attrs["a"].gather(np.arange(graph.num_edges)))
    return [None if column is None else np.asarray(column)[order] for column in columns]


@examples(60)
@given(
    seed=st.integers(0, 2**32),
    nodes=st.integers(1, 30),
    edges=st.integers(0, 80),
    layout=st.sampled_from(["csc", "csr", "both"]),
    times=st.sampled_from(["none", "edge", "node"]),
    keep=st.booleans(),
)
def test_isomorphic(seed: int, nodes: int, edges: int, layout: Any, times: str, keep: bool) -> None:
    graph = make(seed, nodes, edges, layout, times, keep)
    perm = np.random.default_rng(seed + 1).permutation(nodes)
    moved = graph.permute(perm)
    assert (moved.num_nodes, moved.num_edges, moved.layout) == (nodes, edges, layout)
    for before, after in zip(
        rows_by_number(graph, np.arange(nodes)), rows_by_number(moved, perm), strict=True
    ):
        assert np.array_equal(before, after)
    every = np.arange(nodes)
    assert np.array_equal(moved.node_attrs["node_ids"].gather(every), perm)
    for name in ("x", "y"):
        assert np.array_equal(
            moved.node_attrs[name].gather(every), graph.node_attrs[name].gather(perm)
        )
    assert (moved.node_time is None) == (times != "node")
    if moved.node_time is not None:
        assert np.array_equal(moved.node_time, graph.node_time[perm])  # type: ignore[index]
    assert moved.sorted_by == graph.sorted_by and moved.time_unit == graph.time_unit
    for node in every:  # the order within lists in which positions are edge ids stays
        if layout != "csr":
            assert np.array_equal(perm[moved.in_neighbors(node)], graph.in_neighbors(perm[node]))
        if layout == "csr":
            assert np.array_equal(perm[moved.neighbors(node)], graph.neighbors(perm[node]))
        if layout == "both":
            numbers = graph.edge_attrs["n"].gather(graph.out_edges(perm[node]))
            moved_numbers = moved.edge_attrs["n"].gather(moved.out_edges(node))
            assert np.array_equal(np.sort(moved_numbers), np.sort(numbers))
    moved.verify()


def test_twice_leads_back_to_the_first(tmp_path: Path) -> None:
    graph = make(3, 50, 300, "both", "edge", True)
    graph.save(tmp_path / "g.aeg", compress=True)
    rng = np.random.default_rng(0)
    first, second = rng.permutation(50), rng.permutation(50)
    moved = Graph.load(tmp_path / "g.aeg").permute(first).permute(second)
    assert np.array_equal(moved.node_attrs["node_ids"].gather(np.arange(50)), first[second])
    back = moved.permute(np.argsort(first[second]))
    for before, after in zip(
        rows_by_number(graph, np.arange(50)), rows_by_number(back, np.arange(50)), strict=True
    ):
        assert np.array_equal(before, after)
    moved.save(tmp_path / "moved.aeg")
    Graph.load(tmp_path / "moved.aeg").verify()


def test_out_edges_are_looked_at_again() -> None:
    """They come in another order, and may no longer be in that of their targets' times."""
    edges = {("order", "of", "user"): ([0, 0], [1, 0])}
    node_time = {"user": np.array([9, 5]), "order": np.array([0])}
    graph = HeteroGraph.from_edges(edges, node_time=node_time, layout="both")
    options: dict[str, Any] = {"budget": 3, "fanout": 3, "time_attr": "node_time"}
    ContextSampler(graph, **options)
    with pytest.raises(InvalidArgumentError, match="the out-edges of node 0 are not sorted"):
        ContextSampler(graph.permute({}), **options)


def test_bfloat16_rows_stay_what_they_are() -> None:
    graph = Graph.from_edges(3, [0, 1], [1, 2])
    bits = np.arange(6, dtype=np.uint16).reshape(3, 2)
    graph.features = FeatureTable.from_array(bits, dtype="bfloat16")
    moved = graph.permute([2, 0, 1])
    assert moved.features is not None and moved.features.dtype_name == "bfloat16"


def test_typed() -> None:
    rng = np.random.default_rng(5)
    kind, back = ("user", "rates", "film"), ("film", "rev_rates", "user")
    typed = HeteroGraph.from_edges(
        {kind: (rng.integers(0, 40, 200), rng.integers(0, 20, 200))}, {"user": 40, "film": 20},
        edge_attrs={kind: {"n": np.arange(200)}}, layout="both", add_reverse=True,
    )  # fmt: skip
    typed["user"].features = rng.random((40, 2))
    perms = typed.reorder()
    moved = typed.permute(perms)
    for one in (kind, back):
        numbers = [g[one].attrs["n"].gather(np.arange(200)) for g in (typed, moved)]
        before, after = typed[one].edge_index(), moved[one].edge_index()
        for end, name in ((0, one[0]), (1, one[2])):
            old = np.empty(200, np.int64)
            old[numbers[1]] = perms[name][after[end]]
            expected = np.empty(200, np.int64)
            expected[numbers[0]] = before[end]
            assert np.array_equal(old, expected)
    assert np.array_equal(moved["film"].attrs["node_ids"].gather(np.arange(20)), perms["film"])
    moved.verify()
    some = typed.permute({"film": perms["film"]})
    assert np.array_equal(some["user"].attrs["node_ids"].gather(np.arange(40)), np.arange(40))


@pytest.mark.parametrize(
    ("perm", "error", "match"),
    [
        ([0, 1], InvalidArgumentError, "perm has 2 ids, but there are 3 nodes"),
        ([0, 1, 3], OutOfRangeError, r"perm\[2\] = 3 is not in 0..2"),
        ([0, -1, 2], OutOfRangeError, r"perm\[1\] = -1"),
        ([1, 0, 1], InvalidArgumentError, r"perm\[0\] = 1 comes again as perm\[2\]"),
        ([0.0, 1.0, 2.0], InvalidArgumentError, "perm must hold integers"),
        ([[0, 1, 2]], InvalidArgumentError, "one-dimensional"),
    ],
)
def test_what_is_no_permutation(perm: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        Graph.from_edges(3, [0, 1], [1, 2]).permute(perm)


def test_what_is_no_permutation_of_types() -> None:
    typed = HeteroGraph.from_edges({("a", "to", "b"): ([0, 1], [1, 2])})
    with pytest.raises(InvalidArgumentError, match=r"perms\['b'\] has 2 ids"):
        typed.permute({"b": [0, 1]})
    with pytest.raises(InvalidArgumentError, match="'c' is not in the graph; there are: 'a', 'b'"):
        typed.permute({"c": [0, 1]})
    with pytest.raises(InvalidArgumentError, match="perms goes by node type"):
        typed.permute([0, 1])  # type: ignore[arg-type]


def test_closed_graphs() -> None:
    graph = Graph.from_edges(3, [0, 1], [1, 2])
    graph.close()
    for call in (graph.reorder, graph.rabbit_partitions, lambda: graph.permute([0, 1, 2])):
        with pytest.raises(ClosedError):
            call()
