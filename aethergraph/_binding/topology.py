"""Compressed lists as a native topology."""

from __future__ import annotations

from typing import Any

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
        "edge_ids",
        "guard",
        "handle",
        "indices",
        "indptr",
        "num_edges",
        "num_major",
        "num_minor",
    )

    def __init__(
        self,
        indptr: NDArray[np.uint64],
        indices: NDArray[Any],
        edge_ids: NDArray[Any] | None,
        num_minor: int,
        guard: FileGuard | None = None,
    ) -> None:
        self.handle: Any = None
        self.indptr = indptr
        self.indices = indices
        self.edge_ids = edge_ids
        self.guard = guard
        self.num_major = len(indptr) - 1
        self.num_minor = num_minor
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
        self.handle = ffi.gc(out[0], lib.aether_topology_destroy)

    def degrees(self, nodes: Ids | None) -> Ids:
        """Length of the list of each node (None: of all)."""
        count = self.num_major if nodes is None else len(nodes)
        out = empty(count, np.int64, f"{count} degrees")
        lent = ffi.NULL if nodes is None else ffi.from_buffer("int64_t[]", nodes)
        err = new_error()
        begin_read(self.guard)
        code = lib.aether_topology_degrees(
            self.handle, lent, count, ffi.from_buffer("int64_t[]", out), err
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
            self.handle,
            ffi.from_buffer("int64_t[]", nodes),
            len(nodes),
            ffi.from_buffer("int64_t[]", neighbors),
            ffi.NULL if edges is None else ffi.from_buffer("int64_t[]", edges),
            capacity,
            err,
        )
        end_read(code, err, self.guard)
        return neighbors, edges

    def find(self, major: Ids, minor: Ids, task: Task | None = None) -> tuple[Ids, Ids]:
        """Every edge between ``major[i]`` and ``minor[i]``: i, and its position, by ascending i.

        The ids are some that exist.
        """
        order = np.lexsort((minor, major))
        major, minor = major[order], minor[order]
        capacity = 2 * len(major)
        hits = ffi.new("uint64_t *")
        while True:
            pairs = empty(capacity, np.int64, f"{capacity} edges")
            places = empty(capacity, np.int64, f"{capacity} edges")
            err = new_error()
            begin_read(self.guard)
            code = lib.aether_find_edges(
                self.handle,
                ffi.from_buffer("int64_t[]", major),
                ffi.from_buffer("int64_t[]", minor),
                len(major),
                ffi.from_buffer("uint64_t[]", pairs),
                ffi.from_buffer("uint64_t[]", places),
                capacity,
                hits,
                lend(task, 8 * len(major)),
                err,
            )
            end_read(code, err, self.guard)
            if hits[0] <= capacity:
                break
            capacity = int(hits[0])
        pair = order[pairs[: hits[0]]]
        by_pair = np.argsort(pair, kind="stable")
        return pair[by_pair], places[by_pair]

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
            self.handle,
            ffi.from_buffer("int64_t[]", nodes),
            len(nodes),
            k,
            key,
            lib.AETHER_SAMPLE_REPLACE if replace else 0,
            num_threads,
            ffi.from_buffer("int64_t[]", out),
            lend(task, out.nbytes),
            err,
        )
        end_read(code, err, self.guard)
        return out
