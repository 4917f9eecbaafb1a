"""Blocks of our samplers: one key gives the neighbourhoods that numpy and PyG's form have."""

from __future__ import annotations

from typing import Any

import dgl
import numpy as np
import pytest
import torch
from support.dgl import (
    FOLLOWS,
    NUM_EDGES,
    NUM_NODES,
    REV_VOTES,
    VOTES,
    block_edges,
    check_chain,
    make_edges,
    make_graph,
    make_typed,
)

import aethergraph
from aethergraph import Graph, HeteroGraph, errors
from aethergraph.dgl import (
    GraphStorage,
    LaborSampler,
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    ShaDowKHopSampler,
    as_edge_prediction_sampler,
)


def test_every_destination_draws_its_fanout_in_every_block() -> None:
    graph = make_graph()
    _, _, blocks = NeighborSampler([2, 5, 3]).sample(GraphStorage(graph), torch.arange(20))
    for block, fanout in zip(blocks, [2, 5, 3], strict=True):
        degrees = graph.in_degrees(block.dstdata[dgl.NID].numpy())
        np.testing.assert_array_equal(block.in_degrees(), np.minimum(degrees, fanout))
    _, _, full = MultiLayerFullNeighborSampler(2).sample(GraphStorage(graph), torch.arange(20))
    stock = dgl.dataloading.MultiLayerFullNeighborSampler(2)
    src, dst = graph.edge_index()
    theirs = dgl.graph((torch.from_numpy(src), torch.from_numpy(dst)), num_nodes=NUM_NODES)
    for ours, wanted in zip(full, stock.sample(theirs, torch.arange(20))[2], strict=True):
        assert block_edges(ours) == block_edges(wanted)
        assert set(ours.srcdata[dgl.NID].tolist()) == set(wanted.srcdata[dgl.NID].tolist())


def test_fanouts_by_edge_type() -> None:
    graph = make_typed()
    storage = GraphStorage(graph)
    fanouts = [{"votes": 1, "follows": 2, "rev_votes": 0}, {VOTES: 3, FOLLOWS: 0, REV_VOTES: -1}]
    _, _, blocks = NeighborSampler(fanouts).sample(storage, {"post": torch.arange(9)})
    assert blocks[1].num_edges(FOLLOWS) == blocks[1].num_edges(REV_VOTES) == 0  # no user is a seed
    assert int(blocks[1].in_degrees(etype=VOTES).max()) == 3
    assert blocks[0].num_edges(REV_VOTES) == 0 < blocks[0].num_edges(FOLLOWS)
    assert int(blocks[0].in_degrees(etype=VOTES).max()) == 1
    both = {"post": torch.tensor([1]), "user": torch.tensor([4, 2])}
    inputs, outputs, blocks = NeighborSampler([2]).sample(storage, both)
    assert outputs is both and set(inputs) == set(graph.node_types)
    assert blocks[0].num_dst_nodes("user") == 2 and blocks[0].num_dst_nodes("tag") == 0
    for wrong, text in (
        ([{"votes": 1}], "lacks"),
        ([{"votes": 1, "likes": 2}], "'likes' is no edge type"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            NeighborSampler(wrong).sample(storage, both)


@pytest.mark.parametrize("layout", ["csc", "both"])
def test_edges_that_are_excluded_are_not_drawn(layout: Any) -> None:
    graph = make_graph(layout, keep_order=True)
    storage = GraphStorage(graph)
    ids = torch.arange(0, 1500, 2)
    directions = ["in"] if layout == "csc" else ["in", "out"]
    for edge_dir in directions:
        sampler = NeighborSampler([-1, 3], edge_dir=edge_dir)
        _, _, blocks = sampler.sample(storage, torch.arange(30), ids)
        for block in blocks:
            assert block.num_edges() and (block.edata[dgl.EID] % 2 == 1).all()


def test_edge_ids_are_rows_of_the_input_where_the_graph_kept_them() -> None:
    src, dst = make_edges()
    kept, lost = make_graph(keep_order=True), make_graph()
    for graph, option, own in ((kept, None, False), (kept, "graph", True), (lost, None, True)):
        ends = graph.edge_index() if own else (src, dst)
        storage = GraphStorage(graph, edge_ids=option)
        _, _, blocks = NeighborSampler([3, 3]).sample(storage, torch.arange(50))
        for u, v, edge in block_edges(blocks[0]):
            assert (ends[0][edge], ends[1][edge]) == (u, v)
    with pytest.raises(errors.InvalidArgumentError, match="keep_order=True"):
        GraphStorage(lost, edge_ids="input")


def test_out_edges() -> None:
    graph = make_graph("both")
    _, _, blocks = NeighborSampler([4, -1], edge_dir="out").sample(
        GraphStorage(graph), torch.arange(20)
    )
    check_chain(blocks[0].srcdata[dgl.NID], blocks)
    src, dst = graph.edge_index()
    for block in blocks:
        for far, near, edge in block_edges(block):
            assert (src[edge], dst[edge]) == (near, far)
    degrees = graph.out_degrees(np.arange(20))
    np.testing.assert_array_equal(blocks[1].in_degrees(), degrees)


def test_weights_and_masks() -> None:
    graph = make_graph()
    storage = GraphStorage(graph)
    weights, mask = graph.edge_attrs["p"].array, graph.edge_attrs["mask"].array
    for option, values in (
        ({"prob": "p"}, weights),
        ({"mask": "mask"}, mask),
        ({"prob": "mask"}, mask),
    ):
        for replace in (False, True):
            sampler = NeighborSampler([5, -1], replace=replace, **option)
            _, _, blocks = sampler.sample(storage, torch.arange(60))
            for block in blocks:
                assert (values[block.edata[dgl.EID].numpy()] > 0).all()
            positive = np.bincount(graph.edge_index()[1], values > 0, NUM_NODES)
            np.testing.assert_array_equal(blocks[1].in_degrees(), positive[:60])
    for option, text in (
        ({"prob": "q"}, "prob = 'q' is no edge attribute; there are: 'edge_attr', 'mask', 'p'"),
        ({"mask": "p"}, "mask = 'p' .* holds float32: a mask is bool"),
        ({"prob": "edge_attr"}, "one number each"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            NeighborSampler([5], **option).sample(storage, torch.arange(3))
    with pytest.raises(errors.InvalidArgumentError, match="exclude each other"):
        NeighborSampler([5], prob="p", mask="mask")


def test_weights_are_drawn_in_proportion() -> None:
    """One list of two edges of weights 1 and 3, drawn with replacement."""
    graph = Graph.from_edges(3, [1, 2], [0, 0], edge_weight=[1.0, 3.0])
    sampler = NeighborSampler([20_000], prob="edge_weight", replace=True, seed=1)
    _, _, (block,) = sampler.sample(GraphStorage(graph), torch.tensor([0]))
    share = float((block.edata[dgl.EID] == 1).float().mean())
    assert abs(share - 0.75) < 5 * (0.75 * 0.25 / 20_000) ** 0.5


def test_times_of_seeds_that_are_missing() -> None:
    graph, seeds = make_graph(), torch.arange(30)
    graph.edge_attrs["t"] = np.zeros(graph.num_edges)
    for options, text in (
        ({}, "seed_time is needed: the times are those of edges"),
        ({"seed_time": torch.zeros(9)}, "one time per node"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            NeighborSampler([2], time_attr="t", **options).sample(GraphStorage(graph), seeds)


def test_int32_ids() -> None:
    storage = GraphStorage(make_graph(keep_order=True), idtype=torch.int32)
    seeds = torch.tensor([4, 9], dtype=torch.int32)
    inputs, outputs, blocks = NeighborSampler([3, 3], seed=5).sample(storage, seeds)
    assert inputs.dtype == outputs.dtype == blocks[0].idtype == torch.int32
    assert blocks[0].edata[dgl.EID].dtype == blocks[0].srcdata[dgl.NID].dtype == torch.int32
    wide = GraphStorage(make_graph(keep_order=True))
    _, _, same = NeighborSampler([3, 3], seed=5).sample(wide, seeds)
    assert [block_edges(b) for b in blocks] == [block_edges(b) for b in same]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([5], "both"), "edge_dir = 'both'"),
        ((5,), "one number or dict per layer"),
        (([],), "fanouts is empty"),
        (([5, -2],), r"fanouts\[1\] = -2"),
        (([5, 1.5],), r"fanouts\[1\] = 1.5 is no integer"),
        (([5, True],), r"fanouts\[1\] = True is no integer"),
    ],
)
def test_arguments_that_cannot_be(arguments: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        NeighborSampler(*arguments)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"seed_time": [1]}, "need time_attr"),
        ({"window": 3}, "need time_attr"),
        ({"temporal_strategy": "first"}, "temporal_strategy = 'first'"),
        ({"temporal_strategy": "last"}, "needs time_attr"),
        ({"num_threads": 1000}, "num_threads = 1000"),
        ({"seed": "a"}, "seed must be an integer"),
    ],
)
def test_options_that_cannot_be(options: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        NeighborSampler([5], **options)


def test_fanouts_that_are_too_large_or_too_small() -> None:
    storage = GraphStorage(make_graph())
    NeighborSampler([2**63 - 1]).sample(storage, torch.tensor([3]))
    for fanout, text in (
        (2**63, r"the largest fanout is 9223372036854775807; -1 takes all"),
        (-2, r"a fanout is >= 0, or -1 for all neighbours"),
    ):
        with pytest.raises(
            errors.InvalidArgumentError, match=rf"fanouts\[0\] = {fanout}: {text}"
        ) as caught:
            NeighborSampler([fanout])
        assert caught.value.value == fanout


@pytest.mark.parametrize(
    "sampler", [NeighborSampler([-1]), LaborSampler([-1]), ShaDowKHopSampler([-1])]
)
def test_ids_beyond_the_last_edge_leave_nothing_out(sampler: Any) -> None:
    storage, nodes = GraphStorage(make_graph(keep_order=True)), torch.arange(5)
    into = storage.sample_neighbors(nodes, -1).edata[dgl.EID]
    beyond = torch.tensor([NUM_EDGES, 1 << 40])

    def ids(hidden: Any) -> set[int]:
        found = sampler.sample(storage, nodes, hidden)[2]
        return set((found[0] if isinstance(found, list) else found).edata[dgl.EID].tolist())

    assert ids(beyond) == ids(None) >= set(into.tolist())
    assert ids(torch.cat([beyond, into[:3]])) == ids(into[:3]) == ids(None) - set(into[:3].tolist())
    left = storage.sample_neighbors(nodes, -1, exclude_edges=torch.cat([into[:3], beyond]))
    assert set(left.edata[dgl.EID].tolist()) == set(into[3:].tolist())


def test_samplers_have_the_names_that_dgl_gives_them() -> None:
    stock = dgl.dataloading
    assert stock.MultiLayerNeighborSampler is stock.NeighborSampler
    assert aethergraph.dgl.MultiLayerNeighborSampler is NeighborSampler


def test_names_of_data_are_by_type_where_there_are_several() -> None:
    typed, seeds = GraphStorage(make_typed()), {"user": torch.arange(5)}
    links = as_edge_prediction_sampler(NeighborSampler([2]), prefetch_labels=["w"])
    calls: list[tuple[Any, Any, str]] = [
        (NeighborSampler([2], prefetch_node_feats=["x"]), seeds, "prefetch_node_feats.*node type"),
        (NeighborSampler([2], prefetch_labels=["y"]), seeds, "prefetch_labels.*'post'"),
        (LaborSampler([2], prefetch_edge_feats=["w"]), seeds, "prefetch_edge_feats.*edge type"),
        (ShaDowKHopSampler([2], prefetch_node_feats=["x"]), seeds, "prefetch_node_feats"),
        (links, {VOTES: torch.arange(5)}, "prefetch_labels.*edge type"),
    ]
    for sampler, ids, text in calls:
        with pytest.raises(errors.InvalidArgumentError, match=f"{text}.*there are"):
            sampler.sample(typed, ids)


def test_seeds_that_cannot_be() -> None:
    storage, typed = GraphStorage(make_graph(keep_order=True)), GraphStorage(make_typed())
    sampler = NeighborSampler([5])
    with pytest.raises(errors.OutOfRangeError, match=r"nodes\[1\] = 150") as caught:
        sampler.sample(storage, torch.tensor([3, 150]))
    assert (caught.value.position, caught.value.value) == (1, 150)
    with pytest.raises(errors.OutOfRangeError, match=r"nodes\['post'\]\[0\] = -1"):
        sampler.sample(typed, {"post": torch.tensor([-1]), "user": torch.tensor([1])})
    with pytest.raises(errors.OutOfRangeError, match=r"exclude_eids\[2\] = -1 is .*num_edges=1500"):
        sampler.sample(storage, torch.tensor([3]), torch.tensor([1, 9000, -1]))
    for graph, seeds, text in (
        (typed, torch.tensor([1]), "must be a dict by node type"),
        (typed, {"fan": torch.tensor([1])}, "'fan' is no node type"),
        (storage, torch.tensor([1.5]), "must hold integer ids"),
        (storage, torch.tensor([[1]]), "must be one-dimensional"),
        (dgl.rand_graph(5, 5), torch.tensor([1]), r"GraphStorage\(from_dgl\(graph\)\)"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            sampler.sample(graph, seeds)


@pytest.mark.parametrize("typed", [False, True])
def test_seeds_with_times_that_cannot_be(typed: bool) -> None:
    """A seed that is no node is named before its time is looked up."""
    src, dst = np.arange(60), np.arange(60) % 7
    times = np.arange(60)
    ends = {("user", "votes", "post"): (src, dst)}
    graph: Any = (
        HeteroGraph.from_edges(
            ends, {"user": 60, "post": 60}, edge_time={("user", "votes", "post"): times}
        )
        if typed
        else Graph.from_edges(60, src, dst, edge_time=times)
    )
    until = torch.full((60,), 30)
    sampler = NeighborSampler(
        [2], time_attr="edge_time", seed_time={"post": until} if typed else until
    )
    name = r"nodes\['post'\]" if typed else "nodes"
    for value in (60, -1):
        ids = torch.tensor([3, 59, value])
        with pytest.raises(errors.OutOfRangeError, match=rf"{name}\[2\] = {value}") as caught:
            sampler.sample(GraphStorage(graph), {"post": ids} if typed else ids)
        assert (caught.value.position, caught.value.value) == (2, value)
