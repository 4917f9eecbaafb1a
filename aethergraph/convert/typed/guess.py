"""First schema of a folder of tables, with what is unsure about it as comments."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aethergraph.convert.arguments import as_file
from aethergraph.convert.readers.base import InputError, PathLike, check_readable, require_pyarrow
from aethergraph.convert.typed.columns import ColumnReader
from aethergraph.convert.typed.declared import (
    Declared,
    declared_in_duckdb,
    declared_in_sqlite,
    duckdb_others,
    duckdb_tables,
    sqlite_tables,
)
from aethergraph.convert.typed.sources import Table, is_table_name, open_table, spool
from aethergraph.errors import MissingFileError

__all__ = ["guess_schema"]

_ROWS = 200_000  # rows of a table that are looked at
#: Ends of names of columns that may be keys.
_ID = re.compile(r"(.*[_ ]|^)(id|key|uuid|guid|no|nr|number)|.*[a-z](Id|ID|Key)")
_NODE_TIMES = """\
# Times of nodes are what samplers go by with time_attr = "node_time", at about half the speed of
# times of edges, and a live graph cannot begin with them (DynamicHeteroGraph.open, base=). For one,
# give the time to the edges, and leave it out of the table of nodes:
# foreign.RELATION = {to = "TYPE", columns = "COLUMN", time = "TIME"}
"""
_FOUND = 0.5  # share of a column's values that have to be keys of the other table


@dataclass
class _Look:
    """Facts that the first rows of a table show."""

    name: str
    source: dict[str, str]
    columns: list[str]
    values: dict[str, list[Any]]
    kinds: dict[str, str]
    types: dict[str, Any]
    whole: bool
    key: tuple[str, ...] = ()
    #: Columns of a foreign key -> the table that it refers to.
    foreign: dict[tuple[str, ...], str] = field(default_factory=dict)
    declared: Declared | None = None
    unsure: list[str] = field(default_factory=list)


def guess_schema(folder: PathLike) -> str:
    """Return a first schema, TOML, for the tables in a folder or a database file.

    Primary and foreign keys that a database declares are taken from there. Else the first 200,000
    rows of each table are looked at: keys are columns of different values with the name of an id,
    foreign keys those whose values are keys of another table and whose names say so.
    What is not certain is said in comments: read the schema before it is used.

    Raises:
        InputError: there are no tables, or one cannot be read.
    """
    require_pyarrow()
    base = as_file(folder)
    looks = [_look(*one) for one in _find(base)]
    others = _not_looked_at(base)
    if not looks:
        raise InputError(base, "; ".join(["holds no tables", *others]))
    for one in looks:
        _guess_key(one)
    for one in looks:
        if not one.key:
            _guess_odd_key(one, looks)
    for one in looks:
        _guess_foreign(one, looks)
    _doubt(looks)
    entries = [_entry(one, looks) for one in looks]
    head = _head(base)
    if any(text.startswith("[nodes") and "\ntime = " in text for text in entries):
        head += _NODE_TIMES
    return "\n".join([head, *entries, *(f"# {one}\n" for one in others)])


def _doubt(looks: list[_Look]) -> None:
    """Note tables without rows, and those that may be parts of one."""
    alike: dict[tuple[str, ...], list[_Look]] = {}
    for one in looks:
        if one.whole and not any(one.values.values()):
            one.unsure.append("it has no rows, which is refused: leave the table out")
        if "" in one.source and re.search(r"\d", one.name):
            stem = re.sub(r"\d+", "*", one.source[""])
            alike.setdefault((stem, *one.columns), []).append(one)
    for (stem, *_), parts in alike.items():
        for one in parts if len(parts) > 1 else ():
            one.unsure.append(
                f"{len(parts)} files have these columns and such a name: if they are parts of one "
                f"table, keep one of them, with from = {_text(stem)}"
            )


# ---- finding tables ------------------------------------------------------------------------------


def _find(base: str) -> list[tuple[str, dict[str, str], str]]:
    """Return (name, source as in the schema, folder) of each table."""
    if not os.path.exists(base):
        raise MissingFileError(2, f"{base}: no such file or folder", base)
    if os.path.isfile(base):
        check_readable(base)
        folder = os.path.dirname(os.path.abspath(base))
        return _tables_of(os.path.basename(base), folder)
    found = []
    for entry in sorted(os.listdir(base)):
        path = os.path.join(base, entry)
        if entry.startswith((".", "_")):
            continue
        if os.path.isdir(path):
            if any(is_table_name(one) for _, _, names in os.walk(path) for one in names):
                found.append((entry, {"": entry}, base))
        else:
            found += _tables_of(entry, base)
    return found


def _tables_of(entry: str, folder: str) -> list[tuple[str, dict[str, str], str]]:
    if is_table_name(entry):
        return [(entry.split(".")[0], {"": entry}, folder)]
    path = os.path.join(folder, entry)
    kind = _database_kind(path)
    if kind is None:
        return []
    names = sqlite_tables(path) if kind == "sqlite" else duckdb_tables(path)
    return [(name, {kind: entry, "table": name}, folder) for name in names]


def _database_kind(path: str) -> str | None:
    """Return "sqlite" or "duckdb" of a database file, else None."""
    with open(path, "rb") as file:
        head = file.read(16)
    if head.startswith(b"SQLite format 3"):
        return "sqlite"
    return "duckdb" if head[8:12] == b"DUCK" else None


def _not_looked_at(base: str) -> list[str]:
    """Return remarks on tables of DuckDB files that are in schemas of their own."""
    files = [base]
    if os.path.isdir(base):
        entries = sorted(one for one in os.listdir(base) if not one.startswith((".", "_")))
        files = [os.path.join(base, one) for one in entries]
    found = []
    for path in files:
        if os.path.isdir(path) or is_table_name(path) or _database_kind(path) != "duckdb":
            continue
        for schema, name in duckdb_others(path):
            query = 'SELECT * FROM "{}"."{}"'.format(
                *(one.replace('"', '""') for one in (schema, name))
            )
            source = _text({"duckdb": os.path.basename(path), "query": query})
            found.append(f"not looked at: {schema}.{name}, of another schema: from = {source}")
    return found


def _look(name: str, source: dict[str, str], folder: str) -> _Look:
    if "" in source:
        return _look_at(name, source, open_table(source[""], name, folder))
    (kind, database), (_, table) = source.items()
    read = declared_in_sqlite if kind == "sqlite" else declared_in_duckdb
    declared = read(os.path.join(folder, database), table)
    quoted = table.replace('"', '""')
    query = {kind: database, "query": f'SELECT * FROM "{quoted}" LIMIT {_ROWS + 1}'}
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "table")
        spool(query, name, folder, path)
        look = _look_at(name, source, open_table(query, name, folder, path))
    look.declared = declared
    return look


def _look_at(name: str, source: dict[str, str], table: Table) -> _Look:
    reader = ColumnReader(table)
    columns = list(table.types)
    values: dict[str, list[Any]] = {column: [] for column in columns}
    rows = 0
    for batch in table.batches(columns):
        for number, column in enumerate(columns):
            values[column] += batch.rows.column(number).to_pylist()
        rows += batch.rows.num_rows
        if rows > _ROWS:
            break
    kinds = {column: _kind(reader, column) for column in columns}
    return _Look(name, source, columns, values, kinds, dict(table.types), rows <= _ROWS)


def _kind(reader: ColumnReader, column: str) -> str:
    """Return "time", "number", "nested" (lists, structs) or "other"."""
    import pyarrow.types as pat

    kind = reader.type_of(column)
    if pat.is_nested(kind) and not pat.is_dictionary(kind):
        return "nested"
    try:
        if reader.time_form(column).unit is not None:
            return "time"
    except InputError:
        pass
    try:
        reader.number_type(column, "feature")
    except InputError:
        return "other"
    return "number"


# ---- guessing ------------------------------------------------------------------------------------


def _singular(name: str) -> str:
    lower = name.lower()
    if lower.endswith("ies"):
        return lower[:-3] + "y"
    return lower[:-1] if lower.endswith("s") and not lower.endswith("ss") else lower


def _id_names(name: str) -> list[str]:
    """Return the names that a key of a table of this name may have, likely ones first."""
    one, many = _singular(name), name.lower()
    found = ["id", "key", "uuid"]
    for base in (one, many):
        found += [f"{base}_id", f"{base}id", f"{base}_key", f"id_{base}", f"{base}_no", base]
    return found


def _guess_key(one: _Look) -> None:
    if one.declared is not None and one.declared.key:
        one.key = one.declared.key
        return
    lower = {column.lower(): column for column in one.columns}
    for name in _id_names(one.name):
        column = lower.get(name)
        if column is not None and _is_unique(one, column):
            one.key = (column,)
            if not one.whole:
                one.unsure.append(f"key {column}: unique in the first {_ROWS:,} rows")
            return


def _guess_odd_key(one: _Look, looks: list[_Look]) -> None:
    """Take a column of names as the key, if all differ and it is not a key of another table."""
    for column in one.columns:
        refers = any(len(other.key) == 1 and _refers(column, other) for other in looks)
        if one.kinds[column] != "other" or refers or len(one.values[column]) < 2:
            continue
        if _is_unique(one, column):
            one.key = (column,)
            one.unsure.append(f"key {column}: all values differ, but the name is not that of an id")
            return


def _is_unique(one: _Look, column: str) -> bool:
    values = one.values[column]
    return bool(values) and None not in values and len(set(map(str, values))) == len(values)


def _guess_foreign(one: _Look, looks: list[_Look]) -> None:
    keys = {other.name: other.key for other in looks}
    for columns, name, target in one.declared.foreign if one.declared else ():
        if keys.get(name) == target:
            one.foreign[columns] = name
        else:
            one.unsure.append(
                f"{', '.join(columns)} refers to {', '.join(target)} of {name}, which is not its "
                "key here"
            )
    taken = {column for columns in one.foreign for column in columns}
    for column in one.columns:
        if (column,) == one.key or one.kinds[column] in ("time", "nested") or column in taken:
            continue
        for other in looks:
            if len(other.key) != 1 or not _refers(column, other):
                continue
            share = _share(one.values[column], other.values[other.key[0]])
            if share < _FOUND and other.whole:
                continue
            one.foreign[column,] = other.name
            if share < 1:
                one.unsure.append(
                    f"{column}: {1 - share:.1%} of its values are no key of {other.name}"
                    + ("" if other.whole else " that was looked at")
                )
            break


def _refers(column: str, other: _Look) -> bool:
    lower, key = column.lower(), other.key[0].lower()
    names = set(_id_names(other.name)) - {"id", "key", "uuid"}
    if key not in ("id", "key", "uuid"):
        names.add(key)
    return lower in names or any(lower.endswith(f"_{name}") for name in names)


def _share(values: list[Any], keys: list[Any]) -> float:
    known = set(map(str, keys))
    some = [str(value) for value in values if value is not None]
    return sum(value in known for value in some) / len(some) if some else 0.0


# ---- writing -------------------------------------------------------------------------------------


def _head(base: str) -> str:
    return (
        f"# A first schema for {base}, guessed from names and the first rows: read it, and change\n"
        "# what is wrong. Then: aethergraph tables THIS.toml -o graph.aeg\n"
    )


def _text(value: Any) -> str:
    """Return a value as TOML; a string of JSON is one of TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_bare(key)} = {_text(one)}" for key, one in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _bare(key: str) -> str:
    """Return a key of TOML, quoted where it has to be."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _entry(one: _Look, looks: list[_Look]) -> str:
    ends_in_key = {c for columns in one.foreign for c in columns} >= set(one.key)
    # A table whose key is made of the keys of others is a table of pairs.
    is_link = len(one.foreign) >= 2 and ends_in_key
    own_key = None if one.key else _own_key(one)
    as_nodes = one
    if own_key is not None:
        doubt = f"key {own_key}: all values differ, and the name ends as that of an id"
        as_nodes = replace(one, key=(own_key,), unsure=[*one.unsure, doubt])
    if not is_link:
        return "\n".join(_node_lines(as_nodes, looks)) + "\n"
    lines = _link_lines(one)
    if own_key is not None:
        lines += [
            f"# unsure: are rows edges, as here, or nodes of their own, with the key {own_key} and",
            "# edges to what they refer to? Then take these lines instead:",
            *(f"# {line.removeprefix('# ')}" for line in _node_lines(as_nodes, looks)),
        ]
    return "\n".join(lines) + "\n"


def _own_key(one: _Look) -> str | None:
    """Return a column that may be the key of a table, though it is not called as the table is."""
    foreign = {column for columns in one.foreign for column in columns}
    for column in one.columns:
        if column in foreign or one.kinds[column] not in ("number", "other"):
            continue
        if _ID.fullmatch(column) and len(one.values[column]) > 1 and _is_unique(one, column):
            return column
    return None


def _source_line(one: _Look) -> str:
    source: Any = one.source.get("", one.source)
    return f"from = {_text(source)}"


def _link_lines(one: _Look) -> list[str]:
    ends = list(one.foreign.items())
    (source_key, source_type), (target_key, target_type) = ends[:2]
    return [
        f"[links.{_text(one.name)}]",
        _source_line(one),
        f"source = {_text(source_type)}",
        f"source_key = {_names(source_key)}",
        f"destination = {_text(target_type)}",
        f"destination_key = {_names(target_key)}",
        *(f"# unsure: {', '.join(key)} refers to {name} as well" for key, name in ends[2:]),
        *_values(one, True),
        *(f"# unsure: {text}" for text in one.unsure),
    ]


def _node_lines(one: _Look, looks: list[_Look]) -> list[str]:
    ends = list(one.foreign.items())
    lines = [f"[nodes.{_text(one.name)}]", _source_line(one)]
    if one.key:
        lines.append(f"key = {_names(one.key)}")
    else:
        lines.append("# no key: no column of names or ids has different values in all rows")
    lines += _values(one, False)
    lines += [f"# unsure: {text}" for text in one.unsure]
    for columns, name in ends:
        to = _text(name)
        if len(columns) > 1:
            to = _text({"to": name, "columns": list(columns)})
        lines.append(f"foreign.{_text('_'.join(columns))} = {to}")
    if not ends and not any(one.name in other.foreign.values() for other in looks):
        lines.append("# unsure: no edges, neither from here nor to here")
    return lines


def _names(columns: tuple[str, ...]) -> str:
    return _text(columns[0] if len(columns) == 1 else list(columns))


def _kind_of_others(values: list[Any]) -> str:
    """Return "bool", "category" or "text": few values that come often are categories."""
    some = [value for value in values if value is not None]
    if some and all(isinstance(value, bool) for value in some):
        return "bool"
    return "category" if len(set(map(str, some))) <= max(1, len(some) // 4) else "text"


def _values(one: _Look, is_link: bool) -> list[str]:
    taken = {*(c for columns in one.foreign for c in columns), *one.key}
    times = [c for c in one.columns if one.kinds[c] == "time" and c not in taken]
    numbers = [c for c in one.columns if one.kinds[c] == "number" and c not in taken]
    others = [c for c in one.columns if one.kinds[c] == "other" and c not in taken]
    nested = [f"{c} ({one.types[c]})" for c in one.columns if one.kinds[c] == "nested"]
    lines = [f"# not used: {', '.join(nested)}"] if nested else []
    if times:
        lines.append(f"time = {_text(times[0])}")
        lines += [f"# unsure: or is the time {column}?" for column in times[1:]]
    if numbers:
        lines.append(f"{'attrs' if is_link else 'features'} = {_text(numbers)}")
        # NaN is the one value that does not equal itself.
        holes = [c for c in numbers if any(v is None or v != v for v in one.values[c])]
        if holes and not is_link:
            lines.append("fill = 0")
            lines.append(f"# unsure: 0 stands for what is missing in {', '.join(holes)}")
        elif holes:
            lines.append(f"# unsure: values are missing in {', '.join(holes)}, which is an error")
    if others and is_link:
        lines.append(f"# not used (text): {', '.join(others)}")
    elif others:
        # Numbers are features already; as columns they would keep their dtype and nulls too.
        kinds = {c: _kind_of_others(one.values[c]) for c in others}
        lines.append(f"columns = {_text(kinds)}")
        lines.append('# unsure: category or text? columns = "all" keeps numbers and times as well')
    return lines
