r"""Batches whose neighbours' rows are combined ahead of the layer, where it needs no more of them.

::

    neighbours of v   7 2 9          x     | rows of the nodes | x[7]+x[2]+x[9] ... |
                      \_ in the core _________________________/
    edges             n + i -> i, one for each node that has in-edges

A convolution whose message is the row of the source, and that takes sum, mean or maximum of its
messages, makes of such a batch what it makes of all edges: it gets their sum as a single message.
A layer says so by its attribute ``aggregate``. No row is copied for each edge, nor an edge kept.

By lists rows are read where they are in memory, in the order of each list. By blocks they are read
from a file, from its first row to its last, for as many nodes as the budget has accumulators for::

    block of nodes    accumulators           | v0 | v1 | ... |
    its edges         sorted by              chunk of the file, node, source
    the file          one chunk ahead        [ chunk 0 ][ chunk 1 ] ...     those with an edge

There rows are added in the order of their ids: to the last bit as by lists, if the lists ascend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import shown
from aethergraph._parallel.prefetch import PrefetchIterator, prefetch_iter, prefetch_map
from aethergraph._tracepoints import stage
from aethergraph.errors import AbsentError, InvalidArgumentError
from aethergraph.features.gathering import gather_rows
from aethergraph.features.stored_rows import StoredRows
from aethergraph.inference.batches import AHEAD, Range, gathered_dtype
from aethergraph.loading.batch import Batch
from aethergraph.loading.buffers import pool_of
from aethergraph.loading.columns import Column
from aethergraph.protocols import HomogeneousGraph, RowSource
from aethergraph.sampling.subgraph import Subgraph

__all__ = ["Aggregate", "AggregatedBatches", "aggregate_of", "native_rows"]

Ids = NDArray[np.int64]
_HOW = ("sum", "mean", "max")
#: Bytes of an edge of a block, sorted; with a weight, which numpy sorts by an index.
_EDGE_BYTES, _WEIGHTED_BYTES = 16, 48
#: Edges of a chunk that are added at a time; bytes of a chunk at most, and at least.
_ADDED, _CHUNK_BYTES, _FEWEST_BYTES = 1 << 17, 4 << 20, 64 << 10

#: Blocks whose lists are read to see which chunks they need.
_LOOKED_AT = 4


class Aggregate(NamedTuple):
    """Need of a layer: the one thing that it takes of the rows of its neighbours.

    Attributes:
        how: ``"sum"``, ``"mean"`` or ``"max"``.
        weight: attribute of edges that rows are multiplied by; None: they are not.
    """

    how: str
    weight: Column | None


def aggregate_of(
    layer: Any, label: str, dtype: np.dtype[Any], columns: Sequence[Column]
) -> Aggregate | None:
    """Return what a layer needs of its neighbours; None: it has to see their rows.

    Args:
        layer: the layer.
        label: its name in messages.
        dtype: dtype of the rows in batches: others than float32 and float64 are not combined.
        columns: attributes of edges that batches carry.

    Raises:
        InvalidArgumentError: its ``aggregate`` is none.
    """
    value = getattr(layer, "aggregate", None)
    if value is None:
        return None
    how, name = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    by_name = {column.name: column for column in columns}
    if how not in _HOW or (name is not None and name not in by_name):
        raise InvalidArgumentError(
            f"{label} has aggregate = {shown(value)}: give 'sum', 'mean' or 'max', or a pair of it "
            "and of one of the names in edge_attrs"
        )
    weight = None if name is None else by_name[name]
    is_same = weight is None or (weight.rows.array_dtype, weight.rows.row_shape) == (dtype, ())
    return Aggregate(how, weight) if dtype.name in ("float32", "float64") and is_same else None


def native_rows(rows: RowSource) -> native.NativeRows | None:
    """Return rows in memory, or mapped, as the core reads them; None: they are elsewhere."""
    try:
        handle = rows.native_rows() if isinstance(rows, StoredRows) else None
    except AbsentError:
        return None
    return handle if isinstance(handle, native.NativeRows) else None


class AggregatedBatches:
    """Maker of the batches of one layer that have one edge for each node: see the module.

    Args:
        graph: a graph of one type that does not change.
        rows: what the nodes have.
        aggregate: what the layer needs of them.
        room: bytes for a block of nodes and its edges; None: rows are in memory.
    """

    def __init__(
        self, graph: HomogeneousGraph, rows: RowSource, aggregate: Aggregate, room: int | None
    ) -> None:
        self._graph, self._rows, self._aggregate, self._room = graph, rows, aggregate, room
        self._topology = graph.topology("csc")
        self._dtype, self._buffers = gathered_dtype(rows), pool_of(graph)

    def of(self, ranges: Iterator[Range]) -> PrefetchIterator[Any, Any]:
        """Return the batches of ranges, made ahead."""
        if self._room is None:
            return prefetch_map(self._by_list, ranges, depth=AHEAD)
        return prefetch_iter(self._by_blocks(ranges), depth=AHEAD)

    # ---- by lists --------------------------------------------------------------------------

    def _by_list(self, part: Range) -> Batch:
        nodes = np.arange(*part)
        with stage("sample"):
            ids, weights = self._edges_of(nodes)
            degrees = self._graph.in_degrees(nodes)
        x = self._room_for(len(nodes))
        rows = native_rows(self._rows)
        assert rows is not None
        with stage("gather", "x", self._rows):
            into = x[len(nodes) :]
            self._begin(into)
            rows.aggregate(
                ids, _bounds(degrees), into, is_max=self._aggregate.how == "max", weights=weights
            )
        self._finish(into, degrees)
        return self._batch(nodes, x, degrees)

    def _edges_of(self, nodes: Ids) -> tuple[Ids, NDArray[Any] | None]:
        """Return the lists of nodes, one after the other, and the weights of their edges."""
        weight = self._aggregate.weight
        ids, edges = self._topology.neighbors(nodes, with_edges=weight is not None)
        return ids, None if weight is None or edges is None else weight.rows.gather(edges)

    # ---- by blocks -------------------------------------------------------------------------

    def _by_blocks(self, ranges: Iterator[Range]) -> Iterator[Batch]:
        for parts in self.blocks(ranges):
            table, degrees = self._sums(parts)
            end = 0
            for nodes in (np.arange(*part) for part in parts):
                begin, end = end, end + len(nodes)
                x = self._room_for(len(nodes))
                x[len(nodes) :] = table[begin:end]
                yield self._batch(nodes, x, degrees[begin:end])
            del table  # before the next one

    def blocks(self, ranges: Iterator[Range]) -> Iterator[list[Range]]:
        """Yield ranges in groups that there is room for, or that are a single one."""
        assert self._room is not None
        edge_bytes = _EDGE_BYTES if self._aggregate.weight is None else _WEIGHTED_BYTES
        row_bytes = self._row_items * self._dtype.itemsize + 8
        # One chunk is added, one waits and one is read.
        room = self._room - 3 * self.chunk_rows * self._row_items * self._dtype.itemsize
        parts, left = list[Range](), room
        for part in ranges:
            edges = int(self._graph.in_degrees(np.arange(*part)).sum())
            size = (part.stop - part.start) * row_bytes + edges * edge_bytes
            if parts and size > left:
                yield parts
                parts, left = [], room
            parts.append(part)
            left -= size
        if parts:
            yield parts

    def _sums(self, parts: Sequence[Range]) -> tuple[NDArray[Any], Ids]:
        """Return what the rows of the neighbours come to for the nodes of ranges; and degrees."""
        degrees = self._graph.in_degrees(np.concatenate([np.arange(*part) for part in parts]))
        table = np.empty((len(degrees), *self._rows.row_shape), self._dtype)
        self._begin(table)
        rows, count = self.chunk_rows, self._rows.num_rows
        edges, end = _BlockEdges(int(degrees.sum()), rows, len(degrees)), 0
        with stage("sample"):
            for part in parts:
                ids, weights = self._edges_of(np.arange(*part))
                begin, end = end, end + part.stop - part.start
                edges.add(ids, np.repeat(np.arange(begin, end), degrees[begin:end]), weights)
            edges.sort()
        code = native.DTYPE_CODES[self._rows.dtype_name]

        def read(chunk: int) -> tuple[int, NDArray[Any]]:
            with stage("gather", "x", self._rows):
                return chunk, self._rows.read(chunk * rows, min((chunk + 1) * rows, count))

        with prefetch_map(read, edges.chunks(), depth=1) as chunks:
            for chunk, array in chunks:
                source = native.NativeRows(array, code, self._rows.guard)
                for ids, nodes, weights in edges.of(chunk):
                    firsts = np.flatnonzero(np.diff(nodes, prepend=-1))
                    bounds = np.append(firsts, len(nodes)).astype(np.uint64)
                    source.aggregate(
                        ids, bounds, table, is_max=self._aggregate.how == "max",
                        places=nodes[firsts], weights=weights,
                    )  # fmt: skip
        self._finish(table, degrees)
        return table, degrees

    def cost(self, ranges: Sequence[Range], cached: int) -> tuple[int, int]:
        """Return the number of blocks of ranges, and the bytes of rows that they read, about.

        The chunks that some blocks need stand for those of all.

        Args:
            ranges: all ranges.
            cached: rows that a cache holds after a block, for the nodes of the block themselves.
        """
        blocks = list(self.blocks(iter(ranges)))
        row_bytes = self._row_items * self._rows.array_dtype.itemsize
        num_chunks = -(-self._rows.num_rows // self.chunk_rows)
        shares = []
        for parts in blocks[:: max(1, len(blocks) // _LOOKED_AT)]:
            is_read = np.zeros(num_chunks, np.bool_)
            for part in parts:
                is_read[self._topology.neighbors(np.arange(*part))[0] // self.chunk_rows] = True
            shares.append(is_read.mean())
        share = float(np.mean(shares)) if shares else 0.0
        # Some of those are gone by then.
        passes = len(blocks) * share + (0.5 if share * self._rows.num_rows < cached else 1)
        return len(blocks), int(passes * self._rows.num_rows * row_bytes)

    @property
    def chunk_rows(self) -> int:
        """Rows that are read at a time, a power of two."""
        assert self._room is not None
        size = max(min(self._room // 32, _CHUNK_BYTES), _FEWEST_BYTES)
        row_bytes = self._row_items * self._rows.array_dtype.itemsize
        return 1 << max(0, (size // max(1, row_bytes)).bit_length() - 1)

    # ---- both ------------------------------------------------------------------------------

    @property
    def _row_items(self) -> int:
        return int(np.prod(self._rows.row_shape, dtype=np.int64))

    def _room_for(self, count: int) -> NDArray[Any]:
        """Return memory for rows of nodes, and as many behind them."""
        return self._buffers.lend((2 * count, *map(int, self._rows.row_shape)), self._dtype)

    def _begin(self, table: NDArray[Any]) -> None:
        table.fill(-np.inf if self._aggregate.how == "max" else 0)

    def _finish(self, table: NDArray[Any], degrees: Ids) -> None:
        """Make means of sums, and zeros of what has no neighbours."""
        if self._aggregate.how == "mean":
            counts = np.maximum(degrees, 1).astype(self._dtype)
            table /= counts.reshape(-1, *[1] * (table.ndim - 1))
        elif self._aggregate.how == "max":
            table[degrees == 0] = 0

    def _batch(self, nodes: Ids, x: NDArray[Any], degrees: Ids) -> Batch:
        """Return the batch of nodes, whose aggregates are in ``x`` already."""
        count, weight = len(nodes), self._aggregate.weight
        with stage("gather", "x", self._rows):
            gather_rows(self._rows, nodes, x[:count])
        col = np.flatnonzero(degrees)
        sample = Subgraph(
            np.concatenate((nodes, nodes)), col + count, col, np.full(len(col), -1),
            num_sampled_nodes=[count, count], num_sampled_edges=[len(col)],
        )  # fmt: skip
        weights = {} if weight is None else {weight.name: np.ones(len(col), self._dtype)}
        return Batch(sample, nodes, nodes, {"x": x}, weights)


def _bounds(degrees: Ids) -> NDArray[np.uint64]:
    """Return where each of some lists begins, and where the last one ends."""
    bounds = np.zeros(len(degrees) + 1, np.int64)
    np.cumsum(degrees, out=bounds[1:])
    return bounds.view(np.uint64)


class _BlockEdges:
    """Edges of a block of nodes, as numbers that sort by chunk of the source, node and source.

    Args:
        count: number of edges.
        chunk_rows: rows of a chunk, a power of two.
        num_nodes: nodes of the block.
    """

    def __init__(self, count: int, chunk_rows: int, num_nodes: int) -> None:
        self._row_bits = chunk_rows.bit_length() - 1
        self._bits = self._row_bits + max(num_nodes - 1, 0).bit_length()
        self._keys = np.empty(count, np.int64)
        self._weights: NDArray[Any] | None = None
        self._count = 0

    def add(self, ids: Ids, nodes: Ids, weights: NDArray[Any] | None) -> None:
        """Put in edges from ``ids`` to ``nodes`` of the block."""
        low = (1 << self._row_bits) - 1
        place = slice(self._count, self._count + len(ids))
        self._keys[place] = (
            ids >> self._row_bits << self._bits | nodes << self._row_bits | ids & low
        )
        if weights is not None:
            if self._weights is None:
                self._weights = np.empty(len(self._keys), weights.dtype)
            self._weights[place] = weights
        self._count += len(ids)

    def sort(self) -> None:
        """Sort them; edges between the same two nodes stay in their order."""
        if self._weights is None:
            self._keys.sort()
            return
        order = np.argsort(self._keys, kind="stable")
        self._keys, self._weights = self._keys[order], self._weights[order]

    def chunks(self) -> Iterator[int]:
        """Yield the chunks that have an edge, ascending."""
        at = 0
        while at < len(self._keys):
            chunk = int(self._keys[at]) >> self._bits
            yield chunk
            at = self._end_of(chunk)

    def _end_of(self, chunk: int) -> int:
        return int(np.searchsorted(self._keys, (chunk + 1) << self._bits))

    def of(self, chunk: int) -> Iterator[tuple[Ids, Ids, NDArray[Any] | None]]:
        """Yield rows in a chunk, the nodes that they go to, and weights, some edges at a time."""
        end, low = self._end_of(chunk), (1 << self._row_bits) - 1
        for start in range(self._end_of(chunk - 1), end, _ADDED):
            part = slice(start, min(start + _ADDED, end))
            keys = self._keys[part]
            nodes = keys >> self._row_bits & (1 << (self._bits - self._row_bits)) - 1
            yield keys & low, nodes, None if self._weights is None else self._weights[part]
