"""Samplers: seeds -> :class:`Subgraph`; random walks: starts -> rows of nodes."""

from aethergraph.sampling.base import SubgraphType, TemporalStrategy
from aethergraph.sampling.contexts import Contexts, ContextSampler
from aethergraph.sampling.hetero import HeteroNeighborSampler, HeteroSubgraph
from aethergraph.sampling.hgt import HGTSampler
from aethergraph.sampling.keys import hash_ids, mix_key
from aethergraph.sampling.neighbor import NeighborSampler
from aethergraph.sampling.subgraph import Subgraph, to_bidirectional
from aethergraph.sampling.walks import Direction, RandomWalker, random_fanout

__all__ = [
    "NeighborSampler",
    "HeteroNeighborSampler",
    "Subgraph",
    "HeteroSubgraph",
    "ContextSampler",
    "Contexts",
    "HGTSampler",
    "Direction",
    "RandomWalker",
    "SubgraphType",
    "TemporalStrategy",
    "hash_ids",
    "mix_key",
    "random_fanout",
    "to_bidirectional",
]
