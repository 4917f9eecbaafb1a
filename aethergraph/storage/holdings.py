"""Bytes that each of several users of one memory budget holds."""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["Holdings"]


class Holdings:
    """Bytes by holder, which may be any object; a collected holder no longer counts.

    Threads may share one: each method is one step of a dict, without a lock that a fork could copy
    in its locked state.
    """

    def __init__(self) -> None:
        self._held = dict[int, tuple[int, bool]]()

    def note(self, holder: Any, nbytes: int, *, at_work: bool) -> None:
        """Record that ``holder`` has ``nbytes`` bytes now, and whether it is at work."""
        number = id(holder)
        if number not in self._held:
            weakref.finalize(holder, self._held.pop, number, None).atexit = False
        self._held[number] = (nbytes, at_work)

    @property
    def total(self) -> int:
        """Bytes of all holders."""
        return sum(nbytes for nbytes, _ in list(self._held.values()))

    @property
    def num_at_work(self) -> int:
        """Number of holders at work."""
        return sum(at_work for _, at_work in list(self._held.values()))
