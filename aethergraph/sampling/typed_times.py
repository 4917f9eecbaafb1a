"""Times of typed graphs: those of each node type, and what the seeds of a type may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph import HeteroGraph
from aethergraph.sampling.values import Bounds, Values, find_times, seed_bounds

__all__ = ["one_dtype", "own_unit", "times_of_nodes", "typed_bounds"]

Ids = NDArray[np.int64]


def times_of_nodes(graph: HeteroGraph, name: str | None) -> dict[str, Values]:
    """Return the times called ``name`` of every node type that has them."""
    found = {}
    for kind in graph.node_types if name is not None else ():
        assert name is not None
        stores = {**graph[kind].value_stores(), **graph[kind].attrs}
        if name in stores:
            found[kind] = find_times(name, {}, stores)
    return found


def own_unit(graph: HeteroGraph, name: str | None) -> str | None:
    """Return the unit of the graph's own times; None if an attribute has the name ``name``."""
    tables = [graph[kind].attrs for kind in graph.node_types]
    tables += [graph[kind].attrs for kind in graph.edge_types]
    return None if any(name in table for table in tables) else graph.time_unit


def one_dtype(
    relations: Sequence[native.NativeRelation], seed_times: dict[str, Values], name: str | None
) -> NDArray[Any] | None:
    """Return any of the times; raise unless all have one dtype, as a seed's time is compared."""
    arrays = [r.times for r in relations if r.times is not None]
    arrays += [np.empty(0, np.int64) for r in relations if r.own_times]
    arrays += [times.array for times in seed_times.values()]
    if len({array.dtype for array in arrays}) > 1:
        raise InvalidArgumentError(
            f"time_attr = {name!r} holds int64 in one type and float64 in another: use one of them"
        )
    return arrays[0] if arrays else None


def typed_bounds(
    times: Values | None,
    edge_times: NDArray[Any] | None,
    unit: str | None,
    seeds: Ids,
    seed_time: ArrayLike | None,
    label: str,
    *,
    strict: bool,
    window: float | int | None = None,
) -> Bounds:
    """Return the times that the trees of seeds of one type may see, as int64 keys.

    Args:
        times: times of the nodes of the type, or None.
        edge_times: any times of the graph, for their dtype; None: there are none.
        unit: unit of the times, if the graph has them as datetimes.
        seeds: the seeds.
        seed_time: times that were given for them, or None.
        label: name of ``seed_time`` in messages.
        strict: what happens at the time itself is not seen.
        window: how far back the trees see; None: to the beginning.
    """
    if not len(seeds):
        return Bounds(None, None)
    if times is None and edge_times is not None:
        if seed_time is None:
            raise InvalidArgumentError(f"{label} is needed: these seeds have no time")
        times = Values(edge_times, None)
    if times is not None:
        times = times._replace(unit=unit)
    return seed_bounds(times, seeds, seed_time, strict=strict, window=window, name=label)
