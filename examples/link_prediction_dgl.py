"""Link prediction on a graph that stays on disk, through DGL's DataLoader, with negatives.

Trains an encoder to score the graph's own links above random pairs. The links of a batch are left
out of what is sampled around them.

    python examples/link_prediction_dgl.py [--nodes 100000] [--epochs 3] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from dgl.dataloading import DataLoader
from dgl.nn import SAGEConv
from torch import Tensor

from aethergraph import Graph
from aethergraph.dgl import (
    GraphStorage,
    NeighborSampler,
    PerSourceUniform,
    as_edge_prediction_sampler,
)

COMMUNITIES = 20


def make_files(folder: Path, num_nodes: int) -> None:
    """Write graph.aeg and features.npy."""
    rng = np.random.default_rng(0)
    community = np.arange(num_nodes) % COMMUNITIES
    dst = rng.integers(0, num_nodes, 8 * num_nodes)
    friend = (dst + COMMUNITIES * rng.integers(1, num_nodes // COMMUNITIES, dst.size)) % num_nodes
    src = np.where(rng.random(dst.size) < 0.9, friend, rng.integers(0, num_nodes, dst.size))
    Graph.from_edges(num_nodes, src, dst, keep_order=True).save(folder / "graph.aeg")
    features = rng.normal(size=(num_nodes, COMMUNITIES)).astype(np.float32)
    features[np.arange(num_nodes), community] += 2.0
    np.save(folder / "features.npy", features)


class SAGE(torch.nn.Module):
    def __init__(self, num_features: int) -> None:
        super().__init__()
        sizes = [(num_features, 64), (64, 32)]
        self.layers = torch.nn.ModuleList(SAGEConv(*size, "mean") for size in sizes)

    def forward(self, blocks: list, x: Tensor) -> Tensor:
        x = F.relu(self.layers[0](blocks[0], x))
        return self.layers[1](blocks[1], x)


def scores(embedding: Tensor, pairs: tuple[Tensor, Tensor]) -> Tensor:
    return (embedding[pairs[0]] * embedding[pairs[1]]).sum(dim=-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small graph, two epochs")
    args = parser.parse_args()
    num_nodes, epochs = (4_000, 2) if args.quick else (args.nodes, args.epochs)

    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, num_nodes)

        graph = Graph.load(folder / "graph.aeg")
        graph.load_features(folder / "features.npy")
        sampler = as_edge_prediction_sampler(
            NeighborSampler([4, 8], prefetch_node_feats=["x"]),
            exclude="self",
            negative_sampler=PerSourceUniform(1),
        )
        links = torch.randperm(graph.num_edges)[: num_nodes // 2]
        loader = DataLoader(GraphStorage(graph), links, sampler, batch_size=512, shuffle=True)

        model = SAGE(graph.features.shape[1])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
        for epoch in range(1, epochs + 1):
            right = total = 0
            for _, positive, negative, blocks in loader:
                embedding = model(blocks, blocks[0].srcdata["x"])
                real = scores(embedding, positive.edges())
                random = scores(embedding, negative.edges())
                score = torch.cat([real, random])
                label = torch.cat([torch.ones_like(real), torch.zeros_like(random)])
                loss = F.binary_cross_entropy_with_logits(score, label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                right += int(((score > 0) == (label > 0.5)).sum())
                total += score.numel()
            print(f"epoch {epoch}: {right / total:.3f} of links and random pairs told apart")


if __name__ == "__main__":
    main()
