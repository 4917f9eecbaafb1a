"""Forms of ``data`` that a typed sampler takes: its graph, and the values to draw by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from torch_geometric.data import FeatureStore as _PyGFeatureStore
from torch_geometric.data import GraphStore as _PyGGraphStore
from torch_geometric.data import HeteroData

from aethergraph._checks.arrays import check_length
from aethergraph._checks.options import as_text
from aethergraph._torch.tensors import edge_tensors
from aethergraph.errors import UnsupportedError
from aethergraph.features import store as core
from aethergraph.graph import HeteroGraph
from aethergraph.protocols import RowSource
from aethergraph.pyg._typed_graphs import TypedSortKey
from aethergraph.pyg._values import find_typed_times, find_typed_weights
from aethergraph.pyg.convert import from_data
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.pyg.stores import read_pair

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from aethergraph._native import NativeSample
    from aethergraph.graph import EdgeType

__all__ = ["TypedSource", "typed_source"]

Stores = Sequence[_PyGFeatureStore]
Rows = dict[str, RowSource]
ByKind: TypeAlias = "dict[EdgeType, Tensor]"


class TypedSource(NamedTuple):
    """Typed graph with the values to draw by, and the map of its edge ids to the data's."""

    graph: HeteroGraph
    edge_ids: Mapping[EdgeType, NDArray[Any]]
    #: True if its lists were sorted here by the times to draw by.
    is_sorted: bool

    def edge_tensors(self, sample: NativeSample) -> tuple[ByKind, ByKind, ByKind]:
        """Return ``row``, ``col`` and the data's edge ids of a sample, by edge type.

        They share the memory of ``sample``, whose edge ids become the data's.
        """
        kinds = self.graph.edge_types
        for kind, edge in zip(kinds, sample.edge, strict=True) if self.edge_ids else ():
            order = self.edge_ids.get(kind)
            if order is not None:
                edge[:] = order[edge]
        row, col, edges = edge_tensors(sample)
        return (
            dict(zip(kinds, row, strict=True)),
            dict(zip(kinds, col, strict=True)),
            dict(zip(kinds, edges, strict=True)),
        )


def typed_source(
    data: Any, weight_attr: str | None, time_attr: str | None, *, backward: bool = False
) -> TypedSource:
    """Find the graph to sample from in any ``data`` that a typed sampler takes.

    Weights and times are looked for in the feature store by node type and edge type, then in the
    graph itself. A graph that is built here stores out-edges too if it is to be walked
    ``backward``.

    Raises:
        UnsupportedError: any other data.
        InvalidArgumentError: invalid weights or times.
    """
    as_text(weight_attr, "weight_attr")
    as_text(time_attr, "time_attr")
    stores, graph_store = _parts(data)
    if graph_store.hetero is not None:
        graph = graph_store.typed_sampling_graph().graph
        if graph.keeps_values:
            return TypedSource(graph, {}, False)
        nodes, edges = _values(stores, graph.node_types, graph.edge_types, weight_attr, time_attr)
        for name, rows in nodes.items():
            _forget_own(rows, {**graph[name].value_stores(), **graph[name].attrs})
        for kind, rows in edges.items():
            _forget_own(rows, {**graph[kind].value_stores(), **graph[kind].attrs})
        if any(nodes.values()) or any(edges.values()):
            graph = graph.with_attrs(nodes, edges)
        return TypedSource(graph, {}, False)
    return _built(stores, graph_store, weight_attr, time_attr, backward)


def _built(
    stores: Stores,
    graph_store: GraphStore,
    weight_attr: str | None,
    time_attr: str | None,
    backward: bool,
) -> TypedSource:
    """Build a graph of the edge indices that were put in, its lists sorted by the times."""
    at_least = _count_rows(stores)
    kinds = graph_store.edge_types
    names = list(graph_store.num_typed_nodes(at_least))
    nodes, edges = _values(stores, names, kinds, None, time_attr)
    sort_by = None
    if time_attr is not None:
        sort_by = TypedSortKey(
            time_attr,
            {name: rows[time_attr].array for name, rows in nodes.items()},
            {kind: rows[time_attr].array for kind, rows in edges.items()},
        )
    graph, orders = graph_store.typed_sampling_graph(
        num_nodes=at_least, backward=backward, sort_by=sort_by
    )
    own_nodes: dict[str, Any] = {name: {time_attr: graph[name].node_time} for name in nodes}
    own_edges: dict[EdgeType, Any] = {kind: {time_attr: graph[kind].edge_time} for kind in edges}
    if weight_attr is not None:
        for kind, found in find_typed_weights(stores, kinds, weight_attr).items():
            label = f"{kind}: weight_attr = {weight_attr!r}"
            check_length(found.array, graph[kind].num_edges, label, "num_edges")
            order = orders.get(kind)
            weights = found.array if order is None else found.array[order]
            own_edges.setdefault(kind, {})[weight_attr] = weights
    return TypedSource(graph.with_attrs(own_nodes, own_edges), orders, sort_by is not None)


def _values(
    stores: Stores,
    names: Iterable[str],
    kinds: Iterable[EdgeType],
    weight_attr: str | None,
    time_attr: str | None,
) -> tuple[dict[str, Rows], dict[EdgeType, Rows]]:
    """Return the weights and times that the feature stores hold, by edge type and node type."""
    nodes: dict[str, Rows] = {}
    edges: dict[EdgeType, Rows] = {}
    if weight_attr is not None:
        for kind, found in find_typed_weights(stores, kinds, weight_attr).items():
            edges[kind] = {weight_attr: core.FeatureStore.from_mapped(found.array, found.guard)}
    if time_attr is not None:
        of_nodes, of_edges = find_typed_times(stores, names, kinds, time_attr)
        for name, times in of_nodes.items():
            nodes[name] = {time_attr: core.FeatureStore.from_mapped(times.array, times.guard)}
        for kind, times in of_edges.items():
            rows = core.FeatureStore.from_mapped(times.array, times.guard)
            edges.setdefault(kind, {})[time_attr] = rows
    return nodes, edges


def _forget_own(rows: Rows, own: Mapping[str, RowSource]) -> None:
    """Drop values that the graph itself holds: it knows, for example, whether lists are sorted."""
    for name in list(rows):
        if name in own and rows[name].array.ctypes.data == own[name].array.ctypes.data:
            del rows[name]


def _count_rows(stores: Stores) -> dict[str, int]:
    """Count rows by node type: feature tensors may have nodes that no edge has."""
    counts: dict[str, int] = {}
    for store in stores:
        for attr in store.get_all_tensor_attrs():
            size = store.get_tensor_size(attr) if isinstance(attr.group_name, str) else None
            if size:
                counts[attr.group_name] = max(counts.get(attr.group_name, 0), size[0])
    return counts


def _parts(data: Any) -> tuple[Stores, GraphStore]:
    if isinstance(data, HeteroGraph):
        return (), GraphStore(data)
    if isinstance(data, HeteroData):
        features, store = from_data(data)
        return (features,), store
    if isinstance(data, _PyGGraphStore):
        return (), data if isinstance(data, GraphStore) else _copy_store(data)
    if isinstance(data, (tuple, list)) and len(data) == 2:
        features, store = read_pair(data)
        if isinstance(features, HeteroData):  # as a store it does not list edge tensors
            own = from_data(features)
            return (own[0],), own[1] if store is features else _parts(store)[1]
        return (features,), _parts(store)[1]
    raise UnsupportedError(
        "typed sampling needs an aethergraph.HeteroGraph, a HeteroData, or stores over typed "
        f"edges, got {type(data).__name__}"
    )


def _copy_store(store: _PyGGraphStore) -> GraphStore:
    """Copy the edges of a foreign store into one of ours; ids are positions in its ``coo()``."""
    sizes = {attr.edge_type: attr.size for attr in store.get_all_edge_attrs()}
    if not sizes or None in sizes:
        raise UnsupportedError(f"{type(store).__name__} holds no typed edge indices")
    rows, cols, _ = store.coo()
    copied = GraphStore()
    for kind, size in sizes.items():
        copied.put_edge_index((rows[kind], cols[kind]), edge_type=kind, layout="coo", size=size)
    return copied
