"""What decides the draws: the seed (of torch, or ``seed=``), the epoch and the batch only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dgl
import dgl.dataloading as stock
import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
from dgl.dataloading import DataLoader
from support.dgl import block_edges, make_graph, whole_edges
from support.graphbolt import at_once, layer_edges

from aethergraph.dgl import (
    GraphStorage,
    LaborSampler,
    NeighborSampler,
    PerSourceUniform,
    ShaDowKHopSampler,
)
from aethergraph.dgl.graphbolt import SamplingGraph

GRAPH = make_graph(keep_order=True)
NODES = torch.arange(40)
PAIRS = torch.stack([NODES, NODES])
FANOUT = torch.tensor([2])


def blocks(sampler: Any, storage: Any) -> Any:
    return [block_edges(block) for block in sampler.sample(storage, NODES)[2]]


def layers(sampling: SamplingGraph) -> Any:
    return [
        layer_edges(layer) for layer in at_once(sampling, [2, 3]).sample_subgraphs(NODES, None)[1]
    ]


def hop(found: Any) -> Any:
    return found.original_edge_ids.tolist()


#: What draws, made anew with a seed or None, and then asked; it may be told the epoch.
Drawer = tuple[Any, Callable[[], Any]]


def of_sampler(make: Any) -> Callable[[int | None], Drawer]:
    def start(seed: int | None) -> Drawer:
        sampler, storage = make(seed), GraphStorage(GRAPH)
        return sampler, lambda: blocks(sampler, storage)

    return start


def of_graph(kind: Any, draw: Any) -> Callable[[int | None], Drawer]:
    def start(seed: int | None) -> Drawer:
        graph = kind(GRAPH, seed=seed)
        return graph, lambda: draw(graph)

    return start


def shadow(seed: int | None) -> Drawer:
    sampler, storage = ShaDowKHopSampler([1, 2], seed=seed), GraphStorage(GRAPH)
    return sampler, lambda: whole_edges(sampler.sample(storage, NODES[:5])[2])


def negatives(seed: int | None) -> Drawer:
    sampler, storage = PerSourceUniform(3, seed=seed), GraphStorage(GRAPH)
    return sampler, lambda: sampler(storage, NODES)[1].tolist()


DRAWERS: dict[str, Callable[[int | None], Drawer]] = {
    "blocks": of_sampler(lambda seed: NeighborSampler([2, 3], seed=seed)),
    "labor": of_sampler(lambda seed: LaborSampler([2, 3], seed=seed)),
    "shadow": shadow,
    "PerSourceUniform": negatives,
    "DGL's sampler": of_graph(GraphStorage, lambda g: blocks(stock.NeighborSampler([2, 3]), g)),
    "global negatives": of_graph(
        GraphStorage, lambda g: g.global_uniform_negative_sampling(50)[1].tolist()
    ),
    "layers at once": of_graph(SamplingGraph, layers),
    "sample_neighbors": of_graph(
        SamplingGraph, lambda g: hop(g.sample_neighbors(NODES, FANOUT))
    ),
    "sample_layer_neighbors": of_graph(
        SamplingGraph, lambda g: hop(g.sample_layer_neighbors(NODES, FANOUT))
    ),
    "sample_negative_edges_uniform": of_graph(
        SamplingGraph,
        lambda g: g.sample_negative_edges_uniform(None, tuple(PAIRS), 3)[1].tolist(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(DRAWERS))
def test_torchs_seed_decides(name: str) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    _, draw = DRAWERS[name](None)
    first = draw()
    assert torch.equal(torch.get_rng_state(), before)  # which is left where it was
    torch.rand(3)
    dgl.seed(9)
    gb.seed(9)
    np.random.seed(9)
    assert first == DRAWERS[name](None)[1]() == DRAWERS[name](1)[1]()
    torch.manual_seed(2)
    assert draw() != first


@pytest.mark.parametrize("name", list(DRAWERS))
def test_an_epoch_draws_anew(name: str) -> None:
    drawer, draw = DRAWERS[name](5)
    torch.manual_seed(2)
    first = draw()
    drawer.set_epoch(1)
    other = draw()
    assert other != first and DRAWERS[name](6)[1]() not in (first, other)
    drawer.set_epoch(0)
    assert draw() == first


def test_layers_over_the_same_nodes_differ() -> None:
    everything = torch.arange(GRAPH.num_nodes)
    storage, sampling = GraphStorage(GRAPH, seed=1), SamplingGraph(GRAPH, seed=1)
    _, _, (first, second) = stock.NeighborSampler([2, 2]).sample(storage, everything)
    assert block_edges(first) != block_edges(second)
    for name in ("sample_neighbors", "sample_layer_neighbors"):
        draw = getattr(sampling, name)
        assert hop(draw(everything, FANOUT)) != hop(draw(everything, FANOUT)), name
    # Other nodes in between: as if for the first time.
    again = hop(SamplingGraph(GRAPH, seed=1).sample_neighbors(everything, FANOUT))
    sampling.sample_neighbors(NODES, FANOUT)
    assert hop(sampling.sample_neighbors(everything, FANOUT)) == again


def test_the_order_of_nodes_does_not_count_hop_by_hop() -> None:
    """GraphBolt's threads decide about it."""
    for name in ("sample_neighbors", "sample_layer_neighbors"):
        one, other = SamplingGraph(GRAPH, seed=1), SamplingGraph(GRAPH, seed=1)
        found = hop(getattr(one, name)(NODES, FANOUT))
        assert sorted(found) == sorted(hop(getattr(other, name)(NODES.flip(0), FANOUT))), name


@pytest.mark.parametrize("workers", [0, 2])
def test_global_negatives_differ_by_batch(workers: int) -> None:
    sampler = stock.as_edge_prediction_sampler(
        NeighborSampler([1]), negative_sampler=stock.negative_sampler.GlobalUniform(1)
    )

    def run() -> list[Any]:
        loader = DataLoader(
            GraphStorage(GRAPH, seed=1), torch.arange(100), sampler, batch_size=20,
            num_workers=workers,
        )  # fmt: skip
        pairs = []
        for _, _, negative, _ in loader:
            names = negative.ndata[dgl.NID]
            pairs.append([names[ends].tolist() for ends in negative.edges()])
        return pairs

    found = run()
    assert len({str(batch) for batch in found}) == len(found) == 5
    assert run() == found
