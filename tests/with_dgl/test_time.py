"""Sampling in time, by brute force: what every destination of every block may see."""

from __future__ import annotations

from typing import Any

import dgl
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import edge_lists, examples

from aethergraph import Graph, HeteroGraph
from aethergraph.dgl import GraphStorage, NeighborSampler
from aethergraph.errors import InvalidArgumentError


@examples(150)
@given(
    edges=edge_lists(), of_nodes=st.booleans(), strict=st.booleans(), latest=st.booleans(),
    window=st.one_of(st.none(), st.integers(0, 4)), fanout=st.sampled_from([-1, 0, 1, 3]),
    dependency=st.booleans(), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_blocks_hold_what_is_in_time(
    edges: Any, of_nodes: bool, strict: bool, latest: bool, window: int | None, fanout: int,
    dependency: bool, seed: int,
) -> None:  # fmt: skip
    num_nodes, src, dst = edges
    if not num_nodes:
        return
    src, dst = np.asarray(src, np.int64), np.asarray(dst, np.int64)
    rng = np.random.default_rng(seed)
    node_time, until = rng.integers(-4, 8, (2, num_nodes))
    times = node_time[src] if of_nodes else rng.integers(-4, 8, len(src))
    name = "node_time" if of_nodes else "edge_time"
    given_times = {name: node_time if of_nodes else times}
    graph = Graph.from_edges(num_nodes, src, dst, keep_order=True, **given_times)
    sampler = NeighborSampler(
        [fanout, fanout], time_attr=name, seed_time=torch.from_numpy(until), strict=strict,
        window=window, temporal_strategy="last" if latest else "uniform",
        layer_dependency=dependency, seed=seed,
    )  # fmt: skip
    seeds = rng.integers(0, num_nodes, 5)
    _, _, blocks = sampler.sample(GraphStorage(graph), torch.from_numpy(seeds))
    trees = np.arange(len(seeds))
    for block in reversed(blocks):
        row, col = (end.numpy() for end in block.edges())
        ids, nodes = block.edata[dgl.EID].numpy(), block.dstdata[dgl.NID].numpy()
        own = np.full(block.num_src_nodes(), -1)
        own[: len(trees)] = trees
        new = own[row] < 0
        own[row[new]] = trees[col[new]]
        assert (own >= 0).all() and (own[row] == trees[col]).all()  # no edge between two trees
        for slot, node in enumerate(nodes.tolist()):
            limit = until[seeds[trees[slot]]]
            seen = (dst == node) & (times < limit if strict else times <= limit)
            if window is not None:
                seen &= times >= limit - window
            found = ids[col == slot]
            count = seen.sum() if fanout < 0 else min(fanout, seen.sum())
            assert len(set(found.tolist())) == len(found) == count
            assert seen[found].all()
            if latest:
                wanted = np.sort(times[seen])[seen.sum() - count :]
                np.testing.assert_array_equal(np.sort(times[found]), wanted)
        trees = own


def test_a_window_by_node_type_and_of_floats() -> None:
    """Times of one type bound what seeds of another see."""
    rng = np.random.default_rng(3)
    ends, times = rng.integers(0, 20, (2, 300)), rng.random(300) * 10
    kind = ("user", "votes", "post")
    graph = HeteroGraph.from_edges(
        {kind: (ends[0], ends[1])}, {"user": 20, "post": 20}, edge_time={kind: times},
        keep_order=True,
    )  # fmt: skip
    until = rng.random(20) * 10
    sampler = NeighborSampler(
        [-1], time_attr="edge_time", seed_time={"post": torch.from_numpy(until)}, window=2.5
    )
    posts = {"post": torch.arange(20)}
    _, _, (block,) = sampler.sample(GraphStorage(graph), posts)
    limit = until[ends[1]]
    seen = np.flatnonzero((times < limit) & (times >= limit - 2.5))
    assert 20 < len(seen) < 200
    assert sorted(block.edges[kind].data[dgl.EID].tolist()) == seen.tolist()


def test_datetimes_of_nodes_are_converted() -> None:
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "M8[D]")
    graph = Graph.from_edges(4, [0, 1, 2], [3, 3, 3], edge_time=days, keep_order=True)
    until = np.full(4, "2020-01-02T00:00", "M8[m]")
    sampler = NeighborSampler([-1], time_attr="edge_time", seed_time=until, strict=False)
    inputs, _, _ = sampler.sample(GraphStorage(graph), torch.tensor([3]))
    assert sorted(inputs.tolist()) == [0, 1, 3]
    masked = np.ma.masked_array(np.zeros(4, np.int64), [0, 0, 1, 0])
    sampler = NeighborSampler([-1], time_attr="edge_time", seed_time=masked)
    with pytest.raises(InvalidArgumentError, match=r"seed_time\[2\] is masked"):
        sampler.sample(GraphStorage(graph), torch.tensor([3]))


def test_seeds_without_times_see_all_and_of_it_the_latest() -> None:
    """So do they beside seeds that have times."""
    kind = ("item", "in", "cart")
    graph = HeteroGraph.from_edges(
        {kind: (np.arange(100), np.zeros(100, np.int64))}, {"item": 100, "cart": 1},
        node_time={"item": np.arange(100)},
    )  # fmt: skip
    sampler = NeighborSampler([2], time_attr="node_time", temporal_strategy="last")
    cart = {"cart": torch.tensor([0])}
    for seeds in (cart, {**cart, "item": torch.arange(2)}):
        inputs, _, (block,) = sampler.sample(GraphStorage(graph), seeds)
        row, _ = block.edges()
        assert sorted(inputs["item"][row].tolist()) == [98, 99]
