"""NeighborSampler: subgraphs around seeds, as a pure function of key, seeds and graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids
from aethergraph.graph.schema import EDGE, NODE
from aethergraph.graph.typed_edges import EdgeType
from aethergraph.protocols import HomogeneousGraph
from aethergraph.sampling._misuse import not_a_graph
from aethergraph.sampling.base import SamplerBase, SubgraphType, TemporalStrategy
from aethergraph.sampling.directions import SampleDirection, turned
from aethergraph.sampling.fanouts import as_fanouts
from aethergraph.sampling.subgraph import Subgraph, to_bidirectional

__all__ = ["NeighborSampler"]

Ids = NDArray[np.int64]


class NeighborSampler(SamplerBase[ArrayLike, ArrayLike, Subgraph]):
    """Sampler of neighbours, hop by hop around seed nodes.

    ::

        sampler = NeighborSampler(graph, [15, 10])
        sub = sampler.sample(seeds, key=7)        # the same key gives the same subgraph
        x = graph.features.gather(sub.node)

    The neighbours drawn for a node depend only on (key, hop, node) and on the graph (and on the
    seed's slot if ``disjoint``), not on threads, storage or earlier calls.

    Threads may share a sampler: each call takes a workspace from a pool that grows to the number of
    concurrent calls. Forked children may go on using it. A sampler pickles with its graph.

    Args:
        graph: a graph that stores the neighbours to follow (for ``"forward"`` layout "csc" or
            "both"): a ``Graph``, or one of yours by :func:`aethergraph.as_graph`.
        fanouts: neighbours per node for each hop; -1 takes all of them.
        replace: draw with replacement: exactly ``fanout`` edges from every node that has any.
        disjoint: each seed gets a subgraph of its own; ``Subgraph.batch`` has its slot.
        subgraph_type: ``"directional"``: the sampled edges. ``"bidirectional"``: also their
            reverses. ``"induced"``: all edges of the graph among the sampled nodes; if disjoint,
            among the nodes of each tree: the ego subgraphs of ShaDow (Zeng et al., NeurIPS 2021).
        num_threads: threads of the native pool that one call may use: 1 is the calling thread
            only, 0 all of them.
        seed: start of the sequence of keys for calls without a key.
        weight_attr: draw edges by these weights: ``"edge_weight"``, or the name of an edge
            attribute. Draws without replacement are as if made one after the other (Efraimidis and
            Spirakis, 2006). An edge of weight 0 is never drawn. All weights are read once, when the
            first sampler is made (weights in an attribute: for each sampler), and must not change
            afterwards.
        time_attr: follow only edges that a seed may know, by these times: ``"edge_time"``,
            ``"node_time"`` (the time of the far node), or the name of a node or edge attribute. The
            time of every edge of a seed's tree is at most ``seed_time``. Makes the sample disjoint.
        temporal_strategy: ``"uniform"``: any of the edges in time; ``"last"``: the latest. With
            ``weight_attr`` those of the latest ``fanout`` that have a weight above 0, which may be
            fewer, or none; edges that ``exclude`` leaves out make room for earlier ones.
        strict: accept only times below ``seed_time`` (DGL's rule), not equal ones (PyG's rule).
        window: accept only times from ``seed_time - window`` on.
        is_sorted: skip the check that every list is sorted by time (the caller guarantees it). The
            check reads all times, once. ``Graph.from_edges`` sorts by the times it is given.
        layered: every hop draws neighbours of all nodes so far, like DGL's message flow graphs, not
            only of the nodes that the previous hop added. ``Subgraph.col`` then starts anew with
            every hop. The draws of a node in a hop stay the same.
        sample_direction: ``"forward"`` follows edges from destination to source, so that messages
            reach the seeds. ``"backward"`` follows them from source to destination. ``"both"``
            draws in-edges and as many out-edges of every node; an edge drawn at both ends, or more
            than once (``replace``), occurs once, for a repeated seed once for each copy that it
            leads to, and edges are ordered by hop but not by ``col``. ``row`` and ``col`` are
            source and destination in all three. The last two need out-neighbours (layout "csr" or
            "both"). They refuse ``time_attr``, since only lists of in-edges are sorted by time, and
            ``layered``.
        exclude_edges: ids of edges that no sample holds, beside those that a call names, such as
            those of a validation set. Not of a graph that changes.

    Raises:
        LayoutError: the graph does not store the neighbours to follow.
        InvalidArgumentError: an argument is invalid, a weight is negative or not finite
            (``position`` is its edge), or a list is not sorted by time (``position`` is the first
            such node).
    """

    def __init__(
        self,
        graph: HomogeneousGraph,
        fanouts: Sequence[int] | NDArray[Any],
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
        exclude_edges: ArrayLike | None = None,
    ) -> None:
        self._check_graph(graph)
        self._set_options(
            replace=replace, disjoint=disjoint, subgraph_type=subgraph_type,
            num_threads=num_threads, seed=seed, weight_attr=weight_attr, time_attr=time_attr,
            temporal_strategy=temporal_strategy, strict=strict, window=window, layered=layered,
            sample_direction=sample_direction, exclude_edges=exclude_edges,
        )  # fmt: skip
        self.graph: HomogeneousGraph = graph
        self.fanouts = as_fanouts(fanouts)
        self._draw_from(graph, [self.fanouts], is_sorted)

    def _check_graph(self, graph: Any) -> None:
        if not isinstance(graph, HomogeneousGraph):
            raise not_a_graph(graph, "Graph", "NeighborSampler")

    def _read_seeds(self, seeds: ArrayLike, place: str) -> Mapping[str, Ids]:
        return {NODE: as_ids(seeds, f"seeds{place}")}

    def _read_times(self, seed_time: ArrayLike, place: str) -> Mapping[str, ArrayLike]:
        return {NODE: seed_time}

    def _read_edges(self, edges: ArrayLike, option: str) -> Mapping[EdgeType, Ids]:
        return {EDGE: as_ids(edges, option)}

    @property
    def num_hops(self) -> int:
        """Number of hops."""
        return len(self.fanouts)

    def finish(self, sample: native.NativeSample) -> Subgraph:
        """Return the subgraph of a native sample."""
        sample = turned(sample, self.sample_direction)
        node, row, col, edge = sample.node[0], sample.row[0], sample.col[0], sample.edge[0]
        batch = None if sample.batch is None else sample.batch[0]
        hop_nodes, hop_edges = sample.hop_nodes[0], sample.hop_edges[0]
        if self.subgraph_type == "bidirectional":
            row, col, edge = to_bidirectional(row, col, edge, node.shape[0])
            return Subgraph(node, row, col, edge, batch)
        if self.subgraph_type == "induced":
            return Subgraph(node, row, col, edge, batch, hop_nodes, None)
        return Subgraph(node, row, col, edge, batch, hop_nodes, hop_edges)

    def __repr__(self) -> str:
        return (
            f"NeighborSampler({self.graph!r}, fanouts={list(self.fanouts)}, "
            f"replace={self.replace}, disjoint={self.disjoint}, "
            f"subgraph_type={self.subgraph_type!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.graph, self.fanouts, self._options())


def _rebuild(
    graph: HomogeneousGraph, fanouts: tuple[int, ...], options: dict[str, Any]
) -> NeighborSampler:  # fmt: skip
    return NeighborSampler(graph, fanouts, is_sorted=True, **options)
