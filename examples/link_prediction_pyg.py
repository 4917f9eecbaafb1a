"""Link prediction on a graph that stays on disk, with native prefetching and edge features.

Trains an encoder to score the graph's own links above random pairs.

    python examples/link_prediction_pyg.py [--nodes 100000] [--epochs 3] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GraphSAGE

from aethergraph import Graph
from aethergraph.pyg import LinkNeighborLoader

COMMUNITIES = 20


def make_files(folder: Path, num_nodes: int) -> None:
    """Write graph.aeg (with an edge attribute) and features.npy."""
    rng = np.random.default_rng(0)
    community = np.arange(num_nodes) % COMMUNITIES
    dst = rng.integers(0, num_nodes, 8 * num_nodes)
    friend = (dst + COMMUNITIES * rng.integers(1, num_nodes // COMMUNITIES, dst.size)) % num_nodes
    src = np.where(rng.random(dst.size) < 0.9, friend, rng.integers(0, num_nodes, dst.size))
    strength = rng.random((dst.size, 1), dtype=np.float32)
    graph = Graph.from_edges(num_nodes, src, dst, edge_attrs={"edge_attr": strength})
    graph.save(folder / "graph.aeg")
    features = rng.normal(size=(num_nodes, COMMUNITIES)).astype(np.float32)
    features[np.arange(num_nodes), community] += 2.0
    np.save(folder / "features.npy", features)


def scores(embedding: Tensor, pairs: Tensor) -> Tensor:
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
        src, dst = graph.edge_index()
        links = torch.from_numpy(np.stack([src, dst]))
        some = links[:, torch.randperm(links.shape[1])[: num_nodes // 2]]
        loader = LinkNeighborLoader(
            graph,
            num_neighbors=[8, 4],
            edge_label_index=some,
            neg_sampling="binary",
            batch_size=512,
            shuffle=True,
        )

        model = GraphSAGE(graph.features.shape[1], 64, num_layers=2, out_channels=32)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
        for epoch in range(1, epochs + 1):
            right = total = 0
            for batch in loader:
                assert batch.edge_attr.shape == (batch.num_edges, 1)  # there if you want it
                score = scores(model(batch.x, batch.edge_index), batch.edge_label_index)
                loss = F.binary_cross_entropy_with_logits(score, batch.edge_label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                right += int(((score > 0) == (batch.edge_label > 0.5)).sum())
                total += score.numel()
            print(f"epoch {epoch}: {right / total:.3f} of links and random pairs told apart")


if __name__ == "__main__":
    main()
