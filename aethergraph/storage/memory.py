"""Byte sizes in users' notation, and the memory that this process may still take."""

from __future__ import annotations

import operator
import os
import re
from pathlib import Path
from typing import SupportsIndex

from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError, OutOfMemoryError

__all__ = ["available_memory", "check_memory", "format_size", "parse_size"]

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]?)(i?b)?\s*", re.IGNORECASE)
_LARGEST = (1 << 63) - 1
_WORTH_ASKING = 256 << 20
_NO_LIMIT = 1 << 60  # cgroup v1 writes "no limit" as a number near 2^63


def parse_size(size: SupportsIndex | str, name: str = "memory_budget") -> int:
    """Return the bytes of ``"1G"``, ``"512MiB"``, ``"1.5 gb"`` or a plain integer.

    Units are powers of 1024.

    Raises:
        InvalidArgumentError: not a size, negative, or above 2^63 - 1 bytes.
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        if match is None:
            raise InvalidArgumentError(
                f"{name} = {shown(size)} is not a size such as '512MiB' or '1G'"
            )
        return _bounded(_bytes_of(match.group(1), _UNITS[match.group(2).lower()]), size, name)
    try:
        count = None if isinstance(size, bool) else operator.index(size)
    except (TypeError, ValueError, RuntimeError):  # the others of tensors and arrays
        count = None
    if count is None:
        raise InvalidArgumentError(
            f"{name} must be bytes or a text like '1G', got {type(size).__name__}"
        )
    if count < 0:
        raise InvalidArgumentError(f"{name} = {count} is negative")
    return _bounded(count, count, name)


def _bytes_of(number: str, unit: int) -> int:
    try:
        return int(number) * unit if number.isdigit() else int(float(number) * unit)
    except (OverflowError, ValueError):  # too many digits for int or float
        return _LARGEST + 1


def _bounded(count: int, size: int | str, name: str) -> int:
    if count > _LARGEST:
        raise InvalidArgumentError(f"{name} = {shown(size)} is above 2**63 - 1 bytes")
    return count


def format_size(size: int) -> str:
    """Return ``size`` bytes in people's notation: ``"1.5 GiB"``."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{int(value)} B" if unit == "B" else f"{value:.1f} {unit}"


def available_memory() -> int:
    """Return the bytes that this process may still take without swapping or a cgroup limit."""
    free = [_meminfo_available()]
    for folder, limit, usage, cache in _cgroup_folders():
        room = _cgroup_room(folder, limit, usage, cache)
        if room is not None:
            free.append(room)
    return max(0, min(free))


def check_memory(size: int, noun: str) -> None:
    """Raise unless there is memory for ``size`` bytes, which the system would hand out unseen.

    Raises:
        OutOfMemoryError: names ``noun`` and both sizes.
    """
    if size < _WORTH_ASKING:
        return
    room = available_memory()
    if size > room:
        raise OutOfMemoryError(
            f"{noun} would take {format_size(size)}, and {format_size(room)} are available"
        )


def _meminfo_available() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):
        return 0


def _cgroup_folders() -> list[tuple[Path, str, str, tuple[str, str]]]:
    """Return the memory cgroups of this process, innermost first, of both cgroup versions.

    With each come the names of its limit, of its use, and of the page cache in its statistics.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    folders = []
    for line in lines:
        _, _, tail = line.partition(":")
        controllers, _, path = tail.partition(":")
        if controllers == "":
            root = Path("/sys/fs/cgroup")
            names = ("memory.max", "memory.current", ("inactive_file", "active_file"))
        elif "memory" in controllers.split(","):
            root = Path("/sys/fs/cgroup/memory")
            files = ("total_inactive_file", "total_active_file")
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", files)
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        # In a container the path may be the host's: its parents lead to the visible root.
        for depth in range(len(parts), -1, -1):
            folders.append((root.joinpath(*parts[:depth]), *names))
    return folders


def _cgroup_room(folder: Path, limit: str, usage: str, cache: tuple[str, str]) -> int | None:
    try:
        max_bytes = int((folder / limit).read_text())
        used = int((folder / usage).read_text())
        stat = (folder / "memory.stat").read_text()
    except (OSError, ValueError):  # the file is absent, or the limit is "max"
        return None
    if max_bytes >= _NO_LIMIT:
        return None
    reclaimable = 0
    for line in stat.splitlines():
        name, _, value = line.partition(" ")
        if name in cache and value.isdigit():
            reclaimable += int(value)
    return max_bytes - used + reclaimable
