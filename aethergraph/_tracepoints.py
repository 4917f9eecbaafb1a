"""Tracepoints: the places in this package that an observer can look at, and nothing else.

    with stage("gather", "x", rows):     a piece of work, for spans, totals and profiles
    made(self)                           an object that keeps counts, for who reads them

Without an observer a stage costs a call and a comparison, and :func:`made` the same. Who observes
is in :mod:`aethergraph.observe`, which nothing imports before it is asked for.

Stages of batches: ``wait`` (for a thread that works ahead), ``batch`` (its work for one batch),
``sample`` and, within it, ``draw`` (the core's part), ``plan``, ``gather``, ``build``,
``transform``, ``pin``. Of live graphs: ``transaction`` and, at its end, ``commit``; ``merge``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

__all__ = ["Observer", "add_observer", "made", "remove_observer", "set_made", "stage"]


class Observer(Protocol):
    """Someone who is told when stages begin and end, in the threads that do the work."""

    def begin(self, name: str, of: str, reads: Any) -> Any:
        """Note the begin of a stage; return what :meth:`end` is to get."""

    def end(self, begun: Any, error: BaseException | None) -> None:
        """Note the end of a stage, by an error or in good order."""


_lock = threading.Lock()
_observers: tuple[Observer, ...] = ()
_listener: Callable[[object], object] | None = None
_NOTHING = nullcontext()


class _Stage:
    """Stage of work, for the observers that there are when it begins."""

    __slots__ = ("_begun", "_name", "_of", "_reads")

    def __init__(self, name: str, of: str, reads: Any) -> None:
        self._name, self._of, self._reads = name, of, reads
        self._begun: list[tuple[Observer, Any]] = []

    def __enter__(self) -> None:
        for observer in _observers:
            self._begun.append((observer, observer.begin(self._name, self._of, self._reads)))

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        for observer, begun in reversed(self._begun):
            observer.end(begun, error)


def stage(name: str, of: str = "", reads: Any = None) -> AbstractContextManager[None]:
    """Return a context manager around a stage of work.

    Args:
        name: one of the names above.
        of: what it is about, such as the name of an attribute.
        reads: what counts the reads of the stage, an object with ``stats()``; None: there are none.
    """
    return _Stage(name, of, reads) if _observers else _NOTHING


def made(source: object) -> None:
    """Tell who listens that ``source``, which has ``stats()``, was made."""
    if _listener is not None:
        _listener(source)


def add_observer(observer: Observer) -> None:
    """Tell ``observer`` of all stages from now on."""
    global _observers
    with _lock:
        _observers = (*_observers, observer)


def remove_observer(observer: Observer) -> None:
    """Tell ``observer`` of no further stages; it still hears the end of those that began."""
    global _observers
    with _lock:
        _observers = tuple(known for known in _observers if known is not observer)


def set_made(listener: Callable[[object], object] | None) -> None:
    """Call ``listener`` for objects from now on; None: nobody is told."""
    global _listener
    _listener = listener
