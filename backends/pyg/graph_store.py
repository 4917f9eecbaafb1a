"""PyG's ``GraphStore`` over a :class:`aethergraph.Graph`, or over edge indices that were put in.

Edge ids, which PyG defines as positions in the layout that was asked for:

* Over a graph they are the graph's own: positions in its CSC order (CSR order if that is all it
  stores). ``csc()`` then returns ``perm=None``, ``csr()`` and ``coo()`` what leads back to them.
* Over tensors that were put in they are positions in those tensors, whatever the sampler makes of
  them inside. A sampler's ``e_id`` therefore indexes the edge tensors in the order they were given.

Source followed: ``torch_geometric/data/graph_store.py``.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import GraphStore as _PyGGraphStore
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout

from aethergraph._arrays import check_length
from aethergraph.errors import InvalidArgumentError, OutOfRangeError, UnsupportedError
from aethergraph.graph import Graph
from aethergraph.hetero import HeteroGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph._adjacency import Adjacency

__all__ = ["GraphStore", "SamplingGraph", "SortKey"]

Pair: TypeAlias = tuple[Tensor, Tensor]
Key: TypeAlias = tuple[Any, EdgeLayout]


class SamplingGraph(NamedTuple):
    """What a sampler walks: a graph, and the edge id of each of its positions.

    ``edge_ids`` is an unsigned vector [E] that turns the graph's edge ids into the store's, or
    None if they are the same.
    """

    graph: Graph
    edge_ids: NDArray[Any] | None


class SortKey(NamedTuple):
    """The times by which lists have to be sorted: of nodes, or of edges by the store's ids."""

    name: str
    times: NDArray[Any]  # int64 or float64
    of_nodes: bool

    def check_rows(self, num_nodes: int, num_edges: int) -> None:
        """Check that there is one for each."""
        what, count = ("num_nodes", num_nodes) if self.of_nodes else ("num_edges", num_edges)
        check_length(self.times, count, repr(self.name), what)

    def sorts(self, graph: Graph) -> bool:
        """Whether ``graph`` was built with these very times."""
        own = graph.node_time if self.of_nodes else graph.edge_time
        times = self.times
        if own is None or len(own) != len(times):
            return False
        if not self.of_nodes:
            times = times[graph.edge_order]
        return own.dtype == times.dtype and np.array_equal(own, times)


class _Edges(NamedTuple):
    """An edge index that was put in: PyG's pair of tensors and its description."""

    pair: Pair
    attr: EdgeAttr


class GraphStore(_PyGGraphStore):  # type: ignore[misc]
    """The topology for PyG's loaders and samplers.

    Over a graph, ``GraphStore(graph)``, also one of many types; or empty and filled through PyG's
    calls::

        store = GraphStore()
        store.put_edge_index((row, col), edge_type=None, layout="coo", size=(n, n))

    Edge indices are pairs of int64 or int32 tensors as PyG has them: COO ``(row, col)``, CSR
    ``(rowptr, col)``, CSC ``(row, colptr)``; edges point from row to col. They are kept as they
    are and found again under ``(edge_type, layout)``. ``size`` is worked out where it is missing.
    A :class:`Graph` is built from the first one put under ``edge_type=None`` when a sampler (or
    :attr:`graph`) first needs it. Edge indices of typed graphs can be put and read; to sample
    from a typed graph give a :class:`aethergraph.HeteroGraph`.

    Args:
        graph: the topology, or None for an empty store.

    Raises (on use):
        InvalidArgumentError: not a pair of integer vectors, or of lengths that do not belong
            together; OutOfRangeError: an id outside ``size``, with its position.
        KeyError: an edge index that is not in the store.
        UnsupportedError: a typed graph where a homogeneous one is needed.
    """

    def __init__(self, graph: Graph | HeteroGraph | None = None) -> None:
        super().__init__()
        if graph is not None and not isinstance(graph, (Graph, HeteroGraph)):
            raise InvalidArgumentError(
                f"GraphStore takes an aethergraph.Graph or HeteroGraph, got {type(graph).__name__}"
            )
        self._graph = graph if isinstance(graph, Graph) else None
        #: The graph of many types that was given, or None.
        self.hetero = graph if isinstance(graph, HeteroGraph) else None
        self._edges: dict[Key, _Edges] = {}
        self._built: dict[str | None, Graph] = {}  # by the times they are sorted by
        self._lock = threading.Lock()

    # ---- the graph -------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The homogeneous topology as a Graph; built now if it was put in as tensors.

        A graph built from tensors numbers its edges in CSC order; ``graph.edge_order`` leads back
        to the order of the tensors (None: the same). It carries no attributes: those are in the
        feature store.

        Raises:
            UnsupportedError: the store is empty or holds typed edges only.
        """
        return self.sampling_graph().graph

    def sampling_graph(
        self, *, num_nodes: int = 0, backward: bool = False, sort_by: SortKey | None = None
    ) -> SamplingGraph:
        """The graph to sample from, and what turns its edge ids into this store's.

        Args:
            num_nodes: a lower bound for the number of nodes, for edge indices put without size.
            backward: a graph built from tensors is to store out-neighbours as well.
            sort_by: a graph built from tensors is to hold these times and lists sorted by them.
                One that was given stays as it is.
        """
        if self._graph is not None:
            return SamplingGraph(self._graph, None)
        name = None if sort_by is None else sort_by.name
        with self._lock:
            built = self._built.get(name)
            stale = built is not None and sort_by is not None and not sort_by.sorts(built)
            if built is None or stale or (backward and built.layout == "csc"):
                layout: Literal["csc", "both"] = "both" if backward else "csc"
                built = self._built[name] = self._build(num_nodes, layout, sort_by)
            return SamplingGraph(built, built.edge_order)

    def _build(
        self, num_nodes: int, layout: Literal["csc", "both"], sort_by: SortKey | None
    ) -> Graph:
        first = next((edges for key, edges in self._edges.items() if key[0] is None), None)
        if first is None:
            kinds = {attr.edge_type for attr in self.get_all_edge_attrs()}
            if not kinds:
                raise UnsupportedError("the graph store is empty: put an edge index first")
            types = ", ".join(sorted(map(repr, kinds)))
            raise UnsupportedError(
                f"the store holds typed edges, {types}. To sample from them use "
                "HeteroNeighborSampler over a HeteroGraph; or put a homogeneous edge index under "
                "edge_type=None"
            )
        row, col = _to_coo(first)
        num_nodes = max(num_nodes, *first.attr.size)
        if sort_by is None:
            keep_order = first.attr.layout != EdgeLayout.CSC  # that is the graph's order already
            return Graph.from_edges(num_nodes, row, col, layout=layout, keep_order=keep_order)
        sort_by.check_rows(num_nodes, len(row))
        return Graph.from_edges(
            num_nodes,
            row,
            col,
            edge_time=None if sort_by.of_nodes else sort_by.times,
            node_time=sort_by.times if sort_by.of_nodes else None,
            layout=layout,
            keep_order=True,
        )

    @property
    def holds_graph(self) -> bool:
        """Whether the store is over a graph that was given, so that edge ids are the graph's."""
        return self._graph is not None

    @property
    def num_nodes(self) -> int:
        """Nodes of the homogeneous graph."""
        return self.graph.num_nodes

    @property
    def num_edges(self) -> int:
        """Edges of the homogeneous graph."""
        return self.graph.num_edges

    # ---- PyG's calls -----------------------------------------------------------------------

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        pair = _check_pair(edge_index, edge_attr.layout)
        attr = EdgeAttr(
            edge_attr.edge_type,
            edge_attr.layout,
            edge_attr.is_sorted,
            _find_size(pair, edge_attr),
        )
        with self._lock:
            if attr.edge_type is None:
                self._forget_graph()
            self._edges[attr.edge_type, attr.layout] = _Edges(pair, attr)
        return True

    def _get_edge_index(self, edge_attr: EdgeAttr) -> Pair | None:
        key = (edge_attr.edge_type, edge_attr.layout)
        if key in self._edges:
            return self._edges[key].pair
        edges = self._adjacency(edge_attr.edge_type)
        return None if edges is None else _graph_layout(edges, edge_attr.layout)[:2]

    def _adjacency(self, edge_type: Any) -> Adjacency | None:
        """The edges of a type of the graph that was given."""
        if edge_type is None:
            return self._graph
        kind = tuple(edge_type)
        return self.hetero[kind] if self.hetero is not None and kind in self.hetero else None

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        with self._lock:
            removed = self._edges.pop((edge_attr.edge_type, edge_attr.layout), None) is not None
            if edge_attr.edge_type is None:
                removed = removed or self._graph is not None
                self._forget_graph()
            return removed

    def _forget_graph(self) -> None:
        self._graph = None
        self._built = {}

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """Every edge index in the store, as new objects whose ``size`` is set."""
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

    def _edge_to_layout(self, attr: EdgeAttr, layout: EdgeLayout, store: bool = False) -> Any:
        # A graph knows the edge ids of every layout; PyG would have to sort.
        edges = self._adjacency(attr.edge_type)
        if edges is not None and (attr.edge_type, attr.layout) not in self._edges:
            return _graph_layout(edges, layout)
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


# ---- edge indices that are put in ------------------------------------------------------------


def _check_pair(edge_index: Any, layout: EdgeLayout) -> Pair:
    try:
        first, second = edge_index
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            "an edge index is a pair of vectors (row, col), (rowptr, col) or (row, colptr)"
        ) from None
    names = {
        EdgeLayout.COO: ("row", "col"),
        EdgeLayout.CSR: ("rowptr", "col"),
        EdgeLayout.CSC: ("row", "colptr"),
    }[layout]
    first, second = (_as_vector(v, n) for v, n in zip((first, second), names, strict=True))
    if layout == EdgeLayout.COO:
        if len(first) != len(second):
            raise InvalidArgumentError(
                f"row and col must be of equal length, got {len(first)} and {len(second)}"
            )
    else:
        pointers, ids = (first, second) if layout == EdgeLayout.CSR else (second, first)
        _check_pointers(pointers, len(ids), names[0] if layout == EdgeLayout.CSR else names[1])
    return first, second


def _as_vector(values: Any, name: str) -> Tensor:
    if isinstance(values, np.ndarray):
        values = torch.from_numpy(np.array(values))
    if not isinstance(values, Tensor):
        raise InvalidArgumentError(f"{name} must be a tensor, got {type(values).__name__}")
    if values.ndim != 1:
        raise InvalidArgumentError(f"{name} must be one-dimensional, got {list(values.shape)}")
    if values.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise InvalidArgumentError(f"{name} must hold integer ids, got {values.dtype}")
    if values.device.type != "cpu":
        raise InvalidArgumentError(f"{name} must be on the CPU, it is on {values.device}")
    return values.detach().as_subclass(Tensor)


def _check_pointers(pointers: Tensor, num_edges: int, name: str) -> None:
    if len(pointers) == 0 or int(pointers[0]) != 0 or int(pointers[-1]) != num_edges:
        ends = f"{int(pointers[0])} to {int(pointers[-1])}" if len(pointers) else "empty"
        raise InvalidArgumentError(f"{name} must run from 0 to {num_edges}, it is {ends}")
    falls = pointers[1:] < pointers[:-1]
    if bool(falls.any()):
        at = int(falls.int().argmax()) + 1
        raise InvalidArgumentError(
            f"{name}[{at}] = {int(pointers[at])} is below the one before", position=at
        )


def _find_size(pair: Pair, attr: EdgeAttr) -> tuple[int, int]:
    """(number of sources, number of destinations), given or worked out; ids are checked."""
    counts: list[int | None] = [None, None]
    needs = [0, 0]
    for side, values in enumerate(pair):
        pointers = (attr.layout == EdgeLayout.CSR, attr.layout == EdgeLayout.CSC)[side]
        if pointers:
            counts[side] = len(values) - 1
        elif len(values):
            if int(values.min()) < 0:
                at = int(values.argmin())
                raise OutOfRangeError(
                    f"{('row', 'col')[side]}[{at}] = {int(values[at])} is negative",
                    position=at,
                    value=int(values[at]),
                )
            needs[side] = int(values.max()) + 1
    given = attr.size
    if given is None:
        size = [needs[i] if counts[i] is None else counts[i] for i in range(2)]
        if attr.edge_type is None:
            size = [max(*needs, *(c or 0 for c in counts))] * 2
        return size[0], size[1]  # type: ignore[return-value]
    for side in range(2):
        known = counts[side]
        if known is not None and known != given[side]:
            raise InvalidArgumentError(
                f"size = {tuple(given)}, but the pointers are for {known} nodes"
            )
        if needs[side] > given[side]:
            at = int(pair[side].argmax())
            raise OutOfRangeError(
                f"{('row', 'col')[side]}[{at}] = {needs[side] - 1} is not below size[{side}] = "
                f"{given[side]}",
                position=at,
                value=needs[side] - 1,
            )
    return int(given[0]), int(given[1])


def _to_coo(edges: _Edges) -> tuple[NDArray[Any], NDArray[Any]]:
    first, second = (tensor.numpy() for tensor in edges.pair)
    if edges.attr.layout == EdgeLayout.CSR:
        return np.repeat(np.arange(len(first) - 1), np.diff(first)), second
    if edges.attr.layout == EdgeLayout.CSC:
        return first, np.repeat(np.arange(len(second) - 1), np.diff(second))
    return first, second


# ---- layouts of a graph ----------------------------------------------------------------------


def _graph_layout(graph: Adjacency, layout: EdgeLayout) -> tuple[Tensor, Tensor, Tensor | None]:
    """A graph's topology as PyG's (row, col, perm): int64 tensors in memory of their own.

    ``perm[i]`` is the graph's id of the edge at position i; None where it is i.
    """
    if layout == EdgeLayout.COO:
        src, dst = graph.edge_index()
        return _int64(src), _int64(dst), None
    stored = graph.layout
    if layout == EdgeLayout.CSC:
        if stored != "csr":
            indptr, indices = graph.csc()
            return _int64(indices), _int64(indptr), None
        src, dst = graph.edge_index()
        order = np.argsort(dst, kind="stable")
        return _int64(src[order]), _pointers(dst, graph.num_dst), _int64(order)
    if stored != "csc":
        indptr, indices, edge_ids = graph.csr()
        perm = None if edge_ids is None else _int64(edge_ids)
        return _int64(indptr), _int64(indices), perm
    src, dst = graph.edge_index()
    order = np.argsort(src, kind="stable")
    return _pointers(src, graph.num_src), _int64(dst[order]), _int64(order)


def _int64(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.array(values, np.int64))


def _pointers(ids: NDArray[Any], count: int) -> Tensor:
    pointers = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(ids, minlength=count), out=pointers[1:])
    return torch.from_numpy(pointers)
