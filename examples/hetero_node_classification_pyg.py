"""Users, posts and subreddits in one file on disk: posts classified through HeteroNeighborLoader.

A post's own features tell little; who voted for it and where it was posted tell its topic. The
model is PyG's GraphSAGE made heterogeneous by `to_hetero`.

    python examples/hetero_node_classification_pyg.py [--posts 50000] [--epochs 5] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import HeteroData
from torch_geometric.nn import GraphSAGE, to_hetero

from aethergraph import HeteroGraph
from aethergraph.pyg import HeteroNeighborLoader

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


def predict(model: torch.nn.Module, batch: HeteroData) -> tuple[Tensor, Tensor]:
    """Scores by topic and the topic, of the posts that the batch was asked for."""
    size = batch["post"].batch_size
    return model(batch.x_dict, batch.edge_index_dict)["post"][:size], batch["post"].y[:size]


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
        shuffled = torch.randperm(num_posts)
        train, test = shuffled[num_posts // 2 :], shuffled[: num_posts // 5]
        fanouts = [8, 4]  # for each edge type; a dict by edge type is possible too
        train_loader = HeteroNeighborLoader(graph, fanouts, ("post", train), batch_size=128)
        test_loader = HeteroNeighborLoader(graph, fanouts, ("post", test), batch_size=128)

        sage = GraphSAGE((16, 16), 32, num_layers=2, out_channels=TOPICS)
        model = to_hetero(sage, (graph.node_types, graph.edge_types))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(1, epochs + 1):
            for batch in train_loader:
                out, y = predict(model, batch)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                pairs = [predict(model, batch) for batch in test_loader]
            right = sum(int((out.argmax(1) == y).sum()) for out, y in pairs)
            print(f"epoch {epoch}: test accuracy {right / len(test):.3f}, chance {1 / TOPICS:.2f}")


if __name__ == "__main__":
    main()
