"""States of SubgraphLoader: the batches that were left, elsewhere, and refusals of others."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import make_graph
from support.strategies import assert_same_subgraph
from support.threads import ahead_of

from aethergraph import DynamicGraph, Graph, NeighborSampler, SubgraphLoader
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading import Ahead, Order, partition_aligned_batches
from aethergraph.loading.batch import Batch

COUNT = 300  # seeds; 10 batches


@pytest.fixture(scope="module")
def graph() -> Graph:
    graph = make_graph(COUNT, 4000)
    graph.features = np.random.default_rng(0).random((COUNT, 5), dtype=np.float32)
    return graph


def make_loader(graph: Any, **options: Any) -> SubgraphLoader:
    given = {"batch_size": 31, "shuffle": True, "seed": 3}
    return SubgraphLoader(graph, [4, 3], **(given | options))


def assert_same(found: list[Batch], wanted: list[Batch]) -> None:
    assert len(found) == len(wanted)
    for batch, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(batch.index, other.index)
        assert_same_subgraph(batch.subgraph, other.subgraph)
        if other.x is not None:
            np.testing.assert_array_equal(batch.x, other.x)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": False},
        {"drop_last": True},
        {"order": Order(partitions=np.arange(COUNT) // 25)},
    ],
    ids=["shuffled", "in order", "drop_last", "partitions"],
)
def test_a_loader_goes_on_after_every_batch(graph: Graph, options: dict[str, Any]) -> None:
    whole = make_loader(graph, **options)
    epochs = [list(whole) for _ in range(3)]
    running = make_loader(graph, **options)
    running.set_epoch(1)
    batches = iter(running)
    for done in range(len(running) + 1):
        if done:
            next(batches)
        state = json.loads(json.dumps(running.state_dict()))
        other = make_loader(graph, **options, ahead=ahead_of(done % 3, 1 + done))
        other.load_state_dict(state)
        assert other.state_dict() == state
        assert len(json.dumps(state)) < 2000
        left = epochs[1][done:]
        assert_same(list(other), left or epochs[2])
        if left:
            assert_same(list(other), epochs[2])


def test_set_epoch_of_the_same_epoch_keeps_the_place(graph: Graph) -> None:
    loader, wanted = make_loader(graph), list(make_loader(graph))
    list(islice(loader, 4))
    state = loader.state_dict()
    for epoch, left in ((0, wanted[4:]), (1, None)):
        other = make_loader(graph)
        other.load_state_dict(state)
        other.set_epoch(epoch)
        batches = list(other)
        if left is None:
            assert len(batches) == 10
        else:
            assert_same(batches, left)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 1), (2, 4), (4, 3)])
def test_another_number_of_ranks_deals_the_rest(graph: Graph, before: int, after: int) -> None:
    wanted = list(make_loader(graph))
    first = make_loader(graph, order=Order(0, before))
    list(islice(first, 2))
    state = first.state_dict()
    assert state["next"] == 2 * before
    dealt = []
    for rank in range(after):
        loader = make_loader(graph, order=Order(rank, after, "keep"))
        loader.load_state_dict(state)
        dealt.append(list(loader))
    left = wanted[2 * before :]
    assert_same([dealt[i % after][i // after] for i in range(len(left))], left)


def test_the_union_of_the_ranks_is_the_epoch(graph: Graph) -> None:
    wanted = list(make_loader(graph))
    for last, length in (("repeat", 3), ("drop", 2), ("keep", 3)):
        loaders = [make_loader(graph, order=Order(rank, 4, last)) for rank in range(4)]
        dealt = [list(loader) for loader in loaders]
        assert [len(own) for own in dealt] == [len(loader) for loader in loaders]
        assert len(dealt[0]) == length
        rounds = [own[i] for i in range(length) for own in dealt if i < len(own)]
        extra = wanted[:2] if last == "repeat" else []
        assert_same(rounds, wanted[: len(rounds)] + extra)


def test_rounds_that_drop_all_warn(graph: Graph) -> None:
    """Ten batches for eleven ranks are no round."""
    loader = make_loader(graph, order=Order(0, 11, "drop"))
    with pytest.warns(UserWarning, match="leaves every epoch empty: it has 10 batches, fewer than"):
        assert list(loader) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(make_loader(graph, order=Order(0, 10, "drop")))) == 1


def test_dropped_rounds_are_not_gone_on_with(graph: Graph) -> None:
    """Two batches are left, and four ranks cannot share them: the next epoch comes."""
    first = make_loader(graph)
    list(islice(first, 8))
    loader = make_loader(graph, order=Order(3, 4, "drop"))
    loader.load_state_dict(first.state_dict())
    assert loader.state_dict()["epoch"] == 1
    whole = make_loader(graph)
    whole.set_epoch(1)
    assert_same(list(loader), list(whole)[3:8:4])


def test_batches_made_ahead_do_not_count(graph: Graph) -> None:
    loader = make_loader(graph, ahead=Ahead(6, threads=2))
    with iter(loader) as batches:  # type: ignore[attr-defined]
        next(batches)
        assert loader.state_dict()["next"] == 1


def test_a_graph_in_memory_and_its_file_are_one(graph: Graph, tmp_path: Path) -> None:
    graph.save(tmp_path / "graph.aeg")
    loader = make_loader(graph)
    list(islice(loader, 3))
    for options in ({}, {"storage": "uring", "memory_budget": "24M"}):
        other = make_loader(Graph.load(tmp_path / "graph.aeg", **options))
        other.load_state_dict(loader.state_dict())
        assert len(list(other)) == 7


# ---- refusals --------------------------------------------------------------------------------


def change(**parts: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: {**state, **parts}


@pytest.mark.own_share
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda state: None, "state must be what state_dict"),
        (lambda state: {}, "state must be what state_dict"),
        (change(version=7), "version 7, this release reads version 1"),
        (lambda state: {k: v for k, v in state.items() if k != "graph"}, "no 'graph'"),
        (change(epoch=-1), r"state\['epoch'\] = -1"),
        (change(next=11), r"state\['next'\] = 11, but an epoch has 10 batches"),
        (change(next="x"), r"state\['next'\] must be an integer"),
        (change(arguments=3), "must hold tables"),
        (change(graph={}), "a graph with edges = 'nothing'"),
    ],
)
def test_damaged_states_are_refused(graph: Graph, damage: Any, message: str) -> None:
    loader = make_loader(graph)
    list(islice(loader, 2))
    before = copy.deepcopy(loader.state_dict())
    with pytest.raises(InvalidArgumentError, match=message):
        loader.load_state_dict(damage(loader.state_dict()))
    assert loader.state_dict() == before


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"batch_size": 30}, "batch_size = '31', this one has '30'"),
        ({"seed": 4}, "seed = '3', this one has '4'"),
        ({"shuffle": False}, "shuffle"),
        ({"drop_last": True}, "drop_last"),
        ({"replace": True}, "replace"),
        ({"seeds": np.arange(COUNT)[::-1]}, "seeds = 'int64"),
        ({"order": Order(partitions=np.zeros(COUNT, np.int64))}, "mix"),
    ],
)
def test_other_arguments_are_refused(graph: Graph, options: dict[str, Any], name: str) -> None:
    loader = make_loader(graph, **options)
    with pytest.raises(InvalidArgumentError, match=name):
        loader.load_state_dict(make_loader(graph).state_dict())


def test_other_fanouts_and_graphs_are_refused(graph: Graph) -> None:
    state = make_loader(graph).state_dict()
    sampler = NeighborSampler(graph, [4, 2])
    with pytest.raises(InvalidArgumentError, match=r"fanouts = '\(4, 3\)', this one has '\(4, 2\)"):
        SubgraphLoader(graph, batch_size=31, shuffle=True, seed=3, sampler=sampler).load_state_dict(
            state
        )
    src, dst = graph.edge_index()
    other = Graph.from_edges(COUNT, np.roll(src, 1), dst)  # of equal sizes
    with pytest.raises(InvalidArgumentError, match="a graph with lists = "):
        make_loader(other).load_state_dict(state)


def test_a_number_of_numpy_is_that_number(graph: Graph) -> None:
    parts = np.arange(COUNT) // 25
    state = make_loader(graph, order=Order(partitions=parts, mix=np.int64(4))).state_dict()
    make_loader(graph, order=Order(partitions=parts, mix=4)).load_state_dict(state)


# ---- live graphs -----------------------------------------------------------------------------


def test_live_graphs_are_told_by_directory_and_commit(tmp_path: Path) -> None:
    src, dst = np.random.default_rng(0).integers(0, COUNT, (2, 4000))
    with DynamicGraph.open(tmp_path / "a.aegd", COUNT) as live:
        live.insert_edges(src, dst)
        loader = make_loader(live, seeds=np.arange(COUNT))
        wanted = list(make_loader(live, seeds=np.arange(COUNT)))
        list(islice(loader, 4))
        state = loader.state_dict()
    with DynamicGraph.open(tmp_path / "a.aegd") as live:
        other = make_loader(live, seeds=np.arange(COUNT))
        other.load_state_dict(state)
        assert_same(list(other), wanted[4:])
        live.insert_edges([1], [2])
        other.load_state_dict(state)  # of an earlier commit: the graph goes on, and so do batches
        later = other.state_dict()
        later["graph"]["lsn"] = str(int(later["graph"]["lsn"]) + 1)
        with pytest.raises(InvalidArgumentError, match="the state is of commit"):
            other.load_state_dict(later)
    with DynamicGraph.open(tmp_path / "b.aegd", COUNT) as live:
        loader = make_loader(live, seeds=np.arange(COUNT))
        with pytest.raises(InvalidArgumentError, match="a graph with live = "):
            loader.load_state_dict(state)


def test_an_epoch_of_one_commit_goes_on_at_that_commit_only(tmp_path: Path) -> None:
    with DynamicGraph.open(tmp_path / "a.aegd", COUNT) as live:
        live.insert_edges(np.arange(COUNT - 1), np.arange(1, COUNT))
        loader = make_loader(live, order=Order(snapshot="epoch"))
        batches = iter(loader)
        next(batches)
        state, old = loader.state_dict(), live.snapshot()
        live.insert_edges([1], [3])
        with pytest.raises(InvalidArgumentError, match=r"an epoch of commit 1 .* which is at 2"):
            loader.load_state_dict(state)  # though its own epoch is of the commit of the state
        list(loader.batches_at(0, [3]))  # of the last commit
        assert loader.state_dict() == state
        with live.reading(old):
            other = make_loader(live, order=Order(snapshot="epoch"))
            other.load_state_dict(state)
            assert len(list(islice(other, 2))) == 2
            assert other.state_dict()["graph"] == state["graph"]


def test_a_commit_in_memory_is_one_of_its_graph_only() -> None:
    def make() -> DynamicGraph:
        live = DynamicGraph(COUNT, 8)
        live.insert_edges(np.arange(COUNT - 1), np.arange(1, COUNT))
        return live

    live = make()
    loader = make_loader(live, order=Order(snapshot="epoch"))
    list(islice(loader, 2))
    state = loader.state_dict()
    other = make_loader(live, order=Order(snapshot="epoch"))
    other.load_state_dict(state)
    assert_same(list(other), list(make_loader(live, order=Order(snapshot="epoch")))[2:])
    with pytest.raises(InvalidArgumentError, match="commit of the same graph only"):
        make_loader(make(), order=Order(snapshot="epoch")).load_state_dict(state)
    live.insert_edges([1], [3])
    with pytest.raises(InvalidArgumentError, match="of a graph in memory, this one is at"):
        other.load_state_dict(state)
    each = make_loader(live)
    list(islice(each, 2))
    state = each.state_dict()
    live.insert_edges([1], [4])
    make_loader(live).load_state_dict(state)  # each batch has a commit of its own


def test_states_of_aligned_batches_are_of_what_has_come() -> None:
    batches = partition_aligned_batches(np.arange(1000) // 50, 64, seed=5)

    def place(**options: Any) -> tuple[int, int]:
        state = batches.state_dict(**options)
        return state["epoch"], state["next"]

    assert place() == place(delivered=0) == (0, 0)
    ahead = iter(batches)
    list(islice(ahead, 5))  # as a loader with workers does before it hands out a batch
    assert place(delivered=2) == (0, 2)
    assert place() == (0, 5)  # what torchdata's loaders keep with each batch
    with pytest.raises(InvalidArgumentError, match="delivered = 6, but only 5 batches"):
        batches.state_dict(delivered=6)
    list(ahead)
    assert [place(delivered=count) for count in (15, 16)] == [(0, 15), (1, 0)]
    batches.load_state_dict(batches.state_dict(delivered=3))
    assert place() == (0, 3)
    list(islice(batches, 2))
    assert place(delivered=1) == (0, 4)
    batches.set_epoch(7)
    assert place() == (7, 0)


def test_aligned_batches_go_on_too_whatever_the_ranks() -> None:
    parts = np.arange(1000) // 50
    whole = list(partition_aligned_batches(parts, 64, seed=5))
    for ranks in ({}, {"rank": 0, "world_size": 2}):
        running = partition_aligned_batches(parts, 64, seed=5, **ranks)
        list(islice(running, 6))
        state = running.state_dict(delivered=4)
        other = partition_aligned_batches(parts, 64, seed=5)
        other.load_state_dict(state)
        assert list(other) == whole[4 * ranks.get("world_size", 1) :]
    with pytest.raises(InvalidArgumentError, match="partitions"):
        partition_aligned_batches(parts[::-1], 64, seed=5).load_state_dict(state)
