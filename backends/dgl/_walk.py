"""Native sampler over all edge types of a graph, with the weights and times to draw by."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from aethergraph import _binding as native
from aethergraph._parts import name_id
from aethergraph.dgl._schema import Schema
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.sampling.values import (
    Values,
    find_times,
    find_weights,
    make_relation,
    require_sorted,
    seed_bounds,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.features import FeatureStore
    from aethergraph.hetero import EdgeType

__all__ = ["Lists", "Options", "TimesOf", "Walk", "Walks", "edge_ends", "make_lists"]

Ids: TypeAlias = "NDArray[np.int64]"

_NONE = np.empty(0, np.int64)

#: Most walks that are kept for further calls with equal options.
_KEPT_WALKS = 16


class Options(NamedTuple):
    """Options of a walk; ``fanouts`` by edge type, in the graph's order, and hop from the seeds."""

    fanouts: tuple[tuple[int, ...], ...]
    replace: bool = False
    disjoint: bool = False
    induced: bool = False
    latest: bool = False
    layered: bool = False
    num_threads: int = 1

    @property
    def flags(self) -> int:
        """Flags of the native sampler."""
        return (
            native.SAMPLE_REPLACE * self.replace
            | native.SAMPLE_DISJOINT * self.disjoint
            | native.SAMPLE_INDUCED * self.induced
            | native.SAMPLE_LATEST * self.latest
            | native.SAMPLE_LAYERED * self.layered
        )


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
    of_edges = times is not None and times.of_nodes is False
    times_of = {} if of_edges else _find_node_times(schema, time_attr)
    relations, edge_times = [], None
    weighted = timed = False
    unit = schema.graph.time_unit
    for kind in schema.own_etypes:
        rows = schema.edge_rows(kind)
        weights = _find_weights(rows, prob, mask, kind)
        own_times = times_of.get(kind[0])
        if time_attr is not None and not times_of and time_attr in rows:
            own_times = find_times(time_attr, rows, {})
            edge_times = own_times.array
        weighted, timed = weighted or weights is not None, timed or own_times is not None
        source, to = number[kind[2]], number[kind[0]]
        if layout == "csr":
            source, to = to, source
        edges: Any = schema.edges(kind)
        relation = make_relation(edges, layout, weights, own_times, source, to)
        if own_times is not None:
            assert time_attr is not None
            own = schema.own_times(kind, own_times.of_nodes)
            unit = unit if time_attr == own else None
            require_sorted(
                f"{kind}: ", edges, time_attr, time_attr if time_attr == own else None, relation
            )
        relations.append(relation)
    wanted = (("prob", prob, weighted), ("mask", mask, weighted), ("time_attr", time_attr, timed))
    for option, name, found in wanted:
        if name is not None and not found:
            known = sorted({n for kind in schema.own_etypes for n in schema.edge_rows(kind)})
            names = ", ".join(map(repr, known)) or "none"
            raise InvalidArgumentError(
                f"{option} = {name!r} is no edge attribute; there are: {names}"
            )
    return Lists(schema, layout, tuple(relations), times_of, edge_times, unit)


def _find_weights(
    rows: dict[str, FeatureStore], prob: str | None, mask: str | None, kind: EdgeType
) -> Values | None:
    name = mask if prob is None else prob
    if name is None or name not in rows:
        return None
    store = rows[name]
    if store.dtype_name == "bool" and store.ndim == 1:
        return Values(store.array.astype(np.float32), None)
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


class Walk:
    """Native samplers over lists, one per thread at work.

    Args:
        lists: lists to sample, and the values to draw by.
        options: options of the native samplers.
        strict: see only times below those of the seeds.
        window: see no times further back than this.
    """

    def __init__(
        self,
        lists: Lists,
        options: Options,
        *,
        strict: bool = True,
        window: float | int | None = None,
    ) -> None:
        self.lists = lists
        self.options = options
        self._strict = strict
        self._window = window
        # append and pop of a deque are atomic: no lock, so none that a fork could leave held.
        self._idle: deque[native.NativeSampler] = deque()

    def sample(
        self,
        seeds: Mapping[str, Ids],
        key: int,
        *,
        exclude: Mapping[EdgeType, Ids] | None = None,
        seed_time: Mapping[str, NDArray[Any]] | None = None,
    ) -> native.NativeSample:
        """Sample around ``seeds``; edges have the graph's own ids.

        Raises:
            OutOfRangeError: the first seed that is no node, with its type and position.
        """
        ids, bounds, places = self._arguments(seeds, exclude, seed_time)
        with self._sampler(ids) as sampler:
            return sampler.sample(ids, key, *bounds, places)

    def sample_layers(
        self,
        seeds: Mapping[str, Ids],
        key: int,
        *,
        exclude: Mapping[EdgeType, Ids] | None = None,
        seed_time: Mapping[str, NDArray[Any]] | None = None,
    ) -> native.NativeLayers:
        """Sample around ``seeds`` in compressed form; needs ``layered`` options."""
        ids, bounds, places = self._arguments(seeds, exclude, seed_time)
        with self._sampler(ids) as sampler:
            return sampler.sample_layers(ids, key, *bounds, places)

    def _arguments(
        self,
        seeds: Mapping[str, Ids],
        exclude: Mapping[EdgeType, Ids] | None,
        seed_time: Mapping[str, NDArray[Any]] | None,
    ) -> tuple[list[Ids], tuple[Any, Any], list[Ids | None] | None]:
        """Return seeds by type, time bounds and excluded positions, for the native sampler."""
        schema = self.lists.schema
        ids = [seeds.get(name, _NONE) for name in schema.own_ntypes]
        bounds: tuple[Any, Any] = (None, None)
        if self.lists.node_times or self.lists.edge_times is not None:
            pairs = [
                self._bounds(name, own, seed_time or {})
                for name, own in zip(schema.own_ntypes, ids, strict=True)
            ]
            bounds = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        places = (
            None if not exclude else [self._places(kind, exclude) for kind in schema.own_etypes]
        )
        return ids, bounds, places

    @contextmanager
    def _sampler(self, ids: list[Ids]) -> Iterator[native.NativeSampler]:
        """Lend a native sampler for a call; its errors name the seed."""
        try:
            sampler = self._idle.pop()
        except IndexError:
            schema = self.lists.schema
            sampler = native.NativeSampler(
                self.lists.relations,
                [schema.num_nodes(name) for name in schema.own_ntypes],
                self.options.fanouts,
                self.options.flags,
                self.options.num_threads,
            )
        try:
            yield sampler
        except OutOfRangeError as error:
            raise self._name_seed(error, ids) from None
        finally:
            self._idle.append(sampler)

    def _bounds(
        self, name: str, seeds: Ids, seed_time: Mapping[str, NDArray[Any]]
    ) -> tuple[Ids | None, Ids | None]:
        lists = self.lists
        times = lists.node_times.get(name)
        timed = times is not None or lists.edge_times is not None
        if not len(seeds) or not (timed or (lists.node_times and name in seed_time)):
            return None, None
        if times is None and lists.edge_times is None:
            # A type without times has bounds only where they are given; all times are of one dtype.
            times = next(iter(lists.node_times.values()))
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

    def _places(self, kind: EdgeType, exclude: Mapping[EdgeType, Ids]) -> Ids | None:
        """Return the positions of edges in the lists, ascending."""
        if kind not in exclude or not len(exclude[kind]):
            return None
        edges = np.unique(exclude[kind])
        relation = self.lists.relations[self.lists.schema.own_etypes.index(kind)]
        names = None
        if self.lists.layout == "csr":
            names = self.lists.schema.edges(kind).csr()[2]
        if names is None:
            return edges
        src, dst = edge_ends(self.lists.schema, kind, edges)
        hits = np.unique(relation.topology.find(src, dst)[1])
        return hits[np.isin(names[hits], edges)]

    def _name_seed(self, error: OutOfRangeError, ids: list[Ids]) -> OutOfRangeError:
        schema = self.lists.schema
        for name, own in zip(schema.own_ntypes, ids, strict=True):
            count = schema.num_nodes(name)
            outside = np.flatnonzero((own < 0) | (own >= count))
            if len(outside):
                at = int(outside[0])
                label = "nodes" if len(schema.ntypes) == 1 else f"nodes[{name!r}]"
                return name_id(OutOfRangeError("", position=at, value=int(own[at])), label, count)
        return error


class Walks:
    """Cache of walks over a graph, by their options.

    Args:
        schema: the graph.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._lists: dict[Any, Lists] = {}
        self._walks: dict[Any, Walk] = {}

    def get(
        self,
        options: Options,
        layout: Literal["csc", "csr"] = "csc",
        *,
        prob: str | None = None,
        times: TimesOf | None = None,
    ) -> Walk:
        """Return a walk, made at its first use.

        Raises:
            LayoutError, InvalidArgumentError: as :func:`make_lists`.
        """
        drawn_by = layout, prob, times
        walk = self._walks.get((options, drawn_by))
        if walk is None:
            if drawn_by not in self._lists:
                self._lists[drawn_by] = make_lists(self._schema, layout, prob=prob, times=times)
            if len(self._walks) >= _KEPT_WALKS:
                self._walks.clear()
            walk = self._walks[options, drawn_by] = Walk(self._lists[drawn_by], options)
        return walk


def edge_ends(schema: Schema, kind: EdgeType, edges: Ids) -> tuple[Ids, Ids]:
    """Return source and destination of the graph's own edge ids, unchecked."""
    adjacency = schema.edges(kind)
    if adjacency.layout == "csr":
        indptr, indices, _ = adjacency.csr()
    else:
        indptr, indices = adjacency.csc()
    major = np.searchsorted(indptr, edges.astype(np.uint64), side="right").astype(np.int64) - 1
    minor = indices[edges].astype(np.int64)
    return (major, minor) if adjacency.layout == "csr" else (minor, major)
