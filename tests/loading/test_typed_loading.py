"""Batches of typed graphs without a framework: those of the typed sampler, with their rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support.threads import ahead_of

from aethergraph import (
    DynamicHeteroGraph,
    HeteroGraph,
    HeteroNeighborSampler,
    SubgraphLoader,
    errors,
)
from aethergraph.loading.batch import HeteroBatch
from aethergraph.sampling.keys import mix_key

VOTES, BACK = ("user", "votes", "post"), ("post", "rev_votes", "user")
COUNTS = {"user": 30, "post": 50}
SEEDS = {"post": np.arange(40, 50), "user": np.array([3, 3, 29])}


def make_graph() -> HeteroGraph:
    rng = np.random.default_rng(8)
    ends = rng.integers(0, COUNTS["user"], 400), rng.integers(0, COUNTS["post"], 400)
    graph = HeteroGraph.from_edges(
        {VOTES: ends}, COUNTS, edge_time={VOTES: np.arange(400)}, add_reverse=True
    )
    graph["user"].attrs["x"] = rng.random((COUNTS["user"], 3), np.float32)
    graph["user"].attrs["age"] = rng.integers(0, 90, COUNTS["user"])
    graph["post"].attrs["x"] = rng.random((COUNTS["post"], 5), np.float32)
    graph[VOTES].attrs["stars"] = rng.integers(0, 6, 400)
    return graph


def rows_of(attrs: Any) -> dict[Any, dict[str, Any]]:
    return {kind: dict(rows) for kind, rows in attrs.items()}


@pytest.mark.parametrize("num_threads", [0, 1, 3])
@pytest.mark.parametrize("plan", [0, 3])
@pytest.mark.parametrize("storage", ["memory", "mmap", "uring"])
def test_batches(num_threads: int, plan: int, storage: Any, tmp_path: Path) -> None:
    """Seeds of two types in one order; each batch is the sample of its key, with all rows."""
    whole = graph = make_graph()
    if storage != "memory":
        graph.save(tmp_path / "g.aeg")
        budget = {"memory_budget": "64M"} if storage == "uring" else {}
        graph = HeteroGraph.load(tmp_path / "g.aeg", storage=storage, **budget)  # type: ignore[arg-type]
    loader = SubgraphLoader(
        graph, [3, 2], SEEDS, batch_size=4, shuffle=True, seed=5,
        ahead=ahead_of(num_threads, plan=plan),
    )  # fmt: skip
    sampler = HeteroNeighborSampler(whole, [3, 2])
    came: dict[str, list[int]] = {"post": [], "user": []}
    assert len(loader) == 4
    for number, batch in enumerate(loader):
        assert isinstance(batch, HeteroBatch)
        expected = sampler.sample(batch.seeds, mix_key(5, 0, number))
        for kind in graph.edge_types:
            assert_array_equal(batch.subgraph.edge[kind], expected.edge[kind])
            assert_array_equal(batch.edge_index[kind], [expected.row[kind], expected.col[kind]])
        for name, ids in batch.subgraph.node.items():
            assert_array_equal(ids, expected.node[name])
            assert_array_equal(ids[: len(batch.seeds[name])], batch.seeds[name])
            assert_array_equal(SEEDS[name][batch.index[name]], batch.seeds[name])
            came[name] += batch.index[name].tolist()
            for attr, column in batch.node_attrs[name].items():
                assert_array_equal(column, whole[name].attrs[attr].array[ids])
        stars = whole[VOTES].attrs["stars"].array
        assert_array_equal(batch.edge_attrs[VOTES]["stars"], stars[batch.subgraph.edge[VOTES]])
        assert list(batch.edge_attrs) == [VOTES] and list(batch.x) == ["user", "post"]
        assert batch.y == {} and batch.batch_size == sum(map(len, batch.seeds.values()))
    assert {name: sorted(places) for name, places in came.items()} == {
        name: list(range(len(ids))) for name, ids in SEEDS.items()
    }


def test_names_sources_masks_and_times() -> None:
    graph = make_graph()
    sampler = HeteroNeighborSampler(graph, [-1], time_attr="edge_time")
    mask = np.zeros(COUNTS["post"], bool)
    mask[[4, 7]] = True
    given = np.arange(30.0).reshape(30, 1)
    loader = SubgraphLoader(
        graph, sampler=sampler, seeds={"post": mask}, seed_time={"post": [200, 100]},
        node_attrs=["x"], edge_attrs={VOTES: ["stars"]}, feature_source={"user": given},
    )  # fmt: skip
    first, second = loader
    assert first.seeds["post"].tolist() == [4] and second.seeds["post"].tolist() == [7]
    assert len(first.subgraph.edge[VOTES]) and first.subgraph.edge[VOTES].max() <= 200
    assert second.subgraph.edge[VOTES].max(initial=0) <= 100
    assert_array_equal(first.x["user"], given[first.subgraph.node["user"]])
    assert set(first.node_attrs["user"]) == {"x"} and set(first.edge_attrs) == {VOTES}
    by_type = SubgraphLoader(graph, [1], {"user": None}, node_attrs={"user": ["age"]})
    assert len(by_type) == COUNTS["user"]
    assert rows_of(next(iter(by_type)).node_attrs).keys() == {"user"}


def test_a_state_goes_on() -> None:
    graph = make_graph()
    options: dict[str, Any] = {"batch_size": 3, "shuffle": True, "seed": 2}
    loader = SubgraphLoader(graph, [2], SEEDS, **options)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest = [batch.subgraph.edge[VOTES].tolist() for batch in batches]
    again = SubgraphLoader(graph, [2], SEEDS, **options)
    again.load_state_dict(state)
    assert [batch.subgraph.edge[VOTES].tolist() for batch in again] == rest
    other = SubgraphLoader(graph, [2], {**SEEDS, "user": [1, 2, 3]}, **options)
    with pytest.raises(errors.InvalidArgumentError, match="seeds of user"):
        other.load_state_dict(state)


def test_live_graphs() -> None:
    """Batches are of the commit that is the last when they are drawn, new nodes and all."""
    with DynamicHeteroGraph(
        {"user": 3, "post": 3}, [VOTES], arena_mb=16, huge_pages=False
    ) as live:  # fmt: skip
        live[VOTES].insert([0, 1], [2, 2])
        loader = SubgraphLoader(live, [-1], {"post": [2]}, ahead=0)
        assert sorted(next(iter(loader)).subgraph.node["user"].tolist()) == [0, 1]
        live[VOTES].insert([2], [2])
        assert sorted(next(iter(loader)).subgraph.node["user"].tolist()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": None}, r"seeds goes by node type, \{'user'"),
        ({"seeds": [1, 2]}, "seeds goes by node type"),
        ({"seeds": {"dog": [1]}}, "seeds: 'dog' is no node type; there are: 'user', 'post'"),
        ({"seeds": {"user": [30]}}, r"seeds\['user'\]\[0\] = 30"),
        ({"seeds": {"user": np.ones(3, bool)}}, r"seeds\['user'\] is a mask of shape \(3,\)"),
        ({"node_attrs": ["z"]}, "node_attrs: 'z' does not exist; there are: x, age"),
        ({"node_attrs": {"post": ["age"]}}, r"node_attrs\['post'\]: 'age' does not exist"),
        ({"edge_attrs": {("a", "b", "c"): []}}, "edge_attrs: .* is no type"),
        ({"feature_source": [1.0]}, "feature_source"),
        ({"seed_time": {"user": [1]}}, "seed_time needs a sampler"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"seeds": {"user": [1]}, **options}
    with pytest.raises(errors.AetherError, match=message):
        SubgraphLoader(make_graph(), [2], **arguments)
    sampler = HeteroNeighborSampler(make_graph(), [2], time_attr="edge_time")
    with pytest.raises(errors.InvalidArgumentError, match="one time for each"):
        SubgraphLoader(
            make_graph(), sampler=sampler, seeds={"user": [1]}, seed_time={"user": [1, 2]}
        )
