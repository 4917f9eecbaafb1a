"""Samplers: seeds -> :class:`Subgraph`; random walks: starts -> rows of nodes."""

from aethergraph.sampling.keys import hash_ids, mix_key
from aethergraph.sampling.neighbor import NeighborSampler, SubgraphType
from aethergraph.sampling.subgraph import Subgraph, to_bidirectional
from aethergraph.sampling.walks import Direction, RandomWalker, random_fanout

__all__ = [
    "Direction",
    "NeighborSampler",
    "RandomWalker",
    "Subgraph",
    "SubgraphType",
    "hash_ids",
    "mix_key",
    "random_fanout",
    "to_bidirectional",
]
