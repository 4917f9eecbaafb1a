"""Orders of nodes: Rabbit Order and others, from the edges of all types together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import empty
from aethergraph.graph.parts import EdgeParts
from aethergraph.storage.memory import check_memory

__all__ = [
    "GORDER_WINDOW",
    "ORDERS",
    "FoundOrder",
    "Order",
    "descending",
    "find_order",
    "number_types",
]

Ids = NDArray[np.int64]
Order = Literal["rabbit", "bfs", "degree", "gorder"]
ORDERS = ("rabbit", "bfs", "degree", "gorder")
#: Nodes that Gorder compares the next one with, as its authors recommend.
GORDER_WINDOW = 5


class FoundOrder(NamedTuple):
    """An order of nodes.

    Attributes:
        nodes: old id of each new one, int64 [N].
        parts: community of each old id, int64 [N]; communities are numbered in the order. None if
            the order has none.
    """

    nodes: Ids
    parts: Ids | None


def number_types(
    counts: Mapping[str, int], edges: Mapping[tuple[str, str, str], EdgeParts]
) -> tuple[dict[str, int], list[native.Numbered]]:
    """Number the nodes of all types one after the other.

    Returns:
        The number of the first node of each type, and the lists of every edge type.
    """
    firsts, total = {}, 0
    for name, count in counts.items():
        firsts[name] = total
        total += count
    relations = []
    for (source, _, target), part in edges.items():
        ends = (target, source) if part.csc is not None else (source, target)
        topology = part.any_lists.topology
        relations.append(native.Numbered(topology, firsts[ends[0]], firsts[ends[1]]))
    return firsts, relations


def find_order(
    order: str,
    relations: Sequence[native.Numbered],
    count: int,
    num_threads: int,
    progress: native.Progress | None,
) -> FoundOrder:
    """Return an order of ``count`` nodes, which the edges are between.

    Raises:
        LimitError: there are 2^32 - 1 nodes or more.
        OutOfMemoryError: the lists that it is made from would not fit in memory.
    """
    edges = sum(relation.topology.num_edges for relation in relations)

    def work(task: native.Task | None) -> FoundOrder:
        degrees, both = native.node_degrees(relations, count, task)
        if order == "degree":
            ranked = native.rank_nodes(degrees, both)
            return FoundOrder(descending(ranked.nodes, degrees), None)
        entries = int(degrees.sum())
        check_memory(4 * entries + 48 * count, f"an order of {count} nodes by {entries} entries")
        ranked = native.rank_nodes(degrees, both)
        del degrees
        lists = native.rank_lists(relations, ranked, task)
        ranks, communities = place_ranks(order, lists, num_threads, task)
        nodes = ranked.nodes[ranks].astype(np.int64)
        if communities is None:
            return FoundOrder(nodes, None)
        return FoundOrder(nodes, communities[ranked.ranks].astype(np.int64))

    return native.run_long(work, progress, 20 * edges + 16 * count)


def place_ranks(
    order: str, lists: native.RankLists, num_threads: int, task: native.Task | None
) -> tuple[native.Ranks32, native.Ranks32 | None]:
    """Return the rank at each new place, and the community of each rank, if the order has them."""
    if order == "rabbit":
        return native.rabbit_order(lists, num_threads, task)
    native.sort_lists(lists, task)
    if order == "bfs":
        return native.bfs_order(lists, task), None
    return native.gorder_order(lists, GORDER_WINDOW, task), None


def descending(nodes: native.Ranks32, degrees: NDArray[np.uint64]) -> Ids:
    """Turn an order by ascending degree round; nodes of equal degrees stay in the order of ids."""
    count = len(nodes)
    out = empty(count, np.int64, f"an order of {count} nodes")
    if count == 0:
        return out
    sorted_degrees = degrees[nodes]
    starts = np.flatnonzero(np.diff(sorted_degrees, prepend=sorted_degrees[0] + np.uint64(1)))
    ends = np.append(starts[1:], count)
    # A run of equal degrees [start, end) goes to [count - end, count - start), in its own order.
    shift = np.repeat(count - ends - starts, ends - starts)
    out[np.arange(count) + shift] = nodes
    return out
