"""Conversion of ``DGLGraph`` objects to graphs of ours, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

import dgl
from aethergraph._checks.options import as_flag, as_text
from aethergraph._torch.feature_columns import Column
from aethergraph.dgl._schema import EDGE, NODE, Schema
from aethergraph.dgl.storage import GraphStorage
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.protocols import AnyGraph
from aethergraph.remote import open_graph
from aethergraph.storage.choice import is_address

if TYPE_CHECKING:
    from aethergraph.graph.adjacency import Layout

__all__ = ["from_dgl", "to_dgl"]

#: Type names in files of :meth:`aethergraph.Graph.save`, whose graphs have no names.
_PLAIN = ("node", "to", "node")


def from_dgl(
    g: Any, *, layout: Layout = "csc", keep_order: bool = True, time_attr: str | None = None
) -> Graph | HeteroGraph:
    """Make a graph with the node and edge data of a ``DGLGraph``, ready for ``save``.

    Example::

        from_dgl(g).save("graph.aeg")
        graph = GraphStorage(Graph.load("graph.aeg"))

    A graph of the types ``_N`` and ``_E`` alone becomes a :class:`aethergraph.Graph`, any other one
    a :class:`aethergraph.HeteroGraph` with the same names. ``g.ndata["x"]`` is
    ``graph.node_attrs["x"]``; data of edges is put into the order of the graph's edge ids. With
    ``keep_order`` a :class:`GraphStorage` over the graph shows DGL's edge ids all the same.

    Edge data called ``edge_weight`` or ``edge_time`` and node data called ``node_time`` become the
    graph's own values where they can (a finite number at least 0 each; int64 or float64), and lists
    are sorted by the times. Lists have one order: of times of both kinds, ``time_attr`` names those
    to sort by, and the others stay attributes.

    Args:
        g: the graph, on any device; its data is copied as far as it has to be.
        layout: ``"both"`` to follow out-edges too.
        keep_order: keep DGL's edge ids, an integer per edge.
        time_attr: the name of node or edge data to sort lists by, so that one can sample in time.
            It keeps its name, and the graph's ``node_time`` or ``edge_time`` is the same values.
            None: data of one of these names.

    Raises:
        InvalidArgumentError: no graph of DGL's, a block, data of a dtype that cannot be stored, a
            ``time_attr`` that is not there, or none where nodes and edges both have times.
    """
    if not isinstance(g, dgl.DGLGraph) or g.is_block:
        noun = "a block" if isinstance(g, dgl.DGLGraph) else type(g).__name__
        raise InvalidArgumentError(f"from_dgl takes a DGLGraph, got {noun}")
    time_attr = as_text(time_attr, "time_attr")
    # A copy: listing edges needs a format that the graph may be restricted from.
    g = g.cpu().formats(["coo", "csr", "csc"])
    nodes = {name: {k: _rows(v) for k, v in g.nodes[name].data.items()} for name in g.ntypes}
    edges = {
        kind: {k: _rows(v) for k, v in g.edges[kind].data.items()} for kind in g.canonical_etypes
    }
    ends = {kind: tuple(end.numpy() for end in g.edges(etype=kind)) for kind in g.canonical_etypes}
    node_time, edge_time = _take_times(nodes, edges, time_attr)
    weight = {
        kind: rows.pop("edge_weight").numpy() for kind, rows in edges.items() if _is_weight(rows)
    }
    options: dict[str, Any] = {"layout": layout, "keep_order": keep_order}
    if g.ntypes == [NODE] and g.canonical_etypes == [EDGE]:
        graph = Graph.from_edges(
            g.num_nodes(), *ends[EDGE], edge_weight=weight.get(EDGE),
            edge_time=edge_time.get(EDGE), node_time=node_time.get(NODE),
            edge_attrs=edges[EDGE], **options,
        )  # fmt: skip
        graph.node_attrs.update(nodes[NODE])
        return graph
    typed = HeteroGraph.from_edges(
        ends, {name: g.num_nodes(name) for name in g.ntypes}, edge_weight=weight,
        edge_time=edge_time, node_time=node_time,
        edge_attrs=edges, **options,
    )  # fmt: skip
    for name in g.ntypes:
        typed[name].attrs.update(nodes[name])
    return typed


def _rows(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise InvalidArgumentError(f"data must be tensors, got {type(value).__name__}")
    return value.detach()


def _take_times(
    nodes: dict[Any, Any], edges: dict[Any, Any], name: str | None
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return the times to sort by, of nodes and of edges.

    Data that has the graph's own name for them is taken out, other data stays as well.
    """
    groups = {"node_time": nodes, "edge_time": edges}
    if name is None:
        time_names = [
            time_name
            for time_name, group in groups.items()
            if any(_is_time(r, time_name) for r in group.values())
        ]
        if len(time_names) == 2:
            raise InvalidArgumentError(
                "nodes have 'node_time' and edges have 'edge_time', and lists are sorted by one of "
                "them: name it, such as time_attr='edge_time'; the other stays plain data"
            )
    else:
        time_names = [
            time_name
            for time_name, group in groups.items()
            if any(name in r for r in group.values())
        ]
        _check_named(groups, name, time_names)
    times: dict[str, dict[Any, Any]] = {"node_time": {}, "edge_time": {}}
    for time_name in time_names:
        key = time_name if name is None else name
        times[time_name] = {
            kind: (rows.pop(key) if key == time_name else rows[key]).numpy()
            for kind, rows in groups[time_name].items()
            if _is_time(rows, key)
        }
    return times["node_time"], times["edge_time"]


def _check_named(groups: dict[str, dict[Any, Any]], name: str, time_names: list[str]) -> None:
    if not time_names:
        known = sorted(
            {key for group in groups.values() for rows in group.values() for key in rows}
        )
        names = ", ".join(map(repr, known)) or "none"
        raise InvalidArgumentError(
            f"time_attr = {name!r} is no data of nodes or edges; there are: {names}"
        )
    if len(time_names) == 2:
        raise InvalidArgumentError(
            f"time_attr = {name!r} is the name of node data and of edge data: rename one"
        )
    time_name = time_names[0]
    for rows in groups[time_name].values():
        if name not in rows:
            continue
        if not _is_time(rows, name):
            raise InvalidArgumentError(
                f"time_attr = {name!r} must be one int64 or float64 each, got shape "
                f"{tuple(rows[name].shape)} of {rows[name].dtype}"
            )
        if name != time_name and time_name in rows:
            raise InvalidArgumentError(
                f"time_attr = {name!r}: the graph's {time_name!r} would be these values, but that "
                "is the name of other data: rename it"
            )


def _is_time(rows: dict[str, Tensor], name: str) -> bool:
    values = rows.get(name)
    return (
        values is not None
        and values.ndim == 1
        and values.dtype in (torch.int64, torch.float64)
        and not bool(values.isnan().any())
    )


def _is_weight(rows: dict[str, Tensor]) -> bool:
    values = rows.get("edge_weight")
    return (
        values is not None
        and values.ndim == 1
        and values.dtype in (torch.float32, torch.float64)
        and bool((values.isfinite() & (values >= 0)).all())
    )


def to_dgl(
    source: AnyGraph | GraphStorage | str | os.PathLike[str],
    *,
    idtype: torch.dtype | None = None,
    data: bool = True,
) -> Any:
    """Make a ``DGLGraph`` of everything in a graph; all of it is read into memory.

    Edges are numbered as :class:`GraphStorage` numbers them: by rows of the input if the graph kept
    that order, so that ``to_dgl(from_dgl(g))`` is ``g`` again. Attributes and the graph's own
    values keep their names. A :class:`aethergraph.Graph` has the types ``_N`` and ``_E``.

    Args:
        source: a graph, a storage over one, or a graph file.
        idtype: ``torch.int64`` or ``torch.int32``; None: that of the storage, else int64.
        data: False leaves node and edge data out.

    Raises:
        InvalidArgumentError: something else, or ids that do not fit ``idtype``.
    """
    data = as_flag(data, "data")
    if isinstance(source, (str, os.PathLike)):
        source = _load(source)
    if isinstance(source, GraphStorage):
        schema, source_idtype = source.schema, source.idtype
    else:
        schema, source_idtype = Schema(source, None), torch.int64
    storage = GraphStorage(
        schema.graph,
        edge_ids="input" if schema.are_input else "graph",
        idtype=source_idtype if idtype is None else idtype,
    )
    ends = {kind: storage.edges(etype=kind) for kind in storage.canonical_etypes}
    g = dgl.heterograph(ends, {name: storage.num_nodes(name) for name in storage.ntypes})
    if not data:
        return g
    for name in storage.ntypes:
        for key, rows in schema.node_rows(name).items():
            g.nodes[name].data[key] = Column(rows, None).get(None)
    for kind in storage.canonical_etypes:
        ids = np.arange(schema.num_edges(kind))
        own_ids = schema.numbers[kind].own(ids, "edges")
        for key, rows in schema.edge_rows(kind).items():
            g.edges[kind].data[key] = Column(rows, None).gather(own_ids)
    return g


def _load(path: str | os.PathLike[str]) -> AnyGraph:
    if is_address(path):
        return open_graph(str(path))
    graph = HeteroGraph.load(path)
    if graph.edge_types == [_PLAIN] and graph.node_types == [_PLAIN[0]]:
        graph.close()
        return Graph.load(path)
    return graph
