"""Rules of samplers about draws: equally likely, in time, by weight.

The statistics have fixed keys, so that they give the same verdict in every run.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.testing import structure
from aethergraph.testing.purity import PurityRules
from aethergraph.testing.rules import given, require
from aethergraph.testing.sample_rules import OPTIONS, equal_samples
from aethergraph.testing.structure import EdgeType

__all__ = ["DrawRules", "time_bounds"]

Ids = NDArray[np.int64]

_HUBS = 4000
_DEGREE = 12
_KEYS = 1500


class DrawRules(PurityRules):
    """Rules about the draws of every sampler; see :class:`aethergraph.testing.SamplerContract`."""

    def star(
        self, count: int, degree: int, weight: Any = None, time: Any = None
    ) -> tuple[Any, EdgeType]:
        """Return a graph in which nodes 0 .. degree - 1 have an edge to each of 0 .. count - 1.

        ``weight`` and ``time`` are by source; with times all nodes have the time 0.

        Returns:
            The graph, and the type of these edges.
        """
        raise NotImplementedError

    def fanouts_of_star(self, graph: Any, kind: EdgeType, fanout: int) -> Any:
        """Return one hop with that fanout, as ``make`` takes it."""
        raise NotImplementedError

    def drawn(
        self, degree: int, fanout: int, *, count: int = _HUBS, keys: int = 1, weight: Any = None,
        time: Any = None, seed_time: Any = None, **options: Any,
    ) -> Ids:  # fmt: skip
        """Return the sources drawn for ``count`` nodes and ``keys`` keys, [n, edges each]."""
        graph, kind = self.star(count, degree, weight, time)
        sampler = self.make(graph, self.fanouts_of_star(graph, kind, fanout), **options)
        source = graph.edge_index()[0] if kind == structure.KIND else graph[kind].edge_index()[0]
        seeds = {kind[2]: np.arange(count)}
        times = None if seed_time is None else {kind[2]: np.full(count, seed_time)}
        rows = []
        for key in range(keys):
            sample = structure.typed(self.call(sampler, seeds, key, times), graph)
            edges, col = sample["edge"][kind], sample["col"][kind]
            each = len(edges) // count
            evenly = np.array_equal(col, np.repeat(np.arange(count), each))
            require(evenly, f"{len(edges)} edges for {count} nodes of one degree each")
            rows.append(source[edges].reshape(count, each))
        return np.concatenate(rows)

    # ---- every neighbour is as likely --------------------------------------------------------

    def test_every_neighbour_is_as_likely(self) -> None:
        """Without replacement: over nodes, and over keys, each neighbour in fanout/degree draws."""
        for fanout in (1, 4, 11):
            for count, keys in ((_HUBS, 1), (1, _KEYS)):
                draws = self.drawn(_DEGREE, fanout, count=count, keys=keys)
                share = fanout / _DEGREE
                # Draws of one node exclude each other: their spread is less than that of
                # independent draws.
                spread = (1 - share) * _DEGREE / (_DEGREE - 1)
                counts = np.bincount(draws.ravel(), minlength=_DEGREE)
                _fits(counts, np.full(_DEGREE, len(draws) * share), f"fanout {fanout}", spread)

    def test_every_subset_is_as_likely(self) -> None:
        """Without replacement every pair of neighbours comes equally often."""
        for count, keys in ((_HUBS, 1), (1, _KEYS)):
            draws = np.sort(self.drawn(7, 2, count=count, keys=keys), axis=1)
            counts = np.bincount(draws[:, 0] * 7 + draws[:, 1], minlength=49)
            pairs = [a * 7 + b for a, b in itertools.combinations(range(7), 2)]
            _fits(counts[pairs], np.full(21, len(draws) / 21), "pairs out of 7")

    def test_draws_with_replacement_are_uniform_and_independent(self) -> None:
        """With replacement every sequence of two neighbours comes equally often."""
        self.need("replace")
        for count, keys in ((_HUBS, 1), (1, _KEYS)):
            draws = self.drawn(6, 2, count=count, keys=keys, replace=True)
            counts = np.bincount(draws[:, 0] * 6 + draws[:, 1], minlength=36)
            _fits(counts, np.full(36, len(draws) / 36), "sequences of two out of 6")

    def test_nodes_and_keys_draw_independently(self) -> None:
        """What a node draws says nothing about the next node, nor about the next key."""
        for count, keys in ((_HUBS, 1), (1, _KEYS)):
            draws = self.drawn(6, 1, count=count, keys=keys)[:, 0]
            pairs = np.bincount(draws[:-1] * 6 + draws[1:], minlength=36)
            _fits(pairs, np.full(36, (len(draws) - 1) / 36), "draws of neighbours")

    def test_trees_draw_independently(self) -> None:
        """Disjoint: the same seed in many slots draws anew in each."""
        self.need("disjoint")
        graph, kind = self.star(1, _DEGREE)
        fanouts = self.fanouts_of_star(graph, kind, 1)
        sampler = self.make(graph, fanouts, disjoint=True)
        seeds = {kind[2]: np.zeros(_HUBS, np.int64)}
        walk = self.as_walk(self.call(sampler, seeds, 3), graph, fanouts, seeds, {"disjoint": True})
        sources = walk.truth[kind].src[walk.edge[kind]]
        counts = np.bincount(sources, minlength=_DEGREE)
        _fits(counts, np.full(_DEGREE, len(sources) / _DEGREE), "draws of one seed in many slots")

    # ---- weights -----------------------------------------------------------------------------

    def test_an_edge_of_weight_zero_is_never_drawn(self) -> None:
        """Counts are those among the edges with a weight above 0, and no other is drawn."""
        self.need("weight")
        weighted = [o for o in self.variants("weight", "replace", "disjoint") if "weight_attr" in o]
        self.each(structure.check_draws, weighted)

    def test_edges_are_drawn_by_weight(self) -> None:
        """One draw, and each with replacement, takes an edge with weight over the sum."""
        self.need("weight")
        weight = np.array([0.5, 0, 1, 2, 4, 8, 0, 1])
        expected = weight / weight.sum()
        for count, keys in ((_HUBS, 1), (1, _KEYS)):
            for options in self.variants("replace"):
                fanout = 2 if options else 1
                draws = self.drawn(
                    8, fanout, count=count, keys=keys, weight=weight, **OPTIONS["weight"], **options
                )
                counts = np.bincount(draws.ravel(), minlength=8)
                _fits(counts, expected * draws.size, f"weights {weight.tolist()}, {options}")

    def test_weighted_draws_without_replacement_are_sequential(self) -> None:
        """As if drawn one after the other, each among what is left (Efraimidis and Spirakis)."""
        self.need("weight")
        weight = np.array([1.0, 2, 3, 6])
        draws = np.sort(self.drawn(4, 2, weight=weight, **OPTIONS["weight"]), axis=1)
        pairs = list(itertools.combinations(range(4), 2))
        total = weight.sum()
        chance = [
            weight[a] * weight[b] / total * (1 / (total - weight[a]) + 1 / (total - weight[b]))
            for a, b in pairs
        ]
        counts = np.bincount(draws[:, 0] * 4 + draws[:, 1], minlength=16)
        pair_counts = counts[[a * 4 + b for a, b in pairs]]
        _fits(pair_counts, np.array(chance) * len(draws), "pairs, weights 1, 2, 3, 6")

    # ---- time --------------------------------------------------------------------------------

    def _each_in_time(self, word: str, *further: str) -> None:
        """Check samples with ``word``, alone and with the declared options among ``further``."""
        variants = [{**options, **OPTIONS[word]} for options in self.variants(*further)]
        for options, floats in itertools.product(variants, (False, True)):
            for instance in self.instances(floats):
                graph = instance.graph
                for fanouts in self.fanout_sets(graph):
                    sampler = self.make(graph, fanouts, **options)
                    for seeds in self.seed_sets(graph):
                        times = _seed_times(seeds, floats, extremes=len(options) < 2)
                        with given(
                            instance.name, **instance.inputs, fanouts=fanouts, options=options,
                            seeds=seeds, seed_time=times, key=5,
                        ):  # fmt: skip
                            sample = self.call(sampler, seeds, 5, times)
                            walk = self.as_walk(sample, graph, fanouts, seeds, options)
                            walk.until, walk.since = time_bounds(times, options)
                            structure.check_trees(walk)
                            structure.check_times(walk)
                            structure.check_draws(walk)
                            if self.exact:
                                expected = self.expected(
                                    graph, seeds, fanouts, 5,
                                    **options, since=walk.since, until=walk.until,
                                )  # fmt: skip
                                equal_samples(structure.typed(sample, graph), expected)

    def test_no_edge_is_later_than_its_seed(self) -> None:
        """At any hop an edge's time is at most its tree's; ties are in, and so is all before."""
        self.need("time")
        self._each_in_time("time", "replace")

    def test_no_node_is_later_than_its_seed(self) -> None:
        """With times of nodes an edge's far end is at most as late as the edge's tree."""
        self.need("node_time")
        self._each_in_time("node_time")

    def test_the_last_edges_in_time(self) -> None:
        """``temporal_strategy="last"`` draws the latest of the edges that are in time."""
        self.need("last")
        self._each_in_time("last", "replace")

    def test_strictly_earlier_edges(self) -> None:
        """``strict=True`` leaves out edges at the very time of the seed."""
        self.need("strict")
        self._each_in_time("strict")

    def test_edges_in_a_window(self) -> None:
        """``window=w`` leaves out edges before the seed's time minus w, and no later ones."""
        self.need("window")
        self._each_in_time("window")

    def test_edges_in_time_are_as_likely(self) -> None:
        """Among the edges that are in time each is as likely, and none of the others comes."""
        self.need("time")
        time = np.arange(_DEGREE) - 4
        draws = self.drawn(_DEGREE, 2, time=time, seed_time=3, **OPTIONS["time"])
        counts = np.bincount(draws.ravel(), minlength=_DEGREE)
        require(not counts[8:].any(), f"edges after their seed were drawn: {counts}")
        _fits(counts[:8], np.full(8, len(draws) / 4), "8 of 12 edges in time", 0.75 * 8 / 7)

    def test_weights_and_times_together(self) -> None:
        """Edges in time are drawn by their weights; late ones and those of weight 0 never."""
        self.need("time", "weight")
        options = {**OPTIONS["time"], **OPTIONS["weight"]}
        weight, time = np.array([1.0, 0, 3, 4, 9, 0]), np.arange(6)
        draws = self.drawn(6, 1, weight=weight, time=time, seed_time=3, **options)
        counts = np.bincount(draws.ravel(), minlength=6)
        _fits(counts, np.array([1, 0, 3, 4, 0, 0]) / 8 * len(draws), "weights, up to time 3")


def _seed_times(seeds: dict[str, Ids], floats: bool, extremes: bool) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(8)
    values: Any = [-3, -1, 0, 1, 2, 3]
    if floats:
        values = [-2.5, -0.0, 0.0, 1e-310, 0.75, 1.25, 3.0] + [-np.inf, np.inf] * extremes
    elif extremes:
        values = [*values, -(2**63), 2**63 - 1]
    kind = np.float64 if floats else np.int64
    return {name: rng.choice(np.array(values, kind), len(ids)) for name, ids in seeds.items()}


def time_bounds(
    times: dict[str, NDArray[Any]], options: dict[str, Any]
) -> tuple[NDArray[Any], NDArray[Any] | None]:  # fmt: skip
    """Return inclusive bounds (until, since) by tree."""
    at = np.concatenate(list(times.values()))
    until = at
    if options.get("strict"):
        until = np.nextafter(at, -np.inf) if at.dtype.kind == "f" else at - 1
    window = options.get("window")
    return until, None if window is None else at - window


def _fits(counts: Any, expected: NDArray[Any], subject: str, spread: float = 1.0) -> None:
    """Require ``counts`` to fit by a chi-square test at five standard deviations.

    Counts whose expectation is zero must be zero.
    """
    never = expected == 0
    require(not counts[never].any(), f"{subject}: {counts} were drawn, expected {expected}")
    drawn, mean = counts[~never], expected[~never]
    degrees = len(drawn) - 1
    statistic = float(((drawn - mean) ** 2 / (mean * spread)).sum())
    off = (statistic - degrees) / np.sqrt(2 * degrees)
    require(
        abs(off) < 5,
        f"{subject}: drawn {drawn.tolist()} times, expected {np.round(mean, 1).tolist()}; "
        f"chi-square {statistic:.1f} with {degrees} degrees of freedom is {off:.1f} standard "
        "deviations off",
    )
