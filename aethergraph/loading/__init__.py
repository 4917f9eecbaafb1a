"""Loading: seeds -> sample -> gather -> batch, ahead of the training loop."""

from aethergraph._parallel.prefetch import PrefetchIterator, prefetch_map
from aethergraph.loading.buffers import BufferPool
from aethergraph.loading.loader import Batch, SubgraphLoader

__all__ = ["Batch", "BufferPool", "PrefetchIterator", "SubgraphLoader", "prefetch_map"]
