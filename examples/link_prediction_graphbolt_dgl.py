"""Link prediction on a graph that stays on disk, through GraphBolt's stages, with negatives.

The model and the graph are those of link_prediction_dgl.py. The links of a batch are taken out of
what was sampled around them.

    python examples/link_prediction_graphbolt_dgl.py [--nodes 100000] [--epochs 3] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import dgl.graphbolt as gb
import torch
import torch.nn.functional as F
from link_prediction_dgl import SAGE, make_files, scores
from torch import Tensor

from aethergraph import Graph
from aethergraph.dgl import GraphStorage
from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph


def make_loader(graph: Graph, links: Tensor) -> gb.DataLoader:
    """``links`` are ids of edges."""
    pairs = torch.stack(GraphStorage(graph).find_edges(links), dim=1)
    items = gb.ItemSet(pairs, names="node_pairs")
    sampling_graph = SamplingGraph(graph)
    pipe = gb.ItemSampler(items, batch_size=512, shuffle=True)
    pipe = pipe.sample_uniform_negative(sampling_graph, 1)
    pipe = pipe.sample_neighbor_at_once(sampling_graph, [4, 8])
    pipe = pipe.transform(gb.exclude_seed_edges)
    pipe = pipe.fetch_feature(FeatureStore(graph), node_feature_keys=["x"])
    return gb.DataLoader(pipe.copy_to(torch.device("cpu")))


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
        loader = make_loader(graph, torch.randperm(graph.num_edges)[: num_nodes // 2])

        model = SAGE(graph.features.shape[1])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
        for epoch in range(1, epochs + 1):
            right = total = 0
            for batch in loader:
                embedding = model(batch.blocks, batch.node_features["x"])
                pairs, label = batch.node_pairs_with_labels
                score = scores(embedding, pairs)
                loss = F.binary_cross_entropy_with_logits(score, label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                right += int(((score > 0) == (label > 0.5)).sum())
                total += score.numel()
            print(f"epoch {epoch}: {right / total:.3f} of links and random pairs told apart")


if __name__ == "__main__":
    main()
