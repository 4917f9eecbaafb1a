"""Loaders that draw coming batches together out of core: those of DGL beside PyG's (root).

    sudo python benchmarks/dgl_grouped.py --dgl-python PATH [--quick] [--limit 1536M]

A power-law graph of 200 million edges is sampled from its file within a memory limit, with
fanouts [15, 10] and batches of 1024 seeds, by our loader for PyG, our loader for DGL and
GraphBolt's own loader over our graph. Each run is a process of its own in a fresh cgroup, its file
dropped from the page cache before; the loaders take turns. The interpreter of the first has PyG,
that of the others has DGL, and they need not have the same torch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

from contenders.grouped_loaders import DGL, GRAPHBOLT, PYG
from harness import common
from harness.cgroups import cgroup, parse_size
from harness.common import GraphFiles, Ratio, Report
from harness.worker import contender_command

FANOUTS, BATCH = [15, 10], 1024
COLUMNS = [
    "", "million edges/s", "edges per batch", "times as long as the first", "processor us per edge",
    "times the processor time of the first",
]  # fmt: skip


def run(name: str, python: str, files: GraphFiles, args: Any, number: int) -> dict[str, Any]:
    """Run one contender in a fresh cgroup; its numbers, and those per million edges."""
    batch = min(BATCH, files.num_nodes // 4)
    config = {
        "contender": name, "graph": str(files.graph), "fanouts": FANOUTS, "batch": batch,
        "budget": args.limit // 6, "seconds": 1.0 if args.quick else args.seconds,
        "seeds": str(files.seeds(300 if args.quick else 4000, batch, seed=number)),
    }  # fmt: skip
    common.drop_from_cache(files.graph)
    command = [*contender_command("grouped_loaders", python), json.dumps(config)]
    with cgroup(args.limit) as group:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, preexec_fn=group.enter
        )
        peak = group.peak
    if done.returncode:
        raise SystemExit(f"{name} ended with status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "cgroup_peak": peak}


def per_edge(runs: Sequence[dict[str, Any]], clock: str) -> list[float]:
    return [one[clock] / one["edges"] for one in runs]


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--dgl-python", help="interpreter that has DGL 2.1 and this package")
    made.add_argument("--limit", type=parse_size, default=1536 << 20, help="such as 2G")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--seconds", type=float, default=5.0, help="of a run; %(default)s")
    args = common.parse(made, argv)
    with cgroup(2**30):  # can we? before the graph is built
        pass
    files = common.power_law_graph(args.dir, 100_000 if args.quick else 20_000_000)
    report = Report("dgl_grouped", "Coming batches drawn together out of core", args)
    pythons: dict[str, str] = {}
    if common.importable("torch_geometric"):
        pythons[PYG] = sys.executable
    else:
        report.note("PyG's loader is missing: torch_geometric cannot be imported here.")
    if args.dgl_python is None:
        report.note("DGL and GraphBolt are missing: no --dgl-python was given.")
    else:
        pythons |= {DGL: args.dgl_python, GRAPHBOLT: args.dgl_python}
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in pythons}
    names = [*pythons]
    for number in range(1 if args.quick else args.rounds):
        shift = number % len(names)
        for name in (*names[shift:], *names[:shift]):
            runs[name].append(run(name, pythons[name], files, args, number))
            common.say(f"round {number}, {name}: {runs[name][-1]}")
    report.data = runs
    report.parameters = {"limit": args.limit, "memory_budget": args.limit // 6,
                         "fanouts": FANOUTS, "batch": BATCH, "edges": files.num_edges}  # fmt: skip
    report.table(
        f"a file of {common.size(files.graph.stat().st_size)} within "
        f"{common.size(args.limit)}, memory_budget {common.size(args.limit // 6)}",
        COLUMNS,
        [
            [
                name,
                1e-6 / median(per_edge(own, "seconds")),
                median(one["edges"] / one["batches"] for one in own),
                str(Ratio.paired(per_edge(own, "seconds"), per_edge(runs[names[0]], "seconds"))),
                1e6 * median(per_edge(own, "cpu")),
                str(Ratio.paired(per_edge(own, "cpu"), per_edge(runs[names[0]], "cpu"))),
            ]
            for name, own in runs.items()
        ],
    )
    report.finish()


if __name__ == "__main__":
    main()
