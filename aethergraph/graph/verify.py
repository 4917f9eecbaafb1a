"""Verification of a graph: every offset, id and value, and both directions against each other."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import check_times, check_weights
from aethergraph.errors import AetherError, CorruptFileError
from aethergraph.graph.lists import Lists
from aethergraph.graph.parts import EdgeParts, NodeParts

__all__ = ["verified_bytes", "verify_edges", "verify_nodes"]

#: Ids or values checked at a time.
_CHUNK = 1 << 22
#: Edges looked up at a time.
_SEARCHED = 1 << 20


def verified_bytes(parts: EdgeParts) -> int:
    """Return the bytes that :func:`verify_edges` reads; two directions are read twice each."""
    return parts.adjacency_bytes * (2 if parts.layout == "both" else 1)


def verify_edges(parts: EdgeParts, label: str, task: native.Task | None) -> None:
    """Check every offset and id of the adjacency, every permutation, weight and time.

    If there are two directions, they must hold the same edges with the same ids. Reads everything
    in order, once or twice, with memory for a few pieces.

    Raises:
        CorruptFileError: names the fault and the first edge where it shows.
    """
    for name, lists, count in (
        ("CSC", parts.csc, parts.num_src),
        ("CSR", parts.csr, parts.num_dst),
    ):
        if lists is None:
            continue
        try:
            _check_lists(lists, parts.num_edges, count, task)
        except AetherError as error:
            message = str(error).removeprefix(f"{lists.topology.path}: ")
            raise CorruptFileError(
                f"{label}: {name}: {message}", position=error.position, value=error.value
            ) from error
    key = int.from_bytes(os.urandom(8), "little")
    if parts.csc is not None and parts.csr is not None:
        # If both directions have the same edges, the edge ids of CSR are a permutation, too.
        if _hash(parts.csc, False, key, task) != _hash(parts.csr, True, key, task):
            _name_contradiction(parts.csc, parts.csr, label, task)
    elif parts.csr is not None and parts.csr.edge_ids is not None:
        _check_permutation(parts.csr.edge_ids, f"{label}: CSR edge ids", key, task)
    if parts.edge_order is not None:
        _check_permutation(parts.edge_order, f"{label}: edge order", key, task)
    _check_values(parts.edge_weight, label, "edge_weight", check_weights, task)
    _check_values(parts.edge_time, label, "edge_time", check_times, task)


def _check_lists(lists: Lists, num_edges: int, num_minor: int, task: native.Task | None) -> None:
    if not isinstance(lists.ids, native.CompressedIds):
        native.check_lists(lists.indptr, lists.ids, num_edges, num_minor, task)
        return
    native.check_lists(lists.indptr, None, num_edges, num_minor, task)
    for start in range(0, num_edges, _CHUNK):
        lists.topology.ids(start, min(_CHUNK, num_edges - start), lists.ids.dtype, task)


def _hash(lists: Lists, transposed: bool, key: int, task: native.Task | None) -> int:
    """Return a hash of the edges of ``lists`` with their ids, independent of their order."""
    digest, count = 0, len(lists.ids)
    step = _CHUNK if isinstance(lists.ids, native.CompressedIds) else max(count, 1)
    for start in range(0, count, step):
        size = min(step, count - start)
        minor, edge_ids = _some_ids(lists, start, size, task)
        digest += native.hash_edges(
            lists.indptr, minor, edge_ids, start, size, transposed=transposed, key=key, task=task
        )
    return digest % 2**64


def _some_ids(
    lists: Lists, start: int, size: int, task: native.Task | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return the ids at ``size`` positions, decoded if compressed, and the edge ids there."""
    if isinstance(lists.ids, native.CompressedIds):
        minor = lists.topology.ids(start, size, lists.ids.dtype, task)
    else:
        minor = lists.ids[start : start + size]
    return minor, None if lists.edge_ids is None else lists.edge_ids[start : start + size]


def _name_contradiction(csc: Lists, csr: Lists, label: str, task: native.Task | None) -> None:
    """Raise CorruptFileError for the first out-edge that is not the in-edge of its id.

    Reads in-edges at random, which takes far longer than hashing; meant for damaged files only.
    """
    count = len(csr.ids)
    for start in range(0, count, _SEARCHED):
        if task is not None:
            task.check()
        size = min(_SEARCHED, count - start)
        minor, ids = _some_ids(csr, start, size, None)
        dst = minor.astype(np.int64)
        positions = np.arange(start, start + size)
        edges = positions if ids is None else ids
        if size and int(edges.max()) >= len(csc.ids):
            at = int((edges >= len(csc.ids)).argmax())
            raise CorruptFileError(
                f"{label}: csr_edge_ids[{start + at}] = {edges[at]} is not in "
                f"0..{len(csc.ids) - 1} (num_edges={len(csc.ids)})",
                position=start + at, value=int(edges[at]),
            )  # fmt: skip
        edges = edges.astype(np.int64)
        src = np.searchsorted(csr.indptr, positions.astype(np.uint64), "right") - 1
        other_src = csc.topology.ids_at(edges)
        other_dst = np.searchsorted(csc.indptr, edges.astype(np.uint64), "right") - 1
        bad = (src != other_src) | (dst != other_dst)
        if bad.any():
            at = int(bad.argmax())
            raise CorruptFileError(
                f"{label}: CSC and CSR contradict each other: at position {start + at} csr_indices "
                f"and csr_edge_ids say that edge {edges[at]} goes from {src[at]} to {dst[at]}, "
                f"csc_indices say from {other_src[at]} to {other_dst[at]}",
                position=start + at, value=int(edges[at]),
            )  # fmt: skip
    raise CorruptFileError(f"{label}: CSR edge ids are not a permutation of the edges")


def verify_nodes(parts: NodeParts, label: str, task: native.Task | None) -> None:
    """Check every time of the nodes."""
    _check_values(parts.node_time, label, "node_time", check_times, task)


def _check_values(
    values: NDArray[Any] | None,
    label: str,
    name: str,
    check: Callable[[NDArray[Any], str], None],
    task: native.Task | None,
) -> None:
    if values is None:
        return
    for start in range(0, len(values), _CHUNK):
        if task is not None:
            task.check()
        try:
            check(values[start : start + _CHUNK], name)
        except AetherError as error:
            at = start + (error.position or 0)
            raise CorruptFileError(
                f"{label}: {name}[{at}] = {values[at]} is not a number that it may hold",
                position=at,
            ) from error


def _check_permutation(
    ids: NDArray[Any], label: str, key: int, task: native.Task | None
) -> None:  # fmt: skip
    def hashed(edge_ids: NDArray[Any] | None) -> int:
        return native.hash_edges(
            None, None, edge_ids, 0, len(ids), transposed=False, key=key, task=task
        )

    if hashed(ids) != hashed(None):
        raise CorruptFileError(f"{label} are not a permutation of the edges")
