"""The prefetch pipeline: seeds -> sample -> gather -> batch."""

from aethergraph.loading.buffers import BufferPool
from aethergraph.loading.loader import Batch, SubgraphLoader
from aethergraph.loading.pipeline import PrefetchIterator, prefetch_map

__all__ = ["Batch", "BufferPool", "PrefetchIterator", "SubgraphLoader", "prefetch_map"]
