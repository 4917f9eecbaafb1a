"""Sampling by weight: equal to the oracle, and of the distribution that was asked for.

Short lists are compared in test_sampler.py, their chances counted by contracts/test_samplers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.strategies import Ids, assert_same_subgraph, chi_square, examples

from aethergraph import Graph, NeighborSampler, errors
from aethergraph.testing import oracle

pytestmark = pytest.mark.any_python


def test_long_lists_and_many_threads() -> None:
    rng = np.random.default_rng(4)
    src, dst = rng.integers(0, 3000, 60_000), rng.integers(0, 30, 60_000)
    weight = rng.exponential(size=60_000) * (rng.random(60_000) < 0.9)
    graph = Graph.from_edges(3000, src, dst, edge_weight=weight)
    for fan in ([700, 3], [-1], [5000]):
        for replace in (False, True):
            expected = oracle.sample(
                *graph.csc(), np.arange(30), fan, 3, replace=replace, weight=graph.edge_weight
            )
            for num_threads in (1, 2, 8):
                sampler = NeighborSampler(
                    graph, fan, replace=replace, num_threads=num_threads, weight_attr="edge_weight"
                )
                assert_same_subgraph(sampler.sample(np.arange(30), key=3), expected)


# ---- lists that are long enough to be drawn from by sums -------------------------------------


def long_weights(degree: int, kind: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """Weights of one list; no sum of them is exact but that of "even" ones."""
    weight = {
        "even": np.ones(degree),
        "random": rng.random(degree),
        "zeros": rng.random(degree) * (rng.random(degree) < 0.6),
        "falling": 1e30 ** (1 - np.arange(degree) / degree),
        "rising": 1e30 ** (np.arange(degree) / degree),
    }.get(kind)
    if weight is None:  # one entry holds nearly everything
        weight = rng.random(degree)
        weight[rng.integers(degree)] = 999 * degree
    return weight


@examples(80)
@given(
    degree=st.sampled_from([63, 64, 127, 128, 129, 191, 192, 255, 256, 320, 500, 1000]),
    kind=st.sampled_from(["even", "random", "zeros", "falling", "rising", "one"]),
    fanout=st.sampled_from([0, 1, 2, 5, 7, 8, 9, 16, 31, 62, 63, 90]),
    replace=st.booleans(),
    layout=st.sampled_from(["csc", "both"]),
    dtype=st.sampled_from([np.float32, np.float64]),
    since=st.sampled_from([0, 1, 63, 64, 65, 127, 128, 300]),
    hidden=st.sampled_from([0, 1, 64, 200]),
    part=st.sampled_from([0.0, 0.02, 0.6]),
    strategy=st.sampled_from(["uniform", "last"]),
    seed=st.integers(0, 2**32),
)
def test_long_lists_equal_to_the_oracle(
    degree: int, kind: str, fanout: int, replace: bool, layout: Any, dtype: Any, since: int,
    hidden: int, part: float, strategy: Any, seed: int,
) -> None:  # fmt: skip
    """Lists at the bounds of blocks; what time and exclusion leave of them."""
    rng = np.random.default_rng(seed)
    before = int(rng.integers(0, 130))  # of the list in the arrays
    dst = np.repeat([0, 1, 2], [before, degree, 3])
    weight = np.concatenate([rng.random(before), long_weights(degree, kind, rng), rng.random(3)])
    graph = Graph.from_edges(
        len(dst), np.arange(len(dst)), dst, layout=layout, edge_weight=weight.astype(dtype),
        edge_time=np.concatenate([np.zeros(before), np.arange(degree), np.zeros(3)]),
    )  # fmt: skip
    timed = {"strict": True, "window": max(0, degree - hidden - since)}
    sampler = NeighborSampler(
        graph, [fanout], replace=replace, weight_attr="edge_weight", time_attr="edge_time",
        temporal_strategy=strategy, **timed,
    )  # fmt: skip
    exclude = np.flatnonzero(rng.random(len(dst)) < part)
    until = float(degree - hidden)
    found = sampler.sample([1, 1, 0], key=seed, seed_time=[until] * 3, exclude=exclude)
    expected = oracle.sample(
        *graph.csc(), [1, 1, 0], [fanout], seed,
        replace=replace, disjoint=True, latest=strategy == "last", weight=graph.edge_weight,
        time=graph.edge_time, since=[until - timed["window"]] * 3,
        until=[np.nextafter(until, -np.inf)] * 3, exclude=exclude,
    )  # fmt: skip
    assert_same_subgraph(found, expected)
    plain = NeighborSampler(graph, [fanout], replace=replace, weight_attr="edge_weight")
    expected = oracle.sample(
        *graph.csc(), [2, 1], [fanout], seed, replace=replace, weight=graph.edge_weight
    )
    assert_same_subgraph(plain.sample([2, 1], key=seed), expected)


def drawn(weights: Any, fanout: int, replace: bool, trials: int) -> list[Ids]:
    """The edges that each of many trees draws from one list."""
    edges = len(weights)
    graph = Graph.from_edges(
        edges + 1, np.arange(1, edges + 1), np.zeros(edges, int), edge_weight=weights
    )
    found = NeighborSampler(
        graph, [fanout], replace=replace, disjoint=True, weight_attr="edge_weight"
    ).sample(np.zeros(trials, int), key=12)
    return np.split(found.edge, np.searchsorted(found.col, np.arange(1, trials)))


@pytest.mark.parametrize("kind", ["random", "zeros", "rising"])
def test_distribution_of_few_of_a_long_list_with_replacement(kind: str) -> None:
    weights, trials = long_weights(300, kind, np.random.default_rng(5)), 20_000
    counts = np.bincount(np.concatenate(drawn(weights, 4, True, trials)), minlength=300)
    expected = weights / weights.sum() * 4 * trials
    assert counts[weights == 0].sum() == 0
    frequent = expected > 5
    assert abs(counts[~frequent].sum() - expected[~frequent].sum()) < 40
    assert abs(chi_square(counts[frequent], expected[frequent])) < 5


def chance_of_each(weights: NDArray[np.float64], draws: int) -> NDArray[np.float64]:
    """That it is among the ``draws`` (1 or 2) drawn one after the other."""
    first = weights / weights.sum()
    if draws == 1:
        return first
    odds = first / (1 - first)
    return np.asarray(first + first * (odds.sum() - odds))


@pytest.mark.parametrize("kind", ["random", "zeros", "one"])
def test_distribution_of_few_of_a_long_list_without_replacement(kind: str) -> None:
    """Also where draws are refused again and again, and the reservoir has to take over."""
    weights, trials = long_weights(200, kind, np.random.default_rng(6)), 40_000
    rows = drawn(weights, 2, False, trials)
    assert {len(set(row.tolist())) for row in rows} == {2}
    counts = np.bincount(np.concatenate(rows), minlength=200)
    expected = chance_of_each(weights, 2) * trials
    assert counts[weights == 0].sum() == 0
    if kind == "one":  # nearly always there: too few misses for a cell
        top = int(weights.argmax())
        assert counts[top] >= trials - 300
        counts[top], expected[top] = 0, 0
    assert abs(chi_square(counts[expected > 0], expected[expected > 0])) < 5


@pytest.mark.shares
@pytest.mark.parametrize("degree", [128, 400])
def test_distribution_of_nearly_all_of_a_long_list(degree: int) -> None:
    """By what is left out: of one entry, the chance to be drawn last."""
    weights, trials = np.ones(degree), 8_000
    weights[: degree // 2] = 1e-6
    rows = drawn(weights, degree - 1, False, trials)
    there = np.zeros((trials, degree), bool)
    there[np.repeat(np.arange(trials), [len(row) for row in rows]), np.concatenate(rows)] = True
    _, out = np.nonzero(~there)
    counts = np.bincount(out, minlength=degree)
    assert counts[degree // 2 :].sum() == 0
    light = counts[: degree // 2]
    assert abs(chi_square(light, np.full(degree // 2, trials / (degree // 2)))) < 5


@pytest.mark.parametrize("replace", [False, True])
def test_draws_go_on_beside_a_heavy_entry_that_is_excluded(replace: bool) -> None:
    """Nearly every draw from the sums falls on it."""
    weights = np.random.default_rng(7).random(160)
    weights[70] = 1e6
    graph = Graph.from_edges(161, np.arange(1, 161), np.zeros(160, int), edge_weight=weights)
    found = NeighborSampler(
        graph, [3], replace=replace, disjoint=True, weight_attr="edge_weight"
    ).sample(np.zeros(20_000, int), key=1, exclude=[70])
    assert found.num_edges == 60_000
    counts = np.bincount(found.edge, minlength=160)
    weights[70] = 0
    expected = weights / weights.sum() * 60_000
    assert counts[70] == 0
    if replace:
        assert abs(chi_square(counts[weights > 0], expected[weights > 0])) < 5
    else:  # close to it: of many, three
        assert abs(counts - expected).max() < 6 * np.sqrt(expected.max()) + 0.05 * expected.max()


def test_sums_are_made_once_and_shared() -> None:
    rng = np.random.default_rng(8)
    graph = Graph.from_edges(
        400, rng.integers(0, 400, 9000), rng.integers(0, 3, 9000), layout="both",
        edge_weight=rng.random(9000), edge_attrs={"w": rng.integers(0, 4, 9000)},
    )  # fmt: skip
    assert graph.weight_sums() is graph.weight_sums("csc")
    assert graph.weight_sums() is not graph.weight_sums("csr")
    assert 0 < graph.weight_sums().memory < 9000 // 4 + 5000
    with pytest.raises(errors.InvalidArgumentError, match="has no edge weights"):
        Graph.from_edges(2, [0], [1]).weight_sums()
    sampler = NeighborSampler(graph, [5], weight_attr="edge_weight")
    before = sampler.sample([0, 1, 2], key=3)
    graph.edge_attrs["w"] = np.flip(graph.edge_attrs["w"].array)  # not the graph's own: not kept
    for name, weight in (("w", graph.edge_attrs["w"].array), ("edge_weight", graph.edge_weight)):
        found = NeighborSampler(graph, [5], weight_attr=name).sample([0, 1, 2], key=3)
        assert_same_subgraph(found, oracle.sample(*graph.csc(), [0, 1, 2], [5], 3, weight=weight))
    assert_same_subgraph(sampler.sample([0, 1, 2], key=3), before)


def test_a_file_of_weights_that_shrinks_is_named(
    tmp_path: Path, run_python: Callable[..., Any]
) -> None:
    """In a process of its own, where SIGBUS would kill; the lists are in memory."""
    script = """
        import os, sys
        import numpy as np
        from aethergraph import FeatureTable, Graph, NeighborSampler, errors
        path, rng = sys.argv[1], np.random.default_rng(0)
        FeatureTable.from_array(rng.random(50_000)).save(path)
        graph = Graph.from_edges(500, *rng.integers(0, 500, (2, 50_000)))
        graph.edge_attrs["w"] = FeatureTable.load(path)
        sampler = NeighborSampler(graph, [200], weight_attr="w")
        os.truncate(path, 4096)
        try:
            sampler.sample(np.arange(500), key=1)
        except errors.FileChangedError as error:
            assert path in str(error)
        else:
            raise AssertionError("nobody noticed")
    """
    run_python(script, str(tmp_path / "w.aef"))


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
            NeighborSampler(graph, [1], weight_attr="w")
        assert caught.value.position == 1
