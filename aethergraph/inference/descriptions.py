"""What decides an output of embed, in words: so work that goes on is work of the same."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aethergraph.convert.inputs import input_state
from aethergraph.graph.schema import NODE, as_typed
from aethergraph.inference.batches import rows_by_type
from aethergraph.inference.fingerprints import describe_function, name_of
from aethergraph.loading.columns import Column
from aethergraph.loading.state import describe, describe_commit, describe_graph
from aethergraph.protocols import AnyGraph, HeterogeneousGraph, RowSource
from aethergraph.sampling.keys import hash_ids, mix_key

if TYPE_CHECKING:
    from aethergraph.inference.job import Layer, Options

__all__ = ["describe_command", "describe_kept"]

_VERSION = 1
_COMPARED = 1 << 16  # rows in memory that are hashed at a time


def describe_command(
    layers: Sequence[Layer], graph: AnyGraph, at: AnyGraph,
    rows: RowSource | Mapping[str, RowSource], options: Options, edge_columns: Sequence[Column],
) -> dict[str, Any]:  # fmt: skip
    """Return what decides the output, for work that is to go on.

    Args:
        layers: the layers.
        graph: the graph that was given.
        at: that graph at its moment.
        rows: what the first layer reads, of a typed graph by node type.
        options: checked options.
        edge_columns: attributes of edges that batches carry.
    """
    rows, typed = rows_by_type(rows), as_typed(at)
    paths = (graph.path, *(of_type.path for of_type in rows.values()))
    files = [path for path in paths if path and os.path.isfile(path)]
    lists = describe_graph(graph, describe_commit(graph, at) if graph.is_live else None)
    if not graph.is_live and graph.native_snapshot is not None:  # a snapshot of one that is
        snapshot: Any = at
        lists["commit"] = str(snapshot.lsn or snapshot.commit)
    of_commit = at.native_snapshot is not None  # whose number tells what its lists and rows are
    if not of_commit and at.path is None and getattr(at, "storage", "") == "memory":
        lists["all lists"] = _hash_all_lists(typed)

    def describe_features(node_type: str, of_type: RowSource) -> str:
        attrs = typed[node_type].node_attrs.values()
        return _describe_rows(of_type, not (of_commit and any(of_type is attr for attr in attrs)))

    features = {name: describe_features(name, of_type) for name, of_type in rows.items()}
    return {
        "version": _VERSION, "inputs": [input_state(path) for path in dict.fromkeys(files)],
        "graph": lists,
        "features": features if graph.is_typed else features[NODE],
        "layers": [
            {
                "name": name_of(layer),
                "fingerprint": str(getattr(layer, "fingerprint", None) or describe_function(layer)),
            }
            for layer in layers
        ],
        "num_neighbors": [
            {str(kind): number for kind, number in fanout.items()}
            if isinstance(fanout, Mapping) else fanout
            for fanout in options.fanouts
        ],
        "seed": options.seed, "dtype": str(options.dtype),
        "until": None if options.until is None else str(options.until.time),
        "time_attr": None if options.until is None else options.until.time_attr,
        "edge_attrs": {
            _name_of_column(column, graph): _describe_rows(column.rows, not of_commit)
            for column in edge_columns
        },
    }  # fmt: skip


def describe_kept(
    command: dict[str, Any], graph: AnyGraph, at: Any, rows: Mapping[str, RowSource],
    edge_columns: Sequence[Column],
) -> dict[str, Any]:  # fmt: skip
    """Return what decides the output but for the commit of the graph and the rows of features.

    Args:
        command: what :func:`describe_command` returned for the rest.
        graph: the graph that was given.
        at: that graph at its moment.
        rows: what the first layer reads, by node type.
        edge_columns: attributes of edges that batches carry.
    """
    features = {
        name: f"{of_type.dtype_name}{list(of_type.row_shape)}" for name, of_type in rows.items()
    }
    paths = {of_type.path for of_type in rows.values()} - {graph.path}
    kept = {
        **command, "features": features if graph.is_typed else features[NODE],
        "inputs": [state for state in command["inputs"] if state["path"] not in paths],
    }  # fmt: skip
    if at.native_snapshot is not None:
        store = at.native_snapshot.store
        kept["graph"] = {"live": store.uuid or store.memory_name}
        kept["edge_attrs"] = {  # which an edge has from the beginning to its end
            _name_of_column(column, graph): f"{column.rows.dtype_name}{list(column.rows.row_shape)}"
            for column in edge_columns
        }
    return kept


def _name_of_column(column: Column, graph: AnyGraph) -> str:
    return f"{column.name} of {column.kind}" if graph.is_typed else column.name


def _hash_all_lists(graph: HeterogeneousGraph) -> str:
    """Return a hash of all lists of in-edges."""
    key = 0
    for edges in (graph[kind] for kind in graph.edge_types):
        topology = edges.topology("csc")
        for start in range(0, edges.num_dst, _COMPARED):
            nodes = np.arange(start, min(start + _COMPARED, edges.num_dst))
            key = mix_key(
                key, hash_ids(edges.in_degrees(nodes)), hash_ids(topology.neighbors(nodes)[0])
            )
    return f"{key:016x}"


def _describe_rows(rows: RowSource, is_all: bool) -> str:
    """Return shape, dtype, and a hash: with ``is_all`` of all rows in memory, else of some."""
    key, count = 0, rows.num_rows
    if is_all and rows.is_in_memory and rows.path is None:
        for start in range(0, count, _COMPARED):
            key = mix_key(key, *describe(rows.read(start, min(start + _COMPARED, count))).encode())
    else:
        some = np.unique(np.linspace(0, max(count - 1, 0), min(count, 64)).astype(np.int64))
        key = mix_key(*describe(rows.gather(some)).encode())
    return f"{rows.dtype_name}{list(rows.shape)} of hash {key:016x}"
