"""``aethergraph tables``: the build, the first schema that it guesses, and clean errors."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from support.commands import ae

from aethergraph import HeteroGraph
from aethergraph.convert import TableSchema, guess_schema, tables

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


def test_rows_that_may_be_edges_or_nodes_are_offered_as_both(tmp_path: Path) -> None:
    """Transactions between users and shops, with a key that is not called as the table is."""
    pq.write_table(pa.table({"user_id": ["a", "b"]}), tmp_path / "users.parquet")
    pq.write_table(pa.table({"shop_id": ["x", "y"]}), tmp_path / "shops.parquet")
    rows = {
        "tx_id": [7, 9, 8], "user_id": ["a", "b", "a"], "shop_id": ["x", "x", "y"],
        "amount": [1.5, 2.5, 2.5], "ts": np.array([5, 6, 7], "datetime64[s]"),
    }  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "transactions.parquet")
    text = guess_schema(tmp_path)
    assert '[links."transactions"]\nfrom = "transactions.parquet"\nsource = "users"\n' in text
    assert "or nodes of their own, with the key tx_id and" in text
    assert "Times of nodes" not in text  # the time is of links
    (tmp_path / "links.toml").write_text(text)
    result = tables(tmp_path / "links.toml", tmp_path / "links.aeg")
    assert result.num_edges["users", "transactions", "shops"] == 3
    # The other form, as the comment says: its lines instead of those above.
    begin = text.index('[links."transactions"]')
    middle = text.index('# [nodes."transactions"]')
    end = text.index("\n\n", middle)
    nodes = "\n".join(line.removeprefix("# ") for line in text[middle:end].splitlines())
    nodes = nodes.replace("unsure:", "# unsure:")
    (tmp_path / "nodes.toml").write_text(text[:begin] + nodes + text[end:])
    result = tables(tmp_path / "nodes.toml", tmp_path / "nodes.aeg")
    assert result.num_nodes == {"shops": 2, "transactions": 3, "users": 2}
    assert result.num_edges["transactions", "user_id", "users"] == 3
    assert HeteroGraph.load(tmp_path / "nodes.aeg").ids["transactions"].lookup([8]).tolist() == [2]


def test_times_of_nodes_are_told_where_they_lead(folder: Path) -> None:
    text = guess_schema(folder)
    assert 'time_attr = "node_time"' in text and "DynamicHeteroGraph.open, base=" in text


def test_all_that_is_wrong_is_listed(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text(
        "id,age,joined\na,1,2024-01-01\nb,x,2024-01-02\na,3,never\n,4,2024-01-02\n"
        "c,,2024-01-05\nd,zz,2024-13-45\n"
    )
    (tmp_path / "tx.csv").write_text(
        "tx,user,w\n1,a,1\n2,zz,2\n3,yy,-1\n3,,2\n4,c,-2\n5,d,3\n6,,7\n"
    )
    schema = tmp_path / "s.toml"
    schema.write_text(
        '[nodes.user]\nfrom = "users.csv"\nkey = "id"\nfeatures = ["age"]\ntime = "joined"\n'
        '[nodes.tx]\nfrom = "tx.csv"\nkey = "tx"\n'
        'foreign.of = {to = "user", columns = "user", weight = "w"}\n'
        '[nodes.gone]\nfrom = "gone.csv"\nkey = "id"\nforeign.x = "user"\n'
    )
    before = sorted(tmp_path.iterdir())
    result = ae("tables", schema, "--check", code=1)
    assert sorted(tmp_path.iterdir()) == before
    text = result.stdout.replace(f"{tmp_path}/", "")
    for problem in (
        "nodes.gone: gone.csv: no such file\n",
        "nodes.user: users.csv, row 3: column 'joined': the time 'never' is no time (2 rows)\n",
        "nodes.user: users.csv, row 2: column 'age': the feature 'x' is no number (2 rows)\n",
        "nodes.user: users.csv, row 3: the key (id) is that of an earlier row; duplicates =",
        "nodes.user: users.csv, row 4: column 'id': the primary key is missing (null)\n",
        "nodes.tx: tx.csv, row 4: the key (tx) is that of an earlier row; duplicates =",
        "nodes.tx: tx.csv, row 2: column 'user': there is no 'user' with the key 'zz'; missing =",
        "nodes.tx: tx.csv, row 5: column 'w': the weight -2.0 is not finite and >= 0\n",
    ):
        assert problem in text, problem
    assert "of such keys (2 rows)\n" in text  # zz and yy
    assert text.endswith("8 problems in 6 rows of nodes.user, 7 rows of nodes.tx\n")
    assert "edges ('gone', 'x', 'user'): not looked at" in result.stderr
    # What the schema says how to take is noted, and no problem.
    (tmp_path / "users.csv").write_text("id,age,joined\na,1,2024-01-01\na,2,2024-01-02\n")
    (tmp_path / "tx.csv").write_text("tx,user,w\n1,a,1\n2,zz,2\n3,,5\n")
    (tmp_path / "gone.csv").write_text("id,x\n1,a\n")
    told = schema.read_text().replace('key = "id"\nfeat', 'key = "id"\nduplicates = "last"\nfeat')
    schema.write_text(told.replace('weight = "w"', 'weight = "w", missing = "drop"'))
    result = ae("tables", schema, "--check")
    assert result.stdout.startswith("no problems in 2 rows of nodes.user, 3 rows of nodes.tx, 1 ")
    for remark in ("user: 1 rows left out", "1 null keys, no edges", "1 edges left out"):
        assert remark in result.stderr
    built = ae("tables", schema, "-o", tmp_path / "g.aeg")
    assert "user: 1 nodes" in built.stdout and "user: 1 rows left out" in built.stderr
    assert (
        ae("tables", schema, "--check", "-f", code=2).stderr.count("--force is for building") == 1
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
    TableSchema.load(schema)
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
