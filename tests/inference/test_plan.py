"""Plans: orders, and what they read, beside what is read then; caches that stand for real ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aethergraph import FeatureTable, Graph, HeteroGraph
from aethergraph.errors import InvalidArgumentError, StorageError, UnsupportedError
from aethergraph.inference import embed, job
from aethergraph.inference import plan as planning
from aethergraph.inference.plan import BATCHES, BLOCKS, LISTS, count_missed
from aethergraph.loading.batch import Batch

Rows = NDArray[Any]
COUNT, WIDTH = 20_000, 64


class Total:
    """Layer: the sum of the rows of all neighbours."""

    fingerprint = "total"

    def __init__(self, says: bool = True) -> None:
        self.aggregate = "sum" if says else None

    def __call__(self, batch: Batch) -> Rows:
        assert batch.x is not None
        rows = batch.x[: batch.batch_size].copy()
        np.add.at(rows, batch.subgraph.col, batch.x[batch.subgraph.row])
        return rows


def make_graph(kind: str) -> Graph:
    rng = np.random.default_rng(0)
    dst = rng.integers(0, COUNT, 10 * COUNT)
    if kind == "near":
        src = (dst + rng.integers(-200, 200, len(dst))) % COUNT
    else:
        src = (rng.random(len(dst)) ** (3 if kind == "hubs" else 1) * COUNT).astype(np.int64)
    return Graph.from_edges(COUNT, src, dst)


def make_rows(folder: Path) -> FeatureTable:
    path = folder / "x.npy"
    np.save(path, np.random.default_rng(0).standard_normal((COUNT, WIDTH)).astype(np.float32))
    return FeatureTable.load(path, "uring", memory_budget="1M")


@pytest.mark.parametrize("order", [BATCHES, BLOCKS])
@pytest.mark.parametrize("kind", ["near", "hubs", "anywhere"])
def test_bytes_are_those_that_are_read(
    kind: str, order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 30 %, of rows of which a cache holds a tenth."""
    graph, options = make_graph(kind), {"memory_budget": "4M", "batch_size": 200}
    monkeypatch.setattr(job, "orders_of", lambda rows, can_combine: [order])
    with make_rows(tmp_path) as rows:
        (layer,) = embed([Total()], graph, rows, tmp_path / "h.npy", plan=True, **options)
    assert (layer.order, layer.instead) == (order, None)
    assert (layer.parts > 100) == (order == BATCHES)
    with make_rows(tmp_path) as rows:
        embed([Total()], graph, rows, tmp_path / "h.npy", **options)
        read = rows.stats().device_bytes
    assert 0.7 <= layer.bytes_read / read <= 1.3, (layer.bytes_read, read)


def test_the_order_that_reads_less_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the plan says, and all that it has made is gone."""
    graph, options = make_graph("anywhere"), {"memory_budget": "4M", "batch_size": 200}
    layers = [Total(), Total(says=False), Total()]
    orders, choose = list[str](), job.Embedding._choose
    with make_rows(tmp_path) as rows:
        before = sorted(os.listdir(tmp_path))
        plan = embed(layers, graph, rows, tmp_path / "h.npy", plan=True, **options)
        assert sorted(os.listdir(tmp_path)) == before

        def chosen(*args: Any) -> str:
            orders.append(choose(*args))
            return orders[-1]

        monkeypatch.setattr(job.Embedding, "_choose", chosen)
        embed(layers, graph, rows, tmp_path / "h.npy", **options)
    assert [layer.order for layer in plan] == orders == [BLOCKS, BATCHES, BLOCKS]
    assert all(layer.seconds > 0 for layer in plan)
    assert plan[0].instead > plan[0].bytes_read and plan[1].instead is None
    lines = str(plan).splitlines()
    assert lines[0].split() == ["layer", "order", "reads", "seconds"]
    assert lines[1].startswith(f"1 Total  {plan[0].parts} blocks") and "batches: " in lines[1]
    assert lines[2].startswith(f"2 Total  {plan[1].parts} batches  ")


def test_rows_that_are_in_memory_are_read_once(tmp_path: Path) -> None:
    graph, x = make_graph("hubs"), np.ones((COUNT, WIDTH), np.float32)
    plan = embed([Total(), Total()], graph, x, tmp_path / "h.npy", plan=True)
    first, second = plan
    assert (first.order, first.bytes_read) == (LISTS, 0)
    assert (second.order, second.bytes_read) == (LISTS, x.nbytes)
    assert str(plan).count(" batches, by lists ") == 2


def test_rows_that_are_followed_stand_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, options = make_graph("hubs"), {"memory_budget": "4M", "batch_size": 200}
    read = []
    for followed in (COUNT, 2000):
        monkeypatch.setattr(planning, "_FOLLOWED", followed)
        with make_rows(tmp_path) as rows:
            layers = [Total(says=False)]
            plan = embed(layers, graph, rows, tmp_path / "h.npy", plan=True, **options)
        read.append(plan[0].bytes_read)
    assert 0.85 <= read[0] / read[1] <= 1.15


@pytest.mark.parametrize(
    ("lists", "room", "missed"),
    [
        ([[0, 1], [0, 1], [0, 1]], 2, 2),
        ([[0, 1], [2, 3], [0, 1]], 2, 5),  # by use 6; by number of uses 4
        ([[0, 1], [2, 3], [0, 1]], 4, 4),
        ([[], [0], []], 0, 1),
        ([], 3, 0),
    ],
)
def test_caches(lists: Any, room: int, missed: float) -> None:
    arrays = [np.array(ids, np.int64) for ids in lists]
    assert count_missed(arrays, 5, room) == missed


def test_what_has_no_plan(tmp_path: Path) -> None:
    typed = HeteroGraph.from_edges({("a", "to", "a"): ([0], [1])}, {"a": 2})
    rows = np.ones((2, 1), np.float32)
    with pytest.raises(UnsupportedError, match="several types of nodes: plan=True takes graphs"):
        embed([Total()], typed, {"a": rows}, tmp_path / "h", plan=True)
    with pytest.raises(InvalidArgumentError, match="plan=True is for runs over all nodes: leave"):
        graph = Graph.from_edges(2, [0], [1])
        embed([Total()], graph, rows, tmp_path / "h.npy", plan=True, refresh=True)
    with pytest.raises(StorageError, match="missing"):
        embed([Total()], graph, rows, tmp_path / "missing" / "h.npy", plan=True)
