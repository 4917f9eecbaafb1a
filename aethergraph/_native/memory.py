"""Memory of the core, as numpy arrays that keep it alive."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aethergraph import errors
from aethergraph._native.core import ffi, lib, new_error, raise_error
from aethergraph._native.tasks import Task, lend


class MemoryView:
    """Memory of a native owner with numpy's array interface; becomes the ``base`` of arrays."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(
        self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: object, *,
        writable: bool = False, strides: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        self._owner = owner
        self.__array_interface__ = {
            "data": (address, not writable),
            "shape": shape,
            "strides": strides,
            "typestr": dtype.str,
            "version": 3,
        }


def view_memory(
    address: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: object, *,
    writable: bool = False,
) -> NDArray[Any]:  # fmt: skip
    """Return an array over native memory that keeps ``owner``, and so the memory, alive."""
    return np.asarray(MemoryView(address, shape, dtype, owner, writable=writable))


def without_read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array without numpy's read-only flag, for libraries that know no such flag.

    Shares the memory and keeps ``array`` alive. Writing to memory that is mapped read-only ends the
    process.
    """
    return np.asarray(
        MemoryView(
            address_of(array), array.shape, array.dtype, array,
            writable=True, strides=array.strides,
        )
    )  # fmt: skip


def address_of(array: NDArray[Any]) -> int:
    """Return the address of the array's first element."""
    return int(array.__array_interface__["data"][0])


_free_buffer = lib.aether_buffer_free


def buffer_alloc(size: int) -> NDArray[np.uint8]:
    """Return zeroed anonymous memory as uint8, in huge pages if the system grants them.

    The memory is returned to the system with the last array that views it.

    Raises:
        OutOfMemoryError: the system refuses the memory.
    """
    if size == 0:
        return np.empty(0, np.uint8)
    err = new_error()
    data = lib.aether_buffer_alloc(size, err)
    if data == ffi.NULL:
        raise_error(err.code or lib.AETHER_E_NO_MEMORY, err)
    return _view_buffer(data, size)


def buffer_map(descriptor: int, offset: int, size: int) -> NDArray[np.uint8]:
    """Return ``size`` bytes of shared memory from ``offset`` on, a multiple of the page size.

    They are unmapped with the last array that views them; the descriptor stays the caller's.

    Raises:
        OutOfMemoryError: there is no address space for them.
    """
    if size == 0:
        return np.empty(0, np.uint8)
    err = new_error()
    data = lib.aether_buffer_map(descriptor, offset, size, err)
    if data == ffi.NULL:
        raise_error(err.code, err)
    return _view_buffer(data, size)


def _view_buffer(data: Any, size: int) -> NDArray[np.uint8]:
    owner = ffi.gc(data, lambda p, free=_free_buffer: free(p, size), size)
    address = int(ffi.cast("uintptr_t", data))
    return view_memory(address, (size,), np.dtype(np.uint8), owner, writable=True)


def mapped_empty(shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return ``np.empty`` in memory that goes back to the system with the array.

    Other memory that threads allocate and free stays in their heaps, up to 64 MiB each, and counts
    in budgets.
    """
    extents = shape if isinstance(shape, tuple) else (shape,)
    size = math.prod(extents) * dtype.itemsize
    if size < _MAPPED_BYTES:
        return np.empty(extents, dtype)
    return buffer_alloc(size).view(dtype).reshape(extents)


_MAPPED_BYTES = 1 << 17


def copy(dst: NDArray[Any], src: NDArray[Any], task: Task | None = None) -> None:
    """Copy ``src`` over ``dst`` (equal byte sizes, both contiguous) with all threads."""
    if dst.nbytes != src.nbytes:
        raise errors.InvalidArgumentError(f"cannot copy {src.nbytes} bytes over {dst.nbytes}")
    err = new_error()
    code = lib.aether_copy(
        ffi.from_buffer(dst, require_writable=True),
        ffi.from_buffer(src),
        src.nbytes,
        lend(task, src.nbytes),
        err,
    )
    if code:
        raise_error(code, err)


ADVICE_RANDOM: Final = 1
ADVICE_SEQUENTIAL: Final = 2
ADVICE_WILL_NEED: Final = 3
ADVICE_DROP: Final = 4


def trim_memory() -> None:
    """Return freed memory of the allocator to the system, since it counts in budgets."""
    lib.aether_trim()


def advise(array: NDArray[Any], advice: int) -> None:
    """Tell the system how the mapped memory under ``array`` will be used. Never fails."""
    if array.nbytes:
        lib.aether_advise(ffi.from_buffer(array), array.nbytes, advice)


def discard(file: int, offset: int, size: int) -> None:
    """Return a range of an open file to the disk, if the file can have holes. Never fails."""
    lib.aether_file_discard(file, offset, size)
