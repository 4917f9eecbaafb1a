"""``convert(ids=...)``: edges between keys, against a dict and the conversion of dense ids."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.recording import Interrupt, Recording, kill_at_recording
from support.strategies import examples
from support.table_oracle import same_graph_file
from typer.testing import CliRunner

from aethergraph import Graph, HeteroGraph
from aethergraph.cli.app import app
from aethergraph.convert import InputError, convert
from aethergraph.convert.external.builder import BoundedBuild
from aethergraph.errors import AbsentError, FileChangedError, InvalidArgumentError


def numbered(src: Sequence[Any], dst: Sequence[Any]) -> dict[Any, int]:
    """Number keys by first appearance, row by row, the source first."""
    ids: dict[Any, int] = {}
    for one, other in zip(src, dst, strict=True):
        ids.setdefault(one, len(ids))
        ids.setdefault(other, len(ids))
    return ids


def made(rows: int = 3000, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    names = np.array([f"user {n * 7919 % 1009}, é" for n in range(400)])
    return {
        "src": names[rng.integers(0, 400, rows)].tolist(),
        "dst": names[rng.integers(0, 400, rows)].tolist(),
        "w": (rng.integers(0, 99, rows) / 8).tolist(),
        "ts": rng.integers(-50, 1000, rows).tolist(),
        "a": rng.integers(0, 9, rows).tolist(),
        "b": (rng.integers(0, 9, rows) / 4).tolist(),
    }


def dense(table: dict[str, Any]) -> tuple[dict[str, Any], dict[Any, int]]:
    """Return the same table with ids in place of keys."""
    ids = numbered(table["src"], table["dst"])
    return {**table, **{end: [ids[one] for one in table[end]] for end in ("src", "dst")}}, ids


def same(folder: Path, table: dict[str, Any], output: str = "g.aeg", **options: Any) -> None:
    """Compare the graph of ``output`` with the conversion of dense ids, in memory."""
    rows, keys = dense(table)
    pq.write_table(pa.table(rows), folder / "dense.parquet")
    convert(folder / "dense.parquet", folder / "dense.aeg", force=True, **options)
    assert same_graph_file(folder / output, folder / "dense.aeg")
    graph = Graph.load(folder / output)
    assert graph.num_nodes == len(keys)
    assert graph.ids.lookup(list(keys)).tolist() == list(range(len(keys)))
    assert list(graph.ids.keys(np.arange(len(keys)))) == list(keys)
    graph.ids.verify()


OPTIONS: list[dict[str, Any]] = [
    {},
    {"layout": "both", "weight": "w"},
    {"layout": "csr", "weight": "w", "time_column": "ts", "attrs": ["a", "both=a,b:float64"]},
    {"undirected": True, "dedup": True, "compress": True},
    {"keep_order": True, "weight": "w", "weight_type": "float32", "time_column": "ts",
     "time_unit": "s", "attrs": ["b:float32"]},
    {"time_column": "ts", "time_type": "float64"},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=lambda one: " ".join(one) or "plain")
def test_equals_the_conversion_of_dense_ids(tmp_path: Path, options: dict[str, Any]) -> None:
    table = made(1500)
    pq.write_table(pa.table(table), tmp_path / "e.parquet", row_group_size=700)
    result = convert(tmp_path / "e.parquet", tmp_path / "g.aeg", ids="string", **options)
    assert result.ids == str(tmp_path / "g.node.ids")
    assert result.read_edges == result.edges_read_now == 1500
    same(tmp_path, table, **options)


@settings(examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), min_size=1, max_size=30),
    cut=st.integers(0, 30),
)
def test_any_strings(tmp_path: Path, rows: list[tuple[str, str]], cut: int) -> None:
    """All strings that UTF-8 has, empty ones too, in two files."""
    table = {"src": [one for one, _ in rows], "dst": [other for _, other in rows]}
    for number, some in enumerate((slice(0, cut), slice(cut, None))):
        part = {name: pa.array(column[some], pa.string()) for name, column in table.items()}
        pq.write_table(pa.table(part), tmp_path / f"part-{number}.parquet")
    convert(tmp_path / "part-*.parquet", tmp_path / "g.aeg", ids="string", force=True)
    same(tmp_path, table)


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("int64", [-(2**63), -1, 0, 2**63 - 1]),
        ("uint64", [0, 1, 2**63, 2**64 - 1]),
        ("uuid", [uuid.UUID(int=n * (2**64 + 1)) for n in (0, 1, 2**63, 2**64 - 1)]),
    ],
)
def test_other_keys(tmp_path: Path, kind: str, some: list[Any]) -> None:
    rng = np.random.default_rng(1)
    table = {end: [some[n] for n in rng.integers(0, 4, 30)] for end in ("src", "dst")}
    texts = {end: [str(one) for one in column] for end, column in table.items()}
    pacsv.write_csv(pa.table(texts), tmp_path / "e.csv")
    convert(tmp_path / "e.csv", tmp_path / "g.aeg", ids=kind)  # type: ignore[arg-type]
    same(tmp_path, table)
    if kind != "uuid":
        native = {end: pa.array(column, getattr(pa, kind)()) for end, column in table.items()}
        pq.write_table(pa.table(native), tmp_path / "e.parquet")
        convert(tmp_path / "e.parquet", tmp_path / "p.aeg", ids=kind)  # type: ignore[arg-type]
        same(tmp_path, table, "p.aeg")


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("e.csv", 'src,dst\nann,"b, ob"\n"b, ob",007\n', {}),
        ("e.csv", '"b, ob",x,ann\n007,x,"b, ob"\n', {"header": False, "src": 2, "dst": 0}),
        ("e.tsv", "x\ta\tb\n\tann\tb, ob\n\tb, ob\t007\n", {"src": "a", "dst": "b"}),
        ("e.txt", "ann;b, ob\nb, ob;007\n", {"delimiter": ";", "header": False}),
        ("e.csv", 'n1,n2\nann,"b, ob"\n"b, ob",007\n', {"header": True}),
        ("e.dat", "From\tTo\nann\tb, ob\nb, ob\t007\n", {"format": "tsv"}),
    ],
)
def test_text(tmp_path: Path, name: str, text: str, options: dict[str, Any]) -> None:
    (tmp_path / name).write_text(text)
    result = convert(tmp_path / name, tmp_path / "g.aeg", ids="string", **options)
    graph = Graph.load(tmp_path / "g.aeg")
    assert graph.ids.keys([0, 1, 2]) == ["ann", "b, ob", "007"]
    assert [graph.in_neighbors(n).tolist() for n in range(3)] == [[], [0], [1]]
    guessed = "delimiter" in options or options == {"header": True}
    assert any("the first two" in note for note in result.notes) == guessed


def test_an_edge_that_is_taken_for_names_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "e.tsv").write_text("0\t1\n1\t2\n")
    result = convert(tmp_path / "e.tsv", tmp_path / "g.aeg", header=True)
    assert "the first line holds numbers, 0 and 1, and is taken for names" in result.notes[-1]
    assert not convert(tmp_path / "e.tsv", tmp_path / "h.aeg").notes


def test_dates(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("src,dst,day\na,b,2020-03-07\nb,a,2020-03-05\n")
    convert(tmp_path / "e.csv", tmp_path / "g.aeg", ids="string", time_column="day", time_unit="D")
    graph = Graph.load(tmp_path / "g.aeg")
    assert graph.time_unit == "D" and graph.edge_time is not None
    found = graph.edge_time.view("datetime64[D]").astype(str).tolist()
    assert found == ["2020-03-05", "2020-03-07"]


def test_other_graphs_have_no_keys(tmp_path: Path) -> None:
    graph = Graph.from_edges(2, [0], [1])
    with pytest.raises(InvalidArgumentError, match="was not loaded from one"):
        graph.ids
    graph.save(tmp_path / "g.aeg")
    with pytest.raises(AbsentError, match=r"g\.node\.ids"):
        Graph.load(tmp_path / "g.aeg").ids
    (tmp_path / "e.csv").write_text("src,dst\na,b\nb,c\n")
    convert(tmp_path / "e.csv", tmp_path / "k.aeg", ids="string")
    typed = HeteroGraph.load(tmp_path / "k.aeg")
    assert typed.ids["node"].lookup(["c"]).tolist() == [2]
    (tmp_path / "k.node.ids").rename(tmp_path / "g.node.ids")
    with pytest.raises(FileChangedError, match="it is of another graph"):
        Graph.load(tmp_path / "g.aeg").ids


UUID = uuid.UUID(int=1)


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("a,b\nc,d\n", {}, "whether the first line holds names of columns cannot be seen"),
        ("src,dst\na,b\nc,\n", {}, r"row 2: column 'dst': the end point of an edge is missing"),
        ("src,dst\n1,2\n3,x\n", {"ids": "int64"}, r"row 2: the key 'x' is not an integer"),
        ("src,dst\n-1,2\n", {"ids": "uint64"}, r"row 1: the key '-1' does not fit in uint64"),
        (f"src,dst\n1,2\n1,{2**63}\n", {"ids": "int64"}, rf"row 2: the key '{2**63}' does not fit"),
        (f"src,dst\n{UUID},zz\n", {"ids": "uuid"}, r"row 1: column 'dst': the key is 'zz', not a"),
        ("src,dst\na,b\n", {"src": "a", "dst": "b"}, "there is no column 'a' for the source id"),
        ("src,dst\na,b\n", {"src": "src", "dst": "src"}, "the same column is both"),
        ("src,dst,w\na,b,1\nb,a,-1\n", {"weight": "w"}, r"row 2: .*the weight -1.0 is not finite"),
        ("src,dst,t\na,b,1.5\n", {"time_column": "t", "time_type": "int64"}, "with fractions"),
        ("src,dst\n", {}, "holds no edges"),
        ("src\na\n", {"header": True}, "has one column"),
        ("src,dst\na,b\n", {"num_nodes": 5}, "num_nodes does not go with ids"),
        ("src,dst\na,b\n", {"features": "x.npy"}, "features and labels do not go with ids"),
        ("src,dst\na,b\n", {"format": "whitespace"}, "names may hold blanks, so give"),
        ("src,dst\na,b\n", {"format": "npy"}, "read as npy.*: write it as one of these, or"),
        ("PK\0\0\nPK,\0\n\n", {}, "e.csv: holds zero bytes, so it is not text"),
        ("src,dst\na,b\n", {"ids": "names"}, "ids must be one of|ids .*'names'"),
        ("src,dst\na,b\n", {"dedup": True, "keep_order": True}, "cannot keep the order"),
        ("src,dst\na,b\n", {"memory_budget": "1M"}, "'1M' is too small: the least is"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(
    tmp_path: Path, text: str, options: dict[str, Any], error: str
) -> None:
    (tmp_path / "e.csv").write_text(text)
    with pytest.raises((InputError, InvalidArgumentError), match=error):
        convert(tmp_path / "e.csv", tmp_path / "g.aeg", **{"ids": "string", **options})
    assert [one.name for one in tmp_path.iterdir()] == ["e.csv"]


def test_keys_of_another_type_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": [1, 2], "dst": ["a", "b"]}), tmp_path / "e.parquet")
    for ids, error in (
        ("string", r"'src' .*int64, not str: --ids int64"),
        ("int64", "'dst' .*str"),
    ):
        with pytest.raises(InputError, match=error):
            convert(tmp_path / "e.parquet", tmp_path / "g.aeg", ids=ids)  # type: ignore[arg-type]
    large = {"src": pa.array([1, 2**63], pa.uint64()), "dst": [3, 4]}
    pq.write_table(pa.table(large), tmp_path / "e.parquet")
    with pytest.raises(InputError, match=r"row 2: .*does not fit in a key of type int64"):
        convert(tmp_path / "e.parquet", tmp_path / "g.aeg", ids="int64")
    assert [one.name for one in tmp_path.iterdir()] == ["e.parquet"]


def test_the_command_overwrites_no_map_of_ids(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("ann,bob\nbob,ann\n")
    (tmp_path / "g.node.ids").write_text("mine")
    call = ["convert", "-i", tmp_path / "e.csv", "-o", tmp_path / "g.aeg", "--ids", "string"]
    words = [str(one) for one in [*call, "--no-header"]]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1 and "exists already" in result.stderr
    assert (tmp_path / "g.node.ids").read_text() == "mine"
    result = CliRunner().invoke(app, [*words, "--force"])
    assert result.exit_code == 0, result.stderr
    assert f"{tmp_path / 'g.node.ids'}: map of ids" in result.stdout
    assert Graph.load(tmp_path / "g.aeg").ids.lookup(["bob"]).tolist() == [1]


# ---- going on ----------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [True, False])
def test_goes_on_wherever_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool, small_memory: None
) -> None:
    table, output = made(1200), tmp_path / "g.aeg"
    pq.write_table(pa.table(table), tmp_path / "e.parquet", row_group_size=300)
    options: dict[str, Any] = {"layout": "both", "time_column": "ts", "weight": "w"}
    convert(tmp_path / "e.parquet", tmp_path / "whole.aeg", ids="string", **options)
    whole = [(tmp_path / f"whole{end}").read_bytes() for end in (".aeg", ".node.ids")]
    recording = Recording(monkeypatch, interrupted_after=after)
    points = 1
    while True:
        recording.left = points
        for path in tmp_path.glob("g.*"):
            path.unlink()
        try:
            convert(tmp_path / "e.parquet", output, ids="string", restart=True, **options)
            break
        except Interrupt:
            recording.left = 0
        assert not output.exists()
        remarks: list[str] = []
        convert(tmp_path / "e.parquet", output, ids="string", remark=remarks.append, **options)
        found = [(tmp_path / f"g{end}").read_bytes() for end in (".aeg", ".node.ids")]
        assert found == whole, points
        assert not Path(f"{output}.building").exists()
        assert points == 1 or "going on" in remarks[0]
        points += 7
    assert points > 12
    recording.left = 0
    same(tmp_path, table, **options)


def test_killed_and_run_again(tmp_path: Path) -> None:
    output = tmp_path / "g.aeg"
    table = made(2000)
    pacsv.write_csv(pa.table(table), tmp_path / "e.csv")
    source = str(tmp_path / "e.csv")
    kill_at_recording(3, f"convert({source!r}, {str(output)!r}, ids='string', layout='both')")
    assert not output.exists()
    with pytest.raises(InvalidArgumentError, match="ids was 'string' and is 'uuid'"):
        convert(tmp_path / "e.csv", output, ids="uuid", layout="both")
    remarks: list[str] = []
    convert(tmp_path / "e.csv", output, ids="string", layout="both", remark=remarks.append)
    assert "going on with an interrupted build" in remarks[0]
    same(tmp_path, table, layout="both")


def test_a_file_that_changes_meanwhile_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "e.csv").write_text("src,dst\na,b\nb,c\n")
    make = BoundedBuild.make_lists

    def changed(self: BoundedBuild, num_nodes: int) -> int:
        (tmp_path / "e.csv").write_text("src,dst\na,b\nb,c\nc,d\n")
        return make(self, num_nodes)

    monkeypatch.setattr(BoundedBuild, "make_lists", changed)
    with pytest.raises(InputError, match=r"e\.csv: changed while it was read"):
        convert(tmp_path / "e.csv", tmp_path / "g.aeg", ids="string")
    assert [one.name for one in tmp_path.iterdir()] == ["e.csv"]


def test_blanks_around_names_are_noted(tmp_path: Path) -> None:
    """They belong to the names, as CSV has it, while numbers are read without them."""
    path = tmp_path / "e.csv"
    path.write_text("ann, bob\nbob,cy\n")
    result = convert(path, tmp_path / "g.aeg", ids="string", header=False)
    assert [one for one in result.notes if "' bob', which is another node than 'bob'" in one]
    assert result.num_nodes == 4
    path.write_text("ann,bob\nbob,cy\n")
    result = convert(path, tmp_path / "g.aeg", ids="string", header=False, force=True)
    assert not [one for one in result.notes if "blanks" in one]
