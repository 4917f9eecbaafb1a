"""Graph files of live graphs: for ``aethergraph convert``, and for what reads files alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aethergraph.cli.terminal import Stages
from aethergraph.convert.outputs import check_outputs
from aethergraph.convert.readers.base import check_readable
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.history import History
from aethergraph.dynamic.merge import MEMORY
from aethergraph.errors import InvalidArgumentError
from aethergraph.storage.live_directory import is_live_directory

__all__ = ["ARENA_MB", "as_file", "save_live"]

#: MiB of address space for the edges of the log; memory is taken as it is used.
ARENA_MB = 32 << 10


def save_live(
    path: Path, output: Path, stages: Stages, *, force: bool = False, **options: Any
) -> int:
    """Write the last commit of a live graph into a graph file; return its number in the log.

    The directory is read only, and another process may go on writing it.

    Args:
        path: the directory.
        output: the file.
        stages: shows the progress.
        force: overwrite the file.
        options: see :meth:`Snapshot.save`.
    """
    check_outputs([str(output)], [str(path)], force)
    with History(path, ARENA_MB) as history:
        last = history.last()
        last.save(output, progress=stages("Writing", "B"), **options)
        return last.lsn


@contextmanager
def as_file(path: Path, stages: Stages) -> Iterator[Path]:
    """Yield a graph file: ``path``, or a copy of the live graph there, which goes afterwards.

    Raises:
        MissingFileError: there is nothing at ``path``.
        InvalidArgumentError: a live graph of many types.
    """
    if not is_live_directory(path):
        if not path.exists():
            check_readable(path)  # says so as other commands do
        yield path
        return
    if list(LiveDirectory(path).description()["num_nodes"]) != ["node"]:
        raise InvalidArgumentError(
            f"{path} is a live graph of many types: aethergraph info shows what it has"
        )
    with tempfile.TemporaryDirectory(prefix="aethergraph-") as folder:
        copy = Path(folder) / "graph.aeg"
        save_live(path, copy, stages, memory=MEMORY)
        yield copy
