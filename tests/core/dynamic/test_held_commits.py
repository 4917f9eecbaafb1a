"""Blocks of ``reading()``: what they hold, for which threads, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, SubgraphLoader
from aethergraph.errors import ClosedError, InvalidArgumentError
from aethergraph.loading import prefetch_map


def live(**options: Any) -> DynamicGraph:
    """Return a live graph whose node i has an edge to itself, and the row 0."""
    graph = DynamicGraph(100, 16, huge_pages=False, **options)
    graph.features = np.zeros((100, 1), np.float32)
    graph.insert_edges(np.arange(100), np.arange(100))
    return graph


def empty(graph: DynamicGraph) -> None:
    """Take all edges away, and make all rows 1."""
    graph.delete_edges(range(100), range(100))
    graph.update_nodes(range(100), x=np.ones((100, 1), np.float32))


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_a_loader_sees_the_commit_of_the_block_it_begins_in(threads: int) -> None:
    graph = live()
    loader = SubgraphLoader(graph, [2], np.arange(100), batch_size=10, num_threads=threads)

    def seen(batches: Iterator[Any]) -> set[tuple[int, float]]:
        return {(len(b.subgraph.edge), float(b.x.max())) for b in batches}

    with graph.reading():
        empty(graph)
        assert seen(iter(loader)) == {(10, 0.0)}
        batches = iter(loader)
        next(batches)
    if threads:
        assert seen(batches) == {(10, 0.0)}
    assert seen(iter(loader)) == {(0, 1.0)}


def test_threads_see_what_their_consumer_sees() -> None:
    one, other = live(), live()
    with one.reading(), other.reading():
        empty(one)
        empty(other)

        def count(graph: DynamicGraph) -> int:
            return graph.num_edges

        assert list(prefetch_map(count, [one, other])) == [100, 100]
    assert list(prefetch_map(count, [one, other])) == [0, 0]


def closed(graph: DynamicGraph) -> Any:
    snapshot = graph.snapshot()
    snapshot.close()
    return snapshot


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda graph: live().snapshot(), InvalidArgumentError, "snapshot of another graph"),
        (lambda graph: 5, InvalidArgumentError, "snapshot is 5"),
        (lambda graph: graph, InvalidArgumentError, "give one of this graph"),
        (closed, ClosedError, "was closed"),
    ],
)
def test_what_is_no_commit_of_the_graph_is_refused(
    make: Callable[[DynamicGraph], Any], error: type[Exception], match: str
) -> None:
    graph = live()
    with pytest.raises(error, match=match), graph.reading(make(graph)):
        pass
    assert graph.num_edges == 100
