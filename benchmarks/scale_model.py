"""A model of training on up to 100 billion edges, checked by samples of graphs that fit here.

    python benchmarks/scale_model.py [--quick] [--row-bytes 512] [--seeds-share 0.01] [--step 0]
                               [--price 11 --price 3 --price 1.2]

First the model beside what is: edges and distinct nodes of a batch, pages of lists and of rows,
bytes of a server's answers, hits of the hottest nodes, bytes of files, on power-law graphs of three
sizes. What the model takes from here is the time of one core for an edge, a byte of rows and a byte
that is sent, and the bytes of an edge in a compressed file. Then what it says of larger graphs on
three shapes of machines. Their numbers and prices are examples: give yours.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from harness import common
from harness.common import Report
from harness.sizing import PAGE, BatchModel, Costs, Machine, Workload, model_batch, price_epoch

DEGREE, FANOUTS, BATCH = 10, (15, 10), 1024
SIZES, QUICK = (500_000, 2_000_000, 8_000_000), (20_000, 40_000, 80_000)
#: Share of the nodes that a cache of rows is said to hold.
HOT = 0.05
GB = 1e9
#: Examples, of the order of what can be hired; none of them is an offer of anybody.
SHAPES = (
    Machine("one large", 1, 64, 400 * GB, 30e12, 2e6, 12 * GB, 6 * GB, 11.0, replicated=True),
    Machine("8 with all lists", 8, 32, 200 * GB, 7.5e12, 8e5, 5 * GB, 3 * GB, 3.0, replicated=True),
    Machine("32 with shards", 32, 16, 80 * GB, 1e12, 4e5, 2 * GB, 1.5 * GB, 1.2, replicated=False),
)
#: (nodes, edges) of the graphs that are too large to try.
LARGE = ((1e8, 1e9), (5e8, 1e10), (2e9, 1e11))


def measure(args: argparse.Namespace, nodes: int, batches: int) -> dict[str, Any]:
    """Costs of a graph's batches, and the work of a core for them."""
    from aethergraph import Graph, NeighborSampler
    from aethergraph.remote import FeatureServer, open_graph, open_tables
    from aethergraph.sampling.locality import measure_locality

    files = common.power_law_graph(args.dir, nodes, DEGREE)
    graph = Graph.load(files.graph)
    packed = args.dir / f"scale-{nodes}.aeg"
    graph.save(packed, compress=True)
    sizes = files.graph.stat().st_size, packed.stat().st_size
    packed.unlink()
    sampler = NeighborSampler(graph, list(FANOUTS), num_threads=1)
    rng = np.random.default_rng(1)
    seeds = [rng.choice(nodes, min(BATCH, nodes), replace=False) for _ in range(batches)]
    samples = [sampler.sample(some, key) for key, some in enumerate(seeds)]
    begin = time.process_time()
    for key, some in enumerate(seeds):
        sampler.sample(some, key)
    edge_seconds = (time.process_time() - begin) / sum(len(one.edge) for one in samples)
    degrees = graph.in_degrees()
    hottest = np.zeros(nodes, bool)
    hottest[np.argsort(-degrees, kind="stable")[: int(HOT * nodes)]] = True
    pages = measure_locality(
        graph, np.arange(nodes), FANOUTS, batch_size=BATCH, batches=batches,
        row_bytes=args.row_bytes,
    ).shuffled_before  # fmt: skip
    with FeatureServer(open_tables(files.graph, lists=True), port=0) as server:
        there = NeighborSampler(open_graph(server.address), list(FANOUTS))
        before = server.stats()
        begin = time.process_time()
        for key, some in enumerate(seeds):
            assert (there.sample(some, key).edge == samples[key].edge).all()
        spent = time.process_time() - begin
        after = server.stats()
    answers = after.row_bytes - before.row_bytes
    asked = sum(len(one.node) for one in samples)
    return {
        "edges": np.mean([len(one.edge) for one in samples]),
        "nodes": np.mean([len(one.node) for one in samples]),
        "list pages": pages.list_pages,
        "row pages": pages.feature_pages,
        "answers": answers / batches,
        "hits": sum(int(hottest[one.node].sum()) for one in samples) / asked,
        "file": sizes[0],
        "packed": sizes[1],
        "edge_seconds": edge_seconds,
        "wire_byte_seconds": max(spent - edge_seconds * sum(len(one.edge) for one in samples), 0)
        / answers,
    }


def gather_seconds(args: argparse.Namespace, nodes: int) -> float:
    """Seconds of one core for a byte of rows of a mapped file."""
    from aethergraph import FeatureTable

    rng = np.random.default_rng(0)
    count = min(nodes, 1_000_000)
    rows = FeatureTable.from_array(rng.random((count, args.row_bytes // 4), np.float32))
    ids = [rng.integers(0, count, 50_000) for _ in range(5)]
    rows.gather(ids[0])
    times = []
    for some in ids:
        begin = time.process_time()
        rows.gather(some)
        times.append(time.process_time() - begin)
    return statistics.median(times) / (50_000 * args.row_bytes)


def check(found: dict[str, Any], said: BatchModel, work: Workload) -> list[list[common.Cell]]:
    """Rows of a table: what the model says beside what was counted."""
    pairs = {
        "edges of a batch": (sum(said.edges), found["edges"]),
        "distinct nodes": (said.nodes, found["nodes"]),
        "pages of lists": (said.list_pages, found["list pages"]),
        "pages of rows": (said.row_pages, found["row pages"]),
        "KB of a server's answers": (said.list_answers / 1e3, found["answers"] / 1e3),
        f"hits of the {HOT:.0%} hottest, %": (100 * said.hits(HOT), 100 * found["hits"]),
        "MB of the file": ((8 * work.nodes + 4 * work.edges) / 1e6, found["file"] / 1e6),
    }
    size = common.short(work.edges)
    return [
        [size, name, float(model), float(real), f"{100 * (model / real - 1):+.1f} %"]
        for name, (model, real) in pairs.items()
    ]


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--row-bytes", type=int, default=512, help="bytes of a node's features")
    made.add_argument(
        "--seeds-share", type=float, default=0.01, help="share of the nodes that are seeds"
    )
    made.add_argument("--step", type=float, default=0.0, help="seconds of a training step")
    made.add_argument(
        "--price", type=float, action="append", help="dollars per hour, once for each shape"
    )
    args = common.parse(made, argv)
    prices = args.price or [one.price for one in SHAPES]
    if len(prices) != len(SHAPES):
        made.error(f"--price is given {len(prices)} times for {len(SHAPES)} shapes")
    report = Report("scale_model", "A model up to 100 billion edges", args)
    rows: list[list[common.Cell]] = []
    found: dict[str, Any] = {}
    for nodes in QUICK if args.quick else SIZES:
        common.say(f"{common.short(nodes)} nodes")
        found = measure(args, nodes, 5 if args.quick else 20)
        work = Workload(nodes, DEGREE * nodes, args.row_bytes, FANOUTS, BATCH)
        rows += check(found, model_batch(work), work)
        report.data[common.short(nodes)] = {k: float(v) for k, v in found.items()}
    report.table(
        "a batch as the model has it, and as it was counted",
        ["edges of the graph", "what", "model", "counted", "difference"], rows,
    )  # fmt: skip
    edges = DEGREE * nodes
    # A list of d random ids of N takes about log2(N / d) bits an id, and what was measured more.
    bits = 8 * (found["packed"] - 8 * nodes) / edges
    more = bits - math.log2(nodes / DEGREE)
    costs = Costs(
        found["edge_seconds"], gather_seconds(args, nodes), found["wire_byte_seconds"], 0.0, 8.0,
        args.step,
    )  # fmt: skip
    report.parameters = {
        "fanouts": FANOUTS, "batch": BATCH, "row_bytes": args.row_bytes,
        "seeds_share": args.seeds_share, "ns_per_edge": 1e9 * costs.edge_seconds,
        "ns_per_row_byte": 1e9 * costs.row_byte_seconds,
        "ns_per_wire_byte": 1e9 * costs.wire_byte_seconds, "bits_above_log2": more,
    }  # fmt: skip
    sized: list[list[common.Cell]] = []
    priced: list[list[common.Cell]] = []
    for nodes_of, edges_of in LARGE:
        work = Workload(
            nodes_of, edges_of, args.row_bytes, FANOUTS, BATCH, args.seeds_share * nodes_of
        )
        own = replace(costs, edge_bytes=(math.log2(nodes_of**2 / edges_of) + more) / 8)
        one = model_batch(work)
        sized.append([
            common.short(edges_of), common.short(nodes_of), 4.0, own.edge_bytes,
            (8 * nodes_of + own.edge_bytes * edges_of) / GB, nodes_of * args.row_bytes / GB,
            sum(one.edges), one.nodes, one.list_pages, 100 * one.hits(HOT),
            (one.list_answers + one.list_questions) / 1e6, one.nodes * args.row_bytes / 1e6,
        ])  # fmt: skip
        for shape, price in zip(SHAPES, prices, strict=True):
            said = price_epoch(work, replace(shape, price=price), own)
            priced.append([
                common.short(edges_of), shape.name, price, said["stored"] / GB,
                "yes" if said["fits"] else "no", said["reads"], 100 * said["hit"],
                said["sent"] / 1e6, said["bound"], 1e3 * said["batch_seconds"],
                said["seconds"] / 60, said["dollars"],
            ])  # fmt: skip
    report.table(
        "graphs and their batches",
        [
            "edges", "nodes", "bytes an edge", "compressed", "GB of lists, compressed",
            "GB of rows", "edges of a batch", "distinct nodes", "list pages",
            f"hits of {HOT:.0%}, %", "MB of lists over a network", "MB of rows",
        ],
        sized,
    )  # fmt: skip
    report.table(
        "an epoch on three shapes of machines; prices are examples",
        [
            "edges", "machines", "$ an hour each", "GB on each", "fits", "reads of a batch",
            "rows found in memory, %", "MB sent for a batch", "bound by", "ms of it for a batch",
            "minutes", "$",
        ],
        priced,
    )  # fmt: skip
    report.note(f"{args.seeds_share:.1%} of the nodes are seeds; a page has {PAGE} bytes.")
    for shape in SHAPES:
        report.note(
            f"{shape.name}: {shape.cores} cores, {shape.memory / GB:.0f} GB for rows, "
            f"{shape.disk / 1e12:g} TB, {shape.reads:g} reads and {shape.disk_rate / GB:g} GB a "
            f"second, network {shape.network / GB:g} GB a second, each."
        )

    def draw(axes: Sequence[Any]) -> None:
        names = [f"{row[0]}, {row[1]}" for row in priced]
        common.bars(axes[0], names, [float(str(row[-1])) for row in priced], "$ per epoch")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
