"""``aethergraph tables``: the build, the first schema that it guesses, and clean errors."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from support.commands import ae

from aethergraph import HeteroGraph
from aethergraph.convert import guess_schema, load_schema

USERS = {"id": ["a", "b", "c"], "age": [30, None, 50], "name": ["x", "y", "z"]}
ORDERS: dict[str, Any] = {
    "order_id": [1, 2, 3, 4],
    "user_id": ["a", "a", None, "?"],
    "placed": pa.array([1, 2, 3, 4], pa.timestamp("s")),
    "amount": [0.5, 1.5, 2.5, 3.5],
}
LIKES = {"user_id": ["c", "b"], "order_id": [3, 1], "stars": [5, 4]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "shop"
    (found / "orders").mkdir(parents=True)
    pacsv.write_csv(pa.table(USERS), found / "users.csv")
    pq.write_table(pa.table(ORDERS).slice(0, 2), found / "orders" / "1.parquet")
    pq.write_table(pa.table(ORDERS).slice(2), found / "orders" / "2.parquet")
    pq.write_table(pa.table(LIKES), found / "likes.parquet")
    (found / "notes.md").write_text("not a table")
    return found


def test_a_guessed_schema_says_what_is_unsure(folder: Path) -> None:
    text = guess_schema(folder)
    assert text == ae("tables", "--guess", folder).stdout
    assert text[text.index("[") :] == (
        '[links."likes"]\n'
        'from = "likes.parquet"\n'
        'source = "users"\n'
        'source_key = "user_id"\n'
        'destination = "orders"\n'
        'destination_key = "order_id"\n'
        'attrs = ["stars"]\n'
        "\n"
        '[nodes."orders"]\n'
        'from = "orders"\n'
        'key = "order_id"\n'
        'time = "placed"\n'
        'features = ["amount"]\n'
        "# unsure: user_id: 33.3% of its values are no key of users\n"
        'foreign."user_id" = "users"\n'
        "\n"
        '[nodes."users"]\n'
        'from = "users.csv"\n'
        'key = "id"\n'
        'features = ["age"]\n'
        "fill = 0\n"
        "# unsure: 0 stands for what is missing in age\n"
        'columns = {name = "text"}\n'
        '# unsure: category or text? columns = "all" keeps numbers and times as well\n'
    )


def test_nan_is_guessed_as_missing(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "x": [0.5, float("nan")], "y": [1.5, 2.5]})
    pq.write_table(table, tmp_path / "users.parquet")
    assert "fill = 0\n# unsure: 0 stands for what is missing in x\n" in guess_schema(tmp_path)


def test_the_guessed_schema_builds_a_graph(folder: Path, tmp_path: Path) -> None:
    schema, output = folder / "schema.toml", tmp_path / "shop.aeg"
    schema.write_text(guess_schema(folder))
    error = ae("tables", schema, "-o", output, code=1).stderr
    assert "2.parquet, row 2: column 'user_id': there is no 'users' with the key '?'" in error
    text = schema.read_text()
    schema.write_text(
        text.replace('= "users"\n\n', '= {to = "users", columns = "user_id", missing = "drop"}\n\n')
    )
    load_schema(schema)
    result = ae("tables", schema, "-o", output, "--memory", "4G")
    assert "orders: 4 nodes, ids in " in result.stdout
    assert "users rev_likes orders" not in result.stdout
    assert "orders rev_likes users: 2 edges" in result.stdout
    assert "1 edges left out" in result.stderr
    graph = HeteroGraph.load(output)
    user = int(graph.ids["users"].lookup(["a"])[0])
    assert graph["orders", "user_id", "users"].in_neighbors(user).tolist() == [0, 1]
    ids = tmp_path / "shop.users.ids"
    assert "3 of type str" in ae("info", ids).stdout
    assert "3 keys are found by their ids" in ae("verify", ids, output).stdout


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_tables_of_a_database(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "shop.db"
    if kind == "sqlite":
        connection: Any = sqlite3.connect(path)
    else:
        connection = pytest.importorskip("duckdb").connect(str(path))
    connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, age INTEGER)")
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER)")
    connection.execute("INSERT INTO users VALUES (7, 30), (9, 40)")
    connection.execute("INSERT INTO orders VALUES (1, 9), (2, 9), (3, 7)")
    connection.commit()
    connection.close()
    schema = tmp_path / "schema.toml"
    schema.write_text(ae("tables", "--guess", path).stdout)
    assert f'from = {{{kind} = "shop.db", table = "orders"}}' in schema.read_text()
    ae("tables", schema, "-o", tmp_path / "shop.aeg")
    graph = HeteroGraph.load(tmp_path / "shop.aeg")
    assert graph["orders", "user_id", "users"].in_neighbors(1).tolist() == [0, 1]


DECLARED = """
CREATE TABLE products (sku TEXT PRIMARY KEY, price REAL);
CREATE TABLE orders (number INTEGER, line INTEGER, product TEXT REFERENCES products (sku),
                     PRIMARY KEY (number, line));
CREATE TABLE returns (id INTEGER PRIMARY KEY, number INTEGER, line INTEGER, reason TEXT,
                      FOREIGN KEY (number, line) REFERENCES orders (number, line));
CREATE VIEW dear AS SELECT * FROM products WHERE price > 1;
INSERT INTO products VALUES ('p1', 1.5), ('p2', 2.5);
INSERT INTO orders VALUES (1, 1, 'p2'), (1, 2, 'p1'), (2, 1, 'p2');
INSERT INTO returns VALUES (7, 1, 2, 'broken'), (8, 2, 1, 'broken');
"""


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_keys_that_a_database_declares(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "shop.db"
    if kind == "sqlite":
        with sqlite3.connect(path) as connection:
            connection.executescript(DECLARED)
    else:
        with pytest.importorskip("duckdb").connect(str(path)) as connection:
            connection.execute(DECLARED)
    schema = tmp_path / "schema.toml"
    schema.write_text(ae("tables", "--guess", path).stdout)
    assert "dear" not in schema.read_text()
    ae("tables", schema, "-o", tmp_path / "shop.aeg")
    graph = HeteroGraph.load(tmp_path / "shop.aeg")
    assert graph["orders", "product", "products"].in_neighbors(1).tolist() == [0, 2]
    assert graph["returns", "number_line", "orders"].in_neighbors(1).tolist() == [0]
    assert graph.ids["orders"].lookup(([2], [1])).tolist() == [2]


def test_tables_of_other_schemas_of_duckdb_are_told(tmp_path: Path) -> None:
    with pytest.importorskip("duckdb").connect(str(tmp_path / "shop.db")) as connection:
        connection.execute('CREATE SCHEMA sales; CREATE SCHEMA "odd ""one"')
        connection.execute("CREATE TABLE sales.orders AS SELECT 1 AS id, 7 AS user_id")
        connection.execute('CREATE TABLE "odd ""one".t AS SELECT 1 AS id')
    error = ae("tables", "--guess", tmp_path / "shop.db", code=1).stderr
    assert "holds no tables; not looked at: " in error and "sales.orders" in error
    with pytest.importorskip("duckdb").connect(str(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE users AS SELECT 7 AS id")
    text = ae("tables", "--guess", tmp_path / "shop.db").stdout
    assert "# not looked at: sales.orders, of another schema: from = " in text
    for line in text.splitlines():
        if line.startswith("# not looked at: "):
            text += f"[nodes.n{len(text)}]\n{line[line.index('from = ') :]}\nkey = 'id'\n"
            text += "foreign.user_id = 'users'\n" if "orders" in line else ""
    (tmp_path / "shop.toml").write_text(text)  # what the remarks say can be taken as it is
    ae("tables", tmp_path / "shop.toml", "-o", tmp_path / "shop.aeg")
    assert len(HeteroGraph.load(tmp_path / "shop.aeg").node_types) == 3


def test_columns_that_no_model_takes_are_left_out(tmp_path: Path) -> None:
    tags = pa.table({"sku": ["a", "b"], "tags": [["x"], []], "size": [{"w": 1}, {"w": 2}]})
    pq.write_table(tags, tmp_path / "products.parquet")
    pq.write_table(pa.table({"product_sku": ["a", "b", "b"]}), tmp_path / "sales.parquet")
    text = guess_schema(tmp_path)
    assert "# not used: tags (list<" in text and "size (struct<" in text
    assert 'key = "sku"\n' in text and "key sku: all values differ" in text
    (tmp_path / "s.toml").write_text(text)
    ae("tables", tmp_path / "s.toml", "-o", tmp_path / "g.aeg")
    (tmp_path / "s.toml").write_text(
        text.replace('key = "sku"', 'key = "sku"\ncolumns = {tags="text"}')
    )
    error = ae("tables", tmp_path / "s.toml", "-o", tmp_path / "h.aeg", code=1).stderr
    assert "column 'tags' (nodes.products) is of type list<" in error


def test_mistakes_are_one_line(folder: Path, tmp_path: Path) -> None:
    for args, code, error in (
        ([], 2, "give a schema and -o"),
        (["--guess", tmp_path / "none"], 1, "no such file or folder"),
        (["--guess", folder / "notes.md"], 1, "holds no tables"),
        (["--guess", folder, "-o", "x"], 2, "--output is for building a graph: --guess prints"),
        (["--guess", folder, "x.toml"], 2, "is for building a graph: --guess prints a schema"),
        (["--guess", folder, "-f"], 2, "--force is for building a graph: --guess prints a schema"),
        (["--guess", folder, "--memory", "1G"], 2, "--memory is for building a graph"),
        ([tmp_path / "none.toml", "-o", tmp_path / "g"], 1, "none.toml: no such file"),
    ):
        found = ae("tables", *args, code=code).stderr
        assert error in " ".join(found.split()) and found.count("\n") <= 2


def test_parts_of_a_table_and_empty_ones_are_pointed_out(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"orders{number}.csv").write_text(f"id,total\n{number},2.5\n")
    (tmp_path / "none.csv").write_text("id,name\n")
    text = guess_schema(tmp_path)
    assert text.count("3 files have these columns and such a name") == 3
    assert 'with from = "orders*.csv"' in text
    assert text.count("it has no rows, which is refused: leave the table out") == 1
