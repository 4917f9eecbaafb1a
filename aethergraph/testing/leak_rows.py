"""Versions of the rows that batches show, and which of them are later than a seed.

::

    seed at March 1 ── user 17, x written on May 1        May 1 > March 1: a leak
                    └─ product 4, x without a version     not known: said in the report
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import as_items, is_hashable, shown
from aethergraph._checks.times import as_times
from aethergraph.errors import InvalidArgumentError
from aethergraph.testing.leak_batches import SampledTrees

__all__ = ["DatedRows", "Dates", "compare", "time_text"]

Array = NDArray[Any]


@dataclass
class DatedRows:
    """Attribute whose rows have times.

    Attributes:
        owner: "node" or "edge".
        type: node type or edge type; None of a graph of one type.
        name: name of the attribute.
        unit: unit of the times; None: they are numbers, as those of the graph.
        look_up: returns the times of rows, and which of these are known.
    """

    owner: str
    type: Any
    name: str
    unit: str | None
    look_up: Callable[[Array], tuple[Array, NDArray[np.bool_]]]


class Dates:
    """Attributes of a graph, with times of their rows and without.

    Args:
        graph: the graph.
        row_time: times of rows that the caller knows, by type and attribute, or by attribute.
        left_out: attributes that are not compared.

    Attributes:
        dated: attributes whose rows have times.
        unit: unit of the times of the graph.

    Raises:
        InvalidArgumentError: times of an attribute that is not there, or of another number of rows.
    """

    def __init__(self, graph: Any, row_time: Any, left_out: tuple[str, ...]) -> None:
        self.unit = graph.time_unit
        self.dated: list[DatedRows] = []
        self._undated: list[tuple[str, Any, str]] = []
        tables: list[tuple[str, Any, Mapping[str, Any]]]
        if graph.is_typed:
            tables = [("node", name, graph[name].node_attrs) for name in graph.node_types]
            tables += [("edge", kind, graph[kind].edge_attrs) for kind in graph.edge_types]
        else:
            tables = [("node", None, graph.node_attrs), ("edge", None, graph.edge_attrs)]
        times = _read_given(row_time, graph.is_typed, tables)
        for owner, kind, attrs in tables:
            for name in attrs:
                if name in left_out:
                    continue
                rows = attrs[name]
                attr_times = times.get((kind, name))
                if attr_times is None:
                    dated = self._known(owner, kind, name, rows)
                else:
                    dated = self._given(owner, kind, name, rows, attr_times)
                if dated is None:
                    self._undated.append((owner, kind, name))
                else:
                    self.dated.append(dated)

    def _known(self, owner: str, kind: Any, name: str, rows: Any) -> DatedRows | None:
        """Return an attribute that knows versions which can be compared with the graph's times."""
        unit = rows.version_unit
        if unit is None or self.unit is None or rows.versions(np.empty(0, np.int64)) is None:
            return None

        def look_up(ids: Array) -> tuple[Array, NDArray[np.bool_]]:
            versions = np.asarray(rows.versions(ids))
            return versions, versions >= 0

        return DatedRows(owner, kind, name, unit, look_up)

    def _given(self, owner: str, kind: Any, name: str, rows: Any, times: Any) -> DatedRows:
        label = f"row_time of {name!r}{_of(kind)}"
        array, unit = as_times(times, rows.num_rows, label, "the number of rows")
        if unit is not None and self.unit is None:
            raise InvalidArgumentError(
                f"{label} is in {unit!r}, but the times of the graph have no unit: give numbers"
            )

        def look_up(ids: Array) -> tuple[Array, NDArray[np.bool_]]:
            return array[ids], np.ones(len(ids), np.bool_)

        return DatedRows(owner, kind, name, self.unit if unit is None else unit, look_up)

    def undated(self, sample: SampledTrees, timed: tuple[Any, Any]) -> set[str]:
        """Return the attributes that a batch shows and of whose rows no time is known.

        Args:
            sample: the batch.
            timed: the node types and the edge types whose rows are as old as their node or edge.
        """
        return {
            f"{name!r}{_of(kind)}"
            for owner, kind, name in self._undated
            if kind not in timed[owner == "edge"] and is_shown(sample, kind, name)
        }


def is_shown(sample: SampledTrees, kind: Any, name: str) -> bool:
    """Return whether a batch shows the rows of an attribute."""
    return sample.fields is None or name in sample.fields.get(kind, ())


def compare(
    times: Array, unit: str | None, limits: Array, limits_unit: str | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which times are after the limits, and which equal them, exactly.

    Args:
        times: times in ``unit``.
        unit: None: the times are plain numbers.
        limits: times in ``limits_unit``.
        limits_unit: None: the limits are plain numbers.
    """
    if unit is None or limits_unit is None or unit == limits_unit:
        return times > limits, times == limits
    left, right = times.view(f"datetime64[{unit}]"), limits.view(f"datetime64[{limits_unit}]")
    finer = np.promote_types(left.dtype, right.dtype)
    if finer == right.dtype:  # what is finer is rounded down: no conversion overflows
        down = right.astype(left.dtype)
        is_exact = down.astype(right.dtype) == right
        return left > down, (left == down) & is_exact
    down = left.astype(right.dtype)
    is_exact = down.astype(left.dtype) == left
    return (down > right) | ((down == right) & ~is_exact), (down == right) & is_exact


def time_text(value: Any, unit: str | None) -> str:
    """Return a time for a message: with a unit as a date."""
    return str(value) if unit is None else str(np.int64(value).view(f"datetime64[{unit}]"))


def _of(kind: Any) -> str:
    return "" if kind is None else f" of {kind!r}"


def _read_given(
    row_time: Any, is_typed: bool, tables: list[tuple[str, Any, Mapping[str, Any]]]
) -> dict[tuple[Any, str], Any]:
    """Return times of rows by (type, attribute).

    Raises:
        InvalidArgumentError: there is no such type or attribute.
    """
    if row_time is None:
        return {}
    known = {(kind, name) for _, kind, attrs in tables for name in attrs}
    times_by_attr = {}
    for key, value in as_items(row_time, "row_time", "times of rows"):
        pairs = [(key, value)]
        if is_typed:
            pairs = as_items(value, f"row_time[{shown(key)}]", "times of rows")
        for name, times in pairs:
            place = (key if is_typed else None, name)
            if not is_hashable(place) or place not in known:
                raise InvalidArgumentError(
                    f"row_time: the graph has no attribute {shown(name)}"
                    + (f" of {shown(key)}" if is_typed else "")
                )
            times_by_attr[place] = times
    return times_by_attr
