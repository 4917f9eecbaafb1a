"""Rows that are one array of a file of several: a store of them, like that of a feature file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aethergraph import _native as native
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.files import find_part
from aethergraph.storage.budget import Budget
from aethergraph.storage.choice import check_storage
from aethergraph.storage.npy import identity

if TYPE_CHECKING:
    from aethergraph.storage.choice import Storage

__all__ = ["load_part"]


def load_part(
    path: native.Path, number: int, storage: Storage, memory_budget: int | str | None
) -> FeatureTable:
    """Open array ``number`` of a file with content 2; see :meth:`FeatureTable.load`."""
    check_storage(storage)
    budget = Budget.optional(memory_budget)
    before = identity(path)
    found_rows = find_part(path, number)
    return FeatureTable._place(found_rows, before, storage, budget)
