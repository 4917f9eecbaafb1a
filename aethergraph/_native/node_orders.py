"""Orders of nodes: the undirected lists of a graph by rank, and what is made of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import empty
from aethergraph._native.core import ffi, lib, new_error, raise_error, sized
from aethergraph._native.guards import begin_read, end_read
from aethergraph._native.tasks import Task, lend
from aethergraph._native.topology import NativeTopology

Ranks32 = NDArray[np.uint32]


class Numbered(NamedTuple):
    """Lists of one edge type, and the numbers of the first nodes on both sides among all nodes."""

    topology: NativeTopology
    first_major: int
    first_minor: int


class NodeRanks(NamedTuple):
    """Nodes by ascending number of edges, then by id; the lists of what they are joined to.

    Attributes:
        nodes: node of each rank, uint32 [N].
        ranks: rank of each node, uint32 [N].
        places: places of the lists to come, uint64 [N + 1].
        entries: number of entries of all lists.
        both: False if every edge is stored in both directions, and counts once.
    """

    nodes: Ranks32
    ranks: Ranks32
    places: NDArray[np.uint64]
    entries: int
    both: bool


class RankLists(NamedTuple):
    """Undirected lists by rank.

    Attributes:
        places: the list of rank r is ``neighbors[places[r]:places[r + 1]]``, uint64 [N + 1].
        neighbors: ranks, uint32.
    """

    places: NDArray[np.uint64]
    neighbors: Ranks32


def node_degrees(
    relations: Iterable[Numbered], count: int, task: Task | None = None
) -> tuple[NDArray[np.uint64], bool]:
    """Return the number of edges at each of ``count`` nodes, without loops, and whether all count.

    They count once each where every edge is stored in both directions; the second is then False.
    """
    degrees = empty(count, np.uint64, f"the degrees of {count} nodes")
    degrees[:] = 0
    balance, err = ffi.new("uint64_t *"), new_error()
    for topology, major, minor in relations:
        begin_read(topology.guard)
        part = sized("aether_order_part", topology.handle, major, minor, count)
        code = lib.aether_order_degrees(
            part, ffi.from_buffer("uint64_t[]", degrees), balance,
            lend(task, 8 * topology.num_edges), err,
        )  # fmt: skip
        end_read(code, err, topology.guard, topology.path)
    both = balance[0] != 0
    if not both:
        degrees >>= np.uint64(1)
    return degrees, both


def rank_nodes(degrees: NDArray[np.uint64], both: bool) -> NodeRanks:
    """Return the ranks of nodes by what :func:`node_degrees` found.

    Raises:
        LimitError: there are 2^32 - 1 nodes or more.
    """
    count, err = len(degrees), new_error()
    nodes = empty(count, np.uint32, f"an order of {count} nodes")
    ranks = empty(count, np.uint32, f"the ranks of {count} nodes")
    places = empty(count + 1, np.uint64, f"the places of {count} lists")
    code = lib.aether_order_ranks(
        ffi.from_buffer("uint64_t[]", degrees), count, ffi.from_buffer("uint32_t[]", nodes),
        ffi.from_buffer("uint32_t[]", ranks), ffi.from_buffer("uint64_t[]", places), err,
    )  # fmt: skip
    if code:
        raise_error(code, err)
    return NodeRanks(nodes, ranks, places, int(degrees.sum()), both)


def rank_lists(
    relations: Iterable[Numbered], ranked: NodeRanks, task: Task | None = None
) -> RankLists:
    """Fill the lists by rank; ``ranked.places`` becomes theirs."""
    neighbors = empty(ranked.entries, np.uint32, f"lists of {ranked.entries} entries")
    err = new_error()
    room = ffi.from_buffer("uint64_t[]", ranked.places), ffi.from_buffer("uint32_t[]", neighbors)
    lists = sized("aether_order_lists", *room, len(neighbors))
    for topology, major, minor in relations:
        begin_read(topology.guard)
        part = sized("aether_order_part", topology.handle, major, minor, len(ranked.nodes))
        code = lib.aether_order_fill(
            part, ranked.both, ffi.from_buffer("uint32_t[]", ranked.ranks), lists,
            lend(task, 8 * topology.num_edges), err,
        )  # fmt: skip
        end_read(code, err, topology.guard, topology.path)
    return RankLists(ranked.places, neighbors)


def sort_lists(lists: RankLists, task: Task | None = None) -> None:
    """Sort the entries of each list."""
    err = new_error()
    code = lib.aether_order_sort(*_lent(lists), lend(task, lists.neighbors.nbytes), err)
    if code:
        raise_error(code, err)


def _lent(lists: RankLists) -> tuple[Any, Any, int]:
    return (
        ffi.from_buffer("uint64_t[]", lists.places),
        ffi.from_buffer("uint32_t[]", lists.neighbors),
        len(lists.places) - 1,
    )


def rabbit_order(
    lists: RankLists, num_threads: int, task: Task | None = None, *,
    memory: int = 0, file: int = -1,
) -> tuple[Ranks32, Ranks32]:  # fmt: skip
    """Return Rabbit Order: (rank at each new place, community of each rank), uint32 [N] each.

    Args:
        lists: undirected lists.
        num_threads: 1 always gives the same; 0 takes those of the pool.
        task: the long call that this one is part of.
        memory: bytes of edges that are kept in memory; others go to ``file``.
        file: descriptor of an empty file; -1: all are kept in memory. With a file, the lists are
            mapped, too, and their pages are let go of.

    Raises:
        CorruptFileError: the lists, or the file, are damaged.
    """
    places, neighbors, count = _lent(lists)
    order = empty(count, np.uint32, f"an order of {count} nodes")
    communities = empty(count, np.uint32, f"the communities of {count} nodes")
    options = ffi.new("aether_rabbit_options *")
    options.memory, options.file, options.num_threads = memory, file, num_threads
    options.mapped = file >= 0
    num_communities, err = ffi.new("uint64_t *"), new_error()
    room = [ffi.from_buffer("uint32_t[]", array) for array in (order, communities)]
    out = sized("aether_rabbit_order", *room, num_communities)
    code = lib.aether_order_rabbit(
        places, neighbors, count, options, out, lend(task, 16 * count), err
    )
    if code:
        raise_error(code, err)
    return order, communities


def bfs_order(lists: RankLists, task: Task | None = None) -> Ranks32:
    """Return the reverse Cuthill-McKee order of sorted lists: the rank at each new place."""
    places, neighbors, count = _lent(lists)
    order, err = empty(count, np.uint32, f"an order of {count} nodes"), new_error()
    code = lib.aether_order_bfs(
        places, neighbors, count, ffi.from_buffer("uint32_t[]", order), lend(task, 16 * count), err
    )
    if code:
        raise_error(code, err)
    return order


def gorder_order(lists: RankLists, window: int, task: Task | None = None) -> Ranks32:
    """Return Gorder of sorted lists: the rank at each new place."""
    places, neighbors, count = _lent(lists)
    order, err = empty(count, np.uint32, f"an order of {count} nodes"), new_error()
    code = lib.aether_order_gorder(
        places, neighbors, count, window, ffi.from_buffer("uint32_t[]", order),
        lend(task, 16 * count), err,
    )  # fmt: skip
    if code:
        raise_error(code, err)
    return order
