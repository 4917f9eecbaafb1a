"""Draws: a plan with the engine that draws by it; seeds and excluded edges in, batches out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.ids import check_ids
from aethergraph.graph.schema import as_typed
from aethergraph.protocols import AnyGraph
from aethergraph.sampling.engine import DrawOptions, SampleEngine
from aethergraph.sampling.plan import DrawPlan
from aethergraph.sampling.values import Bounds

if TYPE_CHECKING:
    from aethergraph.graph.typed_edges import EdgeType

__all__ = ["Draws", "Excluded"]

Ids: TypeAlias = "NDArray[np.int64]"
S = TypeVar("S", bound=native.NativeSample | native.NativeLayers)

_NO_SEEDS = np.empty(0, np.int64)
_NO_BOUNDS = Bounds(None, None)


class Excluded(NamedTuple):
    """Edges that a sample leaves out.

    Attributes:
        positions: by lists, their positions there, ascending; None: no edge.
        at: the lists that have these positions; None: they do not change.
    """

    positions: list[Ids | None]
    at: native.PinnedLists | None

    def and_also(self, added: Excluded | None) -> Excluded:
        """Return these edges and those of ``added``, of the same lists."""
        if added is None:
            return self
        pairs = zip(self.positions, added.positions, strict=True)
        return Excluded([_union(positions, more) for positions, more in pairs], added.at)


class Draws(Generic[S]):
    """A plan and the engine that draws by it.

    Args:
        plan: the plan.
        form: form of the samples; ``NativeLayers`` with ``layered`` options only.
        fanouts: checked fanouts by lists of the plan and hop.
        options: options of the draws.
        exclude_edges: ids of edges by edge type that no sample holds.
    """

    def __init__(
        self,
        plan: DrawPlan,
        form: type[S],
        fanouts: Sequence[Sequence[int]],
        options: DrawOptions,
        exclude_edges: Mapping[EdgeType, Ids] | None = None,
    ) -> None:
        #: Maker of the samples.
        self.engine: SampleEngine[S] = plan.engine(form, fanouts, options)
        self._exclude_edges = exclude_edges
        self._set_plan(plan, self._always_out(plan))

    def retarget(self, plan: DrawPlan) -> None:
        """Go on with the plan of another graph of the same types; workspaces are kept."""
        always = self._always_out(plan)  # first: it may be refused
        self.engine.retarget(plan.relations, plan.schema.counts, plan.schema.paging)
        self._set_plan(plan, always)

    def _set_plan(self, plan: DrawPlan, always: Excluded | None) -> None:
        self.plan = plan
        #: Numbers of nodes by type; None: they grow.
        self._counts = None if plan.schema.is_live else plan.schema.num_nodes_of()
        #: Edges that all samples leave out.
        self._always = always

    def _always_out(self, plan: DrawPlan) -> Excluded | None:
        """Return the edges that all samples by a plan leave out.

        Raises:
            InvalidArgumentError: the edges of the graph change.
            OutOfRangeError: an edge does not exist.
        """
        edges, graph = self._exclude_edges, plan.schema.graph
        if edges is None:
            return None
        if graph.is_live:
            raise InvalidArgumentError(
                "exclude_edges: edges of a graph that changes come and go: sample a snapshot of it "
                "(graph.snapshot()), or give the edges with each call (exclude=)"
            )
        return Excluded(_positions(plan, graph, edges, "exclude_edges"), None)

    def sample(
        self,
        seeds: Mapping[str, Ids],
        key: int,
        *,
        seed_time: Mapping[str, ArrayLike] | None = None,
        exclude: Excluded | None = None,
        names: tuple[str, str] = ("seeds", "seed_time"),
    ) -> S:
        """Draw the sample around ``seeds``; see :meth:`prepare`."""
        batch = self.prepare(seeds, key, seed_time=seed_time, exclude=exclude, names=names)
        return self.engine.draw(batch)

    def prepare(
        self,
        seeds: Mapping[str, Ids],
        key: int,
        *,
        seed_time: Mapping[str, ArrayLike] | None = None,
        exclude: Excluded | None = None,
        names: tuple[str, str] = ("seeds", "seed_time"),
        place: str = "",
    ) -> native.NativeBatch:
        """Check what is to be drawn around ``seeds``, and return it for the engine.

        Args:
            seeds: int64 vectors by node type; types that are missing have none.
            key: decides all draws.
            seed_time: by node type, the time of each seed; see :meth:`DrawPlan.bounds`.
            exclude: edges to leave out.
            names: names of ``seeds`` and ``seed_time`` in messages.
            place: which of several calls it is, in messages: ``"[2]"`` is the third.

        Raises:
            OutOfRangeError: the first seed that is no node, with its type and position.
            InvalidArgumentError: as for :meth:`DrawPlan.bounds`.
        """
        plan, counts = self.plan, self._counts
        schema = plan.schema
        if counts is None:
            counts = schema.num_nodes_of()
        ids: list[Ids] = []
        since: list[Ids | None] = []
        until: list[Ids | None] = []
        for node_type, count in counts.items():
            of_type, bounds = seeds.get(node_type, _NO_SEEDS), _NO_BOUNDS
            times = None if seed_time is None else seed_time.get(node_type)
            if len(of_type):
                low, high = native.id_bounds(of_type)
                if low < 0 or high >= count:
                    check_ids(of_type, count, schema.label(f"{names[0]}{place}", node_type))
            if times is not None or (plan.times is not None and len(of_type)):
                label = schema.label(f"{names[1]}{place}", node_type)
                bounds = plan.bounds(node_type, of_type, times, label)
            ids.append(of_type)
            since.append(bounds.since)
            until.append(bounds.until)
        if self._always is not None:
            exclude = self._always.and_also(exclude)
        if exclude is None:
            return native.NativeBatch(ids, key, since, until)
        return native.NativeBatch(ids, key, since, until, exclude.positions, exclude.at)

    def without_edges(self, edges: Mapping[EdgeType, Ids], option: str = "exclude") -> Excluded:
        """Find the positions of edges that a sample leaves out.

        Args:
            edges: ids of edges by edge type, in any order, repeated or not.
            option: name of ``edges`` in messages.

        Raises:
            OutOfRangeError: the first edge that does not exist, with its type and position.
        """
        graph = self.plan.schema.graph.pinned()  # positions are those of one commit
        return Excluded(_positions(self.plan, graph, edges, option), self.engine.pin(graph))

    def without_pairs(self, ends: Mapping[EdgeType, Sequence[tuple[Ids, Ids]]]) -> Excluded:
        """Find the positions of all edges from one node to another, to be left out of a sample.

        Args:
            ends: pairs of nodes that exist, as sources and destinations, by edge type.
        """
        at = self.engine.pin()
        relations = self.plan.relations if at is None else at.relations
        positions: list[Ids | None] = []
        for (kind, layout), relation in zip(self.plan.lists, relations, strict=True):
            places = [
                relation.topology.find(*((src, dst) if layout == "csr" else (dst, src)))[1]
                for src, dst in ends.get(kind, ())
            ]
            positions.append(np.unique(np.concatenate(places)) if places else None)
        return Excluded(positions, at)


def _union(positions: Ids | None, more: Ids | None) -> Ids | None:
    if positions is None or more is None:
        return more if positions is None else positions
    return np.union1d(positions, more)


def _positions(
    plan: DrawPlan, graph: AnyGraph, edges: Mapping[EdgeType, Ids], option: str
) -> list[Ids | None]:
    """Return the positions of edges in the lists of a plan, as they are in ``graph``."""
    typed = as_typed(graph)
    positions: list[Ids | None] = []
    for kind, layout in plan.lists:
        ids = edges.get(kind)
        if ids is None or not len(ids):
            positions.append(None)
            continue
        of_kind = typed[kind]
        end = of_kind.topology(layout).end_edge_ids
        check_ids(ids, end, plan.schema.label(option, kind), "edges")
        positions.append(of_kind.edge_positions(np.unique(ids), layout))
    return positions
