"""Files of columns beside a graph file."""

from __future__ import annotations

from aethergraph.columns import ColumnStore
from aethergraph.graph.beside import FilesBeside, path_beside

__all__ = ["ColumnFiles", "columns_path"]


def columns_path(graph: str, name: str) -> str:
    """Return the path of the file of columns of a node type, beside a graph file."""
    return path_beside(graph, name, ColumnFiles.suffix)


class ColumnFiles(FilesBeside[ColumnStore]):
    """Columns by node type: ``graph.columns["user"].gather(ids)``."""

    suffix, what, rows, opener = "columns", "files of columns", "rows", "ColumnStore.load"

    def _load(self, path: str) -> ColumnStore:
        return ColumnStore.load(path)
