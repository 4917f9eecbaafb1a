"""Writers and readers of a live table, for processes of their own.

Each row tells its id and a number in every element, so that a row made of two puts is found out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aethergraph import LiveFeatureTable

__all__ = ["ITEMS", "ROWS", "read", "read_and_tell", "rows_of", "write", "write_large"]

ROWS, ITEMS, MANY = 48, 61, 4096


def rows_of(ids: Any, number: int) -> Any:
    """Rows whose elements are ``id + 64 n`` for one number n: whoever mixes two is found out."""
    return np.repeat((ids + ROWS * (number % 1000))[:, None], ITEMS, axis=1).astype(np.float32)


def write(table: LiveFeatureTable, number: int, stop: Any) -> None:
    rng = np.random.default_rng(number)
    while not stop.is_set():
        ids = rng.integers(0, ROWS, int(rng.integers(1, 40)))
        table.put_many(ids, rows_of(ids, number))
        number += 7


def read(table: LiveFeatureTable, seed: int, reads: int) -> int:
    """Return the number of rows that are not as one put left them."""
    rng, wrong = np.random.default_rng(seed), 0
    out = np.empty((MANY, ITEMS), np.float32)
    for _ in range(max(1, reads // MANY)):
        ids = rng.integers(0, ROWS, MANY)
        table.gather(ids, out)
        wrong += int((out != out[:, :1]).any(1).sum()) + int((out[:, 0] % ROWS != ids).sum())
    return wrong


def read_and_tell(table: LiveFeatureTable, seed: int, reads: int, out: Any) -> None:
    out.put(read(table, seed, reads))


def write_large(table: LiveFeatureTable, ready: Any) -> None:
    rows = np.ones((1, table.shape[1]), np.float32)
    ready.set()
    while True:
        table.put_many([1], rows)
