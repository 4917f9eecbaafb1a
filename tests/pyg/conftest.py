"""Leaves the folder out where PyG is not installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from support.processes import WarmPython

collect_ignore_glob: list[str] = []
if importlib.util.find_spec("torch_geometric") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    """Return an interpreter that has imported PyG, for scripts that are processes of their own."""
    with WarmPython(["aethergraph.pyg"]) as warm:
        yield warm
