"""Reports are read back as they were written, and plots are what their tables make."""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from support.benchmarks import ROOT, run

pytestmark = pytest.mark.skipif(not ROOT.exists(), reason="the benchmarks are not in this tree")
RESULTS = ROOT / "results"


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("harness.common")


def test_a_report_is_read_back(common: Any, tmp_path: Path) -> None:
    args = argparse.Namespace(out=tmp_path, quick=True)
    report = common.Report("name", "A title", args, notes=["A note.", "Another."])
    report.table("numbers", ["", "a", "b"], [["10K", 1234567, 0.52], ["", None, 999.7]])
    report.table("texts", ["c"], [["1.50"], ["-"], ["2.46 (2.40-2.62)"], [""]])
    report.finish()
    again = common.Report.read(tmp_path / "name.md")
    assert (again.title, again.tables, again.notes) == (
        "A title",
        [
            ("numbers", ["", "a", "b"], [["10K", 1234567, 0.52], ["", None, 1000]]),
            ("texts", ["c"], [["1.50"], ["-"], ["2.46 (2.40-2.62)"], [""]]),
        ],
        report.notes,
    )
    assert (again.markdown(), again.caption) == (report.markdown(), report.caption)
    assert report.rows("num") == again.rows() == [
        {"": "10K", "a": 1234567, "b": 0.52}, {"": "", "a": None, "b": 1000}
    ]  # fmt: skip
    with pytest.raises(LookupError, match=r"name\.md has no table 'other': run its benchmark"):
        again.rows("other")
    (tmp_path / "name.md").write_text("# A page\n\nThat is no report.\n")
    with pytest.raises(ValueError, match=r"name\.md: 'That is no report\.' is not the machine"):
        common.Report.read(tmp_path / "name.md")


def test_results_with_plots_are_read_back(common: Any) -> None:
    for path in RESULTS.glob("*.svg"):
        page = path.with_suffix(".md")
        assert common.Report.read(page).markdown().strip() == page.read_text().strip(), page


def test_short_numbers_are_read_back(common: Any) -> None:
    for number in (0, 999, 1_000, 1_130_000, 12_000_000, 4 * 10**9):
        assert common.parse_count(common.short(number)) == number
    with pytest.raises(ValueError, match="'10X'"):
        common.parse_count("10X")


def test_the_course_of_a_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """By ten seconds: thousands of records a second, and the most that waited, in thousands."""
    monkeypatch.syspath_prepend(str(ROOT))
    lag = {"seconds": [1, 9, 10, 25], "records": [0, 30_000, 40_000, 70_000]}
    rows = importlib.import_module("streaming_training").course(lag | {"waiting": [5, 8, 2, 4000]})
    assert rows == [[10, 4.0, 0.008], [20, 0.0, 0.0], [30, 3.0, 4.0]]


@pytest.mark.pyg
def test_plots_are_those_of_the_tables(tmp_path: Path) -> None:
    for module in ("matplotlib", "torch_geometric"):
        pytest.importorskip(module)
    done = run("plots", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    paths = sorted(RESULTS.glob("*.svg"))
    assert [path.name for path in paths] == sorted(path.name for path in tmp_path.iterdir())
    for path in paths:
        drawn, shown = (tmp_path / path.name).read_text(), path.read_text()
        versions = [re.search(r"Matplotlib v[\d.]+", text) for text in (drawn, shown)]
        assert all(versions) and 1000 < len(shown) < 60_000, path
        if versions[0][0] == versions[1][0]:  # type: ignore[index]
            assert drawn == shown, f"{path}: python benchmarks/plots.py {path.stem}"
    done = run("plots", "none")
    assert "no plot is called 'none', but sampling, modes, " in done.stderr
