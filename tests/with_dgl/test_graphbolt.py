"""GraphBolt's stock stages and loader over our graphs, and all hops in one call."""

from __future__ import annotations

import pickle
from typing import Any

import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
from support.dgl import (
    COUNTS,
    FOLLOWS,
    NUM_EDGES,
    NUM_NODES,
    REV_VOTES,
    VOTES,
    block_edges,
    make_edges,
    make_graph,
    make_typed,
)
from support.graphbolt import (
    PER_TYPE,
    TYPED,
    at_once,
    batches,
    colon,
    layer_edges,
    node_items,
    timed_graph,
)
from torch import Tensor

from aethergraph import Graph, HeteroGraph, errors
from aethergraph.dgl import GraphStorage
from aethergraph.dgl import NeighborSampler as BlockSampler
from aethergraph.dgl.graphbolt import (
    FeatureStore,
    SamplingGraph,
    to_fused_csc,
)

SAMPLERS = ("sample_neighbor", "sample_layer_neighbor", "sample_neighbor_at_once")


def single_edges(graph: SamplingGraph, seeds: Tensor, fanout: int, **options: Any) -> Any:
    found = graph.sample_neighbors(seeds, torch.tensor([fanout]), **options)
    dst = seeds.repeat_interleave(found.sampled_csc.indptr.diff())
    edges = zip(
        found.sampled_csc.indices.tolist(),
        dst.tolist(),
        found.original_edge_ids.tolist(),
        strict=True,
    )
    return list(edges)


@pytest.mark.parametrize("name", SAMPLERS)
def test_node_classification(name: str) -> None:
    graph = make_graph(keep_order=True)
    src, dst = make_edges()
    degree = np.bincount(dst, minlength=NUM_NODES)
    sampling, features = SamplingGraph(graph, seed=3), FeatureStore(graph)

    def build(pipe: Any) -> Any:
        pipe = getattr(pipe, name)(sampling, [5, 3])
        return pipe.fetch_feature(features, ["x", "y"], ["edge_attr"])

    found = batches(node_items(50, labels=torch.arange(50)), build)
    assert sorted(len(batch.labels) for batch in found) == [2, 16, 16, 16]
    edge_rows = features.read("edge", None, "edge_attr")
    for batch in found:
        outer, inner = batch.sampled_subgraphs
        assert torch.equal(inner.original_column_node_ids, batch.labels)
        assert torch.equal(outer.original_column_node_ids, inner.original_row_node_ids)
        assert torch.equal(outer.original_row_node_ids, batch.input_nodes)
        assert len(batch.input_nodes.unique()) == len(batch.input_nodes)
        for layer, fanout in ((outer, 5), (inner, 3)):
            edges = layer_edges(layer)
            assert len({e for _, _, e in edges}) == len(edges)
            assert all((src[e], dst[e]) == (u, v) for u, v, e in edges)
            drawn = layer.sampled_csc.indptr.diff().numpy()
            wanted = np.minimum(degree[layer.original_column_node_ids.numpy()], fanout)
            assert (drawn == wanted).all()
        for key in ("x", "y"):
            rows = torch.tensor(graph.node_attrs[key].array)[batch.input_nodes]
            assert torch.equal(batch.node_features[key], rows)
        for layer, rows in zip(batch.sampled_subgraphs, batch.edge_features, strict=True):
            assert torch.equal(rows["edge_attr"], edge_rows[layer.original_edge_ids])
        assert [block.num_dst_nodes() for block in batch.blocks] == [
            len(layer.original_column_node_ids) for layer in (outer, inner)
        ]


@pytest.mark.parametrize("name", SAMPLERS)
def test_many_types(name: str) -> None:
    graph = make_typed()
    sampling, features = SamplingGraph(graph, seed=3), FeatureStore(graph)
    ends = {colon(kind): GraphStorage(graph).edges(etype=kind) for kind in graph.edge_types}
    degree = {kind: np.bincount(v.numpy(), minlength=60) for kind, (_, v) in ends.items()}
    items = gb.ItemSetDict({"post": node_items(60), "user": node_items(20)})
    fanouts = [PER_TYPE, PER_TYPE]

    def build(pipe: Any) -> Any:
        pipe = getattr(pipe, name)(sampling, fanouts)
        return pipe.fetch_feature(features, {"user": ["x"], "post": ["x", "y"]})

    for batch in batches(items, build):
        for layer in batch.sampled_subgraphs:
            for kind, fanout in TYPED.items():
                edges = layer_edges(layer, kind)
                u, v = ends[kind]
                assert all((u[e], v[e]) == (a, b) for a, b, e in edges)
                target = layer.original_column_node_ids[kind.split(":")[2]].numpy()
                drawn = layer.sampled_csc[kind].indptr.diff().numpy()
                assert (drawn == np.minimum(degree[kind][target], fanout)).all()
        for (ntype, key), rows in batch.node_features.items():
            table = torch.tensor(graph[ntype].attrs[key].array)
            assert torch.equal(rows, table[batch.input_nodes[ntype]])
        if name == "sample_neighbor_at_once":
            assert set(batch.input_nodes) == set(COUNTS)
            block = batch.blocks[0]
            assert set(block.ntypes) == set(COUNTS) and block.num_src_nodes("tag") == 0


def test_seeds_of_one_type_leave_no_type_out() -> None:
    """GraphBolt's own stages drop node types that no edge starts at."""
    graph = make_typed()
    sampling = SamplingGraph(graph, seed=1)
    items = gb.ItemSetDict({"user": node_items(5)})
    (batch,) = batches(
        items,
        lambda pipe: pipe.sample_neighbor_at_once(sampling, [dict(TYPED), 0]).fetch_feature(
            FeatureStore(graph), {"post": ["x"], "user": ["x"]}
        ),
    )
    assert batch.node_features["user", "x"].shape == (len(batch.input_nodes["user"]), 4)
    assert batch.input_nodes["tag"].tolist() == []
    kinds = {colon(kind) for kind in (VOTES, FOLLOWS, REV_VOTES)}
    assert all(set(layer.sampled_csc) == kinds for layer in batch.sampled_subgraphs)


def test_typed_keys_are_those_of_blocks() -> None:
    graph, seeds = make_typed(), {"post": torch.arange(9), "user": torch.arange(4)}
    pipe = at_once(SamplingGraph(graph, seed=8), [TYPED, PER_TYPE])
    _, layers = pipe.sample_subgraphs(seeds, None)
    fanouts = {tuple(kind.split(":")): count for kind, count in TYPED.items()}
    _, _, blocks = BlockSampler([fanouts, fanouts], seed=8).sample(GraphStorage(graph), seeds)
    for layer, block in zip(layers, blocks, strict=True):
        for kind in graph.edge_types:
            assert set(layer_edges(layer, colon(kind))) == block_edges(block, kind)


def test_weights_and_masks() -> None:
    graph = make_graph(keep_order=True)
    features = FeatureStore(graph)
    weight = features.read("edge", None, "p")
    mask = features.read("edge", None, "mask")
    seeds = torch.arange(NUM_NODES)
    sampling = SamplingGraph(graph, seed=2)
    drawn = [e for _, _, e in single_edges(sampling, seeds, 3, probs_name="p")]
    assert (weight[drawn] > 0).all() and len(drawn) > 100
    drawn = [e for _, _, e in single_edges(sampling, seeds, 3, probs_name="mask")]
    assert mask[drawn].all() and len(drawn) > 100
    pipe = at_once(sampling, [3, 3], prob_name="p")
    for layer in pipe.sample_subgraphs(seeds, None)[1]:
        assert (weight[layer.original_edge_ids] > 0).all()
    with pytest.raises(errors.InvalidArgumentError, match="prob = 'q' is no edge attribute"):
        at_once(sampling, [3], prob_name="q")


@pytest.mark.parametrize("of_nodes", [True, False])
@pytest.mark.parametrize("name", ["temporal_sample_neighbor", "sample_neighbor_at_once"])
def test_time(name: str, of_nodes: bool) -> None:
    graph, _, dst, times = timed_graph(of_nodes)
    until = torch.from_numpy(np.random.default_rng(1).integers(0, 20, 50))
    option = {
        ("node" if of_nodes else "edge") + "_timestamp_attr_name": (
            "node_time" if of_nodes else "edge_time"
        )
    }
    sampling = SamplingGraph(graph, seed=4)
    found = batches(
        node_items(50, timestamp=until),
        lambda pipe: getattr(pipe, name)(sampling, [-1, 3], **option),
        size=10,
    )
    seen = 0
    for at, batch in enumerate(found):
        outer, inner = batch.sampled_subgraphs
        seeds = inner.original_column_node_ids
        assert seeds.tolist() == list(range(10 * at, 10 * at + 10))
        bound = until[10 * at : 10 * at + 10].numpy()
        drawn = inner.sampled_csc.indptr.diff().numpy()
        for i, v in enumerate(seeds.tolist()):
            assert drawn[i] == min(3, ((dst == v) & (times < bound[i])).sum())
        edge = inner.original_edge_ids.numpy()
        assert (times[edge] < np.repeat(bound, drawn)).all()
        # A source has the bound of the seed that it belongs to.
        of = np.repeat(np.arange(10), drawn)
        local = np.full(len(inner.original_row_node_ids), -1)
        local[:10] = np.arange(10)
        local[inner.sampled_csc.indices.numpy()] = of
        second = outer.sampled_csc.indptr.diff().numpy()
        for j, v in enumerate(outer.original_column_node_ids.tolist()):
            assert second[j] == ((dst == v) & (times < bound[local[j]])).sum()
        seen += len(edge)
    assert seen > 50


def test_a_type_without_times_sees_what_its_seeds_may() -> None:
    rng = np.random.default_rng(0)
    times = rng.integers(0, 10, 60)
    graph = HeteroGraph.from_edges(
        {REV_VOTES: (rng.integers(0, 60, 400), rng.integers(0, 40, 400))},
        {"user": 40, "post": 60},
        node_time={"post": times},
    )
    seeds = {"user": torch.arange(40)}
    until = {"user": torch.from_numpy(rng.integers(0, 10, 40))}
    found = SamplingGraph(graph).temporal_sample_neighbors(
        seeds, until, torch.tensor([-1]), node_timestamp_attr_name="node_time"
    )
    csc = found.sampled_csc["post:rev_votes:user"]
    everything = SamplingGraph(graph).in_subgraph(seeds).sampled_csc["post:rev_votes:user"]
    for at in range(40):
        own = everything.indices[everything.indptr[at] : everything.indptr[at + 1]].numpy()
        seen = csc.indices[csc.indptr[at] : csc.indptr[at + 1]].tolist()
        assert sorted(seen) == sorted(own[times[own] < int(until["user"][at])].tolist())


def test_layer_neighbours_share_sources() -> None:
    """Every edge has the same chance, and there are fewer sources than with neighbour sampling."""
    src, dst = make_edges()
    graph, seeds = make_graph(keep_order=True), torch.arange(60)
    degree = np.bincount(dst, minlength=NUM_NODES)
    counts, sources = np.zeros(NUM_EDGES), [0, 0]
    rounds = 600
    for seed in range(rounds):
        sampling = SamplingGraph(graph, seed=seed)
        layer = sampling.sample_layer_neighbors(seeds, torch.tensor([4]))
        counts[layer.original_edge_ids.numpy()] += 1
        sources[0] += len(layer.sampled_csc.indices.unique())
        plain = sampling.sample_neighbors(seeds, torch.tensor([4]))
        sources[1] += len(plain.sampled_csc.indices.unique())
    rows = np.flatnonzero(dst < 60)
    chance = np.minimum(1, 4 / degree[dst[rows]])
    error = np.abs(counts[rows] / rounds - chance) / np.sqrt(chance * (1 - chance) / rounds + 1e-9)
    once = np.array([np.sum((src == src[e]) & (dst == dst[e])) == 1 for e in rows])
    assert error[once & (chance < 1)].max() < 5
    assert sources[0] < 0.9 * sources[1]
    replaced, plain = (
        draw(seeds, torch.tensor([4]), True).sampled_csc
        for draw in (sampling.sample_layer_neighbors, sampling.sample_neighbors)
    )
    drawn = np.minimum(degree[:60], 1) * 4
    assert replaced.indptr.diff().tolist() == plain.indptr.diff().tolist() == drawn.tolist()
    assert len(replaced.indices.unique()) < len(plain.indices.unique())


def test_layer_neighbours_by_weight() -> None:
    """A neighbour comes before another as often as in GraphBolt: numbers are over the weights."""
    weight = np.array([1, 2, 0, 5], np.float32)
    attrs = {"w": weight, "n": weight.astype(np.int64), "mask": weight > 1}
    graph = Graph.from_edges(5, [1, 2, 3, 4], [0] * 4, edge_attrs=attrs, keep_order=True)
    theirs = to_fused_csc(graph, edge_attrs=["w"])
    counts = np.zeros((4, 4))
    rounds = 1200
    for seed in range(rounds):
        arguments = torch.tensor([0]), torch.tensor([2]), False
        for at, (whose, name) in enumerate(
            [("ours", "w"), ("ours", "n"), ("theirs", "w"), ("ours", "mask")]
        ):
            own = SamplingGraph(graph, seed=seed) if whose == "ours" else theirs
            layer = own.sample_layer_neighbors(*arguments, name)
            counts[at, layer.original_edge_ids.numpy()] += 1
    assert (counts.sum(1) == 2 * rounds).all() and (counts[:, 2] == 0).all()
    assert (counts[0] == counts[1]).all()
    assert (counts[3] == [0, rounds, 0, rounds]).all()
    spread = np.sqrt(2 * rounds * 0.25)
    assert np.abs(counts[0] - counts[2]).max() < 5 * spread
    every = SamplingGraph(graph).sample_layer_neighbors(
        torch.tensor([0, 1]), torch.tensor([-1]), False, "w"
    )
    assert every.original_edge_ids.tolist() == [0, 1, 3]


def test_layer_neighbours_by_weight_share_sources() -> None:
    graph, seeds = make_graph(keep_order=True), torch.arange(60)
    weight = FeatureStore(graph).read("edge", None, "p")
    sources = [0, 0]
    for seed in range(20):
        sampling = SamplingGraph(graph, seed=seed)
        for at, draw in enumerate((sampling.sample_layer_neighbors, sampling.sample_neighbors)):
            layer = draw(seeds, torch.tensor([4]), False, "p")
            assert (weight[layer.original_edge_ids] > 0).all()
            sources[at] += len(layer.sampled_csc.indices.unique())
    assert sources[0] < 0.9 * sources[1]


def test_what_a_graph_says_of_itself(tmp_path: Any) -> None:
    sampling = SamplingGraph(make_graph())
    assert (sampling.num_nodes, sampling.num_edges) == (NUM_NODES, NUM_EDGES)
    assert sampling.node_type_to_id is None and sampling.edge_type_to_id is None
    assert isinstance(sampling, gb.FusedCSCSamplingGraph.__bases__[0])
    typed = SamplingGraph(make_typed())
    assert typed.num_nodes == COUNTS and typed.num_edges[colon(FOLLOWS)] == 200
    assert typed.node_type_to_id == {"post": 0, "tag": 1, "user": 2}
    assert list(typed.edge_type_to_id) == list(TYPED)
    assert repr(sampling).startswith("SamplingGraph(Graph(num_nodes=150")
    assert sampling.to("cpu") is sampling is sampling.to(torch.device("cpu"))
    assert sampling.node_type_offset is None
    assert typed.node_type_offset is not None
    assert typed.node_type_offset.tolist() == [0, COUNTS["post"], 63, sum(COUNTS.values())]
    with pytest.warns(UserWarning, match="pin_memory_ does nothing here: sampling is on the CPU"):
        assert sampling.pin_memory_() is sampling
    make_graph().save(tmp_path / "g")
    mapped = SamplingGraph(Graph.load(tmp_path / "g"), seed=6)
    assert mapped.copy_to_shared_memory("g") is mapped
    seeds = torch.arange(20)
    expected = single_edges(mapped, seeds, 3)
    for one in (mapped, SamplingGraph(make_graph(), seed=6)):
        assert single_edges(pickle.loads(pickle.dumps(one)), seeds, 3) == expected


@pytest.mark.parametrize(
    ("fanouts", "options", "text"),
    [
        ([], {}, "one entry per layer"),
        ([5, -2], {}, r"fanouts\[1\] = -2"),
        ([torch.tensor([1, 2])], {}, "2 numbers for 1 edge types"),
        ([3], {"node_timestamp_attr_name": "p"}, "no node attribute"),
        ([3], {"edge_timestamp_attr_name": "t"}, "'t' is no"),
    ],
)
def test_options_that_cannot_be(fanouts: Any, options: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        at_once(SamplingGraph(make_graph()), fanouts, **options)


def test_calls_that_cannot_be() -> None:
    sampling, typed = SamplingGraph(make_graph()), SamplingGraph(make_typed())
    users = {"user": torch.arange(3)}
    assert set(typed.sample_neighbors(users, torch.tensor([-1])).sampled_csc) == set(TYPED)
    with pytest.raises(errors.OutOfRangeError, match=r"nodes\[1\] = 150"):
        sampling.sample_neighbors(torch.tensor([3, 150]), torch.tensor([2]))
    timed = SamplingGraph(timed_graph(False)[0])
    for times in (None, torch.arange(2)):
        with pytest.raises(errors.InvalidArgumentError, match="timestamps of 3 nodes"):
            timed.temporal_sample_neighbors(
                torch.arange(3), times, torch.tensor([2]), edge_timestamp_attr_name="edge_time"
            )
    with pytest.raises(errors.InvalidArgumentError, match="needs a timestamp for each seed"):
        at_once(timed, [2], edge_timestamp_attr_name="edge_time").sample_subgraphs(
            torch.arange(3), None
        )
