"""Profiles whose times the load of the machine has not spoiled."""

from __future__ import annotations

from collections.abc import Callable

from aethergraph.observe.profiling import Profile

_ATTEMPTS = 6


def settled(profile: Callable[[], Profile]) -> Profile:
    """Return a profile in which nearly all time has a name.

    A thread that the system holds back between two parts has time without a name, so up to six
    profiles are made; a part that is not measured is missing in all of them.

    Raises:
        AssertionError: all of them have time without a name.
    """
    rests = []
    for _ in range(_ATTEMPTS):
        made = profile()
        if made["rest"] <= 0.1 * made.seconds + 4e-3 * made.batches:
            return made
        rests.append((made["rest"], made.seconds))
    raise AssertionError(f"rest and whole, in seconds: {rests}")
