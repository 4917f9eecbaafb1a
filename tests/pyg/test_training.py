"""A GNN trains on what the loaders give, and PyG's own tools take it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.pyg import FANOUTS, make_graph
from torch import Tensor
from torch_geometric.nn import GraphSAGE, SAGEConv
from torch_geometric.utils import trim_to_layer

from aethergraph import Graph
from aethergraph.pyg import LinkNeighborLoader, NeighborLoader

pytestmark = pytest.mark.pyg


def community_graph() -> tuple[Graph, Tensor]:
    """Four communities; features say little, neighbours say the rest."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 400)
    src = rng.integers(0, 400, 12000)
    dst = rng.integers(0, 400, 12000)
    keep = (labels[src] == labels[dst]) | (rng.random(12000) < 0.1)
    graph = Graph.from_edges(400, src[keep], dst[keep])
    noise = rng.normal(size=(400, 16)).astype(np.float32)
    noise[np.arange(400), labels] += 1.0
    graph.features = noise
    graph.node_attrs["y"] = labels
    return graph, torch.from_numpy(labels)


def test_a_gnn_learns() -> None:
    torch.manual_seed(0)
    graph, labels = community_graph()
    train = torch.arange(400) % 2 == 0
    model = GraphSAGE(16, 32, num_layers=2, out_channels=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = NeighborLoader(graph, [8, 8], train, batch_size=50, shuffle=True)
    for _ in range(6):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            F.cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    model.eval()
    whole = NeighborLoader(graph, [-1], batch_size=100)
    predicted = model.inference(whole).argmax(dim=-1)  # PyG's layer-wise inference
    assert float((predicted == labels)[~train].float().mean()) > 0.8


@pytest.mark.parametrize("loader_class", [NeighborLoader, LinkNeighborLoader])
def test_trim_to_layer(loader_class: Any) -> None:
    """Hops are contiguous, so that trimming changes nothing for the seeds."""
    torch.manual_seed(0)
    graph = make_graph()
    convs = [SAGEConv(8, 8), SAGEConv(8, 8)]
    for batch in loader_class(graph, FANOUTS, batch_size=20):
        full, trimmed = batch.x, batch.x
        edges, trimmed_edges = batch.edge_index, batch.edge_index
        for layer, conv in enumerate(convs):
            full = conv(full, edges)
            trimmed, trimmed_edges, _ = trim_to_layer(
                layer, batch.num_sampled_nodes, batch.num_sampled_edges, trimmed, trimmed_edges
            )
            trimmed = conv(trimmed, trimmed_edges)
        seeds = batch.num_sampled_nodes[0]
        assert torch.allclose(full[:seeds], trimmed[:seeds], atol=1e-5)
