"""Small graphs that tests share."""

from __future__ import annotations

import numpy as np

from aethergraph import Graph


def make_graph(
    num_nodes: int = 200, num_edges: int = 3000, seed: int = 1, **options: object
) -> Graph:
    """A graph with hubs, self-loops, duplicates and isolated nodes."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, num_nodes, num_edges)
    dst = (rng.random(num_edges) ** 3 * num_nodes * 0.9).astype(np.int64)
    return Graph.from_edges(num_nodes, src, dst, **options)  # type: ignore[arg-type]
