"""Belady's optimum: how often a cache that knows the future finds what is asked for.

Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal
5(2), 1966; with bypassing, because a gather need not keep what it read.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

__all__ = ["belady_hits", "next_uses"]

Ids = NDArray[np.int64]


def next_uses(trace: Ids) -> Ids:
    """For each position of the trace, that of the next use of the same id, or its length."""
    order = np.argsort(trace, kind="stable")
    following = np.full(len(trace), len(trace), np.int64)
    same = trace[order[:-1]] == trace[order[1:]]
    following[order[:-1][same]] = order[1:][same]
    return following


def belady_hits(trace: Ids, capacity: int, begin: int = 0) -> int:
    """Hits at the positions from ``begin`` on, of a cache of ``capacity`` ids, empty at first.

    What is used again soonest is kept: the newcomer goes if all that are there come sooner.
    """
    never = len(trace)
    uses: dict[int, int] = {}  # id in the cache -> its next use
    latest: list[tuple[int, int]] = []  # (-next use, id); an entry that uses contradicts is stale
    hits = 0
    for position, (one, following) in enumerate(
        zip(trace.tolist(), next_uses(trace).tolist(), strict=True)
    ):
        found = one in uses
        hits += found and position >= begin
        if following == never:
            uses.pop(one, None)
            continue
        uses[one] = following
        heapq.heappush(latest, (-following, one))
        while len(uses) > capacity:
            use, victim = heapq.heappop(latest)
            if uses.get(victim) == -use:
                del uses[victim]
    return hits
