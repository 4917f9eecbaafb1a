"""Tables of databases, and the keys that they declare."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aethergraph.convert.readers.base import InputError
from aethergraph.errors import UnsupportedError

__all__ = [
    "Declared", "declared_in_duckdb", "declared_in_sqlite", "duckdb_others", "duckdb_tables",
    "sqlite_tables",
]  # fmt: skip

Columns = tuple[str, ...]


@dataclass(frozen=True)
class Declared:
    """Keys that a table declares.

    Attributes:
        key: columns of the primary key; () if there is none.
        foreign: (columns, other table, its columns) of each foreign key.
    """

    key: Columns
    foreign: tuple[tuple[Columns, str, Columns], ...]


@contextmanager
def _sqlite(path: str) -> Iterator[Any]:
    connection = None
    try:
        connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
        yield connection
    except sqlite3.Error as error:
        raise InputError(path, f"SQLite: {error}") from None
    finally:
        if connection is not None:
            connection.close()


@contextmanager
def _duckdb(path: str) -> Iterator[Any]:
    try:
        import duckdb
    except ImportError as error:
        raise UnsupportedError(
            f"{path}: a DuckDB file needs duckdb, which cannot be imported ({error}): "
            "pip install duckdb"
        ) from None
    try:
        with duckdb.connect(path, read_only=True) as connection:
            yield connection
    except duckdb.Error as error:
        raise InputError(path, f"DuckDB: {error}") from None


def sqlite_tables(path: str) -> list[str]:
    """Return the names of the tables of a SQLite file, sorted; views are none.

    Raises:
        InputError: it cannot be read.
    """
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    with _sqlite(path) as connection:
        return [str(row[0]) for row in connection.execute(query + " ORDER BY name")]


def duckdb_tables(path: str) -> list[str]:
    """Return the names of the tables of a DuckDB file's main schema, sorted; views are none.

    Raises:
        InputError: it cannot be read.
        UnsupportedError: duckdb is not installed.
    """
    query = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND NOT internal"
    with _duckdb(path) as connection:
        return sorted(str(row[0]) for row in connection.execute(query).fetchall())


def duckdb_others(path: str) -> list[tuple[str, str]]:
    """Return (schema, name) of the tables of a DuckDB file's other schemas, sorted.

    Raises:
        InputError: it cannot be read.
        UnsupportedError: duckdb is not installed.
    """
    query = (
        "SELECT schema_name, table_name FROM duckdb_tables() "
        "WHERE schema_name != 'main' AND NOT internal ORDER BY ALL"
    )
    with _duckdb(path) as connection:
        return [(str(schema), str(name)) for schema, name in connection.execute(query).fetchall()]


def declared_in_sqlite(path: str, table: str) -> Declared:
    """Return the keys that a table of a SQLite file declares.

    Raises:
        InputError: it cannot be read.
    """
    with _sqlite(path) as connection:
        key = _sqlite_key(connection, table)
        foreign_keys: dict[int, tuple[list[str], str, list[str | None]]] = {}
        for number, _, target_table, column, target, *_ in connection.execute(
            "SELECT * FROM pragma_foreign_key_list(?) ORDER BY id, seq", (table,)
        ):
            columns, _, targets = foreign_keys.setdefault(number, ([], str(target_table), []))
            columns.append(str(column))
            targets.append(target)
        foreign = []
        for columns, target_table, targets in foreign_keys.values():
            # Without columns a foreign key refers to the primary key.
            named = tuple(target for target in targets if target is not None)
            foreign.append(
                (tuple(columns), target_table, named or _sqlite_key(connection, target_table))
            )
    return Declared(key, tuple(reversed(foreign)))  # as they were declared


def _sqlite_key(connection: Any, table: str) -> Columns:
    query = "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk"
    return tuple(str(row[0]) for row in connection.execute(query, (table,)))


def declared_in_duckdb(path: str, table: str) -> Declared:
    """Return the keys that a table of a DuckDB file declares.

    Raises:
        InputError: it cannot be read.
        UnsupportedError: duckdb is not installed.
    """
    query = "SELECT * FROM duckdb_constraints() WHERE schema_name = 'main' AND table_name = ?"
    with _duckdb(path) as connection:
        cursor = connection.execute(query, [table])
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    key: Columns = ()
    foreign = []
    for row in rows:
        columns = tuple(row["constraint_column_names"])
        if row["constraint_type"] == "PRIMARY KEY":
            key = columns
        elif row["constraint_type"] == "FOREIGN KEY" and row.get("referenced_table"):
            targets = tuple(row["referenced_column_names"])
            foreign.append((columns, str(row["referenced_table"]), targets))
    return Declared(key, tuple(foreign))
