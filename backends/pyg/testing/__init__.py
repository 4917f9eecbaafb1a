"""Contracts of PyG's extension points; subclass them to test stores and samplers for its loaders.

Used like the contracts of :mod:`aethergraph.testing`; see ``docs/testing.md``.
"""

from aethergraph.pyg.testing.graph_loading import GraphLoadingContract
from aethergraph.pyg.testing.loading import RowLoadingContract
from aethergraph.pyg.testing.samplers import BaseSamplerContract, HeteroBaseSamplerContract
from aethergraph.pyg.testing.stores import FeatureStoreContract, GraphStoreContract

__all__ = [
    "FeatureStoreContract",
    "GraphLoadingContract",
    "GraphStoreContract",
    "HeteroBaseSamplerContract",
    "RowLoadingContract",
    "BaseSamplerContract",
]
