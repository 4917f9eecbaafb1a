"""ShaDow: the subgraph induced by a neighbourhood, in one native call.

Paper: Zeng and others, "Decoupling the Depth and Scope of Graph Neural Networks", NeurIPS 2021.
Source followed: ``dgl/dataloading/shadow.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

import dgl
import dgl.dataloading
from aethergraph import _native as native
from aethergraph._checks.options import as_flag, as_text
from aethergraph.dgl._arguments import (
    as_names,
    check_fanouts,
    check_output_device,
    check_threads,
    native_fanouts,
    seed_hashes,
)
from aethergraph.dgl._plans import NAMES, excluded_edges, plan_of
from aethergraph.dgl._schema import Schema
from aethergraph.dgl.sampler import KeyedSampler, storage_of
from aethergraph.dgl.storage import GraphStorage
from aethergraph.sampling.draws import Draws
from aethergraph.sampling.engine import DrawOptions
from aethergraph.sampling.two_step import Steps, run_steps

__all__ = ["ShaDowKHopSampler"]


class ShaDowKHopSampler(KeyedSampler, dgl.dataloading.ShaDowKHopSampler):  # type: ignore[misc]
    """Sampler of neighbours by hop, with all edges among them, as DGL's sampler of that name.

    One subgraph for all seeds of a batch, seeds first. Draws, ``seed`` and ``set_epoch`` are as in
    :class:`NeighborSampler`.

    Args:
        fanouts: neighbours per node for each hop, the last one at the seeds; or for each a dict of
            that, with every edge type. -1 takes all.
        replace: draw with replacement.
        prob: the name of edge data to draw by.
        prefetch_node_feats, prefetch_edge_feats: names of data of the subgraph to fetch.
        output_device: device of the subgraph.
        seed: fixed number to draw from instead of torch's seed.
        num_threads: threads per batch.

    Raises:
        UnsupportedError, InvalidArgumentError, OutOfRangeError: as :class:`NeighborSampler`.
    """

    def __init__(
        self,
        fanouts: Sequence[int | Mapping[Any, int]],
        replace: bool = False,
        prob: str | None = None,
        prefetch_node_feats: Any = None,
        prefetch_edge_feats: Any = None,
        output_device: Any = None,
        *,
        seed: int | None = None,
        num_threads: int = 1,
    ) -> None:
        super().__init__(
            check_fanouts(fanouts),
            replace=as_flag(replace, "replace"),
            prob=as_text(prob, "prob"),
            prefetch_node_feats=as_names(prefetch_node_feats, "prefetch_node_feats"),
            prefetch_edge_feats=as_names(prefetch_edge_feats, "prefetch_edge_feats"),
            output_device=check_output_device(output_device),
        )
        self.num_threads = check_threads(num_threads)
        self._set_seed(seed)

    def sample(
        self, g: GraphStorage, seed_nodes: Any, exclude_eids: Any = None
    ) -> tuple[Any, Any, Any]:
        """Return ``(input_nodes, output_nodes, subgraph)``, without the excluded edges."""
        result: tuple[Any, Any, Any] = run_steps(
            self.steps(g, seed_nodes, exclude_eids), self.engine_of(g).draw
        )
        return result

    def steps(self, g: GraphStorage, seed_nodes: Any, exclude_eids: Any = None) -> Steps:
        """Run :meth:`sample` as a generator of two steps (see ``sampling/two_step.py``)."""
        storage = storage_of(g)
        schema = storage.schema
        seeds = schema.node_ids(seed_nodes, "nodes")
        draws = self._draws_of(schema)
        exclude = excluded_edges(draws, exclude_eids, "exclude_eids")
        key = self._batch_key(None, *seed_hashes(schema, seeds))
        sample = yield draws.prepare(seeds, key, exclude=exclude, names=NAMES)
        node = {
            name: torch.from_numpy(ids).to(storage.idtype)
            for name, ids in zip(schema.node_types, sample.node, strict=True)
        }
        subgraph = storage.induced(sample)
        dgl.set_node_lazy_features(subgraph, self.prefetch_node_feats)
        dgl.set_edge_lazy_features(subgraph, self.prefetch_edge_feats)
        if self.output_device is not None:
            node = {name: ids.to(self.output_device) for name, ids in node.items()}
            subgraph = subgraph.to(self.output_device)
        inputs = node if isinstance(seed_nodes, Mapping) else node[storage.ntypes[0]]
        return inputs, seed_nodes, subgraph

    def _make_draws(self, schema: Schema) -> Draws[native.NativeSample]:
        options = DrawOptions(
            replace=self.replace, induced=True, layered=True, num_threads=self.num_threads
        )
        plan = plan_of(schema, prob=self.prob)
        return Draws(plan, native.NativeSample, native_fanouts(schema, self.fanouts), options)
