"""The benchmarks beside DGL run with --quick, in an environment that has it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.benchmarks import ROOT, check, run_limited, run_quick

pytest.importorskip("dgl")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ROOT.exists(), reason="the benchmarks are not in this tree"),
]


def test_loaders_do_the_same_work(tmp_path: Path) -> None:
    """The benchmark compares edges and rows of all contenders by itself."""
    document = run_quick("dgl_loaders", tmp_path)
    check(document, "dgl_loaders")
    cases = document["data"]["cases"]
    assert len(cases) == 8
    for case in cases:
        for name, rounds in case["rounds"].items():
            assert all(one["seconds"] > 0 and one["edges"] > 0 for one in rounds), name
            assert all((one["rows"] > 0) == case["features"] for one in rounds), name


def test_features_from_disk_are_the_same(tmp_path: Path) -> None:
    document = run_limited("dgl_disk", tmp_path)
    sums: dict[int, set[float]] = {}
    for (result,) in document["data"].values():
        sums.setdefault(result["batches"], set()).add(result["sum"])
    assert len(document["data"]) == 3
    assert all(len(found) == 1 for found in sums.values()), "as many batches, other features"


def test_grouped_loaders_draw_the_same_batches(tmp_path: Path) -> None:
    document = run_limited("dgl_grouped", tmp_path, "--dgl-python", sys.executable)
    assert {"aethergraph.dgl", "aethergraph.dgl.graphbolt"} <= set(document["data"])
    for (one,) in document["data"].values():
        assert one["edges"] > one["batches"] > 0


def test_accuracy(tmp_path: Path) -> None:
    document = run_quick("dgl_accuracy", tmp_path)
    check(document, "dgl_accuracy")
    accuracy = document["data"]["accuracy_percent"]
    assert len(accuracy) == 5
    assert all(0 < score <= 100 for scores in accuracy.values() for score in scores)
