"""The file of packed batches: a container whose arrays are

    hot      [num_hot, ...]    rows that stay in memory, in order of their number
    batches  uint8             of each batch, from a multiple of 4096 on:

                                   rows | places | zeros up to a multiple of 4096

    index    uint64 [n, 5]     of each batch: begin, number of rows, number of ids, and
                               the 16 bytes that its ids are known by
    source   uint8             JSON: what was packed

Whoever reads holds the hot rows in front of the rows of one batch, which begin at a page there as
well. `places` (uint32) are positions in that memory, one for each id of the batch:

    row   0 ........ num_hot   hot_room(...) .....
         [ hot rows | unused  | rows of the batch | places ]

A row lies once in each batch that asks for it, however often, unless it is hot.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "INDEX_COLUMNS",
    "NAMES",
    "PAGE",
    "batch_bytes",
    "fingerprint",
    "hot_room",
    "memory_needed",
    "places_at",
]

PAGE = 4096
NAMES = ("hot", "batches", "index", "source")
INDEX_COLUMNS = 5
_PLACE_BYTES = 4
#: Memory for each batch: a row of the index, and its fingerprint in a dictionary.
_KNOWN_BYTES = 200

Ids = NDArray[np.int64]


def hot_room(num_hot: int, row_bytes: int) -> int:
    """Rows in front of those of a batch, which begin at a page."""
    step = PAGE // math.gcd(PAGE, row_bytes)
    return -(-num_hot // step) * step


def places_at(num_rows: int, row_bytes: int) -> int:
    """Bytes of a batch in front of its places."""
    return -(-num_rows * row_bytes // _PLACE_BYTES) * _PLACE_BYTES


def batch_bytes(num_rows: int, num_ids: int, row_bytes: int) -> int:
    """Bytes of a batch in the file."""
    size = places_at(num_rows, row_bytes) + num_ids * _PLACE_BYTES
    return -(-size // PAGE) * PAGE


def memory_needed(index: NDArray[np.uint64], num_hot: int, row_bytes: int) -> int:
    """Bytes for the hot rows, the largest batch, and what is known of all batches."""
    sizes = (batch_bytes(rows, ids, row_bytes) for rows, ids in index[:, 1:3].tolist())
    largest = max(sizes, default=0)
    return hot_room(num_hot, row_bytes) * row_bytes + largest + len(index) * _KNOWN_BYTES


def fingerprint(ids: Ids) -> bytes:
    """16 bytes that the ids of a batch (contiguous) are known by, their order included."""
    return hashlib.blake2b(ids.data, digest_size=16).digest()
