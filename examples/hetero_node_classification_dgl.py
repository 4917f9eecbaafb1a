"""Users, posts and subreddits in one file on disk: posts classified through DGL's DataLoader.

A post's own features tell little; who voted for it and where it was posted tell its topic. The
model is made of DGL's HeteroGraphConv.

    python examples/hetero_node_classification_dgl.py [--posts 50000] [--epochs 5] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from dgl.dataloading import DataLoader
from dgl.nn import HeteroGraphConv, SAGEConv
from torch import Tensor

from aethergraph import HeteroGraph
from aethergraph.dgl import GraphStorage, NeighborSampler

TOPICS = 6


def make_files(folder: Path, num_posts: int) -> None:
    """Write graph.aeg, features of every type, and labels.npy: the topic of each post."""
    rng = np.random.default_rng(0)
    nodes = {"user": num_posts // 4, "post": num_posts, "subreddit": 60}
    topic = {name: np.arange(count) % TOPICS for name, count in nodes.items()}

    def of_topic(name: str, posts: np.ndarray, share: float) -> np.ndarray:
        other = rng.integers(0, nodes[name], posts.size)
        same = (other // TOPICS * TOPICS + topic["post"][posts]) % nodes[name]
        return np.where(rng.random(posts.size) < share, same, other)

    posts, voted = np.arange(num_posts), np.arange(num_posts).repeat(8)
    edges = {
        ("user", "votes", "post"): (of_topic("user", voted, 0.6), voted),
        ("post", "in", "subreddit"): (posts, of_topic("subreddit", posts, 0.6)),
    }
    graph = HeteroGraph.from_edges(edges, nodes, add_reverse=True)
    graph.save(folder / "graph.aeg")
    for name, strength in (("user", 1.0), ("post", 0.3), ("subreddit", 0.0)):
        features = rng.normal(size=(nodes[name], 16)).astype(np.float32)
        features[np.arange(nodes[name]), topic[name]] += strength
        np.save(folder / f"{name}.npy", features)
    np.save(folder / "labels.npy", topic["post"])


class Model(torch.nn.Module):
    def __init__(self, etypes: list[str]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            HeteroGraphConv({etype: SAGEConv(*size, "mean") for etype in etypes})
            for size in [(16, 32), (32, TOPICS)]
        )

    def forward(self, blocks: list) -> Tensor:
        x = blocks[0].srcdata["x"]
        hidden = self.layers[0](blocks[0], x)
        hidden = {name: F.relu(rows) for name, rows in hidden.items()}
        return self.layers[1](blocks[1], hidden)["post"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--posts", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small graph, two epochs")
    args = parser.parse_args()
    num_posts, epochs = (6_000, 2) if args.quick else (args.posts, args.epochs)

    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, num_posts)

        graph = HeteroGraph.load(folder / "graph.aeg")
        for kind in graph.node_types:
            graph[kind].load_features(folder / f"{kind}.npy")
        graph["post"].load_features(folder / "labels.npy", name="y")
        storage = GraphStorage(graph)
        sampler = NeighborSampler(
            [4, 8],  # for each edge type; dicts by edge type are possible too
            prefetch_node_feats={name: ["x"] for name in graph.node_types},
            prefetch_labels={"post": ["y"]},
        )
        shuffled = torch.randperm(num_posts)
        train, test = shuffled[num_posts // 2 :], shuffled[: num_posts // 5]
        train_loader = DataLoader(storage, {"post": train}, sampler, batch_size=128, shuffle=True)
        test_loader = DataLoader(storage, {"post": test}, sampler, batch_size=128)

        model = Model(storage.etypes)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(1, epochs + 1):
            for _, _, blocks in train_loader:
                loss = F.cross_entropy(model(blocks), blocks[-1].dstnodes["post"].data["y"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            right = 0
            with torch.no_grad():
                for _, _, blocks in test_loader:
                    y = blocks[-1].dstnodes["post"].data["y"]
                    right += int((model(blocks).argmax(1) == y).sum())
            print(f"epoch {epoch}: test accuracy {right / len(test):.3f}, chance {1 / TOPICS:.2f}")


if __name__ == "__main__":
    main()
