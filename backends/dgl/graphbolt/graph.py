"""GraphBolt's sampling graph over our graphs, for its stock samplers.

Sources followed: ``sampling_graph.py``, ``impl/fused_csc_sampling_graph.py`` and the samplers of
``dgl/graphbolt/impl``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from aethergraph import _native as native
from aethergraph._checks.arrays import allocate, as_ids
from aethergraph._checks.options import as_flag, as_list, as_number, as_text, shown
from aethergraph._torch.iteration import find_iteration
from aethergraph._torch.keyed import Keyed
from aethergraph._torch.tensors import read_array, seed_ids
from aethergraph.dgl._arguments import (
    check_cpu,
    check_integer,
    check_threads,
    hop_hashes,
    warn_of_pinning,
)
from aethergraph.dgl._plans import NAMES, DrawCache
from aethergraph.dgl._repeated_calls import Repeats
from aethergraph.dgl._schema import Schema
from aethergraph.dgl.graphbolt._forms import (
    destination_type,
    is_typed,
    layer_fanouts,
    single_hop,
    time_option,
    type_name,
)
from aethergraph.dgl.graphbolt._fused import FusedNames
from aethergraph.dgl.graphbolt._signatures import as_graphbolt
from aethergraph.dgl.graphbolt._whole_lists import Hop, TimeNames
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.ids import check_ids
from aethergraph.protocols import AnyGraph
from aethergraph.sampling.engine import DrawOptions
from aethergraph.sampling.keys import hash_ids
from aethergraph.sampling.plan import Times
from dgl.graphbolt.sampling_graph import SamplingGraph as StockSamplingGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = ["SamplingGraph", "check_times"]

Ids: TypeAlias = "NDArray[np.int64]"


class SamplingGraph(Keyed, FusedNames, StockSamplingGraph):  # type: ignore[misc]
    """Graph that GraphBolt's stock samplers take instead of a ``FusedCSCSamplingGraph``.

    ::

        graph = SamplingGraph(Graph.load("graph.aeg"))
        pipe = gb.ItemSampler(items, batch_size=128).sample_neighbor(graph, [10, 10])

    ``sample_neighbor``, ``sample_layer_neighbor``, ``temporal_sample_neighbor``,
    ``sample_in_subgraph`` and ``sample_uniform_negative`` of GraphBolt work on it, with one native
    call per hop; :class:`NeighborSampler` of this package makes all hops in one. Ids of a
    :class:`aethergraph.Graph` are tensors, those of a :class:`aethergraph.HeteroGraph` dicts of
    them by ``"user"`` or ``"user:votes:post"``. Sampled subgraphs always have original edge ids.

    A draw is a function of ``seed`` (else of the number of the loader's iteration, or outside of a
    loader of ``torch.initial_seed()`` of the main process), the epoch (:meth:`set_epoch`), the
    nodes of the call and the node, not of threads; and of how often these nodes were just
    asked for, so that layers over the same nodes differ.

    Args:
        graph: a graph of one type or of many, from a file or in memory.
        edge_ids: ``"input"``, ``"graph"`` or None, as in :class:`aethergraph.dgl.GraphStorage`.
        seed: fixed number to draw from instead of torch's seed.
        num_threads: threads per call; 1 is the calling thread, 0 all cores the process may use.

    Raises:
        InvalidArgumentError: no graph of ours, or an invalid option.
    """

    def __init__(
        self,
        graph: AnyGraph,
        *,
        edge_ids: Literal["input", "graph"] | None = None,
        seed: int | None = None,
        num_threads: int = 1,
    ) -> None:
        super().__init__()
        self._schema = Schema(graph, edge_ids)
        self._edge_ids = edge_ids
        self.num_threads = check_threads(num_threads)
        self._draws = DrawCache(self._schema)
        self._repeats = Repeats()
        self._set_seed(seed)

    # ---- what it is ------------------------------------------------------------------------

    @property
    def graph(self) -> AnyGraph:
        """Graph below the sampling graph."""
        return self._schema.graph

    @property
    def schema(self) -> Schema:
        """Types and edge ids."""
        return self._schema

    @property
    def num_nodes(self) -> int | dict[str, int]:
        """Number of nodes; by type if ids are by type."""
        counts = {name: self._schema.num_nodes(name) for name in self._schema.ntypes}
        return counts if is_typed(self._schema) else next(iter(counts.values()))

    @property
    def num_edges(self) -> int | dict[str, int]:
        """Number of edges; by type if ids are by type."""
        kinds = self._schema.canonical_etypes
        counts = {type_name(kind): self._schema.num_edges(kind) for kind in kinds}
        return counts if is_typed(self._schema) else next(iter(counts.values()))

    @property
    def node_type_to_id(self) -> dict[str, int] | None:
        """Numbers of node types in order of name; None for a graph of one type."""
        names = self._schema.ntypes
        return {name: i for i, name in enumerate(names)} if is_typed(self._schema) else None

    @property
    def edge_type_to_id(self) -> dict[str, int] | None:
        """Numbers of edge types in order of name, as fanouts; None for a graph of one type."""
        if not is_typed(self._schema):
            return None
        return {type_name(kind): i for i, kind in enumerate(self._schema.canonical_etypes)}

    def __repr__(self) -> str:
        return f"SamplingGraph({self.graph!r})"

    def __getstate__(self) -> dict[str, Any]:
        fresh = {"_draws": None, "_repeats": Repeats()}
        return {**self.__dict__, **fresh, "_schema": self.graph}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._schema = Schema(state["_schema"], self._edge_ids)
        self._draws = DrawCache(self._schema)

    def to(self, device: Any) -> SamplingGraph:
        """Return this graph for the CPU, where it is.

        Raises:
            UnsupportedError: another device, or "pinned".
        """
        check_cpu(device, "sampling is on the CPU, batches move with copy_to")
        return self

    def pin_memory_(self) -> SamplingGraph:
        """Return this graph as it is, with a warning: sampling is on the CPU."""
        warn_of_pinning("sampling is on the CPU, and batches move with copy_to")
        return self

    def copy_to_shared_memory(self, shared_memory_name: str) -> SamplingGraph:
        """Return this graph: processes map its file, or inherit its memory when forked.

        Args:
            shared_memory_name: not used.

        Raises:
            UnsupportedError: a graph in memory, which no other process could find by that name.
        """
        if self.graph.path is None:
            raise UnsupportedError(
                f"shared_memory_name = {shown(shared_memory_name)}: the graph is in this process's "
                "memory; save it to a file, under /dev/shm for shared memory, and load that"
            )
        return self

    def batch_key(self, *content: int) -> int:
        """Mix the key of a call or a batch from the seed, the epoch and its content."""
        return self._batch_key(None, *content)

    # ---- sampling --------------------------------------------------------------------------

    @as_graphbolt
    def sample_neighbors(
        self, nodes: Any, fanouts: Tensor, replace: bool = False, probs_name: str | None = None
    ) -> Any:
        """Sample in-edges of ``nodes`` as GraphBolt's graph does.

        The arguments go by the places and names of the installed GraphBolt; later versions call the
        first one ``seeds`` and have ``async_op``.

        Args:
            nodes: ids [n], or a dict of them by node type. Where there are several types, ids [n]
                count through all of them, as ``node_type_offset`` says.
            fanouts: one number per edge type in the order of ``edge_type_to_id``, or one for all
                edge types of a node together, which reads the whole lists; -1 takes all.
            replace: draw with replacement.
            probs_name: the name of edge data: draw in proportion to it; a mask of dtype bool will
                do. None: uniformly.

        Returns:
            ``gb.SampledSubgraphImpl`` with sources in original ids, one list per node of ``nodes``.

        Raises:
            InvalidArgumentError: invalid fanouts, or an unknown name.
            OutOfRangeError: a node that is not there, with its position.
        """
        return self._sample_hop(nodes, fanouts, replace, probs_name)

    def _sample_hop(self, nodes: Any, fanouts: Any, replace: Any, probs_name: Any) -> Any:
        counts = layer_fanouts(self._schema, fanouts, "fanouts")
        seeds = self._node_ids(nodes)
        key = self._hop_key(seeds)
        if isinstance(counts, int):
            hop = self._whole(seeds, key, probs_name)
            hop.draw(counts, key, as_flag(replace, "replace"))
            return hop.subgraph()
        return self._sample(seeds, counts, key, as_flag(replace, "replace"), prob=probs_name)

    @as_graphbolt
    def sample_layer_neighbors(
        self,
        nodes: Any,
        fanouts: Tensor,
        replace: bool = False,
        probs_name: str | None = None,
        random_seed: Tensor | None = None,
        seed2_contribution: float = 0.0,
    ) -> Any:
        """Sample as many in-edges, of sources that the nodes share where they can (LABOR).

        Paper: Balin and Çatalyürek, "Layer-Neighbor Sampling", NeurIPS 2023, appendix A.3: every
        source has one number, and each node takes those of its neighbours that have the least.

        Args:
            nodes: as in :meth:`sample_neighbors`.
            fanouts: as in :meth:`sample_neighbors`.
            replace: draw with replacement: by other numbers for each draw.
            probs_name: the name of edge data: numbers are divided by it, so that edges of more
                weight come more often, those of 0 never; a mask of dtype bool will do.
            random_seed: integers [1 or 2], of which the first decides the numbers instead of the
                nodes of the call; GraphBolt gives it from 2.2 on. None: the nodes do.
            seed2_contribution: 0: numbers that two seeds mix (``batch_dependency``) are not there.

        Raises:
            UnsupportedError: a mix of two seeds.
        """
        return self._sample_layer(
            nodes, fanouts, replace, probs_name, random_seed, seed2_contribution
        )

    def _sample_layer(
        self,
        nodes: Any,
        fanouts: Any,
        replace: Any,
        probs_name: Any,
        random_seed: Any,
        share: float,
    ) -> Any:
        counts = layer_fanouts(self._schema, fanouts, "fanouts")
        seeds = self._node_ids(nodes)
        key = self._layer_key(seeds, random_seed, share)
        hop = self._whole(seeds, key, probs_name)
        hop.draw_by_source(counts, key, as_flag(replace, "replace"))
        return hop.subgraph()

    @as_graphbolt
    def temporal_sample_neighbors(
        self,
        nodes: Any,
        input_nodes_timestamp: Any,
        fanouts: Tensor,
        replace: bool = False,
        window: Any = None,
        probs_name: str | None = None,
        node_timestamp_attr_name: str | None = None,
        edge_timestamp_attr_name: str | None = None,
    ) -> Any:
        """Sample in-edges of times (or from nodes of times) strictly below those of ``nodes``.

        With one kind of times the graph's lists are sorted by them, and only the edges that are
        drawn are read. With both, or with windows, the whole lists of the nodes are, in any order.

        Args:
            nodes: as in :meth:`sample_neighbors`.
            fanouts: as in :meth:`sample_neighbors`.
            replace: as in :meth:`sample_neighbors`.
            probs_name: as in :meth:`sample_neighbors`.
            input_nodes_timestamp: a time per node, or a dict of them by node type.
            window: exclusive time span before its time that each node sees, in the form of the
                times; None: all earlier times. GraphBolt has it from 2.3 on, as
                ``seeds_pre_time_window``.
            node_timestamp_attr_name: name of the times of nodes, or None.
            edge_timestamp_attr_name: name of the times of edges, or None. Times of both may be
                given. Types without times are drawn from as if they had always existed. With
                neither name it is :meth:`sample_neighbors`, as in GraphBolt.

        Raises:
            InvalidArgumentError: times of one kind that lists are not sorted by, or another number
                of times than nodes.
        """
        schema = self._schema
        if node_timestamp_attr_name is None and edge_timestamp_attr_name is None:
            return self._sample_hop(nodes, fanouts, replace, probs_name)
        names = _time_names(schema, node_timestamp_attr_name, edge_timestamp_attr_name)
        times_of = time_option(schema, *names)
        counts = layer_fanouts(schema, fanouts, "fanouts")
        seeds = self._node_ids(nodes)
        times = check_times(schema, seeds, input_nodes_timestamp)
        parts = [hash_ids(native.time_keys(array)) for array in times.values()]
        key = self._hop_key(seeds, *parts)
        if times_of is not None and window is None and not isinstance(counts, int):
            return self._sample(
                seeds, counts, key, as_flag(replace, "replace"),
                prob=probs_name, times=times_of, seed_time=times,
            )  # fmt: skip
        hop = self._whole(seeds, key, probs_name)
        hop.keep_in_time(names, times, _windows(schema, seeds, window))
        hop.draw(counts, key, as_flag(replace, "replace"))
        return hop.subgraph()

    @as_graphbolt
    def temporal_sample_layer_neighbors(
        self,
        nodes: Any,
        input_nodes_timestamp: Any,
        fanouts: Tensor,
        replace: bool = False,
        window: Any = None,
        probs_name: str | None = None,
        node_timestamp_attr_name: str | None = None,
        edge_timestamp_attr_name: str | None = None,
        random_seed: Tensor | None = None,
        seed2_contribution: float = 0.0,
    ) -> Any:
        """Sample in-edges in time, as :meth:`temporal_sample_neighbors`, drawn by sources.

        :meth:`sample_layer_neighbors` describes the draws and the arguments. GraphBolt has
        it from 2.4 on.
        """
        schema = self._schema
        if node_timestamp_attr_name is None and edge_timestamp_attr_name is None:
            return self._sample_layer(
                nodes, fanouts, replace, probs_name, random_seed, seed2_contribution
            )
        names = _time_names(schema, node_timestamp_attr_name, edge_timestamp_attr_name)
        counts = layer_fanouts(schema, fanouts, "fanouts")
        seeds = self._node_ids(nodes)
        times = check_times(schema, seeds, input_nodes_timestamp)
        key = self._layer_key(seeds, random_seed, seed2_contribution)
        hop = self._whole(seeds, key, probs_name)
        hop.keep_in_time(names, times, _windows(schema, seeds, window))
        hop.draw_by_source(counts, key, as_flag(replace, "replace"))
        return hop.subgraph()

    def in_subgraph(self, nodes: Any) -> Any:
        """Return all in-edges of ``nodes``, which are as in :meth:`sample_neighbors`."""
        counts = (-1,) * len(self._schema.edge_types)
        return self._sample(self._node_ids(nodes), counts, 0, False)

    # ---- negatives -------------------------------------------------------------------------

    def sample_negative_edges_uniform(
        self, edge_type: str | None, node_pairs: tuple[Tensor, Tensor] | Tensor, negative_ratio: int
    ) -> tuple[None, Tensor] | Tensor:
        """Draw uniform destinations for ``negative_ratio`` pairs per edge.

        Such a pair may be an edge, as in GraphBolt. The draws are a function of the key and the
        pairs.

        Args:
            edge_type: ``"user:votes:post"``, which the graph need not hold: destinations are drawn
                from its last part. None for the only one.
            node_pairs: sources [n] and destinations [n], or pairs [n, 2], which GraphBolt gives
                from 2.2 on.
            negative_ratio: pairs per edge.

        Returns:
            ``(None, destinations [n * negative_ratio])``: sources are those of the edges. For pairs
            [n, 2] what :meth:`sample_negative_edges_uniform_2` gives.
        """
        if isinstance(node_pairs, Tensor):
            return self.sample_negative_edges_uniform_2(edge_type, node_pairs, negative_ratio)
        pair = as_list(node_pairs, "node_pairs", "tensors", most=2)
        if len(pair) != 2:
            raise InvalidArgumentError("node_pairs must be sources and destinations, or pairs")
        src, dst = pair
        return None, self._negatives(edge_type, src, dst, negative_ratio)

    def sample_negative_edges_uniform_2(
        self, edge_type: str | None, node_pairs: Tensor, negative_ratio: int
    ) -> Tensor:
        """Return the pairs [n, 2] and, after them, ``negative_ratio`` negatives for each."""
        if not isinstance(node_pairs, Tensor) or node_pairs.ndim != 2 or node_pairs.shape[1] != 2:
            form = tuple(node_pairs.shape) if isinstance(node_pairs, Tensor) else shown(node_pairs)
            raise InvalidArgumentError(f"node_pairs must be a tensor of shape [n, 2], got {form}")
        src, dst = node_pairs[:, 0], node_pairs[:, 1]
        drawn = self._negatives(edge_type, src, dst, negative_ratio)
        negative = torch.stack([src.repeat_interleave(negative_ratio), drawn], 1)
        return torch.cat([node_pairs, negative])

    def _negatives(self, name: str | None, src: Tensor, dst: Tensor, ratio: int) -> Tensor:
        ratio = check_integer(ratio, "negative_ratio")
        if ratio < 1:
            raise InvalidArgumentError(f"negative_ratio = {ratio} is no count of at least 1")
        parts = [hash_ids(seed_ids(ids, "node_pairs")) for ids in (src, dst)]
        ntype = destination_type(self._schema, name)
        count = self._schema.num_nodes(ntype)
        if not count and len(src):
            raise InvalidArgumentError(f"there are no nodes of type {ntype!r} to draw")
        rng = np.random.default_rng(self.batch_key(*parts))
        number = len(src) * ratio
        drawn = allocate(
            lambda: rng.integers(0, max(count, 1), number), f"{number} negative destinations"
        )
        return torch.from_numpy(drawn).to(device=src.device, dtype=src.dtype)

    def _hop_key(self, nodes: Mapping[str, Ids], *more: int) -> int:
        content, iteration = [*hop_hashes(self._schema, nodes), *more], find_iteration()
        parts = self._repeats.parts(self.epoch, content, iteration)
        return self._batch_key(None, *parts, iteration=iteration)

    def _layer_key(
        self,
        nodes: Mapping[str, Ids],
        random_seed: Tensor | None,
        seed2_contribution: float,
    ) -> int:
        if as_number(seed2_contribution, "seed2_contribution") != 0:
            raise UnsupportedError(
                f"seed2_contribution = {shown(seed2_contribution)}: batches do not depend on each "
                "other here; take batch_dependency=1, or a FusedCSCSamplingGraph of "
                "to_fused_csc(graph)"
            )
        if random_seed is None:
            return self._hop_key(nodes)
        numbers = as_ids(np.atleast_1d(read_array(random_seed, "random_seed")), "random_seed")
        if not len(numbers):
            raise InvalidArgumentError("random_seed has no number: give one, or None")
        return self.batch_key(int(numbers[0]))

    def _node_ids(self, nodes: Any) -> dict[str, Ids]:
        """Return ids by node type; ids without types count through all types."""
        schema, starts = self._schema, self.node_type_offset
        if isinstance(nodes, Mapping) or starts is None or len(schema.ntypes) == 1:
            return schema.node_ids(nodes, "nodes")
        ids = as_ids(read_array(nodes, "nodes"), "nodes")
        check_ids(ids, int(starts[-1]), "nodes")
        bounds = starts.numpy()
        number = np.searchsorted(bounds, ids, side="right") - 1
        return {name: ids[number == i] - bounds[i] for i, name in enumerate(schema.ntypes)}

    # ---- walks -----------------------------------------------------------------------------

    def _whole(self, seeds: Mapping[str, Ids], key: int, prob: str | None) -> Hop:
        """Return all in-edges of the seeds that weights or a mask allow."""
        prob = as_text(prob, "probs_name")
        everything = ((-1,),) * len(self._schema.edge_types)
        options = DrawOptions(layered=True, num_threads=self.num_threads)
        draws = self._draws.get(native.NativeSample, everything, options, prob=prob)
        sample = draws.sample(seeds, key, names=NAMES)
        return Hop(self._schema, seeds, sample, prob)

    def _sample(
        self,
        seeds: Mapping[str, Ids],
        counts: tuple[int, ...],
        key: int,
        replace: bool,
        *,
        prob: str | None = None,
        times: Times | None = None,
        seed_time: Mapping[str, NDArray[Any]] | None = None,
    ) -> Any:
        prob = as_text(prob, "probs_name")
        fanouts = tuple((count,) for count in counts)
        options = DrawOptions(
            replace=replace,
            disjoint=times is not None,
            layered=True,
            num_threads=self.num_threads,
        )
        draws = self._draws.get(native.NativeLayers, fanouts, options, prob=prob, times=times)
        sample = draws.sample(seeds, key, seed_time=seed_time, names=NAMES)
        offsets = [hop_offsets[0] for hop_offsets in sample.offsets]
        return single_hop(self._schema, sample.node, sample.row, offsets, sample.edge)


def _time_names(schema: Schema, node_attr: str | None, edge_attr: str | None) -> TimeNames:
    time_option(schema, node_attr, edge_attr)
    return TimeNames(node_attr, edge_attr)


def _windows(
    schema: Schema, seeds: Mapping[str, Ids], window: Any
) -> dict[str, NDArray[Any]] | None:
    return None if window is None else check_times(schema, seeds, window, "windows")


def check_times(
    schema: Schema, seeds: Mapping[str, Ids], times: Any, label: str = "timestamps"
) -> dict[str, NDArray[Any]]:
    """Read times of seeds by node type from a tensor or a dict; messages call them ``label``.

    Raises:
        InvalidArgumentError: a type without times, or another number of times than seeds.
    """
    by_type = times if isinstance(times, Mapping) else {schema.ntype(None): times}
    checked = {}
    for name, ids in seeds.items():
        values = by_type.get(name)
        if values is None and not len(ids):
            continue
        if not isinstance(values, Tensor) or values.ndim != 1 or len(values) != len(ids):
            form = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else shown(values)
            raise InvalidArgumentError(
                f"{label} of {len(ids)} nodes of type {name!r} are a tensor of one time each, "
                f"got {form}"
            )
        array = read_array(values, label)
        if array.dtype.kind not in "iuf":
            raise InvalidArgumentError(f"{label} must be numbers, got {values.dtype}")
        dtype = np.float64 if array.dtype.kind == "f" else np.int64
        checked[name] = np.ascontiguousarray(array, dtype)
    return checked
