"""Accuracy parity with DGL: one training script over DGL's graphs and samplers, and over ours.

    python benchmarks/dgl_accuracy.py --dgl-python PATH [--quick]

GraphSAGE on the graph of accuracy.py, through dgl.dataloading and through GraphBolt. Each seed sets
the weights, the order of the nodes and the sampling (GraphBolt's ItemSampler shuffles by itself);
test accuracy is measured with all neighbours, by the same code for all. "Within noise" is the
permutation test of accuracy.py.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from accuracy import ACCURACY, draw, permutation_p
from contenders.dgl_trainers import BATCH, FANOUTS, PEERS
from harness import common
from harness.common import Report
from harness.worker import ONE_THREAD, Worker, WorkerError


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--dgl-python", type=Path, default=sys.executable, help="has DGL 2.1")
    args = common.parse(made, argv)
    report = Report("dgl_accuracy", "Accuracy parity with DGL: GraphSAGE, test accuracy", args)
    seeds, steps, nodes = (2, 10, 2_000) if args.quick else (5, 100, 100_000)
    base = {ours: peer for peer, own in PEERS.items() for ours in own}
    scores: dict[str, list[float]] = {n: [] for peer, own in PEERS.items() for n in (peer, *own)}
    taken = dict.fromkeys(scores, 0.0)
    config = {"nodes": nodes}
    python = str(args.dgl_python)
    with Worker("trainer", "dgl_trainers", config, python=python, env=ONE_THREAD) as worker:
        for module, version in worker.ask("versions").items():
            report.versions[f"{module} (of DGL)"] = version
        for seed in range(seeds):
            for name in scores:
                common.say(f"seed {seed}, {name}")
                result = worker.ask("run", name=name, seed=seed, steps=steps)
                scores[name].append(result["accuracy"])
                taken[name] += result["seconds"]
    rows: list[list[common.Cell]] = []
    for name, values in scores.items():
        against: list[common.Cell] = ["-", "-", "-"]
        if name in base:
            peer = scores[base[name]]
            p = permutation_p(values, peer)
            difference = statistics.mean(values) - statistics.mean(peer)
            against = [f"{difference:+.2f}", p, "yes" if p > 0.05 else "no"]
        mean = f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"
        rows.append([name, mean, *against, round(taken[name], 1)])
    report.parameters = {"nodes": nodes, "edges": 10 * nodes, "seeds": seeds, "steps": steps,
                         "fanouts": FANOUTS, "batch": BATCH}  # fmt: skip
    report.data = {"accuracy_percent": scores, "seconds": taken}
    report.table(
        f"{seeds} seeds, {steps} steps of {BATCH} nodes, fanouts {FANOUTS}",
        ["", ACCURACY, "against DGL's own above", "p, two-sided",
         "within noise (p > 0.05)", "seconds in all"],
        rows,
    )  # fmt: skip

    draw(report)
    report.finish()


if __name__ == "__main__":
    try:
        main()
    except WorkerError as error:
        raise SystemExit(str(error)) from None
