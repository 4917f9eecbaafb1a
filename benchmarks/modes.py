"""Weighted, temporal and disjoint sampling, one thread each: AetherGraph, PyG's, DGL, GraphBolt.

    python benchmarks/modes.py [--quick] [--dgl-python PATH]

A power-law graph and one whose edges are uniform, ten edges per node; weights uniform in (0, 1],
times uniform. All contenders sample from the same seeds, in processes pinned to one core that take
turns, each in the modes that it has.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from contenders import mode_samplers
from contenders.mode_samplers import MODES, TIMES
from harness import common, comparison
from harness.common import GraphFiles, Report
from harness.worker import WorkerError

FANOUTS, BATCH = ([15, 10], [5, 5]), 128
SHAPES = ("power-law", "uniform")


def make_graphs(folder: Path, num_nodes: int) -> dict[tuple[str, str], GraphFiles]:
    """By shape and by whose times they are ("edge" or "node"): graph.aeg and arrays for peers."""
    from aethergraph import Graph

    found = {}
    for shape in SHAPES:
        for owner in ("edge", "node"):
            name = f"modes-{shape}-{common.short(num_nodes)}-{owner}-times"
            files = GraphFiles(folder / name, num_nodes, 10 * num_nodes)
            files.folder.mkdir(parents=True, exist_ok=True)
            if not files.graph.exists():
                common.say(f"making {name}")
                rng = np.random.Generator(np.random.PCG64(3))
                if shape == "power-law":
                    src, dst = common.power_law_edges(num_nodes, files.num_edges)
                else:
                    src, dst = rng.integers(0, num_nodes, (2, files.num_edges))
                if owner == "edge":
                    weight = 1 - rng.random(files.num_edges, np.float32)
                    time = rng.integers(0, TIMES, files.num_edges)
                    graph = Graph.from_edges(
                        num_nodes, src, dst, edge_weight=weight, edge_time=time
                    )
                    values = {"edge_weight": graph.edge_weight, "edge_time": graph.edge_time}
                else:
                    graph = Graph.from_edges(
                        num_nodes, src, dst, node_time=rng.permutation(num_nodes)
                    )
                    values = {"node_time": graph.node_time}
                for attribute, array in values.items():
                    np.save(files.folder / f"{attribute}.npy", array)
                graph.save(files.graph)
            files.csc()
            found[shape, owner] = files
    return found


def run(args: argparse.Namespace, report: Report) -> None:
    num_nodes = 2_000 if args.quick else 1_000_000
    graphs = make_graphs(args.dir, num_nodes)
    found = comparison.contenders(args, report)
    if common.pyg_sampler() == "torch_sparse":  # stands in for pyg-lib's weights
        found["torch.multinomial"] = sys.executable
    report.parameters |= {"nodes": num_nodes, "edges": 10 * num_nodes, "batch": BATCH}
    cases = []
    with ExitStack() as stack:
        workers = comparison.start("mode_samplers", found, args.dir, args, stack)
        comparison.note_versions(report, workers, found)
        for mode in MODES:
            able = [w for w in workers if mode in mode_samplers.ABLE.get(w.name, MODES)]
            for shape in SHAPES:
                files = graphs[shape, "node" if mode == mode_samplers.NODES_ANY else "edge"]
                for fanouts in FANOUTS[:1] if args.quick else FANOUTS:
                    label = (mode, shape, str(fanouts))
                    cases.append(
                        comparison.compare(
                            able, label, fanouts, lambda count, f=files: f.seeds(count, BATCH),
                            args.quick,
                            inexact=("torch-sparse",) if mode == mode_samplers.NODES_ANY else (),
                            graph=files.folder.name, mode=mode,
                        )
                    )  # fmt: skip
    comparison.add_tables(report, ("mode", "graph", "fanouts"), cases, list(found))
    add_notes(report, num_nodes, list(found))
    draw(report)


def draw(report: Report) -> None:
    case = (SHAPES[0], str(FANOUTS[0]))
    rows = [r for r in report.rows(comparison.NS) if (r["graph"], r["fanouts"]) == case]
    panels = {
        f"{title}, {SHAPES[0]} graph, fanouts {FANOUTS[0]}": [r for r in rows if title in r["mode"]]
        for title in ("weighted", "times", "disjoint")
    }
    comparison.draw(report, panels)


def add_notes(report: Report, num_nodes: int, names: Sequence[str]) -> None:
    size = f"{common.short(num_nodes)} nodes, {common.short(10 * num_nodes)} edges"
    report.note(f"{size}, batch {BATCH}. A dash: the contender has no such mode.")
    if "torch.multinomial" in names:
        report.note(
            "torch.multinomial: the call that pyg-lib's weighted sampler makes for every list, "
            "with hardly anything around it; pyg-lib does more."
        )
    if "torch-sparse" in names:
        report.note(
            "torch-sparse is disjoint in its temporal sampler only, which runs here with one time "
            "for all nodes. With times it draws first and drops what is too late then, hence its "
            "fewer edges; it is left out of the check."
        )
    if "GraphBolt" in names:
        report.note(
            "GraphBolt's temporal sampler keeps a slot per edge, the others merge the nodes of "
            "each tree; it never draws the last. It is not disjoint: its operators are put "
            "together for that here."
        )


def main(argv: Sequence[str] | None = None) -> None:
    args = common.parse(comparison.arguments(__doc__), argv)
    report = Report("modes", "Weighted, temporal and disjoint sampling, one thread", args)
    run(args, report)
    report.finish()


if __name__ == "__main__":
    try:
        main()
    except WorkerError as error:
        raise SystemExit(str(error)) from None
