"""Keys that become more: an index in memory over those so far, in a few sorted parts.

::

    tier 0    ids     0 .. 70,000     hashes, ascending | keys | ids      the largest
    tier 1    ids 70,000 .. 90,000    ...
    tier 2    ids 90,000 .. 91,000    ...                                 the last ones

    append    a tier of the new keys; tiers of about its size are merged into it first
    find      tier by tier, those keys that no tier before had

Each tier is twice as large as those after it together, so there are few, and a key moves a few
times only (O'Neil et al., The Log-Structured Merge-Tree, Acta Informatica 1996). Nothing is ever
changed: what is appended makes another index, so that readers need no lock, and a transaction is
undone by going back to the index before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native

__all__ = ["KeyTiers", "bucket_bits", "first_of_each"]

Ids = NDArray[np.int64]
Hashes = NDArray[np.uint64]
#: A tier is at least so many times as large as all after it.
_RATIO = 2
_PER_BUCKET = 8  # hashes, on average


def bucket_bits(count: int) -> int:
    """Return how many upper bits of a hash number the bucket of each of ``count`` keys."""
    return max(0, (count // _PER_BUCKET - 1).bit_length()) if count >= _PER_BUCKET else 0


def first_of_each(block: native.KeyBlock, hashes: Hashes) -> NDArray[np.intp]:
    """Return, for each key, the place of the first one that equals it."""
    order, ascending = native.key_order(block, hashes, stable=True)
    first = native.first_keys(block.take(order), ascending)
    firsts = np.empty(len(order), np.intp)
    firsts[order.view(np.int64)] = order[first.view(np.int64)]
    return firsts


@dataclass(frozen=True)
class _Part:
    """Keys in the order of ``key_order``, with the id of each less that of the tier."""

    hashes: Hashes
    keys: native.KeyBlock
    ids: NDArray[np.uint64]


class _Tier:
    """Keys of the ids ``begin .. end - 1``."""

    def __init__(self, begin: int, part: _Part) -> None:
        self.begin, self.end, self.part = begin, begin + len(part.ids), part
        count, bits = len(part.ids), bucket_bits(len(part.ids))
        tops = part.hashes >> np.uint64(64 - bits) if bits else np.zeros(count, np.uint64)
        numbers = np.arange((1 << bits) + 1, dtype=np.uint64)
        buckets = np.searchsorted(tops, numbers).astype(np.uint64)
        self._index = native.KeyIndex(
            part.keys, part.hashes, buckets, part.ids, None, by_bytes=True
        )

    @classmethod
    def of(cls, begin: int, block: native.KeyBlock, hashes: Hashes) -> _Tier:
        order, ascending = native.key_order(block, hashes, stable=False)
        return cls(begin, _Part(ascending, block.take(order), order))

    @classmethod
    def merged(cls, tiers: list[_Tier]) -> _Tier:
        """Return one tier of several that follow each other."""
        begin, parts = tiers[0].begin, [tier.part for tier in tiers]
        hashes = np.concatenate([part.hashes for part in parts])
        shifts = [np.uint64(tier.begin - begin) for tier in tiers]
        ids = np.concatenate([part.ids + by for part, by in zip(parts, shifts, strict=True)])
        keys = native.KeyBlock.joined([part.keys for part in parts])
        order, ascending = native.key_order(keys, hashes, stable=True)  # merges sorted parts
        return cls(begin, _Part(ascending, keys.take(order), ids[order]))

    def find(self, block: native.KeyBlock, hashes: Hashes) -> Ids:
        """Return the id of each key, -1 where it is not here."""
        ids = self._index.find(block, hashes=hashes)
        if self.begin:
            ids[ids >= 0] += self.begin
        return ids


class KeyTiers:
    """Index of keys whose ids follow each other; it never changes.

    Args:
        begin: id of the first key.

    Attributes:
        end: the id behind the last key.
    """

    def __init__(self, begin: int = 0, tiers: tuple[Any, ...] = ()) -> None:
        self.begin, self._tiers = begin, tiers
        self.end = tiers[-1].end if tiers else begin

    @property
    def num_tiers(self) -> int:
        """Number of sorted parts."""
        return len(self._tiers)

    def appended(self, block: native.KeyBlock, hashes: Hashes) -> KeyTiers:
        """Return an index of these keys, too, which get the ids from ``end`` on.

        Args:
            block: keys that are not in the index, none of them twice.
            hashes: hash of each.
        """
        if not len(block):
            return self
        new, tiers = _Tier.of(self.end, block, hashes), self._tiers
        size, at = len(block), len(tiers)
        while at and tiers[at - 1].end - tiers[at - 1].begin < _RATIO * size:
            at -= 1
            size += tiers[at].end - tiers[at].begin
        if at < len(tiers):
            new = _Tier.merged([*tiers[at:], new])
        return KeyTiers(self.begin, (*tiers[:at], new))

    def find(self, block: native.KeyBlock, hashes: Hashes) -> Ids:
        """Return the id of each key, -1 where it has none."""
        ids = np.full(len(block), -1)
        left: NDArray[np.intp] | None = None  # all of them
        for tier in self._tiers:
            if left is None:
                ids = tier.find(block, hashes)
            else:
                ids[left] = tier.find(block.take(left.astype(np.uint64)), hashes[left])
            left = np.flatnonzero(ids < 0)
            if not len(left):
                break
        return ids
