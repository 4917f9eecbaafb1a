"""Options of ingestors: times, spans in the unit of a graph, and bounds of what may be bad."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

import numpy as np

from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.options import as_number, shown
from aethergraph._checks.times import convert_times, unit_of
from aethergraph.errors import InvalidArgumentError
from aethergraph.streaming.moments import as_moment, of_iso

__all__ = ["as_ahead", "as_bound", "as_latest", "as_seconds", "as_span"]

_TIME = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(us|ms|s|m|h|D)\s*")
_DAY = 86400.0
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "D": 86400.0}


def as_seconds(value: Any, name: str) -> float:
    """Return the seconds of ``"5ms"``, or of a number of them."""
    if isinstance(value, str):
        match = _TIME.fullmatch(value)
        if match is None:
            raise InvalidArgumentError(f"{name} = {shown(value)} is no time, such as '5ms' or '1s'")
        return float(match[1]) * _SECONDS[match[2]]
    if isinstance(value, timedelta):
        value = value.total_seconds()
    seconds = as_number(value, name)
    if not 0 <= seconds < 1e9:
        raise InvalidArgumentError(f"{name} = {shown(value)} is not in 0..1e9 seconds")
    return seconds


def as_span(value: Any, unit: str | None, name: str) -> int:
    """Return a span of time in the unit of a graph, rounded up: 90 minutes are 2 hours."""
    if not isinstance(value, str | timedelta):
        return as_count(value, name)
    seconds = as_seconds(value, name)
    if unit is None:
        raise InvalidArgumentError(
            f"{name} = {shown(value)}, but the graph's times have no unit: give a number"
        )
    span = np.array([round(seconds * 1e6)])
    counts, inexact = convert_times(span, "us", unit)
    if inexact is None:
        return int(counts[0])
    if np.can_cast("timedelta64[us]", f"timedelta64[{unit}]", "safe"):  # a finer unit
        raise InvalidArgumentError(f"{name} = {shown(value)} does not fit in 64 bits of {unit!r}")
    return int(counts[0]) + 1


def as_ahead(value: Any, unit: str | None, *, has_cut: bool) -> float | None:
    """Return the seconds that a time may be ahead of the clock; None: any.

    Args:
        value: the option, ``"auto"`` for what is best.
        unit: unit of the times; None: they are plain numbers.
        has_cut: commits must be the same on all machines, whose clocks differ.
    """
    # The clock counts microseconds: of finer units there is nothing to compare with today.
    has_clock = unit is not None and not unit.endswith(("ps", "fs", "as"))
    if isinstance(value, str) and value == "auto":
        return _DAY if has_clock and not has_cut else None
    if value is None:
        return None
    seconds = as_seconds(value, "max_ahead")
    if not has_clock:
        raise InvalidArgumentError(
            f"max_ahead = {shown(value)} is of a clock, which the graph's times have not: give "
            "max_time=, a number"
        )
    if has_cut:
        raise InvalidArgumentError(
            f"max_ahead = {shown(value)} depends on the clock of each machine: leave it out with "
            "cut=, and give max_time="
        )
    return seconds


def as_latest(value: Any, unit: str | None) -> int | None:
    """Return the largest time that a record may have, in the unit of a graph; None: any."""
    if value is None:
        return None
    if isinstance(value, str | date | np.datetime64):
        moment = as_moment(of_iso(value) if isinstance(value, str) else value)
        if moment is None or np.isnat(moment) or unit_of(moment.dtype) is None:
            raise InvalidArgumentError(
                f"max_time = {shown(value)} is neither a number nor a date, such as '2100-01-01'"
            )
        if unit is None:
            raise InvalidArgumentError(
                f"max_time = {shown(value)} is a date, but the graph's times have no unit: give a "
                "number"
            )
        return _latest_in(moment, unit, value)
    latest = as_integer(value, "max_time", bools=False)
    if not -(2**63) < latest < 2**63:
        raise InvalidArgumentError(f"max_time = {latest} does not fit in 64 bits")
    return latest


def _latest_in(moment: np.datetime64, unit: str, value: Any) -> int:
    """Return the last time of a unit that is not after a moment."""
    moment_unit = unit_of(moment.dtype)
    assert moment_unit is not None
    counts = np.array([moment]).view(np.int64)
    latest, inexact = convert_times(counts, moment_unit, unit)
    if inexact is None or not np.can_cast(moment.dtype, f"datetime64[{unit}]", "safe"):
        return int(latest[0])
    if counts[0] > 0:  # the unit is finer, and all times that it has are before
        return 2**63 - 1
    raise InvalidArgumentError(f"max_time = {shown(value)} is before all times in {unit!r}")


def as_bound(value: Any) -> tuple[int, float | None]:
    """Return the most bad records, and the share of all of them, if that was given."""
    if isinstance(value, str):
        text = value.strip()
        try:
            share = float(text[:-1]) / 100 if text.endswith("%") else -1.0
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise InvalidArgumentError(
                f"max_bad = {shown(value)} is neither a number nor a share such as '1%'"
            )
        return 0, share
    if isinstance(value, bool) or as_integer(value, "max_bad") < 0:
        raise InvalidArgumentError(f"max_bad = {shown(value)} is no number of records")
    return as_count(value, "max_bad"), None
