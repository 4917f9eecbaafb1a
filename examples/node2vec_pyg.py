"""node2vec: node embeddings from biased random walks, trained by skip-gram with negatives.

The counterpart of torch_geometric.nn.Node2Vec, which needs pyg-lib or torch-cluster to walk (and
pyg-lib walks with p = q = 1 only): here the walks come from aethergraph. The graph has communities
and no features; the embeddings, which see walks only, recover the communities.

    python examples/node2vec_pyg.py [--nodes 20000] [--epochs 3] [--quick]
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import to_undirected

from aethergraph import Graph, RandomWalker

COMMUNITIES = 10
STEPS, WINDOW, WALKS_PER_NODE = 20, 6, 4


def make_graph(num_nodes: int) -> tuple[Graph, Tensor]:
    """An undirected graph, out-edges stored for walks, and the community of each node."""
    rng = np.random.default_rng(0)
    community = np.arange(num_nodes) % COMMUNITIES
    src = rng.integers(0, num_nodes, 5 * num_nodes)
    friend = (src + COMMUNITIES * rng.integers(1, num_nodes // COMMUNITIES, src.size)) % num_nodes
    dst = np.where(rng.random(src.size) < 0.8, friend, rng.integers(0, num_nodes, src.size))
    src, dst = to_undirected(torch.from_numpy(np.stack([src, dst])), num_nodes=num_nodes).numpy()
    graph = Graph.from_edges(num_nodes, src, dst, layout="csr")
    return graph, torch.from_numpy(community)


def windows(walks: Tensor) -> Tensor:
    """Every WINDOW consecutive nodes of every walk: [n, WINDOW], the first is the centre."""
    return walks.unfold(1, WINDOW, 1).reshape(-1, WINDOW)


def skip_gram_loss(embedding: Tensor, pairs: Tensor, unrelated: Tensor) -> Tensor:
    """Neighbours in a window score high with its centre, random nodes score low."""
    centre = embedding[pairs[:, :1]]
    near = (centre * embedding[pairs[:, 1:]]).sum(dim=-1)
    far = (centre * embedding[unrelated]).sum(dim=-1)
    return -F.logsigmoid(near).mean() - F.logsigmoid(-far).mean()


@torch.no_grad()
def share_recovered(embedding: Tensor, community: Tensor) -> float:
    """Share of the odd nodes nearest to the mean of their community's even nodes."""
    unit = F.normalize(embedding, dim=1)
    number = torch.arange(len(community)) // COMMUNITIES
    known, asked = number % 2 == 0, number % 2 == 1
    means = torch.stack([unit[known & (community == c)].mean(dim=0) for c in range(COMMUNITIES)])
    guess = (unit[asked] @ F.normalize(means, dim=1).T).argmax(dim=1)
    return float((guess == community[asked]).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small graph, two epochs")
    args = parser.parse_args()
    num_nodes, epochs = (2_000, 2) if args.quick else (args.nodes, args.epochs)

    torch.manual_seed(1)
    graph, community = make_graph(num_nodes)
    walker = RandomWalker(graph, p=1.0, q=0.5, seed=1)
    embedding = torch.nn.Embedding(num_nodes, 64)
    torch.nn.init.normal_(embedding.weight, std=0.1)
    optimizer = torch.optim.Adam(embedding.parameters(), lr=0.02)
    print(f"before: {share_recovered(embedding.weight, community):.3f} of communities recovered")
    for epoch in range(1, epochs + 1):
        for batch in torch.randperm(num_nodes).split(200):
            starts = batch.repeat(WALKS_PER_NODE)
            pairs = windows(torch.from_numpy(walker.walk(starts.numpy(), STEPS)))
            unrelated = torch.randint(num_nodes, (len(pairs), WINDOW - 1))
            loss = skip_gram_loss(embedding.weight, pairs, unrelated)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = share_recovered(embedding.weight, community)
        print(f"epoch {epoch}: {found:.3f} of communities recovered")


if __name__ == "__main__":
    main()
