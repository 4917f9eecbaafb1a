"""Seeds that users give to our loaders, checked and converted to int64 tensors."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_ids, refuse_masked, to_array
from aethergraph._checks.exact import array_of
from aethergraph._checks.times import as_seed_times
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.protocols import Adjacency, AnyGraph
from aethergraph.pyg._links import link_type
from aethergraph.pyg._sampler_base import KeyedSampler
from aethergraph.pyg.graph_store import GraphStore


def is_typed(stores: Any) -> bool:
    """Return whether the graph store holds a typed graph."""
    if getattr(stores[1], "hetero", None) is not None:
        return True
    kinds = [attr.edge_type for attr in stores[1].get_all_edge_attrs()]
    if not kinds:  # a typed graph may have nodes only
        return bool(getattr(stores[1], "node_counts", None))
    return None not in kinds


def _count_nodes(name: str | None, sampler: Any, stores: Any, option: str) -> int | None:
    """Return the number of nodes of a type (None: homogeneous).

    None means that foreign stores do not tell it.
    """
    graph: AnyGraph | None = None
    if isinstance(sampler, KeyedSampler):
        graph = sampler.graph
    if graph is not None and graph.is_typed:
        if name not in graph.num_nodes:
            known = ", ".join(map(repr, graph.node_types)) or "none"
            raise InvalidArgumentError(
                f"{option} of type {name!r}: give (type, ids) with one of {known}"
            )
        return graph.num_nodes[name]
    if graph is not None:
        if name is not None:
            raise InvalidArgumentError(
                f"{option} of type {name!r}: the graph has one type of nodes, give the ids alone"
            )
        return graph.num_nodes
    if stores is not None and isinstance(stores[1], GraphStore):
        return stores[1].num_nodes if name is None else stores[1].num_typed_nodes().get(name)
    count = getattr(sampler, "num_nodes", None)
    return count if isinstance(count, int) else None


def seed_nodes(nodes: Any, sampler: Any, stores: Any) -> tuple[str | None, Tensor, Tensor | None]:
    """Return node type, seed nodes as int64, and ``input_id`` unless it is the position."""
    name = None
    if isinstance(nodes, str):
        nodes = (nodes, None)
    if isinstance(nodes, (tuple, list)) and len(nodes) == 2 and isinstance(nodes[0], str):
        name, nodes = nodes
    ids, input_id = _read_nodes(nodes, _count_nodes(name, sampler, stores, "input_nodes"))
    return name, ids, input_id


def _read_nodes(nodes: Any, num_nodes: int | None) -> tuple[Tensor, Tensor | None]:
    if nodes is None or isinstance(nodes, slice):
        if num_nodes is None:
            raise InvalidArgumentError("input_nodes: give ids, the number of nodes is not known")
        ids = torch.arange(*(nodes or slice(None)).indices(num_nodes))
        return ids, ids
    tensor = _to_tensor(nodes, "input_nodes")
    if tensor.dtype == torch.bool:
        if not hasattr(nodes, "dtype"):
            raise InvalidArgumentError(
                "input_nodes is a list of bools, which PyG takes for the ids 0 and 1: give a mask "
                "as a tensor, torch.tensor(mask)"
            )
        if tensor.ndim != 1 or (num_nodes is not None and len(tensor) != num_nodes):
            raise InvalidArgumentError(
                f"a mask of input_nodes needs shape ({num_nodes},), got {tuple(tensor.shape)}"
            )
        ids = tensor.nonzero().view(-1)
        return ids, ids
    if tensor.dtype == torch.uint8 and num_nodes is not None and len(tensor) == num_nodes:
        raise InvalidArgumentError(
            "input_nodes of dtype torch.uint8 with an entry for every node is ambiguous: use "
            "torch.bool for a mask and torch.int64 for ids"
        )
    if tensor.ndim != 1:
        raise InvalidArgumentError(
            f"input_nodes must be one-dimensional, got shape {tuple(tensor.shape)}"
        )
    ids = _check_ids(tensor, num_nodes, "input_nodes")
    return ids, None


class EveryEdge:
    """Lazy ``edge_label_index`` of all edges of a graph, looked up when a batch asks for some.

    Stands for a tensor [2, num_edges] where PyG's loader takes one. Saves 16 bytes per edge, and as
    much again for copies of the tensor.
    """

    def __init__(self, graph: Adjacency, side: int | None = None) -> None:
        self._graph = graph
        self._side = side

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the tensor that it stands for, (2, number of edges)."""
        return 2, self._graph.num_edges

    def size(self, dim: int) -> int:
        """Return the length of a dimension, as ``Tensor.size`` does."""
        return self.shape[dim]

    def __repr__(self) -> str:
        return f"every edge ({self._graph.num_edges})"

    def clone(self) -> EveryEdge:
        """Return itself: there is no data to copy."""
        return self

    def cpu(self) -> EveryEdge:
        """Return itself: edges are looked up on the CPU."""
        return self

    def __getitem__(self, index: Any) -> Any:
        """Return one side of the edges (0: sources, 1: destinations), or some edges of a side."""
        if self._side is None:
            return EveryEdge(self._graph, index)
        return torch.from_numpy(self._graph.edge_ends(index.numpy())[self._side])


def _split_links(links: Any) -> tuple[Any, Any]:
    """Split seed links, in any form that PyG takes, into edge type and links."""
    if _is_kind(links):
        return tuple(links), None
    if isinstance(links, (tuple, list)) and len(links) == 2:
        kind, ends = links
        if kind is None:
            return None, ends
        if _is_kind(kind):
            return tuple(kind), ends
    return None, links


def _is_kind(value: Any) -> bool:
    pair = isinstance(value, (tuple, list)) and len(value) in (2, 3)
    return pair and all(isinstance(name, str) for name in value)


def _every_edge(graph: Any) -> Any:
    """Return all edges of a graph, or of a live one those of a snapshot."""
    if graph.native_snapshot is None:
        return EveryEdge(graph)
    src, dst, _ = graph.edge_list()  # ids have gaps where edges were deleted
    return src, dst


def _every_link(kind: Any, stores: Any) -> Any:
    store = stores[1]
    if kind is None:
        if isinstance(store, GraphStore) and store.holds_graph:
            return _every_edge(store.graph.pinned())
        row, col, _ = store.coo()
        return row, col
    if isinstance(store, GraphStore) and store.hetero is not None and kind in store.hetero:
        return _every_edge(store.hetero.pinned()[kind])
    rows, cols, _ = store.coo([kind])
    return rows[kind], cols[kind]


def seed_links(links: Any, sampler: Any, stores: Any) -> tuple[Any, Tensor | EveryEdge]:
    """Return edge type (None: homogeneous) and seed links as int64 [2, P]."""
    kind, links = _split_links(links)
    graph = sampler.graph if isinstance(sampler, KeyedSampler) else None
    if graph is not None and graph.is_typed:
        kind = link_type(kind, graph)
        if links is None and kind not in graph.edge_types:
            raise InvalidArgumentError(
                f"edge_label_index of type {kind!r}: the graph holds no edges of this type: give "
                "the links, (edge type, links)"
            )
    names = (None, None) if kind is None else (kind[0], kind[-1])
    counts = [_count_nodes(name, sampler, stores, "edge_label_index") for name in names]
    if links is None:
        links = _every_link(kind, stores)
        if isinstance(links, EveryEdge):
            return kind, links
    return kind, _read_links(links, counts)


def _read_links(links: Any, counts: list[int | None]) -> Tensor:
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
    for side, count in enumerate(counts):
        _check_ids(tensor[side], count, f"edge_label_index[{side}]")
    return tensor.to(torch.int64)


def seed_labels(labels: Any, links: Tensor | EveryEdge) -> Tensor | None:
    """Check that there is one label per seed link; return them as a tensor, or None."""
    if labels is None:
        return None
    tensor = _to_tensor(labels, "edge_label")
    if tensor.ndim == 0 or len(tensor) != links.shape[1]:
        raise InvalidArgumentError(
            f"edge_label has {len(tensor) if tensor.ndim else 'no'} rows, but there are "
            f"{links.shape[1]} seed links"
        )
    return tensor


def seed_times(times: Any, count: int, name: str, sampler: Any) -> Tensor | None:
    """Return times of ``count`` seeds; datetimes as counts of the unit of the sampler's times.

    The sampler checks the dtype of numbers.

    Raises:
        InvalidArgumentError: another shape; datetimes where the times have no unit, or one that is
            not a whole number of units, with its position.
    """
    if times is None:
        return None
    dates = (date, np.datetime64)
    are_dates = isinstance(times, (list, tuple)) and times and isinstance(times[0], dates)
    if are_dates or (not isinstance(times, Tensor) and getattr(times, "dtype", None) is not None):
        array = to_array(times, name)
        if are_dates or array.dtype.kind in "mM":
            unit = getattr(sampler, "time_unit", None)
            times = as_seed_times(array, count, name, unit, np.dtype(np.int64))
    tensor = _to_tensor(times, name)
    if tuple(tensor.shape) != (count,):
        raise InvalidArgumentError(
            f"{name} must have one time per seed, shape ({count},), got {tuple(tensor.shape)}"
        )
    return tensor


def _to_tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        if values.layout != torch.strided or values.is_meta:
            raise InvalidArgumentError(
                f"{name} must be a dense tensor with values, got one of layout {values.layout} on "
                f"{values.device}"
            )
        return values.detach().cpu().as_subclass(Tensor)
    refuse_masked(values, name)
    try:
        array = array_of(values)
        if array.dtype == np.uint64 and array.ndim == 1:
            array = as_ids(array, name)  # refuses what would wrap
        elif array.dtype == np.uint64 and array.ndim:
            array = _signed(array, name)
        elif array.dtype.kind == "u" or (array.size == 0 and not hasattr(values, "dtype")):
            array = array.astype(np.int64)
        return torch.from_numpy(np.array(array))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{name} cannot be read as a tensor: {error}") from error


def _signed(array: NDArray[np.uint64], name: str) -> NDArray[np.int64]:
    """Return an array of rows as int64; raise OutOfRangeError for what would wrap."""
    large = array >= 2**63
    if large.any():
        at = np.unravel_index(int(large.argmax()), array.shape)
        place = "".join(f"[{i}]" for i in at)
        raise OutOfRangeError(
            f"{name}{place} = {array[at]} is above 2**63 - 1",
            position=int(at[-1]), value=int(array[at]),
        )  # fmt: skip
    return array.astype(np.int64)


def _check_ids(ids: Tensor, num_nodes: int | None, name: str) -> Tensor:
    """Check that ids are nodes; return them as contiguous int64. None at all are allowed."""
    if ids.numel() == 0:
        return ids.to(torch.int64)
    if ids.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise InvalidArgumentError(f"{name} must hold integer ids or a mask, got {ids.dtype}")
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


def check_count(value: Any, name: str, minimum: int) -> int:
    """Return ``value`` as an integer of at least ``minimum``.

    Raises:
        InvalidArgumentError: not an integer, or below ``minimum``; names the option.
    """
    count = as_count(value, name)
    if count < minimum:
        raise InvalidArgumentError(f"{name} = {value} is below {minimum}")
    return count


def as_index(index: Any) -> Tensor:
    """Convert seed numbers to a tensor for torch; a list is faster by way of numpy."""
    if isinstance(index, Tensor):
        return index
    refuse_masked(index, "index")
    array = np.asarray(index, np.int64)
    return torch.from_numpy(array if array.ndim else array.reshape(1))
