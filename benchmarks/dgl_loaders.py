"""DGL's stock loaders over our graphs and over DGL's own, one thread each.

    python benchmarks/dgl_loaders.py --dgl-python PATH [--quick] [--nodes N]

dgl.dataloading.DataLoader with our GraphStorage and NeighborSampler against a DGLGraph and DGL's;
gb.DataLoader with our SamplingGraph, through GraphBolt's sample_neighbor and through
sample_neighbor_at_once, against a FusedCSCSamplingGraph. A graph of one type and one of eight edge
types, sampling alone and with 128 float32 features. All contenders are processes of the interpreter
that has DGL, pinned to one core; those of one loader take turns (all at once would not fit into
24 GiB: most hold graph and features in memory).
"""

from __future__ import annotations

import functools
import itertools
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typed
from contenders.dgl_contenders import DATALOADING, PIPES
from harness import common
from harness.common import GraphFiles, Ratio, Report
from harness.worker import ONE_THREAD, Worker, WorkerError, take_turns

CASES = (([15, 10], 128), ([20, 15, 10], 1024))
WIDTH = 128
FAMILIES = {"dgl.dataloading": DATALOADING, "GraphBolt": PIPES}
TOLERANCE = 0.03  # of the edges of a batch


@dataclass(frozen=True)
class Case:
    """One workload: the rounds of every contender of one family of loaders."""

    family: str
    graph: str
    fanouts: list[int]
    batch: int
    features: bool
    rounds: dict[str, list[dict[str, float]]]
    count: int

    @property
    def label(self) -> list[common.Cell]:
        work = "with features" if self.features else "sampling"
        return [self.graph, f"{self.fanouts} x {self.batch}", work]

    def per_batch(self, name: str, clock: str) -> list[float]:
        return [one[clock] / self.count for one in self.rounds[name]]

    def milliseconds(self, name: str) -> float:
        return 1e3 * statistics.median(self.per_batch(name, "seconds"))

    def ratio(self, name: str, base: str, clock: str) -> str:
        return str(Ratio.paired(self.per_batch(base, clock), self.per_batch(name, clock)))

    def mean(self, name: str, what: str) -> float:
        return statistics.mean(one[what] for one in self.rounds[name])

    def to_json(self) -> dict[str, Any]:
        return {"family": self.family, "graph": self.graph, "fanouts": self.fanouts,
                "batch": self.batch, "features": self.features, "batches_per_round": self.count,
                "rounds": self.rounds}  # fmt: skip


def homogeneous(args: Any) -> tuple[GraphFiles, dict[str, Any]]:
    files = common.power_law_graph(args.dir, args.nodes or (10_000 if args.quick else 10_000_000))
    files.csc()
    files.features(WIDTH)
    return files, {"folder": str(files.folder), "seeds_of": None, "width": WIDTH}


def heterogeneous(args: Any) -> tuple[GraphFiles, dict[str, Any]]:
    folder, nodes = typed.make_graphs(args.dir, args.quick, times=6.2)  # 10M nodes, 93M edges
    rng = np.random.Generator(np.random.PCG64(1))
    for name, count in nodes.items():
        path = folder / f"x{WIDTH}-{name}.npy"
        if not path.exists():
            np.save(path, rng.standard_normal((count, WIDTH), np.float32))
    own = folder / "seeds-post"
    own.mkdir(exist_ok=True)
    files = GraphFiles(own, nodes["post"], 0)
    return files, {"folder": str(folder), "seeds_of": "post", "width": WIDTH}


def measure(
    workers: Sequence[Worker], family: str, files: GraphFiles, graph: str, args: Any
) -> list[Case]:
    """All workloads on one graph; every contender of the family does the same work."""
    rounds, target = (2, 0.02) if args.quick else (args.rounds, 1.5)
    cases = []
    for (fanouts, most), features in itertools.product(CASES, (False, True)):
        batch = min(most, files.num_nodes // 4)
        common.say(
            f"{family}, {graph}, {fanouts} x {batch}, {'with' if features else 'no'} features"
        )
        what = {"fanouts": fanouts, "batch": batch, "features": features}
        few = {"seeds": str(files.seeds(4, batch)), "first": 0, "count": 2, **what}
        slowest = max(worker.ask("epoch", **few)["seconds"] / 2 for worker in workers)
        count = max(2, min(64, int(target / slowest)))
        what |= {"seeds": str(files.seeds((rounds + 1) * count, batch)), "count": count}
        answers = take_turns(workers, rounds, functools.partial(one_round, what))
        cases.append(Case(family, graph, fanouts, batch, features, answers, count))
        check(cases[-1])
    return cases


def one_round(what: dict[str, Any], worker: Worker, number: int) -> Any:
    return worker.ask("epoch", first=(number + 1) * what["count"], **what)


def check(case: Case) -> None:
    """The contenders sample as many edges and bring as many rows as DGL's.

    Raises:
        WorkerError: one does not.
    """
    base, *ours = FAMILIES[case.family]
    for name in ours:
        for what in ("edges", "rows"):
            own, wanted = case.mean(name, what), case.mean(base, what)
            if abs(own - wanted) > TOLERANCE * wanted:
                raise WorkerError(f"{case.label}: {what} of {name}: {own}, not {wanted}")


def add_tables(report: Report, cases: Sequence[Case]) -> None:
    columns = ["graph", "fanouts x batch", "work"]
    for family, (base, *ours) in FAMILIES.items():
        own = [case for case in cases if case.family == family]
        for clock, meaning in (("seconds", "wall"), ("cpu", "processor time")):
            report.table(
                f"{family}: times as fast as {base}, {meaning}: median (range over rounds)",
                [*columns, *ours],
                [[*c.label, *(c.ratio(name, base, clock) for name in ours)] for c in own],
            )
        report.table(
            f"{family}: ms per batch, medians",
            [*columns, base, *ours],
            [[*c.label, *(c.milliseconds(name) for name in (base, *ours))] for c in own],
        )
        report.table(
            f"{family}: the work: edges / rows of features per batch",
            [*columns, base, *ours],
            [
                [*c.label, *(f"{c.mean(n, 'edges'):,.0f} / {c.mean(n, 'rows'):,.0f}"
                             for n in (base, *ours))]
                for c in own
            ],
        )  # fmt: skip


def draw(report: Report) -> None:
    def panels(axes: Sequence[Any]) -> None:
        for axis, (family, (base, *ours)) in zip(axes, FAMILIES.items(), strict=True):
            rows = report.rows(f"{family}: times as fast as {base}, processor time")
            high = 0.8 / len(ours)
            for place, name in enumerate(ours):
                medians = [row[name].partition(" ")[0] for row in rows]
                at = [number + place * high for number in range(len(rows))]
                widths = [float(median) for median in medians]
                bars = axis.barh(at, widths, high * 0.9, label=name, color=common.COLORS[place])
                axis.bar_label(bars, medians, padding=2, fontsize=6)
            labels = [", ".join(list(row.values())[:3]) for row in rows]
            axis.set_yticks([n + 0.4 - high / 2 for n in range(len(rows))], labels, fontsize=6)
            axis.invert_yaxis()
            axis.axvline(1, color="k", linewidth=0.8)
            axis.set_xlabel(f"times as fast as {base}, processor time", fontsize=7)
            axis.set_title(family, fontsize=9)
            axis.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.3, -0.17))

    common.plot(report, len(FAMILIES), panels)


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--dgl-python", type=Path, default=sys.executable, help="has DGL 2.1")
    made.add_argument("--nodes", type=int, help="nodes; ten edges each (default: 10M)")
    made.add_argument("--rounds", type=int, default=9)
    args = common.parse(made, argv)
    report = Report("dgl_loaders", "DGL's stock loaders, one thread", args)
    cases: list[Case] = []
    graphs = (("one type", homogeneous), ("8 edge types", heterogeneous))
    pairs = list(itertools.product(graphs, FAMILIES))
    if args.quick:  # what takes time then is importing DGL: each graph and each family comes once
        pairs = list(zip(graphs, FAMILIES, strict=True))
    for (label, prepare), family in pairs:
        files, config = prepare(args)
        config["core"] = args.core
        with ExitStack() as stack:
            workers = [
                stack.enter_context(
                    Worker(name, "dgl_contenders", config,
                           python=str(args.dgl_python), env=ONE_THREAD)
                )
                for name in FAMILIES[family]
            ]  # fmt: skip
            for module, version in workers[0].ask("versions").items():
                report.versions[f"{module} (of DGL)"] = version
            cases += measure(workers, family, files, label, args)
    report.parameters = {"core": args.core, "width": WIDTH, "rounds": args.rounds}
    report.data = {"cases": [case.to_json() for case in cases]}
    add_tables(report, cases)
    report.note(
        "Each is the stock loader from iter() to the last batch, no worker processes, one core. "
        "GraphBolt's own graph returns no edge ids; ours does. DGL and GraphBolt have features in "
        "memory, ours in memory (in huge pages) or mapped, all in the page cache and touched "
        "before. What is in the batches is counted beside the clock. Transparent huge "
        f"pages: {Path('/sys/kernel/mm/transparent_hugepage/enabled').read_text().strip()}."
    )
    draw(report)
    report.finish()


if __name__ == "__main__":
    try:
        main()
    except WorkerError as error:
        raise SystemExit(str(error)) from None
