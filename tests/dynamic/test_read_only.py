"""Live directories on file systems that cannot be written to: backups, snapshots of a volume."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.disks import read_only

from aethergraph import DynamicGraph, errors
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.history import History
from aethergraph.dynamic.repair import truncate_log, verify_directory

pytestmark = pytest.mark.any_python


def make(path: Path) -> DynamicGraph:
    """A graph with a base of its first commit, and a second one in the log."""
    graph = DynamicGraph.open(path, 6, 16, huge_pages=False)
    graph.insert_edges([0, 1, 2], [1, 2, 3])
    graph.merge()
    graph.insert_edge(3, 4)
    return graph


def test_it_is_read_where_it_is(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    with read_only(tmp_path / "g", tmp_path / "backup") as path:
        assert LiveDirectory(path).info()["writer"] == os.getpid()  # seen through another mount
        with pytest.raises(errors.UnsupportedError, match=f"by process {os.getpid()}"):
            verify_directory(path)
        graph.close()
        assert LiveDirectory(path).info()["writer"] is None
        assert verify_directory(path) == "gen-000001.aeg, the log up to commit 2"
        with History(path) as history:
            assert history.last().num_edges == 4
        for name in ("LOCK", "wal.lock"):  # which a backup may have left out
            (tmp_path / "g" / name).unlink()
        assert LiveDirectory(path).info()["writer"] is None
        assert verify_directory(path) == "gen-000001.aeg, the log up to commit 2"


def test_what_writes_names_a_way_out(tmp_path: Path) -> None:
    make(tmp_path / "g").close()
    with read_only(tmp_path / "g", tmp_path / "backup") as path:
        for call in (DynamicGraph.open, truncate_log):
            with pytest.raises(errors.StorageError, match="copy the directory") as raised:
                call(path)
            assert str(path) in str(raised.value)
    DynamicGraph.open(tmp_path / "g").close()


def test_a_reader_keeps_writers_away(tmp_path: Path) -> None:
    make(tmp_path / "g").close()
    with read_only(tmp_path / "g", tmp_path / "backup") as path:
        reader = LiveDirectory(path)
        reader.lock_to_read()
        with pytest.raises(errors.UnsupportedError, match="is being written"):
            DynamicGraph.open(tmp_path / "g")
        reader.unlock()
    DynamicGraph.open(tmp_path / "g").close()
