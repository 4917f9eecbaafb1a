"""Checks of samples that others made: errors there would spoil a batch silently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import shown
from aethergraph._native import id_bounds
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.graph.schema import Schema

__all__ = ["check_ends", "check_sample", "check_seeds"]

Ids: TypeAlias = "NDArray[np.int64]"


def check_sample(sample: Any, schema: Schema, seeds: Mapping[str, Ids], maker: str) -> None:
    """Raise unless a sample is a subgraph of the graph that begins with the seeds.

    Args:
        sample: a ``Subgraph``, of a typed graph a ``HeteroSubgraph``, or another
            object with these members.
        schema: types of the graph.
        seeds: ids by node type.
        maker: who made it, for messages, which begin with it.

    Raises:
        InvalidArgumentError: members that are missing, of another type or length, or nodes that do
            not begin with the seeds.
        OutOfRangeError: a node or edge that does not exist, or an end that is none of the nodes.
    """
    class_name = "HeteroSubgraph" if schema.is_typed else "Subgraph"
    arrays: dict[str, dict[Any, Ids]] = {}
    for member in ("node", "row", "col", "edge"):
        values = getattr(sample, member, None)
        types: list[Any] = list(schema.node_types if member == "node" else schema.edge_types)
        if not schema.is_typed:
            values = {types[0]: values}
        if not isinstance(values, Mapping):
            raise InvalidArgumentError(
                f"{maker} returned {shown(sample)}: it must be a {class_name}"
            )
        for kind in types:
            array = values.get(kind)
            label = schema.label(member, kind)
            if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != np.int64:
                raise InvalidArgumentError(
                    f"{maker} returned a {type(sample).__name__} whose {label} is {shown(array)}: "
                    f"it must be a {class_name}, with int64 vectors"
                )
        arrays[member] = {kind: values[kind] for kind in types}
    node, edge = arrays["node"], arrays["edge"]
    for node_type, ids in node.items():
        of_type = seeds.get(node_type)
        if of_type is not None:
            check_seeds(ids, of_type, maker)
        _check_range(
            ids, schema.num_nodes(node_type), f"{maker}: {schema.label('node', node_type)}"
        )
    for kind, ids in edge.items():
        ends = arrays["row"][kind], arrays["col"][kind]
        label = schema.label("", kind)
        check_ends(*ends, len(ids), len(node[kind[0]]), len(node[kind[2]]), label, maker)
        edges = schema.edges(kind)
        end = edges.topology("csr" if edges.layout == "csr" else "csc").end_edge_ids
        _check_range(ids, end, f"{maker}: {schema.label('edge', kind)}")


def check_seeds(node: Ids, seeds: Ids, maker: str) -> None:
    """Raise InvalidArgumentError unless nodes begin with the seeds."""
    if not np.array_equal(node[: len(seeds)], seeds):
        raise InvalidArgumentError(
            f"{maker} must return nodes that begin with the seeds, in their order and with their "
            "duplicates"
        )


def check_ends(
    row: Ids, col: Ids, num_edges: int, num_src: int, num_dst: int, label: str, maker: str
) -> None:
    """Raise unless the ends of edges are positions in the nodes of a sample."""
    for name, ends, count in ((f"row{label}", row, num_src), (f"col{label}", col, num_dst)):
        if len(ends) != num_edges:
            raise InvalidArgumentError(
                f"{maker} returned {name} with {len(ends)} entries, the other vector of its edges "
                f"has {num_edges}"
            )
        bad = (ends < 0) | (ends >= count)
        if bad.any():
            at = int(bad.argmax())
            raise OutOfRangeError(
                f"{maker} returned {name}[{at}] = {int(ends[at])}, which is no position in its "
                f"{count} nodes",
                position=at,
                value=int(ends[at]),
            )


def _check_range(ids: Ids, count: int, label: str) -> None:
    if not len(ids):
        return
    low, high = id_bounds(np.ascontiguousarray(ids))
    if low < 0 or high >= count:
        at = int(((ids < 0) | (ids >= count)).argmax())
        raise OutOfRangeError(
            f"{label}[{at}] = {int(ids[at])} is not in 0..{count - 1}",
            position=at,
            value=int(ids[at]),
        )
