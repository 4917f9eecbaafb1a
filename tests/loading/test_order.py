"""Orders of an epoch, shares of ranks and batches from few partitions, against numpy."""

from __future__ import annotations

import sys
import warnings
from itertools import chain, pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.strategies import examples

from aethergraph import Graph, SubgraphLoader
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.loading import Order, partition_aligned_batches
from aethergraph.loading.aligned import AlignedOrder, Partitions
from aethergraph.loading.shares import Share, as_share_of_batches
from aethergraph.loading.shuffle import Shuffle
from aethergraph.sampling.keys import permutation

LONG = 4097  # orders above 4096 are computed instead of stored


def random_graph(num_nodes: int) -> Graph:
    src, dst = np.random.default_rng(0).integers(0, num_nodes, (2, 3 * num_nodes))
    return Graph.from_edges(num_nodes, src, dst)


def group_of(world_size: int, rank: int) -> Any:
    """Return what stands for torch.distributed in a process of a group."""
    return SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True,
        get_world_size=lambda: world_size, get_rank=lambda: rank,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", None)


# ---- shuffled orders -------------------------------------------------------------------------


@examples(60)
@given(
    count=st.one_of(st.integers(0, 50), st.integers(4000, 40_000)), key=st.integers(0, 2**64 - 1)
)
def test_a_shuffle_is_a_permutation(count: int, key: int) -> None:
    order = Shuffle(count, key).take(0, count)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(count))


@examples(30)
@given(
    count=st.integers(LONG, 60_000), key=st.integers(0, 2**64 - 1), start=st.integers(0, 60_000),
    size=st.integers(0, 40_000),
)  # fmt: skip
def test_any_part_of_it_can_be_taken(count: int, key: int, start: int, size: int) -> None:
    shuffle = Shuffle(count, key)
    whole = Shuffle(count, key).take(0, count)
    for at in (start, start + size, 0):
        np.testing.assert_array_equal(shuffle.take(at, at + size), whole[at : at + size])


def test_short_orders_are_those_that_are_sorted() -> None:
    for count in (0, 1, 7, 4096):
        np.testing.assert_array_equal(Shuffle(count, 5).take(0, count), permutation(count, 5))


def test_long_orders_take_no_memory_of_their_length() -> None:
    order = Shuffle(10**15, 3)
    taken = order.take(5 * 10**14, 5 * 10**14 + 1000)
    assert len(np.unique(taken)) == 1000 and taken.min() >= 0 and taken.max() < 10**15
    assert taken.std() == pytest.approx(10**15 / 12**0.5, rel=0.1)


@pytest.mark.any_python
@pytest.mark.shares
@pytest.mark.parametrize("count", [LONG, 5000])
def test_positions_are_uniform_at_every_place(count: int) -> None:
    """Of 400 keys: where each tenth of the places leads, and what follows a position."""
    orders = np.array([Shuffle(count, key).take(0, count) for key in range(400)])
    tenth = np.minimum(np.arange(count) * 10 // count, 9)
    table = np.zeros((10, 10))
    np.add.at(table, (np.broadcast_to(tenth, orders.shape), tenth[orders]), 1)
    expected = np.outer(np.bincount(tenth), np.bincount(tenth)) / count * len(orders)
    # Without replacement the table varies less than the chi-square distribution says, never more.
    assert ((table - expected) ** 2 / expected).sum() < stats.chi2(81).ppf(0.999)
    first = np.bincount(orders[:, 0] * 8 // count, minlength=8)
    assert stats.chisquare(first).pvalue > 1e-3
    steps = np.bincount((np.diff(orders, axis=1) % count * 16 // count).ravel(), minlength=16)
    assert stats.chisquare(steps).pvalue > 1e-3


# ---- shares ----------------------------------------------------------------------------------


@examples(150)
@given(
    total=st.integers(0, 40), start=st.integers(0, 40), world=st.integers(1, 9),
    last=st.sampled_from(["repeat", "drop", "keep"]),
)  # fmt: skip
def test_ranks_share_all_batches(total: int, start: int, world: int, last: Any) -> None:
    shares = [Share(rank, world, last) for rank in range(world)]
    dealt = [list(share.numbers(total, start)) for share in shares]
    assert [len(own) for own in dealt] == [share.count(total, start) for share in shares]
    left = list(range(start, total))
    rounds = -(-len(left) // world)
    by_round = [own[i] for i in range(rounds) for own in dealt if i < len(own)]
    if last == "keep":
        assert by_round == left
    elif last == "drop":
        assert by_round == left[: len(left) // world * world]
    else:
        assert by_round[: len(left)] == left
        assert all(0 <= number < total for number in by_round)
    if last != "keep":
        assert len({len(own) for own in dealt}) <= 1
    if start % world == 0:  # between two rounds: they go on as without an interruption
        whole = [list(share.numbers(total)) for share in shares]
        assert dealt == [own[start // world :] for own in whole]


def test_shares_that_make_no_sense_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for values, message in (
        ((0, None), "rank = 0 needs world_size"),
        ((2, 2), r"rank = 2 is not in 0\.\.1"),
        ((0, 0), "world_size = 0"),
        ((None, 2), "world_size = 2 needs rank: torch.distributed is not initialised"),
        ((-1, 2), "rank = -1"),
        ((0, "all"), "world_size = 'all'"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            as_share_of_batches(*values)
    with pytest.raises(InvalidArgumentError, match="last_round"):
        as_share_of_batches(0, 2, "pad")
    assert as_share_of_batches(None, "auto") == Share(0, 1)
    monkeypatch.setitem(sys.modules, "torch.distributed", group_of(3, 2))
    assert as_share_of_batches(None, "auto") == as_share_of_batches(None, 3) == Share(2, 3)
    assert as_share_of_batches(None, None) == Share(0, 1)
    with pytest.raises(InvalidArgumentError, match=r"torch\.distributed has 3 ranks"):
        as_share_of_batches(None, 2)


def test_a_group_may_come_after_the_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning takes loaders before it starts its processes."""
    graph = random_graph(50)
    options: dict[str, Any] = {"batch_size": 10, "order": Order(world_size="auto")}
    early, used = (SubgraphLoader(graph, [2], **options) for _ in range(2))
    second = SubgraphLoader(graph, [2], batch_size=10, order=Order(1, "auto"))
    batches = partition_aligned_batches(np.arange(50), 10, world_size="auto")
    assert len(early) == len(list(used)) == len(batches) == 5
    monkeypatch.setitem(sys.modules, "torch.distributed", group_of(3, 2))
    assert [batch.seeds[0] for batch in second] == [10, 40]
    for loader in (early, used):
        assert [len(loader), [b.seeds[0] for b in loader]] == [2, [20, 0]]
    assert len(batches) == len(list(batches)) == 2
    monkeypatch.setitem(sys.modules, "torch.distributed", None)
    assert len(early) == 2  # a group that ends does not change it


def test_processes_without_a_group_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under torchrun each of them would train on all batches."""
    graph = random_graph(50)
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = SubgraphLoader(graph, [2], batch_size=10, order=Order(world_size="auto"))
    with pytest.warns(UserWarning, match=r"WORLD_SIZE is 2: .* init_process_group"):
        assert len(list(loader)) == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            len(list(SubgraphLoader(graph, [2], batch_size=10, order=Order(rank=0, world_size=2))))
            == 3
        )
        monkeypatch.setenv("WORLD_SIZE", "1")
        assert len(list(loader)) == 5


# ---- batches from few partitions -------------------------------------------------------------

partitions = st.lists(st.integers(-3, 12), max_size=120).map(lambda own: np.array(own, np.int64))


@examples(60)
@given(parts=partitions, size=st.integers(1, 50), mix=st.integers(1, 12), seed=st.integers(0, 9))
def test_every_seed_comes_once_in_an_epoch(parts: Any, size: int, mix: int, seed: int) -> None:
    batches = partition_aligned_batches(parts, size, mix, seed)
    epochs = [list(batches) for _ in range(2)]
    for epoch in epochs:
        assert len(epoch) == len(batches) == -(-len(parts) // size)
        assert [len(batch) for batch in epoch[:-1]] == [size] * (len(epoch) - 1)
        assert sorted(chain.from_iterable(epoch)) == list(range(len(parts)))
    again = partition_aligned_batches(parts, size, mix, seed)
    again.set_epoch(1)
    assert list(again) == epochs[1]
    assert len(epochs[1]) == 0 or again.epoch == 2


@examples(40)
@given(parts=partitions, length=st.integers(1, 20), key=st.integers(0, 99))
def test_runs_are_consecutive_members_of_a_partition(parts: Any, length: int, key: int) -> None:
    """The order is made of runs of at most ``length``, as few as the partitions allow."""
    order = AlignedOrder(Partitions(parts), length, key).take(0, len(parts))
    rank = np.empty(len(parts), np.int64)  # of each seed in its partition
    sizes = {part: int((parts == part).sum()) for part in set(parts.tolist())}
    for part in sizes:
        rank[parts == part] = np.arange(sizes[part])
    runs = 1
    for one, other in pairwise(order):
        follows = parts[one] == parts[other] and (
            rank[other] == (rank[one] + 1) % sizes[parts[one]]
        )
        runs += not follows
    assert runs <= max(1, sum(-(-size // length) for size in sizes.values()))


def test_a_batch_has_seeds_of_mix_partitions() -> None:
    parts = np.repeat(np.arange(100), 1000)
    for mix in (1, 4, 8):
        counts = [len(np.unique(parts[b])) for b in partition_aligned_batches(parts, 1000, mix)]
        assert np.median(counts) <= mix and max(counts) <= mix + 2
    batches = iter(partition_aligned_batches(parts, 1000, 8))
    chosen = np.bincount(parts[np.concatenate([next(batches) for _ in range(50)])], minlength=100)
    assert (chosen > 0).sum() > 90  # of all partitions, not the first ones


def test_batches_are_dealt_and_asked_for_by_number() -> None:
    parts = np.random.default_rng(0).integers(0, 20, 1000)
    whole = list(partition_aligned_batches(parts, 64, seed=3))
    ranks = [
        partition_aligned_batches(parts, 64, seed=3, rank=rank, world_size=3) for rank in range(3)
    ]
    for number in range(len(whole)):
        np.testing.assert_array_equal(ranks[number % 3][number // 3], whole[number])
    for rank, batches in enumerate(ranks):
        assert list(batches)[: len(whole[rank::3])] == whole[rank::3]
    with pytest.raises(OutOfRangeError, match=r"batch 6 is not in 0\.\.5"):
        ranks[0][6]


def test_an_iterator_that_is_not_used_begins_no_epoch() -> None:
    """torch's loaders with workers ask twice for the iterator of an epoch."""
    parts = np.arange(100) // 10
    wanted, batches = (partition_aligned_batches(parts, 30, seed=3) for _ in range(2))
    for epoch in range(2):
        iter(batches)
        assert batches.epoch == epoch
        assert list(iter(batches)) == list(wanted)


def test_bad_partitions_are_refused_before_work_begins() -> None:
    for parts, message in (
        (np.zeros((2, 2), np.int64), "one-dimensional"),
        (np.zeros(3), "integers"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            partition_aligned_batches(parts, 2)
    for options in ({"batch_size": 0}, {"batch_size": 2, "mix": 0}):
        with pytest.raises(InvalidArgumentError, match="not at least 1"):
            partition_aligned_batches([0, 1], **options)
    graph = random_graph(50)
    with pytest.raises(InvalidArgumentError, match=r"partitions has 49 items, .* 50 seeds"):
        SubgraphLoader(graph, [2], order=Order(partitions=np.zeros(49, np.int64)), shuffle=True)
    with pytest.raises(InvalidArgumentError, match="shuffle=True"):
        SubgraphLoader(graph, [2], order=Order(partitions=np.zeros(50, np.int64)))
    with pytest.raises(InvalidArgumentError, match="snapshot = 'day'"):
        Order(snapshot="day")  # type: ignore[arg-type]


def test_a_loader_takes_its_batches_from_partitions() -> None:
    graph = random_graph(300)
    parts = np.arange(300) // 30
    loader = SubgraphLoader(
        graph, [2], batch_size=40, shuffle=True, seed=3, order=Order(partitions=parts, mix=2)
    )
    wanted = partition_aligned_batches(parts, 40, 2, seed=3)
    for _ in range(2):
        assert [batch.index.tolist() for batch in loader] == list(wanted)
