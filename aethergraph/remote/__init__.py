"""Rows of features over a connection: a server, and sources of rows that ask it."""

from __future__ import annotations

from aethergraph.remote.graph import open_graph
from aethergraph.remote.rows import RemoteRows, RemoteStats, open_source
from aethergraph.remote.server import FeatureServer, ServerStats

__all__ = ["FeatureServer", "RemoteRows", "RemoteStats", "ServerStats", "open_graph", "open_source"]
