"""SubgraphLoader with a plan: the same batches, fewer rows read."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.threads import ahead_of

from aethergraph import FeatureTable, Graph, SubgraphLoader, errors
from aethergraph.loading import Ahead
from aethergraph.loading.pipeline import DrawAlone, RowPlans, Views, run_stages

pytestmark = pytest.mark.any_python

NODES = 3000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planned")
    rng = np.random.default_rng(0)
    src = (NODES * rng.random(20_000) ** 2).astype(np.int64)
    Graph.from_edges(NODES, src, rng.integers(0, NODES, 20_000)).save(folder / "graph.aeg")
    np.save(folder / "x.npy", rng.normal(size=(NODES, 128)).astype(np.float32))
    np.save(folder / "w.npy", rng.normal(size=(20_000, 3)).astype(np.float32))
    return folder


def open_graph(folder: Path, storage: Any, rows: Any = "uring") -> Graph:
    budget: dict[str, Any] = {"memory_budget": "24M"} if storage == "uring" else {}
    graph = Graph.load(folder / "graph.aeg", storage=storage, **budget)
    budget = {"memory_budget": 550_000} if rows == "uring" else {}
    graph.node_attrs["x"] = FeatureTable.load(folder / "x.npy", rows, **budget)
    graph.edge_attrs["w"] = FeatureTable.load(folder / "w.npy", rows, **budget)
    graph.node_attrs["y"] = np.arange(NODES)
    return graph


def loader_of(graph: Graph, **options: Any) -> SubgraphLoader:
    return SubgraphLoader(graph, [6, 4], batch_size=100, shuffle=True, seed=3, **options)


@pytest.mark.parametrize(
    ("storage", "num_threads", "ahead"),
    [("memory", 0, 7), ("memory", 2, 1), ("uring", 0, 1), ("uring", 1, 1000), ("uring", 2, 7)],
)
def test_batches_are_the_same(folder: Path, storage: str, num_threads: int, ahead: int) -> None:
    seeds = np.arange(0, NODES, 3)
    plain = loader_of(open_graph(folder, "memory", "memory"), seeds=seeds)
    planned = loader_of(
        open_graph(folder, storage), seeds=seeds, ahead=ahead_of(num_threads, plan=ahead)
    )
    for _ in range(2):
        for one, two in zip(plain, planned, strict=True):
            np.testing.assert_array_equal(one.subgraph.node, two.subgraph.node)
            np.testing.assert_array_equal(one.edge_index, two.edge_index)
            np.testing.assert_array_equal(one.index, two.index)
            for name in ("x", "y"):
                np.testing.assert_array_equal(one.node_attrs[name], two.node_attrs[name])
            np.testing.assert_array_equal(one.edge_attrs["w"], two.edge_attrs["w"])


@pytest.mark.parametrize(("ahead", "num_threads"), [(0, 1), (5, 0), (5, 1)])
def test_a_store_of_two_names(folder: Path, tmp_path: Path, ahead: int, num_threads: int) -> None:
    """Rows of files of their own (x, w) and of the graph's file (y, v)."""
    graph = open_graph(folder, "memory", "memory")
    graph.edge_attrs["v"] = np.arange(20_000) * 3.0
    rows: dict[str, Any] = {name: graph.node_attrs[name].array for name in ("x", "y")}
    rows |= {name: graph.edge_attrs[name].array for name in ("w", "v")}
    graph.save(tmp_path / "all.aeg")
    graph = Graph.load(tmp_path / "all.aeg", storage="uring", memory_budget="24M")
    both = (graph.node_attrs, "x"), (graph.edge_attrs, "w")
    for attrs, name in both:
        attrs[name] = FeatureTable.load(folder / f"{name}.npy", "uring", memory_budget=550_000)
    for attrs, name in (*both, (graph.node_attrs, "y"), (graph.edge_attrs, "v")):
        attrs[f"{name}2"] = attrs[name]
    own = ahead_of(num_threads, plan=ahead)
    for batch in loader_of(graph, seeds=np.arange(0, NODES, 3), ahead=own):
        found = {**batch.node_attrs, **batch.edge_attrs}
        assert len(found) == 8
        for name, values in found.items():
            ids = batch.subgraph.node if name in batch.node_attrs else batch.subgraph.edge
            np.testing.assert_array_equal(values, rows[name[0]][ids])


def test_fewer_rows_are_read(folder: Path) -> None:
    found = {}
    for ahead in (0, 30):
        graph = open_graph(folder, "memory")
        for _ in loader_of(graph, ahead=Ahead(plan=ahead)):
            pass
        stats = graph.node_attrs["x"].stats()
        assert stats.frames < NODES / 2
        found[ahead] = stats.hit_rate
    assert found[30] > 1.15 * found[0]


def test_leaving_in_the_middle_gives_the_cache_back(folder: Path) -> None:
    graph = open_graph(folder, "memory")
    for number, _ in enumerate(loader_of(graph, ahead=Ahead(plan=10))):
        if number == 3:
            break
    gc.collect()
    store = graph.node_attrs["x"]
    assert store.plan([[1]]).frames == store.stats().frames


def test_numbers_are_checked(folder: Path) -> None:
    graph = open_graph(folder, "memory")
    for change, message in (
        ({"plan": -1}, "plan = -1"), ({"batches": 1.5}, "batches must be an integer"),
        ({"threads": 0}, r"threads = 0 is not at least 1: Ahead\(batches=0\)"),
    ):  # fmt: skip
        with pytest.raises(errors.InvalidArgumentError, match=message):
            Ahead(**change)  # type: ignore[arg-type]
    for ahead, message in (
        (-1, "ahead = -1 is no number"),
        ("2", r"'2' is no number of batches: .*Ahead\(batches"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            loader_of(graph, ahead=ahead)


@pytest.mark.parametrize("num_threads", [0, 1])
def test_chunks_are_planned_in_order(num_threads: int) -> None:
    happened: list[Any] = []

    def plan(chunk: Any) -> list[int]:
        happened.append(list(chunk))
        return list(chunk)

    def finish(sample: int, chunk: list[int]) -> int:
        happened.append(sample)
        assert sample in chunk
        return sample * sample

    results = run_stages(
        range(7), DrawAlone(lambda i: i + 1, num_threads, helping=False), finish, views=Views(None),
        rows=RowPlans(3, []), plan=plan, num_threads=num_threads,
    )  # fmt: skip
    assert list(results) == [1, 4, 9, 16, 25, 36, 49]
    assert happened == [[1, 2, 3], 1, 2, 3, [4, 5, 6], 4, 5, 6, [7], 7]


def test_an_error_comes_in_its_place() -> None:
    def finish(sample: int, _: Any) -> int:
        if sample == 2:
            raise ValueError("two")
        return sample

    results = run_stages(
        range(5), DrawAlone(int, 1, helping=False), finish, views=Views(None), rows=RowPlans(4, []),
        plan=list,
    )  # fmt: skip
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(results)
