"""From PyG's ``Data`` to a pair of stores.

Source followed: ``torch_geometric/loader/utils.py`` (``filter_node_store_`` and
``filter_edge_store_``: what PyG's own loader takes from a ``Data`` for each batch).
"""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph import Graph
from aethergraph.pyg.feature_store import EDGE_GROUP, FeatureStore
from aethergraph.pyg.graph_store import GraphStore

__all__ = ["as_stores", "from_data"]

log = logging.getLogger("aethergraph")

_TOPOLOGY = ("edge_index", "num_nodes", "adj", "adj_t")


def from_data(data: Data, *, recycle: bool = True) -> tuple[FeatureStore, GraphStore]:
    """Turn a PyG ``Data`` into stores that any PyG loader takes::

        feature_store, graph_store = from_data(data)

    Every node-level attribute (``x``, ``y``, masks, ...) goes under group None and every
    edge-level one (``edge_attr``, ...) under group ``(None, None)``, without a copy; which one
    is which, ``data.is_node_attr`` and ``data.is_edge_attr`` say. Edge ids are columns of
    ``data.edge_index``. Everything else belongs to the graph as a whole: it is kept in
    ``feature_store.graph_attrs``, which :class:`aethergraph.pyg.NeighborLoader` puts into every
    batch as PyG does for ``Data``, and which PyG's stock loader over stores leaves out. Its names
    are logged at level INFO.

    ``graph_store.graph`` is the topology as an :class:`aethergraph.Graph`, ready for ``save``.

    Args:
        data: a homogeneous graph with ``edge_index`` (or none: then it has no edges).
        recycle: see :class:`aethergraph.pyg.FeatureStore`.

    Raises:
        UnsupportedError: ``HeteroData``, or edges as ``adj`` or ``adj_t``.
        InvalidArgumentError: not a ``Data``, or without nodes to count.
        OutOfRangeError: an edge to a node that does not exist; names position and value.
    """
    if isinstance(data, HeteroData):
        raise UnsupportedError("HeteroData: typed graphs cannot be sampled yet")
    if not isinstance(data, Data):
        raise InvalidArgumentError(
            f"from_data takes a torch_geometric Data, got {type(data).__name__}"
        )
    for name in ("adj", "adj_t"):
        if name in data and "edge_index" not in data:
            raise UnsupportedError(
                f"data holds its edges as {name!r}: set data.edge_index instead "
                "(torch_geometric.utils.to_edge_index)"
            )
    num_nodes = data.num_nodes
    if num_nodes is None:
        raise InvalidArgumentError("data does not say how many nodes it has: set data.num_nodes")
    graph_store = GraphStore()
    edge_index = data.edge_index
    if edge_index is None:
        edge_index = np.empty((2, 0), np.int64)
    elif edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise InvalidArgumentError(
            f"data.edge_index must have shape (2, num_edges), got {tuple(edge_index.shape)}"
        )
    graph_store.put_edge_index(
        (edge_index[0], edge_index[1]), edge_type=None, layout="coo", size=(num_nodes, num_nodes)
    )
    feature_store = FeatureStore(recycle=recycle)
    for name, value in data.to_dict().items():
        if name not in _TOPOLOGY and value is not None:
            group = _group(data, name, value)
            if group is _WHOLE:
                feature_store.graph_attrs[name] = value
            else:
                feature_store.put_tensor(value, group_name=group, attr_name=name, index=None)
    if feature_store.graph_attrs:
        log.info(
            "from_data: kept as graph-level attributes: %s", ", ".join(feature_store.graph_attrs)
        )
    return feature_store, graph_store


_WHOLE = object()


def _group(data: Data, name: str, value: Any) -> object:
    """The group of an attribute: node, edge, or the graph as a whole."""
    if not isinstance(value, (Tensor, np.ndarray)) or value.ndim == 0:
        return _WHOLE
    if data.__cat_dim__(name, value) != 0:  # such as (2, n) index tensors
        return _WHOLE
    if data.is_node_attr(name):
        return None
    return EDGE_GROUP if data.is_edge_attr(name) else _WHOLE


def as_stores(data: Any) -> tuple[Any, Any]:
    """``(feature_store, graph_store)`` from whatever our loaders take as ``data``."""
    if isinstance(data, (str, os.PathLike)):
        data = Graph.load(data)
    if isinstance(data, Graph):
        return FeatureStore.from_graph(data), GraphStore(data)
    if isinstance(data, (Data, HeteroData)):
        return from_data(data)
    if isinstance(data, (tuple, list)) and len(data) == 2:
        return data[0], data[1]
    raise InvalidArgumentError(
        "data must be an aethergraph.Graph, (feature_store, graph_store), a PyG Data or the path "
        f"of a graph file, got {type(data).__name__}"
    )
