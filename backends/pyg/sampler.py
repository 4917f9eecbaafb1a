"""PyG's ``BaseSampler`` over the native neighbour sampler.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py`` (``NeighborSampler``,
``node_sample``, ``edge_sample``) and ``torch_geometric/sampler/base.py``.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data import FeatureStore as _PyGFeatureStore
from torch_geometric.data import GraphStore as _PyGGraphStore
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)
from torch_geometric.sampler.base import DataType, NumNeighbors, SubgraphType

from aethergraph import _binding as native
from aethergraph.errors import InvalidArgumentError, OutOfRangeError, UnsupportedError
from aethergraph.graph import Graph
from aethergraph.pyg._links import Links, WeightTable
from aethergraph.pyg._seeds import MainSeed, SharedCount, make_generator
from aethergraph.pyg.convert import from_data
from aethergraph.pyg.graph_store import GraphStore, SamplingGraph
from aethergraph.sampling.keys import hash_ids, mix_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NeighborSampler"]

Ids: TypeAlias = "NDArray[np.int64]"


class NeighborSampler(BaseSampler):  # type: ignore[misc]
    """Samples neighbours of seed nodes, or of the ends of seed links, for PyG's loaders.

    Takes the arguments of PyG's own ``NeighborSampler``, and is driven the same way::

        sampler = NeighborSampler((feature_store, graph_store), num_neighbors=[15, 10])
        loader = NodeLoader((feature_store, graph_store), sampler, input_nodes=train_nodes)

    What comes back is a ``SamplerOutput`` of int64 CPU tensors: ``node`` [N] global ids, the seeds
    first (duplicates kept, each with the same edges), then hop by hop in order of discovery;
    ``row`` and ``col`` [E], local ids of source and destination, ``col`` non-decreasing; ``edge``
    [E], edge ids as the graph store numbers them; ``batch`` [N] if disjoint;
    ``num_sampled_nodes`` and ``num_sampled_edges``, lists per hop; ``metadata`` as PyG's loaders
    read it.

    **Random draws.** Every draw is a function of a key, the hop, the node and its list, nothing
    else: not of the process, the thread, or what was drawn before. The key of a batch is mixed
    from

    * ``seed`` if it is given, else ``torch.initial_seed()`` of the *main* process, that is what
      ``torch.manual_seed`` was last called with there;
    * the epoch, see :meth:`set_epoch`;
    * the seed nodes (or the sources and destinations of the seed links) of the batch, their order
      included.

    So the same seeds in the same order give the same batch for every ``num_workers``, start
    method and ``filter_per_worker``. What follows: two batches of the same nodes in the same order
    are equal within an epoch. PyG's stock loaders do not tell a sampler that an epoch begins, so a
    loader that does not shuffle repeats its batches in every epoch unless ``set_epoch`` is called;
    a loader that shuffles makes other batches, hence other draws. Persistent workers keep the
    main process's seed of the time they were started. (:class:`aethergraph.pyg.NeighborLoader`
    has none of these two limits.)

    Negative links are drawn by a generator of their own from the same key, so they are reproduced
    alike, and torch's global generator is left alone. A subclass of ``NegativeSampling`` with a
    ``sample`` of its own is called as it is and draws from where it likes.

    Args:
        data: ``(feature_store, graph_store)``, a graph store, an :class:`aethergraph.Graph`, or
            a PyG ``Data``. Stores of other makers are read once through their ``coo()``.
        num_neighbors: neighbours to take per hop, -1 for all, 0 for none.
        subgraph_type: ``"directional"``; ``"bidirectional"``, which adds every edge's reverse and
            gives no counts per hop; or ``"induced"``, all edges among the sampled nodes.
        replace: draw with replacement: exactly that many per node that has neighbours.
        disjoint: a tree of its own for every seed.
        temporal_strategy: for temporal sampling, which comes in a later release.
        time_attr: likewise.
        weight_attr: for weighted sampling, which comes in a later release.
        is_sorted: accepted, not needed: the graph is stored sorted.
        share_memory: accepted, not needed: files are mapped once for all processes, and forked
            workers share what is in memory.
        directed: deprecated by PyG; False means ``subgraph_type="induced"``.
        sample_direction: ``"forward"`` walks edges from destination to source, so that messages
            reach the seeds; ``"backward"`` walks from source to destination and needs a graph
            that stores CSR (``layout="csr"`` or ``"both"``).
        seed: a number of its own instead of torch's seed.
        num_threads: threads per batch; 1 is the calling thread, 0 all cores the process may use.

    Raises:
        UnsupportedError: temporal, weighted or typed sampling; names the option.
        LayoutError: the graph does not store the direction that is needed; names ``layout``.
        InvalidArgumentError: an argument of the wrong type or value.
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
        seed: int | None = None,
        num_threads: int = 1,
    ) -> None:
        if not directed:
            subgraph_type = SubgraphType.induced
            warnings.warn(
                "'directed' is deprecated: use subgraph_type='induced' instead of directed=False",
                DeprecationWarning,
                stacklevel=2,
            )
        for option, value in (("time_attr", time_attr), ("weight_attr", weight_attr)):
            if value is not None:
                kind = "temporal" if option == "time_attr" else "weighted"
                raise UnsupportedError(
                    f"{option}={value!r}: {kind} sampling is not available yet; it comes in a "
                    "later release"
                )
        if temporal_strategy not in ("uniform", "last"):
            raise InvalidArgumentError(
                f"temporal_strategy = {temporal_strategy!r} is not 'uniform' or 'last'"
            )
        if sample_direction not in ("forward", "backward"):
            raise InvalidArgumentError(
                f"sample_direction = {sample_direction!r} is not 'forward' or 'backward'"
            )
        self._store, self._num_nodes_hint = graph_store_of(data)
        self._seed = MainSeed(seed)
        self._epoch = SharedCount()
        self._sample_direction = sample_direction
        self._weight_tables: dict[str, WeightTable] = {}
        self._walker: _Walker | None = None
        self.num_threads = num_threads
        self.num_neighbors = num_neighbors
        self.subgraph_type = subgraph_type
        self.replace = replace
        self.disjoint = disjoint
        self.temporal_strategy = temporal_strategy
        self.keep_orig_edges = False
        self._current_walker()  # a wrong argument or a missing layout shows now

    # ---- what PyG and its users look at ----------------------------------------------------

    @property
    def num_neighbors(self) -> NumNeighbors:
        """Neighbours per hop, as PyG's ``NumNeighbors``; takes a list as well."""
        return self._num_neighbors

    @num_neighbors.setter
    def num_neighbors(self, value: NumNeighbors | list[int]) -> None:
        numbers = value if isinstance(value, NumNeighbors) else NumNeighbors(value)
        if isinstance(numbers.values, dict):
            raise UnsupportedError(
                "num_neighbors by edge type is for typed graphs, which cannot be sampled yet"
            )
        self._num_neighbors = numbers

    @property
    def subgraph_type(self) -> SubgraphType:
        """PyG's ``SubgraphType``; takes its name as well."""
        return self._subgraph_type

    @subgraph_type.setter
    def subgraph_type(self, value: SubgraphType | str) -> None:
        try:
            self._subgraph_type = SubgraphType(value)
        except ValueError:
            known = ", ".join(kind.value for kind in SubgraphType)
            raise InvalidArgumentError(f"subgraph_type = {value!r} is not one of {known}") from None

    @property
    def sample_direction(self) -> str:
        """``"forward"`` or ``"backward"``."""
        return self._sample_direction

    @property
    def seed(self) -> int | None:
        """The seed that was given, or None: torch's."""
        return self._seed.seed

    @property
    def graph(self) -> Graph:
        """The graph that is sampled from."""
        return self._current_walker().graph

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph."""
        return self.graph.num_nodes

    @property
    def data_type(self) -> DataType:
        """PyG's name for a pair of stores."""
        return DataType.remote

    @property
    def is_hetero(self) -> bool:
        """False: typed graphs cannot be sampled yet."""
        return False

    @property
    def is_temporal(self) -> bool:
        """False: times are not looked at yet."""
        return False

    @property
    def edge_permutation(self) -> None:
        """None: ``SamplerOutput.edge`` holds the graph store's edge ids already."""
        return None

    @property
    def epoch(self) -> int:
        """The epoch that goes into the key of every batch."""
        return self._epoch.value

    def set_epoch(self, epoch: int) -> None:
        """Make the draws of the batches to come other ones, as ``DistributedSampler`` does.

        Call it in the main process before each epoch; workers that run already see it too.
        Copies of this sampler share its epoch.

        Args:
            epoch: any integer of 64 bits; 0 at the start.
        """
        if isinstance(epoch, bool) or not hasattr(epoch, "__index__"):
            raise InvalidArgumentError(f"epoch must be an integer, got {type(epoch).__name__}")
        value = epoch.__index__()
        if not -(1 << 63) <= value < 1 << 63:
            raise InvalidArgumentError(f"epoch = {value} does not fit 64 bits")
        self._epoch.value = value

    # ---- sampling --------------------------------------------------------------------------

    def sample_from_nodes(
        self, index: NodeSamplerInput, *, loader_key: int | None = None, **_: Any
    ) -> SamplerOutput:
        """Sample around ``index.node``.

        Args:
            index: PyG's input; ``node`` is an integer vector [n], duplicates allowed.
            loader_key: what our own loaders put in the place of the seed, once per epoch.

        Returns:
            A ``SamplerOutput`` with metadata ``(input_id, time)``.

        Raises:
            OutOfRangeError: names the first seed that is no node, and its position.
            UnsupportedError: seeds of a node type, or with times.
        """
        index = NodeSamplerInput.cast(index)
        _reject_typed(index.input_type, index.time)
        seeds = _seed_ids(index.node, "input_nodes")
        out = self._sample(seeds, self._key(loader_key, hash_ids(seeds)))
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
        to ``src_weight`` and ``dst_weight``; they may hit links that exist.

        Args:
            index: PyG's input; ``row`` and ``col`` are integer vectors [P].
            neg_sampling: PyG's ``NegativeSampling``, or None.
            loader_key: see :meth:`sample_from_nodes`.

        Returns:
            A ``SamplerOutput``. Its metadata without negatives and for binary ones is
            ``(input_id, edge_label_index [2, P + negatives], edge_label | None, time)``, for
            triplets ``(input_id, src [P], dst_pos [P], dst_neg [P] or [P, amount], time)``, in
            local ids.

        Raises:
            OutOfRangeError, UnsupportedError: as for nodes.
            InvalidArgumentError: weights of the wrong length, negative, NaN or all zero.
        """
        index = EdgeSamplerInput.cast(index)
        neg_sampling = NegativeSampling.cast(neg_sampling)
        _reject_typed(index.input_type, index.time)
        src, dst = _seed_ids(index.row, "row"), _seed_ids(index.col, "col")
        if len(src) != len(dst):
            raise InvalidArgumentError(f"row has {len(src)} ids, but col has {len(dst)}")
        if neg_sampling is not None and neg_sampling.is_triplet() and index.label is not None:
            raise InvalidArgumentError("triplet negative sampling takes no edge_label")
        key = self._key(loader_key, hash_ids(src), hash_ids(dst))
        ends = [torch.from_numpy(src), torch.from_numpy(dst)]
        if neg_sampling is not None:
            ends = self._with_negatives(ends, neg_sampling, key)
        links = Links(ends, len(src), neg_sampling)
        seeds = torch.cat(ends)
        inverse = None
        if not self.disjoint:
            seeds, inverse = torch.unique(seeds, return_inverse=True)
        out = self._sample(seeds.numpy(), key)
        if out.batch is not None:
            out.batch = links.trees()[out.batch]
        out.metadata = links.metadata(index, inverse)
        return self._finish(out)

    def _key(self, loader_key: int | None, *content: int) -> int:
        start = self._seed.value() if loader_key is None else loader_key
        return mix_key(start, self._epoch.value, *content)

    def _sample(self, seeds: Ids, key: int) -> SamplerOutput:
        sample = self._current_walker().sample(seeds, key)
        node, batch = sample.node[0], None if sample.batch is None else sample.batch[0]
        sources, targets, edges = _as_tensors(sample.row[0], sample.col[0], sample.edge[0])
        if self._sample_direction == "backward":
            sources, targets = targets, sources
        counted = self._subgraph_type != SubgraphType.induced
        return SamplerOutput(
            node=torch.from_numpy(node),
            row=sources,
            col=targets,
            edge=edges,
            batch=None if batch is None else torch.from_numpy(batch),
            num_sampled_nodes=sample.hop_nodes[0] if counted else None,
            num_sampled_edges=sample.hop_edges[0] if counted else None,
        )

    def _finish(self, out: SamplerOutput) -> SamplerOutput:
        if self._subgraph_type == SubgraphType.bidirectional:
            return out.to_bidirectional(keep_orig_edges=self.keep_orig_edges)
        return out

    def _current_walker(self) -> _Walker:
        """The native sampler for the present options; PyG's users assign to them."""
        options = _Options(
            tuple(self._num_neighbors.values),
            bool(self.replace),
            bool(self.disjoint),
            self._subgraph_type == SubgraphType.induced,
            self.num_threads,
        )
        walker = self._walker
        if walker is None or walker.options != options:
            backward = self._sample_direction == "backward"
            walk = self._store.sampling_graph(num_nodes=self._num_nodes_hint, backward=backward)
            walker = self._walker = _Walker(walk, options, "csr" if backward else "csc")
        return walker

    # ---- negatives -------------------------------------------------------------------------

    def _with_negatives(
        self, ends: list[Tensor], neg_sampling: NegativeSampling, key: int
    ) -> list[Tensor]:
        count = math.ceil(len(ends[0]) * neg_sampling.amount)
        generator = make_generator(key, _NEGATIVES)
        sides = ("src", "dst") if neg_sampling.is_binary() else ("dst",)
        drawn = {side: self._draw(neg_sampling, side, count, generator) for side in sides}
        return [
            torch.cat([end, drawn[side]]) if side in drawn else end
            for end, side in zip(ends, ("src", "dst"), strict=True)
        ]

    def _draw(
        self, neg_sampling: NegativeSampling, side: str, count: int, generator: torch.Generator
    ) -> Tensor:
        num_nodes = self.num_nodes
        if type(neg_sampling).sample is not NegativeSampling.sample:
            args = (count, side, num_nodes) if _WEIGHT_PER_SIDE else (count, num_nodes)
            drawn: Tensor = neg_sampling.sample(*args)
            return drawn.to(torch.int64)
        name = f"{side}_weight" if _WEIGHT_PER_SIDE else "weight"
        weight = getattr(neg_sampling, name)
        if weight is None:
            if num_nodes == 0 and count:
                raise InvalidArgumentError("negatives cannot be drawn from a graph without nodes")
            return torch.randint(max(1, num_nodes), (count,), generator=generator)
        table = self._weight_tables.get(side)
        if table is None or not table.is_for(weight):
            table = self._weight_tables[side] = WeightTable(weight, num_nodes, name)
        return table.draw(count, generator)

    # ---- the rest --------------------------------------------------------------------------

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._store!r}, num_neighbors={self._num_neighbors.values}, "
            f"subgraph_type={self._subgraph_type.value!r})"
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_walker"] = None
        state["_weight_tables"] = {}
        return state


#: Whether NegativeSampling has a weight for either side (PyG 2.6), or one for both.
_WEIGHT_PER_SIDE = "endpoint" in inspect.signature(NegativeSampling.sample).parameters

#: Streams of a batch's key, besides the native sampler's own.
_NEGATIVES = 1


class _Options(NamedTuple):
    """What a native sampler is made for."""

    fanouts: tuple[int, ...]
    replace: bool
    disjoint: bool
    induced: bool
    num_threads: int


class _Walker:
    """Native samplers over one direction of a graph, one per thread at work."""

    def __init__(
        self, walk: SamplingGraph, options: _Options, layout: Literal["csc", "csr"]
    ) -> None:
        if options.induced and options.disjoint:
            raise InvalidArgumentError("subgraph_type='induced' does not go with disjoint=True")
        if isinstance(options.num_threads, bool) or not 0 <= options.num_threads <= 256:
            raise InvalidArgumentError(f"num_threads = {options.num_threads} is not in 0..256")
        self.graph = walk.graph
        self.options = options
        self._fanouts = _check_fanouts(options.fanouts)
        self._flags = (
            native.SAMPLE_REPLACE * options.replace
            | native.SAMPLE_DISJOINT * options.disjoint
            | native.SAMPLE_INDUCED * options.induced
        )
        self._topology = walk.graph.topology(layout)
        if walk.edge_ids is not None:
            self._topology = _renumber(self._topology, walk.edge_ids, walk.graph.num_nodes)
        # append and pop of a deque are atomic: no lock, so nothing to go wrong in a fork.
        self._idle: deque[native.NativeSampler] = deque()

    def sample(self, seeds: Ids, key: int) -> native.NativeSample:
        try:
            sampler = self._idle.pop()
        except IndexError:
            sampler = native.NativeSampler(
                [native.NativeRelation(self._topology)],
                [self.graph.num_nodes],
                [self._fanouts],
                self._flags,
                self.options.num_threads,
            )
        try:
            return sampler.sample([seeds], key)
        except OutOfRangeError as error:
            at, value = error.position, error.value
            raise OutOfRangeError(
                f"seeds[{at}] = {value} is no node: num_nodes = {self.graph.num_nodes}",
                position=at,
                value=value,
            ) from None
        finally:
            self._idle.append(sampler)


def _as_tensors(*vectors: NDArray[Any]) -> tuple[Tensor, ...]:
    """Tensors over the vectors; of one storage if they are the rows of one array.

    So ``row`` over ``col`` is an ``edge_index`` without a copy, and all go to another process in
    one piece.
    """
    table = vectors[0].base
    if (
        isinstance(table, np.ndarray)
        and table.shape == (len(vectors), len(vectors[0]))
        and all(vector.base is table for vector in vectors)
    ):
        return torch.from_numpy(table).unbind()
    return tuple(torch.from_numpy(vector) for vector in vectors)


def _check_fanouts(fanouts: tuple[Any, ...]) -> tuple[int, ...]:
    for at, fanout in enumerate(fanouts):
        if isinstance(fanout, bool) or not hasattr(fanout, "__index__") or int(fanout) < -1:
            raise InvalidArgumentError(
                f"num_neighbors[{at}] = {fanout!r}: an integer >= 0, or -1 for all neighbours",
                position=at,
            )
    return tuple(int(fanout) for fanout in fanouts)


def _renumber(
    topology: native.NativeTopology, edge_ids: NDArray[Any], num_nodes: int
) -> native.NativeTopology:
    """The same lists, whose edges are called ``edge_ids[id]`` instead of ``id``."""
    names = edge_ids if topology.edge_ids is None else edge_ids[topology.edge_ids]
    return native.NativeTopology(
        topology.indptr, topology.indices, names, num_nodes, topology.guard
    )


def _seed_ids(ids: Tensor, name: str) -> Ids:
    """Seeds as contiguous int64."""
    if not isinstance(ids, Tensor):
        raise InvalidArgumentError(f"{name} must be a tensor, got {type(ids).__name__}")
    if ids.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise InvalidArgumentError(f"{name} must hold integer ids, got {ids.dtype}")
    if ids.ndim != 1:
        raise InvalidArgumentError(f"{name} must be one-dimensional, got {list(ids.shape)}")
    return np.ascontiguousarray(ids.cpu().numpy(), np.int64)


def _reject_typed(input_type: Any, time: Any) -> None:
    if input_type is not None:
        raise UnsupportedError(
            f"input_type={input_type!r}: sampling from typed (heterogeneous) graphs is not "
            "available yet"
        )
    if time is not None:
        raise UnsupportedError("seeds with times: temporal sampling is not available yet")


def graph_store_of(data: Any) -> tuple[GraphStore, int]:
    """The graph store of whatever a sampler may be given, and how many nodes there are at least."""
    if isinstance(data, GraphStore):
        return data, 0
    if isinstance(data, Graph):
        return GraphStore(data), 0
    if isinstance(data, Data):
        return from_data(data)[1], 0
    if isinstance(data, HeteroData):
        raise UnsupportedError("HeteroData: typed graphs cannot be sampled yet")
    if isinstance(data, _PyGGraphStore):
        return _copy_store(data), 0
    if isinstance(data, (tuple, list)) and len(data) == 2:
        features, store = data
        if isinstance(features, _PyGFeatureStore) and isinstance(store, _PyGGraphStore):
            rows = [
                features.get_tensor_size(attr)
                for attr in features.get_all_tensor_attrs()
                if attr.group_name is None
            ]
            return graph_store_of(store)[0], max((size[0] for size in rows if size), default=0)
    raise InvalidArgumentError(
        "data must be (feature_store, graph_store), a graph store, an aethergraph.Graph or a PyG "
        f"Data, got {type(data).__name__}"
    )


def _copy_store(store: _PyGGraphStore) -> GraphStore:
    """Our store over the edges of somebody else's; ids are positions in its ``coo()``."""
    attrs = store.get_all_edge_attrs()
    if not attrs or any(attr.edge_type is not None for attr in attrs):
        raise UnsupportedError(
            f"{type(store).__name__} holds no homogeneous edge index (edge_type=None); typed "
            "graphs cannot be sampled yet"
        )
    row, col, _ = store.coo()
    copied = GraphStore()
    copied.put_edge_index((row, col), edge_type=None, layout="coo", size=attrs[0].size)
    return copied
