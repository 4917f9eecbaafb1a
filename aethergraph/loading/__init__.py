"""Loading: seeds -> sample -> gather -> batch, ahead of the training loop."""

from aethergraph.loading.batches import partition_aligned_batches
from aethergraph.loading.options import Ahead, Order

__all__ = [
    "Ahead",
    "Order",
    "partition_aligned_batches",
]
