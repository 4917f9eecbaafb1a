"""Vectors of every node of a graph several times larger than the memory allowed (root, cgroups).

    sudo python benchmarks/inference_out_of_core.py [--quick] [--limit 4G] [--only ...]

GraphSAGE of two layers (128 numbers to 128, to 32) over a power-law graph of 20M nodes and 300M
edges, all neighbours, one thread of torch. embed() runs to the end. Beside it a loop as one writes
it by hand: our sampler over the mapped graph, a numpy memmap of the rows and batches of 4096 nodes.
It would take hours, so its first minutes are measured, for the first layer. Each contender is a
process in a fresh cgroup, and the files are dropped from the page cache before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from contenders.outofcore_samplers import device_bytes
from harness import common
from harness.cgroups import AnonymousPeak, cgroup, parse_size
from harness.common import GraphFiles, Report
from large_graph import large_graph

OURS, HAND = "aethergraph embed", "a loop by hand"
NAMES = (OURS, HAND)
WIDTH, OUT_WIDTH, BATCH = 128, 32, 4096


# ---- a contender (child) -----------------------------------------------------------------------


class Clock:
    """Time, processor time and bytes read from the device since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time(), device_bytes()

    def read(self) -> dict[str, float]:
        now = time.perf_counter(), time.process_time(), device_bytes()
        names = "seconds", "cpu_seconds", "device_bytes"
        return {n: b - a for n, a, b in zip(names, self._start, now, strict=True)}


def make_model() -> Any:
    import torch
    from torch_geometric.nn import GraphSAGE

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return GraphSAGE(WIDTH, WIDTH, 2, OUT_WIDTH).eval()


def embed(folder: Path, budget: int, limit_seconds: float) -> dict[str, Any]:
    """Run to the end; the readings of each layer."""
    from aethergraph import Graph
    from aethergraph.pyg import embed as embed_all

    graph = Graph.load(folder / "graph.aeg", storage="uring", memory_budget=budget // 8)
    features = graph.load_features(
        folder / f"x{WIDTH}.npy", storage="uring", memory_budget=budget // 8
    )
    stages: list[tuple[str, Clock]] = []
    layers: list[dict[str, Any]] = []

    def close() -> None:
        if stages:
            name, clock = stages.pop()
            layers.append({"stage": name, **clock.read()})

    def begin(name: str, unit: str) -> Callable[[int, int], None]:
        close()
        stages.append((name, Clock()))
        return lambda done, total: None

    whole = Clock()
    table = embed_all(
        make_model(), graph, folder / "vectors.npy", features=features,
        memory_budget=budget // 2, force=True, stages=begin,
    )  # fmt: skip
    close()
    return {"layers": layers, "rows": len(table), **whole.read()}


def by_hand(folder: Path, budget: int, limit_seconds: float) -> dict[str, Any]:
    """Compute rows of the first layer until the time is over, behind those beside the largest hub.

    Its million neighbours would take all of the time by page faults.
    """
    import torch

    from aethergraph import Graph, NeighborSampler

    graph = Graph.load(folder / "graph.aeg")
    x = np.load(folder / f"x{WIDTH}.npy", mmap_mode="r")
    sampler, model, clock, done = NeighborSampler(graph, [-1]), make_model(), Clock(), 0
    with torch.no_grad():
        while BATCH + done < len(x) and clock.read()["seconds"] < limit_seconds:
            seeds = np.arange(BATCH + done, min(2 * BATCH + done, len(x)))
            sample = sampler.sample(seeds, 0)
            batch = torch.from_numpy(x[sample.node]), torch.from_numpy(sample.edge_index)
            model.inference_per_layer(0, *batch, len(seeds))
            done += len(seeds)
    return {"rows": done, **clock.read()}


# ---- the parent --------------------------------------------------------------------------------


def run(name: str, files: GraphFiles, limit: int, seconds: float) -> dict[str, Any]:
    """Run a contender in a fresh cgroup; its readings, and the peaks of its memory."""
    inputs = files.graph, files.features(WIDTH)
    for path in inputs:
        common.drop_from_cache(path)
    command = [sys.executable, __file__, "--child", name, str(files.folder), str(limit)]
    with cgroup(limit) as group, AnonymousPeak(group) as anonymous:
        done = subprocess.run(
            [*command, str(seconds)], stdout=subprocess.PIPE, text=True, check=False,
            preexec_fn=group.enter, env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        )  # fmt: skip
        peak, kills = group.peak, group.oom_kills
    if done.returncode:
        raise SystemExit(f"{name} ended with {done.returncode}, {kills} killed for lack of memory")
    result = json.loads(done.stdout.splitlines()[-1])
    return {**result, "cgroup_peak": peak, "anonymous_peak": anonymous.bytes}


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--limit", type=parse_size, default=4 << 30, help="bytes (default: 4G)")
    made.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    args = common.parse(made, argv)
    with cgroup(args.limit):  # can we? before the files are made
        pass
    nodes, edges = (20_000, 300_000) if args.quick else (20_000_000, 300_000_000)
    files = large_graph(args.dir, nodes, edges)
    row_file = files.features(WIDTH).stat().st_size
    data = row_file + files.graph.stat().st_size
    report = Report(
        "inference_out_of_core",
        f"Vectors of every node, {common.size(data)} within {common.size(args.limit)}", args,
    )  # fmt: skip
    results: dict[str, dict[str, Any]] = {}
    for name in args.only:
        common.say(f"{name}, limit {common.size(args.limit)}, data {common.size(data)}")
        results[name] = run(name, files, args.limit, 2 if args.quick else 180)
    rows: list[list[common.Cell]] = []
    for name, result in results.items():
        for number, part in enumerate(result.get("layers", [result]), 1):
            count = result["rows"]
            each = {k: part[k] / count for k in ("seconds", "cpu_seconds", "device_bytes")}
            rows.append(
                [name, number, count, nodes * each["seconds"], nodes * each["cpu_seconds"],
                 nodes * each["device_bytes"] / data, common.size(result["cgroup_peak"] or 0),
                 common.size(result["anonymous_peak"])]
            )  # fmt: skip
    report.table(
        f"{nodes:,} nodes, {edges:,} edges; times and reads of all nodes, from those measured",
        ["", "layer", "nodes measured", "seconds", "processor seconds",
         "bytes read, times rows and graph", "peak charged to the cgroup", "of it anonymous"],
        rows,
    )  # fmt: skip
    if set(results) == set(NAMES):
        first, hand = results[OURS]["layers"][0], results[HAND]
        ratio = hand["seconds"] / hand["rows"] * nodes / first["seconds"]
        report.note(f"The loop by hand takes {ratio:.1f} times as long for the first layer.")
    (files.folder / "vectors.npy").unlink(missing_ok=True)
    report.parameters = {
        "limit": args.limit, "data_bytes": data, "nodes": nodes, "edges": edges, "batch": BATCH,
        "widths": [WIDTH, WIDTH, OUT_WIDTH],
    }  # fmt: skip
    report.data = {"runs": results}
    report.finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        name, folder, limit, seconds = sys.argv[2:]
        make = {OURS: embed, HAND: by_hand}[name]
        print(json.dumps(make(Path(folder), int(limit), float(seconds))), flush=True)
    else:
        main()
