"""Draws of PyG's stock loaders over our samplers, from epoch to epoch."""

from __future__ import annotations

import multiprocessing
import runpy
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import make_stores
from torch.utils.data import BatchSampler, RandomSampler
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.sampler import NodeSamplerInput

from aethergraph import HeteroGraph
from aethergraph._torch import iteration
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading import Order
from aethergraph.pyg import (
    FeatureStore,
    GraphStore,
    HeteroNeighborSampler,
    HGTSampler,
    LinkNeighborLoader,
    LookAhead,
    NeighborLoader,
    NeighborSampler,
)

pytestmark = pytest.mark.pyg

FANOUTS = [4, 3]
SEEDS = torch.arange(0, 60, 5)
FORK = {"multiprocessing_context": "fork"}
KNOWS = ("user", "knows", "user")


def nodes(seed: int | None = None, **options: Any) -> Any:
    stores = make_stores()
    return NodeLoader(stores, NeighborSampler(stores, FANOUTS, seed=seed), SEEDS, **options)


def links(**options: Any) -> Any:
    stores = make_stores()
    pairs = torch.stack([SEEDS, SEEDS + 7])
    sampler = NeighborSampler(stores, FANOUTS)
    return LinkLoader(stores, sampler, (None, pairs), neg_sampling="binary", **options)


def make_typed() -> Any:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 100, (2, 1500))
    return HeteroGraph.from_edges({KNOWS: (src, dst)}, num_nodes={"user": 100})


def typed_nodes(**options: Any) -> Any:
    graph = make_typed()
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    return NodeLoader(stores, HeteroNeighborSampler(stores, FANOUTS), ("user", SEEDS), **options)


def typed_links(**options: Any) -> Any:
    graph = make_typed()
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    pairs = torch.stack([SEEDS, SEEDS + 7])
    sampler = HeteroNeighborSampler(stores, FANOUTS)
    return LinkLoader(stores, sampler, (KNOWS, pairs), neg_sampling="triplet", **options)


def hgt_nodes(**options: Any) -> Any:
    graph = make_typed()
    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    return NodeLoader(stores, HGTSampler(stores, {"user": [9, 9]}), ("user", SEEDS), **options)


LOADERS = [nodes, links, typed_nodes, typed_links, hgt_nodes]


def drawn(batch: Any) -> tuple[Any, ...]:
    """What was sampled, as something that can be compared."""
    stores = [batch] if not hasattr(batch, "node_types") else [batch["user"], batch[KNOWS]]
    names = ("input_id", "n_id", "e_id", "edge_index", "edge_label_index", "dst_neg_index")
    return tuple(
        (name, store[name].tolist()) for store in stores for name in names if name in store
    )


def run(loader: Any, num_epochs: int = 3, stop: int | None = None) -> list[list[Any]]:
    """Batches by epoch, each of them left after ``stop`` batches."""
    torch.manual_seed(12)
    epochs = []
    for _ in range(num_epochs):
        batches = iter(loader)
        epochs.append([drawn(batch) for batch in islice(batches, stop)])
        del batches
    loader._iterator = None  # ends persistent workers now; the garbage collector needs seconds
    return epochs


def by_seed(epoch: list[Any]) -> dict[Any, Any]:
    return {str(batch[0]): batch for batch in epoch}


def assert_fresh(epochs: list[list[Any]]) -> None:
    """No two epochs draw the same, nor do they for most batches of the same seeds."""
    for number, epoch in enumerate(epochs):
        for other in epochs[:number]:
            ours, theirs = by_seed(epoch), by_seed(other)
            shared = ours.keys() & theirs.keys()
            same = sum(ours[name] == theirs[name] for name in shared)
            assert same <= len(shared) // 3, (same, len(shared))
            assert epoch != other


@pytest.mark.parametrize(
    ("shuffle", "batch_size", "stop"), [(False, 4, None), (True, 1, 2), (True, 4, None)]
)
@pytest.mark.parametrize("make", LOADERS)
def test_epochs_draw_anew_and_follow_the_seed(
    make: Callable[..., Any], shuffle: bool, batch_size: int, stop: int | None
) -> None:
    options = {"shuffle": shuffle, "batch_size": batch_size}
    epochs = run(make(**options), stop=stop)
    assert_fresh(epochs)
    assert run(make(**options), stop=stop) == epochs
    loader = make(**options)
    assert run(loader, stop=stop) == run(loader, stop=stop) == epochs


@pytest.mark.parametrize(
    ("make", "batch_size", "shuffle", "stop"),
    [(nodes, 1, True, 2), (typed_links, 4, False, None)],
)
def test_draws_are_the_same_for_every_number_of_workers(
    make: Callable[..., Any], shuffle: bool, batch_size: int, stop: int | None
) -> None:
    options = {"shuffle": shuffle, "batch_size": batch_size}
    wanted = run(make(**options), 2, stop)
    for num_workers in (1, 2):
        assert run(make(**options, num_workers=num_workers, **FORK), 2, stop) == wanted


@pytest.mark.parametrize(("make", "shuffle", "stop"), [(nodes, True, None), (links, False, 2)])
def test_persistent_workers_draw_anew(
    make: Callable[..., Any], shuffle: bool, stop: int | None
) -> None:
    """For torch's order of the seeds as well, all but the first epoch have numbers of their own."""
    options = {"shuffle": shuffle, "batch_size": 3}
    epochs = [
        run(make(**options, num_workers=count, persistent_workers=True, **FORK), stop=stop)
        for count in (1, 2)
    ]
    assert_fresh(epochs[0])
    assert epochs[0] == epochs[1]
    assert epochs[0][0] == run(make(**options), 1, stop)[0]


def test_stock_loaders_give_the_batches_of_ours() -> None:
    options: dict[str, Any] = {"batch_size": 4, "shuffle": True}
    ours = NeighborLoader(make_stores(), FANOUTS, SEEDS, **options)
    assert run(ours) == run(nodes(**options))


def test_a_generator_of_the_loader_governs() -> None:
    def go(torch_seed: int, own_seed: int) -> list[list[Any]]:
        loader = nodes(batch_size=4, generator=torch.Generator().manual_seed(own_seed))
        torch.manual_seed(torch_seed)
        return [[drawn(batch) for batch in loader] for _ in range(2)]

    first = go(1, 6)
    assert_fresh(first)
    assert go(2, 6) == first != go(1, 7)


def test_nothing_is_drawn_from_torch() -> None:
    """Seeds are shuffled, and models initialised, as they would be without our sampler."""
    loader = nodes(batch_size=4, shuffle=True)
    plain = torch.utils.data.DataLoader(range(len(SEEDS)), batch_size=4, shuffle=True)
    orders = []
    for one in (loader, plain):
        torch.manual_seed(3)
        for batch in one:
            orders.append(getattr(batch, "input_id", batch).tolist())
        orders.append(torch.rand(3).tolist())
    assert orders[: len(orders) // 2] == orders[len(orders) // 2 :]


def test_two_iterators_at_once() -> None:
    loader = nodes(batch_size=4)
    torch.manual_seed(12)
    first, second = iter(loader), iter(loader)
    pairs = [(drawn(a), drawn(b)) for a, b in zip(first, second, strict=True)]
    wanted = run(loader, 2)
    assert [a for a, _ in pairs] == wanted[0]
    assert [b for _, b in pairs] == wanted[1]


def test_outside_of_a_loader_equal_requests_are_equal() -> None:
    sampler = NeighborSampler(make_stores(), FANOUTS)
    index = NodeSamplerInput(input_id=None, node=SEEDS)
    first = sampler.sample_from_nodes(index)
    assert torch.equal(sampler.sample_from_nodes(index).edge, first.edge)
    loader = nodes(batch_size=4)
    assert drawn(loader([0, 1])) == drawn(loader([0, 1]))


@pytest.mark.parametrize("plan", [0, 2])
def test_look_ahead_draws_what_the_loader_draws(plan: int) -> None:
    def make(ahead: bool) -> Any:
        stores = make_stores()
        sampler = NeighborSampler(stores, FANOUTS)
        batches: Any = BatchSampler(RandomSampler(SEEDS), 4, False)
        if ahead:
            batches = LookAhead(sampler, SEEDS, batches, plan=plan, features=stores[0])
        return NodeLoader(stores, sampler, SEEDS, batch_sampler=batches)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it warns where the loader asks for something else
        epochs = run(make(True))
    assert_fresh(epochs)
    assert epochs == run(make(False))


# ---- where nothing tells ---------------------------------------------------------------------


def test_a_seed_of_ones_own_repeats_and_says_so_once() -> None:
    loader = nodes(seed=4, batch_size=4)
    with pytest.warns(UserWarning, match=r"seed=4: .* set_epoch\(epoch\) .* aethergraph\.pyg") as w:
        epochs = run(loader)
    assert len(w) == 1
    assert epochs[0] == epochs[1] == epochs[2]


def test_a_seed_of_ones_own_with_epochs_is_silent() -> None:
    loader = nodes(seed=4, batch_size=4)
    epochs = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in range(3):
            loader.node_sampler.set_epoch(epoch)
            epochs += run(loader, 1)
    assert_fresh(epochs)


def test_workers_say_so_too(tmp_path: Path) -> None:
    """Their warnings go to the standard error of the program, which has not warned before."""
    program, told = tmp_path / "program.py", tmp_path / "told"
    program.write_text(f"""
import os, torch
os.dup2(os.open({str(told)!r}, os.O_WRONLY | os.O_CREAT, 0o600), 2)
from torch_geometric.loader import NodeLoader
from aethergraph import Graph
from aethergraph.pyg import FeatureStore, GraphStore, NeighborSampler

graph = Graph.from_edges(9, torch.arange(8), torch.arange(1, 9))
stores = FeatureStore.from_graph(graph), GraphStore(graph)
loader = NodeLoader(
    stores, NeighborSampler(stores, [2], seed=4), torch.arange(9), batch_size=3,
    num_workers=1, multiprocessing_context="fork",
)
for _ in range(3):
    list(loader)
""")
    # Forked, as FRESH workers are, from the server that has imported PyG.
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=runpy.run_path, args=(str(program),))
    process.start()
    process.join()
    assert process.exitcode == 0, told.read_text()
    assert told.read_text().count("UserWarning: seed=4") == 1


@pytest.fixture
def unknown_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(iteration, "_CODES", None)
    monkeypatch.setattr(iteration, "_has_warned", False)
    yield


@pytest.mark.usefixtures("unknown_torch")
def test_a_torch_that_does_not_tell_is_named_once() -> None:
    with pytest.warns(UserWarning, match="does not tell .* set_epoch") as w:
        epochs = run(nodes(batch_size=4))
    assert len(w) == 1
    assert epochs[0] == epochs[1]
    assert_fresh(run(nodes(batch_size=4, num_workers=1, **FORK)))  # workers are told all the same


# ---- our loaders over a sampler with a seed --------------------------------------------------


def seeded(sampler_seed: int = 4, **options: Any) -> Any:
    stores = make_stores()
    sampler = NeighborSampler(stores, FANOUTS, seed=sampler_seed)
    return NeighborLoader(stores, FANOUTS, SEEDS, neighbor_sampler=sampler, batch_size=4, **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ahead": 0},
        {"order": Order(world_size=1)},
        {"num_workers": 1, **FORK},
        {"num_workers": 1, "persistent_workers": True, **FORK},
    ],
)
def test_a_seed_of_the_sampler_holds_in_our_loaders(options: dict[str, Any]) -> None:
    loader, stock = seeded(**options), nodes(seed=4, batch_size=4)
    with pytest.warns(UserWarning, match=r"seed=4: .* set_epoch\(epoch\)") as w:
        epochs = [[drawn(batch) for batch in loader] for _ in range(3)]
    assert len(w) == 1
    assert epochs[0] == epochs[1] == epochs[2] == run(stock, 1)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in (1, 1, 2):
            for one in (loader.node_sampler, stock.node_sampler):
                one.set_epoch(epoch)
            epochs.append([drawn(batch) for batch in loader])
            assert epochs[-1] == run(stock, 1)[0]
    assert_fresh([epochs[0], epochs[3], epochs[5]])
    loader._iterator = None


def test_a_seed_of_the_loader_comes_first() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        epochs = run(seeded(seed=9))
    assert_fresh(epochs)
    assert epochs == run(NeighborLoader(make_stores(), FANOUTS, SEEDS, batch_size=4, seed=9))


def test_links_and_states_know_the_seed_of_the_sampler() -> None:
    stores = make_stores()
    pairs = torch.stack([SEEDS, SEEDS + 7])
    sampler = NeighborSampler(stores, FANOUTS, seed=4)
    sampler.set_epoch(0)
    options: dict[str, Any] = {"neg_sampling": "binary", "batch_size": 5}
    own = LinkNeighborLoader(stores, FANOUTS, pairs, neighbor_sampler=sampler, **options)
    assert run(own, 1) == run(LinkLoader(stores, sampler, (None, pairs), **options), 1)
    with pytest.raises(InvalidArgumentError, match="sampler_seed = '4', this one has '5'"):
        seeded(5).load_state_dict(seeded(4).state_dict())
    seeded(5, seed=1).load_state_dict(seeded(4, seed=1).state_dict())
