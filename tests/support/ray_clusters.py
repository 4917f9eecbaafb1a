"""Local clusters of Ray for tests, which start on busy machines, too.

Ray's raylet starts a Python process, its agent, and aborts if that has not said its port within 15
seconds ("Timed out waiting for file .../metrics_agent_port" in raylet.err), which no setting
changes; ``ray.init`` then waits 30 seconds for a node that is dead. The agent's imports take 15
seconds where two of pytest's workers start a cluster each on two busy cores: so clusters start one
at a time, and a start that has failed for this reason is repeated.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["local_cluster"]

ATTEMPTS = 3


@contextmanager
def local_cluster(**options: Any) -> Iterator[None]:
    """Start a cluster with these options of ``ray.init``, and end it behind the ``with`` block."""
    import ray

    with _one_at_a_time():
        _start(ray, {"include_dashboard": False, "log_to_driver": False, **options})
    try:
        yield
    finally:
        ray.shutdown()


def _start(ray: Any, options: dict[str, Any]) -> None:
    for left in reversed(range(ATTEMPTS)):
        try:
            ray.init(address="local", **options)  # not a cluster that happens to run here
            return
        except Exception as error:  # Ray has no class of its own for it
            ray.shutdown()
            if left == 0 or "timed out during startup" not in str(error):
                raise


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Hold a lock that the tests of a user share."""
    path = Path(tempfile.gettempdir()) / f"aethergraph-ray-{os.getuid()}.lock"
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
