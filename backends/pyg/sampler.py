"""PyG's ``BaseSampler`` over the native neighbour sampler.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py`` (``NeighborSampler``,
``node_sample``, ``edge_sample``) and ``torch_geometric/sampler/base.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import (
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.base import NumNeighbors, SubgraphType

from aethergraph import _native as native
from aethergraph._checks.options import as_flag, as_list, shown
from aethergraph._torch.random_seeds import make_generator
from aethergraph._torch.tensors import edge_tensors, node_tensors, seed_ids
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.pyg._engine import Excluded, Walk, Walker, make_walk
from aethergraph.pyg._links import Links, check_exclude
from aethergraph.pyg._negative_links import NegativeLinks
from aethergraph.pyg._negative_nodes import NegativeNodes, NodesByTime
from aethergraph.pyg._neighbors import NEGATIVES, NeighborSamplerBase
from aethergraph.pyg._sources import source_of
from aethergraph.pyg._values import read_seed_times
from aethergraph.sampling.base import as_window
from aethergraph.sampling.directions import check_direction
from aethergraph.sampling.engine import DrawOptions, SampleEngine, as_num_threads
from aethergraph.sampling.fanouts import as_fanouts
from aethergraph.sampling.keys import hash_ids
from aethergraph.sampling.two_step import Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.protocols import HomogeneousGraph

__all__ = ["NeighborSampler"]

Ids: TypeAlias = "NDArray[np.int64]"


class NeighborSampler(NeighborSamplerBase):
    """Neighbour sampler around seed nodes, or around the ends of seed links, for PyG's loaders.

    Takes the arguments of PyG's own ``NeighborSampler``, and is driven the same way::

        sampler = NeighborSampler((feature_store, graph_store), num_neighbors=[15, 10])
        loader = NodeLoader((feature_store, graph_store), sampler, input_nodes=train_nodes)

    A sample is a ``SamplerOutput`` of int64 CPU tensors: ``node`` [N] global ids, the seeds
    first (duplicates kept, each with the same edges), then hop by hop in order of discovery;
    ``row`` and ``col`` [E], local ids of source and destination, ``col`` non-decreasing; ``edge``
    [E], edge ids as the graph store numbers them; ``batch`` [N] if disjoint;
    ``num_sampled_nodes`` and ``num_sampled_edges``, lists per hop; ``metadata`` as PyG's loaders
    read it.

    **Random draws.** Every draw depends on a key, the hop, the node and its list alone: not on
    the process, the thread, or earlier draws. The key of a batch is mixed from

    * ``seed`` if given. Otherwise, in a batch of a ``DataLoader``, the number that torch draws
      from the loader's generator when an iteration begins; elsewhere ``torch.initial_seed()``;
    * the epoch, see :meth:`set_epoch`;
    * the seed nodes (or the sources and destinations of the seed links) of the batch, their order
      included, and their times if they are given.

    So every epoch of a stock loader draws anew, ``torch.manual_seed`` reproduces it, and the same
    seeds in the same order give the same batch for every ``num_workers``, start method and
    ``filter_per_worker``. torch draws no number for later epochs of persistent workers; their keys
    are mixed from the number of the first epoch and the number of the epoch. With ``seed``, and
    for calls outside of a loader, equal batches draw alike until :meth:`set_epoch` is called; a
    second epoch of a loader that repeats its draws brings a warning.

    Negative links are drawn by a generator of their own, seeded from the same key, so they are
    reproduced too, and torch's global generator is left alone. A subclass of ``NegativeSampling``
    that overrides ``sample`` is called unchanged and may draw from any generator.

    Args:
        data: ``(feature_store, graph_store)``, a graph store, an :class:`aethergraph.Graph`, or
            a PyG ``Data``. Graph stores of other makers are read once through their ``coo()``.
        num_neighbors: neighbours to take per hop, -1 for all, 0 for none.
        subgraph_type: ``"directional"``; ``"bidirectional"``, which adds every edge's reverse and
            gives no counts per hop; or ``"induced"``, all edges among the sampled nodes.
        replace: draw with replacement: exactly ``num_neighbors`` per node that has neighbours.
        disjoint: sample a separate tree for every seed.
        temporal_strategy: ``"uniform"``: any of the neighbours in time; ``"last"``: the latest.
        time_attr: name of the times (integers or floats), of nodes (group None) or else of edges
            (group ``(None, None)``). A tree then holds only edges, or edges to nodes, whose time
            is not after that of its seed: the time given for the seed (needed if edges have the
            times), else the time of the seed node. Implies ``disjoint``.
        weight_attr: name of a weight per edge (group ``(None, None)``). Edges are drawn by these
            weights, without replacement as if one after the other; an edge of weight 0 is never
            drawn. May be combined with ``time_attr``, which PyG refuses.
        is_sorted: skip the check that every list of the given graph is sorted by time (the caller
            guarantees it). Graphs built from tensors are sorted here.
        share_memory: accepted, not needed: files are mapped once for all processes, and forked
            workers share the parent's memory.
        directed: deprecated by PyG; False means ``subgraph_type="induced"``.
        sample_direction: ``"forward"`` walks edges from destination to source, so that messages
            reach the seeds; ``"backward"`` walks from source to destination; ``"both"`` draws
            in-edges and as many out-edges of every node, as PyG's
            ``BidirectionalNeighborSampler``, an edge drawn at both ends, or more than once, only
            once (for each copy of a repeated seed that it leads to), edges in order of the hops
            but not of ``col``. The last two need a graph
            that stores CSR (``layout="csr"`` or ``"both"``).
        strict: see only times below the seed's (DGL's rule) instead of up to the seed's (PyG's).
        window: see only times of at least the seed's time minus this number.
        exclude: hide seed links from the model that is to predict them. ``"self"`` leaves the
            seed links and all their duplicates out of the samples of their batch; ``"reverse"``
            leaves out their reverses as well, as bidirectional samples always do: a reverse turned
            around would be the link. PyG has no such option, DGL has.
        true_negatives: draw no negative link that is an edge of the graph.
        seed: fixed number to draw from instead of torch's seed.
        num_threads: threads per batch; 1 is the calling thread, 0 all cores the process may use.

    Raises:
        UnsupportedError: a typed graph, or ``time_attr`` with a direction but ``"forward"``.
        LayoutError: the graph does not store the direction that is needed; names ``layout``.
        InvalidArgumentError: an argument of the wrong type or value; times or weights that do not
            exist, are not numeric, or are not one per node or edge; lists of a given graph that
            are not sorted by time (``position`` is the first such node).
        OutOfRangeError (when sampling): a seed that is not a node, with its position.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: NumNeighbors | list[int] | dict[Any, list[int]],
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
        sample_direction: str = "forward",
        *,
        strict: bool = False,
        window: float | int | None = None,
        exclude: Literal["self", "reverse"] | None = None,
        true_negatives: bool = False,
        seed: int | None = None,
        num_threads: int = 1,
    ) -> None:
        if not as_flag(directed, "directed"):
            subgraph_type = SubgraphType.induced
            warnings.warn(
                "'directed' is deprecated: use subgraph_type='induced' instead of directed=False",
                DeprecationWarning,
                stacklevel=2,
            )
        as_flag(share_memory, "share_memory")
        check_direction(sample_direction)
        if sample_direction != "forward" and time_attr is not None:
            raise UnsupportedError(
                f"time_attr={time_attr!r}: temporal sampling does not walk backward, as in PyG"
            )
        self._source = source_of(data)
        if time_attr is None and weight_attr is None:
            self._source = self._source._replace(feature_stores=())  # nothing to pickle
        self._set_seed(seed)
        self._sample_direction = sample_direction
        self._time_attr = time_attr
        self._weight_attr = weight_attr
        self._strict = as_flag(strict, "strict")
        self._window = as_window(window)
        if time_attr is None and (self._strict or window is not None):
            raise InvalidArgumentError("strict and window need time_attr")
        self._exclude = check_exclude(exclude)
        self._true_negatives = as_flag(true_negatives, "true_negatives")
        self._is_sorted = as_flag(is_sorted, "is_sorted")
        self._walk: Walk | None = None
        #: Options and their walker, in one attribute, since threads may share the sampler.
        self._made: tuple[Any, Walker] | None = None
        #: Number of nodes, and what draws among them: one attribute, which threads replace.
        self._negatives: tuple[int, NegativeLinks] | None = None
        self.num_threads = num_threads
        self.num_neighbors = num_neighbors
        self.subgraph_type = subgraph_type
        self.replace = replace
        self.disjoint = disjoint
        self.temporal_strategy = temporal_strategy
        self.keep_orig_edges = False
        self._current_walker()  # a wrong argument or a missing layout shows now

    # ---- options and properties that PyG and its users read --------------------------------

    @property
    def num_neighbors(self) -> NumNeighbors:
        """Neighbours per hop, as PyG's ``NumNeighbors``; takes a list as well."""
        return self._num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, value: NumNeighbors | list[int]) -> None:
        given = value.values if isinstance(value, NumNeighbors) else value
        if isinstance(given, Mapping):
            raise UnsupportedError(
                "num_neighbors by edge type is for typed graphs: see HeteroNeighborSampler"
            )
        if isinstance(given, Set):  # has an order of its own
            raise InvalidArgumentError(f"num_neighbors = {shown(given)}: give a list")
        what = "numbers, one per hop, such as [15, 10]"
        self._num_neighbors = NumNeighbors(as_list(given, "num_neighbors", what))

    @property
    def sample_direction(self) -> str:
        """``"forward"``, ``"backward"`` or ``"both"``."""
        return self._sample_direction

    @property
    def graph(self) -> HomogeneousGraph:
        """Graph whose edges are sampled."""
        return self._current_walk().graph

    @property
    def time_unit(self) -> str | None:
        """Unit of the times, such as ``"s"``; None unless they are the graph's own datetimes."""
        times = self._current_walk().times
        return None if times is None else times.unit

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return self.graph.num_nodes

    @property
    def is_hetero(self) -> bool:
        """False; typed graphs take :class:`aethergraph.pyg.HeteroNeighborSampler`."""
        return False

    # ---- sampling --------------------------------------------------------------------------

    def sample_from_nodes(
        self, index: NodeSamplerInput, *, loader_key: int | None = None, **_: Any
    ) -> SamplerOutput:
        """Sample around ``index.node``.

        Args:
            index: PyG's input; ``node`` is an integer vector [n], duplicates allowed; ``time`` [n]
                or None.
            loader_key: key of the epoch, which our own loaders pass in place of the seed.

        Returns:
            A ``SamplerOutput`` with metadata ``(input_id, time)``.

        Raises:
            OutOfRangeError: names the first seed that is no node, and its position.
            UnsupportedError: seeds of a node type.
            InvalidArgumentError: times missing for edge-level sampling, or of a wrong dtype or
                shape.
        """
        return self._run(self.node_steps(index, loader_key))

    def node_steps(self, index: NodeSamplerInput, loader_key: int | None = None) -> Steps:
        """Run :meth:`sample_from_nodes` as a generator of two steps (``sampling/two_step.py``)."""
        index = NodeSamplerInput.cast(index)
        _reject_typed(index.input_type)
        seeds = seed_ids(index.node, "input_nodes")
        times = read_seed_times(self._current_walk().times, index.time, len(seeds), "input_time")
        out = yield from self._walk_steps(
            seeds, self._key(loader_key, times, hash_ids(seeds)), times
        )
        out.metadata = (index.input_id, index.time)
        return self._finish(out)

    def sample_from_edges(
        self,
        index: EdgeSamplerInput,
        neg_sampling: NegativeSampling | None = None,
        *,
        loader_key: int | None = None,
    ) -> SamplerOutput:
        """Sample around the ends of links, and of negative links drawn for them.

        Negatives are drawn as PyG draws them: nodes uniformly, or with probability proportional
        to ``src_weight`` and ``dst_weight``; they may hit links that exist, unless
        ``true_negatives``. Negative ``i`` has the time of link ``i % P``; if nodes have the times,
        its ends are nodes not later than that time (the earliest node where there is none, as in
        PyG).

        Args:
            index: PyG's input; ``row`` and ``col`` are integer vectors [P]; ``time`` [P] or None.
            neg_sampling: PyG's ``NegativeSampling``, or None.
            loader_key: see :meth:`sample_from_nodes`.

        Returns:
            A ``SamplerOutput`` whose metadata holds local ids. Without negatives and with binary
            ones it is ``(input_id, edge_label_index [2, P + negatives], edge_label | None,
            time [P + negatives] | None)``, for triplets
            ``(input_id, src [P], dst_pos [P], dst_neg [P] or [P, amount], time)``.

        Raises:
            OutOfRangeError, UnsupportedError: as for nodes.
            InvalidArgumentError: weights of the wrong length, negative, NaN or all zero; times as
                for nodes, or missing where there are negatives.
        """
        return self._run(self.edge_steps(index, neg_sampling, loader_key))

    def edge_steps(
        self,
        index: EdgeSamplerInput,
        neg_sampling: NegativeSampling | None = None,
        loader_key: int | None = None,
    ) -> Steps:
        """Run :meth:`sample_from_edges` as a generator of two steps (``sampling/two_step.py``)."""
        index = EdgeSamplerInput.cast(index)
        neg_sampling = NegativeSampling.cast(neg_sampling)
        _reject_typed(index.input_type)
        walk_times = self._current_walk().times
        src, dst = self._read_links(index, neg_sampling, timed=walk_times is not None)
        times = read_seed_times(walk_times, index.time, len(src), "edge_label_time")
        key = self._key(loader_key, times, hash_ids(src), hash_ids(dst))
        exclude = None
        if self._exclude is not None:
            reverse = self._exclude == "reverse" or self._adds_reverses
            exclude = self._current_walker().find(src, dst, reverse=reverse)
        ends = [torch.from_numpy(src), torch.from_numpy(dst)]
        if neg_sampling is not None:
            ends = self._with_negatives((ends[0], ends[1]), neg_sampling, key, times)
        links = Links(ends, len(src), neg_sampling)
        seeds = torch.cat(ends)
        local = torch.arange(len(seeds))
        if not self.disjoint:
            seeds, local = torch.unique(seeds, return_inverse=True)
        if times is not None:
            times = times[links.trees().numpy()]
        out = yield from self._walk_steps(seeds.numpy(), key, times, exclude)
        if out.batch is not None:
            out.batch = links.trees()[out.batch]
        out.metadata = links.metadata(index, local)
        return self._finish(out)

    def _key(self, loader_key: int | None, times: NDArray[Any] | None, *content: int) -> int:
        if times is not None:
            content = (*content, hash_ids(native.time_keys(times)))
        return self._batch_key(loader_key, *content)

    def _sample(self, seed: Tensor, seed_time: Tensor | None = None, **_: Any) -> SamplerOutput:
        """Sample around ``seed`` [n] at ``seed_time`` [n]: the hook that PyG's samplers call.

        PyG's ``BidirectionalNeighborSampler``, ``node_sample`` and ``edge_sample`` call this
        method;
        they add the metadata, and reverses of edges, themselves.
        """
        seeds = seed_ids(seed if seed.numel() else seed.to(torch.int64), "seed")
        times = read_seed_times(self._current_walk().times, seed_time, len(seeds), "seed_time")
        key = self._key(None, times, hash_ids(seeds))
        out: SamplerOutput = self._run(self._walk_steps(seeds, key, times))
        return out

    def _walk_steps(
        self, seeds: Ids, key: int, times: NDArray[Any] | None, exclude: Excluded | None = None
    ) -> Steps:
        walker = self._current_walker()
        sample = walker.finish((yield walker.prepare(seeds, key, times, exclude)))
        nodes, batches = node_tensors(sample)
        (sources,), (targets,), (edges,) = edge_tensors(sample)
        if self._sample_direction == "backward":
            sources, targets = targets, sources
        return SamplerOutput(
            node=nodes[0],
            row=sources,
            col=targets,
            edge=edges,
            batch=None if batches is None else batches[0],
            num_sampled_nodes=sample.hop_nodes[0] if self._is_counted else None,
            num_sampled_edges=sample.hop_edges[0] if self._is_counted else None,
        )

    @property
    def engine(self) -> SampleEngine[native.NativeSample]:
        """Maker of the samples with the present options."""
        return self._current_walker().engine

    def _current_walk(self) -> Walk:
        if self._walk is None:
            self._walk = make_walk(
                self._source,
                self._sample_direction,
                self._weight_attr,
                self._time_attr,
                is_sorted=self._is_sorted,
            )
        return self._walk

    def _current_walker(self) -> Walker:
        """Return the walker for the present options, which PyG's users may assign to."""
        given = (
            tuple(self._num_neighbors.values),
            as_flag(self.replace, "replace"),
            self.disjoint,
            self._is_counted,
            self._temporal_strategy,
            self.num_threads,
        )
        made = self._made
        if made is None or made[0] != given:
            values, replace, disjoint, counted, strategy, num_threads = given
            fanouts = as_fanouts(values, "num_neighbors")
            options = DrawOptions(
                replace=replace,
                disjoint=disjoint,
                induced=not counted,
                latest=strategy == "last",
                num_threads=as_num_threads(num_threads),
            )
            walker = Walker(
                self._current_walk(), fanouts, options, strict=self._strict, window=self._window
            )
            made = self._made = given, walker
        return made[1]

    # ---- negatives and targets -------------------------------------------------------------

    def _with_negatives(
        self,
        ends: tuple[Tensor, Tensor],
        neg_sampling: NegativeSampling,
        key: int,
        times: NDArray[Any] | None,
    ) -> list[Tensor]:
        until = None
        if times is not None:
            bounds = self._current_walker().bounds(ends[0].numpy(), times)
            assert bounds.until is not None
            until = torch.from_numpy(bounds.until)
        generator = make_generator(key, NEGATIVES)
        return self._negative_links().draw(ends, neg_sampling, generator, (until, until))

    def _negative_links(self) -> NegativeLinks:
        walk = self._current_walk()
        count = walk.graph.num_nodes  # of a live graph that of the commit of this batch
        made = self._negatives
        if made is None or made[0] != count:
            by_time = None
            if walk.times is not None and walk.times.of_nodes:
                by_time = NodesByTime(native.time_keys(walk.times.array))
            nodes = NegativeNodes(count, by_time)
            edges = walk.graph if self._true_negatives else None
            made = self._negatives = count, NegativeLinks(nodes, nodes, edges)
        return made[1]

    # ---- the rest --------------------------------------------------------------------------

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._source.graph_store!r}, "
            f"num_neighbors={self._num_neighbors.values}, "
            f"subgraph_type={self._subgraph_type.value!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_walk"] = state["_made"] = state["_negatives"] = None
        state["_is_sorted"] = True  # it was checked, or promised
        return state


def _reject_typed(input_type: Any) -> None:
    if input_type is not None:
        raise UnsupportedError(
            f"input_type={input_type!r}: the graph has one type of nodes; for typed graphs take "
            "HeteroNeighborSampler"
        )
