"""Coming batches of DGL's loaders, drawn together.

DGL's loaders ask for one batch at a time. Out of core it pays to know the next ones: their samples
then read each page once for all of them::

    coming --prepare--> [ batch | batch | ... ] --one group--> finish one after the other
     in the loader's thread                      a thread       in the loader's thread

While the batches of one group are finished and used, the next group is read; each has half of the
graph's budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from aethergraph import _native as native
from aethergraph._parallel.prefetch import prefetch_map
from aethergraph.errors import AetherError
from aethergraph.loading.pipeline import chunked
from aethergraph.sampling.engine import SampleEngine, stands_for
from aethergraph.sampling.groups import SampleGroups
from aethergraph.sampling.two_step import Steps, end_steps

__all__ = ["Coming", "SteppedSampler", "look_ahead", "takes_steps"]


class Coming:
    """Batch that is prepared, drawn with those around it, and finished in its turn.

    Whatever goes wrong is raised by :meth:`finish`, so that errors stay with their batch.

    Args:
        steps: the sampler's two steps for this batch.
        engine: draws the sample if the batch cannot be drawn with others.
    """

    def __init__(self, steps: Steps, engine: SampleEngine[Any]) -> None:
        self._steps = steps
        self._engine = engine
        self._error: Exception | None = None
        #: What is to be drawn; None if the arguments are at fault.
        self.batch: native.NativeBatch | None = None
        #: Samples of the group in the order of its batches; None: the batch is drawn by itself.
        self.samples: Iterator[Any] | None = None
        try:
            self.batch = next(steps)
        except Exception as error:
            self._error = error

    def finish(self) -> Any:
        """Return the result of the batch; once, and in the order of the batches."""
        if self.batch is None:
            error, self._error = self._error, None
            assert error is not None
            try:
                raise error
            finally:
                del error  # or it would keep itself, by this frame, and the graph with it
        drawn = self._engine.draw(self.batch) if self.samples is None else next(self.samples)
        return end_steps(self._steps, drawn)


def look_ahead(coming: Iterable[Coming], groups: SampleGroups[Any]) -> Iterator[Coming]:
    """Yield ``coming`` in order, drawn together; finish each before you ask for the next.

    Args:
        coming: the batches, prepared when they are read: as far ahead as a group reaches.
        groups: makes the samples together.
    """

    def size(first: Coming) -> int:
        batch = first.batch
        return 1 if batch is None else groups.size(batch.num_seeds, shares=2)

    def draw(chunk: list[Coming]) -> list[Coming]:
        batches = [prepared.batch for prepared in chunk if prepared.batch is not None]
        try:
            samples = groups.sample(batches) if batches else None
        except AetherError:  # drawn one by one, each batch meets the error that is its own
            samples = None
        for prepared in chunk:
            prepared.samples = samples
        return chunk

    with prefetch_map(draw, chunked(coming, size), num_threads=1, depth=1) as chunks:
        for chunk in chunks:
            yield from chunk


@runtime_checkable
class SteppedSampler(Protocol):
    """Sampler of DGL's loaders whose batches can be drawn together."""

    def steps(self, g: Any, seed_nodes: Any) -> Steps:
        """Run ``sample(g, seed_nodes)`` as a generator of two steps."""

    def engine_of(self, graph: Any) -> SampleEngine[Any]:
        """Return the maker of the samples of a loader's graph."""


def takes_steps(sampler: Any) -> bool:
    """Return whether the ``steps`` of a sampler do what its ``sample`` does.

    They do not in a subclass that has a ``sample`` of its own, or another method that it calls.
    """
    methods = ("sample", "sample_blocks", "assign_lazy_features")
    return isinstance(sampler, SteppedSampler) and stands_for(sampler, "steps", methods)
