"""Users, posts and subreddits in one file on disk: posts classified through GraphBolt's stages.

The model and the graph are those of hetero_node_classification_dgl.py.

    python examples/hetero_node_classification_graphbolt_dgl.py [--posts 50000] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import dgl.graphbolt as gb
import torch
import torch.nn.functional as F
from dgl.nn import HeteroGraphConv, SAGEConv
from hetero_node_classification_dgl import TOPICS, make_files
from torch import Tensor

from aethergraph import HeteroGraph
from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph


class Model(torch.nn.Module):
    def __init__(self, etypes: list[str]) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            HeteroGraphConv({etype: SAGEConv(*size, "mean") for etype in etypes})
            for size in [(16, 32), (32, TOPICS)]
        )

    def forward(self, batch: gb.MiniBatch) -> Tensor:
        x = {name: rows for (name, _), rows in batch.node_features.items()}
        hidden = self.layers[0](batch.blocks[0], x)
        hidden = {name: F.relu(rows) for name, rows in hidden.items()}
        return self.layers[1](batch.blocks[1], hidden)["post"]


def make_loader(graph: HeteroGraph, posts: Tensor, shuffle: bool) -> gb.DataLoader:
    labels = torch.tensor(graph["post"].attrs["y"].array)[posts]
    items = gb.ItemSetDict({"post": gb.ItemSet((posts, labels), names=("seed_nodes", "labels"))})
    sampling_graph = SamplingGraph(graph)
    of_each = torch.ones(len(sampling_graph.edge_type_to_id), dtype=torch.int64)
    pipe = gb.ItemSampler(items, batch_size=128, shuffle=shuffle)
    pipe = pipe.sample_neighbor_at_once(sampling_graph, [4 * of_each, 8 * of_each])
    pipe = pipe.fetch_feature(FeatureStore(graph), {name: ["x"] for name in graph.node_types})
    return gb.DataLoader(pipe.copy_to(torch.device("cpu")))


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
        train_loader = make_loader(graph, shuffled[num_posts // 2 :], shuffle=True)
        test_loader = make_loader(graph, shuffled[: num_posts // 5], shuffle=False)

        model = Model([relation for _, relation, _ in graph.edge_types])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for epoch in range(1, epochs + 1):
            for batch in train_loader:
                loss = F.cross_entropy(model(batch), batch.labels["post"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            right = total = 0
            with torch.no_grad():
                for batch in test_loader:
                    right += int((model(batch).argmax(1) == batch.labels["post"]).sum())
                    total += len(batch.labels["post"])
            print(f"epoch {epoch}: test accuracy {right / total:.3f}, chance {1 / TOPICS:.2f}")


if __name__ == "__main__":
    main()
