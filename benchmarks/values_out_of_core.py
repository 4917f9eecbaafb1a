"""Weights and times in the batches of loaders, of a graph that stays on disk (root).

    sudo python benchmarks/values_out_of_core.py [--quick] [--rounds 3] [--only ...]

A power-law graph with a weight and a time for each edge (16 bytes per edge, of which values are 12)
is loaded with storage="uring", once with a budget that holds all of it and once with a tenth of
that. Each loader runs with the values in its batches and without them, in turns, in a process of
its own in a fresh cgroup. An epoch before those that count lets groups find their size and columns
be loaded; the file is dropped from the page cache before.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from contenders.values_loaders import FANOUTS, LOADERS
from harness import common
from harness.cgroups import AnonymousPeak, cgroup
from harness.common import Ratio, Report
from harness.worker import contender_command
from large_graph import large_graph

NODES, EDGES, WIDTH = 2_000_000, 40_000_000, 128
INTERPRETER = 1 << 30  # what Python, torch and batches may take beside the budgets
LEAST = 24 << 20


def run(config: dict[str, Any], limit: int) -> dict[str, Any]:
    """One run in a fresh cgroup."""
    for key in ("graph", "features"):
        common.drop_from_cache(Path(config[key]))
    command = [*contender_command("values_loaders"), json.dumps(config)]
    with cgroup(limit) as group, AnonymousPeak(group) as anonymous:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, preexec_fn=group.enter, check=False
        )
        if group.oom_kills or done.returncode:
            raise SystemExit(f"{config['loader']}: ended with status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found | {"rate": found["edges"] / found["seconds"], "anonymous_peak": anonymous.bytes}


def make_features(folder: Path, nodes: int) -> Path:
    path = folder / f"values-features-{common.short(nodes)}.npy"
    if not path.exists():
        rows = np.lib.format.open_memmap(path, "w+", np.float32, (nodes, WIDTH))
        rows[:] = np.arange(WIDTH, dtype=np.float32)
        rows.flush()
    return path


def row(loader: str, budget: str, runs: dict[bool, list[dict[str, Any]]]) -> list[common.Cell]:
    def median(values: bool, key: str) -> float:
        return statistics.median(one[key] for one in runs[values])

    seconds = {values: [one["seconds"] for one in runs[values]] for values in (True, False)}
    cpu = {values: [one["cpu_seconds"] for one in runs[values]] for values in (True, False)}
    cells: list[common.Cell] = [loader, budget]
    cells += [f"{median(values, 'rate'):,.0f}" for values in (False, True)]
    cells += [str(Ratio.paired(seconds[True], seconds[False]))]
    cells += [str(Ratio.paired(cpu[True], cpu[False]))]
    for values in (False, True):
        cells.append(f"{median(values, 'graph_bytes') / median(values, 'edges'):.1f}")
    cells.append(common.size(median(True, "anonymous_peak") - median(False, "anonymous_peak")))
    return cells


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--rounds", type=int, help="runs of each (default: 3)")
    made.add_argument("--epochs", type=int, default=2, help="that count (default: 2)")
    made.add_argument("--only", nargs="+", choices=LOADERS, default=list(LOADERS))
    args = common.parse(made, argv)
    quick = args.quick
    with cgroup(2**30):  # can we? before the graph is made
        pass
    nodes, edges = (50_000, 1_000_000) if quick else (NODES, EDGES)
    files = large_graph(args.dir, nodes, edges, values=True)
    features = make_features(args.dir, nodes)
    batches, batch = (8, 64) if quick else (40, 1024)
    rounds = args.rounds or (1 if quick else 3)
    data = files.graph.stat().st_size
    # what lists and values take, and as much again as samples at work need
    budgets = {"all of it": data * 5 // 4 + LEAST, "a tenth": max(data // 10, LEAST)}
    report = Report("values_out_of_core", "Weights and times in batches, out of core", args)
    report.parameters = {
        "nodes": nodes, "edges": edges, "file_bytes": data, "fanouts": FANOUTS, "batch": batch,
        "batches": batches, "epochs": args.epochs, "rounds": rounds, "budgets": budgets,
        "feature_bytes": features.stat().st_size,
    }  # fmt: skip
    config = {
        "graph": str(files.graph), "features": str(features), "batch": batch,
        "seeds": str(files.seeds(batches, batch)), "epochs": args.epochs,
    }  # fmt: skip
    table, found = [], {}
    for name, budget in budgets.items():
        feature_budget = max(LEAST, features.stat().st_size * (2 if name == "all of it" else 1))
        feature_budget = feature_budget if name == "all of it" else max(LEAST, feature_budget // 10)
        limit = budget + feature_budget + INTERPRETER
        for loader in args.only:
            runs: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
            for number in range(rounds):
                for values in (False, True) if number % 2 == 0 else (True, False):
                    own = {"loader": loader, "values": values, "budget": budget}
                    runs[values].append(
                        run(config | own | {"feature_budget": feature_budget}, limit)
                    )
                    rate = runs[values][-1]["rate"]
                    common.say(
                        f"{name}, {loader}, {'with' if values else 'without'}: {rate:,.0f}/s"
                    )
            found[f"{loader}, {name}"] = {"without": runs[False], "with": runs[True]}
            table.append(row(loader, name, runs))
    report.data = {"loaders": found}
    report.table(
        f"a file of {common.size(data)}; edges per second without and with a weight and a time for "
        "each edge of a batch: medians of the rounds",
        ["", "the budget holds", "without, edges/s", "with, edges/s", "times as long",
         "times the processor time", "bytes read per edge, without", "with",
         "anonymous memory more"],
        table,
    )  # fmt: skip
    report.note(
        "Bytes are those of lists and values, not of features. Where the budget holds a tenth, a "
        "page of 4 KiB is read for each group of batches that needs something of it: values, three "
        "times as large as the lists, come to three times their pages, and groups are smaller by "
        "the memory of their values."
    )
    report.finish()


if __name__ == "__main__":
    main()
