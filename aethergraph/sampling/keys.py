"""Keys: 64-bit numbers that identify random draws, equal on every platform.

``mix_key`` folds integers (seed, epoch, batch number...) and arrays of ids into one key.
Both build on the finalizer of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
generators", 2014). They are not cryptographic.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.errors import InvalidArgumentError

__all__ = ["hash_id_set", "hash_ids", "hash_name", "mix64", "mix64_array", "mix_key", "permutation"]

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_M1 = 0xBF58476D1CE4E5B9
_M2 = 0x94D049BB133111EB


def mix64(value: int) -> int:
    """Return the bijective finalizer of splitmix64 of 64 bits."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * _M1) & _MASK
    value = ((value ^ (value >> 27)) * _M2) & _MASK
    return value ^ (value >> 31)


def mix_key(*parts: int | NDArray[np.int64]) -> int:
    """Return a uint64 key of integers (taken modulo 2^64) and int64 vectors; their order matters.

    Raises:
        InvalidArgumentError: an array of another dtype or shape.
    """
    key = 0
    for part in parts:
        number = hash_ids(part) if isinstance(part, np.ndarray) else int(part)
        key = mix64((key + _GAMMA) ^ mix64(number + _GAMMA))
    return key


def hash_ids(ids: NDArray[np.int64]) -> int:
    """Return a uint64 hash of an int64 vector; order, duplicates and length matter.

    The hash is the sum over i of mix64(ids[i] + (i + 1) * gamma), mixed with the length.

    Raises:
        InvalidArgumentError: another dtype or shape.
    """
    return native.hash_ids(_as_ids(ids))


def hash_id_set(ids: NDArray[np.int64]) -> int:
    """Return an order-independent variant of :func:`hash_ids`; duplicates still matter."""
    return native.hash_id_set(_as_ids(ids))


def _as_ids(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    if not isinstance(ids, np.ndarray):
        raise InvalidArgumentError(f"ids must be an int64 vector, got {type(ids).__name__}")
    if ids.dtype != np.int64 or ids.ndim != 1:
        raise InvalidArgumentError(f"ids must be an int64 vector, got {ids.dtype} {ids.shape}")
    return np.ascontiguousarray(ids)


@functools.cache
def hash_name(name: str) -> int:
    """Return :func:`hash_ids` of the bytes of a name, such as that of a node type."""
    return hash_ids(np.frombuffer(name.encode(), np.uint8).astype(np.int64))


def mix64_array(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply :func:`mix64` to every element, in place; return ``values``."""
    values ^= values >> np.uint64(30)
    values *= np.uint64(_M1)
    values ^= values >> np.uint64(27)
    values *= np.uint64(_M2)
    values ^= values >> np.uint64(31)
    return values


def permutation(count: int, key: int) -> NDArray[np.int64]:
    """Return a random order of ``0 .. count - 1``, equal on every platform and numpy version."""
    values = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GAMMA)
    values += np.uint64(mix_key(key, count))
    return np.argsort(mix64_array(values), kind="stable").astype(np.int64, copy=False)
