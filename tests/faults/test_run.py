"""The tables fit the checkout; the runner tells faults that are caught from those that survive."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from faults import run
from faults.checkout import Copy, Programs
from faults.table import TableError, read_tables, stage_of

ROOT = Path(__file__).resolve().parents[2]
TABLES = sorted(Path(__file__).parent.glob("*.toml"))
FAULTS = read_tables(TABLES)

MODULE = '''"""A module of few lines."""


def twice(number: int) -> int:
    return number + number


def half(number: int) -> float:
    return number / 2
'''

TESTS = """
from aethergraph import numbers


def test_twice():
    assert numbers.twice(3) == 6


def test_half_is_asked_for():
    numbers.half(3)
"""

FILE = "aethergraph/numbers.py"


def test_the_tables_fit_the_checkout() -> None:
    """All of them, in every run: a fault that cannot be planted is looked for by nobody."""
    complaints = []
    for fault in FAULTS:
        assert fault.breaks.endswith(".")
        try:
            fault.check(ROOT)
        except TableError as error:
            complaints.append(str(error))
    assert complaints == []


def entry(name: str, old: str, new: str, tests: tuple[str, ...] = ("test_numbers.py",)) -> str:
    """Return an entry of a table."""
    fields = {"name": name, "file": FILE, "old": old, "new": new, "breaks": "Much.", "tests": tests}
    return "[[fault]]\n" + "".join(f"{key} = {json.dumps(fields[key])}\n" for key in fields)


CAUGHT = entry("twice-is-thrice", "number + number", "3 * number")
SURVIVOR = entry("half-is-floored", "number / 2", "number // 2")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of one module and its tests, in which the tests of faults choose nothing."""
    monkeypatch.delenv("PYTEST_ARGS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take a second to load
    root = tmp_path / "checkout"
    for folder in ("aethergraph", "backends", "tests/faults"):
        (root / folder).mkdir(parents=True)
    (root / "aethergraph/__init__.py").touch()
    (root / FILE).write_text(MODULE)
    (root / "tests/test_numbers.py").write_text(TESTS)
    options = "[tool.pytest.ini_options]\naddopts = '-ra --import-mode=importlib'\n"
    (root / "pyproject.toml").write_text(options)
    return root


def plant(root: Path, *entries: str, arguments: tuple[str, ...] = ()) -> int:
    (root / "tests/faults/made.toml").write_text("\n".join(entries))
    return run.main(["--root", str(root), "--work", str(root.parent / "work"), *arguments])


def notes(root: Path) -> dict[str, dict[str, str]]:
    lines = (root.parent / "work/results.jsonl").read_text().splitlines()
    assert len({json.loads(line)["name"] for line in lines}) == len(lines)
    return {json.loads(line)["name"]: json.loads(line) for line in lines}


def test_caught_and_survivor(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plant(checkout, CAUGHT, SURVIVOR) == 1
    results = notes(checkout)
    assert results["twice-is-thrice"]["outcome"] == "caught"
    assert results["twice-is-thrice"]["by"] == "tests/test_numbers.py::test_twice"
    assert results["half-is-floored"]["outcome"] == "survived"
    last_line = capsys.readouterr().out.splitlines()[-1]
    assert last_line == "2 planted, 1 caught by the default run, 1 by all, 1 survived"
    assert (checkout.parent / "work/copy0/repository" / FILE).read_text() == MODULE


def test_what_the_selection_leaves_out_catches_by_all_only(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTEST_ARGS", "-k 'not twice'")
    assert plant(checkout, CAUGHT, arguments=("--all",)) == 1  # 0 % by the default run
    assert notes(checkout)["twice-is-thrice"]["run"] == "all"
    assert "1 planted, 0 caught by the default run, 1 by all, 0 survived" in capsys.readouterr().out


def test_it_goes_on_where_it_was_interrupted(checkout: Path) -> None:
    assert plant(checkout, CAUGHT, SURVIVOR, arguments=("twice-is-thrice",)) == 0
    assert plant(checkout, CAUGHT, SURVIVOR, arguments=("--resume",)) == 1
    assert set(notes(checkout)) == {"twice-is-thrice", "half-is-floored"}  # each tried once


def test_what_an_interrupted_run_left_is_replaced(checkout: Path) -> None:
    work = checkout.parent / "work"
    Copy(checkout, work / "copy0", Programs())
    (work / "copy0/repository" / FILE).write_text(MODULE.replace("number + number", "0"))
    assert plant(checkout, CAUGHT) == 0


def test_a_test_that_fails_anyway_catches_nothing(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "tests/test_numbers.py").write_text(TESTS.replace("== 6", "== 7"))
    assert plant(checkout, CAUGHT) == 1
    assert notes(checkout)["twice-is-thrice"]["outcome"] == "survived"
    assert "catch none: tests/test_numbers.py::test_twice" in capsys.readouterr().out


def test_a_fault_that_cannot_be_imported_is_broken(checkout: Path) -> None:
    assert plant(checkout, entry("no-python", "return number + number", "return number +")) == 1
    assert notes(checkout)["no-python"]["outcome"] == "broken"


def test_faults_of_an_environment_that_is_not_there_are_not_run(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = checkout / "tests/with_dgl"
    folder.mkdir()
    (folder / "test_blocks.py").touch()
    dgl = entry("of-dgl", "number / 2", "number // 2", ("with_dgl/test_blocks.py",))
    assert plant(checkout, CAUGHT, dgl) == 0
    assert notes(checkout)["of-dgl"]["outcome"] == "not run"
    assert "1 planted, 1 caught" in capsys.readouterr().out


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    hanging = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert Programs().run(hanging, tmp_path, dict(os.environ), 1) == (None, "")


@pytest.mark.parametrize("old, count", [("number ** 2", 0), ("return number", 2)])
def test_text_that_has_moved_on(checkout: Path, old: str, count: int) -> None:
    message = f"moved: `old` occurs {count} times in {FILE}: the code has moved on: mend the table"
    with pytest.raises(TableError, match=message):
        plant(checkout, CAUGHT, entry("moved", old, "pass"))
    assert not (checkout.parent / "work").exists()


@pytest.mark.parametrize("test", ["test_gone.py", "test_numbers.py::test_gone", "native:gone"])
def test_tests_that_are_gone(checkout: Path, test: str) -> None:
    with pytest.raises(TableError, match=f"moved: there is no test {test}"):
        plant(checkout, entry("moved", "number / 2", "number", (test,)))


def test_names_are_there_once(checkout: Path) -> None:
    with pytest.raises(TableError, match="twice-is-thrice is planted twice"):
        plant(checkout, CAUGHT, CAUGHT)


@pytest.mark.parametrize(
    ("test", "stage"),
    [
        ("native:pool", "c-tests"),
        ("tsan:pool", "c-tsan"),
        ("graph/test_files.py::test_x", "python"),
        ("with_dgl/test_x.py", "dgl"),
    ],
)
def test_the_stage_of_a_test(test: str, stage: str) -> None:
    assert stage_of(test) == stage


def test_a_word_that_is_no_stage_is_refused() -> None:
    with pytest.raises(TableError, match=r"asan:pool: asan is none of native, tsan"):
        stage_of("asan:pool")
