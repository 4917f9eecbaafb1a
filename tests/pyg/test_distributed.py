"""Training processes share the batches of an epoch: together they see what one process sees."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.pyg import make_graph
from support.pyg_ranks import assert_same, core_batches, loaders, plain, stock, work
from support.training_ranks import found_by_ranks
from torch.utils.data import DistributedSampler

from aethergraph.errors import InvalidArgumentError
from aethergraph.loading import Order
from aethergraph.pyg import NeighborLoader

pytestmark = [pytest.mark.pyg, pytest.mark.forks]

KINDS = ["nodes", "workers", "links", "typed", "typed links"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.start_processes(work, (2, str(folder)), nprocs=2, start_method="fork")
    return found_by_ranks(2, folder)


def assert_dealt(dealt: list[list[dict[str, Any]]], wanted: list[dict[str, Any]]) -> None:
    """Rank after rank in rounds, and the first batches again in the last round."""
    assert len({len(own) for own in dealt}) == 1
    rounds = [batch for one in zip(*dealt, strict=True) for batch in one]
    assert len(rounds) - len(wanted) < len(dealt)
    assert_same(rounds, wanted + wanted[: len(rounds) - len(wanted)])


@pytest.mark.parametrize("kind", KINDS)
def test_the_union_of_the_ranks_is_the_epoch(kind: str, found: list[dict[str, Any]]) -> None:
    alone = loaders(order=Order(world_size=1))[kind]
    for epoch in range(2):
        assert_dealt([one[kind][epoch] for one in found], [plain(batch) for batch in alone])


def test_the_core_shares_alike(found: list[dict[str, Any]]) -> None:
    assert_dealt([one["core"] for one in found], core_batches())


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_shared_unasked(kind: str, found: list[dict[str, Any]]) -> None:
    """As in PyG: programs that split their seeds themselves would lose most of them."""
    assert all(one[f"{kind} alone"] == len(loaders()[kind]) for one in found)


def test_stock_loaders_take_torchs_sampler(found: list[dict[str, Any]]) -> None:
    for rank, one in enumerate(found):
        sampler = DistributedSampler(range(150), len(found), rank, shuffle=True, seed=2)
        sampler.set_epoch(3)
        assert_same(one["stock"], stock(sampler))
    seeds = [set(b["0 input_id"].tolist()) for one in found for b in one["stock"]]
    assert set().union(*seeds) == set(range(150))


def test_ranks_with_a_batch_less_are_joined(found: list[dict[str, Any]]) -> None:
    """With last_round="keep" each seed is seen once, and all ranks end with the same model."""
    ends = [one["joined"] for one in found]
    assert sorted(torch.cat([end["seeds"] for end in ends]).tolist()) == list(range(150))
    counts = {end["batches"] for end in ends}
    assert counts == {-(-13 // len(found)), 13 // len(found)} and len(counts) == 2
    assert all(torch.equal(end["weights"], ends[0]["weights"]) for end in ends)


def test_a_sampler_decides_the_order_alone() -> None:
    sampler = DistributedSampler(range(150), 2, 0)
    for options, name in (
        ({"order": Order(0, 2)}, "world_size goes without sampler"),
        ({"order": Order(partitions=torch.zeros(150))}, "partitions goes without sampler"),
    ):
        with pytest.raises(InvalidArgumentError, match=name):
            NeighborLoader(make_graph(), [2], sampler=sampler, **options)
    with pytest.raises(InvalidArgumentError, match="world_size goes without batch_size=None"):
        NeighborLoader(make_graph(), [2], batch_size=None, order=Order(rank=0, world_size=2))
