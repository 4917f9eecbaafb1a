"""Draws under DGL's and GraphBolt's loaders, from epoch to epoch."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import dgl
import dgl.dataloading as stock
import dgl.graphbolt as gb
import numpy as np
import pytest
import torch
from dgl.dataloading import DataLoader
from support.dgl import VOTES, block_edges, make_graph, make_typed, whole_edges
from support.graphbolt import layer_edges, node_items

from aethergraph._torch import iteration
from aethergraph.dgl import (
    GraphStorage,
    LaborSampler,
    NeighborSampler,
    PerSourceUniform,
    ShaDowKHopSampler,
    as_edge_prediction_sampler,
)
from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph

GRAPH = make_graph(keep_order=True)
TYPED = make_typed()
FANOUTS = [3, 2]
NODES = torch.arange(0, 60, 5)
EVERYTHING = torch.arange(GRAPH.num_nodes)
NUMBERS: dict[str, Any] = {"batch_size": 4}

Epochs = list[dict[str, Any]]


# ---- loaders -----------------------------------------------------------------------------------


def nodes_of(make: Any, indices: Any = NODES) -> Callable[..., Any]:
    def start(seed: int | None = None, **options: Any) -> Any:
        return DataLoader(GraphStorage(GRAPH), indices, make(seed), **NUMBERS | options)

    return start


def edges_of(negatives: Any) -> Callable[..., Any]:
    def start(seed: int | None = None, **options: Any) -> Any:
        sampler = as_edge_prediction_sampler(
            NeighborSampler(FANOUTS, seed=seed), negative_sampler=negatives(seed)
        )
        graph = GraphStorage(GRAPH, seed=seed)
        return DataLoader(graph, NODES, sampler, **NUMBERS | options)

    return start


def stock_nodes(seed: int | None = None, indices: Any = NODES, **options: Any) -> Any:
    graph = GraphStorage(GRAPH, seed=seed)
    return DataLoader(graph, indices, stock.NeighborSampler(FANOUTS), **NUMBERS | options)


def typed_nodes(**options: Any) -> Any:
    sampler = NeighborSampler(FANOUTS)
    ids = {"user": torch.arange(20), "post": torch.arange(9)}
    return DataLoader(GraphStorage(TYPED), ids, sampler, **NUMBERS | options)


LOADERS: dict[str, Callable[..., Any]] = {
    "blocks": nodes_of(lambda seed: NeighborSampler(FANOUTS, seed=seed)),
    "labor": nodes_of(lambda seed: LaborSampler(FANOUTS, seed=seed)),
    "shadow": nodes_of(lambda seed: ShaDowKHopSampler(FANOUTS, seed=seed)),
    "negatives": edges_of(lambda seed: PerSourceUniform(2, seed=seed)),
    "DGL's sampler": stock_nodes,
    "many types": typed_nodes,
}


def at_once(pipe: Any, graph: Any) -> Any:
    return pipe.sample_neighbor_at_once(graph, FANOUTS)


def by_hop(pipe: Any, graph: Any) -> Any:
    return pipe.sample_neighbor(graph, FANOUTS)


def by_layer(pipe: Any, graph: Any) -> Any:
    return pipe.sample_layer_neighbor(graph, FANOUTS)


PIPES = [at_once, by_hop, by_layer]


def fetched(
    sample: Any, seed: int | None = None, items: Any = None, shuffle: bool = False, **options: Any
) -> Any:
    """GraphBolt's loader, whose workers sample."""
    items = node_items(40) if items is None else items
    pipe = sample(gb.ItemSampler(items, 4, shuffle=shuffle), SamplingGraph(GRAPH, seed=seed))
    pipe = pipe.fetch_feature(FeatureStore(GRAPH), node_feature_keys=["x"])
    return gb.DataLoader(pipe.copy_to(torch.device("cpu")), **options)


def copied(sample: Any, **options: Any) -> Any:
    """Make a loader whose sampler runs in a thread that GraphBolt starts."""
    pipe = sample(gb.ItemSampler(node_items(40), 4), SamplingGraph(GRAPH))
    pipe = pipe.copy_to(torch.device("cpu"))
    pipe = pipe.fetch_feature(FeatureStore(GRAPH), node_feature_keys=["x"])
    return gb.DataLoader(pipe, **options)


def plain(sample: Any, **options: Any) -> Any:
    """Make a loader without features."""
    pipe = sample(gb.ItemSampler(node_items(40), 4), SamplingGraph(GRAPH))
    return gb.DataLoader(pipe, **options)


def ahead(sample: Any, **options: Any) -> Any:
    """Make a loader that samples in a thread, with no stage after it."""
    pipe = sample(gb.ItemSampler(node_items(40), 4), SamplingGraph(GRAPH))
    return gb.DataLoader(pipe.copy_to(torch.device("cpu")), **options)


# ---- comparing ---------------------------------------------------------------------------------


def drawn(batch: Any) -> tuple[str, Any]:
    """The seeds, and what was sampled for them."""
    if isinstance(batch, gb.MiniBatch):
        layers = [sorted(layer_edges(one)) for one in batch.sampled_subgraphs]
        return str(batch.seed_nodes.tolist()), (layers, str(batch.negative_dsts))
    _, seeds, *graphs = batch
    found: list[Any] = []
    if isinstance(seeds, dgl.DGLGraph):
        negative = graphs[0]
        names = negative.ndata[dgl.NID]
        found.append([names[ends].tolist() for ends in negative.edges()])
        seeds = seeds.edata[dgl.EID]
    blocks = graphs[-1]
    if not isinstance(blocks, list):
        found.append(whole_edges(blocks))
    else:
        kind = VOTES if len(blocks[0].canonical_etypes) > 1 else None
        found += [block_edges(block, kind) for block in blocks]
    return str(seeds), found


def run(loader: Any, num_epochs: int = 3, stop: int | None = None) -> Epochs:
    """Batches by their seeds for each epoch, which is left after ``stop`` batches."""
    torch.manual_seed(12)
    np.random.seed(12)  # by which DGL's loader shuffles
    epochs = []
    for _ in range(num_epochs):
        batches = iter(loader)
        epochs.append(dict(drawn(batch) for batch in islice(batches, stop)))
        del batches
    return epochs


@pytest.fixture(autouse=True)
def end_workers() -> Iterator[None]:
    yield
    gc.collect()


def assert_fresh(epochs: Epochs) -> None:
    """No two epochs draw the same, nor do they for most batches of the same seeds."""
    for number, epoch in enumerate(epochs):
        for other in epochs[:number]:
            shared = epoch.keys() & other.keys()
            same = sum(epoch[name] == other[name] for name in shared)
            assert same <= len(shared) // 3, (same, len(shared))
            assert epoch != other


# ---- DGL's DataLoader ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shuffle", "batch_size", "stop"), [(False, 4, None), (False, 1, 2), (True, 4, None)]
)
@pytest.mark.parametrize("name", list(LOADERS))
def test_epochs_draw_anew_and_follow_the_seed(
    name: str, shuffle: bool, batch_size: int, stop: int | None
) -> None:
    options = {"shuffle": shuffle, "batch_size": batch_size}
    loader = LOADERS[name](**options)
    epochs = run(loader, stop=stop)
    assert_fresh(epochs)
    assert run(LOADERS[name](**options), stop=stop) == epochs
    if not shuffle:  # DGL's loader shuffles on from the order that it has
        assert run(loader, stop=stop) == epochs


@pytest.mark.parametrize("name", list(LOADERS))
def test_draws_are_the_same_for_every_number_of_workers(name: str) -> None:
    wanted = run(LOADERS[name](shuffle=True), 2)
    assert run(LOADERS[name](shuffle=True, num_workers=2), 2) == wanted


@pytest.mark.parametrize(("name", "stop"), [("negatives", None), ("DGL's sampler", 2)])
def test_persistent_workers_draw_anew(name: str, stop: int | None) -> None:
    options: dict[str, Any] = {"num_workers": 2, "persistent_workers": True}
    epochs = run(LOADERS[name](**options), stop=stop)
    assert_fresh(epochs)
    assert run(LOADERS[name](**options), stop=stop) == epochs
    if stop is None:  # workers deal the batches out in another order
        assert epochs[0] == run(LOADERS[name](), 1)[0]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_global_negatives_draw_anew(num_workers: int) -> None:
    def make() -> Any:
        return edges_of(lambda _: stock.negative_sampler.GlobalUniform(2))(num_workers=num_workers)

    loader = make()
    epochs = run(loader)
    assert_fresh(epochs)
    assert run(loader) == epochs == run(make())


def test_saint_draws_anew() -> None:
    def make() -> Any:
        sampler = stock.SAINTSampler("node", 20)
        return DataLoader(GraphStorage(GRAPH), torch.arange(8), sampler, batch_size=1)

    def edges(loader: Any) -> Any:
        torch.manual_seed(12)
        return [[whole_edges(batch) for batch in loader] for _ in range(3)]

    epochs = edges(make())
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert edges(make()) == epochs


@pytest.mark.parametrize("num_workers", [0, 1])
def test_batches_of_all_nodes(num_workers: int) -> None:
    """Calls for the same nodes are counted in a row, but not from one iteration to the next."""

    def make() -> Any:
        options: dict[str, Any] = {"batch_size": len(EVERYTHING), "num_workers": num_workers}
        return stock_nodes(indices=EVERYTHING, **options)

    loader = make()
    epochs = run(loader)
    assert_fresh(epochs)
    assert run(loader) == epochs == run(stock_nodes(indices=EVERYTHING, batch_size=1000))
    assert run(loader, 1) == run(loader, 1) == epochs[:1]


def test_two_iterators_at_once() -> None:
    for make in (LOADERS["blocks"], edges_of(lambda _: stock.negative_sampler.GlobalUniform(2))):
        loader = make()
        torch.manual_seed(12)
        first, second = iter(loader), iter(loader)
        pairs = [(drawn(a), drawn(b)) for a, b in zip(first, second, strict=True)]
        wanted = run(loader, 2)
        assert dict(a for a, _ in pairs) == wanted[0]
        assert dict(b for _, b in pairs) == wanted[1]


def test_outside_of_a_loader_equal_calls_are_equal() -> None:
    storage, sampler = GraphStorage(GRAPH), NeighborSampler(FANOUTS)
    run(DataLoader(storage, NODES, sampler, **NUMBERS), 1)
    first, second = (sampler.sample(storage, NODES)[2] for _ in range(2))
    assert [block_edges(one) for one in first] == [block_edges(one) for one in second]


# ---- GraphBolt's DataLoader ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "make", "stop"),
    [*((sample, fetched, None) for sample in PIPES), *((sample, copied, 2) for sample in PIPES),
     (at_once, plain, None), (by_hop, plain, 2), (at_once, ahead, 2), (by_hop, ahead, None)],
)  # fmt: skip
def test_graphbolt_draws_anew_and_follows_the_seed(
    sample: Any, make: Any, stop: int | None
) -> None:
    loader = make(sample)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*epoch")
        epochs = run(loader, stop=stop)
    assert_fresh(epochs)
    assert run(loader, stop=stop) == epochs == run(make(sample), stop=stop)


@pytest.mark.parametrize(
    ("sample", "make"), [(at_once, fetched), (by_hop, copied), (by_layer, fetched)]
)
def test_graphbolt_with_workers(sample: Any, make: Any) -> None:
    """For a pipe, torch draws a number more where there are workers: the next epoch is another."""
    one, two = (run(make(sample, num_workers=count, persistent_workers=False)) for count in (1, 2))
    assert_fresh(one)
    assert two == one
    assert one[0] == run(make(sample), 1)[0]


@pytest.mark.parametrize(
    ("sample", "make", "stop"), [(at_once, fetched, None), (by_hop, copied, 2)]
)
def test_graphbolt_with_persistent_workers(sample: Any, make: Any, stop: int | None) -> None:
    epochs = run(make(sample, num_workers=2), stop=stop)
    assert_fresh(epochs)
    assert run(make(sample, num_workers=1), stop=stop) == epochs
    assert epochs[0] == run(make(sample), 1, stop)[0]


def test_graphbolt_shuffled() -> None:
    assert_fresh(run(fetched(at_once, items=node_items(4), shuffle=True)))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_graphbolt_links_with_negatives(num_workers: int) -> None:
    def sample(pipe: Any, graph: Any) -> Any:
        return at_once(pipe.sample_uniform_negative(graph, 2), graph)

    def negatives(loader: Any) -> Any:
        torch.manual_seed(12)
        return [[str(batch.negative_node_pairs) for batch in loader] for _ in range(3)]

    def make() -> Any:
        pairs = gb.ItemSet(torch.stack([NODES, NODES + 1], 1), names="node_pairs")
        return fetched(sample, items=pairs, num_workers=num_workers, persistent_workers=False)

    epochs = negatives(make())
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert negatives(make()) == epochs


def test_a_pipe_by_hand_repeats() -> None:
    pipe = at_once(gb.ItemSampler(node_items(40), 4), SamplingGraph(GRAPH))
    assert run(pipe, 1) == run(pipe, 1)
    ahead_of_it = pipe.prefetch(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(ahead_of_it, 1) == run(pipe, 1)


# ---- seeds of one's own ------------------------------------------------------------------------

PINNED: dict[str, tuple[Callable[..., Any], str]] = {
    "blocks": (LOADERS["blocks"], "NeighborSampler"),
    "DGL's sampler": (stock_nodes, "GraphStorage"),
    "GraphBolt": (lambda seed: fetched(by_hop, seed), "SamplingGraph"),
}


@pytest.mark.parametrize("name", list(PINNED))
def test_a_seed_of_ones_own_repeats_and_says_so_once(name: str) -> None:
    make, kind = PINNED[name]
    loader = make(seed=4)
    with pytest.warns(UserWarning, match=rf"seed=4: .* set_epoch\(epoch\) of the {kind} ") as w:
        epochs = run(loader)
    assert len([one for one in w if "seed=4" in str(one.message)]) == 1
    assert epochs[0] == epochs[1] == epochs[2]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_seed_of_ones_own_with_epochs_is_silent(num_workers: int) -> None:
    sampler = NeighborSampler(FANOUTS, seed=4)
    loader = DataLoader(GraphStorage(GRAPH), NODES, sampler, num_workers=num_workers, **NUMBERS)
    epochs = []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="seed=4")
        for epoch in range(3):
            sampler.set_epoch(epoch)
            epochs += run(loader, 1)
    assert_fresh(epochs)


# ---- where nothing tells -------------------------------------------------------------------------


def assert_warns_once(loader: Any) -> None:
    with pytest.warns(UserWarning, match="does not tell .* set_epoch") as w:
        epochs = run(loader)
    assert len([one for one in w if "does not tell" in str(one.message)]) == 1
    assert epochs[0] == epochs[1]


@pytest.mark.parametrize("make", [LOADERS["blocks"], stock_nodes])
def test_a_torch_that_does_not_tell_is_named_once(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iteration, "_CODES", None)
    monkeypatch.setattr(iteration, "_has_warned", False)
    assert_warns_once(make())
    assert_fresh(run(make(num_workers=1)))  # workers are told all the same


def test_a_thread_that_nobody_waits_for_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iteration, "_find_waiting", lambda data: None)
    monkeypatch.setattr(iteration, "_has_warned", False)
    assert_warns_once(ahead(at_once))
