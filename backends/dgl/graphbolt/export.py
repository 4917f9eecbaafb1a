"""Graphs of ours as folders of GraphBolt's on-disk datasets.

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

from aethergraph.dgl._schema import Schema
from aethergraph.dgl.graphbolt._parts import is_typed, type_name
from aethergraph.dgl.graphbolt.graph import SamplingGraph
from aethergraph.dgl.storage import GraphStorage
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph import Graph
from aethergraph.hetero import HeteroGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.features import FeatureStore

__all__ = ["FLAT", "save_ondisk_dataset"]

Ids: TypeAlias = "NDArray[np.int64]"

#: A field of ``metadata.yaml``: these rows were one number each, which GraphBolt's are not.
FLAT = "one_number_per_row"
_CHUNK_ROWS = 1 << 16


def save_ondisk_dataset(
    source: Graph | HeteroGraph | SamplingGraph,
    path: str | os.PathLike[str],
    *,
    name: str = "graph",
) -> None:
    """Write a graph with its node data and edge data as a folder of ``gb.OnDiskDataset``::

        save_ondisk_dataset(Graph.load("graph.bin"), "folder")
        dataset = gb.OnDiskDataset("folder", include_original_edge_id=True).load()

    GraphBolt preprocesses the folder when it opens it first, for which it reads the whole graph
    into memory; :func:`load_ondisk_dataset` makes the same graph of it again. Edges are in the
    order of the ids that a :class:`SamplingGraph` gives, and so is edge data. All data is written
    as features, in numpy's format, a part at a time; rows of one number each become rows of shape
    ``(1,)``, as GraphBolt's features need it. There are no tasks: add them to ``metadata.yaml``.

    Args:
        source: the graph.
        path: the folder, which is made; nothing in it is overwritten.
        name: ``dataset_name``.

    Raises:
        InvalidArgumentError: no graph of ours, or a folder with files in it.
        UnsupportedError: data of a dtype that numpy's files do not have.
    """
    schema = source.schema if isinstance(source, SamplingGraph) else Schema(source, None)
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidArgumentError(f"{folder} is there already: name a folder that is new or empty")
    _check_dtypes(schema)
    folder.mkdir(parents=True, exist_ok=True)
    storage = GraphStorage(schema.graph, edge_ids="input" if schema.are_input else "graph")
    typed = is_typed(schema)
    nodes: list[Any] = []
    edges: list[Any] = []
    features: list[Any] = []
    for at, ntype in enumerate(schema.ntypes):
        own = {"type": ntype} if typed else {}
        nodes.append({**own, "num": schema.num_nodes(ntype)})
        for key, rows in schema.node_rows(ntype).items():
            entry, stem = {"domain": "node", **own, "name": key}, f"node-{at}-{len(features)}"
            features.append(_write_rows(folder, stem, entry, rows, lambda ids: ids))
    for at, kind in enumerate(schema.canonical_etypes):
        own = {"type": type_name(kind)} if typed else {}
        ends = np.stack([end.numpy() for end in storage.edges(etype=kind)])
        edges.append({**own, "format": "numpy", "path": f"edges-{at}.npy"})
        np.save(folder / f"edges-{at}.npy", ends)
        for key, rows in schema.edge_rows(kind).items():
            entry, stem = {"domain": "edge", **own, "name": key}, f"edge-{at}-{len(features)}"
            own_ids = partial(schema.numbers[kind].own, name="ids")
            features.append(_write_rows(folder, stem, entry, rows, own_ids))
    described = {
        "dataset_name": name,
        "graph": {"nodes": nodes, "edges": edges},
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


def _write_rows(
    folder: Path,
    stem: str,
    entry: dict[str, Any],
    rows: FeatureStore,
    own: Callable[[Ids], Ids],
) -> dict[str, Any]:
    """Write the rows of the ids that users see, in their order."""
    flat = rows.ndim == 1
    shape = (rows.num_rows, 1) if flat else rows.shape
    path = folder / f"{stem}.npy"
    if rows.num_rows:
        table = np.lib.format.open_memmap(path, "w+", rows.dtype, shape)
        for low in range(0, rows.num_rows, _CHUNK_ROWS):
            high = min(low + _CHUNK_ROWS, rows.num_rows)
            table[low:high] = rows.gather(own(np.arange(low, high))).reshape(-1, *shape[1:])
        table.flush()
    else:
        np.save(path, np.empty(shape, rows.dtype))
    # One number each is read: what sampling goes by is in memory in any case.
    written = {**entry, "format": "numpy", "path": path.name, "in_memory": flat}
    return {**written, FLAT: True} if flat else written
