"""Edge indices in PyG's form: checks of those that are put in, and conversion from a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout

from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_list, shown
from aethergraph.errors import InvalidArgumentError, OutOfRangeError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.protocols import Adjacency

__all__ = ["Edges", "Pair", "as_edges", "graph_layout", "to_coo", "to_int64"]

Pair: TypeAlias = tuple[Tensor, Tensor]


class Edges(NamedTuple):
    """Edge index that was put in: PyG's pair of tensors and its description."""

    pair: Pair
    attr: EdgeAttr


def as_edges(edge_index: Any, edge_attr: EdgeAttr) -> Edges:
    """Check an edge index and find its size.

    Raises:
        InvalidArgumentError: not a pair of integer vectors, or of lengths that do not belong
            together.
        OutOfRangeError: an id outside the size, with its position.
    """
    pair = _check_pair(edge_index, edge_attr.layout)
    size = _find_size(pair, edge_attr)
    return Edges(pair, EdgeAttr(edge_attr.edge_type, edge_attr.layout, edge_attr.is_sorted, size))


def _check_pair(edge_index: Any, layout: EdgeLayout) -> Pair:
    try:
        first, second = edge_index
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            "an edge index is a pair of vectors (row, col), (rowptr, col) or (row, colptr)"
        ) from None
    names = {
        EdgeLayout.COO: ("row", "col"),
        EdgeLayout.CSR: ("rowptr", "col"),
        EdgeLayout.CSC: ("row", "colptr"),
    }[layout]
    first, second = (_as_vector(v, n) for v, n in zip((first, second), names, strict=True))
    if layout == EdgeLayout.COO:
        if len(first) != len(second):
            raise InvalidArgumentError(
                f"row and col must be of equal length, got {len(first)} and {len(second)}"
            )
    else:
        pointers, ids = (first, second) if layout == EdgeLayout.CSR else (second, first)
        _check_pointers(pointers, len(ids), names[0] if layout == EdgeLayout.CSR else names[1])
    return first, second


def _as_vector(values: Any, name: str) -> Tensor:
    if isinstance(values, np.ndarray):
        values = torch.from_numpy(np.array(values))
    if not isinstance(values, Tensor):
        raise InvalidArgumentError(f"{name} must be a tensor, got {type(values).__name__}")
    if values.ndim != 1:
        raise InvalidArgumentError(f"{name} must be one-dimensional, got {list(values.shape)}")
    if values.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise InvalidArgumentError(f"{name} must hold integer ids, got {values.dtype}")
    if values.device.type != "cpu":
        raise InvalidArgumentError(f"{name} must be on the CPU, it is on {values.device}")
    return values.detach().as_subclass(Tensor)


def _check_pointers(pointers: Tensor, num_edges: int, name: str) -> None:
    if len(pointers) == 0 or int(pointers[0]) != 0 or int(pointers[-1]) != num_edges:
        ends = f"{int(pointers[0])} to {int(pointers[-1])}" if len(pointers) else "empty"
        raise InvalidArgumentError(f"{name} must run from 0 to {num_edges}, it is {ends}")
    falls = pointers[1:] < pointers[:-1]
    if bool(falls.any()):
        at = int(falls.int().argmax()) + 1
        raise InvalidArgumentError(
            f"{name}[{at}] = {int(pointers[at])} is below the one before", position=at
        )


def _find_size(pair: Pair, attr: EdgeAttr) -> tuple[int, int]:
    """Return (number of sources, number of destinations), given or computed; check the ids."""
    counts: list[int | None] = [None, None]
    needs = [0, 0]
    for side, values in enumerate(pair):
        pointers = (attr.layout == EdgeLayout.CSR, attr.layout == EdgeLayout.CSC)[side]
        if pointers:
            counts[side] = len(values) - 1
        elif len(values):
            if int(values.min()) < 0:
                at = int(values.argmin())
                raise OutOfRangeError(
                    f"{('row', 'col')[side]}[{at}] = {int(values[at])} is negative",
                    position=at,
                    value=int(values[at]),
                )
            needs[side] = int(values.max()) + 1
    if attr.size is None:
        size = [needs[i] if counts[i] is None else counts[i] for i in range(2)]
        if attr.edge_type is None:
            size = [max(*needs, *(c or 0 for c in counts))] * 2
        return size[0], size[1]  # type: ignore[return-value]
    attr_size = _as_size(attr.size)
    for side in range(2):
        known = counts[side]
        if known is not None and known != attr_size[side]:
            raise InvalidArgumentError(
                f"size = {attr_size}, but the pointers are for {known} nodes"
            )
        if needs[side] > attr_size[side]:
            at = int(pair[side].argmax())
            raise OutOfRangeError(
                f"{('row', 'col')[side]}[{at}] = {needs[side] - 1} is not below size[{side}] = "
                f"{attr_size[side]}",
                position=at,
                value=needs[side] - 1,
            )
    return attr_size


def _as_size(size: Any) -> tuple[int, int]:
    counts = as_list(size, "size", "two numbers of nodes")
    if len(counts) != 2:
        raise InvalidArgumentError(f"size = {shown(size)} is not two numbers of nodes")
    return as_count(counts[0], "size[0]"), as_count(counts[1], "size[1]")


def to_coo(edges: Edges) -> tuple[NDArray[Any], NDArray[Any]]:
    """Expand an edge index of any layout to ``(row, col)``, in its order."""
    first, second = (tensor.numpy() for tensor in edges.pair)
    if edges.attr.layout == EdgeLayout.CSR:
        return np.repeat(np.arange(len(first) - 1), np.diff(first)), second
    if edges.attr.layout == EdgeLayout.CSC:
        return first, np.repeat(np.arange(len(second) - 1), np.diff(second))
    return first, second


def _ends_by_id(graph: Adjacency) -> tuple[Any, Any]:
    """Return ``graph.edge_index()``, which PyG's own samplers make copies of lists from."""
    try:
        return graph.edge_index()
    except UnsupportedError as error:
        raise UnsupportedError(
            f"{error}. PyG's own samplers need ids without gaps: take NeighborLoader or "
            "NeighborSampler of aethergraph.pyg, or, where the live graph is, a copy, to_graph()"
        ) from None


def graph_layout(graph: Adjacency, layout: EdgeLayout) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return a graph's topology as PyG's (row, col, perm): int64 tensors in memory of their own.

    ``perm[i]`` is the graph's id of the edge at position i; None where it is i.
    """
    if layout == EdgeLayout.COO:
        src, dst = _ends_by_id(graph)
        return to_int64(src), to_int64(dst), None
    stored = graph.layout
    if layout == EdgeLayout.CSC:
        if stored != "csr" and graph.topology("csc").edge_ids_are_positions:
            indptr, indices = graph.csc()
            return to_int64(indices), to_int64(indptr), None
        lists = None if stored == "csr" else _lists_of(graph)
        if lists is not None:
            return lists
        src, dst = _ends_by_id(graph)
        order = np.argsort(dst, kind="stable")
        return to_int64(src[order]), _pointers(dst, graph.num_dst), to_int64(order)
    if stored != "csc":
        indptr, indices, edge_ids = graph.csr()
        perm = None if edge_ids is None else to_int64(edge_ids)
        return to_int64(indptr), to_int64(indices), perm
    src, dst = _ends_by_id(graph)
    order = np.argsort(src, kind="stable")
    return _pointers(src, graph.num_src), to_int64(dst[order]), to_int64(order)


def _lists_of(graph: Adjacency) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return in-edges in the order of lists, which may be that of times; None: ids have gaps."""
    topology: Any = graph.topology("csc")
    if topology.is_live:
        topology = topology.pinned()
    if topology.end_edge_ids != topology.num_edges:
        return None
    count = topology.num_major
    pointers = np.zeros(count + 1, np.int64)
    np.cumsum(topology.degrees(None), out=pointers[1:])
    ids, edges = topology.neighbors(np.arange(count), with_edges=True)
    assert edges is not None
    return to_int64(ids), torch.from_numpy(pointers), to_int64(edges)


def to_int64(values: NDArray[Any]) -> Tensor:
    """Copy an integer array to an int64 tensor."""
    return torch.from_numpy(np.array(values, np.int64))


def _pointers(ids: NDArray[Any], count: int) -> Tensor:
    pointers = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(ids, minlength=count), out=pointers[1:])
    return torch.from_numpy(pointers)
