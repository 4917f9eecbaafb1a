"""Columns of records in the dtypes that a live graph keeps: each value read, or refused by name."""

from __future__ import annotations

import math
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.exact import (
    LARGEST_ID,
    MANTISSA,
    array_of,
    describe_change,
    first_changed,
    is_kept,
)
from aethergraph._checks.options import shown
from aethergraph._checks.times import convert_times, unit_of
from aethergraph._native import KeyBlock
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.ids.columns import KeyColumns
from aethergraph.streaming.decode import lacking
from aethergraph.streaming.moments import as_moment
from aethergraph.streaming.records import Records

__all__ = [
    "Array", "Column", "Ids", "read_flags", "read_integers", "read_keys", "read_rows",
    "read_times", "read_weights",
]  # fmt: skip

Array: TypeAlias = NDArray[Any]
Ids: TypeAlias = NDArray[np.int64]

_INT64 = np.iinfo(np.int64)
#: Integers up to it are exact in float32.
_WHOLE = 1 << MANTISSA["float32"]


class Column:
    """Column of records while it is checked: values, and the first thing wrong with each."""

    def __init__(self, records: Records, rows: NDArray[np.intp]) -> None:
        self.records, self.rows = records, rows
        self.bad: dict[int, str] = {}

    def values(self, role: str) -> Array | None:
        """Return a column of the records, or None."""
        values = self.records.columns.get(role)
        return None if values is None else values[self.rows]

    def label(self, role: str) -> str:
        """Return the name of a column for messages."""
        name = self.records.fields.get(role, role)
        return role if name == role else f"{name} ({role})"

    def missing(self, at: int, role: str) -> str:
        """Return that a record has no value, and which fields it has if there is none of the name.

        ``role`` is that of the column, or the attribute.
        """
        name, payload = self.records.fields.get(role), self.records.payload
        lack = ""
        if name is not None and payload is not None:
            lack = lacking(payload(int(self.rows[at])), name)
        return f"is missing: the record has {lack}" if lack else "is missing"

    def refuse(self, at: Any, why: str) -> None:
        """Note what is wrong with a record, unless something is already."""
        self.bad.setdefault(int(at), why)

    def refuse_where(self, wrong: NDArray[np.bool_], role: str, values: Any, why: str) -> None:
        """Note what is wrong with the records of a mask."""
        if wrong.any():
            originals = self.records.given.get(role)
            values = values if originals is None else originals[self.rows]
            for at in np.flatnonzero(wrong).tolist():
                self.refuse(at, f"{self.label(role)} = {_show(values[at])} {why}")


def _show(value: Any) -> str:
    return shown(value.tolist() if isinstance(value, np.generic | np.ndarray) else value)


def read_integers(column: Column, role: str, values: Array, noun: str = "integer") -> Ids:
    """Return a column as int64; what is no integer is refused, and 0."""
    kind = values.dtype.kind
    if values.ndim == 1 and kind in "iu":
        if values.dtype == np.uint64:
            wrong = values > np.uint64(_INT64.max)
            column.refuse_where(wrong, role, values, "does not fit in 64 bits")
        return np.ascontiguousarray(values.astype(np.int64))
    integers = np.zeros(len(values), np.int64)
    for at, value in enumerate(values.tolist()):
        if isinstance(value, bool) or not isinstance(value, int):
            why = column.missing(at, role) if value is None else f"= {shown(value)} is no {noun}"
            column.refuse(at, f"{column.label(role)} {why}")
        elif not _INT64.min <= value <= _INT64.max:
            column.refuse(at, f"{column.label(role)} = {shown(value)} does not fit in 64 bits")
        else:
            integers[at] = value
    return integers


def read_keys(column: Column, role: str, values: Array, types: KeyColumns) -> KeyBlock:
    """Return a column as keys of a type; what is none is refused, and is an empty key or 0."""
    if values.dtype.kind == "S" and types.types == ("str",):
        values = np.array([_of_utf8(value) for value in values.tolist()], object)
    try:
        block, impossible = types.encode(values)
    except (InvalidArgumentError, OutOfRangeError):
        return _read_each_key(column, role, values, types)
    if impossible is not None:
        column.refuse_where(impossible, role, values, f"does not fit in keys of type {types}")
    return block


def _read_each_key(column: Column, role: str, values: Array, types: KeyColumns) -> KeyBlock:
    none: Any = {"str": "", "bytes": b"", "uuid": UUID(int=0)}.get(types.types[0], 0)
    keys = np.empty(len(values), object)
    for at, value in enumerate(values.tolist()):
        keys[at] = none
        try:
            types.encode_exactly([value])
        except (InvalidArgumentError, OutOfRangeError):
            why = f"= {shown(value)} is no key of type {types}"
            why = column.missing(at, role) if value is None else why
            column.refuse(at, f"{column.label(role)} {why}")
        else:
            keys[at] = value
    return types.encode_exactly(keys)


def _of_utf8(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def read_flags(column: Column, role: str) -> NDArray[np.bool_] | None:
    """Return a column as bool; None if the records have none."""
    values = column.values(role)
    if values is None:
        return None
    if values.dtype == np.bool_:
        return values
    flags = np.zeros(len(values), bool)
    for at, value in enumerate(values.tolist()):
        # Not to say anything is to insert.
        if value is not None and (not isinstance(value, bool | int) or value not in (0, 1)):
            column.refuse(at, f"{column.label(role)} = {shown(value)} is neither true nor false")
        else:
            flags[at] = bool(value)
    return flags


def read_times(
    column: Column, has_time: bool, time_unit: str | None, needed: NDArray[np.bool_]
) -> Ids | None:
    """Return the times in the unit of the graph; None if the records have none.

    Args:
        column: the records.
        has_time: True if the graph keeps times.
        time_unit: their unit; None: they are plain numbers.
        needed: records that need a time.
    """
    values = column.values("time")
    if values is None:
        return None
    unit = unit_of(values.dtype)
    if unit is not None:
        if has_time and time_unit is None:
            raise InvalidArgumentError(
                f"{column.label('time')} is of {values.dtype}, but {_plain_times(unit)}"
            )
        every = np.arange(len(values))
        return _read_moments(column, every, values, unit, time_unit or unit, needed)
    moments = [as_moment(item) for item in values.tolist()] if values.dtype == object else []
    are_moments = np.array([moment is not None for moment in moments], bool)
    if values.dtype.kind not in "iu":
        values = _keep_needed(values, needed, 0)
    if not are_moments.any():
        return _read_counts(column, values, time_unit, needed)
    # Each value stands for itself: what a record becomes does not depend on those beside it.
    counts = values.copy()
    counts[are_moments] = 0
    times = _read_counts(column, counts, time_unit, needed)
    units = np.array(["" if moment is None else unit_of(moment.dtype) for moment in moments])
    for unit in np.unique(units[are_moments]).tolist():
        at = np.flatnonzero(units == unit)
        if has_time and time_unit is None:
            wrong = np.isin(np.arange(len(values)), at) & needed
            column.refuse_where(wrong, "time", values, f"is a date, but {_plain_times(unit)}")
            continue
        some = np.array([moments[place] for place in at.tolist()], f"datetime64[{unit}]")
        # Without a unit they are microseconds, as datetimes of Python are.
        times[at] = _read_moments(column, at, some, unit, time_unit or "us", needed[at])
    return times


def _read_counts(
    column: Column, values: Array, time_unit: str | None, needed: NDArray[np.bool_]
) -> Ids:
    """Return times that are numbers; what is none is refused, and 0."""
    if time_unit is None:
        return read_integers(column, "time", values)
    counts = read_integers(column, "time", values, "time")
    column.refuse_where((counts == _INT64.min) & needed, "time", values, "is no time")
    return counts


def find_timed(column: Column, needed: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Return which records have a time; None: all that have a column of times.

    Args:
        column: the records.
        needed: records that need a time: they have one, or are refused.
    """
    values = column.values("time")
    if values is None or needed.all():
        return None
    if values.dtype.kind == "M":
        timed = ~np.isnat(values)
    elif values.dtype == object:
        timed = np.array([_is_time(value) for value in values.tolist()], bool)
    else:
        return None
    return timed | needed


def _is_time(value: Any) -> bool:
    """Return whether a value is there, and is not the time that numpy has for none."""
    moment = as_moment(value)
    return value is not None and (moment is None or not np.isnat(moment))


def _plain_times(unit: str) -> str:
    return (
        "the graph's times are plain numbers: give numbers, or make it with "
        f"edge_time='datetime64[{unit}]'"
    )


def _read_moments(
    column: Column,
    at: NDArray[np.intp],
    values: Array,
    unit: str,
    to: str,
    needed: NDArray[np.bool_],
) -> Ids:
    """Return datetimes of some of the records in a unit; what is none, or not exact, is refused."""
    missing = np.isnat(values)
    originals = column.records.given.get("time")
    for place in np.flatnonzero(missing & needed).tolist():
        row = int(at[place])
        value = values[place] if originals is None else originals[column.rows[row]]
        why = column.missing(row, "time") if value is None else f"= {_show(value)} is no time"
        column.refuse(row, f"{column.label('time')} {why}")
    counts = np.where(missing, 0, values.view(np.int64))
    times, wrong = convert_times(counts, unit, to)
    if wrong is not None:
        times = counts.copy()
        for place in range(len(counts)):
            single, wrong = convert_times(counts[place : place + 1], unit, to)
            if wrong is None:
                times[place] = single[0]
            elif needed[place]:
                label = f"{column.label('time')} = {values[place]}"
                column.refuse(
                    at[place],
                    f"{label} is not exact in {to!r}, the unit of the graph: round it before it is "
                    f"sent, or make the graph with edge_time='datetime64[{unit}]'",
                )
    return np.ascontiguousarray(times)


def _keep_needed(values: Array, needed: NDArray[np.bool_], filler: Any) -> Array:
    """Return values with another one where none is needed and none is there."""
    if values.dtype != object or needed.all():
        return values
    kept = values.copy()
    for at in np.flatnonzero(~needed).tolist():
        if kept[at] is None:
            kept[at] = filler
    return kept


def read_weights(column: Column, needed: NDArray[np.bool_]) -> Array:
    """Return the weights as float32; what is no weight is refused, and 0."""
    values = column.values("weight")
    assert values is not None
    if values.dtype.kind in "iuf":
        weights = values.astype(np.float64)
    else:
        weights = np.zeros(len(values), np.float64)
        for at, value in enumerate(values.tolist()):
            if isinstance(value, bool) or not isinstance(value, int | float):
                if needed[at]:
                    why = f"= {shown(value)} is no number"
                    why = column.missing(at, "weight") if value is None else why
                    column.refuse(at, f"{column.label('weight')} {why}")
            else:
                try:
                    weights[at] = value
                except OverflowError:
                    weights[at] = math.inf
    with np.errstate(over="ignore"):
        narrow = weights.astype(np.float32)
    wrong = needed & ~(np.isfinite(narrow) & (narrow >= 0))
    column.refuse_where(wrong, "weight", weights, "is not finite, or negative")
    for at in np.flatnonzero(
        needed & ~wrong & (weights > _WHOLE) & (weights <= LARGEST_ID)
    ).tolist():
        if not is_kept(values[at], "float32"):
            label = f"{column.label('weight')} = "
            problem = describe_change(values[at], "float32", label)
            column.refuse(
                at,
                f"{problem}, which weights of live graphs are kept as: round it before it is sent, "
                "or keep it as an attribute",
            )
            wrong[at] = True
    return np.where(wrong, np.float32(0), narrow)


def read_rows(
    column: Column, name: str, values: Array, dtype: Any, shape: Any, needed: NDArray[np.bool_]
) -> Array:
    """Return rows of an attribute in the dtype that the graph keeps."""
    full_shape = (len(values), *shape)
    if values.shape == full_shape and values.dtype.kind in "iufb":
        converted = _cast(values, dtype)
        if converted is not None:
            return converted
    rows = np.zeros(full_shape, dtype)
    for at, value in enumerate(values):
        if not needed[at]:
            continue
        label = column.records.fields.get(name, name)
        why = None
        try:
            row = array_of(value)
        except (ValueError, OverflowError):
            row = np.asarray(None)
        if value is None:
            why = column.missing(at, name)
        elif row.shape != tuple(shape) or row.dtype.kind not in "iufb":
            why = f"= {_show(value)} is not of shape {tuple(shape)}"
        else:
            converted_row = _cast(row, dtype)
            if converted_row is None:
                why = f"= {_show(value)} is no {dtype}"
            else:
                rows[at] = converted_row
        if why is not None:
            column.refuse(at, f"{label} {why}")
    return rows


def _cast(values: Array, dtype: Any) -> Array | None:
    """Return values in another dtype; None if that is not possible, or one does not fit."""
    if values.dtype == dtype:
        return values
    are_integers = values.dtype.kind in "iu" and np.dtype(dtype).kind in "iub"  # compared below
    if not are_integers and not np.can_cast(values.dtype, dtype, "same_kind"):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        converted = values.astype(dtype)
    if converted.dtype.kind == "f":
        fits = first_changed(values.reshape(-1), converted.dtype.name) is None
    else:
        fits = bool((converted == values).all())
    return converted if fits else None
