"""Conversion of GraphBolt's on-disk datasets and in-memory graphs to ours, and back.

Sources followed: ``impl/ondisk_dataset.py``, ``impl/fused_csc_sampling_graph.py`` and
``internal/utils.py`` of ``dgl/graphbolt``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

import dgl.graphbolt as gb
from aethergraph._checks.options import as_text
from aethergraph._native import encode_path
from aethergraph._torch.feature_columns import Column
from aethergraph._torch.torch_files import read_tensor
from aethergraph.convert.formats.untrusted import (
    check_ends,
    check_memory,
    naming,
    read_npy,
    read_table,
)
from aethergraph.convert.readers.base import InputError
from aethergraph.dgl._arguments import as_name_list
from aethergraph.dgl._schema import Schema
from aethergraph.dgl.graphbolt._forms import is_typed, type_name
from aethergraph.dgl.graphbolt._metadata import Entry, read_metadata
from aethergraph.dgl.graphbolt.graph import SamplingGraph
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.protocols import AnyGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph.adjacency import Layout
    from aethergraph.graph.hetero import EdgeType
    from aethergraph.protocols import RowSource

__all__ = ["from_fused_csc", "load_ondisk_dataset", "to_fused_csc"]

Ids: TypeAlias = "NDArray[np.int64]"


def load_ondisk_dataset(
    path: str | os.PathLike[str], *, layout: Layout = "csc", time_attr: str | None = None
) -> Graph | HeteroGraph:
    """Return the graph of a folder of ``gb.OnDiskDataset``, with all its node and edge data.

    Reads ``metadata.yaml`` and the edge lists (csv or numpy) that it names, not what GraphBolt has
    preprocessed. Node data of ``in_memory: false`` in numpy's format stays in its file; everything
    else is read. Edge data, of both ``feature_data`` sections, is by row of the edge list and stays
    with its edge (GraphBolt leaves what is for sampling in the order of the list). The graph keeps
    the order of its edge lists, so edge ids are GraphBolt's original ones. Tasks are
    ``gb.OnDiskDataset``'s to read.

    Args:
        path: the folder.
        layout: ``"both"`` to follow out-edges too.
        time_attr: the name of node data or edge data to sort lists by, to sample in time.

    Raises:
        InvalidArgumentError: no ``metadata.yaml``, or an entry in it that cannot be: without a
            field that it needs, of a type or domain that the graph does not have, or with the name
            that other rows have. Names the entry, the value and what to do.
        InputError: a path that leads out of the folder, by a symbolic link too, or a file that is
            damaged, too short or too long, or of the wrong shape.
        OutOfMemoryError: a file promises more than the free memory.
        MissingFileError: a file that an entry names.
        AetherError: anything else that is wrong; names the file.
    """
    time_attr = as_text(time_attr, "time_attr")
    folder = Path(encode_path(path)[0])
    metadata = read_metadata(folder)
    counts = metadata.counts
    total = sum(counts.values())
    check_memory(folder / "metadata.yaml", 8 * total, f"a graph of {total} nodes")
    edges, rows_of = {}, {}
    for kind, entry in metadata.edges.items():
        ends = (None, None) if kind is None else (kind.split(":")[0], kind.split(":")[2])
        edges[kind] = _read_edges(entry, counts[ends[0]], counts[ends[1]])
        rows_of[kind] = len(edges[kind][0])
    node_rows: dict[str | None, dict[str, Any]] = {}
    edge_rows: dict[str | None, dict[str, Any]] = {}
    for (kind, name), entry in metadata.node_rows.items():
        mapped = not entry.in_memory and name != time_attr
        node_rows.setdefault(kind, {})[name] = _read_rows(entry, counts[kind], mapped)
    for (kind, name), entry in metadata.edge_rows.items():
        edge_rows.setdefault(kind, {})[name] = _read_rows(entry, rows_of[kind], False)
    with naming(folder):
        return _build(counts, edges, node_rows, edge_rows, layout, time_attr)


def from_fused_csc(graph: Any, *, time_attr: str | None = None) -> Graph | HeteroGraph:
    """Return a graph of ours with the edges and attributes of a ``gb.FusedCSCSamplingGraph``.

    If the graph has GraphBolt's original edge ids, they become the order of edges; otherwise edges
    are numbered by place in the lists, as GraphBolt does without them.

    Args:
        graph: the graph; everything is copied.
        time_attr: the name of node or edge attributes to sort lists by, to sample in time.

    Raises:
        InvalidArgumentError: something else.
    """
    time_attr = as_text(time_attr, "time_attr")
    if not isinstance(graph, gb.FusedCSCSamplingGraph):
        raise InvalidArgumentError(
            f"from_fused_csc takes a FusedCSCSamplingGraph, got {type(graph).__name__}"
        )
    indptr, src = graph.csc_indptr.long(), graph.indices.long()
    dst = torch.arange(len(indptr) - 1).repeat_interleave(indptr.diff())
    edge_data = dict(graph.edge_attributes or {})
    order = edge_data.pop(gb.ORIGINAL_EDGE_ID, None)
    if graph.node_type_to_id is None:
        keep = None if order is None else order.long().argsort()
        counts: dict[str | None, int] = {None: len(indptr) - 1}
        edges: dict[str | None, tuple[Ids, Ids]] = {
            None: (_pick(src, keep).numpy(), _pick(dst, keep).numpy())
        }
        node_rows: dict[str | None, dict[str, Any]] = {None: dict(graph.node_attributes or {})}
        edge_rows: dict[str | None, dict[str, Any]] = {
            None: {name: _pick(rows, keep) for name, rows in edge_data.items()}
        }
        return _build(counts, edges, node_rows, edge_rows, "csc", time_attr)
    offset = {name: int(graph.node_type_offset[i]) for name, i in graph.node_type_to_id.items()}
    counts = dict(graph.num_nodes)
    node_rows = {
        name: {
            key: rows[offset[name] : offset[name] + counts[name]]
            for key, rows in (graph.node_attributes or {}).items()
        }
        for name in counts
    }
    edges, edge_rows = {}, {}
    for name, number in graph.edge_type_to_id.items():
        places = (graph.type_per_edge == number).nonzero().view(-1)
        if order is not None:
            places = places[order[places].long().argsort()]
        source, _, target = name.split(":")
        edges[name] = (
            (src[places] - offset[source]).numpy(),
            (dst[places] - offset[target]).numpy(),
        )
        edge_rows[name] = {key: rows[places] for key, rows in edge_data.items()}
    return _build(counts, edges, node_rows, edge_rows, "csc", time_attr)


def to_fused_csc(
    source: AnyGraph | SamplingGraph,
    *,
    node_attrs: list[str] | None = None,
    edge_attrs: list[str] | None = None,
) -> Any:
    """Return a ``gb.FusedCSCSamplingGraph`` of a graph; all of it is read into memory.

    ``torch.save`` writes it as the ``fused_csc_sampling_graph.pt`` of a preprocessed dataset. It
    has original edge ids, those that :class:`SamplingGraph` gives.

    Args:
        source: a graph.
        node_attrs: names of node data to include for sampling, which every type must have; None:
            none. Features are for a feature store.
        edge_attrs: names of edge data to include, likewise.

    Raises:
        InvalidArgumentError: something else, or data that a type does not have.
    """
    schema = source.schema if isinstance(source, SamplingGraph) else Schema(source, None)
    node_attrs = as_name_list(node_attrs, "node_attrs")
    edge_attrs = as_name_list(edge_attrs, "edge_attrs")
    starts = np.cumsum([0, *(schema.num_nodes(name) for name in schema.ntypes)])
    offset = {name: int(start) for name, start in zip(schema.ntypes, starts, strict=False)}
    src, dst, kinds, shown_ids = [], [], [], []
    for number, kind in enumerate(schema.canonical_etypes):
        ends = _ends(schema, kind)
        src.append(ends[0] + offset[kind[0]])
        dst.append(ends[1] + offset[kind[2]])
        kinds.append(np.full(len(ends[0]), number))
        shown_ids.append(schema.numbers[kind].shown(np.arange(len(ends[0]))))
    order = np.argsort(np.concatenate(dst), kind="stable")
    indptr = np.zeros(int(starts[-1]) + 1, np.int64)
    np.cumsum(np.bincount(np.concatenate(dst), minlength=len(indptr) - 1), out=indptr[1:])
    places = torch.from_numpy(order)
    edge_data = {gb.ORIGINAL_EDGE_ID: torch.from_numpy(np.concatenate(shown_ids)[order])}
    for name in edge_attrs:
        parts = [_named(schema.edge_rows(kind), name, kind) for kind in schema.canonical_etypes]
        edge_data[name] = torch.cat(parts)[places]
    node_data = {
        name: torch.cat([_named(schema.node_rows(ntype), name, ntype) for ntype in schema.ntypes])
        for name in node_attrs
    }
    typed = is_typed(schema)
    names = {name: i for i, name in enumerate(schema.ntypes)}
    relations = {type_name(kind): i for i, kind in enumerate(schema.canonical_etypes)}
    return gb.fused_csc_sampling_graph(
        torch.from_numpy(indptr),
        torch.from_numpy(np.concatenate(src)[order]),
        node_type_offset=torch.from_numpy(starts) if typed else None,
        type_per_edge=torch.from_numpy(np.concatenate(kinds)[order]) if typed else None,
        node_type_to_id=names if typed else None,
        edge_type_to_id=relations if typed else None,
        node_attributes=node_data or None,
        edge_attributes=edge_data,
    )


def _ends(schema: Schema, kind: EdgeType) -> tuple[Ids, Ids]:
    """Return sources and destinations of all edges in order of the graph's own ids."""
    edges = schema.edges(kind)
    indptr, indices = (edges.csr()[:2]) if edges.layout == "csr" else edges.csc()
    bounds = indptr.astype(np.int64)
    counts = bounds[1:] - bounds[:-1]
    major = np.repeat(np.arange(len(counts)), counts)
    minor = indices[:].astype(np.int64)
    return (major, minor) if edges.layout == "csr" else (minor, major)


def _named(rows: Mapping[str, RowSource], name: str, of: Any) -> Tensor:
    if name not in rows:
        known = ", ".join(map(repr, rows)) or "none"
        raise InvalidArgumentError(f"{name!r} is no data of {of!r}; there are: {known}")
    tensor: Tensor = Column(rows[name], None).get(None)
    return tensor


def _pick(rows: Tensor, places: Tensor | None) -> Tensor:
    return rows if places is None else rows[places]


def _read_edges(entry: Entry, num_src: int, num_dst: int) -> tuple[Ids, Ids]:
    is_numpy = entry.choose("format", ("csv", "numpy")) == "numpy"
    path = entry.path()
    limits = num_src, num_dst
    if not is_numpy:
        if path.stat().st_size == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        pairs = read_table(path, limits=limits)
        return pairs[:, 0], pairs[:, 1]
    pairs = read_npy(path)
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(
            path, f"has edges of shape {pairs.shape} and dtype {pairs.dtype}, not integers [2, E]"
        )
    check_ends((pairs[0], pairs[1]), limits, path)
    return pairs[0].astype(np.int64), pairs[1].astype(np.int64)


def _read_rows(entry: Entry, count: int, mapped: bool) -> Any:
    is_numpy = entry.choose("format", ("numpy", "torch")) == "numpy"
    path = entry.path()
    if not is_numpy:
        rows: Any = read_tensor(path)
    else:
        rows = FeatureTable.load(path) if mapped and not entry.flat else read_npy(path)
    if entry.flat:
        rows = rows.reshape(-1)
    if rows.ndim == 0 or rows.shape[0] != count:
        raise InputError(
            path, f"has shape {list(rows.shape)}, but {entry.where} needs {count} rows"
        )
    return rows


def _build(
    counts: Mapping[str | None, int],
    edges: Mapping[str | None, tuple[Ids, Ids]],
    node_rows: Mapping[str | None, Mapping[str, Any]],
    edge_rows: Mapping[str | None, Mapping[str, Any]],
    layout: Layout,
    time_attr: str | None,
) -> Graph | HeteroGraph:
    nodes = {name: dict(node_rows.get(name, {})) for name in counts}
    attrs = {name: dict(edge_rows.get(name, {})) for name in edges}
    node_time = _take_times(nodes, time_attr, "node_time")
    edge_time = {} if node_time else _take_times(attrs, time_attr, "edge_time")
    if time_attr is not None and not node_time and not edge_time:
        raise InvalidArgumentError(f"time_attr = {time_attr!r} is no data of nodes or edges")
    if list(edges) == [None]:
        graph = Graph.from_edges(
            counts[None], *edges[None], layout=layout, keep_order=True,
            node_time=node_time.get(None), edge_time=edge_time.get(None), edge_attrs=attrs[None],
        )  # fmt: skip
        graph.node_attrs.update(nodes[None])
        return graph

    def by_kind(groups: Mapping[str | None, Any]) -> dict[Any, Any]:
        return {_kind(name): values for name, values in groups.items()}

    typed = HeteroGraph.from_edges(
        by_kind(edges), {str(name): count for name, count in counts.items()}, layout=layout,
        keep_order=True, node_time={str(name): times for name, times in node_time.items()},
        edge_time=by_kind(edge_time), edge_attrs=by_kind(attrs),
    )  # fmt: skip
    for name, rows in nodes.items():
        typed[str(name)].attrs.update(rows)
    return typed


def _take_times(
    groups: Mapping[str | None, dict[str, Any]], name: str | None, time_name: str
) -> dict[str | None, Any]:
    """Return the times to sort by; data of the graph's own name for them is taken out."""
    times = {kind: rows[name] for kind, rows in groups.items() if name in rows}
    if name == time_name:
        for kind in times:
            groups[kind].pop(time_name)
    return times


def _kind(name: str | None) -> tuple[str, ...]:
    parts = tuple(str(name).split(":"))
    if len(parts) != 3:
        raise InvalidArgumentError(
            f"edge type {name!r} is not of the form 'source:relation:target'"
        )
    return parts
