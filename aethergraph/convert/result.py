"""Result of a conversion, and the time of its stages."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aethergraph.convert.readers.base import PathLike, ProgressFn
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

#: ``stages(name, unit)`` announces a stage and returns a function to report (done, total) to.
Stages = Callable[[str, str], ProgressFn]


@dataclass
class ConvertResult:
    """Files and sizes of a finished conversion.

    Attributes:
        graph: the graph file.
        num_nodes: number of nodes.
        num_edges: number of edges in the graph.
        read_edges: rows of the inputs.
        edges_read_now: rows that this call read; fewer if it continued an interrupted build.
        layout: layout of the graph.
        features: file of the features, or None; may be the input itself, if it is usable as it is.
        feature_shape: shape of the features; () without.
        labels: file of the labels, or None.
        ids: file of the map of ids, if the edges were between keys, or None.
        seconds: seconds per stage ("keys", "read", "features", "build", "write").
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
    ids: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Clock:
    """Stopwatch that writes the seconds of each lap into a dict."""

    def __init__(self, laps: dict[str, float]) -> None:
        self._laps = laps
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Write the seconds since the last lap under ``name``."""
        now = time.perf_counter()
        self._laps[name] = now - self._last
        self._last = now


def silent(_name: str, _unit: str) -> ProgressFn:
    """Announce a stage to nobody; return a progress function that does nothing."""
    return lambda done, total: None


def check_density(path: PathLike, num_nodes: int, num_edges: int) -> None:
    """Refuse ids so sparse that the node arrays alone would not fit: a sign of hashed ids."""
    if is_sparse(num_nodes, num_edges):
        raise sparse_error(os.fspath(path), num_nodes, num_edges)


def is_sparse(num_nodes: int, num_edges: int) -> bool:
    """Return whether there are too many nodes for these edges to be counted from 0 without gaps."""
    return num_nodes > 1 << 26 and num_nodes // 256 > num_edges


def sparse_error(place: str, num_nodes: int, num_edges: int) -> LimitError:
    """Return the error about the largest id, which is at ``place``."""
    return LimitError(
        f"{place}: the largest node id is {num_nodes - 1}, far above the {num_edges:,} edges; ids "
        "should be 0..N-1 without gaps: convert takes others with --ids int64 (ids=), or map them "
        "first, for example with numpy.unique(ids, return_inverse=True)"
    )
