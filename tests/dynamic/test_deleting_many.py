"""Batches of deletions from one long list: what they leave, and that they read it once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples

from aethergraph import DynamicGraph

HUB = 0
LEAVES = 20_000


class Undone(Exception):
    """Error that a transaction is left with, to undo it."""


def star(
    order: Any, layout: Any, into_hub: bool, count: int = LEAVES, times: int = 1
) -> DynamicGraph:
    """Return a graph with a hub, and ``times`` edges between it and each other node."""
    graph = DynamicGraph(count + 1, 64, order=order, layout=layout, huge_pages=False)
    ends = np.tile(np.arange(1, count + 1), times)
    graph.insert_edges(*both(ends, into_hub))
    return graph


def both(ends: Any, into_hub: bool) -> tuple[Any, Any]:
    hub = np.full(len(ends), HUB)
    return (ends, hub) if into_hub else (hub, ends)


@examples(20)
@given(
    order=st.sampled_from(["id", "time"]),
    layout=st.sampled_from(["csc", "csr", "both"]),
    into_hub=st.booleans(),
    by_id=st.booleans(),
    times=st.integers(1, 2),
    count=st.integers(1, 3000),
    undone=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_what_is_left(
    order: str, layout: str, into_hub: bool, by_id: bool, times: int, count: int, undone: bool,
    seed: int,
) -> None:  # fmt: skip
    graph = star(order, layout, into_hub, 4000, times)
    src, dst, ids = graph.edge_list()
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, 4001, count)  # some twice, and the hub itself, which has no edge to it
    edges = rng.integers(0, 4000 * times if order == "time" else 4000, count)
    right = rng.random(count) < 0.8
    other = src if into_hub else dst
    place = np.argsort(ids)[edges]
    ends[right] = other[place][right]
    pairs = set(zip(ends.tolist(), edges.tolist(), strict=True))
    gone = np.array(
        [(e, i) in pairs for e, i in zip(other.tolist(), ids.tolist(), strict=True)]
        if by_id
        else np.isin(other, ends)
    )
    before = graph.snapshot()
    with contextlib.suppress(Undone), graph.transaction():
        found = graph.delete_edges(*both(ends, into_hub), edge_ids=edges if by_id else None)
        assert found == gone.sum()
        if undone:
            raise Undone
    kept = np.ones_like(gone) if undone else ~gone
    for have, wanted in zip(graph.edge_list(), (src, dst, ids), strict=True):
        np.testing.assert_array_equal(have, wanted[kept])
    for have, wanted in zip(before.edge_list(), (src, dst, ids), strict=True):
        np.testing.assert_array_equal(have, wanted)
    assert graph.num_edges == kept.sum()


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@pytest.mark.parametrize(("order", "by_id"), [("id", False), ("time", False), ("time", True)])
def test_a_long_list_is_read_once(order: str, by_id: bool) -> None:
    """A list that was read anew for each pair took 1,000 times as long as finding the edges."""
    count, some = 200_000, 10_000
    graph = star(order, "both", True, count)
    deleting, finding = [], []
    for i in range(3):
        ends, hub = both(np.arange(1, some + 1) + i * some, True)
        finding.append(seconds(lambda e=ends, h=hub: graph.snapshot().edges_between(e, h)))
        ids = ends - 1 if by_id else None
        deleting.append(seconds(lambda e=ends, h=hub, j=ids: graph.delete_edges(e, h, edge_ids=j)))
    assert graph.num_edges == count - 3 * some
    assert min(deleting) < 50 * min(finding)
