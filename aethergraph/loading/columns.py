"""Columns: attributes of nodes and edges that batches have, of one type or of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from aethergraph._checks.options import as_items, as_list, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.feature_sources import (
    FeatureSources,
    open_feature_source,
    open_typed_feature_source,
)
from aethergraph.protocols import RowSource

if TYPE_CHECKING:
    from aethergraph.graph.schema import Rows, Schema

__all__ = ["Column", "edge_columns", "node_columns"]


class Column(NamedTuple):
    """Attribute of the nodes or the edges of a type."""

    kind: Any
    name: str
    rows: RowSource


def node_columns(schema: Schema, names: Any, sources: FeatureSources | None) -> list[Column]:
    """Return the attributes of nodes that batches have.

    Args:
        schema: types of the graph.
        names: names of attributes, None for all; of a typed graph also by node type, where types
            that are missing have none.
        sources: rows in place of attributes, as loaders take them.

    Raises:
        InvalidArgumentError: a name that no type has, or that its type has not; or as
            :func:`open_feature_source`.
    """
    replacements: dict[Any, dict[str, RowSource]] = {}
    if schema.is_typed and sources is not None:
        for (node_type, name), rows in open_typed_feature_source(
            sources, schema.num_nodes_of()
        ).items():
            replacements.setdefault(node_type, {})[name] = rows
    elif sources is not None:
        only = schema.node_types[0]
        replacements[only] = open_feature_source(sources, schema.num_nodes(only))
    return _choose(
        schema.is_typed,
        schema.node_types,
        lambda node_type: {**schema.node_attrs(node_type), **replacements.get(node_type, {})},
        names,
        "node_attrs",
    )


def edge_columns(schema: Schema, names: Any) -> list[Column]:
    """Return the attributes of edges that batches have; as :func:`node_columns`."""
    return _choose(schema.is_typed, schema.edge_types, schema.edge_attrs, names, "edge_attrs")


def _choose(
    is_typed: bool,
    kinds: Iterable[Any],
    rows_of: Callable[[Any], Rows],
    names: Any,
    option: str,
) -> list[Column]:
    tables = {kind: rows_of(kind) for kind in kinds}
    if names is None:
        return [
            Column(kind, n, rows) for kind, table in tables.items() for n, rows in table.items()
        ]
    columns: list[Column] = []
    if is_typed and isinstance(names, Mapping):
        for kind, of_kind in as_items(names, option, "names"):
            if kind not in tables:
                known = ", ".join(map(repr, tables)) or "none"
                raise InvalidArgumentError(
                    f"{option}: {shown(kind)} is no type; there are: {known}"
                )
            label = f"{option}[{kind!r}]"
            for name in _names(of_kind, label, tables[kind]):
                columns.append(Column(kind, name, tables[kind][name]))
        return columns
    everything = {name: rows for table in tables.values() for name, rows in table.items()}
    chosen = _names(names, option, everything)
    return [
        Column(kind, name, table[name])
        for kind, table in tables.items()
        for name in chosen
        if name in table
    ]


def _names(names: Any, option: str, table: Rows) -> list[str]:
    chosen = as_list(names, option, "names")
    for name in chosen:
        if not isinstance(name, str) or name not in table:
            known = ", ".join(table) or "none"
            raise InvalidArgumentError(
                f"{option}: {shown(name)} does not exist; there are: {known}"
            )
    return list(dict.fromkeys(chosen))
