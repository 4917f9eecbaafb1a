"""A power-law graph of any size, written straight into a graph file in constant memory.

    python benchmarks/large_graph.py [--nodes 50000000] [--edges 1200000000] [--values] [--dir DIR]

Both ends of an edge follow the law of ``common.power_law_edges``: the node of rank r is drawn with
probability ~ r^(-2/3), so degrees follow a power law with exponent 2.5. There, edges are drawn and
then sorted by destination. Here the in-degrees are what the law expects, so the place of every list
in the file is known ahead and its neighbours are drawn where they belong, piece by piece. With
values, edges have a weight (float32, uniform in (0, 1]) and a time (int64, spread evenly over each
list).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import GraphFiles
from numpy.typing import NDArray

NODES, EDGES = 50_000_000, 1_200_000_000
PIECE = 1 << 20  # values made at once, 8 MB an array
LISTS = 1 << 15  # whose times are made at once
SPAN = 1_000_000  # of times


def large_graph(
    folder: Path, num_nodes: int = NODES, num_edges: int = EDGES, *, values: bool = False
) -> GraphFiles:
    """The graph, in CSC with 32-bit ids, made on first use: 4 bytes per edge and 8 per node.

    With ``values`` it has edge weights and edge times: 12 bytes more per edge.
    """
    name = f"power-law-{common.short(num_nodes)}-{common.short(num_edges)}{'-values' * values}"
    files = GraphFiles(folder / name, num_nodes, num_edges)
    files.folder.mkdir(parents=True, exist_ok=True)
    if not files.graph.exists():
        common.say(f"making a graph of {num_nodes:,} nodes and {num_edges:,} edges")
        start = time.perf_counter()
        write(files.graph, num_nodes, num_edges, values=values)
        seconds = time.perf_counter() - start
        common.say(f"{seconds:.0f} s, {num_edges / seconds / 1e6:.1f} M edges/s")
    return files


def write(path: Path, num_nodes: int, num_edges: int, *, values: bool = False) -> None:
    """Write the graph file; it appears complete or not at all."""
    from aethergraph import _native as native
    from aethergraph.storage.meta import EdgeType, FileMeta, NodeType

    if num_nodes >= 1 << 32:
        raise SystemExit(f"{num_nodes} nodes do not fit 32-bit ids")
    meta = FileMeta((NodeType("node", num_nodes),), (EdgeType(0, "to", 0, num_edges),))
    sections: list[tuple[int, np.dtype[Any], Iterator[NDArray[Any]]]] = [
        (native.SECTION_META, np.dtype(np.uint8), iter([np.frombuffer(meta.encode(), np.uint8)])),
        (native.SECTION_CSC_INDPTR, np.dtype(np.uint64), offsets(num_nodes, num_edges)),
        (native.SECTION_CSC_INDICES, np.dtype(np.uint32), neighbors(num_nodes, num_edges)),
    ]
    if values:
        sections += [
            (native.SECTION_EDGE_WEIGHT, np.dtype(np.float32), weights(num_edges)),
            (native.SECTION_EDGE_TIME, np.dtype(np.int64), times(num_nodes, num_edges)),
        ]
    with native.NativeWriter(path, native.CONTENT_GRAPH) as writer:
        for kind, dtype, pieces in sections:
            writer.begin(kind, 0, native.dtype_code(dtype))
            for piece in pieces:
                writer.append(piece)
            writer.end()


def offsets(num_nodes: int, num_edges: int) -> Iterator[NDArray[np.uint64]]:
    """``indptr`` in pieces: the first r ranks have num_edges * (r / num_nodes)^(1/3) in-edges."""
    back = pow(common.rank_step(num_nodes), -1, num_nodes)
    yield np.zeros(1, np.uint64)
    before = 0
    for begin in range(0, num_nodes, PIECE):
        rank = np.arange(begin, min(begin + PIECE, num_nodes), dtype=np.int64)
        rank *= back
        rank %= num_nodes
        degree = _edges_of_ranks(rank + 1, num_nodes, num_edges)
        degree -= _edges_of_ranks(rank, num_nodes, num_edges)
        ends = np.cumsum(degree)
        ends += before
        before = int(ends[-1])
        yield ends.astype(np.uint64)


def _edges_of_ranks(count: NDArray[np.int64], num_nodes: int, num_edges: int) -> NDArray[np.int64]:
    """In-edges of the ``count`` most popular nodes together."""
    return (num_edges * np.cbrt(count / num_nodes)).astype(np.int64)


def neighbors(num_nodes: int, num_edges: int) -> Iterator[NDArray[np.uint32]]:
    """``indices`` in pieces, each with a generator of its own: the same for any number of cores."""

    def draw(number: int) -> NDArray[np.uint32]:
        rng = np.random.Generator(np.random.PCG64([0, number]))
        count = min(PIECE, num_edges - number * PIECE)
        return common.power_law_ids(rng, num_nodes, count).astype(np.uint32)

    cores = len(os.sched_getaffinity(0))
    waiting: deque[Future[NDArray[np.uint32]]] = deque()
    with ThreadPoolExecutor(cores) as pool:
        for number in range(-(-num_edges // PIECE)):
            waiting.append(pool.submit(draw, number))
            if len(waiting) > cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def weights(num_edges: int) -> Iterator[NDArray[np.float32]]:
    """Weights in pieces, uniform in (0, 1]."""
    for number, begin in enumerate(range(0, num_edges, PIECE)):
        rng = np.random.Generator(np.random.PCG64([1, number]))
        yield 1 - rng.random(min(PIECE, num_edges - begin), np.float32)


def times(num_nodes: int, num_edges: int) -> Iterator[NDArray[np.int64]]:
    """Times in pieces: entry j of a list of n has the time ``SPAN * j // n``."""
    before = 0
    for piece in offsets(num_nodes, num_edges):
        ends = piece.astype(np.int64)
        starts = np.concatenate([[before], ends[:-1]])
        degree = ends - starts
        before = int(ends[-1])
        for at in range(0, len(ends), LISTS):
            own = slice(at, at + LISTS)
            place = np.arange(starts[own][0], ends[own][-1]) - np.repeat(starts[own], degree[own])
            yield SPAN * place // np.repeat(degree[own], degree[own])


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--nodes", type=int, default=NODES)
    made.add_argument("--edges", type=int, default=EDGES)
    made.add_argument("--values", action="store_true", help="edge weights and edge times as well")
    args = common.parse(made, argv)
    print(large_graph(args.dir, args.nodes, args.edges, values=args.values).graph)


if __name__ == "__main__":
    main()
