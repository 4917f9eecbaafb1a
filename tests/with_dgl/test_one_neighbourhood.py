"""One seed gives one neighbourhood: numpy's form, PyG's, the blocks and GraphBolt's layers.

Edges are compared in global ids: of every layer, and of the nodes that PyG's form expands in a hop.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import dgl
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.dgl import check_chain
from support.graphbolt import at_once, colon, layer_edges
from support.strategies import edge_lists, examples, hetero_graphs

import aethergraph
from aethergraph import Graph, HeteroGraph
from aethergraph.dgl import GraphStorage, NeighborSampler
from aethergraph.dgl.graphbolt import SamplingGraph
from aethergraph.sampling import mix_key
from aethergraph.sampling.keys import hash_ids

pytest.importorskip("torch_geometric")
from torch_geometric.sampler import NodeSamplerInput

from aethergraph.pyg import GraphStore, HeteroNeighborSampler
from aethergraph.pyg import NeighborSampler as PyGSampler

EDGE = ("_N", "_E", "_N")

#: (source, destination, edge id), sorted: drawn with replacement an edge can be there twice.
Edges = list[tuple[int, int, int]]


def listed(src: Any, dst: Any, edge: Any) -> Edges:
    return sorted(zip(src.tolist(), dst.tolist(), edge.tolist(), strict=True))


def hops(sub: Any, counts: list[int], kind: Any = None) -> list[Edges]:
    """The edges of every hop of a sample in numpy's or PyG's form."""
    src, dst, edge = sub.node, sub.node, sub.edge
    row, col = sub.row, sub.col
    if kind is not None:
        src, dst, edge, row, col = src[kind[0]], dst[kind[2]], edge[kind], row[kind], col[kind]
    ends = np.cumsum([0, *counts]).tolist()
    spans = [slice(start, stop) for start, stop in itertools.pairwise(ends)]
    return [listed(src[row[span]], dst[col[span]], edge[span]) for span in spans]


def of_block(block: Any, kind: Any) -> Edges:
    row, col = block.edges(etype=kind)
    src = block.srcnodes[kind[0]].data[dgl.NID][row]
    return listed(src, block.dstnodes[kind[2]].data[dgl.NID][col], block.edges[kind].data[dgl.EID])


def check_expanded(layer: Edges, hop: Edges) -> None:
    """A layer has the draws of all nodes so far; ``hop`` those of the nodes that are new."""
    drawn: dict[int, Edges] = defaultdict(list)
    for edge in layer:
        drawn[edge[1]].append(edge)
    for node in {edge[1] for edge in hop}:
        assert sorted(set(drawn[node])) == sorted({edge for edge in hop if edge[1] == node})


seeds_of_keys = st.integers(0, 2**63 - 1)
weights_of = st.sampled_from([None, "w"])


@examples(60)
@given(
    edges=edge_lists(), fanouts=st.lists(st.integers(-1, 4), min_size=1, max_size=3),
    seed=seeds_of_keys, of_torch=st.booleans(), replace=st.booleans(), prob=weights_of,
    threads=st.sampled_from([1, 2]), data=st.data(),
)  # fmt: skip
def test_of_one_type(
    edges: Any, fanouts: list[int], seed: int, of_torch: bool, replace: bool, prob: str | None,
    threads: int, data: st.DataObject,
) -> None:  # fmt: skip
    """A seed of torch's generator, where samplers have none of their own, is as good as theirs."""
    torch.manual_seed(seed)
    own: dict[str, Any] = {"seed": None if of_torch else seed, "num_threads": threads}
    num_nodes, src, dst = edges
    weight = (np.arange(len(src)) % 4).astype(np.float32)
    graph = Graph.from_edges(num_nodes, src, dst, edge_attrs={"w": weight})
    node = st.integers(0, max(0, num_nodes - 1))
    chosen = data.draw(st.lists(node, max_size=8 if num_nodes else 0))
    nodes = torch.tensor(chosen, dtype=torch.int64)
    key = mix_key(seed, 0, hash_ids(nodes.numpy()))
    outward: dict[str, Any] = {"replace": replace, "weight_attr": prob}

    core = aethergraph.NeighborSampler(graph, fanouts[::-1], layered=True, **outward)
    sample = core.sample(nodes.numpy(), key)
    layers = hops(sample, sample.num_sampled_edges)[::-1]

    inputs, outputs, blocks = NeighborSampler(fanouts, prob=prob, replace=replace, **own).sample(
        GraphStorage(graph), nodes
    )
    assert outputs is nodes
    check_chain(inputs, blocks)
    assert [of_block(block, EDGE) for block in blocks] == layers
    np.testing.assert_array_equal(inputs, sample.node)

    pipe = at_once(SamplingGraph(graph, **own), fanouts, replace, prob)
    inputs, subgraphs = pipe.sample_subgraphs(nodes, None)
    assert [sorted(layer_edges(layer)) for layer in subgraphs] == layers
    np.testing.assert_array_equal(inputs, sample.node)

    pyg = PyGSampler(GraphStore(graph), fanouts[::-1], **own, **outward)
    out = pyg.sample_from_nodes(NodeSamplerInput(None, nodes))
    for layer, hop in zip(reversed(layers), hops(out, out.num_sampled_edges), strict=True):
        check_expanded(layer, hop)
    _, _, whole = NeighborSampler(
        fanouts, prob=prob, replace=replace, layer_dependency=True, **own
    ).sample(GraphStorage(graph), nodes)
    assert of_block(whole[0], EDGE) == listed(out.node[out.row], out.node[out.col], out.edge)
    for outer, inner in itertools.pairwise(whole):
        assert set(of_block(inner, EDGE)) <= set(of_block(outer, EDGE))


@examples(40)
@given(graph=hetero_graphs(), seed=seeds_of_keys, replace=st.booleans(), data=st.data())
def test_of_many_types(graph: HeteroGraph, seed: int, replace: bool, data: st.DataObject) -> None:
    kinds = graph.edge_types
    if not kinds:
        return
    count = data.draw(st.integers(1, 3))
    fanouts = [{kind: data.draw(st.integers(-1, 4)) for kind in kinds} for _ in range(count)]
    outward = {kind: [fanout[kind] for fanout in reversed(fanouts)] for kind in kinds}
    name = data.draw(st.sampled_from(graph.node_types))
    size = graph[name].num_nodes
    chosen = data.draw(st.lists(st.integers(0, max(0, size - 1)), max_size=5 if size else 0))
    nodes = torch.tensor(chosen, dtype=torch.int64)
    letters = np.frombuffer(name.encode(), np.uint8).astype(np.int64)
    key = mix_key(seed, 0, hash_ids(letters), hash_ids(nodes.numpy()))

    core = aethergraph.HeteroNeighborSampler(graph, outward, layered=True, replace=replace)
    sample = core.sample({name: nodes.numpy()}, key)
    assert sample.num_sampled_edges is not None
    layers = {kind: hops(sample, sample.num_sampled_edges[kind], kind)[::-1] for kind in kinds}

    inputs, _, blocks = NeighborSampler(fanouts, replace=replace, seed=seed).sample(
        GraphStorage(graph), {name: nodes}
    )
    check_chain(inputs, blocks)
    named = [{colon(kind): fanout for kind, fanout in one.items()} for one in fanouts]
    pipe = at_once(SamplingGraph(graph, seed=seed), named, replace)
    sources, subgraphs = pipe.sample_subgraphs({name: nodes}, None)
    for kind in kinds:
        assert [of_block(block, kind) for block in blocks] == layers[kind]
        assert [sorted(layer_edges(one, colon(kind))) for one in subgraphs] == layers[kind]
    for ntype in graph.node_types:
        np.testing.assert_array_equal(inputs[ntype], sample.node[ntype])
        np.testing.assert_array_equal(sources[ntype], sample.node[ntype])

    pyg = HeteroNeighborSampler(graph, outward, seed=seed, replace=replace)
    out = pyg.sample_from_nodes(NodeSamplerInput(None, nodes, input_type=name))
    for kind in kinds:
        own = hops(out, out.num_sampled_edges[kind], kind)
        for layer, hop in zip(reversed(layers[kind]), own, strict=True):
            check_expanded(layer, hop)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("of_nodes", [False, True])
def test_in_time(of_nodes: bool, dtype: Any) -> None:
    """Blocks go by GraphBolt's rule of times (earlier), or by PyG's (not later)."""
    rng = np.random.default_rng(2)
    src, dst = rng.integers(0, 60, (2, 900))
    times = rng.integers(-4, 9, 60 if of_nodes else 900) / (2 if dtype == np.float64 else 1)
    name = "node_time" if of_nodes else "edge_time"
    graph = Graph.from_edges(60, src, dst, **{name: times.astype(dtype)})
    nodes, until = torch.arange(20), torch.from_numpy(rng.integers(-3, 7, 60).astype(dtype))
    storage = GraphStorage(graph)

    def blocks(**options: Any) -> list[Any]:
        sampler = NeighborSampler([3, 4], time_attr=name, seed_time=until, seed=6, **options)
        return list(sampler.sample(storage, nodes)[2])

    option = {f"{name[:4]}_timestamp_attr_name": name}
    pipe = at_once(SamplingGraph(graph, seed=6), [3, 4], **option)
    _, layers = pipe.sample_subgraphs(nodes, until[:20])
    assert [sorted(layer_edges(layer)) for layer in layers] == [
        of_block(block, EDGE) for block in blocks()
    ]
    pyg = PyGSampler(GraphStore(graph), [4, 3], time_attr=name, seed=6)
    out = pyg.sample_from_nodes(NodeSamplerInput(None, nodes, until[:20]))
    whole = blocks(strict=False, layer_dependency=True)[0]
    assert of_block(whole, EDGE) == listed(out.node[out.row], out.node[out.col], out.edge)
