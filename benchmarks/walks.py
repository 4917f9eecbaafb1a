"""Random walks: steps per second against GraphZero, and torch_cluster where it is installed.

    python benchmarks/walks.py [--quick]

The same power-law graphs for all, out-edges; the same new starts in each round; walks of 20 steps
and tables of 10 neighbours. One thread (pinned) and all threads. The contenders take turns call by
call in one process per graph and number of threads, because OpenMP counts its threads once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

Ids = common.Ids
NODES = (10_000, 1_000_000, 10_000_000)
LENGTH, FANOUT = 20, 10
OURS = ("aethergraph memory", "aethergraph mmap")
GRAPHZERO, CLUSTER = "graphzero", "torch_cluster"
#: name -> p and q; None is the table of neighbours.
TASKS: dict[str, tuple[float, float] | None] = {
    "uniform": (1.0, 1.0),
    "node2vec p=0.5 q=2": (0.5, 2.0),
    "node2vec p=0.25 q=4": (0.25, 4.0),
    "fanout 10": None,
}


# ---- graphs ------------------------------------------------------------------------------------


def graph_files(folder: Path, num_nodes: int) -> Path:
    """``walks-N.aeg``, out-edges only, and the same graph as ``walks-N.gl`` beside it."""
    from aethergraph import Graph

    path = folder / f"walks-{common.short(num_nodes)}.aeg"
    if not path.with_suffix(".gl").exists():
        common.say(f"making {path.name}")
        src, dst = common.power_law_edges(num_nodes, 10 * num_nodes)
        graph = Graph.from_edges(num_nodes, src, dst, layout="csr")
        graph.save(path)
        part = path.with_suffix(".part")
        write_gl(part, *graph.csr()[:2])
        part.rename(path.with_suffix(".gl"))
    return path


def write_gl(path: Path, indptr: Any, indices: Any) -> None:
    """GraphZero's format; aethergraph/convert/formats/graphzero.py has a description."""
    targets_at = 64 + -(-indptr.nbytes // 64) * 64
    header = [indptr.nbytes, 8 * len(indices), 64, targets_at, len(indptr) - 1, len(indices), 0]
    with path.open("wb") as file:
        file.write(b"graphlit" + np.array(header, "<u8").tobytes())
        file.write(indptr.tobytes().ljust(targets_at - 64, b"\0"))
        for begin in range(0, len(indices), 1 << 22):
            file.write(indices[begin : begin + (1 << 22)].astype("<u8").tobytes())


# ---- contenders --------------------------------------------------------------------------------


def our_calls(path: Path, task: tuple[float, float] | None) -> dict[str, Callable[[Ids], Any]]:
    from aethergraph import Graph

    calls: dict[str, Callable[[Ids], Any]] = {}
    for name, storage in zip(OURS, ("memory", "mmap"), strict=True):
        graph = Graph.load(path, storage=storage)  # type: ignore[arg-type]
        if task is None:
            calls[name] = lambda ids, g=graph: g.batch_random_fanout(ids, FANOUT)
        elif task == (1.0, 1.0):
            calls[name] = lambda ids, g=graph: g.batch_random_walk_uniform(ids, LENGTH)
        else:
            p, q = task
            calls[name] = lambda ids, g=graph, p=p, q=q: g.batch_random_walk(ids, LENGTH, p, q)
    return calls


def peer_calls(path: Path, task: tuple[float, float] | None) -> dict[str, Callable[[Ids], Any]]:
    calls: dict[str, Callable[[Ids], Any]] = {}
    if common.importable("graphzero"):
        import graphzero

        peer = graphzero.Graph(str(path.with_suffix(".gl")))
        if task is None:
            calls[GRAPHZERO] = lambda ids: peer.batch_random_fanout(ids, FANOUT)
        elif task == (1.0, 1.0):
            calls[GRAPHZERO] = lambda ids: peer.batch_random_walk_uniform(ids, LENGTH)
        else:
            calls[GRAPHZERO] = lambda ids: peer.batch_random_walk(ids, LENGTH, *task)
    if common.importable("torch_cluster") and task is not None:
        import torch
        import torch_cluster  # noqa: F401

        from aethergraph import Graph

        lists = [torch.from_numpy(a.astype(np.int64)) for a in Graph.load(path).csr()[:2]]
        walk = torch.ops.torch_cluster.random_walk
        calls[CLUSTER] = lambda ids: walk(*lists, torch.from_numpy(ids), LENGTH, *task)
    return calls


def measure(
    calls: dict[str, Callable[[Ids], Any]], num_nodes: int, count: int, rounds: int
) -> dict[str, list[float]]:
    """Seconds per call by round; a warm-up round first."""
    rng = np.random.Generator(np.random.PCG64(1))
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(-1, rounds):
        ids = rng.integers(0, num_nodes, count)
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            time.sleep(0.02)  # OpenMP's idle threads spin for a while: not on the next one's time
            start = time.perf_counter()
            calls[name](ids)
            if number >= 0:
                times[name].append(time.perf_counter() - start)
    return times


def run_child(args: argparse.Namespace) -> None:
    """One graph and one number of threads: seconds per call of every task, as JSON."""
    import aethergraph

    num_nodes, threads = args.child
    aethergraph.set_num_threads(threads)
    if threads == 1:
        os.sched_setaffinity(0, {args.core})
    path = graph_files(args.dir, num_nodes)
    found = {}
    for name, task in TASKS.items():
        walks, rounds = counts(args.quick, name)
        calls = our_calls(path, task) | peer_calls(path, task)
        found[name] = measure(calls, num_nodes, walks, rounds)
    print(json.dumps(found))


def counts(quick: bool, task: str) -> tuple[int, int]:
    """(walks per call, rounds); GraphZero takes seconds for node2vec near hubs."""
    if quick:
        return 200, 3
    return (2_000, 7) if "node2vec" in task else (20_000, 15)


def child(args: argparse.Namespace, num_nodes: int, threads: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", str(num_nodes), str(threads)]
    command += ["--dir", str(args.dir), "--core", str(args.core), *["--quick"] * args.quick]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---- report ------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    args = common.parse(made, argv)
    if args.child:
        run_child(args)
        return
    report = Report("walks", "Random walks", args)
    peers = [name for name in (GRAPHZERO, CLUSTER) if common.importable(name)]
    names = [*OURS, GRAPHZERO, *peers[1:]]
    rows: list[list[common.Cell]] = []
    ratios: list[list[common.Cell]] = []
    for num_nodes in (2_000,) if args.quick else NODES:
        graph_files(args.dir, num_nodes)
        for threads in sorted({1, len(os.sched_getaffinity(0))}):
            for task, times in child(args, num_nodes, threads).items():
                walks, _ = counts(args.quick, task)
                items = walks * (LENGTH if TASKS[task] else FANOUT)
                label: list[common.Cell] = [common.short(num_nodes), task, threads]
                speeds = [
                    items / statistics.median(times[n]) / 1e6 if n in times else None for n in names
                ]
                rows.append([*label, *speeds])
                for peer in (name for name in peers if name in times):
                    pairs = (str(Ratio.paired(times[peer], times[name])) for name in OURS)
                    ratios.append([*label, peer, *pairs])
    report.parameters = {"steps": LENGTH, "fanout": FANOUT, "core": args.core}
    report.data = {"graphzero": "absent"}
    if common.importable("graphzero"):
        import graphzero

        report.data["graphzero"] = graphzero.__version__
    report.table(
        "million steps (neighbours, for fanout) per second, medians",
        ["nodes", "task", "threads", *names], rows,
    )  # fmt: skip
    if ratios:
        report.table(
            "times as fast: median (range over rounds)",
            ["nodes", "task", "threads", "as", *OURS], ratios,
        )  # fmt: skip
    report.note("Ten edges per node; numpy arrays of starts go in, arrays of nodes come out.")
    report.note("GraphZero maps its file; both files are in the page cache.")

    def draw(axes: Sequence[Any]) -> None:
        most = max(row[2] for row in rows if isinstance(row[2], int))
        for axis, task in zip(axes, TASKS, strict=True):
            chosen = [row for row in rows if row[1] == task and row[2] == most]
            labels = [f"{name}, {row[0]} nodes" for row in chosen for name in names]
            values = [v if isinstance(v, float) else None for row in chosen for v in row[3:]]
            common.bars(axis, labels, values, "million per second")
            axis.set_title(f"{task}, {most} threads", fontsize=9)

    common.plot(report, len(TASKS), draw)
    report.finish()


if __name__ == "__main__":
    main()
