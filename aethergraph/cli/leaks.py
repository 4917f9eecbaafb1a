"""``aethergraph verify --time``: samples a graph, and proves that no seed sees its future."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph.convert.readers.base import ProgressFn
from aethergraph.errors import InvalidArgumentError
from aethergraph.protocols import HeterogeneousGraph, RowSource
from aethergraph.sampling.hetero import HeteroNeighborSampler, HeteroSubgraph
from aethergraph.testing import check_no_leak
from aethergraph.testing.leaks import LeakReport

__all__ = ["sample_and_check"]

_BATCHES, _SEEDS, _FANOUTS = 8, 128, [10, 5]
_WAYS: list[tuple[Literal["uniform", "last"], bool]] = [
    ("uniform", False), ("uniform", True), ("last", False), ("last", True),
]  # fmt: skip


def sample_and_check(graph: HeterogeneousGraph, path: Path, progress: ProgressFn) -> LeakReport:
    """Draw samples around seeds of every node type, and check that none sees its future.

    Seeds and their times are random, the same in every call: times between the earliest and the
    latest of the graph, but not before the seed itself.

    Args:
        graph: a graph with times of nodes or of edges; both are checked. Of a live graph a
            snapshot, whose lists do not change meanwhile.
        path: where the graph is, for messages.
        progress: called with (batches done, batches in all).

    Raises:
        LeakError: a sample holds what its seed may not know.
        InvalidArgumentError: the graph has no times, or a list is not sorted by them.
        LayoutError: the graph has no in-edges.
    """
    names = [name for name in ("node_time", "edge_time") if _times(graph, name)]
    goes_by = _time_attr(graph)
    if goes_by is not None:
        names = [goes_by]
    if not names:
        raise InvalidArgumentError(f"{path}: --time: the graph has no times")
    report, total = LeakReport(), len(names) * len(_WAYS) * _BATCHES
    for name in names:
        for strategy, strict in _WAYS:
            sampler = HeteroNeighborSampler(
                graph, _FANOUTS, time_attr=name, temporal_strategy=strategy, strict=strict
            )
            for key, (seeds, time) in enumerate(_seeds(graph, name)):
                sample: HeteroSubgraph = sampler.sample(seeds, key, seed_time=time)
                # Where a graph says what samples go by, nothing else may leak either.
                compared = name if goes_by is None else None
                sample_report = check_no_leak(
                    graph, sample, strict=strict, time_attr=compared, seed_time=time
                )
                report.add(sample_report)
                progress(report.batches, total)
    # A sampler goes by one kind of times, and the samples of the other compare the other.
    nodes, edges = _times(graph, "node_time"), _times(graph, "edge_time")
    report.untimed_nodes = {k: n for k, n in report.untimed_nodes.items() if k not in nodes}
    report.untimed_edges = {k: n for k, n in report.untimed_edges.items() if k not in edges}
    return report


def _time_attr(graph: HeterogeneousGraph) -> str | None:
    """Return the times that a graph of tables says to go by; live graphs do not say."""
    return getattr(graph, "time_attr", None)


def _times(graph: HeterogeneousGraph, name: str) -> dict[Any, RowSource]:
    tables: dict[Any, Mapping[str, RowSource]] = {k: graph[k].edge_values for k in graph.edge_types}
    if name == "node_time":
        tables = {node_type: graph[node_type].node_values for node_type in graph.node_types}
    times = {kind: table[name] for kind, table in tables.items() if name in table}
    return {kind: rows for kind, rows in times.items() if rows.num_rows}


def _seeds(
    graph: HeterogeneousGraph, name: str
) -> Iterator[tuple[dict[str, NDArray[np.int64]], dict[str, NDArray[Any]]]]:
    rng = np.random.default_rng(0)
    times = _times(graph, name)
    is_node_time = name == "node_time" or _time_attr(graph) is not None
    own_times = _times(graph, "node_time") if is_node_time else {}
    some = [_gather(table, rng.integers(0, table.num_rows, _SEEDS)) for table in times.values()]
    known = np.concatenate(some)
    for _ in range(_BATCHES):
        seeds, limits = {}, {}
        for kind in graph.node_types:
            count = graph[kind].num_nodes
            if not count:
                continue
            seeds[kind] = ids = rng.integers(0, count, _SEEDS)
            limits[kind] = rng.choice(known, _SEEDS)
            if kind in own_times:
                limits[kind] = np.maximum(limits[kind], _gather(own_times[kind], ids))
        yield seeds, limits


def _gather(times: RowSource, ids: NDArray[np.int64]) -> NDArray[Any]:
    return np.asarray(times.gather(ids)).reshape(len(ids))
