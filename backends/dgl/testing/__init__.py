"""Contracts of graphs and of feature sources in the batches of DGL; see ``docs/testing.md``."""

from aethergraph.dgl.testing.graph_loading import GraphStorageContract
from aethergraph.dgl.testing.loading import FeatureStorageContract

__all__ = ["GraphStorageContract", "FeatureStorageContract"]
