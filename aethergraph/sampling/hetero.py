"""HeteroNeighborSampler: typed subgraphs around typed seeds, one native call per subgraph."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids
from aethergraph._checks.options import as_flag, as_items, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph import EdgeType, HeteroGraph
from aethergraph.graph.ids import check_ids
from aethergraph.sampling._misuse import not_a_graph
from aethergraph.sampling.base import (
    SamplerBase,
    SubgraphType,
    TemporalStrategy,
    as_excluded,
)
from aethergraph.sampling.batch_arguments import align_batches
from aethergraph.sampling.directions import (
    LAYOUTS,
    SampleDirection,
    Way,
    check_direction,
    join_ways,
)
from aethergraph.sampling.fanouts import typed_fanouts
from aethergraph.sampling.subgraph import to_bidirectional_typed
from aethergraph.sampling.typed_arguments import check_types
from aethergraph.sampling.typed_times import one_dtype, own_unit, times_of_nodes, typed_bounds
from aethergraph.sampling.values import (
    Bounds,
    Values,
    check_sorted_relation,
    find_times,
    find_weights,
    make_relation,
    topology_times,
    topology_weights,
)

__all__ = ["HeteroNeighborSampler", "HeteroSubgraph"]

Ids = NDArray[np.int64]
_NO_SEEDS = np.empty(0, np.int64)
Fanouts = Mapping[EdgeType, Sequence[int] | NDArray[Any]] | Sequence[int] | NDArray[Any]


@dataclass(frozen=True, eq=False)
class HeteroSubgraph:
    """Sampled typed subgraph; local ids count from 0 in every node type.

    All node types and edge types of the graph are keys, with empty arrays for types of which
    nothing was sampled. The arrays are those of :class:`aethergraph.Subgraph`, by type.

    Attributes:
        node: int64 [N] by node type, global ids, the seeds of that type first.
        row: int64 [E] by edge type, local ids of the sources.
        col: int64 [E] by edge type, local ids of the destinations.
        edge: int64 [E] by edge type, global edge ids.
        batch: int64 [N] by node type, the seed that each node was sampled for; only if disjoint.
            Seeds are numbered through the node types in the graph's order.
        num_sampled_nodes: by node type, new nodes per hop (len hops + 1); None for bidirectional
            samples.
        num_sampled_edges: by edge type, edges per hop; None for bidirectional and induced samples.
    """

    node: dict[str, Ids]
    row: dict[EdgeType, Ids]
    col: dict[EdgeType, Ids]
    edge: dict[EdgeType, Ids]
    batch: dict[str, Ids] | None = None
    num_sampled_nodes: dict[str, list[int]] | None = None
    num_sampled_edges: dict[EdgeType, list[int]] | None = None

    def __repr__(self) -> str:
        nodes = {name: len(ids) for name, ids in self.node.items()}
        edges = {kind: len(ids) for kind, ids in self.row.items()}
        return f"HeteroSubgraph(nodes={nodes}, edges={edges})"


class HeteroNeighborSampler(SamplerBase):
    """Sampler of neighbours, hop by hop through all edge types of a graph.

    ::

        sampler = HeteroNeighborSampler(graph, {("user", "votes", "post"): [15, 10], ...})
        sub = sampler.sample({"post": [3, 4]}, key=7)
        sub.node["user"], sub.row["user", "votes", "post"]

    In every hop the edge types take turns in the graph's order; each expands the nodes of its
    destination type that the previous hop added. So an edge type whose destination type is never
    reached contributes nothing, as in PyG's ``NeighborLoader``.

    The neighbours drawn for a node depend only on (key, hop, edge type, node) and on the graph (and
    on the seed if ``disjoint``). The first edge type draws what a ``NeighborSampler`` over it
    would.

    Args:
        graph: a graph that stores the neighbours to follow (for ``"forward"`` layout "csc" or
            "both").
        fanouts: by edge type, a number per hop; missing types are not followed. Or one list for
            all types.
        replace: see :class:`aethergraph.NeighborSampler`.
        disjoint: see :class:`aethergraph.NeighborSampler`.
        subgraph_type: see :class:`aethergraph.NeighborSampler`.
        num_threads: see :class:`aethergraph.NeighborSampler`.
        seed: see :class:`aethergraph.NeighborSampler`.
        weight_attr: draw by these weights in edge types that have them, uniformly in others.
        time_attr: follow only edges that a seed may know. The times are those of nodes if a node
            type has them, else of edges. Types without these times are always visible.
        temporal_strategy: see :class:`aethergraph.NeighborSampler`.
        strict: see :class:`aethergraph.NeighborSampler`.
        window: see :class:`aethergraph.NeighborSampler`.
        is_sorted: see :class:`aethergraph.NeighborSampler`.
        layered: see :class:`aethergraph.NeighborSampler`.
        sample_direction: ``"forward"`` follows edges from destination to source, so that messages
            reach the seeds. ``"backward"`` follows them from source to destination: an edge type
            contributes if its source type is reached. ``"both"`` draws in-edges and as many
            out-edges of every node (all types forward, then all backward); an edge drawn at both
            ends, or more than once (``replace``), occurs once, for a repeated seed once for each
            copy that it leads to, and edges are ordered by hop but not by ``col``. ``row`` and
            ``col`` are source and destination in all three. The last two need out-neighbours
            (layout "csr" or "both"). They refuse ``time_attr``, since only lists of in-edges are
            sorted by time, and ``layered``.

    Raises:
        LayoutError: the graph does not store the neighbours to follow.
        InvalidArgumentError: an argument is invalid, a weight is negative or not finite, or a list
            is not sorted by time.
    """

    def __init__(
        self,
        graph: HeteroGraph,
        fanouts: Fanouts,
        *,
        replace: bool = False,
        disjoint: bool = False,
        subgraph_type: SubgraphType = "directional",
        num_threads: int = 1,
        seed: int = 0,
        weight_attr: str | None = None,
        time_attr: str | None = None,
        temporal_strategy: TemporalStrategy = "uniform",
        strict: bool = False,
        window: float | int | None = None,
        is_sorted: bool = False,
        layered: bool = False,
        sample_direction: SampleDirection = "forward",
    ) -> None:
        if not isinstance(graph, HeteroGraph):
            raise not_a_graph(graph, "HeteroGraph", "HeteroNeighborSampler")
        self._set_options(
            replace=replace, disjoint=disjoint, subgraph_type=subgraph_type,
            num_threads=num_threads, seed=seed, weight_attr=weight_attr, time_attr=time_attr,
            temporal_strategy=temporal_strategy, strict=strict, window=window, layered=layered,
        )  # fmt: skip
        check_direction(sample_direction)
        if sample_direction != "forward" and (time_attr is not None or layered):
            raise InvalidArgumentError(
                f"sample_direction = {sample_direction!r} goes without time_attr and layered"
            )
        self.sample_direction: SampleDirection = sample_direction
        self.graph = graph
        self.fanouts = typed_fanouts(fanouts, graph.edge_types)
        self._types = graph.node_types
        self._kinds = graph.edge_types
        self._counts = graph.num_nodes
        self._seed_times = times_of_nodes(graph, time_attr)
        layouts = LAYOUTS[sample_direction]
        relations = _relations(graph, layouts, weight_attr, time_attr, bool(self._seed_times))
        if not as_flag(is_sorted, "is_sorted") and time_attr is not None:
            for kind, relation in zip(self._kinds, relations, strict=True):
                check_sorted_relation(f"{kind}", graph[kind], "csc", time_attr, relation)
        self._edge_times = one_dtype(relations, self._seed_times, time_attr)
        self._time_unit = own_unit(graph, time_attr)
        fanouts_of = [self.fanouts[kind] for kind in self._kinds] * len(layouts)
        self._set_engine(relations, list(self._counts.values()), fanouts_of, graph.paging)

    @property
    def num_hops(self) -> int:
        """Number of hops."""
        return max((len(row) for row in self.fanouts.values()), default=0)

    def sample(
        self,
        seeds: Mapping[str, ArrayLike],
        key: int | None = None,
        *,
        seed_time: Mapping[str, ArrayLike] | None = None,
        exclude: Mapping[EdgeType, ArrayLike] | None = None,
    ) -> HeteroSubgraph:
        """Draw the subgraph around ``seeds``.

        Args:
            seeds: by node type an integer vector, which may be empty or hold duplicates.
            key: decides all draws; see :meth:`aethergraph.NeighborSampler.sample`.
            seed_time: by node type [n], with ``time_attr``: the latest time that each seed's tree
                may see. Missing types take the time of the seed node itself.
            exclude: by edge type, ids of edges that the sample must not hold.

        Raises:
            OutOfRangeError: a seed is not a node, or an edge does not exist; names the first one,
                its type and its position.
        """
        return self.finish(self.engine.draw(self.prepare(seeds, key, seed_time, exclude)))

    def sample_many(
        self,
        seeds: Iterable[Mapping[str, ArrayLike]],
        keys: Iterable[int] | None = None,
        *,
        seed_time: Iterable[Mapping[str, ArrayLike] | None] | None = None,
        exclude: Iterable[Mapping[EdgeType, ArrayLike] | None] | None = None,
    ) -> Iterator[HeteroSubgraph]:
        """Draw the subgraphs of many batches, in order, each equal to that of :meth:`sample`.

        See :meth:`aethergraph.NeighborSampler.sample_many`.
        """
        call_key = 0 if keys is not None else self._number(None)
        calls = align_batches(seeds, keys, call_key, seed_time=seed_time, exclude=exclude)
        batches = itertools.starmap(self.prepare, calls)
        return map(self.finish, self.engine.draw_many(batches))

    def prepare(
        self,
        seeds: Mapping[str, ArrayLike],
        key: int | None = None,
        seed_time: Mapping[str, ArrayLike] | None = None,
        exclude: Mapping[EdgeType, ArrayLike] | None = None,
        place: str = "",
    ) -> native.NativeBatch:
        """Check the arguments of :meth:`sample` and return them for the ``engine``.

        ``place`` identifies one of several calls in messages: ``"[2]"`` is the third.
        """
        seed_time = {} if seed_time is None else seed_time
        check_types(seeds, f"seeds{place}", self._types)
        check_types(seed_time, f"seed_time{place}", self._types)
        if self.graph.is_live:
            self._counts = self.graph.num_nodes
        ids: list[Ids] = []
        since: list[Ids | None] = []
        until: list[Ids | None] = []
        for name in self._types:
            own, bounds = _NO_SEEDS, Bounds(None, None)
            if name in seeds:
                own = as_ids(seeds[name], f"seeds{place}[{name!r}]")
                check_ids(own, self._counts[name], f"seeds{place}[{name!r}]")
                bounds = self.bounds(name, own, seed_time.get(name), place)
            ids.append(own)
            since.append(bounds.since)
            until.append(bounds.until)
        out = at = None
        if exclude is not None:  # positions are those of one commit, which is drawn from
            graph = self.graph.pinned()
            out, at = self._excluded(graph, exclude, place), self.engine.pin(graph)
        return native.NativeBatch(ids, self._number(key), since, until, out, at)

    @property
    def time_unit(self) -> str | None:
        """Unit of the times, if they are the graph's own and were datetimes; else None."""
        return self._time_unit

    @property
    def times_dtype(self) -> np.dtype[Any] | None:
        """Dtype of the times, int64 or float64; None without times."""
        if self._edge_times is not None:
            return self._edge_times.dtype
        return next((times.array.dtype for times in self._seed_times.values()), None)

    def node_times(self, name: str) -> Values | None:
        """Return the times of the nodes of a type, or None."""
        return self._seed_times.get(name)

    def bounds(self, name: str, seeds: Ids, seed_time: ArrayLike | None, place: str = "") -> Bounds:
        """Return the times that the trees of seeds of type ``name`` may see, as int64 keys."""
        label = f"seed_time{place}[{name!r}]"
        return typed_bounds(
            self._seed_times.get(name), self._edge_times, self._time_unit, seeds, seed_time, label,
            strict=self.strict, window=self.window,
        )  # fmt: skip

    def _excluded(
        self, graph: HeteroGraph, exclude: Mapping[EdgeType, ArrayLike], place: str
    ) -> list[Ids | None]:
        for kind, _ in as_items(exclude, f"exclude{place}", "edges"):
            if kind not in self._kinds:
                known = ", ".join(map(repr, self._kinds)) or "none"
                raise InvalidArgumentError(
                    f"exclude{place}: {shown(kind)} is no edge type; there are: {known}"
                )
        first = LAYOUTS[self.sample_direction][0]
        ids = {
            kind: as_excluded(
                edges, graph[kind].topology(first).end_edge_ids, f"exclude{place}[{kind!r}]"
            )
            for kind, edges in exclude.items()
        }
        return [
            graph[kind].edge_positions(ids[kind], layout) if kind in ids else None
            for layout in LAYOUTS[self.sample_direction]
            for kind in self._kinds
        ]

    def turn(self, found: native.NativeSample) -> native.NativeSample:
        """Join the directions of each edge type; ``row`` becomes source, ``col`` destination."""
        if self.sample_direction == "forward":
            return found
        if self.sample_direction == "backward":
            return found._replace(row=found.col, col=found.row, all_edges=None)
        num_kinds = len(self._kinds)
        ways = [
            join_ways(
                Way(found.row[i], found.col[i], found.edge[i], found.hop_edges[i]),
                Way(found.col[j], found.row[j], found.edge[j], found.hop_edges[j]),
            )
            for i, j in enumerate(range(num_kinds, 2 * num_kinds))
        ]
        return found._replace(
            row=[way.row for way in ways],
            col=[way.col for way in ways],
            edge=[way.edge for way in ways],
            hop_edges=[way.hop_edges for way in ways],
            all_edges=None,
        )

    def finish(self, found: native.NativeSample) -> HeteroSubgraph:
        """Return the subgraph of a native sample."""
        found = self.turn(found)

        def by_type(values: Sequence[Any]) -> dict[str, Any]:
            return dict(zip(self._types, values, strict=True))

        def by_kind(values: Sequence[Any]) -> dict[EdgeType, Any]:
            return dict(zip(self._kinds, values, strict=True))

        node, row, col, edge = (
            by_type(found.node), by_kind(found.row), by_kind(found.col), by_kind(found.edge)
        )  # fmt: skip
        batch = None if found.batch is None else by_type(found.batch)
        if self.subgraph_type == "bidirectional":
            counts = {name: len(ids) for name, ids in node.items()}
            row, col, edge = to_bidirectional_typed(row, col, edge, counts)
            return HeteroSubgraph(node, row, col, edge, batch)
        hop_nodes = by_type(found.hop_nodes)
        hop_edges = None if self.subgraph_type == "induced" else by_kind(found.hop_edges)
        return HeteroSubgraph(node, row, col, edge, batch, hop_nodes, hop_edges)

    def __repr__(self) -> str:
        return (
            f"HeteroNeighborSampler({self.graph!r}, fanouts={self.fanouts}, "
            f"replace={self.replace}, disjoint={self.disjoint}, "
            f"subgraph_type={self.subgraph_type!r}, "
            f"sample_direction={self.sample_direction!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        options = {**self._options(), "sample_direction": self.sample_direction}
        return _rebuild, (self.graph, self.fanouts, options)


def _rebuild(
    graph: HeteroGraph, fanouts: dict[EdgeType, tuple[int, ...]], options: dict[str, Any]
) -> HeteroNeighborSampler:
    return HeteroNeighborSampler(graph, fanouts, is_sorted=True, **options)


def _relations(
    graph: HeteroGraph,
    layouts: Sequence[Literal["csc", "csr"]],
    weight_attr: str | None,
    time_attr: str | None,
    node_times: bool,
) -> list[native.NativeRelation]:
    """Return the lists to follow: all edge types in one layout, then in the next."""
    number = {name: i for i, name in enumerate(graph.node_types)}
    times_of = times_of_nodes(graph, time_attr)
    found, weighted, timed = [], weight_attr is None, time_attr is None or node_times
    for layout, kind in itertools.product(layouts, graph.edge_types):
        view = graph[kind]
        stores = {**view.value_stores(), **view.attrs}
        weights = topology_weights(view, layout, weight_attr)
        if weights is None and weight_attr is not None and weight_attr in stores:
            weights = find_weights(weight_attr, stores)
        if node_times:
            times = times_of.get(kind[0])
        else:
            times = topology_times(view, layout, time_attr)
            if times is None and time_attr is not None and time_attr in stores:
                times = find_times(time_attr, stores, {})
        weighted, timed = weighted or weights is not None, timed or times is not None
        near, far = number[kind[2]], number[kind[0]]
        if layout == "csr":
            near, far = far, near
        found.append(make_relation(view, layout, weights, times, near, far))
    if not weighted:
        raise InvalidArgumentError(f"weight_attr = {weight_attr!r}: no edge type has it")
    if not timed:
        raise InvalidArgumentError(f"time_attr = {time_attr!r}: no node type or edge type has it")
    return found
