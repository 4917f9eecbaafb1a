"""What each of several users of one memory budget holds."""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["Holdings"]


class Holdings:
    """Bytes by holder, which is any object; one that is collected holds nothing.

    May be shared by threads: each method is one step of a dict, without a lock, so that nothing can
    go wrong in a fork.
    """

    def __init__(self) -> None:
        self._held = dict[int, tuple[int, bool]]()

    def note(self, holder: Any, nbytes: int, *, at_work: bool) -> None:
        """``holder`` has so many bytes now, and is or is not at work."""
        number = id(holder)
        if number not in self._held:
            weakref.finalize(holder, self._held.pop, number, None).atexit = False
        self._held[number] = (nbytes, at_work)

    @property
    def total(self) -> int:
        """Bytes of all."""
        return sum(nbytes for nbytes, _ in list(self._held.values()))

    @property
    def num_at_work(self) -> int:
        """How many are at work."""
        return sum(at_work for _, at_work in list(self._held.values()))
