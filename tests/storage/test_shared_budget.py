"""Several samplings of one graph at the same time share its budget."""

from __future__ import annotations

import gc
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aethergraph as ag
from aethergraph import SubgraphLoader
from aethergraph import _native as native
from aethergraph.storage.budget import Holdings

pytestmark = pytest.mark.any_python

BUDGET = 48 << 20
SEEDS = [np.arange(n, n + 2000) % 30_000 for n in range(0, 400_000, 1000)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ends = np.random.default_rng(7).integers(0, 30_000, (2, 900_000))
    path = tmp_path_factory.mktemp("shared") / "graph.aeg"
    ag.Graph.from_edges(30_000, *ends).save(path)
    return path


def paged(path: Path) -> ag.Graph:
    return ag.Graph.load(path, storage="uring", memory_budget=BUDGET)


def groups_in_memory() -> set[native.NativeGroup]:
    gc.collect()
    return {thing for thing in gc.get_objects() if isinstance(thing, native.NativeGroup)}


def held(graph: ag.Graph) -> int:
    assert graph.paging is not None
    return graph.paging.groups.total


class Thing:
    """Holds something."""


def test_what_is_collected_holds_nothing() -> None:
    holdings, one, two = Holdings(), Thing(), Thing()
    holdings.note(one, 5, at_work=True)
    holdings.note(two, 7, at_work=False)
    holdings.note(one, 6, at_work=True)
    assert (holdings.total, holdings.num_at_work) == (13, 1)
    del one
    gc.collect()
    assert (holdings.total, holdings.num_at_work) == (7, 0)


@pytest.mark.parametrize("samplers", ["one", "many"])
def test_open_iterators_share_the_budget(path: Path, samplers: str) -> None:
    graph = paged(path)
    assert graph.paging is not None
    made = [ag.NeighborSampler(graph, [10, 5]) for _ in range(1 if samplers == "one" else 4)]
    memory = ag.NeighborSampler(ag.Graph.load(path, storage="memory"), [10, 5])
    open_ones: list[Any] = []
    before = groups_in_memory()
    for number in range(4):
        open_ones.append(made[number % len(made)].sample_many(SEEDS, itertools.count()))
        for _ in range(25):
            for many in open_ones:
                found = next(many)
            # of each later one: four buffers of 384 KiB and a sample of about 2 MiB
            assert held(graph) < BUDGET + number * (6 << 20)
        expected = memory.sample(SEEDS[24], key=24)
        np.testing.assert_array_equal(found.edge, expected.edge)
        taken = sum(group.memory for group in groups_in_memory() - before)
        assert taken < BUDGET + number * (6 << 20)
    assert graph.paging.groups.num_at_work > 0
    del many, open_ones
    gc.collect()
    assert graph.paging.groups.num_at_work == 0


def test_one_that_goes_on_gives_room_to_others(path: Path) -> None:
    """Only as long as its group lasts does the first iterator hold most."""
    graph = paged(path)
    first, second = (ag.NeighborSampler(graph, [10, 5]) for _ in range(2))
    assert first.groups is not None and second.groups is not None
    alone = first.groups.size(2000)
    one, two = (s.sample_many(SEEDS, itertools.count()) for s in (first, second))
    for _ in range(100):
        next(one), next(two)
    assert second.groups._last >= alone // 4 > 1


def test_a_loader_alone_uses_all_of_it(path: Path) -> None:
    graph = paged(path)
    loader = SubgraphLoader(graph, [10, 5], batch_size=2000, shuffle=True)
    most = 0
    for _ in range(4):
        for _batch in loader:
            most = max(most, held(graph))
    assert BUDGET // 3 < most < BUDGET + (6 << 20)
