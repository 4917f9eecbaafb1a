"""Graphs: compressed lists of one type of edges or many, built from edges or opened from a file."""

from __future__ import annotations

from aethergraph.graph.foreign import ForeignGraph, as_graph, graph_hint
from aethergraph.graph.graph import AttributeTable, Graph
from aethergraph.graph.hetero import EdgeType, HeteroGraph
from aethergraph.graph.views import EdgeView

__all__ = [
    "AttributeTable",
    "EdgeType",
    "EdgeView",
    "ForeignGraph",
    "Graph",
    "HeteroGraph",
    "as_graph",
    "graph_hint",
]
