"""Slow model of context sampling; see :mod:`aethergraph.testing.oracle`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aethergraph.testing.oracle import positions, stream_draw, stream_start

__all__ = ["ContextRow", "Entry", "context"]

_HOP = 0xFFFFFFFE


class Entry(NamedTuple):
    """Entry of a list: a row, and the time from which it is seen; None: always."""

    node: int
    time: float | None


class ContextRow(NamedTuple):
    """Row of a context; ``parent`` and ``link`` are -1 for the seed."""

    node_type: int
    node: int
    parent: int
    depth: int
    link: int


def context(
    links: Sequence[tuple[int, int, int, Sequence[Sequence[Entry]]]],
    num_types: int,
    seed: tuple[int, int],
    time: float | None,
    budget: int,
    key: int,
    *,
    latest: bool,
) -> list[ContextRow]:
    """Return the rows around ``seed`` (node type, id) as of ``time``.

    Args:
        links: for each one the node type that it leads from, that it leads to, its fanout (below 0:
            all), and a list for every node of the first type, in the order of time if it has times.
        num_types: number of node types.
        seed: node type and id.
        time: latest time that is seen; None: all.
        budget: most rows.
        key: decides the draws.
        latest: take the last entries, not random ones.
    """
    rows = [ContextRow(*seed, -1, 0, -1)]
    at = 0
    while at < len(rows):
        row = rows[at]
        for number, (source, to, fanout, lists) in enumerate(links):
            if source != row.node_type:
                continue
            seen = [
                entry
                for entry in lists[row.node]
                if time is None or entry.time is None or entry.time <= time
            ]
            start = stream_start(key, _HOP, row.node, seed[1] * num_types + seed[0], number)
            for entry in _chosen(seen, fanout, start, latest):
                known = any((r.node_type, r.node) == (to, entry.node) for r in rows)
                if not known and len(rows) < budget:
                    rows.append(ContextRow(to, entry.node, at, row.depth + 1, number))
        at += 1
    return rows


def _chosen(seen: list[Entry], fanout: int, start: int, latest: bool) -> list[Entry]:
    if fanout < 0:
        return seen
    if latest:
        return seen[::-1][:fanout]
    places = positions(len(seen), fanout, False, start)
    count = len(places)
    for i in range(count - 1, 0, -1):
        j = (stream_draw(start, count + i) * (i + 1)) >> 64
        places[i], places[j] = places[j], places[i]
    return [seen[place] for place in places]
