"""Rules of samplers about several options together: each must hold beside the others."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph.testing import structure, subgraphs
from aethergraph.testing.draws import DrawRules, time_bounds
from aethergraph.testing.rules import given, require
from aethergraph.testing.sample_rules import OPTIONS, WORDS, Instance, equal_samples
from aethergraph.testing.structure import Walk

__all__ = ["Choice", "CombinedRules", "bind", "certain_fanouts", "choices"]

Ids = NDArray[np.int64]

_APART = ({"induced", "bidirectional"}, {"time", "node_time"})


class Choice(NamedTuple):
    """Options of ``make``, and whether ``sample`` is told edges to leave out."""

    options: dict[str, Any]
    exclude: bool

    @property
    def subgraph_type(self) -> str:
        """Subgraph type that the options ask for."""
        kind: str = self.options.get("subgraph_type", "directional")
        return kind


def choices(words: Collection[str], most: int = 3) -> list[Choice]:
    """Return all sets of one to ``most`` of ``words`` that can be chosen together.

    ``last``, ``strict`` and ``window`` go by the times of edges, or of nodes beside ``node_time``.
    """
    choice_by_text: dict[str, Choice] = {}
    for count in range(1, most + 1):
        for chosen in itertools.combinations([word for word in WORDS if word in words], count):
            if any(pair <= set(chosen) for pair in _APART):
                continue
            options: dict[str, Any] = {}
            for word in chosen:
                options |= OPTIONS.get(word, {})
            if "node_time" in chosen:
                options |= OPTIONS["node_time"]
            choice = Choice(options, "exclude" in chosen)
            choice_by_text.setdefault(repr((sorted(options.items()), choice.exclude)), choice)
    return list(choice_by_text.values())


class CombinedRules(DrawRules):
    """Rules about options together; see :class:`aethergraph.testing.SamplerContract`."""

    def mixture(self, repeated: bool) -> Instance:
        """Return a graph in which every option changes samples.

        Args:
            repeated: include duplicate edges. Without them no list has two edges of one time.
        """
        raise NotImplementedError

    def mixture_seeds(self) -> dict[str, Ids]:
        """Return seeds by node type."""
        raise NotImplementedError

    def mixture_fanouts(self, graph: Any, *fanouts: int) -> Any:
        """Return fanouts by hop, equal for all edge types, as ``make`` takes them."""
        raise NotImplementedError

    def chosen_arguments(self, graph: Any, seeds: dict[str, Ids], choice: Choice) -> dict[str, Any]:
        """Return the arguments of ``call`` beside seeds and key: times, and edges to leave out.

        A third of the edges are left out.
        """
        times = exclude = None
        if "time_attr" in choice.options:
            values = [3, 2, 4, 3] if choice.options["time_attr"] == "node_time" else [6, 4, 8, 5]
            times = {kind: np.resize(values, len(ids)) for kind, ids in seeds.items()}
        if choice.exclude:
            counts = {kind: len(edges.src) for kind, edges in structure.edges_of(graph).items()}
            exclude = {kind: np.arange(0, count, 3) for kind, count in counts.items()}
        return {"seed_time": times, "exclude": exclude}

    def _compare(
        self, instance: Instance, fanouts: Any, choice: Choice, certain: bool
    ) -> None:  # fmt: skip
        graph, seeds, key = instance.graph, self.mixture_seeds(), 5
        arguments = self.chosen_arguments(graph, seeds, choice)
        with given(
            instance.name, **instance.inputs, fanouts=fanouts, options=choice.options,
            seeds=seeds, key=key, **arguments,
        ):  # fmt: skip
            sampler = self.make(graph, fanouts, **choice.options)
            sample = self.call(sampler, seeds, key, **arguments)
            walk = self.as_walk(sample, graph, fanouts, seeds, choice.options)
            bind(walk, choice, **arguments)
            subgraphs.check_sample(walk, choice.subgraph_type)
            if not certain and not self.exact:
                return
            expected = self.expected(
                graph, seeds, fanouts, key, **choice.options, since=walk.since, until=walk.until,
                exclude=arguments["exclude"],
            )  # fmt: skip
            typed_sample = structure.typed(sample, graph)
            if certain:
                subgraphs.check_contents(typed_sample, expected, choice.subgraph_type)
            if self.exact:
                equal_samples(typed_sample, expected)

    def test_options_hold_together(self) -> None:
        """Any two or three declared options hold together: a sample has what each asks for."""
        instance = self.mixture(repeated=True)
        fanouts = self.mixture_fanouts(instance.graph, 3, 2)
        for choice in choices(self.supports):
            self._compare(instance, fanouts, choice, certain=False)

    def test_options_decide_together_what_is_sampled(self) -> None:
        """With any two or three declared options the sample is known where nothing is drawn.

        That is where all neighbours are taken, or the latest one.
        """
        instance = self.mixture(repeated=False)
        for choice in choices(self.supports):
            for fanouts in certain_fanouts(choice):
                mixture_fanouts = self.mixture_fanouts(instance.graph, *fanouts)
                self._compare(instance, mixture_fanouts, choice, certain=True)

    def test_replacement_holds_with_every_option(self) -> None:
        """With replacement some sample of two draws out of two neighbours has only one of them."""
        self.need("replace")
        graph, kind = self.star(4, 2, weight=np.ones(2, np.float32), time=np.zeros(2, np.int64))
        seeds = {name: np.empty(0, np.int64) for name in self.counts(graph)}
        seeds[kind[2]] = np.array([3])
        fanouts = self.fanouts_of_star(graph, kind, 2)
        words = set(self.supports) - {"replace", "exclude"}
        for choice in choices(words):
            options = {**choice.options, **OPTIONS["replace"]}
            times = None
            if "time_attr" in options:
                times = {name: np.ones(len(ids), np.int64) for name, ids in seeds.items()}
            with given("two neighbours", options=options, fanouts=fanouts):
                sampler = self.make(graph, fanouts, **options)
                sizes = (
                    len(
                        structure.typed(self.call(sampler, seeds, key, times), graph)["node"][
                            kind[0]
                        ]
                    )
                    for key in range(64)
                )
                one_type = kind[0] == kind[2]
                require(any(size < 2 + one_type for size in sizes), "64 samples have both")


def certain_fanouts(choice: Choice) -> list[tuple[int, ...]]:
    """Return fanouts that leave no choice in a graph without ties in its lists."""
    last = choice.options.get("temporal_strategy") == "last"
    return [(-1, -1), (1, 1)] if last and "weight_attr" not in choice.options else [(-1, -1)]


def bind(walk: Walk, choice: Choice, seed_time: Any, exclude: Any) -> None:
    """Set the bounds of the trees of ``walk``, and the edges that were left out."""
    if seed_time is not None:
        walk.until, walk.since = time_bounds(seed_time, choice.options)
    if exclude is not None:
        walk.exclude = exclude
