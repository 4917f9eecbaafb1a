"""AetherGraph for Ray Data: sampled batches made by the workers of a cluster.

::

    from aethergraph.ray import create_sampling_dataset, collate_to_pyg

    dataset = create_sampling_dataset("graph.aeg", num_neighbors=[25, 10], batch_size=1024)
    for batch in dataset.iter_batches(batch_format="pyarrow"):
        data = collate_to_pyg(batch)
        out = model(data.x, data.edge_index)

Every worker opens the graph by its path, so each machine has the file; batches alone cross the
network. Ray comes with ``pip install 'aethergraph[ray]'``.
"""

from aethergraph.ray.collate import collate_to_dgl, collate_to_pyg
from aethergraph.ray.dataset import create_sampling_dataset

__all__ = ["collate_to_dgl", "collate_to_pyg", "create_sampling_dataset"]
