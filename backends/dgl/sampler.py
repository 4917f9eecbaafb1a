"""Neighbour samplers for DGL's loaders: message flow graphs made by one native call.

Source followed: ``dgl/dataloading/neighbor_sampler.py`` and ``base.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

import dgl.dataloading
from aethergraph import _native as native
from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_choice, as_flag, as_text
from aethergraph._torch.keyed import Keyed
from aethergraph._torch.tensors import read_array
from aethergraph.dgl._arguments import (
    as_names,
    check_fanouts,
    check_output_device,
    check_prefetch,
    check_threads,
    native_fanouts,
    seed_hashes,
)
from aethergraph.dgl._plans import NAMES, dgl_times, excluded_edges, plan_of
from aethergraph.dgl._schema import Schema
from aethergraph.dgl.storage import GraphStorage
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.ids import check_ids
from aethergraph.sampling.base import as_window
from aethergraph.sampling.draws import Draws
from aethergraph.sampling.engine import DrawOptions, SampleEngine
from aethergraph.sampling.fanouts import MAX_HOPS
from aethergraph.sampling.keys import hash_ids
from aethergraph.sampling.two_step import Steps, run_steps

if TYPE_CHECKING:
    from numpy.typing import NDArray


__all__ = [
    "KeyedSampler",
    "MultiLayerFullNeighborSampler",
    "MultiLayerNeighborSampler",
    "NeighborSampler",
    "storage_of",
]

Ids: TypeAlias = "NDArray[np.int64]"


class KeyedSampler(Keyed):
    """Base of samplers that keep the draws of a loader's graph for the next batch."""

    #: Draws of the last graph, in one attribute, since threads may sample from two graphs.
    _draws: Draws[Any] | None = None

    def _make_draws(self, schema: Schema) -> Draws[Any]:
        raise NotImplementedError

    def _draws_of(self, schema: Schema) -> Draws[Any]:
        draws = self._draws
        if draws is None or draws.plan.schema is not schema or not draws.plan.is_current:
            self._check_prefetch(schema)
            draws = self._draws = self._make_draws(schema)
        return draws

    def engine_of(self, graph: Any) -> SampleEngine[Any]:
        """Return the maker of the samples of a loader's graph."""
        return self._draws_of(storage_of(graph).schema).engine

    def _check_prefetch(self, schema: Schema) -> None:
        for option in ("prefetch_node_feats", "prefetch_labels"):
            check_prefetch(getattr(self, option, None), option, schema, "node")
        option = "prefetch_edge_feats"
        check_prefetch(getattr(self, option, None), option, schema, "edge")

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if not name.startswith("_"):  # an option
            super().__setattr__("_draws", None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_draws": None}


class NeighborSampler(KeyedSampler, dgl.dataloading.BlockSampler):  # type: ignore[misc]
    """Sampler of message flow graphs (blocks) around seed nodes: DGL's ``NeighborSampler``.

    ::

        sampler = NeighborSampler([10, 10], prefetch_node_feats=["x"], prefetch_labels=["y"])
        loader = dgl.dataloading.DataLoader(GraphStorage(graph), nodes, sampler, batch_size=128)
        for input_nodes, output_nodes, blocks in loader:
            x, y = blocks[0].srcdata["x"], blocks[-1].dstdata["y"]

    ``fanouts[i]`` is for ``blocks[i]``, so the last one is drawn at the seeds. In every block each
    destination node has drawn anew, as in DGL. Destination nodes are the first of the source nodes;
    ``dgl.NID`` and ``dgl.EID`` are set. Seeds that are given twice keep a place each and get the
    same edges, as in DGL's fused sampling; without it DGL gives all of them to the first.

    Every draw depends on a key, the hop and the node: not on threads, processes or workers. The
    key of a batch is mixed from ``seed``, the epoch (:meth:`set_epoch`) and the seeds with their
    order, as in :mod:`aethergraph.pyg`. Where ``seed`` is None, the number that torch draws when a
    ``DataLoader`` begins an iteration stands in its place, so that every epoch draws anew; outside
    of a loader it is ``torch.initial_seed()``. So a node draws in a hop what it draws there in
    PyG's form and in that of numpy. ``dgl.seed`` plays no part, and torch's generator is left
    alone. With ``seed`` epochs repeat unless ``set_epoch`` is called, and a warning says so once.

    Goes with ``as_edge_prediction_sampler`` of this package or DGL's.

    Args:
        fanouts: neighbours per node for each layer; or for each layer a dict of that, with every
            edge type. -1 takes all.
        edge_dir: ``"in"``, or ``"out"`` for out-neighbours as sources, of graphs that store
            out-edges (layout "csr" or "both") and have edges within node types only.
        prob: the name of edge data: draw in proportion to it; 0 is never drawn. A mask will do.
        mask: the name of edge data of dtype bool: draw only where it is true.
        replace: draw with replacement.
        prefetch_node_feats, prefetch_labels, prefetch_edge_feats: names of data that the loader
            puts into the first block's ``srcdata``, the last one's ``dstdata``, every ``edata``; by
            type where there are several.
        output_device: device of the blocks.
        fused: accepted, all hops are one call in any case.
        layer_dependency: every node keeps the neighbours that it was first given, in all blocks, so
            that together they hold PyG's sample of the same key. A node that hop h from the seeds
            has added then has the fanout of hop h + 1 in every block.
        time_attr: the name of times, of nodes if any have it, else of edges: every seed gets a tree
            of its own, of edges (or to nodes) of times below its own time.
        seed_time: time that each seed may see, by node id [num_nodes], or a dict by node type.
            None: the time of the node itself. Times of edges need it.
        temporal_strategy: choice among the neighbours in time, ``"uniform"`` or ``"last"``.
        strict: see only times below the seed's (GraphBolt's rule), not up to it (PyG's).
        window: see only times of at least the seed's time minus this number.
        seed: fixed number to draw from instead of torch's seed.
        num_threads: threads per batch; 1 is the calling thread, 0 all cores the process may use.

    Raises:
        UnsupportedError: an option that is not supported; names it and what to do.
        InvalidArgumentError: an invalid argument; with the first batch what does not fit the
            graph: types, names of data, weights, times that lists are not sorted by.
        OutOfRangeError (when sampling): a seed that is no node, with its position.
    """

    def __init__(
        self,
        fanouts: Sequence[int | Mapping[Any, int]],
        edge_dir: str = "in",
        prob: str | None = None,
        mask: str | None = None,
        replace: bool = False,
        prefetch_node_feats: Any = None,
        prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: Any = None,
        fused: bool = True,
        *,
        layer_dependency: bool = False,
        time_attr: str | None = None,
        seed_time: Any = None,
        temporal_strategy: Literal["uniform", "last"] = "uniform",
        strict: bool = True,
        window: float | int | None = None,
        seed: int | None = None,
        num_threads: int = 1,
    ) -> None:
        super().__init__(
            prefetch_node_feats=as_names(prefetch_node_feats, "prefetch_node_feats"),
            prefetch_labels=as_names(prefetch_labels, "prefetch_labels"),
            prefetch_edge_feats=as_names(prefetch_edge_feats, "prefetch_edge_feats"),
            output_device=check_output_device(output_device),
        )
        edge_dir = as_choice(edge_dir, ("in", "out"), "edge_dir")
        temporal_strategy = as_choice(temporal_strategy, ("uniform", "last"), "temporal_strategy")
        prob, mask = as_text(prob, "prob"), as_text(mask, "mask")
        time_attr = as_text(time_attr, "time_attr")
        if edge_dir == "out" and time_attr is not None:
            raise UnsupportedError(
                "edge_dir = 'out' with time_attr: times go with in-edges; take edge_dir='in'"
            )
        if mask is not None and prob is not None:
            raise InvalidArgumentError("mask and prob exclude each other: give one of them")
        if time_attr is None and (seed_time is not None or window is not None):
            raise InvalidArgumentError("seed_time and window need time_attr")
        if time_attr is None and temporal_strategy == "last":
            raise InvalidArgumentError("temporal_strategy = 'last' needs time_attr")
        self.fanouts = check_fanouts(fanouts)
        self.edge_dir = edge_dir
        self.prob = prob
        self.mask = mask
        self.replace = as_flag(replace, "replace")
        self.fused = as_flag(fused, "fused")
        self.layer_dependency = as_flag(layer_dependency, "layer_dependency")
        self.time_attr = time_attr
        self.seed_time = seed_time
        self.temporal_strategy = temporal_strategy
        self.strict = as_flag(strict, "strict")
        self.window = as_window(window)
        self.num_threads = check_threads(num_threads)
        self._set_seed(seed)

    def sample_blocks(
        self, g: GraphStorage, seed_nodes: Any, exclude_eids: Any = None
    ) -> tuple[Any, Any, list[Any]]:
        """Sample around ``seed_nodes``; the loader calls it through ``sample``.

        Args:
            g: the graph.
            seed_nodes: ids, or a dict of them by node type.
            exclude_eids: ids of edges that are not drawn, or a dict of them by edge type.
                Ids beyond the last edge are ignored, as in DGL.

        Returns:
            ``(input_nodes, output_nodes, blocks)``: the source nodes of the first block, by type
            where there are several; ``seed_nodes``; one block per layer.
        """
        storage = storage_of(g)
        draws = self._draws_of(storage.schema)
        steps = self._block_steps(storage, draws, seed_nodes, exclude_eids)
        result: tuple[Any, Any, list[Any]] = run_steps(steps, draws.engine.draw)
        return result

    def steps(self, g: GraphStorage, seed_nodes: Any) -> Steps:
        """Run ``sample`` as a generator of two steps (see ``sampling/two_step.py``)."""
        storage = storage_of(g)
        draws = self._draws_of(storage.schema)
        result = yield from self._block_steps(storage, draws, seed_nodes, None)
        return self.assign_lazy_features(result)

    def _block_steps(
        self, storage: GraphStorage, draws: Draws[Any], seed_nodes: Any, exclude_eids: Any
    ) -> Steps:
        schema = storage.schema
        seeds = schema.node_ids(seed_nodes, "nodes")
        exclude = excluded_edges(draws, exclude_eids, "exclude_eids")
        parts = seed_hashes(schema, seeds)
        times = self._times(schema, seeds)
        if times is not None:
            parts += [hash_ids(native.time_keys(array)) for array in times.values()]
        key = self._batch_key(None, *parts)
        sample = yield draws.prepare(seeds, key, exclude=exclude, seed_time=times, names=NAMES)
        make = storage.blocks.of_growing if self.layer_dependency else storage.blocks.of_layers
        node, blocks = make(sample)
        if self.output_device is not None:
            node = {name: ids.to(self.output_device) for name, ids in node.items()}
            blocks = [block.to(self.output_device) for block in blocks]
        if isinstance(seed_nodes, Mapping):
            return node, seed_nodes, blocks
        return node[storage.ntypes[0]], seed_nodes, blocks

    def _times(self, schema: Schema, seeds: Mapping[str, Ids]) -> dict[str, NDArray[Any]] | None:
        """Return the times that seeds may see, by type; None: their own times."""
        if self.seed_time is None:
            return None
        by_type = self.seed_time
        if not isinstance(by_type, Mapping):
            by_type = {schema.ntype(None): by_type}
        times = {}
        for name, values in by_type.items():
            array = read_array(values, "seed_time")
            ntype = schema.ntype(name)
            if array.shape != (schema.num_nodes(ntype),):
                raise InvalidArgumentError(
                    f"seed_time of {ntype!r} has one time per node, shape "
                    f"({schema.num_nodes(ntype)},), got {array.shape}"
                )
            if ntype in seeds:
                label = "nodes" if len(schema.ntypes) == 1 else f"nodes[{ntype!r}]"
                check_ids(seeds[ntype], len(array), label)
                times[ntype] = array[seeds[ntype]]
        return times

    def _make_draws(self, schema: Schema) -> Draws[Any]:
        if self.edge_dir == "out":
            for source, relation, target in schema.canonical_etypes:
                if source != target:
                    raise UnsupportedError(
                        f"edge_dir = 'out' over {(source, relation, target)!r}: a block of it "
                        "would point the other way; add the reverse type and sample with 'in'"
                    )
        layout: Literal["csc", "csr"] = "csc" if self.edge_dir == "in" else "csr"
        times = None
        if self.time_attr is not None:
            times = dgl_times(self.time_attr, strict=self.strict, window=self.window)
        plan = plan_of(schema, layout, prob=self.prob, mask=self.mask, times=times)
        options = DrawOptions(
            replace=self.replace,
            disjoint=self.time_attr is not None,
            latest=self.temporal_strategy == "last",
            layered=not self.layer_dependency,
            num_threads=self.num_threads,
        )
        form: Any = native.NativeSample if self.layer_dependency else native.NativeLayers
        draws: Draws[Any] = Draws(plan, form, native_fanouts(schema, self.fanouts), options)
        return draws


MultiLayerNeighborSampler = NeighborSampler
"""DGL's other name of :class:`NeighborSampler`."""


class MultiLayerFullNeighborSampler(NeighborSampler):
    """Sampler of all neighbours for every layer, as DGL's sampler of that name.

    Args:
        num_layers: number of blocks.
        **options: options of :class:`NeighborSampler`.
    """

    def __init__(self, num_layers: int, **options: Any) -> None:
        count = as_count(num_layers, "num_layers")
        if not 1 <= count <= MAX_HOPS:
            raise InvalidArgumentError(f"num_layers = {count} is not in 1..{MAX_HOPS}")
        super().__init__([-1] * count, **options)


def storage_of(graph: Any) -> GraphStorage:
    """Return the storage that a loader passes to a sampler of ours."""
    if not isinstance(graph, GraphStorage):
        raise InvalidArgumentError(
            f"this sampler needs a GraphStorage as the loader's graph, got {type(graph).__name__}: "
            "GraphStorage(graph), or GraphStorage(from_dgl(graph)) for a DGLGraph"
        )
    return graph
