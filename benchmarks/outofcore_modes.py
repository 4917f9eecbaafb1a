"""Every way to sample, of a graph that is larger than the memory allowed (root).

    sudo python benchmarks/outofcore_modes.py [--quick] [--limit 1G] [--seconds 10] [--rounds 3]

A power-law graph of 272 million edges with a weight and a time each (4.5 GB) is used in each way
by a process of its own in a fresh cgroup, mapped and with storage="uring" in turns. The file is
dropped from the page cache before. What the first batch holds has to be the same.
"""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contenders.outofcore_mode_samplers import FANOUTS, MODES, WALK_LENGTH
from harness import common
from harness.cgroups import AnonymousPeak, cgroup, parse_size
from harness.common import Ratio, Report
from harness.worker import contender_command
from large_graph import large_graph

NODES, EDGES = 15_000_000, 272_000_000
STORAGES = ("mmap", "uring")
PATIENCE = 60.0  # seconds: who has not finished after these and its run's is stopped


@dataclass(frozen=True)
class Setting:
    """What all runs have in common."""

    graph: Path
    seeds: Path
    batch: int
    seconds: float
    block: int
    limit: int

    @property
    def budget(self) -> int:
        """What our storage may take of the limit: the interpreter and numpy need the rest."""
        return self.limit // 2


def run(mode: str, storage: str, setting: Setting) -> dict[str, Any] | str:
    """One run in a fresh cgroup; a text: missing, why."""
    common.drop_from_cache(setting.graph)
    config = {
        "mode": mode, "storage": storage, "graph": str(setting.graph), "budget": setting.budget,
        "seeds": str(setting.seeds), "batch": setting.batch, "seconds": setting.seconds,
        "block": setting.block,
    }  # fmt: skip
    command = [*contender_command("outofcore_mode_samplers"), json.dumps(config)]
    with cgroup(setting.limit) as group, AnonymousPeak(group) as anonymous:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=group.enter)
        assert child.stdout is not None
        child.stdout.readline()
        patience = threading.Timer(setting.seconds + PATIENCE, child.kill)
        patience.start()
        last = child.stdout.readline()
        patience.cancel()
        status = child.wait()
        child.stdout.close()
        kills = group.oom_kills
    if kills:
        return "killed for lack of memory"
    if not last and status == -signal.SIGKILL:
        return f"no batch within {setting.seconds + PATIENCE:.0f} s"
    if not last or status != 0:
        return f"ended with status {status}"
    done: dict[str, Any] = json.loads(last)
    return done | {
        "rate": done["items"] / done["seconds"],
        "bytes_per_item": done["device_bytes"] / max(done["items"], 1),
        "cpu_us_per_item": 1e6 * done["cpu_seconds"] / max(done["items"], 1),
        "anonymous_peak": anonymous.bytes,
    }


def measure(
    modes: Sequence[str], setting: Setting, rounds: int
) -> dict[str, dict[str, list[dict[str, Any] | str]]]:
    found: dict[str, dict[str, list[dict[str, Any] | str]]] = {}
    for mode in modes:
        runs = found[mode] = {storage: [] for storage in STORAGES}
        for number in range(rounds):
            for storage in STORAGES if number % 2 == 0 else STORAGES[::-1]:
                done = run(mode, storage, setting)
                runs[storage].append(done)
                rate = done if isinstance(done, str) else f"{done['rate']:,.0f}/s"
                common.say(f"{mode}, {storage}: {rate}")
        sums = {one["checksum"] for all in runs.values() for one in all if isinstance(one, dict)}
        if len(sums) > 1:
            raise SystemExit(f"{mode}: the first batch differs between the storages")
    return found


def median(runs: Sequence[dict[str, Any] | str], key: str) -> float | None:
    values = [run[key] for run in runs if isinstance(run, dict)]
    return statistics.median(values) if values else None


def rows(found: dict[str, dict[str, list[dict[str, Any] | str]]]) -> list[list[common.Cell]]:
    table: list[list[common.Cell]] = []
    for mode, runs in found.items():
        rates = {
            storage: [one["rate"] for one in runs[storage] if isinstance(one, dict)]
            for storage in STORAGES
        }
        paired = len(rates["mmap"]) == len(rates["uring"]) > 0
        cells: list[common.Cell] = [mode, MODES[mode][1]]
        for storage in STORAGES:
            value = median(runs[storage], "rate")
            cells.append(str(runs[storage][0]) if value is None else f"{value:,.0f}")
        cells.append(str(Ratio.paired(rates["uring"], rates["mmap"])) if paired else "-")
        cells += [median(runs[storage], "bytes_per_item") for storage in STORAGES]
        cells += [median(runs[storage], "cpu_us_per_item") for storage in STORAGES]
        peak = median(runs["uring"], "anonymous_peak")
        cells.append("-" if peak is None else common.size(peak))
        table.append([cell if cell is not None else "-" for cell in cells])
    return table


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--limit", type=parse_size, default=1 << 30, help="default: 1G")
    made.add_argument("--seconds", type=float, help="for each run (default: 10)")
    made.add_argument("--rounds", type=int, help="runs of each storage (default: 3)")
    made.add_argument("--block", type=int, default=8, help="batches sampled together")
    made.add_argument("--only", nargs="+", choices=MODES, default=list(MODES))
    args = common.parse(made, argv)
    quick = args.quick
    with cgroup(2**30):  # can we? before the graph is made
        pass
    nodes, edges = (50_000, 1_000_000) if quick else (NODES, EDGES)
    files = large_graph(args.dir, nodes, edges, values=True)
    num_seeds, batch = (8, 64) if quick else (1024, 1024)
    setting = Setting(
        files.graph, files.seeds(num_seeds, batch), batch,
        args.seconds or (0.2 if quick else 10.0), args.block, args.limit,
    )  # fmt: skip
    rounds = args.rounds or (1 if quick else 3)
    report = Report("outofcore_modes", "Every way to sample, out of core", args)
    report.parameters = {
        "nodes": nodes, "edges": edges, "file_bytes": files.graph.stat().st_size,
        "fanouts": FANOUTS, "walk_length": WALK_LENGTH, "limit": setting.limit,
        "budget": setting.budget, "seconds": setting.seconds, "rounds": rounds,
        "block": setting.block,
    }  # fmt: skip
    found = measure(args.only, setting, rounds)
    report.data = {"modes": found}
    report.table(
        f"within {common.size(setting.limit)}, a file of "
        f"{common.size(files.graph.stat().st_size)}: medians of the rounds",
        ["", "counted", "mmap, per second", "uring, per second", "times as fast",
         "bytes read for each, mmap", "uring", "processor µs for each, mmap", "uring",
         "anonymous memory, uring"],
        rows(found),
    )  # fmt: skip
    report.note(
        f"uring samples up to {setting.block} batches of a neighbour sampler together "
        f"(sample_many), mmap one after the other; memory_budget is {common.size(setting.budget)}."
    )
    report.finish()


if __name__ == "__main__":
    main()
