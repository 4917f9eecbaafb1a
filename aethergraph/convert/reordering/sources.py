"""A graph file as a source of edges and rows under other ids, read from its start to its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.convert.readers.base import ProgressFn
from aethergraph.convert.readers.edges import EdgeChunk, Position
from aethergraph.features.sources import check_result
from aethergraph.graph.file import GraphReader
from aethergraph.graph.lists import Lists
from aethergraph.graph.parts import EdgeParts
from aethergraph.protocols import RowSource

__all__ = ["ORDER_COLUMN", "ROWS_COLUMN", "GraphInput", "MovedEdges", "MovedRows", "RankedEdges"]

Ids = NDArray[np.int64]
#: Bytes of a chunk of edges or rows, several of which wait to be taken.
_CHUNK_BYTES = 4 << 20
_MOST_ROWS = 1 << 18
#: Bytes read of a mapped file before its pages are let go of.
_LET_GO = 64 << 20
#: Columns of edges: that of ``edge_order``, and the prefix of attributes' names.
ORDER_COLUMN = "order"
_ATTR = "a:"
ROWS_COLUMN = "rows"
#: Key of the hash that tells whether all edges are stored both ways.
_KEY = 0x5EED


class GraphInput:
    """Graph file whose edges are read in pieces, and whose pages do not pile up in memory.

    Attributes:
        reader: the open file.
        nodes: parts of each node type.
        edges: parts of each edge type.
        firsts: number of the first node of each type among all nodes.
        num_nodes: number of nodes of all types.
    """

    def __init__(self, path: native.Path) -> None:
        self.reader = GraphReader(path)
        self.nodes, self.edges = self.reader.make_all()
        self.reader.read(self.nodes, self.edges, "mmap", None, None)
        counts = [part.num_nodes for part in self.nodes]
        self.firsts = [sum(counts[:number]) for number in range(len(counts))]
        self.num_nodes = sum(counts)
        self._read_bytes = 0

    @property
    def num_edges(self) -> int:
        """Number of edges of all types."""
        return sum(part.num_edges for part in self.edges)

    def first_of_ends(self, number: int) -> tuple[int, int]:
        """Return the first node of an edge type's lists, and that of what is in them."""
        kind = self.reader.meta.edge_types[number]
        ends = self.firsts[kind.destination], self.firsts[kind.source]
        return ends if self.edges[number].csc is not None else ends[::-1]

    def ends(self, number: int, begin: int, end: int) -> tuple[Ids, Ids]:
        """Return whose lists hold the edges ``begin .. end - 1`` of a type, and who is in them."""
        lists = self.edges[number].any_lists
        with native.reading(self.reader.guard):
            major = owners(lists, begin, end)
            minor = lists.topology.ids(begin, end - begin, np.dtype(np.int64))
        self.note_read(12 * (end - begin))
        return major, minor

    def note_read(self, size: int) -> None:
        """Note that ``size`` bytes of the file were read, and let go of pages now and then."""
        self._read_bytes += size
        if self._read_bytes < _LET_GO:
            return
        self._read_bytes = 0
        for part in self.edges:
            for lists in (part.csc, part.csr):
                for array in () if lists is None else lists.raw:
                    if isinstance(array, native.CompressedIds):
                        native.advise(array.blocks, native.ADVICE_DROP)
                    elif array is not None:
                        native.advise(array, native.ADVICE_DROP)
            for values in (part.edge_order, part.edge_weight, part.edge_time):
                if values is not None:
                    native.advise(values, native.ADVICE_DROP)

    def degrees(self, progress: ProgressFn) -> tuple[NDArray[np.uint64], bool]:
        """Return what :func:`aethergraph._native.node_degrees` returns, in one pass."""
        degrees = np.zeros(self.num_nodes, np.uint64)
        balance, done, one = 0, 0, np.uint64(1)
        for number, part in enumerate(self.edges):
            firsts = self.first_of_ends(number)
            for begin in range(0, part.num_edges, _MOST_ROWS):
                end = min(begin + _MOST_ROWS, part.num_edges)
                major, minor = self.ends(number, begin, end)
                major += firsts[0]
                minor += firsts[1]
                keep = np.flatnonzero(major != minor)
                major, minor = major[keep], minor[keep]
                np.add.at(degrees, major, one)
                np.add.at(degrees, minor, one)
                balance += _hash_pairs(major, minor) - _hash_pairs(minor, major)
                progress(done + end, self.num_edges)
            done += part.num_edges
        both = balance % 2**64 != 0
        if not both:
            degrees >>= one
        return degrees, both


def _hash_pairs(first: Ids, second: Ids) -> int:
    """Return a sum over pairs of nodes, whatever their order."""
    pairs = (first.view(np.uint64) << np.uint64(32)) | second.view(np.uint64)
    alike = np.zeros(len(pairs), np.uint32)
    return native.hash_edges(None, pairs, alike, 0, len(pairs), transposed=False, key=_KEY)


def owners(lists: Lists, begin: int, end: int) -> Ids:
    """Return whose lists hold the entries ``begin .. end - 1``, int64."""
    indptr = lists.indptr
    first = int(np.searchsorted(indptr, np.uint64(begin), side="right")) - 1
    last = int(np.searchsorted(indptr, np.uint64(end), side="left"))
    if last - first > 4 * _MOST_ROWS:  # lists without entries, most of them
        places = np.arange(begin, end, dtype=np.uint64)
        return np.searchsorted(indptr, places, side="right").astype(np.int64) - 1
    offsets = np.clip(indptr[first : last + 1].astype(np.int64), begin, end)
    return np.repeat(np.arange(first, last), np.diff(offsets))


class RankedEdges:
    """All edges between ranks, both ways, for lists by rank; without loops.

    Args:
        graph: the graph.
        ranks: rank of each node, uint32.
        both: False if the graph has every edge in both directions by itself.
        progress: counts edges.
    """

    def __init__(
        self, graph: GraphInput, ranks: native.Ranks32, both: bool, progress: ProgressFn
    ) -> None:
        self._graph = graph
        self._ranks = ranks
        self._both = both
        self._progress = progress

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all types."""
        return self._graph.num_nodes

    def chunks(self, start: Position) -> Iterator[tuple[Position, EdgeChunk]]:
        """Yield the edges after ``start``; a file of a position is an edge type."""
        graph = self._graph
        done = sum(part.num_edges for part in graph.edges[: start[0]])
        for number in range(start[0], len(graph.edges)):
            firsts = graph.first_of_ends(number)
            count = graph.edges[number].num_edges
            piece = start[1] if number == start[0] else 0
            for begin in range(piece * _MOST_ROWS, count, _MOST_ROWS):
                end = min(begin + _MOST_ROWS, count)
                ends = graph.ends(number, begin, end)
                major, minor = (
                    self._ranks[ids + first].astype(np.int64)
                    for ids, first in zip(ends, firsts, strict=True)
                )
                keep = np.flatnonzero(major != minor)
                major, minor = major[keep], minor[keep]
                if self._both:
                    major, minor = np.concatenate([major, minor]), np.concatenate([minor, major])
                piece += 1
                yield (number, piece), EdgeChunk(minor, major)
                self._progress(done + end, graph.num_edges)
            done += count


class MovedEdges:
    """Edges of one type with all of their values, under new ids, in the order of edge ids.

    Args:
        graph: the graph.
        number: number of the edge type.
        new: new ids of the nodes of all types, within their type, uint32.
        progress: counts edges.
    """

    def __init__(
        self, graph: GraphInput, number: int, new: native.Ranks32, progress: ProgressFn
    ) -> None:
        self._graph = graph
        self._number = number
        self._new = new
        self._progress = progress
        self._part: EdgeParts = graph.edges[number]
        row = 16 + sum(store.nbytes for store in self._part.edge_attrs.values()) // max(
            1, self._part.num_edges
        )
        self._rows = max(1, min(_MOST_ROWS, _CHUNK_BYTES // row))
        self.attr_columns = {f"{_ATTR}{name}": name for name in self._part.edge_attrs}

    @property
    def num_nodes(self) -> int:
        """Nodes of the end that has more: lists and ids are below it."""
        return max(self._part.num_src, self._part.num_dst)

    def chunks(self, start: Position) -> Iterator[tuple[Position, EdgeChunk]]:
        """Yield the edges after ``start``."""
        part, count = self._part, self._part.num_edges
        firsts = self._graph.first_of_ends(self._number)
        for piece, begin in enumerate(range(start[1] * self._rows, count, self._rows), start[1]):
            end = min(begin + self._rows, count)
            ends = self._graph.ends(self._number, begin, end)
            major, minor = (
                self._new[ids + first].astype(np.int64)
                for ids, first in zip(ends, firsts, strict=True)
            )
            src, dst = (minor, major) if part.csc is not None else (major, minor)
            yield (0, piece + 1), self._chunk(src, dst, begin, end)
            self._progress(end, count)

    def _chunk(self, src: Ids, dst: Ids, begin: int, end: int) -> EdgeChunk:
        part = self._part
        values: list[NDArray[Any] | None] = []
        with native.reading(self._graph.reader.guard):
            for array in (part.edge_weight, part.edge_time, part.edge_order):
                values.append(None if array is None else array[begin:end].copy())
        weight, time, order = values
        attrs = {} if order is None else {ORDER_COLUMN: order}
        for name, store in part.edge_attrs.items():
            attrs[f"{_ATTR}{name}"] = read_rows(store, begin, end)
            self._graph.note_read(attrs[f"{_ATTR}{name}"].nbytes)
        return EdgeChunk(src, dst, weight, time, attrs)


class MovedRows:
    """Rows of the nodes of one type as edges into their new ids, one each.

    Lists of such edges are the rows in the order of the new ids.

    Args:
        graph: the graph.
        owner: number of the node type.
        store: the rows.
        new: new ids of the nodes of all types, within their type, uint32.
        progress: counts rows.
    """

    def __init__(
        self, graph: GraphInput, owner: int, store: RowSource, new: native.Ranks32,
        progress: ProgressFn,
    ) -> None:  # fmt: skip
        self._graph = graph
        self._store = store
        self._new = new[graph.firsts[owner] :][: store.num_rows]
        self._progress = progress
        row = max(1, store.nbytes // max(1, store.num_rows))
        self._rows = max(1, min(_MOST_ROWS, _CHUNK_BYTES // row))

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the type."""
        return self._store.num_rows

    def chunks(self, start: Position) -> Iterator[tuple[Position, EdgeChunk]]:
        """Yield the rows after ``start``."""
        count = self._store.num_rows
        for piece, begin in enumerate(range(start[1] * self._rows, count, self._rows), start[1]):
            end = min(begin + self._rows, count)
            rows = read_rows(self._store, begin, end)
            self._graph.note_read(rows.nbytes)
            target = self._new[begin:end].astype(np.int64)
            chunk = EdgeChunk(np.zeros(end - begin, np.int64), target, attrs={ROWS_COLUMN: rows})
            yield (0, piece + 1), chunk
            self._progress(end, count)


def read_rows(store: RowSource, begin: int, end: int) -> NDArray[Any]:
    """Return a copy of some rows; the pages that they are mapped from are let go of."""
    with native.reading(store.guard):
        view = check_result(store, store.read(begin, end), end - begin)
        rows = np.array(view, order="C")
        native.advise(view, native.ADVICE_DROP)
    # Bit patterns of bfloat16 come as uint16, which is no dtype of columns.
    return rows.view(np.int16) if rows.dtype == np.uint16 else rows
