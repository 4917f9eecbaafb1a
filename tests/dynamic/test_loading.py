"""Loaders over live graphs: each batch is a sample of one commit, whoever writes meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.live import Writer
from support.threads import ahead_of

from aethergraph import DynamicGraph, FeatureTable, SubgraphLoader
from aethergraph.loading import Ahead, Order


def live(nodes: int = 30, **options: Any) -> DynamicGraph:
    """Return a live graph with rows "x"."""
    graph = DynamicGraph(nodes, 16, order="time", max_nodes=2000, **options)
    graph.features = np.zeros((nodes, 1))
    return graph


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_every_batch_is_a_sample_of_one_commit(threads: int) -> None:
    graph = live()
    loader = SubgraphLoader(
        graph, [-1], batch_size=7, ahead=ahead_of(threads), shuffle=True, seed=1
    )
    batches = []
    with Writer(graph) as writer:
        while not writer.is_done:
            batches += list(loader)
    before = 0
    for batch in batches:
        sub: Any = batch.subgraph
        commits = writer.check(batch.seeds, sub.edge)
        if threads < 2:  # batches of one thread are of ascending commits
            assert max(commits) >= before
            before = min(c for c in commits if c >= before) if before else min(commits)
        ends = [writer.history[commits[0]][edge] for edge in sub.edge.tolist()]
        found = zip(sub.node[sub.row].tolist(), sub.node[sub.col].tolist(), strict=True)
        assert list(found) == ends
        assert batch.x is not None and len(batch.x) == len(sub.node)


def test_an_epoch_of_a_snapshot_is_of_its_commit() -> None:
    graph = live()
    with Writer(graph) as writer:
        snapshot = graph.snapshot()
        rows = snapshot.node_attrs["x"].gather(range(snapshot.num_nodes))
        batches = [b for _ in range(5) for b in SubgraphLoader(snapshot, [-1], batch_size=8)]
    for batch in batches:
        sub: Any = batch.subgraph
        assert snapshot.commit in writer.check(batch.seeds, sub.edge)
        np.testing.assert_array_equal(batch.x, rows[sub.node])


@pytest.mark.parametrize("snapshot", ["batch", "epoch"])
@pytest.mark.parametrize("plan", [0, 3])
def test_rows_are_of_the_commit_of_the_edges(tmp_path: Path, plan: int, snapshot: Any) -> None:
    """Also where samples wait until the rows of several are planned."""
    np.save(tmp_path / "z.npy", np.zeros((60, 200), np.float32))
    source = {"z": FeatureTable.load(tmp_path / "z.npy", "uring", memory_budget="1M")}
    graph, seeds = live(60), np.arange(40)
    graph.insert_edges(np.full(40, 40), seeds)
    loader = SubgraphLoader(
        graph, [-1], seeds, batch_size=4, feature_source=source, ahead=Ahead(plan=plan),
        order=Order(snapshot=snapshot),
    )  # fmt: skip
    for number, batch in enumerate(loader):
        assert batch.x is not None
        assert np.unique(batch.x).tolist() == [batch.subgraph.node.max() - 40]
        with graph.transaction():  # commit k: edges from node 40 + k, and rows of k
            graph.delete_edges(np.full(40, 40 + number), seeds)
            graph.insert_edges(np.full(40, 41 + number), seeds)
            graph.update_nodes(np.arange(60), x=np.full((60, 1), number + 1))


def test_samples_of_a_plan_are_of_one_commit(tmp_path: Path) -> None:
    """There are fewer snapshots than samples that a plan may have."""
    np.save(tmp_path / "z.npy", np.zeros((30, 200), np.float32))
    source = {"z": FeatureTable.load(tmp_path / "z.npy", "uring", memory_budget="1M")}
    graph = live(30)
    loader = SubgraphLoader(
        graph, [-1], np.arange(30).repeat(20), batch_size=1, feature_source=source,
        ahead=Ahead(threads=2, plan=200),
    )  # fmt: skip
    commits = []
    for number, batch in enumerate(loader):
        assert graph.stats().snapshots <= 8  # of two plans, and of threads
        assert batch.x is not None
        commits.append(float(batch.x.max()))
        if number < 10:
            graph.update_nodes(np.arange(30), x=np.full((30, 1), number + 1))
    assert commits == sorted(commits) and 2 <= len(set(commits)) <= 3
    assert commits[:200] == [0.0] * 200


def test_the_graph_grows_between_epochs_and_during_one() -> None:
    graph = live(10)
    loader = SubgraphLoader(graph, [-1], batch_size=4)
    graph.insert_edges([0, 1], [1, 2])
    first = list(loader)
    assert [len(batch.seeds) for batch in first] == [4, 4, 2]
    edges = []
    for number, batch in enumerate(SubgraphLoader(graph, [-1], batch_size=1, ahead=0)):
        graph.insert_edge(0, min(number + 1, 9))
        edges.append(len(batch.subgraph.edge))  # type: ignore[union-attr]
    assert edges == [0, 2, 2, *[1] * 7]
    graph.add_nodes(3, x=np.ones((3, 1)))
    graph.insert_edges([12], [0])
    seeds = np.concatenate([batch.seeds for batch in SubgraphLoader(graph, [1], batch_size=5)])
    assert sorted(seeds.tolist()) == list(range(13))
    (last,) = SubgraphLoader(graph, [-1], [0], batch_size=5)
    assert last.x is not None
    assert last.subgraph.node.tolist() == [0, 12] and last.x.tolist() == [[0.0], [1.0]]
