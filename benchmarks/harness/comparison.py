"""One sampler against its peers, case by case: turns, the check of equal work, tables, a plot.

For typed.py and modes.py. A contender's ``run`` takes ``fanouts``, ``seeds``, ``first`` and
``count`` beside what names the case, and answers with seconds and edges by batch.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import common
from harness.common import Ratio, Report
from harness.worker import ONE_THREAD, Worker, WorkerError, take_turns

OURS, MAPPED = "aethergraph memory", "aethergraph mmap"
TURN_SECONDS = 0.3
NS = "ns per sampled edge, medians"
TOLERANCE = 0.01  # of the edges of one hop


@dataclass(frozen=True)
class Comparison:
    """One case: the rounds of every contender, and the edges of its first hop alone."""

    label: tuple[str, ...]
    rounds: dict[str, list[dict[str, list[float]]]]
    one_hop: dict[str, float]

    def ns_per_edge(self, name: str) -> list[float]:
        """By round: the median over its batches."""
        return [
            1e9 * statistics.median(s / e for s, e in zip(r["seconds"], r["edges"], strict=True))
            for r in self.rounds[name]
        ]

    def median(self, name: str) -> float:
        return statistics.median(self.ns_per_edge(name))

    def batch_us(self, name: str) -> float:
        return 1e6 * statistics.median(s for r in self.rounds[name] for s in r["seconds"])

    def edges(self, name: str) -> float:
        return statistics.mean(e for r in self.rounds[name] for e in r["edges"])

    def ratio(self, name: str) -> str:
        """How many times as long as ours per edge."""
        return str(Ratio.paired(self.ns_per_edge(name), self.ns_per_edge(OURS)))

    def work(self, name: str) -> str:
        return f"{self.one_hop[name]:,.0f} / {self.edges(name):,.0f}"

    def cells(self, names: Sequence[str], value: Callable[[str], common.Cell]) -> list[common.Cell]:
        """A row: the label, and a value by contender, "-" for one that has no such mode."""
        return [*self.label, *(value(name) if name in self.rounds else "-" for name in names)]

    def to_json(self) -> dict[str, Any]:
        return {
            "case": list(self.label),
            "contenders": {
                name: {
                    "ns_per_edge": self.median(name),
                    "ns_per_edge_by_round": self.ns_per_edge(name),
                    "us_per_batch": self.batch_us(name),
                    "edges_per_batch": self.edges(name),
                    "edges_of_one_hop": self.one_hop[name],
                    "batches": sum(len(r["seconds"]) for r in self.rounds[name]),
                }
                for name in self.rounds
            },
        }


# ---- running -----------------------------------------------------------------------------------


def arguments(description: str | None) -> argparse.ArgumentParser:
    made = common.parser(description)
    made.add_argument("--dgl-python", type=Path, help="interpreter that has DGL 2.1")
    made.add_argument(
        "--cpu-time", action="store_true",
        help="count each thread's processor time, not wall time: for a machine that is not quiet",
    )  # fmt: skip
    return made


def contenders(args: argparse.Namespace, report: Report) -> dict[str, str]:
    """Name -> interpreter of those that can run here; a note for each that cannot."""
    found = {OURS: sys.executable, MAPPED: sys.executable}
    sampler = common.pyg_sampler()
    if sampler != "pyg_lib":
        report.note("pyg-lib is missing: it cannot be imported here.")
    if sampler is not None:
        found[sampler.replace("_", "-")] = sys.executable
    if args.dgl_python is None:
        report.note("DGL and GraphBolt are missing: no --dgl-python was given.")
    else:
        found |= {"DGL": str(args.dgl_python), "GraphBolt": str(args.dgl_python)}
    report.parameters = {
        "core": args.core,
        "clock": "processor time" if args.cpu_time else "wall",
    }
    if args.cpu_time:
        report.note("Processor time of the sampling thread, not wall time.")
    return found


def start(
    script: str, found: dict[str, str], folder: Path, args: argparse.Namespace, stack: ExitStack
) -> list[Worker]:
    """The contenders' processes, on one core with one thread each."""
    config = {"folder": str(folder), "core": args.core, "cpu_time": args.cpu_time}
    return [
        stack.enter_context(Worker(name, script, config, python=python, env=ONE_THREAD))
        for name, python in found.items()
    ]


def note_versions(report: Report, workers: Sequence[Worker], found: dict[str, str]) -> None:
    for worker in workers:
        own = found[worker.name] != sys.executable
        for module, version in worker.ask("versions").items():
            report.versions[f"{module} (of DGL)" if own else module] = version


def compare(
    workers: Sequence[Worker],
    label: tuple[str, ...],
    fanouts: list[int],
    seeds: Callable[[int], Path],
    quick: bool,
    inexact: Sequence[str] = (),
    **case: Any,
) -> Comparison:
    """Give the workers turns at one case.

    Args:
        seeds: number of batches -> file of as many.
        inexact: contenders whose one hop is known to have other edges; the others must agree.
        case: names the case to the workers.

    Raises:
        WorkerError: a contender's one hop has more or fewer edges than ours.
    """
    common.say(", ".join(label))
    few = {"seeds": str(seeds(4)), "first": 0, "count": 4, **case}
    one_hop = {
        worker.name: statistics.mean(worker.ask("run", fanouts=fanouts[:1], **few)["edges"])
        for worker in workers
    }
    for name, edges in one_hop.items():
        if name not in inexact and abs(edges / one_hop[OURS] - 1) > TOLERANCE:
            raise WorkerError(f"{label}: one hop of {name} has {edges} edges, not {one_hop[OURS]}")
    slowest = max(max(worker.ask("run", fanouts=fanouts, **few)["seconds"]) for worker in workers)
    count = max(3, min(100, int((0.02 if quick else TURN_SECONDS) / slowest)))
    rounds = 3 if quick else 15
    file = str(seeds((rounds + 1) * count))
    answers = take_turns(
        workers,
        rounds,
        lambda worker, number: worker.ask(
            "run", fanouts=fanouts, seeds=file, first=(number + 1) * count, count=count, **case
        ),
    )
    return Comparison(label, answers, one_hop)


# ---- reporting ---------------------------------------------------------------------------------


def add_tables(
    report: Report, columns: Sequence[str], found: Sequence[Comparison], names: Sequence[str]
) -> None:
    """Time per edge and per batch, the work compared, and the ratios; ``columns`` name labels."""
    report.data = {"cases": [one.to_json() for one in found]}
    others = [name for name in names if name != OURS]
    report.table(
        f"times as long per edge as {OURS}: median (range over rounds)",
        [*columns, *others],
        [one.cells(others, one.ratio) for one in found],
    )
    report.table(
        NS,
        [*columns, *names],
        [one.cells(names, one.median) for one in found],
    )
    report.table(
        "us per batch, medians",
        [*columns, *names],
        [one.cells(names, one.batch_us) for one in found],
    )
    report.table(
        "the work: edges per batch with one hop / with all hops",
        [*columns, *names],
        [one.cells(names, one.work) for one in found],
    )
    report.note(
        "With one hop, every contender samples the same number of edges, which is checked. DGL "
        "and GraphBolt expand the nodes of earlier hops again, hence more edges with all hops: "
        "compare ns per edge."
    )


def draw(report: Report, panels: dict[str, Sequence[dict[str, Any]]]) -> None:
    """Draw rows of the table NS in panels by title; of several rows, bars name the first label."""
    bars = {
        title: {
            name if len(cases) == 1 else f"{next(iter(case.values()))}: {name}": value
            for case in cases
            for name, value in case.items()
            if isinstance(value, (int, float))
        }
        for title, cases in panels.items()
    }

    def draw_all(axes: Sequence[Any]) -> None:
        for axis, (title, values) in zip(axes, bars.items(), strict=True):
            common.bars(axis, list(values), list(values.values()), "ns per sampled edge")
            axis.tick_params(axis="y", labelsize=7)
            axis.set_title(title, fontsize=9)

    common.plot(report, len(panels), draw_all)
