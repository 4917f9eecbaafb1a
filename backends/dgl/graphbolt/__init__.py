"""AetherGraph for GraphBolt: a graph, features and a sampler for the stock ``gb.DataLoader``.

::

    import dgl.graphbolt as gb
    from aethergraph.dgl.graphbolt import FeatureStore, SamplingGraph

    sampling_graph, features = SamplingGraph(graph), FeatureStore(graph)
    pipe = gb.ItemSampler(gb.ItemSet(train_nodes, names="seed_nodes"), batch_size=128)
    pipe = pipe.sample_neighbor_at_once(sampling_graph, [15, 10])     # or sample_neighbor
    pipe = pipe.fetch_feature(features, node_feature_keys=["x", "y"])
    loader = gb.DataLoader(pipe, num_workers=2)

Runs with DGL 2.1, and is written for later ones too; see ``docs/dgl.md``.
"""

from aethergraph.dgl.graphbolt.export import save_ondisk_dataset
from aethergraph.dgl.graphbolt.features import Feature, FeatureStore
from aethergraph.dgl.graphbolt.files import from_fused_csc, load_ondisk_dataset, to_fused_csc
from aethergraph.dgl.graphbolt.graph import SamplingGraph
from aethergraph.dgl.graphbolt.sampler import NeighborSampler
from aethergraph.dgl.graphbolt.tasks import load_ondisk_tasks

__all__ = [
    "Feature",
    "FeatureStore",
    "NeighborSampler",
    "SamplingGraph",
    "from_fused_csc",
    "load_ondisk_dataset",
    "load_ondisk_tasks",
    "save_ondisk_dataset",
    "to_fused_csc",
]
