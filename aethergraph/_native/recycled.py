"""Vectors for results, over the memory of results that are gone.

Arrays of a sample are large enough for the C library to hand their memory back to the system when
they go, and every new page of the next sample's then costs a fault: a tenth of the time of a batch.

Rows of batches have :class:`~aethergraph.loading.buffers.BufferPool`,
which threads share and which keeps
memory in huge pages. Its leases cost more than the faults of a small sample.
"""

from __future__ import annotations

from sys import getrefcount

import numpy as np

from aethergraph._checks.arrays import empty
from aethergraph._native.core import Ids

#: Below this the C library's allocator recycles memory by itself.
_SMALL = (128 << 10) // 8
_MOST = 8  # nodes and edges of a batch at work, of one in use, and of those usually prefetched

# References to an array that nothing but a list refers to, as getrefcount sees it.
_lone = [np.empty(0)]
_ALONE = getrefcount(_lone[0])


def new_vector(count: int, noun: str) -> Ids:
    """Return an uninitialised int64 vector [count] in memory of its own.

    Raises:
        OutOfMemoryError: the system refuses the memory for ``noun``.
    """
    return empty(count, np.int64, noun)


class RecycledVectors:
    """Maker of int64 vectors; used by one thread at a time.

    A vector is a view of an array that this object keeps. When no view of it is left, in whichever
    thread the last one went, the next vector may lie there.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[Ids] = []

    def empty(self, count: int, noun: str) -> Ids:
        """Return an uninitialised vector [count].

        Raises:
            OutOfMemoryError: the system refuses the memory for ``noun``.
        """
        if count < _SMALL:
            return new_vector(count, noun)
        kept, fits, small = self._kept, None, None
        for i in range(len(kept)):
            if getrefcount(kept[i]) == _ALONE:
                if len(kept[i]) < count:
                    small = i
                elif fits is None or len(kept[i]) < len(kept[fits]):
                    fits = i
        if fits is not None:
            return kept[fits][:count]
        if small is not None:
            del kept[small]  # first, so that both are never there at once
        elif len(kept) == _MOST:
            return new_vector(count, noun)
        # Room for a batch that is an eighth larger.
        kept.append(new_vector(count + count // 8, noun))
        return kept[-1][:count]

    @property
    def idle_bytes(self) -> int:
        """Bytes of memory that no vector uses."""
        kept = self._kept
        return sum(kept[i].nbytes for i in range(len(kept)) if getrefcount(kept[i]) == _ALONE)
