"""Cache misses of sampling before and after Rabbit Order, by callgrind's simulator.

    apt install valgrind
    python benchmarks/order_misses.py [--quick] [--nodes 500000]

A graph with planted communities, mapped; batches of 1024 seeds with fanouts [15, 10], shuffled and
aligned. Counted is what the native sampler does, in a simulated first-level cache of 32 KiB and a
last-level cache of 4 MiB: the same figures on every machine, busy or not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Report

FANOUTS, BATCH, BATCHES = [15, 10], 1024, 3
CHILD = """
import sys
import numpy as np
from aethergraph import Graph, NeighborSampler
graph, seeds = Graph.load(sys.argv[1]), np.load(sys.argv[2])
sampler = NeighborSampler(graph, {fanouts}, num_threads=1)
print(sum(len(sampler.sample(some, key).edge) for key, some in enumerate(seeds)))
"""


def count(folder: Path, graph: Path, seeds: Path) -> dict[str, int]:
    """Run batches under callgrind; return its counts by event, and the edges drawn."""
    out = folder / "callgrind.out"
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64",
         "--LL=4194304,16,64", "--toggle-collect=aether_sample*", f"--callgrind-out-file={out}",
         sys.executable, "-c", CHILD.format(fanouts=FANOUTS), graph, seeds],
        capture_output=True, text=True, check=True,
        env={**os.environ, "AETHERGRAPH_NUM_THREADS": "1", "PYTHONMALLOC": "malloc"},
    )  # fmt: skip
    text = out.read_text()
    events = re.search(r"^events: (.*)$", text, re.MULTILINE)
    totals = re.search(r"^(?:summary|totals): (.*)$", text, re.MULTILINE)
    assert events is not None and totals is not None, done.stderr[-500:]
    found = dict(zip(events[1].split(), map(int, totals[1].split()), strict=False))
    assert found["Ir"] > 1_000_000, "the sampler was not found by its name"
    return {**found, "edges": int(done.stdout)}


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--nodes", type=int, help="nodes; eight times as many edges")
    args = common.parse(made, argv)
    from aethergraph import Graph
    from aethergraph.testing.graphs import CommunityGraph

    report = Report("order_misses", "Cache misses before and after Rabbit Order", args)
    if shutil.which("valgrind") is None:
        report.note("There is no valgrind here: apt install valgrind.")
        report.finish()
        return
    nodes = args.nodes or (20_000 if args.quick else 500_000)
    community = CommunityGraph(nodes, 8 * nodes, max(nodes // 500, 2), homophily=0.8)
    graph = Graph.from_edges(nodes, *community.edges())
    perm = graph.reorder()
    after = graph.permute(perm)
    rng = np.random.default_rng(0)
    size = min(BATCH, nodes)
    shuffled = np.stack([rng.choice(nodes, size, replace=False) for _ in range(BATCHES)])
    starts = rng.integers(0, nodes - size + 1, BATCHES)
    aligned = np.stack([np.arange(start, start + size) for start in starts])
    cases = {
        ("shuffled", "as it is"): (graph, shuffled),
        ("shuffled", "rabbit"): (after, np.argsort(perm)[shuffled]),
        ("aligned", "as it is"): (graph, aligned),
        ("aligned", "rabbit"): (after, aligned),
    }
    rows: list[list[common.Cell]] = []
    found: dict[Any, dict[str, int]] = {}
    for (kind, order), (one, seeds) in cases.items():
        common.say(f"{kind}, {order}")
        path, at = args.dir / "misses.aeg", args.dir / "misses.npy"
        one.save(path)
        np.save(at, seeds)
        here = found[kind, order] = count(args.dir, path, at)
        first = found[kind, "as it is"]
        level1, last = here["D1mr"] + here["D1mw"], here["DLmr"] + here["DLmw"]
        rows.append([
            kind, order, here["edges"] // BATCHES, here["Ir"] / here["edges"],
            level1 / here["edges"], last / here["edges"],
            (first["DLmr"] + first["DLmw"]) / first["edges"] * here["edges"] / last,
        ])  # fmt: skip
        path.unlink()
        at.unlink()
    report.parameters = {"nodes": nodes, "edges": 8 * nodes, "fanouts": FANOUTS, "batch": size}
    report.table(
        "for an edge that is drawn; how many times fewer last-level misses than before",
        ["seeds", "order", "edges of a batch", "instructions", "misses of 32 KiB",
         "misses of 4 MiB", "gain"],
        rows,
    )  # fmt: skip

    def draw(axes: Sequence[Any]) -> None:
        common.bars(
            axes[0], [f"{row[0]}, {row[1]}" for row in rows], [float(str(row[5])) for row in rows],
            "misses of 4 MiB for an edge",
        )  # fmt: skip

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
