"""A vector of every node: train on batches, then go through the graph layer by layer.

Makes a labelled graph of people and items, trains a GraphSAGE on batches of neighbours, and writes
the vectors of all nodes to a file that need not fit into memory. A person, named by a key, gets the
items whose vectors are most like theirs. Nodes are then classified by the node whose vector is most
like theirs, among some whose labels are known.

    python examples/node_vectors_pyg.py [--nodes 200000] [--epochs 4] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.nn import GraphSAGE

from aethergraph import FeatureTable, Graph
from aethergraph.ids import IdMap
from aethergraph.inference import VectorIndex
from aethergraph.pyg import NeighborLoader, embed

CLASSES = 6


def make_files(folder: Path, num_nodes: int) -> None:
    """Write a graph with noisy communities: people first, then items, and the keys of both."""
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
    people = num_nodes // 2
    keys = [f"person-{n}" if n < people else f"item-{n - people}" for n in range(num_nodes)]
    IdMap.build(folder / "keys.ids", [keys], "str")


def train(model: torch.nn.Module, graph: Graph, epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    nodes = torch.randperm(graph.num_nodes)[: graph.num_nodes // 4]
    loader = NeighborLoader(graph, [10, 5], nodes, batch_size=512, shuffle=True)
    for _ in range(epochs):
        for batch in loader:
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def recommend(vectors: FeatureTable, ids: IdMap, person: str, count: int = 5) -> list[str]:
    """Return the keys of the items whose vectors are most like that of a person."""
    first = len(vectors) // 2  # behind the people
    items = VectorIndex(vectors.array[first:])
    nearest, _ = items.search(vectors=vectors.gather(ids.lookup([person])), k=count)
    return ids.keys(first + nearest[0])


def unit(rows: np.ndarray) -> torch.Tensor:
    """Return rows of length 1, whose products are cosines."""
    return F.normalize(torch.from_numpy(rows.astype(np.float32)))


def accuracy(vectors: FeatureTable, labels: FeatureTable) -> float:
    """Return how many nodes have the label of the known node whose vector is most like theirs."""
    rng = np.random.default_rng(1)
    known, asked = np.split(rng.permutation(vectors.num_rows)[:3000], [1000])
    table, query = unit(vectors.gather(known)), unit(vectors.gather(asked))
    nearest = (query @ table.T).argmax(1).numpy()
    return float((labels.gather(known[nearest]) == labels.gather(asked)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="a small graph")
    args = parser.parse_args()
    num_nodes = 6_000 if args.quick else args.nodes

    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, num_nodes)
        graph = Graph.load(folder / "graph.aeg")
        graph.load_features(folder / "features.npy")
        labels = graph.load_features(folder / "labels.npy", name="y")

        model = GraphSAGE(graph.features.shape[1], 64, num_layers=2, out_channels=CLASSES)
        train(model, graph, args.epochs)
        vectors = embed(model, graph, folder / "vectors.npy", memory_budget="1G", dtype="float16")
        print(f"{vectors.shape[0]} vectors of {vectors.shape[1]} numbers")
        with IdMap.load(folder / "keys.ids") as ids:
            items = recommend(vectors, ids, "person-17")
            shared = (labels.gather(ids.lookup(items)) == labels.gather([17])).sum()
            print(f"for person-17: {', '.join(items)}; {shared} of {len(items)} of that taste")
        print(f"label of the nearest: {accuracy(vectors, labels):.3f}")


if __name__ == "__main__":
    main()
