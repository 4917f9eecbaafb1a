"""Draws among the whole lists of a hop's nodes, of kinds that the native sampler lacks.

They are one fanout for all edge types of a node together, LABOR, and times of nodes and edges at
once. Source followed: ``impl/fused_csc_sampling_graph.py`` of ``dgl/graphbolt`` (its documentation
of fanouts and times) and its ``TemporalMask`` in C++.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from aethergraph.dgl._blocks import offsets_of
from aethergraph.dgl._schema import Schema
from aethergraph.dgl.graphbolt._forms import single_hop, type_name
from aethergraph.dgl.labor import least_of_each, node_numbers
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.gathering import gather_rows
from aethergraph.sampling.keys import hash_name, mix_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph import _native as native
    from aethergraph.protocols import RowSource

__all__ = ["Hop", "TimeNames"]

Ids: TypeAlias = "NDArray[np.int64]"


class TimeNames(NamedTuple):
    """Names of the times of nodes and of edges that bounds are for; each may be None."""

    node: str | None
    edge: str | None


class Hop:
    """Edges that the nodes of a call may draw, by edge type and ascending by destination.

    Args:
        schema: the graph.
        seeds: the nodes by node type.
        sample: a sample of all their edges.
        prob: the name of the weights or the mask that the sample was drawn by; None: neither.
    """

    def __init__(
        self,
        schema: Schema,
        seeds: Mapping[str, Ids],
        sample: native.NativeSample,
        prob: str | None,
    ) -> None:
        self._schema = schema
        self._seeds = seeds
        self._node = dict(zip(schema.node_types, sample.node, strict=True))
        self._row, self._col, self._edge = list(sample.row), list(sample.col), list(sample.edge)
        self._prob = prob

    def subgraph(self) -> Any:
        """Return the edges as ``sample_neighbors`` of GraphBolt does."""
        kinds = self._schema.edge_types
        offsets = [
            offsets_of(col, len(self._seeds.get(kind[2], ())))
            for kind, col in zip(kinds, self._col, strict=True)
        ]
        return single_hop(self._schema, list(self._node.values()), self._row, offsets, self._edge)

    def keep_in_time(
        self,
        names: TimeNames,
        until: Mapping[str, NDArray[Any]],
        windows: Mapping[str, NDArray[Any]] | None,
    ) -> None:
        """Keep edges of times, and from nodes of times, strictly below those of their destination.

        Args:
            names: the names of the times; types that have none are not bounded.
            until: a time per destination, by node type.
            windows: how far back each sees, exclusive; None: all the way.
        """
        schema = self._schema
        chosen = []
        for i, kind in enumerate(schema.edge_types):
            sources = self._node[kind[0]][self._row[i]]
            keep = np.ones(len(sources), bool)
            for name, rows, ids in (
                (names.node, schema.node_rows(kind[0]), sources),
                (names.edge, schema.edge_rows(kind), self._edge[i]),
            ):
                if name is None or name not in rows or not len(ids):
                    continue
                times = gather_rows(_times(rows[name], name), ids)
                bound = until[kind[2]][self._col[i]]
                keep &= times < bound
                if windows is not None:
                    keep &= times > bound - windows[kind[2]][self._col[i]]
            chosen.append(np.flatnonzero(keep))
        self._take(chosen)

    def draw(self, counts: tuple[int, ...] | int, key: int, replace: bool) -> None:
        """Draw edges uniformly or by weight.

        Args:
            counts: fanouts by edge type, or one for all types of a node together; -1 takes all.
            key: decides the draws, with the ids of edges, or of nodes with replacement.
            replace: draw with replacement.
        """
        kinds = self._schema.edge_types

        def pick(group: list[int], fanout: int) -> list[Ids]:
            parts = self._candidates(group)
            if fanout < 0:
                return [np.arange(len(part.col)) for part in parts]
            keys = [mix_key(key, hash_name(type_name(kinds[i]))) for i in group]
            if replace:
                ids = self._seeds.get(kinds[group[0]][2], np.empty(0, np.int64))
                return _with_replacement(
                    parts, len(ids), fanout, lambda at: node_numbers(ids, mix_key(keys[0], at))
                )
            # The least of exponential variables, divided by weights, are successive weighted draws.
            uniform = [node_numbers(self._edge[i], k) for i, k in zip(group, keys, strict=True)]
            return _least(parts, [-np.log1p(-part) for part in uniform], fanout)

        self._take_groups(counts, pick)

    def draw_by_source(self, counts: tuple[int, ...] | int, key: int, replace: bool) -> None:
        """Draw the edges whose sources have the least numbers, as LABOR does.

        Args:
            counts: as in :meth:`draw`.
            key: decides the numbers, with the ids of the sources.
            replace: draw one edge after the other, by other numbers each time.
        """
        kinds = self._schema.edge_types

        def numbers_of(group: list[int], key: int) -> list[NDArray[Any]]:
            numbers = []
            for i in group:
                # Sources of two types that meet in a list must not have the same numbers.
                type_key = key if len(group) == 1 else mix_key(key, hash_name(kinds[i][0]))
                numbers.append(node_numbers(self._node[kinds[i][0]][self._row[i]], type_key))
            return numbers

        def pick(group: list[int], fanout: int) -> list[Ids]:
            parts = self._candidates(group)
            if fanout < 0:
                return [np.arange(len(part.col)) for part in parts]
            if not replace:
                return _least(parts, numbers_of(group, key), fanout)
            draws = [[np.empty(0, np.int64)] for _ in parts]
            for place in range(fanout):
                numbers = [
                    -np.log1p(-uniform) for uniform in numbers_of(group, mix_key(key, place))
                ]
                for drawn, part in zip(draws, _least(parts, numbers, 1), strict=True):
                    drawn.append(part)
            return [np.sort(np.concatenate(drawn)) for drawn in draws]

        self._take_groups(counts, pick)

    # ---- helpers ---------------------------------------------------------------------------

    def _candidates(self, group: list[int]) -> list[_Candidates]:
        return [_Candidates(self._col[i], self._weights(i)) for i in group]

    def _weights(self, i: int) -> NDArray[Any] | None:
        """Return the weights of an edge type's edges; None: they are all alike."""
        if self._prob is None:
            return None
        rows = self._schema.edge_rows(self._schema.edge_types[i]).get(self._prob)
        if rows is None or rows.dtype_name == "bool":
            return None
        return gather_rows(rows, self._edge[i])

    def _take_groups(
        self, counts: tuple[int, ...] | int, pick: Callable[[list[int], int], list[Ids]]
    ) -> None:
        """Keep the edges that ``pick`` chooses of each group of edge types that draw together."""
        kinds = self._schema.edge_types
        groups: Iterable[tuple[list[int], int]]
        if isinstance(counts, int):
            targets = sorted({kind[2] for kind in kinds})
            groups = [
                ([i for i, kind in enumerate(kinds) if kind[2] == target], counts)
                for target in targets
            ]
        else:
            groups = [([i], fanout) for i, fanout in enumerate(counts)]
        chosen = [np.empty(0, np.int64)] * len(kinds)
        for group, fanout in groups:
            for i, places in zip(group, pick(group, fanout), strict=True):
                chosen[i] = places
        self._take(chosen)

    def _take(self, chosen: list[Ids]) -> None:
        for parts in (self._row, self._col, self._edge):
            parts[:] = [part[places] for part, places in zip(parts, chosen, strict=True)]


class _Candidates(NamedTuple):
    """Edges of one type: local destinations [n], ascending, and weights above 0 [n] or None."""

    col: Ids
    weight: NDArray[Any] | None


def _least(parts: Sequence[_Candidates], numbers: Sequence[NDArray[Any]], fanout: int) -> list[Ids]:
    """Return which edges of each part have the least numbers, divided by weight, of their list."""
    col = np.concatenate([part.col for part in parts])
    number = np.concatenate(
        [
            values if part.weight is None else values / part.weight
            for part, values in zip(parts, numbers, strict=True)
        ]
    )
    keep = least_of_each(number, col, fanout)
    return [np.flatnonzero(mask) for mask in np.split(keep, _starts(parts)[1:-1])]


def _with_replacement(
    parts: Sequence[_Candidates],
    num_dst: int,
    fanout: int,
    numbers: Callable[[int], NDArray[Any]],
) -> list[Ids]:
    """Return ``fanout`` edges for each destination that has any, by part and destination.

    ``numbers(i)`` are numbers in [0, 1) per destination, for the draw of that place.
    """
    col = np.concatenate([part.col for part in parts])
    weight = np.concatenate(
        [np.ones(len(part.col)) if part.weight is None else part.weight for part in parts]
    )
    order = np.argsort(col, kind="stable")
    bounds = np.searchsorted(col[order], np.arange(num_dst + 1))
    start, stop = bounds[:-1], bounds[1:]
    some = stop > start
    # Of their list's largest, or the sum would lose small weights behind the large ones of others.
    largest = np.maximum.reduceat(weight[order], start[some]).repeat((stop - start)[some])
    below = np.concatenate([[0.0], np.cumsum(weight[order] / largest, dtype=np.float64)])
    low, high = below[start[some]], below[stop[some]]
    draws = [np.empty((int(some.sum()), 0), np.int64)]
    for place in range(fanout):
        aim = low + numbers(place)[some] * (high - low)
        at = np.searchsorted(below, aim, side="right") - 1
        draws.append(order[np.clip(at, start[some], stop[some] - 1)][:, None])
    chosen = np.concatenate(draws, axis=1).reshape(-1)
    return [
        chosen[(chosen >= first) & (chosen < end)] - first
        for first, end in itertools.pairwise(_starts(parts))
    ]


def _starts(parts: Sequence[_Candidates]) -> Ids:
    """Return where the edges of each part begin when they follow each other, and their number."""
    return np.cumsum([0, *(len(part.col) for part in parts)])


def _times(rows: RowSource, name: str) -> RowSource:
    if rows.ndim != 1 or rows.array_dtype.kind not in "iuf" or rows.dtype_name == "bfloat16":
        raise InvalidArgumentError(
            f"times {name!r} must be one number each, got shape {rows.shape} of {rows.dtype_name}"
        )
    return rows
