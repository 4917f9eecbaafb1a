"""Forms of edges and rows: what a live graph keeps, as its user asked for and as its file says.

The options that users give are here, each spelt out once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.options import as_choice, as_flag, as_number, is_name, shown
from aethergraph._checks.times import unit_of
from aethergraph.errors import InvalidArgumentError
from aethergraph.protocols import Layout, MemorySource

__all__ = [
    "EDGE_ID",
    "EdgeForm",
    "EdgeOptions",
    "MemoryOptions",
    "RowForm",
    "read_time_dtype",
    "time_dtype",
]

#: Name of the ids of edges in a static copy, where edges were deleted.
EDGE_ID = "edge_id"


class RowForm(NamedTuple):
    """Shape and dtype of the rows of an attribute."""

    row_shape: tuple[int, ...]
    dtype_name: str


class EdgeOptions(NamedTuple):
    """Options of a user for the edges of a type, as they were given; None: they were not."""

    layout: Any = None
    order: Any = None
    edge_time: Any = None
    edge_weight: Any = None
    edge_attrs: Any = None
    edge_id_bytes: Any = None

    def completed(self) -> EdgeOptions:
        """Return the options of a new graph, with what is kept where nothing was given."""
        defaults = {"layout": "both", "order": "id", "edge_id_bytes": 8}
        missing = {name: v for name, v in defaults.items() if getattr(self, name) is None}
        return self._replace(**missing)


@dataclass(frozen=True)
class MemoryOptions:
    """Memory for the edges of a live graph, as a user asks for it.

    Attributes:
        arena_mb: MiB for edges and their older versions.
        max_snapshot_age: seconds after which a snapshot may expire; None: none does.
        huge_pages: ask for huge pages.
        mlock: keep the edges in memory.
        arena_memory: where edges are stored; None: in shared memory.

    Raises:
        InvalidArgumentError: one is invalid; names it.
    """

    arena_mb: Any
    max_snapshot_age: Any = None
    huge_pages: Any = True
    mlock: Any = False
    arena_memory: Any = None

    def __post_init__(self) -> None:
        megabytes = as_integer(self.arena_mb, "arena_mb", bools=False)
        if not 0 < megabytes <= 32 << 10:
            raise InvalidArgumentError(f"arena_mb = {megabytes} is not in 1..32768 (32 GiB)")
        age = 1.0
        if self.max_snapshot_age is not None:
            age = as_number(self.max_snapshot_age, "max_snapshot_age")
            object.__setattr__(self, "max_snapshot_age", age)  # whatever number it was
        if not 0 < age < 1e9:
            raise InvalidArgumentError(
                f"max_snapshot_age = {age} is not above 0 and below 1e9 seconds"
            )
        as_flag(self.huge_pages, "huge_pages")
        as_flag(self.mlock, "mlock")
        memory = self.arena_memory
        if memory is not None and not isinstance(memory, MemorySource):
            raise InvalidArgumentError(
                f"arena_memory is of type {type(memory).__name__}: give an object with a "
                "member live_memory, an address (MemorySource)"
            )

    def create(
        self, relations: Sequence[native.LiveRelation], first_commit: int
    ) -> native.NativeLive:
        """Make native lists there."""
        age, memory = self.max_snapshot_age, self.arena_memory
        flags = native.LIVE_HUGE * bool(self.huge_pages) | native.LIVE_LOCKED * bool(self.mlock)
        return native.NativeLive.create(
            relations, int(self.arena_mb) << 20, 0 if age is None else max(1, int(age * 1e9)),
            flags, first_commit, None if memory is None else memory.live_memory, memory,
        )  # fmt: skip


@dataclass(frozen=True)
class EdgeForm:
    """Form of the edges of one type: what a live graph keeps of them.

    Attributes:
        layout: lists to keep: ``"csc"``, ``"csr"`` or ``"both"``.
        order: ``"id"``: lists sorted by id, an edge is there once. ``"time"``: by time (or in the
            order of arrival), parallel edges are kept.
        has_time: edges have times, int64.
        time_unit: unit of the times if they are datetimes.
        has_weight: edges have weights, float32.
        attrs: attributes of the edges by name.
        edge_id_bytes: size of an edge id, 4 or 8.
    """

    layout: Layout = "both"
    order: str = "id"
    has_time: bool = False
    time_unit: str | None = None
    has_weight: bool = False
    attrs: Mapping[str, RowForm] = field(default_factory=dict)
    edge_id_bytes: int = 8

    @classmethod
    def read(cls, options: EdgeOptions) -> EdgeForm:
        """Return the form that a user's options ask for.

        Raises:
            InvalidArgumentError: one is invalid; names it.
        """
        layout = as_choice(options.layout, ("csc", "csr", "both"), "layout")
        order = as_choice(options.order, ("id", "time"), "order")
        unit, weight = None, options.edge_weight
        if options.edge_time is not None:
            unit = read_time_dtype(options.edge_time, "edge_time")
            if order == "id":
                raise InvalidArgumentError(
                    "edge_time= with order='id': lists that are sorted by id cannot be read up to "
                    "a time; use order='time'"
                )
        if weight is not None and not _is_dtype(weight, np.float32):
            raise InvalidArgumentError(
                f"edge_weight = {shown(weight)}: live graphs keep weights as 'float32'"
            )
        return cls(
            layout, order, options.edge_time is not None, unit, weight is not None,
            _read_forms(options.edge_attrs), _read_id_bytes(options.edge_id_bytes),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return the form for ``graph.json``."""
        return {
            "layout": self.layout, "order": self.order, "has_time": self.has_time,
            "time_unit": self.time_unit, "has_weight": self.has_weight,
            "attrs": {n: [list(f.row_shape), f.dtype_name] for n, f in self.attrs.items()},
            "edge_id_bytes": self.edge_id_bytes,
        }  # fmt: skip

    @classmethod
    def from_json(cls, description: Mapping[str, Any]) -> EdgeForm:
        """Return the form that :meth:`to_json` described.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        form = cls(
            description["layout"], description["order"],
            description["has_time"], description["time_unit"], description["has_weight"],
            _read_forms(description["attrs"]), description.get("edge_id_bytes", 8),
        )  # fmt: skip
        if cls.read(form.options) != form:
            raise ValueError(f"edges have the form {shown(dict(description))}")
        return form

    def same(self, options: EdgeOptions) -> EdgeForm:
        """Return the form of edges that are there already, with edge ids as they are asked for.

        Raises:
            InvalidArgumentError: an option is neither None nor what the graph was made with; names
                it.
        """
        kept = self.options
        changes = {name: value for name, value in options._asdict().items() if value is not None}
        form = EdgeForm.read(kept._replace(**changes))
        for name, value, requested in zip(kept._fields[:-1], kept, form.options, strict=False):
            if requested != value:
                raise InvalidArgumentError(
                    f"the graph was made with {name} = {value!r}, not {requested!r}: leave it out"
                )
        return form

    @property
    def options(self) -> EdgeOptions:
        """Options that :meth:`read` makes the form of."""
        return EdgeOptions(
            self.layout, self.order, time_dtype(self.time_unit) if self.has_time else None,
            "float32" if self.has_weight else None,
            {name: tuple(form) for name, form in self.attrs.items()}, self.edge_id_bytes,
        )  # fmt: skip


def _is_dtype(value: Any, dtype: Any) -> bool:
    try:
        return bool(np.dtype(value) == dtype)
    except Exception:  # numpy raises many kinds
        return False


def _read_id_bytes(edge_id_bytes: Any) -> int:
    if as_count(edge_id_bytes, "edge_id_bytes") not in (4, 8):
        raise InvalidArgumentError(f"edge_id_bytes = {edge_id_bytes}: an edge id has 4 bytes or 8")
    return int(edge_id_bytes)


def time_dtype(unit: str | None) -> str:
    """Return the dtype of times of a unit; None: plain numbers."""
    return "int64" if unit is None else f"datetime64[{unit}]"


def read_time_dtype(value: Any, name: str) -> str | None:
    """Return the unit of the times that an option asks for; None for plain numbers.

    Raises:
        InvalidArgumentError: it is no dtype of times.
    """
    try:
        dtype = np.dtype(value)
    except Exception:  # numpy raises many kinds
        dtype = np.dtype(object)
    unit = unit_of(dtype)
    if dtype != np.int64 and unit is None:
        raise InvalidArgumentError(
            f"{name} = {shown(value)} is neither 'int64' nor a datetime64 with a unit, such "
            "as 'datetime64[us]'"
        )
    return unit


def _read_forms(attrs: Any) -> dict[str, RowForm]:
    if attrs is None:
        return {}
    if not isinstance(attrs, Mapping):
        raise InvalidArgumentError(
            "edge_attrs goes by name, {name: (shape of a row, dtype)}, got "
            f"{type(attrs).__name__}"
        )
    forms = {}
    for name, form in attrs.items():
        if not is_name(name) or name in ("edge_weight", "edge_time", EDGE_ID):
            raise InvalidArgumentError(f"edge_attrs: {shown(name)} cannot be a name")
        try:
            shape, dtype = form
            row_shape = tuple(as_count(size, "size") for size in shape)
            dtype_name = dtype if dtype == "bfloat16" else np.dtype(dtype).name
            if dtype_name not in native.DTYPE_CODES:
                raise TypeError(f"dtype {dtype_name}")
        except Exception as error:  # numpy and iterators raise many kinds
            raise InvalidArgumentError(
                f"edge_attrs[{name!r}] = {shown(form)} is not (shape of a row, dtype), such as "
                f"((16,), 'float32'): {error}"
            ) from None
        forms[name] = RowForm(row_shape, dtype_name)
    return forms
