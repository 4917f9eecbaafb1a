"""Tensors that a graph has by itself, by the groups and names that PyG knows them under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aethergraph.pyg._tensor_attr import EDGE_GROUP

if TYPE_CHECKING:
    from aethergraph.graph import HeteroGraph
    from aethergraph.protocols import HomogeneousGraph, RowSource
    from aethergraph.pyg._tensor_rows import Key

__all__ = ["graph_counts", "graph_tables", "graph_tensor", "graph_values"]


def graph_tables(
    graph: HomogeneousGraph | HeteroGraph,
) -> list[tuple[Any, Mapping[str, RowSource]]]:
    """Return the attributes of a graph by group."""
    if not graph.is_typed:
        return [(None, graph.node_attrs), (EDGE_GROUP, graph.edge_attrs)]
    nodes: list[tuple[Any, Mapping[str, RowSource]]] = [
        (n, graph[n].attrs) for n in graph.node_types
    ]
    return nodes + [(kind, graph[kind].attrs) for kind in graph.edge_types]


def graph_tensor(graph: HomogeneousGraph | HeteroGraph, key: Key) -> RowSource | None:
    """Return one attribute of a graph by group and name; None if there is none."""
    group, name = key
    if graph.is_typed:
        known = group in (graph.edge_types if isinstance(group, tuple) else graph.node_types)
        return graph[group].attrs.get(name) if known else None
    if group is None:
        return graph.node_attrs.get(name)
    return graph.edge_attrs.get(name) if group == EDGE_GROUP else None


def graph_counts(graph: HomogeneousGraph | HeteroGraph) -> dict[Any, tuple[str, int]]:
    """Return for each group the name and the value of its number of rows."""
    if not graph.is_typed:
        return {None: ("num_nodes", graph.num_nodes), EDGE_GROUP: ("num_edges", graph.num_edges)}
    counts: dict[Any, tuple[str, int]] = {n: ("num_nodes", c) for n, c in graph.num_nodes.items()}
    return counts | {kind: ("num_edges", c) for kind, c in graph.num_edges.items()}


def graph_values(graph: HomogeneousGraph | HeteroGraph) -> dict[Key, RowSource]:
    """Return the weights and times that a graph itself has, by group and name."""
    found: dict[Any, Mapping[str, RowSource]]
    if not graph.is_typed:
        found = {None: graph.value_stores("node"), EDGE_GROUP: graph.value_stores("edge")}
    else:
        found = {name: graph[name].value_stores() for name in graph.node_types}
        found.update((kind, graph[kind].value_stores()) for kind in graph.edge_types)
    return {(group, name): rows for group, one in found.items() for name, rows in one.items()}
