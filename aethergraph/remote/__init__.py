"""Rows, graphs and samples over a connection: a server, and what asks it for them."""

from __future__ import annotations

from aethergraph.remote.files import open_tables
from aethergraph.remote.graph import open_graph
from aethergraph.remote.rows import open_source
from aethergraph.remote.samples.client import open_sampler
from aethergraph.remote.samples.plan import SamplePlan
from aethergraph.remote.samples.replay import replay
from aethergraph.remote.samples.service import SampleService
from aethergraph.remote.server import FeatureServer

__all__ = [
    "FeatureServer",
    "open_source",
    "open_graph",
    "open_tables",
    "open_sampler",
    "SampleService",
    "SamplePlan",
    "replay",
]
