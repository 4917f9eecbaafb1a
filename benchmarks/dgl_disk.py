"""Features from disk within a memory limit, through GraphBolt's stock loader (root, cgroups).

    sudo python benchmarks/dgl_disk.py --dgl-python PATH [--quick] [--limit 1536M]

128 float32 features of 10 million nodes, 5.1 GB. Every contender is a process of its own in a fresh
cgroup, with the file dropped from the page cache before. All sample the same graph, in memory, with
sample_neighbor_at_once, from the same seeds; only the feature is another: GraphBolt's
TorchBasedFeature over a mapped npy file, which is what its OnDiskDataset makes of
``in_memory: false``; the same with the kernel's read-ahead switched off, which nothing in GraphBolt
does; and ours. Each runs for some seconds or to the end of its batches.
"""

from __future__ import annotations

import json
import mmap
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.cgroups import AnonymousPeak, cgroup, parse_size
from harness.common import Ratio, Report

STOCK, ADVISED = "GraphBolt TorchBasedFeature on disk", "the same without read-ahead"
OURS = "aethergraph Feature, uring"
NAMES = (STOCK, ADVISED, OURS)
FANOUTS, BATCH, WIDTH = [10, 15], 128, 128  # the last at the seeds


# ---- a contender (child) -----------------------------------------------------------------------


def open_feature(name: str, path: Path, budget: int) -> Any:
    import dgl.graphbolt as gb
    import torch

    if name == OURS:
        from aethergraph import FeatureTable
        from aethergraph.dgl.graphbolt import Feature

        return Feature(FeatureTable.load(path, storage="uring", memory_budget=budget))
    rows = np.load(path, mmap_mode="r+")
    if name == ADVISED:
        rows._mmap.madvise(mmap.MADV_RANDOM)  # type: ignore[attr-defined]
    return gb.TorchBasedFeature(torch.as_tensor(rows))


def load(name: str, folder: Path, seeds: Path, budget: int, seconds: float) -> None:
    """Load batches for some seconds; prints what came, and leaves at once."""
    import dgl.graphbolt as gb
    import torch

    from aethergraph import Graph
    from aethergraph.dgl.graphbolt import SamplingGraph

    graph = SamplingGraph(Graph.load(folder / "graph.aeg", storage="memory"), seed=1)
    feature = open_feature(name, folder / f"x{WIDTH}.npy", budget)
    items = gb.ItemSet(torch.from_numpy(np.load(seeds).reshape(-1)), names="seed_nodes")
    pipe = gb.ItemSampler(items, batch_size=BATCH).sample_neighbor_at_once(graph, FANOUTS)
    store = gb.BasicFeatureStore({("node", None, "x"): feature})
    pipe = pipe.fetch_feature(store, node_feature_keys=["x"])
    loader = gb.DataLoader(pipe.copy_to(torch.device("cpu")))
    batches = rows = 0
    total = 0.0
    start = time.perf_counter()
    for batch in loader:
        x = batch.node_features["x"]
        batches += 1
        rows += len(x)
        total += float(x[:, 0].double().sum())
        taken = time.perf_counter() - start
        if taken > seconds:
            break
    print(json.dumps({"batches": batches, "rows": rows, "seconds": taken, "sum": total}))
    sys.stdout.flush()
    os._exit(0)  # the loader's thread would finish what it has begun to read


# ---- the parent --------------------------------------------------------------------------------


def run(
    name: str, folder: Path, seeds: Path, limit: int, budget: int, seconds: float, python: str
) -> dict[str, Any]:
    """One contender in a fresh cgroup."""
    common.drop_from_cache(folder / f"x{WIDTH}.npy")
    command = [python, "-W", "ignore", __file__, "--load", name, str(folder), str(seeds),
               str(budget), str(seconds)]  # fmt: skip
    with cgroup(limit) as group, AnonymousPeak(group) as peak:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=False, preexec_fn=group.enter
        )
        charged, version = group.peak, group.version
    if done.returncode:
        raise SystemExit(f"{name} ended with status {done.returncode}")
    found = json.loads(done.stdout.splitlines()[-1])
    return {**found, "cgroup_peak": charged, "anonymous_peak": peak.bytes,
            "cgroup_version": version}  # fmt: skip


def rate(result: dict[str, Any]) -> float:
    return float(result["rows"] / result["seconds"])


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--dgl-python", type=Path, default=sys.executable, help="has DGL 2.1")
    made.add_argument("--limit", type=parse_size, default=1536 * 2**20, help="such as 2G")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--seconds", type=float, default=20.0, help="of a run; %(default)s")
    args = common.parse(made, argv)
    with cgroup(2**30):  # can we? before the graph is built
        pass
    files = common.power_law_graph(args.dir, 100_000 if args.quick else 10_000_000)
    path = files.features(WIDTH)
    rounds, seconds = (1, 2.0) if args.quick else (args.rounds, args.seconds)
    budget = args.limit // 4
    report = Report("dgl_disk", "Features from disk through GraphBolt's stock loader", args)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
    for number in range(rounds):
        seeds = files.seeds(300, BATCH, seed=number) if args.quick else files.seeds(2000, BATCH)
        for name in (*NAMES[number % 3 :], *NAMES[: number % 3]):
            common.say(f"round {number}, {name}")
            found = run(
                name, files.folder, seeds, args.limit, budget, seconds, str(args.dgl_python)
            )
            results[name].append(found)
    report.parameters = {"limit": args.limit, "memory_budget": budget, "nodes": files.num_nodes,
                         "feature_bytes": path.stat().st_size, "fanouts": FANOUTS, "batch": BATCH,
                         "seconds": seconds}  # fmt: skip
    report.data = results
    own = [rate(result) for result in results[OURS]]
    report.table(
        f"features of {common.size(path.stat().st_size)} within {common.size(args.limit)}, "
        f"memory_budget {common.size(budget)}",
        ["", "rows per second, median", "batches in all", "ours is times as fast", "anonymous"],
        [
            [
                name,
                statistics.median(map(rate, found)),
                sum(one["batches"] for one in found),
                "-" if name == OURS else str(Ratio.paired(own, [rate(one) for one in found])),
                common.size(max(one["anonymous_peak"] for one in found)),
            ]
            for name, found in results.items()
        ],
    )
    report.note(
        "Fanouts [15, 10] from the seeds, 128 seeds per batch; the whole loader is timed, with "
        "copy_to, from the first batch on. The graph's topology is in memory for all."
    )

    def draw(axes: Sequence[Any]) -> None:
        values = [statistics.median(map(rate, results[name])) for name in NAMES]
        common.bars(axes[0], list(NAMES), values, "rows per second (log)")
        axes[0].set_xscale("log")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load"]:
        load(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]),
             float(sys.argv[6]))  # fmt: skip
    else:
        main()
