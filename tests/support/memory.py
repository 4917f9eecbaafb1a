"""Cgroups with a memory limit, for tests that must not need more."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MemoryGroup", "memory_group"]


@dataclass(frozen=True)
class MemoryGroup:
    """A cgroup: its folder, and the names of its limit, its usage and its page cache there."""

    folder: Path
    limit: str
    usage: str
    cache: str

    def set_limit(self, nbytes: int) -> None:
        """Let its processes have so many bytes, page cache included."""
        (self.folder / self.limit).write_text(str(nbytes))

    def enter(self) -> None:
        """Move this process into the group."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def used(self) -> int:
        """Return the bytes that its processes have, page cache excluded."""
        lines = (self.folder / "memory.stat").read_text().splitlines()
        rows = dict(line.split() for line in lines)
        files = sum(int(rows[name]) for name in self.cache.split())
        return int((self.folder / self.usage).read_text()) - files


@contextmanager
def memory_group() -> Iterator[MemoryGroup | None]:
    """A cgroup whose limit can be set, for a ``with`` block; None: none can be made."""
    for root, *names in (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
         "total_inactive_file total_active_file"),
        ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file active_file"),
    ):  # fmt: skip
        group = MemoryGroup(Path(root) / f"aethergraph-test-{os.getpid()}", *names)
        try:
            group.folder.mkdir()
            group.set_limit(1 << 40)
        except OSError:
            if group.folder.exists():
                group.folder.rmdir()
            continue
        try:
            yield group
        finally:
            for _ in range(50):
                try:
                    group.folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)
        return
    yield None
