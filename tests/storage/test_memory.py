"""Byte sizes, available memory, control groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import errors
from aethergraph.storage import memory
from aethergraph.storage.memory import available_memory, format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("123", 123), ("1k", 1024), ("1K", 1024), ("1KB", 1024), ("1KiB", 1024),
        ("512MiB", 512 << 20), ("1G", 1 << 30), ("1.5 gb", 3 << 29), (" 2 T ", 2 << 40),
        (".5M", 1 << 19), ("10b", 10), ("9007199254740993", 9007199254740993), (4096, 4096),
        ((1 << 63) - 1, (1 << 63) - 1), (np.int64(7), 7),
    ],
)  # fmt: skip
def test_sizes(text: Any, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("bad", ["", "G", "1X", "-1", "1 2", "1e9", "one", "1GG", "0x10", -1, 1.5,
                                 True, None, b"1G", [1]])  # fmt: skip
def test_sizes_that_are_refused(bad: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="memory_budget"):
        parse_size(bad)


@pytest.mark.parametrize(
    "bad",
    [1 << 63, 1 << 70, str(1 << 63), "8388608T", "1" + "0" * 5000, "1" + "0" * 400 + ".5G"],
)
def test_sizes_that_no_memory_has(bad: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"memory_budget = .* is above 2\*\*63"):
        parse_size(bad)


def test_sizes_for_people() -> None:
    assert [format_size(n) for n in (0, 1023, 1024, 1 << 20, 3 << 29, 5 << 40)] == [
        "0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.5 GiB", "5120.0 GiB",
    ]  # fmt: skip


def test_available_memory_is_plausible() -> None:
    assert 1 << 20 < available_memory() < 1 << 50


@pytest.mark.parametrize("version", [1, 2])
def test_control_groups_limit_it(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit, usage, cache = (
        (
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            ("total_inactive_file", "total_active_file"),
        )
        if version == 1
        else ("memory.max", "memory.current", ("inactive_file", "active_file"))
    )
    (tmp_path / limit).write_text("1000000\n")
    (tmp_path / usage).write_text("600000\n")
    stat = f"cache 5\n{cache[0]} 70000\nrss 7\n{cache[1]} 30000\n"
    (tmp_path / "memory.stat").write_text(stat)
    monkeypatch.setattr(memory, "_cgroup_folders", lambda: [(tmp_path, limit, usage, cache)])
    assert available_memory() == 500_000
    (tmp_path / usage).write_text("2000000\n")
    assert available_memory() == 0
    for none in ("max\n", str(2**63 - 4096)):
        (tmp_path / limit).write_text(none)
        assert available_memory() > 1 << 20


def test_control_group_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "12:cpu,memory:/docker/abc\n3:cpuset:/x\n0::/user.slice/run\n"
    real = Path.read_text

    def read_text(self: Path, *args: Any) -> str:
        return lines if str(self) == "/proc/self/cgroup" else real(self, *args)

    monkeypatch.setattr(Path, "read_text", read_text)
    folders = [str(folder) for folder, *_ in memory._cgroup_folders()]
    assert folders == [
        "/sys/fs/cgroup/memory/docker/abc",
        "/sys/fs/cgroup/memory/docker",
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/user.slice/run",
        "/sys/fs/cgroup/user.slice",
        "/sys/fs/cgroup",
    ]
