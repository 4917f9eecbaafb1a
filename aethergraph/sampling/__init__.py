"""Samplers: seeds -> :class:`Subgraph`."""

from aethergraph.sampling.keys import hash_ids, mix_key
from aethergraph.sampling.neighbor import NeighborSampler, SubgraphType
from aethergraph.sampling.subgraph import Subgraph, to_bidirectional

__all__ = [
    "NeighborSampler",
    "Subgraph",
    "SubgraphType",
    "hash_ids",
    "mix_key",
    "to_bidirectional",
]
