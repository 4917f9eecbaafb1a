"""Queries that every kind of graph answers about its edges: neighbours, degrees, arrays."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, as_node, empty, stretches
from aethergraph._checks.attributes import read_property
from aethergraph._checks.options import as_choice
from aethergraph.errors import (
    CorruptFileError,
    InvalidArgumentError,
    LayoutError,
    OutOfRangeError,
    UnsupportedError,
)
from aethergraph.graph.attributes import AttributeTable
from aethergraph.graph.ids import check_ids, name_id
from aethergraph.graph.lists import Lists
from aethergraph.graph.parts import EdgeParts
from aethergraph.protocols import Adjacency, Layout

__all__ = ["EdgeQueries", "Layout", "NoStrayAttributes"]

Ids = NDArray[np.int64]


_FOR_DGL = "DGL's loaders and samplers take aethergraph.dgl.GraphStorage(graph)"
_FOR_GRAPHBOLT = "GraphBolt's samplers take aethergraph.dgl.graphbolt.SamplingGraph(graph)"

#: The wrapper to name, by attributes that DGL reads first of a graph that was not wrapped.
_WRAPPERS = {
    "device": _FOR_DGL,
    "idtype": _FOR_DGL,
    "ndata": _FOR_DGL,
    "edata": _FOR_DGL,
    "sample_neighbors": f"{_FOR_GRAPHBOLT}, and {_FOR_DGL}",
    "sample_layer_neighbors": _FOR_GRAPHBOLT,
    "temporal_sample_neighbors": _FOR_GRAPHBOLT,
    "temporal_sample_layer_neighbors": _FOR_GRAPHBOLT,
    "in_subgraph": _FOR_GRAPHBOLT,
    "sample_negative_edges_uniform": _FOR_GRAPHBOLT,
}


class NoStrayAttributes:
    """Base of graphs that refuses ``graph.y = labels``, which looks like PyG and would be lost.

    ``_ATTACH`` of a class names the place for values. Subclasses that users write may have any
    attributes. Reading an attribute of DGL's graphs raises an error that names the wrapper.
    """

    if not TYPE_CHECKING:  # a type checker would take every name to exist

        def __getattr__(self, name: str) -> Any:
            read_property(self, name)
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in _WRAPPERS:
                message += f": {_WRAPPERS[name]}"
            raise AttributeError(message, name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not hasattr(type(self), name):
            hint = type(self).__dict__.get("_ATTACH")
            if hint is not None:
                raise AttributeError(
                    f"{type(self).__name__} has no attribute {name!r}: attach values with "
                    f"{hint.format(name)}"
                )
        super().__setattr__(name, value)


class EdgeQueries(NoStrayAttributes, Adjacency):
    """Edges in lists, which answer the queries: of a graph, or of one type of many."""

    @abstractmethod
    def _edges(self) -> EdgeParts:
        """Return the edges; raise ClosedError if the graph was closed."""

    @abstractmethod
    def _label(self) -> str:
        """Return the name of this edge set, for error messages."""

    @abstractmethod
    def _guard(self) -> native.FileGuard | None:
        """Return the guard of the file that arrays are mapped from; None for arrays in memory."""

    @property
    def num_src(self) -> int:
        """Number of nodes that edges may start at."""
        return self._edges().num_src

    @property
    def num_dst(self) -> int:
        """Number of nodes that edges may end at."""
        return self._edges().num_dst

    @property
    def layout(self) -> Layout:
        """Stored adjacency: ``"csc"``, ``"csr"`` or ``"both"``."""
        return self._edges().layout

    # The edges are asked for once in each query: of a live graph that is a snapshot.

    @staticmethod
    def _in_lists(edges: EdgeParts) -> Lists:
        lists = edges.csc
        if lists is None:
            raise LayoutError(
                "in-neighbours are not stored: this graph has layout='csr'; "
                + (edges.other_lists or "build it with layout='csc' or layout='both'")
            )
        return lists

    @staticmethod
    def _out_lists(edges: EdgeParts) -> Lists:
        lists = edges.csr
        if lists is None:
            raise LayoutError(
                "out-neighbours are not stored: this graph has layout='csc'; "
                + (edges.other_lists or "build it with layout='csr' or layout='both'")
            )
        return lists

    def _lists_of(self, layout: str) -> Lists:
        chosen = as_choice(layout, ("csc", "csr"), "layout")
        edges = self._edges()
        return self._in_lists(edges) if chosen == "csc" else self._out_lists(edges)

    def in_degrees(self, nodes: ArrayLike | None = None) -> Ids:
        """Return the number of in-edges of each of ``nodes`` (None: of every node), int64.

        Raises:
            LayoutError: layout is "csr".
            OutOfRangeError: a node does not exist.
        """
        edges = self._edges()
        return _degrees(self._in_lists(edges), nodes, edges.num_dst)

    def out_degrees(self, nodes: ArrayLike | None = None) -> Ids:
        """Return the number of out-edges of each of ``nodes`` (None: of every node), int64.

        Raises:
            LayoutError: layout is "csc".
            OutOfRangeError: a node does not exist.
        """
        edges = self._edges()
        return _degrees(self._out_lists(edges), nodes, edges.num_src)

    def degree(self, node: int) -> int:
        """Return the number of edges that start at ``node`` (layout "csc": that end there).

        Raises:
            OutOfRangeError: the node does not exist.
        """
        edges = self._edges()
        if edges.csr is None:
            return self._in_lists(edges).length(as_node(node, edges.num_dst, "node"))
        return edges.csr.length(as_node(node, edges.num_src, "node"))

    def in_neighbors(self, node: int) -> Ids:
        """Return the sources of the edges that end at ``node``, int64, in edge-id order.

        Raises:
            LayoutError: layout is "csr".
            OutOfRangeError: the node does not exist.
        """
        edges = self._edges()
        return self._in_lists(edges).neighbors(as_node(node, edges.num_dst, "node"))

    def neighbors(self, node: int) -> Ids:
        """Return the destinations of the edges that start at ``node``, int64, in input order.

        Raises:
            LayoutError: layout is "csc".
            OutOfRangeError: the node does not exist.
        """
        edges = self._edges()
        return self._out_lists(edges).neighbors(as_node(node, edges.num_src, "node"))

    def in_edges(self, node: int) -> Ids:
        """Return the ids of the edges that end at ``node``, parallel to :meth:`in_neighbors`."""
        edges = self._edges()
        return self._in_lists(edges).edges(as_node(node, edges.num_dst, "node"))

    def out_edges(self, node: int) -> Ids:
        """Return the ids of the edges that start at ``node``, parallel to :meth:`neighbors`."""
        parts = self._edges()
        lists = self._out_lists(parts)
        edges = lists.edges(as_node(node, parts.num_src, "node"))
        end = lists.topology.end_edge_ids
        if edges.size and not 0 <= int(edges.min()) <= int(edges.max()) < end:
            raise CorruptFileError(f"{self._label()}: an edge id is out of range; run verify")
        return edges

    def has_edge(self, u: int, v: int) -> bool:
        """Return whether there is an edge from ``u`` to ``v``; works with every layout.

        Costs one pass over the shorter one of the stored lists of ``u`` and ``v``.
        """
        parts = self._edges()
        source = as_node(u, parts.num_src, "u")
        target = as_node(v, parts.num_dst, "v")
        into, out = parts.csc, parts.csr
        if into is None or (out is not None and out.length(source) < into.length(target)):
            assert out is not None
            return out.holds(source, target)
        return into.holds(target, source)

    def has_edges(self, u: ArrayLike, v: ArrayLike) -> NDArray[np.bool_]:
        """Return whether there is an edge from ``u[i]`` to ``v[i]``, bool [n]; any layout.

        Costs one pass over the list of every node in ``v`` (with layout "csr": in ``u``).

        Raises:
            OutOfRangeError: a node does not exist; names the argument and the position.
        """
        source, target = self._ends(u, v)
        is_edge = np.zeros(len(source), bool)
        is_edge[self._find(source, target)[0]] = True
        return is_edge

    def edges_between(self, u: ArrayLike, v: ArrayLike) -> tuple[Ids, Ids]:
        """Return ``(i, edge id)`` of every edge from ``u[i]`` to ``v[i]``, int64 [m] each, by i.

        A pair occurs once for each duplicate of its edge, and not at all without an edge. Cost and
        errors are those of :meth:`has_edges`.
        """
        return self._find(*self._ends(u, v))

    def _ends(self, u: ArrayLike, v: ArrayLike) -> tuple[Ids, Ids]:
        source, target = as_ids(u, "u"), as_ids(v, "v")
        if len(source) != len(target):
            raise InvalidArgumentError(f"u has {len(source)} ids, but v has {len(target)}")
        parts = self._edges()
        for name, ids, count in (("u", source, parts.num_src), ("v", target, parts.num_dst)):
            check_ids(ids, count, name)
        return source, target

    def _find(self, source: Ids, target: Ids) -> tuple[Ids, Ids]:
        parts = self._edges()
        lists = parts.any_lists
        ends = (target, source) if lists is parts.csc else (source, target)
        # The work is not known in advance: lists of many pairs may take long to read.
        pairs, positions = native.run_long(
            lambda task: lists.topology.find(*ends, task), None, 1024 * len(source)
        )
        return pairs, lists.topology.edge_ids_at(positions)

    def csc(self) -> tuple[NDArray[np.uint64], NDArray[Any]]:
        """Return ``(indptr, indices)`` of the in-neighbours, read-only.

        ``indptr`` is uint64 [num_dst + 1], ``indices`` uint32 or uint64 [num_edges].

        ``indices[indptr[v]:indptr[v + 1]]`` are the in-neighbours of ``v``; positions are edge
        ids. The views keep the memory alive after :meth:`close`. Compressed ids are decoded into
        a new array.

        Raises:
            UnsupportedError: a graph of another library numbers its edges in another way.
        """
        lists = self._in_lists(self._edges())
        if not lists.edge_ids_are_places:
            raise UnsupportedError(
                f"{self._label()}: edge ids are not places in the lists, as csc() says: take "
                "edge_index(), which is by edge id, or in_neighbors(node) and in_edges(node)"
            )
        return lists.indptr, lists.indices

    def csr(self) -> tuple[NDArray[np.uint64], NDArray[Any], NDArray[Any] | None]:
        """Return ``(indptr, indices, edge_ids)`` of the out-neighbours, read-only; see :meth:`csc`.

        ``edge_ids`` is None if positions are edge ids (layout "csr").
        """
        lists = self._out_lists(self._edges())
        return lists.indptr, lists.indices, lists.edge_ids

    def neighbor_ids(self, layout: Literal["csc", "csr"]) -> NDArray[Any]:
        """Return the neighbours in all lists, list after list; see :meth:`csc`."""
        return self._lists_of(layout).indices

    def edge_index(self) -> tuple[Ids, Ids]:
        """Return ``(src, dst)`` by edge id, int64 [num_edges] each.

        Raises:
            UnsupportedError: edge ids are not ``0 .. num_edges - 1``, since edges were deleted.
        """
        parts = self._edges()
        lists, count = parts.any_lists, parts.num_edges
        if lists.topology.end_edge_ids != count:
            raise UnsupportedError(
                f"{self._label()}: edge ids go up to {lists.topology.end_edge_ids - 1}, but there "
                f"are {count} edges: take edge_list(), which has the id of each"
            )
        _, major, minor = lists.edges_by_id(self._label())
        return (minor, major) if parts.csc is not None else (major, minor)

    def edge_list(self) -> tuple[Ids, Ids, Ids]:
        """Return ``(src, dst, edge id)`` of all edges by edge id, int64 [num_edges] each."""
        parts = self._edges()
        lists = parts.any_lists
        ids, major, minor = lists.edges_by_id(self._label())
        return (minor, major, ids) if lists is parts.csc else (major, minor, ids)

    def edge_ends(self, edges: ArrayLike) -> tuple[Ids, Ids]:
        """Return ``(src, dst)`` of the edges with ids ``edges``, int64 [len(edges)] each.

        Where edge ids are not places in the lists, a table of 24 bytes per edge is made in the
        first call, and kept.

        Raises:
            OutOfRangeError: an edge does not exist; names its position.
        """
        ids = as_ids(edges, "edges")
        parts = self._edges()
        lists = parts.any_lists
        check_ids(ids, lists.topology.end_edge_ids, "edges", "edges")
        if lists.edge_ids_are_places:
            minor = lists.topology.ids_at(ids)
            major = empty(len(ids), np.int64, f"{len(ids)} nodes")
            for some in stretches(len(ids)):
                places = ids[some].astype(np.uint64)
                major[some] = np.searchsorted(lists.indptr, places, side="right")
            major -= 1
        else:
            major, minor = lists.ends_of(ids, self._label())
        return (minor, major) if lists is parts.csc else (major, minor)

    def edge_positions(self, edges: Ids, layout: Literal["csc", "csr"]) -> Ids:
        """Return the positions of edges in the lists of a layout, ascending.

        ``edges`` are ascending and distinct. These are the positions that samples leave out.
        """
        topology = self.topology(layout)
        if topology.edge_ids_are_positions:
            return edges
        parts = self._edges()
        check_ids(edges, topology.end_edge_ids, "edges", "edges")
        return self._lists_of(layout).positions_of(edges, parts.any_lists, self._label())

    @property
    def compressed(self) -> bool:
        """True if the neighbours are stored in compressed blocks."""
        return self._edges().any_lists.compressed

    def topology(self, layout: Literal["csc", "csr"] = "csc") -> native.NativeTopology:
        """Return the native handle that samplers use; the handle keeps its memory alive."""
        return self._lists_of(layout).topology

    def alias_table(self, layout: Literal["csc", "csr"] = "csr") -> NDArray[np.uint64]:
        """Return the alias table of weighted walks: 8 bytes per edge, built once per graph.

        Raises:
            InvalidArgumentError: the graph has no edge weights.
        """
        lists = self._numbered_lists(layout)
        return lists.alias(self._own_weights(), self._guard())

    def _numbered_lists(self, layout: str) -> Lists:
        """Return lists whose positions count the edges, as tables by position need."""
        lists = self._lists_of(layout)
        if not lists.topology.is_dense:
            raise UnsupportedError(
                f"{self._label()} has no table by position in its lists, as positions there are "
                "not 0 .. num_edges - 1: of a live graph take snapshot().to_graph()"
            )
        return lists

    def _own_weights(self) -> NDArray[Any]:
        weights = self._edges().edge_weight
        if weights is None:
            raise InvalidArgumentError(
                f"{self._label()} has no edge weights; build it with edge_weight="
            )
        return weights

    def weight_sums(self, layout: Literal["csc", "csr"] = "csc") -> native.NativeSums:
        """Return prefix sums of weights for draws from long lists, built once per graph.

        They take 0.25 byte per edge.

        Raises:
            InvalidArgumentError: the graph has no edge weights, or one that is negative or not
                finite (``position`` is the edge).
        """
        lists = self._numbered_lists(layout)
        return lists.sums(self._own_weights(), self._guard())

    def member_table(self, layout: Literal["csc", "csr"] = "csr") -> NDArray[Any]:
        """Return the table in which node2vec walks look up edges: one id per edge, built once."""
        return self._numbered_lists(layout).members()

    # ---- values by edge and node ---------------------------------------------------------

    @property
    def edge_order(self) -> NDArray[Any] | None:
        """Input row of each edge id (uint32 or uint64, read-only); None if it was not kept.

        ``torch.from_numpy(order.astype("int64"))`` makes it an index of tensors.
        """
        return self._edges().edge_order

    @property
    def edge_weight(self) -> NDArray[Any] | None:
        """Weight by edge id (float32 or float64, read-only).

        None: the edges have none, or the weights are no array in this process, as those of live
        graphs and of a server's: :attr:`edge_values` has their rows.
        """
        return self._edges().edge_weight

    @property
    def edge_time(self) -> NDArray[Any] | None:
        """Time by edge id (int64 or float64, read-only); None as for :attr:`edge_weight`."""
        return self._edges().edge_time

    @property
    def edge_attrs(self) -> AttributeTable:
        """Edge attributes by name, one row per edge in edge-id order."""
        return self._edges().edge_attrs

    @property
    def sorted_by(self) -> set[tuple[str, str]]:
        """Lists that are known to be sorted by time, and by which: ``("csc", "edge_time")``."""
        return self._edges().sorted_by


def _degrees(lists: Lists, nodes: ArrayLike | None, count: int) -> Ids:
    if nodes is None:
        return lists.degrees()
    ids = as_ids(nodes, "nodes")
    try:
        return lists.topology.degrees(ids)
    except OutOfRangeError as error:
        raise name_id(error, "nodes", count) from None
