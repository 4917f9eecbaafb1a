"""What a live graph of the core is made of and counted in: its edge types, bases, numbers."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from aethergraph._native.core import ffi, lib, raise_error
from aethergraph._native.topology import NativeTopology
from aethergraph._native.weight_sums import NativeSums

ORDER_TIME: Final[int] = lib.AETHER_ORDER_TIME
ORDER_ID: Final[int] = lib.AETHER_ORDER_ID
LIVE_TIMES: Final[int] = lib.AETHER_LIVE_TIMES
LIVE_WEIGHTS: Final[int] = lib.AETHER_LIVE_WEIGHTS
LIVE_LOCKED: Final[int] = lib.AETHER_LIVE_LOCKED
LIVE_HUGE: Final[int] = lib.AETHER_LIVE_HUGE

#: Durability of commits -> the number of the core.
DURABILITY: Final[dict[str, int]] = {
    "sync": lib.AETHER_SYNC,
    "batch": lib.AETHER_BATCH,
    "none": lib.AETHER_UNSYNCED,
}

#: Layout -> the bit of the core.
LIVE_LAYOUTS: Final[dict[str, int]] = {
    "csc": lib.AETHER_LIVE_CSC,
    "csr": lib.AETHER_LIVE_CSR,
    "both": lib.AETHER_LIVE_CSC | lib.AETHER_LIVE_CSR,
}


def live_has_membarrier() -> bool:
    """Return whether the writer fences for all readers here; else each snapshot costs a fence."""
    return bool(lib.aether_live_has_membarrier())


def live_has_huge_pages() -> bool:
    """Return whether the system puts memory of live graphs that has filled into huge pages now."""
    return bool(lib.aether_live_has_huge_pages())


class LiveRelation(NamedTuple):
    """Edge type of a live graph: its nodes at both ends, and what it keeps of its edges."""

    num_src: int
    num_dst: int
    max_src: int = 0  # room for more nodes; 0: 2^32 - 1
    max_dst: int = 0
    layout: str = "both"
    order: int = ORDER_ID
    columns: int = 0  # LIVE_TIMES | LIVE_WEIGHTS
    edge_id_bytes: int = 8
    base_edges: int = 0  # edges of the base; 0: there is none
    base_edge_ids: int = 0  # id of the first edge that is inserted


class LiveBase(NamedTuple):
    """Lists that a relation begins with; what is known of edges goes by the ids of these lists."""

    topology: NativeTopology
    edge_ids: NDArray[Any] | None  # u32 or u64; None: the same
    times: NDArray[np.int64] | None
    weights: NDArray[np.float32] | None
    last_time: int | None  # no time is after it; None: not known
    sums: NativeSums | None = None  # of the weights of long lists; None: not made
    is_near: bool = True  # False: lists stay in a file that is larger than memory
    by_source: bool = False  # True: times are those of sources, by node


class LiveCommit(NamedTuple):
    """Numbers of one relation at one commit."""

    commit: int
    num_src: int
    num_dst: int
    num_edges: int
    end_edge_ids: int  # edges that were ever inserted
    lsn: int  # number of the last commit in a log; 0: there is none


class LiveNumbers(NamedTuple):
    """Numbers of one relation: those of :class:`LiveCommit` but the commit's."""

    num_src: int
    num_dst: int
    num_edges: int
    end_edge_ids: int


class LiveStats(NamedTuple):
    """Numbers of a live graph as of its last commit; sizes in bytes, ages in seconds."""

    commit: int
    num_edges: int
    touched_nodes: int
    arena_bytes: int
    used_bytes: int
    retired_bytes: int
    snapshots: int
    oldest_commit: int
    oldest_age: float
    oldest_pid: int | None
    is_current: bool = True  # of a reader's: False: nobody writes any more


#: What the core calls options -> what Python does.
_OPTIONS = {"arena_bytes": "arena_mb", "max_src": "max_nodes", "max_dst": "max_nodes"}


def fail(code: int, err: Any) -> NoReturn:
    """Raise as :func:`raise_error`, with the names that options have in Python."""
    text = ffi.string(err.message)
    for name, option in _OPTIONS.items():
        text = text.replace(name.encode(), option.encode())
    err.message = text
    raise_error(code, err)
