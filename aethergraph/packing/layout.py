"""The file of packed batches: a container of four arrays.

    hot      [num_hot, ...]    rows that stay in memory, in order of their number
    batches  uint8             for each batch, from a multiple of 4096 on:

                                   rows | places | zeros up to a multiple of 4096

    index    uint64 [n, 5]     for each batch: begin, number of rows, number of ids, and
                               the 16 bytes of the fingerprint of its ids
    source   uint8             JSON: number of rows, path and fingerprint of the packed store; of a
                               store without a file, digests of a sample of its rows

A reader holds the hot rows in front of the rows of one batch, which begin at a page in memory, too.
`places` (uint32) are positions in that memory, one for each id of the batch:

    row   0 ........ num_hot   hot_room(...) .....
         [ hot rows | unused  | rows of the batch | places ]

Each batch holds every row that it asks for once, however often it asks, except hot rows.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "INDEX_COLUMNS",
    "NAMES",
    "PAGE",
    "SAMPLE_ROWS",
    "batch_bytes",
    "fingerprint",
    "hot_room",
    "memory_needed",
    "places_at",
    "row_digests",
    "sample_ids",
]

PAGE = 4096
NAMES = ("hot", "batches", "index", "source")
INDEX_COLUMNS = 5
#: Number of rows by which a store without a file is recognised, at most.
SAMPLE_ROWS = 256
_PLACE_BYTES = 4
#: Bytes of memory for each batch: a row of the index, and its fingerprint in a dictionary.
_KNOWN_BYTES = 200

Ids = NDArray[np.int64]


def hot_room(num_hot: int, row_bytes: int) -> int:
    """Return the number of rows reserved for hot rows, so that a batch begins at a page."""
    step = PAGE // math.gcd(PAGE, row_bytes)
    return -(-num_hot // step) * step


def places_at(num_rows: int, row_bytes: int) -> int:
    """Return the offset of the places in a batch, in bytes."""
    return -(-num_rows * row_bytes // _PLACE_BYTES) * _PLACE_BYTES


def batch_bytes(num_rows: int, num_ids: int, row_bytes: int) -> int:
    """Return the bytes of a batch in the file."""
    size = places_at(num_rows, row_bytes) + num_ids * _PLACE_BYTES
    return -(-size // PAGE) * PAGE


def memory_needed(index: NDArray[np.uint64], num_hot: int, row_bytes: int) -> int:
    """Return the bytes for the hot rows, the largest batch, and the index of all batches."""
    sizes = (batch_bytes(rows, ids, row_bytes) for rows, ids in index[:, 1:3].tolist())
    largest = max(sizes, default=0)
    return hot_room(num_hot, row_bytes) * row_bytes + largest + len(index) * _KNOWN_BYTES


def fingerprint(ids: Ids) -> bytes:
    """Return the 16 bytes that identify the ids of a batch (contiguous), including their order."""
    return hashlib.blake2b(ids.data, digest_size=16).digest()


def sample_ids(num_rows: int, count: int) -> Ids:
    """Return ``count`` ids, evenly spaced from the first row to the last, each once."""
    if count < 2:
        return np.arange(count)
    steps = np.arange(count, dtype=np.int64)
    quotient, remainder = divmod(num_rows - 1, count - 1)
    return steps * quotient + steps * remainder // (count - 1)


def row_digests(rows: NDArray[Any]) -> list[str]:
    """Return a digest of the bytes of each row, in hexadecimal digits."""
    flat = np.ascontiguousarray(rows).reshape(len(rows), math.prod(rows.shape[1:])).view(np.uint8)
    return [hashlib.blake2b(row.data, digest_size=8).hexdigest() for row in flat]
