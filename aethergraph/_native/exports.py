"""Arrays of a sample, written by the native sampler that drew it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from aethergraph._native.core import Ids, ffi, lib

#: Makes an uninitialised vector of so many numbers, for what the text says.
MakeVector = Callable[[int, str], Ids]


class NativeSample(NamedTuple):
    """Arrays of one sample by node type and edge type (see ``sampling/subgraph.py``).

    As the core wrote them they lie in two arrays: ``all_nodes`` has ``node`` of every type and then
    ``batch`` of every type, ``all_edges`` for every relation ``row``, ``col`` and ``edge``. Whoever
    replaces or reorders the parts sets these to None.
    """

    node: list[Ids]
    batch: list[Ids] | None
    row: list[Ids]
    col: list[Ids]
    edge: list[Ids]
    hop_nodes: list[list[int]]
    hop_edges: list[list[int]]
    all_nodes: Ids | None = None
    all_edges: Ids | None = None


class NativeLayers(NamedTuple):
    """Layered sample in compressed form, by node type and edge type.

    ``offsets[relation][hop]`` [n + 1] has, for each of the n nodes that the hop expanded, the start
    of its edges among those of the hop.
    """

    node: list[Ids]
    row: list[Ids]
    edge: list[Ids]
    offsets: list[list[Ids]]
    hop_nodes: list[list[int]]
    hop_edges: list[list[int]]


class SampleShape(NamedTuple):
    """Counts that determine the arrays of a sample."""

    num_types: int
    num_relations: int
    num_hops: int
    with_batch: bool


class SampleNumbers:
    """Native arrays of counts that a sampling call fills, one behind the other.

    Attributes:
        counts: nodes by type, then edges by relation, nodes by type and hop, edges by relation and
            hop.
        handle: the ``aether_sample_counts *`` of all.
    """

    __slots__ = ("_length", "_shape", "counts", "handle")

    def __init__(self, shape: SampleShape) -> None:
        types, relations, hops, _ = self._shape = shape
        by_hop = types + relations, types * (hops + 1), relations * hops
        self._length = sum(by_hop)
        self.counts = ffi.new("uint64_t[]", self._length)
        hop_nodes = self.counts + by_hop[0]
        self.handle = ffi.new("aether_sample_counts *")
        self.handle.size = ffi.sizeof("aether_sample_counts")
        self.handle.hop_nodes, self.handle.hop_edges = hop_nodes, hop_nodes + by_hop[1]
        self.handle.num_nodes, self.handle.num_edges = self.counts, self.counts + types

    def read(self) -> tuple[list[int], list[list[int]], list[list[int]]]:
        """Return counts (nodes by type, edges by relation), nodes by hop, edges by hop."""
        types, relations, hops, _ = self._shape
        numbers = ffi.unpack(self.counts, self._length)
        first = types + relations
        middle = first + types * (hops + 1)
        return (
            numbers[:first],
            [numbers[at : at + hops + 1] for at in range(first, middle, hops + 1)],
            [numbers[at : at + hops] for at in range(middle, self._length, hops)] if hops else
            [[] for _ in range(relations)],
        )  # fmt: skip


def export_sample(
    handle: Any,
    shape: SampleShape,
    numbers: SampleNumbers,
    make: MakeVector,
    err: Any,
    fail: Callable[[int], None],
) -> NativeSample:
    """Return the arrays of a native sampler's sample; ``fail`` raises the error of a code."""
    types, _, _, with_batch = shape
    counts, hop_nodes, hop_edges = numbers.read()
    node_counts, edge_counts = counts[:types], counts[types:]
    num_nodes, num_edges = sum(node_counts), sum(edge_counts)
    nodes = make(num_nodes << with_batch, f"{num_nodes} nodes")
    edges = make(3 * num_edges, f"{num_edges} edges")
    lent = ffi.from_buffer("int64_t[]", nodes)
    code = lib.aether_sample_export_typed(
        handle,
        num_nodes,
        num_edges,
        lent,
        lent + num_nodes if with_batch else ffi.NULL,
        ffi.from_buffer("int64_t[]", edges),
        err,
    )
    if code:
        fail(code)
    node = _cut(nodes, node_counts, 0)
    batch = _cut(nodes, node_counts, num_nodes) if with_batch else None
    # Annotated, since list[Ids]() takes ten times as long as [].
    row: list[Ids] = []
    col: list[Ids] = []
    edge: list[Ids] = []
    at = 0
    for count in edge_counts:
        middle, last, end = at + count, at + 2 * count, at + 3 * count
        row.append(edges[at:middle])
        col.append(edges[middle:last])
        edge.append(edges[last:end])
        at = end
    return NativeSample(node, batch, row, col, edge, hop_nodes, hop_edges, nodes, edges)


def _cut(vector: Ids, counts: Sequence[int], at: int) -> list[Ids]:
    """Return the parts of ``vector`` from ``at`` on that have ``counts`` numbers."""
    parts: list[Ids] = []
    for count in counts:
        parts.append(vector[at : at + count])
        at += count
    return parts


def export_layers(
    handle: Any,
    shape: SampleShape,
    numbers: SampleNumbers,
    sources: Sequence[int],
    make: MakeVector,
    err: Any,
    fail: Callable[[int], None],
) -> NativeLayers:
    """Return the arrays of a layered sample; ``sources`` are the types that relations expand."""
    types, _, hops, _ = shape
    counts, hop_nodes, hop_edges = numbers.read()
    # A hop has one offset more than there were nodes before it.
    ends = [[0, *accumulate(n + 1 for n in accumulate(nodes[:hops]))] for nodes in hop_nodes]
    total = sum(counts) + sum(counts[types:]) + sum(ends[source][-1] for source in sources)
    out = make(total, f"a sample of {total} numbers")
    code = lib.aether_sample_export_layers(handle, ffi.from_buffer("int64_t[]", out), total, err)
    if code:
        fail(code)
    at = 0

    def take(count: int) -> Ids:
        nonlocal at
        at += count
        return out[at - count : at]

    node: list[Ids] = []
    row: list[Ids] = []
    edge: list[Ids] = []
    offsets: list[list[Ids]] = []
    for count in counts[:types]:
        node.append(take(count))
    for count, source in zip(counts[types:], sources, strict=True):
        row.append(take(count))
        edge.append(take(count))
        begins = take(ends[source][-1])
        offsets.append([begins[ends[source][hop] : ends[source][hop + 1]] for hop in range(hops)])
    return NativeLayers(node, row, edge, offsets, hop_nodes, hop_edges)
