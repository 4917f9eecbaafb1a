"""BufferPool: arrays over recycled memory, already faulted in and in huge pages; one per graph.

A batch of features is tens of megabytes. Fresh memory of that size costs a page fault for every
4 KiB, often more than the gather that fills it. The pool keeps blocks that have been touched. An
array from the pool gives its block back by itself when nothing references the array any more: no
view, no tensor made of it.

    empty() --> ndarray --base--> MemoryView --> lease --(when it dies)--> idle blocks --> empty()

Loaders come and go, one per epoch or per evaluation. The pool therefore belongs to the graph
(:func:`pool_of`): the first batches of a loader find the memory of the loader before.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, SupportsIndex
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.storage.memory import parse_size

__all__ = ["BufferPool", "pool_of"]

#: Below this size the C library's allocator recycles memory by itself.
SMALL_BYTES = 128 << 10
_PAGE = 4096


class _Block:
    """Touched memory, with its address (which is slow to ask of numpy)."""

    __slots__ = ("address", "memory", "size")

    def __init__(self, size: int) -> None:
        self.memory = native.buffer_alloc(size)
        self.memory[::_PAGE] = 0  # fault the pages in now, once
        self.address = native.address_of(self.memory)
        self.size = size


class _Lease:
    """Holder of a block while arrays use it; gives the block back when the last array is gone."""

    __slots__ = ("_block", "_pool")

    def __init__(self, pool: BufferPool, block: _Block) -> None:
        self._pool = pool
        self._block = block

    def __del__(self) -> None:
        self._pool.give_back(self._block)


class BufferPool:
    """Maker of numpy arrays over recycled memory. Safe to share between threads.

    The pool never holds more memory than was in use at once: a process with room for two large
    batches has room for the pool.

    Args:
        max_idle: most bytes of idle blocks to keep (a number, or a text like "1G"). Memory beyond
            that is returned to the system.
    """

    def __init__(self, max_idle: SupportsIndex | str = "2G") -> None:
        self._max_idle: int = parse_size(max_idle, "max_idle")
        # append and pop of a deque are atomic. A lock could deadlock: the garbage collector may
        # return a lease in the middle of any call, in any thread.
        self._idle: dict[int, deque[_Block]] = {}
        self._lent = 0  # bytes of blocks in use
        self._most_lent = 0

    # mypyc checks other types than object by itself, and would raise a TypeError of its own.
    def empty(
        self, shape: SupportsIndex | tuple[SupportsIndex, ...], dtype: DTypeLike = np.float32
    ) -> NDArray[Any]:
        """Return an uninitialised, writable, C-contiguous array, aligned to 64 bytes or more.

        Raises:
            OutOfMemoryError: the system refuses the memory.
        """
        dimensions = shape if isinstance(shape, tuple) else (shape,)
        extents = tuple(as_count(extent, "shape") for extent in dimensions)
        item = dtype if isinstance(dtype, np.dtype) else _as_dtype(dtype)
        if math.prod(extents) * item.itemsize >= 1 << 63:
            raise InvalidArgumentError(f"shape = {shape} is none that an array can have")
        return self.lend(extents, item)

    def lend(self, extents: tuple[int, ...], item: np.dtype[Any]) -> NDArray[Any]:
        """Return :meth:`empty` of a shape and dtype that were checked."""
        size = math.prod(extents) * item.itemsize
        if size < SMALL_BYTES:
            return np.empty(extents, item)
        block = self._take(size)
        self._lent += block.size
        # The maximum decays slowly, so that one large batch is not remembered for ever.
        self._most_lent -= self._most_lent >> 10
        if self._lent > self._most_lent:
            self._most_lent = self._lent
        return native.view_memory(block.address, extents, item, _Lease(self, block), writable=True)

    def _take(self, size: int) -> _Block:
        """Return an idle block of up to 1.5 times ``size``, else a new one.

        A new block has room for a batch that is an eighth larger.
        """
        rounded = size_class(size)
        while 2 * rounded <= 3 * size:
            try:
                return self._idle[rounded].pop()
            except (KeyError, IndexError):
                rounded = size_class(rounded + 1)
        rounded = size_class(size + size // 8)
        self._idle.setdefault(rounded, deque())
        maximum = self._lent + rounded
        self._shrink((self._most_lent if self._most_lent > maximum else maximum) - maximum)
        return _Block(rounded)

    def _shrink(self, room: int, but: int = 0) -> None:
        """Drop idle blocks, except of size ``but``, until at most ``room`` bytes are idle."""
        for size, blocks in list(self._idle.items()):
            while size != but and blocks and self.idle_bytes > room:
                try:
                    blocks.popleft()
                except IndexError:  # another thread has taken it
                    break

    def give_back(self, block: _Block) -> None:
        """Keep an unused block for later; idle blocks of other sizes make room if necessary."""
        # No global names here: the interpreter may be ending, and modules are emptied then.
        self._lent -= block.size
        room = self._most_lent - self._lent
        if room > self._max_idle:
            room = self._max_idle
        room -= block.size
        if room >= 0:
            self._shrink(room, block.size)
            if self.idle_bytes <= room:
                self._idle[block.size].append(block)

    @property
    def idle_bytes(self) -> int:
        """Bytes of blocks that no array uses."""
        total = 0
        for size, blocks in list(self._idle.items()):
            total += size * len(blocks)
        return total

    def __reduce__(self) -> tuple[Any, ...]:
        return BufferPool, (self._max_idle,)  # memory stays in its process

    def clear(self) -> None:
        """Return all idle blocks to the system."""
        for blocks in self._idle.values():
            blocks.clear()
        self._most_lent = self._lent


_pools: WeakKeyDictionary[Any, BufferPool] = WeakKeyDictionary()


def pool_of(graph: Any) -> BufferPool:
    """Return the pool of everything that gathers from ``graph``, which goes with the graph.

    A graph that no weak reference can be made to, or that has no hash, shares no pool.
    """
    try:
        return _pools.setdefault(graph, BufferPool())
    except TypeError:
        return BufferPool()


def _as_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        return np.dtype(dtype)
    except Exception:  # numpy raises whatever the value makes it raise
        raise InvalidArgumentError(f"dtype = {shown(dtype)} is none of numpy's") from None


def size_class(size: int) -> int:
    """Return ``size`` rounded up, by an eighth at most."""
    step = max(_PAGE, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step
