"""Questions about one list: how long it is, what is in it, whether it joins two nodes.

A call with arrays of one node reads for a few hundred nanoseconds, and makes arrays for
microseconds. These calls have their arguments in the memory of calls before. Live graphs
(:attr:`NativeLive.asked`) are asked without a snapshot.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from aethergraph._checks.arrays import empty
from aethergraph._native.core import Ids, ffi, lib, new_error, raise_error, sized
from aethergraph._native.guards import begin_read, end_read
from aethergraph._native.live_types import LIVE_LAYOUTS
from aethergraph._native.signals import thread_task

if TYPE_CHECKING:
    from aethergraph._native.topology import NativeTopology

_degrees, _neighbors = lib.aether_topology_degrees, lib.aether_topology_neighbors
_find_edges, _has_edges = lib.aether_find_edges, lib.aether_snapshot_has_edges
_live_degree, _live_neighbors = lib.aether_live_degree, lib.aether_live_neighbors
_live_has_edge, _from_buffer, _NULL = lib.aether_live_has_edge, ffi.from_buffer, ffi.NULL
#: Ids that a list of a live graph has room for when it is first asked for, and at most.
_FEW, _MANY = 32, 1 << 16
_INT64 = np.dtype(np.int64)


class _Arguments:
    """Memory for the arguments of a call about one node, or two."""

    __slots__ = ("answer", "degree", "err", "hits", "lists", "node", "other", "search")

    def __init__(self) -> None:
        self.node, self.other = ffi.new("int64_t[1]"), ffi.new("int64_t[1]")
        self.degree, self.answer = ffi.new("int64_t[1]"), ffi.new("uint8_t[1]")
        self.hits, self.err = ffi.new("uint64_t[1]"), new_error()
        self.lists = sized("aether_list_request", self.node, 1)
        # Without room for pairs and positions hits are counted.
        self.search = sized("aether_edge_search", self.node, self.other, 1)


#: Arguments that no call uses; append and pop are atomic.
_idle = deque[_Arguments]()


def _take() -> _Arguments:
    try:
        return _idle.pop()
    except IndexError:
        return _Arguments()


def degree_of(topology: NativeTopology, node: int) -> int:
    """Return the length of the list of a node, which must exist."""
    arguments = _take()
    degree = _read_degree(topology, node, arguments, thread_task())
    _idle.append(arguments)
    return degree


def _read_degree(topology: NativeTopology, node: int, arguments: _Arguments, task: Any) -> int:
    guard, err = topology.guard, arguments.err
    arguments.node[0] = node
    if guard is not None:
        begin_read(guard)
    code = _degrees(topology.handle, arguments.node, 1, arguments.degree, task, err)
    if code or guard is not None:
        end_read(code, err, guard, topology.path)
    degree: int = arguments.degree[0]
    return degree


def neighbors_of(topology: NativeTopology, node: int) -> Ids:
    """Return the ids in the list of a node, which must exist, int64."""
    arguments, task = _take(), thread_task()
    count = _read_degree(topology, node, arguments, task)
    ids = np.empty(count, _INT64) if count < 1 << 16 else empty(count, _INT64, f"{count} ids")
    guard, err, request = topology.guard, arguments.err, arguments.lists
    request.capacity = count
    request.neighbors = _from_buffer("int64_t[]", ids)
    if guard is not None:
        begin_read(guard)
    code = _neighbors(topology.handle, request, task, err)
    if code or guard is not None:
        end_read(code, err, guard, topology.path)
    _idle.append(arguments)
    return ids


def is_in_list(topology: NativeTopology, node: int, other: int) -> bool:
    """Return whether the list of a node holds another one; both must exist."""
    arguments = _take()
    guard, err = topology.guard, arguments.err
    arguments.node[0], arguments.other[0] = node, other
    if guard is not None:
        begin_read(guard)
    code = _find_edges(topology.handle, arguments.search, arguments.hits, thread_task(), err)
    if code or guard is not None:
        end_read(code, err, guard, topology.path)
    is_there: bool = arguments.hits[0] > 0
    _idle.append(arguments)
    return is_there


def has_edge_in(snapshot: Any, relation: int, src: int, dst: int) -> bool:
    """Return whether an ``aether_snapshot *`` has an edge between two nodes, which must exist."""
    arguments = _take()
    arguments.node[0], arguments.other[0] = src, dst
    code = _has_edges(
        snapshot, relation, arguments.node, arguments.other, 1, arguments.answer, thread_task(),
        arguments.err,
    )  # fmt: skip
    if code:
        raise_error(code, arguments.err)
    is_edge: bool = arguments.answer[0] == 1
    _idle.append(arguments)
    return is_edge


# ---- the last commit of a live graph; None: a snapshot is to be asked, which names the error -----


def degree_now(live: Any, relation: int, layout: Literal["csc", "csr"], node: int) -> int | None:
    """Return the length of a list."""
    length: int = _live_degree(live, relation, LIVE_LAYOUTS[layout], node, _NULL)
    return None if length < 0 else length


def neighbors_now(live: Any, relation: int, layout: Literal["csc", "csr"], node: int) -> Ids | None:
    """Return the ids in a list, int64."""
    code, count, length = LIVE_LAYOUTS[layout], 0, _FEW
    while count < length <= _MANY:  # again if it has become longer meanwhile
        ids, count = np.empty(length, _INT64), length
        room = _from_buffer("int64_t[]", ids)
        length = _live_neighbors(live, relation, code, node, room, count, _NULL)
    return ids[:length] if 0 <= length <= count else None


def has_edge_now(live: Any, relation: int, src: int, dst: int) -> bool | None:
    """Return whether there is an edge."""
    answer: int = _live_has_edge(live, relation, src, dst, _NULL)
    return None if answer < 0 else answer == 1
