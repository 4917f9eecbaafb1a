"""Batches of links per second, with negatives and 128 float32 features: PyG's, stock, ours.

    python benchmarks/links.py [--quick]

A power-law graph of one type (1M nodes, 10M edges) and the typed graph of typed.py with reverse
edges. PyG's LinkNeighborLoader has graph and features in memory; ours map the files (mmap) or hold
them in huge pages (memory). All have num_workers=0, every core of the machine, and no model.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from contenders.link_loaders import CONTENDERS, FANOUTS, PYG
from harness import common
from harness.common import Ratio, Report
from harness.worker import Worker, WorkerError, take_turns
from typed import make_graphs

CASES = (("binary", 128), ("binary", 512), ("triplet", 128), ("triplet", 512))
WIDTH = 128
TOLERANCE = 0.03  # of the edges of a batch; quick runs have few batches and differ more


def folder_of(args: Any, typed: bool) -> Path:
    """Graph, arrays for PyG, and features."""
    if not typed:
        files = common.power_law_graph(args.dir, 10_000 if args.quick else 1_000_000)
        files.csc()
        files.features(WIDTH)
        return files.folder
    folder, nodes = make_graphs(args.dir, args.quick)
    rng = np.random.Generator(np.random.PCG64(1))
    for name, count in nodes.items():
        path = folder / f"x{WIDTH}-{name}.npy"
        if not path.exists():
            np.save(path, rng.standard_normal((count, WIDTH), np.float32))
    return folder


def measure(
    workers: list[Worker], negatives: str, batch: int, quick: bool
) -> dict[str, list[dict[str, float]]]:
    """Seconds, edges and links per batch by round."""
    rounds, target = (1, 0.02) if quick else (9, 1.5)
    case = {"negatives": negatives, "batch": batch}
    slowest = max(w.ask("epoch", count=2, seed=0, **case)["seconds"] / 2 for w in workers)
    count = max(2, min(200, int(target / slowest)))
    answers = take_turns(
        workers,
        rounds,
        lambda worker, number: worker.ask("epoch", count=count, seed=2 + number, **case),
    )
    return {
        name: [{**row, "seconds": row["seconds"] / count} for row in rows]
        for name, rows in answers.items()
    }


def check_work(rounds: dict[str, list[dict[str, float]]], tolerance: float) -> dict[str, float]:
    """Edges per batch by contender.

    Raises:
        WorkerError: they differ by more than ``tolerance``, or the numbers of links differ.
    """
    edges = {name: statistics.mean(r["edges"] for r in rows) for name, rows in rounds.items()}
    links = {name: {r["links"] for r in rows} for name, rows in rounds.items()}
    if max(edges.values()) > (1 + tolerance) * min(edges.values()):
        raise WorkerError(f"the contenders' batches have different numbers of edges: {edges}")
    if len(set.union(*links.values())) > 1:
        raise WorkerError(f"the contenders' batches have different numbers of links: {links}")
    return edges


def main(argv: Sequence[str] | None = None) -> None:
    args = common.parse(common.parser(__doc__), argv)
    report = Report("links", f"Loading links with negatives and {WIDTH} float32 features", args)
    sampler = common.pyg_sampler()
    if sampler is None:
        report.note(f"{PYG} is missing: neither pyg-lib nor torch-sparse is here.")
    else:
        report.note(f"{PYG} samples with {sampler.replace('_', '-')}.")
    rates: list[list[common.Cell]] = []
    ratios: list[list[common.Cell]] = []
    work: list[list[common.Cell]] = []
    results: list[dict[str, Any]] = []
    ours = [name for name in CONTENDERS if name != PYG]
    for graph in ("one type", "typed"):
        config = {"folder": str(folder_of(args, graph == "typed")), "typed": graph == "typed"}
        names = [name for name in CONTENDERS if name != PYG or sampler is not None]
        if args.quick:  # starting processes is what takes time there
            names = [name for name in names if not name.endswith("memory")]
        with ExitStack() as stack:
            workers = [stack.enter_context(Worker(name, "link_loaders", config)) for name in names]
            for negatives, batch in CASES[::2] if args.quick else CASES:
                label = [graph, negatives, batch]
                common.say(", ".join(map(str, label)))
                rounds = measure(workers, negatives, batch, args.quick)
                edges = check_work(rounds, 0.2 if args.quick else TOLERANCE)
                times = {name: [r["seconds"] for r in rows] for name, rows in rounds.items()}

                rate = {name: 1 / statistics.median(values) for name, values in times.items()}
                over = {
                    name: str(Ratio.paired(times[PYG], values))
                    for name, values in times.items()
                    if PYG in times
                }
                rates.append([*label, *(rate.get(name, "-") for name in CONTENDERS)])
                ratios.append([*label, *(over.get(name, "-") for name in ours)])
                work.append([*label, *(edges.get(name, "-") for name in CONTENDERS)])
                results.append({"graph": graph, "negatives": negatives, "batch": batch,
                                "edges_per_batch": edges,
                                "seconds_per_batch_by_round": times})  # fmt: skip
            memories = {worker.name: worker.ask("memory") for worker in workers}
            results.append({"graph": graph, "memory": memories})
    report.parameters = {"fanouts": FANOUTS, "width": WIDTH}
    report.data = {"cases": results}
    columns = ["graph", "negatives", "links per batch"]
    report.table(f"times as fast as {PYG}: median (range over rounds)", [*columns, *ours], ratios)
    report.table("batches per second, medians", [*columns, *CONTENDERS], rates)
    report.table("the work: edges per batch", [*columns, *CONTENDERS], work)
    report.note(f"Fanouts {FANOUTS}; one negative per link. A dash: no such loader, or left out.")
    draw(report, rates)
    report.finish()


def draw(report: Report, rates: list[list[common.Cell]]) -> None:
    def panels(axes: Sequence[Any]) -> None:
        for axis, graph in zip(axes, ("one type", "typed"), strict=True):
            row = next(row for row in rates if row[0] == graph)
            shown = [
                (name, value)
                for name, value in zip(CONTENDERS, row[3:], strict=True)
                if value != "-"
            ]
            values = [value if isinstance(value, float) else None for _, value in shown]
            common.bars(axis, [name for name, _ in shown], values, "batches per second")
            axis.set_title(f"{graph}, {row[1]} negatives, batch {row[2]}", fontsize=9)

    common.plot(report, 2, panels)


if __name__ == "__main__":
    try:
        main()
    except WorkerError as error:
        raise SystemExit(str(error)) from None
