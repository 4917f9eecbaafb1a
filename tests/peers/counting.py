"""Count how often tests of another project use objects of ours, and log how each test ended.

pytest loads it with ``-p peers.counting``, beside a plugin that puts our objects in the place of
theirs. The log, at the path in ``AETHERGRAPH_PEER_LOG``, has one JSON object per line and is
written as the tests run, so that it says which test was running if the process dies.
"""

from __future__ import annotations

import functools
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

__all__ = ["count_calls", "make_counted"]

#: Functions that seed generators, by their modules.
SEEDING = {
    "numpy.random": "seed",
    "torch": "manual_seed",
    "dgl": "seed",
    "dgl.graphbolt": "seed",
}
#: Uses by name since the running test began.
USES: Counter[str] = Counter()
#: What has gone wrong in the running test, and whether it was skipped.
STATE: dict[str, Any] = {}


def count_calls(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function``, with each call counted under ``name``, also one that raises."""

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        USES[name] += 1
        return function(*args, **kwargs)

    return counted


def make_counted(
    ours: type, module: str, name: str | None = None, first: Callable[[Any], Any] | None = None
) -> type:
    """Return a subclass of our class whose constructions are counted.

    Args:
        ours: the class.
        module: module that keeps the subclass under its name, for pickle.
        name: name of the class that it stands for; None: that of ours.
        first: what becomes of the first argument, a graph.
    """
    name = name or ours.__name__
    init = ours.__init__  # type: ignore[misc]
    if first is not None:

        def init(self: Any, graph: Any, *args: Any, **kwargs: Any) -> None:
            ours.__init__(self, first(graph), *args, **kwargs)  # type: ignore[misc]

    body = {"__module__": module, "__qualname__": name, "__doc__": ours.__doc__}
    return type(name, (ours,), {**body, "__init__": count_calls(name, init)})


# ---- pytest's hooks ------------------------------------------------------------------------


def pytest_runtest_setup(item: Any) -> None:
    """Seed every generator, so that a test passes or fails alike in every run."""
    random.seed(0)
    for name, function in SEEDING.items():
        if name in sys.modules:
            getattr(sys.modules[name], function)(0)


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    USES.clear()
    STATE.clear()
    _write({"began": nodeid})


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        STATE.setdefault("failed", _first_line(report))
    elif report.skipped:
        STATE["skipped"] = True


def pytest_runtest_logfinish(nodeid: str, location: Any) -> None:
    outcome = next((name for name in ("failed", "skipped") if name in STATE), "passed")
    _write({"test": nodeid, "outcome": outcome, "error": STATE.get("failed"), "uses": USES})


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _write({"broken": report.nodeid, "error": _first_line(report)})


def _first_line(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash is not None else report.longreprtext).strip().splitlines()
    if not lines:
        return "no message"
    return lines[0] if crash is not None else lines[-1]


def _write(record: dict[str, Any]) -> None:
    with open(os.environ["AETHERGRAPH_PEER_LOG"], "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
