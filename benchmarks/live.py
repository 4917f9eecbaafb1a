"""Live graphs: inserting, sampling beside a static copy and beside a writer, and what a log costs.

    python benchmarks/live.py [--quick] [--nodes 1000000 ...] [--rounds 5] [--only inserts|beside]

Edges of a power-law graph and of a uniform one, ten per node, in random order. Everything is
pinned to one core with one thread, but for the writer and the reader that work beside each other.
In each round the contenders take turns. What they are compared with:

    dict of lists     Python's own: one append per edge, the floor for code without a library
    rebuilt           from_edges of all edges so far, once for the whole of them: what a static
                      structure pays for being up to date
    static            the same edges in a Graph in memory; its samples are equal, bit by bit
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Ids, Ratio, Report

BATCH = 10_000
SHAPES = ("uniform", "power law")
CASES = (([15, 10], 128), ([20, 15, 10], 1024))
#: Kinds of live graphs: options, and whether edges have times and weights.
KINDS: dict[str, dict[str, Any]] = {
    "append": {"order": "time", "layout": "csc"},
    "append, time and weight": {
        "order": "time", "layout": "csc", "edge_time": "int64", "edge_weight": "float32",
    },
    "append, ids of 4 bytes": {"order": "time", "layout": "csc", "edge_id_bytes": 4},
    "set": {"order": "id", "layout": "csc"},
    "set, ids of 4 bytes": {"order": "id", "layout": "csc", "edge_id_bytes": 4},
    "set, both layouts": {"order": "id", "layout": "both"},
}  # fmt: skip
#: Parts that --only measures, and the file that they go into.
PARTS = {"inserts": "live_inserts", "beside": "live_beside"}
REBUILT, FLOOR = "rebuilt", "dict of lists"


def edges_of(shape: str, nodes: int) -> tuple[Ids, Ids]:
    """Return ten edges per node in random order."""
    if shape == "uniform":
        src, dst = np.random.default_rng(0).integers(0, nodes, (2, 10 * nodes))
        return src, dst
    src, dst = common.power_law_edges(nodes, 10 * nodes)
    order = np.random.default_rng(0).permutation(len(src))
    return src[order], dst[order]


def make(kind: str, nodes: int, edges: int) -> Any:
    from aethergraph import DynamicGraph

    return DynamicGraph(nodes, max(64, edges * 80 >> 20), **KINDS[kind])


def values(kind: str, begin: int, count: int) -> dict[str, Any]:
    if "edge_time" not in KINDS[kind]:
        return {}
    return {"time": np.arange(begin, begin + count), "weight": np.ones(count, np.float32)}


# ---- inserting ----------------------------------------------------------


def insert_all(graph: Any, kind: str, src: Ids, dst: Ids) -> float:
    """Insert edges in batches; return processor nanoseconds per edge."""
    begin = time.process_time()
    for at in range(0, len(src), BATCH):
        some = slice(at, at + BATCH)
        graph.insert_edges(src[some], dst[some], **values(kind, at, len(src[some])))
    return 1e9 * (time.process_time() - begin) / len(src)


def time_inserts(
    report: Report, label: str, nodes: int, src: Ids, dst: Ids, rounds: int
) -> list[list[common.Cell]]:
    from aethergraph import Graph

    times: dict[str, list[float]] = defaultdict(list)
    sizes: dict[str, float] = {}
    for number in range(rounds):
        common.say(f"{label}: inserting, round {number + 1} of {rounds}")
        for kind in KINDS:
            graph = make(kind, nodes, len(src))
            times[kind].append(insert_all(graph, kind, src, dst))
            sizes[kind] = graph.stats().used_bytes / graph.num_edges
            graph.close()
        few = slice(0, min(len(src), 1_000_000))
        begin = time.process_time()
        lists: dict[int, list[int]] = defaultdict(list)
        for u, v in zip(src[few].tolist(), dst[few].tolist(), strict=True):
            lists[v].append(u)
        times[FLOOR].append(1e9 * (time.process_time() - begin) / len(src[few]))
        del lists
        begin = time.process_time()
        Graph.from_edges(nodes, src, dst)
        times[REBUILT].append(1e9 * (time.process_time() - begin) / len(src))
        gc.collect()
    report.data[f"insert {label}"] = times
    return [
        [label, name, statistics.median(own), sizes.get(name), str(Ratio.paired(times[FLOOR], own))]
        for name, own in times.items()
    ]


def time_singles(label: str, nodes: int, src: Ids, dst: Ids) -> list[list[common.Cell]]:
    """Time one call per edge, from Python."""
    rows: list[list[common.Cell]] = []
    for kind in ("append", "set", "set, both layouts"):
        graph = make(kind, nodes, len(src))
        insert_all(graph, kind, src, dst)
        pairs = list(zip(dst.tolist(), src.tolist(), strict=True))[: 1 << 20]
        insert = graph.insert_edge
        begin = time.process_time()
        for u, v in pairs:
            insert(u, v)
        mean = 1e9 * (time.process_time() - begin) / len(pairs)
        half = len(pairs) // 2
        parts: list[common.Cell] = []
        for clock, some in (
            (time.perf_counter_ns, pairs[:half]),
            (time.thread_time_ns, pairs[half:]),  # the turns of others are not in it
        ):
            spent = np.empty(len(some))
            for i, (u, v) in enumerate(some):
                start = clock()
                insert(v, u)
                spent[i] = clock() - start
            parts += [1e-3 * float(np.quantile(spent, q)) for q in (0.5, 0.999, 0.9999)]
        rows.append([label, kind, mean, *parts])
        graph.close()
    return rows


# ---- sampling ----------------------------------------------------------


def time_sampling(
    report: Report, label: str, nodes: int, src: Ids, dst: Ids, rounds: int, quick: bool
) -> list[list[common.Cell]]:
    from aethergraph import NeighborSampler

    rng = np.random.default_rng(3)
    rows: list[list[common.Cell]] = []
    for kind in ("append", "append, ids of 4 bytes", "set"):
        live = make(kind, nodes, len(src))
        insert_all(live, kind, src, dst)
        static = live.to_graph()
        for fanouts, size in CASES:
            size = min(size, nodes // 4)
            graphs = {"static": static, "snapshot": live.snapshot(), "live": live}
            samplers = {name: NeighborSampler(one, fanouts) for name, one in graphs.items()}
            count = 3 if quick else max(5, 40_000 // (size * len(fanouts)))
            batches = [rng.integers(0, nodes, size) for _ in range(count)]
            times: dict[str, list[float]] = defaultdict(list)
            for number in range(-1, rounds):
                for name, sampler in samplers.items():
                    begin = time.process_time()
                    for key, seeds in enumerate(batches):
                        sampler.sample(seeds, key=key)
                    if number >= 0:
                        times[name].append(1e3 * (time.process_time() - begin) / count)
            report.data[f"sample {kind} {fanouts} {label}"] = times
            rows.append(
                [
                    label, kind, f"{fanouts} x {size}",
                    statistics.median(times["static"]),
                    str(Ratio.paired(times["snapshot"], times["static"])),
                    str(Ratio.paired(times["live"], times["static"])),
                ]
            )  # fmt: skip
        live.close()
    return rows


def read_for(graph: Any, seconds: float, nodes: int, out: Any) -> None:
    """Sample until the time is over; send batches per second."""
    from aethergraph import NeighborSampler

    sampler = NeighborSampler(graph, [15, 10])
    rng = np.random.default_rng(5)
    size = min(128, nodes)
    sampler.sample(rng.integers(0, nodes, size))
    out.send(None)
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        sampler.sample(rng.integers(0, nodes, size))
        done += 1
    out.send(done / (time.perf_counter() - begin))


def time_beside_a_writer(
    report: Report, nodes: int, src: Ids, dst: Ids, seconds: float, rounds: int
) -> list[common.Cell]:
    """Sample in one process, alone and while this one inserts at full speed.

    Into another graph, too: what the reader loses to that is the machine's, not the graph's.
    """
    # What a writer inserts while the reader works: twice the fastest seen; the arena holds it.
    most = int(40e6 * seconds)
    context = multiprocessing.get_context("spawn")
    rates: dict[str, list[float]] = {"alone": [], "beside": [], "beside another": []}
    inserted: list[float] = []
    for how in [*rates] * rounds:
        live = make("append", nodes, len(src) + most)
        insert_all(live, "append", src, dst)
        written = live
        if how == "beside another":
            written = make("append", nodes, len(src) + most)
            insert_all(written, "append", src, dst)
        ours, theirs = context.Pipe()
        reader = context.Process(target=read_for, args=(live, seconds, nodes, theirs))
        reader.start()
        ours.recv()
        begin, count = time.perf_counter(), 0
        while how != "alone" and count < most and not ours.poll():
            at = count % (len(src) - BATCH)
            written.insert_edges(src[at : at + BATCH], dst[at : at + BATCH])
            count += BATCH
        took = time.perf_counter() - begin
        rates[how].append(ours.recv())
        if how == "beside":
            inserted.append(count / took / 1e6)
        reader.join()
        live.close()
        written.close()
    report.data[f"beside {common.short(nodes)}"] = rates
    alone, beside, another = rates.values()
    return [
        common.short(nodes), statistics.median(alone), statistics.median(beside),
        str(Ratio.paired(beside, alone)), str(Ratio.paired(another, alone)),
        statistics.median(inserted),
    ]  # fmt: skip


def put_beside(report: Report, rows: Sequence[Sequence[common.Cell]]) -> None:
    report.table(
        "sampling [15, 10] x 128 in another process, while this one inserts at full speed",
        [
            "nodes", "batches/s alone", "beside the writer", "share",
            "share beside a writer of another graph", "million edges/s inserted",
        ],
        rows,
    )  # fmt: skip


# ---- the log ----------------------------------------------------------


def wall(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def time_log(
    report: Report, folder: Path, nodes: int, src: Ids, dst: Ids
) -> tuple[list[list[common.Cell]], list[list[common.Cell]]]:
    """Time commits of 10,000 edges and of one edge, opening again, and merging."""
    from aethergraph import DynamicGraph

    rows: list[list[common.Cell]] = []
    options = dict(KINDS["append"])
    arena = max(64, len(src) * 80 >> 20)
    for durability in ("memory", "none", "batch", "sync"):
        path = folder / durability
        if durability == "memory":
            graph = DynamicGraph(nodes, arena, **options)
        else:
            options["durability"] = durability
            graph = DynamicGraph.open(path, nodes, arena, **options)
        edges = wall(lambda g=graph: insert_all(g, "append", src, dst)) / len(src)
        ones = [wall(lambda g=graph, i=i: g.insert_edge(i % nodes, 0)) for i in range(1000)]
        rows.append([durability, 1e9 * edges, 1e6 * statistics.median(ones),
                     1e6 * float(np.quantile(ones, 0.99))])  # fmt: skip
        graph.close()
    again = wall(lambda: DynamicGraph.open(folder / "batch", arena_mb=arena).close())
    graph = DynamicGraph.open(folder / "batch", arena_mb=arena)
    merged = wall(graph.merge)
    graph.close()
    million = len(src) / 1e6
    return rows, [[million / again, million / merged]]


def put_inserts(
    report: Report,
    inserts: Sequence[Sequence[common.Cell]],
    singles: Sequence[Sequence[common.Cell]],
) -> None:
    """Put what inserting took into a report: two tables and the plot."""
    report.table(
        "inserting in commits of 10,000 edges: processor time",
        ["nodes, edges", "graph", "ns per edge", "bytes per edge", f"times as fast as {FLOOR}"],
        inserts,
    )
    report.table(
        "one call of insert_edge from Python, each a commit",
        [
            "nodes, edges",
            "graph",
            "ns, mean, processor time",
            "us, median",
            "99.9 %",
            "99.99 %",
            "us of processor time, median",
            "99.9 %",
            "99.99 %",
        ],
        singles,
    )  # fmt: skip

    def draw(axes: Sequence[Any]) -> None:
        (axis,) = axes
        names = [f"{row[1]}, {str(row[0]).partition(', ')[2]}" for row in inserts]
        common.bars(axis, names, [float(str(row[2])) for row in inserts], "ns per edge")

    common.plot(report, 1, draw)


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--nodes", type=int, nargs="+", help="nodes; ten edges each")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--only", choices=PARTS, help="one part, in a table of its own")
    args = common.parse(made, argv)
    report = Report(PARTS.get(args.only, "live"), "Graphs that change", args)
    report.data = {}
    rounds = 1 if args.quick else args.rounds
    inserts: list[list[common.Cell]] = []
    singles: list[list[common.Cell]] = []
    samples: list[list[common.Cell]] = []
    beside: list[list[common.Cell]] = []
    cores = os.sched_getaffinity(0)
    for nodes in args.nodes or ([5_000] if args.quick else [1_000_000]):
        for shape in SHAPES:
            label = f"{common.short(nodes)}, {shape}"
            src, dst = edges_of(shape, nodes)
            if args.only == "beside":
                continue
            os.sched_setaffinity(0, {args.core})
            inserts += time_inserts(report, label, nodes, src, dst, rounds)
            singles += time_singles(label, nodes, src, dst)
            if not args.only:
                samples += time_sampling(report, label, nodes, src, dst, 2 * rounds, args.quick)
            os.sched_setaffinity(0, cores)
        if args.only != "inserts":
            seconds = 0.3 if args.quick else 5.0
            beside.append(time_beside_a_writer(report, nodes, src, dst, seconds, rounds))
    report.parameters = {"edges_per_commit": BATCH, "rounds": rounds, "core": args.core}
    if args.only == "beside":
        put_beside(report, beside)
    else:
        put_inserts(report, inserts, singles)
    if args.only:
        report.finish()
        return
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        logged, again = time_log(report, Path(folder), nodes, src, dst)
    report.table(
        "sampling: ms of the static graph, and times as long as it: median (range over rounds)",
        ["nodes, edges", "graph", "fanouts x batch", "static, ms", "snapshot", "live"],
        samples,
    )
    put_beside(report, beside)
    report.table(
        "durability: wall time of inserting in commits of 10,000 edges, and of one edge",
        ["durability", "ns per edge", "us per commit of one, median", "99 %"],
        logged,
    )
    report.table(
        "million edges per second",
        ["read again from the log", "merged"],
        again,
    )
    report.finish()


if __name__ == "__main__":
    main()
