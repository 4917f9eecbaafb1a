"""Rows in files, by name, as ``aethergraph serve`` has them."""

from __future__ import annotations

import os
from pathlib import Path

from aethergraph import _native as native
from aethergraph._checks.options import as_choice, as_flag, as_text
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.features.live import LiveFeatureTable, Missing
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.protocols import RowSource
from aethergraph.remote.graph_tables import GraphTypes, graph_tables
from aethergraph.remote.row_files import open_rows
from aethergraph.storage.live_directory import is_live_directory
from aethergraph.storage.npy import is_npy
from aethergraph.storage.opening import open_container

__all__ = ["is_graph", "open_tables"]


def is_graph(path: native.Path) -> bool:
    """Return whether there is a graph file or a live graph at a path, and not rows alone."""
    if is_live_directory(path):
        return True
    if LiveFeatureTable.is_table(path) or is_npy(native.NativeFile(path, raw=True)):
        return False
    return open_container(path).content == native.CONTENT_GRAPH


def open_tables(
    path: native.Path, name: str | None = None, *, lists: bool = False, writable: bool = False,
    missing: Missing = "error",
) -> dict[str, RowSource]:  # fmt: skip
    """Open the tables of rows in a file, mapped.

    A feature file has one, which is called like it without its ending. A graph file has its
    attributes: ``x``, of edges ``edges/x``; of a typed graph ``user/x`` and
    ``user-rates-film/x``.

    Args:
        path: a feature file, ``.npy`` or native, the file of a live table, or a graph file.
        name: another name for the table of a feature file; a word before those of a graph.
        writable: open live tables for writing, too, as network cards ask for, if that is allowed.
        lists: of a graph, the lists, weights and times, too (remote/graph_tables.py).
        missing: what rows of a live table are that nobody has written: ``"error"``, ``"zero"``, or
            ``"nan"``.

    Raises:
        MissingFileError, StorageError, FormatError: the file cannot be opened, or has no rows.
        InvalidArgumentError: a graph without attributes; or types whose names, joined, are those
            of other tables.
        UnsupportedError: a live graph.
    """
    lists, name = as_flag(lists, "lists"), as_text(name, "name")
    writable = as_flag(writable, "writable")
    as_choice(missing, native.MISSING, "missing")
    if is_live_directory(path):
        raise UnsupportedError(
            f"{os.fsdecode(path)} is a live graph, whose tables change: "
            "FeatureServer({}, graphs={'g': path}) serves its commits; or serve samples of it, by "
            "--sample plan.toml"
        )
    is_array = LiveFeatureTable.is_table(path) or is_npy(native.NativeFile(path, raw=True))
    if is_array or open_container(path).content != native.CONTENT_GRAPH:
        return {name or Path(os.fsdecode(path)).stem: open_rows(path, writable, missing)}
    graph = HeteroGraph.load(path)
    types = GraphTypes.of(graph)
    tables = graph_tables(graph, graph.fingerprint) if lists else {}
    attrs = [(graph[kind].attrs, names) for kind, names in types.node_attrs.items()]
    attrs += [(graph[kind].attrs, names) for kind, names in types.edge_attrs.items()]
    for rows, names in attrs:
        for attr, table in names.items():
            if table in tables:
                raise InvalidArgumentError(
                    f"{os.fsdecode(path)}: two tables are called {table!r}, as the names of types "
                    "are joined: rename a type or an attribute"
                )
            tables[table] = rows[attr]
    if not tables:
        raise InvalidArgumentError(
            f"{os.fsdecode(path)} is a graph without attributes to serve; its lists are served if "
            "you say so: --graph (open_tables(lists=True))"
        )
    return {f"{name}/{key}": rows for key, rows in tables.items()} if name else tables
