"""DrawPlan: which lists samples follow, which weights and times they go by, which seeds see what.

Every sampler of every framework is a front of a plan: it reads the names and ids that its users
give, and turns arrays into what they expect::

    graph, names of weights and times ──make_plan──> DrawPlan ──> Draws (draws.py): plan and engine
                                                                    │
    seeds by node type, key, times, excluded edges ─────prepare─────┴──> NativeBatch

A draw by time is resolved in two places: :func:`make_plan` finds the times of each list and their
unit, and :meth:`DrawPlan.bounds` the time that each seed may see. Which times are taken where
nobody names them is in :func:`choose_times` (values.py); values that lie in stores of PyG stand
before those of the graph (``pyg/_sampled_graph.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.sources import all_rows
from aethergraph.sampling.engine import DrawOptions, NativeEngine
from aethergraph.sampling.values import (
    Bounds,
    Values,
    make_relation,
    read_times,
    read_weights,
    require_sorted,
    seed_bounds,
    times_in_lists,
    topology_times,
    topology_weights,
)

if TYPE_CHECKING:
    from aethergraph.graph.schema import Rows, Schema
    from aethergraph.graph.typed_edges import EdgeType
    from aethergraph.protocols import RowSource

__all__ = [
    "DrawPlan",
    "Times",
    "TypedLists",
    "Weights",
    "find_edge_times",
    "lists_of",
    "make_plan",
    "own_times",
]

Ids: TypeAlias = "NDArray[np.int64]"
S = TypeVar("S", bound=native.NativeSample | native.NativeLayers)

_NO_SEEDS = np.empty(0, np.int64)
_NO_BOUNDS = Bounds(None, None)
_SEES_ALL = np.iinfo(np.int64).max


class TypedLists(NamedTuple):
    """Lists that a sample follows: in-edges (``"csc"``) or out-edges (``"csr"``) of an edge type.

    In-edges of ``(a, r, b)`` lead from nodes of type b to nodes of type a.
    """

    edge_type: EdgeType
    layout: Literal["csc", "csr"]

    @property
    def near(self) -> str:
        """Type of the nodes that have the lists."""
        return self.edge_type[2 if self.layout == "csc" else 0]

    @property
    def far(self) -> str:
        """Type of the nodes in the lists."""
        return self.edge_type[0 if self.layout == "csc" else 2]


class Weights(NamedTuple):
    """Weights to draw by.

    Attributes:
        name: name of the weights, attributes of edges or the graph's own.
        option: name of the argument that gave the name, for messages.
        masks: whether bools may be weights of 0 and 1, or have to be.
    """

    name: str
    option: str = "weight_attr"
    masks: Literal["refused", "allowed", "required"] = "refused"


class Times(NamedTuple):
    """Times to draw by, and what seeds see of them.

    Attributes:
        name: name of the times, attributes or the graph's own.
        of_nodes: True: times of nodes; False: of edges; None: of nodes if any node type has them,
            else of edges, as in PyG.
        both: take the times of edges where the nodes that they lead to have none.
        strict: seeds see what is before their time, not what is at it.
        window: width of what they see; None: from the beginning.
        sees_all: a seed of a type without times that is given none sees everything; it is refused
            otherwise.
    """

    name: str
    of_nodes: bool | None = None
    both: bool = False
    strict: bool = False
    window: float | int | None = None
    sees_all: bool = False


@dataclass(frozen=True, eq=False)
class DrawPlan:
    """Lists, weights and times that samples of a graph are drawn by, found once.

    Attributes:
        schema: types of the graph.
        lists: lists to follow, in the order in which a hop visits them.
        relations: the native lists, with their weights and times.
        times: the times to draw by, or None.
        node_times: times of nodes, by the node types that have them.
        times_dtype: dtype of all times, int64 or float64; None without times.
        time_unit: unit of the times, if they are the graph's own and were datetimes; else None.
    """

    schema: Schema
    lists: tuple[TypedLists, ...]
    relations: tuple[native.NativeRelation, ...]
    times: Times | None
    node_times: Mapping[str, Values]
    times_dtype: np.dtype[Any] | None
    time_unit: str | None
    #: Where values were looked for: tables, names, and the rows that were there.
    _looked_up: tuple[tuple[Rows, str, RowSource | None], ...] = ()

    @property
    def is_current(self) -> bool:
        """True if the graph has the attributes that were there when the plan was made."""
        return all(table.get(name) is rows for table, name, rows in self._looked_up)

    def engine(
        self, form: type[S], fanouts: Sequence[Sequence[int]], options: DrawOptions
    ) -> NativeEngine[S]:
        """Return an engine of this plan, with checked fanouts by lists and hop."""
        schema = self.schema
        return NativeEngine(form, self.relations, schema.counts, fanouts, options, schema.paging)

    def bounds(
        self, node_type: str, seeds: Ids, seed_time: ArrayLike | None, label: str = "seed_time"
    ) -> Bounds:
        """Return what the trees of seeds of one type may see, as int64 keys of times.

        Args:
            node_type: the type.
            seeds: the seeds [n], which exist.
            seed_time: [n], the time of each; None: the time of the seed itself.
            label: name of ``seed_time`` in messages.

        Raises:
            InvalidArgumentError: times that are missing, or given to a plan without times, or of
                another dtype or shape.
        """
        rule = self.times
        if seed_time is None and (rule is None or not len(seeds)):
            return _NO_BOUNDS
        times = self.node_times.get(node_type)
        if times is None and self.times_dtype is not None:
            if seed_time is None and rule is not None and rule.sees_all and self.node_times:
                return Bounds(None, np.full(len(seeds), _SEES_ALL))
            if seed_time is None:
                whose = "these seeds have no time" if self.node_times else (
                    "the times are those of edges"
                )  # fmt: skip
                raise InvalidArgumentError(f"{label} is needed: {whose}")
            times = Values(np.empty(0, self.times_dtype), None)
        if times is not None:
            times = times._replace(unit=self.time_unit)
        strict, window = (False, None) if rule is None else (rule.strict, rule.window)
        return seed_bounds(times, seeds, seed_time, strict=strict, window=window, name=label)


def lists_of(
    kinds: Iterable[EdgeType], layouts: Sequence[Literal["csc", "csr"]] = ("csc",)
) -> tuple[TypedLists, ...]:
    """Return the lists of edge types: all of them in one layout, then in the next."""
    kinds = tuple(kinds)
    return tuple(TypedLists(kind, layout) for layout in layouts for kind in kinds)


def make_plan(
    schema: Schema,
    all_lists: Sequence[TypedLists],
    weights: Weights | None = None,
    times: Times | None = None,
    *,
    is_sorted: bool = False,
) -> DrawPlan:
    """Find the lists, weights and times of a graph to draw by.

    Args:
        schema: types of the graph, and rows that stand before its own.
        all_lists: lists to follow, in the order in which a hop visits them.
        weights: weights to draw by, where edge types have them; None: uniformly.
        times: times to draw by, where types have them; None: everything is seen.
        is_sorted: skip the check that lists are sorted by time; the caller guarantees it.

    Raises:
        LayoutError: the graph does not store the lists of a lists.
        InvalidArgumentError: values that no type has or that are invalid, or a list that is not
            sorted by time (``position`` is its node).
    """
    looked_up = _look_up(schema, weights, times)  # before any value is read
    node_times = _find_node_times(schema, times)
    by_edges = times is not None and (times.both or not node_times)
    number = {name: i for i, name in enumerate(schema.node_types)}
    relations: list[native.NativeRelation] = []
    dtypes = {values.array.dtype for values in node_times.values()}
    weighted, timed, unit = False, bool(node_times), None
    for lists in all_lists:
        edges = schema.edges(lists.edge_type)
        drawn_by = None if weights is None else _find_weights(schema, lists, weights)
        seen_at = node_times.get(lists.far)
        label = f"{lists.edge_type}: " if schema.is_typed else ""
        if seen_at is not None and seen_at.rows is not None:
            seen_at = times_in_lists(seen_at, edges, lists.layout, label)
        if seen_at is None and times is not None and by_edges:
            seen_at = find_edge_times(schema, lists, times.name)
        weighted, timed = weighted or drawn_by is not None, timed or seen_at is not None
        relation = make_relation(
            edges, lists.layout, drawn_by, seen_at, number[lists.near], number[lists.far]
        )
        relations.append(relation)
        if seen_at is not None and times is not None:
            dtypes.add(seen_at.array.dtype)
            if not is_sorted:
                _check_sorted(schema, lists, times.name, relation, label)
    if weights is not None and not weighted:
        tables = [schema.edge_rows(kind) for kind in schema.edge_types]
        raise _unknown(weights.option, weights.name, "edge", tables)
    if times is not None:
        if not timed:
            tables = [schema.node_rows(node_type) for node_type in schema.node_types]
            tables += [schema.edge_rows(kind) for kind in schema.edge_types]
            raise _unknown("time_attr", times.name, "node or edge", tables)
        if len(dtypes) > 1:
            raise InvalidArgumentError(
                f"time_attr = {times.name!r} holds int64 in one type and float64 in another: use "
                "one of them"
            )
        if _is_own(schema, times.name):
            unit = schema.graph.time_unit
            _check_units(schema, times.name, unit)
    return DrawPlan(
        schema, tuple(all_lists), tuple(relations), times, node_times,
        next(iter(dtypes), None), unit, looked_up,
    )  # fmt: skip


def find_edge_times(schema: Schema, lists: TypedLists, name: str) -> Values | None:
    """Return the times called ``name`` of the edges in lists, or None."""
    kind = lists.edge_type
    values = topology_times(schema.edges(kind), lists.layout, name, schema.edge_attrs(kind))
    if values is not None:
        return values
    rows = schema.edge_rows(kind).get(name)
    if rows is None:
        return None
    return read_times(rows, name, schema.option("time_attr", name, kind), of_nodes=False)


def own_times(schema: Schema) -> set[str]:
    """Return which times a graph has, of ``"edge_time"`` and ``"node_time"``."""
    names = {name for kind in schema.node_types for name in schema.node_rows(kind)}
    names = {"node_time"} & names
    for kind in schema.edge_types:
        edges, rows = schema.edges(kind), schema.edge_rows(kind)
        if "edge_time" in rows or topology_times(edges, "csc", "edge_time", rows) is not None:
            names.add("edge_time")
    return names


def _look_up(
    schema: Schema, weights: Weights | None, times: Times | None
) -> tuple[tuple[Rows, str, RowSource | None], ...]:
    """Return where values are looked for, which tells when they are replaced."""
    if schema.is_live or (weights is None and times is None):
        return ()  # lists of a live graph keep their values, and its attributes are of commits
    of_edges = [schema.edge_attrs(kind) for kind in schema.edge_types]
    of_nodes = [schema.node_attrs(node_type) for node_type in schema.node_types]
    places: list[tuple[str, list[Rows]]] = []
    if weights is not None:
        places.append((weights.name, of_edges))
    if times is not None:
        places.append((times.name, of_edges + of_nodes))
    return tuple((table, name, table.get(name)) for name, tables in places for table in tables)


def _find_node_times(schema: Schema, times: Times | None) -> dict[str, Values]:
    """Return the times of the nodes of every type that has them."""
    if times is None or times.of_nodes is False:
        return {}
    name, by_type = times.name, {}
    for node_type in schema.node_types:
        rows = schema.node_rows(node_type).get(name)
        if rows is not None:
            label = schema.option("time_attr", name, node_type)
            by_type[node_type] = read_times(rows, name, label, of_nodes=True)
    return by_type


def _find_weights(schema: Schema, lists: TypedLists, weights: Weights) -> Values | None:
    """Return the weights of the edges in lists, or None."""
    edges, name = schema.edges(lists.edge_type), weights.name
    values = topology_weights(edges, lists.layout, name, schema.edge_attrs(lists.edge_type))
    rows = schema.edge_rows(lists.edge_type)
    if values is not None or name not in rows:
        return values
    column = rows[name]
    if weights.masks != "refused" and column.dtype_name == "bool" and column.ndim == 1:
        return Values(all_rows(column).astype(np.float32), None)
    if weights.masks == "required":
        raise InvalidArgumentError(
            f"{weights.option} = {name!r} of {lists.edge_type} holds {column.dtype_name}: a mask "
            "is bool; for weights take prob"
        )
    label = schema.option(weights.option, name, lists.edge_type)
    return read_weights(column, label)


def _check_sorted(
    schema: Schema, lists: TypedLists, name: str, relation: native.NativeRelation, label: str
) -> None:
    """Raise unless all lists are sorted by their times."""
    attrs: Rows
    if relation.node_times:
        is_own, attrs = name == "node_time", schema.node_attrs(lists.far)
    else:
        is_own, attrs = name == "edge_time", schema.edge_attrs(lists.edge_type)
    known_as = name if is_own and name not in attrs else None
    require_sorted(label, schema.edges(lists.edge_type), lists.layout, name, known_as, relation)


def _is_own(schema: Schema, name: str) -> bool:
    """Return whether times are the graph's own: no attribute has their name."""
    return not any(
        name in table
        for table in (
            *map(schema.node_attrs, schema.node_types), *map(schema.edge_attrs, schema.edge_types)
        )
    )  # fmt: skip


def _check_units(schema: Schema, name: str, unit: str | None) -> None:
    """Raise unless all types that have the graph's own times have them in its unit.

    Raises:
        InvalidArgumentError: a type has them in another, and they would be compared as numbers.
    """
    typed = schema.typed
    units: dict[Any, str | None] = {
        kind: typed[kind].time_unit for kind in schema.node_types if name in schema.node_rows(kind)
    }
    units |= {
        kind: typed[kind].time_unit for kind in schema.edge_types if name in schema.edge_rows(kind)
    }
    for kind, of_kind in units.items():
        if of_kind != unit:
            raise InvalidArgumentError(
                f"times of {kind!r} are in {of_kind!r}, those of the graph in {unit!r}: give all "
                "in one unit"
            )


def _unknown(option: str, name: str, noun: str, tables: Iterable[Rows]) -> InvalidArgumentError:
    known = ", ".join(sorted({repr(known) for table in tables for known in table})) or "none"
    return InvalidArgumentError(f"{option} = {name!r} is no {noun} attribute; there are: {known}")
