"""Profiles of loaders of DGL over our graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.profiles import settled

from aethergraph import Graph, observe
from aethergraph.dgl import DataLoader, GraphStorage, NeighborSampler


@pytest.mark.parametrize("storage", ["memory", "uring"])
def test_batches(tmp_path: Path, storage: str) -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(400, *rng.integers(0, 400, (2, 4000)))
    if storage == "uring":
        graph.save(tmp_path / "g.aeg")
        graph = Graph.load(tmp_path / "g.aeg", storage="uring", memory_budget="64M")
    graph.features = rng.random((400, 8), np.float32)
    sampler = NeighborSampler([4, 3], prefetch_node_feats=["x"])
    loader = DataLoader(GraphStorage(graph), np.arange(400), sampler, batch_size=40)
    found = settled(lambda: loader.profile(8, lambda batch: batch[2][0].srcdata["x"]))
    names = {part.name for part in found.parts}
    assert {"sampling, in the core", "gathering", "the loader itself", "your step"} <= names
    for where, whole in (("iterating", found.seconds), ("ahead", found.threads * found.seconds)):
        parts = found.of(where)
        assert sum(part.seconds for part in parts) == pytest.approx(whole, rel=1e-9)


def test_stock_loader() -> None:
    import dgl.dataloading

    rng = np.random.default_rng(0)
    graph = GraphStorage(Graph.from_edges(400, *rng.integers(0, 400, (2, 4000))))
    loader = dgl.dataloading.DataLoader(
        graph, np.arange(400), NeighborSampler([4, 3]), batch_size=40
    )
    found = observe.profile(loader, 5)
    assert {"sampling, in the core", "the loader itself"} <= {part.name for part in found.parts}
