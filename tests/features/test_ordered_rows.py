"""Rows in another order than their ids: the same rows, on fewer pages."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples

from aethergraph import FeatureTable, Graph, NeighborSampler, OrderedRows, SubgraphLoader, errors
from aethergraph.loading import Order
from aethergraph.testing.graphs import CommunityGraph


@examples(30)
@given(st.permutations(range(9)), st.lists(st.integers(0, 8), max_size=20))
def test_rows_are_those_of_their_ids(order: list[int], ids: list[int]) -> None:
    rows = np.arange(27.0).reshape(9, 3)
    ordered = OrderedRows(rows[order], order)
    assert (ordered.gather(ids) == rows[ids]).all() and (ordered.array == rows).all()
    assert (ordered.read(2, 7) == rows[2:7]).all()


@pytest.mark.parametrize("name", ["x.npy", "x.aeg"])
@pytest.mark.parametrize("storage", ["mmap", "uring"])
def test_files(name: str, storage: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.random((5000, 70), np.float32)
    order = rng.permutation(5000)
    FeatureTable.from_array(rows).save(tmp_path / "given.aeg")
    OrderedRows.save(tmp_path / "given.aeg", order, tmp_path / name)
    options = {"memory_budget": "1M"} if storage == "uring" else {}
    stored = FeatureTable.load(tmp_path / name, storage, **options)
    assert (stored.gather(np.arange(5000)) == rows[order]).all()
    ordered = OrderedRows(stored, order)
    ids = rng.integers(0, 5000, 9000)
    assert (ordered.gather(ids) == rows[ids]).all()
    assert (ordered.gather(ids, dtype="float64") == rows[ids]).all()
    assert (pickle.loads(pickle.dumps(ordered)).gather(ids) == rows[ids]).all()


def test_another_order_is_another_content(tmp_path: Path) -> None:
    """Packed batches are told by the fingerprint."""
    FeatureTable.from_array(np.arange(3.0)).save(tmp_path / "x.aeg")
    rows = FeatureTable.load(tmp_path / "x.aeg")
    orders = ([0, 1, 2], [2, 1, 0], [2, 1, 0])
    found = [OrderedRows(rows, order).fingerprint for order in orders]
    assert found[0] != found[1] == found[2]


def test_bfloat16(tmp_path: Path) -> None:
    FeatureTable.from_array(np.arange(8.0, dtype=np.float32)[:, None]).save(
        tmp_path / "b.aeg", "bfloat16"
    )
    OrderedRows.save(tmp_path / "b.aeg", np.arange(8)[::-1], tmp_path / "o.aeg")
    ordered = OrderedRows(FeatureTable.load(tmp_path / "o.aeg"), np.arange(8)[::-1])
    assert ordered.gather([1, 6], dtype="float32").tolist() == [[1], [6]]


def test_batches_stay_and_touch_fewer_pages(tmp_path: Path) -> None:
    """Ids, lists and draws are those of before; rows of aligned seeds lie on fewer pages."""
    made = CommunityGraph(8000, 40_000, 80, num_features=64, homophily=0.9)
    graph = Graph.from_edges(8000, *made.edges())
    rows = made.feature_rows(0, 8000)
    order = graph.reorder()
    OrderedRows.save(rows, order, tmp_path / "x.npy")
    batches = []
    parts = graph.rabbit_partitions()
    for x in (rows, OrderedRows(FeatureTable.load(tmp_path / "x.npy"), order)):
        graph.node_attrs["x"] = x
        loader = SubgraphLoader(
            graph, [4], batch_size=50, shuffle=True, seed=1, order=Order(partitions=parts, mix=1)
        )
        batches.append(list(loader))
    for one, other in zip(*batches, strict=True):
        assert (one.subgraph.edge == other.subgraph.edge).all() and (one.x == other.x).all()
    places = np.argsort(order)
    pages = [
        np.mean([len(np.unique(at[b.subgraph.node] * 256 // 4096)) for b in batches[0]])
        for at in (np.arange(8000), places)
    ]
    assert pages[1] < 0.7 * pages[0]
    sampler = NeighborSampler(graph, [5])
    assert len(graph.node_attrs["x"].gather(sampler.sample([3]).node)) > 0


@pytest.mark.parametrize(
    ("order", "kind", "message"),
    [
        ([0, 1], errors.InvalidArgumentError, "order has 2 ids, but there are 3 rows"),
        ([0, 1, 0], errors.InvalidArgumentError, r"order\[0\] = 0 comes again as order\[2\]"),
        ([0, 1, 3], errors.OutOfRangeError, r"ids\[2\] = 3 is not in 0..2"),
        ([0.5, 1, 2], errors.InvalidArgumentError, "order"),
    ],
)
def test_what_is_no_order(order: Any, kind: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=message):
        OrderedRows(np.zeros((3, 2)), order)
    with pytest.raises(kind, match=message):
        OrderedRows.save(np.zeros((3, 2)), order, tmp_path / "x.npy")
    assert not (tmp_path / "x.npy").exists()
