"""Values of a text table: whether a text is one, and what is wrong with one that is not."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.dialect import INTEGER, LOGICAL, NUMBER
from aethergraph.convert.readers.base import INT64_MAX, MAP_NAMES, Field, explain_id
from aethergraph.convert.readers.exact import explain_text_change

__all__ = [
    "DATE",
    "arrow_type_of",
    "explain_value",
    "is_value",
    "looks_like_header",
    "overflows",
    "wraps_dates",
]

DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

# First-line words that make the line a header even if the second line is text as well.
_HEADER_WORDS = frozenset(
    {"src", "source", "from", "u", "head", "start", "id", "ids", "node", "nodeid", "node_id"}
    | {"dst", "dest", "destination", "target", "to", "v", "tail", "end", "row", "col"}
    | {"source_id", "target_id", "src_id", "dst_id", "fromnodeid", "tonodeid"}
    | {"weight", "time", "timestamp", "label", "labels", "y"}
)


def explain_value(field: Field, kind: str, text: str) -> str | None:
    """Describe what is wrong with one value, or return None."""
    if text == "":
        return f"the {field.role} is missing"
    if kind == "bool":
        if text in LOGICAL or text in ("0", "1"):
            return None
        return f"the {field.role} {text[:80]!r} is neither true nor false, as the first one is"
    if kind.startswith(("date", "timestamp")):
        return _explain_date(field, kind, text)
    if field.dtype == "int64":
        return _explain_integer(field, text)
    if not NUMBER.fullmatch(text):
        return f"the {field.role} {text[:80]!r} is not a number" + _date_hint(field, text)
    if field.finite and not abs(float(text)) <= float(np.finfo(field.dtype).max):
        return f"the {field.role} {text[:80]!r} is not a finite {field.dtype}"
    if field.minimum is not None and float(text) < field.minimum:
        return f"the {field.role} {text[:80]!r} is below {field.minimum:g}"
    return explain_text_change(field, text)


def _explain_date(field: Field, kind: str, text: str) -> str | None:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    options = pacsv.ConvertOptions(
        column_types={"t": arrow_type_of(kind)}, null_values=[], strings_can_be_null=False
    )
    names = pacsv.ReadOptions(column_names=["t"])
    subject = f"the {field.role} {text[:80]!r}"
    too_far = f"{subject} does not fit in 'ns', 1677-09-21 to 2262-04-11: --time-unit us keeps it"
    try:
        times = pacsv.read_csv(
            pa.py_buffer(f"{text}\n".encode()), names, convert_options=options
        ).column("t")
    except pa.ArrowInvalid:
        if "[ns" in kind and DATE.match(text) and not "1677" < text[:4] < "2262":
            return too_far
        zone = "with" if "tz=" in kind else "without"
        problem = f"{subject} is not a date in {field.unit!r}"
        return f"{problem}, such as 2001-03-05 or 2001-03-05T10:20:30, {zone} a time zone"
    return too_far if "[ns" in kind and overflows(times.to_numpy(), pa.array([text])) else None


@functools.cache
def wraps_dates() -> bool:
    """Return whether this pyarrow takes dates beyond the range of ns for others, as 17 does."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    options = pacsv.ConvertOptions(column_types={"t": pa.timestamp("ns")})
    try:
        pacsv.read_csv(pa.py_buffer(b"t\n9999-12-31\n"), convert_options=options)
    except pa.ArrowInvalid:
        return False
    return True


def overflows(times: NDArray[Any], texts: Any) -> bool:
    """Return whether a date is another one in ns than in its text: 584 years away, or more."""
    import pyarrow.compute as pc

    years = pc.utf8_slice_codeunits(texts, 0, 4).cast("int64").to_numpy()
    time_years = times.astype("M8[Y]").astype(np.int64) + 1970
    return bool((np.abs(time_years - years) > 1).any())  # a time zone may move it to the next year


def _date_hint(field: Field, text: str) -> str:
    if field.is_time and field.unit is None and DATE.match(text):
        return "; dates are read with --time-unit, D, s, ms, us or ns (time_unit=)"
    return ""


def _explain_integer(field: Field, text: str) -> str | None:
    subject = f"the {field.role} {text[:80]!r}"
    if not INTEGER.fullmatch(text):
        if NUMBER.fullmatch(text):
            return f"{subject} is not an integer written in plain digits{field.hint}"
        if field.is_id:
            return f"{subject} is not a number{MAP_NAMES}"
        return f"{subject} is not a number" + (_date_hint(field, text) or field.hint)
    digits = text.lstrip("-").lstrip("0") or "0"
    if len(digits) > 19:
        return f"{subject} does not fit in 64 bits"
    value = -int(digits) if text.startswith("-") else int(digits)
    if not -INT64_MAX - 1 <= value <= INT64_MAX:
        return f"{subject} does not fit in 64 bits"
    if field.unit is not None and value == -INT64_MAX - 1:
        return f"{subject} is no time (NaT)"
    return explain_id(field, value)


def is_value(text: str) -> bool:
    """Return whether the text is a number, a date or a boolean, rather than a name."""
    text = text.strip()
    if text == "" or text in LOGICAL:
        return True
    return NUMBER.fullmatch(text) is not None or DATE.match(text) is not None


def looks_like_header(
    first: Sequence[str], second: Sequence[str] | None, columns: Sequence[int]
) -> bool:
    """Return whether the first line holds names of ``columns``, judged by the line after it."""
    names = [first[c].strip() for c in columns]
    if 0 in columns and first[0].strip() == "" and second is not None and second[0].strip():
        columns = [c for c in columns if c != 0]  # an index column, whose name pandas leaves empty
        names = [first[c].strip() for c in columns or range(1, len(first))]
    if not names or any(is_value(name) for name in names):
        return False
    if all(name.lower() in _HEADER_WORDS for name in names):
        return True
    if second is None:
        return False
    return all(c < len(second) and is_value(second[c]) for c in columns)


def arrow_type_of(kind: str) -> Any:
    """Return the pyarrow type of a name such as ``"int64"`` or ``"timestamp[us, tz=UTC]"``."""
    import pyarrow as pa

    if kind.startswith("timestamp"):
        unit, _, zone = kind[len("timestamp[") : -1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    return pa.type_for_alias(kind)
