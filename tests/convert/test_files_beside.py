"""What lies beside a graph of tables is of the same build, or is refused."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from aethergraph import DynamicGraph, DynamicHeteroGraph, Graph, HeteroGraph
from aethergraph.cli.app import app
from aethergraph.convert import NodeTable, TableSchema, convert, reorder, tables
from aethergraph.errors import (
    AbsentError,
    FileChangedError,
    InvalidArgumentError,
    MissingFileError,
    MissingNameError,
    StorageError,
)
from aethergraph.graph import beside
from aethergraph.ids import IdMap
from tests.support.processes import in_fork

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
        tables(TableSchema({"one": one, "x" * 300: other}), tmp_path / "g.aeg")
    assert not list(tmp_path.iterdir())


# ---- a graph in the place of another ---------------------------------------------------------


def convert_without_keys(path: Path) -> None:
    (path.parent / "numbers.csv").write_text("src,dst\n0,1\n")
    convert(path.parent / "numbers.csv", path, force=True)


def convert_within_memory(path: Path) -> None:
    (path.parent / "numbers.csv").write_text("src,dst\n0,1\n")
    convert(path.parent / "numbers.csv", path, force=True, memory_budget="2G")


def save_a_live_graph(path: Path) -> None:
    with DynamicGraph(2, arena_mb=16, huge_pages=False) as graph:
        graph.insert_edge(0, 1)
        graph.save(path)


def reorder_another(path: Path) -> None:
    Graph.from_edges(2, [0], [1]).save(path.parent / "other.aeg")
    reorder(path.parent / "other.aeg", path, force=True)


OTHERS = {
    "saved": lambda path: Graph.from_edges(2, [0], [1]).save(path),
    "typed": lambda path: HeteroGraph.from_edges({("node", "to", "node"): ([0], [1])}).save(path),
    "converted": convert_without_keys,
    "within memory": convert_within_memory,
    "live": save_a_live_graph,
    "reordered": reorder_another,
}


@pytest.fixture
def keyed(tmp_path: Path) -> Path:
    (tmp_path / "names.csv").write_text("src,dst\nx,y\n")
    convert(tmp_path / "names.csv", tmp_path / "g.aeg", ids="string")
    assert Graph.load(tmp_path / "g.aeg").ids.keys([0, 1]) == ["x", "y"]
    return tmp_path / "g.aeg"


@pytest.mark.parametrize("kind", OTHERS)
def test_a_graph_has_nothing_of_the_one_whose_place_it_takes(keyed: Path, kind: str) -> None:
    (keyed.parent / "g.other.ids").write_text("mine")
    OTHERS[kind](keyed)
    with pytest.raises(AbsentError, match=r"g\.node\.ids"):
        _ = Graph.load(keyed).ids
    assert sorted(one.name for one in keyed.parent.glob("g.*")) == ["g.aeg", "g.other.ids"]


@pytest.mark.parametrize("kind", OTHERS)
def test_nor_after_a_kill_before_that_was_deleted(
    keyed: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        dying = SimpleNamespace(unlink=lambda _: os._exit(3), path=os.path)
        patch.setattr(beside, "os", dying)
        with pytest.raises(EOFError):  # the child says nothing
            in_fork(lambda: OTHERS[kind](keyed))
    assert Graph.load(keyed).num_edges == 1 and keyed.with_suffix(".node.ids").exists()
    with pytest.raises(FileChangedError, match=r"node\.ids: was made with another graph .*delete"):
        _ = Graph.load(keyed).ids
    keyed.with_suffix(".node.ids").unlink()
    with pytest.raises(AbsentError):
        _ = Graph.load(keyed).ids


def test_nor_has_the_former_what_a_killed_build_has_put_there(keyed: Path) -> None:
    """Maps get their names before the graph; they may have as many keys as it has nodes."""
    former = keyed.parent / "former.aeg"
    Graph.from_edges(2, [0], [1]).save(former)
    shutil.copy(keyed.with_suffix(".node.ids"), keyed.parent / "former.node.ids")
    with pytest.raises(FileChangedError, match="was made with another graph"):
        _ = Graph.load(former).ids


def test_a_build_without_columns_keeps_the_map(builds: list[Path]) -> None:
    folder, schema = builds[0], PEOPLE.replace('columns = {age = "number"}\n', "")
    (folder / "people.toml").write_text(schema)
    tables(folder / "people.toml", folder / "people.aeg", force=True)
    graph = HeteroGraph.load(folder / "people.aeg")
    assert list(graph.columns) == [] and graph.ids["person"].keys([0]) == ["ann"]
    assert not (folder / "people.person.columns").exists()
    assert CliRunner().invoke(app, ["verify", str(folder / "people.aeg")]).exit_code == 0


def test_maps_made_by_hand_are_left_and_believed(keyed: Path) -> None:
    path = keyed.parent / "plain.aeg"
    Graph.from_edges(2, [0], [1]).save(path)
    IdMap.build(path.with_suffix(".node.ids"), [["a", "b"]], "str")
    assert Graph.load(path).ids.keys([0, 1]) == ["a", "b"]
    Graph.load(path).save(path)
    assert Graph.load(path).ids.keys([0, 1]) == ["a", "b"]
    IdMap.build(keyed.with_suffix(".node.ids"), [["a", "b"]], "str", force=True)
    Graph.from_edges(2, [0], [1]).save(keyed)
    assert Graph.load(keyed).ids.keys([0, 1]) == ["a", "b"]


@pytest.mark.parametrize("content", [b"", b"mine", b"\x89AEG" + bytes(8192)])
def test_whatever_lay_there_before_is_replaced(keyed: Path, content: bytes) -> None:
    keyed.write_bytes(content)
    Graph.from_edges(3, [0], [1]).save(keyed)
    assert Graph.load(keyed).num_nodes == 3 and keyed.with_suffix(".node.ids").exists()


def test_a_live_graph_does_not_take_the_keys_of_another_order(keyed: Path) -> None:
    Graph.load(keyed).permute([1, 0]).save(keyed)
    with pytest.raises(FileChangedError, match="the order of before"):
        DynamicGraph.open(keyed.parent / "live", base=keyed, ids="str")


def test_types_without_a_file_are_not_in_the_mapping(builds: list[Path]) -> None:
    (builds[0] / "people.person.columns").unlink()
    made = HeteroGraph.from_edges({("person", "to", "person"): ([0], [1])})
    for graph in (HeteroGraph.load(builds[0] / "people.aeg"), made):
        for name in ("person", "post", ["person"], None):
            with pytest.raises(MissingNameError) as error:
                graph.columns[name]  # type: ignore[index]
            assert str(error.value)[0] != "'" and "columns" in str(error.value)
            assert name not in graph.columns
            assert graph.columns.get(name, 7) == 7  # type: ignore[call-overload]
    with pytest.raises(MissingFileError, match=r"people\.person\.columns"):
        HeteroGraph.load(builds[0] / "people.aeg").columns["person"]


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


# ---- several graphs with the same names beside them -------------------------------------------


def people(path: Path, *keys: str, force: bool = False) -> None:
    """Make tables of people, whose boss is the first of them, into a graph."""
    rows = {"id": [*keys], "age": [*range(len(keys))], "boss": [keys[0]] * len(keys)}
    person = NodeTable(rows, "id", columns={"age": "number"}, foreign={"boss": "person"})
    tables(TableSchema({"person": person}), path, force=force)


def without_keys() -> HeteroGraph:
    return HeteroGraph.from_edges({("person", "boss", "person"): ([0], [1])})


def test_a_second_graph_deletes_nothing_of_the_first(tmp_path: Path) -> None:
    first, copy = tmp_path / "shop.aeg", tmp_path / "shop.bak"
    people(first, "ann", "bob")
    HeteroGraph.load(first).save(copy)
    assert HeteroGraph.load(copy).ids["person"].keys([0, 1]) == ["ann", "bob"]
    without_keys().save(copy)
    graph = HeteroGraph.load(first)
    assert graph.ids["person"].keys([0, 1]) == ["ann", "bob"]
    assert graph.columns["person"].gather([1])["age"].tolist() == [1]
    other = HeteroGraph.load(copy)
    assert not other.ids and not other.columns and "person" not in other.ids
    with pytest.raises(MissingNameError, match=r"is of .*shop\.aeg, .*: this graph has none"):
        other.ids["person"]
    assert CliRunner().invoke(app, ["verify", str(copy), str(first)]).exit_code == 0
    HeteroGraph.load(first).permute({"person": [1, 0]}).save(copy)
    without_keys().save(first)  # the copy knows them as those of another order
    assert IdMap.load(tmp_path / "shop.person.ids").keys([0]) == ["ann"]
    without_keys().save(copy)
    without_keys().save(first)
    assert sorted(one.name for one in tmp_path.iterdir() if one.suffix == ".ids") == [
        "shop.person.ids"
    ]


def test_a_graph_in_another_order_beside_it_takes_nothing_from_the_first(tmp_path: Path) -> None:
    first, moved = tmp_path / "shop.aeg", tmp_path / "shop.fast"
    people(first, "ann", "bob")
    reorder(first, moved)
    assert HeteroGraph.load(first).ids["person"].keys([0, 1]) == ["ann", "bob"]
    people(first, "cy", "dan", force=True)
    assert HeteroGraph.load(first).ids["person"].keys([0, 1]) == ["cy", "dan"]
    u = tmp_path / "u.aeg"
    Graph.from_edges(2, [0], [1]).save(u)
    IdMap.build(tmp_path / "u.node.ids", [["a", "b"]], "str")
    reorder(u, tmp_path / "u.fast")
    assert Graph.load(u).ids.keys([0, 1]) == ["a", "b"]
    with pytest.raises(FileChangedError, match="the order of before"):
        _ = Graph.load(tmp_path / "u.fast").ids


def test_nor_does_it_replace_any(tmp_path: Path) -> None:
    first, second = tmp_path / "shop.v1", tmp_path / "shop.v2"
    people(first, "ann", "bob")
    shutil.copy(first, second)
    for force in (False, True):
        with pytest.raises(StorageError, match=r"shop\.person\.ids: is of .*shop\.v1, .* the dot"):
            people(second, "cy", "dan", force=force)
    second.unlink()
    boss = ("person", "boss", "person")
    with DynamicHeteroGraph.open(
        tmp_path / "live", {"person": 0}, [boss], arena_mb=16, ids={"person": "str"}
    ) as live:
        live.ids["person"].add(["cy", "dan"])
        with pytest.raises(StorageError, match=r"shop\.person\.ids: is of .*shop\.v1"):
            live.save(second)
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "live", "shop.person.columns", "shop.person.ids", "shop.v1",
    ]  # fmt: skip
    assert HeteroGraph.load(first).ids["person"].keys([0, 1]) == ["ann", "bob"]
    (tmp_path / "g.csv").write_text("src,dst\nx,y\n")
    convert(tmp_path / "g.csv", tmp_path / "g.v1", ids="string")
    with pytest.raises(StorageError, match=r"g\.node\.ids: is of .*g\.v1"):
        convert(tmp_path / "g.csv", tmp_path / "g.v2", ids="string", force=True)
    assert Graph.load(tmp_path / "g.v1").ids.keys([0, 1]) == ["x", "y"]


# ---- maps made by hand, and live graphs -------------------------------------------------------


def test_a_live_graph_replaces_no_map_that_was_made_by_hand(tmp_path: Path) -> None:
    path, file = tmp_path / "g.aeg", tmp_path / "g.node.ids"
    IdMap.build(file, [["a", "b"]], "str")
    with DynamicGraph.open(tmp_path / "live", 0, arena_mb=16, ids="str") as live:
        live.ids.add(["x", "y"])
        for _ in range(2):
            with pytest.raises(StorageError, match=r"node\.ids: exists already, and was not made"):
                live.save(path)
            assert IdMap.load(file).keys([0, 1]) == ["a", "b"]
            Graph.from_edges(2, [0], [1]).save(path)
        file.unlink()
        for keys in (["x", "y"], ["x", "y", "z"]):  # its own may be replaced
            live.ids.add(keys)
            live.save(path)
            assert Graph.load(path).ids.keys(range(len(keys))) == keys
        path.unlink()  # moved away, say: they are of use with it
        with pytest.raises(StorageError, match="exists already"):
            live.save(path)


# ---- maps made by hand, and nodes in another order --------------------------------------------


def by_hand(path: Path, *keys: str) -> None:
    """Save a graph a -> b -> c, and a map of keys beside it."""
    Graph.from_edges(3, [0, 1], [1, 2]).save(path)
    IdMap.build(path.with_suffix(".node.ids"), [[*keys]], "str")


MOVES = {
    "saved over it": lambda u, v: Graph.load(u).permute([2, 1, 0]).save(u),
    "typed": lambda u, v: HeteroGraph.load(u).permute({"node": [2, 1, 0]}).save(u),
    "saved elsewhere": lambda u, v: Graph.load(u).permute([2, 1, 0]).save(v),
    "saved from memory": lambda u, v: Graph.from_edges(3, [0], [1]).permute([2, 1, 0]).save(v),
    "reordered": lambda u, v: reorder(u, v, force=True),
    "pickled": lambda u, v: pickle.loads(pickle.dumps(Graph.load(u).permute([2, 1, 0]))).save(u),
}


@pytest.mark.parametrize("move", MOVES)
def test_a_map_made_by_hand_is_not_believed_of_nodes_that_moved(tmp_path: Path, move: str) -> None:
    u, v = tmp_path / "u.aeg", tmp_path / "v.aeg"
    by_hand(u, "a", "b", "c")
    by_hand(v, "d", "e", "f")
    MOVES[move](u, v)
    moved = u if "node_ids" in Graph.load(u).node_attrs else v
    for _ in range(2):
        with pytest.raises(FileChangedError, match="the order of before"):
            _ = Graph.load(moved).ids
        with pytest.raises(FileChangedError, match="the order of before"):
            DynamicGraph.open(tmp_path / "live", base=moved, ids="str")
        Graph.load(moved).save(moved)
    shutil.copy(u.with_suffix(".node.ids"), tmp_path / "w.node.ids")
    Graph.load(moved).save(tmp_path / "w.aeg")
    if move != "saved from memory":  # what lay beside the graph that was moved is told anywhere
        with pytest.raises(FileChangedError, match="the order of before"):
            _ = Graph.load(tmp_path / "w.aeg").ids
    IdMap.build(moved.with_suffix(".node.ids"), [["z", "y", "x"]], "str", force=True)
    for _ in range(2):  # it was made since
        assert Graph.load(moved).ids.keys([0, 1, 2]) == ["z", "y", "x"]
        Graph.load(moved).save(moved)
    Graph.load(moved).permute([1, 0, 2]).save(moved)
    with pytest.raises(FileChangedError, match="the order of before"):
        _ = Graph.load(moved).ids


def test_a_map_may_be_there_before_the_graph(tmp_path: Path) -> None:
    moved = Graph.from_edges(3, [0], [1]).permute([2, 1, 0])
    IdMap.build(tmp_path / "g.node.ids", [["c", "b", "a"]], "str")
    for _ in range(2):
        moved.save(tmp_path / "g.aeg")
        assert Graph.load(tmp_path / "g.aeg").ids.keys([0, 1, 2]) == ["c", "b", "a"]
