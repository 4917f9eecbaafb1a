"""Building graph files within a memory budget: edges per second, peak memory, bytes written.

    [sudo] python benchmarks/build_bounded.py [--quick] [--edges 100M] [--memory 1G] [--kinds npy]

`convert` with a memory budget, beside `convert` in memory, and beside parsing the same file with
pyarrow, pandas or numpy and dropping what was read: the floor. Each run is a process of its own;
as root the runs with a budget are inside a cgroup with that limit, page cache included. The files
that both ways write are compared.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import common
import memory_limit
import numpy as np
from common import Cell, Report

KINDS = ("csv", "parquet", "npy")
BOUNDED, IN_MEMORY = "aethergraph, within the budget", "aethergraph, in memory"
PANDAS = "pandas, parsing alone"
FLOORS = {
    "csv": "pyarrow, parsing alone",
    "parquet": "pyarrow, parsing alone",
    "npy": "numpy, reading alone",
}
ROWS = 1 << 22

# ---- inputs ------------------------------------------------------------------------------------


def pieces(num_nodes: int, num_edges: int) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """Edges [n, 2] of a power-law graph, some at a time."""
    rng = np.random.Generator(np.random.PCG64(0))
    for begin in range(0, num_edges, ROWS):
        count = min(ROWS, num_edges - begin)
        ends = [common.power_law_ids(rng, num_nodes, count) for _ in range(2)]
        yield np.stack(ends, axis=1)


def write_input(path: Path, num_nodes: int, num_edges: int) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    schema = pa.schema({"src": pa.int64(), "dst": pa.int64()})
    part = path.with_name(f"part-{path.name}")
    if path.suffix == ".npy":
        rows = np.lib.format.open_memmap(part, "w+", np.int64, (num_edges, 2))
        for number, piece in enumerate(pieces(num_nodes, num_edges)):
            rows[number * ROWS : number * ROWS + len(piece)] = piece
        rows.flush()
    else:
        writer = pyarrow.csv.CSVWriter if path.suffix == ".csv" else pyarrow.parquet.ParquetWriter
        with writer(part, schema) as out:
            for piece in pieces(num_nodes, num_edges):
                out.write_table(pa.table([piece[:, 0], piece[:, 1]], schema))
    part.rename(path)


# ---- the contenders (child) ----------------------------------------------------------------------


def parse_alone(name: str, path: Path) -> None:
    if name == PANDAS:
        import pandas as pd

        for _ in pd.read_csv(path, chunksize=ROWS):
            pass
    elif path.suffix == ".npy":
        with path.open("rb", buffering=0) as file:
            buffer = bytearray(1 << 22)
            while file.readinto(buffer):
                pass
    elif path.suffix == ".parquet":
        import pyarrow.parquet

        for _ in pyarrow.parquet.ParquetFile(path, pre_buffer=False).iter_batches(1 << 18):
            pass
    else:
        import pyarrow.csv

        for _ in pyarrow.csv.open_csv(path):
            pass


def child(name: str, path: Path, output: Path, budget: str) -> None:
    from aethergraph.build import convert

    start = time.perf_counter()
    seconds: dict[str, float] = {}
    if name == BOUNDED:
        seconds = convert(path, output, memory_budget=budget, force=True).seconds
    elif name == IN_MEMORY:
        seconds = convert(path, output, force=True).seconds
    else:
        parse_alone(name, path)
    taken = time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "seconds": taken,
        "cpu": usage.ru_utime + usage.ru_stime,
        "stages": seconds,
        "peak": _number("/proc/self/status", r"VmHWM:\s*(\d+)") * 1024,
        "written": _number("/proc/self/io", r"\nwrite_bytes: (\d+)"),
        "read": _number("/proc/self/io", r"\nread_bytes: (\d+)"),
    }
    print(json.dumps(found))


def _number(path: str, pattern: str) -> int:
    match = re.search(pattern, Path(path).read_text("ascii"))
    return int(match.group(1)) if match else 0


# ---- the parent --------------------------------------------------------------------------------


def run(name: str, path: Path, output: Path, budget: str) -> dict[str, Any] | None:
    """What the child measured; None if it was killed."""
    limited = name == BOUNDED and os.geteuid() == 0
    limit = memory_limit.parse_size(budget)
    common.drop_from_cache(path)
    command = [sys.executable, __file__, "--child", name, str(path), str(output), budget]
    with memory_limit.cgroup(limit) if limited else nullcontext() as group:
        enter: Callable[[], None] | None = None if group is None else group.enter
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, preexec_fn=enter
        )
    if done.returncode < 0:
        return None
    if done.returncode:
        raise SystemExit(f"{name} of {path.name} failed")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def count(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if match is None:
        raise ValueError(f"{text!r}: give a count such as 100M or 1G")
    return int(match.group(1)) * {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}[match.group(2)]


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--edges", type=count, help="default: 100M")
    made.add_argument("--memory", default="1G", help="budget (default: %(default)s)")
    made.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    args = common.parse(made, argv)
    edges = args.edges or (100_000 if args.quick else 100_000_000)
    nodes = max(edges // 10, 10)
    report = Report("build_bounded", "Building within a memory budget", args)
    report.parameters = {"edges": edges, "nodes": nodes, "memory": args.memory}
    folder = args.dir / "build_bounded"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rows: list[list[Cell]] = []
    try:
        for kind in args.kinds:
            rows += measure(folder, kind, nodes, edges, args.memory, report)
    finally:
        shutil.rmtree(folder)
    load = os.getloadavg()
    report.table(
        f"{common.short(edges)} edges, {common.short(nodes)} nodes, budget {args.memory}",
        ["input", "by", "seconds", "M edges/s", "CPU seconds", "peak MiB", "MiB read",
         "MiB written", "same file"],
        rows,
    )  # fmt: skip
    report.note(
        "Files are dropped from the page cache before each run. CPU and load tell how busy the "
        f"machine was besides: load after the run {load[0]:.1f}, {load[1]:.1f} over 5 minutes."
    )
    if os.geteuid() != 0:
        report.note("Not root: the budget was not enforced by a cgroup; the peak shows it.")

    def draw(axes: Sequence[Any]) -> None:
        for axis, kind in zip(axes, args.kinds, strict=True):
            mine = [row for row in rows if row[0] == kind]
            values = [row[3] if isinstance(row[3], float) else None for row in mine]
            common.bars(axis, [str(row[1]) for row in mine], values, "million edges/s")
            axis.set_title(str(kind), fontsize=9)

    common.plot(report, len(args.kinds), draw)
    report.finish()


def measure(
    folder: Path, kind: str, nodes: int, edges: int, budget: str, report: Report
) -> list[list[Cell]]:
    path = folder / f"edges.{kind}"
    common.say(f"making {path.name}")
    write_input(path, nodes, edges)
    names = [BOUNDED, IN_MEMORY, FLOORS[kind]]
    if kind == "csv":
        names.append(PANDAS)
    outputs = {BOUNDED: folder / "bounded.aeg", IN_MEMORY: folder / "memory.aeg"}
    rows: list[list[Cell]] = []
    for name in names:
        if name == PANDAS and not common.importable("pandas"):
            rows.append([kind, name, *[None] * 7])
            continue
        common.say(f"{kind}: {name}")
        output = outputs.get(name, folder / "none")
        found = run(name, path, output, budget)
        if found is None:
            rows.append([kind, name, "killed", None, None, None, None, None, None])
            continue
        same = None if name not in outputs else "-"
        if name == IN_MEMORY and all(one.exists() for one in outputs.values()):
            same = "yes" if filecmp.cmp(*outputs.values(), shallow=False) else "NO"
        rows.append([
            kind, name, found["seconds"], edges / found["seconds"] / 1e6, found["cpu"],
            *(found[key] / 2**20 for key in ("peak", "read", "written")), same or "-",
        ])  # fmt: skip
        report.data[f"{kind}: {name}"] = found
    path.unlink()
    for output in outputs.values():
        output.unlink(missing_ok=True)
    return rows


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        child(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5])
    else:
        main()
