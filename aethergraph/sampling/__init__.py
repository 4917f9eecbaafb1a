"""Samplers: seeds -> :class:`Subgraph`; random walks: starts -> rows of nodes."""

from aethergraph.sampling.contexts import ContextSampler
from aethergraph.sampling.keys import mix_key
from aethergraph.sampling.walks import random_fanout

__all__ = [
    "ContextSampler",
    "mix_key",
    "random_fanout",
]
