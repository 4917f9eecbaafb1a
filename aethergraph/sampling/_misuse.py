"""Errors for objects of one package that were passed to another."""

from __future__ import annotations

from os import PathLike
from typing import Any

from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.foreign import graph_hint
from aethergraph.protocols import AnyGraph

__all__ = ["not_a_graph", "stray_attribute"]


def not_a_graph(graph: Any, class_name: str, sampler: str) -> InvalidArgumentError:
    """Return the error for an argument that should have been a graph.

    Args:
        graph: the argument.
        class_name: name of the class that is needed.
        sampler: name of the sampler that got the argument.
    """
    hint = ""
    if isinstance(graph, (str, PathLike)):
        hint = f": open the file first, {class_name}.load(path)"
    elif isinstance(graph, AnyGraph) and sampler.endswith("NeighborSampler"):
        hint = f": take {'Hetero' if graph.is_typed else ''}NeighborSampler"
    elif graph_hint(graph):
        hint = graph_hint(graph)
    elif isinstance(graph, (tuple, list)) and sampler != "RandomWalker":
        hint = f": the stores of PyG are for aethergraph.pyg.{sampler}"
    else:
        for package in ("torch_geometric", "dgl"):
            if type(graph).__module__.split(".")[0] == package:
                name = "pyg" if package == "torch_geometric" else "dgl"
                hint = f": objects of {package} are for the samplers of aethergraph.{name}"
    return InvalidArgumentError(f"graph must be a {class_name}, got {type(graph).__name__}{hint}")


def stray_attribute(sampler: Any, name: str) -> AttributeError:
    """Return the error for an attribute that a sampler of the core does not have."""
    class_name = type(sampler).__name__
    message = f"{class_name!r} object has no attribute {name!r}"
    if name in ("sample_from_nodes", "sample_from_edges"):
        message += (
            f": this is aethergraph.{class_name}, which PyG's loaders cannot ask; "
            f"take aethergraph.pyg.{class_name} (from aethergraph.pyg import {class_name})"
        )
    return AttributeError(message)
