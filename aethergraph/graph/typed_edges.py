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
    found: EdgeType = kind
    return found


def unknown_type(what: str, name: Any, known: Mapping[Any, Any]) -> MissingNameError:
    """Return the error for a type that is not among ``known``."""
    names = ", ".join(map(repr, known)) or "none"
    return MissingNameError(f"{what}: {shown(name)} is not in the graph; there are: {names}")


def read_edges(
    edges: Mapping[EdgeType, tuple[ArrayLike, ArrayLike]], values: dict[str, dict[Any, Any]]
) -> dict[EdgeType, EdgeInput]:
    """Check edge lists and their values by type; the errors name the edge type.

    ``values`` holds ``edge_weight``, ``edge_time`` and ``edge_attrs``, each by edge type.
    """
    found = {}
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
        found[kind] = EdgeInput(source, target)
    for option, by_type in values.items():
        for kind in by_type:
            if kind not in found:
                raise unknown_type(option, kind, found)
    for kind, one in found.items():
        try:
            one.read_values(*(by_type.get(kind) for by_type in values.values()))
        except (InvalidArgumentError, OutOfRangeError) as error:
            error.args = (f"{kind}: {error}", *error.args[1:])
            raise
    return found


def reversed_edges(inputs: Mapping[EdgeType, EdgeInput]) -> dict[EdgeType, EdgeInput]:
    """Return ``(dst, "rev_" + relation, src)`` for every edge type, with the same values."""
    found = {}
    for (source, relation, target), one in inputs.items():
        kind = (target, f"rev_{relation}", source)
        if kind in inputs:
            raise InvalidArgumentError(f"add_reverse: {kind} is there already")
        found[kind] = EdgeInput(
            one.target, one.source, one.weight, one.time, one.time_unit, dict(one.attrs)
        )
    return found


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
    for kind, one in inputs.items():
        ends.setdefault(kind[0], {})[f"{kind} src"] = one.source
        ends.setdefault(kind[2], {})[f"{kind} dst"] = one.target
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
    one: EdgeInput,
    nodes: Mapping[str, NodeParts],
    layout: Layout,
    keep_order: bool,
    progress: native.Progress | None,
) -> EdgeParts:
    """Build the lists of one edge type; the errors name the edge type."""
    source, target = nodes[kind[0]], nodes[kind[2]]
    parts = EdgeParts(source.num_nodes, target.num_nodes, len(one.source))
    try:
        one.sort_by_time(source.node_time, parts.num_src, parts.num_dst)
        native.run_long(
            lambda task: build_edges(parts, one, layout, keep_order, task),
            progress,
            32 * parts.num_edges,
        )
    except IndexError as error:  # add the edge type to an error about an id
        error.args = (f"{kind}: {error}", *error.args[1:])
        raise
    if one.time is not None or source.node_time is not None:
        parts.sorted_by.update(BY_SOURCE_TIME if one.time is None else BY_EDGE_TIME)
    return parts
