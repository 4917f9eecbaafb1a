"""Batches per second with 128 float32 features: PyG's loader, stock loader over our stores, ours.

    python benchmarks/end_to_end.py [--quick] [--nodes N]

PyG's NeighborLoader has the graph and the features in memory; ours map the files (mmap) or hold
them in huge pages (memory). All have num_workers=0 and every core of the machine. Beside them, what
sampling and gathering take alone: as fast a loader would be that did nothing else, one after the
other; and what PyG's stock loader takes by itself, with a sampler and stores that do nothing: it
samples, gathers and makes a batch in one thread, so that over any stores it takes both together, at
least. Processor time is that of all threads: on two cores no loader makes a batch in less than half
of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from contenders.loaders import ALONE, IDLE, NAMES, PYG
from harness import common
from harness.common import GraphFiles, Ratio, Report
from harness.worker import Worker, WorkerError, take_turns

#: Fan-outs, batch size, and whether a model is trained as well.
CASES = (
    ([15, 10], 128, False),
    ([15, 10], 128, True),
    ([15, 10], 1024, False),
    ([15, 10], 1024, True),
    ([20, 15, 10], 1024, False),
)
WIDTH = 128


def start(files: GraphFiles, features: str, names: Sequence[str], stack: ExitStack) -> list[Worker]:
    config = {**files.config(), "features": features}
    return [stack.enter_context(Worker(name, "loaders", config)) for name in names]


def shown(quick: bool) -> list[str]:
    """Quick runs spare the memory variants: starting processes is what takes time there."""
    return [name for name in NAMES if not (quick and name.endswith("memory"))]


def contenders(report: Report) -> list[str]:
    """Those shown, PyG's loader only if PyG can sample here; says so."""
    sampler = common.pyg_sampler()
    if sampler is None:
        report.note("PyG's NeighborLoader is missing: neither pyg-lib nor torch-sparse is here.")
        return [name for name in shown(report.args.quick) if name != PYG]
    report.note(f"PyG's NeighborLoader samples with {sampler.replace('_', '-')}.")
    return shown(report.args.quick)


def measure(
    workers: list[Worker], fanouts: list[int], batch: int, model: bool, quick: bool
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds and processor seconds per batch by round."""
    rounds, target = (1, 0.02) if quick else (9, 1.5)
    arguments = {"fanouts": fanouts, "batch": batch, "model": model}
    slowest = max(w.ask("epoch", count=2, seed=0, **arguments)["seconds"] / 2 for w in workers)
    count = max(2, min(200, int(target / slowest)))
    answers = take_turns(
        workers,
        rounds,
        lambda worker, number: worker.ask("epoch", count=count, seed=2 + number, **arguments),
    )
    seconds, busy = (
        {name: [row[kind] / count for row in rows] for name, rows in answers.items()}
        for kind in ("seconds", "cpu")
    )
    return seconds, busy


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--nodes", type=int, help="nodes; ten edges each (default: 1M)")
    args = common.parse(made, argv)
    report = Report("end_to_end", f"Loading batches with {WIDTH} float32 features", args)
    files = common.power_law_graph(args.dir, args.nodes or (10_000 if args.quick else 1_000_000))
    files.csc()
    features = files.features(WIDTH).name
    names, columns = contenders(report), shown(args.quick)
    ours = [name for name in columns if name != PYG]
    rows: list[list[common.Cell]] = []
    ratios: list[list[common.Cell]] = []
    processor: list[list[common.Cell]] = []
    results: list[dict[str, Any]] = []
    with ExitStack() as stack:
        workers = start(files, features, names, stack)
        for fanouts, batch, model in CASES[:2] if args.quick else CASES:
            label = [f"{fanouts} x {batch}", "GraphSAGE step" if model else "loading only"]
            common.say(", ".join(label))
            some = [one for one in workers if not (model and one.name in (ALONE, IDLE))]
            times, busy = measure(some, fanouts, batch, model, args.quick)
            rates = {name: 1 / statistics.median(own) for name, own in times.items()}
            rows.append([*label, *(rates.get(name) for name in columns)])
            spent = {name: statistics.median(own) * 1e3 for name, own in busy.items()}
            processor.append([*label, *(spent.get(name) for name in columns)])
            over = {n: Ratio.paired(times[PYG], own) for n, own in times.items() if PYG in times}
            ratios.append([*label, *(str(over[n]) if n in over else None for n in ours)])
            results.append({"fanouts": fanouts, "batch": batch, "model": model,
                            "seconds_per_batch_by_round": times,
                            "processor_seconds_per_batch_by_round": busy})  # fmt: skip
        memories = {worker.name: worker.ask("memory") for worker in workers}
    report.parameters = {"nodes": files.num_nodes, "edges": files.num_edges, "width": WIDTH}
    report.data = {"cases": results, "memory": memories}
    report.table("batches per second, medians", ["fanouts x batch", "work", *columns], rows)
    report.table(
        f"times as fast as {PYG}: median (range over rounds)",
        ["fanouts x batch", "work", *ours],
        ratios,
    )
    report.table(
        "processor ms per batch, medians", ["fanouts x batch", "work", *columns], processor
    )
    draw(report, columns, rows)
    report.finish()


def draw(report: Report, columns: list[str], rows: list[list[common.Cell]]) -> None:
    def panels(axes: Sequence[Any]) -> None:
        for axis, row in zip(axes, rows, strict=True):
            values = [value if isinstance(value, float) else None for value in row[2:]]
            common.bars(axis, columns, values, "batches per second")
            axis.set_title(f"{row[0]}, {row[1]}", fontsize=9)

    common.plot(report, len(rows), panels)


if __name__ == "__main__":
    try:
        main()
    except WorkerError as error:
        raise SystemExit(str(error)) from None
