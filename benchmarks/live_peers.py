"""Live graphs beside others that change: Aspen, a Data that is rebuilt, networkx, a dict of lists.

    git clone https://github.com/ldhulipala/aspen && git -C aspen checkout ecc3193
    python benchmarks/live_peers.py --aspen aspen [--quick] [--large]
    python benchmarks/live_peers.py --only large            # ours alone, to 500M edges: 8 GB

One stream of edges of a power-law graph for all, in-edges only, one thread on one core, a process
each, which take turns. Aspen (Dhulipala et al., PLDI 2019), the structure that ours follows, is a
set of edges without ids, times or weights; "aethergraph set" is its counterpart. It is compiled
here, serial, and called from C++. PyG has nothing to insert into: its ``Data`` is rebuilt, which
counts once per epoch. Growth is one graph of many nodes that gets ever more edges.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report
from harness.worker import ONE_THREAD, Worker, take_turns

SET, APPEND = "aethergraph set", "aethergraph append"
ASPEN, REBUILT, LISTS, NETWORKX = "Aspen", "PyG Data, rebuilt", "dict of lists", "networkx"
BUSY = (
    "Times are processor times, in turns, because others may use the machine meanwhile; compare "
    "the ratios. Quantiles of wall time have the others' turns in them."
)
COMMIT = "ecc3193da05aef3b4e5f5de7cab77b215c0b8211"
CASES = (([15, 10], 128), ([20, 15, 10], 1024))
#: Graphs of --large, and the edges that they grow to.
LARGE = {
    "aethergraph append, ids of 4 bytes": 500_000_000,
    "aethergraph set, ids of 4 bytes": 200_000_000,
}
#: Most edges of those that hold a Python object for each.
MOST = {LISTS: 10_000_000, NETWORKX: 1_000_000}
SPARE = 5 << 30  # bytes that must stay free
FLAGS = [
    "-O3", "-std=c++17", "-march=native", "-mcx16", "-w", "-shared", "-fPIC",
    "-DEDGELONG", "-DUSEMALLOC", "-DNDEBUG",
]  # fmt: skip


def build_aspen(args: argparse.Namespace, report: Report) -> Path | None:
    """Compile Aspen's headers with our calls; return the library, or None and say why."""
    how = f"git clone https://github.com/ldhulipala/aspen, git checkout {COMMIT[:7]}, --aspen PATH"
    if args.aspen is None:
        report.note(f"Aspen is missing: no --aspen was given ({how}).")
        return None
    if not common.have("g++"):
        report.note("Aspen is missing: there is no g++.")
        return None
    source = common.HERE / "contenders" / "aspen_live.cpp"
    library: Path = args.dir / "libaspen-live.so"
    common.say("compiling Aspen")
    done = subprocess.run(
        ["g++", *FLAGS, "-I", args.aspen / "code", "-o", library, source],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        report.note(f"Aspen is missing, it does not compile: {done.stderr.strip()[:200]} ({how})")
        return None
    report.versions["aspen"] = COMMIT[:12]
    report.versions["g++"] = subprocess.run(
        ["g++", "-dumpfullversion"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return library


class Group:
    """Contenders over one stream, and how many edges each has had."""

    def __init__(
        self, names: Sequence[str], nodes: int, edges: int, library: Path | None, core: int,
        stack: ExitStack,
    ) -> None:  # fmt: skip
        config = {"num_nodes": nodes, "num_edges": edges, "aspen": str(library), "core": core}
        self.workers = [
            stack.enter_context(Worker(name, "live_graphs", config, env=ONE_THREAD))
            for name in names
            if name != ASPEN or library is not None
        ]

    def up_to(self, edges: int) -> list[Worker]:
        """Return those that hold so many edges, while there is memory."""
        return [w for w in self.workers if edges <= MOST.get(w.name, edges)]

    def load(self, edges: int) -> dict[str, float]:
        """Insert up to so many edges; return nanoseconds per edge by contender."""
        found = {}
        for worker in self.up_to(edges):
            if common.available_memory() < SPARE:
                raise MemoryError
            common.say(f"{worker.name}: {common.short(edges)} edges")
            found[worker.name] = worker.ask("load", last=edges)
        return found


def median(answers: Sequence[Any]) -> float:
    return statistics.median(float(a) for a in answers)


# ---- one size ----------------------------------------------------------


def time_inserts(
    report: Report, group: Group, nodes: int, edges: int, sizes: Sequence[int], rounds: int
) -> None:
    """Insert in batches of several sizes, then one by one."""
    group.load(edges)
    workers = [w for w in group.up_to(edges) if w.name != REBUILT]
    rows: list[list[common.Cell]] = []
    for size in sizes:
        count = max(1, min(2000, sizes[-1] // size))
        times = take_turns(
            workers, rounds, lambda w, _, s=size, c=count: w.ask("batches", size=s, count=c)
        )
        report.data[f"batches of {size}"] = times
        rows += [
            [common.short(size), name, median(own), str(Ratio.paired(own, times[SET]))]
            for name, own in times.items()
        ]
    label = f"{common.short(nodes)} nodes, {common.short(edges)} edges"
    report.table(
        f"inserting in batches, {label}: processor time",
        ["edges in a batch", "graph", "ns per edge", f"times as long as {SET}"],
        rows,
    )
    count = 1000 if report.args.quick else 100_000
    found = take_turns(workers, rounds, lambda w, _: w.ask("singles", count=count))
    report.data["singles"] = found
    report.table(
        f"inserting one by one, {label}: processor time in the mean, quantiles of wall time",
        ["graph", "us, mean", "us, median", "us, 99 %", "us, 99.9 %", "us, 99.99 %",
         f"mean: times as long as {SET}"],
        [
            [
                name,
                *(median([a[k] for a in own]) for k in ("mean", "0.5", "0.99", "0.999", "0.9999")),
                str(Ratio.paired([a["mean"] for a in own], [a["mean"] for a in found[SET]])),
            ]
            for name, own in found.items()
        ],
    )  # fmt: skip


def time_sampling(report: Report, group: Group, nodes: int, edges: int, rounds: int) -> None:
    rng = np.random.default_rng(3)
    workers = [w for w in group.up_to(edges) if w.name != REBUILT]
    rows: list[list[common.Cell]] = []
    for fanouts, size in CASES:
        size = min(size, nodes // 4)
        count = 2 if report.args.quick else max(2, 10_000 // size // len(fanouts))
        seeds = [rng.choice(nodes, size, replace=False).tolist() for _ in range(count)]
        slow = {NETWORKX, LISTS} if size > 128 else set()
        answers = take_turns(
            [w for w in workers if w.name not in slow],
            rounds,
            lambda w, _, s=seeds, f=fanouts: w.ask("sample", seeds=s, fanouts=f),
        )
        report.data[f"sample {fanouts} x {size}"] = answers
        ours = [a["ms"] / a["edges"] for a in answers[SET]]
        rows += [
            [
                f"{fanouts} x {size}", name, median([a["ms"] for a in own]),
                median([a["edges"] for a in own]),
                str(Ratio.paired([a["ms"] / a["edges"] for a in own], ours)),
            ]
            for name, own in answers.items()
        ]  # fmt: skip
    report.table(
        "sampling: processor time per batch",
        ["fanouts x batch", "graph", "ms", "edges", f"per edge: times as long as {SET}"],
        rows,
    )
    report.note(
        "Aspen has no sampler: each list of the frontier is read whole, and draws are taken from "
        "the copy; sampled nodes get no new numbers. The lists of append keep parallel edges."
    )


def time_rebuilding(
    report: Report, group: Group, edges: int, rounds: int
) -> list[list[common.Cell]]:
    (worker,) = (w for w in group.workers if w.name == REBUILT)
    spent = [float(worker.ask("rebuild")) for _ in range(rounds)]
    report.data[f"rebuild {edges}"] = spent
    return [[common.short(edges), median(spent), 1e9 * median(spent) / edges]]


# ---- growth ----------------------------------------------------------


def grow(
    report: Report, nodes: int, steps: Sequence[int], library: Path | None, rounds: int
) -> None:
    """Measure inserts at ever more edges; save the report after each step."""
    rows: list[list[common.Cell]] = []
    size, count = (1000, 2) if report.args.quick else (10_000, 20)
    with ExitStack() as stack:
        names = [SET, APPEND, ASPEN, LISTS]
        group = Group(names, nodes, steps[-1], library, report.args.core, stack)
        for edges in steps:
            try:
                group.load(edges)
            except MemoryError:
                report.note(
                    f"Growth ends before {common.short(edges)} edges: others use the memory."
                )
                break
            workers = group.up_to(edges)
            batch = take_turns(
                workers, rounds, lambda w, _: w.ask("batches", size=size, count=count)
            )
            one = take_turns(workers, rounds, lambda w, _: w.ask("singles", count=size))
            report.data[f"growth {edges}"] = {"batch": batch, "one": one}
            for name in batch:
                ns, us = median(batch[name]), median([a["mean"] for a in one[name]])
                ratio = str(Ratio.paired(batch[name], batch[SET]))
                rows.append([common.short(edges), name, ns, ratio, us,
                             median([a["0.9999"] for a in one[name]])])  # fmt: skip
            report.tables.clear()
            report.table(
                f"{common.short(nodes)} nodes: batches of {size:,} edges, and one edge at a time",
                ["edges", "graph", "ns per edge, batches", f"times as long as {SET}",
                 "us per edge, single", "us, 99.99 %"],
                rows,
            )  # fmt: skip
            draw(report)
            report.finish()


def draw(report: Report) -> None:
    rows = report.rows()
    names = dict.fromkeys(row["graph"] for row in rows)

    def panels(axes: Sequence[Any]) -> None:
        for axis, column in zip(axes, ("ns per edge, batches", "us per edge, single"), strict=True):
            series = {
                name: common.points([r for r in rows if r["graph"] == name], "edges", column)
                for name in names
            }
            common.lines(axis, series, "edges", column)

    common.plot(report, 2, panels)


def grow_large(args: argparse.Namespace) -> None:
    """Only ours, far beyond what Aspen and objects of Python have memory for."""
    report = Report("live_growth_large", "Live graphs that grow large", args)
    report.note(BUSY)
    nodes, steps = 50_000_000, [n * 1_000_000 for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)]
    if args.quick:
        nodes, steps = 20_000, [20_000, 80_000]
    report.parameters = {"core": args.core, "edges_per_batch": 10_000}
    fanouts, size = [15, 10], min(1024, nodes // 4)
    rows: list[list[common.Cell]] = []
    for name, most in LARGE.items():
        own = [n for n in steps if n <= min(most, args.most or most)]
        with ExitStack() as stack:
            group = Group([name], nodes, own[-1], None, args.core, stack)
            (worker,) = group.workers
            for number, edges in enumerate(own):
                try:
                    ns = group.load(edges)[name]
                except MemoryError:
                    report.note(f"{name}: too little memory for {common.short(edges)} edges.")
                    break
                one = worker.ask("singles", count=1000 if args.quick else 50_000)
                rng = np.random.default_rng(number)
                seeds = [rng.integers(0, nodes, size).tolist() for _ in range(5)]
                drawn = worker.ask("sample", seeds=seeds, fanouts=fanouts)
                per_edge = 1e6 * drawn["ms"] / max(1, drawn["edges"])
                bytes_each = worker.ask("size")
                rows.append(
                    [
                        name, common.short(edges), ns, one["mean"], one["0.5"], one["0.999"],
                        one["0.9999"], bytes_each, per_edge,
                    ]
                )  # fmt: skip
                report.tables.clear()
                report.table(
                    f"{common.short(nodes)} nodes, an ever larger graph: inserting in batches of "
                    f"10,000 since the row before, and one by one; sampling {fanouts} x {size}",
                    ["graph", "edges", "ns per edge, batches", "us per edge, single", "us, median",
                     "us, 99.9 %", "us, 99.99 %", "bytes per edge", "ns per sampled edge"],
                    rows,
                )  # fmt: skip
                draw(report)
                report.finish()


def compare_at_one_size(args: argparse.Namespace) -> None:
    report = Report("live_peers", "Graphs that change, beside others", args)
    library = build_aspen(args, report)
    nodes, rounds = (5_000, 1) if args.quick else (1_000_000, 5)
    report.parameters = {"core": args.core, "rounds": rounds}
    sizes = [100, 1000] if args.quick else [100, 10_000, 1_000_000]
    with ExitStack() as stack:
        names = [SET, APPEND, ASPEN, LISTS]
        group = Group(names, nodes, 40 * nodes, library, args.core, stack)
        time_inserts(report, group, nodes, 10 * nodes, sizes, rounds)
        time_sampling(report, group, nodes, 10 * nodes, rounds)
    batches = report.data[f"batches of {sizes[1]}"]
    if common.importable("networkx"):  # fewer edges: it needs Python objects for each
        with ExitStack() as stack:
            few = min(nodes, MOST[NETWORKX])
            group = Group([SET, NETWORKX], nodes // 10, 4 * few, None, args.core, stack)
            time_inserts(report, group, nodes // 10, few, [100, 1000], min(3, rounds))
    else:
        report.note("networkx is missing.")
    if common.importable("torch_geometric"):
        with ExitStack() as stack:
            group = Group([REBUILT], nodes, 10 * nodes, None, args.core, stack)
            rows: list[list[common.Cell]] = []
            for edges in (nodes, 10 * nodes):
                group.load(edges)
                rows += time_rebuilding(report, group, edges, min(3, rounds))
        report.table(
            "PyG Data, rebuilt as its loaders do: processor time",
            ["edges", "seconds per rebuild", "ns per edge"],
            rows,
        )
    else:
        report.note("PyG is missing.")
    report.note(BUSY)
    label = f"ns per edge, batches of {sizes[1]:,}"
    values = [median(own) for own in batches.values()]
    common.plot(report, 1, lambda axes: common.bars(axes[0], list(batches), values, label))
    report.finish()


def compare_as_they_grow(args: argparse.Namespace) -> None:
    report = Report("live_growth", "Graphs that grow", args)
    library = build_aspen(args, report)
    report.note(BUSY)
    steps = [10_000, 20_000] if args.quick else [n * 1_000_000 for n in (1, 2, 5, 10, 20, 50, 100)]
    steps = [n for n in steps if n <= (args.most or 100_000_000)]
    grow(report, 25_000 if args.quick else 10_000_000, steps, library, 1 if args.quick else 3)


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--aspen", type=Path, help="folder that Aspen was cloned into")
    made.add_argument("--only", choices=("one-size", "growth", "large"), help="one of the parts")
    made.add_argument("--most", type=int, help="edges that growth ends at; 100M, large: 500M")
    made.add_argument("--large", action="store_true", help="also ours to 500M edges: 8 GB")
    args = common.parse(made, argv)
    large = args.large or args.only == "large"
    if args.only in (None, "one-size"):
        compare_at_one_size(args)
    if args.only in (None, "growth"):
        compare_as_they_grow(args)
    if large:
        grow_large(args)


if __name__ == "__main__":
    main()
