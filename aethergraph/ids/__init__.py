"""Maps between the keys of a table and the ids of a graph's nodes.

:class:`IdMap` is a file that answers both ways: from strings, integers, UUIDs or several columns
to ids 0 .. N-1, and back. :class:`IdMapBuilder` makes one of more keys than memory holds. Keys that
become more, as those of live graphs do, are in tiers.py.
"""

from __future__ import annotations

from aethergraph.ids.builder import IdMapBuilder
from aethergraph.ids.id_map import IdMap

__all__ = [
    "IdMap",
    "IdMapBuilder",
]
