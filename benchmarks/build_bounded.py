"""Building graph files within a memory budget: edges per second, peak memory, bytes written.

    [sudo] python benchmarks/build_bounded.py [--quick] [--edges 1G] [--times 4] [--memory 1G]

`convert` with a memory budget, beside `convert` in memory where that fits, and beside parsing the
same file with pyarrow, pandas or numpy and dropping what was read: the floor. Each run is a process
of its own; as root the runs with a budget are inside a cgroup with that limit, page cache included.
With ``--times 4`` the file holds a quarter of the edges and is given four times, for disks that do
not hold more.

What was built within the budget is checked: the sums in the file, that all edges of the input are
there and no others (by a sum of hashes), and some lists edge by edge. A file built in memory has
to be the same, byte for byte.
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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.cgroups import AnonymousPeak, cgroup, parse_size
from harness.common import Cell, Report
from harness.disk import DiskPeak
from numpy.typing import NDArray

KINDS = ("csv", "parquet", "npy")
BOUNDED, IN_MEMORY = "aethergraph, within the budget", "aethergraph, in memory"
PANDAS = "pandas, parsing alone"
FLOORS = {
    "csv": "pyarrow, parsing alone",
    "parquet": "pyarrow, parsing alone",
    "npy": "numpy, reading alone",
}
ROWS = 1 << 22
IN_MEMORY_BYTES = 40  # per edge: both ends, the result, what numpy needs between
CHECKED_LISTS = 2000
Ids = NDArray[np.int64]

# ---- inputs ------------------------------------------------------------------------------------


def pieces(num_nodes: int, num_edges: int) -> Iterator[Ids]:
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


def child(name: str, path: Path, times: int, output: Path, budget: str) -> None:
    from aethergraph.convert import convert

    start = time.perf_counter()
    seconds: dict[str, float] = {}
    if name == BOUNDED:
        seconds = convert([path] * times, output, memory_budget=budget, force=True).seconds
    elif name == IN_MEMORY:
        seconds = convert([path] * times, output, force=True).seconds
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


@dataclass(frozen=True)
class Setting:
    """What all runs have in common: ``times`` times the file make ``edges``."""

    folder: Path
    nodes: int
    edges: int
    times: int
    budget: str

    @property
    def rows(self) -> int:
        return self.edges // self.times


def run(name: str, path: Path, output: Path, setting: Setting) -> dict[str, Any] | None:
    """What the child measured; None if it was killed."""
    common.drop_from_cache(path)
    load = os.getloadavg()[0]
    command = [sys.executable, __file__, "--child", name, str(path), str(setting.times)]
    command += [str(output), setting.budget]
    charged: dict[str, Any] = {}
    places = (f"{output.name}.building/*", f".{output.name}*")
    with DiskPeak(output.parent, places) as disk, ExitStack() as stack:
        enter = None
        if name == BOUNDED and os.geteuid() == 0:
            group = stack.enter_context(cgroup(parse_size(setting.budget)))
            anonymous = stack.enter_context(AnonymousPeak(group))
            enter = group.enter
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, preexec_fn=enter
        )
        if enter is not None:
            charged = {"cgroup_peak": group.peak, "anonymous_peak": anonymous.bytes}
    if done.returncode < 0:
        return None
    if done.returncode:
        raise SystemExit(f"{name} of {path.name} failed")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, **charged, "disk": disk.bytes, "load_before": load}


# ---- is it right? --------------------------------------------------------------------------------


def hash_sum(src: NDArray[Any], dst: NDArray[Any]) -> int:
    """The sum of a number per edge that depends on both ends, modulo 2^64."""
    mixed = src.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed += dst.astype(np.uint64)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return int(mixed.sum(dtype=np.uint64))


def check(path: Path, setting: Setting) -> None:
    """The file holds the edges of the input, as often as it was given, in the order of the input.

    Some lists are compared edge by edge, those of the nodes with most edges among them.
    """
    from aethergraph import Graph

    chosen = np.random.default_rng(1).integers(0, setting.nodes, CHECKED_LISTS)
    chosen[:10] = np.arange(10) * common.rank_step(setting.nodes) % setting.nodes
    wanted = np.zeros(setting.nodes, np.bool_)
    wanted[chosen] = True
    sum_of_input, some = 0, []
    for piece in pieces(setting.nodes, setting.rows):
        sum_of_input += hash_sum(piece[:, 0], piece[:, 1])
        some.append(piece[wanted[piece[:, 1]]])
    edges = np.concatenate(some)
    edges = edges[np.argsort(edges[:, 1], kind="stable")]
    with Graph.load(path, storage="mmap") as graph:
        graph.verify()
        if graph.num_edges != setting.edges or graph.num_nodes > setting.nodes:
            raise SystemExit(f"{path}: {graph.num_nodes} nodes, {graph.num_edges} edges")
        for node in np.unique(chosen[chosen < graph.num_nodes]):
            begin, end = np.searchsorted(edges[:, 1], [node, node + 1])
            expected = np.tile(edges[begin:end, 0], setting.times)
            if not np.array_equal(graph.in_neighbors(int(node)), expected):
                raise SystemExit(f"{path}: the list of node {node} is not that of the input")
        indptr, indices = graph.csc()
        sum_of_file = 0
        for first in range(0, graph.num_nodes, 1 << 18):
            ends = np.asarray(indptr[first : first + (1 << 18) + 1], np.int64)
            dst = np.repeat(np.arange(first, first + len(ends) - 1), np.diff(ends))
            sum_of_file += hash_sum(np.asarray(indices[ends[0] : ends[-1]]), dst)
    if (sum_of_input * setting.times - sum_of_file) % 2**64:
        raise SystemExit(f"{path}: the edges are not those of the input")


# ---- the report ----------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--edges", type=common.parse_count, help="such as 100M or 1G (default: 100M)")
    made.add_argument("--times", type=int, default=1, help="how often the file is given")
    made.add_argument("--memory", default="1G", help="budget (default: %(default)s)")
    made.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    args = common.parse(made, argv)
    edges = args.edges or (100_000 if args.quick else 100_000_000)
    edges -= edges % args.times
    folder = args.dir / "build_bounded"
    setting = Setting(folder, max(edges // 10, 10), edges, args.times, args.memory)
    report = Report("build_bounded", "Building within a memory budget", args)
    report.parameters = {
        "edges": edges, "nodes": setting.nodes, "times": args.times, "memory": args.memory,
    }  # fmt: skip
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rows: list[list[Cell]] = []
    try:
        for kind in args.kinds:
            rows += measure(kind, setting, report)
    finally:
        shutil.rmtree(folder)
    report.table(
        f"{common.short(edges)} edges, {common.short(setting.nodes)} nodes, budget {args.memory}",
        ["input", "by", "seconds", "M edges/s", "CPU seconds", "CPU ns per edge", "peak resident",
         "of it anonymous, by the cgroup", "disk peak", "bytes of disk per edge", "read", "written",
         "load before", "checked"],
        rows,
    )  # fmt: skip
    if args.times > 1:
        report.note(f"The file has {common.short(setting.rows)} edges and is given {args.times} "
                    "times; parsing alone reads it once.")  # fmt: skip
    report.note(
        "Files are dropped from the page cache before each run. The disk peak is what work files "
        "and output take together, the input not. CPU seconds and load tell how busy the machine "
        "was besides."
    )
    if os.geteuid() != 0:
        report.note("Not root: the budget was not enforced by a cgroup; the peak shows it.")
    else:
        report.note("The cgroup's limit is the budget; the page cache counts and may fill it.")

    def draw(axes: Sequence[Any]) -> None:
        for axis, kind in zip(axes, args.kinds, strict=True):
            mine = [row for row in rows if row[0] == kind]
            values = [row[3] if isinstance(row[3], float) else None for row in mine]
            common.bars(axis, [str(row[1]) for row in mine], values, "million edges/s")
            axis.set_title(str(kind), fontsize=9)

    common.plot(report, len(args.kinds), draw)
    report.finish()


def measure(kind: str, setting: Setting, report: Report) -> list[list[Cell]]:
    path = setting.folder / f"edges.{kind}"
    common.say(f"making {path.name}")
    write_input(path, setting.nodes, setting.rows)
    names = [BOUNDED, IN_MEMORY, FLOORS[kind]]
    if kind == "csv":
        names.append(PANDAS)
    outputs = {name: setting.folder / f"{i}.aeg" for i, name in enumerate((BOUNDED, IN_MEMORY))}
    rows: list[list[Cell]] = []
    for name in names:
        if name == PANDAS and not common.importable("pandas"):
            rows.append([kind, name, *[None] * 12])
            continue
        if name == IN_MEMORY and IN_MEMORY_BYTES * setting.edges > common.available_memory():
            rows.append([kind, name, "does not fit", *["-"] * 11])
            continue
        common.say(f"{kind}: {name}")
        output = outputs.get(name, setting.folder / "none")
        found = run(name, path, output, setting)
        if found is None:
            rows.append([kind, name, "killed", *["-"] * 11])
            continue
        checked = "-"
        if name == BOUNDED:
            common.say("checking")
            check(output, setting)
            checked = "yes"
        elif name == IN_MEMORY and outputs[BOUNDED].exists():
            same = filecmp.cmp(*outputs.values(), shallow=False)
            checked = "the same file" if same else "ANOTHER FILE"
        edges = setting.edges if name in outputs else setting.rows
        rows.append([
            kind, name, found["seconds"], edges / found["seconds"] / 1e6, found["cpu"],
            1e9 * found["cpu"] / edges, common.size(found["peak"]),
            common.size(found["anonymous_peak"]) if "anonymous_peak" in found else "-",
            common.size(found["disk"]), found["disk"] / edges,
            *(common.size(found[key]) for key in ("read", "written")), found["load_before"],
            checked,
        ])  # fmt: skip
        report.data[f"{kind}: {name}"] = found
    path.unlink()
    for output in outputs.values():
        output.unlink(missing_ok=True)
    return rows


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        name, path, times, output, budget = sys.argv[2:]
        child(name, Path(path), int(times), Path(output), budget)
    else:
        main()
