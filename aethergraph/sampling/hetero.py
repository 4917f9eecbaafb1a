"""HeteroNeighborSampler: typed subgraphs around typed seeds, one native call per subgraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids
from aethergraph._checks.options import as_items, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.graph.hetero import EdgeType
from aethergraph.protocols import HeterogeneousGraph
from aethergraph.sampling._misuse import not_a_graph
from aethergraph.sampling.base import SamplerBase, SubgraphType, TemporalStrategy
from aethergraph.sampling.directions import SampleDirection, turned
from aethergraph.sampling.fanouts import typed_fanouts
from aethergraph.sampling.subgraph import to_bidirectional_typed
from aethergraph.sampling.typed_arguments import check_types

__all__ = ["HeteroNeighborSampler", "HeteroSubgraph"]

Ids = NDArray[np.int64]
Fanouts = Mapping[EdgeType, Sequence[int] | NDArray[Any]] | Sequence[int] | NDArray[Any]


@dataclass(frozen=True, eq=False)
class HeteroSubgraph:
    """Sampled typed subgraph; local ids count from 0 in every node type.

    All node types and edge types of the graph are keys, with empty arrays for types of which
    nothing was sampled. The arrays are those of
    :class:`~aethergraph.sampling.subgraph.Subgraph`, by type.

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


class HeteroNeighborSampler(
    SamplerBase[Mapping[str, ArrayLike], Mapping[EdgeType, ArrayLike], HeteroSubgraph]
):
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
        exclude_edges: by edge type, see :class:`aethergraph.NeighborSampler`.

    Raises:
        LayoutError: the graph does not store the neighbours to follow.
        InvalidArgumentError: an argument is invalid, a weight is negative or not finite, or a list
            is not sorted by time.
    """

    def __init__(
        self,
        graph: HeterogeneousGraph,
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
        exclude_edges: Mapping[EdgeType, ArrayLike] | None = None,
    ) -> None:
        self._check_graph(graph)
        self._set_options(
            replace=replace, disjoint=disjoint, subgraph_type=subgraph_type,
            num_threads=num_threads, seed=seed, weight_attr=weight_attr, time_attr=time_attr,
            temporal_strategy=temporal_strategy, strict=strict, window=window, layered=layered,
            sample_direction=sample_direction, exclude_edges=exclude_edges,
        )  # fmt: skip
        self.graph: HeterogeneousGraph = graph
        self.fanouts = typed_fanouts(fanouts, graph.edge_types)
        self._draw_from(graph, [self.fanouts[kind] for kind in graph.edge_types], is_sorted)

    def _check_graph(self, graph: Any) -> None:
        if not isinstance(graph, HeterogeneousGraph):
            raise not_a_graph(graph, "HeteroGraph", "HeteroNeighborSampler")

    def _read_seeds(self, seeds: Mapping[str, ArrayLike], place: str) -> Mapping[str, Ids]:
        option = f"seeds{place}"
        check_types(seeds, option, self.plan.schema.node_types)
        return {name: as_ids(ids, f"{option}[{name!r}]") for name, ids in seeds.items()}

    def _read_times(
        self, seed_time: Mapping[str, ArrayLike], place: str
    ) -> Mapping[str, ArrayLike]:
        check_types(seed_time, f"seed_time{place}", self.plan.schema.node_types)
        return seed_time

    def _read_edges(
        self, edges: Mapping[EdgeType, ArrayLike], option: str
    ) -> Mapping[EdgeType, Ids]:
        kinds = self.graph.edge_types
        ids = {}
        for kind, of_kind in as_items(edges, option, "edges"):
            if kind not in kinds:
                known = ", ".join(map(repr, kinds)) or "none"
                raise InvalidArgumentError(
                    f"{option}: {shown(kind)} is no edge type; there are: {known}"
                )
            ids[kind] = as_ids(of_kind, f"{option}[{kind!r}]")
        return ids

    @property
    def num_hops(self) -> int:
        """Number of hops."""
        return max((len(row) for row in self.fanouts.values()), default=0)

    def finish(self, sample: native.NativeSample) -> HeteroSubgraph:
        """Return the subgraph of a native sample."""
        sample, schema = turned(sample, self.sample_direction), self.plan.schema

        def by_type(values: Sequence[Any]) -> dict[str, Any]:
            return dict(zip(schema.node_types, values, strict=True))

        def by_kind(values: Sequence[Any]) -> dict[EdgeType, Any]:
            return dict(zip(schema.edge_types, values, strict=True))

        node, row = by_type(sample.node), by_kind(sample.row)
        col, edge = by_kind(sample.col), by_kind(sample.edge)
        batch = None if sample.batch is None else by_type(sample.batch)
        if self.subgraph_type == "bidirectional":
            counts = {name: len(ids) for name, ids in node.items()}
            row, col, edge = to_bidirectional_typed(row, col, edge, counts)
            return HeteroSubgraph(node, row, col, edge, batch)
        hop_nodes = by_type(sample.hop_nodes)
        hop_edges = None if self.subgraph_type == "induced" else by_kind(sample.hop_edges)
        return HeteroSubgraph(node, row, col, edge, batch, hop_nodes, hop_edges)

    def __repr__(self) -> str:
        return (
            f"HeteroNeighborSampler({self.graph!r}, fanouts={self.fanouts}, "
            f"replace={self.replace}, disjoint={self.disjoint}, "
            f"subgraph_type={self.subgraph_type!r}, "
            f"sample_direction={self.sample_direction!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.graph, self.fanouts, self._options())


def _rebuild(
    graph: HeterogeneousGraph, fanouts: dict[EdgeType, tuple[int, ...]], options: dict[str, Any]
) -> HeteroNeighborSampler:
    return HeteroNeighborSampler(graph, fanouts, is_sorted=True, **options)
