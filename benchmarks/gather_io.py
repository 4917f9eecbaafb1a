"""Gathering rows of a file that is larger than memory: cold speed, and hits of the cache.

    sudo python benchmarks/gather_io.py [--quick] [--limit 512M]

Cold: rows of 512 bytes of a file five times the memory limit of a cgroup, which each contender
starts in, with the file dropped from the page cache: batches of random rows, uniformly drawn. The
device's limit is the best rate of random 512-byte reads in the same run: that of our reader, or of
fio if it is there.

Cached: the rows of batches sampled from a power-law graph, gathered within budgets for some share
of all rows: S3-FIFO, a hot set by degree, and both, against Belady's optimum for as many rows on
the same trace. Hits are counted over the second half of the trace.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import common
import numpy as np
from cgroups import cgroup, parse_size
from common import Report, say
from numpy.typing import NDArray
from optimum import belady_hits

from aethergraph import FeatureStore, Graph, NeighborSampler
from aethergraph._binding import FileReader, buffer_alloc, io_problem

WIDTH, ROW = 128, 512  # float32
RING, POOL = "aethergraph uring", "aethergraph uring, by pread"
MAPPED, MEMMAP, DEVICE = "aethergraph mmap", "numpy memmap", "device: 512-byte reads"
FIO_DEPTHS = (64, 128)
FANOUTS, BATCH = [15, 10], 1024
SHARES = (0.05, 0.1, 0.25)

Ids = NDArray[np.int64]


# ---- cold: the contenders (child) --------------------------------------------------------------


def opened(name: str, path: Path, budget: int) -> Any:
    """A function that gets ids and gathers them."""
    if name == DEVICE:
        reader = FileReader(path)
        num_blocks = reader.size // ROW
        out = buffer_alloc(1 << 28)
        return lambda ids: reader.read(ids % num_blocks * ROW, ROW, out[: len(ids) * ROW])
    if name == MEMMAP:
        rows = np.load(path, mmap_mode="r")
        return lambda ids: rows[ids]
    if name == MAPPED:
        return FeatureStore.load(path).gather
    return FeatureStore.load(path, "uring", memory_budget=budget).gather


def gather_cold(name: str, path: Path, budget: int, size: int, seconds: float, seed: int) -> None:
    """Gather batches for some seconds; one line of JSON on stdout."""
    num_rows = len(np.load(path, mmap_mode="r"))
    gather = opened(name, path, budget)
    rng = np.random.default_rng(seed)
    gather(rng.integers(0, num_rows, 16))
    rows, batch = 0, size if name not in (MAPPED, MEMMAP) else max(1, size // 50)
    cpu, start = time.process_time(), time.perf_counter()
    while time.perf_counter() - start < seconds:
        gather(rng.integers(0, num_rows, batch))
        rows += batch
    passed = time.perf_counter() - start
    print(json.dumps({"rows_per_second": rows / passed,
                      "cpu_us": (time.process_time() - cpu) * 1e6 / rows}))  # fmt: skip


def measure_fio(path: Path, depth: int, seconds: float) -> dict[str, float]:
    done = subprocess.run(
        [
            "fio", "--name=reads", f"--filename={path}", "--readonly", "--rw=randread",
            f"--bs={ROW}", f"--iodepth={depth}", "--ioengine=io_uring", "--direct=1",
            f"--iodepth_batch_submit={depth // 4}", f"--iodepth_batch_complete_min={depth // 4}",
            f"--iodepth_batch_complete_max={depth}", "--randrepeat=0", "--norandommap",
            "--time_based", f"--runtime={round(seconds * 1000)}ms", "--output-format=json",
        ],
        capture_output=True, text=True, check=True, cwd=path.parent,
    )  # fmt: skip
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    reads = job["read"]["iops"]
    return {"rows_per_second": reads,
            "cpu_us": (job["usr_cpu"] + job["sys_cpu"]) / 100 * 1e6 / reads}  # fmt: skip


# ---- cold: the parent --------------------------------------------------------------------------


def make_file(folder: Path, num_bytes: int) -> Path:
    """Rows of 512 bytes in numpy's format."""
    path = folder / f"rows-{num_bytes >> 20}.npy"
    if not path.exists():
        rng = np.random.default_rng(0)
        part = path.with_suffix(".part")
        shape = (num_bytes // ROW, WIDTH)
        rows = np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=shape)
        for start in range(0, len(rows), 1 << 16):
            rows[start : start + (1 << 16)] = rng.random((min(1 << 16, len(rows) - start), WIDTH))
        rows.flush()
        part.rename(path)
    return path


def run_cold(
    name: str, path: Path, limit: int, budget: int, size: int, seconds: float, seed: int
) -> dict[str, Any]:
    common.drop_from_cache(path)
    if name.startswith("fio"):
        return measure_fio(path, int(name.split()[-1]), seconds)
    tier = "pread" if name == POOL else "auto"
    command = [sys.executable, __file__, "--cold", name, str(path)]
    command += [str(value) for value in (budget, size, seconds, seed)]
    with cgroup(limit) as group:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=group.enter,
            env={**os.environ, "AETHERGRAPH_IO": tier},
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return {**found, "peak": group.peak}


def cold(report: Report, args: Any, limit: int) -> None:
    path = make_file(args.dir, 5 * limit)
    budget = limit // 4
    size, rounds, seconds = (5_000, 1, 0.3) if args.quick else (100_000, 5, 4.0)
    names = [DEVICE, RING, POOL, MAPPED, MEMMAP]
    if io_problem("uring") is not None:
        report.note(f"io_uring is missing, {RING!r} is left out: {io_problem('uring')}")
        names.remove(RING)
    if shutil.which("fio"):
        names += [f"fio, depth {depth}" for depth in FIO_DEPTHS]
    else:
        report.note("fio is not installed: the device's limit is what our reader reaches")
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            say(f"cold, round {number + 1}: {name}")
            results[name].append(run_cold(name, path, limit, budget, size, seconds, number))
    speed = {
        name: statistics.median(one["rows_per_second"] for one in found)
        for name, found in results.items()
    }
    best = max(value for name, value in speed.items() if name == DEVICE or name.startswith("fio"))
    report.data["cold"] = {"limit_per_second": best, "contenders": results}
    report.parameters.update(limit=limit, file_bytes=path.stat().st_size, budget=budget,
                             rows_per_gather=size, rounds=rounds)  # fmt: skip
    report.table(
        f"cold: file {common.size(5 * limit)}, limit {common.size(limit)}, budget "
        f"{common.size(budget)}, {size:,} random rows of {ROW} bytes per gather (mapped: a "
        "fiftieth); medians of the rounds",
        ["contender", "rows/s", "of the device's limit", "processor µs per row", "peak charged"],
        [
            [name, speed[name], speed[name] / best,
             statistics.median(one["cpu_us"] for one in found),
             common.size(max(one["peak"] for one in found)) if "peak" in found[0] else "-"]
            for name, found in results.items()
        ],
    )  # fmt: skip


# ---- cached --------------------------------------------------------------------------------------


def sample_trace(graph: Graph, num_batches: int) -> list[Ids]:
    sampler = NeighborSampler(graph, FANOUTS)
    seeds = np.random.default_rng(7).permutation(graph.num_nodes)
    starts = [i * BATCH % max(1, graph.num_nodes - BATCH) for i in range(num_batches)]
    return [sampler.sample(seeds[at : at + BATCH], i).node for i, at in enumerate(starts)]


def hit_rate(path: Path, batches: Sequence[Ids], **options: Any) -> tuple[float, int]:
    """Over the second half of the batches; and how many rows the cache holds."""
    store = FeatureStore.load(path, "uring", **options)
    half = len(batches) // 2
    for ids in batches[:half]:
        store.gather(ids)
    before = store.stats()
    for ids in batches[half:]:
        store.gather(ids)
    after = store.stats()
    return (after.hits - before.hits) / (after.rows - before.rows), after.frames


def cached(report: Report, args: Any) -> None:
    files = common.power_law_graph(args.dir, 20_000 if args.quick else 1_000_000)
    path = make_file(args.dir, files.num_nodes * ROW)
    graph = Graph.load(files.graph)
    batches = sample_trace(graph, 12 if args.quick else 60)
    trace = np.concatenate(batches)
    begin = sum(map(len, batches[: len(batches) // 2]))
    degree = np.bincount(graph.csc()[1], minlength=graph.num_nodes)  # how many lists hold a node
    rows, cases = [], []
    for share in SHARES:
        say(f"cached: {share:.0%} of the rows")
        budget = int(share * files.num_nodes * (ROW + 48)) + (
            8 << 20 if not args.quick else 2 << 20
        )
        fifo, frames = hit_rate(path, batches, memory_budget=budget)
        hot, _ = hit_rate(path, batches, memory_budget=budget, frequency=degree, hot_share=1.0)
        both, _ = hit_rate(path, batches, memory_budget=budget, frequency=degree, hot_share=0.9)
        best = belady_hits(trace, frames, begin) / (len(trace) - begin)
        cases.append({"share": frames / files.num_nodes, "budget": budget, "s3_fifo": fifo,
                      "hot": hot, "both": both, "belady": best})  # fmt: skip
        rows.append([f"{frames / files.num_nodes:.1%}", common.size(budget), fifo, hot, both, best,
                     max(fifo, hot, both) / best if best else "-"])  # fmt: skip
    report.data["cached"] = cases
    report.table(
        f"hit rates: {files.num_nodes:,} nodes, batches of {BATCH} seeds, fanouts {FANOUTS}, "
        f"{len(trace) // len(batches):,} rows each",
        ["of the rows in the cache", "budget", "S3-FIFO", "hot set by degree", "nine tenths hot",
         "Belady", "best of ours / Belady"],
        rows,
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--limit", type=parse_size, help="bytes, such as 1G (default: 512M)")
    args = common.parse(made, argv)
    with cgroup(2**30):  # can we? before files are made
        pass
    limit = args.limit or (200 * 2**20 if args.quick else 512 * 2**20)
    report = Report("gather_io", "Gathering rows of a file larger than memory", args)
    cached(report, args)
    cold(report, args, limit)
    report.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--cold"]:
        gather_cold(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]),
                    float(sys.argv[6]), int(sys.argv[7]))  # fmt: skip
    else:
        main()
