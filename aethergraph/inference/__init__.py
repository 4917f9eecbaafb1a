"""Inference: vectors of every node, layer by layer, out of core."""

from aethergraph.inference.api import embed
from aethergraph.inference.job import Layer

__all__ = ["Layer", "embed"]
