"""Random reads past the page cache: io_uring, threads with pread, one pread at a time, and fio.

    python benchmarks/io.py [--quick]

Each contender reads the same random, aligned ranges of a file on the disk that --dir lies on, in
turns. The device's limit is the best that fio reaches in the same run with a few depths (without
fio: the best of all contenders). Processor time is that of the whole process, threads included.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Report
from harness.device import fio
from numpy.typing import NDArray

from aethergraph._native import FileReader, buffer_alloc, io_problem

SIZES = (512, 4096, 65536)
FIO_DEPTHS = (32, 64, 128)
ONE, POOL, RING, FIO = "one pread at a time", "aethergraph pread", "aethergraph io_uring", "fio"


@dataclass
class Measured:
    """A value for each round."""

    reads_per_second: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


def make_file(folder: Path, num_bytes: int) -> Path:
    """Random bytes, on the disk and not in the page cache."""
    path = folder / f"random-{num_bytes >> 20}.bin"
    if not path.exists():
        rng = np.random.default_rng(0)
        with path.with_suffix(".part").open("wb") as file:
            for _ in range(num_bytes >> 22):
                file.write(rng.bytes(1 << 22))
        path.with_suffix(".part").rename(path)
    common.drop_from_cache(path)
    return path


def open_readers(path: Path) -> dict[str, FileReader]:
    readers = {
        ONE: FileReader(path, tier="pread", depth=1),
        POOL: FileReader(path, tier="pread"),
    }
    if io_problem("uring") is None:
        readers[RING] = FileReader(path, tier="uring")
    return readers


def measure_reader(
    reader: FileReader, offsets: NDArray[np.int64], size: int, out: NDArray[np.uint8], to: Measured
) -> None:
    cpu, start = time.process_time(), time.perf_counter()
    reader.read(offsets, size, out)
    to.reads_per_second.append(len(offsets) / (time.perf_counter() - start))
    to.cpu_us.append((time.process_time() - cpu) * 1e6 / len(offsets))


def measure_fio(path: Path, size: int, depth: int, seconds: float, to: Measured) -> None:
    job = fio(path, size, depth, seconds)
    reads = job["read"]["iops"]
    to.reads_per_second.append(reads)
    to.cpu_us.append((job["usr_cpu"] + job["sys_cpu"]) / 100 * 1e6 / reads)


def measure(
    path: Path, readers: dict[str, FileReader], size: int, count: int, rounds: int, seconds: float
) -> dict[str, Measured]:
    rng = np.random.default_rng(size)
    by_fio = [f"{FIO}, depth {depth}" for depth in FIO_DEPTHS] if shutil.which("fio") else []
    results = {name: Measured() for name in [*readers, *by_fio]}
    out = buffer_alloc(count * size)
    names = list(results)
    for number in range(-1, rounds):
        offsets = rng.integers(0, path.stat().st_size // size, count) * size
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            to = results[name] if number >= 0 else Measured()
            if name in readers:
                few = offsets[: count // 8] if name == ONE else offsets
                measure_reader(readers[name], few, size, out, to)
            elif number >= 0:
                try:
                    measure_fio(path, size, int(name.split()[-1]), seconds, to)
                except (OSError, subprocess.CalledProcessError) as error:
                    common.say(f"{name}: {error}")
                    names.remove(name)
                    results.pop(name)
    return results


def main(argv: Sequence[str] | None = None) -> None:
    args = common.parse(common.parser(__doc__), argv)
    report = Report("io", "Random reads past the page cache", args)
    path = make_file(args.dir, (32 << 20) if args.quick else (4 << 30))
    count, rounds, seconds = (512, 2, 0.2) if args.quick else (16_384, 9, 1.0)
    readers = open_readers(path)
    rows: list[list[common.Cell]] = []
    shares: dict[int, dict[str, float]] = {}
    cases: list[dict[str, Any]] = []
    for size in SIZES:
        results = measure(path, readers, size, min(count, (256 << 20) // size), rounds, seconds)
        speed = {name: statistics.median(one.reads_per_second) for name, one in results.items()}
        limit = max([v for name, v in speed.items() if name.startswith(FIO)] or speed.values())
        shares[size] = {name: value / limit for name, value in speed.items()}
        for name, one in results.items():
            rows.append([
                common.size(size), name, speed[name], speed[name] * size / 1e6,
                statistics.median(one.cpu_us), speed[name] / limit, speed[name] / speed[ONE],
            ])  # fmt: skip
        cases.append({
            "size": size, "limit": limit,
            "contenders": {name: vars(one) for name, one in results.items()},
        })  # fmt: skip
    report.parameters = {"file_bytes": path.stat().st_size, "reads": count, "rounds": rounds}
    report.data = {
        "direct": {name: reader.direct for name, reader in readers.items()},
        "max_in_flight": {name: reader.stats().max_in_flight for name, reader in readers.items()},
        "cases": cases,
    }
    report.table(
        "medians of the rounds",
        ["read", "contender", "reads/s", "MB/s", "processor µs per read", "of the limit",
         f"times {ONE}"],
        rows,
    )  # fmt: skip
    if not all(reader.direct for reader in readers.values()):
        report.note("this file system has no direct reads: these went through the page cache")
    if RING not in readers:
        report.note(f"io_uring is missing: {io_problem('uring')}")
    if not shutil.which("fio"):
        report.note("fio is not installed: the limit is the best of the contenders")

    def draw(axes: Sequence[Any]) -> None:
        for axis, (size, share) in zip(axes, shares.items(), strict=True):
            common.bars(axis, list(share), list(share.values()), "reads/s, of the device's limit")
            axis.set_title(f"random reads of {common.size(size)}", fontsize=9)

    common.plot(report, len(SIZES), draw)
    report.finish()
    for reader in readers.values():
        reader.close()


if __name__ == "__main__":
    main()
