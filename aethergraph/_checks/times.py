"""Units of times: datetimes as int64 counts of a unit since 1970-01-01, and back.

A unit has numpy's notation of ``datetime64[unit]``: "s", "us", "D", also "15m". All
conversions are exact; a value that cannot be converted exactly is refused, with its position.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.arrays import (
    as_ids,
    as_vector,
    check_length,
    check_times,
    check_vector,
    reject_first,
    reject_large,
    to_array,
)
from aethergraph._checks.exact import describe_change, first_changed
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError, OutOfRangeError

__all__ = [
    "as_seed_times",
    "as_times",
    "check_unit",
    "convert_times",
    "datetime_of",
    "is_unit",
    "split_unit",
    "to_one_unit",
    "unit_of",
]

_UNIT = re.compile(r"([1-9][0-9]{0,8})?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)")


def check_unit(unit: Any, name: str = "time_unit") -> str:
    """Return ``unit``, checked.

    Raises:
        InvalidArgumentError: numpy has no ``datetime64[unit]``.
    """
    if not is_unit(unit):
        raise InvalidArgumentError(
            f"{name} = {shown(unit)} is no unit of time: D, h, m, s, ms, us, ns or another of "
            "numpy's"
        )
    return str(unit)


def is_unit(unit: Any) -> bool:
    """Return whether numpy has ``datetime64[unit]``."""
    return isinstance(unit, str) and _UNIT.fullmatch(unit) is not None


def datetime_of(count: int, unit: str) -> np.datetime64:
    """Return a count of a unit since 1970 as a datetime."""
    moment: np.datetime64 = np.array([count], np.int64).view(f"datetime64[{unit}]")[0]
    return moment


def unit_of(dtype: np.dtype[Any]) -> str | None:
    """Return the unit of a datetime64 dtype; None for a generic one, and for other dtypes."""
    if dtype.kind != "M":
        return None
    unit, count = np.datetime_data(dtype)
    if unit == "generic":
        return None
    return unit if count == 1 else f"{count}{unit}"


def split_unit(array: NDArray[Any], name: str) -> tuple[NDArray[Any], str | None]:
    """Return datetimes as int64, and their unit; other arrays unchanged, and None.

    Raises:
        InvalidArgumentError: a NaT, with its position; or timedelta64, which are not points in
            time.
    """
    if array.dtype.kind == "m":
        raise InvalidArgumentError(
            f"{name} is {array.dtype}, lengths of time: give datetime64, or plain numbers "
            "(.astype('int64'))"
        )
    if array.dtype.kind != "M":
        return array, None
    reject_first(np.isnat, array, name, "every time must be known")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return native.view(np.int64), unit_of(array.dtype)


def convert_times(
    values: NDArray[np.int64], unit: str, to: str
) -> tuple[NDArray[np.int64], int | None]:
    """Return int64 times in another unit, and the position of the first inexact one or None.

    Args:
        values: counts of ``unit``.
        unit: the unit of ``values``.
        to: the unit of the result.
    """
    if unit == to or not len(values):
        return values, None
    datetimes = values.view(f"datetime64[{unit}]")
    with np.errstate(over="ignore"):
        try:
            converted = datetimes.astype(f"datetime64[{to}]")
            wrong = converted.astype(datetimes.dtype) != datetimes
        except OverflowError:  # only newer versions of numpy raise this
            return values, _first_overflow(datetimes, to)
    wrong |= np.isnat(converted)
    return converted.view(np.int64), int(wrong.argmax()) if wrong.any() else None


def _first_overflow(datetimes: NDArray[Any], to: str) -> int:
    def fits(part: NDArray[Any]) -> bool:
        try:
            part.astype(f"datetime64[{to}]")
        except OverflowError:
            return False
        return True

    begin, end = 0, len(datetimes)
    while end - begin > 1:
        middle = (begin + end) // 2
        begin, end = (middle, end) if fits(datetimes[begin:middle]) else (begin, middle)
    return begin


def as_times(
    values: ArrayLike, length: int, name: str, count_name: str
) -> tuple[NDArray[Any], str | None]:
    """Return times as a vector without NaN, int64 or float64, and their unit or None.

    Integers become int64, floats float64; datetime64 becomes int64 in its own unit.

    Raises:
        InvalidArgumentError: a wrong shape or dtype, or a NaN, NaT or masked value, with its
            position.
        OutOfRangeError: a uint64 value above 2^63 - 1.
    """
    array = to_array(values, name)
    check_vector(array, length, name, count_name)
    array, unit = split_unit(array, name)
    if array.size == 0 and array.dtype.kind not in "iuf":
        return np.empty(0, np.int64), unit
    if array.dtype.kind == "f":
        _refuse_rounded(values, name)
        at = first_changed(array, "float64")
        if at is not None:
            problem = describe_change(array[at], "float64", f"{name}[{at}] = ")
            raise InvalidArgumentError(
                f"{problem}: round them first, .astype('float64')", position=at
            )
        times = as_vector(array, np.float64, f"{name} as float64")
        check_times(times, name)
        return times, None
    if array.dtype.kind not in "iu":
        if array.dtype.kind == "O":
            reject_large(values, name)
        hint = _date_hint(array)
        raise InvalidArgumentError(f"{name} must hold numbers, got dtype {array.dtype}{hint}")
    return as_ids(array, name), unit


def _date_hint(array: NDArray[Any]) -> str:
    of_objects = array.dtype.kind == "O" and array.ndim == 1 and array.size
    if of_objects and isinstance(array[0], date):  # of Python
        return f" ({type(array[0]).__name__}): give np.array(..., 'datetime64[us]')"
    return ""


def to_one_unit(
    timed: Sequence[tuple[str, NDArray[Any], str | None]],
) -> tuple[list[NDArray[Any]], str | None]:
    """Return the times of several types in one unit, the coarsest in which all are exact.

    Args:
        timed: (name for messages, times, unit or None) of each type.

    Raises:
        InvalidArgumentError: some have a unit and others do not, or a time does not fit in
            int64.
    """
    arrays = [array for _, array, _ in timed]
    units = {unit for *_, unit in timed}
    known = [(name, unit) for name, _, unit in timed if unit is not None]
    if not known:
        return arrays, None
    if None in units:
        bare = next(name for name, _, unit in timed if unit is None)
        raise InvalidArgumentError(
            f"{bare} holds numbers without a unit, but {known[0][0]} is in {known[0][1]!r}: give "
            f"datetime64 for both, .astype('datetime64[{known[0][1]}]'), or numbers for both"
        )
    if len(units) == 1:
        return arrays, known[0][1]
    common_unit = unit_of(np.result_type(*(f"datetime64[{unit}]" for _, unit in known)))
    assert common_unit is not None
    for number, (name, array, unit) in enumerate(timed):
        assert unit is not None
        arrays[number], wrong = convert_times(array, unit, common_unit)
        if wrong is not None:
            raise InvalidArgumentError(
                f"{name}[{wrong}] = {array[wrong]} {unit} does not fit in 64 bits in "
                f"{common_unit!r}, the unit in which all times of the graph are exact: give "
                "them in one unit",
                position=wrong,
            )
    return arrays, common_unit


def as_seed_times(
    values: ArrayLike, length: int, name: str, unit: str | None, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Return times of seeds in the unit and dtype of a graph's times.

    Args:
        values: [length] numbers, in the unit of the graph if it has one; or datetime64 of any
            unit, which are converted.
        length: number of seeds.
        name: name of the argument, for messages.
        unit: ``time_unit`` of the graph. None: the graph has no unit and takes numbers only.
        dtype: dtype of the graph's times, int64 or float64.

    Raises:
        InvalidArgumentError: a wrong shape or dtype; NaN or NaT; datetimes for a graph whose
            times have no unit; or a time that is not a whole number of the graph's unit, with
            its position.
        OutOfRangeError: an integer that int64 does not hold, for times that are int64.
    """
    array = to_array(values, name)
    if array.size == 0 and length == 0:
        return np.empty(0, dtype)
    if dtype == np.int64 and array.dtype.kind in "fO":
        _refuse_large(values, name)
    if array.ndim != 1 or array.dtype.kind not in "iufMm":
        raise InvalidArgumentError(
            f"{name} must be a vector of numbers or datetime64, got shape {array.shape} of "
            f"{array.dtype}{_date_hint(array)}"
        )
    check_length(array, length, name, "the number of seeds")
    times, own_unit = split_unit(array, name)
    if array.dtype.kind == "M":
        if unit is None or own_unit is None:
            raise InvalidArgumentError(
                f"{name} is {array.dtype}, but the times of the graph have no unit: give numbers, "
                "or build the graph with datetime64 (convert: --time-unit)"
            )
        times, wrong = convert_times(times, own_unit, unit)
        if wrong is not None:
            raise InvalidArgumentError(
                f"{name}[{wrong}] = {array[wrong]} cannot be given in the unit of the graph's "
                f"times, {unit!r}: round it first, .astype('datetime64[{unit}]')",
                position=wrong,
            )
    if dtype == np.int64:
        if times.dtype.kind == "f":
            raise InvalidArgumentError(
                f"{name} is {times.dtype}, but the times are int64: give integers"
            )
        if times.dtype.kind == "u":
            times = as_ids(times, name)  # refuses what would wrap
        return times.astype(np.int64)
    wide = times.astype(np.float64)
    reject_first(np.isnan, wide, name, "every time must be known")
    return wide


def _refuse_rounded(values: Any, name: str) -> None:
    """Raise for the first integer of a list of floats that numpy changes in making it one."""
    _refuse_large(values, name)
    for at, value in enumerate(values if isinstance(values, (list, tuple)) else ()):
        if isinstance(value, int) and int(float(value)) != value:
            problem = describe_change(value, "float64", f"{name}[{at}] = ")
            raise InvalidArgumentError(
                f"{problem}: beside fractions all are float64; give integers alone", position=at
            )


def _refuse_large(values: Any, name: str) -> None:
    """Raise for the first integer of a list that int64 does not hold: numpy makes floats of it."""
    for at, value in enumerate(values if isinstance(values, (list, tuple)) else ()):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            side = "above 2**63 - 1" if value > 0 else "below -2**63"
            raise OutOfRangeError(f"{name}[{at}] = {value} is {side}", position=at, value=value)
