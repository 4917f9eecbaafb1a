"""Vectors of samples over the memory of samples that are gone."""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import assert_same_subgraph, examples

from aethergraph import Graph, NeighborSampler
from aethergraph._native import recycled
from aethergraph._native.recycled import RecycledVectors
from aethergraph.errors import OutOfMemoryError

LARGE = recycled._SMALL


def address(vector: np.ndarray) -> int:
    return int(vector.__array_interface__["data"][0])


def test_memory_comes_back_when_nothing_refers_to_it() -> None:
    made = RecycledVectors()
    first = made.empty(LARGE, "first")
    where, part = address(first), first[5:7]
    assert first.shape == (LARGE,) and first.dtype == np.int64 and first.flags.writeable
    del first
    second = made.empty(LARGE, "second")
    assert address(second) != where  # a part of the first is in use
    assert made.idle_bytes == 0
    del part
    assert made.idle_bytes >= 8 * LARGE
    assert address(made.empty(LARGE + LARGE // 16, "third")) == where  # and a little more fits


def test_small_vectors_are_not_kept() -> None:
    made = RecycledVectors()
    assert made.empty(LARGE - 1, "small").base is None
    assert made.empty(0, "none").shape == (0,)
    assert made.idle_bytes == 0


@pytest.mark.parametrize("sizes", [(10 * LARGE, LARGE), (LARGE, 10 * LARGE)])
def test_the_smallest_memory_that_fits_is_taken(sizes: tuple[int, int]) -> None:
    made = RecycledVectors()
    first, second = (made.empty(size, "vector") for size in sizes)
    where = address(min(first, second, key=len))
    del first
    del second
    assert address(made.empty(LARGE, "small")) == where


def test_memory_that_is_too_small_makes_room() -> None:
    made = RecycledVectors()
    made.empty(LARGE, "small")
    made.empty(10 * LARGE, "large")
    assert made.idle_bytes == 8 * (10 * LARGE + 10 * LARGE // 8)


def test_no_more_than_so_many_are_kept() -> None:
    made = RecycledVectors()
    held = [made.empty(LARGE, "vector") for _ in range(3 * recycled._MOST)]
    assert len({address(one) for one in held}) == len(held)
    held.clear()
    assert made.idle_bytes == recycled._MOST * 8 * (LARGE + LARGE // 8)


def test_memory_that_is_refused_is_named() -> None:
    with pytest.raises(OutOfMemoryError, match="no memory for 2\\^59 edges"):
        RecycledVectors().empty(1 << 59, "2^59 edges")


@examples(30)
@given(
    st.lists(st.tuples(st.integers(1, 3 * LARGE), st.booleans(), st.integers(0, 12)), max_size=40)
)
def test_no_two_vectors_in_use_share_memory(steps: list[tuple[int, bool, int]]) -> None:
    made = RecycledVectors()
    held: list[tuple[np.ndarray, int]] = []
    for number, (count, only_a_part, drop) in enumerate(steps):
        vector = made.empty(count, "vector")
        vector[:] = number
        held.append((vector[count // 2 :] if only_a_part else vector, number))
        del vector
        if drop < len(held):
            held.pop(drop)
        assert all((one == mark).all() for one, mark in held)


def test_samples_that_are_kept_stay_as_they_are() -> None:
    rng = np.random.default_rng(3)
    graph = Graph.from_edges(4000, *rng.integers(0, 4000, (2, 60_000)))
    sampler = NeighborSampler(graph, [15, 10], disjoint=True)
    seeds = [rng.integers(0, 4000, 128) for _ in range(24)]
    kept = [sampler.sample(ids, key=i) for i, ids in enumerate(seeds)]
    assert kept[0].row.nbytes >= LARGE
    for i, sample in enumerate(kept):
        again = NeighborSampler(graph, [15, 10], disjoint=True).sample(seeds[i], key=i)
        assert_same_subgraph(sample, again)


def test_vectors_may_go_in_other_threads() -> None:
    made = RecycledVectors()
    ready = queue.Queue[Any]()

    def consume() -> None:
        while (vector := ready.get()) is not None:
            assert (vector == vector[0]).all()
            del vector

    with ThreadPoolExecutor(1) as pool:
        consuming = pool.submit(consume)
        for number in range(300):
            vector = made.empty(LARGE + number, "vector")
            vector[:] = number
            ready.put(vector)
            del vector
        ready.put(None)
        consuming.result()
