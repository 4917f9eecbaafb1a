"""Schema of a typed graph: which tables hold nodes, and which of their columns are edges.

As a file (TOML), and as the same objects in Python::

    [nodes.user]                              TableSchema(
    from = "users.parquet"                        nodes={
    key = "id"                                        "user": NodeTable("users.parquet", key="id"),
                                                      "order": NodeTable(
    [nodes.order]                                         "orders/*.csv", key="id", time="placed",
    from = "orders/*.csv"                                 foreign={"buyer": ForeignKey("user")},
    key = "id"                                        ),
    time = "placed"                               },
    foreign.buyer = "user"                        links={
                                                      "likes": LinkTable(
    [links.likes]                                         "likes.csv", "user", "user_id",
    from = "likes.csv"                                    "order", "order_id",
    source = "user"                                   ),
    source_key = "user_id"                        },
    destination = "order"                     )
    destination_key = "order_id"
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast, get_args

from aethergraph._checks.options import as_choice, as_flag, is_name, shown
from aethergraph._checks.regular import open_regular
from aethergraph._checks.times import check_unit
from aethergraph.columns.layout import KINDS, Kind
from aethergraph.convert.arguments import as_file, as_optional_file
from aethergraph.errors import (
    InvalidArgumentError,
    MissingFileError,
    StorageError,
    UnsupportedError,
)
from aethergraph.graph.typed_edges import EdgeType
from aethergraph.ids.columns import check_types

__all__ = [
    "Duplicates", "EdgeSpec", "ForeignKey", "LinkTable", "Missing", "NodeTable", "Nulls",
    "TableSchema",
]  # fmt: skip

#: What becomes of rows whose key comes more than once.
Duplicates = Literal["error", "first", "last"]
Missing = Literal["error", "drop", "keep"]
Nulls = Literal["drop", "error"]


def _columns(value: Any, name: str) -> tuple[str, ...]:
    columns = (value,) if isinstance(value, str) else value
    if not isinstance(columns, Sequence) or not all(
        isinstance(column, str) and column for column in columns
    ):
        raise InvalidArgumentError(f"{name} is a column, or a list of columns, got {shown(value)}")
    if len(set(columns)) != len(columns):
        raise InvalidArgumentError(f"{name} names a column twice: {', '.join(columns)}")
    return tuple(columns)


def _column(value: Any, name: str) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise InvalidArgumentError(f"{name} is the name of a column, got {shown(value)}")


@dataclass(frozen=True)
class ForeignKey:
    """Foreign key of a node table: an edge from each row to the row that it names.

    Attributes:
        to: node type that the key refers to.
        columns: columns of the key; default: the one with the name of the relation.
        time: column of edge times. Without it, lists are sorted by the times of their nodes.
        weight: column of edge weights.
        attrs: columns that become edge attributes of their names.
        missing: what becomes of keys that the other table does not have. "error": nothing is
            written, and the error names file and row; "drop": the edge is left out and counted;
            "keep": the key becomes a node of its own, behind those of the table.
        null: "drop": no edge; "error".
    """

    to: str
    columns: str | Sequence[str] = ()
    time: str | None = None
    weight: str | None = None
    attrs: str | Sequence[str] = ()
    missing: Missing = "error"
    null: Nulls = "drop"


@dataclass(frozen=True)
class NodeTable:
    """Table with a row for each node of a type.

    Attributes:
        source: file, pattern, folder or URL of Parquet, CSV, TSV or Arrow files; a data frame of
            pandas or Polars, a table of Arrow, a mapping of names to arrays; or a database: a
            mapping with "duckdb" or "sqlite" (path or connection) and "table" or "query"; with
            "query" alone DuckDB without a database, over files. Queries only read, of files those
            in the folder of the schema. None: the nodes are the keys that edges name.
        key: primary key: a column, or several.
        key_type: type of the key (``"int64"``, ``"uint64"``, ``"uuid"``, ``"str"`` or ``"bytes"``),
            of several columns a list; default: by the type of the columns.
        time: column of node times.
        features: columns that become the matrix ``x`` of float32: numbers, booleans (0 and 1),
            and times (days since 1970).
        fill: number that stands for missing features, null or NaN; None: they are an error. NaN
            leaves them NaN.
        label: column that becomes ``y``; of several columns each keeps its name. Integers and
            booleans become int64, -1 where missing; other numbers float32, NaN where missing.
        foreign: foreign keys by relation; a text is short for ``ForeignKey(text)``.
        columns: columns that are kept as they are, in a file of their own: a list of names, or a
            mapping of names to kinds ("number", "bool", "time", "category", "text"), or "all": all
            but keys, foreign keys, labels and columns that Arrow gives the type null, as they have
            no value. See :class:`aethergraph.columns.ColumnStore`.
        duplicates: what becomes of rows whose key comes more than once. "error": nothing is
            written, and the error names both rows; "first": the first of them stays, "last": the
            last, and the others are left out, with their edges, and counted.
    """

    source: Any = None
    key: str | Sequence[str] = ()
    key_type: str | Sequence[str] | None = None
    time: str | None = None
    features: str | Sequence[str] = ()
    fill: float | None = None
    label: str | Sequence[str] = ()
    foreign: Mapping[str, ForeignKey | str] = field(default_factory=dict)
    columns: str | Sequence[str] | Mapping[str, str] = ()
    duplicates: Duplicates = "error"

    def chosen_columns(self, names: Sequence[str]) -> dict[str, Kind | None]:
        """Return the columns to keep and their kinds (None: by type), of a table's columns."""
        if isinstance(self.columns, Mapping):
            return cast("dict[str, Kind | None]", dict(self.columns))
        if self.columns != "all":
            return dict.fromkeys(self.columns)
        excluded = {*self.key, *self.label}
        for relation, key in self.foreign.items():
            columns = key.columns if isinstance(key, ForeignKey) else ()
            excluded |= set(_columns(columns or relation, "columns"))
        return dict.fromkeys(name for name in names if name not in excluded)


@dataclass(frozen=True)
class LinkTable:
    """Table with a row for each edge of a type.

    Attributes:
        table: as ``source`` of :class:`NodeTable`.
        source: node type that edges come from.
        source_key: columns of its key.
        destination: node type that edges go to.
        destination_key: columns of its key.
        time: as in :class:`ForeignKey`.
        weight: as in :class:`ForeignKey`.
        attrs: as in :class:`ForeignKey`.
        missing: as in :class:`ForeignKey`, for both ends.
        null: as in :class:`ForeignKey`, for both ends.
        relation: name of the relation, if it is not the name of the link table.
    """

    table: Any
    source: str
    source_key: str | Sequence[str]
    destination: str
    destination_key: str | Sequence[str]
    time: str | None = None
    weight: str | None = None
    attrs: str | Sequence[str] = ()
    missing: Missing = "error"
    null: Nulls = "drop"
    relation: str | None = None


@dataclass(frozen=True)
class EdgeSpec:
    """An edge type and the columns that it is made of.

    Attributes:
        kind: (source type, relation, destination type).
        of_nodes: node type whose table has a row for each edge; None for a link table.
        table: source of the link table.
        source_key: columns of the source's key; () if each row is its own source.
        destination_key: columns of the destination's key.
    """

    kind: EdgeType
    of_nodes: str | None
    table: Any
    source_key: tuple[str, ...]
    destination_key: tuple[str, ...]
    time: str | None
    weight: str | None
    attrs: tuple[str, ...]
    missing: Missing
    null: Nulls

    def ends(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return (node type, columns of its key) of the ends that are given by keys."""
        ends = [(self.kind[0], self.source_key)] if self.source_key else []
        return [*ends, (self.kind[2], self.destination_key)]

    @property
    def value_columns(self) -> list[str]:
        """All columns of values that are read."""
        named = [self.time, self.weight, *self.attrs]
        return list(dict.fromkeys(column for column in named if column))

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys([*self.source_key, *self.destination_key, *self.value_columns]))


class TableSchema:
    """Checked schema of a typed graph.

    Args:
        nodes: node tables by type.
        links: link tables by relation.
        reverse: add ``(destination, "rev_" + relation, source)`` for every edge type.
        time_unit: unit of all times; integers count it, and timestamps are converted to it.
            None: the finest unit of the timestamps.
        folder: folder that relative paths begin at; None: the working folder.

    Attributes:
        nodes: node tables by type.
        edges: edge types, those of foreign keys first.
        path: the file that it was read from, or None.

    Raises:
        InvalidArgumentError: a part of the schema is wrong; names it.
    """

    def __init__(
        self,
        nodes: Mapping[str, NodeTable],
        links: Mapping[str, LinkTable] | None = None,
        *,
        reverse: bool = True,
        time_unit: str | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(nodes, Mapping) or not nodes:
            raise InvalidArgumentError("a schema needs at least one node table")
        self.nodes: dict[str, NodeTable] = {}
        self.edges: list[EdgeSpec] = []
        self.path: str | None = None
        self.reverse = as_flag(reverse, "reverse")
        self.time_unit = None if time_unit is None else check_unit(time_unit)
        self.folder = as_optional_file(folder)
        for name, table in nodes.items():
            _check_name(name, "node type")
            if not isinstance(table, NodeTable):
                raise InvalidArgumentError(f"nodes.{name} is a NodeTable, got {shown(table)}")
            self.nodes[name] = _checked_nodes(name, table)
        for name, table in self.nodes.items():
            for relation, key in table.foreign.items():
                self._add_foreign(name, relation, key)
        for name, link in (links or {}).items():
            self._add_link(name, link)
        self._check_edges()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TableSchema:
        """Read a schema from a TOML file; relative paths in it begin at its folder.

        Raises:
            MissingFileError, StorageError: it cannot be read.
            InvalidArgumentError: it is no schema; names the part at fault.
        """
        name = as_file(path)
        try:
            with open_regular(name) as file:
                data = file.read()
        except FileNotFoundError as error:
            raise MissingFileError(error.errno, f"{name}: no such file", name) from None
        except OSError as error:
            raise StorageError(error.errno or 5, f"{name}: {error.strerror}", name) from None
        toml = _toml()
        try:
            content = toml.loads(data.decode("utf-8"))
        except (ValueError, RecursionError) as error:  # TOMLDecodeError, UnicodeDecodeError
            raise InvalidArgumentError(f"{name}: is not TOML{_advice(name)}: {error}") from None
        try:
            schema = _schema(content, os.path.dirname(os.path.abspath(name)))
            schema.path = os.path.abspath(name)
            return schema
        except InvalidArgumentError as error:
            error.args = (f"{name}: {error.args[0]}",)
            raise

    def _add_foreign(self, name: str, relation: str, reference: ForeignKey | str) -> None:
        where = f"nodes.{name}.foreign.{relation}"
        _check_name(relation, f"{where}: a relation")
        key = ForeignKey(reference) if isinstance(reference, str) else reference
        if not isinstance(key, ForeignKey):
            raise InvalidArgumentError(
                f"{where} is a ForeignKey or a node type, got {shown(reference)}"
            )
        if self.nodes[name].source is None:
            raise InvalidArgumentError(f"{where}: a node type without a table has no foreign keys")
        columns = _columns(key.columns or relation, f"{where}.columns")
        self.edges.append(self._edge(where, (name, relation, key.to), key, name, None, (), columns))

    def _add_link(self, name: str, link: LinkTable) -> None:
        where = f"links.{name}"
        if not isinstance(link, LinkTable):
            raise InvalidArgumentError(f"{where} is a LinkTable, got {shown(link)}")
        relation = name if link.relation is None else link.relation
        _check_name(relation, f"{where}: a relation")
        if link.table is None:
            raise InvalidArgumentError(f"{where} has no table (from)")
        ends = [
            _columns(getattr(link, end), f"{where}.{end}")
            for end in ("source_key", "destination_key")
        ]
        if not all(ends):
            raise InvalidArgumentError(f"{where} needs the columns of both keys")
        kind = (link.source, relation, link.destination)
        table = _checked_source(link.table)
        self.edges.append(self._edge(where, kind, link, None, table, *ends))

    def _edge(
        self,
        where: str,
        kind: EdgeType,
        definition: ForeignKey | LinkTable,
        of_nodes: str | None,
        table: Any,
        source_key: tuple[str, ...],
        destination_key: tuple[str, ...],
    ) -> EdgeSpec:
        attrs = _columns(definition.attrs, f"{where}.attrs")
        missing = as_choice(definition.missing, get_args(Missing), f"{where}.missing")
        spec = EdgeSpec(
            kind, of_nodes, table, source_key, destination_key,
            _column(definition.time, f"{where}.time"),
            _column(definition.weight, f"{where}.weight"), attrs, missing,
            as_choice(definition.null, get_args(Nulls), f"{where}.null"),
        )  # fmt: skip
        for end in spec.ends():
            self._check_end(where, *end, missing)
        return spec

    def _check_end(self, where: str, name: str, columns: tuple[str, ...], missing: str) -> None:
        if not isinstance(name, str) or name not in self.nodes:
            known = ", ".join(self.nodes)
            raise InvalidArgumentError(
                f"{where} refers to the node type {shown(name)}, which is not in the schema; there "
                f"are: {known}"
            )
        table = self.nodes[name]
        if table.source is None:
            return
        if not table.key:
            raise InvalidArgumentError(f"{where} refers to nodes.{name}, which has no key")
        if len(table.key) != len(columns):
            raise InvalidArgumentError(
                f"{where} has {len(columns)} columns ({', '.join(columns)}), but the key of "
                f"nodes.{name} has {len(table.key)} ({', '.join(table.key)})"
            )
        if missing == "keep" and table.time is not None:
            raise InvalidArgumentError(
                f'{where}: missing = "keep" makes nodes of keys that nodes.{name} does not have, '
                "which would have no time: drop them, or leave the time of the nodes out"
            )
        if missing == "keep" and (table.label or (table.features and table.fill is None)):
            raise InvalidArgumentError(
                f'{where}: missing = "keep" makes nodes of keys that nodes.{name} does not have, '
                "which would have no features or labels: give fill for the features, and leave "
                "the label out, or drop these keys"
            )

    def _check_edges(self) -> None:
        kinds = [spec.kind for spec in self.edges]
        if self.reverse:
            kinds += [(kind[2], f"rev_{kind[1]}", kind[0]) for kind in kinds]
        for kind in kinds:
            if kinds.count(kind) > 1:
                raise InvalidArgumentError(
                    f"the edge type {kind} is there twice: give one another relation"
                )
        if not kinds:
            raise InvalidArgumentError("the schema has no edges: no foreign keys and no links")
        for name, table in self.nodes.items():
            if table.source is None and not any(
                name == end for spec in self.edges for end, _ in spec.ends()
            ):
                raise InvalidArgumentError(
                    f"nodes.{name} has no table (from), and no edge names it"
                )

    def keeps(self, name: str) -> list[tuple[EdgeSpec, tuple[str, ...]]]:
        """Return the edges whose keys become nodes of a type, and the columns of these keys."""
        table = self.nodes[name]
        return [
            (spec, columns)
            for spec in self.edges
            for end, columns in spec.ends()
            if end == name and (table.source is None or spec.missing == "keep")
        ]


def _check_name(name: Any, subject: str) -> None:
    if not is_name(name):
        raise InvalidArgumentError(f"{subject} is a name, got {shown(name)}")


def _checked_source(source: Any) -> Any:
    """Return where a table comes from, a path as text."""
    return as_file(source) if isinstance(source, os.PathLike) else source


def _checked_nodes(name: str, table: NodeTable) -> NodeTable:
    where = f"nodes.{name}"
    types = table.key_type if table.key_type is None else check_types(table.key_type)
    key = _columns(table.key, f"{where}.key")
    if types is not None and table.source is not None and len(types) != len(key):
        raise InvalidArgumentError(
            f"{where}: {len(types)} key_type for a key of {len(key)} columns"
        )
    time = _column(table.time, f"{where}.time")
    features = _columns(table.features, f"{where}.features")
    label = _columns(table.label, f"{where}.label")
    columns = _kept(table.columns, f"{where}.columns")
    if table.source is None and (key or time or features or label or columns):
        raise InvalidArgumentError(f"{where} has columns, but no table (from)")
    duplicates = as_choice(table.duplicates, get_args(Duplicates), f"{where}.duplicates")
    if duplicates != "error" and not key:
        raise InvalidArgumentError(f"{where}.duplicates is about keys, but there is no key")
    if table.fill is not None and not isinstance(table.fill, (int, float)):
        raise InvalidArgumentError(f"{where}.fill is a number, got {shown(table.fill)}")
    if not isinstance(table.foreign, Mapping):
        raise InvalidArgumentError(f"{where}.foreign goes by relation, got {shown(table.foreign)}")
    return NodeTable(
        _checked_source(table.source), key, types, time, features, table.fill, label,
        dict(table.foreign), columns, duplicates,
    )  # fmt: skip


def _kept(
    value: Any, where: str
) -> str | tuple[str, ...] | dict[str, str]:  # fmt: skip
    if isinstance(value, Mapping):
        _columns(list(value), where)
        return {
            name: as_choice(kind, KINDS, f"{where}.{name}") for name, kind in value.items()
        }  # fmt: skip
    if isinstance(value, str) and value == "all":
        return "all"
    return _columns(value, where)


# ---- TOML --------------------------------------------------------------------------------------


def _advice(name: str) -> str:
    """Return which file is wanted, for one that is often given in its place."""
    if not name.lower().endswith((".yaml", ".yml")):
        return ", which a schema is"
    folder = os.path.dirname(name) or "."
    tables = os.path.join(folder, "db")  # where RelBench has them
    tables = tables if os.path.isdir(tables) else folder
    return (
        ", which a schema is, but YAML. The folder of a RelBench dataset is read from Python: "
        f"tables(relbench_schema(relbench.load_dataset({folder!r}).get_db()), OUTPUT). A schema "
        f"to edit, for the tables in a folder: aethergraph tables --guess {shlex.quote(tables)}"
    )


def _toml() -> Any:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        try:
            import tomli as tomllib  # type: ignore[import-not-found,no-redef,unused-ignore]
        except ModuleNotFoundError:
            raise UnsupportedError(
                "a schema in a file needs Python 3.11, or: pip install tomli"
            ) from None
    return tomllib


def _schema(content: dict[str, Any], folder: str) -> TableSchema:
    known = {"nodes", "links", "reverse", "time_unit"}
    _refuse_unknown(content, known, "the schema")
    nodes, links = content.get("nodes", {}), content.get("links", {})
    for section, entries in (("nodes", nodes), ("links", links)):
        if not isinstance(entries, dict) or not all(
            isinstance(entry, dict) for entry in entries.values()
        ):
            raise InvalidArgumentError(f"{section} are tables, [{section}.NAME]")
    return TableSchema(
        {name: _node_table(f"nodes.{name}", name, entry) for name, entry in nodes.items()},
        {name: _link_table(f"links.{name}", name, entry) for name, entry in links.items()},
        reverse=content.get("reverse", True),
        time_unit=content.get("time_unit"),
        folder=folder,
    )


def _refuse_unknown(entry: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(entry) - known)
    if unknown:
        raise InvalidArgumentError(
            f"{where} has the unknown entry {unknown[0]!r}; known are: {', '.join(sorted(known))}"
        )


def _names(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


def _source(entry: dict[str, Any], name: str) -> Any:
    """Return ``from``; a database without a table or query has a table of the type's name."""
    source = entry.get("from")
    if isinstance(source, dict) and not {"table", "query"} & source.keys():
        return {**source, "table": name}
    return source


def _node_table(where: str, name: str, entry: dict[str, Any]) -> NodeTable:
    _refuse_unknown(entry, (_names(NodeTable) - {"source"}) | {"from"}, where)
    options = {key: value for key, value in entry.items() if key not in ("from", "foreign")}
    foreign = {}
    relations = entry.get("foreign", {})
    if not isinstance(relations, dict):
        raise InvalidArgumentError(f"{where}.foreign goes by relation: foreign.RELATION = TYPE")
    for relation, key in relations.items():
        if isinstance(key, dict):
            _refuse_unknown(key, _names(ForeignKey), f"{where}.foreign.{relation}")
            if "to" not in key:
                raise InvalidArgumentError(f"{where}.foreign.{relation} needs to = NODE TYPE")
            key = ForeignKey(**key)
        foreign[relation] = cast("ForeignKey | str", key)
    return NodeTable(_source(entry, name), **options, foreign=foreign)


def _link_table(where: str, name: str, entry: dict[str, Any]) -> LinkTable:
    _refuse_unknown(entry, (_names(LinkTable) - {"table"}) | {"from"}, where)
    for needed in ("from", "source", "source_key", "destination", "destination_key"):
        if needed not in entry:
            raise InvalidArgumentError(f"{where} needs {needed}")
    options = {key: value for key, value in entry.items() if key != "from"}
    return LinkTable(_source(entry, name), **options)
