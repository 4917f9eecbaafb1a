"""Ids of users: that they exist, and how an error names them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import describe_range
from aethergraph.errors import OutOfRangeError

__all__ = ["check_ids", "infer_num_nodes", "name_id"]

Ids = NDArray[np.int64]


def name_id(error: OutOfRangeError, name: str, count: int, noun: str = "nodes") -> OutOfRangeError:
    """Return a native range error with the argument's name, position and value in its message."""
    if error.position is None:
        return error
    message = f"{name}[{error.position}] = {error.value} is {describe_range(count, noun)}"
    return OutOfRangeError(message, position=error.position, value=error.value)


def check_ids(ids: Ids, count: int, name: str, noun: str = "nodes") -> None:
    """Raise unless all ids (of nodes, or of ``noun``) are in ``0 .. count - 1``.

    Raises:
        OutOfRangeError: an id is out of range; names the first one and its position.
    """
    low, high = native.id_bounds(ids)
    if len(ids) and (low < 0 or high >= count):
        at = int(((ids < 0) | (ids >= count)).argmax())
        raise name_id(OutOfRangeError("", position=at, value=int(ids[at])), name, count, noun)


def infer_num_nodes(named: Mapping[str, Ids]) -> int:
    """Return the largest id + 1 over all vectors; raise OutOfRangeError for a negative id."""
    largest = -1
    for name, ids in named.items():
        low, high = native.id_bounds(ids)
        if len(ids) and low < 0:
            at = int((ids < 0).argmax())
            raise OutOfRangeError(
                f"{name}[{at}] = {ids[at]} is negative", position=at, value=int(ids[at])
            )
        largest = max(largest, high)
    return largest + 1
