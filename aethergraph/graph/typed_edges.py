"""Edge lists by type, turned into the parts of a ``HeteroGraph``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_ids
from aethergraph._checks.options import is_name, shown
from aethergraph.errors import InvalidArgumentError, MissingNameError, OutOfRangeError
from aethergraph.graph.adjacency import Layout
from aethergraph.graph.edge_input import EdgeInput, build_edges
from aethergraph.graph.ids import infer_num_nodes
from aethergraph.graph.parts import BY_EDGE_TIME, BY_SOURCE_TIME, EdgeParts, NodeParts
from aethergraph.protocols import EdgeType

__all__ = [
    "EdgeType",
    "build_relation",
    "count_nodes",
    "read_edges",
    "reversed_edges",
    "unknown_type",
]

Ids = NDArray[np.int64]


def _check_type(kind: Any) -> EdgeType:
    if not isinstance(kind, tuple) or len(kind) != 3 or not all(map(is_name, kind)):
        raise InvalidArgumentError(
            "an edge type is three names, (source, relation, destination), of characters that "
            f"UTF-8 has, got {shown(kind)}"
        )
    edge_type: EdgeType = kind
    return edge_type


def unknown_type(option: str, name: Any, known: Mapping[Any, Any]) -> MissingNameError:
    """Return the error for a type that is not among ``known``."""
    names = ", ".join(map(repr, known)) or "none"
    return MissingNameError(f"{option}: {shown(name)} is not in the graph; there are: {names}")


def read_edges(
    edges: Mapping[EdgeType, tuple[ArrayLike, ArrayLike]], values: dict[str, dict[Any, Any]]
) -> dict[EdgeType, EdgeInput]:
    """Check edge lists and their values by type; the errors name the edge type.

    ``values`` holds ``edge_weight``, ``edge_time`` and ``edge_attrs``, each by edge type.
    """
    inputs = {}
    for kind, ends in edges.items():
        _check_type(kind)
        try:
            src, dst = ends  # or an array or tensor [2, E]
        except (TypeError, ValueError, RuntimeError):  # tensors raise RuntimeError
            raise InvalidArgumentError(f"edges[{kind!r}] must be (src, dst)") from None
        source, target = as_ids(src, f"{kind} src"), as_ids(dst, f"{kind} dst")
        if len(source) != len(target):
            raise InvalidArgumentError(
                f"{kind}: src has {len(source)} ids, but dst has {len(target)}"
            )
        inputs[kind] = EdgeInput(source, target)
    for option, by_type in values.items():
        for kind in by_type:
            if kind not in inputs:
                raise unknown_type(option, kind, inputs)
    for kind, edge_input in inputs.items():
        try:
            edge_input.read_values(*(by_type.get(kind) for by_type in values.values()))
        except (InvalidArgumentError, OutOfRangeError) as error:
            error.args = (f"{kind}: {error}", *error.args[1:])
            raise
    return inputs


def reversed_edges(inputs: Mapping[EdgeType, EdgeInput]) -> dict[EdgeType, EdgeInput]:
    """Return ``(dst, "rev_" + relation, src)`` for every edge type, with the same values."""
    reverses = {}
    for (source, relation, target), edge_input in inputs.items():
        kind = (target, f"rev_{relation}", source)
        if kind in inputs:
            raise InvalidArgumentError(f"add_reverse: {kind} is there already")
        reverses[kind] = EdgeInput(
            edge_input.target,
            edge_input.source,
            edge_input.weight,
            edge_input.time,
            edge_input.time_unit,
            dict(edge_input.attrs),
        )
    return reverses


def count_nodes(
    inputs: Mapping[EdgeType, EdgeInput], num_nodes: Mapping[str, int]
) -> dict[str, NodeParts]:
    """Return node types in order of appearance in ``num_nodes``, then in the edge types."""
    for name in num_nodes:
        if not is_name(name):
            raise InvalidArgumentError(
                f"num_nodes: a node type is a name of characters that UTF-8 has, got {shown(name)}"
            )
    ends: dict[str, dict[str, Ids]] = {name: {} for name in num_nodes}
    for kind, edge_input in inputs.items():
        ends.setdefault(kind[0], {})[f"{kind} src"] = edge_input.source
        ends.setdefault(kind[2], {})[f"{kind} dst"] = edge_input.target
    return {
        name: NodeParts(
            as_count(num_nodes[name], f"num_nodes[{name!r}]")
            if name in num_nodes
            else infer_num_nodes(vectors)
        )
        for name, vectors in ends.items()
    }


def build_relation(
    kind: EdgeType,
    edge_input: EdgeInput,
    nodes: Mapping[str, NodeParts],
    layout: Layout,
    keep_order: bool,
    progress: native.Progress | None,
) -> EdgeParts:
    """Build the lists of one edge type; the errors name the edge type."""
    source, target = nodes[kind[0]], nodes[kind[2]]
    parts = EdgeParts(source.num_nodes, target.num_nodes, len(edge_input.source))
    try:
        edge_input.sort_by_time(source.node_time, parts.num_src, parts.num_dst)
        native.run_long(
            lambda task: build_edges(parts, edge_input, layout, keep_order, task),
            progress,
            32 * parts.num_edges,
        )
    except IndexError as error:  # add the edge type to an error about an id
        error.args = (f"{kind}: {error}", *error.args[1:])
        raise
    if edge_input.time is not None or source.node_time is not None:
        parts.sorted_by.update(BY_SOURCE_TIME if edge_input.time is None else BY_EDGE_TIME)
    return parts
