"""``aethergraph export``: rows with the keys of a map, a graph file or a live graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.commands import ae, said

from aethergraph import DynamicGraph, DynamicHeteroGraph, HeteroGraph


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


def test_nearest(folder: Path) -> None:
    np.save("h.npy", np.array([[1, 0], [0, 3], [4, 1]]))
    near = f"{4 / np.hypot(4, 1):.4f}"
    done = ae("nearest", "h.npy", "ann", "bob", "--ids", "friends.aeg", "-k", 2)
    assert done.stdout.splitlines() == [
        "ann\tann\t1.0000", f"ann\tcy\t{near}", "bob\tbob\t1.0000",
        f"bob\tcy\t{1 / np.hypot(4, 1):.4f}",
    ]  # fmt: skip
    assert ae("nearest", "h.npy", "0", "--dot", "-k", 1).stdout == "0\t2\t4.0000\n"
    told = said("nearest", "h.npy", "ann", code=2)
    assert "KEYS: invalid literal for int() with base 10: 'ann': give numbers of nodes, or" in told
    assert "'eve'" in said("nearest", "h.npy", "eve", "--ids", "friends.aeg", code=1)


def test_a_type_of_many(folder: Path) -> None:
    """Files that embed has written are called after their type."""
    Path("people.csv").write_text("id,town\nann,x/1\nbob,y\n")
    Path("p.toml").write_text(
        '[nodes.person]\nfrom = "people.csv"\nkey = "id"\nforeign.town = "t/n"\n'
        '[nodes."t/n"]\nfrom = "people.csv"\nkey = "town"\n'
    )
    ae("tables", "p.toml", "-o", "p.aeg")
    with DynamicHeteroGraph.open(
        "live",
        {"person": 0, "t/n": 0},
        [("person", "in", "t/n")],
        ids={"person": "str", "t/n": "str"},
        arena_mb=16,
    ) as graph:
        graph.ids["person"].add(["ann", "bob"])
        graph.ids["t/n"].add(["x/1", "y"])
    Path("out").mkdir()
    for name in ("person", "t%2Fn", "rows"):
        np.save(f"out/{name}.npy", np.eye(2))
    for graph_path in ("p.aeg", "live"):
        for name, keys, *options in (
            ("person", ["ann", "bob"]), ("t%2Fn", ["x/1", "y"]),
            ("rows", ["x/1", "y"], "--type", "t/n"),
        ):  # fmt: skip
            call = ("export", f"out/{name}.npy", "o.parquet", "--ids", graph_path, *options, "-f")
            ae(*call)
            assert pq.read_table("o.parquet")["key"].to_pylist() == keys
    told = said("export", "out", "h.parquet", code=2)
    assert told.endswith("which has the rows of a type, such as out/person.npy")


def test_mistakes_are_one_line(folder: Path) -> None:
    HeteroGraph.from_edges({("a", "to", "b"): ([0], [0])}).save("typed.aeg")
    Path("old.parquet").touch()
    Path("out").mkdir()
    for args, code, message in (
        (("none.npy", "h.parquet"), 1, "none.npy: no such file"),
        (("h.npy", "h.csv"), 2, "output = 'h.csv' ends neither in .parquet nor"),
        (("h.npy", "old.parquet"), 1, "old.parquet: exists already; --force overwrites it"),
        (("h.npy", "h.parquet", "--ids", "none"), 1, "none: no such file"),
        (("h.npy", "h.parquet", "--ids", "typed.aeg"), 2,
         "h.npy has the name of none of the types of nodes in typed.aeg: give --type, of a, b"),
        (("h.npy", "h.parquet", "--ids", "typed.aeg", "--type", "c"), 2, "'c' is none of the type"),
        (("h.npy", "h.parquet", "--ids", "friends.aeg", "--type", "c"), 2, "--type c: friends.aeg"),
        (("h.npy", "h.parquet", "--ids", "friends.node.ids", "--type", "c"), 2, "of one type of n"),
        (("h.npy", "h.parquet", "--type", "c"), 2, "--type c is of --ids: leave it out, or give"),
        (("out", "h.parquet"), 2, "out is a folder: give a file of it, which has the rows of a t"),
        (("h.npy", "h.parquet", "--ids", "friends.aeg", "--commit", 1), 2, "is for live graphs"),
        (("h.npy", "h.parquet", "--column", "node"), 2, "--column = 'node' is the name of the"),
    ):  # fmt: skip
        assert message in said("export", *args, code=code)
    assert not Path("h.parquet").exists()
