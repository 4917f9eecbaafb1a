"""``aethergraph export``: rows with the keys of a map, a graph file or a live graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.commands import ae, said

from aethergraph import DynamicGraph, HeteroGraph


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("names.csv").write_text("ann,bob\nbob,cy\n")
    ae("convert", "-i", "names.csv", "-o", "friends.aeg", "--ids", "string", "--no-header")
    np.save("h.npy", np.eye(3))
    return tmp_path


def test_keys_of_maps_and_graphs(folder: Path) -> None:
    with DynamicGraph.open("live", ids="str", arena_mb=16) as graph:
        graph.ids.add(["ann", "bob", "cy"])
        first = graph.lsn
        graph.ids.add(["dan"])
    for ids in (["friends.aeg"], ["friends.node.ids"], ["live", "--commit", first]):
        told = said("export", "h.npy", "h.parquet", "--ids", *ids, "--key", "person", "--force")
        assert told.startswith("h.parquet: 3 rows, ")
        table = pq.read_table("h.parquet")
        assert table["person"].to_pylist() == ["ann", "bob", "cy"]
        assert table["vector"].to_pylist() == np.eye(3).tolist()
    ae("export", "h.npy", "h.arrow", "--column", "h")
    told = said("export", "h.npy", "x.parquet", "--ids", "live", code=2)
    assert "rows has 3 rows, but ids has 4 keys" in told


def test_mistakes_are_one_line(folder: Path) -> None:
    HeteroGraph.from_edges({("a", "to", "b"): ([0], [0])}).save("typed.aeg")
    Path("old.parquet").touch()
    for args, code, message in (
        (("none.npy", "h.parquet"), 1, "none.npy: no such file"),
        (("h.npy", "h.csv"), 2, "output = 'h.csv' ends neither in .parquet nor"),
        (("h.npy", "old.parquet"), 1, "old.parquet: exists already; --force overwrites it"),
        (("h.npy", "h.parquet", "--ids", "none"), 1, "none: no such file"),
        (("h.npy", "h.parquet", "--ids", "typed.aeg"), 2, "typed.aeg has several types of nodes"),
        (("h.npy", "h.parquet", "--ids", "friends.aeg", "--commit", 1), 2, "is for live graphs"),
        (("h.npy", "h.parquet", "--column", "node"), 2, "--column = 'node' is the name of the"),
    ):
        assert message in said("export", *args, code=code)
    assert not Path("h.parquet").exists()
