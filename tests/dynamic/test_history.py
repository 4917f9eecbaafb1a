"""A live graph as it was at earlier commits, from its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import DynamicGraph, DynamicHeteroGraph, NeighborSampler
from aethergraph.dynamic.history import History
from aethergraph.errors import ClosedError, MissingFileError, OutOfRangeError

pytestmark = pytest.mark.any_python

NODES = 80
KINDS = [("a", "to", "b"), ("b", "to", "a")]


def step(graph: DynamicGraph, rng: Any, at: int) -> None:
    """Commit edges, a deletion, changed rows, and now and then nodes."""
    with graph.transaction():
        src, dst = rng.integers(0, NODES, (2, 30))
        graph.insert_edges(
            src, dst, time=np.full(30, at), weight=rng.random(30, dtype=np.float32),
            edge_attrs={"w": rng.random((30, 2))},
        )  # fmt: skip
        graph.delete_edge(int(src[0]), int(dst[0]))
        graph.update_nodes(rng.permutation(NODES)[:50], x=rng.random((50, 3), dtype=np.float32))
        if at % 4 == 3:
            graph.add_nodes(2, x=np.full((2, 3), at, np.float32))


def facts(now: Any) -> list[Any]:
    """Return all that a snapshot has: edges with ids, values and rows, and what it draws."""
    src, dst, ids = now.edge_list()
    values = [rows.gather(ids) for rows in now.edge_values.values()]
    rows = [now.node_attrs["x"].gather(np.arange(now.num_nodes)), now.edge_attrs["w"].gather(ids)]
    sub = NeighborSampler(now, [4, 4], weight_attr="edge_weight").sample(range(20), 3)
    return [src, dst, ids, *values, *rows, sub.node, sub.edge]


def equal(mine: list[Any], its: list[Any]) -> bool:
    return len(mine) == len(its) and all(map(np.array_equal, mine, its))


@pytest.mark.parametrize("merge_after", [None, 9])
def test_every_commit(tmp_path: Path, merge_after: int | None) -> None:
    graph = DynamicGraph.open(
        tmp_path / "g", NODES, 16, order="time", edge_time="int64", edge_weight="float32",
        edge_attrs={"w": ((2,), "float64")}, durability="none", max_nodes=200,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    graph.node_attrs["x"] = rng.random((NODES, 3), dtype=np.float32)
    seen: dict[int, list[Any]] = {}
    for at in range(24):
        if at == merge_after:
            graph.merge()
            seen = {}
        step(graph, rng, at)
        with graph.snapshot() as now:
            assert now.lsn == graph.lsn not in seen
            seen[now.lsn] = facts(now)
    other = DynamicGraph.attach(tmp_path / "g").snapshot()  # readers know the number, too
    assert other.lsn == graph.lsn
    with History(tmp_path / "g", 16) as history:  # the writer goes on
        for lsn in [*seen, *list(seen)[::5]]:
            then: Any = history.at(lsn)
            assert then.lsn == lsn and equal(facts(then), seen[lsn]), lsn
        step(graph, rng, 99)
        assert equal(facts(history.last()), facts(graph.snapshot()))
        assert history.first == (0 if merge_after is None else min(seen) - 1)
        for wrong in (10**6, -1, history.first - 1):
            with pytest.raises((OutOfRangeError, ValueError)):
                history.at(wrong)
        graph.merge()
        begin = graph.lsn
        step(graph, rng, 100)
        with pytest.raises(OutOfRangeError, match=r"merging gave up|was merged meanwhile"):
            history.at(min(seen))
        assert history.at(begin).lsn == begin
        assert equal(facts(history.last()), facts(graph.snapshot()))
    with pytest.raises(ClosedError):
        history.at(begin)
    with pytest.raises(MissingFileError):
        History(tmp_path / "none")


def test_many_types(tmp_path: Path) -> None:
    graph = DynamicHeteroGraph.open(
        tmp_path / "g", {"a": 30, "b": 40}, KINDS, 16, durability="none"
    )
    rng = np.random.default_rng(0)
    graph["a"].attrs["x"] = rng.random((30, 2))
    seen = {}
    for _ in range(10):
        for kind in KINDS:
            graph[kind].insert(*rng.integers(0, 30, (2, 20)))
        graph["a"].update([1, 2], x=rng.random((2, 2)))
        now = graph.snapshot()
        edges = [now[kind].edge_list() for kind in KINDS]
        seen[now.lsn] = [*edges, now["a"].attrs["x"].read(0, 30)]
    graph.close()
    with History(tmp_path / "g", 16) as history:
        for lsn, (one, other, rows) in seen.items():
            then: Any = history.at(lsn)
            for kind, expected in zip(KINDS, (one, other), strict=True):
                assert all(map(np.array_equal, then[kind].edge_list(), expected))
            assert (then["a"].attrs["x"].read(0, 30) == rows).all()


def test_more_changes_of_rows_than_there_is_room_for(tmp_path: Path) -> None:
    """A graph opens again whatever its rows have been through."""
    count = 1000
    graph = DynamicGraph.open(tmp_path / "g", count, 8, durability="none", max_nodes=count)
    graph.node_attrs["x"] = np.zeros((count, 1))
    room = graph._store.node_rows["node"]["x"]._most_versions // count
    for at in range(2 * room):
        graph.update_nodes(range(count), x=np.full((count, 1), at))
    graph.close()
    again = DynamicGraph.open(tmp_path / "g", arena_mb=8)
    assert (again.node_attrs["x"].gather([0, 3]) == 2 * room - 1).all()
    again.close()
    with History(tmp_path / "g", 8) as history:
        then: Any = history.at(11)
        assert (then.node_attrs["x"].gather([0]) == 9).all()


def test_rows_that_commits_change(tmp_path: Path) -> None:
    with DynamicGraph.open(tmp_path / "g", 5, 8, durability="sync") as graph:
        graph.node_attrs["x"] = np.zeros((5, 1))
        with History(tmp_path / "g", 8) as history:
            for nodes in ([3], [1, 3], [0]):
                before: Any = history.last()
                graph.update_nodes(nodes, x=np.ones((len(nodes), 1)))
                then: Any = history.last()
                assert then.node_attrs["x"].changed(before.commit).tolist() == nodes


def test_a_merge_between_listing_the_log_and_opening_it(tmp_path: Path) -> None:
    graph = DynamicGraph.open(tmp_path / "g", NODES, durability="none")
    graph.insert_edge(1, 2)
    history = History(tmp_path / "g")
    assert history.at(1).num_edges == 1
    graph.insert_edge(2, 3)
    segments = sorted((tmp_path / "g").glob("wal-*.log"))
    graph.merge()
    graph.close()
    for path in (tmp_path / "g").glob("wal-*.log"):
        path.unlink()
    for path in segments:  # a name that is listed, and cannot be opened
        path.symlink_to(tmp_path / "gone")
    with pytest.raises(OutOfRangeError, match="was merged meanwhile"):
        history.at(2)
    history.close()


def test_the_places_of_streams(tmp_path: Path) -> None:
    graph = DynamicGraph.open(tmp_path / "g", NODES, 8, durability="none")
    for at in range(3):
        if at == 1:
            graph.merge()
        with graph.transaction():
            graph.set_offset("clicks", 4, 10 * at)
            graph.set_watermark("clicks", at)
    graph.close()
    with History(tmp_path / "g", 8) as history:
        assert history.streams == {"clicks": {4: 0}}
        history.last()
        assert history.streams == {"clicks": {4: 20}}
    with pytest.raises(ClosedError):
        _ = history.streams
