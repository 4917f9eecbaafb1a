"""The contracts of samplers can fail: every mutant breaks the rule that it was made to break."""

from __future__ import annotations

import itertools
import os
import threading
import unittest
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.reference import Oracle

from aethergraph import HeteroNeighborSampler
from aethergraph.sampling.keys import mix_key
from aethergraph.testing import HeteroSamplerContract, SamplerContract
from aethergraph.testing.rules import BrokenRule
from aethergraph.testing.sample_rules import OPTIONS, WORDS


class TestReferenceSampler(SamplerContract):
    supports = set(WORDS)
    exact = True

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        return Oracle(graph, fanouts, **options)


# ---- mutants of one line ---------------------------------------------------------------------


class After(Oracle):
    """The oracle's sample, changed."""

    def sample(self, seeds: Any, key: int = 0, **arguments: Any) -> Any:
        return self.change(super().sample(seeds, key, **arguments))

    def change(self, sub: Any) -> Any:
        raise NotImplementedError


def changing(name: str, values: Callable[[Any], dict[str, Any]]) -> type[Oracle]:
    """Make a mutant whose samples have these values, of what the oracle gives."""

    def change(self: Any, sub: Any) -> Any:
        return replace(sub, **values(sub))

    return type(name, (After,), {"change": change})


def drawing(name: str, values: Callable[[dict[str, Any]], dict[str, Any]]) -> type[Oracle]:
    """Make a mutant that draws with these arguments, of those that are given."""

    def draw(self: Any, ids: Any, key: int, **arguments: Any) -> Any:
        return Oracle.draw(self, ids, key, **{**arguments, **values(arguments)})

    return type(name, (Oracle,), {"draw": draw})


def always(name: str, **values: Any) -> type[Oracle]:
    """Make a mutant that draws with these arguments, whatever is given."""
    return drawing(name, lambda _: values)


def keyed(name: str, key_of: Callable[[Any, Any, int], int]) -> type[Oracle]:
    """Make a mutant that draws with another key, of itself, the seeds and the key."""

    def draw(self: Any, ids: Any, key: int, **arguments: Any) -> Any:
        return Oracle.draw(self, ids, key_of(self, ids, key), **arguments)

    return type(name, (Oracle,), {"draw": draw})


def bounded(name: str, values: Callable[[Any, bool, Any], tuple[Any, bool, Any]]) -> type[Oracle]:
    """Make a mutant that sees other times: of those of the seeds, ``strict`` and the window."""

    def bounds(self: Any, at: Any, strict: bool, window: Any) -> dict[str, Any]:
        return Oracle.bounds(self, *values(at, strict, window))

    return type(name, (Oracle,), {"bounds": bounds})


Int32 = changing("Int32", lambda sub: {"row": sub.row.astype(np.int32)})
SeedsLast = changing("SeedsLast", lambda sub: {"node": sub.node[::-1].copy()})
ReversedEdges = changing(
    "ReversedEdges",
    lambda sub: {name: getattr(sub, name)[::-1].copy() for name in ("row", "col", "edge")},
)
OtherEdgeIds = changing("OtherEdgeIds", lambda sub: {"edge": np.maximum(sub.edge - 1, 0)})
OneTree = changing(
    "OneTree", lambda sub: {"batch": None if sub.batch is None else np.zeros_like(sub.batch)}
)
AlwaysReplaces = always("AlwaysReplaces", replace=True)
NeverReplaces = always("NeverReplaces", replace=False)
SharedTrees = always("SharedTrees", disjoint=False)
OnlyDirectional = always("OnlyDirectional", subgraph_type="directional")
NoWeights = always("NoWeights", weight=None)
AnyInTime = always("AnyInTime", latest=False)
TimesOfEdgesOnly = always("TimesOfEdgesOnly", node_time=None)
LatestAlways = drawing("LatestAlways", lambda given: {"latest": "until" in given})
RoundedWeights = drawing(  # zero or not, but no more
    "RoundedWeights",
    lambda given: {"weight": np.sign(given["weight"])} if "weight" in given else {},
)
WeightsWithoutTime = drawing(
    "WeightsWithoutTime", lambda given: {} if given.get("weight") is None else {"time": None}
)
OnlyDirectionalInTime = drawing(
    "OnlyDirectionalInTime",
    lambda given: {"subgraph_type": "directional"} if "until" in given else {},
)
ReplacesOnlyDirectional = drawing(
    "ReplacesOnlyDirectional",
    lambda given: {"replace": False} if "subgraph_type" in given else {},
)
ByObject = keyed("ByObject", lambda self, _, key: mix_key(key, id(self)))
ShortKeys = keyed("ShortKeys", lambda self, _, key: key % 2**32)
ByThread = keyed("ByThread", lambda self, _, key: mix_key(key, threading.get_ident()))
ByProcess = keyed("ByProcess", lambda self, _, key: mix_key(key, os.getpid()))
BySeeds = keyed("BySeeds", lambda self, ids, key: mix_key(key, *ids.tolist()))
AlmostTheOracle = keyed("AlmostTheOracle", lambda self, _, key: key ^ 1)
TiesLeftOut = bounded("TiesLeftOut", lambda at, strict, window: (at, True, window))
NotStrict = bounded("NotStrict", lambda at, strict, window: (at, False, window))
NoWindow = bounded("NoWindow", lambda at, strict, window: (at, strict, None))
ShortWindow = bounded(
    "ShortWindow",
    lambda at, strict, window: (at, strict, None if window is None else window - 1),
)
NegativeTimesAsZero = bounded(
    "NegativeTimesAsZero", lambda at, strict, window: (np.maximum(at, 0), strict, window)
)
FloatTimesTruncated = bounded(
    "FloatTimesTruncated",
    lambda at, strict, window: (np.trunc(at) if at.dtype.kind == "f" else at, strict, window),
)


# ---- the others ------------------------------------------------------------------------------


class UniqueSeeds(Oracle):
    def draw(self, ids: Any, key: int, **arguments: Any) -> Any:
        if "until" in arguments:
            return super().draw(ids, key, **arguments)
        return super().draw(np.unique(ids), key, **arguments)


class TwoIdsPerNode(After):
    """A source that is a seed gets a second local id."""

    def change(self, sub: Any) -> Any:
        if not len(sub.row) or sub.batch is not None:
            return sub
        node = np.append(sub.node, sub.node[sub.row[-1]])
        return replace(sub, node=node, row=np.append(sub.row[:-1], len(node) - 1))


class NodesById(After):
    """New nodes sorted by id."""

    def change(self, sub: Any) -> Any:
        if sub.num_sampled_nodes is None or sub.batch is not None:
            return sub
        seeds = sub.num_sampled_nodes[0]
        order = np.append(np.arange(seeds), seeds + np.argsort(sub.node[seeds:], kind="stable"))
        place = np.argsort(order)
        col = place[sub.col]
        by_col = np.argsort(col, kind="stable")
        return replace(
            sub, node=sub.node[order], row=place[sub.row][by_col], col=col[by_col],
            edge=sub.edge[by_col],
        )  # fmt: skip


class OneTooFew(Oracle):
    def draw(self, ids: Any, key: int, **arguments: Any) -> Any:
        fanouts, self.fanouts = self.fanouts, [k - 1 if k > 1 else k for k in self.fanouts]
        try:
            return super().draw(ids, key, **arguments)
        finally:
            self.fanouts = fanouts


class WrongCounts(After):
    def change(self, sub: Any) -> Any:
        counts = sub.num_sampled_nodes
        return replace(sub, num_sampled_nodes=counts and [*counts[:-1], counts[-1] + 1])


class CountsItsCalls(Oracle):
    calls = 0

    def draw(self, ids: Any, key: int, **arguments: Any) -> Any:
        self.calls += 1
        return super().draw(ids, mix_key(key, self.calls), **arguments)


class ForgetsItsOptions(Oracle):
    def __reduce__(self) -> Any:
        return type(self), (self.graph, self.fanouts)


class SeedsFromTheEnd(Oracle):
    def sample(self, seeds: Any, key: int = 0, **arguments: Any) -> Any:
        if isinstance(seeds, np.ndarray) and self.graph.num_nodes and seeds.dtype.kind == "i":
            seeds = np.where(seeds < 0, seeds % self.graph.num_nodes, seeds)
        return super().sample(seeds, key, **arguments)


class FloatSeeds(Oracle):
    def sample(self, seeds: Any, key: int = 0, **arguments: Any) -> Any:
        return super().sample(np.asarray(seeds).astype(np.int64), key, **arguments)


class FirstOnes(Oracle):
    """The first edges of every list."""

    def draw(self, ids: Any, key: int, **arguments: Any) -> Any:
        if len(self.fanouts) != 1 or self.fanouts[0] < 0 or arguments.get("replace"):
            return super().draw(ids, key, **arguments)
        full = oracle_all(self, ids)
        keep = np.concatenate(
            [np.flatnonzero(full.col == slot)[: self.fanouts[0]] for slot in range(len(ids))]
        )
        return replace(full, row=full.row[keep], col=full.col[keep], edge=full.edge[keep])


def oracle_all(sampler: Oracle, ids: Any) -> Any:
    return Oracle(sampler.graph, [-1]).sample(ids)


class Windows(Oracle):
    """Neighbours in a row: each as likely, but not every subset."""

    def draw(self, ids: Any, key: int, **arguments: Any) -> Any:
        if len(self.fanouts) != 1 or self.fanouts[0] < 0 or len(arguments) > 1:
            return super().draw(ids, key, **arguments)
        full, keep = oracle_all(self, ids), []
        rng = np.random.default_rng(key)
        for slot in range(len(ids)):
            own = np.flatnonzero(full.col == slot)
            keep.append(np.roll(own, rng.integers(0, len(own)))[: self.fanouts[0]])
        chosen = np.concatenate(keep)
        return replace(full, row=full.row[chosen], col=full.col[chosen], edge=full.edge[chosen])


class SameEverywhere(Oracle):
    """The same position in every list of a call, and the next one with the next key."""

    def draw(self, ids: Any, key: int, **arguments: Any) -> Any:
        if self.fanouts != [1]:
            return super().draw(ids, key, **arguments)
        full = oracle_all(self, ids)
        keep = [
            own[key % len(own)]
            for own in (np.flatnonzero(full.col == slot) for slot in range(len(ids)))
            if len(own)
        ]
        return replace(full, row=full.row[keep], col=full.col[keep], edge=full.edge[keep])


class Pairs(Oracle):
    """The second draw with replacement is the first."""

    def draw(self, ids: Any, key: int, **arguments: Any) -> Any:
        found = super().draw(ids, key, **arguments)
        if arguments.get("replace") and self.fanouts == [2]:
            first = np.arange(len(found.row)) // 2 * 2
            return replace(found, row=found.row[first], edge=found.edge[first])
        return found


class TreesAlike(Oracle):
    """Disjoint, but all slots of a node draw the same."""

    def draw(self, ids: Any, key: int, **arguments: Any) -> Any:
        found = super().draw(ids, key, **arguments)
        if not arguments.get("disjoint") or len(self.fanouts) != 1 or self.fanouts[0] != 1:
            return found
        edge = np.full_like(found.edge, found.edge[0]) if len(found.edge) else found.edge
        return replace(found, edge=edge)


class SquaredWeights(Oracle):
    def draw(self, ids: Any, key: int, **arguments: Any) -> Any:
        if "weight" in arguments and not arguments.get("replace") and self.fanouts == [2]:
            arguments["weight"] = arguments["weight"] ** 1.3
        return super().draw(ids, key, **arguments)


class NoTimes(Oracle):
    def bounds(self, at: Any, strict: bool, window: Any) -> dict[str, Any]:
        return {**super().bounds(at, strict, window), "until": None}


class NotStrictWithLast(Oracle):
    def bounds(self, at: Any, strict: bool, window: Any) -> dict[str, Any]:
        last = self.options.get("temporal_strategy") == "last"
        return super().bounds(at, strict and not last, window)


DRAWS = "test_every_node_draws_as_many_as_it_should"
TOGETHER = "test_options_decide_together_what_is_sampled"
REPLACEMENT = "test_replacement_holds_with_every_option"
SAMPLERS = [
    (Int32, "test_samples_hold_int64_vectors"),
    (SeedsLast, "test_seeds_come_first"),
    (UniqueSeeds, "test_seeds_come_first"),
    (TwoIdsPerNode, "test_every_node_has_one_local_id"),
    (ReversedEdges, "test_nodes_are_in_order_of_first_appearance"),
    (NodesById, "test_nodes_are_in_order_of_first_appearance"),
    (OtherEdgeIds, "test_every_edge_is_one_of_the_graph"),
    (OneTooFew, DRAWS),
    (AlwaysReplaces, DRAWS),
    (NeverReplaces, DRAWS),
    (WrongCounts, "test_counts_by_hop"),
    (OneTree, "test_disjoint_trees"),
    (SharedTrees, "test_disjoint_trees"),
    (OnlyDirectional, "test_induced_samples_have_all_edges_among_their_nodes"),
    (OnlyDirectional, "test_bidirectional_samples_have_every_reverse"),
    (CountsItsCalls, "test_the_same_key_gives_the_same_sample"),
    (ByObject, "test_the_same_key_gives_the_same_sample"),
    (ShortKeys, "test_other_keys_give_other_samples"),
    (ByThread, "test_threads_draw_the_same"),
    (ForgetsItsOptions, "test_it_pickles"),
    (ByProcess, "test_a_forked_child_draws_the_same"),
    (BySeeds, "test_what_a_node_draws_does_not_depend_on_other_seeds"),
    (BySeeds, "test_a_tree_does_not_depend_on_other_seeds"),
    (SeedsFromTheEnd, "test_seeds_out_of_range_are_named"),
    (FloatSeeds, "test_what_is_no_seed_is_refused"),
    (FirstOnes, "test_every_neighbour_is_as_likely"),
    (Windows, "test_every_subset_is_as_likely"),
    (SameEverywhere, "test_nodes_and_keys_draw_independently"),
    (Pairs, "test_draws_with_replacement_are_uniform_and_independent"),
    (TreesAlike, "test_trees_draw_independently"),
    (NoWeights, "test_an_edge_of_weight_zero_is_never_drawn"),
    (RoundedWeights, "test_edges_are_drawn_by_weight"),
    (SquaredWeights, "test_weighted_draws_without_replacement_are_sequential"),
    (NoTimes, "test_no_edge_is_later_than_its_seed"),
    (TiesLeftOut, "test_no_edge_is_later_than_its_seed"),
    (FloatTimesTruncated, "test_no_edge_is_later_than_its_seed"),
    (NegativeTimesAsZero, "test_no_edge_is_later_than_its_seed"),
    (TimesOfEdgesOnly, "test_no_node_is_later_than_its_seed"),
    (NotStrict, "test_strictly_earlier_edges"),
    (NoWindow, "test_edges_in_a_window"),
    (ShortWindow, "test_edges_in_a_window"),
    (AnyInTime, "test_the_last_edges_in_time"),
    (LatestAlways, "test_edges_in_time_are_as_likely"),
    (WeightsWithoutTime, "test_weights_and_times_together"),
    (OnlyDirectionalInTime, TOGETHER),
    (NotStrictWithLast, "test_options_hold_together"),
    (ReplacesOnlyDirectional, REPLACEMENT),
    (AlmostTheOracle, "test_samples_equal_the_oracle"),
]


@pytest.mark.parametrize(("mutant", "rule"), SAMPLERS)
def test_sampler_mutants(mutant: type[Oracle], rule: str) -> None:
    class Mutant(TestReferenceSampler):
        def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
            return mutant(graph, fanouts, **options)

    with pytest.raises(AssertionError) as caught:
        getattr(Mutant(), rule)()
    assert type(caught.value).__name__ == "BrokenRule"


def test_every_rule_of_samplers_can_be_broken() -> None:
    rules = {name for name in dir(SamplerContract) if name.startswith("test_")}
    tested = {rule for _, rule in SAMPLERS}
    assert rules - tested == {
        "test_supports_holds_known_words", "test_undeclared_options_are_refused"
    }  # fmt: skip


@pytest.mark.parametrize("word", sorted(WORDS))
def test_options_without_effect_are_caught(word: str) -> None:
    """A sampler that takes options that it does not declare, and ignores them."""

    class Mutant(TestReferenceSampler):
        supports = set(WORDS) - {word}

        def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
            return Oracle(graph, fanouts, **options)

    with pytest.raises(AssertionError, match=f"{word!r} is not declared"):
        Mutant().test_undeclared_options_are_refused()


class Ignoring(Oracle):
    """Ignores one option where another is given as well."""

    ignored = beside = ""

    def draw(self, ids: Any, key: int, **arguments: Any) -> Any:
        if {self.ignored, self.beside} <= self.words(arguments):
            arguments |= {
                "replace": {"replace": False},
                "disjoint": {"disjoint": False},
                "induced": {"subgraph_type": "directional"},
                "bidirectional": {"subgraph_type": "directional"},
                "weight": {"weight": None},
                "time": {"until": None},
                "node_time": {"until": None},
                "last": {"latest": False},
                "strict": {"until": arguments.get("until", 0) + 1},
                "window": {"since": None},
                "exclude": {"exclude": None},
            }[self.ignored]
        return super().draw(ids, key, **arguments)

    def words(self, arguments: Any) -> set[str]:
        given = {**self.options, "exclude": "exclude" in arguments}
        return {
            word
            for word in WORDS
            if all(
                given.get(k) == v
                for k, v in OPTIONS.get(word, {"exclude": True}).items()
                if k != "time_attr" or word in ("time", "node_time")
            )
        }


IN_TIME = {"time", "node_time", "last", "strict", "window"}
PAIRS = [
    (ignored, beside)
    for ignored, beside in itertools.permutations(WORDS, 2)
    if {ignored, beside} not in ({"induced", "bidirectional"}, {"time", "node_time"})
    and not (ignored == "disjoint" and beside in IN_TIME)  # samples in time are disjoint
]


@pytest.mark.parametrize(("ignored_word", "other"), PAIRS)
def test_an_option_that_is_ignored_beside_another_is_caught(
    ignored_word: str, other: str
) -> None:  # fmt: skip
    """By what the rules ask of any sampler: it does not claim to be exact."""

    class Mutant(Ignoring):
        ignored, beside = ignored_word, other

    class Its(SamplerContract):
        supports = {ignored_word, other}

        def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
            return Mutant(graph, fanouts, **options)

    broken = []
    for rule in (TOGETHER, REPLACEMENT, "test_options_hold_together"):
        try:
            getattr(Its(), rule)()
        except unittest.SkipTest:
            pass
        except BrokenRule:
            broken.append(rule)
    assert broken


def test_words_that_are_not_known_are_caught() -> None:
    class Mutant(TestReferenceSampler):
        supports = {"replacement"}

    with pytest.raises(AssertionError, match="replacement"):
        Mutant().test_supports_holds_known_words()


# ---- samplers of many types ------------------------------------------------------------------


class TypedMutant(HeteroNeighborSampler):
    """Ours, changed."""

    def sample(self, seeds: Any, key: Any = None, **arguments: Any) -> Any:
        return self.change(super().sample(seeds, key, **arguments))

    def change(self, sub: Any) -> Any:
        return sub


class OneFanoutForAll(TypedMutant):
    def __init__(self, graph: Any, fanouts: Any, **options: Any) -> None:
        super().__init__(graph, next(iter(fanouts.values())), **options)


class OtherTurns(TypedMutant):
    """Edge types take their turns in another order."""

    def __init__(self, graph: Any, fanouts: Any, **options: Any) -> None:
        kinds = list(graph.edge_types)[::-1]
        ends = {kind: graph[kind].edge_index() for kind in kinds}
        turned = type(graph).from_edges(ends, graph.num_nodes)
        super().__init__(turned, fanouts)


class IdsOfAllTypes(TypedMutant):
    """Edge ids count through the types."""

    def change(self, sub: Any) -> Any:
        start, edge = 0, {}
        for kind, ids in sub.edge.items():
            edge[kind] = ids + start
            start += self.graph[kind].num_edges
        return replace(sub, edge=edge)


class MissingTypes(TypedMutant):
    """Edge types without edges are left out."""

    def change(self, sub: Any) -> Any:
        kept = [kind for kind, ids in sub.row.items() if len(ids)]
        return replace(sub, row={kind: sub.row[kind] for kind in kept})


class TreesByType(TypedMutant):
    """Seeds are numbered from 0 in every type."""

    def change(self, sub: Any) -> Any:
        if sub.batch is None:
            return sub
        batch = {kind: ids - ids.min(initial=0) for kind, ids in sub.batch.items()}
        return replace(sub, batch={k: b - (b[0] if len(b) else 0) for k, b in batch.items()})


class TimesOfOneType(TypedMutant):
    def __init__(self, graph: Any, fanouts: Any, **options: Any) -> None:
        self.timed = options.pop("time_attr", None) is not None
        options.pop("disjoint", None)
        super().__init__(graph, fanouts, disjoint=self.timed, **options)

    def sample(self, seeds: Any, key: Any = None, *, seed_time: Any = None) -> Any:
        return super().sample(seeds, key)


class Forgetful(TypedMutant):
    """Ignores options where others are given as well."""

    dropped = beside = ""

    def __init__(self, graph: Any, fanouts: Any, **options: Any) -> None:
        if any(options.get(k) == v for k, v in OPTIONS[self.beside].items()):
            for name in set(OPTIONS[self.dropped]) - {"time_attr"}:
                options.pop(name, None)
        super().__init__(graph, fanouts, **options)


def forgetful(name: str, dropped: str, beside: str) -> type[TypedMutant]:
    """Make a mutant that ignores one option where the other is given."""
    return type(name, (Forgetful,), {"dropped": dropped, "beside": beside})


InducedUnlessDisjoint = forgetful("InducedUnlessDisjoint", "induced", "disjoint")
WeightsUnlessInduced = forgetful("WeightsUnlessInduced", "weight", "induced")
ReplacesUnlessInduced = forgetful("ReplacesUnlessInduced", "replace", "induced")
LastUnlessOfNodes = forgetful("LastUnlessOfNodes", "last", "node_time")
WindowUnlessOfNodes = forgetful("WindowUnlessOfNodes", "window", "node_time")


class ReversesOfOneType(TypedMutant):
    """Reverses do not join the type that leads back."""

    def change(self, sub: Any) -> Any:
        if sub.num_sampled_nodes is not None:
            return sub
        kind = next(kind for kind in sub.row if kind[0] != kind[2])
        keep = np.arange(len(sub.row[kind])) % 2 == 0
        parts = {name: {**getattr(sub, name)} for name in ("row", "col", "edge")}
        for ids in parts.values():
            ids[kind] = ids[kind][keep]
        return replace(sub, **parts)


TYPED = [
    (InducedUnlessDisjoint, TOGETHER),
    (WeightsUnlessInduced, TOGETHER),
    (LastUnlessOfNodes, TOGETHER),
    (WindowUnlessOfNodes, "test_options_hold_together"),
    (ReversesOfOneType, "test_options_hold_together"),
    (ReplacesUnlessInduced, REPLACEMENT),
    (OneFanoutForAll, DRAWS),
    (OtherTurns, "test_nodes_are_in_order_of_first_appearance"),
    (IdsOfAllTypes, "test_every_edge_is_one_of_the_graph"),
    (MissingTypes, "test_samples_hold_int64_vectors"),
    (TreesByType, "test_disjoint_trees"),
    (TimesOfOneType, "test_no_edge_is_later_than_its_seed"),
    (TimesOfOneType, "test_no_node_is_later_than_its_seed"),
]


@pytest.mark.parametrize(("mutant", "rule"), TYPED)
def test_typed_mutants(mutant: type[HeteroNeighborSampler], rule: str) -> None:
    class Mutant(HeteroSamplerContract):
        supports = set(WORDS)

        def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
            return mutant(graph, fanouts, **options)

    with pytest.raises(AssertionError) as caught:
        getattr(Mutant(), rule)()
    assert type(caught.value).__name__ == "BrokenRule"
