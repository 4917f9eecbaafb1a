"""Nearest vectors: those of a comparison with all rows, by key, and by an index of FAISS."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples

from aethergraph import DynamicGraph, FeatureTable
from aethergraph.errors import InvalidArgumentError, OutOfRangeError, UnsupportedError
from aethergraph.ids import IdMap
from aethergraph.inference import VectorIndex, nearest

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(500, 16)).astype(np.float32)


@given(
    count=st.integers(0, 40), queries=st.integers(0, 4), k=st.integers(1, 12),
    stretch=st.sampled_from([1, 5, 1 << 16]), seed=st.integers(0, 99),
)  # fmt: skip
@examples(150)
def test_equals_a_sort_of_all_scores(
    count: int, queries: int, k: int, stretch: int, seed: int
) -> None:
    """Of small integers, whose products are exact and often equal: lower ids come first."""
    rng = np.random.default_rng(seed)
    rows, asked = rng.integers(-2, 3, (count, 3)), rng.integers(-2, 3, (queries, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "_MOST_ROWS", stretch)
        nodes, scores = VectorIndex(rows, metric="dot").search(vectors=asked, k=k)
    wanted = asked @ rows.T
    order = np.argsort(-wanted, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(nodes, order)
    np.testing.assert_array_equal(scores, np.take_along_axis(wanted, order, 1), strict=False)
    assert (nodes.dtype, scores.dtype) == (np.int64, np.float32)


def test_cosines_of_rows_of_all_dtypes(tmp_path: Path) -> None:
    lengths = np.linalg.norm(ROWS, axis=1)
    wanted = (ROWS / lengths[:, None]) @ (ROWS[7] / lengths[7])
    limits = {"float64": 1e-6, "float32": 1e-6, "float16": 1e-3, "bfloat16": 0.02}
    for dtype, most in limits.items():
        FeatureTable.from_array(ROWS).save(tmp_path / "h.bin", dtype)
        index = VectorIndex(FeatureTable.load(tmp_path / "h.bin"))
        nodes, scores = index.search([7], 5)
        assert (len(index), nodes[0, 0]) == (500, 7)
        np.testing.assert_allclose(scores[0], np.sort(wanted)[::-1][:5], atol=most)
    np.testing.assert_array_equal(index.search(vectors=ROWS[[7]] * 9, k=5)[0], nodes)


def test_rows_without_a_direction() -> None:
    """Zeros are at right angles to all; NaN is behind all."""
    rows = np.array([[np.nan, 1], [0, 0], [-1, 0], [1, 0]])
    nodes, scores = VectorIndex(rows).search([3], 4)
    assert nodes.tolist() == [[3, 1, 2, 0]]
    assert scores.tolist() == [[1, 0, -1, -np.inf]]


def test_keys(tmp_path: Path) -> None:
    rows = np.array([[1, 0], [0, 1], [1, 0.1], [-1, 0]])
    names = ["ann", "bob", "cy", "dan"]
    with DynamicGraph.open(tmp_path / "live", ids="str", arena_mb=16) as graph:
        graph.ids.add(names)
        for ids in (IdMap.build(tmp_path / "k.ids", [names], "str"), graph.ids):
            keys, scores = VectorIndex(rows, ids).search(["ann", "dan"], 2)
            assert keys == [["ann", "cy"], ["dan", "bob"]]
            np.testing.assert_allclose(scores, [[1, 1 / np.hypot(1, 0.1)], [1, 0]], rtol=1e-6)
            with pytest.raises(OutOfRangeError, match="eve"):
                VectorIndex(rows, ids).search(["ann", "eve"])


@pytest.mark.parametrize(
    ("make", "search", "message"),
    [
        ({"rows": ROWS[:, 0]}, {}, "rows has rows of shape (), not vectors"),
        ({"ids": 7}, {}, "ids = 7 is no map of ids, such as graph.ids"),
        ({"metric": "l2"}, {}, "metric = 'l2'"),
        ({}, {}, "give keys or vectors, one of them"),
        ({}, {"keys": [1], "vectors": ROWS[:1]}, "give keys or vectors, one of them"),
        ({}, {"keys": [1], "k": 0}, "k = 0 is not at least 1"),
        ({}, {"vectors": ROWS[0]}, "vectors has shape (16,) of float32: give rows of 16 numbers"),
        ({}, {"vectors": [["a"] * 16]}, "vectors has shape (1, 16) of <U1: give rows of 16 num"),
    ],
)
def test_bad_arguments_are_named(
    make: dict[str, Any], search: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        VectorIndex(**{"rows": ROWS, **make}).search(**search)


def test_keys_are_as_many_as_rows(tmp_path: Path) -> None:
    ids = IdMap.build(tmp_path / "k.ids", [["ann"]], "str")
    with pytest.raises(InvalidArgumentError, match="rows has 500 rows, but ids has 1 keys"):
        VectorIndex(ROWS, ids)


# ---- FAISS --------------------------------------------------------------------------------------


def test_an_index_of_faiss(tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="pip install faiss-cpu")
    exact, queries = VectorIndex(ROWS), np.arange(40)
    wanted, scores = exact.search(queries, 5)
    nodes, near = VectorIndex(ROWS, faiss="Flat").search(queries, 5)
    np.testing.assert_array_equal(nodes, wanted)
    np.testing.assert_allclose(near, scores, atol=1e-5)
    nodes, _ = VectorIndex(ROWS, faiss="HNSW32").search(queries, 5)
    assert (nodes == wanted).mean() > 0.9
    ids = IdMap.build(tmp_path / "k.ids", [[f"n{node}" for node in range(500)]], "str")
    index = VectorIndex(ROWS, ids, faiss="IVF16,Flat")
    keys, _ = index.search(["n3"], 500)  # in one of 16 cells there are fewer
    assert (keys[0][0], len(keys)) == ("n3", 1)
    assert len(keys[0]) < 500
    index.faiss.nprobe = 16
    assert len(index.search(["n3"], 500)[0][0]) == 500
    for description in ("HNSW?", "IVF1000,Flat"):
        with pytest.raises(InvalidArgumentError, match=r"FAISS makes no such index of 500 rows of"):
            VectorIndex(ROWS, faiss=description)


def test_faiss_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UnsupportedError, match="'Flat' needs FAISS: pip install faiss-cpu"):
        VectorIndex(ROWS, faiss="Flat")
