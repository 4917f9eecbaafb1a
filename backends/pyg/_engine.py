"""Lists and values of a graph that PyG's samplers draw by, and the engine that draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from aethergraph import _native as native
from aethergraph._checks.arrays import check_length
from aethergraph.errors import OutOfRangeError
from aethergraph.graph.ids import check_ids
from aethergraph.protocols import HomogeneousGraph
from aethergraph.pyg._sources import Source
from aethergraph.pyg._values import find_times, find_weights
from aethergraph.pyg.graph_store import SortKey
from aethergraph.sampling.directions import LAYOUTS, Way, join_ways
from aethergraph.sampling.engine import DrawOptions, NativeEngine, SampleEngine
from aethergraph.sampling.values import (
    Bounds,
    Values,
    make_relation,
    require_sorted,
    seed_bounds,
    topology_times,
    topology_weights,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Excluded", "Walk", "Walker", "make_walk"]

Ids: TypeAlias = "NDArray[np.int64]"


class Walk(NamedTuple):
    """Lists of a graph in one or both directions, with the times and weights to draw by.

    Lists, times and weights go by the graph's edge ids. ``edge_ids`` (unsigned [E]) maps those to
    the ids that the store shows; None: they are equal.
    """

    graph: HomogeneousGraph
    edge_ids: NDArray[Any] | None
    relations: tuple[native.NativeRelation, ...]
    times: Values | None
    direction: str


def make_walk(
    source: Source,
    direction: str,
    weight_attr: str | None,
    time_attr: str | None,
    *,
    is_sorted: bool,
) -> Walk:
    """Find the times and weights, and the graph whose lists are sorted by the times.

    Raises:
        InvalidArgumentError: values that do not exist or are invalid, or lists of a given graph
            that
            are not sorted (``position`` is the first such node).
    """
    stores, layouts = source.feature_stores, LAYOUTS[direction]
    weights, times = _find_in_topology(source, layouts[0], weight_attr, time_attr)
    if weights is None and weight_attr is not None:
        weights = find_weights(stores, weight_attr)
    if times is None and time_attr is not None:
        times = find_times(stores, time_attr)
    key = None
    if times is not None and not times.in_topology:
        assert time_attr is not None
        key = SortKey(time_attr, times.array, times.of_nodes)
    graph, edge_ids = source.graph_store.sampling_graph(
        num_nodes=source.num_nodes, backward="csr" in layouts, sort_by=key
    )
    if key is not None:
        key.check_rows(graph.num_nodes, graph.num_edges)
    if weights is not None and not weights.in_topology:
        count = graph.topology(layouts[0]).end_edge_ids
        check_length(weights.array, count, repr(weight_attr), "num_edges")
        if edge_ids is not None:
            weights = Values(weights.array[edge_ids], None)
    if times is not None and edge_ids is not None:  # the store built this graph and sorted it
        own = graph.node_time if times.of_nodes else graph.edge_time
        assert own is not None
        times = Values(own, None, times.of_nodes)
    relations = tuple(make_relation(graph, name, weights, times) for name in layouts)
    own = None
    if key is not None:
        own = graph.node_time if key.of_nodes else graph.edge_time
    is_own = key is not None and own is not None and np.may_share_memory(own, key.times)
    if times is not None and is_own:
        times = times._replace(unit=graph.time_unit)
    if key is not None and edge_ids is None and not is_sorted:
        own_name = "node_time" if key.of_nodes else "edge_time"
        require_sorted("", graph, layouts[0], key.name, own_name if is_own else None, relations[0])
    if times is not None and times.in_topology:
        times = times._replace(unit=graph.time_unit)
    if times is not None and times.in_topology and not is_sorted:
        require_sorted("", graph, layouts[0], "edge_time", "edge_time", relations[0])
    return Walk(graph, edge_ids, relations, times, direction)


def _find_in_topology(
    source: Source,
    layout: Literal["csc", "csr"],
    weight_attr: str | None,
    time_attr: str | None,
) -> tuple[Values | None, Values | None]:
    """Return the weights and the times that the topology of a given graph keeps itself."""
    store = source.graph_store
    if not store.holds_graph or {weight_attr, time_attr}.isdisjoint({"edge_weight", "edge_time"}):
        return None, None
    graph = store.graph
    return topology_weights(graph, layout, weight_attr), topology_times(graph, layout, time_attr)


class Excluded(NamedTuple):
    """Positions of edges, by relation, that a sample leaves out, and the lists that have them.

    ``at`` is None for lists that do not change.
    """

    positions: list[Ids]
    at: native.PinnedLists | None


class Walker:
    """Samples of a walk: their seeds checked, drawn by an engine, numbered as the store numbers.

    Args:
        walk: the lists to sample, and the values to draw by.
        fanouts: checked fanouts by hop.
        options: options of the draws.
        strict: see only times below those of the seeds.
        window: see no times further back than this before those of the seeds.
    """

    def __init__(
        self,
        walk: Walk,
        fanouts: tuple[int, ...],
        options: DrawOptions,
        *,
        strict: bool,
        window: float | int | None,
    ) -> None:
        self.walk = walk
        self._strict = strict
        self._window = window
        #: Maker of the samples.
        self.engine: SampleEngine[native.NativeSample] = NativeEngine(
            native.NativeSample,
            walk.relations,
            [walk.graph.num_nodes],
            [fanouts] * len(walk.relations),
            options,
            walk.graph.paging,
        )

    def bounds(self, seeds: Ids, times: NDArray[Any] | None) -> Bounds:
        """Return the times that the trees of ``seeds`` may see at ``times`` (None: the seeds')."""
        return seed_bounds(self.walk.times, seeds, times, strict=self._strict, window=self._window)

    def find(self, src: Ids, dst: Ids, *, reverse: bool) -> Excluded:
        """Find the positions in the lists of the edges from ``src`` to ``dst``, to be excluded."""
        count = self.walk.graph.num_nodes
        at = self.engine.pin()
        relations = self.walk.relations if at is None else at.relations
        check_ids(src, count, "row")
        check_ids(dst, count, "col")
        places = []
        for layout, relation in zip(LAYOUTS[self.walk.direction], relations, strict=True):
            major, minor = (src, dst) if layout == "csr" else (dst, src)
            found = [relation.topology.find(major, minor)[1]]
            if reverse:
                found.append(relation.topology.find(minor, major)[1])
            places.append(np.unique(np.concatenate(found)))
        return Excluded(places, at)

    def prepare(
        self, seeds: Ids, key: int, times: NDArray[Any] | None, exclude: Excluded | None = None
    ) -> native.NativeBatch:
        """Check ``seeds`` and describe the sample around them, for the engine."""
        count = self.walk.graph.num_nodes
        low, high = native.id_bounds(seeds)
        if len(seeds) and not 0 <= low <= high < count:
            at = int(((seeds < 0) | (seeds >= count)).argmax())
            raise OutOfRangeError(
                f"seeds[{at}] = {seeds[at]} is no node: num_nodes = {count}",
                position=at,
                value=int(seeds[at]),
            )
        bounds = self.bounds(seeds, times)
        since, until = [bounds.since], [bounds.until]
        if exclude is None:
            return native.NativeBatch([seeds], key, since, until)
        return native.NativeBatch([seeds], key, since, until, exclude.positions, exclude.at)

    def finish(self, sample: native.NativeSample) -> native.NativeSample:
        """Return the sample with its edges numbered as the store numbers them.

        Edges point from row to col, or walked ``"backward"`` from col to row.
        """
        edge_ids = self.walk.edge_ids
        if self.walk.direction == "both":
            row, col, edge, hop_edges = sample.row, sample.col, sample.edge, sample.hop_edges
            joined = join_ways(
                Way(row[0], col[0], edge[0], hop_edges[0]),
                Way(col[1], row[1], edge[1], hop_edges[1]),
            )
            sample = sample._replace(
                row=[joined.row], col=[joined.col], edge=[joined.edge],
                hop_edges=[joined.hop_edges], all_edges=None,
            )  # fmt: skip
        if edge_ids is not None:
            sample.edge[0][:] = edge_ids[sample.edge[0]]
        return sample
