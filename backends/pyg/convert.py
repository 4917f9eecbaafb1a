"""Conversion of PyG's ``Data`` and ``HeteroData`` to a pair of stores."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

from torch_geometric.data import Data, HeteroData

from aethergraph.errors import AetherError, InvalidArgumentError, UnsupportedError
from aethergraph.graph.foreign import graph_hint
from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.protocols import AnyGraph
from aethergraph.pyg._source_data import TOPOLOGY, SourceData, put_attr, read_edges, row_dim
from aethergraph.pyg._tensor_attr import EDGE_GROUP
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.pyg.stores import Stores, read_pair
from aethergraph.remote import open_graph
from aethergraph.storage.choice import is_address

__all__ = ["as_stores", "from_data"]

log = logging.getLogger("aethergraph")


def from_data(data: Data | HeteroData, *, recycle: bool = True) -> Stores:
    """Turn a PyG ``Data`` or ``HeteroData`` into stores that any PyG loader takes.

    Example::

        feature_store, graph_store = from_data(data)

    Every node-level attribute (``x``, ``y``, masks, ...) goes under group None and every
    edge-level one (``edge_attr``, ...) under group ``(None, None)``, without a copy;
    ``data.is_node_attr`` and ``data.is_edge_attr`` tell them apart. The groups of a ``HeteroData``
    are its node types and edge types. Edge ids are columns of ``data.edge_index``, or of
    ``data[edge_type].edge_index``. Batches have rows of tensors, of arrays, and of a
    ``TensorFrame``, in the dimension in which PyG takes them (``data.__cat_dim__``): the last one
    for names with "index" in them, such as ``edge_label_index``.

    Everything else belongs to the graph as a whole and is kept in ``feature_store.graph_attrs``.
    :class:`aethergraph.pyg.NeighborLoader` puts these into every batch, as PyG does for ``Data``;
    PyG's stock loader over stores leaves them out. Attributes of one type of a ``HeteroData`` that
    are not one row per node or edge are kept in ``feature_store.type_attrs``. The names are logged
    at level INFO.

    ``graph_store.graph`` is the topology of a ``Data`` as an :class:`aethergraph.Graph`; see
    :func:`graph_from_data` for one with the attributes, ready for ``save``.

    Edges that :class:`torch_geometric.transforms.ToSparseTensor` made into ``adj_t`` (or that are
    in ``adj``) are read from there, in the order of its entries, and the values become
    ``edge_weight`` (``edge_attr`` if they have several columns). Values that are all one are
    dropped, since a sparse tensor of torch must have values. Batches hold ``edge_index``; give the
    loader ``transform=ToSparseTensor()`` if a model needs ``adj_t``.

    Args:
        data: a graph with ``edge_index`` or ``adj_t`` (or none: then it has no edges).
        recycle: see :class:`aethergraph.pyg.FeatureStore`.

    Raises:
        InvalidArgumentError: not a ``Data`` or ``HeteroData``, or its number of nodes is not known.
        OutOfRangeError: an edge to a node that does not exist; names position and value.
    """
    features, graph_store = FeatureStore(recycle=recycle), GraphStore()
    if isinstance(data, HeteroData):
        _read_typed(data, features, graph_store)
    elif isinstance(data, Data):
        _read_one(data, features, graph_store)
    else:
        raise InvalidArgumentError(
            f"from_data takes a torch_geometric Data or HeteroData, got {type(data).__name__}"
        )
    names = list(features.graph_attrs)
    for kind, attrs in features.type_attrs.items():
        names += [f"{name} of {kind!r}" for name in attrs]
    if names:
        log.info("from_data: kept as graph-level attributes: %s", ", ".join(names))
    return Stores(features, graph_store)


def _read_one(data: Data, features: FeatureStore, graph_store: GraphStore) -> None:
    edge_index, values = read_edges(data, "data")
    num_nodes = data.num_nodes
    if num_nodes is None:
        raise InvalidArgumentError("data does not say how many nodes it has: set data.num_nodes")
    _put_edges(graph_store, edge_index, None, (num_nodes, num_nodes), "data")
    for name, value in values.items():
        features.put_tensor(value, group_name=EDGE_GROUP, attr_name=name, index=None)
    for name, value in data.to_dict().items():
        if name not in TOPOLOGY and value is not None:
            put_attr(features, data, data.stores[0], name, value)


def _read_typed(data: HeteroData, features: FeatureStore, graph_store: GraphStore) -> None:
    read = {kind: read_edges(data[kind], f"data[{kind!r}]") for kind in data.edge_types}
    ends = {kind: pair for kind, (pair, _) in read.items()}
    counts = _count_nodes(data, ends)
    graph_store.node_counts = counts
    for kind, edge_index in ends.items():
        size = counts[kind[0]], counts[kind[2]]
        _put_edges(graph_store, edge_index, kind, size, f"data[{kind!r}]")
        for name, value in read[kind][1].items():
            features.put_tensor(value, group_name=kind, attr_name=name, index=None)
    for store in data.node_stores + data.edge_stores:
        for name, value in store.items():
            if name not in TOPOLOGY and value is not None:
                put_attr(features, data, store, name, value)
    features.graph_attrs.update(data.to_dict()["_global_store"])


def _put_edges(
    graph_store: GraphStore, ends: Any, kind: Any, size: tuple[int, int], label: str
) -> None:
    """Put the edges of a ``Data`` or of one edge type, by whose name errors call them."""
    try:
        graph_store.put_edge_index(ends, edge_type=kind, layout="coo", size=size)
    except AetherError as error:
        error.args = (f"{label}.edge_index: {error}", *error.args[1:])
        raise


def _count_nodes(data: HeteroData, ends: dict[Any, tuple[Any, Any]]) -> dict[str, int]:
    """Count nodes by type, as PyG does.

    Nodes of types without attributes are counted by the largest end of their edges.
    """
    counts: dict[str, int] = {}
    for name, store in data.node_items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # raised below, where it matters
            known = store.num_nodes
        if known is not None:
            counts[name] = known
        elif any(row_dim(data, key, value, store) is not None for key, value in store.items()):
            raise InvalidArgumentError(
                f"data[{name!r}] does not say how many nodes it has: set data[{name!r}].num_nodes"
            )
    largest = dict.fromkeys(data.node_types, 0)
    for kind, pair in ends.items():
        for name, ids in zip((kind[0], kind[2]), pair, strict=True):
            needed = int(ids.max()) + 1 if len(ids) else 0
            largest[name] = max(largest.get(name, 0), needed)
    return {name: counts.get(name, count) for name, count in largest.items()}


def as_stores(data: Any) -> Stores:
    """Return ``(feature_store, graph_store)`` for any ``data`` of our loaders, for PyG's own.

    Example::

        stores = as_stores(Graph.load("graph.aeg"))
        loader = NodeLoader(stores, NeighborSampler(stores, [15, 10]), batch_size=128)

    Args:
        data: a :class:`aethergraph.Graph` or ``HeteroGraph``, the path of its file, the address of
            a server that has it (:func:`aethergraph.remote.open_graph`), a PyG ``Data`` or
            ``HeteroData``, or two stores of any make (the second may be a graph).

    Raises:
        InvalidArgumentError: any other data. Opening a file raises the errors of
            :meth:`aethergraph.Graph.load`.
    """
    if isinstance(data, Stores):
        return data
    if isinstance(data, (str, os.PathLike)):
        data = _load(data)
    if isinstance(data, AnyGraph):
        return Stores(FeatureStore.from_graph(data), GraphStore(data))
    if isinstance(data, (Data, HeteroData)):
        stores = from_data(data)
        stores[0].source_data = SourceData(data, stores[1])
        return stores
    if isinstance(data, (tuple, list)) and len(data) == 2:
        return read_pair(data)
    raise InvalidArgumentError(
        "data must be an aethergraph.Graph or HeteroGraph, (feature_store, graph_store), a PyG "
        f"Data or HeteroData, or the path of a graph file, got {type(data).__name__}"
        f"{graph_hint(data)}"
    )


def _load(path: Any) -> AnyGraph:
    if is_address(path):
        return open_graph(str(path))
    try:
        return Graph.load(path)
    except UnsupportedError:  # a typed graph
        return HeteroGraph.load(path)
