"""Rows, graphs and samples over a connection: a server, and what asks it for them."""

from __future__ import annotations

from aethergraph.remote.files import open_tables
from aethergraph.remote.graph import open_graph
from aethergraph.remote.rows import RemoteRows, RemoteStats, open_source
from aethergraph.remote.samples.client import RemoteSampler, ServedSample, open_sampler
from aethergraph.remote.samples.plan import SamplePlan
from aethergraph.remote.samples.replay import Replayed, check_replay, replay
from aethergraph.remote.samples.service import SampleService
from aethergraph.remote.server import FeatureServer, ServerStats

__all__ = [
    "FeatureServer",
    "open_source",
    "open_graph",
    "open_tables",
    "open_sampler",
    "RemoteRows",
    "RemoteSampler",
    "SampleService",
    "RemoteStats",
    "Replayed",
    "SamplePlan",
    "ServedSample",
    "ServerStats",
    "check_replay",
    "replay",
]
