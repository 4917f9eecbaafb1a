"""Inference: vectors of every node, layer by layer, out of core; and those nearest to others."""

from aethergraph.inference.api import embed
from aethergraph.inference.nearest import VectorIndex

__all__ = [
    "VectorIndex",
    "embed",
]
