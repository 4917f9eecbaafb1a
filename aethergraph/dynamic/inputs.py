"""Edges and rows that a writer hands over: checked, and in the dtypes that the graph keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import (
    as_float_values,
    as_integer,
    check_weights,
    reject_first,
    to_array,
)
from aethergraph._checks.exact import describe_change, first_changed
from aethergraph._checks.options import shown
from aethergraph._checks.times import as_times, convert_times
from aethergraph.dynamic.edge_types import EdgeKind
from aethergraph.dynamic.rows import GrowingRows
from aethergraph.errors import InvalidArgumentError, OutOfRangeError

__all__ = ["as_rows", "in_unit", "one_id", "read_rows", "read_times", "read_weights"]

Ids = NDArray[np.int64]


def one_id(value: Any, name: str) -> int:
    """Return one id of a node as a Python int.

    Raises:
        InvalidArgumentError: it is no integer, or a bool.
        OutOfRangeError: int64 does not hold it.
    """
    number = as_integer(value, name, bools=False)
    if not -(2**63) <= number < 2**63:
        raise OutOfRangeError(f"{name} = {number} is no node", position=0, value=number)
    return number


def read_times(kind: EdgeKind, time: ArrayLike | None, count: int) -> Ids | None:
    """Return the times of edges, int64 [count] in the graph's unit; None if it keeps none."""
    if not kind.form.has_time:
        if time is not None and kind.by_source:
            raise InvalidArgumentError(
                "edges of this live graph take the times of their sources (node_time=): leave out "
                "time=, or create it with edge_time="
            )
        if time is not None:
            raise InvalidArgumentError("this live graph keeps no times: create it with edge_time=")
        return None
    if time is None:
        raise InvalidArgumentError("this live graph keeps times: give time=, one for each edge")
    return in_unit(time, count, kind.form.time_unit, "the number of edges", "edge_time")


def in_unit(
    time: ArrayLike, count: int, graph_unit: str | None, count_name: str, option: str
) -> Ids:
    """Return times of a graph, int64 [count] in its unit.

    Args:
        time: the times.
        count: how many there are to be.
        graph_unit: the unit; None: they are plain numbers.
        count_name: what ``count`` is, for messages.
        option: the option that the graph has them by.

    Raises:
        InvalidArgumentError: they are no such times; names the first at fault.
    """
    times, unit = as_times(time, count, "time", count_name)
    if not count:  # numpy takes an empty list for floats
        return np.empty(0, np.int64)
    if times.dtype != np.int64:
        raise InvalidArgumentError("time must hold integers or datetimes: live graphs keep int64")
    if graph_unit is not None and unit is None:
        reject_first(
            lambda some: some == np.iinfo(np.int64).min, times, "time",
            "among datetimes this number is NaT, and every time must be known",
        )  # fmt: skip
    if unit is not None and graph_unit is None:
        raise InvalidArgumentError(
            f"time is in {unit!r}, but the graph's times are plain numbers: create it with "
            f"{option}='datetime64[{unit}]'"
        )
    if unit is not None and graph_unit is not None and unit != graph_unit:
        times, wrong = convert_times(times, unit, graph_unit)
        if wrong is not None:
            raise InvalidArgumentError(
                f"time[{wrong}] cannot be told exactly in {graph_unit!r}", position=wrong
            )
    return np.ascontiguousarray(times)


def read_weights(
    kind: EdgeKind, weight: ArrayLike | None, count: int
) -> NDArray[np.float32] | None:
    """Return the weights of edges, float32 [count]; None if the graph keeps none."""
    if not kind.form.has_weight:
        if weight is not None:
            raise InvalidArgumentError(
                "this live graph keeps no weights: create it with edge_weight='float32'"
            )
        return None
    if weight is None:
        raise InvalidArgumentError("this live graph keeps weights: give weight=, one for each edge")
    weights = as_float_values(weight, count, "weight", "the number of edges")
    check_weights(weights, "weight")
    at = first_changed(weights, "float32")
    if at is not None:
        raise InvalidArgumentError(
            f"{describe_change(weights[at], 'float32', f'weight[{at}] = ')}, which weights of live "
            "graphs are kept as: round it first, or keep it as an attribute of the edges",
            position=at,
        )
    return np.ascontiguousarray(weights, np.float32)


def read_rows(
    kind: EdgeKind, attrs: Mapping[str, ArrayLike], count: int
) -> dict[str, NDArray[Any]]:
    """Return the rows of the attributes of edges by name, [count, ...] each."""
    if not isinstance(attrs, Mapping):
        raise InvalidArgumentError(f"edge_attrs goes by name, got {type(attrs).__name__}")
    for name in kind.attrs:
        if name not in attrs:
            raise InvalidArgumentError(
                f"edges have the attribute {name!r}: give edge_attrs={{{name!r}: {count} rows}}"
            )
    return {name: as_rows(rows, kind.attrs.get(name), name, count) for name, rows in attrs.items()}


def as_rows(values: ArrayLike, table: GrowingRows | None, name: str, count: int) -> NDArray[Any]:
    """Return ``count`` rows for an attribute, in its dtype.

    Raises:
        InvalidArgumentError: there is no such attribute, or the rows have another shape or dtype.
    """
    if table is None:
        raise InvalidArgumentError(f"there is no attribute {shown(name)}")
    array = to_array(values, name)
    shape = (count, *table.row_shape)
    if array.shape != shape:
        raise InvalidArgumentError(f"{name} has shape {array.shape}, but {shape} is needed")
    # Values are compared below.
    are_integers = array.dtype.kind in "iu" and table.dtype.kind in "iu"
    if count and not are_integers and not np.can_cast(array.dtype, table.dtype, "same_kind"):
        raise InvalidArgumentError(
            f"{name} has dtype {array.dtype}, but its rows are {table.dtype}"
        )
    if array.dtype == table.dtype:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(table.dtype)
    if table.dtype.kind == "f":
        changed = first_changed(array.reshape(-1), table.dtype.name)
    else:
        changed = int((converted != array).argmax()) if (converted != array).any() else None
    if changed is not None:
        at = changed // (array.size // count)
        raise OutOfRangeError(
            f"{name}[{at}] has a value that {table.dtype} does not hold", position=at
        )
    return converted
