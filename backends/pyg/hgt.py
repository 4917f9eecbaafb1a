"""HGT sampling for PyG: the sampler and the loader of the "Heterogeneous Graph Transformer" paper.

Sources followed: ``torch_geometric/sampler/hgt_sampler.py``, ``loader/hgt_loader.py`` and
torch-sparse's ``hgt_sample``; neither torch-sparse nor pyg-lib is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch_geometric.loader as pyg_loader
from torch_geometric.sampler import (
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
)

from aethergraph._checks.options import as_flag
from aethergraph._torch.tensors import edge_tensors, node_tensors, seed_ids
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.loading.options import Ahead, Order
from aethergraph.protocols import HeterogeneousGraph
from aethergraph.pyg._batch import choose_names
from aethergraph.pyg._inputs import seed_nodes
from aethergraph.pyg._loading import NodeMixin, ahead_of
from aethergraph.pyg._sampled_graph import sampled_graph
from aethergraph.pyg._sampler_base import KeyedSampler
from aethergraph.pyg.convert import as_stores
from aethergraph.sampling import hgt as core
from aethergraph.sampling.keys import hash_ids, hash_name

__all__ = ["HGTLoader", "HGTSampler"]


class HGTSampler(KeyedSampler):
    """Sampler of a given number of nodes of every type, and all edges among them (HGT).

    :class:`aethergraph.HGTSampler` describes the draws and their distribution. Differs from PyG's
    ``HGTSampler`` in two points: a sample has every edge among its nodes (PyG's at most 50 into
    each node per edge type), and a node that is a seed twice is, as a source, its first slot
    (PyG's: its last). Random draws, ``seed`` and :meth:`set_epoch` are as in
    :class:`aethergraph.pyg.NeighborSampler`.

    Args:
        data: as in :class:`aethergraph.pyg.HeteroNeighborSampler`.
        num_samples: nodes per hop for each node type, or one list for all types. No nodes are drawn
            of types that are missing (PyG wants all types).
        is_sorted, share_memory: accepted, not needed.
        max_neighbors: see :class:`aethergraph.HGTSampler`.
        seed: fixed number to draw from instead of torch's seed.

    Raises:
        UnsupportedError: data that is not a typed graph.
        InvalidArgumentError: an argument of the wrong type or value.
        OutOfRangeError (when sampling): a seed that is not a node, with its type and position.
    """

    def __init__(
        self,
        data: Any,
        num_samples: Any,
        is_sorted: bool = False,
        share_memory: bool = False,
        *,
        max_neighbors: int | None = core.MAX_NEIGHBORS,
        seed: int | None = None,
    ) -> None:
        as_flag(is_sorted, "is_sorted")
        as_flag(share_memory, "share_memory")
        self._sampled = sampled_graph(data, typed=True)
        graph: Any = self._sampled.schema.graph
        self._sampler = core.HGTSampler(graph, num_samples, max_neighbors=max_neighbors)
        self._set_seed(seed)

    @property
    def graph(self) -> HeterogeneousGraph:
        """Graph whose nodes are sampled."""
        return self._sampler.graph

    @property
    def num_samples(self) -> dict[str, list[int]]:
        """Nodes to draw by node type, per hop."""
        return {name: list(row) for name, row in self._sampler.num_samples.items()}

    @property
    def num_hops(self) -> int:
        """Number of hops."""
        return self._sampler.num_hops

    def sample_from_nodes(
        self, index: NodeSamplerInput, *, loader_key: int | None = None, **_: Any
    ) -> HeteroSamplerOutput:
        """Sample around ``index.node``, nodes of type ``index.input_type``.

        Args:
            index: PyG's input; ``node`` is an integer vector [n].
            loader_key: key of the epoch, which our own loaders pass in place of the seed.

        Returns:
            A ``HeteroSamplerOutput`` of int64 CPU tensors with all node types and edge types of
            the graph as keys and metadata ``(input_id, time)``.
        """
        index = NodeSamplerInput.cast(index)
        name = index.input_type
        if name not in self.graph.node_types:
            known = ", ".join(map(repr, self.graph.node_types)) or "none"
            raise InvalidArgumentError(
                f"input_nodes of type {name!r}: give (type, ids) with one of {known}"
            )
        seeds = seed_ids(index.node, "input_nodes")
        key = self._batch_key(loader_key, hash_name(name), hash_ids(seeds))
        sample = self._sampler.draw({name: seeds}, key)
        self._sampled.number_edges(sample)
        row, col, edge = (
            dict(zip(self.graph.edge_types, parts, strict=True)) for parts in edge_tensors(sample)
        )
        return HeteroSamplerOutput(
            node=dict(zip(self.graph.node_types, node_tensors(sample)[0], strict=True)),
            row=row,
            col=col,
            edge=edge,
            batch=None,
            metadata=(index.input_id, index.time),
        )

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None, **_: Any
    ) -> HeteroSamplerOutput:
        """Refuse: HGT sampling is defined around nodes only.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            "HGT sampling starts from nodes; for links take HeteroNeighborSampler with LinkLoader"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.graph!r}, num_samples={self.num_samples})"


class HGTLoader(NodeMixin, pyg_loader.NodeLoader):  # type: ignore[misc]
    """Loader of HGT samples around typed seed nodes, which gives PyG's ``HeteroData``.

    Example::

        loader = HGTLoader(
            graph,
            num_samples={"user": [512] * 4, "post": [512] * 4},
            input_nodes=("post", train_posts),
            batch_size=128,
        )

    Draws, memory, prefetching and edge tensors in batches are as in
    :class:`aethergraph.pyg.NeighborLoader`.

    Args:
        data: as in :class:`aethergraph.pyg.HeteroNeighborLoader`.
        num_samples, is_sorted, max_neighbors: see :class:`HGTSampler`.
        input_nodes: ``(node type, ids or a mask or a slice or None)``, or a node type.
        transform, transform_sampler_output, filter_per_worker, seed, ahead, node_attrs, edge_attrs,
            order, **kwargs: see :class:`aethergraph.pyg.NeighborLoader`.

    Raises:
        UnsupportedError, OutOfRangeError: as :class:`HGTSampler`.
        InvalidArgumentError: as :class:`HGTSampler`, or seeds of a wrong type, dtype or shape.
    """

    def __init__(
        self,
        data: Any,
        num_samples: Any,
        input_nodes: Any,
        is_sorted: bool = False,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        filter_per_worker: bool | None = None,
        *,
        max_neighbors: int | None = core.MAX_NEIGHBORS,
        seed: int | None = None,
        ahead: Ahead | int = 2,
        node_attrs: Iterable[str] | None = None,
        edge_attrs: Iterable[str] | None = None,
        order: Order | None = None,
        **kwargs: Any,
    ) -> None:
        stores = as_stores(data)
        sampler = HGTSampler(stores, num_samples, is_sorted, max_neighbors=max_neighbors)
        names = choose_names(stores[0], node_attrs, edge_attrs)
        self._set_up(data, stores[0], seed, ahead_of(ahead, kwargs), names)
        self._set_order(kwargs, order)
        kind, nodes, ids = seed_nodes(input_nodes, sampler, stores)
        kwargs.setdefault("input_id", ids)
        super().__init__(
            stores,
            sampler,
            (kind, nodes),
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **kwargs,
        )
        self.input_nodes = input_nodes  # Lightning makes a loader from this attribute
        self._lighten()
