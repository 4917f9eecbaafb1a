"""GraphSAGE on a graph that stays on disk, through PyG's stock NodeLoader.

Makes a labelled graph, writes it to files, and trains from the files. To use your own, replace
`make_files` by `aethergraph convert` and keep the rest.

    python examples/node_classification_pyg.py [--nodes 200000] [--epochs 5] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GraphSAGE

from aethergraph import Graph
from aethergraph.pyg import FeatureStore, GraphStore, NeighborSampler

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


def accuracy(model: torch.nn.Module, loader: NodeLoader) -> float:
    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in loader:
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            right += int((out.argmax(1) == batch.y[: batch.batch_size]).sum())
            total += batch.batch_size
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
        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        sampler = NeighborSampler(stores, num_neighbors=[10, 5])
        shuffled = torch.randperm(graph.num_nodes)
        train_nodes, test_nodes = shuffled[num_nodes // 2 :], shuffled[: num_nodes // 10]
        train_loader = NodeLoader(stores, sampler, train_nodes, batch_size=512, shuffle=True)
        test_loader = NodeLoader(stores, sampler, test_nodes, batch_size=512)

        model = GraphSAGE(graph.features.shape[1], 64, num_layers=2, out_channels=CLASSES)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(1, epochs + 1):
            model.train()
            for batch in train_loader:
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                loss = F.cross_entropy(out, batch.y[: batch.batch_size])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: test accuracy {accuracy(model, test_loader):.3f}")


if __name__ == "__main__":
    main()
