"""Seeds capped at the watermark of a live graph: no loader of DGL sees an edge beyond it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from dgl import EID
from dgl.dataloading import DataLoader as StockLoader

from aethergraph import DynamicGraph
from aethergraph.dgl import DataLoader, GraphStorage, NeighborSampler

NODES, MARK = 40, 500


@pytest.mark.parametrize(
    ("make", "workers", "strategy"),
    [
        (DataLoader, 0, "last"), (StockLoader, 0, "uniform"),
        pytest.param(DataLoader, 2, "uniform", marks=pytest.mark.forks),
    ],
)  # fmt: skip
def test_nothing_beyond_it_is_seen(make: Any, workers: int, strategy: str) -> None:
    rng, ask = np.random.default_rng(1), np.full(NODES, 10**6)
    graph = DynamicGraph(NODES, 16, order="time", edge_time="int64", huge_pages=False)
    graph.insert_edges(*rng.integers(0, NODES, (2, 2000)), time=rng.integers(0, 1000, 2000))
    graph.set_watermark("s", MARK)
    times = graph.edge_values["edge_time"]

    def latest(given: Any) -> int:
        sampler = NeighborSampler(
            [20, 20], time_attr="edge_time", seed_time=given, temporal_strategy=strategy
        )
        loader = make(
            GraphStorage(graph), torch.arange(NODES), sampler, batch_size=7, num_workers=workers
        )
        seen = np.concatenate(
            [block.edata[EID].numpy() for _, _, blocks in loader for block in blocks]
        )
        assert len(seen)
        return int(times.gather(seen).max())

    assert latest(ask) > MARK
    assert latest(graph.cap(ask)) <= MARK
    assert latest(torch.from_numpy(graph.snapshot().cap(ask))) <= MARK
