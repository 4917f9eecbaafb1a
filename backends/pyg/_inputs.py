"""The seeds that users give to our loaders, checked and as int64 tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from aethergraph import _binding as native
from aethergraph.errors import InvalidArgumentError, OutOfRangeError, UnsupportedError
from aethergraph.graph import Graph
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.pyg.sampler import NeighborSampler


def count_nodes(sampler: Any, stores: Any) -> int | None:
    """Nodes of the graph, or None if foreign parts do not say."""
    if isinstance(sampler, NeighborSampler):
        return sampler.num_nodes
    if isinstance(stores[1], GraphStore):
        return stores[1].num_nodes
    count = getattr(sampler, "num_nodes", None)
    return count if isinstance(count, int) else None


def seed_nodes(nodes: Any, num_nodes: int | None) -> tuple[Tensor, Tensor | None]:
    """Seed nodes as int64, and their ``input_id`` where it is not the position."""
    if isinstance(nodes, str) or (
        isinstance(nodes, tuple) and len(nodes) == 2 and isinstance(nodes[0], str)
    ):
        raise UnsupportedError(
            f"input_nodes of node type {nodes if isinstance(nodes, str) else nodes[0]!r}: typed "
            "graphs cannot be sampled yet"
        )
    if nodes is None or isinstance(nodes, slice):
        if num_nodes is None:
            raise InvalidArgumentError("input_nodes: give ids, the number of nodes is not known")
        ids = torch.arange(*(nodes or slice(None)).indices(num_nodes))
        _check_some(ids, "input_nodes")
        return ids, ids
    tensor = _to_tensor(nodes, "input_nodes")
    if tensor.dtype == torch.bool:
        if tensor.ndim != 1 or (num_nodes is not None and len(tensor) != num_nodes):
            raise InvalidArgumentError(
                f"a mask of input_nodes needs shape ({num_nodes},), got {tuple(tensor.shape)}"
            )
        ids = tensor.nonzero().view(-1)
        _check_some(ids, "input_nodes")
        return ids, ids
    if tensor.ndim != 1:
        raise InvalidArgumentError(
            f"input_nodes must be one-dimensional, got shape {tuple(tensor.shape)}"
        )
    ids = _check_ids(tensor, num_nodes, "input_nodes")
    return ids, None


class EveryEdge:
    """The edges of a graph as seed links, looked up when a batch asks for some.

    Stands for a tensor [2, num_edges] where PyG's loader takes one: 16 bytes per edge, and as much
    again for copies of it, are not spent.
    """

    def __init__(self, graph: Graph, side: int | None = None) -> None:
        self._graph = graph
        self._side = side

    @property
    def shape(self) -> tuple[int, int]:
        return 2, self._graph.num_edges

    def size(self, dim: int) -> int:
        return self.shape[dim]

    def clone(self) -> EveryEdge:
        return self

    def cpu(self) -> EveryEdge:
        return self

    def __getitem__(self, index: Any) -> Any:
        """One side of the edges (0: sources, 1: destinations); of a side, some edges."""
        if self._side is None:
            return EveryEdge(self._graph, index)
        edges = index.numpy()
        by_source = self._graph.layout == "csr"
        indptr, indices = self._graph.csr()[:2] if by_source else self._graph.csc()
        if by_source == (self._side == 1):
            return torch.from_numpy(indices[edges].astype(np.int64))
        lists = np.searchsorted(indptr, edges.astype(np.uint64), side="right") - 1
        return torch.from_numpy(lists.astype(np.int64, copy=False))


def seed_links(links: Any, stores: Any, num_nodes: int | None) -> Tensor | EveryEdge:
    """Seed links as int64 [2, P]."""
    if isinstance(links, tuple) and len(links) in (2, 3) and isinstance(links[0], (str, tuple)):
        raise UnsupportedError(
            f"edge_label_index of edge type {links[0] if len(links) == 2 else links!r}: typed "
            "graphs cannot be sampled yet"
        )
    if isinstance(links, tuple) and len(links) == 2 and links[0] is None:
        links = links[1]
    if links is None:
        if isinstance(stores[1], GraphStore) and stores[1].holds_graph:
            return EveryEdge(stores[1].graph)
        row, col, _ = stores[1].coo()
        links = (row, col)
    if isinstance(links, (tuple, list)) and len(links) == 2:
        row, col = (_to_tensor(ids, "edge_label_index") for ids in links)
        if row.shape != col.shape:
            raise InvalidArgumentError(
                f"edge_label_index: {tuple(row.shape)} sources, but {tuple(col.shape)} destinations"
            )
        tensor = torch.stack([row, col])
    else:
        tensor = _to_tensor(links, "edge_label_index")
    if tensor.ndim != 2 or tensor.shape[0] != 2:
        raise InvalidArgumentError(
            f"edge_label_index must have shape (2, num_links), got {tuple(tensor.shape)}"
        )
    for side, name in enumerate(("edge_label_index[0]", "edge_label_index[1]")):
        _check_ids(tensor[side], num_nodes, name)
    return tensor.to(torch.int64)


def seed_labels(labels: Any, links: Tensor | EveryEdge) -> Tensor | None:
    if labels is None:
        return None
    tensor = _to_tensor(labels, "edge_label")
    if tensor.ndim == 0 or len(tensor) != links.shape[1]:
        raise InvalidArgumentError(
            f"edge_label has {len(tensor) if tensor.ndim else 'no'} rows, but there are "
            f"{links.shape[1]} seed links"
        )
    return tensor


def seed_times(times: Any, count: int, name: str) -> Tensor | None:
    """Times of ``count`` seeds; their dtype is the sampler's business."""
    if times is None:
        return None
    tensor = _to_tensor(times, name)
    if tuple(tensor.shape) != (count,):
        raise InvalidArgumentError(
            f"{name} must have one time per seed, shape ({count},), got {tuple(tensor.shape)}"
        )
    return tensor


def _to_tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().cpu().as_subclass(Tensor)
    try:
        array = np.asarray(values)
        if array.dtype.kind == "u" or (array.size == 0 and not hasattr(values, "dtype")):
            array = array.astype(np.int64)
        return torch.from_numpy(np.array(array))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{name} cannot be read as a tensor: {error}") from error


def _check_ids(ids: Tensor, num_nodes: int | None, name: str) -> Tensor:
    """Ids as contiguous int64, each of them a node."""
    if ids.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise InvalidArgumentError(f"{name} must hold integer ids or a mask, got {ids.dtype}")
    _check_some(ids, name)
    ids = ids.to(torch.int64).contiguous()
    low, high = native.id_bounds(ids.numpy())
    if low < 0 or (num_nodes is not None and high >= num_nodes):
        bad = ids < 0 if num_nodes is None else (ids < 0) | (ids >= num_nodes)
        at = int(bad.int().argmax())
        span = "negative" if num_nodes is None else f"not in 0..{num_nodes - 1}"
        raise OutOfRangeError(
            f"{name}[{at}] = {int(ids[at])} is {span}", position=at, value=int(ids[at])
        )
    return ids


def _check_some(ids: Tensor, name: str) -> None:
    if ids.numel() == 0:
        raise InvalidArgumentError(f"{name} is empty: there is nothing to iterate over")


def check_count(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidArgumentError(f"{name} must be an integer, got {type(value).__name__}")
    if value.__index__() < least:
        raise InvalidArgumentError(f"{name} = {value} is below {least}")
    return int(value.__index__())


def as_index(index: Any) -> Tensor:
    """Numbers of seeds as torch wants them; converting a list by way of numpy is faster."""
    if isinstance(index, Tensor):
        return index
    return torch.from_numpy(np.atleast_1d(np.asarray(index, np.int64)))
