"""What is observed: objects, by weak reference, and the totals of stages; and its snapshot."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from typing import Any

from aethergraph import _tracepoints as tracepoints
from aethergraph._checks.options import as_text, is_name, shown
from aethergraph.errors import AetherError, InvalidArgumentError
from aethergraph.observe.metrics import METRICS
from aethergraph.observe.reading import Sample, check_counts, read_counts
from aethergraph.observe.totals import StageTotals

__all__ = ["collect", "is_enabled", "observed", "snapshot", "start", "stop", "watch"]


class _Watched:
    """Object that is observed, by weak reference."""

    __slots__ = ("given", "name", "reference")

    def __init__(self, reference: weakref.ref[Any], name: str | None) -> None:
        self.reference, self.given = reference, name is not None
        #: None until someone asks: a live graph is made before it has a directory.
        self.name = name


_lock = threading.RLock()
_watched: dict[int, _Watched] = {}
_totals: StageTotals | None = None


def _renew() -> None:
    """Make the lock anew in a forked child, where another thread may have held it."""
    global _lock
    _lock = threading.RLock()
    if _totals is not None:
        _totals.renew()


os.register_at_fork(after_in_child=_renew)


def start() -> None:
    """Observe what is made from now on, and add up stages; nothing happens if that is so."""
    global _totals
    with _lock:
        if _totals is None:
            _totals = StageTotals()
            tracepoints.add_observer(_totals)
            tracepoints.set_made(_add)


def stop() -> None:
    """Forget all that was observed."""
    global _totals
    with _lock:
        tracepoints.set_made(None)
        if _totals is not None:
            tracepoints.remove_observer(_totals)
        _totals = None
        _watched.clear()


def is_enabled() -> bool:
    """Return whether :func:`enable` was called, and :func:`disable` not since."""
    return _totals is not None


def watch(thing: Any, name: str | None = None) -> str:
    """Observe an object that keeps counts: its metrics have the label ``name`` from now on.

    It is referred to weakly: what nothing else uses goes, and its metrics with it. Objects that are
    made after :func:`enable` are watched by themselves; for those, this gives a better name.

    Args:
        thing: a ``FeatureTable`` or graph with ``storage="uring"``, ``CachedRows``,
            ``PackedFeatures``, a plan, a live graph, an ``Ingestor``; or an object with a
            ``stats()`` that returns statistics of one of these.
        name: value of the label; None: the name of its file, or of its class, and a number if that
            is taken.

    Returns:
        The name.

    Raises:
        InvalidArgumentError: the object counts nothing, cannot be referred to weakly, or the name
            is taken by another object.
    """
    label = as_text(name, "name")
    if label is not None and not is_name(label):
        raise InvalidArgumentError(f"name = {shown(name)} is no name")
    check_counts(thing)
    with _lock:
        # A copy: in other threads objects come and go meanwhile.
        names = {watched.name for key, watched in list(_watched.items()) if key != id(thing)}
        if label is not None and label in names:
            raise InvalidArgumentError(f"name = {label!r} is taken by another object")
        _add(thing, label)
        return next(name for name, subject in _named() if subject is thing)


def _add(subject: Any, name: str | None = None) -> None:
    """Refer to an object; under a new name, if one is given."""
    key = id(subject)
    if name is None and key in _watched:
        return

    def forget(reference: weakref.ref[Any]) -> None:
        watched = _watched.get(key)
        if watched is not None and watched.reference is reference:
            _watched.pop(key, None)

    try:
        _watched[key] = _Watched(weakref.ref(subject, forget), name)
    except TypeError:
        raise InvalidArgumentError(
            f"{type(subject).__name__} cannot be referred to weakly: give the object that has it"
        ) from None


def _named() -> list[tuple[str, Any]]:
    """Return the objects with their names, those with a name of their user's first."""
    with _lock:
        pairs = [(watched, watched.reference()) for watched in list(_watched.values())]
        names = {watched.name for watched, _ in pairs if watched.name is not None}
        for watched, subject in pairs:
            if watched.name is None and subject is not None:
                watched.name = _free(_name_of(subject), names)
                names.add(watched.name)
    pairs.sort(key=lambda pair: not pair[0].given)
    return [(str(watched.name), subject) for watched, subject in pairs if subject is not None]


def _name_of(subject: Any) -> str:
    """Return what an object could be called: after its file, if it has one, or its class."""
    for place, attribute in (
        (getattr(subject, "reader", None), "path"), (subject, "path"), (subject, "directory"),
        (getattr(subject, "source", None), "name"),  # of an Ingestor
    ):  # fmt: skip
        try:
            text = getattr(place, attribute, None)
        except AetherError:
            continue
        if isinstance(text, str) and text:
            return os.path.basename(text.rstrip("/")) or text
    return type(subject).__name__


def _free(name: str, names: set[str]) -> str:
    if name not in names:
        return name
    number = 2
    while f"{name}-{number}" in names:
        number += 1
    return f"{name}-{number}"


def observed() -> dict[str, Any]:
    """Return the objects that are observed, by name."""
    return dict(_named())


def collect() -> list[Sample]:
    """Return the samples of all that is observed, as of now."""
    samples: list[Sample] = []
    seen: set[int] = set()
    for name, subject in _named():  # parts that several have go with the first of them
        samples += read_counts(subject, name, seen)
    totals = _totals
    return samples if totals is None else samples + totals.samples()


def snapshot() -> dict[str, Any]:
    """Return all metrics as of now, as a dictionary that JSON can hold.

    ::

        {"pid": 4711, "command": "python train.py", "time": 1750000000.0, "metrics": {
            "aethergraph_rows_hits_total": {"kind": "counter", "unit": "rows", "help": "...",
                "samples": [{"labels": {"name": "x.aef"}, "value": 1234}]}, ...}}

    Metrics without a sample are left out. ``time`` is in seconds since 1970.
    """
    by_name: dict[str, list[dict[str, Any]]] = {}
    for sample in collect():
        by_name.setdefault(sample.name, []).append({"labels": sample.labels, "value": sample.value})
    return {
        "pid": os.getpid(),
        "command": _command(),
        "time": time.time(),
        "metrics": {
            metric.name: {
                "kind": metric.kind,
                "unit": metric.unit,
                "help": metric.help,
                "samples": by_name[metric.name],
            }
            for metric in METRICS
            if metric.name in by_name
        },
    }


def _command() -> str:
    return " ".join([os.path.basename(sys.executable or "python"), *sys.argv])[:200]
