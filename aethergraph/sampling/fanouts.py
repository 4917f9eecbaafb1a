"""Fanouts as users give them: a number per hop, the same for all edge types or one list for each.

Samplers of every framework check their fanouts here, under the names of their own arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import as_list, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.hetero import EdgeType

__all__ = ["MAX_HOPS", "as_fanout", "as_fanouts", "typed_fanouts"]

MAX_HOPS = 1024
_LARGEST = (1 << 63) - 1
_RULE = "a fanout is >= 0, or -1 for all neighbours"


def as_fanout(
    value: Any, name: str, position: int | None = None, *, minimum: int = -1, rule: str = _RULE
) -> int:
    """Return the number of neighbours to draw for each node of a hop, checked.

    Args:
        value: any integer, but no bool.
        name: of the argument, for messages.
        position: of the number in the argument; None: the argument is the number.
        minimum: least number allowed.
        rule: why smaller numbers are not.

    Raises:
        InvalidArgumentError: no integer, or one that is too small or above 64 bits.
    """
    label = name if position is None else f"{name}[{position}]"
    try:
        count = None if _is_bool(value) else operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # arrays and tensors raise the last two
        count = None
    if count is None:
        suffix = "" if position is None else f": {name} must hold integers"
        raise InvalidArgumentError(
            f"{label} = {shown(value)} is no integer{suffix}", position=position
        )
    if count < minimum:
        raise InvalidArgumentError(f"{label} = {count}: {rule}", position=position, value=count)
    if count > _LARGEST:
        hint = f"the largest fanout is {_LARGEST}; -1 takes all neighbours"
        if minimum >= 0:
            hint = f"the largest number is {_LARGEST}"
        raise InvalidArgumentError(f"{label} = {count}: {hint}", position=position, value=count)
    return count


def as_fanouts(
    values: Sequence[int] | NDArray[Any],
    name: str = "fanouts",
    *,
    minimum: int = -1,
    rule: str = _RULE,
) -> tuple[int, ...]:
    """Return a number per hop, each checked as by :func:`as_fanout`.

    Raises:
        InvalidArgumentError: no sequence, one of more hops than the core takes, or an invalid
            number; names its position.
    """
    if values is None:
        raise InvalidArgumentError(f"{name} has one number per hop, got None")
    if isinstance(values, (int, np.integer)):
        raise InvalidArgumentError(f"{name} has one number per hop: [{int(values)}] for one hop")
    if isinstance(values, (str, bytes, Mapping, Set)):
        raise InvalidArgumentError(
            f"{name} has one number per hop, such as [15, 10], got {shown(values)}"
        )
    counts = as_list(values, name, "numbers")
    if len(counts) > MAX_HOPS:
        raise InvalidArgumentError(f"{name} has {len(counts)} hops, at most {MAX_HOPS} can be")
    return tuple(
        as_fanout(count, name, position, minimum=minimum, rule=rule)
        for position, count in enumerate(counts)
    )


def typed_fanouts(
    fanouts: Mapping[EdgeType, Sequence[int] | NDArray[Any]] | Sequence[int] | NDArray[Any],
    kinds: Sequence[EdgeType],
    name: str = "fanouts",
) -> dict[EdgeType, tuple[int, ...]]:
    """Return a number per hop for each of the edge types ``kinds``; missing ones have zeros.

    Raises:
        InvalidArgumentError: as :func:`as_fanouts`; or an edge type that is none of ``kinds``, or
            two of different numbers of hops.
    """
    if not isinstance(fanouts, Mapping):
        shared = as_fanouts(fanouts, name)
        return dict.fromkeys(kinds, shared)
    for kind in fanouts:
        if kind not in kinds:
            known = ", ".join(map(repr, kinds)) or "none"
            raise InvalidArgumentError(f"{name}: {shown(kind)} is no edge type; there are: {known}")
    rows = {kind: as_fanouts(row, f"{name}[{kind!r}]") for kind, row in fanouts.items()}
    hops = max((len(row) for row in rows.values()), default=0)
    for kind, row in rows.items():
        if len(row) != hops:
            raise InvalidArgumentError(
                f"{name}[{kind!r}] has {len(row)} hops, another edge type has {hops}: the number "
                "of hops must be the same across all edge types, with 0 where nothing is drawn"
            )
    return {kind: rows.get(kind, (0,) * hops) for kind in kinds}


def _is_bool(value: Any) -> bool:
    """Return whether ``value`` is a bool of Python, numpy or torch, which are integers to most."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")
