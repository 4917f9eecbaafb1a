"""What lies beside a graph of tables is of the same build, or is refused."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aethergraph import Graph, HeteroGraph
from aethergraph.cli.app import app
from aethergraph.convert import NodeTable, Schema, convert, reorder, tables
from aethergraph.errors import FileChangedError, InvalidArgumentError
from aethergraph.ids import IdMap

PEOPLE = """
reverse = false
[nodes.person]
from = "people.csv"
key = "id"
features = ["age"]
columns = {age = "number"}
foreign.boss = "person"
"""


@pytest.fixture
def builds(tmp_path: Path) -> list[Path]:
    """Two builds of the same people in another order, in a folder each."""
    rows = ["ann,1,", "bob,2,ann"]
    for name, order in (("a", rows), ("b", rows[::-1])):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "people.toml").write_text(PEOPLE)
        (folder / "people.csv").write_text("\n".join(["id,age,boss", *order]) + "\n")
        tables(folder / "people.toml", folder / "people.aeg")
    return [tmp_path / "a", tmp_path / "b"]


@pytest.mark.parametrize("kind", ["ids", "columns"])
def test_files_of_another_build_are_refused(builds: list[Path], kind: str) -> None:
    one, other = builds
    opened = HeteroGraph.load(one / "people.aeg")  # before: what lies beside is lazy
    name = f"people.person.{kind}"
    shutil.copy(other / name, one / name)
    for graph in (opened, HeteroGraph.load(one / "people.aeg")):
        files = graph.ids if kind == "ids" else graph.columns
        with pytest.raises(FileChangedError, match=rf"{name}: is not the file that .* built with"):
            files["person"]
    result = CliRunner().invoke(app, ["verify", str(one / "people.aeg")])
    assert result.exit_code == 1 and "another build" in str(result.stderr)


def test_a_rebuild_takes_the_old_files_place(builds: list[Path]) -> None:
    one, other = builds
    old = HeteroGraph.load(one / "people.aeg")
    shutil.copy(other / "people.csv", one / "people.csv")
    tables(one / "people.toml", one / "people.aeg", force=True)
    with pytest.raises(FileChangedError, match="open the graph again"):
        _ = old.ids["person"]
    graph = HeteroGraph.load(one / "people.aeg")
    assert graph.ids["person"].keys([0]) == ["bob"]
    assert graph.columns["person"].gather([0])["age"].tolist() == [2]


def test_so_does_a_graph_of_one_type(tmp_path: Path) -> None:
    for name, edge in (("a", "x,y"), ("b", "y,x")):
        (tmp_path / f"{name}.csv").write_text(f"src,dst\n{edge}\n")
        convert(tmp_path / f"{name}.csv", tmp_path / f"{name}.aeg", ids="string")
    assert Graph.load(tmp_path / "a.aeg").ids.keys([0]) == ["x"]
    shutil.copy(tmp_path / "b.node.ids", tmp_path / "a.node.ids")
    with pytest.raises(FileChangedError, match=r"a.node.ids: is not the file"):
        _ = Graph.load(tmp_path / "a.aeg").ids


def test_verify_and_info_know_what_lies_beside(builds: list[Path]) -> None:
    folder = builds[0]
    verify = ["verify", str(folder / "people.aeg")]
    found = " ".join(CliRunner().invoke(app, verify).stdout.split())
    assert "2 keys are found by their ids" in found and "checksums of 2 rows are right" in found
    path = folder / "people.person.columns"
    info = CliRunner().invoke(app, ["info", str(path)]).stdout
    assert "columns of several dtypes" in info and "age: number, int64" in info
    assert CliRunner().invoke(app, ["verify", str(path)]).exit_code == 0
    data = bytearray(path.read_bytes())
    data[8192] ^= 1  # the first section behind the description
    path.write_bytes(data)
    for one in (str(path), str(folder / "people.aeg")):
        assert CliRunner().invoke(app, ["verify", one]).exit_code == 1


def test_the_schema_is_an_input(builds: list[Path]) -> None:
    path = builds[0] / "people.toml"
    with pytest.raises(InvalidArgumentError, match="also an input"):
        tables(path, path, force=True)
    assert path.read_text() == PEOPLE


def test_names_that_are_too_long_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    one = NodeTable({"k": [1]}, "k")
    other = NodeTable({"k": [1], "one": [1]}, "k", foreign={"one": "one"})
    with pytest.raises(InvalidArgumentError, match="name of an output is too long"):
        tables(Schema({"one": one, "x" * 300: other}), tmp_path / "g.aeg")
    assert not list(tmp_path.iterdir())


# ---- graphs that are saved again -------------------------------------------------------------


@pytest.mark.parametrize("load", [Graph.load, HeteroGraph.load])
def test_a_saved_copy_keeps_its_names_and_what_lies_beside(builds: list[Path], load: Any) -> None:
    one, other = builds
    path = one / "people.aeg"
    for _ in range(2):
        load(path).save(path)
    assert HeteroGraph.load(path).edge_types == [("person", "boss", "person")]
    assert HeteroGraph.load(path).ids["person"].keys([0]) == ["ann"]
    assert Graph.load(path).ids.keys([0]) == ["ann"]
    shutil.copy(other / "people.person.ids", one / "people.person.ids")
    with pytest.raises(FileChangedError, match="another build"):
        _ = load(path).ids["person"] if load == HeteroGraph.load else load(path).ids


def test_a_pickled_order_keeps_its_names(builds: list[Path]) -> None:
    moved = Graph.load(builds[0] / "people.aeg").permute([1, 0])
    pickle.loads(pickle.dumps(moved)).save(builds[0] / "moved.aeg")
    assert HeteroGraph.load(builds[0] / "moved.aeg").edge_types == [("person", "boss", "person")]


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize("typed", [False, True])
def test_nodes_in_another_order_have_no_map(builds: list[Path], typed: bool, pickled: bool) -> None:
    path = builds[0] / "people.aeg"
    moved: Any
    if typed:
        moved = HeteroGraph.load(path).permute({"person": [1, 0]})
    else:
        moved = Graph.load(path).permute([1, 0])
    if pickled:
        moved = pickle.loads(pickle.dumps(moved))
    if typed:
        moved = moved.with_attrs({}, {})
    moved.save(path)
    for files in (HeteroGraph.load(path).ids, HeteroGraph.load(path).columns):
        with pytest.raises(FileChangedError, match=r"people\.person\..*the order of before"):
            files["person"]
    with pytest.raises(FileChangedError, match="node_ids"):
        _ = Graph.load(path).ids
    same = HeteroGraph.load(builds[1] / "people.aeg").permute({})
    same.save(builds[1] / "people.aeg")
    assert HeteroGraph.load(builds[1] / "people.aeg").ids["person"].keys([0]) == ["bob"]


def test_a_map_may_be_made_for_the_new_order(builds: list[Path]) -> None:
    path = builds[0] / "people.aeg"
    HeteroGraph.load(path).permute({"person": [1, 0]}).save(path)
    keys = IdMap.load(builds[0] / "people.person.ids").keys([0, 1])
    IdMap.build(builds[0] / "people.person.ids", [[keys[1]], [keys[0]]], "str", force=True)
    assert HeteroGraph.load(path).ids["person"].keys([0, 1]) == [keys[1], keys[0]]


def test_so_has_a_file_in_another_order(builds: list[Path]) -> None:
    path = builds[0] / "people.aeg"
    reorder(path, builds[0] / "moved.aeg")
    shutil.copy(builds[0] / "people.person.ids", builds[0] / "moved.person.ids")
    with pytest.raises(FileChangedError, match="the order of before"):
        _ = Graph.load(builds[0] / "moved.aeg").ids
