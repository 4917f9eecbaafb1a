"""LABOR sampling: fewer nodes for the same fanouts, because destinations share their draws.

Paper: Balin and Çatalyürek, "Layer-Neighbor Sampling: Defusing Neighborhood Explosion in GNNs",
NeurIPS 2023. Source followed: ``dgl/dataloading/labor_sampler.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

import dgl.dataloading
from aethergraph import _native as native
from aethergraph._checks.options import as_flag
from aethergraph.dgl._arguments import (
    as_names,
    check_fanouts,
    check_output_device,
    check_threads,
    native_fanouts,
    refuse_options,
    seed_hashes,
)
from aethergraph.dgl._blocks import BlockEdges, offsets_of
from aethergraph.dgl._plans import NAMES, excluded_edges, plan_of
from aethergraph.dgl._schema import Schema
from aethergraph.dgl.sampler import KeyedSampler, storage_of
from aethergraph.dgl.storage import GraphStorage
from aethergraph.sampling.draws import Draws, Excluded
from aethergraph.sampling.engine import DrawOptions
from aethergraph.sampling.keys import mix_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.graph.hetero import EdgeType

__all__ = ["LaborSampler", "choose_fewest", "least_of_each", "node_numbers"]

Ids: TypeAlias = "NDArray[np.int64]"


class LaborSampler(KeyedSampler, dgl.dataloading.BlockSampler):  # type: ignore[misc]
    """Sampler of blocks by LABOR-0, as DGL's ``LaborSampler`` with its default options.

    Every source node has one number in [0, 1) in a layer, and a destination of degree d takes those
    of its neighbours whose number is below fanout / d: each with the probability that neighbour
    sampling gives it, but destinations choose the same ones where they can. A node so has about
    ``fanout`` neighbours, not at most so many. The number is a function of key, layer and node.

    It reads the whole lists of the destinations, where neighbour sampling reads ``fanout`` of
    their entries, and chooses in numpy: worth it where fetching features is what costs.

    Args:
        fanouts: expected neighbours per node for each layer; or for each layer a dict of that, with
            every edge type. -1 takes all.
        edge_dir: ``"in"``.
        prob: None: weights are not supported.
        importance_sampling: 0, which is LABOR-0.
        layer_dependency: nodes have the same number in all layers.
        batch_dependency: 1.
        prefetch_node_feats, prefetch_labels, prefetch_edge_feats, output_device: as in
            :class:`NeighborSampler`.
        seed: fixed number to draw from instead of torch's seed.
        num_threads: threads per batch.

    Raises:
        UnsupportedError: an option that is not supported; names it and what to take instead.
    """

    def __init__(
        self,
        fanouts: Sequence[int | Mapping[Any, int]],
        edge_dir: str = "in",
        prob: str | None = None,
        importance_sampling: int = 0,
        layer_dependency: bool = False,
        batch_dependency: int = 1,
        prefetch_node_feats: Any = None,
        prefetch_labels: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: Any = None,
        *,
        seed: int | None = None,
        num_threads: int = 1,
    ) -> None:
        super().__init__(
            prefetch_node_feats=as_names(prefetch_node_feats, "prefetch_node_feats"),
            prefetch_labels=as_names(prefetch_labels, "prefetch_labels"),
            prefetch_edge_feats=as_names(prefetch_edge_feats, "prefetch_edge_feats"),
            output_device=check_output_device(output_device),
        )
        refuse_options(
            {
                "edge_dir": edge_dir,
                "prob": prob,
                "importance_sampling": importance_sampling,
                "batch_dependency": batch_dependency,
            },
            {"edge_dir": "in", "prob": None, "importance_sampling": 0, "batch_dependency": 1},
            "dgl.dataloading.LaborSampler over to_dgl(graph) has it",
        )
        self.fanouts = check_fanouts(fanouts)
        self.layer_dependency = as_flag(layer_dependency, "layer_dependency")
        self.num_threads = check_threads(num_threads)
        self._set_seed(seed)

    def sample_blocks(
        self, g: GraphStorage, seed_nodes: Any, exclude_eids: Any = None
    ) -> tuple[Any, Any, list[Any]]:
        """Sample around ``seed_nodes``; see :meth:`NeighborSampler.sample_blocks`."""
        storage = storage_of(g)
        schema = storage.schema
        seeds = schema.node_ids(seed_nodes, "nodes")
        exclude = excluded_edges(self._draws_of(schema), exclude_eids, "exclude_eids")
        key = self._batch_key(None, *seed_hashes(schema, seeds))
        none = np.empty(0, np.int64)
        node = {name: seeds.get(name, none) for name in schema.node_types}
        blocks: list[Any] = []
        fanouts = native_fanouts(schema, self.fanouts)
        for hop in range(len(self.fanouts)):
            counts = {kind: fanouts[i][hop] for i, kind in enumerate(schema.edge_types)}
            layer_key = mix_key(key, 0 if self.layer_dependency else hop)
            node, block = self._layer(storage, node, counts, layer_key, exclude)
            blocks.insert(0, block)
        input_nodes = {name: torch.from_numpy(ids).to(storage.idtype) for name, ids in node.items()}
        if self.output_device is not None:
            input_nodes = {name: ids.to(self.output_device) for name, ids in input_nodes.items()}
            blocks = [block.to(self.output_device) for block in blocks]
        if isinstance(seed_nodes, Mapping):
            return input_nodes, seed_nodes, blocks
        return input_nodes[storage.ntypes[0]], seed_nodes, blocks

    def _layer(
        self,
        storage: GraphStorage,
        dst: dict[str, Ids],
        fanouts: Mapping[EdgeType, int],
        key: int,
        exclude: Excluded | None,
    ) -> tuple[dict[str, Ids], Any]:
        schema = storage.schema
        sample = self._draws_of(schema).sample(dst, key, exclude=exclude, names=NAMES)
        node = dict(zip(schema.node_types, sample.node, strict=True))
        number = {name: node_numbers(ids, key) for name, ids in node.items()}
        kept, used = {}, {name: np.zeros(len(ids), bool) for name, ids in node.items()}
        for name, ids in dst.items():
            used[name][: len(ids)] = True
        for i, kind in enumerate(schema.edge_types):
            keep = _choose(
                number[kind[0]][sample.row[i]], sample.col[i], len(dst[kind[2]]), fanouts[kind]
            )
            kept[kind] = keep
            used[kind[0]][sample.row[i][keep]] = True
        local = {name: np.cumsum(mask) - 1 for name, mask in used.items()}
        edges = {}
        for i, kind in enumerate(schema.edge_types):
            shown_ids = schema.numbers[kind].shown(sample.edge[i][kept[kind]])
            edges[kind] = BlockEdges(
                local[kind[0]][sample.row[i][kept[kind]]],
                offsets_of(sample.col[i][kept[kind]], len(dst[kind[2]])),
                torch.from_numpy(shown_ids).to(storage.idtype),
            )
        src = {name: ids[used[name]] for name, ids in node.items()}
        tensors = {name: torch.from_numpy(ids).to(storage.idtype) for name, ids in src.items()}
        num_dst = {name: len(ids) for name, ids in dst.items()}
        return src, storage.blocks.make(edges, tensors, num_dst)

    def _make_draws(self, schema: Schema) -> Draws[native.NativeSample]:
        everything = ((-1,),) * len(schema.edge_types)
        options = DrawOptions(num_threads=self.num_threads)
        return Draws(plan_of(schema), native.NativeSample, everything, options)


def node_numbers(ids: Ids, key: int) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each node, a function of key and node: splitmix64."""
    z = ids.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.asarray((z >> np.uint64(11)) * 2.0**-53)


def _choose(number: NDArray[np.float64], col: Ids, num_dst: int, fanout: int) -> NDArray[np.bool_]:
    """Choose edges: all of a list that is not longer than ``fanout``."""
    if fanout < 0:
        return np.ones(len(col), bool)
    degree = np.bincount(col, minlength=num_dst)[col]
    return np.asarray(number * degree < fanout)


def choose_fewest(
    src: Ids, col: Ids, fanout: int, key: int, weight: NDArray[Any] | None = None
) -> NDArray[np.bool_]:
    """Choose ``fanout`` edges of each list: those whose sources have the least numbers.

    Args:
        src: sources by id.
        col: destinations, ascending.
        fanout: edges per destination; -1 takes all.
        key: decides the numbers.
        weight: weights of the edges, above 0, that numbers are divided by. None: equal weights.
    """
    if fanout < 0:
        return np.ones(len(col), bool)
    number = node_numbers(src, key)
    return least_of_each(number if weight is None else number / weight, col, fanout)


def least_of_each(number: NDArray[Any], col: Ids, fanout: int) -> NDArray[np.bool_]:
    """Return which edges have the ``fanout`` least numbers among those of their destination.

    Args:
        number: numbers of the edges [n].
        col: their destinations [n], in any order.
        fanout: per destination.
    """
    order = np.lexsort((number, col))
    ranked = col[order]
    keep = np.empty(len(col), bool)
    keep[order] = np.arange(len(col)) - np.searchsorted(ranked, ranked) < fanout
    return keep
