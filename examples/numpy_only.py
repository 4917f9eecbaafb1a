"""AetherGraph without a deep-learning framework: features averaged over sampled neighbourhoods.

Makes a graph whose nodes have noisy features of their community, writes it to files, and shows
that averaging over two hops of sampled neighbours recovers the community far better than a node's
own features do. Needs numpy only.

    python examples/numpy_only.py [--nodes 100000] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aethergraph import FeatureTable, Graph, NeighborSampler
from aethergraph.sampling.subgraph import Subgraph

COMMUNITIES = 8


def make_files(folder: Path, num_nodes: int, degree: int) -> NDArray[np.int64]:
    """Write graph.aeg and features.npy; return the community of each node."""
    rng = np.random.default_rng(0)
    community = np.arange(num_nodes) % COMMUNITIES
    num_edges = num_nodes * degree
    dst = rng.integers(0, num_nodes, num_edges)
    # Four edges in five come from the same community: a node whose number differs by a multiple.
    step = COMMUNITIES * rng.integers(1, num_nodes // COMMUNITIES, num_edges)
    friend = (dst + step) % (num_nodes // COMMUNITIES * COMMUNITIES)
    src = np.where(rng.random(num_edges) < 0.8, friend, rng.integers(0, num_nodes, num_edges))
    Graph.from_edges(num_nodes, src, dst).save(folder / "graph.aeg")
    features = rng.normal(scale=2.0, size=(num_nodes, COMMUNITIES)).astype(np.float32)
    features[np.arange(num_nodes), community] += 1.0
    np.save(folder / "features.npy", features)
    return community


def mean_of_neighbors(x: NDArray[np.float32], sub: Subgraph) -> NDArray[np.float32]:
    """Mean over each node and the sources of its sampled edges."""
    total = x.copy()
    np.add.at(total, sub.col, x[sub.row])
    count = 1 + np.bincount(sub.col, minlength=sub.num_nodes)
    return total / count[:, None].astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="a small graph")
    args = parser.parse_args()
    num_nodes = 4_000 if args.quick else args.nodes

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        community = make_files(folder, num_nodes, degree=12)
        graph = Graph.load(folder / "graph.aeg")
        features = FeatureTable.load(folder / "features.npy")
        sampler = NeighborSampler(graph, [10, 10])

        seeds = np.arange(min(num_nodes, 10_000))
        alone = averaged = 0
        start = time.perf_counter()
        for first in range(0, len(seeds), 512):
            batch = seeds[first : first + 512]
            sub = sampler.sample(batch, key=first)
            x = features.gather(sub.node)
            smooth = mean_of_neighbors(mean_of_neighbors(x, sub), sub)
            truth = community[batch]
            alone += int((x[: len(batch)].argmax(1) == truth).sum())
            averaged += int((smooth[: len(batch)].argmax(1) == truth).sum())
        seconds = time.perf_counter() - start

    print(f"{graph!r}")
    print(f"own features:         {alone / len(seeds):.1%} of communities right")
    print(f"two hops, averaged:   {averaged / len(seeds):.1%}")
    print(f"{len(seeds) / seconds:,.0f} seeds per second, sampling and arithmetic together")


if __name__ == "__main__":
    main()
