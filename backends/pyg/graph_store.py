"""PyG's ``GraphStore`` over a :class:`aethergraph.Graph`, or over edge indices that were put in.

PyG defines edge ids as positions in the layout that was asked for. Here they are

* over a graph, the graph's own: positions in its CSC order (CSR order if it stores CSR alone).
  ``coo()`` and the layout of that order then return ``perm=None``; the other layout returns the
  permutation to these ids;
* over tensors that were put in, positions in those tensors, whatever order the sampler uses
  internally. A sampler's ``e_id`` therefore indexes edge tensors in the order they were given.

Source followed: ``torch_geometric/data/graph_store.py``.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch_geometric.data import GraphStore as _PyGGraphStore
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout

from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.foreign import graph_hint
from aethergraph.graph.schema import EDGE, NODE, as_typed
from aethergraph.protocols import AnyGraph, HeterogeneousGraph, HomogeneousGraph
from aethergraph.pyg._built_graphs import SamplingGraph, SortKey, build_graph
from aethergraph.pyg._edge_index import (
    Edges,
    Pair,
    as_edges,
    graph_layout,
    to_coo,
    to_int64,
)
from aethergraph.pyg._stock_sampler import StockSampler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aethergraph.graph.hetero import EdgeType
    from aethergraph.protocols import Adjacency

__all__ = ["GraphStore"]

Key: TypeAlias = tuple[Any, EdgeLayout]


def _holds(
    built: AnyGraph, num_nodes: Mapping[str, int], backward: bool, sort_by: SortKey | None
) -> bool:
    """Return whether a graph that was built has so many nodes, these lists and these times."""
    typed = as_typed(built)
    counts = typed.num_nodes
    return (
        all(counts.get(name, -1) >= count for name, count in num_nodes.items())
        and not (backward and any(typed[kind].layout == "csc" for kind in typed.edge_types))
        and (sort_by is None or sort_by.sorts(built))
    )


class GraphStore(_PyGGraphStore):  # type: ignore[misc]
    """Topology for PyG's loaders and samplers.

    ``GraphStore(graph)`` is over a graph, also a typed one. ``GraphStore()`` is empty and filled
    through PyG's calls::

        store = GraphStore()
        store.put_edge_index((row, col), edge_type=None, layout="coo", size=(n, n))

    Edge indices are pairs of int64 or int32 tensors as in PyG: COO ``(row, col)``, CSR
    ``(rowptr, col)``, CSC ``(row, colptr)``; edges point from row to col. They are kept unchanged
    under ``(edge_type, layout)``. A missing ``size`` is computed. When a sampler (or :attr:`graph`)
    first needs it, a :class:`Graph` is built from the first edge index put under
    ``edge_type=None``. When a typed sampler does, a :class:`aethergraph.HeteroGraph` is built from
    the first edge index of each other edge type.

    Args:
        graph: the topology, or None for an empty store.

    Raises (on use):
        InvalidArgumentError: not a pair of integer vectors, or of lengths that do not belong
            together.
        OutOfRangeError: an id outside ``size``, with its position.
        KeyError: an edge index that is not in the store.
        UnsupportedError: a typed graph where a homogeneous one is needed, or the other way round.
    """

    def __init__(self, graph: AnyGraph | None = None) -> None:
        super().__init__()
        if graph is not None and not isinstance(graph, AnyGraph):
            raise InvalidArgumentError(
                f"GraphStore takes an aethergraph.Graph or HeteroGraph, got {type(graph).__name__}"
                + (": open the file, Graph.load(path)" if isinstance(graph, (str, Path)) else "")
                + graph_hint(graph)
            )
        self._graph = graph if isinstance(graph, HomogeneousGraph) else None
        #: Typed graph that was given, or None.
        self.hetero = graph if isinstance(graph, HeterogeneousGraph) else None
        self._edges: dict[Key, Edges] = {}
        #: By whether they are typed, and the name of the sorting times.
        self._built: dict[tuple[bool, str | None], AnyGraph] = {}
        #: Lower bounds of the nodes by type, for nodes that no edge index has.
        self.node_counts: dict[str, int] = {}
        self._lock = threading.Lock()

    # ---- the graph -------------------------------------------------------------------------

    @property
    def graph(self) -> HomogeneousGraph:
        """Homogeneous graph that was given, or one built on first use of tensors that were put in.

        A graph built from tensors numbers its edges in CSC order; ``graph.edge_order`` maps them
        back to the order of the tensors (None: equal). It has no attributes: those are in the
        feature store.

        Raises:
            UnsupportedError: the store is empty or holds typed edges only.
        """
        graph = self.sampling_graph().graph
        assert not graph.is_typed
        return graph

    def sampling_graph(
        self,
        typed: bool = False,
        *,
        num_nodes: Mapping[str, int] | None = None,
        backward: bool = False,
        sort_by: SortKey | None = None,
    ) -> SamplingGraph:
        """Return the graph to sample from, and the map of its edge ids to this store's.

        Args:
            typed: True for the typed edges of the store, False for those of no type.
            num_nodes: lower bounds of the nodes by type, also for types without edges; of a graph
                of one type, of its nodes.
            backward: a graph built from tensors must store out-edges as well.
            sort_by: times that a graph built from tensors must hold, with lists sorted by them. A
                given graph stays unchanged.

        Raises:
            UnsupportedError: the store holds no such edges, or typed ones beside a given graph.
            InvalidArgumentError: not one time for each node or edge.
        """
        graph = self.hetero if typed else self._graph
        edges = self._typed_edges() if typed else self._plain_edges()
        if graph is not None:
            if typed and edges:
                kinds = ", ".join(map(repr, edges))
                raise UnsupportedError(
                    f"the store holds edges of {kinds} beside a HeteroGraph: put all of them into "
                    "one graph to sample from them"
                )
            return SamplingGraph(graph, {})
        if not edges and not (typed and self.node_counts):
            raise self._missing(typed)
        if typed:
            counts = self.num_typed_nodes(num_nodes)
        else:
            counts = {NODE: max(*(num_nodes or {}).values(), *edges[EDGE].attr.size)}
        key = typed, None if sort_by is None else sort_by.name
        with self._lock:
            built = self._built.get(key)
            if built is None or not _holds(built, counts, backward, sort_by):
                ends = {kind: to_coo(of_kind) for kind, of_kind in edges.items()}
                is_ordered = not typed and edges[EDGE].attr.layout == EdgeLayout.CSC
                built = self._built[key] = build_graph(
                    ends, counts, sort_by, "both" if backward else "csc",
                    keep_order=sort_by is not None or not is_ordered,
                )  # fmt: skip
        by_type = as_typed(built)
        orders = {kind: by_type[kind].edge_order for kind in by_type.edge_types}
        return SamplingGraph(
            built, {kind: order for kind, order in orders.items() if order is not None}
        )

    def _missing(self, typed: bool) -> UnsupportedError:
        """Return the error for edges that the store does not hold."""
        if not typed:
            kinds = {attr.edge_type for attr in self.get_all_edge_attrs()}
            if not kinds:
                return UnsupportedError("the graph store is empty: put an edge index first")
            types = ", ".join(sorted(map(repr, kinds)))
            return UnsupportedError(
                f"the store holds typed edges, {types}, and a graph of one type is asked for: "
                "samplers take the store as it is; or put an edge index under edge_type=None"
            )
        return UnsupportedError(
            "the graph store holds a homogeneous graph: use NeighborSampler"
            if self._graph is not None or self._edges
            else "the graph store is empty: make it over a HeteroGraph, or put edge indices"
        )

    def num_typed_nodes(self, at_least: Mapping[str, int] | None = None) -> dict[str, int]:
        """Count nodes by type: the largest of index sizes, :attr:`node_counts` and ``at_least``."""
        if self.hetero is not None:
            return self.hetero.num_nodes
        counts = dict(self.node_counts)
        known = list((at_least or {}).items())
        for kind, edges in self._typed_edges().items():
            known += [(kind[0], edges.attr.size[0]), (kind[2], edges.attr.size[1])]
        for name, count in known:
            counts[name] = max(counts.get(name, 0), count)
        return counts

    def _plain_edges(self) -> dict[EdgeType, Edges]:
        """Return the first edge index that was put in under no type."""
        first_edges = next(
            (edges for (kind, _), edges in self._edges.items() if kind is None), None
        )
        return {} if first_edges is None else {EDGE: first_edges}

    def _typed_edges(self) -> dict[EdgeType, Edges]:
        """Return the first edge index that was put in of each type."""
        edges_by_kind: dict[EdgeType, Edges] = {}
        for (kind, _), edges in self._edges.items():
            if kind is not None:
                edges_by_kind.setdefault(tuple(kind), edges)
        return edges_by_kind

    @property
    def edge_types(self) -> list[EdgeType]:
        """Types of typed edges, in order."""
        if self.hetero is not None:
            return self.hetero.edge_types
        return list(self._typed_edges())

    def edge_index(self, edge_type: Any = None) -> Pair:
        """Return ``(row, col)`` of the edges of a type, by edge id: int64, or the dtype put in.

        Args:
            edge_type: the type, or None for homogeneous edges.

        Raises:
            KeyError: there are no such edges.
        """
        for (kind, _), edges in self._edges.items():
            if kind == edge_type:
                if edges.attr.layout == EdgeLayout.COO:
                    return edges.pair
                row, col = to_coo(edges)
                return to_int64(row), to_int64(col)
        view = self._adjacency(edge_type)
        if view is None:
            raise KeyError(f"no edges of type {edge_type!r}")
        src, dst = view.edge_index()
        return torch.from_numpy(src), torch.from_numpy(dst)

    def edge_list(self, edge_type: Any = None) -> tuple[Any, Any, Any]:
        """Return :meth:`edge_index`, and the ids of these edges if ids have gaps, else None."""
        try:
            return *self.edge_index(edge_type), None
        except UnsupportedError:  # edges of a live graph were deleted
            view: Any = self._adjacency(edge_type)
            src, dst, ids = map(torch.from_numpy, view.edge_list())
            return src, dst, ids

    @property
    def holds_graph(self) -> bool:
        """True if the store is over a given homogeneous graph, so that edge ids are the graph's."""
        return self._graph is not None

    @property
    def is_mixed(self) -> bool:
        """True if there are edges of types and edges of no type."""
        has_plain = self._graph is not None or bool(self._plain_edges())
        return has_plain and bool(self.edge_types)

    @property
    def native_snapshot(self) -> Any:
        """Snapshot of a live graph that the lists of the given graph are of; else None."""
        graph = self.hetero if self._graph is None else self._graph
        return None if graph is None or graph.is_live else graph.native_snapshot

    @property
    def live_graph(self) -> AnyGraph | None:
        """Graph that was given, if it changes; else None."""
        graph = self.hetero if self._graph is None else self._graph
        return graph if graph is not None and graph.is_live else None

    @property
    def time_unit(self) -> str | None:
        """Unit of the times of the graph that was given; None without one."""
        graph = self.hetero if self._graph is None else self._graph
        return None if graph is None else graph.time_unit

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the homogeneous graph."""
        return self.graph.num_nodes

    @property
    def num_edges(self) -> int:
        """Number of edges of the homogeneous graph."""
        return self.graph.num_edges

    # ---- PyG's calls -----------------------------------------------------------------------

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        edges = as_edges(edge_index, edge_attr)
        attr = edges.attr
        with self._lock:
            if attr.edge_type is None:
                self._graph = None
            self._built = {}
            self._edges[attr.edge_type, attr.layout] = edges
        return True

    def _get_edge_index(self, edge_attr: EdgeAttr) -> Pair | None:
        key = (edge_attr.edge_type, edge_attr.layout)
        if key in self._edges:
            return self._edges[key].pair
        edges = self._adjacency(edge_attr.edge_type)
        return None if edges is None else graph_layout(edges, edge_attr.layout)[:2]

    def _adjacency(self, edge_type: Any) -> Adjacency | None:
        """Return the edges of a type of the graph that was given; None if it has none."""
        if edge_type is None:
            return self._graph
        kind = tuple(edge_type)
        return self.hetero[kind] if self.hetero is not None and kind in self.hetero else None

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        with self._lock:
            removed = self._edges.pop((edge_attr.edge_type, edge_attr.layout), None) is not None
            self._built = {}
            if edge_attr.edge_type is None:
                removed = removed or self._graph is not None
                self._graph = None
            return removed

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """List every edge index in the store, as new objects whose ``size`` is set."""
        attrs = []
        if self._graph is not None:
            layout = EdgeLayout.CSR if self._graph.layout == "csr" else EdgeLayout.CSC
            size = (self._graph.num_nodes, self._graph.num_nodes)
            attrs.append(EdgeAttr(None, layout, layout == EdgeLayout.CSC, size))
        for kind in self.hetero.edge_types if self.hetero is not None else ():
            if (kind, EdgeLayout.CSC) not in self._edges:
                size = self.hetero[kind].num_src, self.hetero[kind].num_dst  # type: ignore[index]
                attrs.append(EdgeAttr(kind, EdgeLayout.CSC, True, size))
        for edges in self._edges.values():
            attr = edges.attr
            attrs.append(EdgeAttr(attr.edge_type, attr.layout, attr.is_sorted, attr.size))
        return attrs

    def csc(self, edge_types: Any = None, store: bool = False) -> Any:
        """Return all edges in PyG's CSC form; warn once if PyG's own sampler asks for them.

        Raises:
            UnsupportedError: it samples in time, and lists are not in the order of these times.
        """
        sampler, lists = StockSampler.asking(), super().csc(edge_types, store)
        if sampler is not None:
            sampler.check(lists, self._node_attrs)
        return lists

    def csr(self, edge_types: Any = None, store: bool = False) -> Any:
        """Return all edges in PyG's CSR form; see :meth:`csc`."""
        StockSampler.asking()  # which do not sample in time along out-edges
        return super().csr(edge_types, store)

    @property
    def _node_attrs(self) -> set[str]:
        """Names of what nodes of a graph without types have."""
        if self._graph is None:
            return set()
        return {*self._graph.node_attrs, *self._graph.node_values}

    def _edge_to_layout(self, attr: EdgeAttr, layout: EdgeLayout, store: bool = False) -> Any:
        # The graph has the edge ids of every layout; PyG would have to sort.
        edges = self._adjacency(attr.edge_type)
        if edges is not None and (attr.edge_type, attr.layout) not in self._edges:
            return graph_layout(edges, layout)
        return super()._edge_to_layout(attr, layout, store)

    # ---- the rest --------------------------------------------------------------------------

    def __repr__(self) -> str:
        if self._graph is not None and not self._edges:
            return f"{type(self).__name__}({self._graph!r})"
        parts = ", ".join(
            f"{attr.edge_type!r}: {attr.layout.value} {list(attr.size)}"
            for attr in self.get_all_edge_attrs()
        )
        return f"{type(self).__name__}({parts})"

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
