"""What the core's samplers draw stays as it is: see support/golden.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.golden import (
    NODES,
    POSTS,
    STORAGES,
    USERS,
    Golden,
    make_graph,
    make_hetero_graph,
    seeds_of,
    store,
)
from support.threads import ahead_of

from aethergraph import (
    Graph,
    HeteroGraph,
    HeteroNeighborSampler,
    HGTSampler,
    NeighborSampler,
    RandomWalker,
    SubgraphLoader,
)
from aethergraph.sampling.walks import random_fanout

pytestmark = pytest.mark.any_python

MODES: dict[str, dict[str, Any]] = {
    "uniform": {},
    "replace": {"replace": True},
    "disjoint": {"disjoint": True},
    "disjoint replace": {"disjoint": True, "replace": True},
    "layered": {"layered": True},
    "layered replace": {"layered": True, "replace": True},
    "induced": {"subgraph_type": "induced"},
    "bidirectional": {"subgraph_type": "bidirectional"},
    "weighted": {"weight_attr": "edge_weight"},
    "weighted replace": {"weight_attr": "edge_weight", "replace": True},
    "weighted disjoint": {"weight_attr": "edge_weight", "disjoint": True},
    "weighted layered": {"weight_attr": "edge_weight", "layered": True},
    "edge times": {"time_attr": "edge_time"},
    "edge times last": {"time_attr": "edge_time", "temporal_strategy": "last"},
    "edge times strict": {"time_attr": "edge_time", "strict": True},
    "edge times window": {"time_attr": "edge_time", "window": 20},
    "edge times replace": {"time_attr": "edge_time", "replace": True},
    "edge times weighted": {"time_attr": "edge_time", "weight_attr": "edge_weight"},
}
FANOUTS = {"[5, 3]": [5, 3], "[-1, 4]": [-1, 4], "[12, 0, 2]": [12, 0, 2]}
WALKS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "in": {"direction": "in"},
    "restart": {"restart": 0.3},
    "pad": {"pad": True},
    "weighted": {"weighted": True},
    "node2vec": {"p": 0.25, "q": 4.0},
    "node2vec table": {"p": 0.5, "q": 2.0, "edge_table": True},
    "node2vec weighted": {"weighted": True, "p": 4.0, "q": 0.5},
}
NUM_BATCHES = 5


@pytest.fixture(scope="module")
def golden() -> Golden:
    return Golden("core")


@pytest.fixture(scope="module", params=STORAGES)
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return store(make_graph(), tmp_path_factory.mktemp("golden"), request.param)


@pytest.fixture(scope="module", params=STORAGES)
def hetero(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HeteroGraph:
    return store(make_hetero_graph(), tmp_path_factory.mktemp("golden"), request.param)


def fields(sub: Any) -> list[Any]:
    names = ("node", "row", "col", "edge", "batch", "num_sampled_nodes", "num_sampled_edges")
    return [getattr(sub, name) for name in names]


def batches(make: Callable[[int], Any]) -> list[Any]:
    return [make(number) for number in range(NUM_BATCHES)]


def check_sampler(
    golden: Golden, case: str, sampler: Any, seeds: list[Any], times: list[Any] | None
) -> None:
    """One by one, and many at once: both are the golden samples."""
    given = times or [None] * len(seeds)
    one_by_one = [
        fields(sampler.sample(ids, key=1000 + i, seed_time=given[i])) for i, ids in enumerate(seeds)
    ]
    golden.check(case, one_by_one)
    keys = range(1000, 1000 + len(seeds))
    golden.check(case, [*map(fields, sampler.sample_many(seeds, keys, seed_time=given))])


@pytest.mark.parametrize("num_threads", [1, 8])
@pytest.mark.parametrize("mode", MODES)
def test_neighbours(graph: Graph, mode: str, num_threads: int, golden: Golden) -> None:
    timed = "time_attr" in MODES[mode]
    seeds = batches(lambda number: seeds_of(NODES, number))
    times = [50 + ids % 50 for ids in seeds] if timed else None
    for name, fanouts in FANOUTS.items():
        sampler = NeighborSampler(graph, fanouts, num_threads=num_threads, **MODES[mode])
        check_sampler(golden, f"neighbours, {mode}, {name}", sampler, seeds, times)


def test_excluded_edges(graph: Graph, golden: Golden) -> None:
    sampler = NeighborSampler(graph, [5, 3])
    samples = [
        fields(sampler.sample(seeds_of(NODES, i), key=i, exclude=np.arange(i, 9000, 3)))
        for i in range(NUM_BATCHES)
    ]
    golden.check("neighbours, excluded edges", samples)


def test_times_of_nodes(tmp_path: Path, golden: Golden) -> None:
    src, dst = make_graph().edge_index()
    times = np.random.RandomState(3).randint(0, 100, NODES)
    made = Graph.from_edges(NODES, src, dst, node_time=times)
    seeds = batches(lambda number: seeds_of(NODES, number))
    made.save(tmp_path / "g")
    for _, load in STORAGES.values():
        for options in ({}, {"temporal_strategy": "last"}, {"strict": True}):
            sampler = NeighborSampler(
                Graph.load(tmp_path / "g", **load), [6, 4], time_attr="node_time", **options
            )  # fmt: skip
            check_sampler(golden, f"neighbours, times of nodes, {options}", sampler, seeds, None)


@pytest.mark.parametrize("num_threads", [1, 8])
@pytest.mark.parametrize("mode", MODES)
def test_typed_neighbours(hetero: HeteroGraph, mode: str, num_threads: int, golden: Golden) -> None:
    timed = "time_attr" in MODES[mode]
    seeds = batches(lambda n: {"user": seeds_of(USERS, n), "post": seeds_of(POSTS, n + 1)})
    times = [{t: 50 + ids % 50 for t, ids in one.items()} for one in seeds] if timed else None
    sampler = HeteroNeighborSampler(hetero, [4, 3], num_threads=num_threads, **MODES[mode])
    check_sampler(golden, f"typed, {mode}", sampler, seeds, times)


def test_hgt(hetero: HeteroGraph, golden: Golden) -> None:
    for limit in (50, 3, None):
        sampler = HGTSampler(
            hetero, {"user": [20, 10], "post": [30, 5], "tag": [4, 4]}, max_neighbors=limit
        )
        samples = [
            fields(sampler.sample({"post": seeds_of(POSTS, i)}, key=i)) for i in range(NUM_BATCHES)
        ]
        golden.check(f"hgt, max_neighbors {limit}", samples)


@pytest.mark.parametrize("num_threads", [1, 8])
@pytest.mark.parametrize("walk", WALKS)
def test_walks(graph: Graph, walk: str, num_threads: int, golden: Golden) -> None:
    walker = RandomWalker(graph, num_threads=num_threads, **WALKS[walk])
    walks = [walker.walk(seeds_of(NODES, i), 7, key=i) for i in range(NUM_BATCHES)]
    golden.check(f"walks, {walk}", walks)


def test_tables_of_neighbours(graph: Graph, golden: Golden) -> None:
    for replace in (False, True):
        for direction in ("in", "out"):
            options: dict[str, Any] = {"replace": replace, "direction": direction}
            tables = [
                random_fanout(graph, seeds_of(NODES, i), 6, key=i, **options)
                for i in range(NUM_BATCHES)
            ]
            golden.check(f"tables, {direction}, replace {replace}", tables)


def test_keys_of_calls_without_one(graph: Graph, golden: Golden) -> None:
    sampler = NeighborSampler(graph, [5, 3], seed=9)
    samples = [fields(sampler.sample(seeds_of(NODES, i))) for i in range(NUM_BATCHES)]
    golden.check("neighbours, keys by the number of the call", samples)
    many = [*map(fields, sampler.sample_many(seeds_of(NODES, i) for i in range(NUM_BATCHES)))]
    golden.check("neighbours, keys by the place in a call", many)


@pytest.mark.parametrize("num_threads", [0, 2])
def test_loader(graph: Graph, num_threads: int, golden: Golden) -> None:
    graph.node_attrs["x"] = np.arange(NODES * 3, dtype=np.float32).reshape(NODES, 3)
    loader = SubgraphLoader(
        graph, [5, 3], seeds_of(NODES, 4), batch_size=16, shuffle=True, seed=5,
        ahead=ahead_of(num_threads),
    )  # fmt: skip
    for epoch in range(2):
        found = [[fields(batch.subgraph), dict(batch.node_attrs)] for batch in loader]
        golden.check(f"loader, epoch {epoch}", found)
