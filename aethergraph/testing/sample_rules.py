"""Rules of samplers about one sample: its structure, equality with the oracle, refusals.

Samplers of one node type and of many share these rules; ``sampler.py`` defines how each is called.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph.testing import structure, subgraphs
from aethergraph.testing.rules import (
    Contract,
    equal,
    given,
    out_of_range,
    refused,
    require,
)
from aethergraph.testing.structure import EdgeType, Walk

__all__ = ["OPTIONS", "WORDS", "Instance", "SampleRules", "equal_samples"]

Ids = NDArray[np.int64]

#: Options of ``make`` for each word of ``supports``.
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
#: All words of ``supports``; ``"exclude"`` is an argument of ``sample``.
WORDS = (*OPTIONS, "exclude")


class Instance(NamedTuple):
    """Graph with its name and its inputs, for messages."""

    name: str
    graph: Any
    inputs: dict[str, Any]


class SampleRules(Contract):
    """Rules about each sample; see :class:`aethergraph.testing.SamplerContract`."""

    known = frozenset(WORDS)
    #: True if samples equal those of :mod:`aethergraph.testing.oracle`, bit by bit.
    exact: ClassVar[bool] = False

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        """Make a sampler over ``graph``."""
        raise NotImplementedError("define make(self, graph, fanouts, **options)")

    # ---- calls of a sampler of one node type or many -----------------------------------------

    def instances(self, floats: bool = False) -> Iterator[Instance]:
        """Yield graphs with weights and times."""
        raise NotImplementedError

    def fanout_sets(self, graph: Any) -> list[Any]:
        """Return the fanouts to try, as ``make`` takes them."""
        raise NotImplementedError

    def seed_sets(self, graph: Any) -> list[dict[str, Ids]]:
        """Return the seeds to try, by node type."""
        raise NotImplementedError

    def by_kind(self, graph: Any, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """Return fanouts by edge type."""
        raise NotImplementedError

    def call(
        self, sampler: Any, seeds: dict[str, Any], key: int, seed_time: Any = None,
        exclude: Any = None,
    ) -> Any:  # fmt: skip
        """Call ``sampler.sample``.

        Args:
            sampler: the sampler.
            seeds: seeds by node type.
            key: the key of the draws.
            seed_time: times of the seeds by node type.
            exclude: edges to leave out, by edge type.
        """
        raise NotImplementedError

    def expected(
        self, graph: Any, seeds: dict[str, Ids], fanouts: Any, key: int, **options: Any
    ) -> dict[str, Any]:
        """Return the oracle's sample, in the form of :func:`structure.typed`."""
        raise NotImplementedError

    # ---- samples to check --------------------------------------------------------------------

    def variants(self, *words: str) -> list[dict[str, Any]]:
        """Return no options, and every combination of the declared ones among ``words``."""
        variants: list[dict[str, Any]] = [{}]
        for word in words:
            if word in self.supports:
                variants += [{**options, **OPTIONS[word]} for options in variants]
        return variants

    def walk(
        self, graph: Any, fanouts: Any, seeds: dict[str, Ids], key: int = 7, **options: Any
    ) -> Walk:
        """Draw one sample."""
        sampler = self.make(graph, fanouts, **options)
        return self.as_walk(self.call(sampler, seeds, key), graph, fanouts, seeds, options)

    def as_walk(
        self, sample: Any, graph: Any, fanouts: Any, seeds: dict[str, Ids], options: dict[str, Any]
    ) -> Walk:  # fmt: skip
        """Return a sample together with the values that it must agree with."""
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
        """Apply ``check`` to samples of all graphs, fanouts, seeds and ``variants``."""
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
        self.each(_checked("induced"), [OPTIONS["induced"]])

    def test_bidirectional_samples_have_every_reverse(self) -> None:
        """``subgraph_type="bidirectional"``: with (u, v) there is (v, u), every pair once."""
        self.need("bidirectional")
        self.each(_checked("bidirectional"), [OPTIONS["bidirectional"]])

    # ---- refusals ----------------------------------------------------------------------------

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
        """Return the number of nodes by type."""
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
            options, times = OPTIONS.get(word, {}), None
            left_out = None
            if word == "exclude":
                left_out = {
                    kind: np.zeros(1, np.int64) for kind in self.by_kind(last.graph, fanouts)
                }
            if "time_attr" in options:
                times = {kind: np.full(len(ids), 2) for kind, ids in seeds.items()}
            subject = f"{word}, with the options {options}, as {word!r} is not declared,"
            arguments = options, seeds, times, left_out
            refused(subject, self._make_and_call, last.graph, fanouts, *arguments)

    def _make_and_call(
        self, graph: Any, fanouts: Any, options: Any, seeds: Any, times: Any, exclude: Any
    ) -> Any:  # fmt: skip
        return self.call(self.make(graph, fanouts, **options), seeds, 1, times, exclude)

    # ---- bit by bit --------------------------------------------------------------------------

    def test_samples_equal_the_oracle(self) -> None:
        """If ``exact``: every array and count is that of ``aethergraph.testing.oracle``.

        One option at a time; :mod:`aethergraph.testing.combined` combines options.
        """
        if not self.exact:
            raise unittest.SkipTest(f"{type(self).__name__} does not declare exact = True")
        words = ("replace", "disjoint", "weight", "induced", "bidirectional")
        variants = [{}, *(OPTIONS[word] for word in words if word in self.supports)]
        key = 2**64 - 1
        for instance in self.instances():
            graph = instance.graph
            for options in variants:
                for fanouts in self.fanout_sets(graph):
                    sampler = self.make(graph, fanouts, **options)
                    for seeds in self.seed_sets(graph):
                        sample = structure.typed(self.call(sampler, seeds, key), graph)
                        expected = self.expected(graph, seeds, fanouts, key, **options)
                        with given(
                            instance.name, **instance.inputs, fanouts=fanouts, options=options,
                            seeds=seeds, key=key,
                        ):  # fmt: skip
                            equal_samples(sample, expected)


def equal_samples(sample: dict[str, Any], expected: dict[str, Any]) -> None:
    """Require two samples by type, in the form of :func:`structure.typed`, to be equal."""
    for name in ("node", "row", "col", "edge", "batch"):
        if expected[name] is None:
            require(sample[name] is None, f"{name} must be None")
            continue
        for kind, ids in expected[name].items():
            equal(sample[name][kind], ids, f"{name} of {kind}", np.int64)
    for name in ("hop_nodes", "hop_edges"):
        require(
            sample[name] == expected[name],
            f"{name}: expected {expected[name]}, found {sample[name]}",
        )


def _checked(subgraph_type: str) -> Callable[[Walk], None]:
    return lambda walk: subgraphs.check_sample(walk, subgraph_type)
