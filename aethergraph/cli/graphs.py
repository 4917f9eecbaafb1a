"""Graphs that a command reads: of a file, or a live graph as it was at a commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aethergraph.cli.live_copies import ARENA_MB
from aethergraph.convert.readers.base import check_readable
from aethergraph.dynamic.history import History
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.storage.live_directory import is_live_directory

__all__ = ["opened"]


@contextmanager
def opened(path: Path, commit: int | None = None) -> Iterator[Any]:
    """Yield a graph that does not change: of one type if it has one, else of several.

    Args:
        path: a graph file, or the directory of a live graph, which another process may write.
        commit: of a live graph, number of the commit in the log; None: the last one.

    Raises:
        MissingFileError, StorageError: there is nothing, or it cannot be read.
        InvalidArgumentError: a commit of a file.
        OutOfRangeError: there is no such commit.
    """
    if is_live_directory(path):
        with History(path, ARENA_MB) as history:
            yield history.last() if commit is None else history.at(commit)
        return
    check_readable(path)
    if commit is not None:
        raise InvalidArgumentError(f"--commit {commit} is for live graphs, and {path} is none")
    with HeteroGraph.load(path) as typed:
        if (len(typed.node_types), len(typed.edge_types)) != (1, 1):
            yield typed
            return
    with Graph.load(path) as plain:
        yield plain
