"""The loaders for PyTorch users, by their short name.

::

    from aethergraph import Graph
    from aethergraph.pytorch import NeighborLoader

    graph = Graph.load("graph.aeg")
    graph.load_features("features.bin")
    loader = NeighborLoader(graph, num_neighbors=[15, 10], batch_size=128)
    for batch in loader:
        out = model(batch.x, batch.edge_index)

The names are those of :mod:`aethergraph.pyg`, which needs torch and torch_geometric, and functions
for rows of live tables on a device.
"""

from aethergraph._torch.slots import gather_to_device, validate_slots
from aethergraph.pyg import DeviceLoader as DeviceLoader
from aethergraph.pyg import FeatureStore as FeatureStore
from aethergraph.pyg import GraphStore as GraphStore
from aethergraph.pyg import HeteroNeighborLoader as HeteroNeighborLoader
from aethergraph.pyg import HeteroNeighborSampler as HeteroNeighborSampler
from aethergraph.pyg import HGTLoader as HGTLoader
from aethergraph.pyg import HGTSampler as HGTSampler
from aethergraph.pyg import LinkNeighborLoader as LinkNeighborLoader
from aethergraph.pyg import NeighborLoader as NeighborLoader
from aethergraph.pyg import NeighborSampler as NeighborSampler
from aethergraph.pyg import ShaDowKHopSampler as ShaDowKHopSampler
from aethergraph.pyg import from_data as from_data
from aethergraph.pyg import graph_from_data as graph_from_data
from aethergraph.pyg import to_data as to_data

__all__ = ["gather_to_device", "validate_slots"]
