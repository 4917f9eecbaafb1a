"""AetherGraph for PyTorch Geometric: stores, sampler and loaders.

With PyG's own loaders::

    from torch_geometric.loader import NodeLoader
    from aethergraph.pyg import FeatureStore, GraphStore, NeighborSampler

    stores = FeatureStore.from_graph(graph), GraphStore(graph)
    sampler = NeighborSampler(stores, num_neighbors=[15, 10])
    loader = NodeLoader(stores, sampler, input_nodes=train_nodes, batch_size=128, shuffle=True)

or with ours, which prefetch natively and leave nothing out::

    from aethergraph.pyg import NeighborLoader

    loader = NeighborLoader(graph, [15, 10], input_nodes=train_nodes, batch_size=128, shuffle=True)

Works with torch 2.2 and newer and torch_geometric 2.5 and newer; needs neither pyg-lib nor
torch-sparse.
"""

from aethergraph._checks.optional import how_to_get as _how_to_get
from aethergraph._checks.optional import refuse_older as _refuse_older

try:
    import torch as _torch
    import torch_geometric as _torch_geometric
except ImportError as error:
    raise ImportError(
        f"aethergraph.pyg needs torch and torch_geometric: {_how_to_get('pyg')}"
    ) from error
else:
    _refuse_older(_torch, "2.2", "aethergraph.pyg needs")
    _refuse_older(_torch_geometric, "2.5", "aethergraph.pyg needs")

from aethergraph.pyg._accelerate import accelerate
from aethergraph.pyg.ahead import LookAhead
from aethergraph.pyg.convert import as_stores, from_data
from aethergraph.pyg.data import graph_from_data, to_data
from aethergraph.pyg.device_loader import DeviceLoader
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.pyg.hetero_loader import HeteroNeighborLoader
from aethergraph.pyg.hgt import HGTLoader, HGTSampler
from aethergraph.pyg.inference import embed
from aethergraph.pyg.loader import LinkNeighborLoader, NeighborLoader
from aethergraph.pyg.sampler import HeteroNeighborSampler, NeighborSampler
from aethergraph.pyg.served import sample_to_data
from aethergraph.pyg.shadow import ShaDowKHopSampler

__all__ = [
    "NeighborLoader",
    "HeteroNeighborLoader",
    "LinkNeighborLoader",
    "HGTLoader",
    "accelerate",
    "embed",
    "from_data",
    "to_data",
    "FeatureStore",
    "GraphStore",
    "NeighborSampler",
    "HeteroNeighborSampler",
    "DeviceLoader",
    "HGTSampler",
    "LookAhead",
    "ShaDowKHopSampler",
    "as_stores",
    "graph_from_data",
    "sample_to_data",
]
