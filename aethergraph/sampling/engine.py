"""Engines: what draws the samples that samplers of every framework ask for.

A sampler reads its user's arguments, describes the sample as a ``NativeBatch``, has an engine draw
it, and turns the arrays into what its framework expects::

    arguments --prepare--> NativeBatch --engine.draw--> arrays --finish--> result of the sampler

Between the first step and the last a loader may draw for several batches at once. Adapters ask for
a :class:`SampleEngine`; :class:`NativeEngine` is the one of the C core.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph._tracepoints import stage
from aethergraph.errors import InvalidArgumentError
from aethergraph.protocols import AnyGraph
from aethergraph.sampling.groups import SampleGroups
from aethergraph.storage.paging import Paging

__all__ = [
    "DrawOptions",
    "NativeEngine",
    "SampleEngine",
    "TwoStepSampler",
    "as_num_threads",
    "as_two_step",
    "stands_for",
]

_MOST_THREADS = 256

S = TypeVar("S", bound=native.NativeSample | native.NativeLayers)
T = TypeVar("T")


class SampleEngine(ABC, Generic[S]):
    """Maker of samples of one graph with fixed fanouts and options.

    A sample is a pure function of its batch: calls may come from several threads at once, in any
    order, by themselves or together, and give the same arrays.
    """

    #: Maker of samples of coming batches together; None where that saves nothing.
    groups: SampleGroups[S] | None

    @abstractmethod
    def draw(self, batch: native.NativeBatch) -> S:
        """Draw the sample of one batch by itself."""

    @property
    @abstractmethod
    def scratch_memory(self) -> int:
        """Bytes of the workspaces that no call uses at this moment."""

    def pin(self, graph: AnyGraph | None = None) -> native.PinnedLists | None:
        """Return the lists as they are now, for a batch; None: they do not change.

        ``graph`` is what ``pinned()`` of the graph of this engine returned: the lists are then as
        they are there.
        """
        return None

    def retarget(
        self,
        relations: Sequence[native.NativeRelation],
        num_nodes: Sequence[int],
        paging: Paging | None,
    ) -> None:
        """Go on with the lists of another graph: as many, of as many node types.

        Calls that are at work end with the lists that they began with.

        Raises:
            NotImplementedError: this engine is for one graph.
        """
        raise NotImplementedError(f"{type(self).__name__} is for one graph: make another")

    def draw_many(self, batches: Iterable[native.NativeBatch]) -> Iterator[S]:
        """Draw the samples of ``batches`` in order, several together where that pays.

        ``batches`` are read as far ahead as samples are made together.
        """
        if self.groups is None:
            yield from map(self.draw, batches)
            return
        remaining = iter(batches)
        for first in remaining:
            size = self.groups.size(first.num_seeds)
            yield from self.groups.sample([first, *itertools.islice(remaining, size - 1)])


@runtime_checkable
class TwoStepSampler(Protocol):
    """Sampler whose samples loaders may have drawn together, by its engine."""

    @property
    def engine(self) -> SampleEngine[native.NativeSample]:
        """Maker of the samples."""

    def prepare(
        self, seeds: Any, key: int | None = None, seed_time: Any = None
    ) -> native.NativeBatch:
        """Check the arguments of ``sample`` and return them for the engine."""

    def finish(self, sample: native.NativeSample) -> Any:
        """Return the subgraph of a sample."""


def as_two_step(sampler: Any) -> TwoStepSampler | None:
    """Return ``sampler`` if its two steps do what its ``sample`` does, else None.

    They do not in a subclass that has a ``sample`` of its own.
    """
    if isinstance(sampler, TwoStepSampler) and stands_for(sampler, "prepare", ("sample",)):
        return sampler
    return None


def stands_for(sampler: object, step: str, methods: Collection[str]) -> bool:
    """Return whether the method ``step`` of a sampler does what its ``methods`` do.

    It does not if a subclass of the class that has ``step`` overrides one of ``methods``.
    """
    for kind in type(sampler).__mro__:
        if step in vars(kind):
            return True
        if not vars(kind).keys().isdisjoint(methods):
            return False
    return False


class DrawOptions(NamedTuple):
    """Options of the draws of an engine."""

    replace: bool = False
    disjoint: bool = False
    induced: bool = False
    latest: bool = False
    layered: bool = False
    num_threads: int = 1

    @property
    def flags(self) -> int:
        """Flags of the native samplers."""
        return (
            native.SAMPLE_REPLACE * self.replace
            | native.SAMPLE_DISJOINT * self.disjoint
            | native.SAMPLE_INDUCED * self.induced
            | native.SAMPLE_LATEST * self.latest
            | native.SAMPLE_LAYERED * self.layered
        )


class NativeEngine(SampleEngine[S]):
    """Native samplers over the lists of a graph, one for each call at work.

    Args:
        form: ``NativeSample``, or with ``layered`` options the compressed ``NativeLayers``.
        relations: the lists to follow, in the order in which a hop visits them.
        num_nodes: number of nodes by node type.
        fanouts: checked fanouts by relation and hop.
        options: options of the draws.
        paging: reader of the lists if they stay in a file, with their memory budget.
    """

    def __init__(
        self,
        form: type[S],
        relations: Sequence[native.NativeRelation],
        num_nodes: Sequence[int],
        fanouts: Sequence[Sequence[int]],
        options: DrawOptions,
        paging: Paging | None = None,
    ) -> None:
        self.options = options
        self._form = form
        self._fanouts = fanouts
        kind = native.NativeSampler
        sample: Any = kind.sample_layers if form is native.NativeLayers else kind.sample
        self._sample: Callable[..., S] = sample
        # append and pop of a deque are atomic: no lock, so none that a fork could leave held.
        self._idle: deque[native.NativeSampler] = deque()
        self.groups: SampleGroups[S] | None = None
        self.retarget(relations, num_nodes, paging)

    def retarget(
        self,
        relations: Sequence[native.NativeRelation],
        num_nodes: Sequence[int],
        paging: Paging | None,
    ) -> None:
        """Go on with the lists of another graph: as many, of as many node types.

        Idle native samplers keep their workspaces, and get the lists when they are used next.
        """
        options = self.options
        self._arguments = (
            tuple(relations), num_nodes, self._fanouts, options.flags, options.num_threads,
        )  # fmt: skip
        self._is_live = any(relation.topology.is_live for relation in relations)
        for sampler in self._idle:
            sampler.forget()  # lists of its own would keep a graph that changes
        if paging is None:
            self.groups = None
            return
        if self.groups is None or self.groups.paging is not paging:
            # Not a method of self: an engine in a reference cycle would keep its files open.
            make = partial(
                native.NativeGroup,
                fanouts=self._fanouts, flags=options.flags, num_threads=options.num_threads,
            )  # fmt: skip
            self.groups = SampleGroups(
                self._form, make, paging, self._fanouts, relations, num_nodes
            )
        else:
            self.groups.retarget(self._arguments[0], num_nodes)

    def draw(self, batch: native.NativeBatch) -> S:
        """Draw the sample of one batch by itself.

        Raises:
            StorageError, CorruptFileError: the lists could not be read, or are damaged.
            FileChangedError: the mapped file was made shorter.
        """
        with stage("draw", reads=self.groups and self.groups.paging):
            sampler = self.take(batch.at)
            try:
                return self._sample(sampler, *batch[:5])
            finally:
                self.give_back(sampler)

    def pin(self, graph: AnyGraph | None = None) -> native.PinnedLists | None:
        """Return the lists as of the last commit, or as in ``graph``; None: they do not change."""
        if not self._is_live:
            return None
        snapshot = None if graph is None else graph.native_snapshot
        return native.pin_relations(*self._arguments[:2], snapshot)

    def run(self, call: Callable[[native.NativeSampler], T]) -> T:
        """Return ``call(sampler)`` for a native sampler that no other call uses."""
        sampler = self.take()
        try:
            return call(sampler)
        finally:
            self.give_back(sampler)

    @property
    def scratch_memory(self) -> int:
        """Bytes of the idle native samplers' workspaces."""
        return sum(sampler.memory for sampler in list(self._idle))

    @property
    def num_idle(self) -> int:
        """Number of native samplers that no call uses; at most as many as were at work at once."""
        return len(self._idle)

    def take(self, at: native.PinnedLists | None = None) -> native.NativeSampler:
        """Return a native sampler that no call uses, over pinned lists or those of the engine.

        :meth:`give_back` it.
        """
        arguments = self._arguments
        own_lists = None
        try:
            sampler = self._idle.pop()
        except IndexError:
            sampler = None
        if at is not None:
            arguments = (*at, *arguments[2:])
        elif self._is_live:
            try:
                if sampler is not None and sampler.wake(arguments[0]):
                    return sampler
                pinned, own_lists = native.pin_own(*arguments[:2])
            except BaseException:
                if sampler is not None:
                    self._idle.append(sampler)
                raise
            arguments = (*pinned, *arguments[2:])
        if sampler is None:
            sampler = native.NativeSampler(*arguments)
        elif sampler.relations is not arguments[0]:
            sampler.retarget(arguments[0], arguments[1])
        sampler.own_lists = own_lists
        return sampler

    def give_back(self, sampler: native.NativeSampler) -> None:
        """Keep a native sampler for the next call."""
        if self._is_live:
            sampler.rest()  # a snapshot that nobody draws from must not keep old versions
        self._idle.append(sampler)


def as_num_threads(value: Any) -> int:
    """Return the number of threads that one call may use; 0 stands for all of the pool.

    Raises:
        InvalidArgumentError: no integer in 0..256.
    """
    if as_count(value, "num_threads") > _MOST_THREADS:
        raise InvalidArgumentError(f"num_threads = {value} is not in 0..{_MOST_THREADS}")
    return int(value)
