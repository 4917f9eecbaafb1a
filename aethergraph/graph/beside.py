"""Files beside a graph file, one for each node type, opened when they are asked for.

A graph names the files that were made with it by their fingerprints, and these say that a graph
does. So a graph file that takes the place of another believes nothing of the former's, also where
the computer failed before :class:`GraphFile` deleted that.

``shop.aeg`` and ``shop.bak`` have the same names beside them: a file there is of the graph that
names it, and nothing that is written for the other one deletes or replaces it.
"""

from __future__ import annotations

import errno
import os
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from aethergraph import _native as native
from aethergraph._checks.options import is_name
from aethergraph.errors import (
    AetherError,
    FileChangedError,
    MissingFileError,
    MissingNameError,
    StorageError,
)
from aethergraph.graph.typed_edges import unknown_type
from aethergraph.storage.meta import FileMeta, SectionTable, write_meta
from aethergraph.storage.opening import open_container

__all__ = [
    "FilesBeside",
    "GraphFile",
    "check_made_with",
    "check_not_of_another",
    "fingerprint_of",
    "in_another_order",
    "path_beside",
    "sections_of",
]

#: Before the fingerprints of files that go by the order of before nodes were moved, and alone where
#: there were none.
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


def in_another_order(
    side_files: Mapping[str, str], types: Iterable[str], path: str | None
) -> dict[str, str]:
    """Return what a graph knows of the files beside it once nodes of ``types`` were moved.

    Args:
        side_files: what it knew before.
        types: the node types.
        path: path of the graph; None: it has none.
    """
    moved = dict(side_files)
    for name in types:
        for suffix in _SUFFIXES:
            file = f"{name}.{suffix}"
            known = _MOVED + side_files.get(file, "").lstrip(_MOVED)
            moved[file] = known if path is None else _with_file_there(known, path, file)
    return moved


def _with_file_there(known: str, graph: str, file: str) -> str:
    """Add the file that lies beside a graph to those that go by a former order."""
    with suppress(AetherError, OSError, ValueError):  # none of ours is there
        fingerprint = fingerprint_of(_path_of(graph, file))
        if fingerprint not in known.split(_MOVED):
            return known.rstrip(_MOVED) + _MOVED + fingerprint
    return known


def _path_of(graph: str, file: str) -> str:
    """Return the path of a file beside a graph, which knows it as ``user.ids``."""
    name, _, suffix = file.rpartition(".")
    return path_beside(graph, name, suffix)


def _known_beside(graph: str) -> Mapping[str, str]:
    """Return what a graph file knows of the files beside it; nothing if it is none."""
    with suppress(AetherError):
        return sections_of(graph).meta.beside
    return {}


def _other_owner(
    graph: str, file: str, fingerprint: str, *, moved: bool = False
) -> str | None:  # fmt: skip
    """Return the path of a graph with the same names beside it that names one of them.

    ``moved``: or one that knows it as of a former order of its nodes.
    """
    path = Path(graph)
    for candidate in sorted(path.parent.iterdir()):
        has_same = candidate.with_suffix("") == path.with_suffix("") and candidate.name != path.name
        if has_same and candidate.is_file():
            known = _known_beside(str(candidate)).get(file, "")
            if known == fingerprint or (moved and fingerprint in known.split(_MOVED)):
                return str(candidate)
    return None


def check_not_of_another(graph: str, name: str, suffix: str) -> None:
    """Raise StorageError if the file of a node type is of another graph with the same names beside.

    Args:
        graph: path of the graph that is written.
        name: the node type.
        suffix: end of the name of the file.
    """
    path, owner = path_beside(graph, name, suffix), None
    with suppress(AetherError, OSError, ValueError):  # it is no file of a graph
        owner = _other_owner(graph, f"{name}.{suffix}", fingerprint_of(path))
    if owner is not None:
        raise StorageError(
            errno.EEXIST,
            f"{path}: is of {owner}, and {graph} would need a file of the same name: give one of "
            "the two graphs another name before the dot",
            path,
        )


def check_made_with(graph: str, name: str, suffix: str) -> None:
    """Raise StorageError if the file of a node type was not made with the graph that is replaced.

    Arguments are those of :func:`check_not_of_another`.
    """
    check_not_of_another(graph, name, suffix)
    path = path_beside(graph, name, suffix)
    if not os.path.lexists(path):
        return
    with suppress(AetherError):
        table = sections_of(path)
        is_known = table.short_fingerprint() == _known_beside(graph).get(f"{name}.{suffix}")
        if is_known or (table.meta.of_graph and os.path.exists(graph)):
            return
    raise StorageError(
        errno.EEXIST,
        f"{path}: exists already, and was not made with {graph}: move it away, or give the graph "
        "another name",
        path,
    )


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
    but for those of which the new one, or another graph beside it, knows. Where nodes were moved,
    what lay beside a graph there before goes by another order.
    """

    __slots__ = ("_meta",)

    def __init__(
        self, path: native.Path, meta: FileMeta, files: native.FileSet | None = None
    ) -> None:
        super().__init__(path, native.CONTENT_GRAPH, files)
        side_files = dict(meta.beside)
        if any(known.startswith(_MOVED) for known in side_files.values()) and os.path.exists(
            self.path
        ):
            former = _known_beside(self.path)
            for file, known in meta.beside.items():
                before = former.get(file, "")
                # What the former graph names is deleted; equal ones are of the same moved graph.
                if known.startswith(_MOVED) and before[:1] in ("", _MOVED) and before != known:
                    side_files[file] = _with_file_there(known, self.path, file)
        self._meta = replace(meta, beside=side_files)
        try:
            write_meta(self, self._meta)
        except BaseException:  # nobody has this object yet, to give up the file that was begun
            self.abort()
            raise

    def commit(self) -> None:
        """Make the file durable, put it in place, and delete what the former one was made with."""
        former = _known_beside(self.path)
        super().commit()
        for file, fingerprint in former.items():
            known, suffix = self._meta.beside.get(file, _MOVED), file.rpartition(".")[2]
            is_known = not known.startswith(_MOVED) or fingerprint in known.split(_MOVED)
            if is_known or suffix not in _SUFFIXES:
                continue
            with suppress(AetherError, OSError, ValueError):  # what is left there is not believed
                path = _path_of(self.path, file)
                if fingerprint_of(path) != fingerprint:
                    continue
                if _other_owner(self.path, file, fingerprint, moved=True) is None:
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
    noun: str
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
                f"{self.suffix}: {self.noun} lie beside the file of a graph, and this graph was "
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
        fingerprint = table.short_fingerprint()
        if known == fingerprint:
            return
        is_moved = known is not None and known.startswith(_MOVED)
        if known is not None and is_moved and fingerprint in known.split(_MOVED):
            raise FileChangedError(
                errno.ESTALE,
                f"{file}: goes by the order of before nodes of type {name!r} of "
                f"{self._path} were put into another one: open it with {self.opener}, and take "
                "the ids that it knows from the attribute node_ids; a file for the new order gets "
                "this name once the graph is saved",
                file,
            )
        if known is not None and not is_moved:
            raise FileChangedError(
                errno.ESTALE,
                f"{file}: is not the file that {self._path} was built with, but of "
                "another build: build both again, or open the graph again if that is done",
                file,
            )
        owner = self._owner(name, file)
        if owner is not None:
            raise MissingCompanionError(
                errno.ENOENT,
                f"{file}: is of {owner}, which has the same names beside it as {self._path}: this "
                "graph has none",
                file,
            )
        if table.meta.of_graph:
            raise FileChangedError(
                errno.ESTALE,
                f"{file}: was made with another graph than {self._path}, which does not name it: "
                f"delete it, or open it with {self.opener} if it is still of use",
                file,
            )

    def _is_there(self, name: str) -> bool:
        """Return whether a node type has a file, which is not of another graph."""
        assert self._path is not None
        path = path_beside(self._path, name, self.suffix)
        return os.path.exists(path) and self._owner(name, path) is None

    def _owner(self, name: str, path: str) -> str | None:
        """Return the path of another graph that a file is of; None: no other."""
        assert self._path is not None
        file = f"{name}.{self.suffix}"
        with suppress(AetherError, OSError):  # opening it says what is wrong
            fingerprint = fingerprint_of(path)
            if fingerprint not in self._known.get(file, "").split(_MOVED):
                return _other_owner(self._path, file, fingerprint)
        return None

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        return iter(()) if self._path is None else filter(self._is_there, self._counts)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self)})"
