"""Building: CSC and CSR equal a stable argsort, with every value carried along."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import Ids, edge_lists, examples

from aethergraph import FeatureTable, Graph, HeteroGraph, errors, set_num_threads
from aethergraph.convert import convert_chunks
from aethergraph.testing import oracle


@examples(120)
@given(
    edges=edge_lists(),
    layout=st.sampled_from(["csc", "csr", "both"]),
    threads=st.sampled_from([1, 2, 8]),
)
def test_lists_equal_a_stable_argsort(
    edges: tuple[int, Ids, Ids], layout: Any, threads: int
) -> None:
    num_nodes, src, dst = edges
    set_num_threads(threads)
    graph = Graph.from_edges(num_nodes, src, dst, layout=layout, keep_order=True)
    assert graph.edge_order is not None
    if layout != "csr":
        indptr, indices, order = oracle.compressed_lists(num_nodes, dst, src)
        np.testing.assert_array_equal(graph.csc()[0], indptr)
        np.testing.assert_array_equal(graph.csc()[1], indices)
        np.testing.assert_array_equal(graph.edge_order, order)
        assert (graph.csc()[0].dtype, graph.csc()[1].dtype) == (np.uint64, np.uint32)
    if layout != "csc":
        indptr, indices, order = oracle.compressed_lists(num_nodes, src, dst)
        out_indptr, out_indices, edge_ids = graph.csr()
        np.testing.assert_array_equal(out_indptr, indptr)
        np.testing.assert_array_equal(out_indices, indices)
        assert (edge_ids is None) == (layout == "csr")
        rows = graph.edge_order if edge_ids is None else graph.edge_order[edge_ids]
        np.testing.assert_array_equal(rows, order)
    graph.verify()


@examples(60)
@given(
    edges=edge_lists(),
    layout=st.sampled_from(["csc", "csr", "both"]),
    threads=st.sampled_from([1, 2, 8]),
    seed=st.integers(0, 2**32),
)
def test_values_follow_their_edges(
    edges: tuple[int, Ids, Ids], layout: Any, threads: int, seed: int
) -> None:
    num_nodes, src, dst = edges
    set_num_threads(threads)
    rng = np.random.default_rng(seed)
    count = len(src)
    weight, time = rng.random(count), rng.integers(-5, 5, count)
    attrs = {
        "f": rng.random((count, 2, 3), dtype=np.float32),
        "b": rng.random(count) < 0.5,
        "i": rng.integers(0, 9, (count, 0)),
    }
    graph = Graph.from_edges(
        num_nodes, src, dst, edge_weight=weight, edge_time=time, edge_attrs=attrs,
        layout=layout, keep_order=True,
    )  # fmt: skip
    order = graph.edge_order
    assert order is not None
    np.testing.assert_array_equal(graph.edge_weight, weight[order])  # type: ignore[arg-type]
    np.testing.assert_array_equal(graph.edge_time, time[order])  # type: ignore[arg-type]
    for name, rows in attrs.items():
        np.testing.assert_array_equal(graph.edge_attrs[name].array, rows[order])
    by_id = np.stack(graph.edge_index())
    np.testing.assert_array_equal(by_id, np.stack([src[order], dst[order]]))


def test_the_number_of_threads_changes_nothing(num_threads: int) -> None:
    rng = np.random.default_rng(3)
    src = (rng.random(150_000) ** 2 * 10_000).astype(np.int64)
    dst = (rng.random(150_000) ** 4 * 10_000).astype(np.int64)
    graph = Graph.from_edges(None, src, dst, keep_order=True)
    indptr, indices, order = oracle.compressed_lists(graph.num_nodes, dst, src)
    np.testing.assert_array_equal(graph.csc()[0], indptr)
    np.testing.assert_array_equal(graph.csc()[1], indices)
    np.testing.assert_array_equal(graph.edge_order, order)  # type: ignore[arg-type]


def test_num_nodes_is_inferred() -> None:
    assert Graph.from_edges(None, [0, 7], [3, 1]).num_nodes == 8
    assert Graph.from_edges(None, [0], [9]).num_nodes == 10
    assert Graph.from_edges(12, [0], [9]).num_nodes == 12


def test_inputs_are_not_kept_and_results_are_read_only() -> None:
    src, dst, times = np.array([0, 1]), np.array([1, 0]), np.array([5, 6])
    graph = Graph.from_edges(2, src, dst, node_time=times, edge_weight=[1.0, 2.0], keep_order=True)
    src[:], dst[:], times[:] = 1, 1, 0
    assert graph.in_neighbors(0).tolist() == [1]
    assert graph.node_time is not None and graph.node_time.tolist() == [5, 6]
    for array in (*graph.csc(), graph.node_time, graph.edge_weight, graph.edge_order):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_bfloat16_attribute_stays_one() -> None:
    bits = FeatureTable.from_array(np.array([1, 2, 3], np.uint16), dtype="bfloat16")
    graph = Graph.from_edges(3, [0, 1, 2], [2, 1, 0], edge_attrs={"w": bits})  # type: ignore[dict-item]
    assert graph.edge_attrs["w"].dtype_name == "bfloat16"
    assert graph.edge_attrs["w"].array.tolist() == [3, 2, 1]


def test_progress_ends_at_the_total() -> None:
    seen: list[tuple[int, int]] = []
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 1000, (2, 200_000))
    Graph.from_edges(1000, src, dst, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (32 * 200_000, 32 * 200_000)
    assert all(0 <= done <= total for done, total in seen)


def from_graph(weight: Any, _: Path) -> Any:
    return Graph.from_edges(2, [0, 1], [1, 0], edge_weight=weight).edge_weight


def from_types(weight: Any, _: Path) -> Any:
    kind = ("a", "to", "a")
    graph = HeteroGraph.from_edges(
        {kind: ([0, 1], [1, 0])}, {"a": 2}, edge_weight={kind: weight}
    )  # fmt: skip
    return graph[kind].edge_weight


def from_chunks(weight: Any, folder: Path) -> Any:
    path = folder / "g.bin"
    chunks = [([0, 1], [1, 0], {"weight": weight})]
    convert_chunks(chunks, path, num_nodes=2, memory_budget="8G")
    return Graph.load(path).edge_weight


def from_matrix(weight: Any, _: Path) -> Any:
    sparse = pytest.importorskip("scipy.sparse")
    return Graph.from_scipy(sparse.coo_array((weight, ([0, 1], [1, 0])), (2, 2))).edge_weight


@pytest.mark.parametrize("build", [from_graph, from_types, from_chunks, from_matrix])
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.array([1, 2**53 + 1]), "float64 would make 9007199254740992 of"),
        (np.array([1, 2**64 - 1], np.uint64), "float64 would make 18446744073709551616 of"),
        (np.array(["1", "0.1"], np.longdouble), "float64 would make 0.1 of"),
    ],
)
def test_weights_that_float64_does_not_hold_are_refused(
    build: Callable[[Any, Path], Any], weight: Any, message: str, tmp_path: Path
) -> None:
    if weight.dtype.itemsize == 8 and weight.dtype.kind == "f":
        pytest.skip("long double is double here")
    with pytest.raises(errors.InvalidArgumentError) as caught:
        build(weight, tmp_path)
    said = str(caught.value)
    assert f"{message} " in said and f"weight[1] = {weight[1]!s}" in said
    assert "round them first, .astype('float64')" in said and caught.value.position == 1
    rounded = build(weight.astype("float64"), tmp_path)
    assert sorted(rounded) == sorted(weight.astype("float64"))


def test_weights_that_float64_holds_are_taken() -> None:
    for weight in (np.array([2**53, 2**60 + 2**8]), np.array([0.5, 2**53], np.longdouble)):
        graph = Graph.from_edges(2, [0, 1], [1, 0], edge_weight=weight, keep_order=True)
        assert graph.edge_weight is not None and graph.edge_weight.dtype == np.float64
        assert sorted(map(int, graph.edge_weight)) == sorted(map(int, weight))
