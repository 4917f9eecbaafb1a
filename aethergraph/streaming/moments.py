"""Moments: texts, datetimes and dates of Python as datetimes of numpy, none of them cut."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone
from typing import Any

import numpy as np

from aethergraph._checks.times import convert_times

__all__ = ["as_moment", "of_iso"]

#: Digits of a second that Python's own datetimes have, which it cuts others down to.
_DIGITS = 6
_FINE = re.compile(rf"[.,][0-9]{{{_DIGITS}}}([0-9]+)")


def of_iso(text: str) -> Any:
    """Return the datetime that a text in ISO 8601 says; the text itself if it says none.

    One of more than six digits of a second is one of numpy, in nanoseconds. More than those, zeros
    aside, nobody can keep: that is no time.
    """
    if text.endswith(("Z", "z")):
        text = text[:-1] + "+00:00"
    fine = _FINE.search(text)
    try:
        if fine is None:
            return datetime.fromisoformat(text)
        begin, end = fine.span(1)
        moment = datetime.fromisoformat(text[:begin] + text[end:])
    except ValueError:
        return text
    digits = fine[1].rstrip("0")
    if not digits:
        return moment
    base = as_moment(moment)
    if len(digits) > 3 or base is None or np.isnat(base):
        return text
    nanoseconds, wrong = convert_times(np.array([base]).view(np.int64), "us", "ns")
    if wrong is not None:  # of the years 1678 to 2261 there are nanoseconds
        return text
    return np.datetime64(int(nanoseconds[0]) + int(digits.ljust(3, "0")), "ns")


def as_moment(item: Any) -> np.datetime64 | None:
    """Return a datetime or a date of Python as one of numpy; None for what is neither."""
    if isinstance(item, np.datetime64):
        return item
    if isinstance(item, datetime) and item.tzinfo is not None:
        try:
            item = item.astimezone(timezone.utc).replace(tzinfo=None)
        except OverflowError:  # in UTC it would be before the year 1, or after 9999
            return np.datetime64("NaT", "us")
    return np.datetime64(item) if isinstance(item, date) else None
