"""AetherGraph for DGL: a graph, feature storages and samplers for DGL's stock loaders.

::

    import dgl
    from aethergraph.dgl import GraphStorage, NeighborSampler

    graph = GraphStorage(Graph.load("graph.aeg"))
    sampler = NeighborSampler([15, 10], prefetch_node_feats=["x"], prefetch_labels=["y"])
    loader = dgl.dataloading.DataLoader(graph, train_nodes, sampler, batch_size=128, shuffle=True)

Runs with DGL 2.1 on torch 2.2, and is written for later ones too; see ``docs/dgl.md``.
"""

from aethergraph._checks.optional import how_to_get as _how_to_get

try:
    import dgl as _dgl  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"aethergraph.dgl needs DGL: {_how_to_get('dgl,cli')} in an environment of its own"
    ) from error

from aethergraph.dgl._order import BatchedSeeds
from aethergraph.dgl.convert import from_dgl, to_dgl
from aethergraph.dgl.edges import PerSourceUniform, as_edge_prediction_sampler
from aethergraph.dgl.features import FeatureStorage
from aethergraph.dgl.inference import embed
from aethergraph.dgl.labor import LaborSampler
from aethergraph.dgl.loader import DataLoader as DataLoader
from aethergraph.dgl.sampler import (
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
)
from aethergraph.dgl.shadow import ShaDowKHopSampler
from aethergraph.dgl.storage import GraphStorage
from aethergraph.dgl.subgraphs import ClusterGCNSampler, SAINTSampler

# Not DataLoader: `from aethergraph.dgl import *` would put it in the place of DGL's.
__all__ = [
    "from_dgl",
    "to_dgl",
    "GraphStorage",
    "FeatureStorage",
    "NeighborSampler",
    "BatchedSeeds",
    "ClusterGCNSampler",
    "LaborSampler",
    "MultiLayerFullNeighborSampler",
    "MultiLayerNeighborSampler",
    "PerSourceUniform",
    "SAINTSampler",
    "ShaDowKHopSampler",
    "as_edge_prediction_sampler",
    "embed",
]
