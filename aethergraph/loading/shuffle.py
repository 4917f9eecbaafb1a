"""Shuffle: a random order that is computed where it is asked for, in memory of a fixed size.

::

    place ──> (high, low) digits ──> 8 rounds: one digit += f(other digit, key) ──> position
                    ^                                                        |
                    └────────────── again if it is not below count ──────────┘

Places are written with two digits of about sqrt(count) each. A round adds a random function of one
digit to the other: a Feistel network, as Black and Rogaway build them for domains of any size
("Ciphers with arbitrary finite domains", 2002). At most sqrt(count) places lead out of the domain
and go through it again.

Short orders are sorted by random numbers and stored: a network over a few values would not reach
all of their orders.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from aethergraph.sampling.keys import mix64_array, mix_key, permutation

__all__ = ["Shuffle"]

Ids = NDArray[np.int64]
_Words = NDArray[np.uint64]

_STORED = 4096  # orders up to this length are stored
_BLOCK = 16384  # places computed at a time: numpy's calls take as long for a few of them
_ROUNDS = 8


class Shuffle:
    """Random order of ``0 .. count - 1``, a function of ``key``, equal on every platform.

    Args:
        count: number of positions.
        key: a uint64.
    """

    def __init__(self, count: int, key: int) -> None:
        self._count = count
        self._stored = permutation(count, key) if count <= _STORED else None
        self._high = math.isqrt(max(count - 1, 0)) + 1  # values of the high digit
        self._low = -(-count // self._high) if count else 1
        self._keys = [np.uint64(mix_key(key, count, number)) for number in range(_ROUNDS)]
        self._block: tuple[int, Ids] = (-1, np.empty(0, np.int64))  # replaced as one: see take

    def take(self, start: int, stop: int) -> Ids:
        """Return the positions at places ``start .. stop - 1``, int64; any thread may ask."""
        stop = min(stop, self._count)
        if self._stored is not None:
            return self._stored[start:stop]
        if stop - start >= _BLOCK:
            return self._compute(start, stop)
        parts = []
        while start < stop:
            number, offset = divmod(start, _BLOCK)
            end = min(stop - start + offset, _BLOCK)
            parts.append(self._computed(number)[offset:end])
            start += end - offset
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])

    def _computed(self, number: int) -> Ids:
        """Return block ``number`` of the order; the last one that was asked for is kept."""
        known, block = self._block
        if known != number:
            start = number * _BLOCK
            block = self._compute(start, min(start + _BLOCK, self._count))
            self._block = number, block
        return block

    def _compute(self, start: int, stop: int) -> Ids:
        values = self._permute(np.arange(start, stop, dtype=np.uint64))
        outside = np.flatnonzero(values >= self._count)
        while len(outside):
            values[outside] = self._permute(values[outside])
            outside = outside[values[outside] >= self._count]
        return values.view(np.int64)

    def _permute(self, values: _Words) -> _Words:
        """Apply the network, a permutation of ``0 .. high * low - 1``."""
        low = np.uint64(self._low)
        digits = values // low, values % low
        sizes = self._high, self._low
        for number, key in enumerate(self._keys):
            target, source = (digits[0], digits[1]) if number % 2 else (digits[1], digits[0])
            size = np.uint64(sizes[0 if number % 2 else 1])
            drawn = mix64_array(source + key)
            drawn >>= np.uint64(32)
            drawn *= size
            drawn >>= np.uint64(32)  # uniform below size, as sizes are below 2^32
            target += drawn
            target -= size * (target >= size)
        return digits[0] * low + digits[1]
