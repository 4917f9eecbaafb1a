"""Epochs of loaders over live graphs: the commit of each, how long it is held, and by whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import FRESH
from torch_geometric.loader import NodeLoader

from aethergraph import DynamicGraph, FeatureTable
from aethergraph.errors import InvalidArgumentError, SnapshotExpiredError, UnsupportedError
from aethergraph.loading import Ahead, Order
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    ShaDowKHopSampler,
)

pytestmark = pytest.mark.pyg


def live(**options: Any) -> DynamicGraph:
    graph = DynamicGraph(100, 16, huge_pages=False, **options)
    graph.features = np.arange(100.0)[:, None]
    graph.insert_edges(np.arange(99), np.arange(1, 100))
    return graph


@pytest.mark.forks
@pytest.mark.parametrize("kind", ["epoch", "batch", "snapshot"])
def test_workers_read_on_when_nobody_holds_the_loader(kind: str) -> None:
    graph = live()
    data: Any = graph.snapshot() if kind == "snapshot" else graph
    options: dict[str, Any] = {} if kind == "snapshot" else {"order": Order(snapshot=kind)}
    batches = iter(NeighborLoader(data, [2], batch_size=10, num_workers=1, **options))
    del data
    for number in range(50):  # what only the snapshot has would be reused
        graph.update_nodes(np.arange(100), x=np.full((100, 1), number))
        graph.delete_edges(np.arange(99), np.arange(1, 100))
        graph.insert_edges(np.arange(99), np.arange(1, 100))
        graph.reclaim()
    found = list(batches)
    assert len(found) == 10
    if kind != "batch":
        assert torch.cat([batch.x[:10, 0] for batch in found]).tolist() == list(range(100))


#: Options of loaders that sample here, each in another way.
HERE: list[dict[str, Any]] = [
    {},
    {"ahead": 0},
    {"ahead": 0, "filter_per_worker": False},
    {"ahead": Ahead(threads=3)},
    {"transform_sampler_output": lambda out: out},
]


def turned(graph: DynamicGraph, number: int) -> None:
    """Commit rows that are all ``number``."""
    graph.update_nodes(np.arange(100), x=np.full((100, 1), number))


def rows_seen(batches: Any) -> set[float]:
    return {row for batch in batches for row in batch.x[:, 0].tolist()}


@pytest.mark.parametrize("options", HERE)
def test_every_iterator_has_a_commit_of_its_own(options: dict[str, Any]) -> None:
    graph = live()
    loader = NeighborLoader(graph, [2], batch_size=10, order=Order(snapshot="epoch"), **options)
    turned(graph, 1)
    first = iter(loader)
    found = [next(first)]
    turned(graph, 2)
    second = iter(loader)
    turned(graph, 3)
    other = [next(second)]
    found += first
    assert rows_seen(found) == {1} and len(found) == 10
    assert rows_seen([*other, *second]) == {2}
    assert rows_seen(loader) == {3}


def test_the_commit_of_an_epoch_of_subgraphs_around_nodes() -> None:
    graph = live()
    loader = ShaDowKHopSampler(graph, 1, 2, batch_size=10, order=Order(snapshot="epoch"))
    turned(graph, 1)
    batches = iter(loader)
    found = [next(batches)]
    turned(graph, 2)
    assert rows_seen([*found, *batches]) == {1}


def held(graph: DynamicGraph) -> int:
    return graph.stats().snapshots


@pytest.mark.parametrize(
    "options", [*HERE, pytest.param({"num_workers": 1}, marks=pytest.mark.forks)]
)
def test_the_commit_of_an_epoch_is_let_go_of(options: dict[str, Any]) -> None:
    graph = live()
    loader = NeighborLoader(graph, [2], batch_size=10, order=Order(snapshot="epoch"), **options)
    whole = iter(loader)
    assert len(list(whole)) == 10
    assert held(graph) == 0  # though the iterator is still there
    for _ in loader:
        assert held(graph) > 0
        break
    assert held(graph) == 0
    dropped = iter(loader)
    next(dropped)
    del dropped
    assert held(graph) == 0
    with iter(loader) as closed:  # type: ignore[attr-defined]
        next(closed)
    assert held(graph) == 0 and list(closed) == []


@pytest.mark.parametrize("options", HERE)
def test_an_error_lets_go_of_the_commit_of_the_epoch(options: dict[str, Any]) -> None:
    def refuse(batch: Any) -> Any:
        raise ArithmeticError(f"batch of {batch.batch_size}")

    graph = live()
    loader = NeighborLoader(
        graph, [2], batch_size=10, order=Order(snapshot="epoch"), transform=refuse, **options
    )
    batches = iter(loader)
    with pytest.raises(ArithmeticError, match="batch of 10") as caught:
        next(batches)
    del caught  # with the frames that made the batch
    assert held(graph) == 0 and list(batches) == []


def rewrite(graph: DynamicGraph) -> None:
    """Write until nothing is left of the commits that nobody holds."""
    for number in range(1, 50):
        turned(graph, number)
        graph.delete_edges(np.arange(99), np.arange(1, 100))
        graph.insert_edges(np.arange(99), np.arange(1, 100))
        graph.reclaim()


@pytest.mark.forks
def test_workers_that_begin_in_a_block_of_reading_read_its_commit_to_the_end() -> None:
    graph = live()
    turned(graph, 0)
    loader = NeighborLoader(graph, [2], batch_size=5, num_workers=1)
    with graph.reading():
        batches = iter(loader)
        found = [next(batches)]
    rewrite(graph)
    found += batches
    assert rows_seen(found) == {0} and len(found) == 20
    assert held(graph) == 0
    assert rows_seen(loader) == {49}


@pytest.mark.forks
def test_persistent_workers_that_began_in_a_block_of_reading_say_why_they_fail() -> None:
    graph = live()
    loader = NeighborLoader(graph, [2], batch_size=5, num_workers=1, persistent_workers=True)
    with graph.reading():
        assert len(list(loader)) == 20
    rewrite(graph)
    with pytest.raises(SnapshotExpiredError, match=r"behind the block of reading\(\)"):
        list(loader)
    loader._iterator = None  # ends the worker now


@pytest.mark.parametrize("stock", [False, True])
def test_workers_that_are_not_forked_do_not_begin_in_a_block_of_reading(stock: bool) -> None:
    graph = live()
    options: dict[str, Any] = {"batch_size": 50, **FRESH}
    loader: Any = NeighborLoader(graph, [2], **options)
    if stock:
        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        loader = NodeLoader(stores, NeighborSampler(stores, [2]), torch.arange(100), **options)
    with graph.reading(), pytest.raises(UnsupportedError, match="outside of the block"):
        iter(loader)
    assert held(graph) == 0
    turned(graph, 7)
    assert rows_seen(loader) == {7}


# ---- rows of the commit of the edges ---------------------------------------------------------


def step(graph: DynamicGraph, number: int) -> None:
    """Commit edges to nodes 0 .. 39, all from node ``40 + number``, and rows of that number."""
    nodes = np.arange(40)
    with graph.transaction():
        if number:
            graph.delete_edges(np.full(40, 39 + number), nodes)
        graph.insert_edges(np.full(40, 40 + number), nodes)
        turned(graph, number)


def stepping() -> DynamicGraph:
    graph = DynamicGraph(100, 16, huge_pages=False)
    graph.features = np.zeros((100, 1))
    step(graph, 0)
    return graph


def make_nodes(graph: DynamicGraph, **options: Any) -> NeighborLoader:
    return NeighborLoader(graph, [-1], torch.arange(40), batch_size=4, **options)


def make_links(graph: DynamicGraph, **options: Any) -> LinkNeighborLoader:
    links = torch.arange(40).repeat(2, 1)
    return LinkNeighborLoader(graph, [-1], links, batch_size=4, **options)


ELSEWHERE = [
    pytest.param({"num_workers": 1, "filter_per_worker": one}, marks=pytest.mark.forks)
    for one in (True, False)
]


@pytest.mark.parametrize("make", [make_nodes, make_links])
@pytest.mark.parametrize("snapshot", ["batch", "epoch"])
@pytest.mark.parametrize("options", [*HERE, *ELSEWHERE])
def test_rows_are_of_the_commit_of_the_edges(
    make: Any, snapshot: Any, options: dict[str, Any]
) -> None:
    graph = stepping()
    loader = make(graph, order=Order(snapshot=snapshot), **options)
    commits = set()
    for number, batch in enumerate(loader):
        (row,) = rows_seen([batch])
        assert int(batch.n_id.max()) == 40 + row
        commits.add(row)
        step(graph, number + 1)
    assert (commits == {0}) if snapshot == "epoch" else (len(commits) > 1)


def test_rows_that_are_planned_are_of_the_commit_of_the_edges(tmp_path: Path) -> None:
    np.save(tmp_path / "z.npy", np.zeros((100, 200), np.float32))
    rows = FeatureTable.load(tmp_path / "z.npy", "uring", memory_budget="1M")
    for snapshot in ("batch", "epoch"):
        graph = stepping()
        loader = make_nodes(
            graph, order=Order(snapshot=snapshot), feature_source={"z": rows}, ahead=Ahead(plan=3)
        )
        for number, batch in enumerate(loader):
            assert rows_seen([batch]) == {int(batch.n_id.max()) - 40}
            step(graph, number + 1)


def test_samples_of_a_plan_are_of_one_commit(tmp_path: Path) -> None:
    """There are fewer snapshots than samples that a plan may have."""
    np.save(tmp_path / "z.npy", np.zeros((100, 200), np.float32))
    rows = FeatureTable.load(tmp_path / "z.npy", "uring", memory_budget="1M")
    graph = stepping()
    loader = NeighborLoader(
        graph, [-1], torch.arange(40).repeat(15), batch_size=1, feature_source={"z": rows},
        ahead=Ahead(plan=200),
    )  # fmt: skip
    found = []
    for number, batch in enumerate(loader):
        assert graph.stats().snapshots <= 8
        found += rows_seen([batch])
        if number < 50:
            step(graph, number + 1)
    assert found == sorted(found) and found[:200] == [0] * 200 and 2 <= len(set(found)) <= 3


@pytest.mark.forks
def test_a_transform_between_edges_and_rows_in_two_processes() -> None:
    graph = stepping()
    options: dict[str, Any] = {"num_workers": 1, "transform_sampler_output": lambda out: out}
    with pytest.raises(InvalidArgumentError, match=r"=True, order=Order\(snapshot='epoch'\)"):
        iter(make_nodes(graph, filter_per_worker=False, **options))
    assert rows_seen(make_nodes(graph, **options)) == {0}
    with graph.snapshot() as now:
        assert rows_seen(make_nodes(now, filter_per_worker=False, **options)) == {0}
    found = []
    for batch in make_nodes(
        graph, filter_per_worker=False, order=Order(snapshot="epoch"), **options
    ):
        step(graph, len(found) + 1)
        found.append(batch)
    assert rows_seen(found) == {0}


def test_seeds_give_their_times_in_any_unit() -> None:
    graph = DynamicGraph(10, 16, order="time", edge_time="datetime64[us]")
    days = np.array(["2020-01-01", "2020-06-02"], "M8[D]")
    graph.insert_edges([1, 2], [3, 3], time=days)
    for unit in ("D", "s", "us"):
        when = np.array(["2020-06-01"], f"M8[{unit}]")
        for one in (graph, graph.snapshot(), graph.to_graph()):
            loader = NeighborLoader(
                one, [5], input_nodes=[3], input_time=when, time_attr="edge_time"
            )
            (batch,) = loader
            assert batch.n_id.tolist() == [3, 1]


@pytest.mark.parametrize("options", [{}, {"ahead": 0}, {"order": Order(snapshot="epoch")}])
def test_an_iterator_knows_its_number_of_batches(options: dict[str, Any]) -> None:
    loader = NeighborLoader(live(), [2], batch_size=30, **options)
    batches = iter(loader)
    assert len(batches) == len(loader) == 4
    assert len(list(batches)) == len(batches) == 4
