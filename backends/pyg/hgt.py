"""HGT sampling for PyG: the sampler and the loader of the "Heterogeneous Graph Transformer" paper.

Sources followed: ``torch_geometric/sampler/hgt_sampler.py`` and ``loader/hgt_loader.py``, and what
torch-sparse's ``hgt_sample`` does; neither it nor pyg-lib is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch_geometric.loader as pyg_loader
from torch import Tensor
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
)

from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.hetero import HeteroGraph
from aethergraph.pyg._inputs import check_count
from aethergraph.pyg._seeds import MainSeed, SharedCount
from aethergraph.pyg._tensors import seed_ids
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.pyg.hetero_loader import _EdgeTensors, _seed_nodes
from aethergraph.pyg.hetero_sampler import hetero_graph_of
from aethergraph.sampling import hgt as core
from aethergraph.sampling.keys import hash_ids, mix_key

__all__ = ["HGTLoader", "HGTSampler"]


class HGTSampler(BaseSampler):  # type: ignore[misc]
    """Samples as many nodes of every type as asked for, and all edges among them.

    What is drawn, and from what distribution, says :class:`aethergraph.HGTSampler`. As PyG's
    ``HGTSampler``, except that a sample has every edge among its nodes (PyG's has at most 50 into
    each of them per edge type) and that a node which is a seed twice is, as a source, its first
    slot (PyG's: its last). Random draws, ``seed`` and :meth:`set_epoch` are as in
    :class:`aethergraph.pyg.NeighborSampler`.

    Args:
        data: a :class:`aethergraph.HeteroGraph`, or ``(feature_store, graph_store)`` over one.
        num_samples: by node type a number per hop (PyG wants all types; here nothing is drawn of
            those that are missing), or one list for all types.
        is_sorted, share_memory: accepted, not needed.
        max_neighbors: see :class:`aethergraph.HGTSampler`.
        seed: a number of its own instead of torch's seed.

    Raises:
        UnsupportedError: data that is no graph of many types of ours.
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
        graph = hetero_graph_of(data)
        self._sampler = core.HGTSampler(graph, num_samples, max_neighbors=max_neighbors)
        self._seed = MainSeed(seed)
        self._epoch = SharedCount()

    @property
    def graph(self) -> HeteroGraph:
        """The graph that is sampled from."""
        return self._sampler.graph

    @property
    def num_samples(self) -> dict[str, list[int]]:
        """Nodes per node type and hop."""
        return {name: list(row) for name, row in self._sampler.num_samples.items()}

    @property
    def num_hops(self) -> int:
        """Number of hops."""
        return self._sampler.num_hops

    @property
    def edge_permutation(self) -> None:
        """None: ``HeteroSamplerOutput.edge`` holds the graph's edge ids already."""
        return None

    @property
    def epoch(self) -> int:
        """The epoch that goes into the key of every batch."""
        return self._epoch.value

    def set_epoch(self, epoch: int) -> None:
        """Make the draws of the batches to come other ones; see ``NeighborSampler.set_epoch``."""
        self._epoch.value = int(epoch)

    def sample_from_nodes(self, index: NodeSamplerInput, **_: Any) -> HeteroSamplerOutput:
        """Sample around ``index.node``, nodes of type ``index.input_type``.

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
        letters = np.frombuffer(name.encode(), np.uint8).astype(np.int64)
        key = mix_key(self._seed.value(), self._epoch.value, hash_ids(letters), hash_ids(seeds))
        found = self._sampler.sample({name: seeds}, key)

        def tensors(arrays: dict[Any, Any]) -> dict[Any, Tensor]:
            return {kind: torch.from_numpy(ids) for kind, ids in arrays.items()}

        return HeteroSamplerOutput(
            node=tensors(found.node),
            row=tensors(found.row),
            col=tensors(found.col),
            edge=tensors(found.edge),
            batch=None,
            metadata=(index.input_id, index.time),
        )

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None, **_: Any
    ) -> HeteroSamplerOutput:
        """HGT sampling is defined around nodes.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            "HGT sampling starts from nodes; for links take HeteroNeighborSampler with LinkLoader"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sampler!r})"


class HGTLoader(pyg_loader.NodeLoader):  # type: ignore[misc]
    """Batches of HGT samples around typed seed nodes, as PyG's ``HeteroData``::

        loader = HGTLoader(
            graph,
            num_samples={"user": [512] * 4, "post": [512] * 4},
            input_nodes=("post", train_posts),
            batch_size=128,
        )

    PyG's stock loader driven by :class:`HGTSampler`, with two differences: the edge tensors of the
    graph are in the batch, and every iteration is a new epoch, whether it shuffles or not.

    Args:
        data, num_samples, is_sorted, max_neighbors, seed: see :class:`HGTSampler`.
        input_nodes: ``(node type, ids or mask or None)``, or a node type.
        transform, transform_sampler_output, filter_per_worker: of PyG's ``NodeLoader``.
        **kwargs: of torch's ``DataLoader``: ``batch_size``, ``shuffle``, ``num_workers``...

    Raises:
        As :class:`HGTSampler`.
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
        **kwargs: Any,
    ) -> None:
        graph = hetero_graph_of(data)
        stores = (FeatureStore.from_graph(graph), GraphStore(graph))
        if isinstance(data, (tuple, list)):
            stores = (data[0], data[1])
        sampler = HGTSampler(graph, num_samples, is_sorted, max_neighbors=max_neighbors, seed=seed)
        if isinstance(stores[0], FeatureStore):
            transform = _EdgeTensors(stores[0], transform)
        self._next_epoch = 0
        super().__init__(
            stores,
            sampler,
            _seed_nodes(graph, input_nodes),
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **kwargs,
        )

    def set_epoch(self, epoch: int) -> None:
        """The number of the next epoch, to go on where another run ended."""
        self._next_epoch = check_count(epoch, "epoch", 0)

    def __iter__(self) -> Iterator[Any]:
        self.node_sampler.set_epoch(self._next_epoch)
        self._next_epoch += 1
        iterator: Iterator[Any] = super().__iter__()
        return iterator
