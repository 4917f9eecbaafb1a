"""Slow model of random walks and fan-outs; see :mod:`aethergraph.testing.oracle`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.testing.oracle import positions, stream_draw, stream_start

__all__ = ["alias_table", "fanout", "transition", "walks"]

Ids = NDArray[np.int64]

_ONE = 1 << 32
_UNIT = 2.0**-53
_WALK_HOP = 0xFFFFFFFF
_MASK = (1 << 64) - 1
_RESTART, _EXACT = _MASK, _MASK - 1
_ATTEMPTS = 32


def fanout(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    nodes: Sequence[int] | Ids,
    k: int,
    key: int,
    *,
    replace: bool = False,
) -> Ids:
    """Draw as ``random_fanout`` does over these lists."""
    out = np.full((len(nodes), k), -1, np.int64)
    for slot, node in enumerate(int(v) for v in nodes):
        first, degree = int(indptr[node]), int(indptr[node + 1]) - int(indptr[node])
        places = positions(degree, k, replace, stream_start(key, 0, node, slot))
        out[slot, : len(places)] = [int(indices[first + place]) for place in places]
    return out


def alias_table(weights: Sequence[float]) -> list[tuple[int, int]] | None:
    """Return (threshold, other place) per entry, as ``native/src/sample/walk/alias.h``.

    None means that all weights are zero.
    """
    count, values = len(weights), [float(w) for w in weights]
    top = max(range(count), key=values.__getitem__, default=0)
    if not count or values[top] <= 0:
        return None
    total = 0.0
    for value in values:
        total += value / values[top]
    scale = count / total
    shares = [int(value / values[top] * scale * _ONE) or int(value > 0) for value in values]
    table = [(_ONE - 1, place) for place in range(count)]
    small = [place for place in range(count) if shares[place] < _ONE]
    large = [place for place in range(count) if shares[place] >= _ONE]
    while small and large:
        s, m = small.pop(), large[-1]
        table[s] = (shares[s], m)
        shares[m] -= _ONE - shares[s]
        if shares[m] < _ONE:
            small.append(large.pop())
    for s in small:
        if shares[s] == 0:
            table[s] = (0, top)
    return table


def _walk_draw(step: int, i: int) -> int:
    return step if i == 0 else stream_draw(step, i)


class _Step:
    """Second-order step from ``node`` after ``before``; a first-order step if that is None."""

    def __init__(
        self, lists: list[list[int]], before: int | None, node: int, p: float, q: float
    ) -> None:
        self.neighbors = lists[node]
        self.before = before
        self.near = set() if before is None else set(lists[before])
        largest = max(1 / p, 1.0, 1 / q)
        self.back, self.one, self.far = (
            math.ceil(share / largest / _UNIT) for share in (1 / p, 1.0, 1 / q)
        )

    def share(self, x: int) -> int:
        """Return node2vec's factor over the largest of the three, in units of 2^-53."""
        if x == self.before:
            return self.back
        return self.one if x in self.near else self.far

    def choose(self, draw: int, table: list[tuple[int, int]] | None) -> int:
        """Choose the next node by rejection, and by :meth:`weigh` after too many attempts."""
        degree = len(self.neighbors)
        attempt = 0
        while True:
            product = _walk_draw(draw, 2 * attempt) * degree
            place = product >> 64
            if table is not None and (product & _MASK) >> 32 >= table[place][0]:
                place = table[place][1]
            x = self.neighbors[place]
            if self.before is None or _walk_draw(draw, 2 * attempt + 1) >> 11 < self.share(x):
                return x
            if attempt >= _ATTEMPTS + degree:
                return self.weigh(draw, table)
            attempt += 1

    def weigh(self, draw: int, table: list[tuple[int, int]] | None) -> int:
        """Choose in the rare case by the weight of each place."""
        parts = [(place, 1) for place in range(len(self.neighbors))]
        if table is not None:
            parts = []
            for place, (threshold, alias) in enumerate(table):
                parts += [(place, threshold), (alias, _ONE - 1 - threshold)]
        masses = [(self.neighbors[at], self.share(self.neighbors[at]) * part) for at, part in parts]
        stop = int(float(sum(m for _, m in masses)) * ((_walk_draw(draw, _EXACT) >> 11) * _UNIT))
        total, chosen = 0, -1
        for x, mass in masses:
            if mass and total <= stop:
                total, chosen = total + mass, x
        return chosen


def walks(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    starts: Sequence[int] | Ids,
    length: int,
    key: int,
    *,
    p: float = 1.0,
    q: float = 1.0,
    restart: float = 0.0,
    weights: NDArray[Any] | None = None,
    pad: bool = False,
    first: int = 0,
) -> Ids:
    """Walk as ``RandomWalker.walk`` does over these lists; ``weights`` are by position."""
    bounds = [int(v) for v in indptr]
    ids = [int(v) for v in indices]
    spans = list(itertools.pairwise(bounds))
    lists = [ids[a:b] for a, b in spans]
    tables = None if weights is None else [alias_table(weights[a:b].tolist()) for a, b in spans]
    back_to_start = math.ceil(restart / _UNIT)
    out = np.empty((len(starts), length + 1), np.int64)
    for walk, start in enumerate(int(v) for v in starts):
        stream = stream_start(key, _WALK_HOP, first + walk, None)
        row, before = [start], None
        while len(row) <= length:
            draw, node = stream_draw(stream, len(row) - 1), row[-1]
            table = None if tables is None else tables[node]
            ended = not lists[node] or (tables is not None and table is None)
            if ended and not restart:
                row += [-1 if pad else node] * (length + 1 - len(row))
            elif ended or _walk_draw(draw, _RESTART) >> 11 < back_to_start:
                row.append(start)
                before = None
            else:
                row.append(_Step(lists, before, node, p, q).choose(draw, table))
                before = node
        out[walk] = row
    return out


def transition(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    before: int,
    node: int,
    *,
    p: float = 1.0,
    q: float = 1.0,
    weights: NDArray[Any] | None = None,
) -> NDArray[np.float64]:
    """Return node2vec's probability of each node of the graph to follow ``before -> node``."""
    count = len(indptr) - 1
    near = {int(x) for x in indices[int(indptr[before]) : int(indptr[before + 1])]}
    chances: NDArray[np.float64] = np.zeros(count)
    for position in range(int(indptr[node]), int(indptr[node + 1])):
        x = int(indices[position])
        factor = 1 / p if x == before else 1.0 if x in near else 1 / q
        chances[x] += factor * (1.0 if weights is None else float(weights[position]))
    chances /= chances.sum()
    return chances
