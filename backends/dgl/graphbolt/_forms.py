"""GraphBolt's names of types, its fanouts, and samples in its compressed form."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

import dgl.graphbolt as gb
from aethergraph._checks.options import as_text
from aethergraph._torch.tensors import read_array
from aethergraph.dgl._arguments import hop_fanouts
from aethergraph.dgl._plans import dgl_times
from aethergraph.dgl._schema import Schema
from aethergraph.dgl.graphbolt.subgraph import SampledSubgraph
from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling.fanouts import as_fanout
from aethergraph.sampling.plan import Times
from aethergraph.sampling.values import topology_times

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph import _native as native
    from aethergraph.graph.hetero import EdgeType

__all__ = [
    "destination_type",
    "edge_type",
    "is_typed",
    "layer_fanouts",
    "layer_subgraphs",
    "single_hop",
    "time_option",
    "type_name",
]

Ids: TypeAlias = "NDArray[np.int64]"


def is_typed(schema: Schema) -> bool:
    """Return whether ids come in dicts by type, as in GraphBolt's heterogeneous graphs."""
    return schema.graph.is_typed


def type_name(kind: EdgeType) -> str:
    """Return an edge type as GraphBolt writes it."""
    return ":".join(kind)


def edge_type(schema: Schema, name: Any) -> EdgeType:
    """Return the edge type of ``"source:relation:destination"`` or a tuple; None: the only one."""
    return schema.etype(tuple(name.split(":")) if isinstance(name, str) and ":" in name else name)


def destination_type(schema: Schema, name: Any) -> str:
    """Return the node type that edges of a type end at; the graph need not hold the edge type."""
    parts = name.split(":") if isinstance(name, str) else name
    if isinstance(parts, (list, tuple)) and len(parts) == 3:
        return schema.ntype(parts[2])
    if name is None and len(schema.ntypes) == 1:
        return schema.ntypes[0]
    return schema.etype(name)[2]


def layer_fanouts(schema: Schema, fanout: Any, name: str) -> tuple[int, ...] | int:
    """Return the fanouts of one layer, by edge type in the graph's order.

    A tensor has one number, or one per edge type in the order of ``edge_type_to_id``. One number is
    for all edge types of a node together, and returned alone where nodes have several.

    Raises:
        InvalidArgumentError: another number of them, or what is no fanout.
    """
    kinds = schema.canonical_etypes
    if isinstance(fanout, Mapping):
        named = {edge_type(schema, kind): count for kind, count in fanout.items()}
        return hop_fanouts(schema, named, name)
    if isinstance(fanout, Tensor) and fanout.numel() not in (1, len(kinds)):
        raise _wrong_number(name, fanout.numel(), kinds)
    counts = read_array(fanout, name).tolist() if isinstance(fanout, Tensor) else fanout
    if not isinstance(counts, (list, tuple)):
        counts = [counts]
    checked = [as_fanout(count, name) for count in counts]
    if len(checked) == 1:
        targets = [kind[2] for kind in kinds]
        if checked[0] > 0 and len(set(targets)) < len(targets):
            return checked[0]
        checked *= len(kinds)
    if len(checked) != len(kinds):
        raise _wrong_number(name, len(checked), kinds)
    fanouts = dict(zip(kinds, checked, strict=True))
    return tuple(fanouts[kind] for kind in schema.edge_types)


def _wrong_number(name: str, count: int, kinds: list[EdgeType]) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name} has {count} numbers for {len(kinds)} edge types: "
        + ", ".join(map(type_name, kinds))
    )


def time_option(schema: Schema, node_attr: str | None, edge_attr: str | None) -> Times | None:
    """Return the times to draw by in one native call; None: there are none, or of both kinds.

    Raises:
        InvalidArgumentError: a name of node data that no node type has, or of edge data likewise.
    """
    node_attr = as_text(node_attr, "node_timestamp_attr_name")
    edge_attr = as_text(edge_attr, "edge_timestamp_attr_name")
    nodes = [schema.node_rows(name) for name in schema.node_types]
    edges = [schema.edge_rows(kind) for kind in schema.edge_types]
    for domain, name, groups in (("node", node_attr, nodes), ("edge", edge_attr, edges)):
        kept = (
            name is not None
            and domain == "edge"
            and any(
                topology_times(schema.edges(kind), "csc", name, schema.edge_attrs(kind))
                for kind in schema.edge_types
            )
        )
        if name is not None and not kept and not any(name in rows for rows in groups):
            known = ", ".join(sorted({repr(attr) for rows in groups for attr in rows})) or "none"
            raise InvalidArgumentError(
                f"{domain}_timestamp_attr_name = {name!r} is no {domain} attribute; there are: "
                f"{known}"
            )
    if node_attr is not None and edge_attr is not None:
        return None
    if node_attr is not None:
        return dgl_times(node_attr, of_nodes=True)
    return None if edge_attr is None else dgl_times(edge_attr, of_nodes=False)


def single_hop(
    schema: Schema,
    node: list[Ids],
    row: list[Ids],
    offsets: list[Ids],
    edge: list[Ids],
) -> Any:
    """Make the result of ``SamplingGraph.sample_neighbors``: sources uncompacted."""
    nodes = dict(zip(schema.node_types, node, strict=True))
    csc, ids = {}, {}
    for i, kind in enumerate(schema.edge_types):
        csc[kind] = _format(offsets[i], torch.from_numpy(nodes[kind[0]][row[i]]))
        ids[kind] = torch.from_numpy(schema.numbers[kind].shown(edge[i]))
    return gb.SampledSubgraphImpl(
        sampled_csc=_by_name(schema, csc), original_edge_ids=_by_name(schema, ids)
    )


def layer_subgraphs(schema: Schema, sample: native.NativeLayers) -> tuple[Any, list[Any]]:
    """Return the input nodes and the subgraphs of all layers, the input's first.

    Local ids count through the whole sample, so the nodes of each layer are a prefix of one tensor.
    Every type is in every dict, those without nodes too.
    """
    node = {
        name: torch.from_numpy(ids)
        for name, ids in zip(schema.node_types, sample.node, strict=True)
    }
    ends = {
        name: list(itertools.accumulate(counts))
        for name, counts in zip(schema.node_types, sample.hop_nodes, strict=True)
    }
    rows, edges = [], []
    for i, kind in enumerate(schema.edge_types):
        shown_ids = schema.numbers[kind].shown(sample.edge[i])
        counts = sample.hop_edges[i]
        rows.append(torch.split(torch.from_numpy(sample.row[i]), counts))
        edges.append(torch.split(torch.from_numpy(shown_ids), counts))
    layers: list[Any] = []
    columns = _nodes(schema, node, ends, 0)
    for hop in range(len(sample.hop_nodes[0]) - 1):
        csc, edge = {}, {}
        for i, kind in enumerate(schema.edge_types):
            csc[kind] = _format(sample.offsets[i][hop], rows[i][hop])
            edge[kind] = edges[i][hop]
        sources = _nodes(schema, node, ends, hop + 1)
        layers.append(
            SampledSubgraph(
                sampled_csc=_by_name(schema, csc),
                original_column_node_ids=columns,
                original_row_node_ids=sources,
                original_edge_ids=_by_name(schema, edge),
            ),
        )
        columns = sources
    return columns, layers[::-1]


def _format(offsets: Ids, indices: Tensor) -> Any:
    return gb.CSCFormatBase(indptr=torch.from_numpy(offsets), indices=indices)


def _by_name(schema: Schema, parts: Mapping[EdgeType, Any]) -> Any:
    if is_typed(schema):
        return {type_name(kind): parts[kind] for kind in schema.canonical_etypes}
    return next(iter(parts.values()))


def _nodes(
    schema: Schema, node: Mapping[str, Tensor], ends: Mapping[str, list[int]], hop: int
) -> Any:
    nodes = {name: node[name][: ends[name][hop]] for name in schema.ntypes}
    return nodes if is_typed(schema) else nodes[schema.ntypes[0]]
