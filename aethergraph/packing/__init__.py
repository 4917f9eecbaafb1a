"""Rows of batches that are known ahead, packed on disk in the order of their use."""

from aethergraph.packing.epoch import Packing, pack
from aethergraph.packing.store import PackedFeatures, PackedStats

__all__ = ["PackedFeatures", "PackedStats", "Packing", "pack"]
