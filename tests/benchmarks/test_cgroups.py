"""Memory limits of the benchmarks: which version of cgroups is taken, and that a limit holds."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not ROOT.exists(), reason="the benchmarks are not in this tree")
NAME = f"aethergraph-benchmark-{os.getpid()}"


@pytest.fixture
def cgroups(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("harness.cgroups")


def test_version_1_is_taken_where_it_has_the_memory_controller(
    cgroups: Any, tmp_path: Path
) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/memory.limit_in_bytes").write_text("9223372036854771712")
    (tmp_path / "cgroup.controllers").write_text("cpu memory")  # mounted beside it
    group = cgroups.make_group(1 << 30, tmp_path)
    assert (group.version, group.path) == (1, tmp_path / "memory" / NAME)
    assert (group.path / "memory.limit_in_bytes").read_text() == str(1 << 30)
    assert not (group.path / "memory.memsw.limit_in_bytes").exists()  # swap is not counted here
    (group.path / "memory.max_usage_in_bytes").write_text("123\n")
    (group.path / "memory.stat").write_text("cache 4\nrss 5\nrss_huge 6\n")
    (group.path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert (group.peak, group.anonymous, group.oom_kills) == (123, 5, 2)


def test_version_2_is_taken_where_it_has_the_memory_controller(
    cgroups: Any, tmp_path: Path
) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    group = cgroups.make_group(1 << 29, tmp_path)
    assert (group.version, group.path) == (2, tmp_path / NAME)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory"
    assert (group.path / "memory.max").read_text() == str(1 << 29)
    assert group.peak is None  # Linux before 5.19 has none
    (group.path / "memory.peak").write_text("77\n")
    (group.path / "memory.stat").write_text("anon 8\nanon_thp 3\nfile 9\n")
    (group.path / "memory.events").write_text("oom 1\noom_kill 1\noom_group_kill 0\n")
    assert (group.peak, group.anonymous, group.oom_kills) == (77, 8, 1)


@pytest.mark.parametrize("content", [None, "", "cpu io memory_recursiveprot"])
def test_without_a_memory_controller_nothing_is_made(
    cgroups: Any, tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "cgroup.controllers").write_text(content)
    (tmp_path / "memory").mkdir()  # of a version 1 that is not mounted
    with pytest.raises(OSError, match="no memory controller"):
        cgroups.make_group(1 << 30, tmp_path)
    assert not list(tmp_path.rglob(NAME))


def test_a_process_above_the_limit_is_killed(cgroups: Any) -> None:
    program = "import sys; data = bytearray(int(sys.argv[1])); data[::4096] = data[::4096]"
    try:
        with cgroups.cgroup(128 << 20) as group:
            done = [
                subprocess.run(
                    [sys.executable, "-c", program, str(size)],
                    preexec_fn=group.enter, capture_output=True, check=False,
                ).returncode
                for size in (32 << 20, 512 << 20)
            ]  # fmt: skip
            kills, peak = group.oom_kills, group.peak
    except SystemExit as reason:
        pytest.skip(str(reason))
    assert done == [0, -9]
    assert kills == 1
    assert peak is None or 32 << 20 < peak <= 128 << 20
    assert not group.path.exists()
