"""Loaders over a graph with compressed neighbours give the batches of the plain one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.pyg import NUM_NODES, make_graph
from torch_geometric.loader import NodeLoader

from aethergraph import Graph
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    ShaDowKHopSampler,
)

pytestmark = pytest.mark.pyg


@pytest.fixture(params=["mmap", "memory", "uring"])
def graphs(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Graph, Graph]:
    """The graph, and the same one compressed."""
    graph = make_graph(layout="both")
    graph.save(tmp_path / "g.aeg", compress=True)
    return graph, Graph.load(tmp_path / "g.aeg", storage=request.param)


def stores(graph: Graph) -> tuple[FeatureStore, GraphStore]:
    return FeatureStore.from_graph(graph), GraphStore(graph)


def same(one: Any, other: Any) -> None:
    """Two batches with the same tensors."""
    a, b = one.to_dict(), other.to_dict()
    assert a.keys() == b.keys()
    for name, value in a.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, b[name]), name


LOADERS = {
    "stock nodes": lambda s: NodeLoader(
        s, NeighborSampler(s, [4, 3]), input_nodes=torch.arange(NUM_NODES), batch_size=40
    ),
    "nodes": lambda s: NeighborLoader(s, [4, 3], batch_size=40),
    "links": lambda s: LinkNeighborLoader(s, [4, 3], batch_size=300),
    "all links, with negatives": lambda s: LinkNeighborLoader(
        s, [3], batch_size=300, neg_sampling="binary"
    ),
    "shadow": lambda s: ShaDowKHopSampler(s, depth=2, num_neighbors=3, batch_size=40),
}


@pytest.mark.parametrize("kind", LOADERS)
def test_batches_are_the_same(graphs: tuple[Graph, Graph], kind: str) -> None:
    found = []
    for graph in graphs:
        torch.manual_seed(3)
        found.append(list(LOADERS[kind](stores(graph))))
    assert len(found[0]) == len(found[1]) > 1
    for one, other in zip(*found, strict=True):
        same(one, other)


def test_edge_index_of_the_store(graphs: tuple[Graph, Graph]) -> None:
    attrs = GraphStore(graphs[0]).get_all_edge_attrs()
    for attr in attrs:
        one, other = (GraphStore(graph).get_edge_index(attr) for graph in graphs)
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
