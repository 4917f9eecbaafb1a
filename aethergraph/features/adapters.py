"""Whatever users give as rows, sources of their own, arrays or tensors, as a :class:`RowSource`."""

from __future__ import annotations

import os

from numpy.typing import ArrayLike

from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.rows import as_rows
from aethergraph.features.sources import SourceRows, check_source, refuse_half_source
from aethergraph.protocols import FeatureSource, RowSource

__all__ = ["as_row_source", "attribute_store"]


def as_row_source(value: FeatureSource | ArrayLike, name: str) -> RowSource:
    """Return ``value`` as rows to gather from: itself, an adapter of it, or a store of an array.

    Args:
        value: a source of rows, an array, or a tensor.
        name: name of the argument, for messages.

    Raises:
        InvalidArgumentError: the shape, number of rows or dtype of a source contradict each other;
            an object that lacks some of a source's members; or an array that cannot be stored.
    """
    if isinstance(value, RowSource):
        return check_source(value, name)
    if isinstance(value, type):  # whose members may be there, and are of no object
        refuse_half_source(value, name)
    if isinstance(value, FeatureSource):
        return check_source(SourceRows(value), name)
    refuse_half_source(value, name)
    if isinstance(value, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"{name} must be rows, got {shown(value)}: FeatureTable.load() a file; open_source() a "
            "URL, or give it to a loader as feature_source="
        )
    return FeatureTable._make(*as_rows(value, None, name))


def attribute_store(
    value: FeatureSource | ArrayLike, num_rows: int, name: str, noun: str
) -> RowSource:
    """Return ``value`` as rows to gather from; raise if they are not ``num_rows``."""
    rows = as_row_source(value, name)
    if rows.num_rows != num_rows:
        raise InvalidArgumentError(f"{name} has {rows.num_rows} rows, but {noun} = {num_rows}")
    return rows
