"""One training script over DGL's graphs and over ours (harness/worker.py); for dgl_accuracy.py."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from harness.worker import Commands, serve

DGL, OURS_IN_DGL = "DGL NeighborSampler", "aethergraph NeighborSampler"
GRAPHBOLT = "GraphBolt sample_neighbor"
OURS_BY_LAYER, OURS_AT_ONCE = "aethergraph sample_neighbor", "aethergraph sample_neighbor_at_once"
#: What ours are compared with, by loader.
PEERS = {
    DGL: (OURS_IN_DGL,),
    GRAPHBOLT: (OURS_BY_LAYER, OURS_AT_ONCE),
}
FANOUTS, BATCH, HIDDEN, CLASSES, WIDTH = [5, 10], 512, 64, 8, 32  # the last at the seeds
# () -> batches of (blocks, features of the first block's sources, labels of the seeds)
Batches = Callable[[], Iterator[tuple[Any, Any, Any]]]


def dataloading(graph: Any, sampler: Any, nodes: Any) -> Batches:
    import dgl

    loader = dgl.dataloading.DataLoader(graph, nodes, sampler, batch_size=BATCH, shuffle=True)

    def batches() -> Iterator[tuple[Any, Any, Any]]:
        for _, _, blocks in loader:
            yield blocks, blocks[0].srcdata["x"], blocks[-1].dstdata["y"]

    return batches


def pipes(sample: Callable[[Any], Any], features: Any, nodes: Any, labels: Any) -> Batches:
    import dgl.graphbolt as gb

    items = gb.ItemSet((nodes, labels[nodes]), names=("seed_nodes", "labels"))
    pipe = sample(gb.ItemSampler(items, batch_size=BATCH, shuffle=True))
    loader = gb.DataLoader(pipe.fetch_feature(features, node_feature_keys=["x"]))

    def batches() -> Iterator[tuple[Any, Any, Any]]:
        for batch in loader:
            yield batch.blocks, batch.node_features["x"], batch.labels

    return batches


def make_model() -> Any:
    import torch
    from dgl.nn import SAGEConv

    class Sage(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = (WIDTH, HIDDEN), (HIDDEN, CLASSES)
            self.layers = torch.nn.ModuleList(SAGEConv(*size, "mean") for size in sizes)
            self.drop = torch.nn.Dropout(0.2)

        def forward(self, graphs: Any, x: Any) -> Any:
            x = self.drop(self.layers[0](graphs[0], x).relu())
            return self.layers[1](graphs[1], x)

    return Sage()


def setup(config: dict[str, Any]) -> Commands:
    import dgl
    import dgl.graphbolt as gb
    import torch

    from aethergraph import Graph
    from aethergraph.dgl import GraphStorage, NeighborSampler
    from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph
    from aethergraph.testing.graphs import CommunityGraph

    nodes = config["nodes"]
    made = CommunityGraph(
        num_nodes=nodes, num_edges=10 * nodes, num_classes=CLASSES, num_features=WIDTH,
        homophily=0.6, seed=0,
    )  # fmt: skip
    src, dst = made.edges()
    x, y = made.feature_rows(0, nodes), made.labels
    whole = dgl.graph((torch.from_numpy(src), torch.from_numpy(dst)), num_nodes=nodes)
    whole.ndata["x"], whole.ndata["y"] = torch.from_numpy(x), torch.from_numpy(y)
    graph = Graph.from_edges(nodes, src, dst)
    graph.features = x
    graph.node_attrs["y"] = y
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(7))
    train, test = order[: nodes // 10], order[nodes // 10 : nodes // 5]
    fused = gb.from_dglgraph(whole, is_homogeneous=True)
    labels = whole.ndata["y"]
    stock = gb.BasicFeatureStore({("node", None, "x"): gb.TorchBasedFeature(whole.ndata["x"])})
    names: dict[str, Any] = {"prefetch_node_feats": ["x"], "prefetch_labels": ["y"]}

    def make(name: str) -> Batches:
        if name == DGL:
            return dataloading(whole, dgl.dataloading.NeighborSampler(FANOUTS, **names), train)
        if name == OURS_IN_DGL:
            return dataloading(GraphStorage(graph), NeighborSampler(FANOUTS, **names), train)
        if name == GRAPHBOLT:
            return pipes(lambda pipe: pipe.sample_neighbor(fused, FANOUTS), stock, train, labels)
        own, features = SamplingGraph(graph), FeatureStore(graph)
        stage = "sample_neighbor" if name == OURS_BY_LAYER else "sample_neighbor_at_once"
        return pipes(lambda pipe: getattr(pipe, stage)(own, FANOUTS), features, train, labels)

    def run(name: str, seed: int, steps: int) -> dict[str, float]:
        """Test accuracy, percent, after ``steps`` steps, by all neighbours; and the seconds."""
        for generator in (random.seed, np.random.seed, torch.manual_seed, dgl.seed):
            generator(seed)
        start = time.perf_counter()
        batches, model = make(name), make_model()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
        model.train()
        taken = 0
        while taken < steps:
            for blocks, rows, wanted in batches():
                loss = torch.nn.functional.cross_entropy(model(blocks, rows), wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                taken += 1
                if taken == steps:
                    break
        model.eval()
        with torch.no_grad():
            right = model([whole, whole], whole.ndata["x"])[test].argmax(1) == labels[test]
        return {
            "accuracy": 100 * float(right.float().mean()), "seconds": time.perf_counter() - start
        }  # fmt: skip

    return {"versions": lambda: {"torch": torch.__version__, "dgl": dgl.__version__}, "run": run}


if __name__ == "__main__":
    serve(setup)
