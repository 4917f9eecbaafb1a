"""PyG's sampler interface for typed graphs, over the native sampler.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py`` (``node_sample``, ``edge_sample``)
and ``HeteroSamplerOutput``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import (
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    NumNeighbors,
)
from torch_geometric.sampler.base import SubgraphType
from torch_geometric.typing import EdgeTypeStr

from aethergraph import _native as native
from aethergraph._checks.options import as_flag, shown
from aethergraph._torch.random_seeds import make_generator
from aethergraph._torch.tensors import node_tensors, seed_ids
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph import HeteroGraph
from aethergraph.pyg._links import Links, check_exclude, link_type
from aethergraph.pyg._negative_links import NegativeLinks
from aethergraph.pyg._negative_nodes import NegativeNodes, NodesByTime
from aethergraph.pyg._neighbors import NEGATIVES, NeighborSamplerBase
from aethergraph.pyg._typed_sources import typed_source
from aethergraph.pyg._values import convert_seed_times
from aethergraph.sampling import hetero as core
from aethergraph.sampling.directions import SampleDirection, check_direction
from aethergraph.sampling.engine import SampleEngine
from aethergraph.sampling.fanouts import typed_fanouts
from aethergraph.sampling.keys import hash_ids, hash_name
from aethergraph.sampling.subgraph import reverse_name
from aethergraph.sampling.two_step import Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph import EdgeType
    from aethergraph.sampling.base import TemporalStrategy

__all__ = ["HeteroNeighborSampler"]

Ids: TypeAlias = "NDArray[np.int64]"


class HeteroNeighborSampler(NeighborSamplerBase):
    """Neighbour sampler over all edge types of a typed graph.

    Driven by PyG's stock loaders::

        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        sampler = HeteroNeighborSampler(stores, {("user", "votes", "post"): [15, 10], ...})
        loader = NodeLoader(stores, sampler, input_nodes=("post", train_posts), batch_size=128)

    A sample is PyG's ``HeteroSamplerOutput`` of int64 CPU tensors, with all node types and
    edge types of the graph as keys. One native call makes a batch. Random draws, ``seed`` and
    :meth:`set_epoch` are as in :class:`aethergraph.pyg.NeighborSampler`.

    Args:
        data: an :class:`aethergraph.HeteroGraph`, a PyG ``HeteroData``, or ``(feature_store,
            graph_store)`` whose graph store is over a graph or holds typed edge indices. Edge ids
            are those of the graph, or positions in the edge indices.
        num_neighbors: a list per hop for each edge type; types that are missing are not followed
            (PyG refuses that). Or one list for all types.
        subgraph_type, replace, disjoint, temporal_strategy, time_attr, weight_attr, is_sorted: as
            in PyG, see :class:`aethergraph.HeteroNeighborSampler`. Times and weights are attributes
            of the feature store, by node type or edge type, or the graph's own. A graph that is
            built here is sorted by the times.
        share_memory: accepted, not needed.
        directed: deprecated by PyG; False means ``subgraph_type="induced"``.
        sample_direction: ``"forward"``, ``"backward"`` or ``"both"``, see
            :class:`aethergraph.HeteroNeighborSampler`. Edge types keep their names in each of them,
            for ``num_neighbors`` too.
        strict, window: see :class:`aethergraph.HeteroNeighborSampler`.
        exclude: edges that the samples of a batch leave out. ``"self"``: the seed links and all
            their duplicates. ``"reverse"``: also their reverses, of the edge type
            ``(dst, "rev_" + relation, src)`` and, between nodes of one type, of the links' type.
            A dict ``{edge type: its reverse type}``, or ``{edge type: [reverse types]}``, names
            them, and must name those of the links. Where other types go back between the same node
            types, ``"reverse"`` is refused: they may tell the answers, too. Samples that are
            bidirectional always leave out reverses, which would turn into the links again.
        true_negatives: draw no negative link that is an edge of its type.
        seed: fixed number to draw from instead of torch's seed.
        num_threads: threads per batch; 1 is the calling thread, 0 all cores the process may use.

    Raises:
        UnsupportedError: data that is not a typed graph, or ``time_attr`` with a direction that is
            not ``"forward"``.
        LayoutError: the graph does not store the direction that is needed; names ``layout``.
        InvalidArgumentError: an argument of the wrong type or value.
        OutOfRangeError (when sampling): a seed that is not a node, with its type and position.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: TemporalStrategy = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        directed: bool = True,
        sample_direction: SampleDirection = "forward",
        *,
        strict: bool = False,
        window: float | int | None = None,
        exclude: Literal["self", "reverse"]
        | Mapping[EdgeType, EdgeType | Sequence[EdgeType]]
        | None = None,
        true_negatives: bool = False,
        seed: int | None = None,
        num_threads: int = 1,
    ) -> None:
        as_flag(share_memory, "share_memory")
        check_direction(sample_direction)
        if sample_direction != "forward" and time_attr is not None:
            raise UnsupportedError(
                f"time_attr={time_attr!r}: temporal sampling does not walk backward, as in PyG"
            )
        self._sample_direction = sample_direction
        self._source = typed_source(
            data, weight_attr, time_attr, backward=sample_direction != "forward"
        )
        self._weight_attr, self._time_attr = weight_attr, time_attr
        self._strict, self._window = strict, window
        self._is_sorted = as_flag(is_sorted, "is_sorted") or self._source.is_sorted
        self._made: core.HeteroNeighborSampler | None = None
        self._made_for: tuple[Any, dict[str, Any]] | None = None
        self.num_threads = num_threads
        self.num_neighbors = num_neighbors
        self.subgraph_type = subgraph_type if as_flag(directed, "directed") else "induced"
        self.replace = replace
        self.disjoint = disjoint
        self.temporal_strategy = temporal_strategy
        self.keep_orig_edges = False
        self._exclude = _check_exclude(exclude, self.graph)
        self._true_negatives = as_flag(true_negatives, "true_negatives")
        #: Numbers of nodes at both ends, and what draws among them.
        self._negatives: dict[EdgeType, tuple[tuple[int, int], NegativeLinks]] = {}
        self._set_seed(seed)
        self._current()  # a wrong argument shows now

    def _current(self) -> core.HeteroNeighborSampler:
        """Return the core's sampler for the present options, which PyG's users may assign to."""
        options: dict[str, Any] = {
            "replace": self.replace,
            "disjoint": self._disjoint,
            "subgraph_type": "directional" if self._is_counted else "induced",
            "num_threads": self.num_threads,
            "temporal_strategy": self.temporal_strategy,
        }
        made = self._made
        if made is None or self._made_for != (self._fanouts, options):
            made = core.HeteroNeighborSampler(
                self._source.graph, self._fanouts, weight_attr=self._weight_attr,
                time_attr=self._time_attr, strict=self._strict, window=self._window,
                is_sorted=self._is_sorted, sample_direction=self._sample_direction, **options,
            )  # fmt: skip
            self._made, self._made_for, self._is_sorted = made, (self._fanouts, options), True
        return made

    # ---- options and properties that PyG and its users read --------------------------------

    @property
    def graph(self) -> HeteroGraph:
        """Graph whose edges are sampled."""
        return self._source.graph

    @property
    def num_neighbors(self) -> NumNeighbors:
        """Neighbours per edge type and hop, as PyG's ``NumNeighbors``; takes a list or a dict."""
        return NumNeighbors({kind: list(row) for kind, row in self._current().fanouts.items()})

    @num_neighbors.setter
    def num_neighbors(self, value: Any) -> None:
        kinds = self.graph.edge_types
        self._fanouts = typed_fanouts(_by_type(value, kinds), kinds, "num_neighbors")

    @property
    def sample_direction(self) -> str:
        """``"forward"``, ``"backward"`` or ``"both"``."""
        return self._sample_direction

    @property
    def time_unit(self) -> str | None:
        """Unit of the times, such as ``"s"``; None unless they are the graph's own datetimes."""
        return self._current().time_unit

    @property
    def is_hetero(self) -> bool:
        """True."""
        return True

    # ---- sampling --------------------------------------------------------------------------

    def sample_from_nodes(
        self, index: NodeSamplerInput, *, loader_key: int | None = None, **_: Any
    ) -> HeteroSamplerOutput:
        """Sample around ``index.node``, nodes of type ``index.input_type``.

        Args:
            index: PyG's input; ``node`` is an integer vector [n], ``time`` [n] or None.
            loader_key: key of the epoch, which our own loaders pass in place of the seed.

        Returns:
            A ``HeteroSamplerOutput`` with metadata ``(input_id, time)``.
        """
        return self._run(self.node_steps(index, loader_key))

    def node_steps(self, index: NodeSamplerInput, loader_key: int | None = None) -> Steps:
        """Run :meth:`sample_from_nodes` as a generator of two steps (``sampling/two_step.py``)."""
        index = NodeSamplerInput.cast(index)
        kind = _check_type(index.input_type, self.graph.node_types, "input_nodes")
        seeds = seed_ids(index.node, "input_nodes")
        times = self._seed_times(index.time, len(seeds), "input_time")
        out = yield from self._walk_steps(
            {kind: seeds},
            None if times is None else {kind: times},
            self._key(loader_key, kind, times, seeds),
        )
        out.metadata = (index.input_id, index.time)
        return self._finish(out)

    def sample_from_edges(
        self,
        index: EdgeSamplerInput,
        neg_sampling: NegativeSampling | None = None,
        *,
        loader_key: int | None = None,
        **_: Any,
    ) -> HeteroSamplerOutput:
        """Sample around the ends of links of type ``index.input_type``, and of negative links.

        The graph need not hold edges of this type, only its two node types. Negatives are drawn
        as by :meth:`aethergraph.pyg.NeighborSampler.sample_from_edges`, among all nodes of the two
        types.

        Args:
            index: PyG's input; ``row`` and ``col`` are integer vectors [P]; ``time`` [P] or None.
            neg_sampling: PyG's ``NegativeSampling``, or None.
            loader_key: see :meth:`sample_from_nodes`.

        Returns:
            A ``HeteroSamplerOutput`` with PyG's metadata, in local ids.
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
        kind = link_type(index.input_type, self.graph)
        src, dst = self._read_links(index, neg_sampling, timed=self.is_temporal)
        times = self._seed_times(index.time, len(src), "edge_label_time")
        key = self._key(loader_key, kind, times, src, dst)
        exclude = None if self._exclude is None else self._targets(kind, src, dst)
        ends = [torch.from_numpy(src), torch.from_numpy(dst)]
        if neg_sampling is not None:
            ends = self._with_negatives(kind, (ends[0], ends[1]), neg_sampling, key, times)
        links = Links(ends, len(src), neg_sampling)
        seeds, local, link_of = self._place(kind, ends, links)
        seed_times = None
        if times is not None:
            seed_times = {name: times[links_.numpy()] for name, links_ in link_of.items()}
        ids = {name: group.numpy() for name, group in seeds.items()}
        out = yield from self._walk_steps(ids, seed_times, key, exclude)
        if out.batch is not None:
            number = torch.cat([link_of[name] for name in self.graph.node_types if name in seeds])
            out.batch = {name: number[batch] for name, batch in out.batch.items()}
        out.metadata = links.metadata(index, local)
        return self._finish(out)

    def _seed_times(self, given: Any, count: int, name: str) -> NDArray[Any] | None:
        """Return the given seed times in the dtype of the graph's times; None: the seeds' own."""
        if given is None:
            return None
        dtype = self._current().times_dtype
        if dtype is None:
            raise InvalidArgumentError(
                f"{name} is given, but the sampler has no time_attr: give it one, such as "
                "'node_time' or 'edge_time'"
            )
        return convert_seed_times(given, count, name, dtype)

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

    def _with_negatives(
        self,
        kind: EdgeType,
        ends: tuple[Tensor, Tensor],
        neg_sampling: NegativeSampling,
        key: int,
        times: NDArray[Any] | None,
    ) -> list[Tensor]:
        until = [
            None if times is None else self._current().bounds(name, end.numpy(), times).until
            for name, end in zip((kind[0], kind[2]), ends, strict=True)
        ]
        source, target = (None if keys is None else torch.from_numpy(keys) for keys in until)
        generator = make_generator(key, NEGATIVES)
        links = self._negative_links(kind)
        return links.draw(ends, neg_sampling, generator, (source, target))

    def _negative_links(self, kind: EdgeType) -> NegativeLinks:
        ends = kind[0], kind[2]
        num_nodes = self.graph.num_nodes  # of a live graph those of the commit of this batch
        counts = num_nodes[ends[0]], num_nodes[ends[1]]
        made = self._negatives.get(kind)
        if made is None or made[0] != counts:
            nodes = []
            for name, count in zip(ends, counts, strict=True):
                times = self._current().node_times(name)
                by_time = None if times is None else NodesByTime(native.time_keys(times.array))
                nodes.append(NegativeNodes(count, by_time))
            if self._true_negatives and kind not in self.graph:
                raise InvalidArgumentError(
                    f"true_negatives: the graph holds no edges of {kind!r}, so that every pair "
                    "would do; put them into the graph, or take true_negatives=False"
                )
            edges = self.graph[kind] if self._true_negatives else None
            made = self._negatives[kind] = counts, NegativeLinks(nodes[0], nodes[1], edges)
        return made[1]

    def _targets(self, kind: EdgeType, src: Ids, dst: Ids) -> dict[EdgeType, Ids]:
        """Find the edges that are seed links, or reverses of seed links, by edge type."""
        found: dict[EdgeType, Ids] = {}
        if kind in self.graph:
            found[kind] = self.graph[kind].edges_between(src, dst)[1]
        if self._exclude == "self" and not self._adds_reverses:
            return found
        for name in self._reverse_types(kind):
            edges = self.graph[name].edges_between(dst, src)[1]
            found[name] = np.concatenate((found.get(name, edges[:0]), edges))
        return found

    def _reverse_types(self, kind: EdgeType) -> set[EdgeType]:
        """Return the edge types of the graph that hold reverses of the links of a type.

        Raises:
            InvalidArgumentError: it cannot be known, and a model would read the answers off them.
        """
        backward = {(kind[2], reverse_name(kind[1]), kind[0])}
        if isinstance(self._exclude, Mapping):
            if kind not in self._exclude:
                named = ", ".join(map(repr, self._exclude)) or "no edge type"
                raise InvalidArgumentError(
                    f"exclude names the reverses of {named}, but the links are of {kind!r}: name "
                    "theirs"
                )
            backward = set(self._exclude[kind])
        elif self._exclude == "reverse":
            (by_name,) = backward
            is_there = by_name in self.graph
            others = [
                name
                for name in _types_back(kind, self.graph)
                if name not in (kind, by_name)
                # Beside a reverse by name, what has a partner of its own is that one's.
                and not (is_there and (name[2], reverse_name(name[1]), name[0]) in self.graph)
            ]
            if others:
                candidates = [by_name, *others] if is_there else others
                has = "beside" if is_there else "the graph has no"
                but = "" if is_there else "but "
                raise InvalidArgumentError(
                    f"exclude = 'reverse': {has} {by_name!r}, the reverse of {kind!r} by its name, "
                    f"{but}{', '.join(map(repr, others))} go back between the same node types: "
                    f"give exclude={{{kind!r}: {candidates!r}}} with those of them that are its "
                    "reverses, be it none"
                )
        same = {kind} if kind[0] == kind[2] else set()
        return {name for name in backward | same if name in self.graph}

    def _key(
        self, loader_key: int | None, kind: Any, times: NDArray[Any] | None, *content: Ids
    ) -> int:
        name = kind if isinstance(kind, str) else repr(kind)
        parts = [hash_name(name)]
        parts += [hash_ids(ids) for ids in content]
        if times is not None:
            parts.append(hash_ids(native.time_keys(times)))
        return self._batch_key(loader_key, *parts)

    def _sample(
        self,
        seed: Mapping[str, Tensor],
        seed_time: Mapping[str, Tensor] | None = None,
        **_: Any,
    ) -> HeteroSamplerOutput:
        """Sample around ``seed``, by node type [n]: see ``NeighborSampler._sample``."""
        seeds = {
            _check_type(kind, self.graph.node_types, "seed"): seed_ids(
                ids if ids.numel() else ids.to(torch.int64), "seed"
            )
            for kind, ids in seed.items()
        }
        times = {
            kind: self._seed_times(own, len(seeds[kind]), "seed_time")
            for kind, own in (seed_time or {}).items()
        }
        content = [hash_name(kind) for kind in seeds]
        content += [hash_ids(ids) for ids in seeds.values()]
        content += [hash_ids(native.time_keys(own)) for own in times.values() if own is not None]
        key = self._batch_key(None, *content)
        out: HeteroSamplerOutput = self._run(self._walk_steps(seeds, times or None, key))
        return out

    def _walk_steps(
        self,
        seeds: dict[str, Ids],
        times: dict[str, Any] | None,
        key: int,
        exclude: dict[EdgeType, Ids] | None = None,
    ) -> Steps:
        sampler = self._current()
        sample = sampler.turn((yield sampler.prepare(seeds, key, times, exclude)))
        nodes, batches = node_tensors(sample)
        row, col, edge = self._source.edge_tensors(sample)
        names, kinds = self.graph.node_types, self.graph.edge_types
        hop_nodes = hop_edges = None
        if self._is_counted:
            hop_nodes = dict(zip(names, sample.hop_nodes, strict=True))
            hop_edges = dict(zip(kinds, sample.hop_edges, strict=True))
        return HeteroSamplerOutput(
            node=dict(zip(names, nodes, strict=True)),
            row=row,
            col=col,
            edge=edge,
            batch=None if batches is None else dict(zip(names, batches, strict=True)),
            num_sampled_nodes=hop_nodes,
            num_sampled_edges=hop_edges,
        )

    @property
    def engine(self) -> SampleEngine[native.NativeSample]:
        """Maker of the samples with the present options."""
        return self._current().engine

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.graph!r}, num_neighbors={self._current().fanouts}, "
            f"subgraph_type={self._subgraph_type.value!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_negatives": {}, "_made": None}


def _check_exclude(exclude: Any, graph: HeteroGraph) -> Any:
    if not isinstance(exclude, Mapping):
        return check_exclude(exclude)
    reverses = {}
    for name, given in exclude.items():
        kind = link_type(name, graph, "exclude: an edge")
        back = _types_back(kind, graph)
        # A tuple of texts is a type; any other tuple or list is one of types.
        is_list = isinstance(given, (tuple, list)) and not any(isinstance(t, str) for t in given)
        types = list(given) if is_list else [given]
        for backward in types:
            if not isinstance(backward, tuple) or backward not in back:
                names = ", ".join(map(repr, back))
                raise InvalidArgumentError(
                    f"exclude[{name!r}]: {shown(backward)} is no edge type of the graph from "
                    f"{kind[2]!r} to {kind[0]!r}, as a reverse has to be: "
                    + (f"give one or a list of {names}" if back else "give exclude='self'")
                )
        reverses[kind] = tuple(types)
    return reverses


def _types_back(kind: EdgeType, graph: HeteroGraph) -> list[EdgeType]:
    """Return the edge types that go back between the node types of another."""
    return [name for name in graph.edge_types if (name[0], name[2]) == (kind[2], kind[0])]


def _by_type(value: Any, kinds: list[EdgeType]) -> Any:
    """Return the lists, or the lists by edge type, of PyG's ``NumNeighbors``."""
    if not isinstance(value, NumNeighbors):
        return value
    if not isinstance(value.values, dict):
        return list(value.values)
    # Keys of PyG's dict are strings such as "user__votes__post", which equal no tuple.
    given = {EdgeTypeStr(kind).to_tuple(): list(row) for kind, row in value.values.items()}
    default = {} if value.default is None else {kind: list(value.default) for kind in kinds}
    return {**default, **given}


def _check_type(kind: Any, known: list[Any], option: str) -> Any:
    if kind not in known:
        names = ", ".join(map(repr, known)) or "none"
        raise InvalidArgumentError(
            f"{option} of type {kind!r}: give (type, ids) with one of {names}"
        )
    return kind
