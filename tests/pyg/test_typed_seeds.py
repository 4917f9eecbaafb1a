"""Seeds of several node types in one loader: each once, every batch the sample of its seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from aethergraph import HeteroGraph, errors
from aethergraph.loading import Ahead
from aethergraph.pyg import NeighborLoader, NeighborSampler, to_data

pytestmark = pytest.mark.pyg

VOTES = ("user", "votes", "post")
COUNTS = {"user": 20, "post": 30}


def make_graph(**options: Any) -> HeteroGraph:
    rng = np.random.default_rng(2)
    ends = rng.integers(0, 20, 300), rng.integers(0, 30, 300)
    graph = HeteroGraph.from_edges({VOTES: ends}, COUNTS, add_reverse=True, **options)
    for name, count in COUNTS.items():
        graph[name].features = rng.random((count, 4), np.float32)
    return graph


@pytest.mark.parametrize(
    "options",
    [
        {"ahead": 0}, {}, {"ahead": Ahead(threads=2)}, {"ahead": Ahead(plan=3)},
        {"num_workers": 2}, {"num_workers": 1, "filter_per_worker": True},
        {"disjoint": True},
    ],
)  # fmt: skip
def test_batches(options: dict[str, Any]) -> None:
    graph = make_graph()
    mask = torch.zeros(30, dtype=torch.bool)
    mask[[4, 9, 22]] = True
    given = {"user": [3, 3, 7, 0], "post": mask}
    seeds = {"user": np.array([3, 3, 7, 0]), "post": np.array([4, 9, 22])}
    whole = {"num_neighbors": [-1, -1], "batch_size": 3, "shuffle": True, "seed": 4}
    loader = NeighborLoader(graph, input_nodes=given, **whole, **options)
    assert len(loader) == 3
    came: dict[str, list[int]] = {"user": [], "post": []}
    for batch in loader:
        assert sum(batch[name].batch_size for name in COUNTS) in (3, 1)
        for name in COUNTS:
            size, ids = batch[name].batch_size, batch[name].input_id
            assert len(ids) == size
            chosen = seeds["user"][ids] if name == "user" else ids.numpy()  # ids, as of a mask
            assert_array_equal(batch[name].n_id[:size], chosen)
            assert_array_equal(batch[name].x, graph[name].features.gather(batch[name].n_id))
            came[name] += ids.tolist()
        if "disjoint" not in options:  # all in-edges of all that was reached
            for name, kind in (("post", VOTES), ("user", ("post", "rev_votes", "user"))):
                size = batch[name].batch_size
                degrees = torch.bincount(batch[kind].edge_index[1], minlength=size)[:size]
                assert_array_equal(degrees, graph[kind].in_degrees(batch[name].n_id[:size]))
    assert sorted(came["user"]) == [0, 1, 2, 3] and sorted(came["post"]) == [4, 9, 22]


def test_seeds_of_one_type_are_those_of_a_pair() -> None:
    graph = make_graph()
    options: dict[str, Any] = {"num_neighbors": [2, 1], "batch_size": 2, "seed": 3}
    by_type = NeighborLoader(graph, input_nodes={"user": [3, 7, 1]}, **options)
    pair = NeighborLoader(graph, input_nodes=("user", torch.tensor([3, 7, 1])), **options)
    for mine, expected in zip(by_type, pair, strict=True):
        assert mine.metadata() == expected.metadata()
        for store in expected.node_stores + expected.edge_stores:
            for name, value in store.items():
                assert torch.equal(torch.as_tensor(mine[store._key][name]), torch.as_tensor(value))


def test_times_and_states() -> None:
    days = np.arange(300).astype("datetime64[D]")
    graph = make_graph(edge_time={VOTES: days})
    nodes = {"post": [1, 2, 3], "user": slice(0, 4)}
    times = {"post": days[[50, 100, 299]], "user": np.array([300, 300, 10, 10])}
    options: dict[str, Any] = {
        "num_neighbors": [-1], "input_nodes": nodes, "input_time": times, "batch_size": 2,
        "shuffle": True, "seed": 1,
    }  # fmt: skip
    loader = NeighborLoader(graph, **options)
    batches = list(loader)
    seen = 0
    for batch in batches:
        post = batch["post"]
        # Trees are numbered through the seeds of all types, in the graph's order of the types.
        until = torch.cat([batch[name].seed_time for name in graph.node_types])
        edge_days = torch.from_numpy(graph[VOTES].edge_time)[batch[VOTES].e_id]
        tree = post.batch[batch[VOTES].edge_index[1]]
        assert bool((edge_days <= until[tree]).all())
        seen += len(post.seed_time)
    assert seen == 3
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    expected = [batch["post"].n_id.tolist() for batch in iterator]
    again = NeighborLoader(graph, **options)
    again.load_state_dict(state)
    assert [batch["post"].n_id.tolist() for batch in again] == expected
    other = NeighborLoader(graph, **{**options, "input_nodes": {**nodes, "post": [1, 2, 4]}})
    with pytest.raises(errors.InvalidArgumentError, match="node"):
        other.load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_nodes": {"dog": [1]}}, "input_nodes: 'dog' is no node type"),
        ({"input_nodes": {"user": [20]}}, r"input_nodes\['user'\]\[0\] = 20"),
        ({"input_nodes": {"user": [0]}, "input_time": [1]}, "input_time goes by node type"),
        ({"input_nodes": {"user": [0]}, "input_time": {"user": [1, 2]}}, "one time for each"),
    ],
)  # fmt: skip
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    graph = make_graph(edge_time={VOTES: np.arange(300)})
    with pytest.raises(errors.AetherError, match=message):
        NeighborLoader(graph, [2], **options)
    plain = to_data(graph).to_homogeneous()
    with pytest.raises(errors.InvalidArgumentError, match="over a typed graph"):
        NeighborLoader(plain, [2], {"user": [0]})
    with pytest.raises(errors.InvalidArgumentError, match="over a typed graph"):
        NeighborLoader(plain, [2], {"user": [0]}, neighbor_sampler=NeighborSampler(plain, [2]))


@pytest.mark.parametrize(
    ("seeds", "name"), [(("user", [0, 1]), "input_time"), ({"user": [0]}, r"input_time\['user'\]")]
)
def test_times_that_seeds_lack_are_asked_for_by_the_argument(seeds: Any, name: str) -> None:
    graph = make_graph(node_time={"post": np.arange(30)})
    loader = NeighborLoader(graph, [2], seeds, time_attr="node_time")
    with pytest.raises(
        errors.InvalidArgumentError, match=f"^{name} is needed: nodes of 'user' have no times$"
    ):
        next(iter(loader))
