"""Pairs of nodes as seeds in GraphBolt's pipes: negatives, times, edges that are taken out."""

from __future__ import annotations

from typing import Any

import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
from support.dgl import NUM_NODES, REV_VOTES, VOTES, make_edges, make_graph, make_typed
from support.graphbolt import (
    PER_TYPE,
    TYPED,
    batches,
    colon,
    layer_edges,
    timed_graph,
)

from aethergraph import errors
from aethergraph.dgl import GraphStorage
from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph
from aethergraph.dgl.graphbolt.sampler import _order_by_appearance
from aethergraph.dgl.graphbolt.subgraph import SampledSubgraph


@pytest.mark.parametrize(("style", "workers"), [("node_pairs", 0), ("seeds", 2)])
def test_link_prediction(style: str, workers: int) -> None:
    src, dst = (torch.from_numpy(end) for end in make_edges())
    graph = make_graph(keep_order=True)
    sampling = SamplingGraph(graph, seed=4)
    items = gb.ItemSet(torch.stack([src, dst], 1)[:64], names=style)

    def run(workers: int) -> list[Any]:
        def build(pipe: Any) -> Any:
            pipe = pipe.sample_uniform_negative(sampling, 2)
            pipe = pipe.sample_neighbor_at_once(sampling, [3, 3])
            return pipe.fetch_feature(FeatureStore(graph), ["x"])

        return batches(items, build, workers)

    found = run(workers)
    assert len(found) == 4
    for batch in found:
        nodes = batch.sampled_subgraphs[-1].original_column_node_ids
        if style == "seeds":
            assert torch.equal(nodes[batch.compacted_seeds], batch.seeds)
            assert batch.seeds.shape == (48, 2) and batch.labels.sum() == 16
            assert torch.equal(batch.seeds[16:, 0], batch.seeds[:16, 0].repeat_interleave(2))
        else:
            ends = [nodes[ids] for ids in batch.compacted_node_pairs]
            negative = nodes[batch.compacted_negative_dsts]
            assert negative.shape == (16, 2) and len({int(v) for v in negative.view(-1)}) > 8
            pairs = set(zip(src.tolist(), dst.tolist(), strict=True))
            assert set(zip(ends[0].tolist(), ends[1].tolist(), strict=True)) <= pairs
        assert len(batch.node_features["x"]) == len(batch.input_nodes)
    wanted = sorted(layer_edges(batch.sampled_subgraphs[0]) for batch in run(0))
    assert sorted(layer_edges(batch.sampled_subgraphs[0]) for batch in found) == wanted


@pytest.mark.parametrize("style", ["node_pairs", "seeds"])
def test_typed_link_prediction(style: str) -> None:
    graph = make_typed()
    sampling = SamplingGraph(graph, seed=4)
    u, v = GraphStorage(graph).edges(etype=VOTES)
    items = gb.ItemSetDict({colon(VOTES): gb.ItemSet(torch.stack([u, v], 1)[:40], names=style)})
    (batch,) = batches(
        items,
        lambda pipe: pipe.sample_uniform_negative(sampling, 3).sample_neighbor_at_once(
            sampling, [PER_TYPE, PER_TYPE]
        ),
        size=40,
    )
    nodes = batch.sampled_subgraphs[-1].original_column_node_ids
    if style == "seeds":
        local, given = batch.compacted_seeds[colon(VOTES)], batch.seeds[colon(VOTES)]
        assert torch.equal(nodes["user"][local[:, 0]], given[:, 0])
        assert torch.equal(nodes["post"][local[:, 1]], given[:, 1]) and len(given) == 160
    else:
        users, posts = batch.compacted_node_pairs[colon(VOTES)]
        assert torch.equal(nodes["user"][users], u[:40])
        assert torch.equal(nodes["post"][posts], v[:40])
        drawn = nodes["post"][batch.compacted_negative_dsts[colon(VOTES)]]
        assert torch.equal(drawn, batch.negative_dsts[colon(VOTES)])
        assert drawn.shape == (40, 3) and len(drawn.unique()) > 30


def test_seeds_are_numbered_by_first_appearance() -> None:
    pairs = torch.tensor([[7, 3], [3, 9], [7, 1]])
    batch = gb.MiniBatch(seeds=pairs)
    batch._seed_nodes = torch.tensor([1, 9, 3, 7])  # as threads may leave them
    batch.compacted_seeds = torch.tensor([[3, 2], [2, 1], [3, 0]])
    _order_by_appearance(batch)
    assert batch._seed_nodes.tolist() == [7, 3, 9, 1]
    assert batch.compacted_seeds.tolist() == [[0, 1], [1, 2], [0, 3]]
    typed = gb.MiniBatch(node_pairs={colon(VOTES): (torch.tensor([5, 6]), torch.tensor([5, 8]))})
    typed._seed_nodes = {"user": torch.tensor([6, 5]), "post": torch.tensor([8, 2, 5])}
    typed.compacted_node_pairs = {colon(VOTES): (torch.tensor([1, 0]), torch.tensor([2, 0]))}
    typed.compacted_negative_dsts = {colon(VOTES): torch.tensor([[1], [2]])}
    _order_by_appearance(typed)
    assert typed._seed_nodes["user"].tolist() == [5, 6]
    assert typed._seed_nodes["post"].tolist() == [5, 8, 2]
    assert typed.compacted_node_pairs[colon(VOTES)][1].tolist() == [0, 1]
    assert typed.compacted_negative_dsts[colon(VOTES)].tolist() == [[2], [0]]


def test_times_of_pairs_go_with_their_ends() -> None:
    """GraphBolt lays pairs out one after the other and their times end by end."""
    graph, _, dst, times = timed_graph(False)
    pairs = torch.stack([torch.arange(0, 20), torch.arange(20, 40)], 1)
    until = torch.arange(20) % 7 * 3
    sampling = SamplingGraph(graph, seed=4)
    (batch,) = batches(
        gb.ItemSet((pairs, until), names=("seeds", "timestamp")),
        lambda pipe: pipe.sample_uniform_negative(sampling, 1).sample_neighbor_at_once(
            sampling, [-1], edge_timestamp_attr_name="edge_time"
        ),
        size=20,
    )
    (layer,) = batch.sampled_subgraphs
    nodes, drawn = layer.original_column_node_ids, layer.sampled_csc.indptr.diff()
    bounds = torch.cat([until, until])
    for pair, local, bound in zip(batch.seeds, batch.compacted_seeds, bounds, strict=True):
        for node, at in zip(pair.tolist(), local.tolist(), strict=True):
            assert nodes[at] == node
            assert drawn[at] == ((dst == node) & (times < int(bound))).sum()


def test_negatives() -> None:
    sampling = SamplingGraph(make_graph(), seed=1)
    src, dst = torch.arange(100, dtype=torch.int32), torch.zeros(100, dtype=torch.int32)
    none, drawn = sampling.sample_negative_edges_uniform(None, (src, dst), 60)
    assert none is None and drawn.dtype == torch.int32 and drawn.shape == (6000,)
    counts = np.bincount(drawn.numpy(), minlength=NUM_NODES)
    assert len(counts) == NUM_NODES and np.abs(counts - 40).max() < 5 * np.sqrt(40)
    assert torch.equal(sampling.sample_negative_edges_uniform(None, (src, dst), 60)[1], drawn)
    sampling.set_epoch(2)
    assert not torch.equal(sampling.sample_negative_edges_uniform(None, (src, dst), 60)[1], drawn)
    with pytest.raises(errors.InvalidArgumentError, match="negative_ratio = 0"):
        sampling.sample_negative_edges_uniform(None, (src, dst), 0)
    typed = SamplingGraph(make_typed())
    _, posts = typed.sample_negative_edges_uniform(colon(VOTES), (src, dst), 20)
    assert posts.max() == 59
    # An edge type that is predicted need not be one of the graph's: its destinations are.
    _, liked = typed.sample_negative_edges_uniform("user:likes:post", (src, dst), 20)
    assert torch.equal(liked, posts)
    for name, text in (("user:likes:fan", "'fan' is no node type"), ("likes", "is no edge type")):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            typed.sample_negative_edges_uniform(name, (src, dst), 2)


@pytest.mark.parametrize("typed", [False, True])
def test_edges_of_seeds_are_excluded(typed: bool) -> None:
    graph: Any = make_typed() if typed else make_graph(keep_order=True)
    ends = GraphStorage(graph).edges(etype=VOTES) if typed else map(torch.from_numpy, make_edges())
    pairs = torch.stack(list(ends), 1)[:40]
    items: Any = gb.ItemSet(pairs, names="node_pairs")
    name = colon(VOTES) if typed else None
    items = gb.ItemSetDict({name: items}) if typed else items
    reverse = {name: colon(REV_VOTES)} if typed else None
    everything = [PER_TYPE * 0 - 1] * 2 if typed else [-1, -1]
    (batch,) = batches(
        items,
        lambda pipe: pipe.sample_neighbor_at_once(SamplingGraph(graph), everything),
        size=40,
    )
    whole = batch.sampled_subgraphs
    batch = gb.exclude_seed_edges(batch, True, reverse)
    forward = set(map(tuple, pairs.tolist()))
    backward = {(v, u) for u, v in forward}
    gone = {name: forward, colon(REV_VOTES): backward} if typed else {None: forward | backward}
    for before, after in zip(whole, batch.sampled_subgraphs, strict=True):
        for kind in TYPED if typed else [None]:
            hidden = gone.get(kind, set())
            left = [edge for edge in layer_edges(before, kind) if edge[:2] not in hidden]
            assert layer_edges(after, kind) == left
        assert typed or len(layer_edges(after)) < len(layer_edges(before))
    assert len(batch.blocks) == 2


def test_ids_beyond_32_bits_are_told_apart() -> None:
    far = 1 << 32
    layer = SampledSubgraph(
        gb.CSCFormatBase(indptr=torch.tensor([0, 1, 3]), indices=torch.tensor([0, 1, 2])),
        torch.tensor([3, far + 3]),
        torch.tensor([3, far + 3, 5]),
        torch.tensor([7, 8, 9]),
    )
    # The pair of edge 8 in 32 bits each is that of edge 7.
    left = layer.exclude_edges(torch.tensor([[far + 3, far + 3]]))
    assert left.original_edge_ids.tolist() == [7, 9]
    assert left.sampled_csc.indptr.tolist() == [0, 1, 2]
    assert left.sampled_csc.indices.tolist() == [0, 2]
    same = layer.exclude_edges((torch.tensor([5]), torch.tensor([3])))
    assert same.original_edge_ids.tolist() == [7, 8, 9]
    with pytest.raises(errors.InvalidArgumentError, match="edges must be a tensor or a pair"):
        layer.exclude_edges({"a:b:c": torch.tensor([[5, 3]])})
