"""Leaves the folder out where DGL is not installed; test_available.py then says so.

The folder is not called ``dgl``: tests/ is on the path, and ``import dgl`` would find it.
"""

from __future__ import annotations

import importlib.util

collect_ignore_glob: list[str] = []
if importlib.util.find_spec("dgl") is None:
    collect_ignore_glob = [
        "test_[!a]*.py",
    ]
