"""Maps of ids beside a graph file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aethergraph.graph.beside import FilesBeside, path_beside

if TYPE_CHECKING:
    from aethergraph.ids import IdMap

__all__ = ["IdFiles", "ids_path"]


def ids_path(graph: str, name: str) -> str:
    """Return the path of the map of ids of a node type, beside a graph file."""
    return path_beside(graph, name, IdFiles.suffix)


class IdFiles(FilesBeside["IdMap"]):
    """Maps of ids by node type: ``graph.ids["user"].lookup(["u17"])``."""

    suffix, noun, rows, opener = "ids", "maps of ids", "keys", "IdMap.load"

    def _load(self, path: str) -> IdMap:
        from aethergraph.ids import IdMap  # of few graphs: not with every import

        return IdMap.load(path)
