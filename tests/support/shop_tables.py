"""The tables of a shop, in memory, in files and in databases, and their graph."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from support.table_oracle import Edges, Nodes, Rows, World

from aethergraph.convert import (
    ForeignKey,
    LinkTable,
    NodeTable,
    TableSchema,
)

DAY = dt.datetime(2024, 1, 1)


def shop(users: int = 60, orders: int = 500, seed: int = 0) -> dict[str, Rows]:
    rng = np.random.default_rng(seed)
    numbers = [int(n) for n in rng.permutation(users * 3)[:users]]

    def some_user(extra: int = 0) -> str | None:
        at = int(rng.integers(0, users + extra))
        return f"u{numbers[at]}" if at < users else None

    return {
        "user": [
            {"id": f"u{n}", "age": int(n % 70), "premium": bool(n % 3), "label": n % 5}
            for n in numbers
        ],
        "product": [
            {"shop": n % 4, "sku": f"p{n}", "price": n / 4} for n in range(users // 2)
        ],
        "order": [
            {
                "id": n * 7919 - 300, "buyer": some_user(5),
                "placed": DAY + dt.timedelta(seconds=int(rng.integers(0, 10**6))),
                "before": None if n < 3 or n % 4 == 0 else (n // 2) * 7919 - 300,
            }
            for n in rng.permutation(orders).tolist()
        ],
        "likes": [
            {
                "user": some_user(), "shop": n % 4, "sku": f"p{n}",
                "w": float(rng.integers(0, 9)) / 8, "stars": int(rng.integers(0, 6)),
                "at": DAY + dt.timedelta(seconds=int(rng.integers(0, 10**6))),
            }
            for n in rng.integers(0, users // 2, 2 * orders).tolist()
        ],
    }  # fmt: skip


DTYPES = {"placed": "datetime64[us]", "at": "datetime64[us]", "w": np.float64, "stars": np.int64}


def shop_world(rows: dict[str, Rows]) -> World:
    return World(
        {
            "user": Nodes(rows["user"], ("id",), features=("age", "premium"), label="label"),
            "product": Nodes(rows["product"], ("shop", "sku"), features=("price",)),
            "order": Nodes(rows["order"], ("id",), time="placed"),
        },
        {
            ("order", "buyer", "user"): Edges(rows["order"], (), ("buyer",)),
            ("order", "before", "order"): Edges(rows["order"], (), ("before",)),
            ("user", "likes", "product"): Edges(
                rows["likes"], ("user",), ("shop", "sku"), "at", "w", ("stars",)
            ),
        },
    )


def shop_schema(source: Callable[[str], Any], **options: Any) -> TableSchema:
    return TableSchema(
        {
            "user": NodeTable(source("user"), "id", features=["age", "premium"], label="label"),
            "product": NodeTable(source("product"), ["shop", "sku"], features="price"),
            "order": NodeTable(
                source("order"), "id", time="placed",
                foreign={"buyer": "user", "before": ForeignKey("order")},
            ),
        },
        {
            "likes": LinkTable(
                source("likes"), "user", "user", "product", ["shop", "sku"],
                time="at", weight="w", attrs="stars",
            )
        },
        **options,
    )  # fmt: skip


def as_arrow(rows: Rows) -> Any:
    return pa.Table.from_pylist(rows)


def save_parts(rows: Rows, folder: Path, name: str, write_one: Callable[[Any, Path], None]) -> str:
    """Write a table as a folder of three files."""
    (folder / name).mkdir()
    for part, some in enumerate(np.array_split(np.arange(len(rows)), 3)):
        write_one(as_arrow([rows[i] for i in some]), folder / name / f"part-{part}")
    return str(folder / name)


def in_files(rows: dict[str, Rows], folder: Path, kind: str) -> Callable[[str], Any]:
    def arrow(table: Any, path: Path) -> None:
        with pa.ipc.new_file(path.with_suffix(".arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=70)

    def stream(table: Any, path: Path) -> None:
        with pa.ipc.new_stream(path.with_suffix(".ipc"), table.schema) as writer:
            writer.write_table(table)

    savers: dict[str, Callable[[Any, Path], None]] = {
        "parquet": lambda t, path: pq.write_table(t, path.with_suffix(".parquet")),
        "csv": lambda t, path: pacsv.write_csv(t, path.with_suffix(".csv")),
        "gzip": lambda t, path: pacsv.write_csv(
            t, pa.output_stream(f"{path}.csv.gz", compression="gzip")
        ),
        "arrow": arrow,
        "stream": stream,
        "url": lambda t, path: pq.write_table(t, path.with_suffix(".parquet")),
    }  # fmt: skip

    def source(name: str) -> str:
        path = save_parts(rows[name], folder, name, savers[kind])
        return f"file://{path}/*.parquet" if kind == "url" else path

    return source


def in_frames(rows: dict[str, Rows], kind: str) -> Callable[[str], Any]:
    if kind == "arrow table":
        return lambda name: as_arrow(rows[name])
    if kind == "pandas":
        pytest.importorskip("pandas")
        return lambda name: as_arrow(rows[name]).to_pandas(integer_object_nulls=True)
    polars = pytest.importorskip("polars", reason="Polars takes 180 MB")
    return lambda name: polars.from_arrow(as_arrow(rows[name]))


def in_duckdb(rows: dict[str, Rows], folder: Path) -> Callable[[str], Any]:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        for name, some in rows.items():
            found = as_arrow(some)
            connection.register("found", found)
            connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM found')
    return lambda name: {"duckdb": folder / "shop.duckdb", "table": name}


def in_sqlite(rows: dict[str, Rows], folder: Path) -> Callable[[str], Any]:
    with sqlite3.connect(folder / "shop.db") as connection:
        for name, some in rows.items():
            columns = ", ".join(f'"{column}"' for column in some[0])
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
            marks = ", ".join("?" * len(some[0]))
            plain = [
                [str(v) if isinstance(v, dt.datetime) else v for v in row.values()] for row in some
            ]
            connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', plain)
    connection.close()
    return lambda name: {"sqlite": str(folder / "shop.db"), "query": f'SELECT * FROM "{name}"'}


TOML = """
time_unit = "us"

[nodes.user]
from = "user.parquet"
key = "id"
features = ["age", "premium"]
label = "label"

[nodes.product]
from = "product.parquet"
key = ["shop", "sku"]
features = "price"

[nodes.order]
from = "order.parquet"
key = "id"
time = "placed"
foreign.buyer = "user"
foreign.before = { to = "order", missing = "drop" }

[links.likes]
from = "likes.parquet"
source = "user"
source_key = "user"
destination = "product"
destination_key = ["shop", "sku"]
time = "at"
weight = "w"
attrs = ["stars"]
"""


def two(a: Any, b: Any, **options: Any) -> TableSchema:
    return TableSchema(
        {"a": NodeTable(a, "k", foreign={"b": "b"}, **options), "b": NodeTable(b, "k")}
    )
