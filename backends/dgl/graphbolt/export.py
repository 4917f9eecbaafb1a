"""Export of graphs of ours to folders of GraphBolt's on-disk datasets.

Source followed: ``impl/ondisk_dataset.py`` and ``impl/ondisk_metadata.py`` of ``dgl/graphbolt``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import yaml  # type: ignore[import-untyped]

from aethergraph._checks.options import as_text
from aethergraph._native import encode_path
from aethergraph.dgl._arguments import as_name_list
from aethergraph.dgl._schema import Schema
from aethergraph.dgl.graphbolt._forms import is_typed, type_name
from aethergraph.dgl.graphbolt.graph import SamplingGraph
from aethergraph.dgl.storage import GraphStorage
from aethergraph.errors import InvalidArgumentError, StorageError, UnsupportedError
from aethergraph.features.gathering import gather_rows
from aethergraph.protocols import AnyGraph
from aethergraph.storage.scratch import storage_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph.hetero import EdgeType
    from aethergraph.protocols import RowSource

__all__ = ["COPY", "FLAT", "save_ondisk_dataset"]

Ids: TypeAlias = "NDArray[np.int64]"

#: Field of ``metadata.yaml``: these rows were one number each, unlike GraphBolt's rows.
FLAT = "one_number_per_row"
#: Field: a copy for GraphBolt's sampling, of edges by their place in its lists; the features
#: have the rows by id.
COPY = "copy_for_sampling"
_CHUNK_ROWS = 1 << 16


def save_ondisk_dataset(
    source: AnyGraph | SamplingGraph,
    path: str | os.PathLike[str],
    *,
    name: str = "graph",
    node_attrs: list[str] | None = None,
    edge_attrs: list[str] | None = None,
) -> None:
    """Write a graph with its node data and edge data as a folder of ``gb.OnDiskDataset``.

    Example::

        save_ondisk_dataset(Graph.load("graph.aeg"), "folder")
        dataset = gb.OnDiskDataset("folder", include_original_edge_id=True).load()

    GraphBolt preprocesses the folder when it first opens it, for which it reads the whole graph
    into memory; :func:`load_ondisk_dataset` makes the same graph of it again. Edges are in the
    order of the ids that a :class:`SamplingGraph` gives, and so is edge data. All data is written
    as features, in numpy's format, a part at a time; rows of one number each become rows of shape
    ``(1,)``, as GraphBolt's features need it. There are no tasks: add them to ``metadata.yaml``.

    Data that GraphBolt samples by is written a second time, as attributes of its graph: then
    ``prob_name="edge_weight"`` and ``edge_timestamp_attr_name="edge_time"`` are there. GraphBolt
    takes row i of such a file for the edge at place i of its lists, not for edge i, so that is the
    order of these files; they are made in memory.

    Args:
        source: the graph.
        path: the folder, which is made; nothing in it is overwritten.
        name: ``dataset_name``.
        node_attrs: names of node data to sample by, which every type must have. None: the
            graph's own ``node_time``, where every type has it.
        edge_attrs: names of edge data to sample by, such as a mask, likewise. None: the graph's
            own ``edge_weight`` and ``edge_time``, where every type has them.

    Raises:
        InvalidArgumentError: no graph of ours, a folder with files in it, or data that a type does
            not have.
        UnsupportedError: data of a dtype that numpy's files do not have.
        StorageError: the folder cannot be written.
    """
    schema = source.schema if isinstance(source, SamplingGraph) else Schema(source, None)
    folder, name = Path(encode_path(path)[0]), str(as_text(name, "name") or "graph")
    _check_dtypes(schema)
    sampled_by = _sampled_by(schema, node_attrs, edge_attrs)
    try:
        _write_folder(folder, name, schema, *sampled_by)
    except StorageError:
        raise
    except OSError as error:
        raise storage_error(error, os.fspath(folder)) from error


def _write_folder(
    folder: Path, name: str, schema: Schema, nodes_by: list[str], edges_by: list[str]
) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidArgumentError(f"{folder} is there already: name a folder that is new or empty")
    folder.mkdir(parents=True, exist_ok=True)
    storage = GraphStorage(schema.graph, edge_ids="input" if schema.are_input else "graph")
    typed = is_typed(schema)
    nodes: list[Any] = []
    edges: list[Any] = []
    features: list[Any] = []
    targets: dict[EdgeType, Ids] = {}
    for at, ntype in enumerate(schema.ntypes):
        fields = {"type": ntype} if typed else {}
        nodes.append({**fields, "num": schema.num_nodes(ntype)})
        for key, rows in schema.node_rows(ntype).items():
            entry, stem = {"domain": "node", **fields, "name": key}, f"node-{at}-{len(features)}"
            features.append(_write_rows(folder, stem, entry, rows, lambda ids: ids))
    for at, kind in enumerate(schema.canonical_etypes):
        fields = {"type": type_name(kind)} if typed else {}
        ends = np.stack([end.numpy() for end in storage.edges(etype=kind)])
        edges.append({**fields, "format": "numpy", "path": f"edges-{at}.npy"})
        np.save(folder / f"edges-{at}.npy", ends)
        if edges_by:
            targets[kind] = ends[1]
        for key, rows in schema.edge_rows(kind).items():
            entry, stem = {"domain": "edge", **fields, "name": key}, f"edge-{at}-{len(features)}"
            own_ids = partial(schema.numbers[kind].own, name="ids")
            features.append(_write_rows(folder, stem, entry, rows, own_ids))
    sampled = _write_node_values(folder, schema, nodes_by)
    if edges_by:
        sampled += _write_edge_values(folder, schema, edges_by, targets)
    described = {
        "dataset_name": name,
        "graph": {"nodes": nodes, "edges": edges, "feature_data": sampled},
        "feature_data": features,
        "tasks": [],
    }
    (folder / "metadata.yaml").write_text(yaml.safe_dump(described, sort_keys=False))


def _check_dtypes(schema: Schema) -> None:
    groups = [(ntype, schema.node_rows(ntype)) for ntype in schema.ntypes]
    groups += [(type_name(kind), schema.edge_rows(kind)) for kind in schema.canonical_etypes]
    for of, stores in groups:
        for key, rows in stores.items():
            if rows.dtype_name == "bfloat16":
                raise UnsupportedError(
                    f"{key!r} of {of!r} is bfloat16, which numpy's files do not have: "
                    "store it as float32"
                )


def _sampled_by(
    schema: Schema, node_attrs: list[str] | None, edge_attrs: list[str] | None
) -> tuple[list[str], list[str]]:
    """Return the checked names of node data and edge data that GraphBolt is to sample by."""
    nodes: dict[Any, Any] = {ntype: schema.node_rows(ntype) for ntype in schema.ntypes}
    edges: dict[Any, Any] = {kind: schema.edge_rows(kind) for kind in schema.canonical_etypes}
    if node_attrs is None:
        node_attrs = _of_all(nodes, ["node_time"])
    else:
        node_attrs = as_name_list(node_attrs, "node_attrs")
    if edge_attrs is None:
        edge_attrs = _of_all(edges, ["edge_weight", "edge_time"])
    else:
        edge_attrs = as_name_list(edge_attrs, "edge_attrs")
    for names, groups in ((node_attrs, nodes), (edge_attrs, edges)):
        for name in names:
            for of, rows in groups.items():
                if name not in rows:
                    known = ", ".join(map(repr, rows)) or "none"
                    raise InvalidArgumentError(f"{name!r} is no data of {of!r}; there are: {known}")
    return node_attrs, edge_attrs


def _of_all(groups: dict[Any, Any], names: list[str]) -> list[str]:
    return [name for name in names if all(name in rows for rows in groups.values())]


def _write_node_values(folder: Path, schema: Schema, names: list[str]) -> list[Any]:
    written: list[Any] = []
    for name in names:
        for at, ntype in enumerate(schema.ntypes):
            rows = schema.node_rows(ntype)[name]
            path = f"sampled-node-{at}-{len(written)}.npy"
            np.save(folder / path, gather_rows(rows, np.arange(rows.num_rows)))
            fields = {"type": ntype} if is_typed(schema) else {}
            written.append(_describe_copy("node", fields, name, path))
    return written


def _describe_copy(domain: str, fields: dict[str, str], name: str, path: str) -> dict[str, Any]:
    return {"domain": domain, **fields, "name": name, "format": "numpy", "path": path, COPY: True}


def _write_edge_values(
    folder: Path, schema: Schema, names: list[str], targets: dict[EdgeType, Ids]
) -> list[Any]:
    """Write values of edges by their place in the lists that GraphBolt makes of all edge types.

    GraphBolt concatenates the files of all types in the order of their names; so each
    has a share of the places, whatever the types of the edges there are.
    """
    starts = np.cumsum([0, *(schema.num_nodes(ntype) for ntype in schema.ntypes)])
    first = dict(zip(schema.ntypes, starts.tolist(), strict=False))
    kinds = sorted(schema.canonical_etypes, key=type_name)
    places = np.argsort(
        np.concatenate([targets[kind] + first[kind[2]] for kind in kinds]), kind="stable"
    )
    ends = np.cumsum([schema.num_edges(kind) for kind in kinds])[:-1]
    written: list[Any] = []
    for name in names:
        values = [
            gather_rows(
                schema.edge_rows(kind)[name],
                schema.numbers[kind].own(np.arange(schema.num_edges(kind)), "ids"),
            )
            for kind in kinds
        ]
        shares = np.split(np.concatenate(values)[places], ends)
        for at, (kind, share) in enumerate(zip(kinds, shares, strict=True)):
            path = f"sampled-edge-{at}-{len(written)}.npy"
            np.save(folder / path, share)
            fields = {"type": type_name(kind)} if is_typed(schema) else {}
            written.append(_describe_copy("edge", fields, name, path))
    return written


def _write_rows(
    folder: Path,
    stem: str,
    entry: dict[str, Any],
    rows: RowSource,
    own_ids: Callable[[Ids], Ids],
) -> dict[str, Any]:
    """Write the rows of the ids that users see, in their order."""
    flat = rows.ndim == 1
    shape = (rows.num_rows, 1) if flat else rows.shape
    path = folder / f"{stem}.npy"
    if rows.num_rows:
        table = np.lib.format.open_memmap(path, "w+", rows.array_dtype, shape)
        for low in range(0, rows.num_rows, _CHUNK_ROWS):
            high = min(low + _CHUNK_ROWS, rows.num_rows)
            chunk = gather_rows(rows, own_ids(np.arange(low, high)))
            table[low:high] = chunk.reshape(-1, *shape[1:])
        table.flush()
    else:
        np.save(path, np.empty(shape, rows.array_dtype))
    # Data of one number each is read: data to sample by must be in memory in any case.
    written = {**entry, "format": "numpy", "path": path.name, "in_memory": flat}
    return {**written, FLAT: True} if flat else written
