"""Leaves the contracts of PyG out where it is not installed."""

from __future__ import annotations

import importlib.util

collect_ignore_glob: list[str] = []
if importlib.util.find_spec("torch_geometric") is None:
    collect_ignore_glob = ["test_pyg*.py"]
