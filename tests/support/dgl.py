"""What the tests of the DGL adapter share. Imported by spawned workers too, so it stays light."""

from __future__ import annotations

import itertools
from typing import Any

import dgl
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aethergraph import Graph, HeteroGraph

NUM_NODES, NUM_EDGES = 150, 1500
VOTES, FOLLOWS = ("user", "votes", "post"), ("user", "follows", "user")
REV_VOTES = ("post", "rev_votes", "user")
COUNTS = {"user": 40, "post": 60, "tag": 3}

Edges = set[tuple[int, int, int]]


def make_edges(seed: int = 3) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Edges with hubs, self-loops, duplicates and isolated nodes."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, NUM_NODES, NUM_EDGES)
    dst = (rng.random(NUM_EDGES) ** 2 * NUM_NODES * 0.9).astype(np.int64)
    return src, dst


def make_graph(layout: Any = "csc", **options: Any) -> Graph:
    """A graph with node and edge attributes of several dtypes."""
    src, dst = make_edges()
    rng = np.random.default_rng(4)
    attrs = {
        "edge_attr": rng.random((NUM_EDGES, 3), dtype=np.float32),
        "p": (rng.random(NUM_EDGES) * (rng.random(NUM_EDGES) < 0.7)).astype(np.float32),
        "mask": rng.random(NUM_EDGES) < 0.6,
    }
    graph = Graph.from_edges(NUM_NODES, src, dst, edge_attrs=attrs, layout=layout, **options)
    graph.features = rng.random((NUM_NODES, 8), dtype=np.float32)
    graph.node_attrs["y"] = rng.integers(0, 5, NUM_NODES)
    return graph


def make_typed(keep_order: bool = True, **options: Any) -> HeteroGraph:
    """Users, posts and a node type without edges; reverses have the ids of what they reverse."""
    rng = np.random.default_rng(6)
    users, posts = rng.integers(0, 40, 500), rng.integers(0, 60, 500)
    edges: dict[Any, Any] = {
        VOTES: (users, posts),
        FOLLOWS: rng.integers(0, 40, (2, 200)),
        REV_VOTES: (posts, users),
    }
    graph = HeteroGraph.from_edges(edges, COUNTS, keep_order=keep_order, **options)
    graph["user"].features = rng.random((40, 4), np.float32)
    graph["post"].features = rng.random((60, 6), np.float32)
    graph["post"].attrs["y"] = rng.integers(0, 3, 60)
    graph[VOTES].attrs["w"] = rng.random(500).astype(np.float32)
    return graph


def block_edges(block: Any, kind: Any = None) -> Edges:
    """(source, destination, edge id) of a block, in global ids."""
    kind = block.canonical_etypes[0] if kind is None else kind
    row, col = block.edges(etype=kind)
    src = block.srcnodes[kind[0]].data[dgl.NID][row.long()]
    dst = block.dstnodes[kind[2]].data[dgl.NID][col.long()]
    ids = block.edges[kind].data[dgl.EID]
    return set(zip(src.tolist(), dst.tolist(), ids.tolist(), strict=True))


def whole_edges(graph: Any, kind: Any = None) -> Edges:
    """The same of a graph over all nodes, or of an induced one with ``dgl.NID``."""
    kind = graph.canonical_etypes[0] if kind is None else kind
    src, dst = graph.edges(etype=kind)
    if dgl.NID in graph.nodes[kind[0]].data:
        src = graph.nodes[kind[0]].data[dgl.NID][src.long()]
        dst = graph.nodes[kind[2]].data[dgl.NID][dst.long()]
    ids = graph.edges[kind].data[dgl.EID]
    return set(zip(src.tolist(), dst.tolist(), ids.tolist(), strict=True))


def check_block(block: Any) -> None:
    """What holds for every block: destinations first, ids there, edges of the right nodes."""
    for name in block.ntypes:
        src, dst = block.srcnodes[name].data[dgl.NID], block.dstnodes[name].data[dgl.NID]
        assert torch.equal(src[: len(dst)], dst)
        assert len(src) == block.num_src_nodes(name) and len(dst) == block.num_dst_nodes(name)
    for kind in block.canonical_etypes:
        assert len(block.edges[kind].data[dgl.EID]) == block.num_edges(kind)


def check_chain(input_nodes: Any, blocks: list[Any]) -> None:
    """Sources of a block are the destinations of the one before."""
    for earlier, later in itertools.pairwise(blocks):
        for name in later.ntypes:
            src, dst = later.srcnodes[name].data[dgl.NID], earlier.dstnodes[name].data[dgl.NID]
            assert torch.equal(src, dst)
    for block in blocks:
        check_block(block)
    for name in blocks[0].ntypes:
        own = input_nodes[name] if isinstance(input_nodes, dict) else input_nodes
        assert torch.equal(blocks[0].srcnodes[name].data[dgl.NID], own)


def same_blocks(a: list[Any], b: list[Any]) -> None:
    """Two lists of blocks are equal, tensor by tensor, fetched data included."""
    assert len(a) == len(b)
    for one, other in zip(a, b, strict=True):
        assert one.canonical_etypes == other.canonical_etypes
        for kind in one.canonical_etypes:
            for x, y in zip(one.edges(etype=kind), other.edges(etype=kind), strict=True):
                assert torch.equal(x, y)
            same_frames(one.edges[kind].data, other.edges[kind].data)
        for name in one.ntypes:
            same_frames(one.srcnodes[name].data, other.srcnodes[name].data)
            same_frames(one.dstnodes[name].data, other.dstnodes[name].data)


def same_frames(a: Any, b: Any) -> None:
    assert set(a) == set(b)
    for key in a:
        assert isinstance(a[key], Tensor) and torch.equal(a[key], b[key]), key
