"""GraphSAGE on a graph that stays on disk, through GraphBolt's stock DataLoader.

python examples/node_classification_graphbolt_dgl.py [--nodes 200000] [--epochs 5] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import dgl.graphbolt as gb
import torch
import torch.nn.functional as F
from dgl.nn import SAGEConv
from node_classification_dgl import CLASSES, make_files
from torch import Tensor

from aethergraph import Graph
from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph


class SAGE(torch.nn.Module):
    def __init__(self, num_features: int) -> None:
        super().__init__()
        sizes = [(num_features, 64), (64, CLASSES)]
        self.layers = torch.nn.ModuleList(SAGEConv(*size, "mean") for size in sizes)

    def forward(self, blocks: list, x: Tensor) -> Tensor:
        x = F.relu(self.layers[0](blocks[0], x))
        return self.layers[1](blocks[1], x)


def make_loader(graph: Graph, nodes: Tensor, batch_size: int, shuffle: bool) -> gb.DataLoader:
    labels = torch.tensor(graph.node_attrs["y"].array)[nodes]
    items = gb.ItemSet((nodes, labels), names=("seed_nodes", "labels"))
    pipe = gb.ItemSampler(items, batch_size=batch_size, shuffle=shuffle)
    pipe = pipe.sample_neighbor_at_once(SamplingGraph(graph), [5, 10])
    pipe = pipe.fetch_feature(FeatureStore(graph), node_feature_keys=["x"])
    return gb.DataLoader(pipe.copy_to(torch.device("cpu")))


def accuracy(model: torch.nn.Module, loader: gb.DataLoader) -> float:
    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in loader:
            out = model(batch.blocks, batch.node_features["x"])
            right += int((out.argmax(1) == batch.labels).sum())
            total += len(batch.labels)
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
        shuffled = torch.randperm(num_nodes)
        train_loader = make_loader(graph, shuffled[num_nodes // 2 :], 256, shuffle=True)
        test_loader = make_loader(graph, shuffled[: num_nodes // 10], 512, shuffle=False)

        model = SAGE(graph.features.shape[1])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(1, epochs + 1):
            model.train()
            for batch in train_loader:
                out = model(batch.blocks, batch.node_features["x"])
                loss = F.cross_entropy(out, batch.labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: test accuracy {accuracy(model, test_loader):.3f}")


if __name__ == "__main__":
    main()
