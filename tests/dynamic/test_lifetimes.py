"""Live graphs, snapshots and what is made of them may go in any order."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.live import Form, Model, check, insert, make_live, random_edges

from aethergraph import DynamicGraph, NeighborSampler, errors

FORM = Form(order="time", timed=True, noted=True)


def filled(**options: Any) -> tuple[DynamicGraph, Model]:
    """Return a live graph of 10 nodes and 200 edges, and what it holds."""
    graph, model = make_live(FORM, 10, **options), Model(FORM, 10)
    edges = random_edges(10, 200, seed=1)
    assert insert(graph, FORM, edges) == model.insert(edges)
    model.rows = np.random.default_rng(2).random((10, 2)).tolist()
    graph.features = np.array(model.rows)
    return graph, model


def test_what_was_taken_of_a_snapshot_outlives_it() -> None:
    graph, model = filled()
    snapshot = graph.snapshot()
    rows, topology = snapshot.features, snapshot.topology("csc")
    sampler = NeighborSampler(snapshot, [-1])
    degrees, expected = snapshot.in_degrees(), sampler.sample([3], 1)
    snapshot.close()
    with pytest.raises(errors.ClosedError):
        snapshot.in_degrees()
    del snapshot
    graph.close()
    del graph
    gc.collect()
    assert rows is not None
    assert rows.gather(range(10)).tolist() == model.rows
    assert topology.degrees(None).tolist() == degrees.tolist()
    assert sampler.sample([3], 1).edge.tolist() == expected.edge.tolist()


def test_descriptors_and_memory_are_given_back() -> None:
    filled()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        graph, _ = filled()
        graph.snapshot()
        graph.close()
    del graph
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_closed_graph_says_so() -> None:
    graph, _ = filled()
    graph.close()
    graph.close()
    calls: list[Callable[[], Any]] = [
        lambda: graph.num_nodes,
        lambda: graph.num_edges,
        lambda: graph.commit,
        lambda: graph.node_attrs,
        lambda: graph.features,
        lambda: graph.edge_attrs["note"].shape,
        lambda: graph.has_edge(0, 1),
        lambda: graph.in_degrees(),
        lambda: graph.topology("csc"),
        lambda: graph.insert_edge(0, 1, time=1, edge_attrs={"note": 1}),
        lambda: graph.insert_edges([0], [1], time=[1], edge_attrs={"note": [1]}),
        lambda: graph.delete_edges([0], [1]),
        lambda: graph.delete_edge(0, 1),
        lambda: graph.add_nodes(1, x=[[1.0, 2.0]]),
        lambda: graph.update_nodes([1], x=[[1.0, 2.0]]),
        lambda: graph.transaction().__enter__(),
        lambda: graph.snapshot(),
        lambda: graph.stats(),
        lambda: graph.reclaim(),
        lambda: graph.to_graph(),
        lambda: graph.__enter__(),
        lambda: NeighborSampler(graph, [2]),
    ]
    for call in calls:
        with pytest.raises(errors.ClosedError, match="the live graph was closed"):
            call()
    assert repr(graph) == "DynamicGraph(closed)"
    plain = make_live(Form(), 3)
    plain.close()
    with pytest.raises(errors.ClosedError, match="the live graph was closed"):
        plain.insert_edge(0, 1)


def test_a_sampler_of_a_graph_that_was_closed_meanwhile() -> None:
    graph, _ = filled()
    sampler = NeighborSampler(graph, [2])
    sampler.sample([1], 0)
    graph.close()
    with pytest.raises(errors.ClosedError, match="the live graph was closed"):
        sampler.sample([1], 0)


def test_closing_inside_a_transaction_commits_nothing() -> None:
    graph, model = filled()
    snapshot = graph.snapshot()
    with pytest.raises(errors.InvalidArgumentError, match="after its end"), graph.transaction():
        graph.insert_edge(1, 2, time=3, edge_attrs={"note": 4})
        graph.close()
    check(snapshot, model)
    check(graph, model)


def test_all_snapshots_that_there_can_be() -> None:
    graph, model = filled()
    held = [graph.snapshot() for _ in range(256)]
    assert graph.stats().snapshots == 256
    with pytest.raises(errors.LimitError, match=rf"256 snapshots .*process {os.getpid()} has 256"):
        graph.snapshot()
    with graph.reading(held[0]):  # readers can share one
        sampled = NeighborSampler(graph, [-1]).sample([1], key=0)
        assert len(sampled.edge) == len(held[0].in_edges(1))
    for snapshot in held[::50]:
        assert snapshot.num_edges == len(model.edges)
    more = random_edges(10, 3, seed=3)
    assert insert(graph, FORM, more) == model.insert(more)  # the writer goes on
    for snapshot in held[:4]:
        snapshot.close()
    check(graph, model)
    del held
    gc.collect()
    assert graph.stats().snapshots == 0
