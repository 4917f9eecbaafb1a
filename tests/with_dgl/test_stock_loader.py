"""DGL's stock DataLoader and samplers over our graphs."""

from __future__ import annotations

from typing import Any

import dgl
import numpy as np
import pytest
import torch
from dgl.dataloading import DataLoader, negative_sampler
from support.dgl import (
    VOTES,
    block_edges,
    check_chain,
    make_graph,
    make_typed,
    same_blocks,
    whole_edges,
)

from aethergraph.dgl import GraphStorage, NeighborSampler
from aethergraph.errors import OutOfRangeError

pytestmark = pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")


def batches(graph: Any, nodes: Any, sampler: Any, **options: Any) -> list[Any]:
    return list(DataLoader(graph, nodes, sampler, **{"batch_size": 16, **options}))


def in_order(found: Any) -> list[Any]:
    """By the first seed: with several workers, DGL gives each a part and takes turns."""
    return sorted(found, key=lambda batch: int(batch[1][0]))


def prefetching(**options: Any) -> NeighborSampler:
    return NeighborSampler(
        [3, 4], prefetch_node_feats=["x"], prefetch_labels=["y"],
        prefetch_edge_feats=["edge_attr", "p"], seed=2, **options,
    )  # fmt: skip


@pytest.mark.parametrize("keep_order", [False, True])
def test_data_is_fetched(keep_order: bool) -> None:
    graph = make_graph(keep_order=keep_order)
    nodes = torch.arange(0, 140, 3)
    found = batches(GraphStorage(graph), nodes, prefetching(), drop_last=False)
    assert len(found) == 3
    src, dst = graph.edge_index()
    own = np.argsort(graph.edge_order) if keep_order else np.arange(len(src))
    for at, (inputs, outputs, blocks) in enumerate(found):
        assert torch.equal(outputs, nodes[16 * at : 16 * (at + 1)])
        check_chain(inputs, blocks)
        x, y = graph.node_attrs["x"].array, graph.node_attrs["y"].array
        np.testing.assert_array_equal(blocks[0].srcdata["x"], x[inputs.numpy()])
        np.testing.assert_array_equal(blocks[-1].dstdata["y"], y[outputs.numpy()])
        for block in blocks:
            ids = own[block.edata[dgl.EID].numpy()]
            row, col = block.edges()
            np.testing.assert_array_equal(src[ids], block.srcdata[dgl.NID][row])
            np.testing.assert_array_equal(dst[ids], block.dstdata[dgl.NID][col])
            for name in ("edge_attr", "p"):
                np.testing.assert_array_equal(block.edata[name], graph.edge_attrs[name].array[ids])


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 2},
        {"num_workers": 1, "persistent_workers": True},
        {"num_workers": 1, "multiprocessing_context": "spawn"},
        {"use_prefetch_thread": True},
        {"use_prefetch_thread": True, "num_workers": 2},
        {"pin_prefetcher": False},
    ],
)
def test_every_way_of_loading_gives_the_same(options: Any, tmp_path: Any) -> None:
    graph = make_graph(keep_order=True)
    graph.save(tmp_path / "g")
    storage = GraphStorage(type(graph).load(tmp_path / "g"))
    expected = batches(GraphStorage(graph), torch.arange(100), prefetching())
    loader = DataLoader(storage, torch.arange(100), prefetching(), batch_size=16, **options)
    for _ in range(2):  # without shuffle and set_epoch, the next epoch repeats the draws
        for ours, wanted in zip(in_order(loader), expected, strict=True):
            assert torch.equal(ours[0], wanted[0]) and torch.equal(ours[1], wanted[1])
            same_blocks(ours[2], wanted[2])


def test_an_epoch_reaches_workers_that_run_already() -> None:
    sampler = prefetching()
    loader = DataLoader(
        GraphStorage(make_graph()), torch.arange(100), sampler, batch_size=50, num_workers=1,
        persistent_workers=True,
    )  # fmt: skip
    first = [block_edges(blocks[0]) for _, _, blocks in loader]
    sampler.set_epoch(1)
    assert [block_edges(blocks[0]) for _, _, blocks in loader] != first


def test_shuffle_and_drop_last() -> None:
    storage = GraphStorage(make_graph())
    np.random.seed(1)
    found = batches(storage, torch.arange(70), NeighborSampler([2]), shuffle=True, drop_last=True)
    seeds = torch.cat([outputs for _, outputs, _ in found])
    assert len(found) == 4 and len(set(seeds.tolist())) == 64 and seeds.tolist() != sorted(seeds)


def test_typed_graphs() -> None:
    graph = make_typed()
    sampler = NeighborSampler(
        [2, 3], prefetch_node_feats={"user": ["x"], "post": ["x"]}, prefetch_labels={"post": ["y"]},
        prefetch_edge_feats={VOTES: ["w"]},
    )  # fmt: skip
    nodes = {"post": torch.arange(60), "user": torch.arange(10)}
    found = batches(GraphStorage(graph), nodes, sampler)
    assert len(found) == 5
    for inputs, outputs, blocks in found:
        check_chain(inputs, blocks)
        for name in ("user", "post"):
            x = graph[name].attrs["x"].array[inputs[name].numpy()]
            np.testing.assert_array_equal(blocks[0].srcnodes[name].data["x"], x)
        if "post" in outputs:
            y = graph["post"].attrs["y"].array[outputs["post"].numpy()]
            np.testing.assert_array_equal(blocks[-1].dstnodes["post"].data["y"], y)
        order = graph[VOTES].edge_order
        assert order is not None
        own = np.argsort(order)[blocks[0].edges[VOTES].data[dgl.EID].numpy()]
        weights = graph[VOTES].attrs["w"].array[own]
        np.testing.assert_array_equal(blocks[0].edges[VOTES].data["w"], weights)


def test_errors_reach_the_loop() -> None:
    storage = GraphStorage(make_graph())
    with pytest.raises(OutOfRangeError, match=r"nodes\[9\] = 150"):
        batches(storage, torch.arange(141, 155), NeighborSampler([2]))
    sampler = NeighborSampler([2], prefetch_node_feats=["z"])
    with pytest.raises(ValueError, match=r"'z' is no node data of .* there are: 'x', 'y'"):
        batches(storage, torch.arange(20), sampler)
    stock = dgl.dataloading.NeighborSampler([2], prefetch_node_feats="label")  # six names to DGL
    with pytest.raises(ValueError, match=r"'l' is no node data .*: names come in a list"):
        batches(storage, torch.arange(20), stock)


# ---- DGL's own samplers --------------------------------------------------------------------


@pytest.mark.parametrize("fused", [False, True])
def test_stock_neighbor_sampler(fused: bool) -> None:
    graph = make_graph(keep_order=True)
    sampler = dgl.dataloading.NeighborSampler(
        [3, 4], prefetch_node_feats=["x"], prefetch_labels=["y"], fused=fused
    )
    every = batches(GraphStorage(graph, seed=2), torch.arange(100), sampler)
    for inputs, _, blocks in every:
        check_chain(inputs, blocks)
        for block, fanout in zip(blocks, [3, 4], strict=True):
            degrees = graph.in_degrees(block.dstdata[dgl.NID].numpy())
            np.testing.assert_array_equal(block.in_degrees(), np.minimum(degrees, fanout))
        x = graph.node_attrs["x"].array
        np.testing.assert_array_equal(blocks[0].srcdata["x"], x[inputs.numpy()])
    again = batches(GraphStorage(graph, seed=2), torch.arange(100), sampler, num_workers=2)
    for ours, wanted in zip(in_order(again), every, strict=True):
        same_blocks(ours[2], wanted[2])


def test_stock_shadow_and_saint() -> None:
    graph = make_graph("both", keep_order=True)
    storage = GraphStorage(graph)
    shadow = dgl.dataloading.ShaDowKHopSampler([3, 3], prefetch_node_feats=["x"])
    for inputs, outputs, sub in batches(storage, torch.arange(30), shadow):
        assert torch.equal(inputs[: len(outputs)], outputs)
        assert torch.equal(sub.ndata[dgl.NID], inputs)
        x = graph.node_attrs["x"].array
        np.testing.assert_array_equal(sub.ndata["x"], x[inputs.numpy()])
        assert whole_edges(sub) == whole_edges(storage.subgraph(inputs))
    for mode, budget in (("node", 20), ("edge", 20)):
        saint = dgl.dataloading.SAINTSampler(mode, budget, prefetch_ndata=["x"])
        for sub in batches(storage, torch.arange(2), saint, batch_size=1):
            assert 0 < sub.num_nodes() <= 40 and sub.ndata["x"].shape == (sub.num_nodes(), 8)


def test_stock_edge_prediction() -> None:
    graph = make_graph(keep_order=True)
    storage = GraphStorage(graph)
    excluder = dgl.dataloading.SpotTarget(storage, "self", degree_threshold=4)
    for exclude, negatives in (
        ("self", negative_sampler.Uniform(2)),
        (excluder, negative_sampler.GlobalUniform(2)),
        (None, None),
    ):
        sampler = dgl.dataloading.as_edge_prediction_sampler(
            NeighborSampler([-1, 3]), exclude=exclude, negative_sampler=negatives
        )
        for found in batches(storage, torch.arange(0, 200), sampler):
            _, pairs, blocks = found[0], found[1], found[-1]
            ids = pairs.edata[dgl.EID]
            if exclude == "self":
                assert not any(torch.isin(block.edata[dgl.EID], ids).any() for block in blocks)
            src, dst = storage.find_edges(ids)
            row, col = pairs.edges()
            assert torch.equal(pairs.ndata[dgl.NID][row], src)
            assert torch.equal(pairs.ndata[dgl.NID][col], dst)
            assert torch.equal(blocks[-1].dstdata[dgl.NID], pairs.ndata[dgl.NID])
            if negatives is not None:
                assert found[2].num_nodes() == pairs.num_nodes()
                assert found[2].num_edges() <= 2 * len(ids)
