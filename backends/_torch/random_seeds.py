"""Seeds of the random draws of a batch, equal in whatever process makes it.

``torch.initial_seed()`` is what ``torch.manual_seed`` set, but only in the main process: every
``DataLoader`` worker seeds itself anew. So the main process's value is kept for its children:

* fork: noted just before each fork, in a module global that the child inherits;
* spawn and forkserver: carried by the pickle of the object that draws (:class:`MainSeed`).
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.utils.data import get_worker_info

from aethergraph._checks.arrays import as_integer
from aethergraph._torch.tensors import is_shared, shared_empty
from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling.keys import mix_key

__all__ = ["MainSeed", "SharedCount", "check_seed", "make_generator"]

_MASK = (1 << 64) - 1
_before_fork: int | None = None


def _note_seed() -> None:
    global _before_fork
    if get_worker_info() is None:
        _before_fork = torch.initial_seed()


os.register_at_fork(before=_note_seed)


class MainSeed:
    """Seed of the main process: ``seed`` if given, else its ``torch.initial_seed()``."""

    __slots__ = ("_inherited", "_pid", "seed")

    def __init__(self, seed: int | None = None) -> None:
        self.seed = check_seed(seed)
        self._inherited: int | None = None
        self._pid = 0

    def value(self) -> int:
        """Return the seed as an unsigned 64-bit number."""
        if self.seed is not None:
            return self.seed
        if get_worker_info() is not None:
            if self._inherited is not None and self._pid == os.getpid():
                return self._inherited
            if _before_fork is not None:
                return _before_fork & _MASK
        return torch.initial_seed() & _MASK

    def __getstate__(self) -> tuple[int | None, int]:
        return self.seed, self.value()

    def __setstate__(self, state: tuple[int | None, int]) -> None:
        self.seed, self._inherited = state
        self._pid = os.getpid()


class SharedCount:
    """Number in shared memory: set in the main process, read in any, also persistent workers."""

    __slots__ = ("_array", "_cell")

    def __init__(self, value: int = 0) -> None:
        self.__setstate__(torch.tensor([value], dtype=torch.int64))

    @property
    def value(self) -> int:
        return int(self._array[0])

    @value.setter
    def value(self, value: int) -> None:
        self._array[0] = value

    def __getstate__(self) -> torch.Tensor:
        return self._cell

    def __setstate__(self, cell: torch.Tensor) -> None:
        self._cell = _share(cell)
        self._array = self._cell.numpy()  # the memory is shared already: torch will not move it


def _share(cell: torch.Tensor) -> torch.Tensor:
    if is_shared(cell):
        return cell
    try:
        return shared_empty((1,), torch.int64).copy_(cell)
    except (RuntimeError, OSError):  # without shared memory there can be no workers either
        return cell


def check_seed(seed: Any) -> int | None:
    """Check a seed; return it as an unsigned 64-bit number, or None."""
    if seed is None:
        return None
    value = as_integer(seed, "seed", bools=False)
    if not -(1 << 63) <= value <= _MASK:
        raise InvalidArgumentError(f"seed = {value} does not fit 64 bits")
    return value & _MASK


def make_generator(key: int, stream: int) -> torch.Generator:
    """Make a generator for stream ``stream`` of ``key``."""
    generator = torch.Generator()
    generator.manual_seed(int(mix_key(key, stream)) & ((1 << 63) - 1))
    return generator
