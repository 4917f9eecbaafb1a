"""Files beside a graph file, one for each node type, opened when they are asked for."""

from __future__ import annotations

import errno
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from aethergraph.errors import FileChangedError, InvalidArgumentError
from aethergraph.storage.meta import SectionTable
from aethergraph.storage.opening import open_container

__all__ = ["FilesBeside", "fingerprint_of", "in_another_order", "path_beside"]

#: Before the fingerprint of a file that goes by the order of before nodes were moved.
_MOVED = "!"


class _Rows(Protocol):
    path: str

    def __len__(self) -> int: ...


T = TypeVar("T", bound=_Rows)


def path_beside(graph: str, name: str, suffix: str) -> str:
    """Return the path of the file of a node type: ``shop.user.ids`` beside ``shop.aeg``."""
    return f"{Path(graph).with_suffix('')}.{urllib.parse.quote(name, safe=' ')}.{suffix}"


def in_another_order(beside: Mapping[str, str], types: Container[str]) -> dict[str, str]:
    """Return what a graph knows of the files beside it once nodes of ``types`` were moved."""
    return {
        file: _MOVED + known.lstrip(_MOVED) if file.rpartition(".")[0] in types else known
        for file, known in beside.items()
    }


def fingerprint_of(path: str) -> str:
    """Return what tells the content of a container file from that of any other."""
    file = open_container(path)
    try:
        return SectionTable(file, file.content).short_fingerprint()
    finally:
        file.close()


class FilesBeside(Mapping[str, T], ABC):
    """Files of one kind by node type; types without a file are not in the mapping.

    Args:
        path: path of the graph file; None: the graph has none.
        counts: number of nodes by type.
        known: fingerprints of the files that the graph was built with ("user.ids").
    """

    #: Suffix of the files, what they are, what they have for each node, and how to open one.
    suffix: str
    what: str
    rows: str
    opener: str

    def __init__(
        self, path: str | None, counts: Mapping[str, int], known: Mapping[str, str]
    ) -> None:
        self._path = path
        self._known = known
        self._counts = dict(counts)
        self._open: dict[str, T] = {}

    @abstractmethod
    def _load(self, path: str) -> T:
        """Open a file."""

    def __getitem__(self, name: str) -> T:
        if name not in self._counts:
            known = ", ".join(map(repr, self._counts))
            raise InvalidArgumentError(
                f"{self.suffix}: {name!r} is not in the graph; there are: {known}"
            )
        if self._path is None:
            raise InvalidArgumentError(
                f"{self.suffix}: {self.what} lie beside the file of a graph, and this graph was "
                f"not loaded from one; open one with {self.opener}"
            )
        if name not in self._open:
            found = self._load(path_beside(self._path, name, self.suffix))
            if len(found) != self._counts[name]:
                raise FileChangedError(
                    116,
                    f"{found.path}: has {len(found):,} {self.rows}, but {self._path} has "
                    f"{self._counts[name]:,} nodes of type {name!r}: it is of another graph",
                    found.path,
                )
            expected = self._known.get(f"{name}.{self.suffix}")
            if expected is not None and expected.startswith(_MOVED):
                if fingerprint_of(found.path) != expected.lstrip(_MOVED):
                    self._open[name] = found  # made for the new order
                    return found
                raise FileChangedError(
                    errno.ESTALE,
                    f"{found.path}: goes by the order of before nodes of type {name!r} of "
                    f"{self._path} were put into another one: open it with {self.opener}, and take "
                    "the ids that it knows from the attribute node_ids",
                    found.path,
                )
            if expected is not None and fingerprint_of(found.path) != expected:
                raise FileChangedError(
                    116,
                    f"{found.path}: is not the file that {self._path} was built with, but of "
                    "another build: build both again, or open the graph again if that is done",
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
        return (n for n in self._counts if Path(path_beside(path, n, self.suffix)).exists())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self)})"
