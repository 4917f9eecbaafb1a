"""Training under a memory limit that the in-memory way does not survive (root, Linux cgroups).

    sudo python benchmarks/memory_limit.py [--quick] [--limit 1536M]

The graph and its features are larger than the limit. Each contender trains GraphSAGE in a process
that starts inside a fresh cgroup: PyG's stock NodeLoader over our mapped stores, then the same
with the arrays loaded into memory (PyG's Data). The page cache counts against the limit, so the
files are dropped from it first. The cgroup (v1 or v2) is removed afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.cgroups import cgroup, parse_size
from harness.common import GraphFiles, Report

WIDTH = 128
FANOUTS, BATCH = [15, 10], 1024
OURS, IN_MEMORY = "stock NodeLoader, aethergraph mmap", "PyG Data in memory"


# ---- the contenders (child) --------------------------------------------------------------------


def train(name: str, folder: Path, count: int) -> None:
    """Train for ``count`` batches, with one line of JSON per event on stdout."""
    import torch
    from contenders import loaders
    from harness.worker import memory

    def say(event: str, **values: Any) -> None:
        print(json.dumps({"event": event, **values, **memory()}), flush=True)

    say("imported")
    build = loaders.stock if name == OURS else loaders.pyg
    if name == IN_MEMORY and common.pyg_sampler() is None:
        build = load_only
    make = build(folder, f"x{WIDTH}.npy", "mmap")
    say("opened")
    rng = np.random.Generator(np.random.PCG64(3))
    num_nodes = len(np.load(folder / "y.npy", mmap_mode="r"))
    seeds = torch.from_numpy(rng.integers(0, num_nodes, count * BATCH))
    step = loaders.make_step(WIDTH)
    start = time.perf_counter()
    for number, batch in enumerate(make(FANOUTS, BATCH, seeds), 1):
        step(batch)
        say("batch", number=number, seconds=time.perf_counter() - start)
    say("done")


def load_only(folder: Path, features: str, storage: str) -> Any:
    """Without PyG's sampler: load what PyG would need, which is where it dies."""
    kept = [np.load(folder / n) for n in ("indptr.npy", "indices.npy", features)]
    return lambda *_: kept[:0]


# ---- the parent --------------------------------------------------------------------------------


def run(name: str, files: GraphFiles, limit: int, count: int) -> dict[str, Any]:
    """Train in a fresh cgroup; how far it came, how it ended, and the peaks."""
    for path in files.folder.iterdir():
        common.drop_from_cache(path)
    command = [sys.executable, __file__, "--train", name, str(files.folder), str(count)]
    with cgroup(limit) as group:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False,
            preexec_fn=group.enter, env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )  # fmt: skip
        peak = group.peak
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    batches = [event for event in events if event["event"] == "batch"]
    return {
        "status": done.returncode,
        "last_event": events[-1]["event"] if events else "started",
        "batches": len(batches),
        "batches_per_second": len(batches) / batches[-1]["seconds"] if batches else None,
        "cgroup_peak": peak,
        "resident_peak": max((event["peak"] for event in events), default=None),
        "anonymous_peak": max((event["anonymous"] for event in events), default=None),
        "cgroup_version": group.version,
    }


def ending(result: dict[str, Any]) -> str:
    if result["status"] == 0:
        return "trained to the end"
    if result["status"] == -signal.SIGKILL:
        return f"**killed** (out of memory) after: {result['last_event']}"
    return f"failed with status {result['status']} after: {result['last_event']}"


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--limit", type=parse_size, help="bytes, such as 2G (default: 1536M)")
    made.add_argument("--nodes", type=int, help="nodes; ten edges each (default: 10M)")
    args = common.parse(made, argv)
    with cgroup(2**30):  # can we? before the graph is built
        pass
    files = common.power_law_graph(
        args.dir, args.nodes or (1_500_000 if args.quick else 10_000_000)
    )
    files.csc()
    files.features(WIDTH)
    limit = args.limit or (800 * 2**20 if args.quick else 1536 * 2**20)
    needed = files.num_nodes * 4 * WIDTH + files.graph.stat().st_size
    report = Report("memory_limit", f"Training with {common.size(limit)} of memory", args)
    count = 5 if args.quick else 40
    results = {}
    for name in (OURS, IN_MEMORY):
        common.say(f"{name}, limit {common.size(limit)}, data {common.size(needed)}")
        results[name] = run(name, files, limit, count)
    report.parameters = {"limit": limit, "data_bytes": needed, "nodes": files.num_nodes,
                         "edges": files.num_edges, "width": WIDTH, "batches": count,
                         "fanouts": FANOUTS, "batch": BATCH}  # fmt: skip
    report.data = results
    report.table(
        f"graph and features {common.size(needed)}, limit {common.size(limit)}, {count} batches",
        ["", "how it ended", "batches", "batches/s", "peak charged to the cgroup",
         "peak resident", "of it anonymous"],
        [
            [name, ending(r), r["batches"], r["batches_per_second"] or "-",
             *(common.size(r[key]) if r[key] else "-" for key in
               ("cgroup_peak", "resident_peak", "anonymous_peak"))]
            for name, r in results.items()
        ],
    )  # fmt: skip
    report.note(
        "The peak charged includes the page cache, which fills whatever the limit leaves; the "
        "kernel takes it back. Anonymous memory is what the process cannot give back."
    )
    if needed <= limit:
        report.note("The data is not larger than the limit: choose a smaller one.")
    report.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
