"""Subgraph sampler for GraphBolt's pipes that makes all hops of a batch in one native call.

Source followed: ``dgl/graphbolt/subgraph_sampler.py`` and ``impl/neighbor_sampler.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import functional_datapipe

import dgl.graphbolt as gb
from aethergraph import _native as native
from aethergraph._checks.options import as_flag, as_text
from aethergraph.dgl._ahead import Coming, look_ahead
from aethergraph.dgl._arguments import layer_list, seed_hashes
from aethergraph.dgl._plans import NAMES, Fanouts, plan_of
from aethergraph.dgl.graphbolt._forms import layer_fanouts, layer_subgraphs, time_option
from aethergraph.dgl.graphbolt.graph import SamplingGraph, check_times
from aethergraph.dgl.storage import GraphStorage
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.protocols import AnyGraph
from aethergraph.sampling.draws import Draws
from aethergraph.sampling.engine import DrawOptions
from aethergraph.sampling.keys import hash_ids
from aethergraph.sampling.plan import Times
from aethergraph.sampling.two_step import Steps, run_steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NeighborSampler"]


@functional_datapipe("sample_neighbor_at_once")
class NeighborSampler(gb.SubgraphSampler):  # type: ignore[misc]
    """Sampler of all layers, as ``sample_neighbor`` and ``temporal_sample_neighbor``.

    Functional name: ``sample_neighbor_at_once``::

        pipe = gb.ItemSampler(items, batch_size=128)
        pipe = pipe.sample_neighbor_at_once(graph, [15, 10])
        pipe = pipe.fetch_feature(FeatureStore(graph.graph), node_feature_keys=["x"])
        loader = gb.DataLoader(pipe, num_workers=2)

    Batches have what GraphBolt's have: ``fanouts[-1]`` is drawn at the seeds, the nodes of a layer
    are the first of the nodes of the layer before it, and every node of every layer has drawn anew.
    Every dict has every type, those without nodes too. Original edge ids are always there.

    Over a graph with ``storage="uring"`` several coming minibatches are sampled together, as many
    as its ``memory_budget`` has room for, so that each page is read once for all of them.

    The draws are those of :class:`aethergraph.dgl.NeighborSampler` for the same seed, epoch and
    nodes; seed and epoch are the graph's. Seeds of pairs are numbered in order of first appearance,
    for any number of threads.

    Args:
        datapipe: pipe of ``gb.MiniBatch`` with ``seed_nodes``, ``node_pairs`` or ``seeds``.
        graph: a :class:`SamplingGraph`.
        fanouts: for each layer a number, a tensor of one per edge type in the order of
            ``graph.edge_type_to_id``, or a dict of that by edge type. -1 takes all. One number is
            for graphs whose nodes have in-edges of one type each: in GraphBolt it is for all edge
            types of a node together, which ``sample_neighbor`` draws.
        replace: draw with replacement.
        prob_name: the name of edge data: draw in proportion to it. A mask of dtype bool will do.
        deduplicate: True: a node is in a layer once.
        node_timestamp_attr_name, edge_timestamp_attr_name: the name of times, of nodes or edges:
            every seed gets a tree of its own, of edges (or to nodes) of times strictly below its
            ``timestamp``.

    Raises:
        UnsupportedError: an option that is not supported; names it and what to do.
        InvalidArgumentError: an invalid argument, or data that the graph does not have.
    """

    def __init__(
        self,
        datapipe: Any,
        graph: SamplingGraph,
        fanouts: Sequence[int | Tensor | Mapping[str, int]],
        replace: bool = False,
        prob_name: str | None = None,
        deduplicate: bool = True,
        *,
        node_timestamp_attr_name: str | None = None,
        edge_timestamp_attr_name: str | None = None,
    ) -> None:
        if not isinstance(graph, SamplingGraph):
            raise InvalidArgumentError(
                f"graph must be a SamplingGraph of aethergraph.dgl.graphbolt, got "
                f"{type(graph).__name__}{_how_to_make(graph)}"
            )
        if not as_flag(deduplicate, "deduplicate"):
            raise UnsupportedError(
                "deduplicate = False is not supported: take sample_neighbor over this graph"
            )
        layers, prob_name = layer_list(fanouts), as_text(prob_name, "prob_name")
        if not hasattr(datapipe, "transform"):
            raise InvalidArgumentError(
                f"datapipe must be one of GraphBolt, got {type(datapipe).__name__}"
            )
        schema = graph.schema
        times = time_option(schema, node_timestamp_attr_name, edge_timestamp_attr_name)
        if node_timestamp_attr_name is not None and edge_timestamp_attr_name is not None:
            raise UnsupportedError(
                f"node_timestamp_attr_name = {node_timestamp_attr_name!r} with "
                f"edge_timestamp_attr_name = {edge_timestamp_attr_name!r}: lists are sorted by one "
                "of them; give only that one, or take temporal_sample_neighbor over this graph"
            )
        hops = [
            _by_type(layer_fanouts(schema, fanout, f"fanouts[{at}]"), f"fanouts[{at}]")
            for at, fanout in reversed(list(enumerate(layers)))
        ]
        options = DrawOptions(
            replace=as_flag(replace, "replace"),
            disjoint=times is not None,
            layered=True,
            num_threads=graph.num_threads,
        )
        self.graph = graph
        self._layers = _Layers(graph, tuple(zip(*hops, strict=True)), options, prob_name, times)
        super().__init__(datapipe)

    def sample_subgraphs(
        self, seeds: Any, seeds_timestamp: Any, seeds_pre_time_window: Any = None
    ) -> tuple[Any, list[Any]]:
        """Sample around ``seeds``; GraphBolt calls it for every batch.

        Args:
            seeds: ids, or a dict of them by node type.
            seeds_timestamp: time of each seed, if the sampler goes by time.
            seeds_pre_time_window: None: windows are for ``temporal_sample_neighbor``.

        Returns:
            ``(input_nodes, subgraphs)``: nodes of the first layer, by type if there are
            several; one subgraph per layer.

        Raises:
            OutOfRangeError: a seed that is no node, with its position.
            InvalidArgumentError: no times, or a number of them that does not fit.
            UnsupportedError: windows.
        """
        _refuse_windows(seeds_pre_time_window)
        result: tuple[Any, list[Any]] = run_steps(
            self._layers.steps(seeds, seeds_timestamp), self._layers.draws.engine.draw
        )
        return result

    def sampling_stages(self, datapipe: Any, *args: Any, **options: Any) -> Any:
        """Return the stage that samples; GraphBolt puts it between those of this class."""
        if type(self).sample_subgraphs is not NeighborSampler.sample_subgraphs:
            return super().sampling_stages(datapipe, *args, **options)
        return _SampleAhead(datapipe, self._sample, self._layers)

    @staticmethod
    def _preprocess(minibatch: Any, *args: Any, **options: Any) -> Any:
        # Later versions of GraphBolt have more arguments, and no seed_nodes and node_pairs.
        minibatch = gb.SubgraphSampler._preprocess(minibatch, *args, **options)
        times, seeds = minibatch._seeds_timestamp, minibatch.seeds
        by_nodes = getattr(minibatch, "seed_nodes", None) is not None
        if times is None and not by_nodes:
            _order_by_appearance(minibatch)
        by_seeds = getattr(minibatch, "node_pairs", None) is None and not by_nodes
        if by_seeds and isinstance(times, Tensor) and seeds.ndim == 2:
            # GraphBolt lays the ends out pair by pair, but their times end by end.
            minibatch._seeds_timestamp = times.view(2, -1).T.reshape(-1)
        return minibatch


class _SampleAhead(gb.MiniBatchTransformer):  # type: ignore[misc]
    """Stage that samples minibatches: several coming ones together where that saves reading.

    Args:
        datapipe: the stage before it.
        sample: samples one minibatch by itself.
        layers: what to sample.
    """

    def __init__(self, datapipe: Any, sample: Callable[[Any], Any], layers: _Layers) -> None:
        super().__init__(datapipe, sample)
        self._layers = layers

    def __iter__(self) -> Iterator[Any]:
        engine = self._layers.draws.engine
        groups = engine.groups
        if groups is None:
            yield from map(self._transformer, self.datapipe)
            return
        coming = (Coming(self._steps(minibatch), engine) for minibatch in self.datapipe)
        for prepared in look_ahead(coming, groups):
            yield prepared.finish()

    def _steps(self, minibatch: Any) -> Steps:
        _refuse_windows(getattr(minibatch, "_seeds_pre_time_window", None))
        minibatch.input_nodes, minibatch.sampled_subgraphs = yield from self._layers.steps(
            minibatch._seed_nodes, minibatch._seeds_timestamp
        )
        return minibatch


def _refuse_windows(windows: Any) -> None:
    if windows is not None:
        raise UnsupportedError(
            "seeds_pre_time_window is not supported by sample_neighbor_at_once: take "
            "temporal_sample_neighbor over this graph"
        )


def _by_type(fanouts: tuple[int, ...] | int, name: str) -> tuple[int, ...]:
    if isinstance(fanouts, int):
        raise UnsupportedError(
            f"{name} = {fanouts} for all edge types of a node together is not drawn at once: take "
            "sample_neighbor over this graph, or give one number per edge type, as a tensor in the "
            "order of edge_type_to_id"
        )
    return fanouts


def _how_to_make(graph: Any) -> str:
    if isinstance(graph, AnyGraph):
        return ": SamplingGraph(graph) is one"
    if isinstance(graph, GraphStorage):
        return ": SamplingGraph(storage.graph) is one"
    if isinstance(graph, gb.FusedCSCSamplingGraph):
        return ": SamplingGraph(from_fused_csc(graph)) is one"
    return ""


class _Layers:
    """Layers of a sampler; separate from it, because datapipes pickle in their own way."""

    def __init__(
        self,
        graph: SamplingGraph,
        fanouts: Fanouts,
        options: DrawOptions,
        prob: str | None,
        times: Times | None,
    ) -> None:
        self._graph = graph
        self._fanouts = fanouts
        self._options = options
        self._prob = prob
        self._times = times
        self._draws: Draws[native.NativeLayers] | None = self._make_draws()

    @property
    def draws(self) -> Draws[native.NativeLayers]:
        """Draws, made anew in another process and when an attribute that they go by is replaced."""
        if self._draws is None or not self._draws.plan.is_current:
            self._draws = self._make_draws()
        return self._draws

    def steps(self, seeds: Any, timestamps: Any) -> Steps:
        """Sample around ``seeds`` in two steps (see ``sampling/two_step.py``)."""
        schema = self._graph.schema
        ids = schema.node_ids(seeds, "nodes")
        parts = seed_hashes(schema, ids)
        times: dict[str, NDArray[Any]] | None = None
        if self._times is not None:
            if timestamps is None:
                raise InvalidArgumentError(
                    "sampling in time needs a timestamp for each seed: add an item of that name"
                )
            times = check_times(schema, ids, timestamps)
            parts += [hash_ids(native.time_keys(array)) for array in times.values()]
        key = self._graph.batch_key(*parts)
        sample = yield self.draws.prepare(ids, key, seed_time=times, names=NAMES)
        return layer_subgraphs(schema, sample)

    def _make_draws(self) -> Draws[native.NativeLayers]:
        plan = plan_of(self._graph.schema, prob=self._prob, times=self._times)
        return Draws(plan, native.NativeLayers, self._fanouts, self._options)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_draws": None}


def _order_by_appearance(minibatch: Any) -> None:
    """Number seeds as a single thread would: GraphBolt's numbers depend on its threads."""
    seeds = minibatch._seed_nodes
    parts: dict[str | None, list[Tensor]] = {}
    for name, ids in _compacted(minibatch):
        parts.setdefault(name, []).append(ids)
    for name, lists in parts.items():
        local = torch.cat([ids.reshape(-1) for ids in lists]).numpy()
        distinct, first = np.unique(local, return_index=True)
        order = distinct[np.argsort(first)]
        if (order == np.arange(len(order))).all():
            continue
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        if name is None:
            minibatch._seed_nodes = seeds[torch.from_numpy(order)]
        else:
            seeds[name] = seeds[name][torch.from_numpy(order)]
        for ids in lists:
            ids.copy_(torch.from_numpy(number[ids.numpy()]))


def _compacted(minibatch: Any) -> Iterator[tuple[str | None, Tensor]]:
    """Return local ids with their type, in the order in which GraphBolt combines them."""
    fields: list[tuple[Any, int | None]] = [(minibatch.compacted_seeds, None)]
    if getattr(minibatch, "node_pairs", None) is not None:
        fields = [
            (minibatch.compacted_node_pairs, None),
            (minibatch.compacted_negative_srcs, 0),
            (minibatch.compacted_negative_dsts, 2),
        ]
    for field, side in fields:
        if field is None:
            continue
        for kind, ids in field.items() if isinstance(field, Mapping) else [(None, field)]:
            names: list[Any] = [None] * 3 if kind is None else kind.split(":")
            if side is not None:
                yield names[side], ids
            elif isinstance(ids, tuple):
                yield names[0], ids[0]
                yield names[-1], ids[1]
            elif kind is None or ids.ndim == 1:
                yield names[0], ids
            else:
                yield names[0], ids[:, 0]
                yield names[-1], ids[:, 1]
