"""The programs of this folder as tests: a share of them here, all by ``./scripts/test.sh hostile``.

``AETHERGRAPH_HOSTILE`` is the share, 0 to 1.

A program that fails prints the words that repeat the one call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile import attack
from support import share

HERE = Path(__file__).resolve().parent
SHARE = float(os.environ.get("AETHERGRAPH_HOSTILE", "0.03" if share.ALL else "0.006"))
ALL = SHARE >= 1
INTERRUPTED_NODES = 1_000_000 if ALL else 50_000
SECONDS = 0.5  # until an interrupted call has ended

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("AETHERGRAPH_EXPECT_SANITIZER")),
    reason="a sanitizer needs more address space than the attack allows: ./scripts/test.sh python",
)


@pytest.fixture(scope="module")
def prepared() -> Iterator[Path]:
    with attack.prepared_folder() as folder:
        yield folder


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, HERE / program, *map(str, arguments)],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", ["core", "pyg", "dgl"])
def test_bad_values(prepared: Path, part: str) -> None:
    """Nothing but the errors that are documented, whatever value any argument has."""
    cases = [
        case
        for case in attack.choose_cases(prepared, SHARE, seed=0)
        if case.target.startswith(("pyg", "dgl", "graphbolt")) == (part != "core")
        and (part == "core" or case.target.startswith("pyg") == (part == "pyg"))
    ]
    if not cases:
        pytest.skip(f"no {part} here; ./scripts/test.sh dgl has DGL, python has PyG")
    assert len(cases) > 20_000 * SHARE * (part == "core")
    failures = attack.run_cases(prepared, cases)
    assert not failures, "\n".join(map(str, failures))


@pytest.mark.slow
def test_threads_are_refused() -> None:
    """Every step gives what it gave while there were threads."""
    # Another user than root runs the steps, who has to reach the folder.
    with tempfile.TemporaryDirectory(prefix="aethergraph-hostile-") as folder:
        done = run("refusals.py", "threads", folder)
    if done.returncode == 77:
        pytest.skip(f"{done.stdout.strip()}: run as root, or as a user whom RLIMIT_NPROC binds")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mebibytes", [1, 2, 4, 8, 16, 64] if ALL else [2])
def test_memory_is_refused(tmp_path: Path, mebibytes: int) -> None:
    """Every step succeeds, or raises MemoryError or StorageError."""
    done = run("refusals.py", "memory", tmp_path, mebibytes)
    assert done.returncode == 0, done.stdout + done.stderr
    refused = int(done.stdout.split()[0])
    assert refused > 0 or mebibytes > 2, "nothing was refused: a check that cannot fail"


@pytest.mark.slow
def test_long_calls_are_interrupted(tmp_path: Path) -> None:
    """Ctrl-C ends every long call soon, and its objects still work."""
    done = run("interrupts.py", tmp_path, INTERRUPTED_NODES, 0)
    assert done.returncode == 0, done.stdout + done.stderr
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(calls) >= 25
    slow = [call for call in calls if max(w or 0 for w in call["waits"]) > SECONDS]
    assert not slow
    assert all(call["same"] for call in calls)
    assert sum(wait is not None for call in calls for wait in call["waits"]) > len(calls)
