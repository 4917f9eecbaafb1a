"""Files of columns beside a graph file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aethergraph.graph.beside import FilesBeside, path_beside

if TYPE_CHECKING:
    from aethergraph.columns import ColumnStore

__all__ = ["ColumnFiles", "columns_path"]


def columns_path(graph: str, name: str) -> str:
    """Return the path of the file of columns of a node type, beside a graph file."""
    return path_beside(graph, name, ColumnFiles.suffix)


class ColumnFiles(FilesBeside["ColumnStore"]):
    """Columns by node type: ``graph.columns["user"].gather(ids)``."""

    suffix, noun, rows, opener = "columns", "files of columns", "rows", "ColumnStore.load"

    def _load(self, path: str) -> ColumnStore:
        from aethergraph.columns import ColumnStore  # of few graphs: not with every import

        return ColumnStore.load(path)
