"""Sampling in time by times of nodes and of edges together, and within windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.dgl import NUM_EDGES, NUM_NODES, make_edges, make_graph
from support.graphbolt import at_once, batches, node_items

from aethergraph import Graph, errors
from aethergraph.dgl.graphbolt import SamplingGraph, to_fused_csc

BOTH = {"node_timestamp_attr_name": "t", "edge_timestamp_attr_name": "t"}


def timed(**options: Any) -> tuple[Graph, Any, Any, Any, Any]:
    """A graph whose nodes and edges have times of one name, which no list is sorted by."""
    src, dst = make_edges()
    rng = np.random.default_rng(2)
    of_nodes, of_edges = rng.integers(0, 20, NUM_NODES), rng.integers(0, 20, NUM_EDGES)
    graph = Graph.from_edges(
        NUM_NODES, src, dst, edge_attrs={"t": of_edges}, keep_order=True, **options
    )
    graph.node_attrs["t"] = of_nodes
    return graph, src, dst, of_nodes, of_edges


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("fanout", [-1, 3])
def test_both_times_bound_what_is_drawn(fanout: int, replace: bool) -> None:
    graph, src, dst, of_nodes, of_edges = timed()
    until = np.random.default_rng(5).integers(0, 22, 60)
    layer = SamplingGraph(graph, seed=1).temporal_sample_neighbors(
        torch.arange(60), torch.from_numpy(until), torch.tensor([fanout]), replace, **BOTH
    )
    parts = layer.original_edge_ids.split(layer.sampled_csc.indptr.diff().tolist())
    seen = 0
    for node, part in enumerate(parts):
        allowed = np.flatnonzero(
            (dst == node) & (of_edges < until[node]) & (of_nodes[src] < until[node])
        )
        assert set(part.tolist()) <= set(allowed.tolist())
        if fanout < 0:
            assert len(part) == len(allowed)
        elif replace:
            assert len(part) == (fanout if len(allowed) else 0)
        else:
            assert len(set(part.tolist())) == len(part) == min(fanout, len(allowed))
        seen += len(part)
    assert seen > 60
    assert src[layer.original_edge_ids].tolist() == layer.sampled_csc.indices.tolist()


def test_all_in_time_are_those_of_graphbolt() -> None:
    graph, *_ = timed()
    fused = to_fused_csc(graph, node_attrs=["t"], edge_attrs=["t"])
    nodes, until = torch.arange(60), torch.arange(60) % 22
    ours, theirs = (
        one.temporal_sample_neighbors(nodes, until, torch.tensor([-1]), **BOTH)
        for one in (SamplingGraph(graph), fused)
    )
    assert torch.equal(ours.sampled_csc.indptr, theirs.sampled_csc.indptr)
    assert torch.equal(ours.original_edge_ids, theirs.original_edge_ids)


def test_a_pipe_by_both_times_and_weight() -> None:
    graph, src, _, of_nodes, of_edges = timed()
    weight = (np.arange(NUM_EDGES) % 3 > 0).astype(np.float32)
    graph.edge_attrs["w"] = weight[graph.edge_order]
    until = torch.full((50,), 12)
    sampling = SamplingGraph(graph, seed=4)
    for batch in batches(
        node_items(50, timestamp=until),
        lambda pipe: pipe.temporal_sample_neighbor(sampling, [4, 4], prob_name="w", **BOTH),
    ):
        for layer in batch.sampled_subgraphs:
            edge = layer.original_edge_ids.numpy()
            assert len(edge) and (of_edges[edge] < 12).all() and (of_nodes[src[edge]] < 12).all()
            assert (weight[edge] > 0).all()


def test_times_of_edges_whose_name_is_one_of_nodes_too() -> None:
    graph, _, _, of_nodes, of_edges = timed(edge_time=timed()[4])
    graph.node_attrs["edge_time"] = of_nodes
    bound = torch.full((NUM_NODES,), 9)
    name = {"edge_timestamp_attr_name": "edge_time"}
    everything = SamplingGraph(graph).temporal_sample_neighbors(
        torch.arange(NUM_NODES), bound, torch.tensor([-1]), **name
    )
    wanted = set(np.flatnonzero(of_edges < 9).tolist())
    assert set(everything.original_edge_ids.tolist()) == wanted
    _, (layer,) = at_once(SamplingGraph(graph), [-1], **name).sample_subgraphs(
        torch.arange(NUM_NODES), bound
    )
    assert set(layer.original_edge_ids.tolist()) == wanted


def test_draws_do_not_depend_on_the_order_of_nodes() -> None:
    graph, *_ = timed()
    nodes = torch.arange(30)

    def edges(order: torch.Tensor) -> list[list[int]]:
        layer = SamplingGraph(graph, seed=3).temporal_sample_neighbors(
            order, torch.full((30,), 15), torch.tensor([2]), **BOTH
        )
        parts = layer.original_edge_ids.split(layer.sampled_csc.indptr.diff().tolist())
        return [sorted(parts[at].tolist()) for at in order.argsort().tolist()]

    assert edges(nodes) == edges(nodes.flip(0)) != [[]] * 30


def test_without_a_name_of_times_draws_are_those_without_time() -> None:
    """As in GraphBolt, which then looks at no time."""
    nodes, fanout = torch.arange(30), torch.tensor([3])
    for method in ("sample_neighbors", "sample_layer_neighbors"):
        drawn = []
        for name, given in ((method, ()), (f"temporal_{method}", (torch.zeros(30),))):
            graph = SamplingGraph(make_graph(keep_order=True), seed=4)
            call = getattr(graph, name)
            drawn.append(call(nodes, *given, fanout, replace=True, probs_name="p"))
        first, second = drawn
        assert torch.equal(first.original_edge_ids, second.original_edge_ids)
        assert torch.equal(first.sampled_csc.indices, second.sampled_csc.indices)
        assert torch.equal(first.sampled_csc.indptr, second.sampled_csc.indptr)
        assert len(first.original_edge_ids)


def test_times_that_cannot_be() -> None:
    graph, *_ = timed()
    graph.node_attrs["wide"] = np.zeros((NUM_NODES, 2))
    sampling, nodes = SamplingGraph(graph), torch.arange(4)
    options = {**BOTH, "node_timestamp_attr_name": "wide"}
    with pytest.raises(errors.InvalidArgumentError, match="times 'wide' must be one number each"):
        sampling.temporal_sample_neighbors(nodes, nodes + 9, torch.tensor([1]), **options)
    with pytest.raises(errors.InvalidArgumentError, match="timestamps of 4 nodes"):
        sampling.temporal_sample_neighbors(nodes, nodes[:2], torch.tensor([1]), **BOTH)
