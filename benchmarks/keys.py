"""Keys of nodes in a live graph with a log: from strings or numbers of somebody else to ids.

    python benchmarks/keys.py [--quick] [--edges 2000000]

A stream of edges whose ends are keys, some far more often than others, comes in commits of 10,000.
The contenders in turn, on one core:

    dict            a dict of Python gives each new key the next id: in memory, without a log
    ids.add         the keys of a graph: new ones get nodes, all is logged
    edges by ids    insert_edges() of ids that are known already
    edges by keys   ids.add() and insert_edges() in one commit

Now and then a commit merges parts of the index of keys: the longest one is told beside the median.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

COMMIT = 10_000


def stream(kind: str, edges: int) -> tuple[Any, Any]:
    """Return the keys at both ends of edges."""
    rng = np.random.default_rng(0)
    ends = []
    for _ in range(2):
        number = (rng.random(edges) ** 3 * edges).astype(np.int64)
        scattered = number * 2654435761 % 2**40
        if kind == "int64":
            ends.append(scattered)
        else:
            ends.append(np.array([f"user-{one:x}" for one in scattered.tolist()], object))
    return ends[0], ends[1]


def seconds(call: Callable[[int, int], None], edges: int) -> list[float]:
    """Return the processor time of a call for every commit."""
    used = [time.process_time()]
    for begin in range(0, edges, COMMIT):
        call(begin, min(begin + COMMIT, edges))
        used.append(time.process_time())
    return np.diff(used).tolist()


def dict_alone(src: Any, dst: Any) -> list[float]:
    known: dict[Any, int] = {}

    def step(begin: int, end: int) -> None:
        for keys in (src, dst):
            ids = [known.setdefault(key, len(known)) for key in keys[begin:end].tolist()]
            np.array(ids, np.int64)

    return seconds(step, len(src))


def graph_alone(src: Any, dst: Any, what: str, kind: str, folder: Path) -> list[float]:
    from aethergraph import DynamicGraph

    path = folder / "keys.aegd"
    shutil.rmtree(path, ignore_errors=True)
    with DynamicGraph.open(path, ids=kind, arena_mb=2048, order="time", layout="csc") as graph:
        if what == "edges by ids":
            src, dst = graph.ids.add(src), graph.ids.add(dst)

        def step(begin: int, end: int) -> None:
            u, v = src[begin:end], dst[begin:end]
            if what == "edges by ids":
                graph.insert_edges(u, v)
                return
            with graph.transaction():
                u, v = graph.ids.add(u), graph.ids.add(v)
                if what == "edges by keys":
                    graph.insert_edges(u, v)

        found = seconds(step, len(src))
    shutil.rmtree(path)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    import aethergraph

    made = common.parser(__doc__)
    made.add_argument("--edges", type=int, help="edges of each type of keys")
    args = common.parse(made, argv)
    aethergraph.set_num_threads(1)
    report = Report("keys", "Keys of nodes in a live graph", args)
    report.data = {}
    rounds = 1 if args.quick else 5
    edges = args.edges or (20_000 if args.quick else 2_000_000)
    rows: list[list[common.Cell]] = []
    for kind in ("int64", "str"):
        src, dst = stream(kind, edges)
        names = ("dict", "ids.add", "edges by ids", "edges by keys")
        used: dict[str, list[float]] = {name: [] for name in names}
        commits: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(rounds):
            for name in names:
                if name == "dict":
                    taken = dict_alone(src, dst)
                else:
                    taken = graph_alone(src, dst, name, kind, args.dir)
                used[name].append(sum(taken))
                commits[name] += taken
        report.data[kind] = {"used": used, "commits": commits}
        for name in names:
            rate = 2 * edges / statistics.median(used[name]) / 1e6
            each = 1e3 * np.array(commits[name])
            rows.append([
                kind, name, rate, str(Ratio.paired(used[name], used["dict"])),
                float(np.median(each)), float(each.max()),
            ])  # fmt: skip
    report.parameters = {"edges": edges, "rounds": rounds, "commit": COMMIT}
    report.table(
        "million keys, two to an edge, per second of processor time, all threads together, median; "
        "and that time in that of the dict",
        [
            "keys",
            "contender",
            "million per second",
            "times as long",
            "ms a commit",
            "the longest, ms",
        ],
        rows,
    )

    def draw(axes: Sequence[Any]) -> None:
        (axis,) = axes
        names = [f"{row[0]}, {row[1]}" for row in rows]
        common.bars(axis, names, [float(str(row[2])) for row in rows], "million keys per second")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
