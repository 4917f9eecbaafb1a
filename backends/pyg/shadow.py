"""ShaDow's ego subgraphs for PyG.

Source followed: ``torch_geometric/loader/shadow.py`` (``ShaDowKHopSampler``); torch-sparse is not
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch_geometric.loader as pyg_loader
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.sampler import NodeSamplerInput, SamplerOutput

from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.loading.options import Ahead, Order
from aethergraph.pyg._batch import choose_names, fetch, make_batch
from aethergraph.pyg._inputs import check_count, is_typed, seed_nodes
from aethergraph.pyg._loading import NodeMixin, ahead_of
from aethergraph.pyg.convert import as_stores
from aethergraph.pyg.sampler import NeighborSampler
from aethergraph.sampling.fanouts import MAX_HOPS
from aethergraph.sampling.two_step import Steps

__all__ = ["ShaDowKHopSampler"]


class ShaDowKHopSampler(NodeMixin, pyg_loader.NodeLoader):  # type: ignore[misc]
    """Loader of one small subgraph around each root node: PyG's ``ShaDowKHopSampler``, faster.

    From Zeng et al., "Decoupling the Depth and Scope of Graph Neural Networks", NeurIPS 2021::

        loader = ShaDowKHopSampler(graph, depth=2, num_neighbors=10, node_idx=train_nodes)
        for batch in loader:
            out = model(batch.x, batch.edge_index)[batch.root_n_id]

    A subgraph holds the nodes that ``depth`` hops of sampling reach from the root, and all edges
    of the graph among them. The batch is PyG's ``Batch``, one graph after the other:
    ``edge_index``, ``batch`` and ``ptr``, ``root_n_id`` [B] (positions of the roots), every node
    tensor by node and every edge tensor by edge, but ``y`` for the roots only, as in PyG. In
    addition to PyG's it has ``n_id``, ``e_id`` and ``input_id``.

    This class is a loader, in spite of the name, which is PyG's. Draws, memory and prefetching are
    as in :class:`aethergraph.pyg.NeighborLoader`.

    Args:
        data: a graph of one type, as in :class:`aethergraph.pyg.NeighborLoader`.
        depth: number of hops.
        num_neighbors: neighbours to take per node and hop, -1 for all.
        node_idx: root nodes: None (all), ids, a mask or a slice.
        replace: draw with replacement.
        transform, transform_sampler_output, seed, num_threads, ahead, node_attrs, edge_attrs,
            order, **kwargs: see :class:`aethergraph.pyg.NeighborLoader`; there is no
            ``custom_cls``.

    Raises:
        UnsupportedError: a typed graph, or ``custom_cls``. Other errors are those of
            :class:`aethergraph.pyg.NeighborLoader`.
    """

    def __init__(
        self,
        data: Any,
        depth: int,
        num_neighbors: int,
        node_idx: Any = None,
        replace: bool = False,
        *,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        seed: int | None = None,
        num_threads: int = 1,
        ahead: Ahead | int = 2,
        node_attrs: Iterable[str] | None = None,
        edge_attrs: Iterable[str] | None = None,
        order: Order | None = None,
        **kwargs: Any,
    ) -> None:
        stores = as_stores(data)
        if is_typed(stores):
            raise UnsupportedError(
                "ego subgraphs are those of a graph of one type, as in PyG; the core's "
                "HeteroNeighborSampler with disjoint=True and subgraph_type='induced' makes typed "
                "ones"
            )
        if kwargs.get("custom_cls") is not None:
            raise UnsupportedError("custom_cls: batches of ego subgraphs are PyG's Batch")
        self.depth = check_count(depth, "depth", 0)
        if self.depth > MAX_HOPS:
            raise InvalidArgumentError(f"depth = {depth} is above {MAX_HOPS}")
        self.num_neighbors = num_neighbors
        sampler = NeighborSampler(
            stores,
            [num_neighbors] * self.depth,
            "induced",
            replace,
            disjoint=True,
            num_threads=num_threads,
        )
        names = choose_names(stores[0], node_attrs, edge_attrs)
        self._set_up(data, stores[0], seed, ahead_of(ahead, kwargs), names)
        self._set_order(kwargs, order)
        _, nodes, ids = seed_nodes(node_idx, sampler, stores)
        kwargs.setdefault("input_id", ids)
        super().__init__(
            stores,
            sampler,
            nodes,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            **kwargs,
        )
        self.node_idx = node_idx
        self._lighten()

    seed_fields = frozenset(("input_id", "root_n_id", "ptr"))

    def _sample(self, seeds: NodeSamplerInput, key: int | None) -> SamplerOutput:
        out = super()._sample(seeds, key)
        return _by_root(out, len(seeds.node))

    def _steps(self, seeds: NodeSamplerInput, key: int | None) -> Steps:
        out = yield from super()._steps(seeds, key)
        return _by_root(out, len(seeds.node))

    def _build(self, out: SamplerOutput) -> Batch:
        """Make a ``Batch`` of a sampler's output, with the tensors of its nodes and edges."""
        fetched = out.__dict__.pop("_fetched", None)
        if self.transform_sampler_output is not None:
            out = self.transform_sampler_output(out)
        store, order = self.data[0], self._sampler().edge_permutation
        if fetched is None:
            fetched = fetch(store, out, self._names, order)
        values = make_batch(store, out, fetched, order)
        input_id, _, roots = out.metadata
        values.pop("num_nodes", None)
        num_nodes = out.node.size(0)
        ends = torch.cat([roots, roots.new_tensor([num_nodes])])
        batch = Batch(batch=values.pop("batch"), ptr=ends)
        for name, value in values.items():
            if value is not None:
                batch[name] = value
        batch.num_nodes = num_nodes
        batch.root_n_id, batch.input_id = roots, input_id
        if any(name == "y" for name, _ in fetched.nodes):
            batch.y = batch.y[roots]
        return batch


def _by_root(out: SamplerOutput, num_roots: int) -> SamplerOutput:
    """Reorder a sample: the nodes of each tree together, its root first; edges by ``col``."""
    order = torch.argsort(out.batch, stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    row, col = place[out.row], place[out.col]
    edges = torch.argsort(col, stable=True)
    return SamplerOutput(
        node=out.node[order],
        row=row[edges],
        col=col[edges],
        edge=_take(out.edge, edges),
        batch=out.batch[order],
        metadata=(*out.metadata, place[:num_roots]),
    )


def _take(values: Tensor | None, index: Tensor) -> Tensor | None:
    return None if values is None else values[index]
