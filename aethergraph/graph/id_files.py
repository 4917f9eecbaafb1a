"""Maps of ids beside a graph file: where they are, and opening them when they are asked for."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

from aethergraph.errors import FileChangedError, InvalidArgumentError
from aethergraph.ids import IdMap

__all__ = ["IdFiles", "ids_path"]


def ids_path(graph: str, name: str) -> str:
    """Return the path of the map of ids of a node type, beside a graph file."""
    return f"{Path(graph).with_suffix('')}.{urllib.parse.quote(name, safe=' ')}.ids"


class IdFiles(Mapping[str, IdMap]):
    """Maps of ids by node type: ``graph.ids["user"].lookup(["u17"])``.

    Each is opened when it is first asked for. Node types without a file are not in the mapping.

    Args:
        path: path of the graph file; None: the graph has none.
        counts: number of nodes by type.
    """

    def __init__(self, path: str | None, counts: Mapping[str, int]) -> None:
        self._path = path
        self._counts = dict(counts)
        self._open: dict[str, IdMap] = {}

    def __getitem__(self, name: str) -> IdMap:
        if name not in self._counts:
            known = ", ".join(map(repr, self._counts))
            raise InvalidArgumentError(f"ids: {name!r} is not in the graph; there are: {known}")
        if self._path is None:
            raise InvalidArgumentError(
                "ids: maps of ids lie beside the file of a graph, and this graph was not loaded "
                "from one; open one with IdMap.load"
            )
        if name not in self._open:
            found = IdMap.load(ids_path(self._path, name))
            if len(found) != self._counts[name]:
                raise FileChangedError(
                    116,
                    f"{found.path}: has {len(found):,} keys, but {self._path} has "
                    f"{self._counts[name]:,} nodes of type {name!r}: it is of another graph",
                    found.path,
                )
            self._open[name] = found
        return self._open[name]

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        if self._path is None:
            return iter(())
        path = self._path
        return (name for name in self._counts if Path(ids_path(path, name)).exists())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"IdFiles({', '.join(self)})"
