"""Vectors that follow a live graph: embed(refresh=True) beside a run over all nodes.

    python benchmarks/inference_refresh.py [--quick]

GraphSAGE of two layers of 64 numbers over a live graph of a power-law graph's edges (1M nodes, 10M
edges), all neighbours, batches of 4096 nodes, one thread of torch. Of the edges that change one
half is inserted, between nodes that are drawn alike, and the other one deleted, drawn among all
edges. Each refresh is followed by the run over all nodes whose vectors it must have, to the last
bit. Seconds are of whole calls, files on disk included.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report

WIDTH, BATCH = 64, 4096
CHANGES = (100, 1_000, 10_000, 100_000)


def timed(call: Callable[[], object]) -> dict[str, float]:
    start, cpu = time.perf_counter(), time.process_time()
    call()
    return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}


def change(graph: Any, rng: np.random.Generator, count: int) -> None:
    """Insert edges, and delete as many, ``count`` in all."""
    snapshot = graph.snapshot()
    targets, half = rng.integers(0, graph.num_nodes, (2, count)), count // 2
    degrees = snapshot.in_degrees(targets[0])
    chosen = targets[0][degrees > 0][:half]
    src = np.array([rng.choice(snapshot.in_neighbors(int(node))) for node in chosen], np.int64)
    with graph.transaction():
        graph.delete_edges(src, chosen)
        graph.insert_edges(targets[1][half:], targets[0][half:])


def main(argv: Sequence[str] | None = None) -> None:
    import torch
    from torch_geometric.nn import GraphSAGE

    from aethergraph import DynamicGraph
    from aethergraph.pyg import embed

    args = common.parse(common.parser(__doc__), argv)
    report = Report("inference_refresh", "Vectors that follow a live graph, two layers", args)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    nodes, rounds = (10_000, 1) if args.quick else (1_000_000, 3)
    files = common.power_law_graph(args.dir, nodes)
    path = files.features(WIDTH)
    graph = DynamicGraph(nodes, max(64, nodes // 400))
    graph.insert_edges(*common.power_law_edges(nodes, files.num_edges))
    graph.load_features(path)
    model = GraphSAGE(WIDTH, WIDTH, 2, WIDTH).eval()
    folder, rng = files.folder / "refreshed", np.random.default_rng(1)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    computed: list[int] = []

    def stages(name: str, unit: str) -> Callable[[int, int], None]:
        computed.append(0)

        def report_done(done: int, total: int) -> None:
            computed[-1] = done

        return report_done

    def refresh() -> None:
        computed.clear()
        embed(model, graph, folder / "h.npy", batch_size=BATCH, refresh=True, stages=stages)

    def run_over_all() -> None:
        embed(model, graph, folder / "all.npy", batch_size=BATCH, force=True)

    common.say("the first call")
    first = timed(refresh)
    rows: list[list[common.Cell]] = []
    results: list[dict[str, Any]] = []
    for count in CHANGES[: 2 if args.quick else None]:
        times: dict[str, list[dict[str, float]]] = {"refresh": [], "all": []}
        sizes: list[list[int]] = []
        for _ in range(rounds):
            common.say(f"{count:,} changes")
            change(graph, rng, count)
            times["refresh"].append(timed(refresh))
            sizes.append(computed.copy())
            times["all"].append(timed(run_over_all))
            refreshed, wanted = (np.load(folder / f"{name}.npy") for name in ("h", "all"))
            if not np.array_equal(refreshed, wanted):
                raise SystemExit("the refreshed vectors are others than those of all nodes")
        pairs = {
            name: [[t[name] for t in times[who]] for who in ("all", "refresh")]
            for name in ("seconds", "cpu_seconds")
        }
        middle = [int(statistics.median(size)) for size in zip(*sizes, strict=True)]
        rows.append(
            [count, *middle, *(str(Ratio.paired(*pair)) for pair in pairs.values()),
             *(statistics.median(part) for pair in pairs.values() for part in reversed(pair))]
        )  # fmt: skip
        results.append({"changes": count, "nodes": sizes, "times": times})
    shutil.rmtree(folder)
    report.table(
        "Medians of the rounds",
        ["edges changed", "nodes of layer 1", "of layer 2", "a run over all takes times as long",
         "times its processor time", "refresh, seconds", "all nodes, seconds",
         "refresh, processor seconds", "all nodes, processor seconds"],
        rows,
    )  # fmt: skip
    report.note(
        f"The first call, which computes all nodes and keeps the layers: {first['seconds']:.1f} s, "
        f"{first['cpu_seconds']:.1f} s of processor time. Vectors were equal to the last bit."
    )
    report.parameters = {"width": WIDTH, "batch": BATCH, "layers": 2, "rounds": rounds}
    report.data = {"first": first, "changes": results}
    report.finish()


if __name__ == "__main__":
    main()
