"""Queries of databases in a cage: one statement, which only reads.

A schema may be another one's work, so its queries cannot write, load extensions, or change how the
database is opened, and DuckDB reads no other files than those in the folder of the schema. To a
connection that a program has opened itself only the first of this applies.
"""

from __future__ import annotations

import glob
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from aethergraph.convert.inputs import is_url
from aethergraph.convert.readers.base import InputError
from aethergraph.convert.typed.parts import as_arrow
from aethergraph.errors import UnsupportedError

__all__ = ["duckdb_batches", "sqlite_batches"]

_ROWS = 1 << 16  # rows of a batch
_ONE = "a query is one statement that reads: SELECT, WITH or VALUES"

# ---- DuckDB --------------------------------------------------------------------------------------


def duckdb_batches(
    database: Any, query: str, name: str, folder: str | None, scratch: str
) -> tuple[Any, Iterator[Any]]:
    """Return the schema and the record batches of a query of DuckDB.

    Args:
        database: path of a file, ":memory:", or a connection.
        query: the query.
        name: name for messages.
        folder: folder whose files the query may read, and where relative paths in it begin; None:
            the working folder.
        scratch: folder for what does not fit in DuckDB's memory.

    Raises:
        InputError: it is no single statement that reads, or the database refuses it.
        UnsupportedError: duckdb is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise UnsupportedError(
            f"{name}: a DuckDB file needs duckdb, which cannot be imported ({error}): "
            "pip install duckdb"
        ) from None
    allowed = os.path.abspath(folder or ".")
    try:
        cursor = (
            _caged(duckdb, database, allowed, scratch)
            if isinstance(database, str)
            else database.cursor()
        )
        if folder is not None:
            query = _with_absolute_files(query, allowed)
        statements = cursor.extract_statements(query)
        if len(statements) != 1 or statements[0].type.name != "SELECT":
            raise InputError(name, f"{_ONE} (PIVOT with IN), got {query}")
        if not isinstance(database, str):  # it may be open for writing, and WITH may hold INSERT
            with suppress(duckdb.ParserException):  # versions that know of neither
                cursor.execute("BEGIN TRANSACTION READ ONLY")
        relation = cursor.sql(query)
        if relation is None:
            raise InputError(name, f"the query gives no rows: {query}")
        make = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        reader = make(_ROWS)
    except duckdb.Error as error:
        advice = ""
        if isinstance(error, duckdb.PermissionException):
            advice = (
                f". A query reads files in {allowed} alone (the folder of the schema); in Python "
                "give a connection of your own for others"
            )
        raise InputError(name, f"DuckDB: {error}{advice}") from None
    return reader.schema, iter(reader)


def _caged(duckdb: Any, path: str, allowed: str, scratch: str) -> Any:
    """Open a database in which queries reach nothing but the files in a folder."""
    connection = duckdb.connect(path, read_only=path != ":memory:")
    folder, work = (
        directory.replace("'", "''") for directory in (allowed, os.path.abspath(scratch))
    )
    for setting in (
        f"temp_directory = '{work}'",
        f"allowed_directories = ['{folder}']",  # from DuckDB 1.2 on
        "python_enable_replacement_scans = false",  # from DuckDB 1.1 on
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        try:
            connection.execute(f"SET {setting}")
        except duckdb.CatalogException:  # not known to this version, which then allows less
            if setting.startswith(("enable", "lock")):
                raise
    return connection


_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>'(?:[^']|'')*')
      | (?P<other>[eE]'(?:[^'\\]|\\.|'')*'|"(?:[^"]|"")*"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
      | (?P<word>\w+)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
#: Functions whose first argument is a path, or a list of paths.
_READERS = re.compile(r"read_\w+|parquet_\w+|glob|sniff_csv")


def _with_absolute_files(query: str, folder: str) -> str:
    """Return a query in which relative paths of files in a folder are absolute.

    DuckDB knows no folder but the working one, which belongs to the whole process. A text is a path
    behind FROM or JOIN, and as the first argument of a function that reads files.
    """
    out: list[str] = []
    before = function = ""
    open_brackets: list[str] = []  # "(" of another call, "(reader" and "[reader" of files
    for token in _TOKEN.finditer(query):
        text = token[0]
        if token["blank"] is None:
            inside = open_brackets[-1] if open_brackets else ""
            if token["text"] is not None:
                is_path = before in ("from", "join") or (
                    inside.endswith("reader") and before in ("(", "[", ",")
                )
                text = _absolute(text, folder) if is_path else text
            elif text == "(":
                open_brackets.append("(reader" if _READERS.fullmatch(function) else "(")
            elif text == "[":
                open_brackets.append("[reader" if inside == "(reader" else "[")
            elif text in ")]" and open_brackets:
                open_brackets.pop()
            elif text == "," and inside == "(reader":
                open_brackets[-1] = "("  # what follows are options
            before = function = text.lower()
        out.append(text)
    return "".join(out)


def _absolute(text: str, folder: str) -> str:
    """Return a text of SQL that is a relative path as an absolute one, if there are such files."""
    path = text[1:-1].replace("''", "'")
    if is_url(path) or os.path.isabs(path):
        return text
    full = os.path.join(folder, path)
    pattern = os.path.join(glob.escape(folder), path)
    if not os.path.exists(full) and next(glob.iglob(pattern, recursive=True), None) is None:
        return text
    return "'" + full.replace("'", "''") + "'"


# ---- SQLite --------------------------------------------------------------------------------------

_READS = frozenset(
    (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    )
)


def _authorize(action: int, first: str | None, second: str | None, *context: str | None) -> int:
    """Allow what reads; the full-text search of SQLite asks for the version of its data."""
    is_version = action == sqlite3.SQLITE_PRAGMA and first == "data_version" and second is None
    is_load = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
    is_allowed = is_version or (action in _READS and not is_load)
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


def sqlite_batches(database: Any, query: str, name: str) -> tuple[Any, Iterator[Any]]:
    """Return the schema and the record batches of a query of SQLite.

    Args:
        database: path of a file, or a connection.
        query: the query.
        name: name for messages.

    Raises:
        InputError: it is no single statement that reads, the database refuses it, or a column holds
            values of several types.
    """
    import pyarrow as pa

    try:
        connection = database
        if isinstance(database, str):
            connection = sqlite3.connect(f"{Path(database).absolute().as_uri()}?mode=ro", uri=True)
            connection.set_authorizer(_authorize)
        query = _single(query)
        try:
            # Only what reads can stand in brackets.
            connection.execute(f"SELECT 1 FROM ({query}\n) LIMIT 0").close()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise InputError(name, f"SQLite: {error}; {_ONE}, got {query}") from None
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description]
        cursor.close()
        types = [_sqlite_type(connection, query, column, name) for column in names]
        schema = pa.schema(list(zip(names, types, strict=True)))
        cursor = connection.execute(query)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise InputError(name, f"SQLite: {error}") from None

    def batches() -> Iterator[Any]:
        begin = 0
        while rows := cursor.fetchmany(_ROWS):
            columns = zip(zip(*rows, strict=True), types, names, strict=True)
            arrays = [as_arrow(values, kind, name, at, begin) for values, kind, at in columns]
            yield pa.record_batch(arrays, schema=schema)
            begin += len(rows)

    return schema, batches()


def _single(query: str) -> str:
    """Return a statement without the semicolon at its end, and comments behind that."""
    end = re.search(r";\s*(--[^\n]*\s*|/\*.*?\*/\s*)*$", query, re.DOTALL)
    if end is not None and sqlite3.complete_statement(query[: end.start() + 1]):
        return query[: end.start()]
    return query


def _sqlite_type(connection: Any, query: str, column: str, name: str) -> Any:
    """Return the type of a column, whose values SQLite lets be of any types."""
    import pyarrow as pa

    quoted = '"' + column.replace('"', '""') + '"'
    types = {
        row[0] for row in connection.execute(f"SELECT DISTINCT typeof({quoted}) FROM ({query}\n)")
    } - {"null"}
    if types <= {"integer"}:
        return pa.int64() if types else pa.null()
    if types <= {"integer", "real"}:
        return pa.float64()
    if len(types) == 1:
        return pa.string() if types == {"text"} else pa.binary()
    raise InputError(
        name, f"column {column!r} holds values of several types: {', '.join(sorted(types))}"
    )
