"""Runs a benchmark and checks what it writes, for the tests in benchmarks/.

Not in that folder: packages named benchmarks are installed by others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

__all__ = ["ROOT", "check", "run", "run_limited", "run_quick"]

ROOT = Path(__file__).resolve().parents[2] / "benchmarks"
# PYTHONSAFEPATH, which the test runner may set, would hide the scripts' shared modules. One OpenMP
# thread, because others would spin for cores that parallel tests occupy.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
ENVIRONMENT["OMP_NUM_THREADS"] = "1"


def run(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / f"{name}.py"), *args],
        capture_output=True, text=True, timeout=500, env=ENVIRONMENT,
    )  # fmt: skip


def run_quick(name: str, data: Path, *args: str) -> dict[str, Any]:
    done = run(name, "--quick", "--dir", str(data), "--out", str(data), *args)
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads((data / f"{name}.json").read_text())
    assert done.stdout.startswith("## ") and "|---|" in done.stdout
    assert str(data) not in json.dumps(document), "results name no folders"
    return document


def check(document: dict[str, Any], name: str) -> None:
    assert document["benchmark"] == name and document["quick"] is True
    assert document["versions"]["aethergraph"] != "absent"
    assert document["machine"]["cores"] >= 1 and document["commit"]
    assert document["tables"]
    for table in document["tables"]:
        assert table["rows"], table["title"]
        assert all(len(row) == len(table["columns"]) for row in table["rows"]), table["title"]


def run_limited(name: str, data: Path, *args: str) -> dict[str, Any]:
    """One that makes cgroups."""
    done = run(name, "--quick", "--dir", str(data), "--out", str(data), *args)
    if "needs to make a cgroup" in done.stderr:
        pytest.skip("no cgroup can be made here")
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads((data / f"{name}.json").read_text())
    check(document, name)
    return document
