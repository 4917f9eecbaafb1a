"""Sampling a graph that is larger than the memory allowed: cgroup limits of 1, 2 and 4 GiB (root).

    sudo python benchmarks/outofcore.py [--quick] [--limits 1G 2G] [--seconds 15] [--rounds 2]

A power-law graph of 1.2 billion edges (4.8 GB, and 400 MB of offsets) is sampled with fanouts
[20, 15, 10] in batches of 1024 seeds. Every contender is a process of its own in a fresh cgroup;
the file is dropped from the page cache before, which counts against the limit. They take turns.

    aethergraph mmap                 page faults, MADV_RANDOM; ", read-ahead": without that advice
    ring reader, 4 KiB direct        RingSampler-like, see ring_reader.c: one read of a page per
                                     sampled neighbour, past the page cache, none shared
    ring reader, 4 B buffered        the same of 4 bytes through the page cache, as RingSampler
                                     does; ", no read-ahead": the kernel told that it is random
    aethergraph uring                our out-of-core storage, batch by batch, two in flight
    aethergraph uring, one thread    the same, each batch begun when the one before is done
    aethergraph uring, grouped       the same, many batches sampled together

The device's limit is measured around every run: random reads of 4 to 128 KiB past the page cache
with 128 or 4 MiB of them under way, by our engine; at the start by fio too, if it is installed.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contenders.outofcore_samplers import ALONE, GROUPED, MMAP, NAMES, READ_AHEAD, URING
from harness import common
from harness.cgroups import AnonymousPeak, cgroup, parse_size
from harness.common import GraphFiles, Ratio, Report
from harness.device import (
    PAGE,
    DeviceLimits,
    DeviceReads,
    RandomReads,
    fio_limits,
    left_in_cache,
    read_ahead_note,
    share_of_device,
)
from harness.ring_reader import RING_DEPTH, check_ring, compile_ring, ring_command
from harness.worker import contender_command
from large_graph import EDGES, NODES, large_graph

FANOUTS, BATCH = [20, 15, 10], 1024
RING_DIRECT, RING_BUFFERED = "ring reader, 4 KiB direct", "ring reader, 4 B buffered"
RING_RANDOM = f"{RING_BUFFERED}, no read-ahead"
BASES = (MMAP, READ_AHEAD, RING_DIRECT, RING_BUFFERED, RING_RANDOM)
PATIENCE = 30.0  # seconds: who has not finished after these and its run's is stopped
CONTENDERS = (*BASES, ALONE, URING, GROUPED)


@dataclass
class Runs:
    """The runs of one contender under one limit, one per round; or why there are none."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    missing: str | None = None

    def all(self, key: str) -> list[float]:
        return [run[key] for run in self.runs]

    def median(self, key: str) -> float | None:
        return statistics.median(self.all(key)) if self.runs and None not in self.all(key) else None


@dataclass(frozen=True)
class Setting:
    """What all runs have in common."""

    files: GraphFiles
    seeds: Path
    num_seeds: int
    batch: int
    seconds: float
    device_seconds: float
    ring: Path | None
    python: str = sys.executable  # of our contenders

    def command(self, name: str, limit: int) -> list[str]:
        if name in NAMES:
            config = {
                "contender": name, "graph": str(self.files.graph), "fanouts": FANOUTS,
                "seeds": str(self.seeds), "seconds": self.seconds,
                "budget": budget(name, limit),
            }  # fmt: skip
            return [*contender_command("outofcore_samplers", self.python), json.dumps(config)]
        return ring_command(
            self.ring, self.files, self.seeds, (self.num_seeds, self.batch), FANOUTS, self.seconds,
            PAGE if name == RING_DIRECT else 4, read_ahead=name == RING_BUFFERED,
        )  # fmt: skip


def budget(name: str, limit: int) -> int:
    """What our storage may take of the limit: the interpreter and numpy need the rest."""
    return limit - (256 << 20) if name == GROUPED and limit >= 1 << 30 else limit // 4


# ---- one run -----------------------------------------------------------------------------------


def run(name: str, setting: Setting, limit: int) -> dict[str, Any] | str:
    """One run in a fresh cgroup; a text: missing, why."""
    path = setting.files.graph
    common.drop_from_cache(path)
    load, left = os.getloadavg()[0], left_in_cache(path)
    with cgroup(limit) as group, AnonymousPeak(group) as anonymous:
        child = subprocess.Popen(
            setting.command(name, limit), stdout=subprocess.PIPE, text=True,
            preexec_fn=group.enter,
        )  # fmt: skip
        assert child.stdout is not None
        first = child.stdout.readline()
        patience = threading.Timer(setting.seconds + PATIENCE, child.kill)
        patience.start()
        before = DeviceReads.now(path)
        last = child.stdout.readline()
        after = DeviceReads.now(path)
        patience.cancel()
        status = child.wait()
        child.stdout.close()
        peak, kills = group.peak, group.oom_kills
    if first.startswith("missing: "):
        return first.removeprefix("missing: ").strip()
    if kills:
        return "killed for lack of memory"
    if not last and status == -signal.SIGKILL:
        moved = f", {(after.bytes - before.bytes) / 1e9:.0f} GB read" if before and after else ""
        return f"not finished within {setting.seconds + PATIENCE:.0f} s{moved}"
    if not last or status != 0:
        return f"ended with status {status}"
    done: dict[str, Any] = json.loads(last)
    seconds = done["seconds"]
    done |= {
        "edges_per_second": done["edges"] / seconds,
        "edges_per_batch": done["edges"] / done["batches"] if done["batches"] else None,
        "bytes_per_edge": done["device_bytes"] / max(done["edges"], 1),
        "bytes_per_second": done["device_bytes"] / seconds,
        "cpu_us_per_edge": 1e6 * done["cpu_seconds"] / max(done["edges"], 1),
        "device_reads": after.reads - before.reads if before and after else None,
        "cgroup_peak": peak,
        "anonymous_peak": anonymous.bytes,
        "load_before": load,
        "in_page_cache_before": left,
    }
    done["sizes"] = own_reads(done, before, after)
    reads = sum(count for count, _ in done["sizes"])
    done["reads_per_second"] = reads / seconds if reads else None
    return done


def own_reads(
    done: dict[str, Any], before: DeviceReads | None, after: DeviceReads | None
) -> list[tuple[int, int]]:
    """(number, bytes) by size: as our engine counts them, else of the size that the device saw."""
    if done.get("read_sizes"):
        return [(count, total) for count, total in done["read_sizes"]]
    if before is None or after is None or after.reads == before.reads:
        return []
    size = (after.bytes - before.bytes) / (after.reads - before.reads)
    return [(round(done["device_bytes"] / size), done["device_bytes"])]


def add_limits(
    done: dict[str, Any], before: dict[int, float], after: dict[int, float]
) -> None:  # fmt: skip
    """What the device could do around a run, and how much of that the run made use of."""
    limits = {size: statistics.mean((before[size], after[size])) for size in before}
    done["device_limits"] = limits
    done["share_of_device"] = (
        share_of_device(limits, done["sizes"], done["seconds"]) if done["sizes"] else None
    )


def measure(setting: Setting, limit: int, rounds: int, names: Sequence[str]) -> dict[str, Runs]:
    device = DeviceLimits(setting.files.graph)
    found = {name: Runs() for name in names}
    limits = device.measure(setting.device_seconds)
    for number in range(rounds):
        shift = number % len(names)
        for name in [*names[shift:], *names[:shift]]:
            to = found[name]
            if name not in NAMES and setting.ring is None:
                to.missing = "needs gcc and liburing"
            if to.missing is not None:
                continue
            done = run(name, setting, limit)
            before, limits = limits, device.measure(setting.device_seconds)
            if isinstance(done, str):
                to.missing = done
                common.say(f"{common.size(limit)}, {name}: {done}")
                continue
            add_limits(done, before, limits)
            to.runs.append(done)
            common.say(
                f"{common.size(limit)}, {name}: {done['edges_per_second'] / 1e6:.3f} M edges/s"
            )
    check_same_work(found)
    return found


def check_same_work(found: dict[str, Runs]) -> None:
    """Ours sample the same edges from every storage: the first batches have as many."""
    sizes = {
        name: run["edges_of_first_batch"]
        for name, one in found.items()
        if name in NAMES
        for run in one.runs
    }
    if len(set(sizes.values())) > 1:
        raise SystemExit(f"the first batch differs between the storages: {sizes}")


# ---- the report --------------------------------------------------------------------------------


def ratio(above: Runs, below: Runs) -> str:
    if above is below:
        return "-"
    rounds = min(len(above.runs), len(below.runs))
    rates = [one.all("edges_per_second")[:rounds] for one in (above, below)]
    return str(Ratio.paired(*rates))


def write_tables(report: Report, limit: int, found: dict[str, Runs]) -> None:
    found = {name: one for name, one in found.items() if one.runs}
    bases = [name for name in BASES if name in found]
    report.table(
        f"{common.size(limit)}: times as many sampled edges per second as",
        ["", *bases],
        [[name, *(ratio(one, found[base]) for base in bases)] for name, one in found.items()],
    )
    rows: list[list[common.Cell]] = []
    for name, one in found.items():
        million = (one.median("edges_per_second") or 0) / 1e6
        share, reads = one.median("share_of_device"), one.median("reads_per_second")
        moved = one.median("bytes_per_second") or 0
        rows.append([
            name, million, one.median("edges_per_batch") or "-",
            "-" if share is None else f"{share:.0%}", reads, moved / 1e6,
            moved / reads / 1024 if reads else "-", one.median("bytes_per_edge"),
            one.median("cpu_us_per_edge"),
            *(common.size(value) if value else "-" for value in (
                one.median("cgroup_peak"), one.median("anonymous_peak"))),
            one.median("load_before"),
        ])  # fmt: skip
    report.table(
        f"{common.size(limit)}: medians of the rounds",
        ["", "million sampled edges/s", "edges per batch", "of the device's limit (see below)",
         "device reads/s", "MB/s read", "KiB per read", "bytes read per edge",
         "processor µs per edge", "peak charged to the cgroup", "of it anonymous", "load before"],
        rows,
    )  # fmt: skip
    every = [run["device_limits"] for one in found.values() for run in one.runs]
    report.table(
        f"{common.size(limit)}: the device's limit, random reads by size, median of {len(every)}",
        ["KiB", "reads/s", "MB/s"],
        [
            [size // 1024, rate, rate * size / 1e6]
            for size in every[0]
            for rate in [statistics.median(limits[size] for limits in every)]
        ],
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--limits", type=parse_size, nargs="+", help="default: 1G 2G 4G")
    made.add_argument("--seconds", type=float, help="for each run (default: 15)")
    made.add_argument("--rounds", type=int, help="runs of each contender (default: 2)")
    made.add_argument("--only", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    args = common.parse(made, argv)
    quick = args.quick
    with cgroup(2**30):  # can we? before the graph is made
        pass
    nodes, edges = (50_000, 1_200_000) if quick else (NODES, EDGES)
    files = large_graph(args.dir, nodes, edges)
    num_seeds, batch = (8, 64) if quick else (1024, BATCH)
    setting = Setting(
        files, files.seeds(num_seeds, batch), num_seeds, batch,
        args.seconds or (0.5 if quick else 15.0), 0.05 if quick else 1.5,
        compile_ring(args.dir),
    )  # fmt: skip
    if setting.ring is not None:
        check_ring(setting.ring, files, setting.seeds)
    limits = args.limits or ([512 << 20] if quick else [1 << 30, 2 << 30, 4 << 30])
    rounds = args.rounds or (1 if quick else 2)
    report = Report("outofcore", f"Sampling {common.short(edges)} edges out of core", args)
    report.parameters = {
        "nodes": nodes, "edges": edges, "file_bytes": files.graph.stat().st_size,
        "fanouts": FANOUTS, "batch": batch, "seconds": setting.seconds, "rounds": rounds,
        "limits": limits, "ring_depth": RING_DEPTH,
    }  # fmt: skip
    by_fio = fio_limits(files.graph, PAGE, 0.2 if quick else 3.0)
    if by_fio:
        report.table(
            "random 4 KiB reads past the page cache, before the runs",
            ["", "reads/s"],
            [*by_fio.items(), ("our engine, depth 128", RandomReads(files.graph).per_second(3.0))],
        )
    found: dict[int, dict[str, Runs]] = {}
    for limit in limits:
        found[limit] = measure(setting, limit, rounds, args.only)
        report.data = {
            "fio": by_fio,
            "limits": {
                str(size): {name: vars(one) for name, one in runs.items()}
                for size, runs in found.items()
            },
        }
    for limit in limits:
        write_tables(report, limit, found[limit])
    add_notes(report, found)
    report.note(read_ahead_note(files.graph))

    def draw(axes: Sequence[Any]) -> None:
        for axis, limit in zip(axes, limits, strict=True):
            values = {name: one.median("edges_per_second") for name, one in found[limit].items()}
            common.bars(
                axis,
                list(values),
                [None if value is None else value / 1e6 for value in values.values()],
                "million sampled edges per second",
            )
            axis.set_title(f"within {common.size(limit)}", fontsize=9)

    common.plot(report, len(limits), draw)
    report.finish()


def add_notes(report: Report, found: dict[int, dict[str, Runs]]) -> None:
    reasons = {
        f"{name}, {common.size(limit)}: {one.missing}"
        for limit, runs in found.items()
        for name, one in runs.items()
        if one.missing is not None
    }
    for reason in sorted(reasons):
        report.note(reason)
    report.note(
        "Of the device's limit: a read takes the device 1 / (reads of its size per second) when it "
        "always has as many under way as it can use; the sum of that over all reads of a run, by "
        "the second. So 100 % is a device that is never left waiting, however long the reads are. "
        "Reads per second alone would not tell, because those of ours are of many sizes. Limits "
        "are measured before and after each run. Ours are the reads that our engine began, by "
        "size; of the others the bytes that they read, in reads of the size that the device saw."
    )
    report.note(
        f"RingSampler-like is '{RING_DIRECT}': one 4 KiB read per sampled neighbour, no page "
        "shared. RingSampler itself asks for 4 bytes through the page cache, as "
        f"'{RING_BUFFERED}' does: there a page may serve several neighbours while it stays. "
        "The ring reader has no framework around it, makes no graph of what it reads, and holds "
        "8 bytes per node."
    )


if __name__ == "__main__":
    main()
