"""GraphSAGE on a graph that stays on disk, through DGL's stock DataLoader.

Makes a labelled graph, writes it to files, and trains from the files. To use your own, replace
`make_files` by `aethergraph convert` and keep the rest.

    python examples/node_classification_dgl.py [--nodes 200000] [--epochs 5] [--quick]
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
from aethergraph.dgl import GraphStorage, NeighborSampler

CLASSES = 6


def make_files(folder: Path, num_nodes: int) -> None:
    """Write graph.aeg, features.npy and labels.npy of a graph with noisy communities."""
    rng = np.random.default_rng(0)
    labels = np.arange(num_nodes) % CLASSES
    dst = rng.integers(0, num_nodes, 10 * num_nodes)
    friend = (dst + CLASSES * rng.integers(1, num_nodes // CLASSES, dst.size)) % num_nodes
    src = np.where(rng.random(dst.size) < 0.7, friend, rng.integers(0, num_nodes, dst.size))
    Graph.from_edges(num_nodes, src, dst).save(folder / "graph.aeg")
    features = rng.normal(size=(num_nodes, 32)).astype(np.float32)
    features[np.arange(num_nodes), labels] += 1.0
    np.save(folder / "features.npy", features)
    np.save(folder / "labels.npy", labels)


class SAGE(torch.nn.Module):
    def __init__(self, num_features: int) -> None:
        super().__init__()
        sizes = [(num_features, 64), (64, CLASSES)]
        self.layers = torch.nn.ModuleList(SAGEConv(*size, "mean") for size in sizes)

    def forward(self, blocks: list, x: Tensor) -> Tensor:
        x = F.relu(self.layers[0](blocks[0], x))
        return self.layers[1](blocks[1], x)


def accuracy(model: torch.nn.Module, loader: DataLoader) -> float:
    model.eval()
    right = total = 0
    with torch.no_grad():
        for _, output_nodes, blocks in loader:
            out = model(blocks, blocks[0].srcdata["x"])
            right += int((out.argmax(1) == blocks[-1].dstdata["y"]).sum())
            total += len(output_nodes)
    return right / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small graph, two epochs")
    args = parser.parse_args()
    num_nodes, epochs = (6_000, 2) if args.quick else (args.nodes, args.epochs)

    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, num_nodes)

        graph = Graph.load(folder / "graph.aeg")
        graph.load_features(folder / "features.npy")
        graph.load_features(folder / "labels.npy", name="y")
        storage = GraphStorage(graph)
        sampler = NeighborSampler([5, 10], prefetch_node_feats=["x"], prefetch_labels=["y"])
        shuffled = torch.randperm(num_nodes)
        train_nodes, test_nodes = shuffled[num_nodes // 2 :], shuffled[: num_nodes // 10]
        train_loader = DataLoader(storage, train_nodes, sampler, batch_size=256, shuffle=True)
        test_loader = DataLoader(storage, test_nodes, sampler, batch_size=512)

        model = SAGE(graph.features.shape[1])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(1, epochs + 1):
            model.train()
            for _, _, blocks in train_loader:
                out = model(blocks, blocks[0].srcdata["x"])
                loss = F.cross_entropy(out, blocks[-1].dstdata["y"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: test accuracy {accuracy(model, test_loader):.3f}")


if __name__ == "__main__":
    main()
