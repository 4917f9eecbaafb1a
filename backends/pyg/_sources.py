"""Forms of ``data`` that a sampler takes: its graph store, and the stores of its values."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch_geometric.data import Data, HeteroData
from torch_geometric.data import FeatureStore as _PyGFeatureStore
from torch_geometric.data import GraphStore as _PyGGraphStore

from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph import HeteroGraph, graph_hint
from aethergraph.protocols import HomogeneousGraph
from aethergraph.pyg.convert import from_data
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.pyg.stores import read_pair

__all__ = ["Source", "source_of"]


class Source(NamedTuple):
    """Graph store of ours, and the feature stores to look for times and weights in."""

    graph_store: GraphStore
    feature_stores: tuple[_PyGFeatureStore, ...]
    num_nodes: int = 0  # lower bound


def source_of(data: Any) -> Source:
    """Split ``data`` into a graph store of ours and feature stores.

    Raises:
        UnsupportedError: a typed graph.
        InvalidArgumentError: any other data.
    """
    if isinstance(data, GraphStore):
        own = (FeatureStore.from_graph(data.graph),) if data.holds_graph else ()
        return Source(data, own)
    if isinstance(data, HomogeneousGraph):
        return source_of(GraphStore(data))
    if isinstance(data, Data):
        features, store = from_data(data)
        return Source(store, (features,))
    if isinstance(data, (HeteroData, HeteroGraph)):
        raise UnsupportedError(f"{type(data).__name__} is a typed graph: use HeteroNeighborSampler")
    if isinstance(data, _PyGGraphStore):
        return Source(_copy_store(data), ())
    if isinstance(data, (tuple, list)) and len(data) == 2:
        return _source_of_pair(*read_pair(data))
    raise InvalidArgumentError(
        "data must be (feature_store, graph_store), a graph store, an aethergraph.Graph or a PyG "
        f"Data, got {type(data).__name__}{graph_hint(data)}"
    )


def _source_of_pair(features: _PyGFeatureStore, store: _PyGGraphStore) -> Source:
    rows = [
        features.get_tensor_size(attr)
        for attr in features.get_all_tensor_attrs()
        if not isinstance(attr.group_name, tuple)
    ]
    num_nodes = max((size[0] for size in rows if size), default=0)
    if isinstance(features, Data):  # as a store it does not tell nodes from edges
        features = from_data(features)[0]
    of_store = source_of(store)
    return Source(of_store.graph_store, (features, *of_store.feature_stores), num_nodes)


def _copy_store(store: _PyGGraphStore) -> GraphStore:
    """Copy the edges of a foreign store into one of ours; ids are positions in its ``coo()``."""
    attrs = store.get_all_edge_attrs()
    if not attrs or any(attr.edge_type is not None for attr in attrs):
        raise UnsupportedError(
            f"{type(store).__name__} holds no homogeneous edge index (edge_type=None); for typed "
            "graphs use HeteroNeighborSampler"
        )
    row, col, _ = store.coo()
    copied = GraphStore()
    copied.put_edge_index((row, col), edge_type=None, layout="coo", size=attrs[0].size)
    return copied
