"""Rows and graphs over a connection: a server, and what asks it for rows and lists."""

from __future__ import annotations

from aethergraph.remote.files import open_tables
from aethergraph.remote.graph import open_graph
from aethergraph.remote.rows import RemoteRows, RemoteStats, open_source
from aethergraph.remote.server import FeatureServer, ServerStats

__all__ = [
    "FeatureServer",
    "RemoteRows",
    "RemoteStats",
    "ServerStats",
    "open_graph",
    "open_source",
    "open_tables",
]
