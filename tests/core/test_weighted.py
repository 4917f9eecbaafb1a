"""Sampling by weight: equal to the oracle, and of the distribution that was asked for."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core.strategies import Ids, assert_same_subgraph, chi_square, edge_lists
from hypothesis import given, settings
from hypothesis import strategies as st

from aethergraph import Graph, NeighborSampler, errors
from aethergraph.testing import oracle

keys = st.integers(0, 2**64 - 1)
WEIGHTS = st.sampled_from([0.0, 0.25, 1.0, 3.5, 1e-30, 1e30])


@settings(max_examples=200)
@given(
    edges=edge_lists(),
    fanouts=st.lists(st.integers(-1, 8), max_size=3),
    key=keys,
    replace=st.booleans(),
    disjoint=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    threads=st.sampled_from([1, 2, 8]),
    data=st.data(),
)
def test_equal_to_the_oracle(
    edges: tuple[int, Ids, Ids], fanouts: list[int], key: int, replace: bool, disjoint: bool,
    dtype: Any, threads: int, data: st.DataObject,
) -> None:  # fmt: skip
    num_nodes, src, dst = edges
    weight = np.array(data.draw(st.lists(WEIGHTS, min_size=len(src), max_size=len(src))), dtype)
    seeds = data.draw(st.lists(st.integers(0, max(0, num_nodes - 1)), max_size=6 * (num_nodes > 0)))
    graph = Graph.from_edges(num_nodes, src, dst, edge_weight=weight)
    sampler = NeighborSampler(
        graph, fanouts, replace=replace, disjoint=disjoint, num_threads=threads,
        weight_attr="edge_weight",
    )  # fmt: skip
    expected = oracle.sample(
        *graph.csc(), seeds, fanouts, key,
        replace=replace, disjoint=disjoint, weight=graph.edge_weight,
    )  # fmt: skip
    found = sampler.sample(seeds, key)
    assert_same_subgraph(found, expected)
    assert (graph.edge_weight[found.edge] > 0).all()


def test_long_lists_and_many_threads(num_threads: int) -> None:
    rng = np.random.default_rng(4)
    src, dst = rng.integers(0, 3000, 60_000), rng.integers(0, 30, 60_000)
    weight = rng.exponential(size=60_000) * (rng.random(60_000) < 0.9)
    graph = Graph.from_edges(3000, src, dst, edge_weight=weight)
    for fan in ([700, 3], [-1], [5000]):
        for replace in (False, True):
            found = NeighborSampler(
                graph, fan, replace=replace, num_threads=num_threads, weight_attr="edge_weight"
            ).sample(np.arange(30), key=3)
            expected = oracle.sample(
                *graph.csc(), np.arange(30), fan, 3, replace=replace, weight=graph.edge_weight
            )
            assert_same_subgraph(found, expected)


def drawn(weights: list[float], fanout: int, replace: bool, trials: int) -> list[Ids]:
    """The edges that each of many trees draws from one list."""
    edges = len(weights)
    graph = Graph.from_edges(
        edges + 1, np.arange(1, edges + 1), np.zeros(edges, int), edge_weight=weights
    )
    found = NeighborSampler(
        graph, [fanout], replace=replace, disjoint=True, weight_attr="edge_weight"
    ).sample(np.zeros(trials, int), key=12)
    return np.split(found.edge, np.searchsorted(found.col, np.arange(1, trials)))


def test_distribution_with_replacement() -> None:
    weights, trials = [1.0, 0.0, 2.0, 5.0, 0.5], 20_000
    edges = np.concatenate(drawn(weights, 3, True, trials))
    expected = np.array(weights) / sum(weights) * 3 * trials
    counts = np.bincount(edges, minlength=5)
    assert counts[1] == 0
    assert abs(chi_square(counts[expected > 0], expected[expected > 0])) < 5


def test_distribution_without_replacement() -> None:
    """The chance of a set is that of drawing its members one after the other, in any order."""
    weights, trials = [1.0, 3.0, 0.0, 0.2, 4.0], 40_000
    chance: dict[tuple[int, ...], float] = {}
    for first, second in itertools.permutations([0, 1, 3, 4], 2):
        left = sum(weights) - weights[first]
        p = weights[first] / sum(weights) * weights[second] / left
        pair = tuple(sorted((first, second)))
        chance[pair] = chance.get(pair, 0) + p
    counts = dict.fromkeys(chance, 0)
    for edges in drawn(weights, 2, False, trials):
        counts[tuple(edges.tolist())] += 1
    expected = np.array([chance[pair] * trials for pair in chance])
    assert abs(chi_square(np.array([counts[pair] for pair in chance]), expected)) < 5


def test_weights_by_attribute_file_and_pickle(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 50, (2, 900))
    graph = Graph.from_edges(
        50, src, dst, edge_weight=rng.random(900), edge_attrs={"votes": rng.integers(0, 4, 900)}
    )
    graph.save(tmp_path / "g")
    for name, weight in (("votes", graph.edge_attrs["votes"].array), ("edge_weight", None)):
        weight = graph.edge_weight if weight is None else weight.astype(float)
        expected = oracle.sample(*graph.csc(), [1, 7], [4, 3], 9, weight=weight)
        for source in (
            graph,
            Graph.load(tmp_path / "g"),
            Graph.load(tmp_path / "g", storage="memory"),
        ):
            sampler = NeighborSampler(source, [4, 3], weight_attr=name)
            for one in (sampler, pickle.loads(pickle.dumps(sampler))):
                assert_same_subgraph(one.sample([1, 7], key=9), expected)


def test_weights_that_cannot_be(tmp_path: Path) -> None:
    graph = Graph.from_edges(
        3, [0, 1], [2, 2],
        edge_attrs={"pair": np.ones((2, 2)), "flag": np.array([True, False]), "w": [1.0, np.inf]},
    )  # fmt: skip
    for name, text in (
        ("edge_weight", r"'edge_weight' is no edge attribute; there are: 'flag', 'pair', 'w'"),
        ("pair", r"one number each, got shape \(2, 2\)"),
        ("flag", "holds bool, not numbers"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            NeighborSampler(graph, [1], weight_attr=name)
    for bad in (np.inf, np.nan, -1.0):
        graph.edge_attrs["w"] = [1.0, bad]
        with pytest.raises(errors.InvalidArgumentError, match="finite and not negative") as caught:
            NeighborSampler(graph, [1], weight_attr="w").sample([2], key=0)
        assert caught.value.position == 1
