"""PyG's ``BaseSampler`` over the native neighbour sampler.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py`` (``NeighborSampler``,
``node_sample``, ``edge_sample``) and ``torch_geometric/sampler/base.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import (
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.base import NumNeighbors, SubgraphType
from torch_geometric.typing import EdgeTypeStr

from aethergraph import _native as native
from aethergraph._checks.options import as_flag, as_list, as_text, shown
from aethergraph._torch.random_seeds import make_generator
from aethergraph._torch.tensors import edge_tensors, node_tensors, seed_ids
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.ids import check_ids
from aethergraph.graph.schema import EDGE, NODE, Schema
from aethergraph.protocols import AnyGraph
from aethergraph.pyg._exclusion import check_exclude, reverse_types
from aethergraph.pyg._links import Links, link_type
from aethergraph.pyg._negative_links import NegativeLinks
from aethergraph.pyg._negative_nodes import NegativeNodes, NodesByTime
from aethergraph.pyg._neighbors import NEGATIVES, NeighborSamplerBase
from aethergraph.pyg._sampled_graph import sampled_graph
from aethergraph.pyg._typed_seeds import TypedSeeds
from aethergraph.pyg._values import convert_seed_times
from aethergraph.sampling.base import as_window
from aethergraph.sampling.directions import (
    LAYOUTS,
    SampleDirection,
    check_direction,
    turned,
)
from aethergraph.sampling.draws import Draws, Excluded
from aethergraph.sampling.engine import DrawOptions, SampleEngine, as_num_threads
from aethergraph.sampling.fanouts import as_fanouts, typed_fanouts
from aethergraph.sampling.keys import hash_ids, hash_name
from aethergraph.sampling.plan import DrawPlan, Times, Weights, lists_of, make_plan
from aethergraph.sampling.two_step import Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph.hetero import EdgeType

__all__ = ["HeteroNeighborSampler", "NeighborSampler"]

Ids: TypeAlias = "NDArray[np.int64]"


class NeighborSampler(NeighborSamplerBase):
    """Neighbour sampler around seed nodes, or around the ends of seed links, for PyG's loaders.

    Takes the arguments of PyG's own ``NeighborSampler``, and is driven the same way::

        sampler = NeighborSampler((feature_store, graph_store), num_neighbors=[15, 10])
        loader = NodeLoader((feature_store, graph_store), sampler, input_nodes=train_nodes)

    A sample is a ``SamplerOutput``, or of a typed graph a ``HeteroSamplerOutput`` with all node
    types and edge types as keys, of int64 CPU tensors: ``node`` [N] global ids, the seeds
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
        data: ``(feature_store, graph_store)``, a graph store, a graph of ours, or PyG's ``Data`` or
            ``HeteroData``. Graph stores of other makers are read once through their ``coo()``. Edge
            ids are those of the graph, or positions in the edge indices.
        num_neighbors: neighbours to take per hop, -1 for all, 0 for none; of a typed graph a list
            for each edge type, where types that are missing are not followed (PyG refuses that), or
            one list for all types.
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
        sample_direction: ``"forward"``, ``"backward"`` or ``"both"``, see
            :class:`aethergraph.NeighborSampler`; the last two need a graph that stores out-edges.
            Edge types keep their names in each of them, for ``num_neighbors`` too.
        strict: see only times below the seed's (DGL's rule) instead of up to the seed's (PyG's).
        window: see only times of at least the seed's time minus this number.
        exclude: edges that the samples of a batch leave out. ``"self"``: the seed links and all
            their duplicates. ``"reverse"``: also their reverses, of the edge type
            ``(dst, "rev_" + relation, src)`` and, between nodes of one type, of the links' type.
            A dict ``{edge type: its reverse type}``, or ``{edge type: [reverse types]}``, names
            them, and must name those of the links. Where other types go back between the same node
            types, ``"reverse"`` is refused: they may tell the answers, too. Samples that are
            bidirectional always leave out reverses, which would turn into the links again.
        exclude_edges: ids of edges, as ``e_id`` has them, that no sample holds, beside those that
            ``exclude`` names: a tensor or array, of a typed graph by edge type. Not of a graph that
            changes.
        true_negatives: draw no negative link that is an edge of the graph.
        seed: fixed number to draw from instead of torch's seed.
        num_threads: threads per batch; 1 is the calling thread, 0 all cores the process may use.

    Raises:
        UnsupportedError: ``time_attr`` with a direction but ``"forward"``.
        LayoutError: the graph does not store the direction that is needed; names ``layout``.
        InvalidArgumentError: an argument of the wrong type or value; times or weights that do not
            exist, are not numeric, or are not one per node or edge; lists of a given graph that
            are not sorted by time (``position`` is the first such node).
        OutOfRangeError (when sampling): a seed that is not a node, with its position.
    """

    #: Whether the graph has types; None: whatever it is.
    _typed: bool | None = None

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
        sample_direction: SampleDirection = "forward",
        *,
        strict: bool = False,
        window: float | int | None = None,
        exclude: Literal["self", "reverse"] | Mapping[EdgeType, Any] | None = None,
        exclude_edges: Any = None,
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
        time_attr, weight_attr = (
            as_text(time_attr, "time_attr"),
            as_text(weight_attr, "weight_attr"),
        )
        if sample_direction != "forward" and time_attr is not None:
            raise UnsupportedError(
                f"time_attr={time_attr!r}: temporal sampling does not walk backward, as in PyG; to "
                "go both ways store the reverse edges, with their times, as an edge type of their "
                "own: HeteroGraph.from_edges(..., add_reverse=True), or a second one of a live "
                "graph"
            )
        self._sample_direction: SampleDirection = sample_direction
        self._graph = sampled_graph(
            data, weight_attr, time_attr, backward=sample_direction != "forward", typed=self._typed
        )
        self._set_seed(seed)
        self._time_attr = time_attr
        self._weight_attr = weight_attr
        self._strict = as_flag(strict, "strict")
        self._window = as_window(window)
        if time_attr is None and (self._strict or window is not None):
            raise InvalidArgumentError("strict and window need time_attr")
        self._exclude = check_exclude(exclude, self._graph.schema)
        self._exclude_edges = self._graph.own_edges(exclude_edges, "exclude_edges")
        self._true_negatives = as_flag(true_negatives, "true_negatives")
        self._is_sorted = as_flag(is_sorted, "is_sorted") or self._graph.is_sorted
        self._plan: DrawPlan | None = None
        #: Options and their draws, in one attribute, since threads may share the sampler.
        self._made: tuple[Any, Draws[native.NativeSample]] | None = None
        #: By type of links: numbers of nodes at both ends, and what draws among them.
        self._negatives: dict[EdgeType, tuple[tuple[int, int], NegativeLinks]] = {}
        self.num_threads = num_threads
        self.num_neighbors = num_neighbors
        self.subgraph_type = subgraph_type
        self.replace = replace
        self.disjoint = disjoint
        self.temporal_strategy = temporal_strategy
        self.keep_orig_edges = False
        self._draws()  # a wrong argument or a missing layout shows now

    # ---- options and properties that PyG and its users read --------------------------------

    @property
    def schema(self) -> Schema:
        """Types of the graph, and the values that samples are drawn by."""
        return self._graph.schema

    @property
    def graph(self) -> AnyGraph:
        """Graph whose edges are sampled."""
        return self.schema.graph

    @property
    def num_nodes(self) -> Any:
        """Number of nodes of the graph, of a typed graph by node type."""
        return self.graph.num_nodes

    @property
    def is_hetero(self) -> bool:
        """True if the graph is typed."""
        return self.schema.is_typed

    @property
    def num_neighbors(self) -> NumNeighbors:
        """Neighbours per hop, as PyG's ``NumNeighbors``; takes a list, or a dict by edge type."""
        return NumNeighbors(self._num_neighbors)

    @num_neighbors.setter
    def num_neighbors(self, value: Any) -> None:
        kinds = self.schema.edge_types
        if self.is_hetero:
            fanouts = typed_fanouts(_by_type(value, kinds), kinds, "num_neighbors")
            self._hops = tuple(fanouts.values())
            self._num_neighbors: Any = {kind: list(row) for kind, row in fanouts.items()}
            return
        counts = value.values if isinstance(value, NumNeighbors) else value
        if isinstance(counts, Mapping):
            raise UnsupportedError(
                "num_neighbors by edge type is for typed graphs: give a list, one number per hop"
            )
        if isinstance(counts, Set):  # has an order of its own
            raise InvalidArgumentError(f"num_neighbors = {shown(counts)}: give a list")
        counts = as_list(counts, "num_neighbors", "numbers, one per hop, such as [15, 10]")
        self._hops = (as_fanouts(counts, "num_neighbors"),)
        self._num_neighbors = list(self._hops[0])

    @property
    def sample_direction(self) -> str:
        """``"forward"``, ``"backward"`` or ``"both"``."""
        return self._sample_direction

    @property
    def time_unit(self) -> str | None:
        """Unit of the times, such as ``"s"``; None unless they are the graph's own datetimes."""
        return self._current_plan().time_unit

    @property
    def engine(self) -> SampleEngine[native.NativeSample]:
        """Maker of the samples with the present options."""
        return self._draws().engine

    def _current_plan(self) -> DrawPlan:
        if self._plan is None:
            weights = None if self._weight_attr is None else Weights(self._weight_attr)
            times = None
            if self._time_attr is not None:
                times = Times(self._time_attr, strict=self._strict, window=self._window)
            lists = lists_of(self.schema.edge_types, LAYOUTS[self._sample_direction])
            self._plan = make_plan(
                self.schema, lists, weights, times, is_sorted=self._is_sorted
            )  # fmt: skip
        return self._plan

    def _draws(self) -> Draws[native.NativeSample]:
        """Return the draws for the present options, which PyG's users may assign to."""
        settings = (
            self._hops, as_flag(self.replace, "replace"), self.disjoint, self._is_counted,
            self._temporal_strategy, self.num_threads,
        )  # fmt: skip
        cached = self._made
        if cached is None or cached[0] != settings:
            fanouts, replace, disjoint, counted, strategy, num_threads = settings
            options = DrawOptions(
                replace=replace,
                disjoint=disjoint,
                induced=not counted,
                latest=strategy == "last",
                num_threads=as_num_threads(num_threads),
            )
            by_lists = fanouts * len(LAYOUTS[self._sample_direction])
            cached = self._made = (
                settings,
                Draws(
                    self._current_plan(),
                    native.NativeSample,
                    by_lists,
                    options,
                    self._exclude_edges,
                ),
            )
        return cached[1]

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
        if isinstance(index, TypedSeeds):
            out = yield from self._typed_steps(index, loader_key)
            return out
        node_type = self._node_type(index.input_type, "input_nodes")
        seeds = seed_ids(index.node, "input_nodes")
        times = self._seed_times(index.time, len(seeds), "input_time", [node_type])
        key = self._key(loader_key, [node_type], [seeds], [times])
        by_type = None if times is None else {node_type: times}
        sample = yield self._draws().prepare({node_type: seeds}, key, seed_time=by_type)
        out = self._output(sample)
        out.metadata = (index.input_id, index.time)
        return self._finish(out)

    def _typed_steps(self, index: TypedSeeds, loader_key: int | None) -> Steps:
        """Sample around seeds of several types; metadata are dicts by type."""
        seeds = {name: ids for name, ids in index.by_type.items() if len(ids)}
        times = {
            name: self._seed_times(index.times.get(name), len(ids), f"input_time[{name!r}]", [name])
            for name, ids in seeds.items()
        }
        key = self._key(loader_key, list(seeds), list(seeds.values()), list(times.values()))
        known_times = {name: of_type for name, of_type in times.items() if of_type is not None}
        sample = yield self._draws().prepare(seeds, key, seed_time=known_times)
        out = self._output(sample)
        none = np.empty(0, self._current_plan().times_dtype)
        seed_times = {name: torch.from_numpy(known_times.get(name, none)) for name in index.times}
        out.metadata = (index.input_ids, seed_times)
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
            ones it is
            ``(input_id, edge_label_index [2, P + negatives], edge_label | None, time | None)``,
            where ``time`` is [P + negatives], for triplets
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
        kind = self._link_type(index.input_type)
        src, dst = self._read_links(index, neg_sampling, timed=self.is_temporal)
        times = self._seed_times(index.time, len(src), "edge_label_time", [kind[0], kind[-1]])
        key = self._key(loader_key, [kind], [src, dst], [times])
        exclude = None if self._exclude is None else self._excluded(kind, src, dst)
        ends = [torch.from_numpy(src), torch.from_numpy(dst)]
        if neg_sampling is not None:
            ends = self._with_negatives(kind, (ends[0], ends[1]), neg_sampling, key, times)
        links = Links(ends, len(src), neg_sampling)
        seeds, local, link_of = self._place(kind, ends, links)
        seed_times = None
        if times is not None:
            seed_times = {name: times[numbers.numpy()] for name, numbers in link_of.items()}
        ids = {name: group.numpy() for name, group in seeds.items()}
        sample = yield self._draws().prepare(ids, key, seed_time=seed_times, exclude=exclude)
        out = self._output(sample, link_of)
        out.metadata = links.metadata(index, local)
        return self._finish(out)

    def _sample(self, seed: Any, seed_time: Any = None, **_: Any) -> Any:
        """Sample around ``seed`` [n] at ``seed_time`` [n], of a typed graph by node type.

        The hook that PyG's samplers call: its ``BidirectionalNeighborSampler``, ``node_sample`` and
        ``edge_sample`` add the metadata, and reverses of edges, themselves.
        """
        if not self.is_hetero:
            seed = {NODE: seed}
            seed_time = None if seed_time is None else {NODE: seed_time}
        seeds = {}
        for node_type, ids in seed.items():
            if self.is_hetero:
                self._node_type(node_type, "seed")
            seeds[node_type] = seed_ids(ids if ids.numel() else ids.to(torch.int64), "seed")
        times = {
            node_type: self._seed_times(of_type, len(seeds[node_type]), "seed_time")
            for node_type, of_type in (seed_time or {}).items()
        }
        key = self._key(None, list(seeds), list(seeds.values()), list(times.values()))
        known_times = {name: of_type for name, of_type in times.items() if of_type is not None}
        return self._output(
            self._run_draw(self._draws().prepare(seeds, key, seed_time=known_times))
        )

    def _output(
        self, sample: native.NativeSample, link_of: Mapping[str, Tensor] | None = None
    ) -> Any:
        """Return PyG's form of a sample; ``link_of`` has the link of every seed, by node type."""
        schema = self.schema
        sample = turned(sample, self._sample_direction)
        self._graph.number_edges(sample)
        nodes, batches = node_tensors(sample)
        rows, cols, edges = edge_tensors(sample)
        if batches is not None and link_of is not None:
            number = torch.cat([link_of[name] for name in schema.node_types if name in link_of])
            batches = [number[batch] for batch in batches]
        hop_nodes = sample.hop_nodes if self._is_counted else None
        hop_edges = sample.hop_edges if self._is_counted else None
        if not schema.is_typed:
            return SamplerOutput(
                node=nodes[0], row=rows[0], col=cols[0], edge=edges[0],
                batch=batches and batches[0],
                num_sampled_nodes=hop_nodes and hop_nodes[0],
                num_sampled_edges=hop_edges and hop_edges[0],
            )  # fmt: skip

        def by_type(names: list[Any], parts: Any) -> Any:
            return None if parts is None else dict(zip(names, parts, strict=True))

        names, kinds = schema.node_types, schema.edge_types
        return HeteroSamplerOutput(
            node=by_type(names, nodes), row=by_type(kinds, rows), col=by_type(kinds, cols),
            edge=by_type(kinds, edges), batch=by_type(names, batches),
            num_sampled_nodes=by_type(names, hop_nodes),
            num_sampled_edges=by_type(kinds, hop_edges),
        )  # fmt: skip

    # ---- seeds and their times -------------------------------------------------------------

    def _node_type(self, name: Any, option: str) -> str:
        """Return the node type of seeds; None stands for that of a graph of one type."""
        names = self.schema.node_types
        if not self.is_hetero:
            if name is not None:
                raise UnsupportedError(
                    f"input_type={name!r}: the graph has one type of nodes, give the ids alone"
                )
            return NODE
        if name not in names:
            known = ", ".join(map(repr, names)) or "none"
            raise InvalidArgumentError(
                f"{option} of type {name!r}: give (type, ids) with one of {known}"
            )
        node_type: str = name
        return node_type

    def _link_type(self, kind: Any) -> EdgeType:
        if not self.is_hetero:
            self._node_type(kind, "")
            return EDGE
        return link_type(kind, self.schema)

    def _seed_times(
        self, times: Any, count: int, name: str, node_types: Sequence[str] = ()
    ) -> NDArray[Any] | None:
        """Return the given times of seeds of some types in the dtype of the graph's times.

        None: those of the seeds themselves.
        """
        plan = self._current_plan()
        if times is None:
            if plan.times is not None and not plan.node_times:
                raise InvalidArgumentError(f"{name} is needed: the times are those of edges")
            untimed = next((kind for kind in node_types if kind not in plan.node_times), None)
            if plan.times is not None and count and untimed is not None:
                raise InvalidArgumentError(f"{name} is needed: nodes of {untimed!r} have no times")
            return None
        if plan.times_dtype is None:
            raise InvalidArgumentError(
                f"{name} is given, but the sampler has no time_attr: give it one, such as "
                "'node_time' or 'edge_time'"
            )
        return convert_seed_times(times, count, name, plan.times_dtype)

    def _key(
        self,
        loader_key: int | None,
        types: list[Any],
        ids: list[Ids],
        times: list[NDArray[Any] | None],
    ) -> int:
        """Mix the key of a batch from the types, ids and times of its seeds."""
        parts: list[int] = []
        if self.is_hetero:
            parts = [hash_name(kind if isinstance(kind, str) else repr(kind)) for kind in types]
        parts += [hash_ids(of_type) for of_type in ids]
        parts += [hash_ids(native.time_keys(of_type)) for of_type in times if of_type is not None]
        return self._batch_key(loader_key, *parts)

    def _place(
        self, kind: EdgeType, ends: list[Tensor], links: Links
    ) -> tuple[dict[str, Tensor], Tensor, dict[str, Tensor]]:
        """Return seeds by node type, the local id of every end, and the link of every seed."""
        names, groups = [kind[0], kind[2]], list(ends)
        numbers = list(torch.split(links.trees(), [len(end) for end in ends]))
        if kind[0] == kind[2]:
            names, groups, numbers = names[:1], [torch.cat(groups)], [torch.cat(numbers)]
        local = [torch.arange(len(group)) for group in groups]
        if not self.disjoint:
            unique = [torch.unique(group, return_inverse=True) for group in groups]
            groups, local = [ids for ids, _ in unique], [inverse for _, inverse in unique]
        return (
            dict(zip(names, groups, strict=True)),
            torch.cat(local),
            dict(zip(names, numbers, strict=True)),
        )

    # ---- links that are left out, and negative ones ----------------------------------------

    def _excluded(self, kind: EdgeType, src: Ids, dst: Ids) -> Excluded:
        """Find the edges that are seed links, or reverses of seed links."""
        schema = self.schema
        check_ids(src, schema.num_nodes(kind[0]), "row")
        check_ids(dst, schema.num_nodes(kind[2]), "col")
        pairs: dict[EdgeType, list[tuple[Ids, Ids]]] = {}
        if kind in schema.edge_types:
            pairs[kind] = [(src, dst)]
        if self._exclude != "self" or self._adds_reverses:
            for backward in reverse_types(self._exclude, kind, schema):
                pairs.setdefault(backward, []).append((dst, src))
        return self._draws().without_pairs(pairs)

    def _with_negatives(
        self,
        kind: EdgeType,
        ends: tuple[Tensor, Tensor],
        neg_sampling: NegativeSampling,
        key: int,
        times: NDArray[Any] | None,
    ) -> list[Tensor]:
        plan, until = self._current_plan(), []
        for node_type, end in zip((kind[0], kind[2]), ends, strict=True):
            keys = None if times is None else plan.bounds(node_type, end.numpy(), times).until
            until.append(None if keys is None else torch.from_numpy(keys))
        generator = make_generator(key, NEGATIVES)
        links = self._negative_links(kind)
        return links.draw(ends, neg_sampling, generator, (until[0], until[1]))

    def _negative_links(self, kind: EdgeType) -> NegativeLinks:
        schema, plan = self.schema, self._current_plan()
        # Of a live graph the numbers of nodes are those of the commit of this batch.
        counts = schema.num_nodes(kind[0]), schema.num_nodes(kind[2])
        cached = self._negatives.get(kind)
        if cached is None or cached[0] != counts:
            if self._true_negatives and kind not in schema.edge_types:
                raise InvalidArgumentError(
                    f"true_negatives: the graph holds no edges of {kind!r}, so that every pair "
                    "would do; put them into the graph, or take true_negatives=False"
                )
            nodes = {}
            for node_type, count in zip((kind[0], kind[2]), counts, strict=True):
                times = plan.node_times.get(node_type)
                by_time = None if times is None else NodesByTime(native.time_keys(times.all()))
                nodes[node_type] = NegativeNodes(count, by_time)
            edges = schema.edges(kind) if self._true_negatives else None
            links = NegativeLinks(nodes[kind[0]], nodes[kind[2]], edges)
            cached = self._negatives[kind] = counts, links
        return cached[1]

    # ---- the rest --------------------------------------------------------------------------

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.graph!r}, num_neighbors={self.num_neighbors.values}, "
            f"subgraph_type={self._subgraph_type.value!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_plan"], state["_made"], state["_negatives"] = None, None, {}
        state["_is_sorted"] = True  # it was checked, or promised
        return state


class HeteroNeighborSampler(NeighborSampler):
    """:class:`NeighborSampler` that refuses graphs of one type."""

    _typed = True


def _by_type(value: Any, kinds: list[EdgeType]) -> Any:
    """Return the lists, or the lists by edge type, of PyG's ``NumNeighbors``."""
    if not isinstance(value, NumNeighbors):
        return value
    if not isinstance(value.values, dict):
        return list(value.values)
    # Keys of PyG's dict are strings such as "user__votes__post", which equal no tuple.
    lists = {EdgeTypeStr(kind).to_tuple(): list(row) for kind, row in value.values.items()}
    default = {} if value.default is None else {kind: list(value.default) for kind in kinds}
    return {**default, **lists}
