"""Forms of ``data`` that a sampler takes: the graph to sample from, and the values to draw by.

::

    data ──> feature stores, graph store ──┬── over a graph: that graph, the stores' values before
                                           │   its own
                                           └── edge indices that were put in: a graph that is built
                                               of them, its lists sorted by the stores' times
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data import FeatureStore as _PyGFeatureStore
from torch_geometric.data import GraphStore as _PyGGraphStore

from aethergraph._checks.arrays import as_ids, check_times, check_weights
from aethergraph._checks.options import as_items, shown
from aethergraph._torch.tensors import seed_ids
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.foreign import graph_hint
from aethergraph.graph.ids import check_ids
from aethergraph.graph.orders import take
from aethergraph.graph.schema import EDGE, NODE, Schema
from aethergraph.protocols import AnyGraph, RowSource
from aethergraph.pyg._built_graphs import SortKey
from aethergraph.pyg._inputs import is_typed
from aethergraph.pyg._tensor_attr import EDGE_GROUP
from aethergraph.pyg._values import find_rows, unknown_values
from aethergraph.pyg.convert import from_data
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.pyg.stores import read_pair
from aethergraph.sampling.values import read_times, read_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph._native import NativeSample
    from aethergraph.graph.hetero import EdgeType

__all__ = ["SampledGraph", "sampled_graph"]

Stores = Sequence[_PyGFeatureStore]


class SampledGraph(NamedTuple):
    """Graph to sample from, with the values to draw by, and the map of its edge ids to the data's.

    Attributes:
        schema: types of the graph, and the values.
        edge_ids: by edge type an unsigned vector [E], the data's id of each edge; for types that
            are missing the two are equal.
        is_sorted: True if its lists were sorted here by the times to draw by.
    """

    schema: Schema
    edge_ids: Mapping[EdgeType, NDArray[Any]]
    is_sorted: bool

    def own_edges(self, edges: Any, option: str) -> dict[EdgeType, NDArray[np.int64]] | None:
        """Turn the data's ids of edges, of a typed graph by edge type, into the graph's.

        Args:
            edges: the ids; None: there are none.
            option: their name in messages.

        Raises:
            InvalidArgumentError: no ids, or an edge type that the graph does not have.
            OutOfRangeError: an edge that does not exist, with its position.
        """
        if edges is None:
            return None
        schema = self.schema
        by_type = as_items(edges, option, "edges") if schema.is_typed else [(EDGE, edges)]
        own_ids = {}
        for kind, of_kind in by_type:
            if kind not in schema.edge_types:
                known = ", ".join(map(repr, schema.edge_types)) or "none"
                raise InvalidArgumentError(
                    f"{option}: {shown(kind)} is no edge type; there are: {known}"
                )
            label, order = schema.label(option, kind), self.edge_ids.get(kind)
            is_tensor = isinstance(of_kind, Tensor)
            ids = seed_ids(of_kind, label) if is_tensor else as_ids(of_kind, label)
            if order is not None:
                check_ids(ids, len(order), label, "edges")
                place = np.empty(len(order), np.int64)
                place[order] = np.arange(len(order))
                ids = place[ids]
            own_ids[kind] = ids.copy()
        return own_ids

    def number_edges(self, sample: NativeSample) -> None:
        """Turn the edge ids of a sample into the data's."""
        if self.edge_ids:
            for kind, edge in zip(self.schema.edge_types, sample.edge, strict=True):
                order = self.edge_ids.get(kind)
                if order is not None:
                    edge[:] = take(order, edge)  # other threads go on meanwhile


def sampled_graph(
    data: Any,
    weight_attr: str | None = None,
    time_attr: str | None = None,
    *,
    backward: bool = False,
    typed: bool | None = None,
) -> SampledGraph:
    """Find the graph to sample from in any ``data`` that a sampler takes.

    Weights and times are looked for in the feature stores by node type and edge type, then in the
    graph itself.

    Args:
        data: a graph, PyG's data, a graph store, or a pair of feature store and graph store.
        weight_attr: name of the weights of edges.
        time_attr: name of the times, of nodes if any have them, else of edges.
        backward: a graph that is built here stores out-edges, too.
        typed: whether the graph has types; None: whatever it is.

    Raises:
        UnsupportedError: a graph of the other kind than ``typed`` says, or an empty store.
        InvalidArgumentError: any other data; invalid weights or times.
    """
    stores, graph_store = _parts(data)
    is_many = is_typed((stores, graph_store)) if typed is None else typed
    if typed is None and graph_store.is_mixed:
        kinds = ", ".join(map(repr, graph_store.edge_types))
        raise UnsupportedError(
            f"the store holds edges of no type beside edges of {kinds}, and samples are of one or "
            "the other: put them into two stores"
        )
    if graph_store.holds_graph and not is_many:
        return _given(Schema(graph_store.graph), stores, weight_attr, time_attr)
    if graph_store.hetero is not None and is_many:
        graph = graph_store.sampling_graph(typed=True).graph
        return _given(Schema(graph), stores, weight_attr, time_attr)
    return _built(graph_store, stores, weight_attr, time_attr, backward, is_many)


def _given(
    schema: Schema, stores: Stores, weight_attr: str | None, time_attr: str | None
) -> SampledGraph:
    """Return a graph as it is, with the stores' values before its own."""
    rows = _find_values(schema.node_types, schema.edge_types, stores, weight_attr, time_attr)
    for node_type, columns in rows.nodes.items():
        _drop_own(columns, schema.node_rows(node_type))
        _check_lengths(columns, schema.num_nodes(node_type), schema.label("", node_type), "nodes")
    for kind, columns in rows.edges.items():
        edges = schema.edges(kind)
        layout: Literal["csc", "csr"] = "csr" if edges.layout == "csr" else "csc"
        _drop_own(columns, schema.edge_rows(kind))
        end = edges.topology(layout).end_edge_ids
        _check_lengths(columns, end, schema.label("", kind), "edges")
    return SampledGraph(Schema(schema.graph, rows.nodes, rows.edges), {}, False)


def _built(
    graph_store: GraphStore,
    stores: Stores,
    weight_attr: str | None,
    time_attr: str | None,
    backward: bool,
    typed: bool,
) -> SampledGraph:
    """Build a graph of the edge indices that were put in, its lists sorted by the times."""
    at_least = _count_rows(stores)
    node_types, edge_types = [NODE], [EDGE]
    if typed:
        node_types, edge_types = list(graph_store.num_typed_nodes(at_least)), graph_store.edge_types
    rows = _find_values(node_types, edge_types, stores, weight_attr, time_attr)
    of_nodes, of_edges = _times(rows.nodes, time_attr), _times(rows.edges, time_attr)
    if time_attr is not None and not of_nodes and not of_edges:
        raise unknown_values("time_attr", time_attr, stores, of_nodes=True)
    if weight_attr is not None and not any(
        weight_attr in columns for columns in rows.edges.values()
    ):
        raise unknown_values("weight_attr", weight_attr, stores, of_nodes=False)
    key = None if time_attr is None else SortKey(time_attr, of_nodes, of_edges)
    graph, orders = graph_store.sampling_graph(
        typed, num_nodes=at_least, backward=backward, sort_by=key
    )
    schema = Schema(graph)
    for node_type in of_nodes:
        assert time_attr is not None
        rows.nodes[node_type] = {time_attr: schema.node_rows(node_type)["node_time"]}
    for kind, columns in rows.edges.items():
        count, order = schema.edges(kind).num_edges, orders.get(kind)
        for name, column in columns.items():
            if name == time_attr:
                columns[name] = schema.edge_rows(kind)["edge_time"]
                continue
            _check_lengths({name: column}, count, schema.label("", kind), "edges")
            if order is not None:
                columns[name] = FeatureTable.from_array(column.array[order])
    return SampledGraph(Schema(graph, rows.nodes, rows.edges), orders, time_attr is not None)


class _Rows(NamedTuple):
    """Rows by node type or edge type, and name."""

    nodes: dict[str, dict[str, RowSource]]
    edges: dict[EdgeType, dict[str, RowSource]]


def _find_values(
    node_types: Iterable[str],
    edge_types: Iterable[EdgeType],
    stores: Stores,
    weight_attr: str | None,
    time_attr: str | None,
) -> _Rows:
    """Return the weights and times that the feature stores hold, those in memory checked."""
    rows = _Rows({}, {})
    if time_attr is not None:
        rows.nodes.update(_find(stores, node_types, "time_attr", time_attr))
        if not rows.nodes:
            rows.edges.update(_find(stores, edge_types, "time_attr", time_attr))
    if weight_attr is not None:
        for kind, columns in _find(stores, edge_types, "weight_attr", weight_attr).items():
            rows.edges.setdefault(kind, {}).update(columns)
    return rows


def _find(
    stores: Stores, kinds: Iterable[Any], option: str, name: str
) -> dict[Any, dict[str, RowSource]]:
    columns = {}
    for kind in kinds:
        group, of = _GROUPS.get(kind, kind), "" if kind in _GROUPS else f" of {kind!r}"
        column = find_rows(stores, group, name, f"{option} = {name!r}{of}")
        if column is None:
            continue
        if column.guard is None and column.is_in_memory and not column.is_live:
            label = f"{kind!r}: {name}" if of else name
            if option == "weight_attr":
                check_weights(read_weights(column, label).array, label)
            else:
                check_times(read_times(column, name, label, of_nodes=True).array, label)
        columns[kind] = {name: column}
    return columns


#: Groups of PyG's attributes of a graph of one type.
_GROUPS: Final[dict[Any, Any]] = {NODE: None, EDGE: EDGE_GROUP}


def _times(rows: Mapping[Any, Mapping[str, RowSource]], name: str | None) -> dict[Any, Any]:
    """Return the arrays of times by type."""
    return {
        kind: read_times(columns[name], name, name, of_nodes=True).array
        for kind, columns in rows.items()
        if name is not None and name in columns
    }


def _check_lengths(columns: Mapping[str, RowSource], count: int, of: str, noun: str) -> None:
    for name, column in columns.items():
        if len(column.shape) == 1 and column.num_rows != count:
            raise InvalidArgumentError(
                f"{name!r}{of} has {column.num_rows} rows, but num_{noun} = {count}"
            )


def _drop_own(columns: dict[str, RowSource], graph_columns: Mapping[str, RowSource]) -> None:
    """Drop values that the graph itself holds: it knows, for example, whether lists are sorted."""
    for name in list(columns):
        rows = graph_columns.get(name)
        if rows is not None and _are_same(rows, columns[name]):
            del columns[name]


def _are_same(first: RowSource, second: RowSource) -> bool:
    """Return whether two columns have the same memory, or say that they are the same rows."""
    if first is second or first.is_same_rows(second):
        return True
    if any(rows.is_live or not isinstance(rows, FeatureTable) for rows in (first, second)):
        return False
    return first.shape == second.shape and first.array.ctypes.data == second.array.ctypes.data


def _count_rows(stores: Stores) -> dict[str, int]:
    """Count rows by node type: feature tensors may have nodes that no edge has."""
    counts: dict[str, int] = {}
    for store in stores:
        for attr in store.get_all_tensor_attrs():
            if isinstance(attr.group_name, tuple):
                continue
            size = store.get_tensor_size(attr)
            if size:
                counts[attr.group_name] = max(counts.get(attr.group_name, 0), size[0])
    return counts


def _parts(data: Any) -> tuple[Stores, GraphStore]:
    """Split ``data`` into feature stores and a graph store of ours."""
    if isinstance(data, AnyGraph):
        data = GraphStore(data)
    if isinstance(data, GraphStore):
        return ((FeatureStore.from_graph(data.graph),) if data.holds_graph else ()), data
    if isinstance(data, (Data, HeteroData)):
        features, store = from_data(data)
        return (features,), store
    if isinstance(data, _PyGGraphStore):
        return (), _copy_store(data)
    if isinstance(data, (tuple, list)) and len(data) == 2:
        features, store = read_pair(data)
        whole_graphs = [part for part in (features, store) if isinstance(part, (Data, HeteroData))]
        if len({isinstance(part, HeteroData) for part in whole_graphs}) > 1:
            raise InvalidArgumentError(
                f"data = ({type(features).__name__}, {type(store).__name__}): one is of several "
                "types, the other is not; give two that are alike"
            )
        if isinstance(features, (Data, HeteroData)):  # as a store it does not list edge tensors
            stores = from_data(features)
            return (stores[0],), stores[1] if store is features else _parts(store)[1]
        more, graph_store = _parts(store)
        return (features, *more), graph_store
    raise InvalidArgumentError(
        "data must be (feature_store, graph_store), a graph store, an aethergraph Graph or "
        f"HeteroGraph, or PyG's Data or HeteroData, got {type(data).__name__}{graph_hint(data)}"
    )


def _copy_store(store: _PyGGraphStore) -> GraphStore:
    """Copy the edges of a foreign store into one of ours; ids are positions in its ``coo()``."""
    attrs = store.get_all_edge_attrs()
    sizes = {attr.edge_type: attr.size for attr in attrs}
    if not sizes:
        raise UnsupportedError(f"{type(store).__name__} holds no edge indices")
    rows, cols, _ = store.coo()
    copied = GraphStore()
    for kind, size in sizes.items():
        ends = (rows, cols) if kind is None else (rows[kind], cols[kind])
        copied.put_edge_index(ends, edge_type=kind, layout="coo", size=size)
    return copied
