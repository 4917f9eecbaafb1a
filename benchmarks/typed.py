"""Typed two-hop sampling, one thread each: AetherGraph, PyG's sampler, DGL, GraphBolt.

    python benchmarks/typed.py [--quick] [--dgl-python PATH]

Users, posts, comments and subreddits with four edge types, and with eight, that is with the
reverse ones. All contenders sample the same graph from the same seeds, in processes pinned to one
core that take turns. PyG's sampler calls pyg-lib where that is installed, else torch-sparse.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from harness import common, comparison
from harness.common import Ids, Report
from harness.worker import WorkerError

FANOUTS, BATCH = [15, 10], 128
NODES = {"user": 100_000, "post": 500_000, "comment": 1_000_000, "subreddit": 10_000}
#: label -> (graph, type of the seeds)
CASES = {
    ("4 edge types", "post"): ("four", "post"),
    ("4 edge types", "subreddit"): ("four", "subreddit"),
    ("8 edge types", "post"): ("eight", "post"),
}


def make_edges(nodes: dict[str, int]) -> dict[tuple[str, str, str], tuple[Ids, Ids]]:
    """Ten votes per post, two comments per post, an author per comment, a subreddit per post."""
    rng = np.random.Generator(np.random.PCG64(0))

    def some(kind: str, count: int) -> Ids:
        return common.power_law_ids(rng, nodes[kind], count)

    votes, comments, posts = 10 * nodes["post"], nodes["comment"], nodes["post"]
    return {
        ("user", "votes", "post"): (some("user", votes), some("post", votes)),
        ("comment", "on", "post"): (np.arange(comments), some("post", comments)),
        ("user", "writes", "comment"): (some("user", comments), np.arange(comments)),
        ("post", "in", "subreddit"): (np.arange(posts), some("subreddit", posts)),
    }


def make_graphs(folder: Path, quick: bool, *, times: float = 1) -> tuple[Path, dict[str, int]]:
    """``four.aeg`` and ``eight.aeg``, each with its arrays for the peers; and the nodes by type.

    ``times`` as many as there usually are.
    """
    from aethergraph import HeteroGraph

    nodes = {name: count // 100 if quick else int(times * count) for name, count in NODES.items()}
    folder = folder / f"typed-{common.short(sum(nodes.values()))}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, add_reverse in (("four", False), ("eight", True)):
        if not (folder / f"{name}.npz").exists():
            common.say(f"making the graph of {name} edge types")
            graph = HeteroGraph.from_edges(make_edges(nodes), nodes, add_reverse=add_reverse)
            graph.save(folder / f"{name}.aeg")
            save_arrays(folder / f"{name}.npz", graph)
    return folder, nodes


def save_arrays(path: Path, graph: Any) -> None:
    """CSC of each edge type, int64: ``source__relation__destination/indptr`` and ``/indices``."""
    arrays = {
        f"{'__'.join(kind)}/{name}": array.astype(np.int64)
        for kind in graph.edge_types
        for name, array in zip(("indptr", "indices"), graph[kind].csc(), strict=True)
    }
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)
    part.rename(path)


def seed_files(folder: Path, kind: str, num_nodes: int) -> Callable[[int], Path]:
    """Number of batches -> a file of as many batches of distinct nodes of one type."""
    files = common.GraphFiles(folder / f"seeds-{kind}", num_nodes, 0)
    files.folder.mkdir(exist_ok=True)
    return lambda count: files.seeds(count, min(BATCH, num_nodes))


def run(args: argparse.Namespace, report: Report) -> None:
    folder, nodes = make_graphs(args.dir, args.quick)
    found = comparison.contenders(args, report)
    report.parameters |= {"nodes": nodes, "fanouts": FANOUTS, "batch": BATCH}
    with ExitStack() as stack:
        workers = comparison.start("typed_samplers", found, folder, args, stack)
        comparison.note_versions(report, workers, found)
        cases = [
            comparison.compare(
                workers, label, FANOUTS, seed_files(folder, kind, nodes[kind]), args.quick,
                graph=graph, kind=kind,
            )
            for label, (graph, kind) in CASES.items()
        ]  # fmt: skip
    comparison.add_tables(report, ("graph", "seeds"), cases, list(found))
    counts = ", ".join(f"{common.short(count)} {name}s" for name, count in nodes.items())
    report.note(f"{counts}; fanouts {FANOUTS} for every edge type, batch {BATCH}.")
    draw(report)


def draw(report: Report) -> None:
    rows = report.rows(comparison.NS)
    comparison.draw(report, {f"{row['graph']}, {row['seeds']}": [row] for row in rows})


def main(argv: Sequence[str] | None = None) -> None:
    args = common.parse(comparison.arguments(__doc__), argv)
    report = Report("typed", "Typed two-hop sampling, one thread", args)
    run(args, report)
    report.finish()


if __name__ == "__main__":
    try:
        main()
    except WorkerError as error:
        raise SystemExit(str(error)) from None
