"""Epochs of loaders over live graphs: the commit of each, how long it is held, and by whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from aethergraph import DynamicGraph
from aethergraph.pyg import NeighborLoader

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
    options: dict[str, Any] = {} if kind == "snapshot" else {"snapshot": kind}
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


@pytest.mark.forks
def test_two_epochs_at_once() -> None:
    graph = live()
    loader = NeighborLoader(graph, [2], batch_size=10, num_workers=1, snapshot="epoch")
    first = iter(loader)
    next(first)
    graph.update_nodes([50], x=[[-1]])
    second = iter(loader)
    next(second)
    del second
    rows = torch.cat([batch.x[: batch.batch_size, 0] for batch in first])
    assert rows.tolist() == list(range(10, 100))


#: Options of loaders that sample here, each in another way.
HERE: list[dict[str, Any]] = [{}, {"prefetch_batches": 0}, {"num_sample_threads": 3}]


def turned(graph: DynamicGraph, number: int) -> None:
    """Commit rows that are all ``number``."""
    graph.update_nodes(np.arange(100), x=np.full((100, 1), number))


def rows_seen(batches: Any) -> set[float]:
    return {row for batch in batches for row in batch.x[:, 0].tolist()}


@pytest.mark.parametrize("options", HERE)
def test_every_iterator_has_a_commit_of_its_own(options: dict[str, Any]) -> None:
    graph = live()
    loader = NeighborLoader(graph, [2], batch_size=10, snapshot="epoch", **options)
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


def held(graph: DynamicGraph) -> int:
    return graph.stats().snapshots


@pytest.mark.parametrize(
    "options", [*HERE, pytest.param({"num_workers": 1}, marks=pytest.mark.forks)]
)
def test_the_commit_of_an_epoch_is_let_go_of(options: dict[str, Any]) -> None:
    graph = live()
    loader = NeighborLoader(graph, [2], batch_size=10, snapshot="epoch", **options)
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
        graph, [2], batch_size=10, snapshot="epoch", transform=refuse, **options
    )
    batches = iter(loader)
    with pytest.raises(ArithmeticError, match="batch of 10") as caught:
        next(batches)
    del caught  # with the frames that made the batch
    assert held(graph) == 0 and list(batches) == []


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
