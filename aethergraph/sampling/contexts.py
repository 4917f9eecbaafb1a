"""ContextSampler: a fixed number of rows around each seed row, over foreign keys, in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, as_integer, check_length, to_array
from aethergraph._checks.options import (
    as_choice,
    as_flag,
    as_items,
    as_list,
    as_text,
    is_hashable,
    shown,
)
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.hetero import EdgeType
from aethergraph.graph.ids import check_ids
from aethergraph.graph.schema import Schema
from aethergraph.protocols import HeterogeneousGraph
from aethergraph.sampling._misuse import not_a_graph
from aethergraph.sampling.base import KeyedSampler, TemporalStrategy
from aethergraph.sampling.engine import as_num_threads
from aethergraph.sampling.plan import DrawPlan, Times, TypedLists, find_edge_times, make_plan
from aethergraph.sampling.typed_arguments import check_types

__all__ = ["ContextSampler", "Contexts", "Link"]

Ids = NDArray[np.int64]
_MOST_ROWS = 1 << 24
_MOST_CHILDREN = (1 << 31) - 1
_REVERSE = "rev_"
_SEES_ALL = np.iinfo(np.int64).max


class Link(NamedTuple):
    """Way from a row to others: along a reference of it, or back from the rows that refer to it.

    Attributes:
        edge_type: the edge type of the references, from the row that refers to the one referred to.
        to: ``"parents"`` or ``"children"``.
    """

    edge_type: EdgeType
    to: Literal["parents", "children"]


@dataclass(frozen=True, eq=False)
class Contexts:
    """Rows around seeds, one context for each; -1 behind the last row of a context.

    Attributes:
        node_type: int32 [seeds, budget], number of the node type in ``graph.node_types``.
        node: int64 [seeds, budget], id of the row in its type; column 0 has the seeds.
        parent: int32 [seeds, budget], column of the row that it was reached from; -1: the seed.
        depth: int32 [seeds, budget], steps from the seed.
        link: int32 [seeds, budget], number of the link in ``sampler.links`` that it was reached by;
            -1: the seed.
        length: int64 [seeds], rows of each context.
    """

    node_type: NDArray[np.int32]
    node: Ids
    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    link: NDArray[np.int32]
    length: Ids

    def __repr__(self) -> str:
        seeds, budget = self.node.shape
        return f"Contexts(seeds={seeds}, budget={budget}, rows={int(self.length.sum())})"


class ContextSampler(KeyedSampler):
    """Sampler of contexts: at most ``budget`` rows around each seed row, nearest first.

    ::

        sampler = ContextSampler(graph, budget=256, fanout=8, time_attr="node_time")
        rows = sampler.sample({"user": [3, 4]}, {"user": [t3, t4]}, key=7)
        rows.node[0, : rows.length[0]]      # the rows around user 3, as of t3

    What transformers over databases read (Ranjan and others, "Relational Transformer: Toward
    Zero-Shot Foundation Models for Relational Data", arXiv 2510.06377): from the seed the rows of a
    context are expanded one after the other, in the order in which they were reached. A row adds
    its parents, the rows that it refers to by foreign key, all of them; then its children, the rows
    that refer to it, at most ``fanout`` for each foreign key. A row that is there already is not
    taken again. It ends with ``budget`` rows, or when none are left. Differences from the paper: it
    counts cells, this counts rows; and it draws children at random, this can take the latest.

    No row that has a time later than that of the seed is in a context; times are what is called
    ``time_attr``. Rows without such times are seen by those of the edges that lead to them, if they
    have any; an edge type that has them while its reverse has not is refused there.

    A context depends on (key, seed, time) and the graph alone, not on the other seeds, on threads
    or on storage.

    Args:
        graph: a graph that stores in-neighbours (layout "csc" or "both"), with the reverses of its
            references (``add_reverse=True``) or, in place of them, with layout "both". Times of
            nodes of which a row refers to several by one foreign key need the former.
        budget: most rows of a context, its seed included; 1 to 2^24.
        fanout: most children of a row for each foreign key. Or by edge type; missing types have no
            children taken.
        references: the edge types that are foreign keys, from the row that refers to the one
            referred to. None: all whose name does not begin with ``"rev_"``.
        time_attr: name of the times, which node types and edge types may have. Those without are
            always visible.
        temporal_strategy: ``"last"``: of more than ``fanout`` children the latest are taken, the
            latest first. ``"uniform"``: any of them alike, in random order. None: "last" with
            ``time_attr``, else "uniform".
        strict: leave out what happens at the seed's time itself, too.
        is_sorted: the lists are known to be sorted by time: they are not checked.
        num_threads: threads of the native pool that one call may use; 0 is all of them.
        seed: start of the sequence of keys for calls without a key.

    Raises:
        LayoutError: the graph does not store the neighbours to follow.
        InvalidArgumentError: an argument is invalid, or a list is not sorted by time.
    """

    def __init__(
        self,
        graph: HeterogeneousGraph,
        *,
        budget: int,
        fanout: int | Mapping[EdgeType, int],
        references: Sequence[EdgeType] | None = None,
        time_attr: str | None = None,
        temporal_strategy: TemporalStrategy | None = None,
        strict: bool = False,
        is_sorted: bool = False,
        num_threads: int = 0,
        seed: int = 0,
    ) -> None:
        if not isinstance(graph, HeterogeneousGraph):
            raise not_a_graph(graph, "HeteroGraph", "ContextSampler")
        self._set_seed(seed)
        self.graph = graph
        self.budget = _in_range(budget, "budget", 1, _MOST_ROWS)
        self.time_attr = as_text(time_attr, "time_attr")
        self.strict = as_flag(strict, "strict")
        self.temporal_strategy = _strategy(temporal_strategy, self.time_attr, self.strict)
        self.num_threads = as_num_threads(num_threads)
        self.references = _references(references, graph.edge_types)
        self.fanout = _fanouts(fanout, self.references)
        #: Ways from row to row, in the order in which a row adds others.
        self.links: tuple[Link, ...] = tuple(
            [Link(kind, "parents") for kind in self.references]
            + [Link(kind, "children") for kind in self.references]
        )
        times = None
        if self.time_attr is not None:
            times = Times(self.time_attr, both=True, strict=self.strict)
        schema, is_sorted = Schema(graph), as_flag(is_sorted, "is_sorted")
        lists = [_lists_of(link, graph.edge_types) for link in self.links]
        self._plan = make_plan(schema, lists, times=times, is_sorted=is_sorted)
        _check_reverses(self._plan, self.references)
        counts = [-1] * len(self.references) + [self.fanout[kind] for kind in self.references]
        latest = self.temporal_strategy == "last"
        self._native_options = native.ContextOptions(
            counts, self.budget, latest, self.num_threads
        )  # fmt: skip

    def sample(
        self,
        seeds: Mapping[str, ArrayLike],
        times: Mapping[str, ArrayLike] | None = None,
        key: int | None = None,
    ) -> Contexts:
        """Collect the rows around ``seeds``.

        Args:
            seeds: by node type an integer vector, which may be empty or hold duplicates. The
                contexts come in the order of the mapping.
            times: by node type of ``seeds`` [n], with ``time_attr``: the time of each seed. Missing
                types take the time of the seed row itself.
            key: decides all draws; see :meth:`aethergraph.NeighborSampler.sample`.

        Raises:
            OutOfRangeError: a seed is not a node; names the first one, its type and its position.
            InvalidArgumentError: an argument is invalid, or a time is missing.
            OutOfMemoryError: the result does not fit.
        """
        times_by_type: Mapping[str, ArrayLike] = {} if times is None else times
        plan, types = self._plan, self._plan.schema.node_types
        check_types(seeds, "seeds", types)
        check_types(times_by_type, "times", types)
        ids = {name: as_ids(of_type, f"seeds[{name!r}]") for name, of_type in seeds.items()}
        for name, own_times in times_by_type.items():
            if not len(ids.get(name, ())):  # other times are checked with their seeds
                label, noun = f"times[{name!r}]", f"the number of seeds of {name!r}"
                check_length(to_array(own_times, label), 0, label, noun)
        relations, counts = native.pin_relations(plan.relations, plan.schema.counts)
        number = {name: i for i, name in enumerate(types)}
        until = []
        for name, of_type in ids.items():
            check_ids(of_type, counts[number[name]], f"seeds[{name!r}]")
            bounds = plan.bounds(name, of_type, times_by_type.get(name), f"times[{name!r}]").until
            until.append(np.full(len(of_type), _SEES_ALL) if bounds is None else bounds)
        kinds = [np.full(len(of_type), number[name], np.uint32) for name, of_type in ids.items()]
        joined = np.concatenate([np.empty(0, np.int64), *ids.values()])
        latest = None if self.time_attr is None else np.concatenate([joined[:0], *until])
        own_key, options = self._number(key), self._native_options
        arrays = native.run_long(
            lambda task: native.sample_contexts(
                relations, counts, np.concatenate([np.empty(0, np.uint32), *kinds]), joined, latest,
                own_key, options, task,
            ),
            None,
            28 * self.budget * len(joined),
        )  # fmt: skip
        return Contexts(*arrays)

    def __repr__(self) -> str:
        return (
            f"ContextSampler({self.graph!r}, budget={self.budget}, fanout={self.fanout}, "
            f"time_attr={self.time_attr!r}, temporal_strategy={self.temporal_strategy!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        names = (
            "budget", "fanout", "references", "time_attr", "temporal_strategy", "strict",
            "num_threads", "seed",
        )  # fmt: skip
        return _rebuild, (self.graph, {name: getattr(self, name) for name in names})


def _rebuild(graph: HeterogeneousGraph, options: dict[str, Any]) -> ContextSampler:
    return ContextSampler(graph, is_sorted=True, **options)


def _in_range(value: Any, name: str, low: int, high: int) -> int:
    count = as_integer(value, name, bools=False)
    if not low <= count <= high:
        raise InvalidArgumentError(f"{name} = {count} is not in {low}..{high}")
    return count


def _strategy(
    strategy: TemporalStrategy | None, time_attr: str | None, strict: bool
) -> TemporalStrategy:  # fmt: skip
    if strategy is None:
        strategy = "uniform" if time_attr is None else "last"
    strategy = as_choice(strategy, ("uniform", "last"), "temporal_strategy")
    if time_attr is None and (strict or strategy == "last"):
        raise InvalidArgumentError("strict and temporal_strategy = 'last' need time_attr")
    return strategy


def _references(
    references: Sequence[EdgeType] | None, kinds: Sequence[EdgeType]
) -> tuple[EdgeType, ...]:
    if references is None:
        return tuple(kind for kind in kinds if not kind[1].startswith(_REVERSE))
    chosen = tuple(as_list(references, "references", "edge types"))
    for kind in chosen:
        _check_kind(kind, "references", kinds)
    return tuple(dict.fromkeys(chosen))


def _check_kind(kind: Any, name: str, kinds: Sequence[EdgeType]) -> None:
    if not isinstance(kind, tuple) or not is_hashable(kind) or kind not in kinds:
        known = ", ".join(map(repr, kinds)) or "none"
        raise InvalidArgumentError(f"{name}: {shown(kind)} is no edge type; there are: {known}")


def _fanouts(fanout: Any, kinds: Sequence[EdgeType]) -> dict[EdgeType, int]:
    if not isinstance(fanout, Mapping):
        return dict.fromkeys(kinds, _in_range(fanout, "fanout", 0, _MOST_CHILDREN))
    for kind, _ in as_items(fanout, "fanout", "numbers"):
        _check_kind(kind, "fanout", kinds)
    return {
        kind: _in_range(fanout.get(kind, 0), f"fanout[{kind!r}]", 0, _MOST_CHILDREN)
        for kind in kinds
    }


def _reverse_of(kind: EdgeType) -> EdgeType:
    source, name, target = kind
    return (target, f"{_REVERSE}{name}", source)


def _check_reverses(plan: DrawPlan, references: Sequence[EdgeType]) -> None:
    """Raise where of an edge type and its reverse one alone has times: all the other's are seen."""
    if plan.times is None:
        return
    for kind in references:
        pair = [name for name in (kind, _reverse_of(kind)) if name in plan.schema.edge_types]
        timed = [
            name
            for name in pair
            if find_edge_times(plan.schema, TypedLists(name, "csc"), plan.times.name) is not None
        ]
        # The lists of an edge type lead to rows of its source.
        if timed and any(name not in timed and name[0] not in plan.node_times for name in pair):
            raise InvalidArgumentError(
                f"time_attr = {plan.times.name!r}: {timed[0]} has it and its reverse has not, but "
                "the lists of both are followed: give both their times, as "
                "from_edges(edge_time=..., add_reverse=True) does"
            )


def _lists_of(link: Link, kinds: Sequence[EdgeType]) -> TypedLists:
    """Return the lists of a link.

    Parents stand in the lists of the reverse edge type, or in those of out-neighbours.
    """
    if link.to == "children":
        return TypedLists(link.edge_type, "csc")
    backward = _reverse_of(link.edge_type)
    if backward in kinds:
        return TypedLists(backward, "csc")
    return TypedLists(link.edge_type, "csr")
