"""Loaders over live graphs whose loader, snapshot or epoch ends before its workers do."""

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
