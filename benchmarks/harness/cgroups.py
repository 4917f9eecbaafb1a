"""A memory limit for a process: a cgroup of version 1 or 2, whichever is there (Linux, root)."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HOW = (
    "this benchmark needs to make a cgroup: run it as root on Linux with the cgroup memory "
    "controller (v1: /sys/fs/cgroup/memory, v2: /sys/fs/cgroup with 'memory' in "
    "cgroup.controllers); in a container: with a writable /sys/fs/cgroup."
)


@dataclass(frozen=True)
class Cgroup:
    """A group of our own with a memory limit."""

    path: Path
    version: int

    @property
    def peak(self) -> int | None:
        """Highest charge, bytes, page cache included."""
        name = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        file = self.path / name
        return int(file.read_text()) if file.exists() else None

    @property
    def anonymous(self) -> int:
        """Bytes charged now that are not page cache."""
        return self._field("memory.stat", "rss" if self.version == 1 else "anon")

    @property
    def oom_kills(self) -> int:
        """Processes that the kernel has killed in here for lack of memory."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        return self._field(name, "oom_kill")

    def enter(self) -> None:
        """Move this process in; for the child, before it becomes the contender."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def _field(self, file: str, name: str) -> int:
        for line in (self.path / file).read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
        return 0


class AnonymousPeak:
    """Looks at what a group is charged for memory that is not page cache, 20 times a second."""

    def __init__(self, group: Cgroup) -> None:
        self.bytes = 0
        self._group = group
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._end.wait(0.05):
            self.bytes = max(self.bytes, self._group.anonymous)

    def __enter__(self) -> AnonymousPeak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


@contextmanager
def cgroup(limit: int) -> Iterator[Cgroup]:
    """A cgroup limited to ``limit`` bytes without swap; SystemExit with advice if impossible."""
    try:
        group = make_group(limit)
    except OSError as error:
        raise SystemExit(f"{HOW} ({error})") from None
    try:
        yield group
    finally:
        for attempt in range(50):  # the kernel frees a killed process's memory a little later
            try:
                group.path.rmdir()
                break
            except OSError:
                if attempt == 49:
                    raise
                time.sleep(0.1)


def make_group(limit: int, root: Path = Path("/sys/fs/cgroup")) -> Cgroup:
    """A new group below ``root``, by the memory controller that is mounted there.

    Version 1 has it in a folder of its own, and may be there beside a version 2 that has not.

    Raises:
        OSError: there is none, or no group may be made.
    """
    name = f"aethergraph-benchmark-{os.getpid()}"
    v1 = root / "memory"
    if (v1 / "memory.limit_in_bytes").exists():
        group = Cgroup(v1 / name, 1)
        group.path.mkdir()
        (group.path / "memory.limit_in_bytes").write_text(str(limit))
        # where swap is counted: memory and swap together, so none at all
        swap = group.path / "memory.memsw.limit_in_bytes"
        if swap.exists():
            swap.write_text(str(limit))
        return group
    controllers = root / "cgroup.controllers"
    if not controllers.exists() or "memory" not in controllers.read_text().split():
        raise OSError("no memory controller")
    (root / "cgroup.subtree_control").write_text("+memory")
    group = Cgroup(root / name, 2)
    group.path.mkdir()
    (group.path / "memory.max").write_text(str(limit))
    swap = group.path / "memory.swap.max"
    if swap.exists():
        swap.write_text("0")
    return group


def parse_size(text: str) -> int:
    """Bytes of a text such as ``1536M`` or ``2G``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([MG])", text)
    if match is None:
        raise ValueError(f"{text!r}: give a size such as 1536M or 2G")
    return int(float(match[1]) * {"M": 2**20, "G": 2**30}[match[2]])
