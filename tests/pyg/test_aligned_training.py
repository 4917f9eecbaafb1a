"""Training on batches of few partitions ends where training on shuffled seeds ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphSAGE

from aethergraph import Graph
from aethergraph.pyg import NeighborLoader

pytestmark = [pytest.mark.slow, pytest.mark.pyg]

NODES, PARTS, CLASSES = 4000, 40, 5


def planted(seed: int) -> tuple[Graph, np.ndarray[Any, Any]]:
    """Communities of 100 nodes, each mostly of one class: the hardest for aligned batches."""
    rng = np.random.default_rng(seed)
    parts = np.arange(NODES) // (NODES // PARTS)
    labels = np.where(
        rng.random(NODES) < 0.7, rng.integers(0, CLASSES, PARTS)[parts],
        rng.integers(0, CLASSES, NODES),
    )  # fmt: skip
    dst = rng.integers(0, NODES, 8 * NODES)
    inside = parts[dst] * (NODES // PARTS) + rng.integers(0, NODES // PARTS, len(dst))
    src = np.where(rng.random(len(dst)) < 0.8, inside, rng.integers(0, NODES, len(dst)))
    graph = Graph.from_edges(NODES, src, dst)
    features = rng.normal(size=(NODES, 16)).astype(np.float32)
    features[np.arange(NODES), labels] += 1.5
    graph.features = features
    graph.node_attrs["y"] = labels
    return graph, parts


def accuracy(graph: Graph, seed: int, **options: Any) -> float:
    torch.manual_seed(seed)
    order = np.random.default_rng(seed).permutation(NODES)
    train, test = np.sort(order[: NODES // 2]), order[NODES // 2 :]
    if "partitions" in options:
        options["partitions"] = options["partitions"][train]
    model = GraphSAGE(16, 32, num_layers=2, out_channels=CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = NeighborLoader(
        graph, [8, 4], train, batch_size=128, shuffle=True, seed=seed, **options
    )
    for _ in range(8):
        for batch in loader:
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            optimizer.zero_grad()
            F.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    model.eval()
    (batch,) = NeighborLoader(graph, [-1, -1], test, batch_size=len(test), seed=0)
    with torch.no_grad():
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
    return float((out.argmax(1) == batch.y[: batch.batch_size]).float().mean())


def test_accuracy_is_within_a_point_of_shuffled_seeds() -> None:
    found: dict[str, list[float]] = {"shuffled": [], "aligned": []}
    for seed in range(5):
        graph, parts = planted(seed)
        found["shuffled"].append(accuracy(graph, seed))
        found["aligned"].append(accuracy(graph, seed, partitions=parts, mix=8))
    shuffled, aligned = (np.mean(found[name]) for name in ("shuffled", "aligned"))
    assert shuffled > 0.7  # it learns: a class at random is 0.2, a community's own is 0.76
    assert aligned > shuffled - 0.01, found
