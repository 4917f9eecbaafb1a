"""Rows of sampled batches known ahead: what planning the cache saves (root, Linux cgroups).

    sudo python benchmarks/planning.py [--quick] [--limit 1536M] [--rounds 3]

The nodes of GraphSAGE batches of outofcore_gather.py are gathered from a file of 512-byte rows 5
times larger than the limit, all contenders the same batches in the same order: without planning,
with FeatureTable.plan for 8, 32, 128 batches at a time and for all, and from a file that
aethergraph.packing wrote before in the order of the batches, with as many hot rows as the same
memory holds beside a batch. Every run is a process in a fresh cgroup that begins with an empty
cache. The time of the packed run has the reading of its hot rows, but not the packing, which is
shown beside it. Beside them the hits of Belady's algorithm over all batches, with room for as many
rows.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.cgroups import AnonymousPeak, cgroup, parse_size
from harness.common import Ratio, Report
from harness.optimum import belady_hits
from numpy.typing import NDArray
from outofcore_gather import BATCH, BATCHES, FANOUTS, ROW_BYTES, make_trace
from train_beyond_memory import make_files

NONE = "no planning"
PACKED = "packed on disk"
AHEAD = {NONE: 0, "8 batches": 8, "32 batches": 32, "128 batches": 128, "all batches": 1 << 30}
NAMES = (*AHEAD, PACKED)
Batches = list[NDArray[np.int64]]


# ---- a contender (child) -----------------------------------------------------------------------


def child(config: dict[str, Any]) -> None:
    ids, ends = (np.load(config["trace"] + f"-{part}.npy") for part in ("ids", "ends"))
    batches = np.split(ids, ends[:-1])
    gather = gather_packed if config["name"] == PACKED else gather_planned
    print(json.dumps(gather(config, batches)))


def gather_planned(config: dict[str, Any], batches: Batches) -> dict[str, Any]:
    from aethergraph import FeatureTable

    store = FeatureTable.load(config["path"], "uring", memory_budget=config["budget"])
    ahead, planning, plan_bytes = AHEAD[config["name"]], 0.0, 0
    out = np.empty((max(map(len, batches)), *store.row_shape), store.dtype)
    checksum = 0.0
    cpu, start = time.process_time(), time.perf_counter()
    for first in range(0, len(batches), ahead or len(batches)):
        chunk = batches[first : first + ahead] if ahead else batches
        gather: Any = store.gather
        if ahead:
            begin = time.perf_counter()
            plan = store.plan(chunk)
            planning += time.perf_counter() - begin
            plan_bytes = max(plan_bytes, plan.nbytes)
            gather = plan.gather
        for batch in chunk:
            checksum += float(gather(batch, out=out[: len(batch)])[:, 0].sum(dtype=np.float64))
    seconds = time.perf_counter() - start
    stats = store.stats()
    return {
        "seconds": seconds, "cpu_seconds": time.process_time() - cpu, "planning": planning,
        "plan_bytes": plan_bytes, "rows": stats.rows, "hit_rate": stats.hit_rate,
        "device_bytes": stats.device_bytes, "device_reads": stats.device_reads,
        "frames": stats.frames, "checksum": checksum, "packing": 0.0, "packed_bytes": 0,
    }  # fmt: skip


def gather_packed(config: dict[str, Any], batches: Batches) -> dict[str, Any]:
    from aethergraph import FeatureTable
    from aethergraph.packing import PackedFeatures, Packing

    budget, path = config["budget"], config["path"] + ".packed"
    store = FeatureTable.load(config["path"], "uring", memory_budget=budget // 2)
    longest = max(map(len, batches))
    start = time.perf_counter()
    with Packing(
        batches, store, path, memory_budget=budget // 2,
        hot_budget=max(0, budget - longest * (ROW_BYTES + 4) - (1 << 20)),
    ) as packing:  # fmt: skip
        packing.save()
        hit_rate = 1 - packing.rows_read / sum(map(len, batches))
        memory = max(budget, packing.memory)  # more only where a batch alone is (--quick)
    packing_seconds = time.perf_counter() - start
    shape, dtype = store.row_shape, store.array_dtype
    store.close()
    common.drop_from_cache(Path(path))
    out = np.empty((longest, *shape), dtype)
    checksum = 0.0
    cpu, start = time.process_time(), time.perf_counter()
    packed = PackedFeatures.load(path, memory)
    for batch in batches:
        rows = packed.gather(batch, out=out[: len(batch)])
        checksum += float(rows[:, 0].sum(dtype=np.float64))
    seconds = time.perf_counter() - start
    stats, size = packed.stats(), os.path.getsize(path)
    os.unlink(path)
    return {
        "seconds": seconds, "cpu_seconds": time.process_time() - cpu, "planning": 0.0,
        "plan_bytes": 0, "rows": stats.rows, "hit_rate": hit_rate,
        "device_bytes": stats.device_bytes, "device_reads": stats.device_reads,
        "frames": stats.num_hot, "checksum": checksum, "packing": packing_seconds,
        "packed_bytes": size,
    }  # fmt: skip


# ---- the parent --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    path: Path
    trace: Path
    limit: int
    budget: int


def run(name: str, setting: Setting) -> dict[str, Any]:
    """One run in a fresh cgroup."""
    config = {
        "path": str(setting.path), "trace": str(setting.trace), "budget": setting.budget,
        "name": name,
    }  # fmt: skip
    common.drop_from_cache(setting.path)
    load = os.getloadavg()[0]
    with cgroup(setting.limit) as group, AnonymousPeak(group) as anonymous:
        done = subprocess.run(
            [sys.executable, __file__, "--gather", json.dumps(config)],
            stdout=subprocess.PIPE, text=True, preexec_fn=group.enter, check=True,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"load_before": load, "anonymous_peak": anonymous.bytes}


def measure(setting: Setting, rounds: int) -> dict[str, list[dict[str, Any]]]:
    names = list(NAMES)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(rounds):
        shift = number % len(names)
        for name in [*names[shift:], *names[:shift]]:
            done = run(name, setting)
            common.say(f"{name}: {done['seconds']:.1f} s, {done['hit_rate']:.1%} found")
            found[name].append(done)
    sums = {round(one["checksum"], 3) for runs in found.values() for one in runs}
    if len(sums) > 1:
        raise SystemExit(f"the contenders gathered different rows: {sums}")
    return found


def write_table(report: Report, found: dict[str, list[dict[str, Any]]], optimum: float) -> None:
    def median(runs: list[dict[str, Any]], key: str) -> float:
        return float(statistics.median(one[key] for one in runs))

    rows: list[list[common.Cell]] = []
    for name, runs in found.items():
        ratio = Ratio.paired(
            [one["seconds"] for one in found[NONE]], [one["seconds"] for one in runs]
        )
        rows.append([
            name, "-" if name == NONE else str(ratio), median(runs, "seconds"),
            f"{median(runs, 'hit_rate'):.1%}", f"{optimum:.1%}",
            median(runs, "device_bytes") / 1e9, round(median(runs, "device_reads")),
            median(runs, "cpu_seconds"), median(runs, "planning"),
            *(common.size(median(runs, key)) for key in ("plan_bytes", "anonymous_peak")),
            median(runs, "packing"), median(runs, "packed_bytes") / 1e9,
            median(runs, "load_before"),
        ])  # fmt: skip
    report.table(
        "All batches once, medians of the rounds",
        ["planned together", f"times as fast as {NONE}", "seconds", "found in the cache",
         "by Belady's algorithm", "GB read", "reads", "processor seconds", "of it planning, s",
         "memory of a plan", "peak of anonymous memory", "packing, s", "GB packed on disk",
         "load before"],
        rows,
    )  # fmt: skip


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
    trace = make_trace(folder, BATCHES, num_rows, 12 if args.quick else 192)
    budget = 2 << 20 if args.quick else limit // 4
    setting = Setting(folder / "features.bin", trace, limit, budget)
    rounds = args.rounds or (1 if args.quick else 3)
    times = setting.path.stat().st_size / limit
    report = Report(
        "planning", f"Planning the cache for 512-byte rows of {times:.1f} times the limit", args
    )
    found = measure(setting, rounds)
    ids = np.load(f"{trace}-ids.npy")
    optimum = belady_hits(ids, found[NONE][0]["frames"]) / len(ids)
    write_table(report, found, optimum)
    report.parameters = {
        "rows": num_rows, "row_bytes": ROW_BYTES, "limit": limit, "budget": budget,
        "fanouts": FANOUTS, "batch": BATCH, "rounds": rounds, "gathered": len(ids),
    }  # fmt: skip
    report.data = {"runs": found, "optimum": optimum}
    report.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--gather"]:
        child(json.loads(sys.argv[2]))
    else:
        main()
