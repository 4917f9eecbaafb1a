"""A model that serves from a graph that changes, and is trained on exactly what it saw there.

A graph grows. Each new node is scored at once from a sample that a server draws, and its label
comes later. What was served is in the server's log: key, seeds, commit. Training makes the same
samples again from the graph's own log, byte by byte, whatever has happened to the graph since, so
that a feature cannot look better in training than it did in production.

    python examples/served_node_classification_pyg.py [--steps 40] [--nodes-per-step 200] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphSAGE

from aethergraph import DynamicGraph
from aethergraph.pyg import sample_to_data
from aethergraph.remote import FeatureServer, SamplePlan, SampleService, open_sampler, replay

CLASSES, WIDTH, DEGREE, ASKED = 6, 16, 8, 50


class Writer:
    """Adds nodes with their edges; goes on changing the rows of older ones, too."""

    def __init__(self, graph: DynamicGraph) -> None:
        self.graph = graph
        self.rng = np.random.default_rng(0)
        self.look = self.rng.normal(size=(CLASSES, WIDTH))
        self.labels = np.zeros(0, np.int64)

    def rows(self, y: np.ndarray) -> np.ndarray:
        noise = self.rng.normal(scale=3, size=(len(y), WIDTH))
        return (self.look[y] + noise).astype(np.float32)

    def step(self, size: int) -> np.ndarray:
        y = self.rng.integers(0, CLASSES, size)
        self.labels = np.concatenate([self.labels, y])
        friends = [np.flatnonzero(self.labels == c) for c in range(CLASSES)]
        src = np.concatenate([self.rng.choice(friends[c], DEGREE) for c in y])
        others = self.rng.integers(0, self.labels.size, src.size)
        src = np.where(self.rng.random(src.size) < 0.8, src, others)
        with self.graph.transaction():
            new = self.graph.add_nodes(size, x=self.rows(y))
            self.graph.insert_edges(src, np.repeat(new, DEGREE))
            old = self.rng.choice(
                self.labels.size - size + 1, size=min(20, self.labels.size - size)
            )
            if len(old):
                old = np.unique(old)
                self.graph.update_nodes(old, x=self.rows(self.labels[old]))
        return new


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--nodes-per-step", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="fewer nodes")
    args = parser.parse_args()
    steps = 20 if args.quick else args.steps
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = GraphSAGE(WIDTH, 32, 2, CLASSES)

    def scores(found) -> torch.Tensor:
        data = sample_to_data(found)
        return model(data.x, data.edge_index)[: data.batch_size]

    with tempfile.TemporaryDirectory() as name:
        path, log = Path(name) / "g.aegd", Path(name) / "answers.jsonl"
        graph = DynamicGraph.open(path, num_vertices=0, arena_mb=64)
        graph.node_attrs["x"] = np.zeros((0, WIDTH), np.float32)
        writer = Writer(graph)
        writer.step(args.nodes_per_step)
        service = SampleService(graph, SamplePlan([8, 4]))
        served = []
        with FeatureServer({}, samples={"g": service}, port=0, log=log) as server, torch.no_grad():
            sampler = open_sampler(server.address)
            for _ in range(steps):  # production: a node is scored as soon as it is there
                new = writer.step(args.nodes_per_step)
                served.append(scores(sampler.sample(new[:ASKED])))
        graph.close()

        # Weeks later: the labels are there, and the model that served, before it is trained.
        seen = list(replay(log, path))  # compares each answer's bytes with those that were served
        with torch.no_grad():
            same = all(map(torch.equal, served, map(scores, seen)))
        print(f"{len(seen)} answers from {len({one.commit for one in seen})} commits: the model "
              f"{'gives' if same else 'does NOT give'} the scores that it gave")  # fmt: skip
        assert same
        count = len(seen) * 3 // 4
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(args.epochs):
            for one in seen[:count]:
                labels = torch.from_numpy(writer.labels[one.seeds])
                optimizer.zero_grad()
                F.cross_entropy(scores(one), labels).backward()
                optimizer.step()
        right = total = 0
        with torch.no_grad():
            for one in seen[count:]:
                labels = torch.from_numpy(writer.labels[one.seeds])
                right += int((scores(one).argmax(1) == labels).sum())
                total += len(labels)
        print(f"accuracy on later answers {right / total:.3f}")


if __name__ == "__main__":
    main()
