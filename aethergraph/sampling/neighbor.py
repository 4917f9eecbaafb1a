"""NeighborSampler: subgraphs around seeds, as a pure function of key, seeds and graph."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _binding as native
from aethergraph._arrays import as_count, as_ids, as_integer
from aethergraph._parts import name_id
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.graph import Graph
from aethergraph.sampling.keys import mix_key
from aethergraph.sampling.subgraph import Subgraph, to_bidirectional

__all__ = ["NeighborSampler", "SubgraphType"]

SubgraphType = Literal["directional", "bidirectional", "induced"]
_SUBGRAPH_TYPES = ("directional", "bidirectional", "induced")
_KEY_MASK = (1 << 64) - 1
_MAX_HOPS = 1024


class NeighborSampler:
    """Samples in-neighbours hop by hop around seed nodes.

    ::

        sampler = NeighborSampler(graph, [15, 10])
        sub = sampler.sample(seeds, key=7)        # the same key gives the same subgraph
        x = graph.features.gather(sub.node)

    The neighbours drawn for a node depend on (key, hop, node) and on the graph alone (and on the
    seed's slot if ``disjoint``): not on threads, storage or earlier calls.

    May be shared by threads: each call takes scratch memory from a pool that grows to the number
    of calls at work. Forked children may go on using it. Pickles with its graph.

    Args:
        graph: stores in-neighbours (layout "csc" or "both").
        fanouts: neighbours per node for each hop; -1 takes all of them.
        replace: draw with replacement: exactly ``fanout`` edges from every node that has any.
        disjoint: each seed gets a subgraph of its own; ``Subgraph.batch`` tells which.
        subgraph_type: ``"directional"``: the sampled edges. ``"bidirectional"``: also their
            reverses. ``"induced"``: all edges of the graph among the sampled nodes.
        num_threads: threads of the native pool that one call may use: 1 is the calling thread
            only, 0 all of them.
        seed: start of the keys of calls that give none.

    Raises:
        LayoutError: the graph stores no in-neighbours.
        InvalidArgumentError: an argument that cannot be, or "induced" with ``disjoint``.
    """

    def __init__(
        self,
        graph: Graph,
        fanouts: Sequence[int] | NDArray[Any],
        *,
        replace: bool = False,
        disjoint: bool = False,
        subgraph_type: SubgraphType = "directional",
        num_threads: int = 1,
        seed: int = 0,
    ) -> None:
        if not isinstance(graph, Graph):
            raise InvalidArgumentError(f"graph must be a Graph, got {type(graph).__name__}")
        if subgraph_type not in _SUBGRAPH_TYPES:
            known = ", ".join(_SUBGRAPH_TYPES)
            raise InvalidArgumentError(f"subgraph_type = {subgraph_type!r} is not one of {known}")
        if subgraph_type == "induced" and disjoint:
            raise InvalidArgumentError("subgraph_type='induced' does not go with disjoint=True")
        if as_count(num_threads, "num_threads") > 256:
            raise InvalidArgumentError(f"num_threads = {num_threads} is not in 0..256")
        self.graph = graph
        self.fanouts = _as_fanouts(fanouts)
        self.replace = bool(replace)
        self.disjoint = bool(disjoint)
        self.subgraph_type: SubgraphType = subgraph_type
        self.num_threads = int(num_threads)
        self.seed = as_integer(seed, "seed")
        self._num_nodes = graph.num_nodes
        self._topology = graph.topology("csc")
        self._calls = itertools.count()
        # append and pop of a deque are atomic: no lock, so nothing to go wrong in a fork.
        self._scratch: deque[native.NativeSampler] = deque()

    @property
    def num_hops(self) -> int:
        """Number of hops."""
        return len(self.fanouts)

    def sample(self, seeds: ArrayLike, key: int | None = None) -> Subgraph:
        """Draw the subgraph around ``seeds``.

        Args:
            seeds: integer vector [n]; may be empty and may hold duplicates (each keeps its slot
                and gets the same edges; where the node is a source, it is the first slot).
            key: the 64-bit number that decides all draws (taken modulo 2^64). None: a new one per
                call, from ``seed`` and the number of the call on this copy of the sampler. A
                forked child goes on from the parent's number and an unpickled copy starts at 0, so
                copies with one seed repeat each other's draws: workers should pass keys.

        Raises:
            OutOfRangeError: names the first seed that is no node, and its position.
            FileChangedError: the mapped graph file was made shorter.
        """
        ids = as_ids(seeds, "seeds")
        number = (
            mix_key(self.seed, next(self._calls))
            if key is None
            else as_integer(key, "key") & _KEY_MASK
        )
        try:
            scratch = self._scratch.pop()
        except IndexError:
            scratch = self._new_scratch()
        try:
            sample = scratch.sample(ids, number)
        except OutOfRangeError as error:
            raise name_id(error, "seeds", self._num_nodes) from None
        finally:
            self._scratch.append(scratch)
        node, row, col, edge, batch, hop_nodes, hop_edges = sample
        if self.subgraph_type == "bidirectional":
            row, col, edge = to_bidirectional(row, col, edge, node.shape[0])
            return Subgraph(node, row, col, edge, batch)
        if self.subgraph_type == "induced":
            return Subgraph(node, row, col, edge, None, hop_nodes, None)
        return Subgraph(node, row, col, edge, batch, hop_nodes, hop_edges)

    def _new_scratch(self) -> native.NativeSampler:
        flags = 0
        if self.replace:
            flags |= native.SAMPLE_REPLACE
        if self.disjoint:
            flags |= native.SAMPLE_DISJOINT
        if self.subgraph_type == "induced":
            flags |= native.SAMPLE_INDUCED
        return native.NativeSampler(self._topology, self.fanouts, flags, self.num_threads)

    @property
    def scratch_memory(self) -> int:
        """Bytes of scratch memory that idle calls hold."""
        return sum(scratch.memory for scratch in list(self._scratch))

    def __repr__(self) -> str:
        return (
            f"NeighborSampler({self.graph!r}, fanouts={list(self.fanouts)}, "
            f"replace={self.replace}, disjoint={self.disjoint}, "
            f"subgraph_type={self.subgraph_type!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        options = (
            self.replace, self.disjoint, self.subgraph_type, self.num_threads, self.seed,
        )  # fmt: skip
        return _rebuild, (self.graph, self.fanouts, *options)


def _rebuild(
    graph: Graph,
    fanouts: tuple[int, ...],
    replace: bool,
    disjoint: bool,
    subgraph_type: SubgraphType,
    num_threads: int,
    seed: int,
) -> NeighborSampler:
    return NeighborSampler(
        graph,
        fanouts,
        replace=replace,
        disjoint=disjoint,
        subgraph_type=subgraph_type,
        num_threads=num_threads,
        seed=seed,
    )


def _as_fanouts(fanouts: Sequence[int] | NDArray[Any]) -> tuple[int, ...]:
    if isinstance(fanouts, (int, np.integer)):
        raise InvalidArgumentError(f"fanouts has one number per hop: [{int(fanouts)}] for one hop")
    ids = as_ids(fanouts, "fanouts")
    if ids.shape[0] > _MAX_HOPS:
        raise InvalidArgumentError(f"fanouts has {ids.shape[0]} hops, at most {_MAX_HOPS} can be")
    below = np.flatnonzero(ids < -1)
    if below.size:
        at = int(below[0])
        raise InvalidArgumentError(
            f"fanouts[{at}] = {ids[at]}: a fanout is >= 0, or -1 for all neighbours",
            position=at,
            value=int(ids[at]),
        )
    return tuple(int(k) for k in ids)
