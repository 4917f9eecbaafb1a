"""planned_map: results of samples, computed with the rows of the next samples planned.

samples -> [ a chunk of them | plan their rows ] -> [ finish one after the other ] -> results
             a background thread samples ahead        a background thread

Users choose how many samples are planned together. By default only short rows of a graph with
``storage="uring"`` are read together (``storage/value_columns.py``): those of edges with each group
of samples, others for as many samples as the graph's budget has room for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from aethergraph._parallel.prefetch import PrefetchIterator, prefetch_map
from aethergraph._tracepoints import stage
from aethergraph.protocols import RowSource
from aethergraph.sampling.groups import EdgeColumns, SampleGroups, SamplesAhead

__all__ = ["Coming", "at_commits", "choose_plans", "planned_map"]

S = TypeVar("S")
P = TypeVar("P")
T = TypeVar("T")
C = TypeVar("C")
R = TypeVar("R")


class Coming(NamedTuple):
    """Plan for the rows of coming samples.

    Attributes:
        num_samples: samples planned at a time; 0: nothing is planned.
        chosen: the stores to plan, each after its position among all stores.
        columns: columns of edges, for groups of samples to read with the samples.
        memory: reservation of the budget for the samples; None if nothing is reserved.
    """

    num_samples: int
    chosen: list[tuple[int, RowSource]]
    columns: EdgeColumns = ()
    memory: SamplesAhead | None = None


def choose_plans(
    stores: Sequence[RowSource],
    plan_ahead: int,
    groups: SampleGroups[Any] | None,
    num_seeds: int,
) -> Coming:
    """Choose the stores whose gathers are planned, and for how many samples at a time.

    Args:
        stores: stores that batches gather from.
        plan_ahead: the user's number of samples. 0: plan only rows that the graph's budget has
            no room for, for as many samples as it has room for.
        groups: makes the samples together; None if each is made alone.
        num_seeds: approximate number of seeds of a batch.
    """
    numbered = [(i, store, store.paged_column()) for i, store in enumerate(stores)]
    if plan_ahead:
        chosen = [(i, store) for i, store, _ in numbered if store.can_plan]
        return Coming(plan_ahead if chosen else 0, chosen)
    if groups is None:
        return Coming(0, [])
    columns = groups.columns_of([column for _, _, column in numbered if column])
    grouped = {id(column) for _, column in columns}
    rest = [(i, store) for i, store, column in numbered if column and id(column) not in grouped]
    memory = groups.reserve_ahead(num_seeds) if rest else None
    return Coming(0 if memory is None else memory.count, rest, columns, memory)


def at_commits(
    items: Iterable[T], at: C | None, take: Callable[[], C] | None, num_samples: int
) -> Iterator[tuple[T, C | None]]:
    """Yield the items, each with the commit that its sample is to be of; None: that of its moment.

    Samples that wait for a plan hold their commits, and a live graph has few snapshots to give. So
    those of one plan are of one commit, as those of a group are.

    Args:
        items: one for each sample.
        at: the commit of all of them, if they have one.
        take: takes a snapshot of the last commit; None: nothing changes.
        num_samples: samples planned at a time; 0: nothing is planned.
    """
    commit = at
    for number, item in enumerate(items):
        if at is None and take is not None and num_samples and number % num_samples == 0:
            commit = take()
        yield item, commit


class _Chunk(Generic[S, P]):
    """Samples that are planned together when the first is finished."""

    def __init__(self, plan: Callable[[Sequence[S]], P], samples: Sequence[S]) -> None:
        self._make = plan
        self._samples = samples
        self._plan: P | None = None

    def plan(self) -> P:
        """Return the plan of all samples; the previous chunk is finished and its plan closed."""
        if self._plan is None:
            with stage("plan"):
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
    """Return ``finish(sample, plan of its chunk)`` for every sample, in order.

    Args:
        samples: computed ahead by their own threads, as many as are planned at a time.
        plan: called once for each chunk of ``coming.num_samples``; the last may be shorter.
        finish: makes the result.
        coming: the plan's size and its memory, held until the results are dropped.
        num_threads: 0 finishes in the consumer's thread; otherwise there is one thread.
        depth: most results computed ahead.
    """

    def next_chunk() -> deque[S]:
        with stage("wait", "plan"):
            return deque(islice(samples, coming.num_samples))

    def tickets() -> Iterator[tuple[S, _Chunk[S, P]]]:
        with samples:
            while chosen := next_chunk():
                chunk = _Chunk(plan, tuple(chosen))
                while chosen:
                    yield chosen.popleft(), chunk

    def complete(ticket: tuple[S, _Chunk[S, P]]) -> R:
        sample, chunk = ticket
        with stage("batch"):
            return finish(sample, chunk.plan())

    return prefetch_map(complete, tickets(), num_threads=min(num_threads, 1), depth=depth)
