"""Pipeline: batches from seeds to rows, in named stages that run ahead of who uses them.

::

    items ──> prepare ──> draw ──> plan ──> fetch ──> finish ──> batches
              seeds of    one, or  rows of  rows of   in the thread
              a batch     a group  several  a batch   that iterates

    drawn alone          [ prepare, draw, fetch ]                  as many threads as asked for
    drawn in groups      [ prepare, draw ] > [ complete, fetch ]   a thread each
    rows planned         [ prepare, draw ] > [ plan, fetch ]       one more thread

While the batches of one group are completed and used, the next group is read from disk. Rows are
planned for as many samples as users ask for; by default only short rows of a graph with
``storage="uring"`` are (``storage/value_columns.py``): those of edges with each group of samples,
others for as many samples as the graph's budget has room for.

Every batch carries its view, the graph at one moment: its sample and its rows are of that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from aethergraph._parallel.prefetch import PrefetchIterator, prefetch_map
from aethergraph._tracepoints import stage
from aethergraph.protocols import AnyGraph, RowSource
from aethergraph.sampling.groups import EdgeColumns, SampleGroups, SamplesAhead
from aethergraph.sampling.two_step import Steps, end_steps

__all__ = [
    "Draw",
    "DrawAlone",
    "DrawGroups",
    "RowPlans",
    "Views",
    "choose_plans",
    "chunked",
    "run_stages",
]

T = TypeVar("T")
S = TypeVar("S")
P = TypeVar("P")
G = TypeVar("G")
R = TypeVar("R")


class Views:
    """Views of a graph that the batches of an epoch are of: one for all, or each of its moment.

    Args:
        graph: the graph; None: nothing changes.
        at: snapshot that all batches are of; None: each is of the last commit when it is drawn.
    """

    def __init__(self, graph: AnyGraph | None, at: Any = None) -> None:
        self._graph = graph if graph is not None and graph.is_live else None
        #: Snapshot that all batches are of, or None.
        self.at = at

    @property
    def advance(self) -> bool:
        """True if later batches may be of later commits."""
        return self._graph is not None and self.at is None

    def reading(self, view: Any = None) -> AbstractContextManager[Any]:
        """Let this thread see one view in a ``with`` block, which it returns.

        None: that of all batches, or the last commit.
        """
        if self._graph is None:
            return nullcontext()
        return self._graph.reading(self.at if view is None else view)

    def take(self) -> Any:
        """Return the view that this thread sees now; None: nothing changes."""
        return None if self._graph is None else self._graph.pinned()

    def of_each(self, items: Iterable[T], num_planned: int) -> Iterator[tuple[T, Any]]:
        """Yield the items, each with the view that its sample is to be of; None: of its moment.

        Samples that wait for a plan hold their views, and a live graph has few snapshots to give.
        So those of one plan are of one commit, as those of a group are.
        """
        view = None
        for number, item in enumerate(items):
            if self.advance and num_planned and number % num_planned == 0:
                view = self.take()
            yield item, view


# ---- draw ------------------------------------------------------------------------------------


class Draw(ABC, Generic[T, S]):
    """Stage that makes the sample of each item."""

    @abstractmethod
    def each(
        self, items: Iterable[T], views: Views, end: Callable[[S], R], depth: int,
        num_planned: int = 0,
    ) -> PrefetchIterator[Any, R]:  # fmt: skip
        """Return ``end(sample)`` of every item, in order.

        Args:
            items: the items.
            views: what the samples are of.
            end: called with each sample, in the thread that completed it, while it sees the view.
            depth: most results made ahead.
            num_planned: samples that are planned together, and so are of one view; 0: none are.
        """


class DrawAlone(Draw[T, S]):
    """Draw each sample by itself.

    Args:
        sample: makes the sample of an item.
        num_threads: threads; 0: the consumer's alone.
        helping: the consumer makes samples, too, where it would wait for one.
    """

    def __init__(self, sample: Callable[[T], S], num_threads: int, helping: bool) -> None:
        self._sample = sample
        self._num_threads = num_threads
        self._helping = helping

    def each(
        self, items: Iterable[T], views: Views, end: Callable[[S], R], depth: int,
        num_planned: int = 0,
    ) -> PrefetchIterator[Any, R]:  # fmt: skip
        """Return ``end(sample)`` of every item; see :class:`Draw`."""

        def make(item_and_view: tuple[T, Any]) -> R:
            item, view = item_and_view
            with stage("batch"), views.reading(view):
                return end(self._sample(item))

        return prefetch_map(
            make, views.of_each(items, num_planned), num_threads=self._num_threads, depth=depth,
            # Two threads of which the second is faster would see commits out of order.
            helping=self._helping and not views.advance,
        )  # fmt: skip


class DrawGroups(Draw[T, S]):
    """Draw the samples of several batches at once.

    Args:
        steps: prepares an item, and makes its sample of what was drawn.
        groups: draws.
        num_seeds: approximate number of seeds of a batch.
        columns: values of edges that are fetched for the samples, read with them.
        num_threads: 0 does everything in the consumer's thread; otherwise there are two threads.
    """

    def __init__(
        self, steps: Callable[[T], Steps], groups: SampleGroups[Any], num_seeds: int,
        columns: EdgeColumns = (), num_threads: int = 1,
    ) -> None:  # fmt: skip
        self._steps = steps
        self._groups = groups
        self._num_seeds = num_seeds
        self._columns = columns
        self._num_threads = min(num_threads, 1)  # one each: a group is completed in order

    def each(
        self, items: Iterable[T], views: Views, end: Callable[[S], R], depth: int,
        num_planned: int = 0,
    ) -> PrefetchIterator[Any, R]:  # fmt: skip
        """Return ``end(sample)`` of every item; see :class:`Draw`."""

        def size(_: T) -> int:
            return self._groups.size(self._num_seeds, 1 + self._num_threads, self._columns)

        def draw(chunk: list[T]) -> tuple[Any, list[Steps], Iterator[Any]]:
            with stage("sample"), views.reading() as view:
                steps = [self._steps(item) for item in chunk]
                samples = self._groups.sample([next(of_item) for of_item in steps], self._columns)
            return view, steps, samples

        def drawn() -> Iterator[tuple[Any, Steps, Iterator[Any]]]:
            chunks = chunked(items, size)
            with prefetch_map(draw, chunks, num_threads=self._num_threads, depth=1) as groups:
                for view, steps, samples in groups:
                    for of_item in steps:
                        yield view, of_item, samples

        def complete(one_of_group: tuple[Any, Steps, Iterator[Any]]) -> R:
            view, steps, samples = one_of_group
            with stage("batch"), views.reading(view):
                return end(end_steps(steps, next(samples)))

        return prefetch_map(complete, drawn(), num_threads=self._num_threads, depth=depth)


def chunked(items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield chunks of the items, each of the size that its first item asks for.

    What the items raise comes after the chunk of those before.
    """
    remaining = iter(items)
    for first in remaining:
        chunk = [first]
        try:
            for item in islice(remaining, size_of(first) - 1):
                chunk.append(item)
        except Exception:
            yield chunk
            raise
        yield chunk


# ---- plan ------------------------------------------------------------------------------------


class RowPlans(NamedTuple):
    """Rows of coming samples that are planned together.

    Attributes:
        num_samples: samples planned at a time; 0: nothing is planned.
        sources: the sources of rows to plan, each after its position among all sources.
        columns: columns of edges, for groups of samples to read with the samples.
        memory: reservation of the budget for the samples; None if nothing is reserved.
    """

    num_samples: int
    sources: list[tuple[int, RowSource]]
    columns: EdgeColumns = ()
    memory: SamplesAhead | None = None


def choose_plans(
    sources: Sequence[RowSource], depth: int, groups: SampleGroups[Any] | None, num_seeds: int
) -> RowPlans:
    """Choose the sources whose gathers are planned, and for how many samples at a time.

    Args:
        sources: sources of rows that batches gather from.
        depth: the user's number of samples. 0: plan only rows that the graph's budget has
            no room for, for as many samples as it has room for.
        groups: makes the samples together; None if each is made alone.
        num_seeds: approximate number of seeds of a batch.
    """
    numbered = [(i, source, source.paged_column()) for i, source in enumerate(sources)]
    if depth:
        chosen = [(i, source) for i, source, _ in numbered if source.can_plan]
        return RowPlans(depth if chosen else 0, chosen)
    if groups is None:
        return RowPlans(0, [])
    columns = groups.columns_of([column for _, _, column in numbered if column])
    grouped = {id(column) for _, column in columns}
    ungrouped = [
        (i, source) for i, source, column in numbered if column and id(column) not in grouped
    ]
    memory = groups.reserve_ahead(num_seeds) if ungrouped else None
    return RowPlans(0 if memory is None else memory.count, ungrouped, columns, memory)


class _Chunk(Generic[S, P]):
    """Samples that are planned together when the rows of the first are fetched."""

    def __init__(self, plan: Callable[[Sequence[S]], P], samples: Sequence[S]) -> None:
        self._make = plan
        self._samples = samples
        self._plan: P | None = None

    def plan(self) -> P:
        """Return the plan of all samples; the previous chunk is fetched and its plan closed."""
        if self._plan is None:
            with stage("plan"):
                self._plan = self._make(self._samples)
            self._samples = ()
        return self._plan


# ---- all stages ------------------------------------------------------------------------------


def run_stages(
    items: Iterable[T], draw: Draw[T, S], fetch: Callable[[S, P | None], R], *, views: Views,
    rows: RowPlans, plan: Callable[[Sequence[S]], P], num_threads: int = 1, depth: int = 2,
) -> PrefetchIterator[Any, R]:  # fmt: skip
    """Return the results of the items of one epoch, in order, made ahead.

    Args:
        items: one for each batch.
        draw: makes the samples.
        fetch: makes a result of a sample, with the plan of its chunk, or None.
        views: views of the graph that batches are of.
        rows: how many samples are planned together, and the memory for them, which is held until
            the results are dropped.
        plan: called once for each chunk of samples, of which the last may be shorter.
        num_threads: 0 does everything in the consumer's thread.
        depth: most results made ahead, beside the group that is drawn.
    """
    if not rows.num_samples:
        return draw.each(items, views, lambda sample: fetch(sample, None), depth)
    samples: PrefetchIterator[Any, tuple[S, Any]] = draw.each(
        items, views, lambda sample: (sample, views.take()), rows.num_samples, rows.num_samples
    )

    def next_chunk() -> deque[tuple[S, Any]]:
        with stage("wait", "plan"):
            return deque(islice(samples, rows.num_samples))

    def planned() -> Iterator[tuple[S, Any, _Chunk[S, P]]]:
        with samples:
            while waiting := next_chunk():
                chunk = _Chunk(plan, tuple(sample for sample, _ in waiting))
                while waiting:
                    yield *waiting.popleft(), chunk

    def fetch_planned(sample_of_chunk: tuple[S, Any, _Chunk[S, P]]) -> R:
        sample, view, chunk = sample_of_chunk
        with stage("batch"), views.reading(view):
            return fetch(sample, chunk.plan())

    return prefetch_map(fetch_planned, planned(), num_threads=min(num_threads, 1), depth=depth)
