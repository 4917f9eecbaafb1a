"""Sampling in time, of many types and of one: AetherGraph in memory and on disk, and pyg-lib.

    [sudo] python benchmarks/typed_temporal.py [--quick] [--only SIZE ...] [--rounds 7]

Customers, products and orders with five relations and their reverses, as databases have them; and
a power-law graph of one type. Each twice: with times of nodes, and with times of edges. Every seed
has a time, and its tree sees nothing later. Ours and PyG's sampler (pyg-lib below it) take turns in
processes pinned to one core with one thread each: in a graph that the caches hold, and in one of
ten million nodes. Then ours reads that graph from the disk, in a cgroup with a quarter of the
file's size, the page cache included (root), beside pyg-lib with all of it in memory.

What is sampled is checked: with ``last``, which draws nothing, all edges are the same; with
``uniform`` one hop has as many edges.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contenders.temporal_samplers import OURS, OUT_OF_CORE, PEER, TIMES
from harness import common
from harness.cgroups import AnonymousPeak, cgroup
from harness.common import Cell, Ids, Ratio, Report
from harness.worker import ONE_THREAD, Worker, WorkerError, take_turns
from typed import BATCH, seed_files

FANOUTS = [15, 10]
STRATEGIES = ("uniform", "last")
OWNERS = {"nodes": "node_time", "edges": "edge_time"}
SIZES = {"10K": 10_000, "10M": 10_000_000}
#: Of the nodes, by type.
SHARES = {"customer": 0.2, "product": 0.05, "order": 0.75}
#: Batches of a turn from the disk, of many types and of one, whose batches are smaller.
GROUP, GROUPS = 32, 256
#: What the interpreter and numpy take beside the budget.
INTERPRETER = 64 << 20
LEAST = 192 << 20  # limit of a small graph, in the quick form


# ---- graphs ------------------------------------------------------------------------------------


def shop_edges(nodes: dict[str, int]) -> dict[tuple[str, str, str], tuple[Ids, Ids]]:
    """Two foreign keys of every order, and three tables of pairs; popular rows by a power law."""
    rng = np.random.Generator(np.random.PCG64(0))

    def some(kind: str, count: int) -> Ids:
        return common.power_law_ids(rng, nodes[kind], count)

    orders, customers, products = nodes["order"], nodes["customer"], nodes["product"]
    return {
        ("order", "buyer", "customer"): (np.arange(orders), some("customer", orders)),
        ("order", "of", "product"): (np.arange(orders), some("product", orders)),
        ("customer", "views", "product"): (
            some("customer", 2 * orders), some("product", 2 * orders)
        ),
        ("customer", "follows", "customer"): (
            some("customer", 5 * customers), some("customer", 5 * customers)
        ),
        ("product", "like", "product"): (
            some("product", 5 * products), some("product", 5 * products)
        ),
    }  # fmt: skip


@dataclass(frozen=True)
class Made:
    """One graph on disk."""

    name: str
    seeds_of: str | None
    seed_nodes: int
    owner: str
    path: Path
    seconds: float  # that making it from arrays took

    @property
    def bytes(self) -> int:
        return self.path.stat().st_size

    def case(self, strategy: str) -> dict[str, Any]:
        return {
            "graph": self.path.parent.name, "seeds_of": self.seeds_of, "strategy": strategy,
            "attr": OWNERS[self.owner],
        }  # fmt: skip


def make_typed(count: int, owner: str) -> tuple[Any, float]:
    from aethergraph import HeteroGraph

    nodes = {name: int(share * count) for name, share in SHARES.items()}
    rng = np.random.Generator(np.random.PCG64(1))
    edges = shop_edges(nodes)
    given: dict[str, Any] = {
        "node_time": {name: rng.integers(0, TIMES, some) for name, some in nodes.items()}
    }
    if owner == "edges":
        given = {
            "edge_time": {
                kind: rng.integers(0, TIMES, len(ends[0])) for kind, ends in edges.items()
            }
        }
    start = time.perf_counter()
    graph = HeteroGraph.from_edges(edges, nodes, add_reverse=True, **given)
    return graph, time.perf_counter() - start


def make_plain(count: int, owner: str) -> tuple[Any, float]:
    from aethergraph import Graph

    rng = np.random.Generator(np.random.PCG64(1))
    src, dst = common.power_law_edges(count, 10 * count)
    given: dict[str, Any] = {"node_time": rng.integers(0, TIMES, count)}
    if owner == "edges":
        given = {"edge_time": rng.integers(0, TIMES, len(src))}
    start = time.perf_counter()
    graph = Graph.from_edges(count, src, dst, **given)
    return graph, time.perf_counter() - start


def save_arrays(folder: Path, graph: Any, typed: bool) -> None:
    """The lists and the times for the peer, int64: ``graph.npz`` and ``times.npz``."""
    kinds = graph.edge_types if typed else [("node", "to", "node")]
    arrays, times = {}, {}
    for kind in kinds:
        view, label = (graph[kind], "__".join(kind)) if typed else (graph, "node__to__node")
        for name, array in zip(("indptr", "indices"), view.csc(), strict=True):
            arrays[f"{label}/{name}"] = array.astype(np.int64)
        if view.edge_time is not None:
            times[label] = np.asarray(view.edge_time)
    for name in graph.node_types if typed else ["node"]:
        own = (graph[name] if typed else graph).node_time
        if own is not None:
            times[name] = np.asarray(own)
    np.savez(folder / "times.npz", **times)
    np.savez(folder / "graph.npz", **arrays)


def make(folder: Path, count: int, typed: bool, owner: str) -> Made:
    name = f"{'typed' if typed else 'plain'}-{owner}-{common.short(count)}"
    path = folder / name / "graph.aeg"
    path.parent.mkdir(parents=True, exist_ok=True)
    noted = path.with_name("seconds")
    if not noted.exists():
        common.say(f"making {name}")
        graph, seconds = (make_typed if typed else make_plain)(count, owner)
        save_arrays(path.parent, graph, typed)
        start = time.perf_counter()
        graph.save(path)
        noted.write_text(str(seconds + time.perf_counter() - start), encoding="utf-8")
    seconds = float(noted.read_text(encoding="utf-8"))
    kind = "customer" if typed else None
    some = int(SHARES["customer"] * count) if typed else count
    return Made(name, kind, some, owner, path, seconds)


# ---- measuring ---------------------------------------------------------------------------------


def seeds_of(folder: Path, made: Made) -> Callable[[int], Path]:
    return seed_files(folder, f"{made.seeds_of or 'node'}-{made.seed_nodes}", made.seed_nodes)


def check(workers: Sequence[Worker], seeds: Path, known: dict[str, Any], **case: Any) -> None:
    """Raise unless all samples of a case have the same edges, also those that were ``known``."""
    key = repr(sorted(case.items()))
    for worker in workers:
        found = worker.ask("look", seeds=str(seeds), **case)
        if known.setdefault(key, found) != found:
            raise WorkerError(f"{case}: {worker.name} samples {found}, not {known[key]}")


@dataclass(frozen=True)
class Rates:
    """Batches per second of two contenders in one case, by round."""

    label: tuple[str, ...]
    ours: list[float]
    peer: list[float] | None
    edges: float

    def row(self) -> list[Cell]:
        cells: list[Cell] = [*self.label, statistics.median(self.ours)]
        if self.peer is None:
            return [*cells, None, None, self.edges]
        ratio = str(Ratio.paired(self.ours, self.peer))
        return [*cells, statistics.median(self.peer), ratio, self.edges]

    def to_json(self) -> dict[str, Any]:
        return {
            "case": list(self.label), "ours": self.ours, "peer": self.peer, "edges": self.edges,
        }  # fmt: skip


def rates(label: tuple[str, ...], answers: dict[str, list[Any]]) -> Rates:
    def by_round(rounds: list[Any]) -> list[float]:
        return [1 / statistics.median(one["seconds"]) for one in rounds]

    ours = next(name for name in answers if name != PEER)
    edges = statistics.mean(e for one in answers[ours] for e in one["edges"])
    return Rates(
        label, by_round(answers[ours]),
        by_round(answers[PEER]) if PEER in answers else None, edges,
    )  # fmt: skip


def measure(
    workers: Sequence[Worker], made: Made, args: argparse.Namespace, batches: int, rounds: int
) -> list[Rates]:
    found = []
    for strategy in STRATEGIES:
        label = (made.name, f"times of {made.owner}", strategy)
        common.say(", ".join((*label, *(worker.name for worker in workers))))
        seeds, case = seeds_of(args.folder, made), made.case(strategy)
        if strategy == "last":
            check(workers, seeds(4), args.known, fanouts=FANOUTS, **case)
        few = {"seeds": str(seeds(4)), "first": 0, "count": 4, **case}
        hop = {
            worker.name: sum(worker.ask("run", fanouts=FANOUTS[:1], **few)["edges"])
            for worker in workers
        }
        if len(set(hop.values())) > 1:
            raise WorkerError(f"{label}: one hop has {hop} edges")
        file = str(seeds((rounds + 1) * batches))
        if strategy == STRATEGIES[0]:  # memory that is touched for the first time is not measured
            for worker in workers:
                for first in range(0, (rounds + 1) * batches, batches):
                    worker.ask(
                        "run", seeds=file, first=first, count=batches, fanouts=FANOUTS, **case
                    )
        answers = take_turns(
            workers, rounds,
            lambda worker, number, file=file, case=case: worker.ask(
                "run", seeds=file, first=(number + 1) * batches, count=batches, fanouts=FANOUTS,
                **case,
            ),
        )  # fmt: skip
        found.append(rates(label, answers))
    return found


COLUMNS = ["graph", "times", "strategy", "ours", "pyg-lib", "times as many", "edges per batch"]


def in_memory(graphs: Sequence[Made], args: argparse.Namespace, report: Report) -> list[Rates]:
    config = {"folder": str(args.folder), "core": args.core}
    names = [OURS, PEER] if args.peer else [OURS]
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(name, "temporal_samplers", config, env=ONE_THREAD))
            for name in names
        ]
        for worker in workers:
            report.versions |= worker.ask("versions")
        found = []
        for made in graphs:
            batches = 3 if args.quick else 60 if made.seed_nodes < 100_000 else 24
            found += measure(workers, made, args, batches, args.rounds)
    report.table(
        "batches per second, all in memory, one thread each: medians, and the range over rounds",
        COLUMNS, [one.row() for one in found],
    )  # fmt: skip
    return found


def out_of_core(graphs: Sequence[Made], args: argparse.Namespace, report: Report) -> list[Rates]:
    """Each graph in a fresh cgroup, beside the peer with all of it in memory."""
    found: list[Rates] = []
    rows: list[list[Cell]] = []
    memory: dict[str, dict[str, Any]] = {}
    for made in graphs:
        limit = max(made.bytes // 4, LEAST if args.quick else 0)
        budget = max(limit // 2, limit - INTERPRETER)
        config = {"folder": str(args.folder), "core": args.core}
        common.drop_from_cache(made.path)
        with ExitStack() as stack:
            group = stack.enter_context(cgroup(limit))
            peak = stack.enter_context(AnonymousPeak(group))
            workers = [
                stack.enter_context(
                    Worker(
                        OUT_OF_CORE, "temporal_samplers", {**config, "budget": budget},
                        env=ONE_THREAD, enter=group.enter,
                    )
                )
            ]  # fmt: skip
            if args.peer:
                workers.append(
                    stack.enter_context(Worker(PEER, "temporal_samplers", config, env=ONE_THREAD))
                )
            some = GROUP if made.seeds_of else GROUPS
            own = measure(workers, made, args, 4 if args.quick else some, min(args.rounds, 3))
            memory[made.name] = {
                "file": made.bytes, "limit": limit, "anonymous_peak": peak.bytes,
                "peer": workers[-1].ask("memory")["peak"] if args.peer else None,
            }  # fmt: skip
        found += own
        rows += [
            [
                *one.row(), common.size(limit), common.size(memory[made.name]["anonymous_peak"]),
                "missing" if not args.peer else common.size(memory[made.name]["peer"]),
            ]
            for one in own
        ]  # fmt: skip
    report.data["memory_use"] = memory
    report.table(
        "batches per second: ours from the disk within a quarter of the file's size, pyg-lib in "
        "memory",
        [*COLUMNS, "limit", "ours: anonymous memory, peak", "pyg-lib: resident, peak"],
        rows,
    )
    return found


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--rounds", type=int, help="turns of each (default: 7; from the disk 3)")
    made.add_argument("--only", nargs="+", choices=SIZES, default=list(SIZES), help="sizes")
    made.add_argument("--no-disk", action="store_true", help="not out of core: needs no root")
    made.add_argument("--graphs", action="store_true", help="make the graphs, measure nothing")
    args = common.parse(made, argv)
    args.rounds = args.rounds or (2 if args.quick else 7)
    args.peer = common.importable("pyg_lib")
    args.known = {}
    if not args.no_disk:
        with cgroup(2**30):  # can we? before graphs are made
            pass
    sizes = {"10K": 2_000, "10M": 20_000} if args.quick else SIZES
    args.folder = args.dir / "typed-temporal"
    graphs = {
        size: [
            make(args.folder, sizes[size], typed, owner)
            for typed in (True, False)
            for owner in OWNERS
        ]
        for size in args.only
    }
    if args.graphs:
        return
    report = Report("typed_temporal", "Sampling in time, typed and not, one thread", args)
    report.parameters = {
        "sizes": sizes, "fanouts": FANOUTS, "batch": BATCH, "rounds": args.rounds, "group": GROUP,
        "core": args.core,
    }  # fmt: skip
    found = {"memory": in_memory([one for some in graphs.values() for one in some], args, report)}
    if not args.no_disk:
        found["disk"] = out_of_core(graphs[args.only[-1]], args, report)
    report.data |= {name: [one.to_json() for one in some] for name, some in found.items()}
    add_files(report, [one for some in graphs.values() for one in some])
    add_notes(report, args)
    report.finish()


def add_files(report: Report, graphs: Sequence[Made]) -> None:
    rows: list[list[Cell]] = [[one.name, common.size(one.bytes), one.seconds] for one in graphs]
    report.table("the files", ["graph", "size", "seconds to make it from arrays"], rows)


def add_notes(report: Report, args: argparse.Namespace) -> None:
    if not args.peer:
        report.note("pyg-lib is missing: it cannot be imported here.")
    report.note(
        "Typed: three node types, five relations and their reverses; not typed: a power-law graph "
        f"with ten edges per node. Batches of {BATCH} seeds, fanouts {FANOUTS} for every edge type."
    )
    report.note(
        "Checked in every case: with 'last' all contenders, also from the disk, sample the same "
        "edges for the same seeds, with 'uniform' as many in one hop."
    )
    if not args.no_disk:
        report.note(
            f"From the disk, {GROUP} batches of many types or {GROUPS} of one are asked for at a "
            "time (sample_many), of which as many are sampled together as the budget holds; "
            f"memory_budget is the limit less {common.size(INTERPRETER)}."
        )
    report.note(
        "Times of far nodes that are kept beside the edges (edge_time=) are times of edges: 8 "
        "bytes for each edge, as the sizes of the files say, and optional."
    )


if __name__ == "__main__":
    try:
        main()
    except WorkerError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
