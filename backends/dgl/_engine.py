"""Lists of all edge types of a graph, with the weights and times to draw by, and their engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from aethergraph import _native as native
from aethergraph.dgl._schema import Schema
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.features.sources import all_rows
from aethergraph.graph.ids import check_ids
from aethergraph.sampling.engine import AnyGraph, DrawOptions, NativeEngine, SampleEngine
from aethergraph.sampling.values import (
    Values,
    find_times,
    find_weights,
    make_relation,
    require_sorted,
    seed_bounds,
    topology_times,
    topology_weights,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph import EdgeType
    from aethergraph.protocols import RowSource

__all__ = ["Fanouts", "Lists", "TimesOf", "Walk", "Walks", "edge_ends", "make_lists"]

Ids: TypeAlias = "NDArray[np.int64]"
#: Fanouts by edge type, in the graph's order, and hop from the seeds.
Fanouts: TypeAlias = "tuple[tuple[int, ...], ...]"
S = TypeVar("S", bound=native.NativeSample | native.NativeLayers)

_NONE = np.empty(0, np.int64)

#: Most walks that are kept for further calls with equal options.
_KEPT_WALKS = 16


class TimesOf(NamedTuple):
    """Name of the times to draw by; ``of_nodes`` None: of nodes if any have it, else of edges."""

    name: str
    of_nodes: bool | None = None


class Lists(NamedTuple):
    """Lists of one direction of a graph, with the weights and times to draw by."""

    schema: Schema
    layout: Literal["csc", "csr"]
    relations: tuple[native.NativeRelation, ...]
    node_times: dict[str, Values]
    edge_times: NDArray[Any] | None
    #: Unit of the times, if they are the graph's own and were datetimes.
    time_unit: str | None = None
    #: Where the values were looked for: tables, names, and the rows that were there.
    looked_up: tuple[tuple[Mapping[str, RowSource], str, RowSource | None], ...] = ()

    def are_current(self) -> bool:
        """Return whether the graph has the attributes that were there when these were made."""
        return all(table.get(name) is rows for table, name, rows in self.looked_up)


def make_lists(
    schema: Schema,
    layout: Literal["csc", "csr"] = "csc",
    *,
    prob: str | None = None,
    mask: str | None = None,
    times: TimesOf | None = None,
) -> Lists:
    """Find the lists, weights and times to draw by.

    Raises:
        LayoutError: the graph does not store that direction.
        InvalidArgumentError: values that no type has, are invalid, or that lists are not sorted
            by.
    """
    number = {name: i for i, name in enumerate(schema.own_ntypes)}
    time_attr = None if times is None else times.name
    looked_up = _look_up(schema, prob, mask, time_attr)  # before any is read
    of_edges = times is not None and times.of_nodes is False
    times_of = {} if of_edges else _find_node_times(schema, time_attr)
    relations, edge_times = [], None
    weighted = timed = False
    unit = schema.graph.time_unit
    for kind in schema.own_etypes:
        edges, rows = schema.edges(kind), schema.edge_rows(kind)
        weights = topology_weights(edges, layout, prob)
        if weights is None:
            weights = _find_weights(rows, prob, mask, kind)
        own_times = times_of.get(kind[0])
        if not times_of:
            own_times = topology_times(edges, layout, time_attr)
            if own_times is None and time_attr is not None and time_attr in rows:
                own_times = find_times(time_attr, rows, {})
            edge_times = edge_times if own_times is None else own_times.array
        weighted, timed = weighted or weights is not None, timed or own_times is not None
        source, to = number[kind[2]], number[kind[0]]
        if layout == "csr":
            source, to = to, source
        relation = make_relation(edges, layout, weights, own_times, source, to)
        if own_times is not None:
            assert time_attr is not None
            own = schema.own_times(kind, own_times.of_nodes)
            unit = unit if time_attr == own else None
            own = time_attr if time_attr == own else None
            require_sorted(f"{kind}: ", edges, layout, time_attr, own, relation)
        relations.append(relation)
    wanted = (("prob", prob, weighted), ("mask", mask, weighted), ("time_attr", time_attr, timed))
    for option, name, found in wanted:
        if name is not None and not found:
            known = sorted({n for kind in schema.own_etypes for n in schema.edge_rows(kind)})
            names = ", ".join(map(repr, known)) or "none"
            raise InvalidArgumentError(
                f"{option} = {name!r} is no edge attribute; there are: {names}"
            )
    return Lists(schema, layout, tuple(relations), times_of, edge_times, unit, looked_up)


def _look_up(
    schema: Schema, prob: str | None, mask: str | None, time_attr: str | None
) -> tuple[tuple[Mapping[str, RowSource], str, RowSource | None], ...]:
    if schema.graph.is_live:  # its lists keep their values, and its attributes are of commits
        return ()
    of_edges = [schema.edges(kind).edge_attrs for kind in schema.own_etypes]
    of_nodes = [schema.node_attrs(ntype) for ntype in schema.own_ntypes]
    places = ((prob, of_edges), (mask, of_edges), (time_attr, of_edges + of_nodes))
    return tuple(
        (table, name, table.get(name))
        for name, tables in places
        if name is not None
        for table in tables
    )


def _find_weights(
    rows: dict[str, RowSource], prob: str | None, mask: str | None, kind: EdgeType
) -> Values | None:
    name = mask if prob is None else prob
    if name is None or name not in rows:
        return None
    store = rows[name]
    if store.dtype_name == "bool" and store.ndim == 1:
        return Values(all_rows(store).astype(np.float32), None)
    if mask is not None:
        raise InvalidArgumentError(
            f"mask = {name!r} of {kind} holds {store.dtype_name}: a mask is bool; for weights take "
            "prob"
        )
    return find_weights(name, rows)


def _find_node_times(schema: Schema, name: str | None) -> dict[str, Values]:
    if name is None:
        return {}
    rows = {ntype: schema.node_rows(ntype) for ntype in schema.own_ntypes}
    return {ntype: find_times(name, {}, own) for ntype, own in rows.items() if name in own}


class Walk(Generic[S]):
    """Samples of lists: their seeds, times and excluded edges read, and an engine that draws.

    Args:
        form: form of the samples; ``NativeLayers`` with ``layered`` options only.
        lists: lists to sample, and the values to draw by.
        fanouts: checked fanouts by edge type and hop.
        options: options of the draws.
        strict: see only times below those of the seeds.
        window: see no times further back than this.
    """

    def __init__(
        self,
        form: type[S],
        lists: Lists,
        fanouts: Fanouts,
        options: DrawOptions,
        *,
        strict: bool = True,
        window: float | int | None = None,
    ) -> None:
        schema = lists.schema
        self.lists = lists
        self._strict = strict
        self._window = window
        self._counts = {name: schema.num_nodes(name) for name in schema.own_ntypes}
        #: Maker of the samples.
        self.engine: SampleEngine[S] = NativeEngine(
            form,
            lists.relations,
            list(self._counts.values()),
            fanouts,
            options,
            schema.graph.paging,
        )

    def sample(
        self,
        seeds: Mapping[str, Ids],
        key: int,
        *,
        exclude: Mapping[EdgeType, Ids] | None = None,
        seed_time: Mapping[str, NDArray[Any]] | None = None,
    ) -> S:
        """Sample around ``seeds``; edges have the graph's own ids.

        Raises:
            OutOfRangeError: the first seed that is no node, with its type and position.
        """
        return self.draw(self.prepare(seeds, key, exclude=exclude, seed_time=seed_time))

    def prepare(
        self,
        seeds: Mapping[str, Ids],
        key: int,
        *,
        exclude: Mapping[EdgeType, Ids] | None = None,
        seed_time: Mapping[str, NDArray[Any]] | None = None,
    ) -> native.NativeBatch:
        """Return the arguments of :meth:`sample` for :meth:`draw`, or for :meth:`check`."""
        schema = self.lists.schema
        ids = [seeds.get(name, _NONE) for name in self._counts]
        since = until = None
        if self.lists.node_times or self.lists.edge_times is not None:
            pairs = [
                self._bounds(name, own, seed_time or {})
                for name, own in zip(self._counts, ids, strict=True)
            ]
            since, until = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        places = at = None
        if exclude:  # positions are those of one commit, which is drawn from
            graph = schema.graph.pinned()
            places = [self._places(graph, kind, exclude) for kind in schema.own_etypes]
            at = self.engine.pin(graph)
        return native.NativeBatch(ids, key, since, until, places, at)

    def draw(self, batch: native.NativeBatch) -> S:
        """Draw the sample of one batch by itself."""
        try:
            return self.engine.draw(batch)
        except OutOfRangeError:
            self.check(batch)  # the core knows no names of types
            raise

    def check(self, batch: native.NativeBatch) -> None:
        """Raise unless all seeds are nodes: for a batch that is to be drawn with others.

        Raises:
            OutOfRangeError: the first seed that is no node, with its type and position.
        """
        schema = self.lists.schema
        for (name, count), own in zip(self._counts.items(), batch.seeds, strict=True):
            now = schema.num_nodes(name) if schema.graph.is_live else count
            check_ids(own, now, "nodes" if len(self._counts) == 1 else f"nodes[{name!r}]")

    def _bounds(
        self, name: str, seeds: Ids, seed_time: Mapping[str, NDArray[Any]]
    ) -> tuple[Ids | None, Ids | None]:
        lists = self.lists
        times = lists.node_times.get(name)
        if not len(seeds):
            return None, None
        if times is None and lists.edge_times is None:
            # A type without times has bounds only where they are given; all times are of one dtype.
            times = next(iter(lists.node_times.values()))
            if name not in seed_time:  # a bound that all are below: "last" is among what has one
                return None, np.full(len(seeds), np.iinfo(np.int64).max)
        if times is None:
            assert lists.edge_times is not None
            if name not in seed_time:
                raise InvalidArgumentError(
                    f"seed_time of {name!r} is needed: the times are those of edges"
                )
            times = Values(lists.edge_times, None)
        own = times._replace(unit=lists.time_unit)
        return seed_bounds(
            own, seeds, seed_time.get(name), strict=self._strict, window=self._window
        )

    def _places(
        self, graph: AnyGraph, kind: EdgeType, exclude: Mapping[EdgeType, Ids]
    ) -> Ids | None:
        """Return the positions of edges in the lists, ascending."""
        if kind not in exclude or not len(exclude[kind]):
            return None
        edges = np.unique(exclude[kind])
        edges_of = graph[kind] if graph.is_typed else graph
        return edges_of.edge_positions(edges, self.lists.layout)


class Walks:
    """Cache of walks over a graph, by their options.

    Args:
        schema: the graph.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._lists: dict[Any, Lists] = {}
        self._walks: dict[Any, Walk[Any]] = {}

    def get(
        self,
        form: type[S],
        fanouts: Fanouts,
        options: DrawOptions,
        layout: Literal["csc", "csr"] = "csc",
        *,
        prob: str | None = None,
        times: TimesOf | None = None,
    ) -> Walk[S]:
        """Return a walk, made at its first use and when an attribute that it draws by is replaced.

        Raises:
            LayoutError, InvalidArgumentError: as :func:`make_lists`.
        """
        drawn_by = layout, prob, times
        name = form, fanouts, options, drawn_by
        lists = self._lists.get(drawn_by)
        if lists is None or not lists.are_current():
            lists = make_lists(self._schema, layout, prob=prob, times=times)
            self._lists[drawn_by] = lists
        walk = self._walks.get(name)
        if walk is None or walk.lists is not lists:
            if len(self._walks) >= _KEPT_WALKS:
                self._walks.clear()
            walk = self._walks[name] = Walk(form, lists, fanouts, options)
        return walk


def edge_ends(schema: Schema, kind: EdgeType, edges: Ids) -> tuple[Ids, Ids]:
    """Return source and destination of the graph's own edge ids."""
    return schema.edges(kind).edge_ends(edges)
