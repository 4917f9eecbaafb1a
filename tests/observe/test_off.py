"""Without an observer nothing is registered, imported or kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from aethergraph import _tracepoints as tracepoints
from aethergraph import observe
from aethergraph._tracepoints import stage
from aethergraph.observe import registry
from aethergraph.observe.registry import observed

WORK = """
import sys
import numpy as np
import aethergraph as ag
from aethergraph import _tracepoints
from aethergraph import SubgraphLoader
graph = ag.Graph.load(sys.argv[1], storage="uring", memory_budget="64M")
graph.load_features(sys.argv[2], storage="uring", memory_budget="1M")
for batch in SubgraphLoader(graph, [3, 2], batch_size=100):
    pass
live = ag.DynamicGraph(10)
live.insert_edges([0, 1], [1, 2])
live.node_attrs["y"] = ag.CachedRows(np.ones((10, 4), np.float32), "1M")
"""


def test_nothing_is_registered_or_imported(files: Path, run_python: Callable[..., Any]) -> None:
    run_python(
        WORK
        + """
assert not [name for name in sys.modules if name.startswith("aethergraph.observe")]
for name in ("prometheus_client", "opentelemetry", "matplotlib"):
    assert name not in sys.modules, name
assert _tracepoints._observers == () and _tracepoints._listener is None
import threading
assert not [one.name for one in threading.enumerate() if "observe" in one.name]
""",
        str(files / "graph.aeg"),
        str(files / "x.npy"),
    )


def test_importing_it_switches_nothing_on() -> None:
    assert not registry.is_enabled()
    assert observed() == {}
    assert observe.snapshot()["metrics"] == {}
    # One object for all stages: nothing is allocated for them.
    assert stage("batch") is stage("gather", "x", object())


def test_it_is_off_again(paged: Any) -> None:
    observe.enable()
    assert registry.is_enabled() and stage("batch") is not stage("batch")
    observe.disable()
    observe.disable()
    assert not registry.is_enabled()
    assert tracepoints._observers == () and tracepoints._listener is None
    assert stage("batch") is stage("batch")
