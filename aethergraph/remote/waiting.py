"""Waits for a server, which end when nobody wants their outcome any more.

A loader that is ended cancels the task that its threads work for. Native calls look at it now and
then; so do these waits, each time a socket has kept them for :data:`GLANCE` seconds. What comes
sooner costs nothing.
"""

from __future__ import annotations

import time

from aethergraph._native.signals import thread_owner

__all__ = ["GLANCE", "check_cancelled", "keep_waiting"]

#: Seconds that a thread waits for a socket before it looks whether it still should.
GLANCE = 0.1


def check_cancelled() -> None:
    """Raise CancelledError if the task that this thread works for was cancelled."""
    owner = thread_owner()
    if owner is not None:
        owner.check()


def keep_waiting(until: float, where: str) -> None:
    """Return if this thread should go on waiting.

    Args:
        until: time (monotonic) by which the wait must end.
        where: address of the server, for the message.

    Raises:
        CancelledError: the task that the thread works for was cancelled.
        TimeoutError: it is later than ``until``.
    """
    check_cancelled()
    if time.monotonic() > until:
        raise TimeoutError(f"{where} did not answer in time")
