"""planned_map: results of samples, made with the rows of the next ones in view.

samples -> [ a chunk of them | plan their rows ] -> [ finish one after the other ] -> results
             a background thread samples ahead        a background thread
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from aethergraph.loading.pipeline import PrefetchIterator, prefetch_map

__all__ = ["planned_map"]

S = TypeVar("S")
P = TypeVar("P")
R = TypeVar("R")


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
    ahead: int,
    num_threads: int = 1,
    depth: int = 2,
) -> PrefetchIterator[Any, R]:
    """``finish(sample, plan of its chunk)`` for every sample, in order.

    Args:
        samples: computed ahead by threads of its own, ``ahead`` of them.
        plan: called once for each chunk of ``ahead`` samples; the last may be shorter.
        finish: makes the result.
        num_threads: 0 finishes in the thread of the consumer; otherwise there is one thread.
        depth: results that are computed ahead at most.
    """

    def tickets() -> Iterator[tuple[S, _Chunk[S, P]]]:
        with samples:
            while chosen := deque(islice(samples, ahead)):
                chunk = _Chunk(plan, tuple(chosen))
                while chosen:
                    yield chosen.popleft(), chunk

    def complete(ticket: tuple[S, _Chunk[S, P]]) -> R:
        sample, chunk = ticket
        return finish(sample, chunk.plan())

    return prefetch_map(complete, tickets(), num_threads=min(num_threads, 1), depth=depth)
