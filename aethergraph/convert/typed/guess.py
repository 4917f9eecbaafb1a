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
    is_whole: bool
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
    looks = [_look(*table) for table in _find(base)]
    remarks = _not_looked_at(base)
    if not looks:
        raise InputError(base, "; ".join(["holds no tables", *remarks]))
    for look in looks:
        _guess_key(look)
    for look in looks:
        if not look.key:
            _guess_odd_key(look, looks)
    for look in looks:
        _guess_foreign(look, looks)
    _doubt(looks)
    entries = [_entry(look, looks) for look in looks]
    head = _head(base)
    if any(text.startswith("[nodes") and "\ntime = " in text for text in entries):
        head += _NODE_TIMES
    return "\n".join([head, *entries, *(f"# {remark}\n" for remark in remarks)])


def _doubt(looks: list[_Look]) -> None:
    """Note tables without rows, and those that may be parts of one."""
    alike: dict[tuple[str, ...], list[_Look]] = {}
    for look in looks:
        if look.is_whole and not any(look.values.values()):
            look.unsure.append("it has no rows, which is refused: leave the table out")
        if "" in look.source and re.search(r"\d", look.name):
            stem = re.sub(r"\d+", "*", look.source[""])
            alike.setdefault((stem, *look.columns), []).append(look)
    for (stem, *_), parts in alike.items():
        for look in parts if len(parts) > 1 else ():
            look.unsure.append(
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
    tables = []
    for entry in sorted(os.listdir(base)):
        path = os.path.join(base, entry)
        if entry.startswith((".", "_")):
            continue
        if os.path.isdir(path):
            if any(is_table_name(name) for _, _, names in os.walk(path) for name in names):
                tables.append((entry, {"": entry}, base))
        else:
            tables += _tables_of(entry, base)
    return tables


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
        entries = sorted(entry for entry in os.listdir(base) if not entry.startswith((".", "_")))
        files = [os.path.join(base, entry) for entry in entries]
    remarks = []
    for path in files:
        if os.path.isdir(path) or is_table_name(path) or _database_kind(path) != "duckdb":
            continue
        for schema, name in duckdb_others(path):
            query = 'SELECT * FROM "{}"."{}"'.format(
                *(identifier.replace('"', '""') for identifier in (schema, name))
            )
            source = _text({"duckdb": os.path.basename(path), "query": query})
            remarks.append(f"not looked at: {schema}.{name}, of another schema: from = {source}")
    return remarks


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
    singular, plural = _singular(name), name.lower()
    names = ["id", "key", "uuid"]
    for base in (singular, plural):
        names += [f"{base}_id", f"{base}id", f"{base}_key", f"id_{base}", f"{base}_no", base]
    return names


def _guess_key(look: _Look) -> None:
    if look.declared is not None and look.declared.key:
        look.key = look.declared.key
        return
    lower = {column.lower(): column for column in look.columns}
    for name in _id_names(look.name):
        column = lower.get(name)
        if column is not None and _is_unique(look, column):
            look.key = (column,)
            if not look.is_whole:
                look.unsure.append(f"key {column}: unique in the first {_ROWS:,} rows")
            return


def _guess_odd_key(look: _Look, looks: list[_Look]) -> None:
    """Take a column of names as the key, if all differ and it is not a key of another table."""
    for column in look.columns:
        refers = any(len(target.key) == 1 and _refers(column, target) for target in looks)
        if look.kinds[column] != "other" or refers or len(look.values[column]) < 2:
            continue
        if _is_unique(look, column):
            look.key = (column,)
            look.unsure.append(
                f"key {column}: all values differ, but the name is not that of an id"
            )
            return


def _is_unique(look: _Look, column: str) -> bool:
    values = look.values[column]
    return bool(values) and None not in values and len(set(map(str, values))) == len(values)


def _guess_foreign(look: _Look, looks: list[_Look]) -> None:
    keys = {target.name: target.key for target in looks}
    for columns, name, target_key in look.declared.foreign if look.declared else ():
        if keys.get(name) == target_key:
            look.foreign[columns] = name
        else:
            look.unsure.append(
                f"{', '.join(columns)} refers to {', '.join(target_key)} of {name}, which is not "
                "its key here"
            )
    key_columns = {column for columns in look.foreign for column in columns}
    for column in look.columns:
        if (
            (column,) == look.key
            or look.kinds[column] in ("time", "nested")
            or column in key_columns
        ):
            continue
        for target in looks:
            if len(target.key) != 1 or not _refers(column, target):
                continue
            share = _share(look.values[column], target.values[target.key[0]])
            if share < _FOUND and target.is_whole:
                continue
            look.foreign[column,] = target.name
            if share < 1:
                look.unsure.append(
                    f"{column}: {1 - share:.1%} of its values are no key of {target.name}"
                    + ("" if target.is_whole else " that was looked at")
                )
            break


def _refers(column: str, target: _Look) -> bool:
    lower, key = column.lower(), target.key[0].lower()
    names = set(_id_names(target.name)) - {"id", "key", "uuid"}
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
        return (
            "{" + ", ".join(f"{_bare(key)} = {_text(entry)}" for key, entry in value.items()) + "}"
        )
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _bare(key: str) -> str:
    """Return a key of TOML, quoted where it has to be."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _entry(look: _Look, looks: list[_Look]) -> str:
    ends_in_key = {c for columns in look.foreign for c in columns} >= set(look.key)
    # A table whose key is made of the keys of others is a table of pairs.
    is_link = len(look.foreign) >= 2 and ends_in_key
    own_key = None if look.key else _own_key(look)
    as_nodes = look
    if own_key is not None:
        doubt = f"key {own_key}: all values differ, and the name ends as that of an id"
        as_nodes = replace(look, key=(own_key,), unsure=[*look.unsure, doubt])
    if not is_link:
        return "\n".join(_node_lines(as_nodes, looks)) + "\n"
    lines = _link_lines(look)
    if own_key is not None:
        lines += [
            f"# unsure: are rows edges, as here, or nodes of their own, with the key {own_key} and",
            "# edges to what they refer to? Then take these lines instead:",
            *(f"# {line.removeprefix('# ')}" for line in _node_lines(as_nodes, looks)),
        ]
    return "\n".join(lines) + "\n"


def _own_key(look: _Look) -> str | None:
    """Return a column that may be the key of a table, though it is not called as the table is."""
    foreign = {column for columns in look.foreign for column in columns}
    for column in look.columns:
        if column in foreign or look.kinds[column] not in ("number", "other"):
            continue
        if _ID.fullmatch(column) and len(look.values[column]) > 1 and _is_unique(look, column):
            return column
    return None


def _source_line(look: _Look) -> str:
    source: Any = look.source.get("", look.source)
    return f"from = {_text(source)}"


def _link_lines(look: _Look) -> list[str]:
    ends = list(look.foreign.items())
    (source_key, source_type), (target_key, target_type) = ends[:2]
    return [
        f"[links.{_text(look.name)}]",
        _source_line(look),
        f"source = {_text(source_type)}",
        f"source_key = {_names(source_key)}",
        f"destination = {_text(target_type)}",
        f"destination_key = {_names(target_key)}",
        *(f"# unsure: {', '.join(key)} refers to {name} as well" for key, name in ends[2:]),
        *_values(look, True),
        *(f"# unsure: {text}" for text in look.unsure),
    ]


def _node_lines(look: _Look, looks: list[_Look]) -> list[str]:
    ends = list(look.foreign.items())
    lines = [f"[nodes.{_text(look.name)}]", _source_line(look)]
    if look.key:
        lines.append(f"key = {_names(look.key)}")
    else:
        lines.append("# no key: no column of names or ids has different values in all rows")
    lines += _values(look, False)
    lines += [f"# unsure: {text}" for text in look.unsure]
    for columns, name in ends:
        to = _text(name)
        if len(columns) > 1:
            to = _text({"to": name, "columns": list(columns)})
        lines.append(f"foreign.{_text('_'.join(columns))} = {to}")
    if not ends and not any(look.name in referrer.foreign.values() for referrer in looks):
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


def _values(look: _Look, is_link: bool) -> list[str]:
    key_columns = {*(c for columns in look.foreign for c in columns), *look.key}
    times = [c for c in look.columns if look.kinds[c] == "time" and c not in key_columns]
    numbers = [c for c in look.columns if look.kinds[c] == "number" and c not in key_columns]
    texts = [c for c in look.columns if look.kinds[c] == "other" and c not in key_columns]
    nested = [f"{c} ({look.types[c]})" for c in look.columns if look.kinds[c] == "nested"]
    lines = [f"# not used: {', '.join(nested)}"] if nested else []
    if times:
        lines.append(f"time = {_text(times[0])}")
        lines += [f"# unsure: or is the time {column}?" for column in times[1:]]
    if numbers:
        lines.append(f"{'attrs' if is_link else 'features'} = {_text(numbers)}")
        # NaN is the one value that does not equal itself.
        holes = [c for c in numbers if any(v is None or v != v for v in look.values[c])]
        if holes and not is_link:
            lines.append("fill = 0")
            lines.append(f"# unsure: 0 stands for what is missing in {', '.join(holes)}")
        elif holes:
            lines.append(f"# unsure: values are missing in {', '.join(holes)}, which is an error")
    if texts and is_link:
        lines.append(f"# not used (text): {', '.join(texts)}")
    elif texts:
        # Numbers are features already; as columns they would keep their dtype and nulls too.
        kinds = {c: _kind_of_others(look.values[c]) for c in texts}
        lines.append(f"columns = {_text(kinds)}")
        lines.append('# unsure: category or text? columns = "all" keeps numbers and times as well')
    return lines
