"""Samples of a server as PyG's ``Data`` and ``HeteroData``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from aethergraph.remote.samples.client import ServedSample

__all__ = ["sample_to_data"]


def sample_to_data(found: ServedSample) -> Data | HeteroData:
    """Make a ``Data``, of typed graphs a ``HeteroData``, of a sample that a server has answered.

    ::

        data = sample_to_data(sampler.sample(seeds, time=times))
        score = model(data.x, data.edge_index)[: data.batch_size]

    It has what a batch of :class:`NeighborLoader` has: ``edge_index``, ``n_id``, ``e_id``,
    ``batch`` if disjoint, ``num_sampled_nodes``, ``num_sampled_edges``, ``batch_size``, and the
    rows by their names; and ``key`` and ``commit``. Tensors are views of the answer where torch has
    their dtype.

    Args:
        found: of :meth:`~aethergraph.remote.samples.client.RemoteSampler.sample`, or of
            :func:`aethergraph.remote.replay`.
    """
    sub: Any = found.subgraph
    if not isinstance(found.seeds, Mapping):
        data = Data(edge_index=_ends(sub.row, sub.col), n_id=_tensor(sub.node))
        data.e_id, data.num_nodes = _tensor(sub.edge), len(sub.node)
        _put(data, found.node_attrs, found.edge_attrs)
        if sub.batch is not None:
            data.batch = _tensor(sub.batch)
        _count(data, sub.num_sampled_nodes, sub.num_sampled_edges)
        data.batch_size = found.batch_size
    else:
        data = HeteroData()
        for kind, node in sub.node.items():
            store = data[kind]
            store.n_id, store.num_nodes = _tensor(node), len(node)
            store.batch_size = len(found.seeds[kind])
            if sub.batch is not None:
                store.batch = _tensor(sub.batch[kind])
            _put(store, found.node_attrs.get(kind, {}))
            _count(store, (sub.num_sampled_nodes or {}).get(kind), None)
        for kind, row in sub.row.items():
            store = data[kind]
            store.edge_index, store.e_id = _ends(row, sub.col[kind]), _tensor(sub.edge[kind])
            _put(store, found.edge_attrs.get(kind, {}))
            _count(store, None, (sub.num_sampled_edges or {}).get(kind))
    data.key, data.commit = found.key, found.commit
    return data


def _ends(row: NDArray[np.int64], col: NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(np.stack((row, col)))


def _tensor(array: NDArray[Any]) -> Tensor:
    if array.dtype == np.uint16:  # numpy's words for bfloat16, which it does not have
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    try:
        return torch.from_numpy(array)
    except TypeError:  # unsigned numbers, of an older torch
        return torch.from_numpy(array.astype(np.int64))


def _put(data: Any, *tables: Mapping[str, NDArray[Any]]) -> None:
    for table in tables:
        for name, rows in table.items():
            data[name] = _tensor(rows)


def _count(data: Any, nodes: list[int] | None, edges: list[int] | None) -> None:
    if nodes is not None:
        data.num_sampled_nodes = nodes
    if edges is not None:
        data.num_sampled_edges = edges
