"""Node classification on a graph that grows, through DGL's stock DataLoader.

A thread adds nodes and edges. Each new node is classified as soon as it is there, and learned from
afterwards. What a class looks like drifts, so a model that stops learning is soon wrong.

    python examples/live_node_classification_dgl.py [--steps 120] [--nodes-per-step 1000] [--quick]
"""

from __future__ import annotations

import argparse
import copy
import queue
import threading

import numpy as np
import torch
import torch.nn.functional as F
from dgl.dataloading import DataLoader
from dgl.nn import SAGEConv
from torch import Tensor

from aethergraph import DynamicGraph
from aethergraph.dgl import GraphStorage, NeighborSampler

CLASSES, WIDTH, DEGREE = 6, 16, 8


def write(graph: DynamicGraph, steps: int, size: int, arrived: queue.Queue) -> None:
    """Add `size` nodes in each step, and say which."""
    rng = np.random.default_rng(0)
    looks = rng.normal(size=(2, CLASSES, WIDTH))
    labels = np.zeros(0, np.int64)
    for step in range(steps):
        turned = np.pi * step / steps  # in the end a class looks like the reverse of the beginning
        look = np.cos(turned) * looks[0] + np.sin(turned) * looks[1]
        y = rng.integers(0, CLASSES, size)
        x = look[y] + rng.normal(scale=3, size=(size, WIDTH))
        labels = np.concatenate([labels, y])
        first = max(0, labels.size - 4 * size)  # edges come from nodes that are not older
        friends = [first + np.flatnonzero(labels[first:] == c) for c in range(CLASSES)]
        src = np.concatenate([rng.choice(friends[c], DEGREE) for c in y])
        others = rng.integers(first, labels.size, src.size)
        src = np.where(rng.random(src.size) < 0.8, src, others)
        with graph.transaction():  # no batch sees these nodes without their edges
            new = graph.add_nodes(size, x=x.astype(np.float32), y=y)
            graph.insert_edges(src, np.repeat(new, DEGREE))
        arrived.put(torch.from_numpy(new))  # waits while training is far behind
    arrived.put(None)


class SAGE(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = [(WIDTH, 64), (64, CLASSES)]
        self.layers = torch.nn.ModuleList(SAGEConv(*size, "mean") for size in sizes)

    def forward(self, blocks: list) -> Tensor:
        x = F.relu(self.layers[0](blocks[0], blocks[0].srcdata["x"]))
        return self.layers[1](blocks[1], x)


def batches(graph: DynamicGraph, nodes: Tensor, size: int, shuffle: bool = False) -> DataLoader:
    sampler = NeighborSampler([4, 8], prefetch_node_feats=["x"], prefetch_labels=["y"])
    return DataLoader(GraphStorage(graph), nodes, sampler, batch_size=size, shuffle=shuffle)


def accuracy(model: torch.nn.Module, graph: DynamicGraph, nodes: Tensor) -> float:
    right = 0
    model.eval()
    with torch.no_grad():
        for _, _, blocks in batches(graph, nodes, 512):
            right += int((model(blocks).argmax(1) == blocks[-1].dstdata["y"]).sum())
    return right / len(nodes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--nodes-per-step", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="few steps of few nodes")
    args = parser.parse_args()
    steps, size = (40, 300) if args.quick else (args.steps, args.nodes_per_step)

    torch.manual_seed(1)
    graph = DynamicGraph(0, arena_mb=256, layout="csc", order="time")
    graph.features = np.zeros((0, WIDTH), np.float32)  # rows come with the nodes
    graph.node_attrs["y"] = np.zeros(0, np.int64)
    arrived: queue.Queue = queue.Queue(maxsize=2)
    threading.Thread(target=write, args=(graph, steps, size, arrived), daemon=True).start()

    model = SAGE()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    stopped, seen, found = model, [], []
    for step, new in enumerate(iter(arrived.get, None)):
        found.append([accuracy(model, graph, new), accuracy(stopped, graph, new)])
        seen = [*seen[-2:], new]
        model.train()
        for _, _, blocks in batches(graph, torch.cat(seen), 128, shuffle=True):
            loss = F.cross_entropy(model(blocks), blocks[-1].dstdata["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step == steps // 5:
            stopped = copy.deepcopy(model)
        if (step + 1) % (steps // 5) == 0:
            print(f"{graph.num_nodes} nodes, {graph.num_edges} edges: {found[-1][0]:.3f} right")
    learning, frozen = np.mean(found[steps // 2 :], axis=0)
    print(f"accuracy on new nodes: {learning:.3f} while learning, {frozen:.3f} without")


if __name__ == "__main__":
    main()
