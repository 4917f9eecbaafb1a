"""Edges and features from files into graph files.

:func:`read_edges` and :func:`iter_edges` parse edge lists.
"""

from __future__ import annotations

from aethergraph.build.readers import AttrSpec, EdgeChunk, EdgeTable, iter_edges, read_edges
from aethergraph.build.source import InputError

__all__ = ["AttrSpec", "EdgeChunk", "EdgeTable", "InputError", "iter_edges", "read_edges"]
