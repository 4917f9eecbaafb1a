"""Live graphs and their snapshots go in any order: by the collector, or with the interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

MADE = """
import gc
from aethergraph import DynamicGraph, NeighborSampler

class Holder:
    pass

def make():
    graph, holder = DynamicGraph(10, arena_mb=1), Holder()
    graph.insert_edge(1, 2)
    holder.itself = holder
    return graph, holder
"""

ENDS = {
    "graph first": "graph, holder = make()\nholder.graph, holder.now = graph, graph.snapshot()",
    "snapshot first": "graph, holder = make()\nholder.now, holder.graph = graph.snapshot(), graph",
    "sampler": "graph, holder = make()\nholder.sampler = NeighborSampler(graph, [2])",
    "lists alone": "graph, holder = make()\nholder.lists = graph.snapshot().topology()",
}


@pytest.mark.parametrize("collected", [True, False])
def test_a_snapshot_and_its_graph_go_at_once(collected: bool) -> None:
    for made in ENDS.values():
        code = MADE + made + "\nkeep = make.__globals__, holder"
        if collected:
            code += "\ndel graph, keep, holder\ngc.collect()\nprint('collected')"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), made
