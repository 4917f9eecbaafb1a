"""Neighbour sampling, one thread each: AetherGraph, pyg-lib or torch-sparse, DGL, GraphBolt.

    python benchmarks/sampling.py [--quick] [--dgl-python PATH] [--profile] [--nodes 10M ...]

All contenders sample the same power-law graph (10 edges per node) from the same seeds, in
processes pinned to one core that take turns. Beside them: the floor, that is the random cache
lines these samples cannot avoid, at the cost per line that floor.c measures in the same run.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import floor
from harness import common
from harness.common import GraphFiles, Ratio, Report
from harness.worker import ONE_THREAD, Worker, WorkerError, take_turns

NODES = (10_000, 100_000, 1_000_000, 10_000_000)
CASES = (([15, 10], 128), ([20, 15, 10], 1024))
TURN_SECONDS = 0.3  # a turn is long enough to time, short enough to interleave
OURS = "aethergraph memory"


@dataclass(frozen=True)
class Case:
    """One graph, one fanout: the rounds of every contender."""

    files: GraphFiles
    fanouts: list[int]
    batch: int
    rounds: dict[str, list[dict[str, list[float]]]]
    lower_bound: dict[str, float]

    def ns_per_edge(self, name: str) -> list[float]:
        """By round: the median over its batches."""
        return [
            1e9 * statistics.median(s / e for s, e in zip(r["seconds"], r["edges"], strict=True))
            for r in self.rounds[name]
        ]

    def median(self, name: str) -> float | None:
        return statistics.median(self.ns_per_edge(name)) if name in self.rounds else None

    def batch_us(self, name: str) -> float:
        return 1e6 * statistics.median(s for r in self.rounds[name] for s in r["seconds"])

    def edges(self, name: str) -> float:
        return statistics.mean(e for r in self.rounds[name] for e in r["edges"])

    def ratio(self, name: str) -> Ratio:
        return Ratio.paired(self.ns_per_edge(name), self.ns_per_edge(OURS))

    @property
    def label(self) -> list[common.Cell]:
        return [common.short(self.files.num_nodes), f"{self.fanouts} x {self.batch}"]

    def to_json(self) -> dict[str, Any]:
        return {
            "nodes": self.files.num_nodes,
            "edges": self.files.num_edges,
            "fanouts": self.fanouts,
            "batch": self.batch,
            "lower_bound": self.lower_bound,
            "contenders": {
                name: {
                    "ns_per_edge": self.median(name),
                    "ns_per_edge_by_round": self.ns_per_edge(name),
                    "us_per_batch": self.batch_us(name),
                    "edges_per_batch": self.edges(name),
                    "batches": sum(len(r["seconds"]) for r in self.rounds[name]),
                }
                for name in self.rounds
            },
        }


# ---- running -----------------------------------------------------------------------------------


def contenders(args: argparse.Namespace, report: Report) -> dict[str, str]:
    """Name -> interpreter of those that can run here; a note for each that cannot."""
    found = {OURS: sys.executable, "aethergraph mmap": sys.executable}
    for name, module in (("pyg-lib", "pyg_lib"), ("torch-sparse", "torch_sparse")):
        if common.importable(module):
            found[name] = sys.executable
        else:
            report.note(f"{name} is missing: it cannot be imported here.")
    if args.dgl_python is None:
        report.note("DGL and GraphBolt are missing: no --dgl-python was given.")
    else:
        found |= {"DGL": str(args.dgl_python), "GraphBolt": str(args.dgl_python)}
    return found


def start(
    files: GraphFiles, found: dict[str, str], args: argparse.Namespace, stack: ExitStack
) -> list[Worker]:
    tunables = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"} if args.peer_huge_pages else {}
    return [
        stack.enter_context(
            Worker(
                name,
                "samplers",
                {**files.config(), "core": args.core, "cpu_time": args.cpu_time},
                python=python,
                env={**ONE_THREAD, **({} if "aethergraph" in name else tunables)},
            )
        )
        for name, python in found.items()
    ]


def run_case(
    files: GraphFiles, fanouts: list[int], batch: int, workers: list[Worker], quick: bool
) -> dict[str, list[dict[str, list[float]]]]:
    rounds = 3 if quick else 15
    calibration = files.seeds(4, batch)
    slowest = max(
        max(w.ask("run", fanouts=fanouts, seeds=str(calibration), first=0, count=4)["seconds"])
        for w in workers
    )
    count = max(3, min(100, int((0.02 if quick else TURN_SECONDS) / slowest)))
    seeds = str(files.seeds((rounds + 1) * count, batch))
    return take_turns(
        workers,
        rounds,
        lambda worker, number: worker.ask(
            "run", fanouts=fanouts, seeds=seeds, first=(number + 1) * count, count=count
        ),
    )


def lower_bound(lines: list[dict[str, float]], costs: floor.Floor) -> dict[str, float]:
    """Nanoseconds per edge that the random lines of these samples cost, in all and by cause.

    ``result_ns``, not part of the sum: writing row, col and edge id of each edge, and each node.
    """
    mean = {key: statistics.mean(sample[key] for sample in lines) for key in lines[0]}
    parts = {
        "offsets": mean["expanded"] * costs.cost("read", mean["indptr_bytes"]),
        "lists": mean["list_lines"] * costs.cost("read", mean["indices_bytes"]),
        "id_map": mean["map_accesses"] * costs.cost("update", mean["map_bytes"]),
    }
    per_edge = {f"{name}_ns": value / mean["edges"] for name, value in parts.items()}
    result = 24 * mean["edges"] + 8 * mean["nodes"]
    written = result / 64 * costs.cost("write", result) / mean["edges"]
    return {"ns_per_edge": sum(per_edge.values()), **per_edge, "result_ns": written, **mean}


def run_graph(
    files: GraphFiles,
    found: dict[str, str],
    args: argparse.Namespace,
    report: Report,
    profiles: list[Profile],
) -> list[Case]:
    files.csc()
    costs = floor.measure(
        floor.working_sets(args.quick), repeats=2 if args.quick else 5, core=args.core
    )
    cases = []
    with ExitStack() as stack:
        workers = start(files, found, args, stack)
        for worker in workers:
            own = found[worker.name] != sys.executable
            for module, version in worker.ask("versions").items():
                report.versions[f"{module} (of DGL)" if own else module] = version
        for fanouts, batch in CASES:
            if batch > files.num_nodes:
                continue
            common.say(f"{common.short(files.num_nodes)} nodes, {fanouts} x {batch}")
            rounds = run_case(files, fanouts, batch, workers, args.quick)
            lines = workers[0].ask(
                "lines", fanouts=fanouts, seeds=str(files.seeds(4, batch)), first=0, count=4
            )
            cases.append(Case(files, fanouts, batch, rounds, lower_bound(lines, costs)))
            if args.profile:
                profile(workers[0], cases[-1], profiles)
    return cases


# ---- where the time goes -----------------------------------------------------------------------


Profile = tuple[str, list[list[common.Cell]]]  # title, rows of share, library, function


def profile(worker: Worker, case: Case, profiles: list[Profile]) -> None:
    """Sample our worker's program counter with perf while it runs alone."""
    count = max(3, min(2000, int(4e6 / case.batch_us(OURS))))
    seeds = str(case.files.seeds(count, case.batch))
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        record = subprocess.Popen(
            ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999", "-o", data,
             "-p", str(worker.pid)],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        worker.ask("run", fanouts=case.fanouts, seeds=seeds, first=0, count=count)
        record.send_signal(signal.SIGINT)
        record.wait()
        text = subprocess.run(
            ["perf", "report", "-i", data, "--stdio", "--no-children", "-F", "overhead,dso,symbol"],
            capture_output=True, text=True, check=False,
        ).stdout  # fmt: skip
    rows: list[list[common.Cell]] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[0].endswith("%") and len(rows) < 12:
            rows.append([words[0], words[1], words[-1]])
    nodes, fanouts = case.label
    profiles.append((f"where our time goes: {nodes} nodes, {fanouts}", rows))


# ---- reporting ---------------------------------------------------------------------------------


def report_cases(report: Report, cases: list[Case], names: list[str]) -> None:
    peers = [name for name in names if "aethergraph" not in name]
    report.table(
        "ns per sampled edge, medians",
        ["nodes", "fanouts x batch", "edges/batch", "floor", *names],
        [
            [*case.label, round(case.edges(OURS)), case.lower_bound["ns_per_edge"],
             *(case.median(name) for name in names)]
            for case in cases
        ],
    )  # fmt: skip
    report.table(
        "us per batch, medians",
        ["nodes", "fanouts x batch", *names],
        [[*case.label, *(case.batch_us(name) for name in names)] for case in cases],
    )
    report.table(
        "times slower per edge than aethergraph memory: median (range over rounds)",
        ["nodes", "fanouts x batch", *peers, "aethergraph mmap"],
        [
            [*case.label, *(str(case.ratio(name)) for name in [*peers, "aethergraph mmap"])]
            for case in cases
        ],
    )  # fmt: skip
    report.table(
        "aethergraph memory against the floor, ns per edge",
        ["nodes", "fanouts x batch", "floor: offsets", "lists", "id map", "sum",
         "writing the result", "measured", "measured / floor", "measured / (floor + writing)"],
        [
            [*case.label, *(case.lower_bound[f"{part}_ns"] for part in
                            ("offsets", "lists", "id_map")),
             bound, written, ns, ns / bound, ns / (bound + written)]
            for case in cases
            for bound, written, ns in [(case.lower_bound["ns_per_edge"],
                                        case.lower_bound["result_ns"], case.median(OURS) or 0.0)]
        ],
    )  # fmt: skip
    report.note(
        "Floor: random lines that every sampler of these samples touches (an offset pair per "
        "expanded node, the distinct lines of the sampled list entries, an id-map update per "
        "edge), times floor.c's ns per independent line at the size of the array touched. It "
        "leaves out all computing, random numbers and the writing of the result (given beside it), "
        "and assumes uniform access: skewed graphs hit caches more often."
    )
    report.note("DGL expands earlier hops' nodes again, hence more edges per batch: compare ns.")
    if "torch-sparse" in names:
        report.note("torch-sparse 0.6 makes a tensor for every random number: hence its times.")


def draw(report: Report) -> None:
    rows = report.rows("ns per sampled edge")
    cases = dict.fromkeys(row["fanouts x batch"] for row in rows)
    names = [*list(rows[0])[4:], "floor"]

    def panels(axes: Sequence[Any]) -> None:
        for axis, case in zip(axes, cases, strict=True):
            shown = [row for row in rows if row["fanouts x batch"] == case]
            series = {name: common.points(shown, "nodes", name) for name in names}
            common.lines(axis, series, "nodes (10 edges each)", "ns per sampled edge, one thread")
            axis.set_title(f"fanouts {case.replace(' x ', ', batch ')}", fontsize=10)

    common.plot(report, len(cases), panels)


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--dgl-python", type=Path, help="interpreter that has DGL 2.1")
    made.add_argument("--profile", action="store_true", help="where our time goes, with perf")
    made.add_argument("--nodes", nargs="+", type=common.parse_count, help="graph sizes")
    made.add_argument(
        "--peer-huge-pages", action="store_true",
        help="let glibc give the peers huge pages too (glibc.malloc.hugetlb=1)",
    )  # fmt: skip
    made.add_argument(
        "--cpu-time", action="store_true",
        help="count each thread's processor time, not wall time: for a machine that is not quiet",
    )  # fmt: skip
    args = common.parse(made, argv)
    report = Report("sampling", "Neighbour sampling, one thread", args)
    found = contenders(args, report)
    names = list(found)
    cases: list[Case] = []
    profiles: list[Profile] = []
    if args.profile and not common.have("perf"):
        report.note("no profile: perf is not installed")
        args.profile = False
    for num_nodes in args.nodes or (NODES[:1] if args.quick else NODES):
        files = common.power_law_graph(args.dir, num_nodes)
        cases += run_graph(files, found, args, report, profiles)
    report.parameters = {"core": args.core, "peer_huge_pages": args.peer_huge_pages,
                         "clock": "processor time" if args.cpu_time else "wall"}  # fmt: skip
    if args.cpu_time:
        report.note("Processor time of the sampling thread, not wall time.")
    if args.peer_huge_pages:
        report.note("The peers ran with glibc.malloc.hugetlb=1: their arrays have huge pages too.")
    report.data = {"cases": [case.to_json() for case in cases]}
    report_cases(report, cases, names)
    for title, rows in profiles:
        report.table(title, ["share", "in", "function"], rows)
    draw(report)
    report.finish()


if __name__ == "__main__":
    try:
        main()
    except WorkerError as error:
        raise SystemExit(str(error)) from None
