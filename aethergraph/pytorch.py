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

from aethergraph._torch.slots import SlotRows, gather_to_device, validate_slots
from aethergraph.pyg import (
    DeviceLoader,
    FeatureStore,
    GraphStore,
    HeteroNeighborLoader,
    HeteroNeighborSampler,
    HGTLoader,
    HGTSampler,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    ShaDowKHopSampler,
    from_data,
    graph_from_data,
    to_data,
)

__all__ = [
    "DeviceLoader",
    "FeatureStore",
    "GraphStore",
    "HGTLoader",
    "HGTSampler",
    "HeteroNeighborLoader",
    "HeteroNeighborSampler",
    "LinkNeighborLoader",
    "NeighborLoader",
    "NeighborSampler",
    "ShaDowKHopSampler",
    "SlotRows",
    "from_data",
    "gather_to_device",
    "graph_from_data",
    "to_data",
    "validate_slots",
]
