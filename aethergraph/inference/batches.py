"""Batches of a layer: all nodes in the order of their ids, each with what its neighbours have.

::

    nodes   0 ......... 4095 | 4096 ... 4120 | 4121 | 4122 .... 8217 |       a cut where the nodes
    edges   |----- 39K ------|----- 128K ----| 900K |----- 41K ------|       or the edges are enough

Ranges depend on where the first begins and on nothing else before it: work that goes on at the
start of a range has the batches that it would have had.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._parallel.prefetch import PrefetchIterator
from aethergraph._tracepoints import stage
from aethergraph.features.gathering import gather_rows
from aethergraph.loading.batch import Batch
from aethergraph.loading.buffers import pool_of
from aethergraph.loading.columns import Column
from aethergraph.loading.pipeline import (
    Draw,
    DrawAlone,
    DrawGroups,
    Views,
    choose_plans,
    run_stages,
)
from aethergraph.protocols import GatherPlan, HomogeneousGraph, RowSource
from aethergraph.sampling import NeighborSampler, Subgraph
from aethergraph.sampling.two_step import Steps

__all__ = ["AHEAD", "Degrees", "LayerBatches", "Range", "cut", "gathered_dtype"]

Ids = NDArray[np.int64]
#: Batches that are ready before they are asked for.
AHEAD = 2
_NODES = 1 << 20  # whose degrees are asked for at once
_FLOAT32 = np.dtype(np.float32)


class Range(NamedTuple):
    """Consecutive nodes, ``start .. stop - 1``."""

    start: int
    stop: int


class Degrees:
    """Numbers of in-edges that a layer uses, a stretch of nodes at a time.

    Args:
        graph: the graph.
        fanout: neighbours that are drawn for a node; -1: all.
    """

    def __init__(self, graph: HomogeneousGraph, fanout: int) -> None:
        self._graph, self._fanout = graph, fanout
        self.num_nodes = graph.num_nodes

    def of(self, start: int) -> Ids:
        """Return the degrees of some nodes from ``start`` on, of all that are left near the end."""
        degrees = self._graph.in_degrees(np.arange(start, min(start + _NODES, self.num_nodes)))
        return degrees if self._fanout < 0 else np.minimum(degrees, self._fanout)

    @functools.cached_property
    def largest(self) -> tuple[int, int]:
        """Node with most edges, and their number; (0, 0) without nodes."""
        node, degree = 0, 0
        for start in range(0, self.num_nodes, _NODES):
            degrees = self.of(start)
            at = int(degrees.argmax())
            if degrees[at] > degree:
                node, degree = start + at, int(degrees[at])
        return node, degree


def cut(degrees: Degrees, start: int, batch_size: int, limit: int) -> Iterator[Range]:
    """Yield ranges of nodes from ``start`` on.

    Args:
        degrees: edges of the nodes.
        start: the first node.
        batch_size: nodes of a range at most.
        limit: nodes and edges of a range at most, but for a node that has more by itself.
    """
    while start < degrees.num_nodes:
        ends = np.cumsum(degrees.of(start) + 1)
        count, at, before = len(ends), 0, 0
        while at < count:
            stop = min(at + batch_size, int(np.searchsorted(ends, before + limit, "right")))
            stop = max(stop, at + 1)
            if stop >= count and at > 0 and start + count < degrees.num_nodes:
                break  # the next stretch begins with this range
            stop = min(stop, count)
            yield Range(start + at, start + stop)
            at, before = stop, int(ends[stop - 1])
        start += at


def gathered_dtype(rows: RowSource) -> np.dtype[Any]:
    """Return the dtype of rows in batches: float32 for bfloat16, which numpy has not."""
    return _FLOAT32 if rows.dtype_name == "bfloat16" else rows.array_dtype


class LayerBatches:
    """Maker of the batches of one layer.

    Args:
        graph: a graph that does not change.
        rows: what the nodes have.
        edge_columns: attributes of edges that batches carry.
        fanout: neighbours that are drawn for a node; -1: all.
        key: decides the draws: those of a node do not depend on its range.
    """

    def __init__(
        self, graph: HomogeneousGraph, rows: RowSource, edge_columns: Sequence[Column],
        fanout: int, key: int,
    ) -> None:  # fmt: skip
        self._sampler = NeighborSampler(graph, [fanout])
        self._rows, self._edge_columns = rows, edge_columns
        self._key = key
        self._buffers = pool_of(graph)

    def of(
        self, ranges: Iterator[Range], batch_size: int, num_planned: int
    ) -> PrefetchIterator[Any, Batch]:
        """Return the batches of ranges, made ahead.

        Args:
            ranges: the ranges.
            batch_size: nodes of a range, about.
            num_planned: batches that are sampled before the rows of the first are fetched, if that
                makes reading them cheaper.
        """
        groups, sources = self._sampler.engine.groups, [column.rows for column in self._columns]
        planned = num_planned if self._rows.can_plan else 0
        plans = choose_plans(sources, planned, groups, batch_size)
        draw: Draw[Range, Subgraph]
        if groups is None:
            draw = DrawAlone(self._sample, 1, helping=True)
        else:
            draw = DrawGroups(self._steps, groups, batch_size, plans.columns)
        return run_stages(
            ranges, draw, self._fetch, views=Views(None), rows=plans, depth=AHEAD,
            plan=lambda samples: {
                number: source.plan([self._ids(sample, number) for sample in samples])
                for number, source in plans.sources
            },
        )  # fmt: skip

    def at(self, nodes: Range) -> Batch:
        """Return the batch of a range."""
        return self._fetch(self._sample(nodes))

    @property
    def _columns(self) -> list[Column]:
        return [Column(None, "x", self._rows), *self._edge_columns]

    def _sample(self, nodes: Range) -> Subgraph:
        with stage("sample"):
            return self._sampler.sample(np.arange(*nodes), self._key)

    def _steps(self, nodes: Range) -> Steps:
        return self._sampler.finish((yield self._sampler.prepare(np.arange(*nodes), self._key)))

    def _ids(self, sample: Subgraph, number: int) -> Ids:
        return sample.edge if number else sample.node

    def _fetch(self, sample: Subgraph, plans: Mapping[int, GatherPlan] | None = None) -> Batch:
        tables: list[NDArray[Any]] = []
        for number, column in enumerate(self._columns):
            rows, ids = column.rows, self._ids(sample, number)
            shape = (len(ids), *map(int, rows.row_shape))
            out = self._buffers.lend(shape, gathered_dtype(rows))
            plan = None if plans is None else plans.get(number)
            with stage("gather", column.name, rows):
                tables.append(
                    gather_rows(rows, ids, out) if plan is None else plan.gather(ids, out)
                )
        assert sample.num_sampled_nodes is not None
        seeds = sample.node[: sample.num_sampled_nodes[0]]
        edge_attrs = {c.name: t for c, t in zip(self._edge_columns, tables[1:], strict=True)}
        return Batch(sample, seeds, seeds, {"x": tables[0]}, edge_attrs)
