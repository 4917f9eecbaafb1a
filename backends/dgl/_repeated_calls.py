"""Numbers of calls that ask for the same thing.

Draws are a function of a key and of the request. DGL's and GraphBolt's own samplers do not
say which batch or layer a call is for, so calls are counted where nothing else differs.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import torch.distributed
from torch.utils.data import get_worker_info

from aethergraph._torch.iteration import Iteration, find_iteration

__all__ = ["Calls", "Repeats"]


class Repeats:
    """Counter of equal calls in a row, such as those for the layers over all nodes of a graph.

    It starts again with each epoch and with each iteration of a loader.
    """

    def __init__(self) -> None:
        self._last: Any = None
        self._count = 0

    def parts(self, epoch: int, content: list[int], iteration: Iteration | None) -> list[int]:
        """Return ``content``, with a number added from the second equal call on."""
        call = epoch, None if iteration is None else weakref.ref(iteration.identity), content
        self._count = self._count + 1 if call == self._last else 0
        self._last = call
        return [*content, self._count] if self._count else content


class Calls:
    """Counter of all calls of an epoch or of a loader's iteration, in each process."""

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._start()

    def parts(self, epoch: int) -> tuple[int, int]:
        """Return the number of this process, and that of the call in it."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._start()
        iteration = find_iteration()
        counter: Iterator[int] = self._outside
        if iteration is not None:  # iterators that take turns have a counter each
            counter = self._inside.setdefault(iteration.identity, itertools.count())
        return _process(), next(counter)

    def __reduce__(self) -> tuple[type[Calls], tuple[()]]:
        return Calls, ()  # another process counts its own

    def _start(self) -> None:
        self._outside = itertools.count()
        self._inside: weakref.WeakKeyDictionary[Any, Iterator[int]] = weakref.WeakKeyDictionary()


def _process() -> int:
    """Return 0 in a single process; ranks and worker processes have other numbers."""
    worker = get_worker_info()
    rank = 0
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        rank = torch.distributed.get_rank()
    return rank << 32 | (0 if worker is None else worker.id + 1)
