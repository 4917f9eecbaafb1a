"""scripts/release.sh and the workflows that call it: names and refusals.

What a release is, the script proves itself (RELEASING.md).
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def release(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts/release.sh", *args],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_there_is_a_wheel_for_every_python_that_the_package_names() -> None:
    wheels = release("--list").stdout.split()
    assert wheels[:4] == [
        f"abi3-{c}-{libc}" for libc in ("gnu", "musl") for c in ("x86_64", "aarch64")
    ]
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert [name for name in wheels[4:] if name != "cp314t"] == [
        f"cp{version.replace('.', '')}" for version in named
    ]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["publish"], "no step 'publish': build, check, again, c-tests or try"),
        (["build", "cp39"], "no wheel 'cp39': one of abi3-x86_64-gnu "),
        (["check", "cp310"], "only build takes names of wheels"),
    ],
)
def test_other_words_are_refused_before_anything_is_made(args: list[str], text: str) -> None:
    done = release(*args)
    assert done.returncode == 1
    assert text in done.stderr
    assert done.stdout == ""


def test_workflows_call_scripts_that_are_there() -> None:
    called = [
        name
        for path in sorted((ROOT / ".github/workflows").glob("*.yml"))
        for name in re.findall(r"\./(scripts/\w+\.sh)", path.read_text())
    ]
    assert set(called) == {"scripts/test.sh", "scripts/release.sh"}
    assert all(os.access(ROOT / name, os.X_OK) for name in called)
