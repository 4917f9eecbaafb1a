"""Checks of typed samplers' arguments: names of node types, and seeds by type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.graph.ids import name_id

__all__ = ["check_types", "name_seed"]

Ids = NDArray[np.int64]


def check_types(by_type: Any, option: str, types: Sequence[str]) -> None:
    """Check that ``by_type`` is a mapping whose keys are among ``types``."""
    if not isinstance(by_type, Mapping):
        raise InvalidArgumentError(
            f"{option} goes by node type, {{'{types[0] if types else 'node'}': [...]}}, "
            f"got {type(by_type).__name__}"
        )
    for name in by_type:
        if name not in types:
            known = ", ".join(map(repr, types)) or "none"
            raise InvalidArgumentError(f"{option}: {name!r} is no node type; there are: {known}")


def name_seed(
    error: OutOfRangeError, ids: Sequence[Ids], counts: Mapping[str, int]
) -> OutOfRangeError:  # fmt: skip
    """Return the error for the first seed that is not a node, with its type and position."""
    for (name, count), of_type in zip(counts.items(), ids, strict=True):
        bad = (of_type < 0) | (of_type >= count)
        if bad.any():
            at = int(bad.argmax())
            error = OutOfRangeError("", position=at, value=int(of_type[at]))
            return name_id(error, f"seeds[{name!r}]", count)
    return error
