"""Damage in the directory of a live graph that nobody has open: found, and cut off."""

from __future__ import annotations

from typing import Any, NamedTuple

from aethergraph import _native as native
from aethergraph.dynamic.base_graph import check_fingerprint
from aethergraph.dynamic.directory import LiveDirectory, commits
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.ids import IdMap

__all__ = ["Truncated", "truncate_log", "verify_directory"]


def verify_directory(path: native.Path, progress: native.Progress | None = None) -> str:
    """Read base, rows and log of a live graph and compare their checksums; return what was read.

    Nothing is written, and the file system may be read-only. Nobody may have the graph open for
    writing.

    Args:
        path: the directory.
        progress: called with (done, total) for each file.

    Raises:
        CorruptFileError: a file is damaged, or missing; names it and the place.
        FileChangedError: the graph was made over another file than the one that is there.
        UnsupportedError: a process writes the graph; names it.
    """
    directory = LiveDirectory(path)
    directory.description()
    current, names = directory.current(), list[str]()
    directory.lock_to_read()
    try:
        base = current["base"]
        if base is not None:
            with HeteroGraph.load(directory.path / base) as graph:
                check_fingerprint(graph, current.get("fingerprint"))
                graph.verify(progress)
            names.append(base)
        for file in current.get("ids", {}).values():
            with IdMap.load(directory.path / file) as ids:
                ids.verify(progress)
            names.append(file)
        for file in directory.tables(base):
            with FeatureTable.load(directory.path / file) as rows:
                rows.verify(progress)
            names.append(file)
        last = _verify_log(directory, current)
    finally:
        directory.unlock()
    names.append(f"the log up to commit {last}")
    return ", ".join(names)


def _verify_log(directory: LiveDirectory, current: dict[str, Any]) -> int:
    last = native.verify_journal(str(directory.path), directory.uuid, int(current["lsn"]) + 1)
    directory.check_end(current, last)
    return last


class Truncated(NamedTuple):
    """End of a log that was cut, and what it gave up.

    Attributes:
        last: number of the last commit that is left.
        aside: names of the files that were put aside.
        lost: number of the last commit that is known to be given up; None: of none it is known.
    """

    last: int
    aside: list[str]
    lost: int | None

    def __str__(self) -> str:
        lost = "any commits after it"
        if self.lost is not None:
            lost = f"{commits(self.last + 1, self.lost)}, and any after"
        aside = f"; put aside: {', '.join(self.aside)}" if self.aside else ""
        return f"the log ends at commit {self.last} now; given up: {lost}{aside}"


def truncate_log(path: native.Path) -> Truncated | None:
    """Let the log of a live graph end before its first damage, so that the graph opens again.

    What comes after is lost to the graph. The files of the log that change or go are kept as they
    were, under names with ``.cut-`` and a number at the end. A log without damage stays as it is.

    Args:
        path: the directory.

    Returns:
        What was given up; None: nothing.

    Raises:
        UnsupportedError: a process writes the graph; names it.
    """
    directory = LiveDirectory(path)
    directory.lock()
    try:
        current = directory.current()
        before = set(directory.path.glob("*.cut-*"))
        last = native.truncate_journal(str(directory.path), directory.uuid, int(current["lsn"]) + 1)
        closed = int(current.get("closed", 0))
        lost = closed if last < closed else None
        if lost is not None:
            directory.write_json("CURRENT", {**current, "closed": last})
    finally:
        directory.unlock()
    aside = sorted(file.name for file in set(directory.path.glob("*.cut-*")) - before)
    return None if lost is None and not aside else Truncated(last, aside, lost)
