"""HeteroNeighborLoader: PyG's ``NodeLoader`` over a graph of many types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch_geometric.loader as pyg_loader
from torch import Tensor

from aethergraph.errors import InvalidArgumentError
from aethergraph.hetero import HeteroGraph
from aethergraph.pyg._inputs import check_count
from aethergraph.pyg.feature_store import FeatureStore
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.pyg.hetero_sampler import HeteroNeighborSampler, hetero_graph_of

__all__ = ["HeteroNeighborLoader"]


class _EdgeTensors:
    """A transform that adds the edge tensors of the store, which stock loaders leave out."""

    def __init__(self, store: Any, then: Callable[[Any], Any] | None) -> None:
        self._store = store
        self._then = then

    def __call__(self, data: Any) -> Any:
        for (group, name), column in self._store.columns():
            if isinstance(group, tuple) and "e_id" in data[group]:
                data[group][name] = column.gather(data[group].e_id.numpy(), self._store.pool)
        return data if self._then is None else self._then(data)


class HeteroNeighborLoader(pyg_loader.NodeLoader):  # type: ignore[misc]
    """Batches of sampled neighbourhoods around typed seed nodes, as PyG's ``HeteroData``::

        loader = HeteroNeighborLoader(
            graph,
            num_neighbors={("user", "votes", "post"): [15, 10]},
            input_nodes=("post", train_posts),
            batch_size=128,
        )
        for batch in loader:
            batch["user"].x, batch["user", "votes", "post"].edge_index

    PyG's stock loader driven by our sampler, with two differences: the edge tensors of the graph
    are in the batch, and every iteration is a new epoch, whether it shuffles or not. It samples in
    the process that iterates, or in ``num_workers`` processes.

    Args:
        data: a :class:`aethergraph.HeteroGraph`, or ``(feature_store, graph_store)`` over one.
        num_neighbors: by edge type a list per hop, or one list for all types; types that are
            missing are not followed.
        input_nodes: ``(node type, ids or mask or None)``.
        input_time: [n] times of the seeds, with ``time_attr``.
        replace, disjoint, subgraph_type, temporal_strategy, time_attr, weight_attr, is_sorted,
            strict, window, seed, num_threads: see :class:`HeteroNeighborSampler`.
        transform: called with each batch.
        **kwargs: of PyG's ``NodeLoader`` and torch's ``DataLoader``: ``batch_size``, ``shuffle``,
            ``num_workers``...

    Raises:
        As :class:`HeteroNeighborSampler`.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: Any = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        *,
        strict: bool = False,
        window: float | int | None = None,
        seed: int | None = None,
        num_threads: int = 1,
        **kwargs: Any,
    ) -> None:
        graph = hetero_graph_of(data)
        stores = (FeatureStore.from_graph(graph), GraphStore(graph))
        if isinstance(data, (tuple, list)):
            stores = (data[0], data[1])
        sampler = HeteroNeighborSampler(
            graph, num_neighbors, subgraph_type, replace, disjoint, temporal_strategy, time_attr,
            weight_attr, is_sorted, strict=strict, window=window, seed=seed,
            num_threads=num_threads,
        )  # fmt: skip
        if isinstance(stores[0], FeatureStore):
            transform = _EdgeTensors(stores[0], transform)
        self._next_epoch = 0
        super().__init__(
            stores, sampler, _seed_nodes(graph, input_nodes), input_time, transform, **kwargs
        )

    def set_epoch(self, epoch: int) -> None:
        """The number of the next epoch, to go on where another run ended."""
        self._next_epoch = check_count(epoch, "epoch", 0)

    def __iter__(self) -> Iterator[Any]:
        self.node_sampler.set_epoch(self._next_epoch)
        self._next_epoch += 1
        iterator: Iterator[Any] = super().__iter__()
        return iterator


def _seed_nodes(graph: HeteroGraph, input_nodes: Any) -> Any:
    """``(type, ids)``; PyG's own loader cannot find out how many nodes ``(type, None)`` has."""
    if isinstance(input_nodes, str):
        input_nodes = (input_nodes, None)
    if not isinstance(input_nodes, (tuple, list)) or len(input_nodes) != 2:
        raise InvalidArgumentError(
            "input_nodes must be (node type, ids or a mask or None), got "
            f"{type(input_nodes).__name__}"
        )
    name, nodes = input_nodes
    count = graph[name].num_nodes
    if nodes is None:
        return name, torch.arange(count)
    tensor = torch.as_tensor(nodes)
    if tensor.dtype == torch.bool and tensor.shape != (count,):
        raise InvalidArgumentError(
            f"a mask of input_nodes needs shape ({count},), got {tuple(tensor.shape)}"
        )
    return name, tensor
