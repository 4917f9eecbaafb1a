"""LABOR, ShaDow, clusters and walks."""

from __future__ import annotations

import pickle
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch
from dgl.dataloading import DataLoader
from support.dgl import (
    FOLLOWS,
    NUM_NODES,
    REV_VOTES,
    VOTES,
    block_edges,
    check_chain,
    make_graph,
    make_typed,
    whole_edges,
)

from aethergraph import Graph, NeighborSampler, errors
from aethergraph.dgl import (
    ClusterGCNSampler,
    GraphStorage,
    LaborSampler,
    SAINTSampler,
    ShaDowKHopSampler,
)
from aethergraph.sampling.keys import hash_ids, mix_key

pytestmark = pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")


# ---- LABOR ---------------------------------------------------------------------------------


def test_labor_blocks() -> None:
    graph = make_graph(keep_order=True)
    storage = GraphStorage(graph)
    src, dst = (end.numpy() for end in storage.edges())
    for seeds in (torch.arange(60), torch.tensor([5, 5, 2]), torch.arange(0)):
        inputs, _, blocks = LaborSampler([3, -1]).sample(storage, seeds)
        check_chain(inputs, blocks)
        for block in blocks:
            assert all((src[e], dst[e]) == (u, v) for u, v, e in block_edges(block))
        degrees = graph.in_degrees(seeds.numpy())
        np.testing.assert_array_equal(blocks[1].in_degrees(), degrees)
    hidden = torch.arange(0, 1500, 2)
    _, _, blocks = LaborSampler([3, 4]).sample(storage, torch.arange(60), hidden)
    assert all((block.edata[dgl.EID] % 2 == 1).all() for block in blocks)


def test_labor_takes_a_source_for_all_or_by_degree() -> None:
    """Each edge with probability fanout / degree, and by one number of its source."""
    graph = make_graph()
    storage, sampler = GraphStorage(graph), LaborSampler([4], seed=1)
    seeds = torch.arange(0, 100)
    degree, (source, target) = graph.in_degrees(), graph.edge_index()
    mine = target < 100
    counts, rounds = np.zeros(graph.num_edges), 400
    for epoch in range(rounds):
        sampler.set_epoch(epoch)
        _, _, (block,) = sampler.sample(storage, seeds)
        ids = block.edata[dgl.EID].numpy()
        counts[ids] += 1
        taken = np.zeros(graph.num_nodes, np.int64)
        np.maximum.at(taken, source[ids], degree[target[ids]])
        # Whoever has a smaller degree takes it as well.
        assert np.isin(np.flatnonzero(mine & (degree[target] <= taken[source])), ids).all()
    chance = np.minimum(1, 4 / degree[target])[mine]
    error = np.sqrt(np.maximum(chance * (1 - chance), 1e-9) / rounds)
    assert (np.abs(counts[mine] / rounds - chance) <= 4.9 * error).all()


def test_labor_samples_fewer_nodes_than_neighbour_sampling() -> None:
    """Far below all nodes, where sources that destinations share make a difference."""
    graph = make_graph()
    storage, rng = GraphStorage(graph), np.random.default_rng(3)
    core = NeighborSampler(graph, [3, 3], layered=True)
    labor, plain = [], []
    for seed in range(20):
        seeds = rng.permutation(NUM_NODES)[:12]
        drawn = LaborSampler([3, 3], seed=seed).sample(storage, torch.from_numpy(seeds))
        labor.append(len(drawn[0]))
        plain.append(len(core.sample(seeds, key=seed).node))
    assert max(plain) < NUM_NODES
    assert sum(labor) < 0.9 * sum(plain)


def test_labor_of_typed_graphs_and_one_number_for_all_layers() -> None:
    storage = GraphStorage(make_typed())
    seeds = {"post": torch.arange(20), "user": torch.arange(5)}
    inputs, _, blocks = LaborSampler([{VOTES: 2, FOLLOWS: 3, REV_VOTES: 0}, 2]).sample(
        storage, seeds
    )
    check_chain(inputs, blocks)
    assert blocks[0].num_edges(REV_VOTES) == 0 < blocks[1].num_edges(REV_VOTES)
    _, _, (deep, near) = LaborSampler([3, 3], layer_dependency=True).sample(storage, seeds)
    for kind in storage.canonical_etypes:
        assert block_edges(near, kind) <= block_edges(deep, kind)
    copy = pickle.loads(pickle.dumps(LaborSampler([3], seed=4)))
    (a,), (b,) = (s.sample(storage, seeds)[2] for s in (copy, LaborSampler([3], seed=4)))
    assert block_edges(a, VOTES) == block_edges(b, VOTES)


# ---- ShaDow --------------------------------------------------------------------------------


def test_shadow_is_the_induced_subgraph_of_a_layered_sample() -> None:
    graph = make_graph(keep_order=True)
    storage, seeds = GraphStorage(graph), torch.tensor([3, 90, 14])
    sampler = ShaDowKHopSampler(
        [3, 2], prefetch_node_feats=["x"], prefetch_edge_feats=["p"], seed=2
    )
    inputs, outputs, sub = sampler.sample(storage, seeds)
    key = mix_key(2, 0, hash_ids(seeds.numpy()))
    expected = NeighborSampler(graph, [2, 3], layered=True).sample(seeds.numpy(), key)
    assert outputs is seeds and torch.equal(sub.ndata[dgl.NID], inputs)
    np.testing.assert_array_equal(inputs, expected.node)
    assert whole_edges(sub) == whole_edges(storage.subgraph(inputs))
    (batch,) = DataLoader(storage, seeds, sampler, batch_size=3, num_workers=1)
    np.testing.assert_array_equal(batch[2].ndata["x"], graph.node_attrs["x"].array[inputs.numpy()])
    assert batch[2].edata["p"].shape == (sub.num_edges(),)
    hidden = sub.edata[dgl.EID][::2]
    _, _, less = sampler.sample(storage, seeds, hidden)
    assert not torch.isin(less.edata[dgl.EID], hidden).any()


def test_shadow_of_typed_graphs() -> None:
    storage = GraphStorage(make_typed())
    seeds = {"user": torch.tensor([3, 1])}
    inputs, _, sub = ShaDowKHopSampler([2, 2], replace=True).sample(storage, seeds)
    assert inputs["user"][:2].tolist() == [3, 1]
    whole = storage.subgraph(inputs)
    for kind in storage.canonical_etypes:
        assert whole_edges(sub, kind) == whole_edges(whole, kind)
    weighted = ShaDowKHopSampler([2], prob="w").sample(storage, {"post": torch.tensor([3])})
    assert len(weighted[0]["user"]) <= 2


# ---- clusters and walks ----------------------------------------------------------------------


def test_clusters_of_ones_own() -> None:
    graph = make_graph(keep_order=True)
    storage = GraphStorage(graph)
    clusters = np.random.default_rng(2).integers(0, 6, NUM_NODES)
    sampler = ClusterGCNSampler(storage, 6, clusters=clusters, prefetch_ndata=["x"])
    seen = []
    for sub in DataLoader(storage, torch.arange(6), sampler, batch_size=2):
        nodes = sub.ndata[dgl.NID]
        assert len(set(clusters[nodes.numpy()].tolist())) == 2
        assert whole_edges(sub) == whole_edges(storage.subgraph(nodes))
        np.testing.assert_array_equal(sub.ndata["x"], graph.node_attrs["x"].array[nodes.numpy()])
        seen += nodes.tolist()
    assert sorted(seen) == list(range(NUM_NODES))
    for bad, text in ((clusters[:9], "one integer per node"), (clusters + 1, "is not below k = 6")):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            ClusterGCNSampler(storage, 6, clusters=bad)


def test_clusters_of_metis(tmp_path: Path) -> None:
    storage, cache = GraphStorage(make_graph()), str(tmp_path / "clusters.pkl")
    for _ in range(2):  # made, then read
        sampler = ClusterGCNSampler(storage, 4, cache_path=cache)
        found = [sub.ndata[dgl.NID] for sub in DataLoader(storage, torch.arange(4), sampler)]
        assert sorted(torch.cat(found).tolist()) == list(range(NUM_NODES))


def test_walks_stay_on_edges() -> None:
    ring = Graph.from_edges(50, np.arange(50), (np.arange(50) + 1) % 50, layout="both")
    storage = GraphStorage(ring)
    torch.manual_seed(1)
    sub = SAINTSampler("walk", (1, 6)).sample(storage, torch.tensor([0]))
    assert sub.num_nodes() == 7 and sub.num_edges() == 6
    for layout, modes in (("csc", {"walk"}), ("csr", {"walk", "node", "edge"})):
        other = GraphStorage(make_graph(layout))
        for mode, budget in (("walk", (1, 6)), ("node", 5), ("edge", 5)):
            if mode in modes:
                with pytest.raises(errors.LayoutError, match="layout='both'"):
                    SAINTSampler(mode, budget).sample(other, None)
            else:
                assert SAINTSampler(mode, budget).sample(other, None).num_nodes() > 0
