"""Batches of a layer: nodes of a type in the order of their ids, with their neighbours' rows.

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

from aethergraph import _native as native
from aethergraph._parallel.prefetch import PrefetchIterator
from aethergraph._tracepoints import stage
from aethergraph.features.gathering import gather_rows
from aethergraph.graph.schema import EDGE, NODE, Schema, as_typed
from aethergraph.loading.batch import Batch, HeteroBatch
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
from aethergraph.protocols import AnyGraph, EdgeType, GatherPlan, HeterogeneousGraph, RowSource
from aethergraph.sampling.draws import Draws
from aethergraph.sampling.engine import DrawOptions
from aethergraph.sampling.hetero import HeteroNeighborSampler
from aethergraph.sampling.neighbor import NeighborSampler
from aethergraph.sampling.plan import Times, lists_of, make_plan
from aethergraph.sampling.two_step import Steps

__all__ = [
    "AHEAD", "Degrees", "Fanout", "LayerBatches", "Range", "Until", "cut", "fanouts_of",
    "gathered_dtype", "rows_by_type",
]  # fmt: skip

Ids = NDArray[np.int64]
#: Neighbours that are drawn for a node, -1: all; of a typed graph by edge type, 0 where none is.
Fanout = int | Mapping[EdgeType, int]
#: Batches that are ready before they are asked for.
AHEAD = 2
_NODES = 1 << 20  # whose degrees are asked for at once
_FLOAT32 = np.dtype(np.float32)


class Until(NamedTuple):
    """Time as of which vectors are: edges that came later, or from later nodes, are not there.

    Attributes:
        time_attr: name of the times.
        time: the time; datetime64 in the unit of the times if they have one.
    """

    time_attr: str
    time: np.generic


class Range(NamedTuple):
    """Consecutive nodes, ``start .. stop - 1``; or places in a list of nodes."""

    start: int
    stop: int


def rows_by_type(rows: RowSource | Mapping[str, RowSource]) -> dict[str, RowSource]:
    """Return rows of nodes by their type, which is ``NODE`` where there are no names of types."""
    return dict(rows) if isinstance(rows, Mapping) else {NODE: rows}


def fanouts_of(graph: HeterogeneousGraph, fanout: Fanout) -> Mapping[EdgeType, int]:
    """Return the neighbours that are drawn for a node by edge type."""
    return fanout if isinstance(fanout, Mapping) else dict.fromkeys(graph.edge_types, fanout)


def ids_of(part: Range, nodes: Ids | None) -> Ids:
    """Return the ids of a range of all nodes, or of places in a list of them."""
    return np.arange(*part) if nodes is None else nodes[part.start : part.stop]


class Degrees:
    """Numbers of in-edges that a layer uses, a stretch of nodes at a time.

    Edges that are not there at a time are counted: batches as of that time have fewer.

    Args:
        graph: the graph.
        fanout: neighbours that are drawn for a node.
        node_type: type of the nodes, of a typed graph.
        nodes: nodes of the layer, ascending; None: all of the type.
    """

    def __init__(
        self, graph: AnyGraph, fanout: Fanout, node_type: str = NODE, nodes: Ids | None = None
    ) -> None:
        typed = as_typed(graph)
        self._relations = [
            (typed[kind], drawn)
            for kind, drawn in fanouts_of(typed, fanout).items()
            if kind[2] == node_type
        ]
        self._nodes = nodes
        self.num_nodes = typed[node_type].num_nodes if nodes is None else len(nodes)

    def of(self, start: int) -> Ids:
        """Return the degrees of some nodes from ``start`` on, of all that are left near the end."""
        nodes = ids_of(Range(start, min(start + _NODES, self.num_nodes)), self._nodes)
        total = np.zeros(len(nodes), np.int64)
        for edges, drawn in self._relations:
            degrees = edges.in_degrees(nodes)
            total += degrees if drawn < 0 else np.minimum(degrees, drawn)
        return total

    def sum_of(self, part: Range) -> int:
        """Return the number of edges of the nodes of a range."""
        nodes = ids_of(part, self._nodes)
        return sum(
            int(
                (
                    edges.in_degrees(nodes)
                    if drawn < 0
                    else np.minimum(edges.in_degrees(nodes), drawn)
                ).sum()
            )
            for edges, drawn in self._relations
        )

    @functools.cached_property
    def largest(self) -> tuple[int, int]:
        """Node with most edges, and their number; (0, 0) without nodes."""
        node, degree = 0, 0
        for start in range(0, self.num_nodes, _NODES):
            degrees = self.of(start)
            at = int(degrees.argmax())
            if degrees[at] > degree:
                node, degree = start + at, int(degrees[at])
        return node if self._nodes is None or not degree else int(self._nodes[node]), degree


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
    """Maker of the batches of one layer: :class:`Batch`, or of a typed graph :class:`HeteroBatch`.

    Args:
        graph: a graph that does not change.
        rows: what the nodes have; of a typed graph by node type, of those that have any.
        edge_columns: attributes of edges that batches carry.
        fanout: neighbours that are drawn for a node.
        key: decides the draws: those of a node do not depend on its range.
        node_type: type of the nodes that batches are of, of a typed graph.
        nodes: nodes of the layer, ascending, in which ranges are places; None: all of the type.
        until: time as of which neighbours are; None: all of them are there.
    """

    def __init__(
        self, graph: AnyGraph, rows: RowSource | Mapping[str, RowSource],
        edge_columns: Sequence[Column], fanout: Fanout, key: int, node_type: str = NODE,
        nodes: Ids | None = None, until: Until | None = None,
    ) -> None:  # fmt: skip
        schema = Schema(graph)
        fanouts = fanouts_of(schema.typed, fanout)
        drawn = [[fanouts[kind]] for kind in schema.edge_types]
        sampler: Any
        if graph.is_typed:
            sampler = HeteroNeighborSampler(graph, dict(zip(schema.edge_types, drawn, strict=True)))
        else:
            sampler = NeighborSampler(graph, drawn[0])
        self._finish, self._until = sampler.finish, until
        # Seeds of samplers in time have trees of their own; these share all that is there.
        times = None if until is None else Times(until.time_attr)
        plan = make_plan(schema, lists_of(schema.edge_types), times=times)
        self._draws = Draws(plan, native.NativeSample, drawn, DrawOptions())
        self._is_typed, self._node_type = graph.is_typed, node_type
        self._node_columns = [
            Column(name, "x", of_type) for name, of_type in rows_by_type(rows).items()
        ]
        self._columns = [*self._node_columns, *edge_columns]
        self._key, self._nodes = key, nodes
        self._buffers = pool_of(graph)

    def of(
        self, ranges: Iterator[Range], batch_size: int, num_planned: int
    ) -> PrefetchIterator[Any, Any]:
        """Return the batches of ranges, made ahead.

        Args:
            ranges: the ranges.
            batch_size: nodes of a range, about.
            num_planned: batches that are sampled before the rows of the first are fetched, if that
                makes reading them cheaper.
        """
        groups, sources = self._draws.engine.groups, [column.rows for column in self._columns]
        can_plan = any(column.rows.can_plan for column in self._node_columns)
        plans = choose_plans(sources, num_planned if can_plan else 0, groups, batch_size)
        draw: Draw[Range, Any]
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

    def at(self, nodes: Range) -> Any:
        """Return the batch of a range."""
        return self._fetch(self._sample(nodes))

    def rows_of(self, nodes: Range) -> Ids:
        """Return the nodes whose rows the batch of a range has, of a graph of one type."""
        ids: Ids = self._sample(nodes).node
        return ids

    def _prepare(self, nodes: Range) -> native.NativeBatch:
        ids = ids_of(nodes, self._nodes)
        times = None
        if self._until is not None:
            times = {self._node_type: np.full(len(ids), self._until.time)}
        return self._draws.prepare({self._node_type: ids}, self._key, seed_time=times)

    def _sample(self, nodes: Range) -> Any:
        with stage("sample"):
            return self._finish(self._draws.engine.draw(self._prepare(nodes)))

    def _steps(self, nodes: Range) -> Steps:
        return self._finish((yield self._prepare(nodes)))

    def _ids(self, sample: Any, number: int) -> Ids:
        """Return the ids of a sample that column ``number`` has rows of, edges behind nodes."""
        ids: Any = sample.node if number < len(self._node_columns) else sample.edge
        of_column: Ids = ids[self._columns[number].kind] if self._is_typed else ids
        return of_column

    def _fetch(self, sample: Any, plans: Mapping[int, GatherPlan] | None = None) -> Any:
        nodes: dict[Any, dict[str, NDArray[Any]]] = {}
        edges: dict[Any, dict[str, NDArray[Any]]] = {}
        for number, column in enumerate(self._columns):
            rows, ids = column.rows, self._ids(sample, number)
            shape = (len(ids), *map(int, rows.row_shape))
            out = self._buffers.lend(shape, gathered_dtype(rows))
            plan = None if plans is None else plans.get(number)
            with stage("gather", column.name, rows):
                table = gather_rows(rows, ids, out) if plan is None else plan.gather(ids, out)
            of_kind = nodes if number < len(self._node_columns) else edges
            of_kind.setdefault(column.kind, {})[column.name] = table
        if self._is_typed:
            count = sample.num_sampled_nodes[self._node_type][0]
            by_type = {self._node_type: sample.node[self._node_type][:count]}
            return HeteroBatch(sample, by_type, by_type, nodes, edges)
        seeds = sample.node[: sample.num_sampled_nodes[0]]
        return Batch(sample, seeds, seeds, nodes[NODE], edges.get(EDGE, {}))
