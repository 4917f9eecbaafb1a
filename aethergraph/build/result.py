"""What a conversion reports, and how long its stages took."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aethergraph.build.source import PathLike, ProgressFn
from aethergraph.errors import LimitError

__all__ = [
    "Clock",
    "ConvertResult",
    "Stages",
    "check_density",
    "is_sparse",
    "silent",
    "sparse_error",
]

#: ``stages(name, unit)`` announces a stage and returns where to report (done, total).
Stages = Callable[[str, str], ProgressFn]


@dataclass
class ConvertResult:
    """What was written.

    Attributes:
        read_edges: rows of the inputs; edges_read_now: those that this call read, fewer where it
            went on with an interrupted build.
        graph, features, labels: the files; None where nothing was asked for. ``features`` may be
            the input itself, if it can be used as it is.
        seconds: seconds per stage ("read", "features", "build", "write").
        notes: remarks worth telling the user.
    """

    graph: str
    num_nodes: int = 0
    num_edges: int = 0
    read_edges: int = 0
    edges_read_now: int = 0
    layout: str = "csc"
    features: str | None = None
    feature_shape: tuple[int, ...] = ()
    labels: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Clock:
    """Seconds per lap, into a dict."""

    def __init__(self, laps: dict[str, float]) -> None:
        self._laps = laps
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self._laps[name] = now - self._last
        self._last = now


def silent(_name: str, _unit: str) -> ProgressFn:
    """Stages that nobody watches."""
    return lambda done, total: None


def check_density(what: PathLike, num_nodes: int, num_edges: int) -> None:
    """Refuse ids so sparse that the node arrays alone would not fit: a sign of hashed ids."""
    if is_sparse(num_nodes, num_edges):
        raise sparse_error(os.fspath(what), num_nodes, num_edges)


def is_sparse(num_nodes: int, num_edges: int) -> bool:
    """Return whether there are so many nodes for these edges that ids are hardly counted from 0."""
    return num_nodes > 1 << 26 and num_nodes // 256 > num_edges


def sparse_error(place: str, num_nodes: int, num_edges: int) -> LimitError:
    """Return the error about the largest id, which is at ``place``."""
    return LimitError(
        f"{place}: the largest node id is {num_nodes - 1}, far above the {num_edges:,} edges; ids "
        "should be 0..N-1 without gaps, map them first, for example with numpy.unique(ids, "
        "return_inverse=True)"
    )
