"""planned_map: results of samples, made with the rows of the next ones in view.

samples -> [ a chunk of them | plan their rows ] -> [ finish one after the other ] -> results
             a background thread samples ahead        a background thread

How many samples are in view, users say. Where they do not, short rows of a graph out of core
(``_value_columns.py``) are read together: those of edges with each group of samples, others for as
many samples as its budget has room for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from aethergraph.features import FeatureStore
from aethergraph.loading.pipeline import PrefetchIterator, prefetch_map
from aethergraph.sampling.groups import EdgeColumns, SampleGroups, SamplesAhead

__all__ = ["Coming", "choose_plans", "planned_map"]

S = TypeVar("S")
P = TypeVar("P")
R = TypeVar("R")


class Coming(NamedTuple):
    """What is planned for coming samples.

    Attributes:
        num_samples: at a time; 0: nothing is planned.
        chosen: the stores that are, each with its position among those given.
        columns: of edges, for groups of samples to read with them.
        memory: held as long as they are, which is when their part of the budget is theirs.
    """

    num_samples: int
    chosen: list[tuple[int, FeatureStore]]
    columns: EdgeColumns = ()
    memory: SamplesAhead | None = None


def choose_plans(
    stores: Sequence[FeatureStore], plan_ahead: int, groups: SampleGroups | None, num_seeds: int
) -> Coming:
    """Choose the stores whose gathers are planned, and for how many samples at a time.

    Args:
        stores: what batches carry.
        plan_ahead: what the user asked for; 0: only rows that the budget of the graph has no room
            for are planned, for as many samples as it has room for.
        groups: makes the samples together; None: each is made alone.
        num_seeds: of a batch, about.
    """
    numbered = [(i, store, store.paged_column()) for i, store in enumerate(stores)]
    if plan_ahead:
        chosen = [(i, store) for i, store, column in numbered if column or store.has_cache]
        return Coming(plan_ahead if chosen else 0, chosen)
    if groups is None:
        return Coming(0, [])
    columns = groups.columns_of([column for _, _, column in numbered if column])
    grouped = {id(column) for _, column in columns}
    rest = [(i, store) for i, store, column in numbered if column and id(column) not in grouped]
    memory = groups.reserve_ahead(num_seeds) if rest else None
    return Coming(0 if memory is None else memory.count, rest, columns, memory)


class _Chunk(Generic[S, P]):
    """Samples that are planned together when the first of them is finished."""

    def __init__(self, plan: Callable[[Sequence[S]], P], samples: Sequence[S]) -> None:
        self._make = plan
        self._samples = samples
        self._plan: P | None = None

    def plan(self) -> P:
        """The plan of all; the chunk before has been finished, and has given its plan up."""
        if self._plan is None:
            self._plan = self._make(self._samples)
            self._samples = ()
        return self._plan


def planned_map(
    samples: PrefetchIterator[Any, S],
    plan: Callable[[Sequence[S]], P],
    finish: Callable[[S, P], R],
    *,
    coming: Coming,
    num_threads: int = 1,
    depth: int = 2,
) -> PrefetchIterator[Any, R]:
    """``finish(sample, plan of its chunk)`` for every sample, in order.

    Args:
        samples: computed ahead by threads of its own, as many as are planned for at a time.
        plan: called once for each chunk of so many samples; the last may be shorter.
        finish: makes the result.
        coming: how many these are; held until the results are dropped.
        num_threads: 0 finishes in the thread of the consumer; otherwise there is one thread.
        depth: results that are computed ahead at most.
    """

    def tickets() -> Iterator[tuple[S, _Chunk[S, P]]]:
        with samples:
            while chosen := deque(islice(samples, coming.num_samples)):
                chunk = _Chunk(plan, tuple(chosen))
                while chosen:
                    yield chosen.popleft(), chunk

    def complete(ticket: tuple[S, _Chunk[S, P]]) -> R:
        sample, chunk = ticket
        return finish(sample, chunk.plan())

    return prefetch_map(complete, tickets(), num_threads=min(num_threads, 1), depth=depth)
