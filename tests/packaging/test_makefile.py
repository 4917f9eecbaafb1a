"""native/Makefile: what it compiles again and with which flags, by a compiler that does nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILER = """#!/bin/sh
echo "$*" >>{log}
while [ $# -gt 1 ]; do [ "$1" != -o ] || [ "$2" = /dev/null ] || : >"$2"; shift; done
"""

pytestmark = pytest.mark.skipif(
    not shutil.which("make") or not (ROOT / "native").exists(), reason="no make, or no sources"
)


class Library:
    """The library in a folder of its own, compiled by nobody."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        self.compiler = folder / "cc"
        self.compiler.write_text(COMPILER.format(log=self.log))
        self.compiler.chmod(0o755)

    def make(self, variant: str, *options: str) -> list[str]:
        """Make it; return the commands that compiled a file of the core."""
        self.log.write_text("")
        target = f"{self.folder}/build/{variant}/libaether.a"
        names = [f"BUILD={self.folder}/build", f"VARIANT={variant}", f"CC={self.compiler}"]
        command = ["make", "-s", "-C", ROOT / "native", target, *names, *options]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        return [line for line in self.log.read_text().splitlines() if re.search(r"-c src/", line)]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path)


def test_other_flags_compile_everything_again(library: Library) -> None:
    count = len(list((ROOT / "native/src").rglob("*.c")))
    assert len(library.make("release")) == count
    assert library.make("release") == []
    assert len(library.make("release", "URING=0", "UCX=0")) == count
    assert library.make("release", "URING=0", "UCX=0") == []


@pytest.mark.parametrize("variant", ["release", "asan"])
def test_arrays_are_checked_by_the_compiler_or_by_a_sanitizer(
    library: Library, variant: str
) -> None:
    for command in library.make(variant):
        assert "-fstack-protector" in command
        assert ("-D_FORTIFY_SOURCE=3" in command) != ("-fsanitize=" in command)
