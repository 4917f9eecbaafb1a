"""Batches have the fields that DGL's have over the same graph in memory: names, types, dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dgl
import dgl.dataloading as stock
import pytest
import torch
from dgl.dataloading import DataLoader
from support.dgl import FOLLOWS, VOTES, make_graph, make_typed
from torch import Tensor

import aethergraph.dgl as ours
from aethergraph.dgl import GraphStorage, to_dgl

REVERSE_TYPES = {"votes": "rev_votes", "rev_votes": "votes"}


def described(part: Any) -> Any:
    """What a batch is made of, without the values."""
    if isinstance(part, Tensor):
        return str(part.dtype), tuple(part.shape[1:])
    if isinstance(part, Mapping):
        return {key: described(value) for key, value in sorted(part.items(), key=repr)}
    if isinstance(part, (list, tuple)):
        return [described(one) for one in part]
    assert isinstance(part, dgl.DGLGraph)
    sides: dict[str, Any] = {"edges": {k: part.edges[k].data for k in part.canonical_etypes}}
    if part.is_block:
        sides["src"] = {name: part.srcnodes[name].data for name in part.srctypes}
        sides["dst"] = {name: part.dstnodes[name].data for name in part.dsttypes}
    else:
        sides["nodes"] = {name: part.nodes[name].data for name in part.ntypes}
    frames = {
        side: {name: described(dict(data)) for name, data in groups.items()}
        for side, groups in sides.items()
    }
    return part.is_block, str(part.idtype), part.canonical_etypes, frames


def loaded(graph: Any, seeds: Any, sampler: Any) -> list[Any]:
    loader = DataLoader(graph, seeds, sampler, batch_size=16)
    return [described(batch) for batch in loader]


FANOUTS = {"votes": 3, "follows": 2, "rev_votes": 4}
NODES: dict[str, Any] = {
    "neighbours": lambda package: package.NeighborSampler([3, 2]),
    "with replacement": lambda package: package.NeighborSampler([3, 2], replace=True),
    "all neighbours": lambda package: package.MultiLayerFullNeighborSampler(2),
    "one layer": lambda package: package.NeighborSampler([-1]),
    "labor": lambda package: package.LaborSampler([3, 2]),
    "shadow": lambda package: package.ShaDowKHopSampler([3, 2]),
}


@pytest.mark.parametrize(
    ("typed", "idtype"), [(False, torch.int32), (True, torch.int64), (True, torch.int32)]
)
@pytest.mark.parametrize("name", list(NODES))
def test_nodes(name: str, typed: bool, idtype: torch.dtype) -> None:
    graph: Any = make_typed() if typed else make_graph(keep_order=True)
    seeds: Any = torch.arange(40, dtype=idtype)
    if typed:
        seeds = {"user": torch.arange(30, dtype=idtype), "post": torch.arange(20, dtype=idtype)}
    storage, memory = GraphStorage(graph, idtype=idtype), to_dgl(graph, idtype=idtype, data=False)
    assert loaded(storage, seeds, NODES[name](ours)) == loaded(memory, seeds, NODES[name](stock))
    if name != "labor":  # DGL's own, over our graph
        assert loaded(storage, seeds, NODES[name](stock)) == loaded(
            memory, seeds, NODES[name](stock)
        )


def test_fanouts_by_edge_type() -> None:
    graph = make_typed()
    seeds = {"user": torch.arange(40)}
    found = loaded(GraphStorage(graph), seeds, ours.NeighborSampler([FANOUTS, FANOUTS]))
    assert found == loaded(
        to_dgl(graph, data=False), seeds, stock.NeighborSampler([FANOUTS, FANOUTS])
    )


@pytest.mark.parametrize("exclude", [None, "self", "reverse_types"])
@pytest.mark.parametrize("typed", [False, True])
def test_links(typed: bool, exclude: str | None) -> None:
    graph: Any = make_typed() if typed else make_graph(keep_order=True)
    seeds: Any = {VOTES: torch.arange(60), FOLLOWS: torch.arange(30)} if typed else torch.arange(60)
    options: dict[str, Any] = {"exclude": exclude}
    if exclude == "reverse_types":
        graph, seeds = make_typed(), {VOTES: torch.arange(60)}
        options["reverse_etypes"] = REVERSE_TYPES
    check_links(GraphStorage(graph), to_dgl(graph, data=False), seeds, options)


def test_links_without_their_reverses() -> None:
    ends = torch.arange(50)  # loops: every edge is its own reverse
    memory = dgl.graph((ends, ends))
    options = {"exclude": "reverse_id", "reverse_eids": torch.arange(50)}
    check_links(GraphStorage(ours.from_dgl(memory)), memory, torch.arange(50), options)


def check_links(storage: GraphStorage, memory: Any, seeds: Any, options: dict[str, Any]) -> None:
    def sampler(package: Any) -> Any:
        negative = stock.negative_sampler.Uniform(2)
        return package.as_edge_prediction_sampler(
            package.NeighborSampler([3, 2]), negative_sampler=negative, **options
        )

    wanted = loaded(memory, seeds, sampler(stock))
    assert loaded(storage, seeds, sampler(ours)) == wanted
    assert loaded(storage, seeds, sampler(stock)) == wanted


@pytest.mark.parametrize("mode", ["node", "edge", "walk"])
def test_subgraphs(mode: str) -> None:
    graph = make_graph("both", keep_order=True)
    budget: Any = (4, 3) if mode == "walk" else 10
    storage, memory = GraphStorage(graph), to_dgl(graph, data=False)
    found = loaded(storage, torch.arange(20), ours.SAINTSampler(mode, budget))
    assert found == loaded(memory, torch.arange(20), stock.SAINTSampler(mode, budget))


def test_what_is_prefetched() -> None:
    """What a sampler names is there; DGL's blocks hold all other data of the graph too."""
    graph, names = make_graph(keep_order=True), {"x", "y", "edge_attr", dgl.NID, dgl.EID}
    storage, memory = GraphStorage(graph), to_dgl(graph)

    def fields(source: Any, package: Any) -> list[Any]:
        sampler = package.NeighborSampler(
            [3, 2], prefetch_node_feats=["x"], prefetch_labels=["y"],
            prefetch_edge_feats=["edge_attr"],
        )  # fmt: skip
        found = []
        for _, _, blocks in DataLoader(source, torch.arange(40), sampler, batch_size=16):
            frames = [blocks[0].srcdata, blocks[-1].dstdata, *(block.edata for block in blocks)]
            kept = [("x", "_ID"), ("y", "_ID"), *[("edge_attr", "_ID")] * 2]
            for frame, own in zip(frames, kept, strict=True):
                found.append({key: described(frame[key]) for key in own})
                assert package is stock or set(frame) <= names
        return found

    assert fields(storage, ours) == fields(memory, stock)
