"""Loading: seeds -> sample -> gather -> batch, ahead of the training loop."""

from aethergraph._parallel.prefetch import PrefetchIterator, prefetch_map
from aethergraph.loading.batch import Batch, HeteroBatch
from aethergraph.loading.batches import AlignedBatches, partition_aligned_batches
from aethergraph.loading.buffers import BufferPool
from aethergraph.loading.loader import SubgraphLoader
from aethergraph.loading.options import Ahead, Order

__all__ = [
    "SubgraphLoader",
    "Batch",
    "HeteroBatch",
    "Ahead",
    "Order",
    "AlignedBatches",
    "BufferPool",
    "PrefetchIterator",
    "partition_aligned_batches",
    "prefetch_map",
]
