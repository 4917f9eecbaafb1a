"""Training on batches of few partitions ends where training on shuffled seeds ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphSAGE

from aethergraph import Graph
from aethergraph.loading import Order
from aethergraph.pyg import NeighborLoader
from aethergraph.testing.graphs import CommunityGraph

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


def community(nodes: int, edges: int, classes: int) -> Any:
    """Make graphs of the size of a citation network, with Rabbit Order's communities."""

    def make(seed: int) -> tuple[Graph, np.ndarray[Any, Any]]:
        made = CommunityGraph(nodes, edges, classes, num_features=32, homophily=0.8, seed=seed)
        graph = Graph.from_edges(nodes, *made.edges())
        graph.features = made.feature_rows(0, nodes)
        graph.node_attrs["y"] = made.labels
        return graph, graph.rabbit_partitions()

    return make


def accuracy(graph: Graph, seed: int, parts: Any = None) -> float:
    torch.manual_seed(seed)
    nodes, classes = graph.num_nodes, int(graph.node_attrs["y"].array.max()) + 1
    order = np.random.default_rng(seed).permutation(nodes)
    train, test = np.sort(order[: nodes // 2]), order[nodes // 2 :]
    of_parts = None if parts is None else Order(partitions=parts[train], mix=8)
    model = GraphSAGE(graph.features.shape[1], 32, num_layers=2, out_channels=classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = NeighborLoader(
        graph, [8, 4], train, batch_size=128, shuffle=True, seed=seed, order=of_parts
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


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of small steps wait for each other, and for a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("make", "least"),
    [
        # A class at random is 0.2, a community's own is 0.76.
        pytest.param(planted, 0.7, id="planted"),
        pytest.param(community(2708, 10_556, 7), 0.6, id="as Cora"),
        pytest.param(
            community(19_717, 88_648, 3), 0.6, id="as PubMed",
            marks=pytest.mark.skipif(
                "AETHERGRAPH_SOAK" not in os.environ, reason="takes long: ./scripts/test.sh soak"
            ),
        ),
    ],
)  # fmt: skip
def test_accuracy_is_within_a_point_of_shuffled_seeds(make: Any, least: float) -> None:
    found: dict[str, list[float]] = {"shuffled": [], "aligned": []}
    for seed in range(5):
        graph, parts = make(seed)
        found["shuffled"].append(accuracy(graph, seed))
        found["aligned"].append(accuracy(graph, seed, parts))
    shuffled, aligned = (float(np.mean(found[name])) for name in ("shuffled", "aligned"))
    print(f"shuffled {shuffled:.4f}, aligned {aligned:.4f}")
    assert shuffled > least  # it learns
    assert aligned > shuffled - 0.01, found
