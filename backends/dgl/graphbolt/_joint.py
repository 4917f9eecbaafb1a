"""Drawing one number of edges among all edge types of a node together, as one fanout means it.

Source followed: the documentation of ``fanouts`` in ``impl/fused_csc_sampling_graph.py`` of
``dgl/graphbolt``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from aethergraph.dgl.labor import least_of_each

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Candidates", "choose_least", "choose_with_replacement"]

Ids: TypeAlias = "NDArray[np.int64]"


class Candidates(NamedTuple):
    """Edges of one type that may be drawn.

    ``col`` has their local destinations [n], ascending, and ``weight`` numbers above 0 [n], or None
    where all are alike.
    """

    col: Ids
    weight: NDArray[Any] | None


def choose_least(
    parts: Sequence[Candidates], numbers: Sequence[NDArray[Any]], fanout: int
) -> list[Ids]:
    """Return which edges of each part have the ``fanout`` least numbers of their destination.

    Args:
        parts: the edges by type, all with destinations of one type.
        numbers: a number per edge and part, which is divided by its weight.
        fanout: edges per destination, of all types together.
    """
    col = np.concatenate([part.col for part in parts])
    number = np.concatenate(
        [
            own if part.weight is None else own / part.weight
            for part, own in zip(parts, numbers, strict=True)
        ]
    )
    keep = least_of_each(number, col, fanout)
    return [np.flatnonzero(own) for own in np.split(keep, _starts(parts)[1:-1])]


def choose_with_replacement(
    parts: Sequence[Candidates],
    num_dst: int,
    fanout: int,
    numbers: Callable[[int], NDArray[Any]],
) -> list[Ids]:
    """Return ``fanout`` edges for each destination that has any, by part, in order of destination.

    Args:
        parts: the edges by type, all with destinations of one type.
        num_dst: how many destinations there are.
        fanout: edges per destination, of all types together.
        numbers: numbers in [0, 1) per destination [num_dst] for the draw of that place.
    """
    col = np.concatenate([part.col for part in parts])
    weight = np.concatenate(
        [np.ones(len(part.col)) if part.weight is None else part.weight for part in parts]
    )
    order = np.argsort(col, kind="stable")
    bounds = np.searchsorted(col[order], np.arange(num_dst + 1))
    start, stop = bounds[:-1], bounds[1:]
    below = np.concatenate([[0.0], np.cumsum(weight[order], dtype=np.float64)])
    some = stop > start
    low, high = below[start[some]], below[stop[some]]
    draws = []
    for place in range(fanout):
        aim = low + numbers(place)[some] * (high - low)
        at = np.searchsorted(below, aim, side="right") - 1
        draws.append(order[np.clip(at, start[some], stop[some] - 1)])
    chosen = np.stack(draws, axis=1).reshape(-1)
    starts = _starts(parts)
    return [
        chosen[(chosen >= first) & (chosen < end)] - first
        for first, end in itertools.pairwise(starts)
    ]


def _starts(parts: Sequence[Candidates]) -> Ids:
    """Return where the edges of each part begin when they follow each other, and their number."""
    return np.cumsum([0, *(len(part.col) for part in parts)])
