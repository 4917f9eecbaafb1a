"""Topologies and the sampler's scratch memory."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph._arrays import empty
from aethergraph._binding.core import Ids, ffi, lib, new_error, raise_error
from aethergraph._binding.files import FileGuard
from aethergraph._binding.memory import address_of
from aethergraph._binding.reads import begin_read, end_read
from aethergraph._binding.tasks import Task, lend


class NativeTopology:
    """Compressed lists: borrows its arrays and keeps them alive. Immutable, shared by threads."""

    __slots__ = (
        "_edge_ids",
        "_handle",
        "edge_ids",
        "guard",
        "indices",
        "indptr",
        "num_edges",
        "num_major",
    )

    def __init__(
        self,
        indptr: NDArray[np.uint64],
        indices: NDArray[Any],
        edge_ids: NDArray[Any] | None,
        num_minor: int,
        guard: FileGuard | None = None,
    ) -> None:
        self._handle: Any = None
        self.indptr = indptr
        self.indices = indices
        self.edge_ids = edge_ids
        self.guard = guard
        self.num_major = len(indptr) - 1
        self.num_edges = len(indices)
        lists = ffi.new("aether_lists *")
        lists.num_major = self.num_major
        lists.num_minor = num_minor
        lists.num_edges = self.num_edges
        lists.indptr = ffi.cast("const uint64_t *", address_of(indptr))
        lists.indices = ffi.cast("const void *", address_of(indices))
        lists.id_bytes = indices.dtype.itemsize
        lists.edge_id_bytes = 8
        if edge_ids is not None:
            lists.edge_ids = ffi.cast("const void *", address_of(edge_ids))
            lists.edge_id_bytes = edge_ids.dtype.itemsize
        out = ffi.new("aether_topology **")
        err = new_error()
        begin_read(guard)
        code = lib.aether_topology_create(lists, out, err)
        if code:
            raise_error(code, err)
        self._handle = ffi.gc(out[0], lib.aether_topology_destroy)

    def degrees(self, nodes: Ids | None) -> Ids:
        """Length of the list of each node (None: of all)."""
        count = self.num_major if nodes is None else len(nodes)
        out = empty(count, np.int64, f"{count} degrees")
        lent = ffi.NULL if nodes is None else ffi.from_buffer("int64_t[]", nodes)
        err = new_error()
        begin_read(self.guard)
        code = lib.aether_topology_degrees(
            self._handle, lent, count, ffi.from_buffer("int64_t[]", out), err
        )
        end_read(code, err, self.guard)
        return out

    def neighbors(self, nodes: Ids, *, with_edges: bool = False) -> tuple[Ids, Ids | None]:
        """The lists of ``nodes``, one after the other, and their edge ids if asked for."""
        capacity = int(self.degrees(nodes).sum())
        neighbors = empty(capacity, np.int64, f"{capacity} neighbours")
        edges = empty(capacity, np.int64, f"{capacity} edges") if with_edges else None
        err = new_error()
        begin_read(self.guard)
        code = lib.aether_topology_neighbors(
            self._handle,
            ffi.from_buffer("int64_t[]", nodes),
            len(nodes),
            ffi.from_buffer("int64_t[]", neighbors),
            ffi.NULL if edges is None else ffi.from_buffer("int64_t[]", edges),
            capacity,
            err,
        )
        end_read(code, err, self.guard)
        return neighbors, edges

    def fanout(
        self,
        nodes: Ids,
        k: int,
        key: int,
        *,
        replace: bool,
        num_threads: int,
        task: Task | None = None,
    ) -> Ids:
        """``k`` neighbours of each node, int64 [n, k], rows filled up with -1."""
        out = empty((len(nodes), k), np.int64, f"{len(nodes)} x {k} neighbours")
        err = new_error()
        begin_read(self.guard)
        code = lib.aether_fanout(
            self._handle,
            ffi.from_buffer("int64_t[]", nodes),
            len(nodes),
            k,
            key,
            SAMPLE_REPLACE if replace else 0,
            num_threads,
            ffi.from_buffer("int64_t[]", out),
            lend(task, out.nbytes),
            err,
        )
        end_read(code, err, self.guard)
        return out


SAMPLE_REPLACE: Final[int] = lib.AETHER_SAMPLE_REPLACE
SAMPLE_DISJOINT: Final[int] = lib.AETHER_SAMPLE_DISJOINT
SAMPLE_INDUCED: Final[int] = lib.AETHER_SAMPLE_INDUCED


class NativeSample(NamedTuple):
    """The arrays of one sample (see ``sampling.Subgraph``)."""

    node: Ids
    row: Ids
    col: Ids
    edge: Ids
    batch: Ids | None
    hop_nodes: list[int]
    hop_edges: list[int]


class NativeSampler:
    """Scratch memory and options of a sampler; used by one thread at a time."""

    __slots__ = (
        "_err",
        "_fanouts",
        "_handle",
        "_hop_edges",
        "_hop_nodes",
        "_num_hops",
        "_options",
        "_totals",
        "_with_batch",
        "topology",
    )

    def __init__(
        self, topology: NativeTopology, fanouts: tuple[int, ...], flags: int, num_threads: int
    ) -> None:
        self._handle: Any = None
        self.topology = topology
        self._num_hops = len(fanouts)
        self._with_batch = bool(flags & SAMPLE_DISJOINT)
        self._fanouts = ffi.new("int64_t[]", list(fanouts))
        self._options = ffi.new("aether_sample_options *")
        self._options.fanouts = self._fanouts
        self._options.num_hops = self._num_hops
        self._options.flags = flags
        self._options.num_threads = num_threads
        self._hop_nodes = ffi.new("uint64_t[]", self._num_hops + 1)
        self._hop_edges = ffi.new("uint64_t[]", max(1, self._num_hops))
        self._totals = ffi.new("uint64_t[2]")
        self._err = new_error()
        out = ffi.new("aether_sampler **")
        code = lib.aether_sampler_create(topology._handle, out, self._err)
        if code:
            raise_error(code, self._err)
        self._handle = ffi.gc(out[0], lib.aether_sampler_destroy)

    @property
    def memory(self) -> int:
        """Bytes of scratch memory held."""
        return int(lib.aether_sampler_memory(self._handle))

    def sample(self, seeds: Ids, key: int) -> NativeSample:
        """Sample around ``seeds`` (contiguous int64) with the 64-bit ``key``."""
        self._options.key = key
        err = self._err
        guard = self.topology.guard
        begin_read(guard)
        code = lib.aether_sample(
            self._handle,
            ffi.from_buffer("int64_t[]", seeds),
            seeds.shape[0],
            self._options,
            self._hop_nodes,
            self._hop_edges,
            self._totals,
            err,
        )
        if code:
            end_read(code, err, guard)
        num_nodes, num_edges = self._totals
        node = empty(num_nodes, np.int64, f"{num_nodes} nodes")
        links = empty((3, num_edges), np.int64, f"{num_edges} edges")
        batch = empty(num_nodes, np.int64, f"{num_nodes} nodes") if self._with_batch else None
        row, col, edge = links
        code = lib.aether_sample_export(
            self._handle,
            8,
            ffi.from_buffer(node),
            ffi.from_buffer(row),
            ffi.from_buffer(col),
            ffi.from_buffer(edge),
            ffi.NULL if batch is None else ffi.from_buffer(batch),
            err,
        )
        end_read(code, err, guard)
        hop_nodes = ffi.unpack(self._hop_nodes, self._num_hops + 1)
        hop_edges = ffi.unpack(self._hop_edges, self._num_hops)
        return NativeSample(node, row, col, edge, batch, hop_nodes, hop_edges)


def rng_draws(key: int, hop: int, node: int, seed: int, count: int) -> NDArray[np.uint64]:
    """Draws of the stream (key, hop, node, seed), for oracles and tests."""
    out = np.empty(count, np.uint64)
    lib.aether_rng_draws(key, hop, node, seed, count, ffi.from_buffer("uint64_t[]", out))
    return out
