"""What is neither a plain nor a typed neighbour sample, of graphs whose lists stay in their file.

Everything is compared with the same graph in memory, whose answers other tests compare with models.
Walks, tables and HGT samples of a larger graph: sampling/test_golden_samples.py.
"""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.containers import damage_section, section_of
from support.strategies import assert_same_subgraph, examples
from support.threads import run_with_each

import aethergraph as ag
from aethergraph import HeteroNeighborSampler, RandomWalker, errors
from aethergraph import _native as native
from aethergraph.sampling.walks import random_fanout

pytestmark = pytest.mark.any_python

BUDGET = "24M"
NODES = 3000


def make_graph(rng: np.random.Generator, num_nodes: int, num_edges: int) -> ag.Graph:
    """A graph with hubs: half of the edges end at a hundredth of the nodes."""
    src = rng.integers(0, num_nodes, num_edges)
    dst = (rng.random(num_edges) ** 6 * num_nodes).astype(np.int64)
    return ag.Graph.from_edges(
        num_nodes, src, dst, layout="both", edge_weight=rng.integers(0, 3, num_edges),
        edge_time=rng.integers(-5, 30, num_edges), node_time=rng.integers(-5, 30, num_nodes),
    )  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("modes") / "graph.aeg"
    make_graph(np.random.default_rng(4), NODES, 60_000).save(path)
    return path


def both(path: Path, **options: Any) -> tuple[ag.Graph, ag.Graph]:
    """The graph in its file, and in memory."""
    paged = ag.Graph.load(path, storage="uring", **{"memory_budget": BUDGET, **options})
    return paged, ag.Graph.load(path, storage="memory")


# ---- walks and tables ---------------------------------------------------------------------------


def test_a_table_of_edges_is_made_of_lists_in_memory_alone(path: Path) -> None:
    paged, memory = both(path)
    assert not RandomWalker(paged, q=2.0).edge_table
    assert RandomWalker(paged, q=2.0, edge_table=True).edge_table
    assert RandomWalker(memory, q=2.0).edge_table


def test_walks_of_one_call_share_their_reads(path: Path) -> None:
    paged, _ = both(path)
    starts = np.arange(NODES)
    assert paged.paging is not None
    before = paged.paging.stats()["reads"]
    RandomWalker(paged, direction="in", num_threads=1).walk(starts, 4, key=0)
    assert paged.paging.stats()["reads"] - before < len(
        starts
    )  # a read for each walk and step: 12000


# ---- any graph ----------------------------------------------------------------------------------


@examples(25)
@given(data=st.data())
def test_any_graph_gives_the_same(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    num_nodes = data.draw(st.integers(1, 60))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    path = tmp_path_factory.mktemp("any") / "graph.aeg"
    make_graph(rng, num_nodes, data.draw(st.integers(0, 900))).save(path)
    paged, memory = both(path, memory_budget=data.draw(st.sampled_from(["18M", "60M"])))
    some = rng.integers(0, num_nodes, data.draw(st.integers(0, 40)))
    walk = {
        "p": data.draw(st.sampled_from([1.0, 0.2, 5.0])),
        "q": data.draw(st.sampled_from([1.0, 0.2, 5.0])),
        "restart": data.draw(st.sampled_from([0.0, 0.2])),
        "direction": data.draw(st.sampled_from(["in", "out"])),
    }
    np.testing.assert_array_equal(
        RandomWalker(paged, **walk).walk(some, 5, key=1),
        RandomWalker(memory, **walk).walk(some, 5, key=1),
    )
    k = data.draw(st.sampled_from([1, 7, 2000]))  # of which some lists have fewer
    for replace in (False, True):
        np.testing.assert_array_equal(
            random_fanout(paged, some, k, replace=replace, direction=walk["direction"], key=4),
            random_fanout(memory, some, k, replace=replace, direction=walk["direction"], key=4),
        )
    other = rng.integers(0, num_nodes, len(some))
    ends = np.stack((memory.edge_index()[0][:20], memory.edge_index()[1][:20]))
    u, v = np.concatenate((ends, (some, other)), axis=1)
    np.testing.assert_array_equal(paged.has_edges(u, v), memory.has_edges(u, v))
    for one, two in zip(paged.edges_between(u, v), memory.edges_between(u, v), strict=True):
        np.testing.assert_array_equal(one, two)
    options = data.draw(st.sampled_from([{}, {"disjoint": True}, {"time_attr": "edge_time"}]))
    times = rng.integers(-5, 30, len(some)) if "time_attr" in options else None
    induced: dict[str, Any] = {"subgraph_type": "induced", **options}
    exclude = rng.permutation(memory.num_edges)[: memory.num_edges // 3]
    call: dict[str, Any] = {"key": 3, "exclude": exclude, "seed_time": times}
    found, expected = (
        ag.NeighborSampler(graph, [2, 2], **induced).sample(some, **call)
        for graph in (paged, memory)
    )
    assert_same_subgraph(found, expected)


def test_threads_walk_over_one_graph(path: Path) -> None:
    paged, memory = both(path)
    walker = RandomWalker(paged)
    starts = np.arange(400)

    def work(key: int) -> None:
        expected = RandomWalker(memory).walk(starts, 5, key=key)
        np.testing.assert_array_equal(walker.walk(starts, 5, key=key), expected)

    run_with_each(work, range(8))


def test_damaged_ids_are_named(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "damaged.aeg"
    shutil.copy(path, copy)
    damage_section(copy, (native.SECTION_CSC_INDICES,))
    paged, _ = both(copy)
    some = np.arange(50)
    for use in (
        lambda: RandomWalker(paged, direction="in").walk(some, 2, key=0),
        lambda: random_fanout(paged, some, 2, direction="in"),
        lambda: paged.has_edges(some, some),
    ):
        with pytest.raises(errors.CorruptFileError, match="verify"):
            use()


# ---- values by edge and node --------------------------------------------------------------------


def test_values_of_samples_are_read_past_the_page_cache(path: Path) -> None:
    paged, memory = both(path)
    assert paged.paging is not None
    rng = np.random.default_rng(6)
    for stores, expected, count in (
        (paged.edge_values, memory.edge_values, memory.num_edges),
        (paged.node_values, memory.node_values, NODES),
    ):
        assert sorted(stores) == sorted(expected)
        for name, store in stores.items():
            ids = rng.integers(0, count, 5000)
            np.testing.assert_array_equal(store.gather(ids), expected[name].gather(ids), name)
            np.testing.assert_array_equal(store.array, expected[name].array, name)
            assert store.stats().device_reads > 0
            assert store.storage == "uring"
            with pytest.raises(errors.OutOfRangeError, match=str(count)):
                store.gather([count])
    stats = paged.paging.stats()
    assert 0 < stats["value_bytes"] <= 3 << 20
    again = paged.edge_values["edge_time"]
    assert again.native_rows() is paged.edge_values["edge_time"].native_rows()


# ---- weights and times that are read before anything is drawn -----------------------------------


def test_nothing_of_weights_and_times_is_read_through_the_page_cache(
    path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "cold.aeg"
    shutil.copy(path, copy)
    graph = ag.Graph.load(copy, storage="uring", memory_budget=BUDGET)
    assert graph.edge_weight is not None and graph.edge_time is not None
    sums = graph.weight_sums("csc")  # reads all weights, once
    assert sums is not None
    timed = ag.NeighborSampler(graph, [4, 4], time_attr="edge_time", is_sorted=True)
    weighted = ag.NeighborSampler(graph, [4, 4], weight_attr="edge_weight")
    with open(copy, "rb") as file:  # the sections of both, gone from memory and from the cache
        os.fsync(file.fileno())
        for array in (graph.edge_weight, graph.edge_time, graph.csc()[1]):
            native.advise(array, native.ADVICE_DROP)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    for key in range(5):
        seeds = np.random.default_rng(key).integers(0, NODES, 200)
        timed.sample(seeds, key=key, seed_time=np.full(200, 12))
        weighted.sample(seeds, key=key)
        list(timed.sample_many([seeds] * 4, range(4), seed_time=[np.full(200, 9)] * 4))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before < 20  # code, at most


@examples(40)
@given(data=st.data())
def test_any_weights_and_times_give_the_same_samples(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    num_nodes = data.draw(st.integers(1, 40))
    num_edges = data.draw(st.sampled_from([0, 3, 200, 3000, 20000]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    share = data.draw(st.sampled_from([1, 0.1]))  # of weights above 0
    weights: Any = rng.random(num_edges) * (rng.random(num_edges) < share)
    if data.draw(st.booleans()):
        weights = weights.astype(np.float32)
    span = data.draw(st.sampled_from([1, 50, 10**12]))
    floats = data.draw(st.booleans())
    of_nodes = data.draw(st.booleans())
    times: Any = rng.integers(-span, span, num_nodes if of_nodes else num_edges)
    times = times + 0.5 if floats else times
    named = {"node_time" if of_nodes else "edge_time": times}
    path = tmp_path_factory.mktemp("any") / "graph.aeg"
    ag.Graph.from_edges(
        num_nodes, rng.integers(0, num_nodes, num_edges),
        (rng.random(num_edges) ** 3 * num_nodes).astype(np.int64),
        edge_weight=weights, **named,
    ).save(path)  # fmt: skip
    paged, memory = both(path)
    options: dict[str, Any] = {"replace": data.draw(st.booleans())}
    if data.draw(st.booleans()):
        options["weight_attr"] = "edge_weight"
    timed = data.draw(st.booleans())
    if timed:
        options["time_attr"] = next(iter(named))
        options["temporal_strategy"] = data.draw(st.sampled_from(["uniform", "last"]))
        options["window"] = data.draw(st.sampled_from([None, span // 2]))
    options["subgraph_type"] = data.draw(st.sampled_from(["directional", "induced"]))
    options["layered"] = data.draw(st.booleans()) and not timed
    fanouts = data.draw(st.lists(st.sampled_from([-1, 0, 1, 3, 40]), max_size=2))
    seeds = [rng.integers(0, num_nodes, data.draw(st.integers(0, 12))) for _ in range(3)]
    bounds = [rng.integers(-span, span, len(own)) if timed else None for own in seeds]
    exclude = [None, *(rng.permutation(num_edges)[: num_edges // 4] for _ in range(2))]
    one = ag.NeighborSampler(paged, fanouts, **options)
    two = ag.NeighborSampler(memory, fanouts, **options)
    expected = [
        two.sample(own, key=key, seed_time=bounds[key], exclude=exclude[key])
        for key, own in enumerate(seeds)
    ]
    together = one.sample_many(seeds, range(3), seed_time=bounds, exclude=exclude)
    for key, found in enumerate(together):
        alone = one.sample(seeds[key], key=key, seed_time=bounds[key], exclude=exclude[key])
        assert_same_subgraph(found, expected[key])
        assert_same_subgraph(alone, expected[key])


def test_a_weight_that_went_bad_is_named(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "bad.aeg"
    shutil.copy(path, copy)
    graph = ag.Graph.load(copy, storage="uring", memory_budget=BUDGET)
    sampler = ag.NeighborSampler(graph, [2], weight_attr="edge_weight")
    count = section_of(copy, native.SECTION_EDGE_WEIGHT).size // 8
    damage_section(copy, (native.SECTION_EDGE_WEIGHT,), np.full(count, -1.0).tobytes())
    with pytest.raises(errors.AetherError):
        sampler.sample(np.arange(NODES), key=0)


def test_relations_keep_pages_by_their_share_of_the_edges(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    large, small = ("user", "votes", "post"), ("post", "cites", "post")
    graph = ag.HeteroGraph.from_edges(
        {
            large: (rng.integers(0, 900, 5_000_000), rng.integers(0, 9000, 5_000_000)),
            small: (rng.integers(0, 9000, 500_000), rng.integers(0, 9000, 500_000)),
        },
        num_nodes={"user": 900, "post": 9000},
    )
    graph.save(tmp_path / "typed.aeg")
    paged = ag.HeteroGraph.load(tmp_path / "typed.aeg", storage="uring", memory_budget="20M")
    sampler = HeteroNeighborSampler(paged, [20])
    for key in range(30):
        sampler.sample({"post": rng.integers(0, 9000, 500)}, key=key)
    kept = {kind: paged[kind].topology().kept for kind in (large, small)}
    assert 4 * kept[small] < kept[large] <= 10 << 20
    assert kept[small] > 0
    assert paged.paging is not None
    assert paged.paging.stats()["kept_bytes"] == sum(kept.values()) <= 10 << 20
