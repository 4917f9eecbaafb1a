"""Rules about repeated samples: they are a pure function of graph, seeds and key."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.testing import structure
from aethergraph.testing.rules import equal, given, in_child, in_threads, require
from aethergraph.testing.sample_rules import SampleRules
from aethergraph.testing.structure import EdgeType, Walk

__all__ = ["PurityRules"]

Ids = NDArray[np.int64]

KEYS = (0, 1, 2**32, 2**63, 2**64 - 1)


class PurityRules(SampleRules):
    """Rules about samples of equal keys; see :class:`aethergraph.testing.SamplerContract`."""

    def hub(self, **options: Any) -> tuple[Any, dict[str, Ids], Callable[[int], Any]]:
        """Return a sampler over the graph of most edges, its seeds, and its samples by key."""
        *_, last = self.instances()
        sampler = self.make(last.graph, self.fanout_sets(last.graph)[-1], **options)
        seeds = self.seed_sets(last.graph)[-1]
        return (
            sampler, seeds,
            lambda key: flat(structure.typed(self.call(sampler, seeds, key), last.graph)),
        )  # fmt: skip

    def test_the_same_key_gives_the_same_sample(self) -> None:
        """A sample depends on graph, seeds and key: not on calls before, nor on the object."""
        for options in self.variants("replace", "disjoint", "weight"):
            _, _, draw = self.hub(**options)
            _, _, second_draw = self.hub(**options)
            first = {key: draw(key) for key in KEYS}
            for key in reversed(KEYS):
                with given("the graph of most edges", options=options, key=key):
                    equal(draw(key), first[key], "the sample, drawn again,")
                    equal(second_draw(key), first[key], "the sample of another such sampler")

    def test_other_keys_give_other_samples(self) -> None:
        """Every bit of a 64-bit key counts."""
        _, _, draw = self.hub()
        seen: dict[bytes, int] = {}
        for key in (*range(30), *(1 << bit for bit in range(5, 64)), 2**64 - 1):
            known = seen.setdefault(draw(key).tobytes(), key)
            require(known == key, f"the keys {known} and {key} give the same sample")

    def test_threads_draw_the_same(self) -> None:
        """Several threads may share a sampler, and get what one alone gets."""
        _, _, draw = self.hub()
        keys = range(6)
        expected = [draw(key) for key in keys]
        results_by_key = in_threads([partial(draw, key) for key in keys])
        for key, results in enumerate(results_by_key):
            for result in results:
                with given("a thread of six", key=key):
                    equal(result, expected[key], "the sample")

    def test_it_pickles(self) -> None:
        """A pickled copy draws the same."""
        for options in self.variants("replace", "disjoint", "weight"):
            sampler, seeds, draw = self.hub(**options)
            *_, last = self.instances()
            copy = pickle.loads(pickle.dumps(sampler))
            for key in KEYS:
                sample = structure.typed(self.call(copy, seeds, key), last.graph)
                with given("the graph of most edges", options=options, key=key):
                    equal(flat(sample), draw(key), "the sample of the copy")

    def test_a_forked_child_draws_the_same(self) -> None:
        """A forked child draws what its parent draws."""
        _, _, draw = self.hub()
        samples = in_child(lambda: [draw(key) for key in KEYS])
        for key, sample in zip(KEYS, samples, strict=True):
            with given("a forked child", key=key):
                equal(sample, draw(key), "the sample")

    def test_what_a_node_draws_does_not_depend_on_other_seeds(self) -> None:
        """For one key, hop and node the edges are the same, whatever else is sampled."""
        for options in self.variants("replace", "weight"):
            for instance in self.instances():
                for fanouts in self.fanout_sets(instance.graph):
                    known: dict[Any, list[int]] = {}
                    for seeds in self.seed_sets(instance.graph):
                        halves = {kind: ids[: len(ids) // 2] for kind, ids in seeds.items()}
                        for chosen_seeds in (
                            seeds,
                            halves,
                            {k: ids[::-1] for k, ids in seeds.items()},
                        ):
                            with given(
                                instance.name, **instance.inputs, fanouts=fanouts,
                                options=options, seeds=chosen_seeds,
                            ):  # fmt: skip
                                walk = self.walk(instance.graph, fanouts, chosen_seeds, **options)
                                for at, drawn in structure.draws_by_node(walk).items():
                                    before = known.setdefault(at, drawn)
                                    require(
                                        before == drawn,
                                        f"(edge type, hop, node) {at} drew {drawn}, but {before} "
                                        "in a sample of other seeds",
                                    )

    def test_a_tree_does_not_depend_on_other_seeds(self) -> None:
        """Disjoint: the tree of a slot is the same whatever seeds the other slots hold."""
        self.need("disjoint")
        *_, last = self.instances()
        fanouts = self.fanout_sets(last.graph)[-1]
        seeds = self.seed_sets(last.graph)[-1]
        trees = []
        for kept in (
            seeds,
            {kind: np.append(ids[:1], ids[1:][::-1]) for kind, ids in seeds.items()},
        ):
            walk = self.walk(last.graph, fanouts, kept, disjoint=True)
            trees.append(_first_tree(walk))
        require(
            trees[0] == trees[1],
            f"the first seed's tree holds the edges {trees[0]}; with other seeds {trees[1]}",
        )


def flat(sample: dict[str, Any]) -> Ids:
    """Flatten a sample by type to one vector, lengths included."""
    parts: list[Any] = []
    for name in ("node", "row", "col", "edge", "batch"):
        for ids in (sample[name] or {}).values():
            parts += [[len(ids)], ids]
    return np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64)


def _first_tree(walk: Walk) -> dict[EdgeType, list[int]]:
    """Return the edges of the tree of the first seed of the first type that has any."""
    assert walk.batch is not None
    return {
        kind: walk.edge[kind][walk.batch[kind[2]][walk.col[kind]] == 0].tolist()
        for kind in walk.truth
    }
