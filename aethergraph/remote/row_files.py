"""Rows in a file of their own, of either kind."""

from __future__ import annotations

import os

from aethergraph import _native as native
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.live import LiveFeatureTable, Missing
from aethergraph.protocols import RowSource

__all__ = ["open_rows"]


def open_rows(path: native.Path, writable: bool = False, missing: Missing = "error") -> RowSource:
    """Open the rows of a feature file or of a live table, mapped.

    Raises:
        InvalidArgumentError: ``missing`` is none, or does not fit the rows of a live table.
        MissingFileError, StorageError, FormatError: the file cannot be opened, or has no rows.
    """
    if LiveFeatureTable.is_table(path):
        writable = writable and os.access(path, os.W_OK)
        return LiveFeatureTable.open(path, writable=writable, missing=missing)
    return FeatureTable.load(path)
