"""Tables and schemas that are refused, and builds that are killed and go on."""

from __future__ import annotations

import pickle
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.recording import Interrupt, Recording, kill_at_recording
from support.shop_tables import (
    DTYPES,
    TOML,
    as_arrow,
    in_files,
    in_frames,
    shop,
    shop_schema,
    shop_world,
    two,
)
from support.table_oracle import same_graph_file, write

from aethergraph import HeteroGraph
from aethergraph.convert import (
    ForeignKey,
    InputError,
    NodeTable,
    TableSchema,
    guess_schema,
    tables,
)
from aethergraph.convert.external.damage import WorkFileError
from aethergraph.convert.external.journal import Journal
from aethergraph.convert.typed.build import TypedBuild
from aethergraph.errors import (
    AetherError,
    InvalidArgumentError,
    MissingFileError,
    StorageError,
)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('foreign.buyer = "user"', 'foreign.buyer = "usr"', "node type 'usr', which is not in the"),
        ('source = "user"', "source = 7", "node type 7, which is not"),
        ('key = "id"', 'kei = "id"', r"nodes\.user has the unknown entry 'kei'"),
        ('key = ["shop", "sku"]', 'key = "sku"', "has 2 columns .* has 1"),
        ('key = ["shop", "sku"]', "", "which has no key"),
        ('key = ["shop", "sku"]', 'key = ["sku", "sku"]', "names a column twice"),
        ('missing = "drop"', 'missing = "dorp"', "missing.*'dorp'"),
        ('missing = "drop"', 'missing = "keep"', "which would have no time"),
        ('foreign.buyer = "user"', 'foreign.buyer = {missing = "drop"}', "needs to = NODE TYPE"),
        ('time_unit = "us"', 'time_unit = "days"', "no unit of time"),
        ('source_key = "user"', "", "needs source_key"),
        ("[links.likes]", "[links.likes", "is not TOML"),
        ("[links.likes]", "[lynx.likes]", "the schema has the unknown entry 'lynx'"),
        ('label = "label"', 'key_type = ["str", "str"]', "2 key_type for a key of 1"),
        ('label = "label"', 'key_type = "text"', "a key is of type"),
        ("[nodes.user]", 'nodes.x = 1\n[nodes.user]', "nodes are tables"),
        ('from = "likes.parquet"', 'from = "likes.parquet"\nrelation = ""', "a relation is a name"),
        ("[links.likes]", '[nodes.alone]\n[links.likes]', "has no table .* no edge names it"),
        (
            "[links.likes]",
            '[nodes.user.foreign]\nlikes = {to = "product", columns = ["age", "x"]}\n[links.likes]',
            "is there twice",
        ),
    ],
)  # fmt: skip
def test_bad_schemas_are_named(tmp_path: Path, old: str, new: str, error: str) -> None:
    assert old in TOML
    (tmp_path / "bad.toml").write_text(TOML.replace(old, new, 1))
    with pytest.raises(InvalidArgumentError, match=error) as found:
        TableSchema.load(tmp_path / "bad.toml")
    assert "bad.toml" in str(found.value)


def test_schemas_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        TableSchema.load(tmp_path / "none.toml")
    with pytest.raises(InvalidArgumentError, match="schema is a TableSchema or a TOML file"):
        tables({"user": 1}, tmp_path / "g")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="at least one node table"):
        TableSchema({})
    with pytest.raises(InvalidArgumentError, match="no foreign keys and no links"):
        TableSchema({"a": NodeTable({"k": [1]}, "k")})


def test_a_manifest_of_relbench_is_told_from_a_schema(tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text("name: shop\nmanifest_version: 1\n")
    (tmp_path / "db").mkdir()
    with pytest.raises(InvalidArgumentError) as error:
        TableSchema.load(tmp_path / "manifest.yaml")
    assert "is not TOML, which a schema is, but YAML" in str(error.value)
    assert f"relbench.load_dataset({str(tmp_path)!r}).get_db()" in str(error.value)
    assert f"aethergraph tables --guess {tmp_path / 'db'}" in str(error.value)


# ---- bad tables ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "column", "value", "error"),
    [
        ("user", "id", None, r"user, row 31: column 'id': the primary key is missing"),
        ("user", "id", "FIRST", r"user, row 31: the key 'u\d+' \(id\) comes twice; .*row 1$"),
        ("order", "buyer", "nobody", r"order, row 31: .*there is no 'user' with the key 'nobody'"),
        ("order", "placed", None, r"order, row 31: .*the time is missing"),
        ("user", "age", None, r"user, row 31: .*the feature is missing"),
        ("user", "age", 2**24 + 1, r"user, row 31: .*float32 would make"),
        ("likes", "w", -1.0, r"likes.*, row 31: .*the weight -1.0 is not finite"),
        ("likes", "w", float("nan"), r"likes.*, row 31: .*not finite"),
        ("likes", "stars", None, r"likes.*, row 31: .*the edge attribute is missing"),
        ("likes", "at", None, r"likes.*, row 31: .*the time is missing"),
    ],
)
def test_bad_rows_are_named(
    tmp_path: Path, name: str, column: str, value: Any, error: str, small_memory: None
) -> None:
    rows = shop()
    rows[name][30][column] = rows[name][0][column] if value == "FIRST" else value
    schema = shop_schema(in_frames(rows, "arrow table"))
    with pytest.raises(InputError, match=error) as found:
        tables(schema, tmp_path / "g.aeg")
    assert found.value.line == 31
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "key"), [("weight", None), ("time", "nobody"), ("attrs", None), ("weight", "nobody")]
)
def test_a_row_without_an_edge_needs_no_values(tmp_path: Path, value: str, key: str | None) -> None:
    columns = {
        "weight": pa.array([1.0, None, float("nan"), 2.0]),
        "time": pa.array([1, None, -(2**63), 2], pa.timestamp("s")),
        "attrs": pa.array([3, None, None, 4]),
    }
    source = {"id": ["a", "b", "c", "d"], "r": ["d", key, key, "a"], "w": columns[value]}
    used: Any = {value: ["w"] if value == "attrs" else "w"}
    foreign = {"r": ForeignKey("v", missing="drop", **used)}
    schema = TableSchema({"v": NodeTable(source, key="id", foreign=foreign)})
    tables(schema, tmp_path / "g.aeg")
    graph = HeteroGraph.load(tmp_path / "g.aeg")["v", "r", "v"]
    assert graph.edge_list()[0].tolist() == [3, 0]
    source["r"] = ["d", "c", key, "a"]
    with pytest.raises(InputError, match=r"row 2: column 'w': the .* is missing \(null\)"):
        tables(schema, tmp_path / "h.aeg")


@pytest.mark.parametrize(
    ("name", "column", "value", "error"),
    [
        ("user", "age", "old", "row 11: the feature 'old' is not a number"),
        ("user", "premium", "perhaps", "row 11: the feature 'perhaps' is not true or f"),
        ("order", "id", "x7", "row 11: the key 'x7' is not an integer"),
        ("order", "before", "x7", "row 11: the key 'x7' is not an integer"),
        ("order", "before", "011", "row 11: .* the key '011' begins with a zero"),
        ("order", "placed", "soon", "row 11: the time 'soon' is not a time"),
        ("likes", "stars", "4.5", "row 11: the edge attribute '4.5' is not an i"),
        ("likes", "w", '"1,', "cannot be read"),
    ],
)
def test_bad_text_is_named(
    tmp_path: Path, name: str, column: str, value: str, error: str, small_memory: None
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    schema = shop_schema(in_files(shop(), folder, "csv"))
    path = folder / name / "part-1.csv"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    lines[11][lines[0].index(f'"{column}"')] = value
    path.write_text("\n".join(map(",".join, lines)) + "\n")
    with pytest.raises(InputError, match=rf"{name}/part-1\.csv.*{error}"):
        tables(schema, tmp_path / "g.aeg")
    assert list(tmp_path.iterdir()) == [folder]


STAMP = pa.array([1, 2], pa.timestamp("s"))
CYCLE: list[Any] = []
CYCLE.append(CYCLE)


class NoPath:
    """An object that claims to be a path, and has none."""

    def __fspath__(self) -> Any:
        return 3


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        (lambda: two({"k": [1], "b": [1]}, {"k": ["x"]}), "both tables need keys of one type"),
        (lambda: two({"k": [1], "b": ["x"]}, {"k": [1]}), "both tables need keys of one type"),
        (lambda: two({"k": [1.5], "b": ["x"]}, {"k": ["x"]}), "is a key of type double"),
        (lambda: two({"k": [1], "c": [1]}, {"k": [1]}), "no column 'b' .*columns: 'k', 'c'"),
        (lambda: two({"k": [1], "b": [1]}, {"c": [1]}), "no column 'k'"),
        (lambda: two({"k": [], "b": []}, {"k": [1]}), "holds no rows|is a key, but has no values"),
        (lambda: two({"k": [1], "b": [1], "t": ["x"]}, {"k": [1]}, time="t"), "'x' is no time"),
        (lambda: two({"k": [1], "b": [1], "f": ["x"]}, {"k": [1]}, features="f"), "is a number"),
        (
            lambda: two({"k": [1], "b": [1], "f": ["2024-05-01"]}, {"k": [1]}, features="f"),
            "'f' is of type string: a feature is a number; .* codes, times as a type of times or",
        ),
        (lambda: two({"k": [1], "b": [1]}, {"k": [1]}, features="f"), "no column 'f' .a feature"),
        (lambda: two(7, {"k": [1]}), "a table is a path"),
        (lambda: two(CYCLE, {"k": [1]}), "a table is a path"),
        (lambda: two(NoPath(), {"k": [1]}), "is not a file name"),
        (lambda: two({"duckdb": "x.duckdb"}, {"k": [1]}), "and table or query"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit_are_named(tmp_path: Path, schema: Any, error: str) -> None:
    with pytest.raises((InputError, InvalidArgumentError), match=error):
        tables(schema(), tmp_path / "g.aeg")
    assert list(tmp_path.iterdir()) == []


def timed(one: Any, other: Any, **options: Any) -> TableSchema:
    return TableSchema(
        {
            "a": NodeTable({"k": [1, 2], "b": [1, 1], "t": one}, "k", time="t", foreign={"b": "b"}),
            "b": NodeTable({"k": [1, 2], "t": other}, "k", time="t"),
        },
        **options,
    )


@pytest.mark.parametrize(
    ("one", "other", "unit", "error"),
    [
        (STAMP.cast(pa.timestamp("s", "UTC")), STAMP, None, "time zone UTC, but .* has none"),
        ([1, 2], STAMP, None, r"plain numbers as times, but .* is in 's'"),
        ([1.5, 2], STAMP, "s", "times with fractions"),
        (STAMP, STAMP, "D", r"row 1: .*cannot be given in 'D'"),
        ([1.5, float("nan")], [1, 2], None, r"row 2: .*the time is NaN"),
        ([1.5, float("inf")], [1, 2], None, r"row 2: .*the time is inf, not finite"),
        ([-(2**63), 2], [1, 2], "s", r"row 1: .*the time is none \(NaT\)"),
        (["2020-02-28", "2020-02-30"], STAMP, None, r"row 2: column 't': '2020-02-30' is no time"),
        (["31/12/2020", "1/1/2021"], STAMP, None, r"row 1: .*'31/12/2020' is no time, such as"),
        (["2020-02-28T12:00", "2020-02-28T12:00Z"], STAMP, None, r"row 2: .*not a time as '2020-"),
    ],
    ids=range(10),
)
def test_bad_times_are_named(
    tmp_path: Path, one: Any, other: Any, unit: str | None, error: str
) -> None:
    with pytest.raises((InputError, InvalidArgumentError), match=error):
        tables(timed(one, other, time_unit=unit), tmp_path / "g")
    assert list(tmp_path.iterdir()) == []


def test_times_become_the_finest_unit(tmp_path: Path) -> None:
    tables(timed(STAMP, pa.array([5, 6], pa.timestamp("ms"))), tmp_path / "g")
    graph = HeteroGraph.load(tmp_path / "g")
    assert graph["a"].node_time.tolist() == [1000, 2000]  # type: ignore[union-attr]
    assert graph["b"].node_time.tolist() == [5, 6]  # type: ignore[union-attr]
    tables(timed([3, 4], STAMP, time_unit="s"), tmp_path / "g", force=True)
    assert HeteroGraph.load(tmp_path / "g")["a"].node_time.tolist() == [3, 4]  # type: ignore[union-attr]


def parts_of(folder: Path, *columns: Any, **options: Any) -> TableSchema:
    """Return a schema over parts of a table, whose column r has these values."""
    (folder / "u").mkdir(exist_ok=True)
    for part, array in enumerate(columns):
        ids = range(2 * part, 2 * part + 2)
        pq.write_table(pa.table({"id": ids, "r": array}), folder / "u" / f"{part}.parquet")
    return TableSchema({"u": NodeTable(str(folder / "u"), "id", **options)})


@pytest.mark.parametrize("first", [pa.string(), pa.large_string()])
def test_parts_of_other_forms_of_text_are_one_table(tmp_path: Path, first: Any) -> None:
    for kind in (pa.string(), pa.large_string()):
        parts = [pa.array(["a", "b"], first), pa.array(["b", "a"], kind)]
        schema = parts_of(tmp_path, *parts, columns=["r"], foreign={"id": "u"})
        tables(schema, tmp_path / "g.aeg", force=True)
        columns = HeteroGraph.load(tmp_path / "g.aeg").columns["u"]
        assert columns.gather([0, 1, 2, 3])["r"].to_list() == ["a", "b", "b", "a"]
    for kind in (pa.binary(), pa.large_binary()):
        parts = [pa.array(["a", "b"], first), pa.array([b"b", b"a"], kind)]
        schema = parts_of(tmp_path, *parts, columns=["r"], foreign={"id": "u"})
        with pytest.raises(InputError, match=r"1.parquet: column 'r' is of type \w*binary, but of"):
            tables(schema, tmp_path / "h.aeg")


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        ("column", r"1\.parquet: there is no column 'x'"),
        ("cut", r"1\.parquet: .*Parquet"),
        ("page", r"1\.parquet: .*(CRC|checksum)"),
    ],
)
def test_one_file_of_many_that_is_damaged_is_named(tmp_path: Path, damage: str, error: str) -> None:
    folder = tmp_path / "u"
    folder.mkdir()
    for part in range(3):
        rows = pa.table({"id": range(part * 1000, part * 1000 + 1000), "x": [float(part)] * 1000})
        path = folder / f"{part}.parquet"
        pq.write_table(
            rows, path, write_page_checksum=True, compression="none", use_dictionary=False
        )
    path = folder / "1.parquet"
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    if damage == "page":
        data[middle : middle + 200] = bytes(200)
    path.write_bytes(data[:middle] if damage == "cut" else data)
    if damage == "column":
        pq.write_table(pq.read_table(path).drop_columns(["x"]), path)
    table = NodeTable(str(folder), "id", features=["x"], foreign={"id": "u"})
    with pytest.raises(InputError, match=error):
        tables(TableSchema({"u": table}), tmp_path / "g.aeg")
    assert list(tmp_path.iterdir()) == [folder]


def test_parts_of_other_units_of_times_are_one_table(tmp_path: Path) -> None:
    own = pa.array([1, 2], pa.timestamp("ms"))
    other = pa.array([3_000_000, 4000], pa.timestamp("us"))
    tables(parts_of(tmp_path, own, other, time="r", foreign={"id": "u"}), tmp_path / "g.aeg")
    graph = HeteroGraph.load(tmp_path / "g.aeg")
    assert graph["u"].node_time.tolist() == [1, 2, 3000, 4]  # type: ignore[union-attr]
    finer = pa.array([3_000_000, 4001], pa.timestamp("us"))
    with pytest.raises(
        InputError, match=r"1.parquet, row 2: column 'r': .*04001 cannot be given as"
    ):
        tables(parts_of(tmp_path, own, finer, time="r", foreign={"id": "u"}), tmp_path / "h.aeg")
    zoned = pa.array([3, 4], pa.timestamp("ms", "UTC"))
    with pytest.raises(InputError, match=r"1.parquet: column 'r' is of type"):
        tables(parts_of(tmp_path, own, zoned, time="r", foreign={"id": "u"}), tmp_path / "h.aeg")


def test_parts_whose_keys_pandas_has_made_floats_are_one_table(tmp_path: Path) -> None:
    """Integers of which some are missing are floats in pandas, in whichever of the parts."""
    whole, floats = pa.array([0, 1]), pa.array([3.0, None])
    for lost, count in ((floats, 1), (pa.nulls(2), 0)):  # a column may be null in all rows
        found = tables(
            parts_of(tmp_path, whole, lost, foreign={"r": "u"}), tmp_path / "n.aeg", force=True
        )
        assert found.num_edges["u", "r", "u"] == 2 + count
    for value in (1.5, float("inf"), 2.0**60):
        with pytest.raises(InputError, match=r"row 2.*is not an integer below 2\*\*53"):
            schema = parts_of(tmp_path, floats, pa.array([1.0, value]), foreign={"r": "u"})
            tables(schema, tmp_path / "h.aeg")
    for parts in ((whole, floats), (floats, whole)):
        tables(parts_of(tmp_path, *parts, foreign={"r": "u"}), tmp_path / "g.aeg", force=True)
        ends = HeteroGraph.load(tmp_path / "g.aeg")["u", "r", "u"].edge_list()
        found = sorted(zip(*(one.tolist() for one in ends[:2]), strict=True))
        row = 2 * (parts[0] is whole)
        assert found == sorted([(2 - row, 0), (3 - row, 1), (row, 3)])
    for odd in (pa.array([3.5, None]), pa.array([2.0**54, None])):
        with pytest.raises(InputError, match=r"1.parquet: .* not all floats are integers"):
            tables(parts_of(tmp_path, whole, odd, foreign={"r": "u"}), tmp_path / "h.aeg")
        with pytest.raises(InputError, match=r"1.parquet: .* not all floats are integers"):
            schema = parts_of(tmp_path, odd, whole, columns="r", foreign={"id": "u"})
            tables(schema, tmp_path / "h.aeg")
    large = pa.array([2**60 + 1, 1])
    with pytest.raises(InputError, match=rf"1.parquet, row 1: .*{2**60 + 1} cannot be given as"):
        tables(parts_of(tmp_path, floats, large, foreign={"r": "u"}), tmp_path / "h.aeg")


def test_a_file_that_changes_meanwhile_is_named(
    shop_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = TypedBuild._check_inputs

    def changed(self: TypedBuild) -> None:
        rows = as_arrow(shop()["likes"][::-1])
        pq.write_table(rows, shop_files / "likes.parquet")
        write(self)

    monkeypatch.setattr(TypedBuild, "_check_inputs", changed)
    with pytest.raises(InputError, match=r"likes\.parquet: changed while it was read"):
        tables(shop_files / "shop.toml", shop_files / "g.aeg")
    assert not list(shop_files.glob("g.*"))


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_databases_that_fail_are_named(tmp_path: Path, kind: str) -> None:
    if kind == "duckdb":
        pytest.importorskip("duckdb")
    (tmp_path / "text.db").write_text("no database at all, just some text that is long enough")
    for source, error in (
        ({kind: tmp_path / "none.db", "table": "t"}, "no such file"),
        ({kind: tmp_path / "text.db", "table": "t"}, "nodes.a: (SQLite|DuckDB): "),
        ({kind: 7, "table": "t"}, "is the path of a database, or a connection, got 7"),
        ({kind: tmp_path / "text.db", "table": "t", "query": "x"}, "and table or query"),
    ):
        with pytest.raises(AetherError, match=error):
            tables(two(source, {"k": [1]}), tmp_path / "g.aeg")
    assert [path.name for path in tmp_path.iterdir()] == ["text.db"]


def test_a_database_with_a_log_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit to SQLite's log between two tables is a change of the database."""
    path = tmp_path / "a.db"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE a (k)")
    writer.execute("CREATE TABLE b (k, a)")
    writer.execute("INSERT INTO a VALUES (1)")
    writer.execute("INSERT INTO b VALUES (1, 1)")

    def source(table: str) -> dict[str, str]:
        return {"sqlite": str(path), "table": table}

    schema = TableSchema({
        "a": NodeTable(source("a"), key="k"),
        "b": NodeTable(source("b"), key="k", foreign={"a": "a"}),
    })  # fmt: skip
    tables(schema, tmp_path / "g.aeg")
    check = TypedBuild._check_inputs

    def changed(self: TypedBuild) -> None:
        writer.execute("INSERT INTO a VALUES (2)")
        check(self)

    monkeypatch.setattr(TypedBuild, "_check_inputs", changed)
    with pytest.raises(InputError, match=r"a\.db: changed while it was read"):
        tables(schema, tmp_path / "h.aeg")
    writer.close()


def test_an_error_about_a_row_comes_out_of_another_process(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        tables(two({"k": [1, None], "b": [1, 1]}, {"k": [1]}), tmp_path / "g.aeg")
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value) and again.line == 2
    assert "row 2: column 'k': the primary key is missing" in str(again)


def test_values_of_several_types_in_sqlite_are_named(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("CREATE TABLE t (k, b)")
        connection.execute("INSERT INTO t VALUES (1, 1), ('x', 1)")
    connection.close()
    source = {"sqlite": str(tmp_path / "a.db"), "table": "t"}
    with pytest.raises(InputError, match="'k' holds values of several types: integer, text"):
        tables(two(source, {"k": [1]}), tmp_path / "g.aeg")


@pytest.mark.parametrize(
    "options", [{"columns": "x"}, {"label": "x"}, {"columns": {"x": "number"}}]
)
def test_fractions_below_integers_are_named_with_what_to_do(tmp_path: Path, options: Any) -> None:
    """A column of text is judged by its first rows."""
    path, rows = tmp_path / "a.csv", [f"{one},{one}" for one in range(12_000)]
    rows[11_000] = "11000,1.5"
    path.write_text("\n".join(["id,x", *rows]))
    schema = TableSchema({"a": NodeTable(str(path), "id", foreign={"id": "a"}, **options)})
    advice = "as the values above it are: write one of the first rows with a fraction .3.0 for 3."
    with pytest.raises(InputError, match=rf"a.csv, row 11001: .*'1.5' is .*, {advice}"):
        tables(schema, tmp_path / "g.aeg")
    rows[0] = "0,0.0"
    path.write_text("\n".join(["id,x", *rows]))
    tables(schema, tmp_path / "g.aeg")


QUERIES = [
    "SELECT * FROM o;", "SELECT * FROM o -- the last; first", "SELECT * FROM o ; -- all of them\n",
    "SELECT * FROM o WHERE name <> ';--' /* ; */",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
@pytest.mark.parametrize("query", QUERIES)
def test_queries_as_they_are_pasted(tmp_path: Path, kind: str, query: str) -> None:
    path, made = tmp_path / "shop.db", "CREATE TABLE o AS SELECT 1 AS id, 'x' AS name"
    if kind == "sqlite":
        with sqlite3.connect(path) as db:
            db.execute(made)
    else:
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(str(path)) as db:
            db.execute(made)
    table = NodeTable({kind: path, "query": query}, "id", foreign={"id": "o"})
    assert tables(TableSchema({"o": table}), tmp_path / "g.aeg").num_nodes == {"o": 1}
    other = "duckdb" if kind == "sqlite" else "sqlite"
    wrong = NodeTable({other: path, "table": "o"}, "id", foreign={"id": "o"})
    with pytest.raises(InvalidArgumentError, match=rf"of another kind: give {{{kind} = "):
        tables(TableSchema({"o": wrong}), tmp_path / "h.aeg")
    none = NodeTable({kind: path, "query": "SELECT * FROM o WHERE id > 1"}, "id")
    schema = TableSchema({"o": none, "p": NodeTable({"o": [1]}, foreign={"o": "o"})})
    with pytest.raises(InputError, match=r"^nodes.o \(query of .*shop.db\): .*no (rows|values)"):
        tables(schema, tmp_path / "h.aeg")


def test_types_that_parquet_does_not_have(tmp_path: Path) -> None:
    """Columns that nothing uses may be of any type; of the others the error names the column."""
    duckdb = pytest.importorskip("duckdb")
    path = str(tmp_path / "shop.duckdb")
    with duckdb.connect(path) as database:
        database.execute("CREATE TABLE o (id INTEGER PRIMARY KEY, takes INTERVAL, x DOUBLE)")
        database.execute("INSERT INTO o VALUES (1, INTERVAL 3 DAY, 0.5), (2, NULL, 1.5)")
    source = {"duckdb": path, "table": "o"}
    table = NodeTable(source, "id", features=["x"], foreign={"id": "o"})
    tables(TableSchema({"o": table}), tmp_path / "g.aeg")
    found: Any = HeteroGraph.load(tmp_path / "g.aeg")["o"]
    assert found.features.gather([0, 1]).tolist() == [[0.5], [1.5]]
    assert "takes" not in guess_schema(path)
    for options in ({"features": ["takes"]}, {"columns": ["takes"]}, {"columns": "all"}):
        used: Any = options
        schema = TableSchema({"o": NodeTable(source, "id", foreign={"id": "o"}, **used)})
        with pytest.raises(InputError, match=r"column 'takes' is of type .*interval.* cast it"):
            tables(schema, tmp_path / "h.aeg")
    only = NodeTable({"duckdb": path, "query": "SELECT takes FROM o"}, foreign={"takes": "o"})
    with pytest.raises(InputError, match="column 'takes' is of type"):
        tables(TableSchema({"o": table, "p": only}), tmp_path / "h.aeg")


@pytest.mark.parametrize(
    ("key", "other", "number"),
    [(pa.uint64(), pa.int64(), -1), (pa.int64(), pa.uint64(), 2**63)],
)
def test_a_key_outside_the_type_of_the_other_table(
    tmp_path: Path, key: Any, other: Any, number: int
) -> None:
    users = NodeTable({"id": pa.array([1, 2], key)}, "id")
    posts = NodeTable({"u": pa.array([1, number], other)}, foreign={"u": "user"})
    with pytest.raises(InputError, match=rf"row 2: .*no 'user' with the key {number}; missing"):
        tables(TableSchema({"user": users, "post": posts}), tmp_path / "g.aeg")
    both = {"id": pa.array([1, 2], key), "of": ["a", "b"]}
    links = {"u": pa.array([1, number], other), "of": ["a", "b"]}
    foreign = {"u": ForeignKey("user", ["u", "of"])}
    schema = TableSchema({
        "user": NodeTable(both, ["id", "of"]), "post": NodeTable(links, foreign=foreign)
    })  # fmt: skip
    with pytest.raises(InputError, match=rf"key that has an integer outside .*\({key}, str\)"):
        tables(schema, tmp_path / "g.aeg")


# ---- going on after a kill ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("after", [True, False])
def test_goes_on_wherever_it_was_interrupted(
    shop_files: Path, monkeypatch: pytest.MonkeyPatch, after: bool, small_memory: None
) -> None:
    """Interrupted at some of the recordings, before or after, then run again."""
    schema, output = TableSchema.load(shop_files / "shop.toml"), shop_files / "g.aeg"
    tables(schema, shop_files / "whole.aeg", layout="both")
    notes = tables(schema, output, layout="both").notes
    whole = (shop_files / "whole.aeg").read_bytes()
    recording = Recording(monkeypatch, interrupted_after=after)
    points = 1 if after else 8  # both of them together: every eighth or so
    while True:
        recording.left = points
        for path in shop_files.glob("g.*"):
            path.unlink()
        try:
            tables(schema, output, layout="both", restart=True)
        except Interrupt:
            recording.left = 0
        else:
            break
        assert not output.exists()
        found = tables(schema, output, layout="both", force=True)
        assert output.read_bytes() == whole, points
        assert found.notes == notes
        assert not Path(f"{output}.building").exists()
        points += 15
    assert points > 12


def test_damaged_ids_of_an_interrupted_build_are_named(
    shop_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between a type's lists and those of its reverse, which need the ids again."""
    schema, output = TableSchema.load(shop_files / "shop.toml"), shop_files / "g.aeg"
    make = TypedBuild._make_edges

    def interrupted(self: TypedBuild, number: int, ends: Any) -> None:
        make(self, number, ends)
        raise Interrupt

    with monkeypatch.context() as patch:
        patch.setattr(TypedBuild, "_make_edges", interrupted)
        with pytest.raises(Interrupt):
            tables(schema, output)
    (path,) = Path(f"{output}.building").glob("join-0-0")
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises(WorkFileError, match=r"join-0-0: has other bytes than were written"):
        tables(schema, output)
    data[40] ^= 1
    path.write_bytes(data)
    tables(schema, output)
    tables(schema, shop_files / "whole.aeg")
    assert output.read_bytes() == (shop_files / "whole.aeg").read_bytes()


def test_the_first_bad_row_is_named_though_keys_wait(tmp_path: Path, small_memory: None) -> None:
    """A word among numbers is found while keys are read, and not before the rows above it."""
    (tmp_path / "posts.csv").write_text("author\n7\n9\n" + "8\n" * 400 + "none\n")
    posts = NodeTable(str(tmp_path / "posts.csv"), foreign={"author": "user"})
    schema = TableSchema({"user": NodeTable({"id": [7, 8]}, "id"), "post": posts})
    with pytest.raises(InputError, match=r"row 2.*no 'user' with the key 9"):
        tables(schema, tmp_path / "g.aeg")


def test_what_changed_is_named(shop_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, output = TableSchema.load(shop_files / "shop.toml"), shop_files / "g.aeg"
    record = Journal.record

    def interrupted(self: Journal, **state: Any) -> None:
        record(self, **state)
        raise Interrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "record", interrupted)
        with pytest.raises(Interrupt):
            tables(schema, output)
    with pytest.raises(InvalidArgumentError, match="layout was 'csc' and is 'csr'"):
        tables(schema, output, layout="csr")
    toml = (shop_files / "shop.toml").read_text()
    other = toml.replace('time = "placed"', "", 1)
    assert other != toml
    (shop_files / "other.toml").write_text(other)
    with pytest.raises(InvalidArgumentError, match=r"changed: nodes.order.time was 'placed' and "):
        tables(TableSchema.load(shop_files / "other.toml"), output)
    pq.write_table(as_arrow(shop()["order"][::-1]), shop_files / "order.parquet")
    with pytest.raises(InvalidArgumentError, match=r"order.parquet"):
        tables(schema, output)
    tables(schema, output, restart=True)


def test_what_was_refused_begins_anew_when_it_is_another(tmp_path: Path) -> None:
    """A build of a schema that is wrong leaves nothing that stands in the way of the right one."""
    with sqlite3.connect(tmp_path / "d.db") as database:
        database.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, t TEXT, u TEXT, of INTEGER)")
        row = (1, "2024-01-01 00:00:00Z", "2024-01-02 00:00:00", 1)
        database.execute("INSERT INTO a VALUES (?, ?, ?, ?)", row)
    database.close()
    source = {"sqlite": str(tmp_path / "d.db"), "table": "a"}
    other = {"sqlite": str(tmp_path / "d.db"), "query": "SELECT * FROM a"}

    def schema(time: str) -> TableSchema:
        return TableSchema({
            "a": NodeTable(source, key="id", time="t"),
            "b": NodeTable(other, key="id", time=time, foreign={"of": "a"}),
        })  # fmt: skip

    output = tmp_path / "g.aeg"
    with pytest.raises(InvalidArgumentError, match="zone"):
        tables(schema("u"), output)
    with pytest.raises(InvalidArgumentError, match="zone"):  # the same: it goes on, and is refused
        tables(schema("u"), output)
    result = tables(schema("t"), output)
    assert result.num_nodes == {"a": 1, "b": 1}
    assert sorted(one.name for one in tmp_path.glob("g.*")) == ["g.a.ids", "g.aeg", "g.b.ids"]


def test_killed_and_run_again(shop_files: Path) -> None:
    """A process that is killed while it sorts edges; another one goes on."""
    output = shop_files / "g.aeg"
    schema = str(shop_files / "shop.toml")
    kill_at_recording(9, f"tables({schema!r}, {str(output)!r})")
    assert not output.exists()
    remarks: list[str] = []
    tables(shop_files / "shop.toml", output, remark=remarks.append)
    assert "going on with an interrupted build" in remarks[0]
    write(shop_world(shop()), shop_files / "w.aeg", dtypes=DTYPES)
    assert same_graph_file(output, shop_files / "w.aeg")


KILLED_WHILE_IT_REMOVES = """
import os, signal, shutil
from pathlib import Path
from aethergraph.convert import tables
from aethergraph.convert.external.journal import Journal
unlink, left = Path.unlink, [{left}]
def killed(self, *args, **options):
    if ".building" in str(self.parent) and Path({output!r}).exists():
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    unlink(self, *args, **options)
Path.unlink = killed
tables({schema!r}, {output!r})
"""


def test_killed_while_the_work_folder_is_removed(shop_files: Path) -> None:
    """The output is complete: the same call removes the rest and returns what the first would."""
    output, schema = shop_files / "g.aeg", str(shop_files / "shop.toml")
    whole = tables(schema, shop_files / "w.aeg")
    code = KILLED_WHILE_IT_REMOVES.format(left=4, schema=schema, output=str(output))
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    written, folder = output.stat(), Path(f"{output}.building")
    assert folder.exists()
    found = tables(schema, output)
    assert not folder.exists()
    assert output.stat() == written
    assert output.read_bytes() == (shop_files / "w.aeg").read_bytes()
    assert found.num_nodes == whole.num_nodes
    assert found.num_edges == whole.num_edges
    assert (found.notes, [*found.ids]) == (whole.notes, [*whole.ids])
    assert found.graph == str(output)
    assert all(Path(path).exists() for path in found.ids.values())
    with pytest.raises(StorageError, match="exists already"):
        tables(schema, output)


@pytest.mark.parametrize(
    ("step", "change"),
    [("remove", "output"), ("remove", "schema"), ("remove", "gone"), ("finish", "none")],
)
def test_a_complete_build_of_something_else_is_none(
    shop_files: Path, monkeypatch: pytest.MonkeyPatch, step: str, change: str
) -> None:
    """A complete build that was left says nothing of another output or another schema.

    Nor does one that was killed between the graph and the record of it: it goes on.
    """
    output, schema = shop_files / "g.aeg", shop_files / "shop.toml"

    def interrupted(self: Journal, *args: Any) -> None:
        raise Interrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, step, interrupted)
        with pytest.raises(Interrupt):
            tables(schema, output)
    whole = output.read_bytes()
    if change == "output":
        output.write_bytes(b"of someone else")
    options: Any = {"layout": "csr"} if change == "schema" else {}
    if change == "gone":
        for path in shop_files.glob("g.*"):
            if path.is_file():
                path.unlink()
    if change in ("gone", "none"):
        tables(schema, output)
        assert output.read_bytes() == whole
    else:
        with pytest.raises(StorageError, match="exists already"):
            tables(schema, output, **options)
    assert not Path(f"{output}.building").exists()


def test_a_complete_build_that_cannot_say_so(
    shop_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full when the graph is written does not make the build fail."""
    write = Journal._write

    def full(self: Journal, state: dict[str, Any], **more: bool) -> None:
        if "finished" in state:
            self.state = state
            raise StorageError(28, "cannot write: No space left on device")
        write(self, state, **more)

    monkeypatch.setattr(Journal, "_write", full)
    tables(shop_files / "shop.toml", shop_files / "g.aeg")
    assert not (shop_files / "g.aeg.building").exists()
