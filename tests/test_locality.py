"""The pages that batches are said to touch are those that the permuted graph's batches touch."""

from __future__ import annotations

import numpy as np
import pytest

from aethergraph import Graph, NeighborSampler
from aethergraph.errors import InvalidArgumentError, LayoutError
from aethergraph.sampling.locality import BatchPages, measure_locality
from aethergraph.testing.graphs import CommunityGraph


def pages_of(graph: Graph, seeds: np.ndarray, row_bytes: int) -> BatchPages:
    """Count page by page, over whole neighbourhoods."""
    sample = NeighborSampler(graph, [-1, -1]).sample(seeds)
    rows = {
        page
        for node in sample.node.tolist()
        for page in range(node * row_bytes // 4096, ((node + 1) * row_bytes - 1) // 4096 + 1)
    }
    lists = {edge * 4 // 4096 for edge in sample.edge.tolist()}
    return BatchPages(len(sample.node), len(lists), len(rows))


@pytest.mark.any_python
@pytest.mark.parametrize("row_bytes", [7, 512, 5000])
def test_pages_are_those_of_the_permuted_graph(row_bytes: int) -> None:
    made = CommunityGraph(2000, 8000, 40, homophily=0.9)
    graph = Graph.from_edges(2000, *made.edges(), layout="both")
    perm = graph.reorder()
    moved, new = graph.permute(perm), np.argsort(perm)
    found = measure_locality(
        graph, perm, [-1, -1], batch_size=50, batches=2, row_bytes=row_bytes, seed=3
    )
    rng = np.random.default_rng(3)
    shuffled = [rng.choice(2000, 50, replace=False) for _ in range(2)]
    aligned = [np.arange(start, start + 50) for start in rng.integers(0, 1951, 2)]
    for name, one, batches in (
        ("shuffled_before", graph, shuffled),
        ("shuffled_after", moved, [new[seeds] for seeds in shuffled]),
        ("aligned_before", graph, aligned),
        ("aligned_after", moved, aligned),
    ):
        expected = np.mean([pages_of(one, seeds, row_bytes) for seeds in batches], axis=0)
        assert tuple(getattr(found, name)) == pytest.approx(tuple(expected)), name
    assert found.aligned_after.nodes < found.aligned_before.nodes / 2


def test_what_cannot_be_measured() -> None:
    graph = Graph.from_edges(3, [0, 1], [1, 2])
    with pytest.raises(InvalidArgumentError, match="perm has 2 ids"):
        measure_locality(graph, [0, 1])
    with pytest.raises(LayoutError):
        measure_locality(Graph.from_edges(3, [0, 1], [1, 2], layout="csr"), [0, 1, 2])
