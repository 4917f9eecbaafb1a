"""States of our loaders: bit-equal batches with other workers, threads and ranks."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.pyg import make_data, make_graph, make_stores
from support.pyg_ranks import KNOWS, assert_same, plain, typed_graph
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    WeightedRandomSampler,
)
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import NegativeSampling

from aethergraph import DynamicGraph
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading import Ahead, Order, partition_aligned_batches
from aethergraph.loading.state import describe
from aethergraph.pyg import (
    HeteroNeighborLoader,
    HGTLoader,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    ShaDowKHopSampler,
)

pytestmark = pytest.mark.pyg

FORK = {"num_workers": 1, "multiprocessing_context": "fork"}
LINKS = torch.arange(140).reshape(2, 70)


def of_nodes(**options: Any) -> Any:
    return NeighborLoader(make_graph(), [4, 3], **options)


def of_links(**options: Any) -> Any:
    return LinkNeighborLoader(make_graph(), [4], LINKS, neg_sampling="binary", **options)


def of_every_link(**options: Any) -> Any:
    options["batch_size"] = 150
    return LinkNeighborLoader(make_graph(), [2], neg_sampling="triplet", **options)


def of_typed_nodes(**options: Any) -> Any:
    return HeteroNeighborLoader(typed_graph(), [4, 3], ("user", torch.arange(120)), **options)


def of_typed_links(**options: Any) -> Any:
    return LinkNeighborLoader(typed_graph(), [4], (KNOWS, LINKS), **options)


def of_hgt(**options: Any) -> Any:
    return HGTLoader(typed_graph(), {"user": [9, 9]}, "user", **options)


def of_egos(**options: Any) -> Any:
    return ShaDowKHopSampler(make_graph(), 2, 3, **options)


KINDS = [of_nodes, of_links, of_every_link, of_typed_nodes, of_typed_links, of_hgt, of_egos]
ORDERS: dict[str, dict[str, Any]] = {
    "torch's": {},
    "torch's with a seed": {"seed": 4},
    "the seed's": {"seed": 4, "order": Order(world_size=1)},
}


def drawn(batches: Any) -> list[Any]:
    return [plain(batch) for batch in batches]


def saved(state: Any) -> Any:
    """The state as a checkpoint gives it back: without any class."""
    file = io.BytesIO()
    torch.save(state, file)
    assert file.tell() < 20_000
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("order", ORDERS)
def test_a_loader_goes_on_after_every_batch(make: Any, order: str) -> None:
    options = {"batch_size": 31, "shuffle": True, **ORDERS[order]}
    torch.manual_seed(1)
    whole = make(**options)
    epochs = [drawn(whole) for _ in range(3)]
    torch.manual_seed(1)
    running = make(**options)
    list(running)
    batches = iter(running)
    for done in range(len(running)):
        if done:
            assert_same(drawn([next(batches)]), [epochs[1][done - 1]])
        state, generator = saved(running.state_dict()), torch.get_rng_state()
        assert (state["epoch"], state["next"]) == (1, done)
        torch.manual_seed(99)
        other = make(**options, ahead=Ahead(done % 3, threads=1 + done % 2))
        other.load_state_dict(state)
        torch.set_rng_state(generator)
        assert_same(drawn(other), epochs[1][done:])
        if done == 2:
            assert_same(drawn(other), epochs[2])
        torch.set_rng_state(generator)


@pytest.mark.parametrize(
    "options",
    [{}, {"ahead": 0}, FORK, {**FORK, "filter_per_worker": True}],
)
def test_a_batch_that_has_failed_counts_when_a_later_one_comes(options: dict[str, Any]) -> None:
    def fail(batch: Any) -> Any:
        if {60, 149} & set(batch.n_id[: batch.batch_size].tolist()):
            raise OSError("no such row")
        return batch

    loader = of_nodes(batch_size=30, transform=fail, **options)
    batches, found = iter(loader), []
    for _ in range(5):
        with suppress(OSError):
            next(batches)
        found.append(loader.state_dict()["next"])
    assert found == [1, 2, 2, 4, 4]
    with pytest.raises(StopIteration):
        next(batches)
    state = loader.state_dict()
    assert (state["epoch"], state["next"]) == (1, 0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("is_other", [False, True])
def test_no_epoch_comes_twice_after_a_state_between_two(order: str, is_other: bool) -> None:
    options = {"batch_size": 31, "shuffle": True, **ORDERS[order]}
    torch.manual_seed(1)
    loader = of_nodes(**options)
    epochs = [drawn(loader) for _ in range(3)]
    torch.manual_seed(1)
    loader = of_nodes(**options)
    assert_same(drawn(loader), epochs[0])
    other = of_nodes(**options) if is_other else loader
    other.load_state_dict(saved(loader.state_dict()))  # torch's generator is as it was then
    assert_same(drawn(other), epochs[1])
    assert_same(drawn(other), epochs[2])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_go_on_where_threads_were(order: str, persistent: bool) -> None:
    options = {"batch_size": 12, "shuffle": True, **ORDERS[order]}
    torch.manual_seed(1)
    wanted = drawn(of_nodes(**options))
    torch.manual_seed(1)
    for before, after in (({}, {"num_workers": 2}), ({"num_workers": 1}, {})):
        torch.manual_seed(1)
        running = of_nodes(**options, **before)
        batches = iter(running)
        assert_same(drawn(islice(batches, 5)), wanted[:5])
        state = running.state_dict()
        del batches
        if after:
            after["persistent_workers"] = persistent
        other = of_nodes(**options, **after)
        other.load_state_dict(state)
        assert_same(drawn(other), wanted[5:])
        other._iterator = None


def test_a_generator_of_ones_own_is_kept() -> None:
    def make() -> Any:
        return of_nodes(batch_size=20, shuffle=True, generator=torch.Generator().manual_seed(7))

    whole, running = make(), make()
    epochs = [drawn(whole) for _ in range(2)]
    batches = iter(running)
    drawn(islice(batches, 3))
    state, now = running.state_dict(), running.generator.get_state()
    other = make()
    other.load_state_dict(state)
    other.generator.set_state(now)
    assert_same(drawn(other), epochs[0][3:])
    assert_same(drawn(other), epochs[1])


@pytest.mark.parametrize("count", [3, 8])
def test_set_epoch_of_the_same_epoch_keeps_the_order(count: int) -> None:
    def make(seed: int) -> Any:
        return of_nodes(batch_size=20, shuffle=True, generator=torch.Generator().manual_seed(seed))

    running = make(7)
    batches = iter(running)
    drawn(islice(batches, count))
    state = running.state_dict()
    left = drawn(batches) or drawn(running)
    other = make(8)
    other.load_state_dict(state)
    other.set_epoch(state["epoch"])
    assert_same(drawn(other), left)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("kind", ["weighted", "batches", "distributed", "aligned"])
def test_samplers_of_torch_are_replayed(kind: str, num_workers: int) -> None:
    def make(**other: Any) -> Any:
        own = torch.Generator().manual_seed(7)
        options: dict[str, Any] = {"batch_size": 20, "seed": 2, **other}
        if kind == "weighted":
            options["sampler"] = WeightedRandomSampler(torch.ones(150), 120, generator=own)
        elif kind == "distributed":
            options["sampler"] = DistributedSampler(range(150), 2, 1)
            options["sampler"].set_epoch(1)
        else:
            del options["batch_size"]
            options["batch_sampler"] = BatchSampler(RandomSampler(range(150)), 20, False)
            if kind == "aligned":
                options["batch_sampler"] = partition_aligned_batches(np.arange(150) // 10, 20)
        return of_nodes(**options)

    torch.manual_seed(1)
    wanted = drawn(make())
    torch.manual_seed(1)
    running = make()
    batches = iter(running)
    drawn(islice(batches, 2))
    state = saved(running.state_dict())
    torch.manual_seed(5)
    other = make(num_workers=num_workers)
    other.load_state_dict(state)
    assert_same(drawn(other), wanted[2:])


class Unmeasured(Sampler[list[int]]):
    """Batches of a sampler without a length, as one by size."""

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(150).tolist()
        yield from (order[:40], order[40:100], order[100:])


@pytest.mark.parametrize("options", [{}, {"ahead": 0}, FORK])
def test_samplers_without_a_length_end_their_epochs(options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    loader = of_nodes(batch_sampler=Unmeasured(), **options)
    epochs = [drawn(loader) for _ in range(2)]
    torch.manual_seed(1)
    running = of_nodes(batch_sampler=Unmeasured(), **options)
    batches = iter(running)
    for done in range(3):
        state = running.state_dict()
        if done:
            assert (state["epoch"], state["next"]) == (0, done)
        drawn(islice(batches, 1))
    assert running.state_dict()["next"] == 3  # nobody knows that it was the last
    assert next(batches, None) is None
    state = running.state_dict()
    assert (state["epoch"], state["next"]) == (1, 0)
    other = of_nodes(batch_sampler=Unmeasured())
    other.load_state_dict(state)
    assert_same(drawn(other), epochs[1])


def test_a_sampler_without_a_length_that_is_left_early_goes_on() -> None:
    def fail(batch: Any) -> Any:
        raise OSError("no such row")

    loader = of_nodes(batch_sampler=Unmeasured())
    batches = iter(loader)
    next(batches)
    batches.close()
    assert next(batches, None) is None
    assert loader.state_dict()["next"] == 1
    loader = of_nodes(batch_sampler=Unmeasured(), transform=fail)
    batches = iter(loader)
    for _ in range(3):
        with pytest.raises(OSError, match="no such row"):
            next(batches)
    assert next(batches, None) is None
    state = loader.state_dict()
    assert (state["epoch"], state["next"]) == (0, 0)  # they come again


def test_the_host_generator_is_left_alone() -> None:
    running = of_nodes(batch_size=20, shuffle=True)
    list(islice(running, 3))
    other = of_nodes(batch_size=20, shuffle=True)
    torch.rand(1)  # else it is in the state that a replay ends in
    before = torch.get_rng_state()
    other.load_state_dict(running.state_dict())
    list(other)
    assert torch.equal(torch.get_rng_state(), before)


# ---- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 21}, "batch_size = '20', this one has '21'"),
        ({"num_neighbors": [4, 2]}, r"num_neighbors = '\[4, 3\]', this one has '\[4, 2\]'"),
        ({"seed": 1}, "seed = 'None', this one has '1'"),
        ({"input_nodes": torch.arange(149)}, r"node = 'int64\[150\]"),
        ({"replace": True}, "replace"),
        (
            {"order": Order(world_size=1)},
            "order = 'BatchSampler of RandomSampler', this one has 'of seed",
        ),
        ({"data": make_data()}, None),
    ],
)
def test_other_arguments_are_refused(options: dict[str, Any], message: str | None) -> None:
    given = {"data": make_graph(), "num_neighbors": [4, 3], "batch_size": 20, "shuffle": True}
    state = NeighborLoader(**given).state_dict()
    loader = NeighborLoader(**(given | options))
    if message is None:
        loader.load_state_dict(state)  # the same edges, as PyG's Data
        return
    with pytest.raises(InvalidArgumentError, match=message):
        loader.load_state_dict(state)
    assert loader.state_dict()["epoch"] == 0


@pytest.mark.parametrize(
    ("neg_sampling", "message"),
    [
        ("triplet", "neg_sampling.mode = .*binary.*triplet"),
        (None, "neg_sampling = .*this one has 'nothing'"),
        (NegativeSampling("binary", 2), "neg_sampling.amount = '1', this one has '2'"),
        (NegativeSampling("binary", 1, torch.ones(150)), "neg_sampling.(src_)?weight = 'None'"),
    ],
)
def test_other_negatives_are_refused(neg_sampling: Any, message: str) -> None:
    def make(neg_sampling: Any) -> Any:
        return LinkNeighborLoader(make_graph(), [4], LINKS, neg_sampling=neg_sampling)

    state = make("binary").state_dict()
    with pytest.raises(InvalidArgumentError, match=message):
        make(neg_sampling).load_state_dict(state)
    make(NegativeSampling("binary")).load_state_dict(state)


def test_other_numbers_of_nodes_are_refused() -> None:
    def make(*num_samples: int, **options: Any) -> Any:
        return HGTLoader(typed_graph(), num_samples, "user", **options)

    state = make(9, 9).state_dict()
    with pytest.raises(InvalidArgumentError, match=r"num_samples = .*\(9, 9\).*\(9, 8\)"):
        make(9, 8).load_state_dict(state)
    with pytest.raises(InvalidArgumentError, match="max_neighbors = '50', this one has '7'"):
        make(9, 9, max_neighbors=7).load_state_dict(state)
    make(9, 9).load_state_dict(state)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e5m2])
def test_tensors_that_numpy_does_not_have_are_told_by_their_values(dtype: torch.dtype) -> None:
    values = torch.arange(4.0)
    assert describe(values.to(dtype)) == describe(values.to(dtype).clone())
    assert describe(values.to(dtype)) != describe(values.flip(0).to(dtype))
    assert describe(torch.diag(values).to_sparse()) != describe(torch.diag(values + 1).to_sparse())


def test_states_without_generators_are_refused() -> None:
    loader = of_nodes(batch_size=20)
    state = loader.state_dict()
    for order, message in (
        (None, "no generators"),
        ({"generators": 3}, "states of 1 generators"),
        ({"generators": [torch.zeros(3)]}, "no state of a generator"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            loader.load_state_dict({**state, "order": order})


def test_an_epoch_of_one_commit_is_not_gone_on_with_at_another(tmp_path: Path) -> None:
    live = DynamicGraph.open(tmp_path / "live.aegd", 60)
    live.insert_edges(np.arange(59), np.arange(1, 60))
    loader = NeighborLoader(live, [2], batch_size=10, order=Order(snapshot="epoch"))
    list(islice(loader, 2))
    state = loader.state_dict()
    other = NeighborLoader(live, [2], batch_size=10, order=Order(snapshot="epoch"))
    other.load_state_dict(state)
    assert len(list(other)) == 4
    live.insert_edges([1], [3])
    assert loader.state_dict()["graph"] == state["graph"]  # the epoch's, not the last
    with pytest.raises(InvalidArgumentError, match=r"an epoch of commit 1 .* which is at 2"):
        other.load_state_dict(state)
    list(islice(other, 6))
    other.load_state_dict(other.state_dict())  # between two epochs
    live.close()


def test_an_epoch_that_is_refused_is_not_counted() -> None:
    live = DynamicGraph(60, 8)
    live.insert_edges(np.arange(600) % 60, np.arange(600) // 10)
    options: dict[str, Any] = {"batch_size": 10, "seed": 1, **FORK}
    options["filter_per_worker"] = False
    loader = NeighborLoader(live, [1], transform_sampler_output=lambda out: out, **options)
    with pytest.raises(InvalidArgumentError, match="transform_sampler_output with workers"):
        iter(loader)
    loader.transform_sampler_output = None
    assert_same(drawn(loader), drawn(NeighborLoader(live, [1], **options)))


# ---- torchdata -------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 2])
def test_torchdatas_loader_goes_on_over_our_stores(num_workers: int) -> None:
    """PyG's stock loader gives what makes the batches, torchdata the place in the epoch."""
    loading = pytest.importorskip(
        "torchdata.stateful_dataloader", reason="torchdata is not installed"
    )

    def make() -> Any:
        stores = make_stores()
        stock = NodeLoader(stores, NeighborSampler(stores, [4, 3], seed=2), torch.arange(150))
        return loading.StatefulDataLoader(
            range(150), batch_size=20, shuffle=True, collate_fn=stock.collate_fn,
            num_workers=num_workers,
        )  # fmt: skip

    torch.manual_seed(1)
    wanted = drawn(make())
    torch.manual_seed(1)
    running = make()
    batches = iter(running)
    drawn(islice(batches, 3))
    state = running.state_dict()
    torch.manual_seed(2)
    other = make()
    other.load_state_dict(state)
    assert_same(drawn(other), wanted[3:])
