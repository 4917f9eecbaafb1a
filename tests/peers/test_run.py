"""What the harness says of a small made checkout, whose tests use an object as theirs use ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from peers import run
from peers.suites import FRAMEWORKS, Framework, Suite

TESTS = Path(__file__).resolve().parents[1]

#: Plugin that puts a counted function in the place of ``json.dumps``.
PLUGIN = """
import json
from peers.counting import count_calls
json.loads = count_calls("loads", json.loads)
"""

CHECKED = """
import json
import pytest
from json import loads

@pytest.mark.parametrize("text", ["1", "2"])
def test_passes(text):
    assert loads(text) > 0

def test_fails_as_expected():
    assert loads("1") == 2

def test_is_mended():
    assert loads("1") == 1

def test_fails():
    assert loads("[]") == "a list"

def test_uses_nothing_and_fails():
    assert False

def test_uses_nothing():
    assert True

def test_is_skipped():
    loads("1")
    pytest.skip("not today")
"""
DEADLY = """
import json, os

def test_dies():
    json.loads("1")
    os._exit(3)
"""
IDLE = """
def test_idle():
    assert True
"""
EXPECTED = {
    "test_checked.py::test_fails_as_expected": "a reason",
    "test_checked.py::test_is_mended": "a reason",
    "test_checked.py::test_is_renamed": "a reason",
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tests = tmp_path / "checkout" / "theirs"
    tests.mkdir(parents=True)
    (tests / "test_checked.py").write_text(CHECKED)
    (tests / "test_idle.py").write_text(IDLE)
    (tmp_path / "checkout" / "over_json.py").write_text(PLUGIN)
    return tmp_path / "checkout"


def make_framework(*tests: str, expected: dict[str, str] | None = None) -> Framework:
    suite = Suite("Made", "over_json", tests, expected or {})
    return Framework("--made-tests", ("json",), "theirs", (suite,), paths=(".",))


def run_made(checkout: Path, framework: Framework) -> int:
    return run.main(["--made-tests", str(checkout)], [framework])


def test_every_kind_of_ending_gets_its_verdict(checkout, capsys):
    framework = make_framework("test_checked.py", "test_idle.py", expected=EXPECTED)
    assert run_made(checkout, framework) == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Made: "))
    assert lines[at:] == [
        "Made: 3 of 5 passed, 1 failed as expected, 1 unexpectedly; ours was used 5 times "
        "(loads 5); 1 skipped; not counted are 3 tests without ours, of which 1 failed",
        "  failed: test_checked.py::test_fails: AssertionError: assert [] == 'a list'",
        "  passed, though expected.py lists it (a failure less): test_checked.py::test_is_mended",
        "  listed in expected.py, but no such test used ours: test_checked.py::test_is_renamed",
        "  selected, but ours was never used in it: test_idle.py",
    ]


def test_all_is_well(checkout, capsys):
    selected = "test_checked.py::test_passes", "test_checked.py::test_fails_as_expected"
    expected = {selected[1]: "a reason"}
    assert run_made(checkout, make_framework(*selected, expected=expected)) == 0
    assert capsys.readouterr().out == (
        "Made: 2 of 3 passed, 1 failed as expected, 0 unexpectedly; ours was used 3 times "
        "(loads 3); 0 skipped; not counted are 0 tests without ours, of which 0 failed\n"
    )
    assert not list(checkout.rglob("__pycache__"))


def test_a_file_that_does_not_run_is_red(checkout, capsys):
    (checkout / "theirs" / "test_no_module.py").write_text("import no_such_module\n")
    (checkout / "theirs" / "test_dies.py").write_text(DEADLY)
    selected = "test_no_module.py", "test_checked.py::test_passes", "test_dies.py"
    assert run_made(checkout, make_framework(*selected)) == 1
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "did not run to its end: test_dies.py::test_dies: the process ended in it" in lines
    (line,) = (line for line in lines if line.startswith("did not run to its end: test_no_module"))
    assert "No module named 'no_such_module'" in line


def test_an_unknown_function_is_red(checkout, capsys):
    assert run_made(checkout, make_framework("test_checked.py::test_gone")) == 1
    assert "ours was never used in it: test_checked.py::test_gone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("folder", "modules", "tests", "said"),
    [
        ("nowhere", ("json",), "test_checked.py", "there is no folder"),
        ("checkout/theirs", ("json",), "test_checked.py", "has no theirs/"),
        ("checkout", ("json",), "test_gone.py", "has no test_gone.py"),
        ("checkout", ("no_such_module",), "test_checked.py", "has no no_such_module"),
        ("checkout", ("no_such.module",), "test_checked.py", "has no no_such.module"),
        ("checkout", ("json", "antigravity.no"), "test_checked.py", "has no antigravity.no"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(checkout, capsys, folder, modules, tests, said):
    framework = Framework("--made-tests", modules, "theirs", (Suite("Made", "x", (tests,), {}),))
    assert run_made(checkout.parent / folder, framework) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("--made-tests: ") and err.count("\n") == 1 and said in err


def test_a_framework_that_cannot_be_imported_is_said_in_a_line(checkout, capsys, monkeypatch):
    (checkout / "broken_framework.py").write_text("raise OSError('libcuda.so: not found')\n")
    monkeypatch.setenv("PYTHONPATH", str(checkout))
    monkeypatch.syspath_prepend(checkout)
    framework = Framework("--made-tests", ("broken_framework",), "theirs", ())
    assert run_made(checkout, framework) == 2
    assert capsys.readouterr().err == (
        "--made-tests: broken_framework cannot be imported: OSError: libcuda.so: not found\n"
    )


def test_the_command_needs_a_checkout():
    command = [sys.executable, str(TESTS / "peers" / "run.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "name a checkout: --pyg-tests or --dgl-tests" in done.stderr


def test_expected_failures_are_of_selected_tests_and_have_reasons():
    for framework in FRAMEWORKS:
        for suite in framework.suites:
            for test, reason in suite.expected.items():
                assert test.partition("::")[0] in {name.partition("::")[0] for name in suite.tests}
                assert reason and "\n" not in reason, test
