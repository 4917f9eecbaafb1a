"""NeighborSampler: subgraphs around seeds, as a pure function of key, seeds and graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids
from aethergraph._checks.options import as_flag
from aethergraph.errors import UnsupportedError
from aethergraph.graph.ids import check_ids
from aethergraph.protocols import HomogeneousGraph
from aethergraph.sampling._misuse import not_a_graph
from aethergraph.sampling.base import (
    SamplerBase,
    SubgraphType,
    TemporalStrategy,
    as_excluded,
)
from aethergraph.sampling.batch_arguments import align_batches
from aethergraph.sampling.directions import SampleDirection, check_direction
from aethergraph.sampling.fanouts import as_fanouts
from aethergraph.sampling.subgraph import Subgraph, to_bidirectional
from aethergraph.sampling.values import check_sorted, find_relation, seed_bounds

__all__ = ["NeighborSampler"]


class NeighborSampler(SamplerBase):
    """Sampler of in-neighbours, hop by hop around seed nodes.

    ::

        sampler = NeighborSampler(graph, [15, 10])
        sub = sampler.sample(seeds, key=7)        # the same key gives the same subgraph
        x = graph.features.gather(sub.node)

    The neighbours drawn for a node depend only on (key, hop, node) and on the graph (and on the
    seed's slot if ``disjoint``), not on threads, storage or earlier calls.

    Threads may share a sampler: each call takes a workspace from a pool that grows to the number of
    concurrent calls. Forked children may go on using it. A sampler pickles with its graph.

    Args:
        graph: a graph that stores in-neighbours (layout "csc" or "both"): a ``Graph``, or one of
            yours by :func:`aethergraph.as_graph`.
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
        sample_direction: ``"forward"``, the only one here: edges are followed from destination to
            source. :class:`aethergraph.HeteroNeighborSampler` has the others, also over a
            ``HeteroGraph`` of one type.

    Raises:
        UnsupportedError: ``sample_direction`` is ``"backward"`` or ``"both"``.
        LayoutError: the graph stores no in-neighbours.
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
    ) -> None:
        if not isinstance(graph, HomogeneousGraph):
            raise not_a_graph(graph, "Graph", "NeighborSampler")
        check_direction(sample_direction)
        if sample_direction != "forward":
            raise UnsupportedError(
                f"sample_direction = {sample_direction!r}: NeighborSampler follows in-edges only; "
                "make a HeteroGraph of the edges, HeteroGraph.from_edges({('node', 'to', 'node'): "
                "graph.edge_index()}, {'node': graph.num_nodes}, layout='both'), and take "
                "HeteroNeighborSampler, or aethergraph.pyg.NeighborSampler over this graph"
            )
        self._set_options(
            replace=replace, disjoint=disjoint, subgraph_type=subgraph_type,
            num_threads=num_threads, seed=seed, weight_attr=weight_attr, time_attr=time_attr,
            temporal_strategy=temporal_strategy, strict=strict, window=window, layered=layered,
        )  # fmt: skip
        self.fanouts = as_fanouts(fanouts)
        relation = self._set_graph(graph, is_sorted)
        self._set_engine([relation], [self._num_nodes], [self.fanouts], graph.paging)

    def _set_graph(self, graph: HomogeneousGraph, is_sorted: bool) -> native.NativeRelation:
        """Make ``graph`` the graph of the samples to come; return its lists and values."""
        relation, times = find_relation(graph, "csc", self.weight_attr, self.time_attr)
        if not as_flag(is_sorted, "is_sorted") and self.time_attr is not None:
            check_sorted(graph, self.time_attr, relation)
        self.graph, self._num_nodes, self._times = graph, graph.num_nodes, times
        self._is_live = relation.topology.is_live
        return relation

    def retarget(self, graph: HomogeneousGraph, *, is_sorted: bool = False) -> None:
        """Go on with another graph, say the next snapshot of one that changes.

        Samples are those of a new sampler with these options. The workspaces are kept, which is
        cheaper than to make them again. No other thread may use the sampler during the call.

        Args:
            graph: the graph; it has the weights and times that the sampler draws by.
            is_sorted: as when the sampler is made.

        Raises:
            LayoutError, InvalidArgumentError: as when the sampler is made. It goes on with the
                graph that it has.
        """
        if not isinstance(graph, HomogeneousGraph):
            raise not_a_graph(graph, "Graph", "NeighborSampler")
        relation = self._set_graph(graph, is_sorted)
        self.engine.retarget([relation], [self._num_nodes], graph.paging)

    @property
    def times_dtype(self) -> np.dtype[Any] | None:
        """Dtype of the times, int64 or float64; None without times."""
        return None if self._times is None else self._times.array.dtype

    @property
    def time_unit(self) -> str | None:
        """Unit of the times, if they are the graph's own and were datetimes; else None."""
        return None if self._times is None else self._times.unit

    @property
    def num_hops(self) -> int:
        """Number of hops."""
        return len(self.fanouts)

    def sample(
        self,
        seeds: ArrayLike,
        key: int | None = None,
        *,
        seed_time: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
    ) -> Subgraph:
        """Draw the subgraph around ``seeds``.

        Args:
            seeds: integer vector [n]; may be empty and may hold duplicates. Each duplicate keeps
                its slot and gets the same edges; as a source the node is in its first slot.
            key: the 64-bit number that decides all draws (taken modulo 2^64). None: a new key per
                call, from ``seed`` and the number of the call on this copy of the sampler. A
                forked child continues from the parent's number and an unpickled copy starts at 0,
                so copies with one seed repeat each other's draws: workers should pass keys.
            seed_time: [n], with ``time_attr``: the latest time that each seed's tree may see.
                None: the time of the seed node itself, if nodes have the times.
            exclude: ids of edges that the sample must not hold, such as those that a model is to
                predict. Every node draws as if the graph did not have these edges.

        Raises:
            OutOfRangeError: a seed is not a node, or an edge does not exist; names the first one
                and its position.
            FileChangedError: the mapped graph file was made shorter.
        """
        return self.finish(self.engine.draw(self.prepare(seeds, key, seed_time, exclude)))

    def sample_many(
        self,
        seeds: Iterable[ArrayLike],
        keys: Iterable[int] | None = None,
        *,
        seed_time: Iterable[ArrayLike | None] | None = None,
        exclude: Iterable[ArrayLike | None] | None = None,
    ) -> Iterator[Subgraph]:
        """Draw the subgraphs of many batches, in order, each equal to that of :meth:`sample`.

        For a graph with ``storage="uring"``, the subgraphs of several coming batches are made at
        once, hop by hop, so that each page is read once for all of them. The graph's
        ``memory_budget`` limits their number.

        Args:
            seeds: the seeds of each batch; read as far ahead as batches are made at once.
            keys: the key of each batch. None: the call counts as one call of :meth:`sample`
                without a key, and the keys derive from that call and the number of the batch.
            seed_time: ``seed_time`` of :meth:`sample` for each batch, or None for all.
            exclude: ``exclude`` of :meth:`sample` for each batch, or None for all.

        Raises:
            InvalidArgumentError: keys, seed_time or exclude do not have one item per batch
                (iterators may have more).
            OutOfRangeError: see :meth:`sample`; names the batch first (``seeds[2][0]``), and is
                raised before the first batch of its group is handed out.
        """
        call_key = 0 if keys is not None else self._number(None)
        calls = align_batches(seeds, keys, call_key, seed_time=seed_time, exclude=exclude)
        batches = itertools.starmap(self.prepare, calls)
        return map(self.finish, self.engine.draw_many(batches))

    def prepare(
        self,
        seeds: ArrayLike,
        key: int | None = None,
        seed_time: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        place: str = "",
    ) -> native.NativeBatch:
        """Check the arguments of :meth:`sample` and return them for the ``engine``.

        ``place`` identifies one of several calls in messages: ``"[2]"`` is the third.
        """
        ids = as_ids(seeds, f"seeds{place}")
        if self._is_live:
            self._num_nodes = self.graph.num_nodes
        check_ids(ids, self._num_nodes, f"seeds{place}")
        bounds = seed_bounds(
            self._times, ids, seed_time,
            strict=self.strict, window=self.window, name=f"seed_time{place}",
        )  # fmt: skip
        out = at = None
        if exclude is not None:
            graph = self.graph.pinned()  # positions are those of one commit, which is drawn from
            edges = as_excluded(exclude, graph.topology("csc").end_edge_ids, f"exclude{place}")
            out, at = [graph.edge_positions(edges, "csc")], self.engine.pin(graph)
        return native.NativeBatch([ids], self._number(key), [bounds.since], [bounds.until], out, at)

    def finish(self, sample: native.NativeSample) -> Subgraph:
        """Return the subgraph of a native sample."""
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
