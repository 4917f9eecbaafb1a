"""Inference: vectors of every node, layer by layer, out of core."""

from aethergraph.inference.api import embed

__all__ = [
    "embed",
]
