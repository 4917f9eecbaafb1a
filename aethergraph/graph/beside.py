"""Files beside a graph file, one for each node type, opened when they are asked for.

A graph names the files that were made with it by their fingerprints, and these say that a graph
does. So a graph file that takes the place of another believes nothing of the former's, also where
the computer failed before :class:`GraphFile` deleted that.
"""

from __future__ import annotations

import errno
import os
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from aethergraph import _native as native
from aethergraph._checks.options import is_name
from aethergraph.errors import AetherError, FileChangedError, MissingFileError, MissingNameError
from aethergraph.graph.typed_edges import unknown_type
from aethergraph.storage.meta import FileMeta, SectionTable, write_meta
from aethergraph.storage.opening import open_container

__all__ = [
    "FilesBeside",
    "GraphFile",
    "fingerprint_of",
    "in_another_order",
    "path_beside",
    "sections_of",
]

#: Before the fingerprint of a file that goes by the order of before nodes were moved.
_MOVED = "!"
#: Ends of the names of files that are made with a graph.
_SUFFIXES = ("ids", "columns")


class _Rows(Protocol):
    path: str

    def __len__(self) -> int: ...


T = TypeVar("T", bound=_Rows)


class MissingCompanionError(MissingFileError, MissingNameError):
    """A node type has no file."""


def path_beside(graph: str, name: str, suffix: str) -> str:
    """Return the path of the file of a node type: ``shop.user.ids`` beside ``shop.aeg``."""
    return f"{Path(graph).with_suffix('')}.{urllib.parse.quote(name, safe=' ')}.{suffix}"


def in_another_order(beside: Mapping[str, str], types: Container[str]) -> dict[str, str]:
    """Return what a graph knows of the files beside it once nodes of ``types`` were moved."""
    return {
        file: _MOVED + known.lstrip(_MOVED) if file.rpartition(".")[0] in types else known
        for file, known in beside.items()
    }


def sections_of(path: str) -> SectionTable:
    """Return the description of a container file and of its sections."""
    file = open_container(path)
    try:
        return SectionTable(file, file.content)
    finally:
        file.close()


def fingerprint_of(path: str) -> str:
    """Return what tells the content of a container file from that of any other."""
    return sections_of(path).short_fingerprint()


class GraphFile(native.NativeWriter):
    """Writer of a graph file, whose description it begins with.

    Once the file is in place, it deletes the files that a graph file there before was made with,
    but for those of which the new one knows.
    """

    __slots__ = ("_meta",)

    def __init__(
        self, path: native.Path, meta: FileMeta, files: native.FileSet | None = None
    ) -> None:
        super().__init__(path, native.CONTENT_GRAPH, files)
        self._meta = meta
        write_meta(self, meta)

    def commit(self) -> None:
        """Make the file durable, put it in place, and delete what the former one was made with."""
        former: Mapping[str, str] = {}
        with suppress(AetherError):  # there is none, or it is no graph
            former = sections_of(self.path).meta.beside
        super().commit()
        for file, fingerprint in former.items():
            name, _, suffix = file.rpartition(".")
            if file in self._meta.beside or suffix not in _SUFFIXES:
                continue
            with suppress(AetherError, OSError, ValueError):  # what is left there is not believed
                path = path_beside(self.path, name, suffix)
                if fingerprint_of(path) == fingerprint:
                    os.unlink(path)


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
        if not is_name(name) or name not in self._counts:
            raise unknown_type(self.suffix, name, self._counts)
        if self._path is None:
            raise MissingNameError(
                f"{self.suffix}: {self.what} lie beside the file of a graph, and this graph was "
                f"not loaded from one; open one with {self.opener}"
            )
        if name not in self._open:
            try:
                opened = self._load(path_beside(self._path, name, self.suffix))
            except MissingFileError as error:
                raise MissingCompanionError(*error.args) from None
            self._check(name, opened)
            self._open[name] = opened
        return self._open[name]

    def _check(self, name: str, opened: T) -> None:
        """Raise FileChangedError if a file is of another graph, or of nodes in another order."""
        file, count = opened.path, self._counts[name]
        if len(opened) != count:
            raise FileChangedError(
                errno.ESTALE,
                f"{file}: has {len(opened):,} {self.rows}, but {self._path} has {count:,} nodes "
                f"of type {name!r}: it is of another graph",
                file,
            )
        table, known = sections_of(file), self._known.get(f"{name}.{self.suffix}")
        if known == table.short_fingerprint():
            return
        if known == _MOVED + table.short_fingerprint():
            raise FileChangedError(
                errno.ESTALE,
                f"{file}: goes by the order of before nodes of type {name!r} of "
                f"{self._path} were put into another one: open it with {self.opener}, and take "
                "the ids that it knows from the attribute node_ids",
                file,
            )
        if known is not None and not known.startswith(_MOVED):
            raise FileChangedError(
                errno.ESTALE,
                f"{file}: is not the file that {self._path} was built with, but of "
                "another build: build both again, or open the graph again if that is done",
                file,
            )
        if table.meta.of_graph:
            raise FileChangedError(
                errno.ESTALE,
                f"{file}: was made with another graph than {self._path}, which does not name it: "
                f"delete it, or open it with {self.opener} if it is still of use",
                file,
            )

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
