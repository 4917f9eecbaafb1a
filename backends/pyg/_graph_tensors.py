"""Tensors that a graph has by itself, by the groups and names that PyG knows them under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aethergraph.protocols import AnyGraph
from aethergraph.pyg._tensor_attr import EDGE_GROUP

if TYPE_CHECKING:
    from aethergraph.protocols import RowSource
    from aethergraph.pyg._tensor_rows import Key

__all__ = ["graph_counts", "graph_tables", "graph_tensor", "graph_values"]


def graph_tables(
    graph: AnyGraph,
) -> list[tuple[Any, Mapping[str, RowSource]]]:
    """Return the attributes of a graph by group."""
    if not graph.is_typed:
        return [(None, graph.node_attrs), (EDGE_GROUP, graph.edge_attrs)]
    nodes: list[tuple[Any, Mapping[str, RowSource]]] = [
        (n, graph[n].node_attrs) for n in graph.node_types
    ]
    return nodes + [(kind, graph[kind].edge_attrs) for kind in graph.edge_types]


def graph_tensor(graph: AnyGraph, key: Key) -> RowSource | None:
    """Return one attribute of a graph by group and name; None if there is none."""
    group, name = key
    if graph.is_typed:
        known = group in (graph.edge_types if isinstance(group, tuple) else graph.node_types)
        if not known:
            return None
        return (
            graph[group].edge_attrs if isinstance(group, tuple) else graph[group].node_attrs
        ).get(name)
    if group is None:
        return graph.node_attrs.get(name)
    return graph.edge_attrs.get(name) if group == EDGE_GROUP else None


def graph_counts(graph: AnyGraph) -> dict[Any, tuple[str, int]]:
    """Return for each group the name and the value of its number of rows."""
    if not graph.is_typed:
        return {None: ("num_nodes", graph.num_nodes), EDGE_GROUP: ("num_edges", graph.num_edges)}
    counts: dict[Any, tuple[str, int]] = {n: ("num_nodes", c) for n, c in graph.num_nodes.items()}
    return counts | {kind: ("num_edges", c) for kind, c in graph.num_edges.items()}


def graph_values(graph: AnyGraph) -> dict[Key, RowSource]:
    """Return the weights and times that a graph itself has, by group and name."""
    values: dict[Any, Mapping[str, RowSource]]
    if not graph.is_typed:
        values = {None: graph.node_values, EDGE_GROUP: graph.edge_values}
    else:
        values = {name: graph[name].node_values for name in graph.node_types}
        values.update((kind, graph[kind].edge_values) for kind in graph.edge_types)
    return {
        (group, name): rows for group, of_group in values.items() for name, rows in of_group.items()
    }
