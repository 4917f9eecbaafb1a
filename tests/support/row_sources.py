"""Rows of users' own sources, and ``make`` of contracts that have them in loaders' batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from aethergraph import CachedRows, LiveFeatureTable
from aethergraph.testing import broken_rules

DTYPES = ("float32", "float16", "bfloat16", "int64", "uint8", "bool")


class OwnRows:
    """The three members of a source, and nothing else."""

    def __init__(self, rows: Any, dtype: str = "float32") -> None:
        self.rows, self.dtype_name = rows, dtype
        self.shape = rows.shape

    def gather(self, ids: Any) -> Any:
        return self.rows[ids]


class WrongRows(OwnRows):
    """Forgets a row whenever it is asked for more than one."""

    def gather(self, ids: Any) -> Any:
        return self.rows[ids[1:]]


class OfOwnRows:
    """``make`` of a source of a user's own."""

    dtypes = DTYPES

    def make(self, rows: Any, dtype: str) -> Any:
        return OwnRows(rows, dtype)


class OfCachedRows(OfOwnRows):
    """``make`` of a cache in front of such a source."""

    dtypes = ("float32", "bfloat16")

    def make(self, rows: Any, dtype: str) -> Any:
        return CachedRows(OwnRows(rows, dtype), "1K")


class OfLiveTable(OfOwnRows):
    """``make`` of rows that could change, in shared memory."""

    def make(self, rows: Any, dtype: str) -> Any:
        table = LiveFeatureTable.create(None, len(rows), rows.shape[1:], dtype)
        table.put_many(np.arange(len(rows)), rows)
        return table


def assert_wrong_rows_are_found(contract: Any) -> None:
    """The rules of ``contract`` say of wrong rows what is wrong with them."""

    class Mutant(contract):  # type: ignore[misc]
        def make(self, rows: Any, dtype: str) -> Any:
            return WrongRows(rows, dtype)

    broken = broken_rules(Mutant)
    assert len(broken) == 3
    for message in broken.values():
        assert "WrongRows returned shape" in message, message
