"""Gathering rows of 512 bytes from a file 5 times larger than the memory allowed (root, cgroups).

    sudo python benchmarks/outofcore_gather.py [--quick] [--limit 1536M] [--rounds 3]

Two sequences of batches: "uniform" asks for any rows, so that hardly any comes twice and only the
device counts; "batches" asks for the nodes of GraphSAGE batches sampled from the labelled graph of
train_beyond_memory.py, some of which come again and again. Every contender is a process in a fresh
cgroup, and the file is dropped from the page cache before.

Beside them: the device's random reads of 512 bytes, measured around every run by our reader, at
the start by fio too if it is installed; and the hits of Belady's algorithm, which knows the future,
with room for as many rows as our cache has.

A third table compares kinds of caches on batches of a power-law graph, for some shares of all rows:
S3-FIFO, a hot set by degree, and both, against Belady. Hits there count over the second half.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contenders.outofcore_samplers import Missing, device_bytes
from harness import common
from harness.cgroups import AnonymousPeak, cgroup, parse_size
from harness.common import Ratio, Report
from harness.device import DeviceReads, RandomReads, fio_limits, read_ahead_note
from harness.optimum import belady_hits
from numpy.typing import NDArray
from train_beyond_memory import make_files

ROW_BYTES = 512
MEMMAP, MMAP = "numpy memmap", "aethergraph mmap"
URING, POOL = "aethergraph uring", "aethergraph uring, by pread"
HOT = "aethergraph uring, hot rows by degree"
UNIFORM, BATCHES = "uniform", "batches"
NAMES = {  # without skew no row is hot
    UNIFORM: (MEMMAP, MMAP, URING, POOL),
    BATCHES: (MEMMAP, MMAP, URING, HOT),
}
SHARES = (0.05, 0.1, 0.25)  # of the rows, in the caches that are compared
FANOUTS, BATCH = [15, 10], 256
FAULTED_ROWS = 256  # gathered at once by those who wait for each page anyway
Ids = NDArray[np.int64]


# ---- a contender (child) -----------------------------------------------------------------------


def open_rows(name: str, path: str, budget: int) -> tuple[Callable[[Ids], Any], Callable[[], Any]]:
    """(gather, the engine's own counts)."""
    from aethergraph import FeatureTable

    if name == MEMMAP:
        rows = FeatureTable.load(path).array
        plain = np.memmap(path, rows.dtype, "r", offset=data_offset(Path(path)), shape=rows.shape)
        return (lambda ids: plain[ids]), dict
    if name == MMAP:
        return FeatureTable.load(path).gather, dict
    options: dict[str, Any] = {"storage": "uring", "memory_budget": budget}
    if name == HOT:
        options["frequency"] = np.load(Path(path).with_name("out-degrees.npy"))
    try:
        store: Any = FeatureTable.load(path, **options)
    except (TypeError, ValueError) as error:
        if "storage" not in str(error) and "frequency" not in str(error):
            raise
        raise Missing(str(error)) from None
    return store.gather, lambda: dict(store.stats()._asdict())


def data_offset(path: Path) -> int:
    """Where the rows of a feature file begin."""
    from aethergraph import _native as native

    sections = native.NativeFile(path).sections()
    return next(s.offset for s in sections if s.kind == native.SECTION_ARRAY)


def child(config: dict[str, Any]) -> None:
    try:
        gather, count = open_rows(config["contender"], config["path"], config["budget"])
    except Missing as reason:
        print(f"missing: {reason}", flush=True)
        return
    ids, ends = (np.load(config["trace"] + f"-{part}.npy") for part in ("ids", "ends"))
    print("ready", flush=True)
    device, cpu, start = device_bytes(), time.process_time(), time.perf_counter()
    rows = 0
    checksum = 0.0
    for piece in pieces(ids, ends, FAULTED_ROWS if "uring" not in config["contender"] else None):
        checksum += float(gather(piece)[:, 0].sum(dtype=np.float64))
        rows += len(piece)
        if time.perf_counter() - start > config["seconds"]:
            break
    seconds = time.perf_counter() - start
    print(json.dumps({
        "seconds": seconds, "cpu_seconds": time.process_time() - cpu, "rows": rows,
        "device_bytes": device_bytes() - device, "checksum": checksum,
        "major_faults": resource.getrusage(resource.RUSAGE_SELF).ru_majflt, "counts": count(),
    }))  # fmt: skip


def pieces(ids: Ids, ends: Ids, longest: int | None) -> Iterator[Ids]:
    """The batches, or parts of them where a whole one might take minutes of page faults."""
    begin = 0
    for end in ends.tolist():
        step = longest or end - begin
        for at in range(begin, end, step):
            yield ids[at : min(at + step, end)]
        begin = end


# ---- what is asked for -------------------------------------------------------------------------


def make_trace(folder: Path, kind: str, num_rows: int, num_batches: int) -> Path:
    """``KIND-ids.npy``, the rows of all batches, and ``KIND-ends.npy``.

    "batches" are epochs over a few training nodes, a thousandth of all, in ever new order.
    """
    path = folder / f"trace-{kind}-{num_batches}"
    if Path(f"{path}-ends.npy").exists():
        return path
    rng = np.random.default_rng(5)
    parts: list[Ids] = []
    if kind == UNIFORM:
        parts = [rng.integers(0, num_rows, 65_536) for _ in range(num_batches)]
    else:
        from aethergraph import Graph, NeighborSampler

        # From a copy in memory: the page cache of the mapped graph would be pushed out.
        graph = Graph.load(folder / "graph.bin", storage="memory")
        degrees = np.bincount(graph.csc()[1], minlength=num_rows)
        np.save(folder / "out-degrees.npy", degrees.astype(np.uint32))
        train = rng.choice(num_rows, max(num_rows // 1000, BATCH), replace=False)
        sampler = NeighborSampler(graph, FANOUTS)
        while len(parts) < num_batches:
            for seeds in np.array_split(rng.permutation(train), -(-len(train) // BATCH)):
                parts.append(sampler.sample(seeds, key=len(parts)).node)
        parts = parts[:num_batches]
    np.save(f"{path}-ids.npy", np.concatenate(parts))
    np.save(f"{path}-ends.npy", np.cumsum([len(part) for part in parts]))
    return path


# ---- the parent --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    path: Path
    limit: int
    budget: int
    seconds: float
    device_seconds: float


def run(name: str, trace: Path, setting: Setting, device: RandomReads) -> dict[str, Any] | str:
    """One run in a fresh cgroup between two measurements of the device; a text: missing, why."""
    config = {
        "contender": name, "path": str(setting.path), "trace": str(trace),
        "budget": setting.budget, "seconds": setting.seconds,
    }  # fmt: skip
    common.drop_from_cache(setting.path)
    load, limits = os.getloadavg()[0], [device.per_second(setting.device_seconds)]
    with cgroup(setting.limit) as group, AnonymousPeak(group) as anonymous:
        process = subprocess.Popen(
            [sys.executable, __file__, "--gather", json.dumps(config)],
            stdout=subprocess.PIPE, text=True, preexec_fn=group.enter,
            env={**os.environ, "AETHERGRAPH_IO": "pread" if name == POOL else "auto"},
        )  # fmt: skip
        assert process.stdout is not None
        first = process.stdout.readline()
        before = DeviceReads.now(setting.path)
        last = process.stdout.readline()
        after = DeviceReads.now(setting.path)
        status = process.wait()
        process.stdout.close()
        peak = group.peak
    if first.startswith("missing: "):
        return first.removeprefix("missing: ").strip()
    if status != 0 or not last:
        return f"ended with status {status}"
    done: dict[str, Any] = json.loads(last)
    limits.append(device.per_second(setting.device_seconds))
    rate = done["rows"] / done["seconds"]
    return done | {
        "rows_per_second": rate,
        "device_limit": statistics.mean(limits),
        "share_of_device": rate / statistics.mean(limits),
        "device_reads": after.reads - before.reads if before and after else None,
        "bytes_per_row": done["device_bytes"] / done["rows"],
        "cpu_us_per_row": 1e6 * done["cpu_seconds"] / done["rows"],
        "cgroup_peak": peak,
        "anonymous_peak": anonymous.bytes,
        "load_before": load,
    }


def measure(
    trace: Path, setting: Setting, rounds: int, report: Report, kind: str
) -> dict[str, list[dict[str, Any]]]:
    device = RandomReads(setting.path, ROW_BYTES)
    ids = np.load(f"{trace}-ids.npy")
    names = NAMES[kind]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    missing: set[str] = set()
    for number in range(rounds):
        shift = number % len(names)
        for name in [*names[shift:], *names[:shift]]:
            if name in missing:
                continue
            done = run(name, trace, setting, device)
            if isinstance(done, str):
                missing.add(name)
                report.note(f"{name}, {kind}: {done}")
                continue
            common.say(f"{kind}, {name}: {done['rows_per_second']:,.0f} rows/s")
            frames = done["counts"].get("frames", 0)
            if frames and number == 0:
                best = belady_hits(ids[: done["rows"]], frames)
                done["hit_rates"] = [hits / done["rows"] for hits in (done["counts"]["hits"], best)]
            found[name].append(done)
    same = {(runs[0]["rows"], round(runs[0]["checksum"], 3)) for runs in found.values() if runs}
    if len(dict(same)) < len(same):
        raise SystemExit(f"the contenders gathered different rows: {same}")
    return {name: runs for name, runs in found.items() if runs}


def write_table(report: Report, kind: str, found: dict[str, list[dict[str, Any]]]) -> None:
    def median(runs: list[dict[str, Any]], key: str) -> float:
        return float(statistics.median(run[key] for run in runs))

    rows: list[list[common.Cell]] = []
    for name, runs in found.items():
        ratio = Ratio.paired(
            [run["rows_per_second"] for run in runs],
            [run["rows_per_second"] for run in found[MEMMAP]][: len(runs)],
        )
        rows.append([
            name, "-" if name == MEMMAP else str(ratio), median(runs, "rows_per_second"),
            f"{median(runs, 'share_of_device'):.0%}", median(runs, "device_limit"),
            *(f"{rate:.1%}" for rate in runs[0].get("hit_rates", [])),
            *([] if "hit_rates" in runs[0] else ["-", "-"]),
            median(runs, "bytes_per_row"), median(runs, "cpu_us_per_row"),
            *(common.size(median(runs, key)) for key in ("cgroup_peak", "anonymous_peak")),
            median(runs, "load_before"),
        ])  # fmt: skip
    report.table(
        f"{kind}, medians of the rounds",
        ["", f"times {MEMMAP}", "rows/s", "of the limit of 512-byte reads", "that limit, reads/s",
         "found in the cache", "by Belady's algorithm", "bytes read per row",
         "processor µs per row", "peak charged to the cgroup", "of it anonymous", "load before"],
        rows,
    )  # fmt: skip


# ---- kinds of caches -----------------------------------------------------------------------------


def hit_rate(path: Path, batches: Sequence[Ids], **options: Any) -> tuple[float, int]:
    """Over the second half of the batches; and how many rows the cache holds."""
    from aethergraph import FeatureTable

    store = FeatureTable.load(path, "uring", **options)
    half = len(batches) // 2
    for ids in batches[:half]:
        store.gather(ids)
    before = store.stats()
    for ids in batches[half:]:
        store.gather(ids)
    after = store.stats()
    return (after.hits - before.hits) / (after.rows - before.rows), after.frames


def compare_caches(report: Report, folder: Path, quick: bool) -> list[dict[str, float]]:
    from aethergraph import Graph, NeighborSampler

    files = common.power_law_graph(folder, 20_000 if quick else 1_000_000)
    path = files.features(ROW_BYTES // 4)
    seeds = np.random.default_rng(7).permutation(files.num_nodes)
    with Graph.load(files.graph) as graph:
        sampler = NeighborSampler(graph, FANOUTS)
        starts = [i * 1024 % (files.num_nodes - 1024) for i in range(12 if quick else 60)]
        batches = [sampler.sample(seeds[at : at + 1024], i).node for i, at in enumerate(starts)]
        degrees = np.bincount(graph.csc()[1], minlength=files.num_nodes)
    trace = np.concatenate(batches)
    begin = sum(map(len, batches[: len(batches) // 2]))
    cases = []
    for share in SHARES:
        common.say(f"caches: {share:.0%} of the rows")
        fixed = 2 << 20 if quick else 8 << 20  # buffers
        budget = int(share * files.num_nodes * (ROW_BYTES + 48)) + fixed
        fifo, frames = hit_rate(path, batches, memory_budget=budget)
        hot, both = (
            hit_rate(path, batches, memory_budget=budget, frequency=degrees, hot_share=part)[0]
            for part in (1.0, 0.9)
        )
        best = belady_hits(trace, frames, begin) / (len(trace) - begin)
        cases.append({"share": frames / files.num_nodes, "budget": budget, "s3_fifo": fifo,
                      "hot": hot, "both": both, "belady": best})  # fmt: skip
    report.table(
        f"hit rates of caches: {files.num_nodes:,} rows, batches of 1024 seeds, fanouts {FANOUTS}",
        ["of the rows in the cache", "budget", "S3-FIFO", "hot set by degree", "nine tenths hot",
         "Belady", "best of ours / Belady"],
        [
            [f"{case['share']:.1%}", common.size(case["budget"]),
             *(f"{case[key]:.1%}" for key in ("s3_fifo", "hot", "both", "belady")),
             max(case["s3_fifo"], case["hot"], case["both"]) / (case["belady"] or 1)]
            for case in cases
        ],
    )  # fmt: skip
    return cases


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--limit", type=parse_size, help="bytes, such as 2G (default: 1536M)")
    made.add_argument("--rounds", type=int, help="runs of each contender (default: 3)")
    args = common.parse(made, argv)
    limit = args.limit or 1536 << 20
    with cgroup(limit):  # can we? before the files are made
        pass
    num_rows = 20_000 if args.quick else 16_000_000
    folder = args.dir / f"train-{common.short(num_rows)}"
    make_files(folder, num_rows)
    setting = Setting(
        folder / "features.bin", limit, limit // 4, *((0.2, 0.05) if args.quick else (20.0, 1.0))
    )
    rounds = args.rounds or (1 if args.quick else 3)
    times = setting.path.stat().st_size / limit
    report = Report(
        "outofcore_gather",
        f"Gathering 512-byte rows from {times:.1f} times the memory allowed",
        args,
    )
    report.note(read_ahead_note(setting.path))
    by_fio = fio_limits(setting.path, ROW_BYTES, 0.2 if args.quick else 3.0)
    if by_fio:
        report.table("random 512-byte reads before the runs", ["", "reads/s"], [*by_fio.items()])
    found = {}
    for kind, count in ((UNIFORM, 64), (BATCHES, 192)):
        trace = make_trace(folder, kind, num_rows, count // 16 if args.quick else count)
        found[kind] = measure(trace, setting, rounds, report, kind)
        write_table(report, kind, found[kind])
    cases = compare_caches(report, args.dir, args.quick)
    report.parameters = {
        "rows": num_rows, "row_bytes": ROW_BYTES, "limit": limit, "budget": setting.budget,
        "fanouts": FANOUTS, "batch": BATCH, "rounds": rounds, "seconds": setting.seconds,
    }  # fmt: skip
    report.data = {"fio": by_fio, "runs": found, "caches": cases}

    def draw(axes: Sequence[Any]) -> None:
        for axis, (kind, contenders) in zip(axes, found.items(), strict=True):
            rates = [statistics.median(r["rows_per_second"] for r in runs)
                     for runs in contenders.values()]  # fmt: skip
            common.bars(axis, list(contenders), rates, "rows of 512 bytes per second")
            axis.set_title(kind, fontsize=9)

    common.plot(report, 2, draw)
    report.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--gather"]:
        child(json.loads(sys.argv[2]))
    else:
        main()
