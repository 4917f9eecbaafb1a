"""Prefix sums of weights, by which samplers draw from long lists."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from aethergraph._native.core import dtype_code, ffi, lib, new_error
from aethergraph._native.files import FileGuard
from aethergraph._native.guards import begin_read, end_read
from aethergraph._native.memory import address_of
from aethergraph._native.tasks import Task, lend
from aethergraph._native.topology import NativeTopology


class NativeSums:
    """Prefix sums of float32 or float64 ``weights`` by edge id. Immutable, shared by threads.

    ``guard`` watches the file that ``weights`` are mapped from. Neither is kept.

    Raises:
        InvalidArgumentError: a weight is negative or not finite; names the first one found.
    """

    __slots__ = ("handle",)

    def __init__(
        self,
        topology: NativeTopology,
        weights: NDArray[Any],
        guard: FileGuard | None,
        task: Task | None = None,
    ) -> None:
        self.handle: Any = None
        out = ffi.new("aether_weight_sums **")
        err = new_error()
        begin_read(topology.guard)
        begin_read(guard)
        code = lib.aether_weight_sums_create(
            topology.handle,
            ffi.cast("const void *", address_of(weights)),
            dtype_code(weights.dtype),
            out,
            lend(task, weights.nbytes),
            err,
        )
        if not code:
            self.handle = ffi.gc(out[0], lib.aether_weight_sums_destroy)
        end_read(0, err, guard)
        end_read(code, err, topology.guard, topology.path)

    @property
    def memory(self) -> int:
        """Bytes of address space held; pages of short lists are never touched."""
        return int(lib.aether_weight_sums_memory(self.handle))
