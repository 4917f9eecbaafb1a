"""Commits that a server answers from: shared by requests, and given up soon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import comes

from aethergraph import DynamicGraph
from aethergraph.remote.commits import commits_of


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[DynamicGraph]:
    with DynamicGraph.open(tmp_path / "g.aegd", 10, 8, durability="none") as made:
        made.insert_edge(0, 1)
        yield made


def test_requests_share_a_commit(graph: DynamicGraph, tmp_path: Path) -> None:
    """As long as it is the last one; a moment later nothing keeps old versions."""
    commits = commits_of(tmp_path / "g.aegd")
    one = commits.take()
    assert commits.take() is one or commits.take() is commits.take()  # unless the moment is over
    graph.insert_edge(1, 2)
    other = commits.take()
    assert other is not one and other.number == one.number + 1
    assert not one.now.is_last and other.now.is_last
    del one, other
    assert comes(lambda: graph.stats().snapshots == 0)


def test_a_snapshot_is_the_last_one(graph: DynamicGraph) -> None:
    with graph.snapshot() as now:
        assert now.is_last
        graph.insert_edge(1, 3)
        assert not now.is_last
        with graph.snapshot() as after:
            assert after.is_last
        graph.merge()  # goes on in other memory
        assert not now.is_last
    with graph.snapshot() as now:
        assert now.is_last
