"""Typed graphs of tables in plain Python: what ``convert.tables`` has to equal byte by byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from aethergraph import HeteroGraph
from aethergraph import _native as native
from aethergraph.storage.meta import SectionTable
from aethergraph.storage.opening import open_container

Rows = list[dict[str, Any]]
NS = {"s": 1, "ms": 1000, "us": 10**6}


@dataclass
class Nodes:
    """Rows of a node table, and which of their columns are what."""

    rows: Rows
    key: tuple[str, ...] = ()
    time: str | None = None
    features: tuple[str, ...] = ()
    label: str | None = None
    fill: float = 0


@dataclass
class Edges:
    """Rows of an edge type; a source without key columns is the row itself."""

    rows: Rows
    source: tuple[str, ...]
    destination: tuple[str, ...]
    time: str | None = None
    weight: str | None = None
    attrs: tuple[str, ...] = ()
    keep: bool = False


@dataclass
class World:
    nodes: dict[str, Nodes]
    edges: dict[tuple[str, str, str], Edges]
    ids: dict[str, dict[tuple[Any, ...], int]] = field(default_factory=dict)


def key_of(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...] | None:
    key = tuple(row[column] for column in columns)
    return None if None in key else key


def same_graph_file(one: Path, other: Path) -> bool:
    """Return whether two graph files are the same, section by section.

    Only what their descriptions say besides may differ: fingerprints of what lies beside them, the
    time zone, the times to go by.
    """
    tables = [SectionTable(open_container(path), native.CONTENT_GRAPH) for path in (one, other)]
    metas = [replace(table.meta, beside={}, time_zone=None, time_attr=None) for table in tables]
    rows = [[row for row in t.rows if row.kind != native.SECTION_META] for t in tables]
    return metas[0] == metas[1] and rows[0] == rows[1]


def write(
    world: World, path: Path, *, reverse: bool = True, dtypes: Mapping[str, Any] = {}, **save: Any
) -> HeteroGraph:
    """Write the graph of a world as ``HeteroGraph`` does; ``dtypes`` by column."""
    layout = save.pop("layout", "csc")
    for name, table in world.nodes.items():
        ids = world.ids[name] = {}
        for row in table.rows:
            if table.key:
                key = key_of(row, table.key)
                assert key is not None and key not in ids
                ids[key] = len(ids)
        for (source, _, target), edge in world.edges.items():
            for end, columns in ((source, edge.source), (target, edge.destination)):
                if end == name and columns and edge.keep:
                    for row in edge.rows:
                        ends = [key_of(row, c) for c in (edge.source, edge.destination) if c]
                        key = key_of(row, columns)
                        if None not in ends and key is not None:
                            ids.setdefault(key, len(ids))
    counts = {
        name: max(len(world.ids[name]), len(table.rows)) for name, table in world.nodes.items()
    }
    pairs, weights, times, attrs = {}, {}, {}, {}
    for kind, edge in world.edges.items():
        found = []
        for number, row in enumerate(edge.rows):
            ends = []
            for end, columns in ((kind[0], edge.source), (kind[2], edge.destination)):
                if not columns:
                    ends.append(number)
                    continue
                key = key_of(row, columns)
                ends.append(None if key is None else world.ids[end].get(key))
            if None not in ends:
                found.append((*ends, row))
        pairs[kind] = ([f[0] for f in found], [f[1] for f in found])

        def column(name: str, found: Any = found) -> Any:
            return np.array([f[2][name] for f in found], dtypes.get(name))

        if edge.weight:
            weights[kind] = column(edge.weight)
        if edge.time:
            times[kind] = column(edge.time)
        if edge.attrs:
            attrs[kind] = {name: column(name) for name in edge.attrs}
    node_time = {
        name: np.array([row[table.time] for row in table.rows], dtypes.get(table.time))
        for name, table in world.nodes.items()
        if table.time
    }
    if times and node_time:  # an edge is there when it and both its rows are
        for kind, ends in pairs.items():
            known = [(node_time.get(kind[at]), ids) for at, ids in ((0, ends[0]), (2, ends[1]))]
            found = [one[np.array(ids, np.int64)] for one, ids in known if one is not None]
            found += [times[kind]] if kind in times else []
            if found:
                times[kind] = np.maximum.reduce(found)
    graph = HeteroGraph.from_edges(
        pairs, counts, edge_weight=weights, edge_time=times, edge_attrs=attrs, node_time=node_time,
        add_reverse=reverse, layout=layout,
    )  # fmt: skip
    for name, table in world.nodes.items():
        if table.features:
            x = np.full((counts[name], len(table.features)), table.fill, np.float32)
            for number, row in enumerate(table.rows):
                x[number] = [
                    table.fill if row[c] is None else float(row[c]) for c in table.features
                ]
            graph[name].attrs["x"] = x
        if table.label:
            labels = [-1 if row[table.label] is None else row[table.label] for row in table.rows]
            graph[name].attrs["y"] = np.array(labels, np.int64)
    graph.save(path, **save)
    return graph
