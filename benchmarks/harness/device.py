"""The block device below a file: what it has read so far, and what it can do at random."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness import common

PAGE = 4096
SIZES = tuple(PAGE << i for i in range(6))  # 4 to 128 KiB
MOST_AT_ONCE = 1 << 28  # bytes of the reads of one call


@dataclass(frozen=True)
class DeviceReads:
    """Reads of the whole machine from a device, since it was started."""

    reads: int
    bytes: int

    @classmethod
    def now(cls, path: Path) -> DeviceReads | None:
        """Of the device that ``path`` lies on; None for file systems without one."""
        file = device_folder(path) / "stat"
        if not file.exists():
            return None
        fields = file.read_text(encoding="ascii").split()
        return cls(int(fields[0]), 512 * int(fields[2]))


def device_folder(path: Path) -> Path:
    number = path.stat().st_dev
    return Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")


def read_ahead_note(path: Path) -> str:
    """How much the kernel reads around a page fault, unless it is advised."""
    folder = device_folder(path)
    for file in (folder / "queue/read_ahead_kb", folder.resolve().parent / "queue/read_ahead_kb"):
        if file.exists():  # of a partition: that of the disk
            kib = int(file.read_text(encoding="ascii"))
            return f"The kernel's read-ahead on this device is {common.size(kib * 1024)}."
    return "The kernel's read-ahead on this device is unknown."


def fio(path: Path, size: int, depth: int, seconds: float) -> dict[str, Any]:
    """fio's report on random direct reads of a file through io_uring."""
    done = subprocess.run(
        [
            "fio", "--name=reads", f"--filename={path}", "--readonly", "--rw=randread",
            f"--bs={size}", f"--iodepth={depth}", "--ioengine=io_uring", "--direct=1",
            f"--iodepth_batch_submit={depth // 4}", f"--iodepth_batch_complete_min={depth // 4}",
            f"--iodepth_batch_complete_max={depth}", "--randrepeat=0", "--norandommap",
            "--time_based", f"--runtime={round(seconds * 1000)}ms", "--output-format=json",
        ],
        capture_output=True, text=True, check=True, cwd=path.parent,
    )  # fmt: skip
    job: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return job


def fio_limits(path: Path, size: int, seconds: float) -> dict[str, float]:
    """Reads per second by depth; nothing where fio is missing or fails."""
    if not common.have("fio"):
        return {}
    try:
        return {
            f"fio, depth {depth}": float(fio(path, size, depth, seconds)["read"]["iops"])
            for depth in (64, 128)
        }
    except (OSError, subprocess.CalledProcessError) as error:
        common.say(f"fio: {error}")
        return {}


class RandomReads:
    """Random aligned reads past the page cache, 128 under way, by our engine."""

    def __init__(self, path: Path, size: int = PAGE) -> None:
        from aethergraph._native import FileReader, buffer_alloc

        self._reader = FileReader(path)
        self._size = size
        self._count = min(1 << 14, MOST_AT_ONCE // size)
        self._out = buffer_alloc(size * self._count)
        self._rng = np.random.default_rng(0)

    def per_second(self, seconds: float) -> float:
        """Reads per second, the median of calls of 16384 reads, or of as many as are 256 MiB."""
        found: list[float] = []
        end = time.perf_counter() + seconds
        while not found or time.perf_counter() < end:
            offsets = self._rng.integers(0, self._reader.size // self._size, self._count)
            offsets *= self._size
            start = time.perf_counter()
            self._reader.read(offsets, self._size, self._out)
            found.append(len(offsets) / (time.perf_counter() - start))
        return statistics.median(found)


class DeviceLimits:
    """Random reads per second by their size: what the device can do where nobody computes."""

    def __init__(self, path: Path) -> None:
        self._reads = {size: RandomReads(path, size) for size in SIZES}

    def measure(self, seconds: float) -> dict[int, float]:
        """Size in bytes -> reads per second; ``seconds`` for all of them."""
        each = seconds / len(SIZES)
        return {size: reads.per_second(each) for size, reads in self._reads.items()}


def share_of_device(
    limits: Mapping[int, float], reads: Iterable[tuple[int, int]], seconds: float
) -> float:
    """How much of ``seconds`` the device needs for some reads, were it never left waiting.

    The time of a read is 1 / (reads of its size per second), between the sizes that were measured
    by a straight line, above them in proportion to the size.

    Args:
        limits: size in bytes -> reads per second.
        reads: (number, bytes) of reads of about one size each.
        seconds: in which they were read.
    """
    sizes = sorted(limits)
    times = [1 / limits[size] for size in sizes]
    busy = 0.0
    for count, total in reads:
        if count:
            size = total / count
            beyond = max(1.0, size / sizes[-1])
            busy += count * beyond * float(np.interp(size, sizes, times))
    return busy / seconds


def left_in_cache(path: Path) -> int | None:
    """Bytes of a file that are in the page cache, if ``fincore`` is there to ask."""
    if not common.have("fincore"):
        return None
    done = subprocess.run(
        ["fincore", "--bytes", "--noheadings", "--output", "RES", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return int(done.stdout) if done.returncode == 0 else None
