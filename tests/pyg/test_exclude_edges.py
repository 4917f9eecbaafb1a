"""exclude_edges of PyG's samplers and loaders: by the edge ids of the data."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from support.foreign_graphs import typed_graph
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NodeLoader

from aethergraph import DynamicGraph, Graph
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.pyg import LinkNeighborLoader, NeighborLoader, NeighborSampler, as_stores

NODES, EDGES = 150, 2000
ENDS = torch.from_numpy(np.random.default_rng(2).integers(0, NODES, (2, EDGES)))
EXCLUDED = torch.arange(0, EDGES, 3)


def forms() -> list[Any]:
    data = Data(edge_index=ENDS, num_nodes=NODES)
    graph = Graph.from_edges(NODES, *ENDS.numpy(), keep_order=True)
    return [data, as_stores(data), graph]


@pytest.mark.parametrize("form", range(3))
def test_ids_are_those_of_the_data(form: int) -> None:
    data = forms()[form]
    loader = NeighborLoader(data, [-1, 5], batch_size=32, exclude_edges=EXCLUDED, seed=1)
    seen = torch.cat([batch.e_id for batch in loader])
    assert len(seen) and not torch.isin(seen, EXCLUDED).any()
    for batch in loader:
        src, dst = (batch.n_id[ends] for ends in batch.edge_index)
        ends = torch.from_numpy(np.stack(data.edge_index())) if form == 2 else ENDS
        assert torch.equal(ends[:, batch.e_id], torch.stack([src, dst]))
    whole = NeighborLoader(data, [-1], batch_size=NODES, exclude_edges=EXCLUDED)
    assert len(next(iter(whole)).e_id) == EDGES - len(EXCLUDED)


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.forks)])
def test_with_links_that_are_left_out_and_in_workers(workers: int) -> None:
    links = ENDS[:, 1:400:3]
    loader = LinkNeighborLoader(
        forms()[0], [-1], edge_label_index=links, batch_size=50, exclude="self",
        exclude_edges=EXCLUDED, num_workers=workers,
    )  # fmt: skip
    pairs = ENDS[0] * NODES + ENDS[1]
    for batch in loader:
        assert not torch.isin(batch.e_id, EXCLUDED).any()
        ends = batch.n_id[batch.edge_label_index]
        assert not torch.isin(pairs[batch.e_id], ends[0] * NODES + ends[1]).any()


def test_typed_data_and_a_copied_sampler() -> None:
    graph = typed_graph()
    data = HeteroData()
    for name in graph.node_types:
        data[name].num_nodes = graph[name].num_nodes
    edges = {}
    for kind in graph.edge_types:
        data[kind].edge_index = torch.from_numpy(np.stack(graph[kind].edge_index())).flip(1)
        edges[kind] = np.arange(0, graph[kind].num_edges, 2)
    sampler = NeighborSampler(data, [-1], exclude_edges=edges)
    for one in (sampler, pickle.loads(pickle.dumps(sampler))):
        loader = NodeLoader(as_stores(data), one, ("post", torch.arange(90)), batch_size=90)
        batch = next(iter(loader))
        kind = ("user", "votes", "post")
        assert (batch[kind].e_id % 2 == 1).all()
        assert len(batch[kind].e_id) == graph[kind].num_edges // 2


@pytest.mark.parametrize(
    ("edges", "error"),
    [(torch.tensor([EDGES]), OutOfRangeError), (torch.tensor([0.5]), InvalidArgumentError),
     ({("a", "b", "c"): [1]}, InvalidArgumentError), ("x", InvalidArgumentError)],
)  # fmt: skip
@pytest.mark.parametrize("form", range(3))
def test_wrong_edges(form: int, edges: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="exclude_edges"):
        NeighborLoader(forms()[form], [2], exclude_edges=edges)


def test_graphs_that_change_are_refused() -> None:
    graph = DynamicGraph(4)
    graph.insert_edges([0], [1])
    with pytest.raises(InvalidArgumentError, match=r"graph\.snapshot\(\)"):
        NeighborLoader(graph, [2], exclude_edges=[0])
