"""Rules of samplers that need no statistics: structure, purity, what is refused.

Shared by the samplers of one node type and of many; ``sampler.py`` says how each is called.
"""

from __future__ import annotations

import pickle
import unittest
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph.testing import structure
from aethergraph.testing.rules import (
    Contract,
    equal,
    given,
    in_child,
    in_threads,
    out_of_range,
    refused,
    require,
)
from aethergraph.testing.structure import EdgeType, Walk

__all__ = ["OPTIONS", "Instance", "SampleRules"]

Ids = NDArray[np.int64]

#: The words of ``supports`` and the options that they stand for.
OPTIONS: dict[str, dict[str, Any]] = {
    "replace": {"replace": True},
    "disjoint": {"disjoint": True},
    "induced": {"subgraph_type": "induced"},
    "bidirectional": {"subgraph_type": "bidirectional"},
    "weight": {"weight_attr": "edge_weight"},
    "time": {"time_attr": "edge_time"},
    "node_time": {"time_attr": "node_time"},
    "last": {"time_attr": "edge_time", "temporal_strategy": "last"},
    "strict": {"time_attr": "edge_time", "strict": True},
    "window": {"time_attr": "edge_time", "window": 2},
}
KEYS = (0, 1, 2**32, 2**63, 2**64 - 1)


class Instance(NamedTuple):
    """A graph with what messages say of it."""

    name: str
    graph: Any
    inputs: dict[str, Any]


class SampleRules(Contract):
    """What every sampler must do; see :class:`aethergraph.testing.SamplerContract`."""

    known = frozenset(OPTIONS)
    #: Whether samples equal those of :mod:`aethergraph.testing.oracle`, bit by bit.
    exact: ClassVar[bool] = False

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        """A sampler over ``graph``."""
        raise NotImplementedError("define make(self, graph, fanouts, **options)")

    # ---- how a sampler is called: one node type or many --------------------------------------

    def instances(self, floats: bool = False) -> Iterator[Instance]:
        """Graphs with weights and times."""
        raise NotImplementedError

    def fanout_sets(self, graph: Any) -> list[Any]:
        """Fanouts as ``make`` takes them."""
        raise NotImplementedError

    def seed_sets(self, graph: Any) -> list[dict[str, Ids]]:
        """Seeds by node type."""
        raise NotImplementedError

    def by_kind(self, graph: Any, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """Fanouts by edge type."""
        raise NotImplementedError

    def call(
        self, sampler: Any, seeds: dict[str, Any], key: int, seed_time: Any = None
    ) -> Any:  # fmt: skip
        """``sampler.sample``, with seeds and their times by node type."""
        raise NotImplementedError

    def expected(
        self, graph: Any, seeds: dict[str, Ids], fanouts: Any, key: int, **options: Any
    ) -> dict[str, Any]:
        """The oracle's sample, as :func:`structure.typed` gives it."""
        raise NotImplementedError

    # ---- samples to look at ------------------------------------------------------------------

    def variants(self, *words: str) -> list[dict[str, Any]]:
        """No options, and every combination of those of ``words`` that are declared."""
        found: list[dict[str, Any]] = [{}]
        for word in words:
            if word in self.supports:
                found += [{**one, **OPTIONS[word]} for one in found]
        return found

    def walk(
        self, graph: Any, fanouts: Any, seeds: dict[str, Ids], key: int = 7, **options: Any
    ) -> Walk:
        """One sample."""
        sampler = self.make(graph, fanouts, **options)
        return self.as_walk(self.call(sampler, seeds, key), graph, fanouts, seeds, options)

    def as_walk(
        self, sample: Any, graph: Any, fanouts: Any, seeds: dict[str, Ids], options: dict[str, Any]
    ) -> Walk:  # fmt: skip
        """A sample with what it must agree with."""
        weight, time = options.get("weight_attr"), options.get("time_attr")
        return Walk(
            **structure.typed(sample, graph),
            seeds=seeds,
            fanouts=self.by_kind(graph, fanouts),
            truth=structure.edges_of(graph, weight, time),
            replace=options.get("replace", False),
            disjoint=options.get("disjoint", False) or time is not None,
            latest=options.get("temporal_strategy") == "last",
        )

    def each(
        self, check: Callable[[Walk], None], variants: Sequence[dict[str, Any]], key: int = 7
    ) -> None:  # fmt: skip
        """``check`` samples of all graphs, fanouts, seeds and ``variants``."""
        for instance in self.instances():
            graph = instance.graph
            for options in variants:
                for fanouts in self.fanout_sets(graph):
                    with given(instance.name, **instance.inputs, fanouts=fanouts, options=options):
                        sampler = self.make(graph, fanouts, **options)
                    for seeds in self.seed_sets(graph):
                        with given(
                            instance.name, **instance.inputs, fanouts=fanouts, options=options,
                            seeds=seeds, key=key,
                        ):  # fmt: skip
                            sample = self.call(sampler, seeds, key)
                            check(self.as_walk(sample, graph, fanouts, seeds, options))

    def hub(self, **options: Any) -> tuple[Any, dict[str, Ids], Callable[[int], Any]]:
        """A sampler over the graph of most edges, its seeds, and samples of it by key."""
        *_, last = self.instances()
        sampler = self.make(last.graph, self.fanout_sets(last.graph)[-1], **options)
        seeds = self.seed_sets(last.graph)[-1]
        return (
            sampler, seeds,
            lambda key: flat(structure.typed(self.call(sampler, seeds, key), last.graph)),
        )  # fmt: skip

    # ---- structure ---------------------------------------------------------------------------

    def test_samples_hold_int64_vectors(self) -> None:
        """``node``, ``row``, ``col`` and ``edge`` are int64 vectors, the last three of a length."""
        self.each(structure.check_arrays, self.variants("replace", "disjoint"))

    def test_seeds_come_first(self) -> None:
        """``node`` begins with the seeds, in their order and with duplicates."""
        self.each(structure.check_seeds, self.variants("replace", "disjoint"))

    def test_every_node_has_one_local_id(self) -> None:
        """Local ids are in range, and a node has one of them (a tree, if disjoint)."""
        self.each(structure.check_local_ids, self.variants("replace", "disjoint"))

    def test_nodes_are_in_order_of_first_appearance(self) -> None:
        """``col`` does not decrease, and new nodes take the next local id, hop by hop."""
        self.each(structure.check_order, self.variants("replace", "disjoint"))

    def test_every_edge_is_one_of_the_graph(self) -> None:
        """Edge ``edge[i]`` of the graph leads from ``node[row[i]]`` to ``node[col[i]]``."""
        self.each(structure.check_edges, self.variants("replace", "disjoint"))

    def test_every_node_draws_as_many_as_it_should(self) -> None:
        """min(fanout, degree) distinct edges; exactly fanout with replacement; -1: all of them."""
        self.each(structure.check_draws, self.variants("replace", "disjoint"))

    def test_counts_by_hop(self) -> None:
        """``num_sampled_nodes`` and ``num_sampled_edges``, where given, are those of each hop."""
        self.each(structure.check_counts, self.variants("replace", "disjoint"))

    def test_disjoint_trees(self) -> None:
        """``batch`` numbers the seeds' trees, and no edge leads from one to another."""
        self.need("disjoint")
        disjoint = [options for options in self.variants("disjoint", "replace") if options]
        self.each(structure.check_trees, [o for o in disjoint if "disjoint" in o])

    def test_induced_samples_have_all_edges_among_their_nodes(self) -> None:
        """``subgraph_type="induced"``: every edge whose ends were sampled, and no other."""
        self.need("induced")
        self.each(_check_induced, [OPTIONS["induced"]])

    def test_bidirectional_samples_have_every_reverse(self) -> None:
        """``subgraph_type="bidirectional"``: with (u, v) there is (v, u), every pair once."""
        self.need("bidirectional")
        self.each(_check_bidirectional, [OPTIONS["bidirectional"]])

    # ---- a pure function ---------------------------------------------------------------------

    def test_the_same_key_gives_the_same_sample(self) -> None:
        """A sample depends on graph, seeds and key: not on calls before, nor on the object."""
        for options in self.variants("replace", "disjoint", "weight"):
            _, _, draw = self.hub(**options)
            _, _, other = self.hub(**options)
            first = {key: draw(key) for key in KEYS}
            for key in reversed(KEYS):
                with given("the graph of most edges", options=options, key=key):
                    equal(draw(key), first[key], "the sample, drawn again,")
                    equal(other(key), first[key], "the sample of another such sampler")

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
        found = in_threads([partial(draw, key) for key in keys])
        for key, results in enumerate(found):
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
                found = structure.typed(self.call(copy, seeds, key), last.graph)
                with given("the graph of most edges", options=options, key=key):
                    equal(flat(found), draw(key), "the sample of the copy")

    def test_a_forked_child_draws_the_same(self) -> None:
        """A forked child draws what its parent draws."""
        _, _, draw = self.hub()
        found = in_child(lambda: [draw(key) for key in KEYS])
        for key, sample in zip(KEYS, found, strict=True):
            with given("a forked child", key=key):
                equal(sample, draw(key), "the sample")

    def test_what_a_node_draws_does_not_depend_on_other_seeds(self) -> None:
        """The same key, hop and node: the same edges, whatever else is sampled."""
        for options in self.variants("replace", "weight"):
            for instance in self.instances():
                for fanouts in self.fanout_sets(instance.graph):
                    known: dict[Any, list[int]] = {}
                    for seeds in self.seed_sets(instance.graph):
                        halves = {kind: ids[: len(ids) // 2] for kind, ids in seeds.items()}
                        for own in (seeds, halves, {k: ids[::-1] for k, ids in seeds.items()}):
                            with given(
                                instance.name, **instance.inputs, fanouts=fanouts,
                                options=options, seeds=own,
                            ):  # fmt: skip
                                walk = self.walk(instance.graph, fanouts, own, **options)
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

    # ---- what it refuses ---------------------------------------------------------------------

    def test_seeds_out_of_range_are_named(self) -> None:
        """A seed that is no node is an OutOfRangeError with its value and position."""
        for instance in self.instances():
            graph = instance.graph
            sampler = self.make(graph, self.fanout_sets(graph)[-1])
            for kind, count in self.counts(graph).items():
                for bad in (-1, count, count + 9, 2**32, 2**62):
                    ids = np.array([0, bad, 0, -5][count == 0 :], np.int64)
                    with given(instance.name, **instance.inputs, kind=kind, seeds=ids):
                        out_of_range(bad, int(count > 0), self.call, sampler, {kind: ids}, 1)

    def counts(self, graph: Any) -> dict[str, int]:
        """Nodes by type."""
        raise NotImplementedError

    def test_what_is_no_seed_is_refused(self) -> None:
        """Floats, bools and tables are not seeds."""
        *_, last = self.instances()
        sampler = self.make(last.graph, self.fanout_sets(last.graph)[-1])
        kind = max(self.counts(last.graph), key=self.counts(last.graph).__getitem__)
        bad: list[Any] = [[0.5], np.array([1.0]), np.array([True, False]), [[1, 2]]]
        for seeds in bad:
            refused(f"sample({seeds!r})", self.call, sampler, {kind: seeds}, 1)

    def test_undeclared_options_are_refused(self) -> None:
        """An option that is not in ``supports`` is an error, never a sample that ignores it."""
        *_, last = self.instances()
        fanouts, seeds = self.fanout_sets(last.graph)[-1], self.seed_sets(last.graph)[-1]
        for word in sorted(self.known - set(self.supports)):
            options = OPTIONS[word]
            times = None
            if "time_attr" in options:
                times = {kind: np.full(len(ids), 2) for kind, ids in seeds.items()}
            what = f"options {options}, as {word!r} is not declared,"
            refused(what, self._make_and_call, last.graph, fanouts, options, seeds, times)

    def _make_and_call(
        self, graph: Any, fanouts: Any, options: Any, seeds: Any, times: Any
    ) -> Any:  # fmt: skip
        return self.call(self.make(graph, fanouts, **options), seeds, 1, times)

    # ---- bit by bit --------------------------------------------------------------------------

    def test_samples_equal_the_oracle(self) -> None:
        """If ``exact``: every array and count is that of ``aethergraph.testing.oracle``."""
        if not self.exact:
            raise unittest.SkipTest(f"{type(self).__name__} does not declare exact = True")
        for key in (3, 2**64 - 1):
            variants = self.variants("replace", "disjoint", "weight")
            for word in ("induced", "bidirectional"):
                variants += [OPTIONS[word]] if word in self.supports else []
            for instance in self.instances():
                graph = instance.graph
                for options in variants:
                    for fanouts in self.fanout_sets(graph):
                        sampler = self.make(graph, fanouts, **options)
                        for seeds in self.seed_sets(graph):
                            found = structure.typed(self.call(sampler, seeds, key), graph)
                            wanted = self.expected(graph, seeds, fanouts, key, **options)
                            with given(
                                instance.name, **instance.inputs, fanouts=fanouts, options=options,
                                seeds=seeds, key=key,
                            ):  # fmt: skip
                                equal_samples(found, wanted)


def equal_samples(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Two samples by type, as :func:`structure.typed` gives them, must be the same."""
    for name in ("node", "row", "col", "edge", "batch"):
        if wanted[name] is None:
            require(found[name] is None, f"{name} must be None")
            continue
        for kind, ids in wanted[name].items():
            equal(found[name][kind], ids, f"{name} of {kind}", np.int64)
    for name in ("hop_nodes", "hop_edges"):
        require(
            found[name] == wanted[name], f"{name}: expected {wanted[name]}, found {found[name]}"
        )


def flat(sample: dict[str, Any]) -> Ids:
    """A sample by type as one vector, lengths included."""
    parts: list[Any] = []
    for name in ("node", "row", "col", "edge", "batch"):
        for ids in (sample[name] or {}).values():
            parts += [[len(ids)], ids]
    return np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64)


def _first_tree(walk: Walk) -> dict[EdgeType, list[int]]:
    """The edges of the tree of the first seed of the first type that has any."""
    assert walk.batch is not None
    return {
        kind: walk.edge[kind][walk.batch[kind[2]][walk.col[kind]] == 0].tolist()
        for kind in walk.truth
    }


def _check_induced(walk: Walk) -> None:
    for check in (structure.check_arrays, structure.check_seeds, structure.check_local_ids):
        check(walk)
    structure.check_edges(walk)
    for kind, edges in walk.truth.items():
        sampled = np.isin(edges.src, walk.node[kind[0]])
        for local, node in enumerate(walk.node[kind[2]].tolist()):
            ids = edges.into(node)
            found = np.sort(walk.edge[kind][walk.col[kind] == local])
            equal(found, np.sort(ids[sampled[ids]]), f"edges of {kind} to slot {local}, sorted,")


def _check_bidirectional(walk: Walk) -> None:
    structure.check_seeds(walk)
    pairs: dict[EdgeType, list[tuple[int, int]]] = {
        kind: list(zip(walk.row[kind].tolist(), walk.col[kind].tolist(), strict=True))
        for kind in walk.truth
    }
    for kind, own in pairs.items():
        if kind[0] == kind[2]:
            require(len(set(own)) == len(own), f"{kind} has a pair twice")
            alone = sorted(set(own) - {(col, row) for row, col in own})
            require(not alone, f"{kind}: the pairs {alone} have no reverse")
            edges, ids = walk.truth[kind], walk.edge[kind]
            row, col = walk.node[kind[0]][walk.row[kind]], walk.node[kind[2]][walk.col[kind]]
            ahead = (edges.src[ids] == row) & (edges.dst[ids] == col)
            back = (edges.src[ids] == col) & (edges.dst[ids] == row)
            require((ahead | back).all(), f"{kind}: an edge id joins other nodes")
