"""Plan of an edge list: the columns and types that the caller asks for, before any file is open."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from aethergraph._checks.options import as_choice, as_list
from aethergraph._checks.times import check_unit
from aethergraph.convert.arguments import as_column, as_optional_count
from aethergraph.convert.readers.base import ColumnSelector
from aethergraph.errors import InvalidArgumentError

__all__ = ["AttrSpec", "EdgePlan", "NumberType", "TimeType", "WeightType", "attr_specs"]

NumberType = Literal["int64", "float32", "float64"]
TimeType = Literal["auto", "int64", "float64"]
WeightType = Literal["auto", "float32", "float64"]


@dataclass(frozen=True)
class AttrSpec:
    """Edge attribute made of one column, or of several side by side.

    Attributes:
        name: name of the attribute in the graph.
        columns: the columns; one gives shape [E], k of them [E, k].
        dtype: "int64", "float32" or "float64"; None: int64 if the first rows are integers,
            else float32 (Parquet doubles: float64). true and false become 1 and 0. A Parquet
            column of lists gives a matrix.
    """

    name: str
    columns: tuple[ColumnSelector, ...]
    dtype: NumberType | None = None

    @classmethod
    def parse(cls, text: str) -> AttrSpec:
        """Parse ``NAME[=COLUMN[,COLUMN...]][:DTYPE]``; without columns, the column of that name.

        Raises:
            InvalidArgumentError: another form, or an unknown dtype.
        """
        if not isinstance(text, str):
            raise InvalidArgumentError(
                "an edge attribute is a text NAME[=COLUMN,...][:int64|float32|float64], got "
                f"{type(text).__name__}"
            )
        body, _, dtype = text.partition(":")
        name, _, columns = body.partition("=")
        chosen = tuple(c.strip() for c in columns.split(",") if c.strip()) or (name.strip(),)
        if not name.strip() or dtype not in ("", "int64", "float32", "float64"):
            raise InvalidArgumentError(
                f"an edge attribute is NAME[=COLUMN,...][:int64|float32|float64], not {text!r}"
            )
        return cls(name.strip(), chosen, cast("NumberType | None", dtype or None))


def attr_specs(attrs: Sequence[AttrSpec | str]) -> tuple[AttrSpec, ...]:
    """Parse attributes given as text; refuse names that come twice."""
    entries = [attrs] if isinstance(attrs, str) else as_list(attrs, "attrs", "edge attributes")
    specs = tuple(a if isinstance(a, AttrSpec) else AttrSpec.parse(a) for a in entries)
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentError(f"the edge attribute {name!r} is given twice")
    return specs


@dataclass(frozen=True)
class EdgePlan:
    """Columns and types that the caller asked for."""

    src: ColumnSelector | None
    dst: ColumnSelector | None
    weight: ColumnSelector | None
    time: ColumnSelector | None
    attrs: tuple[AttrSpec, ...]
    time_type: TimeType
    num_nodes: int | None
    time_unit: str | None = None
    weight_type: WeightType = "auto"

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)  # the class is frozen
        for name in ("src", "dst", "weight", "time"):
            put(name, as_column(getattr(self, name), name))
        put("time_type", as_choice(self.time_type, get_args(TimeType), "time_type"))
        put("weight_type", as_choice(self.weight_type, get_args(WeightType), "weight_type"))
        put("num_nodes", as_optional_count(self.num_nodes, "num_nodes"))
        if (self.src is None) != (self.dst is None):
            raise InvalidArgumentError("give both columns, src and dst, or neither")
        if self.time_unit is not None:
            check_unit(self.time_unit)
            if self.time is None or self.time_type == "float64":
                raise InvalidArgumentError(
                    "time_unit is the unit of integer times: it goes with a column of times, and "
                    "not with time_type float64"
                )

    def selectors(self) -> list[tuple[ColumnSelector, str]]:
        """Return (column, role) of everything but the ids."""
        selectors: list[tuple[ColumnSelector, str]] = []
        if self.weight is not None:
            selectors.append((self.weight, "weight"))
        if self.time is not None:
            selectors.append((self.time, "time"))
        for spec in self.attrs:
            selectors += [(c, f"edge attribute {spec.name!r}") for c in spec.columns]
        return selectors
