"""Samplers of live graphs: each sample is of the last commit, and between two nothing is kept."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
from support.processes import in_fork
from support.threads import running

from aethergraph import DynamicGraph, NeighborSampler
from aethergraph.errors import AetherError
from aethergraph.sampling.engine import NativeEngine


def grown(graph: DynamicGraph, seed: int, count: int = 200) -> None:
    ends = np.random.default_rng(seed).integers(0, graph.num_nodes, (2, count))
    graph.insert_edges(*ends)


def same(one: object, two: object, names: tuple[str, ...] = ("node", "row", "col", "edge")) -> None:
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def engine_of(sampler: NeighborSampler) -> NativeEngine[object]:
    assert isinstance(sampler.engine, NativeEngine)
    return sampler.engine


def test_each_sample_is_of_the_last_commit() -> None:
    graph = DynamicGraph(50, 64, order="time")
    sampler = NeighborSampler(graph, [4, 3])
    native = None
    for step in range(12):
        grown(graph, step)
        if step % 3 == 2:
            graph.add_nodes(10)
        seeds = np.arange(graph.num_nodes)
        drawn = sampler.sample(seeds, key=step)
        same(drawn, NeighborSampler(graph.snapshot(), [4, 3]).sample(seeds, key=step))
        assert graph.stats().snapshots == 0
        kept = engine_of(sampler)._idle[0]
        assert native is None or native is kept
        assert kept.own_lists is not None
        native = kept


def test_merging_and_reopening_go_on_elsewhere(tmp_path: Path) -> None:
    graph = DynamicGraph.open(tmp_path / "g", 50, 64, order="time", durability="none")
    sampler = NeighborSampler(graph, [4, 3])
    for step in range(4):
        grown(graph, step)
        seeds = np.arange(50)
        same(
            sampler.sample(seeds, key=step),
            NeighborSampler(graph.snapshot(), [4, 3]).sample(seeds, key=step),
        )
        graph.merge()
        gc.collect()
        graph.stats()
        assert not graph._store.live._former  # what rests does not keep the memory before
    graph.close()
    with pytest.raises(AetherError):
        sampler.sample([0], key=1)


def test_a_block_reads_what_a_merge_has_made(tmp_path: Path) -> None:
    """The sampler rests over memory that the merge has given up."""
    graph = DynamicGraph.open(tmp_path / "g", 50, 64, durability="none", huge_pages=False)
    grown(graph, 1)
    sampler = NeighborSampler(graph, [4, 3])
    first = sampler.sample(range(50), key=1)
    graph.merge()
    gc.collect()
    graph.stats()
    assert not graph._store.live._former
    with graph.reading():
        same(sampler.sample(range(50), key=1), first)
    same(sampler.sample(range(50), key=1), first)
    graph.close()


@pytest.mark.forks
def test_a_fork_in_the_middle_of_following_a_merge(tmp_path: Path) -> None:
    """The child has a copy of the lock that a thread of its parent had."""
    graph = DynamicGraph.open(tmp_path / "g", 50, 64, durability="none", huge_pages=False)
    grown(graph, 1)
    reader = DynamicGraph.attach(tmp_path / "g")
    graph.merge()
    graph.insert_edge(1, 2)
    with reader._store.live._following:
        assert in_fork(lambda: reader.num_edges == reader.snapshot().num_edges > 0) is True
    assert reader.num_edges == graph.num_edges
    graph.close()


def test_samples_of_a_pinned_commit_leave_its_snapshot_alone() -> None:
    graph = DynamicGraph(50, 64, order="time")
    grown(graph, 1)
    sampler, seeds = NeighborSampler(graph, [4, 3]), np.arange(50)
    first = sampler.sample(seeds, key=1)
    with graph._store.live.reading():
        before = sampler.sample(seeds, key=1)
        grown(graph, 2)
        same(sampler.sample(seeds, key=1), before)
        same(before, first)
        assert graph.stats().snapshots == 1
    after = sampler.sample(seeds, key=1)
    same(after, NeighborSampler(graph.snapshot(), [4, 3]).sample(seeds, key=1))
    edges = after.edge[:3]
    without = sampler.sample(seeds, key=1, exclude=edges)
    assert not np.isin(without.edge, edges).any()
    same(sampler.sample(seeds, key=1), after)
    assert graph.stats().snapshots == 0


def test_full_snapshots_fail_the_sample_and_no_later_one() -> None:
    graph = DynamicGraph(50, 64, order="time")
    grown(graph, 1)
    sampler = NeighborSampler(graph, [4, 3])
    sampler.sample([0], key=1)
    held = [graph.snapshot() for _ in range(256)]
    with pytest.raises(AetherError):
        sampler.sample([0], key=1)
    del held
    sampler.sample([0], key=1)
    assert engine_of(sampler).num_idle == 1


def test_another_graph_is_not_kept_by_what_rests() -> None:
    graph, other = DynamicGraph(50, 64, order="time"), DynamicGraph(30, 64, order="time")
    grown(graph, 1)
    grown(other, 2)
    sampler, seeds = NeighborSampler(graph, [4, 3]), np.arange(30)
    sampler.sample(seeds, key=1)
    gone = weakref.ref(graph._store.live._handle)
    sampler.retarget(other)
    graph.close()
    del graph
    gc.collect()
    assert gone() is None
    same(
        sampler.sample(seeds, key=1), NeighborSampler(other.snapshot(), [4, 3]).sample(seeds, key=1)
    )


def test_threads_beside_a_writer() -> None:
    graph = DynamicGraph(50, 64, order="time")
    grown(graph, 0)
    sampler, seeds = NeighborSampler(graph, [-1]), np.arange(50)

    def read() -> None:
        for _ in range(200):
            drawn = sampler.sample(seeds, key=1)
            # A commit has 200 edges.
            assert len(drawn.edge) % 200 == 0
            np.testing.assert_array_equal(np.sort(drawn.edge), np.arange(len(drawn.edge)))

    with running(read, read, read):
        for step in range(1, 60):
            grown(graph, step)
    assert graph.stats().snapshots == 0
