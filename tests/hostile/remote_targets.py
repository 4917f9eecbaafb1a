"""What :mod:`aethergraph.remote` has for the attack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from target import Target, then

import aethergraph as ag
from aethergraph.remote import FeatureServer, open_graph, open_source, open_tables
from aethergraph.remote.graph_tables import graph_tables

__all__ = ["remote_targets"]

_servers: dict[str, FeatureServer] = {}


def _address(folder: Path, name: str = "x") -> str:
    """Return the address of a server of the folder's rows, which all targets share."""
    key = str(folder)
    if key not in _servers:
        tables = graph_tables(ag.Graph.load(folder / "graph.aether"))
        tables["x"] = ag.FeatureTable.load(folder / "x.npy")
        _servers[key] = FeatureServer(tables, port=0).start()
    return f"{_servers[key].address}/{name}?timeout=0.1"


def remote_targets() -> Iterator[Target]:
    """Targets that need no framework."""
    yield Target(
        "FeatureServer",
        lambda f: (
            then(FeatureServer, lambda server: server.close()),
            {"sources": ag.FeatureTable.load(f / "x.npy"), "port": 0},
        ),
    )
    yield Target("FeatureServer.wait", lambda f: (_closed(f).wait, {"timeout": 0.01}))
    given = {"name": "g", "lists": True}
    yield Target("open_tables", lambda f: (open_tables, {"path": f / "graph.aether", **given}))
    yield Target("open_graph", lambda f: (open_graph, {"url": _address(f, ""), "layout": "csc"}))
    yield Target("open_source", lambda f: (open_source, {"url": _address(f)}))
    yield Target(
        "RemoteRows.gather", lambda f: (open_source(_address(f)).gather, {"ids": [1, 2]})
    )  # fmt: skip


def _closed(folder: Path) -> FeatureServer:
    server = FeatureServer(ag.FeatureTable.load(folder / "x.npy"), port=0)
    server.close()
    return server
