"""Samplers: seeds -> :class:`Subgraph`."""

from aethergraph.sampling.base import SubgraphType, TemporalStrategy
from aethergraph.sampling.hetero import HeteroNeighborSampler, HeteroSubgraph
from aethergraph.sampling.keys import hash_ids, mix_key
from aethergraph.sampling.neighbor import NeighborSampler
from aethergraph.sampling.subgraph import Subgraph, to_bidirectional

__all__ = [
    "HeteroNeighborSampler",
    "HeteroSubgraph",
    "NeighborSampler",
    "Subgraph",
    "SubgraphType",
    "TemporalStrategy",
    "hash_ids",
    "mix_key",
    "to_bidirectional",
]
