"""Random walks, and the tables of a graph that they draw from."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import empty
from aethergraph._native.core import Ids, dtype_code, ffi, lib, new_error
from aethergraph._native.files import FileGuard
from aethergraph._native.guards import begin_read, end_read
from aethergraph._native.memory import buffer_alloc
from aethergraph._native.tasks import Task, lend
from aethergraph._native.topology import NativeTopology

_PAD: Final[int] = lib.AETHER_WALK_PAD


def build_alias(
    topology: NativeTopology,
    weights: NDArray[Any],
    guard: FileGuard | None,
    task: Task | None = None,
) -> NDArray[np.uint64]:
    """Return the alias table [num_edges] of float32 or float64 ``weights`` by edge id.

    ``guard`` watches the file that ``weights`` are mapped from.

    Raises:
        InvalidArgumentError: a weight is negative or not finite; names the first one found.
    """
    table = _room(topology.num_edges, np.dtype(np.uint64))
    err = new_error()
    begin_read(topology.guard)
    begin_read(guard)
    code = lib.aether_alias_build(
        topology.handle,
        ffi.from_buffer(weights),
        dtype_code(weights.dtype),
        ffi.from_buffer("uint64_t[]", table),
        len(table),
        lend(task, table.nbytes),
        err,
    )
    end_read(0, err, guard)
    end_read(code, err, topology.guard, topology.path)
    return table


def build_members(topology: NativeTopology, task: Task | None = None) -> NDArray[Any]:
    """Return the member table [num_edges] in the topology's id dtype; it finds edges."""
    table = _room(topology.num_edges, topology.id_dtype)
    err = new_error()
    begin_read(topology.guard)
    code = lib.aether_members_build(
        topology.handle, ffi.from_buffer(table), len(table), lend(task, table.nbytes), err
    )
    end_read(code, err, topology.guard, topology.path)
    return table


def _room(count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return uninitialised memory in huge pages, since the tables are read at random."""
    if count == 0:
        return np.empty(0, dtype)
    return buffer_alloc(count * dtype.itemsize).view(dtype)


class NativeWalker:
    """Options of random walks over one topology; keeps the tables alive. Immutable."""

    __slots__ = ("_alias", "_members", "_options", "_topology")

    def __init__(
        self,
        topology: NativeTopology,
        *,
        p: float,
        q: float,
        restart: float,
        alias: NDArray[np.uint64] | None,
        members: NDArray[Any] | None,
        pad: bool,
        num_threads: int,
    ) -> None:
        self._topology = topology
        self._alias = alias
        self._members = members
        self._options = (p, q, restart, pad, num_threads)

    def walk(self, starts: Ids, length: int, key: int, first: int, task: Task | None = None) -> Ids:
        """Return walks ``first``, ``first + 1``.. of ``length`` steps, int64 [n, length + 1]."""
        starts = starts.copy()  # they are read again once checked: no other thread may write there
        p, q, restart, pad, num_threads = self._options
        options = ffi.new("aether_walk_options *")
        options.key = key
        options.length = length
        options.first = first
        options.p, options.q, options.restart = p, q, restart
        if self._alias is not None:
            options.alias = ffi.from_buffer("uint64_t[]", self._alias)
        if self._members is not None:
            options.members = ffi.from_buffer(self._members)
        options.flags = _PAD if pad else 0
        options.num_threads = num_threads
        out = empty((len(starts), length + 1), np.int64, f"{len(starts)} walks of {length} steps")
        err = new_error()
        guard = self._topology.guard
        begin_read(guard)
        code = lib.aether_random_walk(
            self._topology.handle,
            ffi.from_buffer("int64_t[]", starts),
            len(starts),
            options,
            ffi.from_buffer("int64_t[]", out),
            lend(task, out.nbytes),
            err,
        )
        end_read(code, err, guard, self._topology.path)
        return out
