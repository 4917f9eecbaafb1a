"""Rows of batches that are known ahead, packed on disk in the order of their use."""

from aethergraph.packing.epoch import Packing, pack
from aethergraph.packing.store import PackedFeatures

__all__ = [
    "PackedFeatures",
    "Packing",
    "pack",
]
