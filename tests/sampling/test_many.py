"""sample_many: its arguments side by side, keys of its own, and what it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aethergraph as ag
from aethergraph import HeteroNeighborSampler, errors

STORAGES = ["mmap", "memory", "uring"]
SEEDS = [[1], [2, 5], [3]]
KIND = ("node", "to", "node")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 500, (2, 9000))
    path = tmp_path_factory.mktemp("many") / "graph.aeg"
    ag.Graph.from_edges(500, src, dst, edge_time=rng.integers(0, 9, 9000)).save(path)
    return path


def typed(path: Path) -> HeteroNeighborSampler:
    edges = ag.Graph.load(path).edge_index()
    times = np.arange(9000)
    graph = ag.HeteroGraph.from_edges({KIND: edges}, {"node": 500}, edge_time={KIND: times})
    return HeteroNeighborSampler(graph, [3, 2], time_attr="edge_time")


@pytest.mark.parametrize("storage", ["mmap", "uring"])
@pytest.mark.parametrize("make", [list, iter], ids=["sized", "iterators"])
@pytest.mark.parametrize("name", ["keys", "seed_time", "exclude"])
def test_every_batch_needs_its_arguments(
    path: Path, storage: Any, make: Callable[[Any], Any], name: str
) -> None:
    sampler = ag.NeighborSampler(ag.Graph.load(path, storage=storage), [3], time_attr="edge_time")
    given: dict[str, Any] = {
        "keys": range(3), "seed_time": [[4], [4, 4], [4]], "exclude": [None] * 3,
    }  # fmt: skip
    assert len(list(sampler.sample_many(SEEDS, **given))) == 3
    given[name] = make(list(given[name])[:1])
    with pytest.raises(errors.InvalidArgumentError, match=f"^{name} (has 1 items|ends after 1)"):
        list(sampler.sample_many(SEEDS, **given))


def test_endless_arguments_are_taken(path: Path) -> None:
    sampler = ag.NeighborSampler(ag.Graph.load(path), [3], time_attr="edge_time")
    made = sampler.sample_many(
        SEEDS, itertools.count(), seed_time=itertools.repeat(None), exclude=itertools.repeat([7])
    )
    with pytest.raises(errors.InvalidArgumentError, match=r"^seed_time\[0\] is needed"):
        next(made)
    untimed = ag.NeighborSampler(ag.Graph.load(path), [3])
    found = list(untimed.sample_many(SEEDS, itertools.count(5)))
    for key, seeds, sample in zip((5, 6, 7), SEEDS, found, strict=True):
        np.testing.assert_array_equal(sample.edge, untimed.sample(seeds, key).edge)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": [[1], [2, 500], [3]]}, r"seeds\[1\]\[1\] = 500 is not in"),
        ({"seeds": [[1], [2, 5], [0.5]]}, r"seeds\[2\] must hold integers"),
        ({"keys": [0, 1, None]}, r"keys\[2\] must be an integer"),
        ({"exclude": [None, None, [9000]]}, r"exclude\[2\]\[0\] = 9000 is not in"),
        ({"seed_time": [[4], [4], [4]]}, r"seed_time\[1\] has"),
        ({"seed_time": [[4], [4, 4], [0.5]]}, r"seed_time\[2\] is float64"),
    ],
)
def test_what_is_wrong_is_named_with_its_batch(
    path: Path, change: dict[str, Any], message: str
) -> None:
    given: dict[str, Any] = {
        "seeds": SEEDS, "keys": range(3), "seed_time": [[4], [4, 4], [4]], "exclude": None,
    } | change  # fmt: skip
    sampler = ag.NeighborSampler(ag.Graph.load(path, storage="uring"), [3], time_attr="edge_time")
    with pytest.raises(errors.AetherError, match=f"^{message}"):
        list(sampler.sample_many(**given))
    assert len(list(sampler.sample_many([[1]], [0], seed_time=[[4]]))) == 1  # it goes on


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": [{"node": [1]}, {"node": [2, 500]}]}, r"seeds\[1\]\['node'\]\[1\] = 500 "),
        ({"seeds": [{"node": [1]}, {"what": [2]}]}, r"seeds\[1\]: 'what' is no node type"),
        ({"exclude": [None, {KIND: [9000]}]}, r"exclude\[1\]\[.*\]\[0\] = 9000 "),
        ({"exclude": [None, {("a", "b", "c"): [0]}]}, r"exclude\[1\]: \('a'.* is no edge type"),
        ({"seed_time": [{"node": [1]}, {}]}, r"seed_time\[1\]\['node'\] is needed"),
        ({"seed_time": [{"node": [1]}]}, r"seed_time has 1 items for 2 batches"),
    ],
)
def test_typed_batches_are_named_too(path: Path, change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "seeds": [{"node": [1]}, {"node": [2]}], "keys": range(2),
        "seed_time": [{"node": [4]}] * 2,
    } | change  # fmt: skip
    with pytest.raises(errors.AetherError, match=f"^{message}"):
        list(typed(path).sample_many(**given))


def test_leaving_early_does_not_show_in_later_samples(path: Path) -> None:
    """How far ahead batches are made depends on storage, later keys must not."""
    later = []
    for storage in STORAGES:
        sampler = ag.NeighborSampler(ag.Graph.load(path, storage=storage), [3, 2], seed=4)  # type: ignore[arg-type]
        many = sampler.sample_many([[n] for n in range(40)])
        first = next(many)
        between = sampler.sample([6])
        second = next(many)
        del many
        found = [first, between, second, sampler.sample([7]), *sampler.sample_many([[8], [8]])]
        later.append([sample.edge.tolist() for sample in found])
    assert later[0] == later[1] == later[2]
    assert later[0][-1] != later[0][-2]  # each batch draws for itself
