"""Samples of a server as PyG's batches, beside those of our loader."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from aethergraph import Graph, HeteroGraph
from aethergraph.pyg import NeighborLoader, sample_to_data
from aethergraph.remote import FeatureServer, SamplePlan, SampleService, open_sampler


def test_as_a_batch() -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(
        90, *rng.integers(0, 90, (2, 900)), edge_attrs={"edge_attr": rng.random((900, 2))}
    )
    graph.node_attrs["x"] = rng.random((90, 3), dtype=np.float32)
    service = SampleService(graph, SamplePlan([-1, -1], edge_attrs=["edge_attr"]))
    with FeatureServer({}, samples={"g": service}, port=0) as server:
        found = open_sampler(server.address).sample([4, 7], key=5)
    data = sample_to_data(found)
    (batch,) = NeighborLoader(graph, [-1, -1], torch.tensor([4, 7]), batch_size=2)
    for name in ("edge_index", "n_id", "e_id", "x", "edge_attr"):
        assert torch.equal(data[name], batch[name]), name
    assert data.num_sampled_nodes == batch.num_sampled_nodes
    assert data.num_sampled_edges == batch.num_sampled_edges
    assert (data.batch_size, data.key, data.commit) == (2, 5, 0)
    assert data.validate()


def test_of_many_types() -> None:
    rng = np.random.default_rng(0)
    kinds: list[Any] = [("a", "to", "b"), ("b", "to", "a")]
    graph = HeteroGraph.from_edges(
        {kind: tuple(rng.integers(0, 40, (2, 300))) for kind in kinds}, {"a": 40, "b": 40}
    )
    graph["a"].attrs["x"] = torch.rand(40, 2).to(torch.bfloat16)
    graph["b"].attrs["x"] = rng.integers(0, 9, (40, 1)).astype(np.int32)
    service = SampleService(graph, SamplePlan([-1, -1], {"disjoint": True}))
    with FeatureServer({}, samples={"g": service}, port=0) as server:
        data = sample_to_data(open_sampler(server.address).sample({"a": [4, 7]}))
    (batch,) = NeighborLoader(
        graph, [-1, -1], ("a", torch.tensor([4, 7])), batch_size=2, disjoint=True
    )
    assert data["a"].x.dtype == torch.bfloat16 and data["a"].batch_size == 2
    for kind in kinds:
        assert torch.equal(data[kind].edge_index, batch[kind].edge_index)
    for kind in ("a", "b"):
        for name in ("n_id", "batch"):
            assert torch.equal(data[kind][name], batch[kind][name])
        assert torch.equal(data[kind].x, batch[kind].x)
    assert data.validate()
