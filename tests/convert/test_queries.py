"""Queries of databases: they only read, and their files are those of the schema's folder."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.shop_tables import two

from aethergraph.convert import InputError, NodeTable, TableSchema, tables
from aethergraph.convert.typed.queries import duckdb_batches
from aethergraph.errors import InvalidArgumentError


def everything_in(folder: Path) -> dict[str, bytes]:
    """Return the content of all files below a folder."""
    return {str(one): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def make_database(kind: str, path: Path) -> None:
    """Write a database with a table o of one row."""
    connect: Any = sqlite3.connect
    if kind == "duckdb":
        connect = pytest.importorskip("duckdb").connect
    database = connect(str(path))
    database.execute("CREATE TABLE o AS SELECT 1 AS id, 'x' AS name")
    database.commit()
    database.close()


BOTH = [
    "SELECT * FROM o; SELECT * FROM o", "SELECT * FROM o; DROP TABLE o", "DELETE FROM o", "",
    "-- nothing", "INSERT INTO o VALUES (2, 'y')", "INSERT INTO o VALUES (2, 'y') RETURNING *",
    "CREATE TABLE p AS SELECT * FROM o", "CREATE TEMP TABLE p AS SELECT * FROM o",
    "ATTACH 'other.db' AS other", "EXPLAIN SELECT * FROM o", "BEGIN", "VACUUM", "SELECT * FROM",
]  # fmt: skip
UNSAFE = [
    *(("sqlite", query) for query in BOTH),
    *(("duckdb", query) for query in BOTH),
    ("sqlite", "PRAGMA writable_schema = 1"),
    ("sqlite", "PRAGMA user_version = 7"),
    ("sqlite", "SELECT load_extension('x.so')"),
    ("sqlite", "VACUUM INTO 'copy.db'"),
    ("sqlite", "WITH n AS (SELECT 2) INSERT INTO o SELECT *, 'y' FROM n"),
    ("duckdb", "COPY o TO 'out.csv'"),
    ("duckdb", "COPY (SELECT * FROM o) TO 'victim.txt'"),
    ("duckdb", "COPY (PIVOT o ON name) TO 'out.csv'"),
    ("duckdb", "EXPORT DATABASE 'out'"),
    ("duckdb", "INSTALL spatial"),
    ("duckdb", "LOAD spatial"),
    ("duckdb", "SET enable_external_access = true"),
    ("duckdb", "PRAGMA enable_profiling = 'json'"),
    ("duckdb", "CALL enable_logging(storage_path = 'logs', storage = 'file')"),
    ("duckdb", "SELECT * FROM enable_logging(storage_path = 'logs', storage = 'file')"),
    ("duckdb", "SELECT * FROM query('DELETE FROM o')"),
    ("duckdb", "WITH n AS (INSERT INTO o VALUES (2, 'y') RETURNING *) SELECT * FROM n"),
    ("duckdb", "SELECT * FROM read_text('../secret.txt')"),
    ("duckdb", "SELECT * FROM glob('/*')"),
    ("duckdb", "SELECT * FROM 'http://127.0.0.1:9/x.parquet'"),
]


@pytest.mark.parametrize(("kind", "query"), UNSAFE, ids=[f"{one}-{text}" for one, text in UNSAFE])
def test_a_query_can_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, query: str
) -> None:
    folder = tmp_path / "schema"
    folder.mkdir()
    monkeypatch.chdir(folder)
    make_database(kind, folder / "shop.db")
    (folder / "victim.txt").write_text("do not touch")
    (tmp_path / "secret.txt").write_text("do not read")
    before = everything_in(tmp_path)
    node = NodeTable({kind: "shop.db", "query": query}, "id", foreign={"id": "o"})
    with pytest.raises(InputError, match=r"^nodes.o: (a query is one|SQLite: |DuckDB: )"):
        tables(TableSchema({"o": node}, folder=folder), tmp_path / "g.aeg")
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_query_of_an_open_connection_can_only_read(tmp_path: Path, kind: str) -> None:
    if kind == "sqlite":
        database: Any = sqlite3.connect(":memory:")
    else:
        database = pytest.importorskip("duckdb").connect()
    database.execute("CREATE TABLE o AS SELECT 1 AS id")
    for query in (
        "INSERT INTO o VALUES (2)", "INSERT INTO o VALUES (2) RETURNING *", "SELECT 1; SELECT 2",
        "WITH n AS (INSERT INTO o VALUES (2) RETURNING *) SELECT * FROM n", "DROP TABLE o",
    ):  # fmt: skip
        table = NodeTable({kind: database, "query": query}, "id", foreign={"id": "o"})
        with pytest.raises(InputError):
            tables(TableSchema({"o": table}), tmp_path / "g.aeg")
    assert database.execute("SELECT * FROM o").fetchall() == [(1,)]
    database.execute("INSERT INTO o VALUES (2)")  # it is as it was
    table = NodeTable({kind: database, "query": "SELECT * FROM o"}, "id", foreign={"id": "o"})
    assert tables(TableSchema({"o": table}), tmp_path / "g.aeg").num_nodes == {"o": 2}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM 'u.csv'",
        "FROM 'u.csv'",
        "SELECT * FROM read_csv('u.csv', delim = ',', header = true)",
        "SELECT * FROM read_csv(['u.csv', 'parts/v.csv'])",
        "SELECT * FROM 'parts/*.csv' UNION ALL FROM 'u.csv'",
        "WITH a AS (FROM 'u.csv') SELECT a.* FROM a LEFT JOIN 'parts/v.csv' b USING (id) -- '",
        "SELECT id, trim(both 'u.csv' FROM name) AS name FROM read_csv('u.csv')",
        "SELECT id, replace(name, 'u.csv', e'\\'') AS name FROM 'u.csv' WHERE 'parts' <> \"name\"",
        "SELECT * FROM (VALUES (1, 'it''s'), (2, $$'u.csv'$$)) AS t(id, name)",
    ],
)
def test_queries_over_files_begin_at_the_folder_of_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    pytest.importorskip("duckdb")
    folder, elsewhere = tmp_path / "it's", tmp_path / "cwd"
    (folder / "parts").mkdir(parents=True)
    elsewhere.mkdir()
    (folder / "u.csv").write_text("id,name\n1,ann\n2,bob\n")
    (folder / "parts/v.csv").write_text("id,name\n3,cy\n")
    (elsewhere / "u.csv").write_text("id,name\n7,other\n")
    make_database("duckdb", folder / "shop.db")
    monkeypatch.chdir(elsewhere)
    counts = set()
    for source in ({"duckdb": "shop.db"}, {"duckdb": ":memory:"}, {}):
        given = {**source, "query": query}
        entry = ", ".join(f"{name} = {json.dumps(text)}" for name, text in given.items())
        schema = f'[nodes.a]\nfrom = {{{entry}}}\nkey = "id"\nforeign.id = "a"\n'
        (folder / "s.toml").write_text(schema)
        found = tables(folder / "s.toml", tmp_path / "g.aeg", force=True)
        counts.add(found.num_nodes["a"])
    assert counts == {3 if "parts/v.csv']" in query or "UNION" in query else 2}
    assert not list(elsewhere.glob(".tmp"))


def test_files_outside_the_folder_are_told(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "schema").mkdir()
    (tmp_path / "u.csv").write_text("id\n1\n")
    for path in ("../u.csv", tmp_path / "u.csv"):
        node = NodeTable({"query": f"SELECT * FROM '{path}'"}, "id", foreign={"id": "o"})
        schema = TableSchema({"o": node}, folder=tmp_path / "schema")
        with pytest.raises(InputError, match=r"reads files in .*schema alone"):
            tables(schema, tmp_path / "g.aeg")
    with pytest.raises(InvalidArgumentError, match="DuckDB without a file has no tables"):
        tables(two({"duckdb": ":memory:", "table": "t"}, {"k": [1]}), tmp_path / "g.aeg")


def test_what_does_not_fit_in_memory_goes_to_the_work_folder(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    query = "SELECT current_setting('temp_directory') AS place"
    _, batches = duckdb_batches(":memory:", query, "n", None, str(tmp_path))
    assert [row for batch in batches for row in batch.to_pylist()] == [{"place": str(tmp_path)}]
