"""HGT sampling: equal to the oracle, and of the paper's distribution."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import Ids, assert_same_subgraph, chi_square, examples, hetero_graphs
from support.threads import run_with_each

from aethergraph import HeteroGraph, HGTSampler, errors
from aethergraph.sampling.hetero import HeteroSubgraph
from aethergraph.testing import oracle

pytestmark = pytest.mark.any_python

keys = st.integers(0, 2**64 - 1)
VOTES, IN = ("user", "votes", "post"), ("post", "in", "sub")
ANSWERS = ("post", "answers", "post")
COUNTS = {"user": 90, "post": 150, "sub": 6}


def make_graph(seed: int = 0) -> HeteroGraph:
    """With lists of more than 50 entries: those of the types of "sub"."""
    rng = np.random.default_rng(seed)
    edges = {}
    for kind, count in ((VOTES, 900), (IN, 600), (ANSWERS, 300)):
        src, dst = (rng.integers(0, COUNTS[kind[i]], count) for i in (0, 2))
        edges[kind] = (src, dst)
    return HeteroGraph.from_edges(edges, COUNTS, add_reverse=True)


def expected_sample(
    graph: HeteroGraph, num_samples: dict[str, Any], seeds: dict[str, Any], key: int,
    max_neighbors: int | None,
) -> oracle.TypedSample:  # fmt: skip
    number = {name: i for i, name in enumerate(graph.node_types)}
    relations = [
        oracle.Relation(*graph[kind].csc(), None, number[kind[2]], number[kind[0]])
        for kind in graph.edge_types
    ]
    hops = max((len(row) for row in num_samples.values()), default=0)
    return oracle.sample_hgt(
        relations,
        [seeds.get(name, []) for name in graph.node_types],
        [num_samples.get(name, [0] * hops) for name in graph.node_types],
        key,
        max_neighbors=max_neighbors,
    )


def assert_equal(found: HeteroSubgraph, expected: oracle.TypedSample) -> None:
    for name in ("node", "row", "col", "edge"):
        arrays = getattr(found, name).values()
        for a, b in zip(arrays, getattr(expected, name), strict=True):
            assert a.dtype == np.int64
            np.testing.assert_array_equal(a, b, err_msg=name)
    assert found.num_sampled_nodes is not None
    assert list(found.num_sampled_nodes.values()) == expected.hop_nodes
    assert found.batch is None
    assert found.num_sampled_edges is None


@examples(150)
@given(
    graph=hetero_graphs(), hops=st.integers(0, 4), key=keys,
    max_neighbors=st.one_of(st.none(), st.integers(1, 9)), data=st.data(),
)  # fmt: skip
def test_equal_to_the_oracle(
    graph: HeteroGraph, hops: int, key: int, max_neighbors: int | None, data: st.DataObject
) -> None:
    counts = st.lists(st.integers(0, 9), min_size=hops, max_size=hops)
    num_samples = {name: data.draw(counts) for name in graph.node_types}
    seeds = {
        name: np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=5)) if n else [], int)
        for name, n in graph.num_nodes.items()
    }
    sampler = HGTSampler(graph, num_samples, max_neighbors=max_neighbors)
    expected = expected_sample(graph, num_samples, seeds, key, max_neighbors)
    for _ in range(2):  # scratch memory leaves no trace
        assert_equal(sampler.sample(seeds, key), expected)


def pairs_drawn(chances: Ids) -> dict[tuple[int, int], float]:
    """The chance of every ordered pair of draws without replacement."""
    found = {}
    for first, second in itertools.permutations(np.flatnonzero(chances), 2):
        rest = chances.sum() - chances[first]
        found[int(first), int(second)] = chances[first] / chances.sum() * chances[second] / rest
    return found


def star(degrees: list[list[int]]) -> HeteroGraph:
    """Posts 0, 1... with these lists of voters."""
    dst = np.repeat(np.arange(len(degrees)), [len(row) for row in degrees])
    return HeteroGraph.from_edges(
        {VOTES: (np.concatenate(degrees), dst)}, {"user": 5, "post": len(degrees)}
    )


@pytest.mark.shares
def test_nodes_are_drawn_by_the_square_of_their_score_in_order() -> None:
    graph = star([[0, 1, 1, 2], [0, 3], [3, 0, 4]])
    scores = np.array([1 / 4 + 1 / 2 + 1 / 3, 2 / 4, 1 / 4, 1 / 2 + 1 / 3, 1 / 3])
    chance = pairs_drawn(scores**2)
    sampler = HGTSampler(graph, {"user": [2]})
    trials = 10_000
    counts = dict.fromkeys(chance, 0)
    for key in range(trials):
        first, second = sampler.sample({"post": [0, 1, 2]}, key).node["user"]
        counts[int(first), int(second)] += 1
    expected = np.array([chance[pair] * trials for pair in chance])
    assert abs(chi_square(np.array([counts[pair] for pair in chance]), expected)) < 5


@pytest.mark.shares
def test_the_second_hop_goes_by_what_is_left_and_what_was_added() -> None:
    """Users are drawn, then posts that they voted for; a post's score is that of both hops."""
    graph = HeteroGraph.from_edges(
        {VOTES: ([0, 1], [0, 0]), ("post", "by", "user"): ([1, 2, 2, 3], [0, 0, 1, 1])},
        {"user": 2, "post": 4},
    )
    sampler = HGTSampler(graph, {"user": [1, 1], "post": [0, 1]})
    trials, counts = 8_000, np.zeros((2, 4), int)
    for key in range(trials):
        sub = sampler.sample({"post": [0]}, key)
        user, post = sub.node["user"], sub.node["post"]
        assert sorted(user) == [0, 1]  # the one that was drawn has left the budget
        counts[user[0], post[1]] += 1
    expected = np.array([[0, 1, 1, 0], [0, 0, 1, 1]]) * trials / 4
    assert (counts[expected == 0] == 0).all()
    assert abs(chi_square(counts[expected > 0], expected[expected > 0])) < 5


@pytest.mark.shares
def test_long_lists_are_cut_at_random() -> None:
    """Every set of max_neighbors entries is as likely as any other."""
    graph = star([[0, 1, 2, 3, 4]])
    sampler = HGTSampler(graph, {"user": [5]}, max_neighbors=2)
    trials, counts = 8_000, np.zeros((5, 5), int)
    for key in range(trials):
        first, second = sampler.sample({"post": [0]}, key).node["user"]
        counts[first, second] += 1
    assert (np.diag(counts) == 0).all()
    others = counts[~np.eye(5, dtype=bool)]
    assert abs(chi_square(others, np.full(20, trials / 20))) < 5


def test_every_hop_draws_anew() -> None:
    """The same budget in two hops: the draws of the second are not those of the first."""
    graph = star([[0, 1, 2, 3, 4]])
    once = HGTSampler(graph, {"user": [2]})
    later = HGTSampler(graph, {"user": [0, 2]})
    differs = 0
    for key in range(50):
        a, b = (s.sample({"post": [0]}, key).node["user"].tolist() for s in (once, later))
        differs += a != b
    # nothing is spread between the hops, so the budget is what it was
    assert differs > 25


def test_files_pickles_and_threads(tmp_path: Path) -> None:
    graph = make_graph(2)
    graph.save(tmp_path / "g")
    seeds = {"post": np.arange(20)}
    sampler = HGTSampler(graph, [30, 20], max_neighbors=9, seed=4)
    wanted = [sampler.sample(seeds, key) for key in range(16)]
    mapped = HGTSampler(HeteroGraph.load(tmp_path / "g"), [30, 20], max_neighbors=9, seed=4)
    for other in (mapped, pickle.loads(pickle.dumps(mapped))):

        def work(first: int, other: HGTSampler = other) -> None:
            for key in range(first, 16, 4):
                assert_same_subgraph(other.sample(seeds, key), wanted[key])

        run_with_each(work, range(4))
    again = HGTSampler(graph, [30, 20], max_neighbors=9, seed=4).sample(seeds)
    # the first key of seed 4
    assert_same_subgraph(pickle.loads(pickle.dumps(mapped)).sample(seeds), again)
    assert sampler.scratch_memory > 0
    assert "max_neighbors=9" in repr(sampler)


def test_types_without_a_number_draw_nothing() -> None:
    graph = make_graph()
    found = HGTSampler(graph, {"user": [2, 1]}).sample({"post": [1, 1], "sub": [2]}, key=1)
    assert found.num_sampled_nodes == {"user": [0, 2, 1], "post": [2, 0, 0], "sub": [1, 0, 0]}
    assert found.node["post"].tolist() == [1, 1]  # a slot each, and the same edges into both
    into = [found.edge[VOTES][found.col[VOTES] == slot].tolist() for slot in (0, 1)]
    assert into[0] == into[1] != []


@pytest.mark.parametrize(
    ("num_samples", "options", "message"),
    [
        (None, {}, "num_samples has one number per hop, got None"),
        (5, {}, r"num_samples has one number per hop: \[5\]"),
        ([3, -1], {}, r"num_samples\[1\] = -1: a number of samples is >= 0"),
        ({"post": [3], "user": [-2]}, {}, r"num_samples\['user'\]\[0\] = -2"),
        ({"post": [3], "user": [2, 2]}, {}, r"num_samples\['post'\] has 1 hops, .* has 2"),
        ({"author": [3]}, {}, "num_samples: 'author' is no node type; there are: 'user', 'post'"),
        ([3], {"max_neighbors": 0}, "max_neighbors = 0 is not in 1"),
        ([3], {"max_neighbors": 2**32}, "max_neighbors = 4294967296 is not in 1"),
        ([3], {"max_neighbors": 1.5}, "max_neighbors must be an integer"),
    ],
)
def test_settings_that_cannot_be(num_samples: Any, options: Any, message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        HGTSampler(make_graph(), num_samples, **options)


def test_seeds_that_cannot_be() -> None:
    sampler = HGTSampler(make_graph(), [2])
    with pytest.raises(errors.OutOfRangeError, match=r"seeds\['post'\]\[1\] = 150") as caught:
        sampler.sample({"post": [0, 150]})
    assert (caught.value.position, caught.value.value) == (1, 150)
    with pytest.raises(errors.InvalidArgumentError, match="'author' is no node type"):
        sampler.sample({"author": [0]})
    with pytest.raises(errors.InvalidArgumentError, match="goes by node type"):
        sampler.sample([0])  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="must be a HeteroGraph"):
        HGTSampler(None, [2])  # type: ignore[arg-type]
    out = HeteroGraph.from_edges({VOTES: ([0], [0])}, {"user": 1, "post": 1}, layout="csr")
    with pytest.raises(errors.LayoutError):
        HGTSampler(out, [2])
