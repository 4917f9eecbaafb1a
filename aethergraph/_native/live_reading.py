"""Blocks of ``reading()``: what this thread, or coroutine, sees of live graphs throughout."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aethergraph._native.live import NativeLive
    from aethergraph._native.live_snapshots import NativeSnapshot


class Reading:
    """Block of :meth:`NativeLive.reading`; it ends when its ``with`` does, or nobody holds it.

    It is no generator of contextlib, since one that an exception has left stays in a cycle of
    references before Python 3.11, and would hold the snapshot.

    Attributes:
        snapshot: what it reads; None: it has ended.
    """

    __slots__ = ("__weakref__", "snapshot")

    def __init__(self, snapshot: NativeSnapshot) -> None:
        self.snapshot: NativeSnapshot | None = snapshot

    def __enter__(self) -> NativeSnapshot | None:
        _readings.set((*_open_blocks(), weakref.ref(self)))
        return self.snapshot

    def __exit__(self, *_: object) -> None:
        self.snapshot = None
        _readings.set(_open_blocks())


#: Blocks that are open here, the innermost last. Coroutines have their own, though they share a
#: thread. A block may end out of turn, or elsewhere (in a generator, in another thread), so that
#: others among these have ended. One that Ctrl-C has kept from its end is held by nobody.
_readings: ContextVar[tuple[weakref.ref[Reading], ...]] = ContextVar(
    "aethergraph readings", default=()
)
#: Blocks of :func:`hold_snapshots`, which this thread holds itself.
_own_readings: ContextVar[tuple[Reading, ...]] = ContextVar("aethergraph own readings", default=())


def _open_blocks() -> tuple[weakref.ref[Reading], ...]:
    return tuple(block for block in _readings.get() if _snapshot_of(block) is not None)


def _snapshot_of(block: weakref.ref[Reading]) -> NativeSnapshot | None:
    open_reading = block()
    return None if open_reading is None else open_reading.snapshot


def held_snapshots() -> Mapping[NativeLive, NativeSnapshot]:
    """Return what this thread reads throughout, for :func:`hold_snapshots` in another thread."""
    snapshots = [_snapshot_of(block) for block in _readings.get()]
    return {snapshot.live: snapshot for snapshot in snapshots if snapshot is not None}


def hold_snapshots(snapshots: Mapping[NativeLive, NativeSnapshot]) -> None:
    """Let this thread, which works for another one, read what the other does."""
    blocks = tuple(Reading(snapshot) for snapshot in snapshots.values())
    _own_readings.set(blocks)
    _readings.set(tuple(weakref.ref(block) for block in blocks))


def is_any_open() -> bool:
    """Return whether a block was begun here that may not have ended."""
    return bool(_readings.get())


def held_snapshot(live: NativeLive) -> NativeSnapshot | None:
    """Return what the innermost block reads of a live graph; None: there is none."""
    for block in reversed(_readings.get()):
        snapshot = _snapshot_of(block)
        if snapshot is not None and snapshot.live is live:
            return snapshot
    return None
