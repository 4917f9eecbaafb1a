"""``feature_source=`` of PyG's loaders."""

from __future__ import annotations

from aethergraph.errors import UnsupportedError
from aethergraph.loading.feature_sources import (
    FeatureSources,
    open_feature_source,
    open_typed_feature_source,
)
from aethergraph.protocols import RowSource
from aethergraph.pyg._inputs import is_typed
from aethergraph.pyg._tensor_attr import EDGE_GROUP
from aethergraph.pyg._tensor_rows import Key
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.stores import Stores

__all__ = ["with_feature_source"]


def with_feature_source(stores: Stores, sources: FeatureSources | None) -> Stores:
    """Return the stores with rows from elsewhere in place of tensors of their names.

    Raises:
        InvalidArgumentError: no sources, or none of this graph's nodes.
        UnsupportedError: a feature store of another make.
    """
    if sources is None:
        return stores
    features, graph_store = stores
    if not isinstance(features, FeatureStore):
        raise UnsupportedError(
            f"feature_source goes with a graph or a feature store of this package, not with "
            f"{type(features).__name__}: put the rows into a store that knows them"
        )
    rows: dict[Key, RowSource]
    if is_typed(stores):
        rows = {**open_typed_feature_source(sources, graph_store.num_typed_nodes())}
    else:  # a store may call the group of all nodes as it likes
        groups = {name: group for group, name in features.tensor_keys() if group != EDGE_GROUP}
        opened = open_feature_source(sources, stores.num_nodes)
        rows = {(groups.get(name), name): source for name, source in opened.items()}
    return Stores(features.with_rows(rows), graph_store)
