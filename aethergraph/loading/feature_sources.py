"""``feature_source=`` of loaders: rows from elsewhere, in place of the graph's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from aethergraph._checks.options import as_items, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.adapters import attribute_store
from aethergraph.protocols import FeatureSource, RowSource
from aethergraph.remote import open_source

__all__ = ["FeatureSources", "open_feature_source", "open_typed_feature_source"]

#: What ``feature_source=`` takes: an address or a source for ``"x"``, or several by name; of typed
#: graphs any of these by node type.
FeatureSources: TypeAlias = "str | FeatureSource | ArrayLike | Mapping[str, Any]"


def open_feature_source(sources: FeatureSources | None, num_nodes: int) -> dict[str, RowSource]:
    """Return the rows that a loader was given, by name.

    Raises:
        InvalidArgumentError: a source is none, or has not ``num_nodes`` rows; or as
            :func:`aethergraph.remote.open_source`.
    """
    return {} if sources is None else _open(sources, num_nodes, "")


def open_typed_feature_source(
    by_type: FeatureSources, counts: Mapping[str, int]
) -> dict[tuple[str, str], RowSource]:
    """Return the rows that a loader of a graph of many types was given, by node type and name.

    Raises:
        InvalidArgumentError: as :func:`open_feature_source`, or there is no such type.
    """
    opened = {}
    for kind, sources in as_items(by_type, "feature_source", "sources, by node type"):
        if not isinstance(kind, str) or kind not in counts:
            raise InvalidArgumentError(
                f"feature_source: {shown(kind)} is no node type; there are: {', '.join(counts)}"
            )
        for name, rows in _open(sources, counts[kind], f"[{kind!r}]").items():
            opened[kind, name] = rows
    return opened


def _open(sources: Any, num_nodes: int, where: str) -> dict[str, RowSource]:
    named = sources if isinstance(sources, Mapping) else {"x": sources}
    opened: dict[str, RowSource] = {}
    for name, source in as_items(named, "feature_source", "sources of rows"):
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"feature_source{where}: {shown(name)} is no name")
        rows = open_source(source) if isinstance(source, str) else source
        opened[name] = attribute_store(
            rows, num_nodes, f"feature_source{where}[{name!r}]", "num_nodes"
        )
    return opened
