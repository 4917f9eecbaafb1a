"""What lies beside a graph of tables is of the same build, or is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aethergraph import Graph, HeteroGraph
from aethergraph.cli.app import app
from aethergraph.convert import NodeTable, Schema, convert, tables
from aethergraph.errors import FileChangedError, InvalidArgumentError

PEOPLE = """
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
