"""Blocks are DGL's: what they hold is what ``dgl.create_block`` makes of the core's sample."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import dgl
import numpy as np
import pytest
import torch
from support.dgl import make_graph, make_typed

import aethergraph
from aethergraph.dgl import GraphStorage, NeighborSampler
from aethergraph.sampling.keys import hash_ids, hash_name, mix_key


def by_type(sample: Any) -> Any:
    """A sample of the core, with the types that DGL gives a graph of one."""
    if isinstance(sample.node, dict):
        return sample
    return SimpleNamespace(
        node={"_N": sample.node},
        num_sampled_nodes={"_N": sample.num_sampled_nodes},
        **{
            name: {("_N", "_E", "_N"): getattr(sample, name)}
            for name in ("row", "col", "edge", "num_sampled_edges")
        },
    )


def hop_parts(sample: Any, kind: Any, hop: int, first: int) -> tuple[Any, Any, Any]:
    """(row, col, edge) of the hops from the first to this one."""
    sizes = [0, *np.cumsum(sample.num_sampled_edges[kind]).tolist()]
    span = slice(sizes[first], sizes[hop + 1])
    return sample.row[kind][span], sample.col[kind][span], sample.edge[kind][span]


def by_edge(block: Any, layout: str, kind: Any) -> tuple[Any, Any, Any]:
    """Where lists begin, and both ends of every edge by its place in the block."""
    indptr, minor, places = (part.numpy() for part in block.adj_tensors(layout, etype=kind))
    if not len(places):
        places = np.arange(len(minor))
    major = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.argsort(places)
    np.testing.assert_array_equal(places[order], np.arange(len(minor)))
    return indptr, major[order], minor[order]


@pytest.mark.parametrize("dependency", [False, True])
@pytest.mark.parametrize("typed", [False, True])
def test_blocks_are_what_create_block_makes(typed: bool, dependency: bool) -> None:
    """Of the core's sample: types, counts, ids, adjacency in every format, also after a pickle."""
    graph: Any = make_typed() if typed else make_graph()
    seeds: Any = torch.arange(9)
    key, layered = mix_key(5, 0, hash_ids(seeds.numpy())), not dependency
    if typed:
        seeds = {"post": torch.arange(9), "user": torch.arange(2)}
        named = [(name, seeds[name]) for name in graph.node_types if name in seeds]
        content = [part for name, ids in named for part in (hash_name(name), hash_ids(ids.numpy()))]
        key = mix_key(5, 0, *content)
        fanouts = {kind: [2, 3] for kind in graph.edge_types}
        core = aethergraph.HeteroNeighborSampler(graph, fanouts, layered=layered)
        sample: Any = core.sample({name: ids.numpy() for name, ids in named}, key)
    else:
        sample = aethergraph.NeighborSampler(graph, [2, 3], layered=layered).sample(
            seeds.numpy(), key
        )
    sample = by_type(sample)
    _, _, blocks = NeighborSampler([3, 2], seed=5, layer_dependency=dependency).sample(
        GraphStorage(graph, edge_ids="graph"), seeds
    )
    ends = {name: np.cumsum(counts).tolist() for name, counts in sample.num_sampled_nodes.items()}
    for hop, block in enumerate(reversed(blocks)):
        first = 0 if dependency else hop
        parts = {kind: hop_parts(sample, kind, hop, first) for kind in sample.row}
        wanted = dgl.create_block(
            {kind: (torch.tensor(row), torch.tensor(col)) for kind, (row, col, _) in parts.items()},
            {name: end[hop + 1] for name, end in ends.items()},
            {name: end[hop] for name, end in ends.items()},
        )
        assert any(wanted.num_edges(kind) for kind in wanted.canonical_etypes)
        for made in (block, pickle.loads(pickle.dumps(block))):
            assert made.is_block and type(made) is type(wanted)
            assert made.srctypes == wanted.srctypes and made.dsttypes == wanted.dsttypes
            assert made.canonical_etypes == wanted.canonical_etypes
            metagraphs = (str(g.metagraph().edges(keys=True)) for g in (made, wanted))
            assert len(set(metagraphs)) == 1
            for name, end in ends.items():
                node = sample.node[name]
                assert made.num_src_nodes(name) == end[hop + 1]
                assert made.num_dst_nodes(name) == end[hop]
                np.testing.assert_array_equal(
                    made.srcnodes[name].data[dgl.NID], node[: end[hop + 1]]
                )
                np.testing.assert_array_equal(made.dstnodes[name].data[dgl.NID], node[: end[hop]])
            for kind, (row, col, edge) in parts.items():
                for found, ids in zip(made.adj_tensors("coo", etype=kind), (row, col), strict=True):
                    np.testing.assert_array_equal(found, ids)
                for layout in ("csr", "csc"):
                    pairs = zip(*(by_edge(g, layout, kind) for g in (made, wanted)), strict=True)
                    for found, ids in pairs:
                        np.testing.assert_array_equal(found, ids)
                np.testing.assert_array_equal(made.edges[kind].data[dgl.EID], edge)
                ones = torch.ones(made.num_src_nodes(kind[0]), 1)
                sums = dgl.ops.copy_u_sum(made[kind], ones)
                assert torch.equal(sums[:, 0].long(), wanted.in_degrees(etype=kind))


def test_options_may_be_changed_between_batches() -> None:
    storage, sampler = GraphStorage(make_graph()), NeighborSampler([4, 4])
    for fanouts in ([4, 4], [1, 1], [0, 2]):
        sampler.fanouts = fanouts
        _, _, blocks = sampler.sample(storage, torch.arange(20))
        assert [int(block.in_degrees().max()) for block in blocks] == fanouts


@pytest.mark.parametrize("layer_dependency", [False, True])
def test_blocks_share_nothing_that_can_be_changed(layer_dependency: bool) -> None:
    storage = GraphStorage(make_typed())
    sampler = NeighborSampler([2, 2], seed=1, layer_dependency=layer_dependency)
    seeds = {"post": torch.arange(9)}

    def state(blocks: Any) -> Any:
        return [
            ([*b.ntypes], [*b.etypes], [*b.canonical_etypes])
            + tuple(b.srcnodes[n].data[dgl.NID].tolist() for n in b.srctypes)
            + tuple(b.dstnodes[n].data[dgl.NID].tolist() for n in b.dsttypes)
            + tuple(b.edges[k].data[dgl.EID].tolist() for k in b.canonical_etypes)
            for b in blocks
        ]

    _, _, blocks = sampler.sample(storage, seeds)
    before = state(blocks)
    first = blocks[0]
    first.etypes.append("x")
    first.ntypes.append("y")
    first.canonical_etypes.clear()
    for frame in (*first._node_frames, *first._edge_frames):
        for name in frame:
            frame[name].data.fill_(-1)
    assert state(blocks[1:]) == before[1:]
    assert state(sampler.sample(storage, seeds)[2]) == before


def test_a_block_is_pickled_without_the_others() -> None:
    storage, seeds = GraphStorage(make_graph()), torch.arange(2)
    _, _, blocks = NeighborSampler([-1, -1, 1]).sample(storage, seeds)
    small, large = (len(pickle.dumps(block)) for block in (blocks[-1], blocks[0]))
    assert small < large / 4
    ids = blocks[-1].srcdata[dgl.NID]
    assert ids.untyped_storage().nbytes() == 8 * len(ids)
